"""Shapes in the names of ranges: `torch.autograd.profiler.emit_nvtx(record_shapes=True)` writes them there.

    aten::mm, seq = 12, op_id = 9, sizes = [[4096, 1024], [1024, 512]], input_op_ids = [(7, 0), (8, 0)]

Such a name has sizes and nothing else: no datatype, no strides, no values. The name of the kernel may tell the
datatype.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tracekit.analysis.efficiency.formulas import has_formula
from tracekit.analysis.efficiency.operands import OperatorCall
from tracekit.index.host_tree import HostTree
from tracekit.index.trace_index import TraceIndex
from tracekit.model import arrow
from tracekit.model.arrow import I64, pc
from tracekit.model.schema import HOST_RANGES

__all__ = ["calls_in_names", "has_sizes_in_names", "names_have_sizes"]

_SIZES = ", sizes = ["
"""What begins the sizes in the name of a range of PyTorch."""
_OWN_NUMBERS = r", (?:(?:seq|op_id) = -?[0-9]+|input_op_ids = .*$)"
"""What differs from call to call."""


def has_sizes_in_names(index: TraceIndex) -> bool:
    """Return whether a name has sizes: without one `calls_in_names` finds nothing, and needs no host tree for that."""
    columns = {"name", "raw_name"} & set(index.events.column_names)
    return any(_SIZES in text for column in columns for text in index.texts(column)[1])


def names_have_sizes(batch: pa.RecordBatch) -> bool:
    """Return whether a name of a batch of EVENTS has sizes; a dictionary may have names that other batches use."""
    for column in ("name", "raw_name"):
        if column in batch.schema.names and batch.column(column).null_count < batch.num_rows:
            said = pc.match_substring(arrow.encoded(batch.column(column)).dictionary, _SIZES)
            if pc.any(said).as_py():
                return True
    return False


def calls_in_names(index: TraceIndex, tree: HostTree) -> tuple[I64, I64, list[OperatorCall]]:
    """Return the places of ranges with sizes in their names, the call of each, and the distinct calls.

    Readers that shorten the name of such a range keep the whole of it in `raw_name`.
    """
    places, codes, calls = np.zeros(0, np.int64), np.zeros(0, np.int64), list[OperatorCall]()
    for column in ("name", "raw_name"):
        if column in index.events.column_names:
            at, code, found = _in_column(index, tree, column)
            places, codes = np.concatenate((places, at)), np.concatenate((codes, code + len(calls)))
            calls += found
    return places, codes, calls


def _in_column(index: TraceIndex, tree: HostTree, column: str) -> tuple[I64, I64, list[OperatorCall]]:
    none = np.zeros(0, np.int64)
    names, texts = index.texts(column)
    with_sizes = np.array([*(_SIZES in text for text in texts), False], np.bool_)
    if not with_sizes.any():
        return none, none, []
    ranges = np.isin(tree.rows, np.flatnonzero(index.kind_mask(HOST_RANGES)))
    places = np.flatnonzero(with_sizes[names[tree.rows]] & ranges)
    used = np.flatnonzero(with_sizes)
    plain = pc.replace_substring_regex(
        arrow.array([texts[code] for code in used.tolist()]), pattern=_OWN_NUMBERS, replacement=""
    )
    encoded = arrow.encoded(plain)
    code_of_name = np.full(len(texts) + 1, -1, np.int64)
    code_of_name[used] = arrow.codes(encoded)
    calls = [_call(text) for text in arrow.texts(encoded.dictionary)]
    able = np.array([has_formula(call.name) for call in calls], np.bool_)
    codes = code_of_name[names[tree.rows[places]]]
    return places[able[codes]], codes[able[codes]], calls


def _call(text: str) -> OperatorCall:
    name, _, rest = text.partition(_SIZES)
    try:
        sizes = json.loads(f"[{rest}")
    except (ValueError, RecursionError):
        sizes = []
    return OperatorCall(name, sizes if isinstance(sizes, list) else [], is_untyped=True)
