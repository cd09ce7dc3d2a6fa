"""Readers of Firefox and speedscope profiles and OTF2 archives for tests: they know the rules, but not our writers.

They keep each ns, by decimal, and refuse what a viewer would refuse or draw wrongly.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

Lane: TypeAlias = tuple[Any, ...]
"""Device side or not, source, rank, process, device, context, stream, thread."""


@dataclass(slots=True)
class Profile:
    """What a file holds. Times are ns after the first event."""

    facts: dict[str, Any]
    slices: list[tuple[Lane, int, int | None, str, str, dict[str, Any]]] = field(default_factory=list)
    """Lane, start, duration (None for a mark), name, kind, fields."""
    counters: list[tuple[str, int, float]] = field(default_factory=list)
    """Name, time, value."""

    def timed(self) -> Counter[tuple[Lane, int, int, str]]:
        """Lane, start, duration and name of each slice, and how often it is there."""
        return Counter(row[:4] for row in self.slices if row[2] is not None)


def loaded(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.name.endswith(".gz") else data).decode()
    document: dict[str, Any] = json.loads(text, parse_float=Decimal, parse_int=lambda t: -0.0 if t == "-0" else int(t))
    return document


def _lanes(facts: dict[str, Any]) -> dict[int, Lane]:
    keys = ("source", "rank", "process", "device", "context", "stream", "thread")
    return {lane["tid"]: (lane["side"] == "device", *(lane[key] for key in keys)) for lane in facts["lanes"]}


def _ns(millis: Any) -> int:
    ns = Decimal(millis) * 1_000_000
    assert ns == int(ns), f"{millis} ms is no whole ns"
    return int(ns)


TABLES = {"stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "sources", "sourceLocationTable"}


def firefox(path: Path) -> Profile:
    """Read a processed profile of version 75. Its slices of one thread must nest: the schemas say so."""
    document = loaded(path)
    meta, strings = document["meta"], document["shared"]["stringArray"]
    assert meta["preprocessedProfileVersion"] == 75
    assert meta["categories"][0]["color"] == "grey"
    assert all(each["subcategories"] == ["Other"] for each in meta["categories"])
    assert set(document["shared"]) == TABLES | {"stringArray"}
    assert all(document["shared"][name]["length"] == 0 for name in TABLES)
    assert len(set(strings)) == len(strings)
    schemas = {each["name"]: {one["key"]: one["format"] for one in each["fields"]} for each in meta["markerSchema"]}
    made, lanes = Profile(document["tracekit"]), _lanes(document["tracekit"])
    for thread in document["threads"]:
        markers = thread["markers"]
        columns = [markers[name] for name in ("name", "startTime", "endTime", "phase", "category", "data")]
        assert {len(column) for column in columns} == {markers["length"]}
        open_ends: list[int] = []
        latest = 0
        for name, start, end, phase, category, data in zip(*columns, strict=True):
            begin = _ns(start)
            assert begin >= latest, "markers are not in order of start"
            latest = begin
            assert (phase, end is None) in ((0, True), (1, False))
            duration = None if end is None else _ns(end) - begin
            if duration is not None:
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                assert duration >= 0
                assert not open_ends or begin + duration <= open_ends[-1], "markers of one thread cross"
                open_ends.append(begin + duration)
            kind = data.pop("type")
            assert meta["categories"][category]["name"] == kind
            shown = {key: _shown(value, schemas[kind][key], strings) for key, value in data.items()}
            made.slices.append((lanes[thread["tid"]], begin, duration, strings[name], kind, shown))
    for counter in document["counters"]:
        assert document["threads"][counter["mainThreadIndex"]]["pid"] == counter["pid"]
        samples = counter["samples"]
        assert len(samples["time"]) == len(samples["count"]) == samples["length"]
        value = 0.0
        for time, difference in list(zip(samples["time"], samples["count"], strict=True))[1:]:
            value += float(difference)
            made.counters.append((counter["name"], _ns(time), value))
    return made


def _shown(value: Any, form: str, strings: list[str]) -> Any:
    """Return the value of a field as the viewer prints it."""
    if form == "unique-string":
        return strings[value]
    kinds = {"integer": int, "decimal": (int, float, Decimal, str), "list": list, "string": str}
    assert isinstance(value, kinds[form]), (value, form)
    return float(value) if form == "decimal" else value


def speedscope(path: Path) -> Profile:
    """Read a file of evented profiles. Opens and closes must match, as speedscope checks them."""
    document = loaded(path)
    frames = document["shared"]["frames"]
    assert document["profiles"]
    assert len({(each["name"], each["file"]) for each in frames}) == len(frames)
    made, lanes = Profile(document["tracekit"]), _lanes(document["tracekit"])
    tids = {lane["profile"]: lane["tid"] for lane in made.facts["lanes"]}
    for place, profile in enumerate(document["profiles"]):
        lane = lanes[tids[place]] if place in tids else ()
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("evented", "nanoseconds", 0)
        stack: list[tuple[int, int]] = []
        latest = 0
        for event in profile["events"]:
            at, frame = event["at"], event["frame"]
            assert isinstance(at, int)
            assert latest <= at <= profile["endValue"]
            latest = at
            if event["type"] == "O":
                stack.append((frame, at))
                continue
            opened, start = stack.pop()
            assert opened == frame, "frames cross"
            made.slices.append((lane, start, at - start, frames[frame]["name"], frames[frame]["file"], {}))
        assert not stack
    return made


def otf2_archive(path: Path) -> Profile:
    """Read an archive with OTF2's own reader. Enters and leaves of a location must match, in order of time."""
    import otf2

    made = Profile(json.loads((path / "tracekit.json").read_text(encoding="utf-8")))
    keys = ("source", "rank", "process", "device", "context", "stream", "thread")
    lanes = {lane["location"]: (lane["side"] == "device", *(lane[key] for key in keys)) for lane in made.facts["lanes"]}
    with otf2.reader.open(str(path / "traces.otf2")) as trace:
        assert trace.timer_resolution == 1_000_000_000
        seen: Counter[int] = Counter()
        stacks: dict[int, list[tuple[Any, int]]] = {}
        latest: dict[int, int] = {}
        for location, event in trace.events:
            number, at = location._ref, event.time
            assert latest.get(number, 0) <= at <= trace.definitions.clock_properties.trace_length
            latest[number] = at
            seen[number] += 1
            stack = stacks.setdefault(number, [])
            if isinstance(event, otf2.events.Enter):
                stack.append((event.region, at))
            elif isinstance(event, otf2.events.Leave):
                region, start = stack.pop()
                assert region is event.region, "regions cross"
                made.slices.append((lanes[number], start, at - start, region.name, region.description, {}))
            else:
                assert location.type == otf2.LocationType.METRIC
                assert event.metric.recorder is location
                assert event.metric.scope is location.group
                [member] = event.metric.metric_class.members
                [value] = event.values
                made.counters.append((member.name, at, value))
        assert not any(stacks.values())
        assert Counter({each._ref: each.number_of_events for each in trace.definitions.locations}) == seen
    return made


def chrome(path: Path) -> Counter[tuple[Lane, int, int, str]]:
    """Lane, start, duration and name of each slice of a Chrome trace of ours."""
    document = loaded(path)
    lanes = _lanes(document["tracekit"])
    pairs: dict[int, tuple[Lane, int, str]] = {}
    found: Counter[tuple[Lane, int, int, str]] = Counter()
    for event in document["traceEvents"]:
        if event["ph"] not in "Xbe":
            continue
        at = int(event["ts"] * 1000)
        if event["ph"] == "X":
            found[lanes[event["tid"]], at, int(event["dur"] * 1000), event["name"]] += 1
        elif event["ph"] == "b":
            pairs[event["id"]] = (lanes[event["tid"]], at, event["name"])
        else:
            lane, start, name = pairs.pop(event["id"])
            found[lane, start, at - start, name] += 1
    return found
