"""A reader of the log for the tests: strict, slow, written from the specification alone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tracekit.recorder import log_format as lf


@dataclass
class Seen:
    """A range as the log tells it; end_thread differs for overlapping ones that end elsewhere."""

    name: str
    thread: int
    begin: int
    end: int | None = None
    payload: object = None
    unfinished: bool = False
    end_thread: int | None = None
    parent: Seen | None = None
    handle: int | None = None


@dataclass
class Log:
    head: dict
    names: dict[int, dict] = field(default_factory=dict)
    threads: dict[int, dict] = field(default_factory=dict)
    ranges: list[Seen] = field(default_factory=list)
    overlapping: list[Seen] = field(default_factory=list)
    marks: list[Seen] = field(default_factory=list)
    counters: list[tuple[str, int, int, object]] = field(default_factory=list)
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    notes: Counter = field(default_factory=Counter)
    clocks: list[tuple[int, int, int]] = field(default_factory=list)
    beat: dict | None = None
    ended: dict | None = None
    items: int = 0
    torn: int = 0
    last_ns: int = 0
    kept: int = 0
    merged: int = 0
    facts: int = 0
    dropped: int = 0
    read: int = 0
    size: int = 0
    last_ended: Seen | None = None

    def calls(self) -> Counter:
        return Counter(seen.name for seen in self.ranges + self.overlapping)


def read_log(path: Path, *, clean: bool = True) -> Log:
    """Read a log. clean: it was stopped: nothing may be torn, dropped, or missing."""
    data = path.read_bytes()
    lines = data.split(b"\n")
    tail = lines.pop()
    log: Log | None = None
    stacks: dict[int, list[Seen]] = {}
    opened: dict[int, Seen] = {}
    for raw in lines:
        line = json.loads(raw.decode())
        if log is None:
            assert raw.startswith(lf.HEAD_PREFIX)
            assert line["version"] == lf.VERSION
            log = Log(line, size=len(data))
            log.facts += 1
            log.read += 1
            assert (len(raw) + 1) % lf.RESERVED_BYTES == 0
            continue
        if log.read == 1:
            assert line["k"] in ("beat", "end"), "the reserved line is the second one"
            assert len(raw) + 1 == lf.RESERVED_BYTES
        take(log, line, stacks, opened)
    assert log is not None, "no header"
    if tail:
        log.torn = 1
        log.read += 1
        log.dropped += 1
    for left in [seen for stack in stacks.values() for seen in stack] + list(opened.values()):
        left.end, left.unfinished = log.last_ns, True
    assert log.read == log.kept + log.merged + log.facts + log.dropped
    if clean:
        assert log.ended is not None, "no end line"
        assert log.ended["items"] == log.items == log.beat["items"]
        assert log.ended["how"] in (lf.STOP, lf.EXIT)
        assert raw.startswith(b'{"k":"end"')
        assert (log.torn, log.dropped) == (0, 0)
    return log


def take(log: Log, line: dict, stacks: dict[int, list[Seen]], opened: dict[int, Seen]) -> None:
    kind = line["k"]
    if kind in lf.FACT_KINDS:
        log.facts += 1
        log.read += 1
    if kind == "name":
        assert line["id"] not in log.names
        assert line["id"] > 0
        log.names[line["id"]] = line
    elif kind == "thread":
        log.threads[line["t"]] = line
    elif kind == "clock":
        log.clocks.append(tuple(line["x"]))
        log.last_ns = max(log.last_ns, line["x"][0])
    elif kind == "note":
        assert line["code"] in lf.NOTE_CODES
        log.notes[line["code"]] += line["count"]
    elif kind == "beat":
        log.beat = line
        log.last_ns = max(log.last_ns, line["t"])
    elif kind == "end":
        assert line["how"] in lf.ENDINGS
        log.ended = line
        log.last_ns = max(log.last_ns, line["t"])
    else:
        width = lf.ITEM_LENGTH[kind]
        assert len(line["x"]) % width == 0
        rows = [line["x"][at : at + width] for at in range(0, len(line["x"]), width)]
        offset = line.get("o", 0)
        payloads = dict(line.get("p", []))
        forced = set(line.get("u", []))
        log.items += len(rows)
        log.read += len(rows)
        for number, row in enumerate(rows):
            t = row[1] + offset
            assert 0 < t < 1 << 63
            log.last_ns = max(log.last_ns, t)
            if kind == "s":
                log.facts += 1
                log.steps.append((row[0], t, row[2]))
                continue
            name = log.names[abs(row[0])]["name"]
            if kind == "m":
                log.kept += 1
                log.marks.append(Seen(name, row[2], t, payload=payloads.get(number)))
            elif kind == "c":
                log.kept += 1
                log.counters.append((name, t, row[2], line["v"][number]))
            elif kind == "r":
                assert line["t"] in log.threads
                nested(log, stacks.setdefault(line["t"], []), name, row[0], t, line["t"])
                if number in payloads:
                    log.ranges[-1].payload = payloads[number]
                if number in forced and row[0] < 0:
                    log.last_ended.unfinished = True
            else:
                overlap(log, opened, name, row, t, number in forced)
                if number in payloads:
                    log.overlapping[-1].payload = payloads[number]


def nested(log: Log, stack: list[Seen], name: str, signed: int, t: int, thread: int) -> None:
    if signed > 0:
        seen = Seen(name, thread, t, parent=stack[-1] if stack else None)
        stack.append(seen)
        log.ranges.append(seen)
        log.kept += 1
        return
    if not any(seen.name == name for seen in stack):
        log.dropped += 1
        return
    log.merged += 1
    while stack[-1].name != name:
        cut = stack.pop()
        cut.end, cut.unfinished = t, True
        log.notes["(reader) crossed"] += 1
    seen = stack.pop()
    seen.end, seen.end_thread = t, thread
    log.last_ended = seen
    assert seen.end >= seen.begin


def overlap(log: Log, opened: dict[int, Seen], name: str, row: list[int], t: int, forced: bool) -> None:
    handle, thread = row[2], row[3]
    if row[0] > 0:
        assert handle not in opened
        seen = Seen(name, thread, t, handle=handle)
        opened[handle] = seen
        log.overlapping.append(seen)
        log.kept += 1
        return
    seen = opened.pop(handle)
    assert seen.name == name
    seen.end, seen.end_thread, seen.unfinished = t, thread, forced
    assert seen.end >= seen.begin
    log.merged += 1
