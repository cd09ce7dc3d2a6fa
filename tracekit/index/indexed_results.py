"""Results of `aten::index`: PyTorch records no shapes of its indices, but a view inside of it has that of the result.

Indexing by tensors makes a view of its operand with `aten::as_strided`: its sizes are those of the result, and its
strides are 0 in the dimensions of the indices (TensorAdvancedIndexing.cpp, restride_src). The values of arguments are
recorded by newer versions of PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.analysis.efficiency.operands import OperatorCall
from tracekit.index.host_tree import HostTree
from tracekit.index.trace_index import TraceIndex
from tracekit.model import args as members
from tracekit.model import arrow
from tracekit.model.args import items_of
from tracekit.model.arrow import I64

__all__ = ["INDEX", "indexed_calls"]

INDEX = "aten::index"
_VIEW = "aten::as_strided"
_SIZES, _STRIDES = 1, 2
"""Places of the arguments of `aten::as_strided`."""


def indexed_calls(index: TraceIndex, tree: HostTree, places: I64) -> tuple[I64, list[OperatorCall]]:
    """Return the call of each of these places of `aten::index`, as codes, and the calls that differ.

    values: the sizes and the strides of the view, at the places 1 and 2; none where the trace does not have them.
    """
    if not places.size:
        return np.zeros(0, np.int64), []
    codes, names = index.texts("name")
    is_view = np.array([*(name == _VIEW for name in names), False], np.bool_)[codes[tree.rows]]
    inside = np.flatnonzero(is_view & np.isin(tree.tree.parent, places))
    # The operand is the first that is viewed.
    inside = inside[np.lexsort((tree.starts[inside], tree.tree.parent[inside]))]
    first = inside[np.append(True, tree.tree.parent[inside][1:] != tree.tree.parent[inside][:-1])[: inside.size]]
    view = np.full(tree.rows.size, -1, np.int64)
    view[tree.tree.parent[first]] = first
    column = index.events.column("args")
    own = arrow.texts(arrow.in_one(arrow.take(column, tree.rows[places])))
    of_view, values = members.values(arrow.take(column, np.append(tree.rows, 0)[view[places]]), "Concrete Inputs")
    known: dict[tuple[object, ...], int] = {}
    calls: list[OperatorCall] = []
    found = []
    for text, at, code in zip(own, view[places].tolist(), of_view.tolist(), strict=True):
        call = _call(text, items_of(values[code]) if at >= 0 and code >= 0 else [])
        key = str((call.dims, call.types, call.strides, call.values))
        if (key,) not in known:
            known[(key,)] = len(calls)
            calls.append(call)
        found.append(known[(key,)])
    return np.array(found, np.int64), calls


def _call(text: str | None, view: Sequence[object]) -> OperatorCall:
    from tracekit.index.operands import Shapes, decoded

    said = decoded(text or "{}", Shapes)
    values = ["", *view[_SIZES : _STRIDES + 1]] if len(view) > _STRIDES else []
    return OperatorCall(INDEX, items_of(said.dims), items_of(said.types), items_of(said.strides), values)
