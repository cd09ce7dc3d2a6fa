"""Rows become lines of a trace: those alike are built together, then put back in order.

A line is a prefix (phase, cat, name, pid, tid and the args that few distinct texts hold: built once for all rows that
agree in them), sometimes a text of its own (the row's args), and a tail of numbers of fixed width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.schema import API_CALLS, DEVICE_WORK
from tracekit.trace import Run
from tracekit.writers.base import Written
from tracekit.writers.chrome._arrows import HEAD, Launches, inside_points
from tracekit.writers.chrome._batch import (
    ASYNC,
    BOUND_END,
    COUNTER,
    LEFT_OUT,
    LONE_INSTANT,
    NUMBERS,
    OPENING,
    SHAPES,
    SLICE,
    START,
    WITH_ID,
    Batch,
    Loader,
    among,
)
from tracekit.writers.chrome._codes import Mask, Part, agreeing, part
from tracekit.writers.chrome._digits import Micros, Piece, fixed_rows
from tracekit.writers.chrome._lanes import Lane
from tracekit.writers.chrome._text import quoted

I64 = npt.NDArray[np.int64]

CHUNK_BYTES = 1 << 25
"""Lines put together at once, at most: a batch of long names is written in several pieces."""
EMPTY = '""'
_DEVICE_SIDE = ("device", "context", "stream")


@dataclass(slots=True)
class _Group:
    """Lines built alike. rows: row of each line. place: order among the lines of a row. codes: prefix of each line."""

    rows: I64
    place: int
    codes: I64
    pieces: list[Piece]


class Rows:
    """Turns tables in order of start into lines; keeps what spans tables: lanes, open slices, pending launches."""

    def __init__(self, run: Run, written: Written, *, slices_only: bool) -> None:
        self.loader = Loader(run, written)
        self.launches = Launches()
        self.lines = 0
        self._written = written
        self._slices_only = slices_only
        self._introduced = np.zeros(0, np.bool_)

    def chunks(self, table: pa.Table) -> Iterator[Any]:
        """Give buffers of whole lines, each line ending with a comma and a newline. table: one chunk a column."""
        batch = self.loader.load(table)
        if batch is None:
            return
        prefixes: list[str] = []
        groups = self._row_groups(batch, prefixes)
        self._written.events += sum(len(g.rows) for g in groups)
        self._add_async_ends(batch, groups, prefixes)
        self._add_arrows(batch, groups, prefixes)
        self.loader.carry(batch)
        new = self._introductions(batch)
        if new:
            self.lines += len(new)
            yield "".join(new).encode()
        self.lines += sum(len(g.rows) for g in groups)
        yield from _assembled(groups, prefixes, batch.members, batch.count)

    def _introductions(self, batch: Batch) -> list[str]:
        """Return the M events of tracks that appear; speedscope stumbles over a lane that has a name but no slice."""
        lanes = self.loader.lanes
        if len(self._introduced) < len(lanes.tracks):
            grown = np.zeros(2 * len(lanes.tracks), np.bool_)
            grown[: len(self._introduced)] = self._introduced
            self._introduced = grown
        whole = np.isin(batch.phase, (LONE_INSTANT, COUNTER, ASYNC))
        own = batch.phase == SLICE if self._slices_only else ~whole & (batch.phase != LEFT_OUT)
        out = self._tell(batch.track[own], thread=True)
        if not self._slices_only and whole.any():
            out += self._tell(batch.track[whole], thread=False)
        return out

    def _tell(self, tracks: I64, *, thread: bool) -> list[str]:
        here = np.zeros(len(self._introduced), np.bool_)
        here[tracks] = True
        new = np.flatnonzero(here & ~self._introduced)
        self._introduced[new] |= thread
        return [text for track in new.tolist() for text in self.loader.lanes.tell(track, thread=thread)]

    def _row_groups(self, batch: Batch, prefixes: list[str]) -> list[_Group]:
        """Return the lines of the rows themselves, in groups that have the same columns."""
        present = _present(batch)
        whole: list[Part | None] = [(batch.phase, LEFT_OUT + 1)]
        if batch.has_members is not None:
            whole.append((batch.has_members, 2))
        whole += [(mask, 2) for _, mask in present if mask is not None]
        kinds, first = agreeing(whole, batch.count)
        prefix_codes = self._prefix_codes(batch, kinds, len(first), present, first, prefixes)
        groups = []
        for kind, row in enumerate(first.tolist()):
            phase = int(batch.phase[row])
            if phase == LEFT_OUT:
                continue
            rows = np.arange(batch.count) if len(first) == 1 else np.flatnonzero(kinds == kind)
            names = [name for name, mask in present if mask is None or mask[row]]
            pieces = _numbers(batch, names, rows)
            pieces.append(b'},"ts":')
            pieces.append(Micros(batch.ts[rows]))
            if phase == SLICE:
                pieces += [b',"dur":', Micros(batch.dur[rows])]
            elif phase in WITH_ID:
                pieces += [b',"id":', batch.identity[rows]]
            pieces.append(b"},\n")
            groups.append(_Group(rows, 0, prefix_codes[rows], pieces))
        return groups

    def _prefix_codes(
        self, batch: Batch, kinds: I64, size: int, present: list[tuple[str, Mask | None]], first: I64,
        prefixes: list[str],
    ) -> I64:  # fmt: skip
        """Return the prefix of each row, building each once."""
        columns, tracks = batch.columns, self.loader.lanes.tracks
        numbers = [any(mask is None or mask[row] for _, mask in present) for row in first.tolist()]
        more = np.array(numbers, np.bool_)[kinds]
        parts: list[Part | None] = [(batch.phase, LEFT_OUT + 1), (batch.track, len(tracks))]
        if size > 1:
            parts.append((more, 2))
        has_own = batch.has_members
        if has_own is not None:
            parts.append((has_own, 2))
        parts += [part(columns[n]) for n in ("kind", "name", "raw_name", "copy_kind")]
        codes, rows = agreeing(parts, batch.count)
        phases, on = batch.phase[rows].tolist(), batch.track[rows].tolist()
        followed = (more[rows] if has_own is None else more[rows] | has_own[rows]).tolist()
        middles = {n: f'{self.loader.lanes.place(n)},"args":{{' for n in set(on)}
        lane_args = {n: _lane_args(tracks[n].lane) for n in set(on)}
        kind, name, raw, copy = (_members(batch, key, rows) for key in ("kind", "name", "raw_name", "copy_kind"))
        for i, (phase, track) in enumerate(zip(phases, on, strict=True)):
            line = f'{{{OPENING[phase]},"cat":{kind[i]},"name":{name[i] or EMPTY},{middles[track]}'
            if phase != COUNTER:
                args = lane_args[track]
                if raw[i]:
                    args += f'"raw_name":{raw[i]},'
                if copy[i]:
                    args += f'"copy_kind":{copy[i]},'
                if not name[i]:
                    args += '"name":null,'
                line += args if followed[i] else args[:-1]
            prefixes.append(line)
        if has_own is not None:  # a member of args is followed by a comma, unless it is the last
            bare = has_own & ~more
            if bare.any():
                ended = pc.utf8_rtrim(batch.members, ",")
                batch.members = pc.if_else(pa.array(bare), ended, batch.members)
        return codes

    def _add_async_ends(self, batch: Batch, groups: list[_Group], prefixes: list[str]) -> None:
        """Give each asynchronous row its second line, at its end."""
        rows = np.flatnonzero(batch.phase == ASYNC)
        if not len(rows):
            return
        known: dict[str, int] = {}
        codes = []
        for row in rows.tolist():
            name, place = batch.text("name", row) or "", self.loader.lanes.place(int(batch.track[row]))
            line = f'{{"ph":"e","cat":{quoted(batch.text("kind", row) or "")},"name":{quoted(name)},{place},'
            code = known.setdefault(line, len(prefixes))
            if code == len(prefixes):
                prefixes.append(line)
            codes.append(code)
        pieces: list[Piece] = [b'"id":', batch.identity[rows], b',"ts":']
        pieces += [Micros(batch.ts[rows] + batch.dur[rows]), b"},\n"]
        groups.append(_Group(rows, 1, np.array(codes), pieces))

    def _add_arrows(self, batch: Batch, groups: list[_Group], prefixes: list[str]) -> None:
        """Draw an arrow from each launch to each device row of its correlation id."""
        columns, kinds = batch.columns, batch.texts["kind"]
        rows = np.flatnonzero((batch.phase == SLICE) & columns["correlation"].mask())
        kind = columns["kind"].values[rows]
        calls = {n for n, k in enumerate(kinds) if k in API_CALLS}
        work = {n for n, k in enumerate(kinds) if k in DEVICE_WORK}
        calling = np.flatnonzero(among(kind, calls, len(kinds)))
        working = np.flatnonzero(among(kind, work, len(kinds)))
        if not len(calling) and (not len(working) or not self.launches.waiting()):
            self.launches.without += len(working)
            return
        slices = batch.slices()
        points = np.zeros(batch.count, np.int64)
        points[slices] = inside_points(batch.ts[slices], batch.dur[slices], batch.track[slices], self.loader.ends)
        pid, source = columns["pid"], columns["source"].values
        keys = np.column_stack(
            [x[rows].astype(np.int64) for x in (source, pid.values, pid.mask(), columns["correlation"].values)]
        )
        tracks = batch.track[rows]
        arrows = self.launches.match(calling, working, keys, points[rows], tracks)
        if not len(arrows.row):
            return
        at = rows[arrows.row]
        for place, opening, on, when in (
            (2, OPENING[START], arrows.track, arrows.start), (3, OPENING[BOUND_END], tracks[arrows.row], arrows.end)
        ):  # fmt: skip
            used, codes = np.unique(on, return_inverse=True)
            pieces: list[Piece] = [b'"id":', arrows.identity, b',"ts":', Micros(when), b"},\n"]
            groups.append(_Group(at, place, codes + len(prefixes), pieces))
            prefixes += [f"{{{opening},{HEAD},{self.loader.lanes.place(n)}," for n in used.tolist()]


def _present(batch: Batch) -> list[tuple[str, Mask | None]]:
    """Return the columns of numbers that some rows write, and which do (None: all of them).

    What the lane says already is not among them.
    """
    out: list[tuple[str, Mask | None]] = []
    some_host = not batch.on_device.all()
    for name in NUMBERS:
        col = batch.columns[name]
        if col.none:
            continue
        mask = col.valid
        if name in _DEVICE_SIDE:
            if not some_host:
                continue
            mask = ~batch.on_device if mask is None else mask & ~batch.on_device
        elif name == "tid":
            mask = batch.on_device if mask is None else mask & batch.on_device
        if mask is None or mask.any():
            out.append((name, mask))
    return out


def _numbers(batch: Batch, names: list[str], rows: I64) -> list[Piece]:
    """Return the pieces of the columns of numbers, commas between them; launch shapes as [x,y,z]."""
    pieces: list[Piece] = []
    rest = list(names)
    while rest:
        name = rest[0]
        key, columns = name, [name]
        for shape, parts in SHAPES:
            if name == parts[0] and tuple(rest[:3]) == parts:
                key, columns = shape, list(parts)
        values = [batch.columns[c].values[rows] for c in columns]
        pieces.append(f'{"," if pieces else ""}"{key}":{"[" if len(values) > 1 else ""}'.encode())
        pieces.append(values[0])
        for value in values[1:]:
            pieces += [b",", value]
        if len(values) > 1:
            pieces.append(b"]")
        rest = rest[len(columns) :]
    return pieces


def _assembled(groups: list[_Group], prefixes: list[str], own: pa.Array | None, count: int) -> Iterator[Any]:
    """Give the lines of all groups in order of their rows, in buffers of bounded size."""
    if not groups:
        return
    tails = fixed_rows([(len(g.rows), g.pieces) for g in groups])
    codes = np.concatenate([g.codes for g in groups])
    rows = np.concatenate([g.rows for g in groups])
    order: I64 | None = None
    if len(groups) > 1 and all(g.place == 0 for g in groups):
        slot = np.full(count, -1, np.int64)
        slot[rows] = np.arange(len(rows))
        order = slot[slot >= 0]
    elif len(groups) > 1:
        order = np.argsort(rows * 4 + np.concatenate([np.full(len(g.rows), g.place) for g in groups]), kind="stable")
    texts: pa.Array | None = None
    if own is not None:
        texts = own.take(pa.array(rows))
        if any(g.place for g in groups):
            first = np.concatenate([np.full(len(g.rows), g.place == 0) for g in groups])
            texts = pc.if_else(pa.array(first), texts, "")
    if order is not None:
        codes, tails = codes[order], tails.take(pa.array(order))
        texts = None if texts is None else texts.take(pa.array(order))
    heads = pa.array(prefixes, pa.string())
    sizes = pc.binary_length(heads).to_numpy()[codes]
    if texts is not None:
        sizes = sizes + pc.binary_length(texts).to_numpy()
    upto = np.cumsum(sizes, dtype=np.int64)
    start = 0
    while start < len(codes):
        before = int(upto[start - 1]) if start else 0
        end = max(int(np.searchsorted(upto, before + CHUNK_BYTES, "right")), start + 1)
        columns = [heads.take(pa.array(codes[start:end]))]
        if texts is not None:
            columns.append(texts.slice(start, end - start))
        joined = pc.binary_join_element_wise(*columns, tails.slice(start, end - start), "")
        offsets = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1)
        yield memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
        start = end


def _members(batch: Batch, name: str, rows: I64) -> list[str]:
    """Return the JSON string of a text of each of the rows, "" for null; each distinct text is escaped once."""
    col = batch.columns[name]
    if col.none:
        return [""] * len(rows)
    codes = np.where(col.mask()[rows], col.values[rows], -1).tolist()
    known = {code: quoted(batch.texts[name][code]) if code >= 0 else "" for code in set(codes)}
    return [known[code] for code in codes]


def _lane_args(lane: Lane) -> str:
    """Return what the lane says of its rows: HolisticTraceAnalysis and others look for args.stream."""
    if not lane.process.on_device:
        return ""
    known = (("device", lane.process.device), ("context", lane.context), ("stream", lane.stream))
    return "".join(f'"{name}":{value},' for name, value in known if value is not None)
