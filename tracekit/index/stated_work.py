"""Work that a file states itself: FLOPs and bytes of each device event, as XLA counts them.

XLA counts the bytes of each operand of an op, whether it was in memory or not, so these figures are no minima.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis.efficiency.formulas import CONVOLUTION, PRODUCT, Work
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.model import args, arrow
from tracekit.model.arrow import I64
from tracekit.model.schema import Kind

__all__ = ["StatedWork", "stated_work"]

_STATING = frozenset({"xplane"})
"""Formats whose device rows state their work."""
_COPIES = ("copy-start", "copy-done", "async-start", "async-done")
"""XLA's categories of ops that only start a copy or wait for it: their bytes are those of the copy."""
_FAMILIES = (("convolution", CONVOLUTION), ("dot", PRODUCT), ("gemm", PRODUCT), ("matmul", PRODUCT))


@dataclass(frozen=True, slots=True, eq=False)
class StatedWork:
    """Device rows that state their work. rows: of EVENTS. works: the distinct ones; codes: the work of each row."""

    rows: I64
    works: list[Work]
    codes: I64


def stated_work(index: TraceIndex) -> StatedWork | None:
    """Return the work that device rows state, None where no row does."""
    formats = {number for number, facts in facts_by_source(index).items() if facts.format in _STATING}
    if not formats or "args" not in index.events.schema.names:
        return None
    of_format = np.isin(index.ints("source"), sorted(formats))
    rows = np.flatnonzero(index.kind_mask({Kind.KERNEL}) & index.has("dur_ns") & of_format)
    column = arrow.take(index.events.column("args"), rows)
    flops, has_flops = args.integers(column, "model_flops", "flops")
    moved, has_bytes = args.integers(column, "bytes_accessed")
    category, names = args.texts(column, "hlo_category")
    copies = np.array([*(name in _COPIES for name in names), False], np.bool_)[category]
    said = has_flops & has_bytes & ~copies & (flops >= 0) & (moved >= 0)
    if not said.any():
        return None
    keys, codes = np.unique(np.column_stack((flops, moved, category))[said], axis=0, return_inverse=True)
    works = [
        # XLA multiplies in bf16 unless asked otherwise, which the file does not show.
        Work(ops, size, _family(names[kind] if kind >= 0 else ""), "c10::BFloat16", is_bound=False)
        for ops, size, kind in keys.tolist()
    ]
    return StatedWork(rows[said], works, codes.reshape(-1).astype(np.int64))


def _family(category: str) -> str:
    return next((family for word, family in _FAMILIES if word in category), "elementwise")
