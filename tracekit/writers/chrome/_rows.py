"""Rows become lines of a trace: rows with the same columns are built together, then put back in order.

A line has an opening (phase, cat and name), a place (pid, tid and the args with few distinct texts), sometimes the
members of the row's args, and a tail of numbers of fixed width. Each distinct text is built once. All texts and tails
of a table are in one column, from which the pieces of the lines are taken in their order: their bytes are the lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask, Rows
from tracekit.model.trace import Run
from tracekit.writers.base import Written
from tracekit.writers.tracks.arrows import BOUND, LaunchArrows, inside_points
from tracekit.writers.tracks.batch import (
    ASYNC,
    BOUND_END,
    COUNTER,
    END,
    INSTANT,
    LONE_INSTANT,
    NOT_WRITTEN,
    SLICE,
    START,
    STEP,
    UNDRAWN,
    Batch,
    Codes,
    Loader,
    Present,
    classes,
    launch_columns,
    number_pieces,
    own_numbers,
    value_codes,
)
from tracekit.writers.tracks.digits import Micros, Piece, fixed_rows
from tracekit.writers.tracks.lanes import Heading, TrackLane, TrackLanes
from tracekit.writers.tracks.texts import merged, number_text, quoted

# Names and order of processes and threads, as M events.


class Headings:
    """The M events of a file: each is written when its lane appears, and again where its name has changed."""

    def __init__(self, lanes: TrackLanes) -> None:
        self._lanes = lanes
        self._places: dict[int, str] = {}

    def place(self, track: int) -> str:
        """Return the pid and tid of a track as members of an event."""
        found = self._lanes.tracks[track]
        return f'"pid":{found.lane.process.number},"tid":{found.number}'

    def introduce(self, number: int, *, thread: bool) -> list[str]:
        """Return the M events that introduce the process of a track and, where asked, the track itself.

        Events that are in the file already are not repeated. thread: the track holds slices or marks, not only rows
        that belong to the process as a whole.
        """
        track = self._lanes.tracks[number]
        process = track.lane.process
        place = self._places.setdefault(process.number, self.place(number))
        heading = self._lanes.process_heading(process)
        out = _changes("process", place, process.introduced, heading)
        process.introduced = heading
        if thread:
            heading = self._lanes.track_heading(track)
            out += _changes("thread", self.place(number), track.introduced, heading)
            track.introduced = heading
        return out

    def renamed(self) -> list[str]:
        """Return the M events of processes and tracks whose name has changed since they were introduced."""
        out: list[str] = []
        for number, track in enumerate(self._lanes.tracks):
            if track.lane.process.introduced is not None:
                out += self.introduce(number, thread=track.introduced is not None)
        return out


def _changes(what: str, place: str, before: Heading | None, now: Heading) -> list[str]:
    """Return the M events of a heading, of the parts that differ from the one before."""
    out = []
    if before is None or before[0] != now[0]:
        out.append(f'{{"ph":"M","name":"{what}_name",{place},"args":{{"name":{quoted(now[0])}}}}},\n')
    if before is None or before[1] != now[1]:
        out.append(f'{{"ph":"M","name":"{what}_sort_index",{place},"args":{{"sort_index":{now[1]}}}}},\n')
    return out


# The members of an event's args that are no columns of numbers, as JSON text.


@dataclass(slots=True)
class ChromeMembers:
    """Texts of members, "" for none, and which one each row has, shape (n,).

    present: which rows have any; None where no row has.
    """

    texts: list[str]
    codes: I64
    present: Mask | None = None


def gathered(batch: Batch) -> ChromeMembers:
    """Return the members of args that are not columns; each distinct text of args is converted once."""
    texts, codes = [""], np.zeros(batch.count, np.int64)
    if batch.args.null_count < batch.count:
        args = batch.encoded_args()
        texts += [merged(text) for text in arrow.texts(args.dictionary)]
        codes = arrow.codes(args).astype(np.int64)
        codes += 1
    for row, text in _of_single_rows(batch).items():
        texts.append(text + texts[codes[row]])
        codes[row] = len(texts) - 1
    return ChromeMembers(texts, codes, codes > 0 if len(texts) > 1 else None)


def _of_single_rows(batch: Batch) -> dict[int, str]:
    """Return row -> members that only a few rows have, each followed by a comma."""
    out = {row: f'"dur_ns":{duration},' for row, duration in batch.negative.items()}
    counters = batch.phase == COUNTER
    for row in np.flatnonzero(batch.has_value & ~counters & (batch.phase != NOT_WRITTEN)).tolist():
        out[row] = out.get(row, "") + f'"value":{number_text(float(batch.value[row]))},'
    for row in np.flatnonzero(counters).tolist():
        out[row] = _of_counter(batch, row, out.get(row, ""))
    return out


def _of_counter(batch: Batch, row: int, others: str) -> str:
    """Put the value of a counter alone into its args: each other number there would become a series."""
    text = f'"value":{number_text(float(batch.value[row]))}}},"tracekit":{{' + others
    if batch.has_dur[row] and '"dur_ns":' not in text:
        text += f'"dur_ns":{batch.dur[row]},'
    if batch.text("name", row) is None:
        text += '"name":null,'
    for name in ("raw_name", "copy_kind"):
        value = batch.text(name, row)
        if value is not None:
            text += f'"{name}":{quoted(value)},'
    return text


OPENING = {
    SLICE: '"ph":"X"',
    INSTANT: '"ph":"i","s":"t"',
    LONE_INSTANT: '"ph":"i","s":"p"',
    COUNTER: '"ph":"C"',
    NOT_WRITTEN: "",
    ASYNC: '"ph":"b"',
    START: '"ph":"s"',
    STEP: '"ph":"t"',
    END: '"ph":"f"',
    BOUND_END: '"ph":"f","bp":"e"',
    UNDRAWN: '"ph":"c"',
}
WITH_ID = frozenset({ASYNC, START, STEP, END, BOUND_END})
HEAD = '"cat":"launch","name":"launch"'
BOUND_HEAD = f'"cat":"{BOUND}","name":"{BOUND}"'
CHUNK_BYTES = 1 << 25
"""Most bytes of lines that are built at once: a batch of long names is written in several chunks."""
CHUNK_LINES = 1 << 13
"""Lines that are built at once where texts are short: their bytes are still in the processor's cache when written."""
EMPTY = '""'


@dataclass(slots=True)
class _Group:
    """Lines with the same columns.

    rows: row of each line. order: that of the line among the lines of a row. texts: the texts that each line begins
    with, as numbers. pieces: the tail.
    """

    rows: Rows
    order: int
    texts: Sequence[Rows]
    pieces: list[Piece]


class _Kinds(NamedTuple):
    """Classes of rows that write the same columns. of_row: shape (n,). first: the first row of each class."""

    of_row: Rows
    first: I64


class LineMaker:
    """Turns tables in order of start into lines. Keeps lanes, ends of slices and pending launches between tables."""

    def __init__(self, run: Run, written: Written, *, slices_only: bool) -> None:
        self.loader = Loader(run, written)
        self.headings = Headings(self.loader.lanes)
        self.launches = LaunchArrows()
        self.lines = 0
        self._written = written
        self._slices_only = slices_only
        self._introduced = np.zeros(0, np.bool_)

    def chunks(self, table: pa.Table) -> Iterator[bytes | memoryview]:
        """Yield buffers of whole lines, each line with a comma and a newline. table: one chunk for each column."""
        batch = self.loader.load(table)
        if batch is None:
            return
        texts: list[str] = []
        groups = self._row_groups(batch, gathered(batch), texts)
        self._written.events += sum(len(g.rows) for g in groups)
        self._add_async_ends(batch, groups, texts)
        self._add_arrows(batch, groups, texts)
        self.loader.carry(batch)
        new = self._introductions(batch)
        if new:
            self.lines += len(new)
            yield "".join(new).encode()
        self.lines += sum(len(g.rows) for g in groups)
        yield from _assembled(groups, texts, batch.count)

    def _introductions(self, batch: Batch) -> list[str]:
        """Return the M events of new tracks. speedscope fails on a lane that has a name but no slice."""
        lanes = self.loader.lanes
        if len(self._introduced) < len(lanes.tracks):
            grown = np.zeros(2 * len(lanes.tracks), np.bool_)
            grown[: len(self._introduced)] = self._introduced
            self._introduced = grown
        of_process = np.isin(batch.phase, (LONE_INSTANT, COUNTER, ASYNC))
        of_thread = batch.phase == SLICE if self._slices_only else ~of_process & (batch.phase != NOT_WRITTEN)
        out = self._introduce(batch.track[of_thread], thread=True)
        if not self._slices_only and of_process.any():
            out += self._introduce(batch.track[of_process], thread=False)
        return out

    def _introduce(self, tracks: I64, *, thread: bool) -> list[str]:
        here = np.zeros(len(self._introduced), np.bool_)
        here[tracks] = True
        new = np.flatnonzero(here & ~self._introduced)
        self._introduced[new] |= thread
        return [text for track in new.tolist() for text in self.headings.introduce(track, thread=thread)]

    def _row_groups(self, batch: Batch, members: ChromeMembers, texts: list[str]) -> list[_Group]:
        """Return the lines of the rows, without ends and arrows, in groups that have the same columns."""
        present = own_numbers(batch)
        parts: list[Codes | None] = [(batch.phase.view(np.int8), NOT_WRITTEN + 1)]
        if members.present is not None:
            parts.append(_two(members.present))
        # Columns with the same nulls have one mask.
        parts += [_two(mask) for mask in {id(mask): mask for _, mask in present if mask is not None}.values()]
        kinds = _Kinds(*classes(parts, batch.count))
        before = self._texts_before(batch, members, kinds, present, texts)
        groups = []
        for kind, row in enumerate(kinds.first.tolist()):
            phase = int(batch.phase[row])
            if phase == NOT_WRITTEN:
                continue
            rows = np.arange(batch.count) if len(kinds.first) == 1 else np.flatnonzero(kinds.of_row == kind)
            names = [name for name, mask in present if mask is None or mask[row]]
            pieces = number_pieces(batch, names, rows)
            pieces.append(b'},"ts":')
            pieces.append(Micros(batch.ts[rows]))
            if phase == SLICE:
                pieces += [b',"dur":', Micros(batch.dur[rows])]
            elif phase in WITH_ID:
                pieces += [b',"id":', batch.identity[rows]]
            pieces.append(b"},\n")
            groups.append(_Group(rows, 0, [codes[rows] for codes in before], pieces))
        return groups

    def _texts_before(
        self, batch: Batch, members: ChromeMembers, kinds: _Kinds, present: Present, texts: list[str]
    ) -> list[Rows]:
        """Return the opening of each row, its place, and its members where any row has some: as numbers of `texts`."""
        numbers = [any(mask is None or mask[row] for _, mask in present) for row in kinds.first.tolist()]
        has_numbers = np.array(numbers, np.bool_)[kinds.of_row]
        followed = has_numbers if members.present is None else has_numbers | members.present
        before = [self._openings(batch, texts), self._places(batch, followed, texts)]
        if members.present is not None:
            codes = members.codes + len(texts)
            texts += members.texts
            last = members.present & ~has_numbers  # a member is followed by a comma, unless it is the last
            if last.any():
                codes[last] += len(members.texts)
                texts += [text.rstrip(",") for text in members.texts]
            before.append(codes)
        return before

    def _openings(self, batch: Batch, texts: list[str]) -> Rows:
        """Return what each line begins with: phase, kind and name."""
        parts = [value_codes(batch.columns[n]) for n in ("kind", "name")]
        codes, rows = classes([(batch.phase.view(np.int8), NOT_WRITTEN + 1), *parts], batch.count)
        codes = codes + len(texts)
        kind, name = (_json_texts(batch, key, rows) for key in ("kind", "name"))
        for i, phase in enumerate(batch.phase[rows].tolist()):
            texts.append(f'{{{OPENING[phase]},"cat":{kind[i]},"name":{name[i] or EMPTY},')
        return codes

    def _places(self, batch: Batch, followed: Mask, texts: list[str]) -> Rows:
        """Return process and thread of each line, and its args that many lines share. followed: args with more."""
        columns, tracks = batch.columns, self.loader.lanes.tracks
        counters, nameless = batch.phase == COUNTER, ~columns["name"].mask()
        parts: list[Codes | None] = [(batch.track, len(tracks))]
        parts += [_two(mask) if mask.any() and not mask.all() else None for mask in (counters, nameless, followed)]
        parts += [value_codes(columns[n]) for n in ("raw_name", "copy_kind")]
        codes, rows = classes(parts, batch.count)
        codes = codes + len(texts)
        raw, copy = (_json_texts(batch, key, rows) for key in ("raw_name", "copy_kind"))
        masks = (counters[rows].tolist(), nameless[rows].tolist(), followed[rows].tolist())
        for i, (track, is_counter, has_no_name, has_more) in enumerate(
            zip(batch.track[rows].tolist(), *masks, strict=True)
        ):
            args = ""
            if not is_counter:
                args = _lane_args(tracks[track].lane)
                if raw[i]:
                    args += f'"raw_name":{raw[i]},'
                if copy[i]:
                    args += f'"copy_kind":{copy[i]},'
                if has_no_name:
                    args += '"name":null,'
                args = args if has_more else args[:-1]
            texts.append(f'{self.headings.place(track)},"args":{{{args}')
        return codes

    def _add_async_ends(self, batch: Batch, groups: list[_Group], texts: list[str]) -> None:
        """Add the second line of each asynchronous row, at its end."""
        rows = np.flatnonzero(batch.phase == ASYNC)
        if not len(rows):
            return
        known: dict[str, int] = {}
        codes = []
        for row in rows.tolist():
            name, place = batch.text("name", row) or "", self.headings.place(int(batch.track[row]))
            line = f'{{"ph":"e","cat":{quoted(batch.text("kind", row) or "")},"name":{quoted(name)},{place},'
            code = known.setdefault(line, len(texts))
            if code == len(texts):
                texts.append(line)
            codes.append(code)
        pieces: list[Piece] = [b'"id":', batch.identity[rows], b',"ts":']
        pieces += [Micros(batch.ts[rows] + batch.dur[rows]), b"},\n"]
        groups.append(_Group(rows, 1, [np.array(codes)], pieces))

    def _add_arrows(self, batch: Batch, groups: list[_Group], texts: list[str]) -> None:
        """Add an arrow from each launch to each device row with its correlation id, and the points of bound slices."""
        rows, calls, work, keys = launch_columns(batch)
        launching = bool(len(calls) or (len(work) and self.launches.waiting()))
        if not launching:
            self.launches.without += len(work)
        if not launching and not batch.bound:
            return
        slices = batch.slices()
        points = np.zeros(batch.count, np.int64)
        points[slices] = inside_points(batch.ts[slices], batch.dur[slices], batch.track[slices], self.loader.ends)
        if batch.bound:
            self._add_bound(batch, points, groups, texts)
        if not launching:
            return
        tracks = batch.track[rows]
        arrows = self.launches.match(calls, work, keys, points[rows], tracks)
        if not len(arrows.row):
            return
        starts = (2, OPENING[START], arrows.track, arrows.start)
        ends = (3, OPENING[BOUND_END], tracks[arrows.row], arrows.end)
        for order, opening, point_tracks, times in (starts, ends):
            used, codes = np.unique(point_tracks, return_inverse=True)
            pieces: list[Piece] = [b'"id":', arrows.identity, b',"ts":', Micros(times), b"},\n"]
            groups.append(_Group(rows[arrows.row], order, [codes + len(texts)], pieces))
            texts += [f"{{{opening},{HEAD},{self.headings.place(n)}," for n in used.tolist()]

    def _add_bound(self, batch: Batch, points: I64, groups: list[_Group], texts: list[str]) -> None:
        """Add the points of slices with a bind_id. points: shape (n,), the time at which an arrow may touch a slice."""
        rows = np.array(list(batch.bound), np.int64)
        heads = [
            f"{{{OPENING[phase]},{BOUND_HEAD},{self.headings.place(track)},"
            for (phase, _), track in zip(batch.bound.values(), batch.track[rows].tolist(), strict=True)
        ]
        known = {head: code for code, head in enumerate(dict.fromkeys(heads), len(texts))}
        texts += known
        identities = np.array([identity for _, identity in batch.bound.values()])
        pieces: list[Piece] = [b'"id":', identities, b',"ts":', Micros(points[rows]), b"},\n"]
        groups.append(_Group(rows, 1, [np.array([known[head] for head in heads])], pieces))


def _two(mask: Mask) -> Codes:
    """Return a mask as codes, 0 and 1."""
    return mask.view(np.int8), 2


def _assembled(groups: list[_Group], texts: list[str], count: int) -> Iterator[memoryview]:
    """Yield the lines of all groups in order of their rows, in buffers of bounded size."""
    if not groups:
        return
    encoded = [b"", *(text.encode() for text in texts)]
    pool = fixed_rows([(len(g.rows), g.pieces) for g in groups], encoded)
    rows = np.concatenate([g.rows for g in groups])
    order: Rows | None = None
    if len(groups) > 1 and all(g.order == 0 for g in groups):
        slot = np.full(count, -1, np.int64)
        slot[rows] = np.arange(len(rows))
        order = slot[slot >= 0]
    elif len(groups) > 1:
        order = np.argsort(rows * 4 + np.concatenate([np.full(len(g.rows), g.order) for g in groups]), kind="stable")
    pieces = np.zeros((len(rows), 1 + max(len(g.texts) for g in groups)), np.int64)
    pieces[:, -1] = np.arange(len(encoded), len(pool))
    at = 0
    for group in groups:
        for place, codes in enumerate(group.texts):
            pieces[at : at + len(codes), place] = codes
            pieces[at : at + len(codes), place] += 1  # the first text is the empty one
        at += len(group.rows)
    if order is not None:
        pieces = pieces[order]
    for start, end in _chunks(pieces, encoded):
        taken = arrow.take(pool, pieces[start:end].reshape(-1))
        _, ends, data = taken.buffers()
        sizes = arrow.view(ends, np.int32 if taken.type == pa.string() else np.int64)
        yield arrow.view(data, np.uint8)[int(sizes[0]) : int(sizes[len(taken)])].data


def _chunks(pieces: Rows, texts: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the lines whose texts fill one buffer. pieces: of each line, the last one no text."""
    sizes = np.array([len(text) for text in texts])
    if int(sizes.max()) * pieces.shape[1] * CHUNK_LINES <= CHUNK_BYTES:
        for start in range(0, len(pieces), CHUNK_LINES):
            yield start, min(start + CHUNK_LINES, len(pieces))
        return
    upto = np.cumsum(sizes[pieces[:, :-1]].sum(axis=1), dtype=np.int64)
    start = 0
    while start < len(pieces):
        before = int(upto[start - 1]) if start else 0
        end = max(int(np.searchsorted(upto, before + CHUNK_BYTES, "right")), start + 1)
        yield start, end
        start = end


def _json_texts(batch: Batch, name: str, rows: Rows) -> list[str]:
    """Return a text of each of the rows as a JSON string, "" for null; each distinct text is escaped once."""
    column = batch.columns[name]
    if column.all_null:
        return [""] * len(rows)
    codes: list[int] = np.where(column.mask()[rows], column.values[rows], -1).tolist()
    known = {code: quoted(batch.texts[name][code]) if code >= 0 else "" for code in set(codes)}
    return [known[code] for code in codes]


def _lane_args(lane: TrackLane) -> str:
    """Return the args that all rows of a device lane share: HolisticTraceAnalysis and others look for args.stream."""
    if not lane.process.on_device:
        return ""
    known = (("device", lane.process.device), ("context", lane.context), ("stream", lane.stream))
    return "".join(f'"{name}":{value},' for name, value in known if value is not None)
