"""nvprof's databases: a real file's figures, every table against SQL's own sums, markers, and missing parts."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, sample

import tracekit
from tracekit.api import inspect
from tracekit.errors import TracekitError
from tracekit.model.trace import Trace
from tracekit.readers.nvprof import sqlite

PREFIX = "CUPTI_ACTIVITY_KIND_"
SAMPLES = ["version-8.nvvp", "version-11-markers.nvprof"]
TABLES = {
    "kernel": ("CONCURRENT_KERNEL", "KERNEL"), "memcpy": ("MEMCPY", "MEMCPY2"), "memset": ("MEMSET",),
    "runtime": ("RUNTIME",), "driver": ("DRIVER",), "sync": ("SYNCHRONIZATION",),
}  # fmt: skip


def sums(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        have = {r[0] for r in db.execute("select name from sqlite_master")}
        found = [
            db.execute(f"select count(*), coalesce(sum(end - start), 0) from {PREFIX}{n}").fetchone()
            for n in names
            if PREFIX + n in have
        ]
    return {"events": sum(f[0] for f in found), "dur_ns": sum(f[1] for f in found)}


def rows(trace: Trace, kind: str) -> list[dict[str, Any]]:
    return [row for row in trace.events.to_pylist() if row["kind"] == kind]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    path = tmp_path / "copy.nvprof"
    shutil.copy(sample("nvprof-sqlite/version-11-markers.nvprof"), path)
    path.chmod(0o644)
    return path


def change(path: Path, script: str, demangle: bool = True) -> Trace:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)
    return tracekit.read(path, demangle=demangle)


@pytest.mark.corpus
def test_a_real_file_gives_the_figures_that_were_checked_by_hand() -> None:
    path = corpus("nvprof_sqlite/tf_mnist_titanx.nvvp")
    found = inspect(path).inputs[0]
    assert found["by_kind"] == {
        "kernel": {"events": 25, "dur_ns": 1_230_629}, "memcpy": {"events": 48, "dur_ns": 1_813_064},
        "memset": {"events": 1, "dur_ns": 3_507}, "runtime": {"events": 286, "dur_ns": 2_312_050_521},
        "driver": {"events": 383, "dur_ns": 282_986_090}, "overhead": {"events": 250, "dur_ns": 370_387_384},
    }  # fmt: skip
    assert (found["first_ns"], found["last_ns"]) == (1_510_947_069_190_652_430, 1_510_947_072_044_741_576)
    assert found["origin_ns"] == 0
    assert found["devices"] == ["GeForce GTX TITAN X"]
    assert found["facts"] == {"tool": "nvprof", "schema_version": 8, "command": "python mnist_deep.py"}
    assert found["ledger"]["ignored"] == {PREFIX + "DEVICE_ATTRIBUTE": 5}
    assert not found["ledger"]["notes"]


@pytest.mark.corpus
def test_calls_of_a_real_file_have_the_names_that_libcupti_gives_and_launches_meet_their_kernels() -> None:
    trace = tracekit.read(corpus("nvprof_sqlite/tf_mnist_titanx.nvvp"))
    calls = Counter(row["name"] for row in rows(trace, "runtime"))
    assert calls["cudaLaunch"] == 24 + 1
    assert not [name for name in calls if "_v" in name or name.startswith("cbid")]
    launches = {(r["pid"], r["correlation"]): r["name"] for r in rows(trace, "runtime") + rows(trace, "driver")}
    assert {launches[(r["pid"], r["correlation"])] for r in rows(trace, "kernel")} == {"cudaLaunch"}
    assert {r["tid"] for r in rows(trace, "runtime")} == {2**32 - 41_998_592, 2**32 - 25_213_184}
    assert all(r["raw_name"].startswith("_Z") for r in rows(trace, "kernel") if "::" in r["name"])


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("kind", TABLES)
def test_counts_and_sums_of_each_kind_are_those_of_sql(name: str, kind: str) -> None:
    path = sample(f"nvprof-sqlite/{name}")
    found = inspect(path).inputs[0]["by_kind"]
    # the sample's two copies of unified memory stand in a table of their own
    unified = {"events": 2, "dur_ns": 1400} if kind == "memcpy" and "11" in name else {"events": 0, "dur_ns": 0}
    want = {key: value + unified[key] for key, value in sums(path, TABLES[kind]).items()}
    assert found.get(kind, {"events": 0, "dur_ns": 0}) == want


def test_markers_become_ranges_and_marks_with_their_data() -> None:
    trace = tracekit.read(sample("nvprof-sqlite/version-11-markers.nvprof"))
    ranges = {row["name"]: row for row in rows(trace, "user_range")}
    assert set(ranges) == {"epoch", "step 0", "step 1", "step 2", "never ended"}
    assert ranges["never ended"]["dur_ns"] is None
    assert json.loads(ranges["never ended"]["args"]) == {"unfinished": True}
    assert json.loads(ranges["step 2"]["args"]) == {
        "color": "#FF00FF00", "category": 2, "payload": 2, "domain": "trainer"
    }  # fmt: skip
    assert ranges["epoch"]["ts_ns"] < ranges["step 0"]["ts_ns"]
    assert ranges["epoch"]["ts_ns"] + ranges["epoch"]["dur_ns"] > ranges["step 2"]["ts_ns"] + ranges["step 2"]["dur_ns"]
    assert [row["name"] for row in rows(trace, "mark")] == ["batch ready"] * 3
    assert {row["tid"] for row in rows(trace, "mark")} == {row["tid"] for row in rows(trace, "runtime")}
    assert trace.ledgers[0].notes["open-range"].count == 1


def test_peer_copies_unified_memory_and_overhead_say_where_they_were() -> None:
    trace = tracekit.read(sample("nvprof-sqlite/version-11-markers.nvprof"))
    (peer, *_) = [r for r in rows(trace, "memcpy") if r["copy_kind"] == "PtoP"]
    args = json.loads(peer["args"])
    assert (args["src_device"], args["src_context"], args["dst_device"], args["dst_context"]) == (1, 2, 0, 1)
    assert (args["src_mem_type"], args["dst_mem_type"]) == ("Device", "Device")
    unified = {r["name"]: r for r in trace.events.to_pylist() if (r["name"] or "").startswith("[Unified")}
    assert unified["[Unified Memory Memcpy HtoD]"]["bytes"] == 65536
    assert unified["[Unified Memory Memcpy DtoH]"]["device"] == 0
    assert unified["[Unified Memory CPU page faults]"]["dur_ns"] is None
    assert json.loads(unified["[Unified Memory GPU page faults]"]["args"])["count"] == 3
    places = {r["name"]: (r["pid"], r["tid"], r["device"]) for r in rows(trace, "overhead") if r["name"][0] != "["}
    assert places["Buffer flush"] == (21604, None, None)
    assert places["Instrumentation"] == (21604, 2**32 - 41_998_592, None)
    assert places["Driver compiler"] == (None, None, 0)


def test_two_processes_leave_device_work_without_one(copy: Path) -> None:
    trace = change(copy, f"update {PREFIX}DRIVER set processId = 77")
    assert {r["pid"] for r in rows(trace, "kernel")} == {None}
    assert "several-processes" in trace.ledgers[0].notes


def test_an_unknown_call_keeps_its_number(copy: Path) -> None:
    trace = change(copy, f"update {PREFIX}RUNTIME set cbid = 60000; update {PREFIX}DRIVER set cbid = 0")
    assert {r["name"] for r in rows(trace, "runtime")} == {"cbid 60000"}
    assert {r["name"] for r in rows(trace, "driver")} == {"cbid 0"}


@pytest.mark.parametrize(
    ("script", "reason", "where"),
    [
        ("set start = 0, end = 0 where _id_ = 3", "no-time", "row 3"),
        ("set end = start - 1 where _id_ = 2", "ends-before-start", "row 2"),
        ("set start = 9223372036854775000 where _id_ = 1", "bad-time", "row 1"),
    ],
)
def test_a_row_with_bad_times_costs_that_row(copy: Path, script: str, reason: str, where: str) -> None:
    whole = len(rows(tracekit.read(copy), "kernel"))
    trace = change(copy, f"update {PREFIX}CONCURRENT_KERNEL {script}")
    ledger = trace.ledgers[0]
    assert ledger.dropped == {reason: 1}
    assert ledger.notes[reason].places == [f"{PREFIX}CONCURRENT_KERNEL {where}"]
    assert len(rows(trace, "kernel")) == whole - 1


def test_numbers_beyond_32_bits_are_empty_not_wrapped(copy: Path) -> None:
    trace = change(copy, f"update {PREFIX}CONCURRENT_KERNEL set gridX = 4294967297 where _id_ = 1")
    assert [r["grid_x"] for r in rows(trace, "kernel") if r["grid_x"] is None] == [None]
    assert trace.ledgers[0].notes["number-too-large"].count == 1


def test_an_end_without_a_start_and_a_second_start_are_accounted_for(copy: Path) -> None:
    blob = struct.pack("<3I", 1, 2, 0).hex()
    trace = change(
        copy,
        f"delete from {PREFIX}MARKER; insert into {PREFIX}MARKER values "
        f"(1, 4, 100, 5, 2, x'{blob}', 0, 0), (2, 2, 200, 6, 2, x'{blob}', 1, 0), (3, 2, 300, 6, 2, x'{blob}', 1, 0), "
        f"(4, 4, 400, 6, 2, x'{blob}', 0, 0), (5, 8, 500, 7, 2, x'{blob}', 0, 0)",
    )
    assert trace.ledgers[0].dropped == {"end-without-start": 1, "unknown-marker": 1}
    assert [(r["ts_ns"], r["dur_ns"]) for r in rows(trace, "user_range")] == [(200, None), (300, 100)]


def names_of(path: Path) -> list[tuple[str, list[str]]]:
    with closing(sqlite3.connect(path)) as db:
        tables = [
            r[0] for r in db.execute("select name from sqlite_master where type = 'table' and name like 'CUPTI%'")
        ]
        return [(t, [r[1] for r in db.execute(f"pragma table_info({t})")]) for t in tables]


def test_any_table_may_be_missing_or_empty(copy: Path, tmp_path: Path) -> None:
    data = copy.read_bytes()
    for table, _ in names_of(copy):
        for script in (f"drop table {table}", f"delete from {table}"):
            path = tmp_path / "less.nvprof"
            path.write_bytes(data)
            # Names stay mangled: a child of the demangler for each of hundreds of reads would be most of the time.
            trace = change(path, script, demangle=False)
            assert not trace.ledgers[0].dropped, (table, script)


def test_any_column_may_be_missing(copy: Path, tmp_path: Path) -> None:
    data = copy.read_bytes()
    for table, columns in names_of(copy):
        for column in columns[1:]:
            path = tmp_path / "less.nvprof"
            path.write_bytes(data)
            trace = change(path, f'alter table {table} drop column "{column}"', demangle=False)
            dropped = set(trace.ledgers[0].dropped)
            assert dropped <= {"no-column", "no-time", "unknown-marker", "end-without-start"}, (table, column)
            assert bool(dropped) <= (column in ("start", "end", "timestamp", "flags", "id")), (table, column)


def test_no_table_of_strings_and_no_tables_at_all() -> None:
    from tracekit.readers.base import Confidence
    from tracekit.readers.head import Head

    assert sqlite.sniff(Head("x", b"SQLite format 3\0", tables=frozenset({"StringTable"}))) is Confidence.NO
    head = Head("x", b"SQLite format 3\0", tables=frozenset({"StringTable", "Version"}))
    assert sqlite.sniff(head) is Confidence.YES


@given(st.data())
def test_whatever_stands_in_the_cells_only_our_errors_come_out(data: st.DataObject) -> None:
    import tempfile

    cell = st.one_of(
        st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=14)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.nvprof"
        shutil.copy(sample("nvprof-sqlite/version-11-markers.nvprof"), path)
        path.chmod(0o644)
        tables = names_of(path)
        with closing(sqlite3.connect(path)) as db:
            for _ in range(data.draw(st.integers(1, 6))):
                table, columns = data.draw(st.sampled_from(tables))
                column, value = data.draw(st.sampled_from(columns[1:])), data.draw(cell)
                row = data.draw(st.integers(1, 6))
                try:
                    db.execute(f'update {table} set "{column}" = ? where _id_ >= ?', (value, row))
                except (sqlite3.Error, UnicodeEncodeError):
                    continue
            db.commit()
        hint = "read"
        try:
            trace = tracekit.read(path)
        except TracekitError as err:
            hint = err.hint
        else:
            assert len(trace.events) == trace.ledgers[0].events_out
        assert hint


@given(st.lists(st.tuples(st.integers(0, 39_000), st.binary(min_size=1, max_size=40)), min_size=1, max_size=5))
def test_bytes_overwritten_anywhere_give_rows_or_our_errors(patches: list[tuple[int, bytes]]) -> None:
    import tempfile

    data = bytearray(sample("nvprof-sqlite/version-11-markers.nvprof").read_bytes())
    for at, patch in patches:
        data[at : at + len(patch)] = patch
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.nvprof"
        path.write_bytes(data)
        hint = "read"
        try:
            tracekit.read(path)
        except TracekitError as err:
            hint = err.hint
        assert hint


def test_tables_that_a_user_would_miss_are_named(copy: Path) -> None:
    assert "tables-not-read" not in tracekit.read(copy).ledgers[0].notes
    trace = change(
        copy,
        f"create table {PREFIX}OPENACC_LAUNCH(_id_ integer, start int, end int);"
        f"insert into {PREFIX}OPENACC_LAUNCH values(1, 2, 3), (2, 4, 5);"
        f"create table {PREFIX}METRIC_(_id_ integer); create table {PREFIX}LINES(_id_ integer);"
        f"insert into {PREFIX}LINES values(1);",
    )
    (ledger,) = trace.ledgers
    assert ledger.notes["tables-not-read"].text.endswith("with their rows: OPENACC_LAUNCH (2)")
    assert ledger.ignored[PREFIX + "LINES"] == 1


COUNTERS = """
create table CUPTI_ACTIVITY_KIND_METRIC(_id_ integer primary key, id int, value blob, correlationId int, flags int);
create table CUPTI_ACTIVITY_KIND_EVENT(_id_ integer primary key, id int, value int, domain int, correlationId int);
delete from CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL where _id_ > (select min(_id_) + 2 from
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
insert into StringTable(_id_, value) values (9001, '_Z3addPf'), (9002, 'mul');
update CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL set name = 9001, correlationId = _id_, deviceId = 0;
update CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL set name = 9002 where _id_ = (select max(_id_) from
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
"""
OCCUPANCY, IPC, EFFICIENCY, L2_READ, UTILIZATION, WARPS = (
    0x1300076,
    0x1300072,
    0x13000B3,
    0x1300027,
    0x130003D,
    0x5000068,
)
"""Numbers in libcupti: achieved_occupancy, ipc, sm_efficiency, l2_read_throughput, dram_utilization; active_warps."""


def test_metrics_and_events_become_the_totals_of_the_csv(copy: Path) -> None:
    change(copy, COUNTERS)
    blobs = [
        (OCCUPANCY, [struct.pack("<d", v) for v in (0.25, 0.75, 0.5)]),
        (EFFICIENCY, [struct.pack("<d", v) for v in (31.0, 91.0, 57.5)]),
        (L2_READ, [struct.pack("<Q", v) for v in (1_200_000_000, 3_000_000_000, 7)]),
        (UTILIZATION, [struct.pack("<I", v) + b"\xff" * 4 for v in (2, 5, 10)]),
        (77, [bytes(8)] * 3),
    ]  # fmt: skip
    with closing(sqlite3.connect(copy)) as db:
        calls = [r[0] for r in db.execute("select _id_ from CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL order by _id_")]
        for number, values in blobs:
            pairs = zip(values, calls, strict=True)
            db.executemany(
                "insert into CUPTI_ACTIVITY_KIND_METRIC(id, value, correlationId, flags) values (?, ?, ?, 0)",
                [(number, value, call) for value, call in pairs],
            )
        db.executemany(
            "insert into CUPTI_ACTIVITY_KIND_EVENT(id, value, domain, correlationId) values (?, ?, 1, ?)",
            [(WARPS, 10 * at, call) for at, call in enumerate(calls)],
        )
        db.execute("insert into CUPTI_ACTIVITY_KIND_METRIC(id, value, correlationId) values (?, ?, 1)", (IPC, b"short"))
        db.commit()
    trace = tracekit.read(copy)
    found = {
        (json.loads(r["args"]).get("metric") or json.loads(r["args"])["event"], r["name"]): r
        for r in trace.totals.to_pylist()
    }
    assert len(found) == 12
    add, mul = "add(float*)", "mul"
    row = found["achieved_occupancy", add]
    assert (row["section"], row["calls"], row["device"], row["kind"]) == ("metrics", 2, 0, "kernel")
    assert (row["value_min"], row["value_max"], row["value_avg"], row["unit"]) == (0.25, 0.75, 0.5, None)
    assert row["raw_name"] == "_Z3addPf"
    assert json.loads(row["args"])["description"] == "Achieved Occupancy"
    assert [found["sm_efficiency", add][k] for k in ("value_avg", "unit")] == [61.0, "%"]
    assert [found["l2_read_throughput", add][k] for k in ("value_max", "unit")] == [3e9, "B/s"]
    levels = found["dram_utilization", mul]
    assert [levels[k] for k in ("value_max", "value_text", "unit")] == [10.0, "Max (10)", "level"]
    assert found["metric 77", mul]["value_avg"] is None
    events = found["active_warps", add]
    assert (events["section"], events["value_max"], json.loads(events["args"])["total"]) == ("events", 10.0, 10)
    ledger = trace.ledgers[0]
    assert ledger.dropped == {"bad-value": 1}
    assert ledger.notes["counters-unknown"].count == 3
    assert tracekit.view(trace, "metrics").tables


def test_counters_of_calls_that_are_not_there_have_no_kernel(copy: Path) -> None:
    change(copy, COUNTERS)
    trace = change(
        copy, f"insert into CUPTI_ACTIVITY_KIND_EVENT(id, value, domain, correlationId) values ({WARPS}, 3, 1, -5)"
    )
    (row,) = trace.totals.to_pylist()
    assert (row["name"], row["device"], row["value_avg"]) == (None, None, 3.0)
