"""Exports of Nsight Systems: real files, tables against SQL's own sums, NVTX, graphs, processes, missing parts."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, corpus_verdicts, run_command, sample

import tracekit
from tracekit.api import inspect
from tracekit.doctor.note_classes import class_of_note
from tracekit.errors import TracekitError, UsageError
from tracekit.model.trace import Trace

C = "CUPTI_ACTIVITY_KIND_"
REAL = [
    "gemm_2025.1_runtime_only.sqlite", "h100_2gpu_1s_2026.2.sqlite", "mock_2026.1.sqlite",
    "mordred_old_schema.sqlite.gz", "weatherbench_2025.5.sqlite.gz",
]  # fmt: skip
SAMPLES = ["schema-of-2021.sqlite", "two-processes.sqlite", "nvtx-v2.sqlite"]
LOST = "Not all {} events might have been collected."
TABLES = {
    ("kernel",): (C + "KERNEL", C + "GRAPH_TRACE"), ("memcpy",): (C + "MEMCPY",), ("memset",): (C + "MEMSET",),
    ("runtime", "driver"): (C + "RUNTIME",), ("sync",): (C + "SYNCHRONIZATION",),
    ("communication",): ("MPI_COLLECTIVES_EVENTS",),
    ("overhead",): (C + "OVERHEAD", "PROFILER_OVERHEAD"),
}  # fmt: skip


def plain(path: Path, folder: Path) -> Path:
    if path.suffix != ".gz":
        return path
    target = folder / path.stem
    target.write_bytes(gzip.decompress(path.read_bytes()))
    return target


def sql(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def rows(trace: Trace, kind: str) -> list[dict[str, Any]]:
    return [row for row in trace.events.to_pylist() if row["kind"] == kind]


def args(row: dict[str, Any]) -> dict[str, Any]:
    return json.loads(row["args"]) if row["args"] else {}


RANGES = ("user_range", "operator", "step", "dataloader", "optimizer")


def check_against_sql(path: Path, folder: Path) -> None:
    found = inspect(path).inputs[0]["by_kind"]
    database = plain(path, folder)
    have = {r[0] for r in sql(database, "select name from sqlite_master")}
    for kinds, tables in TABLES.items():
        sums = [
            sql(database, f"select count(*), coalesce(sum(end - start), 0) from {t}")[0] for t in tables if t in have
        ]
        mine = [found[k] for k in kinds if k in found]
        assert sum(m["events"] for m in mine) == sum(s[0] for s in sums), tables
        assert sum(m["dur_ns"] for m in mine) == sum(s[1] for s in sums), tables
    for table in have & {"NVTX_EVENTS", "NVTX_EVENTS_V2"}:
        for kinds, types in ((RANGES, "59, 60"), (("mark",), "34")):
            count, total = sql(
                database, f"select count(*), coalesce(sum(end - start), 0) from {table} where eventType in ({types})"
            )[0]
            mine = [found[kind] for kind in kinds if kind in found]
            assert (sum(m["events"] for m in mine), sum(m["dur_ns"] for m in mine)) == (count, total)


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_counts_and_sums_of_each_table_of_a_real_file_are_those_of_sql(name: str, tmp_path: Path) -> None:
    path = corpus(f"nsys_sqlite/{name}")
    check_against_sql(path, tmp_path)
    ledger = tracekit.read(path).ledgers[0]
    assert not ledger.dropped
    said = {note.text.removeprefix("Nsight Systems itself warned: ") for note in ledger.notes.values()}
    said = {text for text in said if "Unified Memory cannot be traced" not in text}
    assert said == ({LOST.format("CUDA"), LOST.format("NVTX")} if name.startswith("gemm") else set())


@pytest.mark.parametrize("name", SAMPLES)
def test_counts_and_sums_of_each_table_of_a_sample_are_those_of_sql(name: str, tmp_path: Path) -> None:
    check_against_sql(sample(f"nsys-sqlite/{name}"), tmp_path)


FIGURES = {
    "h100_2gpu_1s_2026.2.sqlite": {
        "kernel": (3442, 44_829_522), "memcpy": (904, 1_880_842_214), "memset": (22, 29_216),
        "runtime": (5796, 1_799_142_046), "sync": (244, 857_291_122), "overhead": (198, 911_969_806),
    },
    "mock_2026.1.sqlite": {"kernel": (2, 4129), "memcpy": (1, 1632), "sync": (1, 13_656)},
    "mordred_old_schema.sqlite.gz": {
        "kernel": (12, 6_128_761), "memcpy": (188, 386_959_917), "memset": (16, 13_599), "runtime": (260, 628_075_048),
        "sync": (18, 6_169_589),
    },
    "weatherbench_2025.5.sqlite.gz": {"memset": (1, 1472)},
    "gemm_2025.1_runtime_only.sqlite": {"driver": (3, 128_589)},
}  # fmt: skip


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_real_files_give_the_figures_that_were_checked_by_hand(name: str) -> None:
    found = inspect(corpus(f"nsys_sqlite/{name}")).inputs[0]["by_kind"]
    for kind, figures in FIGURES[name].items():
        assert (found[kind]["events"], found[kind]["dur_ns"]) == figures, kind


@pytest.mark.corpus
def test_a_real_run_of_two_processes_joins_launches_by_process_and_names_what_it_can() -> None:
    trace = tracekit.read(corpus("nsys_sqlite/h100_2gpu_1s_2026.2.sqlite"))
    launches = {(r["pid"], r["correlation"]) for r in rows(trace, "runtime")}
    with_launch = [r for r in rows(trace, "kernel") if (r["pid"], r["correlation"]) in launches]
    assert len(with_launch) == 3442 - 1810
    assert trace.run.processes == {(0, 111): "python3", (0, 112): "python3"}
    assert trace.run.origin_ns == 1_779_630_014_975_716_426
    assert {r["device"] for r in rows(trace, "kernel")} == {0, 1}
    views = [r for r in rows(trace, "operator") if r["name"] == "aten::view"]
    assert len(views) == 886
    assert len({r["raw_name"] for r in views}) == 886


@pytest.mark.corpus
def test_devices_tell_their_multiprocessors_where_the_file_does() -> None:
    trace = tracekit.read(corpus("nsys_sqlite/weatherbench_2025.5.sqlite.gz"))
    assert trace.run.sources[0].facts["deviceProperties"] == [
        {
            "id": 0,
            "name": trace.run.devices[0, 0],
            "numSms": 24,
            "computeMajor": 8,
            "computeMinor": 9,
            "totalGlobalMem": 8181776384,
            "memoryBandwidth": 272032000000,
            "clockRate": 2460000000,
            "l2CacheSize": 25165824,
        }
    ]


@pytest.mark.corpus
def test_synchronization_is_named_by_what_it_waits_for_in_every_schema() -> None:
    """syncType 2 is a stream wait, a stream sync and an event sync in three of the files; the call says what it was."""
    want = {
        "cudaStreamWaitEvent": "Stream wait sync", "cudaStreamSynchronize": "Stream sync",
        "cudaEventSynchronize": "Event sync", "cudaDeviceSynchronize": "Context sync",
    }  # fmt: skip
    seen: Counter[str] = Counter()
    for name in ("h100_2gpu_1s_2026.2.sqlite", "mock_2026.1.sqlite", "mordred_old_schema.sqlite.gz"):
        trace = tracekit.read(corpus(f"nsys_sqlite/{name}"))
        calls = {(r["pid"], r["correlation"]): r["name"] for r in rows(trace, "runtime")}
        for row in rows(trace, "sync"):
            call = calls[(row["pid"], row["correlation"])]
            assert row["name"] == want[call]
            seen[call] += 1
    assert seen == {
        "cudaStreamWaitEvent": 236, "cudaStreamSynchronize": 9, "cudaEventSynchronize": 6, "cudaDeviceSynchronize": 12
    }  # fmt: skip


@pytest.mark.corpus
def test_every_file_of_the_corpus_is_known_by_one_reader_alone_also_without_its_name() -> None:
    wanted = {"nsys_sqlite": "nsys-sqlite", "nvprof_sqlite": "nvprof-sqlite"}
    mine = {*wanted.values(), "nsys-stats-csv", "nsys-jsonl"}
    for name, sure in corpus_verdicts().items():
        folder = Path(name).parent.name
        if folder in wanted and not name.endswith((".md", ".figures.json")):
            assert sure == [wanted[folder]], name
        else:
            assert not mine & set(sure), name


def test_a_trace_of_two_processes_keeps_ids_clock_and_names_apart() -> None:
    trace = tracekit.read(sample("nsys-sqlite/two-processes.sqlite"))
    run = trace.run
    assert run.origin_ns == 1_767_225_600_000_000_000
    assert run.processes == {(0, 21604): "python", (0, 21605): "python"}
    assert run.threads[(0, 21604, 21604)] == "rank 0"
    assert run.threads[(0, 21604, 21611)] == "loader"
    assert run.devices == {(0, 0): "Tesla P100-PCIE-16GB", (0, 1): "Tesla P100-PCIE-16GB"}
    assert run.streams == {(0, 0, 7): "default", (0, 1, 7): "default"}
    facts = run.sources[0].facts
    assert (facts["tool_version"], facts["schema_version"], facts["host"]) == ("2025.1.3.140", "3.17.2", "node7")
    assert facts["command"] == "python train.py --lr 0.1, --steps 3"
    keys = Counter((r["pid"], r["correlation"]) for r in rows(trace, "memcpy"))
    assert max(keys.values()) == 1
    assert len({c for _, c in keys}) < len(keys)


def test_nvtx_of_all_types() -> None:
    trace = tracekit.read(sample("nsys-sqlite/two-processes.sqlite"))
    of_process = [*rows(trace, "user_range"), *rows(trace, "step")]
    ranges = [r for r in of_process if r["pid"] == 21604 or args(r).get("tid") == 21604]
    names = Counter(r["name"] for r in ranges if r["pid"] == 21604)
    assert names == {"step 0": 1, "step 1": 1, "step 2": 1, "ncclAllReduce": 3, "prefetch": 3, "never ended": 1}
    (reduce, *_) = [r for r in ranges if r["name"] == "ncclAllReduce"]
    assert args(reduce) == {
        "color": "#FF00FF00", "domain": "NCCL", "category": "collective", "json": {"message size": 4096}
    }  # fmt: skip
    prefetch = [r for r in ranges if r["name"] == "prefetch" and r["pid"] == 21604]
    assert [(r["tid"], args(r)) for r in prefetch] == [
        (None, {"doubleValue": 0.5, "id": n, "tid": 21604, "end_tid": 21611}) for n in (1, 2, 3)
    ]
    (step,) = [r for r in ranges if r["name"] == "step 1" and r["pid"] == 21604]
    assert args(step) == {"int64Value": 1}
    (never,) = [r for r in ranges if r["name"] == "never ended" and r["pid"] == 21604]
    assert (never["dur_ns"], args(never)) == (None, {"unfinished": True})
    assert {(r["name"], r["dur_ns"]) for r in rows(trace, "mark")} == {("loss is finite", None)}
    assert trace.ledgers[0].notes["open-range"].count == 2


def test_a_cuda_graph_is_one_launch_and_many_kernels_or_one_event_of_its_own() -> None:
    trace = tracekit.read(sample("nsys-sqlite/two-processes.sqlite"))
    nodes = [r for r in rows(trace, "kernel") if r["correlation"] == 9100 and r["pid"] == 21604]
    assert [r["name"] for r in nodes] == ["node_0(float*)", "node_1(float*)", "node_2(float*)"]
    assert [args(r)["graphNodeId"] for r in nodes] == [(11 << 32) + n for n in range(3)]
    whole = [r for r in rows(trace, "kernel") if r["correlation"] == 9101]
    assert {(r["name"], r["dur_ns"]) for r in whole} == {("[CUDA graph 12]", 777)}
    assert trace.ledgers[0].notes["whole-graphs"].count == 2


def test_metrics_memory_and_messages_have_kinds_of_their_own() -> None:
    trace = tracekit.read(sample("nsys-sqlite/two-processes.sqlite"))
    counters = rows(trace, "counter")
    assert {r["name"] for r in counters} == {"SMs Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]"}
    assert {r["device"] for r in counters} == {1}
    assert sum(r["value"] for r in counters) == sum(range(30)) * 3
    assert sorted(r["bytes"] for r in rows(trace, "memory")) == [-(1 << 20)] * 2 + [1 << 20] * 2
    assert {(r["name"], args(r)["size"]) for r in rows(trace, "communication")} == {("MPI_Allreduce", 4096)}
    assert {r["name"] for r in rows(trace, "overhead")} == {"Lazy function loading"}


def test_ranges_that_torch_records_are_what_they_are_in_its_own_trace(tmp_path: Path) -> None:
    """emit_nvtx puts numbers behind names: without them the rows of an operator have one name."""
    texts = {
        "aten::mm, seq = 3, op_id = 12, sizes = [[8, 4], [4, 2]], input_op_ids = [(11,0)]": ("operator", "aten::mm"),
        "aten::mm, op_id = 13": ("operator", "aten::mm"),
        "AddmmBackward0, op_id = 14": ("operator", "AddmmBackward0"),
        "detach, seq = 5, op_id = 15": ("operator", "detach"),
        "my part, op_id = 16": ("user_range", "my part"),
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__, op_id = 17": (
            "dataloader", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        ),
        "Optimizer.step#SGD.step, op_id = 18": ("optimizer", "Optimizer.step#SGD.step"),
        "nccl:all_reduce, op_id = 19": ("communication", "nccl:all_reduce"),
        "nccl:all_reduce": ("user_range", "nccl:all_reduce"),
        "iteration 7": ("step", "iteration 7"),
        "7 steps": ("user_range", "7 steps"),
    }  # fmt: skip
    script = "create table NVTX_EVENTS (start, end, eventType, text, globalTid);"
    for at, text in enumerate(texts):
        script += f"insert into NVTX_EVENTS values ({10 * at}, {10 * at + 5}, 59, '{text}', {FIRST});"
    found = tracekit.read(database(tmp_path / "x.sqlite", script)).events.to_pylist()
    assert [(r["kind"], r["name"]) for r in found] == list(texts.values())
    assert [r["raw_name"] or r["name"] for r in found] == list(texts)
    assert [r["step"] for r in found if r["kind"] == "step"] == [7]


def test_os_runtime_calls_come_when_asked_for() -> None:
    path = sample("nsys-sqlite/schema-of-2021.sqlite")
    assert tracekit.read(path).ledgers[0].ignored["OSRT_API"] == 20
    trace = tracekit.read(path, options={"osrt": "yes"})
    assert {(r["name"], r["tid"]) for r in rows(trace, "other")} == {("poll", 21605)}
    assert "OSRT_API" not in trace.ledgers[0].ignored
    with pytest.raises(UsageError):
        tracekit.read(path, options={"osrt": "maybe"})


def test_the_newest_version_of_a_table_that_has_rows_is_read(tmp_path: Path) -> None:
    trace = tracekit.read(sample("nsys-sqlite/nvtx-v2.sqlite"))
    assert len(rows(trace, "user_range")) + len(rows(trace, "step")) == 10
    trace = change(
        tmp_path, "create table NVTX_EVENTS_V3 (start, end, eventType); "
        "create table NVTX_EVENTS (start, end, eventType); "
        "insert into NVTX_EVENTS values (1, 2, 59)", name="nvtx-v2.sqlite",
    )  # fmt: skip
    assert len(rows(trace, "user_range")) + len(rows(trace, "step")) == 10
    assert trace.ledgers[0].ignored["NVTX_EVENTS"] == 1
    assert "several-versions" in trace.ledgers[0].notes


def change(folder: Path, script: str, name: str = "two-processes.sqlite", demangle: bool = True) -> Trace:
    path = folder / "copy.sqlite"
    shutil.copyfile(sample(f"nsys-sqlite/{name}"), path)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)
    return tracekit.read(path, demangle=demangle)


def test_times_that_the_export_moved_are_moved_back(tmp_path: Path) -> None:
    meta = "update META_DATA_EXPORT set value = '{}' where name = 'EXPORT_PARAM_TIME_{}'"
    assert change(tmp_path, meta.format("5000", "SHIFT")).run.origin_ns == 1_767_225_600_000_000_000 - 5000
    assert change(tmp_path, meta.format("true", "NORMALIZE")).run.origin_ns == 0


def test_pids_of_two_machines_are_told_apart(tmp_path: Path) -> None:
    trace = change(
        tmp_path, f"insert into PROCESSES values ({2 << 48 | 21604 << 24}, 21604, 'guest'); "
        f"update {C}RUNTIME set globalTid = {2 << 48 | 21604 << 24 | 7} "
        f"where globalTid = {1 << 48 | 21605 << 24 | 21605}",
    )  # fmt: skip
    pids = {r["pid"] for r in rows(trace, "runtime")}
    assert pids == {1 << 24 | 21604, 2 << 24 | 21604}
    assert trace.run.ids[("pid", 0, 2 << 24 | 21604)] == "21604 on machine 2"
    assert trace.run.processes[(0, 2 << 24 | 21604)] == "guest"


def test_an_event_class_that_is_both_goes_by_the_name(tmp_path: Path) -> None:
    trace = change(tmp_path, f"update {C}RUNTIME set eventClass = 26")
    whole = tracekit.read(sample("nsys-sqlite/two-processes.sqlite"))
    for kind in ("runtime", "driver"):
        assert len(rows(trace, kind)) == len(rows(whole, kind))


def test_a_row_without_good_times_costs_that_row_and_names_it(tmp_path: Path) -> None:
    trace = change(
        tmp_path, f"update {C}KERNEL set end = start - 1 where rowid = 4; "
        "update NVTX_EVENTS set start = 9000000000000000000 where eventType = 34",
    )  # fmt: skip
    ledger = trace.ledgers[0]
    assert ledger.dropped == {"ends-before-start": 1, "bad-time": 6}
    assert ledger.notes["ends-before-start"].places == [f"{C}KERNEL row 4"]


def tables_of(path: Path) -> list[tuple[str, list[str]]]:
    names = [r[0] for r in sql(path, "select name from sqlite_master where type = 'table'")]
    return [(n, [r[1] for r in sql(path, f"pragma table_info({n})")]) for n in names]


TIMES = {"start", "end", "timestamp"}


@pytest.mark.parametrize("name", SAMPLES)
def test_any_table_but_the_strings_may_be_missing_or_empty(name: str, tmp_path: Path) -> None:
    for table, _ in tables_of(sample(f"nsys-sqlite/{name}")):
        scripts = [f"delete from {table}"] + ([] if table == "StringIds" else [f"drop table {table}"])
        for script in scripts:
            assert not change(tmp_path, script, name).ledgers[0].dropped, (table, script)


@pytest.mark.parametrize("name", SAMPLES)
def test_an_export_without_its_strings_is_called_by_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    shutil.copyfile(sample(f"nsys-sqlite/{name}"), path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("drop table StringIds")
    with pytest.raises(TracekitError, match="an Nsight Systems export without its table StringIds") as caught:
        tracekit.read(path)
    assert "nsys-rep" in caught.value.hint


@pytest.mark.parametrize("tables", ["TARGET_INFO_GPU", f"{C}KERNEL", "NVTX_EVENTS", "EXPORT_META_DATA"])
def test_one_table_of_an_export_shows_whose_it_is(tables: str, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"create table {tables} (start integer); insert into {tables} values (1);")
    with pytest.raises(TracekitError, match="without its table StringIds"):
        tracekit.read(path)


def test_any_column_may_be_missing(tmp_path: Path) -> None:
    for table, columns in tables_of(sample("nsys-sqlite/two-processes.sqlite")):
        for column in columns:
            if column == "id" or len(columns) < 2:
                continue
            # Names stay mangled: a child of the demangler for each of hundreds of reads would be most of the time.
            trace = change(tmp_path, f'alter table {table} drop column "{column}"', demangle=False)
            dropped = trace.ledgers[0].dropped
            known = table.startswith(("CUPTI", "NVTX", "GPU_", "MPI", "CUDA_GPU"))
            assert set(dropped) <= {"no-column"}, (table, column)
            assert bool(dropped) == (known and column in TIMES), (table, column)


def test_a_database_with_five_tables_only_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "fixture.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "create table StringIds (id INTEGER PRIMARY KEY, value TEXT);"
            "insert into StringIds values (1, 'k'), (2, 'f');"
            f"create table {C}KERNEL (start INT, [end] INT, deviceId INT, streamId INT, correlationId INT,"
            " shortName INT);"
            f"insert into {C}KERNEL values (1000, 2000, 0, 7, 1, 1);"
            f"create table {C}RUNTIME (globalTid INT, correlationId INT, start INT, [end] INT, nameId INT);"
            f"insert into {C}RUNTIME values (16777217, 1, 900, 950, 2);"
            "create table NVTX_EVENTS (text TEXT, globalTid INT, start INT, [end] INT);"
            "insert into NVTX_EVENTS values ('all', 16777217, 0, 3000);"
        )
    found = [(r["name"], r["kind"], r["ts_ns"], r["dur_ns"]) for r in tracekit.read(path).events.to_pylist()]
    assert found == [("all", "user_range", 0, 3000), ("f", "runtime", 900, 50), ("k", "kernel", 1000, 1000)]


CELLS = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 34, 59, 60, 75, 2**31]), st.floats(),
    st.text(max_size=5), st.binary(max_size=5),
)  # fmt: skip


@given(st.data())
def test_whatever_stands_in_the_cells_only_our_errors_come_out(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        shutil.copyfile(sample("nsys-sqlite/two-processes.sqlite"), path)
        tables = tables_of(path)
        with closing(sqlite3.connect(path)) as db:
            for _ in range(data.draw(st.integers(1, 6))):
                table, columns = data.draw(st.sampled_from(tables))
                column, value, row = data.draw(st.sampled_from(columns)), data.draw(CELLS), data.draw(st.integers(1, 9))
                try:
                    db.execute(f'update {table} set "{column}" = ? where rowid % {row} = 0', (value,))
                except (sqlite3.Error, UnicodeEncodeError):
                    continue
            db.commit()
        hint = "read"
        try:
            trace = tracekit.read(path, options={"osrt": "yes"})
        except TracekitError as err:
            hint = err.hint
        else:
            assert len(trace.events) == trace.ledgers[0].events_out
        assert hint


@given(st.lists(st.tuples(st.integers(100, 51_000), st.binary(min_size=1, max_size=40)), min_size=1, max_size=5))
def test_bytes_overwritten_anywhere_give_rows_or_our_errors(patches: list[tuple[int, bytes]]) -> None:
    data = bytearray(sample("nsys-sqlite/two-processes.sqlite").read_bytes())
    for at, patch in patches:
        data[at : at + len(patch)] = patch
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        path.write_bytes(data)
        hint = "read"
        try:
            tracekit.read(path)
        except TracekitError as err:
            hint = err.hint
        assert hint


def database(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript("create table StringIds (id integer primary key, value text); " + script)
        db.commit()
    return path


FIRST, SECOND = (1 << 48) | (70 << 24) | 71, (1 << 48) | (80 << 24) | 81


def test_what_a_process_did_has_its_mpi_rank_and_calls_without_end_are_kept(tmp_path: Path) -> None:
    path = database(
        tmp_path / "mpi.sqlite",
        f"""insert into StringIds values (1, 'MPI_Recv'), (2, 'k');
        create table MPI_RANKS (globalTid integer not null, rank integer not null);
        insert into MPI_RANKS values ({FIRST}, 1), ({SECOND}, 0);
        create table MPI_P2P_EVENTS (start integer, end integer, globalTid integer, textId integer, tag integer);
        insert into MPI_P2P_EVENTS values (5, 9, {FIRST}, 1, 3), (6, null, {SECOND}, 1, 4);
        create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, globalTid integer);
        insert into NVTX_EVENTS values (1, 20, 59, 'step', {SECOND}), (2, 3, 59, 'elsewhere', {90 << 24});
        create table {C}KERNEL (start integer, end integer, globalPid integer, shortName integer);
        insert into {C}KERNEL values (7, 8, {FIRST - 71}, 2);""",
    )
    trace = tracekit.read(path)
    assert [(r["name"], r["rank"]) for r in sorted(trace.events.to_pylist(), key=lambda r: r["ts_ns"])] == [
        ("step", 0), ("elsewhere", None), ("MPI_Recv", 1), ("MPI_Recv", 0), ("k", 1),
    ]  # fmt: skip
    ended, opened = rows(trace, "communication")
    assert (ended["dur_ns"], args(ended)) == (4, {"tag": 3})
    assert (opened["dur_ns"], args(opened)) == (None, {"tag": 4, "unfinished": True})
    assert trace.ledgers[0].notes["open-call"].count == 1
    assert not trace.ledgers[0].dropped


def test_ranks_that_contradict_each_other_are_none(tmp_path: Path) -> None:
    path = database(
        tmp_path / "mpi.sqlite",
        f"""create table MPI_RANKS (globalTid integer, rank integer);
        insert into MPI_RANKS values ({FIRST}, 1), ({FIRST + 1}, 2), ({SECOND}, -1), ('x', 3);
        create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, globalTid integer);
        insert into NVTX_EVENTS values (1, 20, 59, 'a', {FIRST}), (2, 3, 59, 'b', {SECOND});""",
    )
    assert [r["rank"] for r in tracekit.read(path).events.to_pylist()] == [None, None]


def test_variables_of_memory_have_their_names(tmp_path: Path) -> None:
    path = database(
        tmp_path / "memory.sqlite",
        f"""create table CUDA_GPU_MEMORY_USAGE_EVENTS (start integer, globalPid integer, deviceId integer,
            contextId integer, address integer, bytes integer, memKind integer, memoryOperationType integer, name text);
        insert into CUDA_GPU_MEMORY_USAGE_EVENTS values (1, {FIRST}, 0, 1, 9, 64, 5, 0, 'weights'),
            (2, {FIRST}, 0, 1, 9, 64, 5, 1, null);
        create table NVTX_EVENTS (start integer, end integer);""",
    )
    trace = tracekit.read(path)
    made, freed = rows(trace, "memory")
    assert (made["bytes"], args(made)["name"], args(made)["mem_type"]) == (64, "weights", "Device Static")
    assert (freed["bytes"], "name" in args(freed)) == (-64, False)
    assert not trace.ledgers[0].notes.keys() - {"no-event-type"}


def test_what_the_profiler_itself_lost_is_told(tmp_path: Path) -> None:
    lost = [f"(2, 'Lost {n} buffers')" for n in range(7)]
    path = database(
        tmp_path / "lost.sqlite",
        f"""create table DIAGNOSTIC_EVENT (severity integer, text text);
        insert into DIAGNOSTIC_EVENT values (2, 'Not all CUDA events might have been collected.'),
            (2, 'Not all CUDA events might have been collected.'), (3, 'it failed'), (1, 'Dropped nothing'),
            (2, 'No OpenGL events collected. Does the process use OpenGL?'), (2, null), {", ".join(lost)};
        create table NVTX_EVENTS (start integer, end integer, eventType integer, text text);
        insert into NVTX_EVENTS values (1, 2, 59, 'a');""",
    )
    notes = [note.text for note in tracekit.read(path).ledgers[0].notes.values()]
    before = "Nsight Systems itself warned: "
    assert notes[:3] == [f"{before}{LOST.format('CUDA')}", f"{before}it failed", f"{before}Lost 0 buffers"]
    assert notes[5:] == ["Nsight Systems itself warned of 4 more things: see its diagnostics"]


@pytest.mark.parametrize(
    "text",
    [
        "Not all NVTX events might have been collected.",
        "CUDA device 0: Unified Memory cannot be traced on devices that don''t support peer-to-peer transfers.",
        "NVTX events were dropped: the buffer is full",
        "Some unified memory records are missing",
    ],
)
def test_warnings_about_nvtx_and_unified_memory_are_no_sign_of_lost_rows(text: str, tmp_path: Path) -> None:
    path = database(
        tmp_path / "x.sqlite",
        f"""create table DIAGNOSTIC_EVENT (severity integer, text text);
        insert into DIAGNOSTIC_EVENT values (2, '{text}');
        create table NVTX_EVENTS (start integer, end integer, eventType integer, text text);
        insert into NVTX_EVENTS values (1, 2, 59, 'a');""",
    )
    trace = tracekit.read(path)
    (note,) = trace.ledgers[0].notes.values()
    assert note.text == f"Nsight Systems itself warned: {text}".replace("''", "'")
    defect = class_of_note(note.code, note.text)
    assert defect is not None
    assert defect.code == "remark"
    assert [each.rule for each in tracekit.view(trace, "findings").findings] == []


def capture(folder: Path, launches: list[str], work: str = "") -> Path:
    names = "".join(f", ({n}, '{name}')" for n, name in enumerate(launches, 10))
    calls = "".join(f", ({n * 100}, {n * 100 + 50}, {n}, {FIRST}, {n})" for n in range(10, 10 + len(launches)))
    return database(
        folder / "x.sqlite",
        f"""insert into StringIds values (1, 'cudaMalloc_v3020'){names};
        create table {C}RUNTIME (start integer, end integer, correlationId integer, globalTid integer, nameId integer);
        insert into {C}RUNTIME values (5, 9, 1, {FIRST}, 1){calls};
        create table {C}KERNEL (start integer, end integer, correlationId integer, shortName integer, streamId integer);
        create table {C}MEMCPY (start integer, end integer, correlationId integer, bytes integer);
        {work}""",
    )


@pytest.mark.parametrize(
    "launches",
    [
        ["cudaLaunchKernel_v7000"] * 5,
        ["cuLaunchKernelEx"] * 3,
        ["cudaLaunchKernelExC_v11060", "cuLaunchKernel", "cudaGraphLaunch_v10000"],
        ["cudaLaunchCooperativeKernel_v9000"] * 4,
    ],
)
def test_launches_without_one_row_of_a_device_are_lost_rows(launches: list[str], tmp_path: Path) -> None:
    trace = tracekit.read(capture(tmp_path, launches))
    assert trace.ledgers[0].dropped == {}
    note = trace.ledgers[0].notes["device-rows-missing"]
    assert f"{len(launches)} calls launched work, and no kernel" in note.text
    (finding,) = tracekit.view(trace, "findings").findings
    assert (finding.rule, finding.confidence) == ("lost rows", "high")
    assert "no kernel, copy or memset is in the file" in finding.claim
    assert "lost rows" in run_command("summary", tmp_path / "x.sqlite").stdout


@pytest.mark.parametrize(
    ("launches", "work"),
    [
        (["cudaLaunchKernel_v7000"] * 5, f"insert into {C}KERNEL values (1200, 1300, 10, 1, 7);"),
        (["cudaLaunchKernel_v7000"] * 5, f"insert into {C}MEMCPY values (1200, 1300, 10, 64);"),
        (["cudaLaunchKernel_v7000"] * 2, ""),
        (["cudaFree_v3020", "cudaLaunchHostFunc_v10000"] * 3, ""),
    ],
)
def test_captures_with_work_or_without_launches_have_lost_nothing(
    launches: list[str], work: str, tmp_path: Path
) -> None:
    assert "device-rows-missing" not in tracekit.read(capture(tmp_path, launches, work)).ledgers[0].notes


def test_devices_are_those_of_the_machine_where_processes_number_them_otherwise(tmp_path: Path) -> None:
    path = database(
        tmp_path / "visible.sqlite",
        f"""create table TARGET_INFO_GPU (id integer, name text);
        insert into TARGET_INFO_GPU values (0, 'A'), (1, 'B'), (2, 'C');
        create table TARGET_INFO_CUDA_DEVICE (gpuId integer, cudaId integer, pid integer);
        insert into TARGET_INFO_CUDA_DEVICE values (2, 0, 70), (0, 0, 80), (1, 1, 80), (null, 3, 80),
            (1, 4, 80), (2, 4, 80);
        create table TARGET_INFO_CUDA_CONTEXT_INFO (processId integer, deviceId integer, nullStreamId integer);
        insert into TARGET_INFO_CUDA_CONTEXT_INFO values (70, 0, 7), (80, 0, 7);
        create table {C}KERNEL (start integer, end integer, deviceId integer, streamId integer, globalPid integer);
        insert into {C}KERNEL values (1, 2, 0, 7, {FIRST - 71}), (2, 3, 0, 7, {SECOND - 81}),
            (3, 4, 1, 7, {SECOND - 81}), (4, 5, 4, 7, {SECOND - 81}), (5, 6, null, 7, {FIRST - 71}), (6, 7, 0, 7, null);
        create table {C}MEMCPY (start integer, end integer, deviceId integer, globalPid integer, srcDeviceId integer,
            dstDeviceId integer);
        insert into {C}MEMCPY values (7, 8, 0, {FIRST - 71}, 0, 1), (8, 9, 0, {SECOND - 81}, null, 0);
        create table GPU_METRICS (timestamp integer, typeId integer, metricId integer, value integer);
        insert into GPU_METRICS values (9, 256, 1, 50);""",
    )
    trace = tracekit.read(path)
    assert [r["device"] for r in rows(trace, "kernel")] == [2, 0, 1, 4, None, 0]
    ends = [(r["device"], json.loads(r["args"])) for r in rows(trace, "memcpy")]
    assert ends == [(2, {"src_device": 2, "dst_device": 1}), (0, {"dst_device": 0})]
    assert [r["device"] for r in rows(trace, "counter")] == [0]
    assert set(trace.run.streams) == {(0, 2, 7), (0, 0, 7)}
    assert set(trace.ledgers[0].notes) == {"devices-by-machine"}


def test_devices_that_processes_number_as_the_machine_does_are_as_they_are(tmp_path: Path) -> None:
    path = database(
        tmp_path / "same.sqlite",
        f"""create table TARGET_INFO_CUDA_DEVICE (gpuId integer, cudaId integer, pid integer);
        insert into TARGET_INFO_CUDA_DEVICE values (0, 0, 70), (1, 1, 70);
        create table {C}KERNEL (start integer, end integer, deviceId integer, globalPid integer);
        insert into {C}KERNEL values (1, 2, 1, {FIRST - 71});""",
    )
    trace = tracekit.read(path)
    assert [r["device"] for r in rows(trace, "kernel")] == [1]
    assert not trace.ledgers[0].notes


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (
            "Collection of CPU IP samples, backtraces, and scheduling data disabled. perf event paranoid level is 4.",
            False,
        ),
        ("Unable to configure the collection of context switch data, or event sampling data.", False),
        ("Some backtraces might have been dropped", False),
        ("Not all CUDA events might have been collected, backtraces included.", True),
        ("it failed", True),
        ("AnalysisService: failed to start event source Perf: AccessDeniedException", False),
        ("GPU Metrics: The user does not have permission to access NVIDIA GPU Performance Counters.", False),
        ("Not all OpenGL events might have been collected.", False),
        ("Not all OS runtime libraries events might have been collected.", False),
        ("OpenACC profiling might have not been started correctly.", False),
        ("CUDA profiling might have not been started correctly.", True),
        ("Could not parse 2 CUPTI activity records.", True),
    ],
)
def test_what_the_profiler_says_of_other_things_is_no_sign_of_lost_rows(text: str, lost: bool, tmp_path: Path) -> None:
    path = database(
        tmp_path / "x.sqlite",
        f"""create table DIAGNOSTIC_EVENT (severity integer, text text);
        insert into DIAGNOSTIC_EVENT values (3, '{text}');
        create table NVTX_EVENTS (start integer, end integer, eventType integer, text text);
        insert into NVTX_EVENTS values (1, 2, 59, 'a');""",
    )
    trace = tracekit.read(path)
    (note,) = trace.ledgers[0].notes.values()
    assert note.text == f"Nsight Systems itself warned: {text}"
    assert [each.rule for each in tracekit.view(trace, "findings").findings] == ["lost rows"] * lost
