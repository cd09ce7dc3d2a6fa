"""What tests of the timeline share: events of a figure as rows, figures made by hand, and pages read back in Python."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tracekit.model.arrow import F64, I64
from tracekit.model.timeline import KINDS_OF, LaneEvents, Timeline, TimelineLane

NONE = np.zeros(0, np.int64)


class Drawn(NamedTuple):
    """One event: its lane, its row in the lane, ns after the begin, duration, kind, name."""

    lane: str
    row: int
    start: int
    length: int
    kind: str
    name: str


def drawn(figure: Timeline) -> list[Drawn]:
    """Return the events of a timeline by place."""
    events, every = figure.events, slice(None)
    found = []
    rows = [(lane, row) for lane in figure.lanes for row in range(lane.depth)]
    row_of = np.repeat(np.arange(len(rows)), np.diff(events.first)).tolist()
    columns = (events.starts_at(every), events.lengths_at(every), events.codes_at(every))
    for row, start, length, code in zip(row_of, *(column.tolist() for column in columns), strict=True):
        lane, place = rows[row]
        kind = figure.kinds[figure.kind_of[code]]
        kind = KINDS_OF.get(kind, kind)
        found.append(Drawn(lane.label, place, start, length, kind, figure.names[code]))
    return found


def a_timeline(names: tuple[str, ...] = ("gemm", "relu"), *, far: int = 1, lanes: tuple[str, ...] = ()) -> Timeline:
    """A lane for each label, each with one event for each name, 100 ns apart times `far`."""
    labels = lanes or ("stream 7", "thread 9")
    count = len(labels) * len(names)
    place = np.arange(count)
    kinds = ("kernel", "runtime")
    return Timeline(
        lanes=tuple(TimelineLane(label, "", (("", 1),), on_device=i % 2 == 0) for i, label in enumerate(labels)),
        names=[name for name in names for _ in kinds],
        kind_of=[kind for _ in names for kind in range(len(kinds))],
        kinds=kinds,
        events=LaneEvents(
            order=place,
            first=np.arange(len(labels) + 1) * len(names),
            starts=(1 << 60) + far * 100 * (place % len(names)),
            lengths=np.full(count, far * 90 + 1),
            names=(place % len(names)).astype(np.int32),
            kinds=(place // len(names) % 2).astype(np.int32),
            kind_count=2,
            code_of=np.append([-1, -1], np.arange(2 * len(names))).astype(np.int32),
            clocks=np.zeros(count, np.int64),
            shift=np.array([1 << 60]),
            ids=place,
        ),
        begin_ns=1 << 60,
        end_ns=(1 << 60) + far * 100 * len(names),
        launches=(NONE, NONE),
        flows=(NONE, NONE),
        utilization=(("GPU 0", [0.5, 0.0, 1.0]),),
    )


@dataclass(frozen=True, slots=True)
class PageTimeline:
    """The timeline of a page, as a script that follows the format reads it; times in units."""

    head: dict[str, Any]
    names: list[str]
    start: I64
    length: I64
    code: I64
    launches: dict[int, int]
    flows: list[tuple[int, int]]
    counters: list[tuple[I64, I64 | F64]]
    args: dict[str, dict[int, int | str]]
    members: dict[int, str]

    def events(self) -> list[Drawn]:
        """Return the events by place, in ns."""
        unit = self.head["unit"]
        sizes = np.diff(self.head["first"])
        rows = [(lane, row) for lane in self.head["lanes"] for row in range(lane["depth"])]
        row_of = np.repeat(np.arange(len(rows)), sizes).tolist()
        found = []
        columns = (self.start * unit, self.length * unit, self.code)
        for row, start, length, code in zip(row_of, *(column.tolist() for column in columns), strict=True):
            lane, place = rows[row]
            kind = self.head["kinds"][self.head["kindOf"][code]]
            kind = self.head.get("kindsOf", {}).get(kind, kind)
            found.append(Drawn(lane["label"], place, start, length, kind, self.names[code]))
        return found


def inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text, validate=True))


def column(raw: bytes, at: int, count: int) -> tuple[I64, int]:
    """Return a column of byte planes and the place behind it."""
    planes = raw[at]
    end = at + 1 + planes * count
    bytes_of = np.frombuffer(raw, np.uint8, planes * count, at + 1).reshape(planes, count)
    values = np.zeros(count, np.int64)
    for place, plane in enumerate(bytes_of):
        values |= plane.astype(np.int64) << (8 * place)
    return values, end


def unzigzag(values: I64) -> I64:
    return (values >> 1) ^ -(values & 1)


def read_page(text: str) -> PageTimeline:
    """Read a page back as timeline.js does."""
    found = re.search(r'<script type="application/json" id="tl-head">([^<]*)</script>', text)
    assert found
    head = json.loads(found[1])
    names = re.search(r'<script type="text/plain" id="tl-names">([^<]*)</script>', text)
    assert names
    parts: dict[str, list[tuple[dict[str, int], bytes]]] = {}
    for kind, facts, body in re.findall(r'<script type="text/plain" class="(tl-[a-z]+)"([^>]*)>([^<]*)</script>', text):
        numbers = {word: int(number) for word, number in re.findall(r'data-(\w+)="(\d+)"', facts)}
        parts.setdefault(kind, []).append((numbers, inflated(body)))
    gaps, lengths, codes = [NONE], [NONE], [NONE]
    events, links = parts.get("tl-part", [])[: head["eventParts"]], parts.get("tl-part", [])[head["eventParts"] :]
    for facts, raw in events:
        gap, at = column(raw, 0, facts["n"])
        length, at = column(raw, at, facts["n"])
        code, at = column(raw, at, facts["n"])
        assert at == len(raw)
        gaps.append(gap)
        lengths.append(length)
        codes.append(code)
    gap, length = np.concatenate(gaps), np.concatenate(lengths)
    start = np.zeros(gap.size, np.int64)
    for begin, end in zip(head["first"], head["first"][1:], strict=False):  # a row's times begin anew
        mine = slice(begin, end)
        start[mine] = np.cumsum(gap[mine] + length[mine]) - length[mine]
    launches: dict[int, int] = {}
    work, call = -1, 0
    for facts, raw in links:
        both, _ = column(raw, 0, 2 * facts["n"])
        steps = unzigzag(both[facts["n"] :]).tolist()
        for gap_to, step in zip(both[: facts["n"]].tolist(), steps, strict=True):
            work, call = work + gap_to + 1, call + step
            launches[work] = call
    flows: list[tuple[int, int]] = []
    source = target = 0
    for facts, raw in parts.get("tl-flow", []):
        both, _ = column(raw, 0, 2 * facts["n"])
        steps = unzigzag(both[facts["n"] :]).tolist()
        for gap_to, step in zip(both[: facts["n"]].tolist(), steps, strict=True):
            source, target = source + gap_to, target + step
            flows.append((source, target))
    written = [each for each in head["counters"] if "queue" not in each]  # a script counts the others
    counters = [_counter(each, i, parts.get("tl-counter", [])) for i, each in enumerate(written)]
    listed = json.loads(inflated(names[1]))
    return PageTimeline(
        head,
        listed,
        start,
        length,
        np.concatenate(codes),
        launches,
        flows,
        counters,
        _args(head, text, parts),
        _members(parts.get("tl-members", [])),
    )


def _counter(head: dict[str, Any], number: int, parts: list[tuple[dict[str, int], bytes]]) -> tuple[I64, I64 | F64]:
    times: list[I64] = [NONE]
    values: list[I64 | F64] = []
    for facts, raw in parts:
        if facts["key"] != number:
            continue
        gaps, at = column(raw, 0, facts["n"])
        times.append(gaps)
        values.append(
            np.frombuffer(raw, "<f8", facts["n"], at) if head["float"] else unzigzag(column(raw, at, facts["n"])[0])
        )
    joined = np.concatenate(values) if values else NONE
    return np.cumsum(np.concatenate(times)), joined if head["float"] else np.cumsum(joined)


def _members(parts: list[tuple[dict[str, int], bytes]]) -> dict[int, str]:
    """Return the JSON text at each place: templates with their numbers."""
    found: dict[int, str] = {}
    for facts, raw in parts:
        templates = raw[: facts["t"]].decode().split("\x02")
        gaps, at = column(raw, facts["t"], facts["n"])
        codes, at = column(raw, at, facts["n"])
        rows = np.bincount(codes, minlength=len(templates)).tolist()
        slots = [len(re.findall("[\0\1]", template)) for template in templates]
        flags, at = column(raw, at, sum(slots))
        numbers, at = column(raw, at, sum(count * of for count, of in zip(slots, rows, strict=True)))
        assert at == len(raw)
        columns = [
            iter(
                _slots(numbers, sum(map(int.__mul__, slots[:c], rows[:c])), slots[c], rows[c], flags[sum(slots[:c]) :])
            )
            for c in range(len(templates))
        ]
        for place, code in zip((facts["at"] + np.cumsum(gaps)).tolist(), codes.tolist(), strict=True):
            own = iter(next(columns[code]))
            found[place] = re.sub("[\0\1]", lambda mark, own=own: str(next(own))[mark[0] == "\1" :], templates[code])
    return found


def _slots(numbers: I64, at: int, slots: int, rows: int, flags: I64) -> list[list[int]]:
    """Return the numbers of each row of a template."""
    block = numbers[at : at + slots * rows].reshape(slots, rows).copy()
    for slot in np.flatnonzero(flags[:slots]):
        block[slot, 1:] = unzigzag(block[slot, 1:])
        block[slot] = np.cumsum(block[slot])
    whole: list[list[int]] = block.T.tolist()
    return whole


def _args(
    head: dict[str, Any], text: str, parts: dict[str, list[tuple[dict[str, int], bytes]]]
) -> dict[str, dict[int, int | str]]:
    """Return of each key the value at each place."""
    words = re.findall(r'<script type="application/json" class="tl-words" data-key="(\d+)">([^<]*)</script>', text)
    texts = {int(key): json.loads(body) for key, body in words}
    found: dict[str, dict[int, int | str]] = {each["key"]: {} for each in head["args"]}
    for facts, raw in parts.get("tl-args", []):
        gaps, at = column(raw, 0, facts["n"])
        values, _ = column(raw, at, facts["n"])
        places = (facts["at"] + np.cumsum(gaps)).tolist()
        each = head["args"][facts["key"]]
        if each["type"] == "text":
            found[each["key"]] |= dict(
                zip(places, (texts[facts["key"]][value] for value in values.tolist()), strict=True)
            )
        else:
            found[each["key"]] |= dict(zip(places, unzigzag(values).tolist(), strict=True))
    return found
