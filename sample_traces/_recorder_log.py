"""Logs of tracekit's recorder: two ranks of a training run of three steps, and what a plain loop finds in them.

The lines follow the specification in tracekit/recorder/log_format.py; they are written here without its encoders.
"""

from __future__ import annotations

import json
import random
from typing import Any

from _sheet import Sheet

EPOCH_NS = 1_767_225_600_000_000_000
NAMES = {
    "step": ("step", None), "dataloader": ("dataloader", None), "forward": ("forward", None),
    "backward": ("backward", None), "all_reduce": ("communication", None), "optimizer": ("optimizer", None),
    "conv1": ("operator", "layer"), "fc": ("operator", "layer"), "decode jpeg": (None, "data"),
    "prefetch": ("dataloader", None), "loss": (None, None), "memory": (None, None),
    "checkpoint \U0001f4be": (None, None), "upload": ("my own kind", None),
}  # fmt: skip
Line = dict[str, Any]


class LogSheet(Sheet):
    """Lines of a log; its figures come from a plain reading of the complete lines, one item after the other."""

    def __init__(self) -> None:
        super().__init__("recorder-log")
        self.objects: list[Line] = []
        self.tail = ""

    def line(self, kind_of_line: str, line: Line) -> None:
        self.objects.append(line)
        self.add(kind_of_line, json.dumps(line, ensure_ascii=False, separators=(",", ":")))

    def text(self, newline: str = "\n") -> str:
        return super().text(newline) + self.tail

    def torn(self, lines: int) -> LogSheet:
        """The log of a process that was killed: so many whole lines, and half of the next one."""
        cut = LogSheet()
        cut.objects, cut.lines = self.objects[:lines], self.lines[:lines]
        cut.tail = self.lines[lines][1][: len(self.lines[lines][1]) // 2]
        return cut

    def figures(self) -> dict[str, object]:
        out = super().figures()
        spans = _read_plainly(self.objects)
        out["lines"] |= {"torn": 1} if self.tail else {}  # type: ignore[operator]
        out["data_rows"] = len(spans)
        out["sum_dur_ns"] = sum(dur for _, dur in spans)
        out["first_start_ns"] = min(start for start, _ in spans)
        out["last_end_ns"] = max(start + dur for start, dur in spans)
        return out


def _read_plainly(lines: list[Line]) -> list[tuple[int, int]]:
    """Start and duration of each event; ranges that are open still end at the last time of the log."""
    spans: list[tuple[int, int]] = []
    stacks: dict[int, list[int]] = {}
    tasks: dict[int, int] = {}
    last = lines[0]["perf_ns"]
    for line in lines[1:]:
        items, kind, offset = line.get("x", []), line["k"], line.get("o", 0)
        if kind == "clock":
            last = max(last, items[0])
        elif kind == "end":
            last = max(last, line["t"])
        width = {"r": 2, "a": 4, "m": 3, "c": 3}.get(kind, 0)
        for at in range(0, len(items), width) if width else ():
            number, time = items[at], items[at + 1] + offset
            last = max(last, time)
            if kind in "mc":
                spans.append((time, 0))
            elif kind == "r" and number > 0:
                stacks.setdefault(line["t"], []).append(time)
            elif kind == "r":
                start = stacks[line["t"]].pop()
                spans.append((start, time - start))
            elif number > 0:
                tasks[items[at + 2]] = time
            else:
                start = tasks.pop(items[at + 2])
                spans.append((start, time - start))
    for start in [time for stack in stacks.values() for time in stack] + list(tasks.values()):
        spans.append((start, last - start))
    return spans


class _Process:
    """One rank at work: three threads, a clock, and the items that the next flush will write."""

    def __init__(self, rank: int) -> None:
        self.rng = random.Random(f"recorder-log {rank}")
        self.now = 91_000_000_000_000 + rank * 7_000_000_000_000
        self.start = self.now
        self.sheet = LogSheet()
        self.ids = {name: number for number, name in enumerate(NAMES, 1)}
        self.ranges: dict[int, list[int]] = {}
        self.payloads: dict[int, list[Any]] = {}
        self.points: dict[str, list[Any]] = {"m": [], "c": [], "v": [], "a": [], "s": []}
        self.items = 0
        self.sheet.line("header", {
            "format": "tracekit-log", "version": 1, "tracekit": "0.1.0", "pid": 4242 + rank, "parent_pid": 4200,
            "rank": rank, "world_size": 2, "host": "node7", "process": f"train.py rank {rank}",
            "python": "/usr/bin/python3 3.11.7", "command": ["train.py", "--lr", "0.1"], "perf_ns": self.now,
            "epoch_ns": EPOCH_NS + 1_300 * rank,
        })  # fmt: skip
        self.clock(0)
        for index, name in enumerate(("MainThread", "loader", "uploader")):
            self.sheet.line("thread", {"k": "thread", "t": index, "tid": 4242 + rank + 10 * index, "name": name})
        for name, (kind, category) in NAMES.items():
            line: Line = {"k": "name", "id": self.ids[name], "name": name}
            line |= {"kind": kind} if kind else {}
            line |= {"category": category} if category else {}
            line |= {"color": "#76B900"} if name == "forward" else {}
            self.sheet.line("name", line)

    def clock(self, drift: int) -> None:
        wall = EPOCH_NS + self.now - self.start + drift
        self.sheet.line("clock", {"k": "clock", "x": [self.now, wall, 85]})

    def pass_time(self, about_us: int) -> int:
        self.now += self.rng.randrange(about_us * 700, about_us * 1300)
        return self.now

    def begin(self, thread: int, name: str, payload: object = None) -> None:
        items = self.ranges.setdefault(thread, [])
        if payload is not None:
            self.payloads.setdefault(thread, []).append([len(items) // 2, payload])
        items += [self.ids[name], self.pass_time(2)]

    def end(self, thread: int, name: str, about_us: int) -> None:
        self.ranges.setdefault(thread, []).extend((-self.ids[name], self.pass_time(about_us)))

    def flush(self) -> None:
        offset = self.start // 10**9 * 10**9
        if self.points["s"]:
            self.sheet.line("items", {"k": "s", "x": self.points["s"]})
        for thread, items in sorted(self.ranges.items()):
            line: Line = {"k": "r", "t": thread, "o": offset}
            line["x"] = [value if at % 2 == 0 else value - offset for at, value in enumerate(items)]
            line |= {"p": self.payloads[thread]} if thread in self.payloads else {}
            self.sheet.line("items", line)
        if self.points["m"]:
            self.sheet.line("items", {"k": "m", "x": self.points["m"], "p": [[0, {"path": "/ckpt/\u00e9tape 1.pt"}]]})
        if self.points["c"]:
            self.sheet.line("items", {"k": "c", "x": self.points["c"], "v": self.points["v"]})
        if self.points["a"]:
            self.sheet.line("items", {"k": "a", "x": self.points["a"]})
        self.items += sum(len(items) // 2 for items in self.ranges.values())
        self.items += sum(len(self.points[kind]) // 3 for kind in "mcs") + len(self.points["a"]) // 4
        self.ranges, self.payloads = {}, {}
        self.points = {"m": [], "c": [], "v": [], "a": [], "s": []}

    def step(self, number: int) -> None:
        ids, points = self.ids, self.points
        points["a"] += [ids["prefetch"], self.pass_time(3), 100 + number, 1]
        self.begin(1, "decode jpeg", {"batch": number, "images": 32})
        self.end(1, "decode jpeg", 180)
        self.begin(0, "step")
        points["s"] += [number, self.now, 0]
        self.begin(0, "dataloader")
        self.end(0, "dataloader", 40)
        points["a"] += [-ids["prefetch"], self.pass_time(1), 100 + number, 0]
        self.begin(0, "forward")
        for layer in ("conv1", "fc"):
            self.begin(0, layer, "fp16" if layer == "fc" else None)
            self.end(0, layer, 60)
        self.end(0, "forward", 15)
        self.flush()
        self.begin(0, "backward")
        self.begin(0, "all_reduce", {"bytes": 4 << 20, "ranks": [0, 1]})
        self.end(0, "all_reduce", 90)
        self.end(0, "backward", 130)
        self.begin(0, "optimizer")
        self.end(0, "optimizer", 25)
        self.points["c"] += [ids["loss"], self.pass_time(1), 0, ids["memory"], self.pass_time(1), 0]
        self.points["v"] += ["Infinity" if number == 2 else round(2.5 / (number + 1), 4), (1 << 30) + number]
        if number == 1:
            self.points["m"] += [ids["checkpoint \U0001f4be"], self.pass_time(1), 0]
        self.end(0, "step", 10)
        self.flush()


def training(rank: int) -> LogSheet:
    """The whole log of one rank. The uploader's range is still open when the recording stops."""
    process = _Process(rank)
    for number in range(3):
        if number == 1:
            process.begin(2, "upload")
        process.step(number)
    process.pass_time(400)
    process.clock(420)
    process.sheet.line("items", {"k": "r", "t": 2, "x": [-process.ids["upload"], process.now], "u": [0]})
    process.items += 1
    process.sheet.line("note", {"k": "note", "code": "payload_as_text", "count": 1})
    process.sheet.line("end", {"k": "end", "t": process.pass_time(5), "items": process.items})
    return process.sheet
