"""The `args` of events, JSON text as the trace has it, in parts that are decoded when one looks at an event.

Texts of one trace differ in their numbers. So a part holds templates, which are the distinct texts with a mark for each
number, and the numbers by template and mark, where those of neighbours resemble each other. Marks: "\\0" for digits,
"\\1" for digits that begin with a zero: their number has a 1 before them. Longer runs of digits stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Bytes, Mask
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
    for mark in _MARKS:  # no JSON has them, but the text of a file may be anything
        texts = pc.replace_substring_regex(texts, mark, f"\\\\u{ord(mark):04x}")
    offsets, data = arrow.text_parts(texts)
    offsets, data = offsets - offsets[0], data[offsets[0] : offsets[-1]]
    digit = (data - np.uint8(48)) < 10
    begins, ends = _runs(digit, offsets)
    led = (data[begins] == 48) & (ends - begins > 1)
    fits = ends - begins <= MOST_DIGITS - led
    values = _values(data, digit, begins, ends) + np.where(led, 10 ** np.minimum(ends - begins, MOST_DIGITS), 0)
    kept = ~digit
    for begin, end in zip(begins[~fits].tolist(), ends[~fits].tolist(), strict=True):
        kept[begin:end] = True
    begins, led, values = begins[fits], led[fits], values[fits]
    kept[begins] = True
    marked = data.copy()
    marked[begins] = led
    before = np.append(0, np.cumsum(kept))
    coded = arrow.encoded(arrow.text_column(before[offsets], marked[kept], pa.large_string()))
    codes = arrow.codes(coded).astype(np.int64)
    row = np.searchsorted(offsets, begins, "right") - 1
    return arrow.texts(coded.dictionary), codes, _numbers(codes, row, values)


def _runs(digit: Mask, offsets: I64) -> tuple[I64, I64]:
    """Return begin and end of each run of digits; none goes beyond its text."""
    after = np.append(False, digit[:-1])
    after[offsets[:-1][offsets[:-1] < digit.size]] = False
    begins = np.flatnonzero(digit & ~after)
    ahead = np.append(digit[1:], False)
    ahead[offsets[1:] - 1] = False
    return begins, np.flatnonzero(digit & ~ahead) + 1


def _values(data: Bytes, digit: Mask, begins: I64, ends: I64) -> I64:
    """Return the number of each run; of one with too many digits, any."""
    if not begins.size:
        return np.zeros(0, np.int64)
    at = np.flatnonzero(digit)
    sizes = ends - begins
    weight = np.minimum(np.repeat(ends, sizes) - 1 - at, MOST_DIGITS)
    powers = 10 ** np.arange(MOST_DIGITS + 1)
    return np.add.reduceat((data[at] - np.uint8(48)) * powers[weight], np.cumsum(sizes) - sizes)


def _numbers(codes: I64, row: I64, values: I64) -> _Numbers:
    """Put numbers in the order of template, slot and row. row: of each number."""
    count = codes.max() + 1
    of_row = np.bincount(row, minlength=codes.size)
    slots = np.zeros(count, np.int64)
    slots[codes] = of_row
    rows = np.bincount(codes, minlength=count)
    by_template = np.argsort(codes, kind="stable")
    rank = np.empty(codes.size, np.int64)
    rank[by_template] = np.arange(codes.size) - np.repeat(np.cumsum(rows) - rows, rows)
    base = np.cumsum(slots * rows) - slots * rows
    slot = np.arange(row.size) - (np.cumsum(of_row) - of_row)[row]
    ordered = np.empty(values.size, np.int64)
    ordered[base[codes[row]] + slot * rows[codes[row]] + rank[row]] = values
    sizes = np.repeat(rows, slots)
    begins = np.cumsum(sizes) - sizes
    if not begins.size:
        return _Numbers(np.zeros(0, np.int64), ordered)
    steps = pack.steps(ordered)
    steps[begins] = ordered[begins]
    folded = pack.zigzag(steps)
    folded[begins] = ordered[begins]
    flags = np.add.reduceat(_bits(folded), begins) < np.add.reduceat(_bits(ordered), begins)
    return _Numbers(flags.astype(np.int64), np.where(np.repeat(flags, sizes), folded, ordered))


def _bits(values: I64) -> I64:
    found: I64 = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    return found
