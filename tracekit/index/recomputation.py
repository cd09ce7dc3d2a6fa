"""Operators that run again for the backward pass: activation checkpointing computes the forward pass twice.

Without reentrance, the function `recompute_fn` of torch.utils.checkpoint runs them: a frame of Python's stack. With it,
they run within the autograd node CheckpointFunctionBackward, beside other nodes, and not within one of those.
"""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.nesting import innermost
from tracekit.index import grouping
from tracekit.index.host_tree import HostTree
from tracekit.index.trace_index import TraceIndex
from tracekit.model.arrow import I64, Mask
from tracekit.model.patterns import found_in
from tracekit.model.schema import Kind

__all__ = ["recomputed"]

_FRAME = re.compile(r"torch/utils/checkpoint\.py\(\d+\): recompute_fn")
_NODE = re.compile(r"autograd::engine::evaluate_function: ")
_REENTRANT = re.compile(r"autograd::engine::evaluate_function: CheckpointFunctionBackward")


def recomputed(index: TraceIndex, tree: HostTree, places: I64) -> Mask:
    """Return which of these places of the host tree compute something again."""
    names, texts = index.texts("name")
    own = names[tree.rows]
    again = np.zeros(places.size, np.bool_)
    if not tree.rows.size or (places < 0).any():
        return again
    nodes = _matching(texts, _NODE)
    if nodes.any():
        nearest = np.append(tree.nearest(nodes[own]), -1)[places]
        reentrant = _matching(texts, _REENTRANT)[own]
        again |= (nearest >= 0) & np.append(reentrant, False)[nearest]
    frames = np.flatnonzero(_matching(texts, _FRAME)[names] & index.kind_mask({Kind.PYTHON_OP}) & index.has("dur_ns"))
    if frames.size and places.size:
        both = np.concatenate((frames, tree.rows[places]))
        lanes = grouping.numbered(index.key(name, both) for name in ("source", "pid", "tid"))
        starts = index.starts[frames]
        ends = starts + index.lengths[frames]
        at = innermost(lanes[: frames.size], starts, ends, lanes[frames.size :], tree.starts[places])
        again |= at >= 0
    return again


def _matching(texts: list[str], pattern: re.Pattern[str]) -> Mask:
    return np.append(found_in(pattern, texts), False)
