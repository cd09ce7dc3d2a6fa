"""Several files in place of one: pieces by step, rank, time, number of events or size, and an index of them.

`run.json.gz` becomes `run.0001.json.gz`, `run.0002.json.gz` ... and `run.index.json`. Each event starts in one piece.
One that is open at a cut ends there and goes on in the next piece; all its parts have the whole event in args.cut.
Pieces by rank are not cut. The index has for each piece its file, bytes, times, the events that start in it and the
parts that go on in it. It is written last: with it, all pieces are there.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from tracekit.errors import NamedPath, Option, OutputError, OutputExistsError, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.trace import Run
from tracekit.writers.base import WITH_O, RowStream, WriteOptions, Writer, Written, new_file
from tracekit.writers.json_text import facts_json
from tracekit.writers.split.plan import (
    MOST_PIECES,
    ROWS,
    Split,
    StoredPieces,
    cuts_by_time,
    folder_beside,
    ranks,
    refuse_many,
    starts_of_steps,
)

__all__ = ["pieces"]

# Cuts: an event that is open at a cut ends there, and goes on in the next piece.
#
# Both parts have a member `cut` in their args: start and duration of the whole event, and the number of the part from
# 1. So the durations of all parts are that of the event, and each event has one part with number 1.


@dataclass(frozen=True, slots=True)
class Open:
    """Events that are open at a cut: rows as they were read, and the number of the part that comes next.

    rows: None without any. part: shape (n,).
    """

    rows: pa.Table | None = None
    part: I64 = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(slots=True)
class Piece:
    """One piece: its events from a row on, up to a cut (None: to the end). The counts are complete once it is read.

    events: events that start in it. continued: parts of events that start before it. cut: parts that the end cuts.
    """

    stored: StoredPieces
    row: int
    start_ns: int
    cut_ns: int | None
    opened: Open
    events: int = 0
    continued: int = 0
    cut: int = 0
    left_open: Open = field(default_factory=Open)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order of start."""
        self.events, self.continued, self.cut = 0, 0, 0
        left: list[tuple[pa.Table, I64]] = []
        held: list[tuple[pa.Table, I64]] = []
        if self.opened.rows is not None:
            self.continued = self.opened.rows.num_rows
            held.append((self.opened.rows, self.opened.part))
        for batch in self.stored.events(self.row):
            ts = arrow.ints(batch.column("ts_ns"))
            count = len(ts) if self.cut_ns is None else int(np.searchsorted(ts, self.cut_ns))
            self.events += count
            if count:
                held.append((pa.Table.from_batches([batch.slice(0, count)]), np.ones(count, np.int64)))
            # Events that start with the piece may last longer than events that go on in it, and then come before them.
            if count < len(ts) or (count and int(ts[count - 1]) > self.start_ns):
                yield from self._parts(held, left)
                held = []
            if count < len(ts):
                break
        yield from self._parts(held, left)
        self.cut = sum(len(part) for _, part in left)
        if left:
            rows = pa.concat_tables([rows for rows, _ in left]).unify_dictionaries()
            self.left_open = Open(rows, np.concatenate([part for _, part in left]))
        else:
            self.left_open = Open()

    def _parts(self, held: list[tuple[pa.Table, I64]], left: list[tuple[pa.Table, I64]]) -> Iterator[pa.RecordBatch]:
        """Yield the parts of rows that lie in the piece; what goes on after it is added to `left`."""
        if not held:
            return
        table = pa.concat_tables([rows for rows, _ in held]).unify_dictionaries().combine_chunks()
        part = np.concatenate([number for _, number in held])
        begin = arrow.ints(table.column("ts_ns"))
        lasting = arrow.ints(table.column("dur_ns"))
        start = np.maximum(begin, self.start_ns)
        stop = begin + lasting
        goes_on = np.zeros(len(part), np.bool_)
        if self.cut_ns is not None:
            goes_on = stop > self.cut_ns
            left.append((table.filter(arrow.array(goes_on)), part[goes_on] + 1)) if goes_on.any() else None
            stop = np.minimum(stop, self.cut_ns)
        changed = goes_on | (part > 1)
        if not changed.any():
            yield from table.to_batches()
            return
        dur = np.where(changed, stop - start, lasting)
        table = arrow.with_column(table, "ts_ns", arrow.array(start))
        missing = ~arrow.valid(table.column("dur_ns"))
        table = arrow.with_column(table, "dur_ns", arrow.array(dur, mask=missing))
        table = arrow.with_column(
            table, "args", _marked(table.column("args").combine_chunks(), changed, begin, lasting, part)
        )
        order = np.lexsort((-np.where(missing, -1, dur), start))
        yield from arrow.take(table, order).combine_chunks().to_batches()


def _marked(args: Column, changed: Mask, begin: I64, lasting: I64, part: I64) -> Column:
    """Return args with a member `cut` where `changed`. What is not a JSON object becomes its member args_text."""
    rows = np.flatnonzero(changed)
    out: list[str] = []
    for row, text in zip(rows.tolist(), arrow.optional_texts(arrow.take(args, rows)), strict=True):
        cut = f'"cut":{{"ts_ns":{begin[row]},"dur_ns":{lasting[row]},"part":{part[row]}}}'
        body = (text or "{}").strip()
        if not (body.startswith("{") and body.endswith("}")):
            body = f'{{"args_text":{orjson.dumps(body).decode()}}}'
        rest = body[1:-1].strip()
        out.append(f"{{{cut},{rest}}}" if rest else f"{{{cut}}}")
    place = np.full(len(changed), -1, np.int64)
    place[rows] = np.arange(len(rows))
    texts = arrow.array(out, pa.string()).take(arrow.array(place, mask=place < 0))
    return pc.if_else(arrow.array(changed), texts, args)


TARGETS = ("chrome", "csv", "firefox", "jsonl", "parquet", "perfetto", "speedscope")
"""Targets whose files make sense in pieces: they have a place for each event of the timeline."""
_AIM = 0.9
"""Part of the wanted size that a piece is planned to have."""


def pieces(writer: Writer, how: Split) -> Writer:
    """Return a writer that writes pieces and an index. Raises: UsageError for a target without events of a timeline."""
    if writer.name not in TARGETS:
        hint = sentence(Option("to"), f" one of: {', '.join(TARGETS)}")
        raise UsageError(sentence(Option("split"), f": {writer.name} is written whole"), hint=hint, choices=TARGETS)

    def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
        return _Splitter(writer, how, stream, target, options).write()

    return replace(writer, write=write)


@dataclass(slots=True)
class _PieceEntry:
    """A piece that is written. times: its first and last ns. counts: events that start, go on, and are cut in it.

    label: its step or rank.
    """

    file: str
    bytes: int
    times: tuple[int | None, int | None]
    counts: tuple[int, int, int]
    label: dict[str, int | str | None]
    written: Written

    @property
    def events(self) -> int:
        """The events that start in it."""
        return self.counts[0]

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        names = ("from_ns", "to_ns", "events", "continued", "cut")
        numbers = zip(names, (*self.times, *self.counts), strict=True)
        return {"file": self.file, "bytes": self.bytes, **dict(numbers), **self.label}


@dataclass(slots=True)
class _Splitter:
    writer: Writer
    how: Split
    stream: RowStream
    target: Path
    options: WriteOptions
    entries: list[_PieceEntry] = field(default_factory=list)

    def write(self) -> Written:
        """Write all pieces into a folder beside the target, move them to their names, then write the index.

        Raises: OutputExistsError, OutputError, UsageError.
        """
        index = self.target.with_name(f"{self._stem()}.index.json")
        if index.exists() and not self.options.force:
            raise OutputExistsError(str(index))
        with folder_beside(self.target) as folder:
            with StoredPieces(self.target) as stored:
                for batch in self.stream.batches:
                    stored.add(batch)
                self._write_all(stored, folder)
            return self._publish(folder, index)

    def _suffix(self) -> str:
        name = self.target.name
        known = [suffix for suffix in self.writer.suffixes if name.lower().endswith(suffix)]
        packed = [".json.gz"] if name.lower().endswith(".json.gz") else []
        length = max(map(len, [*known, *packed, self.target.suffix]))
        return name[len(name) - length :]

    def _stem(self) -> str:
        name = self.target.name
        return name[: len(name) - len(self._suffix())] or name

    def _name(self, number: int) -> str:
        return f"{self._stem()}.{number:04d}{self._suffix()}"

    def _write_all(self, stored: StoredPieces, folder: Path) -> None:
        if self.how.by == "rank" and stored.rows:
            for rank in ranks(stored):
                self._write_rank(stored, folder, rank)
            return
        labels: dict[int, str] = {}
        cut_after = self._by_count(stored)
        if stored.rows and self.how.by in ("time", "step"):
            labels = starts_of_steps(stored) if self.how.by == "step" else {}
            cuts = [at for at in labels if at > stored.first_ns] if labels else cuts_by_time(stored, self.how.amount)
            ahead = iter(cuts)
            cut_after = lambda _: next(ahead, None)  # noqa: E731
        row, start, opened = 0, stored.first_ns, Open()
        while True:
            label: dict[str, int | str | None] = {}
            if labels:
                label = {"step": labels.get(start)}
            if self.how.by == "mb":
                piece = self._write_sized(stored, folder, row, start, opened)
            else:
                piece = Piece(stored, row, start, cut_after(row), opened)
                self._write_piece(folder, piece, label)
            if piece.cut_ns is None:
                return
            row, start, opened = row + piece.events, piece.cut_ns, piece.left_open

    def _by_count(self, stored: StoredPieces) -> Callable[[int], int | None]:
        """Return what gives the cut of a piece from its first row."""
        if self.how.by == "events":
            most = self.how.amount
            refuse_many(stored.rows // most, Option("split", f"events={most}"), "name a larger number")
            return lambda row: stored.time_after(row + most) if row + most < stored.rows else None
        return lambda _: None

    def _write_sized(self, stored: StoredPieces, folder: Path, row: int, start: int, opened: Open) -> Piece:
        """Write a piece that has at most the wanted size; it is written again, shorter, until it has.

        A piece whose events all start at one instant may be larger: there is no time to cut it at.
        """
        before = self.entries[-1] if self.entries else None
        count = ROWS
        if before is not None and before.bytes:
            count = max(int(before.events * self.how.amount * _AIM / before.bytes), 1)
        fits = 0
        while True:
            cut = stored.time_after(row + count) if row + count < stored.rows else None
            piece = Piece(stored, row, start, cut, opened)
            self._write_piece(folder, piece, {})
            size = self.entries[-1].bytes
            shorter = max(int(min(count, piece.events) * self.how.amount * _AIM / max(size, 1)), 1)
            if size > self.how.amount and piece.events > 1 and shorter < min(count, piece.events):
                if stored.time_after(row + shorter) == cut:  # all at one instant
                    return piece
                count = shorter
            elif before is None and not fits and cut is not None and size < self.how.amount // 2:
                count, fits = shorter, 1  # the first piece was a guess
            else:
                return piece
            self.entries.pop()

    def _write_piece(self, folder: Path, piece: Piece, label: dict[str, int | str | None]) -> None:
        written, size = self._write_rows(folder, piece.stored, piece.batches())
        to_ns = piece.cut_ns if piece.cut_ns is not None else max(piece.stored.last_ns, piece.start_ns)
        times = (piece.start_ns, to_ns) if piece.stored.rows else (None, None)
        name = self._name(len(self.entries) + 1)
        counts = piece.events, piece.continued, piece.cut
        self.entries.append(_PieceEntry(name, size, times, counts, label, written))

    def _write_rank(self, stored: StoredPieces, folder: Path, rank: int | None) -> None:
        events = 0
        first: int | None = None
        last: int | None = None

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal events, first, last
            for batch in stored.events():
                of_rank = pc.is_null(batch.column("rank")) if rank is None else pc.equal(batch.column("rank"), rank)
                kept = batch.filter(of_rank)
                if not kept.num_rows:
                    continue
                events += kept.num_rows
                starts = arrow.ints(kept.column("ts_ns"))
                ends = starts + arrow.ints(kept.column("dur_ns")).clip(0)
                first = int(starts[0]) if first is None else first
                last = int(ends.max()) if last is None else max(last, int(ends.max()))
                yield kept

        written, size = self._write_rows(folder, stored, rows())
        name = self._name(len(self.entries) + 1)
        self.entries.append(_PieceEntry(name, size, (first, last), (events, 0, 0), {"rank": rank}, written))

    def _write_rows(self, folder: Path, stored: StoredPieces, rows: Iterator[pa.RecordBatch]) -> tuple[Written, int]:
        number = len(self.entries) + 1
        if number > MOST_PIECES:
            refuse_many(number, Option("split", self.how.text), "name a larger size")
        path = folder / self._name(number)
        batches = chain(stored.totals(), rows) if number == 1 else rows
        stream = RowStream(self.stream.run, batches, self.stream.ledgers)
        written = self.writer.write(stream, path, replace(self.options, force=True))
        for _ in batches:  # the counts of a piece are complete when all its rows were taken
            pass
        return written, path.stat().st_size

    def _publish(self, folder: Path, index: Path) -> Written:
        """Move the pieces to their names and write the index. Pieces of an index that is replaced are removed."""
        names = [entry.file for entry in self.entries]
        finals = [self.target.with_name(name) for name in names]
        for final in finals:
            _refuse_input(final, self.stream.run)
            if final.exists() and not self.options.force:
                raise OutputExistsError(str(final))
        stale = self._stale(index) - set(names)
        written = self._summary(index)
        with _taken_back_on_failure(folder) as (set_aside, give):
            set_aside(index)  # first: an index is never beside pieces of another run
            for name in stale:
                set_aside(self.target.with_name(name))
            for name, final in zip(names, finals, strict=True):
                set_aside(final)
                give(folder / name, final)
            with new_file(index, force=self.options.force) as file:
                file.write(self._index_text(written).encode())
        return written

    def _stale(self, index: Path) -> set[str]:
        """Return the pieces that an index of ours lists, by the names that we give."""
        try:
            listed = json.loads(index.read_bytes())["pieces"]
            names = {str(entry["file"]) for entry in listed}
        except (OSError, ValueError, KeyError, TypeError):
            return set()
        ours = re.compile(re.escape(self._stem()) + r"\.\d{4}\.[A-Za-z.]+")
        return {name for name in names if ours.fullmatch(name)}

    def _summary(self, index: Path) -> Written:
        written = Written(index)
        counts: dict[str, int] = {}
        for entry in self.entries:
            written.events += entry.written.events - entry.counts[1]
            written.totals += entry.written.totals
            for reason, count in entry.written.left_out.items():
                written.leave_out(reason, count)
            written.explained |= entry.written.explained
            for note in entry.written.notes:
                number = re.match(r"[\d,]+ ", note)
                text = note[number.end() :] if number else note
                counts[text] = counts.get(text, 0) + (int(number[0].replace(",", "")) if number else 0)
        names = [entry.file for entry in self.entries]
        written.notes.append(f"{len(names):,} pieces: {names[0]} to {names[-1]}; {index.name} lists them")
        cut = sum(entry.counts[2] for entry in self.entries)
        if cut:
            written.notes.append(
                f"{cut:,} times an event goes on in the next piece: each part has the whole in args.cut"
            )
        written.notes += [f"{count:,} {text}" if count else text for text, count in counts.items()]
        return written

    def _index_text(self, written: Written) -> str:
        run = self.stream.run
        facts = {
            "tracekit": self.options.version,
            "split": self.how.text,
            "target": self.writer.name,
            "clock": "not stated" if run.origin_ns is None else "unix epoch",
            "origin_ns": run.origin_ns,
            "sources": [source.to_json() for source in run.sources],
            "events": sum(entry.events for entry in self.entries),
            "left_out": dict(sorted(written.left_out.items())),
            "ledger": [ledger.to_json() for ledger in self.stream.ledgers],
        }
        lines = ",\n".join(facts_json(entry.to_json()) for entry in self.entries)
        return f'{facts_json(facts)[:-1]},"pieces":[\n{lines}\n]}}\n'


@contextlib.contextmanager
def _taken_back_on_failure(folder: Path) -> Iterator[tuple[Callable[[Path], None], Callable[[Path, Path], None]]]:
    """Yield two functions: one moves an older file out of the way, the other gives a new one its name.

    If the block fails, the new files are removed, and the older ones are back. folder: keeps them meanwhile.
    """
    older: list[tuple[Path, Path]] = []
    given: list[Path] = []

    def set_aside(path: Path) -> None:
        if path.exists():
            older.append((folder / f"old-{len(older)}", path))
            path.replace(older[-1][0])

    def give(made: Path, path: Path) -> None:
        given.append(path)
        made.replace(path)

    try:
        yield set_aside, give
    except BaseException:
        for path in given:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        for kept, path in older:
            with contextlib.suppress(OSError):
                kept.replace(path)
        raise


def _refuse_input(final: Path, run: Run) -> None:
    """Refuse to replace an input by a piece."""
    for source in run.sources:
        name = source.opened or source.path
        if "://" not in name and Path(name).exists() and final.exists() and final.samefile(name):
            text = sentence(NamedPath(str(final)), " is an input and cannot be replaced")
            raise OutputError(text, hint=sentence("choose another name", WITH_O))
