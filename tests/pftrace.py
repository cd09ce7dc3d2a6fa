"""A reader of Perfetto traces for tests: it knows protobuf and the rules of TrackEvent, and nothing of our writer.

Packets are sorted by time as Perfetto sorts them, ends close the innermost open slice of their track.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message: an int for a varint, bytes for all others."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            assert kind == 2, f"wire type {kind}"
            size, at = _varint(data, at)
        assert at + size <= len(data)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            assert shift <= 70
            return value, at


def message(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


@dataclass
class Slice:
    track: int
    ts: int
    dur: int | None
    name: str | None
    category: str | None
    args: dict[str, Any]
    flows_out: list[int]
    flows_in: list[int]


@dataclass
class Trace:
    """tracks: uuid -> its descriptor: name, parent, pid, tid, rank, counter. points: (track, ts, phase, id)."""

    tracks: dict[int, dict[str, Any]] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    counters: list[tuple[int, int, float]] = field(default_factory=list)
    points: list[tuple[int, int, str, int]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    unix_ns: int | None = None

    def process_of(self, track: int) -> str:
        while "process" not in self.tracks[track]:
            track = self.tracks[track]["parent"]
        name: str = self.tracks[track]["process"]
        return name

    def arrows(self) -> list[tuple[Slice, Slice]]:
        """The arrows that the ids of slices make, as Perfetto follows them in order of time."""
        last: dict[int, Slice] = {}
        found = []
        for one in self.slices:
            for flow in one.flows_out:
                if flow in last:
                    found.append((last[flow], one))
                last[flow] = one
            for flow in one.flows_in:
                if flow in last:
                    found.append((last.pop(flow), one))
        return found


class _Sequence:
    def __init__(self) -> None:
        self.clock = 0
        self.default_clock = 0
        self.track = 0
        self.texts: dict[tuple[int, int], str] = {}


def decode(path: Path) -> Trace:
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    out = Trace()
    sequences: dict[int, _Sequence] = {}
    events: list[tuple[int, int, _Sequence, dict[int, list[Any]]]] = []
    for number, body in fields(data):
        assert number == 1
        packet = message(body)
        assert set(packet) <= {5, 6, 8, 10, 11, 12, 13, 58, 59, 60}
        sequence = sequences.setdefault(packet[10][0], _Sequence())
        for each in packet.get(60, []):
            _descriptor(out, message(each))
        for each in packet.get(6, []):
            for clock in message(each)[1]:
                entry = message(clock)
                if entry[1] == [64]:
                    assert entry[3] == [1]
                    sequence.clock = entry[2][0]
                if entry[1] == [1]:
                    out.unix_ns = entry[2][0]
        for each in packet.get(59, []):
            defaults = message(each)
            sequence.default_clock = defaults[58][0]
            sequence.track = message(defaults[11][0])[11][0]
        for each in packet.get(12, []):
            for kind, definition in fields(each):
                entry = message(definition)
                key = kind, entry[1][0]
                assert key not in sequence.texts, "defined twice"
                sequence.texts[key] = entry[2][0].decode()
        for each in packet.get(5, []):
            entry = message(message(each)[2][0])
            assert entry[1] == [b"tracekit"]
            out.facts = json.loads(entry[2][0])
        if 8 in packet:
            assert sequence.default_clock == 64
            sequence.clock += packet[8][0]
            assert sequence.clock < 1 << 63, "a step back"
        for each in packet.get(11, []):
            events.append((sequence.clock, len(events), sequence, message(each)))
    _play(out, sorted(events, key=lambda event: event[:2]))
    return out


def _descriptor(out: Trace, found: dict[int, list[Any]]) -> None:
    track = out.tracks.setdefault(found[1][0], {})
    if 2 in found:
        track["name"] = found[2][0].decode()
    if 3 in found:
        process = message(found[3][0])
        track.update(pid=process[1][0], process=process[6][0].decode(), ordered=found.get(11) == [3])
    if 4 in found:
        thread = message(found[4][0])
        track.update(pid=thread[1][0], tid=thread[2][0], name=thread[5][0].decode())
    if 5 in found:
        track["parent"] = found[5][0]
    if 12 in found:
        track["rank"] = signed(found[12][0])
    track["counter"] = 8 in found


def _play(out: Trace, events: list[tuple[int, int, _Sequence, dict[int, list[Any]]]]) -> None:
    open_: dict[int, list[Slice]] = {}
    for ts, _, sequence, event in events:
        track = sequence.track
        assert track in out.tracks, "a track without a descriptor"
        stack = open_.setdefault(track, [])
        kind = event.get(9, [0])[0]
        if kind == 2:
            closed = stack.pop()
            closed.dur = ts - closed.ts
        elif kind == 4:
            out.counters.append((track, ts, struct.unpack("<d", event[44][0])[0]))
        elif kind == 0:
            legacy = message(event[6][0])
            out.points.append((track, ts, chr(legacy[2][0]), legacy[6][0]))
        else:
            name = sequence.texts[2, event[10][0]] if 10 in event else None
            category = sequence.texts[1, event[3][0]] if 3 in event else None
            ids = [[int.from_bytes(one, "little") for one in event.get(number, [])] for number in (47, 48)]
            args = dict(_annotation(message(each), sequence) for each in event.get(4, []))
            assert len(args) == len(event.get(4, []))
            made = Slice(track, ts, None, name, category, args, *ids)
            out.slices.append(made)
            if kind == 1:
                stack.append(made)
            else:
                assert kind == 3
    assert not any(open_.values()), "a slice without an end"


def _annotation(found: dict[int, list[Any]], sequence: _Sequence) -> tuple[str, Any]:
    name = sequence.texts[3, found[1][0]] if 1 in found else found[10][0].decode() if 10 in found else ""
    return name, _value(found, sequence)


def _value(found: dict[int, list[Any]], sequence: _Sequence) -> Any:
    if 2 in found:
        return bool(found[2][0])
    if 4 in found:
        return signed(found[4][0])
    if 5 in found:
        return struct.unpack("<d", found[5][0])[0]
    if 6 in found:
        return found[6][0].decode()
    if 17 in found:
        return sequence.texts[29, found[17][0]]
    if 12 in found:
        return [_value(message(each), sequence) for each in found[12]]
    return dict(_annotation(message(each), sequence) for each in found[11])
