"""Write the samples of sampling profilers. Nothing in them was measured.

    python sample_traces/_samples.py [FOLDER]

All files have the stacks and numbers of STACKS, each in the way of its producer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from _protobuf import message, varint

HERE = Path(__file__).parent
STACKS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("main", "train", "forward", "operator()(Tensor const&, int)"), 120),
    (("main", "train", "backward"), 75),
    (("main", "train", "backward", "backward"), 5),
    (("main", "load, decode and shuffle"), 30),
    (("main",), 3),
    (("worker", "wait"), 17),
)
"""Stacks, the outermost frame first, and how often each was seen, once in 10 ms."""
FRAMES = list(dict.fromkeys(frame for stack, _ in STACKS for frame in stack))


def folded() -> str:
    lines = ["# of a profile of our own making: 100", *(f"{';'.join(stack)} {count}" for stack, count in STACKS)]
    return "\n".join([*lines, "main;train;backward 1", ""])


def speedscope() -> str:
    """Return a file as py-spy writes it, with a second profile that is evented."""
    samples, weights = [], []
    for stack, count in STACKS:
        samples += [[FRAMES.index(frame) for frame in stack]] * count
        weights += [0.01] * count
    first = {"type": "sampled", "name": "Thread 1", "unit": "seconds", "startValue": 0.0, "endValue": 2.5}
    events = [
        {"type": kind, "frame": frame, "at": at}
        for kind, frame, at in (("O", 0, 0), ("O", 1, 250), ("C", 1, 1000), ("C", 0, 1250))
    ]
    second = {"type": "evented", "name": "Thread 2", "unit": "milliseconds", "startValue": 0, "endValue": 1250}
    return json.dumps({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "profiles": [first | {"samples": [*samples, []], "weights": [*weights, 0.01]}, second | {"events": events}],
        "shared": {"frames": [{"name": frame, "file": "train.py", "line": 1} for frame in FRAMES]},
        "exporter": "py-spy@0.4.1", "name": "py-spy profile",
    })  # fmt: skip


def tables() -> tuple[list[int | None], list[int], list[int]]:
    """Return prefixes and frames of a table of stacks, and the stack of each of STACKS."""
    known: dict[tuple[str, ...], int] = {}
    prefixes: list[int | None] = []
    for stack, _ in STACKS:
        for depth in range(1, len(stack) + 1):
            if stack[:depth] not in known:
                prefixes.append(known.get(stack[: depth - 1]))
                known[stack[:depth]] = len(known)
    return prefixes, [FRAMES.index(path[-1]) for path in known], [known[stack] for stack, _ in STACKS]


def firefox() -> str:
    """Return a profile as samply writes it: a sample of a weight for each stack, and one without a stack."""
    prefixes, frames, stacks = tables()
    meta = {
        "interval": 10.0,
        "preprocessedProfileVersion": 55,
        "product": "train",
        "sampleUnits": {"threadCPUDelta": "µs"},
    }
    samples = {
        "length": len(stacks) + 1, "weightType": "samples", "stack": [*stacks, None],
        "weight": [*(count for _, count in STACKS), 1], "timeDeltas": [75_091_402.59, *[10.0] * len(stacks)],
        "threadCPUDelta": [*(count * 10_000 for _, count in STACKS), 0],
    }  # fmt: skip
    thread = {
        "name": "train", "tid": "7", "processName": "train", "samples": samples,
        "stackTable": {"length": len(frames), "prefix": prefixes, "frame": frames},
        "frameTable": {"length": len(FRAMES), "func": list(range(len(FRAMES)))},
        "funcTable": {"length": len(FRAMES), "name": list(range(len(FRAMES)))},
        "markers": {"length": 1, "name": [0], "startTime": [1.5], "endTime": [2.5]}, "stringArray": FRAMES,
    }  # fmt: skip
    return json.dumps({"meta": meta, "libs": [], "threads": [thread]}, ensure_ascii=False)


def gecko() -> str:
    """Return a raw profile of Gecko: tables of rows, a child process."""
    prefixes, frames, stacks = tables()
    samples = [[stack, 10 * place] for place, stack in enumerate(stacks)]
    rows = [list(row) for row in zip(prefixes, frames, strict=True)]
    thread = {
        "name": "GeckoMain", "tid": 3, "pid": 2,
        "samples": {"schema": {"stack": 0, "time": 1}, "data": samples},
        "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": rows},
        "frameTable": {"schema": {"location": 0}, "data": [[place] for place in range(len(FRAMES))]},
        "stringTable": FRAMES, "markers": {"schema": {"name": 0}, "data": []},
    }  # fmt: skip
    child = {"meta": {"version": 13}, "threads": [thread | {"name": "Web Content"}], "processes": []}
    return json.dumps({"meta": {"version": 13, "interval": 10}, "threads": [thread], "processes": [child]})


def pprof() -> bytes:
    """Return a profile as Go writes it: two values of each sample, an inlined function, an address alone."""
    texts = ["", "samples", "count", "cpu", "nanoseconds", "/bin/train", *FRAMES]
    fields: list[tuple[int, Any]] = [(9, 1_780_000_000_000_000_000)]
    fields += [(1, message((1, 1), (2, 2))), (1, message((1, 3), (2, 4)))]
    for stack, count in STACKS:
        places = b"".join(varint(FRAMES.index(frame) + 1) for frame in reversed(stack))
        fields.append((2, message((1, places), (2, varint(count) + varint(count * 10_000_000)))))
    fields.append((2, message((1, varint(99)), (2, varint(1) + varint(10_000_000)))))
    fields.append((3, message((1, 1), (5, 5))))
    for place in range(len(FRAMES)):
        fields.append((4, message((1, place + 1), (2, 1), (4, message((1, place + 1), (2, 42))))))
        fields.append((5, message((1, place + 1), (2, place + 6))))
    fields.append((4, message((1, 99), (2, 1), (3, 0x4F2A10))))
    fields += [(6, text.encode()) for text in texts]
    return message(*fields, (10, 2_510_000_000), (12, 10_000_000))


def main(target: Path) -> None:
    """Write the files."""
    for name, data in {
        "folded/py-spy.folded": folded().encode(),
        "folded/powershell.txt": b"\xff\xfe" + folded().replace("\n", "\r\n").encode("utf-16-le"),
        "speedscope/py-spy.speedscope.json": speedscope().encode(),
        "firefox/samply.json": firefox().encode(),
        "firefox/gecko.json": gecko().encode(),
        "pprof/go-cpu.pb": pprof(),
    }.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
