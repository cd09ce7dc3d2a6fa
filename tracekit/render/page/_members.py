"""The `args` of events, JSON text as the trace has it, in parts that are decoded when one looks at an event.

Texts of one trace differ in their numbers. So a part holds templates, which are the distinct texts with a mark for each
number, and the numbers by template and mark, where those of neighbours resemble each other. Marks: "\\0" for digits,
"\\1" for digits that begin with a zero: their number has a 1 before them. Longer runs of digits stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow, digits
from tracekit.columns.arrays import I32, I64, Bytes
from tracekit.columns.arrow import Chunked, Column, pc
from tracekit.render.page import pack
from tracekit.report.timeline import Timeline

CHUNK = 1 << 14
"""Events of one part: its texts are short, but there may be many digits in them, and one click decodes all of it."""
MOST_DIGITS = 15
"""Digits of a number: scripts compute with floats, and a difference of two takes one bit more."""
_MARKS = ("\x00", "\x01", "\x02")
_BETWEEN = "\x02"


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbers of one part: slot after slot of each template. flags: which slots are differences to the row before."""

    flags: I64
    values: I64


def add_members(parts: list[pack.DataPart], figure: Timeline, most_bytes: int) -> dict[str, object] | None:
    """Add the args of the events from the top that fit into so many bytes; return the head, None where there are none.

    The head: events with args in the page, and those beyond the budget as [first place, behind the last, how many].
    """
    if figure.members is None:
        return None
    held = 0
    left: list[tuple[int, int, int]] = []
    for places in pack.chunks(len(figure.events), CHUNK):
        texts = _one(arrow.take(figure.members, figure.events.order[places]))
        known = np.flatnonzero(arrow.valid(texts))
        if not known.size:
            continue
        part = _part(texts if known.size == len(texts) else arrow.take(texts, known), places.start, known)
        if len(part.text) > most_bytes:
            left.append((places.start, places.stop, known.size))
            most_bytes = 0  # the events that have their args are those from the top, without a gap
            continue
        most_bytes -= len(part.text)
        held += known.size
        parts.append(part)
    return {"n": held, "left": left} if held or left else None


def _one(texts: Chunked) -> Column:
    """Return a column of texts in one piece, with room for more than 2 GiB."""
    wide = pc.cast(texts, pa.large_string())
    return pa.concat_arrays(wide.chunks) if wide.num_chunks else arrow.nulls(0, pa.large_string())


def _part(texts: Column, first: int, known: I64) -> pack.DataPart:
    templates, codes, numbers = _split(texts)
    head = _BETWEEN.join(templates).encode("utf-8", "replace")
    text = pack.packed(
        head,
        pack.planes(pack.steps(known, int(known[0]))),
        pack.planes(codes),
        pack.planes(numbers.flags),
        pack.planes(numbers.values),
    )
    return pack.DataPart("tl-members", text, (("n", known.size), ("at", first + int(known[0])), ("t", len(head))))


def _split(texts: Column) -> tuple[list[str], I64, _Numbers]:
    """Return the templates of texts, the number of the template of each text, and the numbers.

    >>> templates, codes, numbers = _split(pa.array(['{"id":7}', '{"id":8}', '{"id":"007"}'], pa.large_string()))
    >>> templates, codes
    (['{"id":\\x00}', '{"id":"\\x01"}'], array([0, 0, 1]))
    >>> numbers.flags, numbers.values
    (array([1, 0]), array([   7,    2, 1007]))
    """
    offsets, data = _trimmed(texts)
    if data.size and int(data.min()) < len(_MARKS):  # no JSON has the marks, but the text of a file may be anything
        for mark in _MARKS:
            texts = pc.replace_substring_regex(texts, mark, f"\\\\u{ord(mark):04x}")
        offsets, data = _trimmed(texts)
    digit = digits.mask(data)
    begins, ends = digits.runs(digit, offsets)
    led = (data[begins] == 48) & (ends - begins > 1)
    if not (fits := ends - begins <= MOST_DIGITS - led).all():
        digits.clear(digit, begins[~fits], ends[~fits])
        begins, ends, led = begins[fits], ends[fits], led[fits]
    sizes = ends - begins
    values = digits.numbers(data, digit, sizes) + np.where(led, 10**sizes, 0)
    first = np.searchsorted(begins, offsets)
    offsets = offsets - np.append(0, np.cumsum(sizes - 1))[first]
    kept = ~digit
    kept[begins] = True
    marked = data.copy()
    marked[begins] = led
    coded = arrow.encoded(arrow.text_column(offsets, marked[kept], pa.large_string()))
    return (
        arrow.texts(coded.dictionary),
        arrow.codes(coded).astype(np.int64),
        _numbers(arrow.codes(coded), first, values),
    )


def _trimmed(texts: Column) -> tuple[I64, Bytes]:
    offsets, data = arrow.text_parts(texts)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def _numbers(codes: I32, first: I64, values: I64) -> _Numbers:
    """Put numbers in the order of template, slot and row. first: of each row its first number, and behind the last."""
    rows = np.bincount(codes)
    slots = np.zeros(rows.size, np.int64)
    slots[codes] = np.diff(first)
    # A short type makes numpy count instead of compare.
    by_template = np.argsort(codes.astype(np.uint16) if rows.size < 1 << 16 else codes, kind="stable")
    of = np.repeat(np.arange(rows.size), slots)
    sizes = rows[of]
    begins = np.cumsum(sizes) - sizes
    if not begins.size:
        return _Numbers(np.zeros(0, np.int64), np.zeros(0, np.int64))
    slot = np.arange(of.size) - (np.cumsum(slots) - slots)[of]
    place = np.repeat((np.cumsum(rows) - rows)[of] - begins, sizes) + np.arange(values.size)
    ordered = values[first[by_template][place] + np.repeat(slot, sizes)]
    steps = pack.steps(ordered)
    steps[begins] = ordered[begins]
    folded = pack.zigzag(steps)
    folded[begins] = ordered[begins]
    flags = np.add.reduceat(_bits(folded), begins) < np.add.reduceat(_bits(ordered), begins)
    return _Numbers(flags.astype(np.int64), np.where(np.repeat(flags, sizes), folded, ordered))


def _bits(values: I64) -> I64:
    """Return how many binary digits each number >= 0 has: the exponent of the float of the same value tells."""
    found: I64 = np.maximum((values.astype(np.float64).view(np.int64) >> 52) - 1022, 0)
    return found
