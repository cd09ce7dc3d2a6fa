"""firefox: profiles of the Firefox Profiler, which samply, Firefox and its DevTools write (JSON, also gzip).

    {"meta": {"interval": 1, "preprocessedProfileVersion": 55, ...}, "threads": [{"name": "main",
     "samples": {"length": 2, "stack": [0, 1], "weight": [1, 1], ...}, "stackTable": {"prefix": [null, 0],
     "frame": [0, 1], ...}, "frameTable": {"func": [0, 1], ...}, "funcTable": {"name": [0, 1], ...}, ...}]}

A record is a sample or a marker of a thread. Processed profiles (all versions, `stringArray` of a thread or shared)
and the raw ones of Gecko (`schema` and `data`, child processes) are read, and exports of DevTools with the profile
inside. Samples become sums by thread and stack, by their weight: samples, ms (tracing-ms) or bytes. A sample without
a stack is idle. `frames` in `args` has the stack, the outermost frame first; `cpu_ns` in the facts the CPU time of
all samples, where the profile has it. Markers are counted and skipped.
Not supported: markers, counters, the order of the samples in time.
Sources: files of samply 0.12 and 0.13 and of Firefox 63 and 79; the types of firefox-devtools/profiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model.args import items_of
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import TIME_EXPONENT
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.samples._stacks import MOST_FRAMES, SECTION, Stacks, decimal, json_object, objects, whole
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_RAW = (b'"stackTable"', b'"frameTable"', b'"stringTable"', b'"schema"')


def sniff(head: Head) -> Confidence:
    """Return YES for the tables of a profile, or the first members of one."""
    data = head.data
    if not head.text or data.lstrip()[:1] != b"{" or b'"traceEvents"' in data:
        return Confidence.NO
    if b'"preprocessedProfileVersion"' in data or all(word in data for word in _RAW):
        return Confidence.YES
    if b'"meta"' in data and b'"threads"' in data and b'"stackTable"' in data:
        return Confidence.YES
    if data.lstrip()[:9] == b'{"label":' and b'"markers":[' in data and b'"duration":' in data:
        return Confidence.YES
    return Confidence.NO


# Reads profiles of the Firefox Profiler: threads with tables of samples, stacks, frames and functions.


_UNITS = {"tracing-ms": "ms", "bytes": "bytes"}
_MOST_PROCESSES = 1000


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError for damaged JSON, and for a profile without samples."""
    found = json_object(source.read_whole(), source.name, "Firefox profile")
    inner = found.get("profile")
    profile = inner if isinstance(inner, dict) and "threads" in inner else found
    meta = profile.get("meta")
    product = str(meta.get("product", ""))[:200] if isinstance(meta, dict) else ""
    run = Run(sources=[SourceFacts(source.name, "firefox", facts={"tool": "Firefox Profiler", "product": product})])
    return ReadResult(run, _batches(profile, run, source.name, options, ledger), True, (ledger,))


def _batches(
    profile: dict[str, object], run: Run, name: str, options: ReadOptions, ledger: Ledger
) -> Iterator[pa.RecordBatch]:
    stacks = Stacks(options, ledger)
    shared = profile.get("shared")
    meta = profile.get("meta")
    units = meta.get("sampleUnits") if isinstance(meta, dict) else None
    unit = str(units.get("threadCPUDelta", "")) if isinstance(units, dict) else ""
    cpu = Decimal(0)
    threads = objects(profile.get("threads"))
    processes = objects(profile.get("processes"))
    for process in processes[:_MOST_PROCESSES]:
        threads += objects(process.get("threads"))
        processes += objects(process.get("processes"))
    for thread in threads:
        tables = dict(shared) if isinstance(shared, dict) else {}
        cpu += _Thread(tables | thread, ledger).add(stacks)
    run.sources[0].facts["threads"] = len(threads)
    if cpu and unit in TIME_EXPONENT:
        run.sources[0].facts["cpu_ns"] = int(cpu.scaleb(TIME_EXPONENT[unit]))
    if not len(stacks) and run.sources[0].facts.get("product") == "tracekit":
        raise ParseError(
            name,
            "",
            "a Firefox profile that tracekit wrote: it has markers and no samples",
            hint="read the file that it was made from",
        )
    if not len(stacks):
        raise ParseError(name, "", "a profile without samples that have a stack")
    yield from stacks.batches()


class _Thread:
    """The tables of one thread, of a processed profile or a raw one."""

    def __init__(self, tables: dict[str, object], ledger: Ledger) -> None:
        self.ledger = ledger
        self.name = _label(tables)
        self.texts = items_of(tables.get("stringArray", tables.get("stringTable")))
        self.samples = _columns(tables.get("samples"))
        self.stacks = _columns(tables.get("stackTable"))
        self.frames = _columns(tables.get("frameTable"))
        self.functions = _columns(tables.get("funcTable"))
        found = tables.get("samples")
        self.unit = str(found.get("weightType", "samples")) if isinstance(found, dict) else "samples"
        self.markers = len(max(_columns(tables.get("markers")).values(), key=len, default=[]))
        self.names: dict[int, str] = {}
        self.paths: dict[int, list[str] | None] = {}

    def add(self, stacks: Stacks) -> Decimal:
        """Add the samples to the sums; return the CPU time of all of them, in the unit of the profile."""
        ledger = self.ledger
        ledger.read += self.markers
        ledger.ignore("markers", self.markers)
        given = self.samples.get("stack", [])
        weights = self.samples.get("weight") or [1] * len(given)
        unit = _UNITS.get(self.unit, SECTION)
        now: Decimal | int = 0  # samples are in order of time
        for place, each in enumerate(given):
            ledger.read += 1
            weight = decimal(weights[place]) if place < len(weights) else None
            stack = whole(each)
            if each is None:
                ledger.ignore("samples without a stack (idle)")
            elif weight is None or stack is None or (path := self._path(stack)) is None:
                ledger.drop("bad-sample", text="dropped: a sample whose stack or weight is not in the file")
            else:
                number = int(weight) if weight == weight.to_integral_value() else weight
                stacks.add(0, self.name, unit, path, number, 1, [(now, number)])
                ledger.kept += 1
            now += weight or 0
        times = (decimal(each) for each in self.samples.get("threadCPUDelta", []))
        return sum((each for each in times if each is not None), Decimal(0))

    def _path(self, stack: int) -> list[str] | None:
        """Return the frames of a stack, the outermost first; None where the tables do not have it."""
        if stack in self.paths:
            return self.paths[stack]
        prefixes, frames = self.stacks.get("prefix", []), self.stacks.get("frame", [])
        names: list[str] = []
        place: int | None = stack
        while place is not None and len(names) <= MOST_FRAMES:
            frame = whole(frames[place]) if place < len(frames) else None
            if frame is None:
                names = []
                break
            names.append(self._name(frame))
            above = prefixes[place] if place < len(prefixes) else None
            place = whole(above)
        self.paths[stack] = names[::-1] or None
        return self.paths[stack]

    def _name(self, frame: int) -> str:
        known = self.names.get(frame)
        if known is None:
            function = self._number("func", self.frames, frame)
            named = self._number("name", self.functions, function) if self.functions else None
            place = named if self.functions else self._number("location", self.frames, frame)
            known = self.names[frame] = self._text(place)
        return known

    @staticmethod
    def _number(column: str, table: dict[str, list[object]], place: int | None) -> int | None:
        values = table.get(column, [])
        return whole(values[place]) if place is not None and place < len(values) else None

    def _text(self, place: int | None) -> str:
        return str(self.texts[place]) if place is not None and place < len(self.texts) else "(unknown)"


def _label(tables: dict[str, object]) -> str:
    """Return the name of a thread, with its id and process."""
    name, tid, process = (tables.get(key) for key in ("name", "tid", "processName"))
    parts = [str(name or "thread"), *([str(tid)] if isinstance(tid, (int, str)) and str(tid) else [])]
    return " ".join(parts) + (f" of {process}" if isinstance(process, str) and process not in ("", name) else "")


def _columns(found: object) -> dict[str, list[object]]:
    """Return the columns of a table: lists by name, or rows with the places of their members."""
    if not isinstance(found, dict):
        return {}
    schema = found.get("schema")
    if not isinstance(schema, dict):
        return {key: value for key, value in found.items() if isinstance(value, list)}
    rows = [row if isinstance(row, list) else [] for row in items_of(found.get("data"))]
    return {
        str(key): [row[place] if place < len(row) else None for row in rows]
        for key, place in schema.items()
        if whole(place, 100) is not None
    }
