"""A stream of events as an archive: by location, in order of time, and the facts behind it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import _otf2
import numpy as np
import numpy.typing as npt

from tracekit.errors import NamedPath, OutputError, OutputExistsError, sentence
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column
from tracekit.model.schema import API_CALLS, USER_RANGES, Kind
from tracekit.model.trace import Run
from tracekit.safety.unfinished import unfinished_folder
from tracekit.writers.base import WITH_O, RowStream, WriteOptions, Written, cannot_write
from tracekit.writers.json_text import facts_json
from tracekit.writers.tracks.batch import (
    COUNTER,
    INSTANT,
    LONE_INSTANT,
    NOT_WRITTEN,
    SLICE,
    Batch,
    Loader,
    event_tables,
)
from tracekit.writers.tracks.lanes import Track, TrackLanes, TrackProcess
from tracekit.writers.tracks.nested import EVENTS, CounterNumbers, NestedEvents
from tracekit.writers.tracks.output import Spool, file_facts, title

# Enters, leaves and values of metrics on their way through the spool, as rows of bytes.


VALUES = 1
"""The part of the spool that holds the values of metrics, by process."""
# The spool takes the last byte of all rows off, so each row ends with one that says nothing.
EVENT = np.dtype([("at", "<i8"), ("what", "<i8"), ("end", "S1")])
"""what: twice the number of the region, and 1 more for a leave."""
VALUE = np.dtype([("at", "<i8"), ("metric", "<i8"), ("value", "<f8"), ("end", "S1")])

Rows: TypeAlias = npt.NDArray[np.void]


def event_texts(frame: I64, start: I64 | None, end: I64 | None) -> Column:
    """Return the enter of each slice, its leave, or both where nothing is between."""
    times = [(time, leave) for leave, time in enumerate((start, end)) if time is not None]
    rows = np.zeros((len(frame), len(times)), EVENT)
    for place, (time, leave) in enumerate(times):
        rows["at"][:, place], rows["what"][:, place] = time, 2 * frame + leave
    return _column(rows.reshape(-1), len(frame))


def _column(rows: Rows, count: int) -> Column:
    size = rows.nbytes // count
    return arrow.text_column(np.arange(0, rows.nbytes + 1, size, dtype=np.int32), rows.view(np.uint8))


class Values:
    """Writes the values of counters to a spool, by process."""

    def __init__(self, spool: Spool, lanes: TrackLanes) -> None:
        self.names = CounterNumbers(lanes)
        self.with_more = 0
        """Values with args, which a metric cannot hold."""
        self._spool = spool
        self._lanes = lanes

    def add(self, batch: Batch) -> int:
        """Write the values of a batch and return how many they are."""
        chosen = np.flatnonzero(batch.phase == COUNTER)
        if not len(chosen):
            return 0
        tracks = self._lanes.tracks
        processes = np.array([track.lane.process.number for track in tracks], np.int64)[batch.track[chosen]]
        order = np.argsort(processes, kind="stable")
        chosen, processes = chosen[order], processes[order]
        self.with_more += int(np.count_nonzero(arrow.valid(batch.args)[chosen]))
        rows = np.zeros(len(chosen), VALUE)
        rows["at"], rows["value"] = batch.ts[chosen], batch.value[chosen]
        rows["metric"] = self.names.of(batch, chosen)
        self._spool.add(VALUES, processes, _column(rows, len(rows)))
        return len(chosen)


class Replay:
    """A file for rows from the spool: each piece is handed on as an array."""

    def __init__(self, form: np.dtype[Any], play: Callable[[Rows], None]) -> None:
        self._form = form
        self._play = play

    def write(self, data: bytes | memoryview, /) -> int:
        """Play the rows and return the number of bytes."""
        missing = -len(data) % self._form.itemsize
        self._play(np.frombuffer(bytes(data) + bytes(missing), self._form))
        return len(data)


# The folder of an archive: complete or not there, and never in the place of anything but an archive of ours.


CREATOR = "tracekit"
"""How the creator in the anchor file of our archives begins."""
NAME = "traces"
"""The name of the anchor file and of the others, which other writers of OTF2 use too."""
FACTS = "tracekit.json"
_FILES = {f"{NAME}.otf2", f"{NAME}.def", NAME, FACTS}
_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""
_LOCATION = re.compile(r"\d+\.(evt|def)")


@contextlib.contextmanager
def new_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """Yield a new folder beside the target. It gets the target's name if the block succeeds, and is removed otherwise.

    Raises: OutputExistsError without force; OutputError where the target is anything but an archive of ours, or the
    disk is full or the like. An archive that was at the target before survives every failure.
    """
    named, target = target, target.resolve() if target.is_symlink() else target
    if target.exists():
        if not force:
            raise OutputExistsError(str(named))
        try:
            ours = _is_ours(target)
        except OSError as err:
            raise cannot_write(target, err) from err
        if not ours:
            raise OutputError(
                sentence(NamedPath(str(named)), " is not an OTF2 archive of tracekit, so it is not replaced"),
                hint=sentence("remove it yourself, or choose another name", WITH_O),
            )
    try:
        with unfinished_folder(target) as part:
            inside = part.path / "new"  # it has the usual mode, the folder around it is private
            inside.mkdir()
            yield inside
            _take_name(inside, target, named, force=force)
    except OSError as err:
        raise cannot_write(target, err) from err


def _take_name(made: Path, target: Path, named: Path, *, force: bool) -> None:
    """Give the finished folder its name; an older one goes into the folder around it. Raises: OSError, OutputError."""
    old = made.with_name("old")
    if force and target.exists():
        if _exchange(made, target):
            return
        target.rename(old)
    try:
        made.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        if target.exists():
            raise OutputExistsError(str(named)) from None
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, so that there is always one under each name. Return False where none can."""
    import ctypes

    try:
        call = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder has the files of an archive of ours, and nothing else. Raises: OSError."""
    anchor, events = folder / f"{NAME}.otf2", folder / NAME
    try:
        return (
            {each.name for each in folder.iterdir()} <= _FILES
            and CREATOR.encode() in anchor.read_bytes()
            and all(_LOCATION.fullmatch(each.name) for each in (events.iterdir() if events.exists() else ()))
        )
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False


# An archive that is being written: the calls of the library, and the numbers of its texts.


_CHUNK = 1 << 20
"""Bytes of events in memory; OTF2 writes them when so many are there."""
NONE = _otf2.UNDEFINED_UINT32.value
"""The number of a parent or text that is not there."""


def _flush(*_: object) -> Any:
    return _otf2.FLUSH


class Archive:
    """Writes an archive: first the events of each location, then the definitions."""

    def __init__(self, folder: Path, version: str) -> None:
        try:
            str(folder).encode()
        except UnicodeEncodeError as err:
            raise OutputError("OTF2 needs a path in UTF-8", path=folder.parent, hint="choose another folder") from err
        posix, plain = _otf2.SUBSTRATE_POSIX, _otf2.COMPRESSION_NONE
        self._handle = _otf2.Archive_Open(str(folder), NAME, _otf2.FILEMODE_WRITE, _CHUNK, 4 * _CHUNK, posix, plain)
        self._callbacks = _otf2.FlushCallbacks(pre_flush=_flush, post_flush=None)
        self._texts: dict[str, int] = {}
        self._definitions: Any = None
        _otf2.Archive_SetFlushCallbacks(self._handle, self._callbacks, None)
        _otf2.Archive_SetSerialCollectiveCallbacks(self._handle)
        _otf2.Archive_SetCreator(self._handle, f"{CREATOR} {version}".strip())
        _otf2.Archive_OpenDefFiles(self._handle)
        _otf2.Archive_OpenEvtFiles(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._close_definitions()
            _otf2.Archive_Close(self._handle)
            return
        with contextlib.suppress(_otf2.Error):
            _otf2.Archive_Close(self._handle)

    def location(self, number: int) -> Location:
        """Return the location of that number, for its events: one location at a time."""
        return Location(self._handle, number)

    def define(self, what: str, *values: Any) -> None:
        """Write a definition. what: as OTF2 names it. values: a text becomes its number."""
        if self._definitions is None:
            _otf2.Archive_CloseEvtFiles(self._handle)
            _otf2.Archive_CloseDefFiles(self._handle)
            self._definitions = _otf2.Archive_GetGlobalDefWriter(self._handle)
            self._number("")
        given = [self._number(value) if isinstance(value, str) else value for value in values]
        getattr(_otf2, f"GlobalDefWriter_Write{what}")(self._definitions, *given)

    def _number(self, text: str) -> int:
        number = self._texts.get(text)
        if number is None:
            number = self._texts[text] = len(self._texts)
            held = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
            _otf2.GlobalDefWriter_WriteString(self._definitions, number, held)
        return number

    def _close_definitions(self) -> None:
        if self._definitions is not None:
            _otf2.Archive_CloseGlobalDefWriter(self._handle, self._definitions)


class Location:
    """Writes the events of a location."""

    def __init__(self, archive: Any, number: int) -> None:
        self.events = 0
        self._archive = archive
        # Readers look for the local definitions of each location, here without any.
        _otf2.Archive_CloseDefWriter(archive, _otf2.Archive_GetDefWriter(archive, number))
        self._handle = _otf2.Archive_GetEvtWriter(archive, number)

    def slices(self, rows: Rows) -> None:
        """Write enters and leaves."""
        enter, leave, handle = _otf2.EvtWriter_Enter, _otf2.EvtWriter_Leave, self._handle
        for at, what in zip(rows["at"].tolist(), rows["what"].tolist(), strict=True):
            (leave if what & 1 else enter)(handle, None, at, what >> 1)
        self.events += len(rows)

    def values(self, rows: Rows) -> None:
        """Write values of metrics."""
        types = [_otf2.TYPE_DOUBLE]
        for at, metric, value in rows[["at", "metric", "value"]].tolist():
            held = [_otf2.MetricValue(floating_point=value)]
            _otf2.EvtWriter_Metric(self._handle, None, at, instance(metric), types, held)
        self.events += len(rows)

    def close(self) -> None:
        """Write what is in memory."""
        _otf2.Archive_CloseEvtWriter(self._archive, self._handle)


def instance(counter: int) -> int:
    """Return the number of the metric whose values a counter's are; the one before is its class."""
    return 2 * counter + 1


# The definitions of an archive: clock, system tree, processes, locations, regions and metrics.


TICKS = 1_000_000_000
"""Ticks of the clock in a second: times are ns."""
_CUDA, _USER = _otf2.PARADIGM_CUDA, _otf2.PARADIGM_USER
_KINDS: dict[str, tuple[object, object]] = {
    Kind.KERNEL: (_CUDA, _otf2.REGION_ROLE_KERNEL),
    Kind.MEMCPY: (_CUDA, _otf2.REGION_ROLE_DATA_TRANSFER),
    Kind.MEMSET: (_CUDA, _otf2.REGION_ROLE_FUNCTION),
    Kind.SYNC: (_CUDA, _otf2.REGION_ROLE_FUNCTION),
    Kind.COMMUNICATION: (_otf2.PARADIGM_UNKNOWN, _otf2.REGION_ROLE_COLL_OTHER),
    Kind.OVERHEAD: (_otf2.PARADIGM_MEASUREMENT_SYSTEM, _otf2.REGION_ROLE_ARTIFICIAL),
    **dict.fromkeys(API_CALLS, (_CUDA, _otf2.REGION_ROLE_FUNCTION)),
    **dict.fromkeys(USER_RANGES, (_USER, _otf2.REGION_ROLE_CODE)),
    **dict.fromkeys((Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP), (_USER, _otf2.REGION_ROLE_FUNCTION)),
}
"""Paradigm and role of the regions of a kind."""


@dataclass(slots=True)
class Otf2Place:
    """One location. track: None for the one that has the metrics of its process, or for that of an empty archive."""

    number: int
    process: TrackProcess
    track: Track | None
    events: int = 0


def define_clock(archive: Archive, last_ns: int, base_ns: int | None) -> None:
    """Write the clock. base_ns: the Unix time of tick 0, None where it is not known."""
    known = base_ns if base_ns is not None and base_ns >= 0 else _otf2.UNDEFINED_UINT64.value
    archive.define("ClockProperties", TICKS, 0, last_ns, known)


def define_places(archive: Archive, run: Run, lanes: TrackLanes, places: list[Otf2Place]) -> None:
    """Write the system tree, its processes and their locations."""
    archive.define("SystemTreeNode", 0, title(run), "machine", NONE)
    nodes: dict[str, int] = {}
    groups: dict[int, int] = {}
    hosts: dict[tuple[object, ...], int] = {}
    for place in places:
        process = place.process
        if process.number in groups:
            continue
        host = _host(run, process.source)
        if host and host not in nodes:
            nodes[host] = 1 + len(nodes)
            archive.define("SystemTreeNode", nodes[host], host, "node", 0)
        number = groups[process.number] = len(groups)
        key = process.source, process.rank, process.pid
        kind, creator = _otf2.LOCATION_GROUP_TYPE_PROCESS, NONE
        if process.on_device:
            kind, creator = _otf2.LOCATION_GROUP_TYPE_ACCELERATOR, hosts.get(key, NONE)
        else:
            hosts[key] = number
        archive.define("LocationGroup", number, lanes.process_name(process), kind, nodes.get(host, 0), creator)
    for place in places:
        name, kind = "counters", _otf2.LOCATION_TYPE_METRIC
        if not place.events:
            name, kind = "no events", _otf2.LOCATION_TYPE_CPU_THREAD
        elif place.track is not None:
            name = lanes.track_name(place.track)
            on_device = place.process.on_device
            kind = _otf2.LOCATION_TYPE_ACCELERATOR_STREAM if on_device else _otf2.LOCATION_TYPE_CPU_THREAD
        archive.define("Location", place.number, name, kind, place.events, groups[place.process.number])


def _host(run: Run, source: int) -> str:
    """Return the name of the computer of an input, "" where its file does not name it."""
    name = run.sources[source].facts.get("host") if 0 <= source < len(run.sources) else None
    return name if isinstance(name, str) else ""


def define_regions(archive: Archive, frames: Mapping[tuple[str, str], int]) -> None:
    """Write the regions, and for each kind a group of them, to colour by. frames: name and kind -> number."""
    kinds: dict[str, list[int]] = {}
    for (name, kind), number in frames.items():
        paradigm, role = _of_region(name, kind)
        flag = _otf2.REGION_FLAG_PHASE if kind == Kind.STEP else _otf2.REGION_FLAG_NONE
        archive.define("Region", number, name, name, kind, role, paradigm, flag, "", 0, 0)
        kinds.setdefault(kind, []).append(number)
    for number, (kind, members) in enumerate(kinds.items()):
        form, flag = _otf2.GROUP_TYPE_REGIONS, _otf2.GROUP_FLAG_NONE
        archive.define("Group", number, kind, form, _otf2.PARADIGM_UNKNOWN, flag, members)


def _of_region(name: str, kind: str) -> tuple[object, object]:
    """Return paradigm and role of a region."""
    paradigm, role = _KINDS.get(kind, (_otf2.PARADIGM_UNKNOWN, _otf2.REGION_ROLE_UNKNOWN))
    if kind == Kind.COMMUNICATION and name.lower().startswith("mpi_"):
        paradigm = _otf2.PARADIGM_MPI
    elif kind in API_CALLS and name.startswith("hip"):
        paradigm = _otf2.PARADIGM_HIP
    return paradigm, role


def define_metrics(archive: Archive, counters: Mapping[tuple[int, str], int], places: list[Otf2Place]) -> None:
    """Write a metric for each counter. counters: process and name -> number."""
    groups: dict[int, int] = {}
    for place in places:
        groups.setdefault(place.process.number, len(groups))
    recorders = {place.process.number: place.number for place in places if place.track is None}
    for (process, name), number in counters.items():
        form = _otf2.METRIC_TYPE_OTHER, _otf2.METRIC_ABSOLUTE_POINT, _otf2.TYPE_DOUBLE, _otf2.BASE_DECIMAL
        archive.define("MetricMember", number, name, name, *form, 0, "")
        own, recorder = instance(number), recorders[process]
        archive.define("MetricClass", own - 1, [number], _otf2.METRIC_ASYNCHRONOUS, _otf2.RECORDER_KIND_ABSTRACT)
        archive.define("MetricInstance", own, own - 1, recorder, _otf2.SCOPE_LOCATION_GROUP, groups[process])


BATCH_ROWS = 64 << 10
"""Small batches are joined up to this many rows, because each batch has a fixed cost."""
_LAST = 1 << 62
_MARKS, _ARROWS = "marks-that-otf2-cannot-hold", "points-of-arrows-that-otf2-cannot-hold"


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as an archive, a folder. Raises: OutputExistsError, OutputError."""
    written = Written(target)
    with new_folder(target, force=options.force) as folder, Spool(target) as spool:
        loader, slices = Loader(stream.run, written, asynchronous=False), NestedEvents(spool, event_texts)
        values, with_args = Values(spool, loader.lanes), 0
        for table in event_tables(stream.batches, written, BATCH_ROWS):
            batch = loader.load(table)
            if batch is None:
                continue
            slices.add(batch)
            written.events += values.add(batch)
            with_args += int(np.count_nonzero(arrow.valid(batch.args)[batch.slices()]))
            _leave_out(batch, written)
            loader.carry(batch)
        slices.finish()
        spool.finish()
        written.events += slices.slices
        _add_notes(loader, values.with_more, with_args, written)
        places = _places(spool, loader.lanes)
        base = None if stream.run.origin_ns is None else stream.run.origin_ns + (loader.first_ns or 0)
        try:
            with Archive(folder, options.version) as archive:
                for place in places:
                    _write_events(archive, place, spool)
                define_clock(archive, loader.last_ns, base)
                define_places(archive, stream.run, loader.lanes, places)
                define_regions(archive, slices.frames)
                define_metrics(archive, values.names.known, places)
        except _otf2.Error as err:
            raise OutputError(
                f"the archive cannot be written: {err}", path=target, hint="is there space on the disk?"
            ) from err
        numbers = {place.track.number: place.number for place in places if place.track is not None}
        facts = file_facts(stream, options, loader.lanes, written, base_ns=base or loader.first_ns or 0)
        lanes = zip(loader.lanes.tracks, loader.lanes.facts(), strict=True)
        facts["lanes"] = [{**lane, "location": numbers.get(track.number)} for track, lane in lanes]
        (folder / FACTS).write_text(facts_json(facts) + "\n", encoding="utf-8")
    return written


def _write_events(archive: Archive, place: Otf2Place, spool: Spool) -> None:
    location = archive.location(place.number)
    if place.track is None:
        spool.copy(VALUES, place.process.number, Replay(VALUE, location.values))
    else:
        number = place.track.lane.tracks[place.track.extra]
        spool.copy(EVENTS, number, Replay(EVENT, location.slices))
    place.events = location.events
    location.close()


def _places(spool: Spool, lanes: TrackLanes) -> list[Otf2Place]:
    """Return the locations with events in order of display; the counters of a process follow its tracks."""
    order: list[tuple[tuple[int, ...], TrackProcess, Track | None]] = []
    for track in [lanes.tracks[number] for number in spool.keys(EVENTS)]:
        order.append((lanes.place(track), track.lane.process, track))
    processes = {track.lane.process.number: track.lane.process for track in lanes.tracks}
    for process in [processes[number] for number in spool.keys(VALUES)]:
        order.append(((*lanes.place_of(process), _LAST), process, None))
    if not order:  # readers need a location
        order.append(((), TrackProcess(0, False, 0, None, None, None, 0), None))
    order.sort(key=lambda each: each[0])
    return [Otf2Place(number, process, track) for number, (_, process, track) in enumerate(order)]


def _leave_out(batch: Batch, written: Written) -> None:
    marks = int(np.count_nonzero((batch.phase == INSTANT) | (batch.phase == LONE_INSTANT)))
    others = int(np.count_nonzero((batch.phase == SLICE) | (batch.phase == COUNTER) | (batch.phase == NOT_WRITTEN)))
    written.leave_out(_MARKS, marks)
    written.leave_out(_ARROWS, batch.count - marks - others)


def _add_notes(loader: Loader, values_with_args: int, slices_with_args: int, written: Written) -> None:
    notes = [
        (loader.moved, "slices overlap others of their lane: they are on extra locations, numbered (2), (3) ..."),
        (loader.clamped, "slices have a negative duration: written as 0"),
        (slices_with_args, "slices have args, which are not written"),
        (values_with_args, "counter values have args, which are not written"),
    ]
    written.notes += [f"{count:,} {text}" for count, text in notes if count]
    written.explain(_MARKS, "marks were skipped: OTF2 has no event for them")
    written.explain(_ARROWS, "flow events were skipped: OTF2 has no event for them")
    written.explain("counter-not-finite", "counter values were not written: they are not finite")
    written.explain(
        "beyond-what-viewers-hold", "rows were not written: they end more than 146 years after the first event"
    )
