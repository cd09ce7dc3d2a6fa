"""results.db of rocprof, and the database of rocmProfileData: real files against SQL, ours against the same run."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, corpus_next, run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.model.trace import Trace

Rows = list[dict[str, Any]]
SUMS = {
    "rocprof/v1_spatter_results.db.gz": {"kernel": (520, 13_534_918_164)},
    "rocprof/v1_gunrock_results.db.gz": {"kernel": (56, 9_025_354)},
    "rocprof/v1_amdblog_fd.db.gz": {"kernel": (1004, 2_610_787_312)},
    "rocprof/v1_empty_results.db": {},
    "rocprof/v1_kokkos_hiptrace.db.gz": {
        "runtime": (104, 357_020_417), "memcpy": (24, 8_000_615), "memset": (6, 25_600), "kernel": (8, 1_649_757),
        "other": (6, 0), "user_range": (7, 9_823_565), "mark": (2, 2),
    },
    "rocpd/rpd_matmul_v2.rpd.gz": {
        "runtime": (120, 456_517_548), "overhead": (5, 1_243_810), "kernel": (29, 26_399_795),
        "memcpy": (55, 157_512_821), "memset": (1, 5440), "counter": (15, 0),
    },
    "rocpd/rpd_mytrace_v2.rpd.gz": {
        "runtime": (2830, 366_724_554), "overhead": (20, 37_066_935), "operator": (11_816, 1_105_901_556),
        "user_range": (70, 2_542_855_211), "kernel": (8948, 316_231_882 + 90_905_793),
        "memcpy": (1176, 6_169_262 + 2_570_452 + 747_692), "counter": (81, 0),
    },
}  # fmt: skip
"""Events and nanoseconds by kind. Their sums over the tables are the facts in SOURCES.md of the corpus."""
SPANS = {
    "rocprof/v1_amdblog_fd.db.gz": (1_915_914_098_849_134, 1_915_916_747_883_790),
    "rocprof/v1_kokkos_hiptrace.db.gz": (84_118_453_785_080, 84_119_019_884_896),
}


def rows_of(trace: Trace, kind: str) -> Rows:
    found: Rows = [row for row in trace.events.to_pylist() if row["kind"] == kind]
    return [row | {"args": json.loads(row["args"] or "{}")} for row in found]


def sums(trace: Trace) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for row in trace.events.to_pylist():
        count, total = found.get(row["kind"], (0, 0))
        found[row["kind"]] = (count + 1, total + (row["dur_ns"] or 0))
    return found


@pytest.mark.corpus
@pytest.mark.parametrize("name", SUMS)
def test_real_databases_have_the_rows_and_times_that_sql_counts(name: str) -> None:
    path = corpus_next(name)
    trace = tracekit.read(path)
    trace.ledgers[0].check()
    assert sure_readers(path) == ["rpd" if ".rpd" in name else "rocprof-db"]
    assert sums(trace) == SUMS[name]
    assert not trace.ledgers[0].dropped
    assert set(trace.ledgers[0].ignored) <= {"ext_callstack"}
    if name in SPANS:
        starts, durations = (trace.events[key].to_pylist() for key in ("ts_ns", "dur_ns"))
        assert (min(starts), max(a + b for a, b in zip(starts, durations, strict=True))) == SPANS[name]


@pytest.mark.corpus
@pytest.mark.parametrize("run", ["spatter_results", "gunrock_results"])
def test_the_database_of_kernels_is_the_table_of_the_same_run(run: str) -> None:
    database = tracekit.read(corpus_next(f"rocprof/v1_{run}.db.gz"))
    table = tracekit.read(corpus_next(f"rocprof/v1_{run}.csv"))
    assert database.events.to_pylist() == table.events.to_pylist()


@pytest.mark.corpus
@pytest.mark.parametrize("run", ["spatter_results", "kokkos_hiptrace"])
def test_the_database_agrees_with_the_json_of_the_same_run(run: str) -> None:
    keys = ("kind", "name", "raw_name", "dur_ns", "device", "stream", "copy_kind", "tid")
    found = []
    for ending in ("db", "json"):
        trace = tracekit.read(corpus_next(f"rocprof/v1_{run}.{ending}.gz"))
        found.append(Counter(tuple(r[k] for k in keys) for r in trace.events.to_pylist() if r["kind"] != "flow"))
    assert found[0] == found[1]


@pytest.mark.corpus
@pytest.mark.parametrize("table", ["stats", "hip_stats", "copy_stats"])
def test_the_database_agrees_with_the_sums_that_rocprof_made(table: str) -> None:
    trace = tracekit.read(corpus_next("rocprof/v1_kokkos_hiptrace.db.gz"))
    kinds = {"stats": ("kernel", "other"), "hip_stats": ("runtime",), "copy_stats": ("memcpy", "memset")}[table]
    found: dict[str, tuple[int, int]] = {}
    for row in (row for kind in kinds for row in rows_of(trace, kind)):
        count, total = found.get(row["name"], (0, 0))
        found[row["name"]] = (count + 1, total + row["dur_ns"])
    want = tracekit.read(corpus_next(f"rocprof/v1_kokkos_hiptrace.{table}.csv")).totals.to_pylist()
    assert found == {row["name"]: (row["calls"], row["total_ns"]) for row in want}


@pytest.mark.corpus
def test_copies_of_a_call_alone_have_its_bytes_and_fills_in_two_parts_have_none() -> None:
    trace = tracekit.read(corpus_next("rocprof/v1_kokkos_hiptrace.db.gz"))
    copies = rows_of(trace, "memcpy")
    assert Counter(row["bytes"] for row in copies) == {128: 21, 24: 2, 40_000_000: 1}
    assert sorted(row["bytes"] or 0 for row in rows_of(trace, "memset")) == [0, 0, 0, 0, 8192, 8192]
    names = {row["correlation"]: row["name"] for row in rows_of(trace, "runtime")}
    assert {names[row["correlation"]] for row in copies} == {"hipMemcpy", "hipMemcpyAsync"}


@pytest.mark.corpus
def test_rocm_profile_data_has_bytes_shapes_and_units_as_sql_sees_them() -> None:
    trace = tracekit.read(corpus_next("rocpd/rpd_mytrace_v2.rpd.gz"))
    copies = rows_of(trace, "memcpy")
    assert sum(row["bytes"] or 0 for row in copies) == 563_008 + 672 + 4_295_133_376
    shapes = Counter((row["grid_x"], row["block_x"]) for row in rows_of(trace, "kernel"))
    assert shapes[(592, 256)] == 128  # hipExtModuleLaunchKernel counts 151552 work items
    assert shapes[(8192, 1024)] == 130
    assert shapes[(None, None)] == 7720  # work of graphs
    assert len({row["correlation"] for row in rows_of(trace, "kernel") if row["grid_x"] is None}) == 20
    assert {row["pid"] for row in copies} == {1560}


@pytest.mark.corpus
def test_rocm_profile_data_agrees_with_its_trace_of_the_same_run() -> None:
    database = tracekit.read(corpus_next("rocpd/rpd_matmul_v2.rpd.gz"))
    export = tracekit.read(corpus_next("rocpd/rpd_matmul_chrome.json.gz"))
    for kind in ("kernel", "memcpy", "memset", "runtime"):
        rows = [sorted(rows_of(trace, kind), key=lambda r: r["event_id"]) for trace in (database, export)]
        assert [r["name"] for r in rows[0]] == [r["name"] for r in rows[1]]
        assert all(0 <= a["dur_ns"] - b["dur_ns"] < 1000 for a, b in zip(*rows, strict=True))  # cut to µs


# Ours: the run of rocpd/4242_results.db again

SAME = ("kernel", "memcpy", "runtime", "driver", "user_range")
KEYS = {
    "rocprof-db/results.db": ("ts_ns", "dur_ns", "pid", "tid", "device", "stream", "bytes", "copy_kind"),
    "rocprof-db/rocm-4.db": ("ts_ns", "dur_ns", "pid", "tid", "device", "stream", "bytes", "copy_kind"),
    "rpd/trace.rpd": ("ts_ns", "dur_ns", "pid", "tid", "device", "stream", "bytes", "copy_kind", "grid_x", "grid_y",
                      "grid_z", "block_x", "block_y", "block_z", "dynamic_smem_bytes"),
    "rpd/version-3.rpd": ("ts_ns", "dur_ns", "pid", "tid", "device", "stream", "bytes", "copy_kind", "grid_x", "grid_y",
                          "grid_z", "block_x", "block_y", "block_z"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("kind", SAME)
def test_a_run_is_the_same_in_the_databases_of_three_profilers(name: str, kind: str) -> None:
    found, launches, names = [], [], []
    for path in ("rocpd/4242_results.db", name):
        trace = tracekit.read(sample(path))
        rows = rows_of(trace, kind)
        calls = {(row["pid"], row["correlation"]): row["ts_ns"] for row in rows_of(trace, "runtime")}
        if "rpd" in path and kind == "runtime":
            rows = [
                row for row in rows if row["ts_ns"] < 7_200_000_249_202
            ]  # a launch without work, in that file alone
        rows = [row | {"copy_kind": "DtoD" if row["copy_kind"] == "PtoP" else row["copy_kind"]} for row in rows]
        found.append(sorted(tuple(row[key] for key in KEYS[name]) for row in rows))
        launches.append([calls.get((row["pid"], row["correlation"])) for row in rows])
        names.append(Counter(row["name"] for row in rows))
    assert found[0] == found[1]
    assert names[0] == names[1] or kind == "memcpy"
    if kind in ("kernel", "memcpy"):
        assert sorted(map(str, launches[0])) == sorted(map(str, launches[1]))
        assert None not in launches[1]


@pytest.mark.parametrize("name", ["rocprof-db/kernels.db", "rpd/version-3.rpd", "rocprof-csv/counters.csv"])
def test_counters_are_those_of_the_same_run(name: str) -> None:
    keys = ("name", "calls", "value_min", "value_max", "value_avg")
    found = []
    for path in ("rocpd/4242_results.db", name):
        totals = [row for row in tracekit.read(sample(path)).totals.to_pylist() if row["section"] == "metrics"]
        found.append(sorted((*(row[key] for key in keys), json.loads(row["args"])["metric"]) for row in totals))
    assert found[0] == found[1]


def test_marks_have_no_thread_of_their_own_and_counters_name_their_device() -> None:
    trace = tracekit.read(sample("rpd/trace.rpd"))
    assert [(row["name"], row["dur_ns"]) for row in rows_of(trace, "mark")] == [("the end", None)]
    assert sorted((row["name"], row["value"]) for row in rows_of(trace, "counter")) == [
        ("gpu 0 sclk", 134.0), ("gpu 0 sclk", 2100.0), ("gpu 1 sclk", 134.0), ("gpu 1 sclk", 2100.0)
    ]  # fmt: skip
    assert [row["name"] for row in rows_of(trace, "overhead")] == ["OpTable::writeRows"]


def test_the_generator_writes_the_committed_rows_again(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "rocpd", tmp_path / "rocpd")
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_rocm.py"), str(tmp_path)], check=True)
    for path in [*(tmp_path / "rocprof-db").iterdir(), *(tmp_path / "rpd").iterdir()]:
        with (
            contextlib.closing(sqlite3.connect(path)) as made,
            contextlib.closing(sqlite3.connect(sample(f"{path.parent.name}/{path.name}"))) as old,
        ):
            assert list(made.iterdump()) == list(old.iterdump())
    for path in [*(tmp_path / "rocprof-csv").iterdir(), *(tmp_path / "rocprof-json").iterdir()]:
        assert path.read_bytes() == sample(f"{path.parent.name}/{path.name}").read_bytes()


# Other contents and damage


def changed(tmp_path: Path, name: str, *statements: str) -> Path:
    """Return a copy of a sample after statements of SQL."""
    path = tmp_path / "x.db"
    shutil.copyfile(sample(name), path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


def test_kernels_in_two_tables_count_once_and_keep_their_counters(tmp_path: Path) -> None:
    path = changed(
        tmp_path, "rocprof-db/results.db", f"attach '{sample('rocprof-db/kernels.db')}' as k", "drop table KERN",
        "create table KERN as select * from k.KERN",
    )  # fmt: skip
    trace = tracekit.read(path)
    trace.ledgers[0].check()
    assert len(rows_of(trace, "kernel")) == 6
    assert len(trace.totals) == 4
    assert trace.ledgers[0].ignored == {"KERN (launches that OPS has too)": 6}


def test_launches_without_times_are_totals(tmp_path: Path) -> None:
    statements = [f"alter table KERN drop column {name}" for name in ("BeginNs", "EndNs", "DispatchNs", "CompleteNs")]
    trace = tracekit.read(changed(tmp_path, "rocprof-db/kernels.db", *statements))
    trace.ledgers[0].check()
    assert len(trace.events) == 0
    assert [row["calls"] for row in trace.totals.to_pylist() if row["section"] == "gpu"] == [3, 3]


def test_calls_of_several_processes_in_an_old_file_have_no_process(tmp_path: Path) -> None:
    path = changed(tmp_path, "rocprof-db/rocm-4.db", "update OPS set 'proc-id' = 9 where \"Index\" = 7")
    trace = tracekit.read(path)
    assert {row["pid"] for row in rows_of(trace, "runtime")} == {None}
    assert {row["pid"] for row in rows_of(trace, "kernel")} == {9, 4242}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("( dst(0x1) src(0x2) sizeBytes(77) kind(1))", 77),
        ("( dst(0x1) dpitch(9) src(0x2) spitch(9) width(64) height(3) kind(1))", 192),
        ("( dst(0x1) wOffset(0) hOffset(0) src(0x2) count(12) kind(1))", 12),
        ("( stream(1))", None),
    ],
)
def test_bytes_are_read_from_the_arguments_of_each_call(text: str, size: int | None, tmp_path: Path) -> None:
    path = changed(tmp_path, "rocprof-db/results.db", f"update HIP set args = '{text}' where \"Index\" = 6")
    found = {row["correlation"]: row["bytes"] for row in rows_of(tracekit.read(path), "memcpy")}
    assert found[6] == size


def test_copies_of_hsa_are_joined_to_calls_of_hsa(tmp_path: Path) -> None:
    text = "(0x7fd83bc00000, {handle=16124864}, 0x7fd89b600000, {handle=16119808}, 800, 0, 0, {handle=1}) = 0"
    path = changed(
        tmp_path, "rocprof-db/results.db", "drop table COPY", "drop table OPS", "drop table HIP",
        "create table COPY (BeginNs INTEGER, EndNs INTEGER, Name TEXT, pid INTEGER, tid INTEGER, \"Index\" INTEGER, "
        "Data TEXT, __section INTEGER, __lane INTEGER)",
        "insert into COPY values (7200000030000, 7200000031000, 'async-copy', 4242, 4243, 4, '', 1, 4243)",
        f"update HSA set Name = 'hsa_amd_memory_async_copy', args = '{text}'",
    )  # fmt: skip
    (copy,) = rows_of(tracekit.read(path), "memcpy")
    assert (copy["bytes"], copy["correlation"], copy["stream"], copy["args"]) == (800, 4, None, {"tid": 4243})


def test_overlapping_ranges_are_taken_off_their_thread(tmp_path: Path) -> None:
    path = changed(tmp_path, "rocprof-db/results.db", 'update rocTX set __lane = 0 where "Index" = 1')
    ranges = rows_of(tracekit.read(path), "user_range")
    assert [(row["tid"], row["args"]) for row in ranges] == [(4243, {}), (None, {"tid": 4243}), (4243, {})]


def test_grids_of_unknown_unit_stay_in_args(tmp_path: Path) -> None:
    trace = tracekit.read(changed(tmp_path, "rpd/trace.rpd", "delete from rocpd_kernelapi where workgroupX = 64"))
    gemm = rows_of(trace, "kernel")[0]
    assert (gemm["grid_x"], gemm["block_x"]) == (None, 16)
    assert gemm["args"] == {"grid_x": 16, "grid_y": 16, "grid_z": 1, "group_segment_size": 2048}


def test_tables_that_only_derive_are_counted_as_ignored(tmp_path: Path) -> None:
    path = changed(
        tmp_path, "rpd/version-3.rpd",
        "create table rocpd_stackframe (id integer, api_ptr_id integer, depth integer, name_id integer)",
        "insert into rocpd_stackframe values (1, 1, 0, 1)", "update rocpd_counter set op_id = 999 where id = 1",
    )  # fmt: skip
    ledger = tracekit.read(path).ledgers[0]
    ledger.check()
    assert ledger.ignored == {"rocpd_stackframe": 1, "rocpd_counter of no kernel": 1}


@pytest.mark.parametrize("reader", ["rocprof-db", "rpd"])
def test_a_database_of_another_program_gets_one_sentence(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("create table a (b)")
        db.commit()
    with pytest.raises(ParseError, match="the database cannot be read"):
        tracekit.read(path, format=reader)
    assert run_command("summary", path, "--from", reader, code=1).output.startswith("error: ")
