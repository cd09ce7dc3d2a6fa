"""Paddle's own figures, defects included: what each view gives under `--compat paddle`. One function a view.

Each gives the numbers of one table of `Profiler.summary`, in its order of rows: `level` is the indent of a row,
`thread` the block that it is in, null what Paddle prints as a dash. Names are whole, as the file spells them. T, the
whole of most ratios, is the union of all ProfileStep ranges; without any, ratios are null, where Paddle stops or
divides by zero. The trees are those of `compat/paddle/_tree.py`.

Source: profiler_statistic.py of Paddle 2.6 and 3.0.
"""

from __future__ import annotations

from dataclasses import replace

from tracekit.compat.base import Compat
from tracekit.compat.paddle.benchmark import BENCHMARK_COLUMNS, benchmark
from tracekit.compat.paddle.items import OPERATOR_COLUMNS, kernel, memory_manipulation, model, operator, user_defined
from tracekit.compat.paddle.layout import LAYOUT
from tracekit.compat.paddle.memory import MEMORY_COLUMNS, memory
from tracekit.compat.paddle.ranges import DEVICE_COLUMNS, OVERVIEW_COLUMNS, device, distributed, overview
from tracekit.compat.paddle.tree import TREE_COLUMNS
from tracekit.model.units import Unit
from tracekit.views import VIEWS, specs
from tracekit.views.base import Compute, View, ViewColumn

# Columns of the tables of this folder.


LEVEL = ViewColumn("level", "Level", Unit.COUNT, "The depth of the row, which Paddle prints as an indent.")

_CPU = (
    ViewColumn("cpu_total", "CPU total", Unit.NS, "The sum of the host times."),
    ViewColumn("cpu_avg", "CPU avg", Unit.NS, "The mean host time."),
    ViewColumn("cpu_max", "CPU max", Unit.NS, "The longest host time."),
    ViewColumn("cpu_min", "CPU min", Unit.NS, "The shortest host time."),
    ViewColumn("cpu_ratio", "CPU ratio", Unit.RATIO, "The host time, as a share of what Paddle divides by."),
)
_GPU = (
    ViewColumn("gpu_total", "GPU total", Unit.NS, "The sum of the device times."),
    ViewColumn("gpu_avg", "GPU avg", Unit.NS, "The mean device time."),
    ViewColumn("gpu_max", "GPU max", Unit.NS, "The longest device time."),
    ViewColumn("gpu_min", "GPU min", Unit.NS, "The shortest device time."),
    ViewColumn("gpu_ratio", "GPU ratio", Unit.RATIO, "The device time, as a share of what Paddle divides by."),
)
KERNEL = (specs.NAME, LEVEL, specs.CALLS, *_GPU)
MODEL = (specs.NAME, LEVEL, specs.CALLS, *_CPU, *_GPU)
RANGES = (*MODEL, specs.THREAD)
OPERATOR = (*RANGES, ViewColumn("flops", "FLOPs", Unit.COUNT, "The number of floating-point operations."))

DEVICE = (
    ViewColumn("name", "Device", Unit.TEXT, "The name of the device."),
    ViewColumn("utilization", "Utilization", Unit.RATIO, "The share that Paddle prints."),
    specs.TOTAL,
)

OVERVIEW = (
    ViewColumn("name", "Event Type", Unit.TEXT, "The type of the events."),
    LEVEL,
    specs.CALLS,
    ViewColumn("time", "Time", Unit.NS, "The time of the events."),
    specs.RATIO,
)

DISTRIBUTED = (
    specs.NAME,
    LEVEL,
    specs.TOTAL,
    specs.RATIO,
)

MEMORY = (
    specs.NAME,
    ViewColumn("place", "Place", Unit.TEXT, "The device or the host."),
    ViewColumn("type", "Type", Unit.TEXT, "The type of the memory: allocated or reserved."),
    ViewColumn("allocated", "Peak allocated", Unit.BYTES, "The allocated bytes, or their peak."),
    ViewColumn("reserved", "Peak reserved", Unit.BYTES, "The peak of the reserved bytes."),
    ViewColumn("allocations", "Allocation Count", Unit.COUNT, "The number of allocations."),
    ViewColumn("frees", "Free Count", Unit.COUNT, "The number of frees."),
    ViewColumn("freed", "Free Size", Unit.BYTES, "The sum of the freed bytes."),
    ViewColumn("increased", "Increased Size", Unit.BYTES, "Allocated bytes minus freed bytes."),
)

BENCHMARK = (
    ViewColumn("summary", "Summary", Unit.ID, "The number of the summary."),
    specs.NAME,
    ViewColumn("avg", "Avg", Unit.NUMBER, "The mean, as Paddle computes it."),
    ViewColumn("max", "Max", Unit.NUMBER, "The largest value."),
    ViewColumn("min", "Min", Unit.NUMBER, "The smallest value."),
    ViewColumn("reader_ratio", "Reader Ratio (%)", Unit.NUMBER, "The share of loading, in percent."),
    ViewColumn("unit", "IPS Unit", Unit.TEXT, "The unit of the speed."),
)


def _as_printed(name: str, compute: Compute, columns: frozenset[str], shows: tuple[ViewColumn, ...]) -> View:
    """Return the view of that name with Paddle's figures, and the columns that these need besides."""
    view = VIEWS[name]
    return replace(view, compute=compute, columns=view.columns | columns, shows=shows, options=())


COMPAT = Compat(
    "paddle",
    "paddle.profiler summary",
    (
        _as_printed("device", device, DEVICE_COLUMNS, DEVICE),
        _as_printed("overview", overview, OVERVIEW_COLUMNS, OVERVIEW),
        _as_printed("model", model, TREE_COLUMNS, MODEL),
        _as_printed("distributed", distributed, TREE_COLUMNS, DISTRIBUTED),
        _as_printed("operator", operator, OPERATOR_COLUMNS, OPERATOR),
        _as_printed("kernel", kernel, TREE_COLUMNS, KERNEL),
        _as_printed("memory_manipulation", memory_manipulation, TREE_COLUMNS, RANGES),
        _as_printed("user_defined", user_defined, TREE_COLUMNS, RANGES),
        _as_printed("memory", memory, MEMORY_COLUMNS, MEMORY),
        _as_printed("benchmark", benchmark, BENCHMARK_COLUMNS, BENCHMARK),
    ),
    LAYOUT,
)
