"""One long name in many rows: it is cut with a note, and no reader or output copies it for each row."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from structure_fuzz import Field, packed
from support import SAMPLES, run_command

import tracekit
from tracekit.readers.builder import MOST_NAME

LONG = 4_000_000
ROWS = 3_000
NAME = "k" * LONG


def _database(sample: str, path: Path, changes: list[str], table: str) -> None:
    shutil.copy(SAMPLES / sample, path)
    with closing(sqlite3.connect(path)) as base:
        for sql in changes:
            base.execute(sql, (NAME,) if "?" in sql else ())
        columns = [
            row[1] for row in base.execute(f"pragma table_info({table})") if row[1] not in ("id", "_id_", "event_id")
        ]
        listed = ", ".join(f'"{name}"' for name in columns)
        while base.execute(f"select count(*) from {table}").fetchone()[0] < ROWS:
            base.execute(f"insert into {table} ({listed}) select {listed} from {table}")
        base.commit()


def nsys(path: Path) -> None:
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    one = f"update StringIds set value = ? where id = (select demangledName from {kernels} limit 1)"
    same = f"update {kernels} set demangledName = (select demangledName from {kernels} limit 1)"
    _database("nsys-sqlite/two-processes.sqlite", path, [one, same], kernels)


def nvprof(path: Path) -> None:
    kernels = "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"
    one = f"update StringTable set value = ? where _id_ = (select name from {kernels} limit 1)"
    _database("nvprof-sqlite/version-11-markers.nvprof", path, [one], kernels)


def rpd(path: Path) -> None:
    first = "(select description_id from rocpd_op limit 1)"
    changes = [
        f"update rocpd_string set string = ? where id = {first}",
        f"update rocpd_op set description_id = {first}",
    ]
    _database("rpd/trace.rpd", path, changes, "rocpd_op")


def rocpd(path: Path) -> None:
    ending = "_00000001_0000_7000_8000_000000004300"
    symbols = f"rocpd_info_kernel_symbol{ending}"
    changes = [f"update {symbols} set kernel_name = ?", f"update {symbols} set display_name = kernel_name"]
    _database("rocpd/merged.db", path, changes, f"rocpd_kernel_dispatch{ending}")


def message(*fields: tuple[int, int, int | bytes | list[Field]]) -> list[Field]:
    return [Field(*each) for each in fields]


def perfetto(path: Path) -> None:
    thread = message((1, 0, 1), (2, 2, b"main"), (3, 2, message((1, 0, 1), (2, 0, 1))))
    names = message((2, 2, message((1, 0, 1), (2, 2, NAME.encode()))))
    packets = [
        message((8, 0, 0), (10, 0, 1), (60, 2, thread)),
        message((8, 0, 0), (10, 0, 1), (13, 0, 1), (12, 2, names)),
    ]
    for row in range(ROWS):
        for time, event in ((1000, ((9, 0, 1), (11, 0, 1), (10, 0, 1))), (1005, ((9, 0, 2), (11, 0, 1)))):
            packets.append(message((8, 0, time + 10 * row), (10, 0, 1), (13, 0, 2), (11, 2, message(*event))))
    path.write_bytes(packed([Field(1, 2, each) for each in packets]))


def chrome(path: Path) -> None:
    events = [{"ph": "X", "name": NAME, "ts": n, "dur": 5, "pid": 1, "tid": n} for n in range(3)]
    path.write_text(json.dumps({"traceEvents": events}))


def xplane(path: Path) -> None:
    events = [Field(4, 2, message((1, 0, 1), (2, 0, 10_000 * n), (3, 0, 5_000))) for n in range(ROWS)]
    line = [*message((1, 0, 1), (2, 2, b"Stream #7(Compute)"), (3, 0, 1_000)), *events]
    metadata = message((1, 0, 1), (2, 2, message((1, 0, 1), (2, 2, NAME.encode()), (4, 2, NAME.encode() + b"s"))))
    plane = message((1, 0, 1), (2, 2, b"/device:GPU:0"), (3, 2, line), (4, 2, metadata))
    path.write_bytes(packed(message((1, 2, plane))))


FILES: dict[str, Callable[[Path], None]] = {
    "long.sqlite": nsys,
    "long.nvprof": nvprof,
    "long.rpd": rpd,
    "long.db": rocpd,
    "long.pftrace": perfetto,
    "long.json": chrome,
    "long.xplane.pb": xplane,
}


@pytest.mark.parametrize("name", FILES)
def test_a_long_name_is_cut_with_a_note_that_says_how_long_it_was(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    FILES[name](path)
    trace = tracekit.read(path)
    names = {each for each in trace.events.column("name").unique().to_pylist() if each and len(each) > 1000}
    assert names, name
    for each in names:
        assert len(each) < MOST_NAME + 64
        assert each.startswith("k" * MOST_NAME)
    notes = [note for ledger in trace.ledgers for note in ledger.notes.values() if note.code == "name-too-long"]
    assert len(notes) == 1
    assert "a name of 4,000,00" in str(notes[0])
    out = tmp_path / "out.json"
    tracekit.convert(path, out, to="chrome")
    rows = trace.events.num_rows
    assert out.stat().st_size < 2 * rows * (MOST_NAME + 2_000)


@pytest.mark.parametrize("name", ["long.pftrace", "long.db", "long.rpd", "long.xplane.pb"])
def test_a_long_name_takes_no_memory_for_each_row(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    FILES[name](path)
    run_command("summary", path, "--max-memory", "1GiB")


def test_two_long_names_that_begin_alike_stay_two(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    events = [{"ph": "X", "name": NAME[:100_000] + end, "ts": 1, "dur": 5, "pid": 1, "tid": 1} for end in "ab"]
    path.write_text(json.dumps({"traceEvents": events}))
    assert len(set(tracekit.read(path).events.column("name").to_pylist())) == 2


@pytest.mark.parametrize("length", [1, 5_000, MOST_NAME])
def test_a_name_of_usual_length_is_whole(length: int, tmp_path: Path) -> None:
    path = tmp_path / "usual.json"
    path.write_text(
        json.dumps({"traceEvents": [{"ph": "X", "name": "é" * length, "ts": 1, "dur": 5, "pid": 1, "tid": 1}]})
    )
    trace = tracekit.read(path)
    assert trace.events.column("name").to_pylist() == ["é" * length]
    assert not trace.ledgers[0].notes


def test_a_name_that_was_cut_is_not_cut_again(tmp_path: Path) -> None:
    chrome(tmp_path / "long.json")
    tracekit.convert(tmp_path / "long.json", tmp_path / "x.parquet")
    first, second = tracekit.read(tmp_path / "long.json"), tracekit.read(tmp_path / "x.parquet")
    assert first.events.column("name").to_pylist() == second.events.column("name").to_pylist()
    assert "name-too-long" not in second.ledgers[0].notes


def test_a_long_frame_of_a_stack_is_cut_with_a_note(tmp_path: Path) -> None:
    text = (SAMPLES / "speedscope" / "py-spy.speedscope.json").read_text("utf-8")
    tree = json.loads(text)
    tree["shared"]["frames"][0]["name"] = NAME
    (tmp_path / "long.json").write_text(json.dumps(tree))
    (ledger,) = tracekit.read(tmp_path / "long.json").ledgers
    assert "a name of 4,000," in str(ledger.notes["name-too-long"])
