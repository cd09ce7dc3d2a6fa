"""A timeline as data of the page: a head as JSON, and columns in parts that the scripts of the page decode.

Times are whole units after the begin, of 1 ns, or of 1000 where every time is a multiple. Events come by place, in
chunks: the gap from the end of the event before on the same row (of a row's first event: its start), duration, and
number of the name. A launch is a step over the places of work, and one over those of calls.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, digits, sets
from tracekit.model.arrow import F64, I32, I64, Bytes, Chunked, Column, Numbers, pc
from tracekit.model.display import escape_controls, shown_name
from tracekit.model.report import Finding, FindingEvents
from tracekit.model.timeline import KINDS_OF, Argument, CriticalPath, LaneEvents, Timeline, TimelineCounter
from tracekit.render.base import RenderOptions
from tracekit.render.palette import variable_of

__all__ = ["TimelineData", "deflated", "planes", "timeline_data", "zigzag"]

# Columns of whole numbers as text: byte planes, deflated, base64. What the page's scripts decode.
#
# A plane holds one byte of each number, the lowest first; before the planes stands their number. So the high bytes of
# small numbers cost nothing, and those of neighbours that resemble each other almost nothing.


CHUNK = 1 << 16
"""Events of one element: a script decodes one after the other, and lets the page breathe between them."""
_LEVEL = 6
_SAMPLE, _EVERY = 1 << 13, 1 << 16
"""Bytes that are tried of every so many, before that many more are compressed."""


@dataclass(frozen=True, slots=True)
class DataPart:
    """One element with data. kind: its class. text: base64, or JSON where `is_json`. facts: (attribute, number)."""

    kind: str
    text: str
    facts: tuple[tuple[str, int], ...]
    is_json: bool = False


def chunks_of(count: int, size: int = CHUNK) -> Iterator[slice]:
    """Return the places of each element, in order."""
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))


def planes(values: Numbers) -> bytes:
    """Return whole numbers >= 0 as byte planes, as many as the largest needs.

    >>> planes(np.array([1, 258]))
    b'\\x02\\x01\\x02\\x00\\x01'
    """
    count = max(1, (int(values.max()).bit_length() + 7) // 8) if values.size else 1
    raw = np.ascontiguousarray(values.astype("<u8")).view(np.uint8).reshape(-1, 8)[:, :count]
    return bytes([count]) + raw.T.tobytes()


def zigzag(values: I64) -> I64:
    """Return whole numbers as numbers >= 0: 0, -1, 1, -2 become 0, 1, 2, 3."""
    folded: I64 = (values << 1) ^ (values >> 63)
    return folded


def steps_of(values: I64, before: int = 0) -> I64:
    """Return the difference of each number to the one before it. before: that of the first one."""
    return np.diff(values, prepend=np.int64(before))


def floats(values: F64) -> bytes:
    """Return floats as they are, 8 bytes each."""
    return values.astype("<f8").tobytes()


def packed(*columns: bytes) -> str:
    """Return columns one after the other as text."""
    return base64.b64encode(deflated(b"".join(columns))).decode("ascii")


def deflated(raw: bytes) -> bytes:
    """Return bytes in zlib's form.

    Times that never repeat have no strings worth looking for: then runs and letters alone are smaller, in a fourth of
    the time. A sample decides.
    """
    if len(raw) > _EVERY:
        sample = b"".join(raw[at : at + _SAMPLE] for at in range(0, len(raw), _EVERY))
        if len(_runs(sample)) < 0.99 * len(zlib.compress(sample, _LEVEL)):
            return _runs(raw)
    return zlib.compress(raw, _LEVEL)


def _runs(raw: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    return packer.compress(raw) + packer.flush()


def packed_texts(texts: Sequence[str]) -> str:
    """Return texts as one packed JSON list."""
    return packed(json.dumps(list(texts), separators=(",", ":")).encode("ascii"))


# The critical path as data of the page: its pieces by time, decoded when a reader asks for it.


MOST_PIECES = 300_000
"""Pieces of all paths of a page, one or two bytes each. Of more the longest are drawn, and the others counted."""


def add_paths(
    parts: list[DataPart], figure: Timeline, paths: Sequence[CriticalPath], unit: int
) -> list[dict[str, object]]:
    """Add the pieces of each path to the parts of a page, and return the head of each.

    ns: of the pieces, span: of the path; left: pieces that are not in the page, since their events are not, or since
    they are too many.
    """
    heads: list[dict[str, object]] = []
    most = MOST_PIECES // max(len(paths), 1)
    for path in paths:
        places = figure.events.places_of(path.rows)
        lengths = path.ends - path.starts
        at = np.flatnonzero(places >= 0)
        at = np.sort(at[np.argsort(-lengths[at], kind="stable")[:most]])
        if not at.size:
            continue
        events = figure.events
        shift = events.shift[events.clocks[path.rows[at]]] if events.shift.size > 1 else events.shift[0]
        starts, ends = (path.starts[at] - shift) // unit, (path.ends[at] - shift) // unit
        text = _packed(places[at], starts, ends, events.starts_at(places[at]) // unit, events, unit)
        parts.append(DataPart("tl-path", text, (("key", len(heads)), ("n", at.size))))
        heads.append(
            {
                "label": escape_controls(path.label),
                "n": int(at.size),
                "left": int(path.rows.size - at.size),
                "ns": int(lengths.sum()),
                "span": path.span_ns,
            }
        )
    return heads


def _packed(places: I64, starts: I64, ends: I64, own_starts: I64, events: LaneEvents, unit: int) -> str:
    """Return places, and how each piece begins and ends: most times are those of events, which the page has.

    A piece begins 0: where the one before ended, 1: with its event, 2: so much later than the former. It ends 0: with
    its event, 1: as the event of the next piece begins, 2: after so much.
    """
    own_ends = own_starts + events.lengths_at(places) // unit
    before = np.append(0, ends[:-1])
    next_ = np.append(own_starts[1:], -1)
    begin = np.select([starts == before, starts == own_starts], [0, 1], 2)
    end = np.select([ends == own_ends, ends == next_], [0, 1], 2)
    stated = np.column_stack((starts - before, ends - starts)).ravel()[np.column_stack((begin, end)).ravel() == 2]
    steps = zigzag(steps_of(places))
    return packed(planes(steps), planes(begin * 3 + end), planes(stated))


# Marks on the timeline: all events that findings are about.
#
# A mark says which names on which lanes it is about from when to when, and the places that differ from that. So the
# mark of half a million kernels is as small as that of five, and every event in it is one of the finding.


FEW_PLACES = 16
"""A mark of so many events lists their places."""
MARK_BYTES = 8_192
"""The most text of a mark. One that needs more has the longest of its events, and says how many there are."""


@dataclass(frozen=True, slots=True)
class FindingMark:
    """The mark of a finding. view, row: of the finding. head: for the page. part: the packed places, None for few."""

    view: str
    row: int
    head: dict[str, object]
    part: DataPart | None


def marks(figure: Timeline, findings: Sequence[tuple[str, int, Finding]], unit: int) -> list[FindingMark]:
    """Return the mark of each finding that has events in the timeline. findings: view, row from 1, and finding."""
    if not len(figure.events) or not any(each.events for *_, each in findings):
        return []
    predicted = _PlacesByName(figure)
    made: list[FindingMark] = []
    for view, row, finding in findings:
        places, count = _places(figure, finding)
        if not places.size:
            continue
        places, text, facts = predicted.packed(places, unit)
        starts = figure.events.starts_at(places)
        ends = starts + figure.events.lengths_at(places)
        head: dict[str, object] = {
            "title": escape_controls(f"{finding.rule} ({finding.who})" if finding.who else finding.rule),
            "view": escape_controls(view),
            "row": row,
            "start": int(starts.min()) // unit,
            "end": int(ends.max()) // unit,
            "n": int(places.size),
        }
        if count > places.size:
            head["all"] = count
        if places.size <= FEW_PLACES:
            head["places"] = places.tolist()
        part = DataPart("tl-mark", text, (("key", len(made)), *facts)) if places.size > FEW_PLACES else None
        made.append(FindingMark(view, row, head, part))
    return made


def _places(figure: Timeline, finding: Finding) -> tuple[I64, int]:
    """Return the places of a finding's events, ascending, and how many events it has, those left out included."""
    events = figure.events
    ids = np.array(finding.events, np.int64)
    every = finding.events.rows if isinstance(finding.events, FindingEvents) else None
    # A report may have findings and a timeline of two traces: then the rows are those of the other.
    same = every is not None and every.size and every[-1] < events.ids.size
    if every is not None and same and np.array_equal(events.ids[every[: ids.size]], ids):
        places = events.places_of(every)
        return np.sort(places[places >= 0]), every.size
    # Ids alone count from the beginning of each input: one that several inputs have is the owner's.
    rows = np.flatnonzero(np.isin(events.ids, ids))
    places = events.places_of(rows)
    rows, places = rows[places >= 0], places[places >= 0]
    if finding.owner and places.size:
        mine = np.array([_is_of(group, finding.owner) for group in _lane_groups(figure, places)], np.bool_)
        rows, places = (rows[mine], places[mine]) if mine.any() else (rows, places)
    if sets.unique(events.ids[rows]).size < places.size:
        return places[:0], 0  # several events have the id: which one is meant is not known
    return np.sort(places), places.size


class _PlacesByName:
    """Places of events as text: names and lanes that foretell them, and the places at which that is wrong."""

    def __init__(self, figure: Timeline) -> None:
        self.events = figure.events
        self.depths = [lane.depth for lane in figure.lanes]

    @cached_property
    def codes(self) -> I32:
        return self.events.codes_at(slice(None))

    @cached_property
    def lanes(self) -> I32:
        """The lane of each place."""
        lane_of_row = np.repeat(np.arange(len(self.depths), dtype=np.int32), self.depths)
        return np.repeat(lane_of_row, np.diff(self.events.first))

    def packed(self, places: I64, unit: int) -> tuple[I64, str, tuple[tuple[str, int], ...]]:
        """Return places that fit into a mark, the longest where not all do; their text; and the numbers in it."""
        if places.size <= FEW_PLACES:
            return places, "", ()
        text, facts = self._text(places, unit)
        by_length = np.argsort(-self.events.lengths_at(places), kind="stable")
        kept = places
        while len(text) > MARK_BYTES:
            fewer = int(kept.size * min(0.9, 0.95 * MARK_BYTES / len(text)))
            kept = np.sort(places[by_length[:fewer]])
            text, facts = self._text(kept, unit)
        return kept, text, facts

    def _text(self, places: I64, unit: int) -> tuple[str, tuple[tuple[str, int], ...]]:
        none = np.zeros(0, np.int64)
        plain = packed(planes(none), planes(none), planes(steps_of(places))), (0, 0, places.size)
        hit = np.zeros(len(self.events), np.bool_)
        hit[places] = True
        lanes = sets.unique(self.lanes[places]).astype(np.int64)
        candidates = np.flatnonzero(np.isin(self.lanes, lanes))
        starts = self.events.starts_at(candidates) // unit
        own = self.events.starts_at(places) // unit
        candidates = candidates[(starts >= own.min()) & (starts <= own.max())]
        codes = self.codes[candidates]
        most = int(codes.max()) + 1
        marked = 2 * np.bincount(codes[hit[candidates]], minlength=most) > np.bincount(codes, minlength=most)
        hit[candidates[marked[codes]]] ^= True
        names, wrong = np.flatnonzero(marked), np.flatnonzero(hit)
        named = packed(planes(steps_of(lanes)), planes(steps_of(names)), planes(steps_of(wrong)))
        text, counts = min(plain, (named, (lanes.size, names.size, wrong.size)), key=lambda each: len(each[0]))
        return text, (
            *zip(("lanes", "names", "n"), counts, strict=True),
            ("from", int(own.min())),
            ("to", int(own.max())),
        )


def _lane_groups(figure: Timeline, places: I64) -> list[str]:
    """Return the group of the lane of each place."""
    groups = [lane.group for lane in figure.lanes for _ in range(lane.depth)]
    return [groups[row] for row in (np.searchsorted(figure.events.first, places, "right") - 1).tolist()]


def _is_of(group: str, owner: str) -> bool:
    return group == owner or group.startswith(f"{owner} · ")


# Columns of what else is known of events, by key: decoded when one looks at an event.


MOST_TEXT = 200_000
"""Characters of the words of a column of texts; one with more is left out."""


def add_args(parts: list[DataPart], figure: Timeline, most_bytes: int) -> tuple[list[dict[str, object]], list[str]]:
    """Add the columns that fit into so many bytes to the parts of a page.

    Return the head of each, and the keys of columns that do not fit.
    """
    heads: list[dict[str, object]] = []
    left: list[str] = []
    for argument in figure.args:
        made = _parts(argument, figure, len(heads), most_bytes)
        size = sum(len(part.text) for part in made or ())
        count = sum(number for part in made or () for word, number in part.facts if word == "n")
        if made is None:
            left.append(argument.key)
            continue
        if not count:
            continue
        most_bytes -= size
        parts += made
        kind = "text" if _is_text(argument) else "int"
        heads.append({"key": argument.key, "unit": argument.unit, "type": kind, "n": count})
    return heads, left


def _is_text(argument: Argument) -> bool:
    return pa.types.is_dictionary(argument.column.type)


def _parts(argument: Argument, figure: Timeline, number: int, most_bytes: int) -> list[DataPart] | None:
    """Return the parts of a column; None where its words are too many, or its parts take more than so many bytes."""
    order = figure.events.order
    column = argument.column
    made = []
    words: list[str] = []
    if _is_text(argument):
        codes, words = _coded(argument)
        listed = json.dumps([escape_controls(word) for word in words]).replace("<", "\\u003c").replace("&", "\\u0026")
        if len(listed) > MOST_TEXT:
            return None
        made.append(DataPart("tl-words", listed, (("key", number),), is_json=True))
        most_bytes -= len(listed)
    for places in chunks_of(order.size):
        rows = order[places]
        if words:
            values = codes[rows]
            known = np.flatnonzero(values >= 0)
            body = planes(values[known])
        else:
            taken = arrow.take(column, rows)
            known = np.flatnonzero(arrow.valid(taken))
            body = planes(zigzag(arrow.ints(taken)[known]))
        if known.size:
            facts = (("key", number), ("n", known.size), ("at", places.start + int(known[0])))
            part = DataPart("tl-args", packed(planes(steps_of(known, int(known[0]))), body), facts)
            most_bytes -= len(part.text)
            made.append(part)
        if most_bytes < 0:
            return None
    return made


def _coded(argument: Argument) -> tuple[I64, list[str]]:
    """Return the code of each row of EVENTS, -1 for none, and the words."""
    chunks = [arrow.encoded(chunk) for chunk in argument.column.unify_dictionaries().chunks]
    words = arrow.texts(chunks[-1].dictionary) if chunks else []
    return np.concatenate([arrow.codes(chunk) for chunk in chunks]).astype(np.int64), words


# The budget of a page: events beyond it are left out, with an exact account of what is missing where.
#
# Neighbours on a row are left out together, as a stretch with its begin, end, count and busy time: so a zoomed view
# shows
# where something is missing, and how much. Stretches whose longest event is the shortest go first.


STRETCHES = 4_000
"""About how many stretches a page has, unless the rows are more."""
MOST_STRETCHES = 16_000
"""With more rows, neighbouring stretches of a layer are joined until so many are left, and one for each layer."""
SHORTEST = 16
"""Events of a stretch, fewer at the end of a row."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Stretches that are left out; shape (k,) each: begin and end (ns after the begin), count, busy ns.

    rows, untils: the first row, and the one after the last: a stretch is on one row, or on several of one layer.
    """

    rows: I64
    untils: I64
    begins: I64
    ends: I64
    counts: I64
    busy: I64


def within(figure: Timeline, most: int) -> tuple[Timeline, Missing | None]:
    """Return a timeline with at most so many events, and what is missing; None for nothing."""
    events = figure.events
    needed = len(events) - most
    if needed <= 0:
        return figure, None
    size = max(SHORTEST, needed // STRETCHES)
    sizes = np.diff(events.first)
    blocks = -(-sizes // size)
    row = np.repeat(np.arange(sizes.size), blocks)
    number = np.arange(row.size) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    begins = events.first[row] + number * size
    counts = np.minimum(size, events.first[row + 1] - begins)
    lengths = events.lengths_at(slice(None))
    longest = np.maximum.reduceat(lengths, begins)
    by_length = np.argsort(longest, kind="stable")
    left_out = by_length[: int(np.searchsorted(np.cumsum(counts[by_length]), needed)) + 1]
    left_out.sort()
    lasts = begins[left_out] + counts[left_out] - 1
    missing = Missing(
        row[left_out],
        row[left_out] + 1,
        events.starts_at(begins[left_out]),
        events.starts_at(lasts) + lengths[lasts],
        counts[left_out],
        np.add.reduceat(lengths, begins)[left_out],
    )
    gone = np.zeros(row.size, np.bool_)
    gone[left_out] = True
    kept = np.repeat(~gone, counts)
    return _taken(figure, kept), _joined(missing, figure)


def _joined(missing: Missing, figure: Timeline) -> Missing:
    """Return no more stretches than a page can hold: a lane may have a million rows, with one stretch each."""
    each = -(-missing.rows.size // MOST_STRETCHES)
    if each < 2:
        return missing
    depths = [depth for lane in figure.lanes for _, depth in lane.layers]
    layer = np.repeat(np.arange(len(depths)), depths)[missing.rows]
    number = np.arange(layer.size)
    new = np.append(True, layer[1:] != layer[:-1])
    first = np.flatnonzero(new | ((number - np.maximum.accumulate(np.where(new, number, 0))) % each == 0))
    return Missing(
        missing.rows[first],
        np.maximum.reduceat(missing.untils, first),
        np.minimum.reduceat(missing.begins, first),
        np.maximum.reduceat(missing.ends, first),
        np.add.reduceat(missing.counts, first),
        np.add.reduceat(missing.busy, first),
    )


def _taken(figure: Timeline, kept: np.typing.NDArray[np.bool_]) -> Timeline:
    events: LaneEvents = figure.events
    before = np.append(0, np.cumsum(kept))

    def linked(pairs: tuple[I64, I64]) -> tuple[I64, I64]:
        both = kept[pairs[0]] & kept[pairs[1]]
        return before[pairs[0][both]], before[pairs[1][both]]

    fewer = replace(events, order=events.order[kept], first=before[events.first])
    return replace(figure, events=fewer, launches=linked(figure.launches), flows=linked(figure.flows))


# The `args` of events, JSON text as the trace has it, in parts that are decoded when one looks at an event.
#
# Texts of one trace differ in their numbers. So a part holds templates, which are the distinct texts with a mark for
# each
# number, and the numbers by template and mark, where those of neighbours resemble each other. Marks: "\0" for digits,
# "\1" for digits that begin with a zero: their number has a 1 before them. Longer runs of digits stay as they are.


MEMBERS_CHUNK = 1 << 14
"""Events of one part: its texts are short, but there may be many digits in them, and one click decodes all of it."""
_RELEASED = MEMBERS_CHUNK << 4
"""Events after which memory is given back: texts of many sizes leave holes in it that the next ones do not fit in."""
MOST_DIGITS = 15
"""Digits of a number: scripts compute with floats, and a difference of two takes one bit more."""
_MARKS = ("\x00", "\x01", "\x02")
_BETWEEN = "\x02"


@dataclass(frozen=True, slots=True)
class _PackedNumbers:
    """Numbers of one part: slot after slot of each template. flags: which slots are differences to the row before."""

    flags: I64
    values: I64


def add_members(parts: list[DataPart], figure: Timeline, most_bytes: int) -> dict[str, object] | None:
    """Add the args of the events from the top that fit into so many bytes; return the head, None where there are none.

    The head: events with args in the page, and those beyond the budget as [first place, behind the last, how many].
    """
    if figure.members is None:
        return None
    held = 0
    left: list[tuple[int, int, int]] = []
    for places in chunks_of(len(figure.events), MEMBERS_CHUNK):
        if not places.start % _RELEASED:
            arrow.release_memory()
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


def _part(texts: Column, first: int, known: I64) -> DataPart:
    templates, codes, numbers = _split(texts)
    head = _BETWEEN.join(templates).encode("utf-8", "replace")
    text = packed(
        head,
        planes(steps_of(known, int(known[0]))),
        planes(codes),
        planes(numbers.flags),
        planes(numbers.values),
    )
    return DataPart("tl-members", text, (("n", known.size), ("at", first + int(known[0])), ("t", len(head))))


def _split(texts: Column) -> tuple[list[str], I64, _PackedNumbers]:
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


def _numbers(codes: I32, first: I64, values: I64) -> _PackedNumbers:
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
        return _PackedNumbers(np.zeros(0, np.int64), np.zeros(0, np.int64))
    slot = np.arange(of.size) - (np.cumsum(slots) - slots)[of]
    place = np.repeat((np.cumsum(rows) - rows)[of] - begins, sizes) + np.arange(values.size)
    ordered = values[first[by_template][place] + np.repeat(slot, sizes)]
    steps = steps_of(ordered)
    steps[begins] = ordered[begins]
    folded = zigzag(steps)
    folded[begins] = ordered[begins]
    flags = np.add.reduceat(_bits(folded), begins) < np.add.reduceat(_bits(ordered), begins)
    return _PackedNumbers(flags.astype(np.int64), np.where(np.repeat(flags, sizes), folded, ordered))


def _bits(values: I64) -> I64:
    """Return how many binary digits each number >= 0 has: the exponent of the float of the same value tells."""
    found: I64 = np.maximum((values.astype(np.float64).view(np.int64) >> 52) - 1022, 0)
    return found


NAME_SHOWN = 1 << 14
"""Characters of a name, whose length is given where it is longer. Tables have whole names."""
_THOUSAND = 1000


@dataclass(slots=True)
class TimelineData:
    """head: the JSON of the page's timeline. names: packed. parts: in the order in which they are read.

    mark_of: the number of the mark of each finding that has one, by its view and row.
    """

    head: dict[str, object]
    names: str
    parts: list[DataPart] = field(default_factory=list)
    mark_of: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return the characters of the parts."""
        return sum(len(part.text) for part in self.parts)


def timeline_data(
    figure: Timeline,
    options: RenderOptions,
    title: str,
    version: str,
    findings: Sequence[tuple[str, int, Finding]] = (),
    paths: Sequence[CriticalPath] = (),
) -> TimelineData:
    """Return the data of a timeline within the budget of the options. findings: view, row from 1, and finding."""
    total = len(figure.events)
    shown, missing = within(figure, options.page_events)
    data = _data(shown, missing, total)
    while data.size > options.page_bytes and len(shown.events) > 1:
        fewer = min(int(len(shown.events) * 0.95 * options.page_bytes / data.size), len(shown.events) - 1)
        shown, missing = within(figure, fewer)
        data = _data(shown, missing, total)
    data.head |= {"title": escape_controls(title), "version": version}
    drawn = add_paths(data.parts, shown, paths, int(str(data.head["unit"])))
    if drawn:
        data.head["paths"] = drawn
    size = data.size
    arrow.release_memory()
    data.head["args"], left = add_args(data.parts, shown, options.args_bytes)
    if left:
        data.head["argsLeft"] = left
    members = add_members(data.parts, shown, options.args_bytes - (data.size - size))
    if members is not None:
        data.head["members"] = members
    found = marks(shown, findings, int(str(data.head["unit"])))
    data.head["marks"] = [mark.head for mark in found]
    data.parts += [mark.part for mark in found if mark.part]
    data.mark_of = {(mark.view, mark.row): number for number, mark in enumerate(found)}
    arrow.release_memory()
    return data


def _data(figure: Timeline, missing: Missing | None, total: int) -> TimelineData:
    unit = _unit(figure, missing)
    events = figure.events
    parts = list(_event_parts(events, unit))
    count = len(parts)
    parts += _launch_parts(figure.launches)
    parts += _flow_parts(figure.flows)
    groups = _groups(figure)
    group_of = [number for number, (*_, lanes) in enumerate(groups) for _ in lanes]
    counters = [*figure.counters, *_utilization(figure)]
    heads = []
    for number, counter in enumerate(counters):
        parts += _counter_parts(counter, number, unit)
        heads.append(_counter_head(counter, [label for label, *_ in groups]))
    heads += [] if missing is not None else _queues(figure, group_of)
    rows = np.cumsum([0, *(lane.depth for lane in figure.lanes)]).tolist()
    head: dict[str, object] = {
        "n": len(events),
        "total": total,
        "unit": unit,
        "span": (figure.end_ns - figure.begin_ns) // unit,
        "begin": str(figure.begin_ns),
        "first": events.first.tolist(),
        "lanes": [
            {
                "label": shown_name(lane.label),
                "host": not lane.on_device,
                "device": lane.on_device and not lane.overlay and not lane.instants,
                "note": lane.overlay or lane.instants,
                "row": row,
                "depth": lane.depth,
                "group": group_of[place],
                **({"layers": lane.layers} if lane.layers[0][0] else {}),
                "ids": dict(lane.ids),
                **({"instants": True} if lane.instants else {}),
                **({"overlaps": lane.overlaps} if lane.overlaps else {}),
            }
            for place, (lane, row) in enumerate(zip(figure.lanes, rows, strict=False))
        ],
        "groups": [
            {"label": escape_controls(label), "lanes": lanes} | ({"host": escape_controls(host)} if host else {})
            for label, host, lanes in groups
        ],
        "kindOf": list(figure.kind_of),
        "kinds": list(map(escape_controls, figure.kinds)),
        "colors": list(map(variable_of, figure.kinds)),
        "kindsOf": {kind: KINDS_OF[kind] for kind in figure.kinds if kind in KINDS_OF},
        "steps": [(start // unit, length // unit, shown_name(name)) for start, length, name in figure.steps],
        "links": int(figure.launches[0].size),
        "flows": int(figure.flows[0].size),
        "eventParts": count,
        "counters": heads,
        "missing": _missing(missing, unit),
    }
    if missing is not None:
        left = int(missing.counts.sum())
        head["budget"] = (
            f"{left:,} of {total:,} events are not in this page, the shortest first; "
            "--page-events and --page-mb make it larger"
        )
    return TimelineData(head, packed_texts([_shown_name(name) for name in figure.names]), parts)


def _shown_name(name: str) -> str:
    if len(name) <= NAME_SHOWN:
        return shown_name(name)
    return f"{shown_name(name[:NAME_SHOWN])}… ({len(name):,} characters in all)"


def _groups(figure: Timeline) -> list[tuple[str, str, list[int]]]:
    """Return the groups in order: label, machine, and the numbers of their lanes, which follow each other."""
    found: list[tuple[str, str, list[int]]] = []
    for number, lane in enumerate(figure.lanes):
        if not found or found[-1][:2] != (lane.group, lane.host):
            found.append((lane.group, lane.host, []))
        found[-1][2].append(number)
    return found


def _unit(figure: Timeline, missing: Missing | None) -> int:
    """Return 1000 where every time in the page is a multiple of it, else 1."""
    events = figure.events
    times: list[I64] = [np.array([figure.end_ns - figure.begin_ns], np.int64)]
    times += [counter.times for counter in figure.counters]
    times += [missing.begins, missing.ends, missing.busy] if missing is not None else []
    if any((each % _THOUSAND).any() for each in times):
        return 1
    for places in chunks_of(len(events)):
        if (events.starts_at(places) % _THOUSAND).any() or (events.lengths_at(places) % _THOUSAND).any():
            return 1
    return _THOUSAND


def _event_parts(events: LaneEvents, unit: int) -> Iterator[DataPart]:
    begins = events.first[:-1][np.diff(events.first) > 0]  # of rows from which everything is left out, none
    before = 0
    for places in chunks_of(len(events)):
        start, length = events.starts_at(places) // unit, events.lengths_at(places) // unit
        end = start + length
        gap = start - np.append(before, end[:-1])
        low, high = np.searchsorted(begins, (places.start, places.stop)).tolist()
        fresh = begins[low:high] - places.start
        gap[fresh] = start[fresh]
        before = int(end[-1])
        text = packed(planes(gap), planes(length), planes(events.codes_at(places)))
        yield DataPart("tl-part", text, (("n", gap.size),))


def _launch_parts(launches: tuple[I64, I64]) -> Iterator[DataPart]:
    calls, work = launches
    over_work, over_calls = steps_of(work, -1) - 1, zigzag(steps_of(calls))
    for part in chunks_of(work.size):
        columns = np.concatenate((over_work[part], over_calls[part]))
        yield DataPart("tl-part", packed(planes(columns)), (("n", over_work[part].size),))


def _flow_parts(flows: tuple[I64, I64]) -> Iterator[DataPart]:
    sources, targets = flows
    over_sources, over_targets = steps_of(sources), zigzag(steps_of(targets))
    for part in chunks_of(sources.size):
        columns = np.concatenate((over_sources[part], over_targets[part]))
        yield DataPart("tl-flow", packed(planes(columns)), (("n", over_sources[part].size),))


def _utilization(figure: Timeline) -> Iterator[TimelineCounter]:
    span = figure.end_ns - figure.begin_ns
    for label, shares in figure.utilization:
        edges = np.array([span * place // max(len(shares), 1) for place in range(len(shares))], np.int64)
        percent = np.rint(np.array(shares, np.float64) * 1000) / 10
        yield TimelineCounter(f"utilization {label}", "%", label, edges, percent)


def _counter_head(counter: TimelineCounter, groups: Sequence[str]) -> dict[str, object]:
    finite = counter.values[np.isfinite(counter.values)]
    return {
        "label": shown_name(counter.label),
        "unit": escape_controls(counter.unit),
        "group": _group_of(counter.group, groups),
        "n": int(counter.times.size),
        "float": counter.values.dtype.kind == "f",
        "style": "bar" if counter.unit == "%" else "step",
        "max": float(finite.max()) if finite.size else 0,
    }


def _group_of(place: str, groups: Sequence[str]) -> int:
    """Return the only group whose label has all words of a place, such as "rank 3 · GPU 0"; -1 for none or several."""
    if not place:
        return -1
    words = set(place.split(" · "))
    found = [number for number, label in enumerate(groups) if words <= set(label.split(" · "))]
    return groups.index(place) if place in groups else found[0] if len(found) == 1 else -1


def _queues(figure: Timeline, group_of: Sequence[int]) -> list[dict[str, object]]:
    """Return a track for each group whose work was launched by calls: a script fills it from the launches."""
    lane_of_row = np.repeat(np.arange(len(figure.lanes)), [lane.depth for lane in figure.lanes])
    rows = np.searchsorted(figure.events.first, figure.launches[1], "right") - 1
    lanes = sets.unique(lane_of_row[rows]).tolist()
    groups = sorted({group_of[lane] for lane in lanes})
    return [{"label": "queue", "unit": "", "group": group, "n": 0, "queue": True} for group in groups]


def _counter_parts(counter: TimelineCounter, number: int, unit: int) -> Iterator[DataPart]:
    gaps = steps_of(counter.times // unit)
    values = counter.values
    for part in chunks_of(gaps.size):
        if values.dtype.kind == "f":
            body = floats(values[part].astype(np.float64))
        else:
            whole = values.astype(np.int64)
            body = planes(zigzag(steps_of(whole)[part]))
        text = packed(planes(gaps[part]), body)
        yield DataPart("tl-counter", text, (("key", number), ("n", gaps[part].size)))


def _missing(missing: Missing | None, unit: int) -> list[dict[str, object]]:
    if missing is None:
        return []
    times = (missing.begins // unit, missing.ends // unit)
    columns = (missing.rows, missing.untils, *times, missing.counts, missing.busy // unit)
    return [
        {"rows": (row, until), "start": start, "end": end, "count": count, "busy": busy}
        for row, until, start, end, count, busy in zip(*(column.tolist() for column in columns), strict=True)
    ]
