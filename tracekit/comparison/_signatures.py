"""Signatures: facts about a kernel that survive a change of its name."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from tracekit.analysis.kernel_class import KernelClass, classify
from tracekit.analysis.nesting import innermost
from tracekit.comparison._device_work import NO_NAME, DeviceWork, codes_of, kind_mask
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, ints, take, valid
from tracekit.model.schema import Kind
from tracekit.model.trace import Trace, text_codes


def host_kinds() -> frozenset[Kind]:
    """Return the kinds of ranges that can name the operator of a launch."""
    return frozenset(
        {Kind.OPERATOR, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER}
    )


_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_WORD = re.compile(r"[a-z]{3,}")
_COMMON_WORDS = frozenset(
    _WORD.findall(
        "void float double half int const kernel triton poi red per fused native cuda device std "
        "array char bool long unsigned ampere volta hopper turing"
    )
)


@dataclass(frozen=True, slots=True)
class Signature:
    """operator: the range that launched most calls. shape: grid and block of most calls. "" and () where unknown.

    bare: the name without template arguments, parameters and numbers. words: the distinctive words of the name.
    """

    operator: str
    shape: tuple[int | None, ...]
    kernel_class: KernelClass
    bare: str
    words: frozenset[str]


def bare_name(name: str) -> str:
    """Return the name without template arguments, parameters, numbers and a leading "void".

    >>> bare_name("void at::native::add_kernel<float, 4>(int, float*)"), bare_name("triton_poi_fused_add_12")
    ('at::native::add_kernel', 'triton_poi_fused_add')
    """
    text, depth = [], 0
    for char in name[:4096]:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth = max(0, depth - 1)
        elif not depth:
            text.append(char)
    bare = "".join(text).removeprefix("void ").strip()
    return re.sub(r"(?<![_\W])[_\W]*+\d+[xX]?\d*", "", bare).strip("_ ") or bare or name[:4096]


def _most(codes: I64, values: I64, count: int) -> I64:
    """Return the most frequent value of each of `count` codes, the lowest of equally frequent ones; -1 for no row."""
    values_of = np.full(count, -1, np.int64)
    if codes.size:
        width = int(values.max()) + 1
        pairs, times = np.unique(codes * width + values, return_counts=True)
        order = np.lexsort((-pairs, times))
        values_of[pairs[order] // width] = pairs[order] % width
    return values_of


def signatures(trace: Trace, work: DeviceWork) -> Mapping[tuple[str, str], Signature]:
    """Return the signature of each name of device work."""
    if not work.rows.size:
        return {}
    operators = _operators(trace, work)
    shapes = _shapes(trace, work)
    classes = classify([name for _, name in work.keys])
    found = {}
    for number, key in enumerate(work.keys):
        name = key[1] if key[1] != NO_NAME else ""
        words = frozenset(_WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[:4096]).lower())) - _COMMON_WORDS
        found[key] = Signature(operators[number], shapes[number], classes[number], bare_name(name), words)
    return found


def _operators(trace: Trace, work: DeviceWork) -> list[str]:
    """Return for each name the innermost range around most of its launches, on their thread."""
    events = trace.events
    known = work.launch >= 0
    ranges = np.flatnonzero(
        kind_mask(trace, host_kinds()) & valid(events.column("dur_ns")) & valid(events.column("tid"))
    )
    out = [""] * len(work.keys)
    if not known.any() or not ranges.size:
        return out
    calls = work.launch[known]
    lane = codes_of(trace, np.concatenate((ranges, calls)), ("source", "pid", "tid"))
    starts = ints(events.column("ts_ns"))
    ends = starts + np.maximum(ints(events.column("dur_ns")), 0)
    at = innermost(lane[: ranges.size], starts[ranges], ends[ranges], lane[ranges.size :], starts[calls])
    codes, names = text_codes(events.column("name"))
    inside = at >= 0
    of_call = codes[ranges[at[inside]]]
    named = of_call >= 0
    best = _most(work.key[known][inside][named], of_call[named], len(work.keys))
    return [names[code] if code >= 0 else "" for code in best.tolist()]


def _shapes(trace: Trace, work: DeviceWork) -> list[tuple[int | None, ...]]:
    code = codes_of(trace, work.rows, _SHAPE)
    known = valid(trace.events.column("grid_x"))[work.rows]
    best = _most(work.key[known], code[known], len(work.keys))
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = work.rows[::-1]
    rows = first[np.maximum(best, 0)]
    shapes = zip(*(take(trace.events.column(c), rows).to_pylist() for c in _SHAPE), strict=True)
    return [tuple(shape) if known else () for shape, known in zip(shapes, (best >= 0).tolist(), strict=True)]
