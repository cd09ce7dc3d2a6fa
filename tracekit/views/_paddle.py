"""Paddle's own figures, defects included: what each view gives under `--compat paddle`. One function a view.

Each gives the numbers of one table of `Profiler.summary`, in its order of rows: `level` is the indent of a row,
`thread` the block it stands in, null what Paddle prints as a dash. Names are whole, as the file spells them. T, the
whole of most ratios, is the union of all ProfileStep ranges; without any, ratios are null, where Paddle stops or
divides by zero. The trees are those of `_paddle_tree`.

COMPAT: for each view the columns of EVENTS that it needs, as `View.compat_columns`. Source: profiler_statistic.py of
Paddle 2.6 and 3.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tracekit.views._paddle_benchmark import BENCHMARK_COLUMNS, benchmark
from tracekit.views._paddle_columns import TREE_COLUMNS
from tracekit.views._paddle_memory import MEMORY_COLUMNS, memory
from tracekit.views._paddle_named import OPERATOR_COLUMNS, kernel, memory_manipulation, model, operator, user_defined
from tracekit.views._paddle_ranges import DEVICE_COLUMNS, OVERVIEW_COLUMNS, device, distributed, overview

__all__ = [
    "COMPAT", "benchmark", "device", "distributed", "kernel", "memory", "memory_manipulation", "model", "operator",
    "overview", "user_defined",
]  # fmt: skip

COMPAT: Mapping[str, Mapping[str, frozenset[str]]] = MappingProxyType({
    "device": {"paddle": DEVICE_COLUMNS}, "overview": {"paddle": OVERVIEW_COLUMNS}, "model": {"paddle": TREE_COLUMNS},
    "distributed": {"paddle": TREE_COLUMNS}, "operator": {"paddle": OPERATOR_COLUMNS},
    "kernel": {"paddle": TREE_COLUMNS}, "memory_manipulation": {"paddle": TREE_COLUMNS},
    "user_defined": {"paddle": TREE_COLUMNS}, "memory": {"paddle": MEMORY_COLUMNS},
    "benchmark": {"paddle": BENCHMARK_COLUMNS},
})  # fmt: skip
