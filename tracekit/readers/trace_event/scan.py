"""The structure of many JSON objects at once, by whole arrays: where each begins and ends, its shape, its numbers.

The *shape* of an object is its text with "0" for each run of digits outside strings, and without blanks there. Traces
repeat themselves: a million events of a profiler have some thousands of shapes. The meaning of a shape is found once,
by parsing one of its objects; the rest is arithmetic on the runs of digits, which are integers of at most 18 digits.
(Longer ones, such as hashes, stay in the shape.) No text goes through a binary float.

Where most events have names of their own, the shapes are those of the text without the names (`CutNames`): else there
would be as many shapes as events.

Nothing here checks JSON beyond quotes and the depth of brackets: the reader parses one object of each shape, and
objects of one shape differ in digits only.

Libraries of JSON are no faster for this. 400,000 events of Kineto (102 MB) to columns with exact times, on one core:
1.4 s of CPU time and 200 MB this way. msgspec with typed structs: 2.8 s and 720 MB, of which decoding takes 0.5 s.
simdjson: 0.3 s to parse, 2.7 s and 520 MB until the members of events are Python objects, still without columns.
orjson: 4.8 s and 2250 MB (`benchmarks/kineto_read.py`). An object for each member costs more than the parsing.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, digits
from tracekit.model.arrow import I32, I64, Bytes, Column, DictColumn, Mask

__all__ = ["LONGEST_RUN", "MANY_SHAPES", "NAME", "CutNames", "Scan", "inside_strings", "object_end", "scan", "slices"]

QUOTE, BACKSLASH = 0x22, 0x5C
LONGEST_RUN = 18
"""Digits that int64 surely holds."""
MANY_SHAPES = 512
"""Shapes of one scan from which on names are cut out of them, where an eighth of the objects has one of its own."""
NAME = b'"name":"'
"""The text before a name."""
_BLANKS = bytes(range(33))
_STRING = np.uint8(0x80)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class CutNames:
    """The first string behind NAME in each object, where it is printable ASCII without an escape.

    codes: shape (n,), place in `texts`, -1 for an object whose shape is whole. texts: the strings with their quotes.
    """

    codes: I64
    texts: list[bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """n objects at one level. Texts have no blanks outside strings.

    text: bytes of all objects and those between them. start, end: shape (n,), places in `text`.
    first: shape (n,), number of the first run of digits of each object; runs: number of its runs. ints: the runs as
    int64, lengths: their digits. cut: shape (runs + 1,), bytes that shapes lack before each run.
    codes: shape (n,), shape of each object; sample: an object of each shape; shapes: the shapes themselves.
    names: what the shapes lack, "" in its place; None where they lack nothing.
    consumed: bytes of the input up to the end of the last whole object. closed: place in the input of the bracket that
    closes the list, -1 when it has not come. broken: quotes or brackets do not fit together.
    """

    text: Bytes
    start: I64
    end: I64
    first: I64
    runs: I64
    ints: I64
    lengths: I32
    cut: I32
    codes: I64
    sample: I64
    shapes: list[bytes]
    consumed: int
    closed: int
    broken: bool
    names: CutNames | None = None

    @property
    def joined(self) -> int:
        """The number of objects that directly follow what is before them: no comma is between."""
        return int(np.count_nonzero(self.start[1:] == self.end[:-1])) + self.starts_directly

    @property
    def starts_directly(self) -> bool:
        """Nothing is before the first object."""
        return bool(len(self.start) and not self.start[0])

    def object(self, row: int) -> bytes:
        """Return the text of one object."""
        return self.text[self.start[row] : self.end[row]].tobytes()


def inside_strings(data: bytes, codes: Bytes) -> Mask:
    """Return which bytes are between an opening quote (itself included) and its closing one (not included).

    Parity of the quotes before, by words of 64 bits. A quote after an odd number of backslashes is none.
    """
    quotes = codes == QUOTE
    if b"\\" in data:
        quotes[_escaped_quotes(codes, quotes)] = False
    packed = np.packbits(quotes, bitorder="little")
    words = np.zeros(-(-len(packed) // 8), np.uint64)
    words.view(np.uint8)[: len(packed)] = packed
    for shift in (1, 2, 4, 8, 16, 32):
        words ^= words << np.uint64(shift)
    odd = np.bitwise_xor.accumulate((words >> np.uint64(63)).astype(np.uint8))
    words[1:] ^= np.where(odd[:-1] == 1, _ALL, np.uint64(0))
    return np.unpackbits(words.view(np.uint8), bitorder="little", count=len(codes)).view(np.bool_)


def _escaped_quotes(codes: Bytes, quotes: Mask) -> I64:
    """Return the places of quotes that have an odd number of backslashes directly before them."""
    slashes = np.flatnonzero(codes == BACKSLASH)
    begins = np.ones(len(slashes), np.bool_)
    begins[1:] = np.diff(slashes) != 1
    run_start = slashes[np.maximum.accumulate(np.where(begins, np.arange(len(slashes)), 0))]
    after = slashes + 1
    odd = ((slashes - run_start) & 1) == 0
    inside = after < len(codes)
    after, odd = after[inside], odd[inside]
    found: I64 = after[odd & quotes[after]]
    return found


def scan(data: bytes, *, by_name: bool = False) -> Scan:
    """Return the objects of a list whose opening bracket is before `data`. by_name: they surely have many names.

    `data` begins outside of any string and object; its end may lie anywhere. broken is set where a string holds a line
    end, brackets close that are not open, or blanks divide a number: nothing else of the scan holds then.
    """
    raw = np.frombuffer(data, np.uint8)
    inside = inside_strings(data, raw)
    broken = b"\n" in data and bool(((raw == 10) & inside).any())
    # The eighth bit marks the bytes of strings: a bracket or digit without it is one of JSON.
    flagged = raw | inside.view(np.uint8) * _STRING
    if data.isascii():
        # The bit is free, so text and mask are condensed in one go.
        marked = np.frombuffer(flagged.tobytes().translate(None, _BLANKS), np.uint8)
        text = marked & ~_STRING
    else:
        keep = inside | (raw > 32)
        text, marked = raw[keep], flagged[keep]
    if len(text) < len(raw):
        broken |= _digit_runs(flagged) != _digit_runs(marked)  # "1 2" is not a number, and "12" would be one
    folded = marked | 0x20  # "[" and "]" differ from "{" and "}" in this bit
    brackets = np.flatnonzero((folded == 0x7B) | (folded == 0x7D))
    opening = folded[brackets] == 0x7B
    depth = np.cumsum(np.where(opening, np.int8(1), np.int8(-1)), dtype=np.int32)
    shut = np.flatnonzero(depth < 0)
    closed = -1
    if len(shut):
        closed = int(brackets[shut[0]])
        brackets, opening, depth = brackets[: shut[0]], opening[: shut[0]], depth[: shut[0]]
    start = brackets[opening & (depth == 1)]
    end = brackets[~opening & (depth == 0)] + 1
    broken |= bool((text[start] != 0x7B).any()) or (closed >= 0 and text[closed] != 0x5D)
    start = start[: len(end)]
    consumed = 0
    if len(end) or closed >= 0:
        consumed = _place(raw, inside, len(text) - int(end[-1])) + 1 if len(end) else 0
        closed = _place(raw, inside, len(text) - 1 - closed) if closed >= 0 else -1
        broken |= _strange_between(text, start, end)
    if broken:
        start, end = start[:0], end[:0]
    # Only whole objects count from here on.
    size = int(end[-1]) if len(end) else 0
    return _with_runs(text[:size], marked[:size], start, end, consumed, closed, broken, by_name=by_name)


def _digit_runs(flagged: Bytes) -> int:
    """Return the number of runs of digits outside strings."""
    digit = (flagged - np.uint8(0x30)) < np.uint8(10)
    return int(np.count_nonzero(digit[1:] > digit[:-1]))


def _place(raw: Bytes, inside: Mask, behind: int) -> int:
    """Return the place of the byte of `text` that has so many others of it behind it."""
    size = 1024 + 2 * behind
    while True:
        kept = np.flatnonzero(inside[-size:] | (raw[-size:] > 32))
        if len(kept) > behind:
            return max(len(raw) - size, 0) + int(kept[-1 - behind])
        size *= 4


def _strange_between(text: Bytes, start: I64, end: I64) -> bool:
    """Return whether anything but one comma is between two objects."""
    gaps = np.empty(len(end), np.int64)
    if not len(end):
        return False
    gaps[0] = start[0]
    gaps[1:] = start[1:] - end[:-1]
    at = start - 1
    commas = (gaps == 0) | ((gaps == 1) & (text[np.maximum(at, 0)] == 0x2C))
    return not bool(commas.all())


def object_end(text: bytes, depth: int) -> tuple[int | None, int, bool]:
    """Return the end of an object of which `depth` brackets are open before the text, None where it goes on.

    Also returns how many brackets are open behind the text, and whether a string is.
    """
    codes = np.frombuffer(text, np.uint8)
    inside = inside_strings(text, codes)
    folded = codes | 0x20
    steps = np.where(inside, 0, (folded == 0x7B).astype(np.int32) - (folded == 0x7D))
    depths = np.cumsum(steps, dtype=np.int32) + np.int32(depth)
    ends = np.flatnonzero((depths <= 0) & (steps < 0))
    end = int(ends[0]) + 1 if len(ends) else None
    return end, int(depths[-1]) if len(depths) else depth, bool(len(inside) and inside[-1])


def _with_runs(
    text: Bytes, marked: Bytes, start: I64, end: I64, consumed: int, closed: int, broken: bool, *, by_name: bool
) -> Scan:
    digit = digits.mask(marked)
    begins, ends = digits.runs(digit)
    lengths = (ends - begins).astype(np.int32)
    if len(lengths) and int(lengths.max()) > LONGEST_RUN:
        short = lengths <= LONGEST_RUN
        digits.clear(digit, begins[~short], ends[~short])
        begins, lengths = begins[short], lengths[short]
    ints = digits.numbers(text, digit, lengths)
    cut = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths - 1, out=cut[1:])
    shaped = text.copy()
    shaped[begins] = 0x30
    # What is behind an object is one comma at most: without it the shapes follow each other.
    dropped = digit
    dropped[begins] = False
    dropped[start[1:] - 1] = end[:-1] < start[1:]
    if len(start) and start[0]:
        dropped[0] = True
    first, last = np.searchsorted(begins, start), np.searchsorted(begins, end)
    sizes = end - cut[last] - start + cut[first]
    names: CutNames | None = None
    if not by_name:
        encoded = _encoded(sizes, shaped[~dropped])
        by_name = len(encoded.dictionary) > max(MANY_SHAPES, len(start) // 8)
    if by_name:
        names, rows, opened, shut = _cut_names(text, marked, start, end)
        lengths_of_names = shut - opened
        dropped[_within(opened, lengths_of_names)] = True
        sizes[rows] -= lengths_of_names
        encoded = _encoded(sizes, shaped[~dropped])
    codes = arrow.ints(encoded.indices)
    shapes: list[bytes] = arrow.binaries(encoded.dictionary)
    sample = np.zeros(len(shapes), np.int64)
    sample[codes[::-1]] = np.arange(len(codes))[::-1]
    return Scan(
        text,
        start,
        end,
        first,
        last - first,
        ints,
        lengths,
        cut,
        codes,
        sample,
        shapes,
        consumed,
        closed,
        broken,
        names,
    )


def _encoded(sizes: I64, shapes: Bytes) -> DictColumn:
    """Return the shapes, each of its size, as a dictionary column."""
    bounds = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    return arrow.encoded(arrow.text_column(bounds, shapes, pa.binary()))


def _cut_names(text: Bytes, marked: Bytes, start: I64, end: I64) -> tuple[CutNames, I64, I64, I64]:
    """Return the names of objects, the objects that have one, and where its text begins and ends in each of these.

    A name is the first text behind NAME in its object, so that it has one place in the shape without it.
    """
    parts = text.tobytes().split(NAME)
    places = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))[:-1]
    places += len(NAME) * np.arange(len(places))
    at = np.searchsorted(places, start)
    places = np.append(places, len(text))[at]
    rows = np.flatnonzero((places < end) & (places > start))
    places = places[rows]
    # The key begins outside of strings, behind a bracket or comma, so its quotes and those of the value are real ones.
    before = marked[places - 1]
    real = ((before == 0x7B) | (before == 0x2C)) & (marked[places + len(NAME) - 1] == QUOTE | _STRING)
    rows, opened = rows[real], places[real] + len(NAME)
    closing = np.flatnonzero(marked == QUOTE)  # without the bit of strings
    shut = np.append(closing, len(text))[np.searchsorted(closing, opened)]
    odd = np.flatnonzero(((text - np.uint8(0x20)) >= np.uint8(0x5F)) | (text == BACKSLASH))
    plain = np.searchsorted(odd, opened) == np.searchsorted(odd, shut)
    rows, opened, shut = rows[plain], opened[plain], shut[plain]
    codes = np.full(len(start), -1, np.int64)
    encoded = arrow.encoded(slices(text, opened - 1, shut + 1))
    codes[rows] = arrow.ints(encoded.indices)
    return CutNames(codes, arrow.binaries(encoded.dictionary)), rows, opened, shut


def _within(begins: I64, lengths: I64) -> I64:
    """Return the numbers from each begin on, as many as each length."""
    ends = np.cumsum(lengths)
    return np.repeat(begins - ends + lengths, lengths) + np.arange(int(ends[-1]) if len(ends) else 0)


def slices(text: Bytes, start: I64, end: I64) -> Column:
    """Return text[start:end] for each pair, as binary. The pieces are in order and do not overlap."""
    if not len(start):
        return arrow.array([], pa.binary())
    bounds = np.empty(2 * len(start) + 1, np.int32)
    bounds[0:-1:2], bounds[1::2] = start, end
    bounds[-1] = bounds[-2]
    return _every_other(bounds, text)


def _every_other(bounds: I32, text: Bytes) -> Column:
    """Return each second of the pieces between the bounds: those between them are of no use."""
    pieces = arrow.text_column(bounds, text, pa.binary())
    return arrow.take(pieces, np.arange(0, len(pieces), 2))
