"""Perfetto traces in blocks: where a block ends changes nothing, and values are read by columns as one by one."""

from __future__ import annotations

import json
import math
import random
import runpy
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from small_limits import Limit, small
from support import SAMPLES, sample

import tracekit
from tracekit.model.trace import Trace
from tracekit.readers.packets import framing

MAKE = runpy.run_path(str(SAMPLES / "_perfetto.py"))
message, packet, Sequence, annotation, Fixed = (
    MAKE[name] for name in ("message", "packet", "Sequence", "annotation", "Fixed")
)
BEGIN, END, INSTANT = 1, 2, 3


def read(folder: Path, *packets: bytes) -> Trace:
    path = folder / "t.pftrace"
    path.write_bytes(b"".join(packets))
    return tracekit.read(path, format="perfetto")


def facts(trace: Trace) -> tuple[Any, ...]:
    """All that a trace says, whatever the order of rows with the same time."""
    rows = sorted(json.dumps(row, sort_keys=True) for row in trace.events.to_pylist())
    ledger = trace.ledgers[0]
    notes = {code: note.count for code, note in ledger.notes.items()}
    return rows, ledger.read, ledger.kept, ledger.merged, ledger.facts, ledger.dropped, notes, trace.run.threads


def program(seed: int, *, named_ends: bool) -> list[bytes]:
    """Begins and ends on three tracks; some ends have arguments, names, or nothing to end; some events are late."""
    draw = random.Random(seed)
    sequences = [Sequence(2 + n, (11, message((11, 9 + n)))) for n in range(3)]
    out = []
    at = 0
    for _ in range(300):
        one = draw.choice(sequences)
        at += draw.choice((0, 1, 5))
        when = max(at - (draw.randrange(40) if draw.random() < 0.05 else 0), 0)
        kind = draw.choice((BEGIN, BEGIN, END, END, INSTANT))
        name = draw.choice("abc") if kind != END or (named_ends and draw.random() < 0.2) else ""
        more = [annotation((10, "n"), (4, draw.randrange(3)))] if draw.random() < 0.3 else []
        out.append(one.event(when, kind, name, *more))
    return out


@pytest.mark.parametrize("named_ends", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_where_blocks_end_changes_nothing(
    tmp_path: Path, seed: int, named_ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = program(seed, named_ends=named_ends)
    want = facts(read(tmp_path, *packets))
    for size, in_memory in ((1, 1 << 19), (7, 1 << 19), (50, 1 << 19), (7, 20)):
        small(monkeypatch, Limit.PACKETS_OF_A_BLOCK, size)
        small(monkeypatch, Limit.PERFETTO_ROWS_IN_MEMORY, in_memory)
        assert facts(read(tmp_path, *packets)) == want, (size, in_memory)


def ended_at_once(seed: int) -> list[bytes]:
    """Slices as rocprofv3 and the Rust crate write them: the end is behind its begin, and the next begin is older.

    A few are late, have no end, or an end with a name of another one.
    """
    draw = random.Random(seed)
    sequences = [Sequence(2 + n, (11, message((11, 9 + n)))) for n in range(2)]
    out = []
    at = 50
    for _ in range(120):
        one, name = draw.choice(sequences), draw.choice("ab")
        at += draw.choice((0, 1, 3))
        begin = at - (draw.randrange(40) if draw.random() < 0.05 else 0)
        out.append(one.event(begin, BEGIN, name))
        if draw.random() < 0.95:
            end_name = name if draw.random() < 0.1 else draw.choice("ab") if seed % 2 and draw.random() < 0.02 else ""
            out.append(one.event(begin + draw.choice((0, 1, 2, 9)), END, end_name))
    return out


@pytest.mark.parametrize("seed", range(6))
def test_pairs_beside_those_of_other_blocks_are_the_same_pairs(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = ended_at_once(seed)
    want = facts(read(tmp_path, *packets))
    for size, in_memory in ((1, 1 << 19), (5, 1 << 19), (31, 1 << 19), (31, 20)):
        small(monkeypatch, Limit.PACKETS_OF_A_BLOCK, size)
        small(monkeypatch, Limit.PERFETTO_ROWS_IN_MEMORY, in_memory)
        assert facts(read(tmp_path, *packets)) == want, (size, in_memory)


def test_packets_are_found_by_columns_as_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(3)
    one = Sequence(3)
    packets = []
    for at in range(800):
        # Names of 0x0a and lengths of one to three bytes: bytes in them that look like the begin of a packet.
        name = "\n" * draw.choice((1, 9, 70, 127, 300)) if at % 97 else "\n\x05" * 9000
        packets.append(one.event(at, INSTANT, "", (23, name)))
    want = facts(read(tmp_path, *packets))
    small(monkeypatch, Limit.FEW_BYTES_OF_PACKETS, 1 << 30)
    assert facts(read(tmp_path, *packets)) == want
    assert want[1] == 800


def nested(draw: random.Random, depth: int) -> tuple[bytes, Any]:
    """A NestedValue and what it means, told apart from the reader."""
    kind = draw.choice(("int", "double", "bool", "text", "none") if depth > 3 else ("dict", "list", "int", "text"))
    if kind == "dict":
        keys = [draw.choice(("a", "b", 'c"\n', "é")) for _ in range(draw.randrange(4))]
        members = [nested(draw, depth + 1) for _ in keys]
        fields = [(1, 1), *((2, key) for key in keys), *((3, data) for data, _ in members)]
        return message(*fields), dict(zip(keys, (value for _, value in members), strict=True))
    if kind == "list":
        items = [nested(draw, depth + 1) for _ in range(draw.randrange(4))]
        return message((1, 2), *((4, data) for data, _ in items)), [value for _, value in items]
    if kind == "int":
        number = draw.choice((0, 7, -3, 2**63 - 1, -(2**63)))
        return message((5, number)), number
    if kind == "double":
        real = draw.choice((0.5, -1e300, math.inf))
        return message((6, Fixed(struct.unpack("<Q", struct.pack("<d", real))[0]))), real if real < 2e300 else "inf"
    if kind == "bool":
        return message((7, 1)), True
    return (message((8, "t\u00fc\\")), "t\u00fc\\") if kind == "text" else (b"", None)


def test_nested_values_of_old_producers_are_json(tmp_path: Path) -> None:
    draw = random.Random(11)
    values = [nested(draw, 0) for _ in range(200)]
    one = Sequence(3)
    trace = read(tmp_path, *(one.event(at, INSTANT, "m", annotation((10, "v"), (8, data))) for at, (data, _) in
                             enumerate(values)))  # fmt: skip
    found = [json.loads(row["args"])["v"] for row in trace.events.to_pylist()]
    assert found == [value for _, value in values]
    assert max(str(value).count("[") for _, value in values) > 3


def test_nested_values_are_cut_where_they_are_too_deep(tmp_path: Path) -> None:
    data = message((5, 1))
    for _ in range(30):
        data = message((1, 2), (4, data))
    trace = read(tmp_path, Sequence(3).event(0, INSTANT, "m", annotation((10, "v"), (8, data))))
    value, depth = json.loads(trace.events.to_pylist()[0]["args"])["v"], 0
    while isinstance(value, list):
        (value,), depth = value, depth + 1
    assert (value, depth) == ("...", 17)


@pytest.mark.parametrize(("field", "pack"), [(50, zlib.compress), (133, zstandard.compress)], ids=["zlib", "zstd"])
def test_compressed_packets_are_those_that_they_hold(tmp_path: Path, field: int, pack: Any) -> None:
    one = Sequence(3)
    plain = [one.event(10 * at, INSTANT, f"m{at % 3}") for at in range(9)]
    want = read(tmp_path, *plain).events.select(["ts_ns", "name", "kind"])
    trace = read(tmp_path, packet((field, pack(b"".join(plain[:5])))), packet((field, pack(b"".join(plain[5:])))))
    assert trace.events.select(["ts_ns", "name", "kind"]).equals(want)
    assert (trace.ledgers[0].read, trace.ledgers[0].kept, trace.ledgers[0].facts) == (11, 9, 2)


def test_a_zstd_stream_that_is_damaged_or_grows_without_end_costs_itself(tmp_path: Path) -> None:
    good = Sequence(3).event(10, INSTANT, "a")
    bomb = zstandard.compress(b"\0" * (80 << 20))
    trace = read(tmp_path, packet((133, b"nothing")), good, packet((133, bomb)))
    assert trace.ledgers[0].dropped == {"damaged": 2}
    assert trace.events.num_rows == 1


def test_a_trace_of_our_own_without_its_last_packet_has_our_columns_as_args(tmp_path: Path) -> None:
    """The columns are taken out before it is known whose trace this is: they come back as they were."""
    target = tmp_path / "own.pftrace"
    tracekit.convert([sample("kineto/gpu.pt.trace.json")], target)
    data = target.read_bytes()
    starts, ends, _ = framing.frame(data)
    whole = tracekit.read(target).events.to_pylist()
    (tmp_path / "cut.pftrace").write_bytes(data[: int(ends[-2])])
    cut = tracekit.read(tmp_path / "cut.pftrace")
    assert len(starts) > 10
    held = [json.loads(row["args"]) for row in cut.events.to_pylist() if row["args"] and row["kind"] != "flow"]
    numbers = sorted(row["correlation"] for row in whole if row["correlation"] is not None and row["kind"] != "flow")
    assert numbers
    assert sorted(args["correlation"] for args in held if "correlation" in args) == numbers
