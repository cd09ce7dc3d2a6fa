"""slowest: for each name, the longest kernel.

Columns: calls, and max, the duration of the longest call. Rows shorter than the option `at_least_ns` do not count.
"""

from __future__ import annotations

import numpy as np

from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.options import OptionSpec
from tracekit.views import tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions

COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "name"})
AT_LEAST = OptionSpec("at_least_ns", int, 0, "Shorter kernels do not count, in ns.", least=0)
NAME = ViewColumn("name", "Name", Unit.TEXT, "The name of the kernel.")
CALLS = ViewColumn("calls", "Calls", Unit.COUNT, "The number of calls that count.")
MAX = ViewColumn("max", "Max", Unit.NS, "The duration of the longest call.")


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of the longest kernel of each name. Raises: UsageError for an option that is not valid."""
    tabulate.require(index, VIEW.name, COLUMNS)
    kernels = index.pick({Kind.KERNEL})  # those with a duration; kernels.rows has their places in the trace
    counted = kernels.durations >= options.value(AT_LEAST)
    if not counted.any():  # an empty table would be a riddle: a note says what the view needs
        return tabulate.nothing(VIEW.name, VIEW.title, "kernel", options)
    names = kernels.key("name")  # a code for each kernel, and the name of each code
    found, codes = np.unique(names.codes[counted], return_inverse=True)
    longest = np.zeros(found.size, np.int64)
    np.maximum.at(longest, codes, kernels.durations[counted])
    columns = [
        NAME.column([names.labels[code] for code in found]),
        CALLS.column(np.bincount(codes).tolist()),
        MAX.column(longest.tolist()),
    ]
    # Applies --sort and --top; without them the largest "max" comes first.
    table = tabulate.finish("slowest", VIEW.title, columns, options, own_order="max")
    return Section(VIEW.name, VIEW.title, (table,))


VIEW = View(
    name="slowest",
    title="Slowest kernels",
    columns=COLUMNS,
    kinds=frozenset({Kind.KERNEL}),
    compute=compute,
    shows=(NAME, CALLS, MAX),
    options=(AT_LEAST,),
)
