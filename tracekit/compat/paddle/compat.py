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
from tracekit.compat.paddle._benchmark import BENCHMARK_COLUMNS, benchmark
from tracekit.compat.paddle._columns import TREE_COLUMNS
from tracekit.compat.paddle._memory import MEMORY_COLUMNS, memory
from tracekit.compat.paddle._named import OPERATOR_COLUMNS, kernel, memory_manipulation, model, operator, user_defined
from tracekit.compat.paddle._ranges import DEVICE_COLUMNS, OVERVIEW_COLUMNS, device, distributed, overview
from tracekit.compat.paddle._shows import (
    BENCHMARK,
    DEVICE,
    DISTRIBUTED,
    KERNEL,
    MEMORY,
    MODEL,
    OPERATOR,
    OVERVIEW,
    RANGES,
)
from tracekit.compat.paddle.layout import LAYOUT
from tracekit.views import VIEWS
from tracekit.views.base import ColumnSpec, Compute, View


def _as_printed(name: str, compute: Compute, columns: frozenset[str], shows: tuple[ColumnSpec, ...]) -> View:
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
