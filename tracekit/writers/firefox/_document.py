"""The profile around the markers: threads, counters, the tables that all threads share, and the facts of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.trace import Run
from tracekit.writers.firefox._counters import PARTS, Counters, head
from tracekit.writers.firefox._markers import CATEGORIES, COLUMNS, MarkerMaker
from tracekit.writers.gzipped import Sink
from tracekit.writers.json_text import facts_json
from tracekit.writers.tracks.lanes import Lanes, Track
from tracekit.writers.tracks.spool import Spool
from tracekit.writers.tracks.texts import quoted

VERSION = 75
"""Version of the processed profile format; profiler.firefox.com upgrades older ones, and refuses newer ones."""
_GECKO_VERSION = 36
MOST_VISIBLE = 100
"""Threads that are shown at first; the others are in the list of tracks."""
_EMPTY_TABLES = {
    "stackTable": "frame prefixOffset",
    "frameTable": "address flags category subcategory func lib nativeSymbol innerWindowID line column originalLocation",
    "funcTable": "name flags resource source lineNumber columnNumber originalLocation",
    "resourceTable": "name host type",
    "nativeSymbols": "libIndex address name functionSize",
    "sources": "id filename startLine startColumn sourceMapURL content",
    "sourceLocationTable": "source line column",
}
"""Tables of samples and their stacks, of which a trace has none."""
_COLORS = {
    "operator": "blue", "operator_inner": "lightblue", "python_op": "brown", "user_range": "purple",
    "user_range_native": "purple", "step": "darkgrey", "dataloader": "brown", "forward": "blue", "backward": "magenta",
    "optimizer": "orange", "communication": "red", "runtime": "yellow", "driver": "yellow", "sync": "lightred",
    "kernel": "green", "memcpy": "orange", "memset": "orange", "memory": "lightblue", "mark": "magenta",
}  # fmt: skip


@dataclass(slots=True)
class Document:
    """All that a profile is made of. threads: tracks in the order in which they are shown, with their numbers."""

    spool: Spool
    lanes: Lanes
    markers: MarkerMaker
    counters: Counters
    threads: list[tuple[int, Track]]

    def write(self, out: Sink, run: Run, base_ns: int, facts: Mapping[str, object]) -> None:
        """Write the profile. base_ns: the time of ms 0. facts: ours, which viewers do not read."""
        out.write(b'{"threads":[')
        for at, (number, track) in enumerate(self.threads):
            self._write_thread(out, number, track, b",\n" if at else b"\n")
        out.write(b'],\n"counters":[')
        self._write_counters(out)
        out.write(b'],\n"shared":{"stringArray":[')
        for at, text in enumerate(self.markers.strings):
            out.write(f"{',' if at else ''}{quoted(text)}".encode())
        tables = {
            name: {**{column: [] for column in columns.split()}, "length": 0} for name, columns in _EMPTY_TABLES.items()
        }
        meta = self._meta(facts)
        start = "0" if run.origin_ns is None else _millis(base_ns)
        rest = f'{facts_json(tables)[1:]},\n"libs":[],"pages":[],"meta":{{"startTime":{start},{facts_json(meta)[1:]}'
        out.write(f'],{rest},\n"tracekit":{facts_json(facts)}}}\n'.encode())

    def _write_thread(self, out: Sink, number: int, track: Track, before: bytes) -> None:
        process = track.lane.process
        count = self.markers.counts.get(number, 0)
        head = {
            "name": self.lanes.track_name(track),
            "processName": self.lanes.process_name(process),
            "pid": str(process.number),
            "tid": track.number,
            "isMainThread": False,
            "processType": "default",
            "processStartupTime": 0,
            "processShutdownTime": None,
            "registerTime": 0,
            "unregisterTime": None,
            "pausedRanges": [],
            "showMarkersInTimeline": True,
            "samples": {"stack": [], "time": [], "weight": None, "weightType": "samples", "length": 0},
        }
        out.write(before + f'{facts_json(head)[:-1]},"markers":{{"length":{count}'.encode())
        for part, column in enumerate(COLUMNS):
            out.write(f',"{column}":['.encode())
            self.spool.copy(part, number, out)
            out.write(b"]")
        out.write(b"}}")

    def _write_counters(self, out: Sink) -> None:
        first_thread: dict[int, int] = {}
        for at, (_, track) in enumerate(self.threads):
            first_thread.setdefault(track.lane.process.number, at)
        for at, ((process, name), number) in enumerate(self.counters.known.items()):
            out.write((b",\n" if at else b"\n") + head(name, process, first_thread[process]).encode())
            # Viewers ignore the first difference: it is one of our own.
            out.write(f',"samples":{{"length":{self.counters.counts[number] + 1}'.encode())
            zero = {"time": _millis(self.counters.first[number]), "count": "0"}
            for column, part in PARTS.items():
                out.write(f',"{column}":[{zero[column]},'.encode())
                self.spool.copy(part, number, out)
                out.write(b"]")
            out.write(b"}}")

    def _meta(self, facts: Mapping[str, object]) -> dict[str, object]:
        categories = [
            {"name": name, "color": _COLORS.get(name, "grey"), "subcategories": ["Other"]}
            for name in ("Other", *CATEGORIES)
        ]
        texts = [
            {"label": key, "format": "string", "value": facts_json(facts[key])}
            for key in ("sources", "clock", "base_ns", "left_out")
        ]
        return {
            "interval": 0.001,
            "processType": 0,
            "product": "tracekit",
            "importedFrom": f"tracekit {facts['version']}",
            "stackwalk": 0,
            "version": _GECKO_VERSION,
            "preprocessedProfileVersion": VERSION,
            "symbolicationNotSupported": True,
            "usesOnlyOneStackType": True,
            "sourceCodeIsNotOnSearchfox": True,
            "keepProfileThreadOrder": True,
            "initialVisibleThreads": list(range(min(len(self.threads), MOST_VISIBLE))),
            "categories": categories,
            "markerSchema": [self.markers.fields.schema(kind) for kind in CATEGORIES],
            "extra": [{"label": "tracekit", "entries": texts}],
        }


def _millis(ns: int) -> str:
    """Return a time in ns as ms with six decimals, exactly.

    >>> _millis(1_500_000), _millis(-1)
    ('1.500000', '-0.000001')
    """
    whole, rest = divmod(abs(ns), 1_000_000)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:06d}"
