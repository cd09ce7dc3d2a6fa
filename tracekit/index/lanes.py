"""Lanes of a timeline: the rows of each lane, its label, and the order of the lanes.

A lane is a stream of a device, or a thread of the host. Ranges that a profiler laid over a stream (annotations) have a
lane of their own below the stream's, and so have rows without a duration. Lanes of one process follow each other,
devices first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable

import numpy as np

from tracekit.index import grouping
from tracekit.index.sources import facts_by_source, rank_label, source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Mask, Rows
from tracekit.model.report import Cell, integer_of
from tracekit.model.schema import DEVICE_WORK
from tracekit.model.trace import Run

__all__ = [
    "COLUMNS",
    "DEVICE_WORDS",
    "LanePlace",
    "device_in",
    "device_label",
    "device_model",
    "device_not_named",
    "device_title",
    "find",
    "owner_labels",
]

COLUMNS = frozenset({"kind", "dur_ns", "source", "rank", "pid", "tid", "device", "context", "stream"})


@dataclass(frozen=True, slots=True)
class LanePlace:
    """The ids of a lane; None: the file does not name it. `device`, `context`, `stream` are None on the host."""

    source: int
    rank: Cell
    pid: Cell
    on_device: bool
    device: Cell
    context: Cell
    stream: Cell
    tid: Cell
    overlay: bool
    instants: bool

    def order(self) -> tuple[object, ...]:
        """Return the sort key of the lane: process by process, devices before the host, by number.

        Device work without a process comes before all processes.
        """
        shared = self.on_device and self.pid is None
        own = map(_last, (self.device, self.context, self.stream, self.tid))
        owner = (self.source, _last(self.rank), not shared, _last(self.pid), not self.on_device)
        return (*owner, *own, self.overlay, self.instants)


@dataclass(frozen=True, slots=True)
class EventLanes:
    """Lanes in order. codes: shape (n,), the lane of each row. labels: without the words of groups: a text a lane.

    hosts: the machine of each lane, "" where the trace has no more than one.
    """

    codes: I64
    places: list[LanePlace]
    labels: list[str]
    groups: list[str]
    hosts: list[str]

    def __len__(self) -> int:
        return len(self.places)


def _last(cell: Cell) -> tuple[bool, Cell]:
    return cell is None, cell if cell is not None else 0


def find(index: TraceIndex, rows: Rows) -> EventLanes:
    """Return the lanes of these rows of EVENTS.

    A row is on a device if it is a kernel, copy or memset, or names a device. The thread of a device row and the stream
    of a host row are ignored.
    """
    work = index.kind_mask(DEVICE_WORK)[rows]
    on_device = work | index.has("device")[rows]

    def key(column: str, side: bool | None = None) -> grouping.Key:
        found = index.key(column, rows)
        return found if side is None else grouping.Key(np.where(on_device == side, found.codes, 0), found.labels)

    def flag(mask: Mask) -> grouping.Key:
        return grouping.Key(mask.astype(np.int64), [False, True])

    # One key after the other: all of them together would take more memory than the rest of the page.
    keys: list[Callable[[], grouping.Key]] = [
        lambda: key("source"),
        lambda: key("rank"),
        lambda: key("pid"),
        lambda: flag(on_device),
        lambda: key("device"),
        lambda: key("context", True),
        lambda: key("stream", True),
        lambda: key("tid", False),
        lambda: flag(on_device & ~work),
        lambda: flag(~index.has("dur_ns")[rows]),
    ]
    codes, cells = grouping.zeros(rows.size), [()] if rows.size else list[tuple[Cell, ...]]()
    for make in keys:
        groups = grouping.group_by(grouping.Key(codes, range(len(cells))), make())
        codes = groups.codes
        cells = [(*cells[integer_of(of)], cell) for of, cell in zip(*groups.labels, strict=True)]
    places = [
        LanePlace(int(source or 0), rank, pid, bool(side), device, context, stream, tid, bool(overlay), bool(instants))
        for source, rank, pid, side, device, context, stream, tid, overlay, instants in cells
    ]
    hosts = host_labels(index, {place.source for place in places})
    number = {host: i for i, host in enumerate(dict.fromkeys(hosts.values()))}
    turn = _turns(places)
    order = sorted(
        range(len(places)),
        key=lambda i: (number[hosts[places[i].source]], turn[places[i].source], places[i].order()),
    )
    rank_of = np.empty(len(places), np.int64)
    rank_of[order] = np.arange(len(places))
    places = [places[i] for i in order]
    own = [hosts[place.source] for place in places]
    return EventLanes(rank_of[codes], places, _labels(index.run, places), _group_labels(index, places), own)


def _turns(places: Iterable[LanePlace]) -> dict[int, tuple[object, ...]]:
    """Return the sort key of each input: its first rank by number, whatever the order of the files."""
    turns: dict[int, tuple[object, ...]] = {}
    for place in places:
        turn = (*_last(place.rank), place.source)
        turns[place.source] = min(turns.get(place.source, turn), turn)
    return turns


def host_labels(index: TraceIndex, sources: Iterable[int]) -> dict[int, str]:
    """Return the machine of each of these inputs, in their order; "" for all where they name no more than one."""
    facts = facts_by_source(index)
    stated = {source: str(facts[source].facts.get("host") or "") if source in facts else "" for source in sources}
    several = len(set(filter(None, stated.values()))) > 1
    return {source: (stated[source] or "no host named") if several else "" for source in sorted(stated)}


def _labels(run: Run, places: list[LanePlace]) -> list[str]:
    contexts = _distinct(
        ((p.source, p.rank, p.pid, p.device), p.context) for p in places if p.on_device and p.context is not None
    )
    labels = []
    for p in places:
        several = len(contexts.get((p.source, p.rank, p.pid, p.device), ())) > 1
        words = [_device_label(run, p, several) if p.on_device else _host_label(run, p)]
        words += ["instants"] if p.instants else ["annotations"] if p.overlay else []
        labels.append(" ".join(words))
    return labels


_PLANE = re.compile(r"/device:(?P<word>[A-Z]+):\d+(?: \((?P<model>.*)\))?", re.ASCII | re.DOTALL)
_KINDS = (
    ("TPU", re.compile(r"\bTPU\b", re.ASCII)),
    ("NPU", re.compile(r"\bNPU\b|\bAscend", re.ASCII)),
    ("MTIA", re.compile(r"\bMTIA\b", re.ASCII)),
)
_NO_MODEL = re.compile(rf"(?:{'|'.join(word for word, _ in _KINDS)})(?: \d+)?")
DEVICE_WORDS = frozenset({"GPU", *(word for word, _ in _KINDS)})
"""What a device may be."""


def device_label(device: Cell, name: str = "") -> str:
    """Return "GPU 0", "TPU 0", "NPU 0" or "MTIA 0", or words where the file names no device. name: as the file has it.

    >>> device_label(0), device_label(3, "/device:TPU:3 (TPU v6 Lite)"), device_label(1, "Ascend910B")
    ('GPU 0', 'TPU 3', 'NPU 1')
    """
    word = next((word for word, pattern in _KINDS if pattern.search(name)), "GPU")
    return word if device is None else f"{word} {device}"


def device_in(run: Run, source: Cell, device: Cell) -> str:
    """Return the label of a device of an input: "TPU 0" where its name says so."""
    return device_label(device, run.devices.get((integer_of(source or 0), device), ""))


def device_model(name: str) -> str:
    """Return the model in the name of a device: a name that repeats its number or says its kind alone has none.

    >>> device_model("NVIDIA A100"), device_model("/device:TPU:3 (TPU v6 Lite)"), device_model("/device:GPU:1")
    ('NVIDIA A100', 'TPU v6 Lite', '')
    >>> device_model("NPU"), device_model("MTIA 9")
    ('', '')
    """
    plane = _PLANE.fullmatch(name)
    return (plane["model"] or "") if plane else "" if _NO_MODEL.fullmatch(name) else name


def device_not_named(name: str) -> str:
    """Return the label of a device of which the file has no number, with its model, or with its kind where it is known.

    >>> device_not_named(""), device_not_named("NVIDIA A100"), device_not_named("NPU")
    ('device not named', 'device not named NVIDIA A100', 'NPU not named')
    """
    kind = device_label(None, name)
    return f"{'device' if kind == 'GPU' else kind} not named {device_model(name)}".rstrip()


def device_title(device: Cell, name: str) -> str:
    """Return the label of a device with its model, which does not repeat the label's word.

    >>> device_title(0, "NVIDIA A100"), device_title(0, "/device:TPU:0 (TPU v5 lite)"), device_title(1, "/device:GPU:1")
    ('GPU 0 NVIDIA A100', 'TPU 0 (v5 lite)', 'GPU 1')
    """
    label, model = device_label(device, name), device_model(name)
    word = f"{label.split()[0]} "
    return f"{label} ({model.removeprefix(word)})" if model.startswith(word) else f"{label} {model}".rstrip()


def _device_label(run: Run, place: LanePlace, name_context: bool) -> str:
    parts = []
    if name_context and place.context is not None:
        parts.append(f"context {_own_id(run, 'context', place.source, place.context)}")
    if place.stream is not None:
        parts.append(f"stream {_own_id(run, 'stream', place.source, place.stream)}")
        parts.append(run.streams.get((place.source, place.device, place.stream), ""))
    return " ".join(filter(None, parts)) or device_label(place.device, _device_name(run, place))


def _device_name(run: Run, place: LanePlace) -> str:
    return "" if place.device is None else run.devices.get((place.source, place.device), "")


def _host_label(run: Run, place: LanePlace) -> str:
    if place.tid is None:
        return "no thread named"
    return _named(
        "thread", run, ("tid", place.source, place.tid), run.threads.get((place.source, place.pid, place.tid))
    )


def _named(what: str, run: Run, key: tuple[str, int, Cell], name: str | None) -> str:
    """Return "process 7 python": a name that begins with these words already stays as it is (PyTorch's threads)."""
    words = f"{what} {_own_id(run, *key) or '(empty id)'}"
    return name if name and name.startswith(words) else f"{words} {name or ''}".rstrip()


def _own_id(run: Run, column: str, source: int, number: Cell) -> str:
    """Return the id as the file spells it, where that was text or too large for the column."""
    return run.ids.get((column, source, number), str(number))


def _group_labels(index: TraceIndex, places: list[LanePlace]) -> list[str]:
    """Return the label of each lane's group: its owner and process where there are several, then device or host."""
    owners = owner_labels(index, [(p.source, p.rank) for p in places])
    pids = _distinct(((p.source, p.rank), p.pid) for p in places if p.pid is not None)
    labels = []
    for p in places:
        several = len(pids.get((p.source, p.rank), ())) > 1
        process = ""
        if p.pid is not None and (several or not p.on_device):
            process = _named("process", index.run, ("pid", p.source, p.pid), index.run.processes.get((p.source, p.pid)))
        name = _device_name(index.run, p)
        own = device_label(p.device, name) if p.on_device else "" if process else "host"
        labels.append(" · ".join(filter(None, (owners[p.source, p.rank], process, own))))
    return labels


def owner_labels(index: TraceIndex, owners: Iterable[tuple[int, Cell]]) -> dict[tuple[int, Cell], str]:
    """Return a word for each (source, rank), "" where there is one alone: "rank 3", the input's label, or both."""
    found = set(owners)
    sources, ranks = {source for source, _ in found}, {rank for _, rank in found}
    names = source_labels(index)
    out = {}
    for source, rank in found:
        parts = []
        # Where each input is one rank of its own, the rank is enough.
        if len(sources) > 1 and (None in ranks or len(ranks) < len(found) or len(sources) < len(found)):
            parts.append(source_label(names, source))
        if len(ranks) > 1:
            parts.append("no rank named" if rank is None else rank_label(index.run, source, rank))
        out[source, rank] = " · ".join(parts)
    return out


def _distinct(pairs: Iterable[tuple[Hashable, Cell]]) -> dict[Hashable, set[Cell]]:
    out: dict[Hashable, set[Cell]] = {}
    for key, value in pairs:
        out.setdefault(key, set()).add(value)
    return out
