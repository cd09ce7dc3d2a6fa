"""Write the samples of Perfetto traces. Nothing in them was measured.

    python sample_traces/_perfetto.py [FOLDER]

program.pftrace is a program with Perfetto's SDK: two processes on clocks of three kinds; some packets are compressed.
gpu.pftrace is what drivers of GPUs write: stages of two GPUs, counters, memory.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import Any

from _protobuf import Fixed, message

HERE = Path(__file__).parent
BOOT_NS = 5_000_000_000_000
UNIX_NS = 1_780_000_000_000_000_000
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def packet(*fields: tuple[int, Any]) -> bytes:
    return message((1, message(*fields)))


def snapshot(sequence: int, *clocks: tuple[int, ...], main: int = 0) -> bytes:
    """Return a snapshot of clocks: number, count, whether it counts in steps, ns of a count."""
    shown = [(1, message(*zip((1, 2, 3, 4), clock, strict=False))) for clock in clocks]
    return packet((6, message(*shown, *([(2, main)] if main else []))), (10, sequence))


def annotation(key: tuple[int, Any], *value: tuple[int, Any]) -> tuple[int, bytes]:
    return 4, message(key, *value)


class Sequence:
    """A packet sequence: its interned texts, and packets that need them."""

    def __init__(self, number: int, *defaults: tuple[int, Any]) -> None:
        self.number = number
        self.known: dict[tuple[int, str], int] = {}
        self.new: list[tuple[int, bytes]] = []
        self.first = True
        self.defaults = defaults

    def text(self, field: int, text: str) -> int:
        if (field, text) not in self.known:
            self.known[field, text] = len(self.known) + 1
            self.new.append((field, message((1, self.known[field, text]), (2, text))))
        return self.known[field, text]

    def packet(self, *fields: tuple[int, Any]) -> bytes:
        fields = (*fields, (10, self.number), (13, 3 if self.first else 2))
        if self.first and self.defaults:
            fields = (*fields, (59, message(*self.defaults)))
        if self.new:
            fields = (*fields, (12, message(*self.new)))
        self.first, self.new = False, []
        return packet(*fields)

    def event(self, time: int, kind: int, name: str = "", *more: tuple[int, Any], category: str = "") -> bytes:
        fields: list[tuple[int, Any]] = [(9, kind)] if kind else []
        if name:
            fields.append((10, self.text(2, name)))
        if category:
            fields.append((3, self.text(1, category)))
        return self.packet((8, time), (11, message(*fields, *more)))


def process(uuid: int, pid: int, name: str) -> bytes:
    return packet((60, message((1, uuid), (3, message((1, pid), (6, name))))), (10, 1))


def thread(uuid: int, parent: int, pid: int, tid: int, name: str) -> bytes:
    own = message((1, pid), (2, tid), (5, name))
    return packet((60, message((1, uuid), (5, parent), (4, own))), (10, 1))


def track(uuid: int, parent: int, name: str, *more: tuple[int, Any]) -> bytes:
    return packet((60, message((1, uuid), (5, parent), (2, name), *more)), (10, 1))


def program() -> bytes:
    """A trainer with two threads and a loader: slices, moments, counters, flows, asynchronous work."""
    out = [
        snapshot(1, (6, BOOT_NS), (1, UNIX_NS), (3, BOOT_NS - 700_000), main=6),
        process(100, 4242, "trainer"),
        thread(101, 100, 4242, 4242, "main"),
        process(200, 4243, "loader"),
        track(300, 100, "requests"),
        track(400, 101, "tokens", (8, message((3, 3), (4, 1024)))),
    ]
    main = Sequence(2, (58, 64), (11, message((11, 101))))
    out.append(snapshot(2, (6, BOOT_NS + 1_000_000), (64, 0, 1, 1000)))
    for step in range(3):
        flow = (48, Fixed(0xF00000000000 + step))
        numbered = annotation((1, main.text(3, "step")), (4, step))
        shape = annotation((10, "shape"), (12, message((4, 32))), (12, message((4, 128))))
        out.append(main.event(100, BEGIN, "train step", numbered, flow, category="train"))
        out.append(main.event(50, BEGIN, "forward", shape, category="train"))
        out.append(main.event(400, END))
        out.append(main.event(0, BEGIN, "backward", annotation((10, "loss"), (5, 0.25 / (step + 1)))))
        out.append(main.event(0, INSTANT, "gradients ready", (22, "note")))
        out.append(main.event(700, END))
        out.append(main.event(5, COUNTER, "", (11, 400), (30, 4 * (step + 1))))
        out.append(main.event(45, END, "", annotation((1, main.text(3, "skipped")), (2, 0))))
    loader = Sequence(3, (58, 3), (11, message((11, 201))))
    began = BOOT_NS - 700_000 + 1_000_000
    inner = []
    for step in range(4):
        at = began + 1_000_000 * step
        path = annotation((10, "path"), (17, loader.text(29, "/data/part-0")))
        inner.append(loader.event(at, BEGIN, "read", path, (47, Fixed(0xF00000000000 + step)), category="io"))
        inner.append(loader.event(at + 300_000, END))
    out.append(packet((50, zlib.compress(b"".join(inner)))))
    # A descriptor may come behind the events of its track.
    out.append(thread(201, 200, 4243, 4250, "reader"))
    # Numbers of texts begin anew.
    loader = Sequence(3, (58, 3), (11, message((11, 201))))
    out.append(loader.event(began + 6_000_000, BEGIN, "read", category="io"))
    plain = Sequence(4)
    for number, (start, length) in enumerate(((2_000_000, 900_000), (2_400_000, 800_000))):
        own = (11, 300 + number)
        out.append(track(300 + number, 100, "requests"))
        out.append(plain.event(BOOT_NS + start, BEGIN, "request", own, annotation((10, "size"), (3, 1 << 63))))
        out.append(plain.event(BOOT_NS + start + length, END, "", own))
    # Chrome's phases: a duration in one event, and asynchronous work by its id.
    legacy = (6, message((2, ord("X")), (3, 250)))
    out.append(plain.event(BOOT_NS + 5_000_000, 0, "checkpoint", (11, 101), legacy, category="disk"))
    for phase, at in (("b", 4_100_000), ("n", 4_150_000), ("e", 4_300_000)):
        legacy = (6, message((2, ord(phase)), (6, 0x77)))
        out.append(plain.event(BOOT_NS + at, 0, "upload", (11, 101), legacy, category="net"))
    out.append(packet((35, b""), (10, 1)))
    out.append(packet((1, message((1, 0))), (10, 5)))
    return b"".join(out)


def gpu() -> bytes:
    """Two GPUs, of a driver that names its queues once and of one that interns names; counters and memory."""
    specifications = message((2, message((1, "3D"))), (2, message((1, "Copy"))), (3, message((1, "Vertex"))))
    out = [snapshot(1, (6, BOOT_NS), (1, UNIX_NS), main=6), process(100, 4242, "game")]
    out.append(packet((53, message((7, specifications))), (10, 2), (8, BOOT_NS)))
    for number in range(4):
        own = message((1, 70 + number), (2, 400_000), (3, number % 2), (4, 0), (10, 5 + number), (11, 0))
        out.append(packet((53, own), (10, 2), (8, BOOT_NS + 500_000 * number)))
    named = [
        (24, message((1, 1), (2, "Compute"), (4, 2))),
        (24, message((1, 2), (2, "gemm"), (4, 2))),
        (23, message((1, 9), (2, 4242), (3, 4))),
        (26, message((1, 3), (2, "gemm_f16_128x64"))),
    ]
    for number in range(3):
        launch = message((1, message((1, 64), (2, 2))), (2, message((1, 256))))
        extra = message((1, "waves"), (2, str(number)))
        fields = [(1, 90 + number), (2, 250_000), (5, 9), (11, 1), (13, 1), (14, 2), (6, extra)]
        if number == 2:
            fields += [(19, 3), (21, launch)]
        more = [(12, message(*named)), (13, 3)] if not number else [(13, 2)]
        out.append(packet((53, message(*fields)), (10, 3), (8, BOOT_NS + 100_000 + 300_000 * number), *more))
    specs = [(1, message((1, 1), (2, "GPU busy"))), (1, message((1, 2), (2, "Clock")))]
    out.append(packet((52, message((1, message(*specs)), (3, 0))), (10, 4), (8, BOOT_NS)))
    for number in range(3):
        values = (2, message((1, 1), (3, 12.5 * number))), (2, message((1, 2), (2, 1400 + number)))
        out.append(packet((52, message(*values, (3, 0))), (10, 4), (8, BOOT_NS + 1_000_000 * number)))
    out.append(packet((71, message((1, 0), (2, 0), (3, 1 << 20))), (10, 5), (8, BOOT_NS + 10)))
    out.append(packet((71, message((1, 0), (2, 4242), (3, 1 << 19))), (10, 5), (8, BOOT_NS + 20)))
    return b"".join(out)


def main(folder: Path) -> None:
    """Write the samples into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu.pftrace").write_bytes(gpu())
    (folder / "program.pftrace").write_bytes(program())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "perfetto")
