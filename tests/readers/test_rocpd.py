"""rocprofv3's database: real files, ours against SQL, merged databases, damage."""

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

import pyarrow as pa
import pytest
from support import SAMPLES, corpus_next, run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.model import arrow
from tracekit.model.trace import Trace
from tracekit.readers.sqlite.cupti import Extra, args_of

MIB = 1 << 20
ONE = "rocpd/4242_results.db"


def sums(trace: Trace) -> dict[str, tuple[int, int]]:
    """Return count and nanoseconds by kind."""
    found: dict[str, tuple[int, int]] = {}
    for kind, ns in zip(*(trace.events[name].to_pylist() for name in ("kind", "dur_ns")), strict=True):
        count, total = found.get(kind, (0, 0))
        found[kind] = (count + 1, total + (ns or 0))
    return found


def rows_of(trace: Trace, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [row for row in trace.events.to_pylist() if row["kind"] == kind]
    return [row | {"args": json.loads(row["args"] or "{}")} for row in rows]


def span(trace: Trace) -> tuple[int, int]:
    starts, durations = (trace.events[name].to_pylist() for name in ("ts_ns", "dur_ns"))
    return min(starts), max(ts + (ns or 0) for ts, ns in zip(starts, durations, strict=True))


@pytest.mark.corpus
def test_a_real_database_has_the_kernels_that_sql_counts() -> None:
    path = corpus_next("rocpd/llama_r9700_v3.db.gz")
    trace = tracekit.read(path)
    assert sure_readers(path) == ["rocpd"]
    assert sums(trace) == {"kernel": (5687, 82_887_453)}
    assert span(trace) == (168_853_321_180_888, 168_853_753_253_668)
    kernels = rows_of(trace, "kernel")
    assert {row["device"] for row in kernels} == {0}
    assert {row["args"]["queue"] for row in kernels} == {1, 2, 3}
    assert {row["stream"] for row in kernels} == {0, 1, 2, 3}
    assert {row["pid"] for row in kernels} == {32432}
    assert len({row["name"] for row in kernels}) == 15
    assert trace.run.devices == {(0, number): "AMD Radeon AI PRO R9700" for number in range(4)}
    assert not trace.ledgers[0].dropped
    assert not trace.ledgers[0].ignored


@pytest.mark.corpus
def test_a_database_with_fewer_tables_and_columns_is_read() -> None:
    path = corpus_next("rocpd/plugin_test_simplified.db.gz")
    trace = tracekit.read(path)
    assert sure_readers(path) == ["rocpd"]
    assert sums(trace) == {
        "kernel": (2, 3_000_000), "memcpy": (2, 600_000), "user_range": (2, 8_000_000), "mark": (20, 0)
    }  # fmt: skip
    assert span(trace) == (1_000_000_000, 1_005_000_000)
    assert [(row["copy_kind"], row["bytes"]) for row in rows_of(trace, "memcpy")] == [("HtoD", MIB), ("DtoH", MIB)]
    assert [row["grid_x"] for row in rows_of(trace, "kernel")] == [4, 4]


# Ours


def test_every_row_is_where_sql_sees_it() -> None:
    path = sample(ONE)
    trace = tracekit.read(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        want = {
            table: db.execute(f'select count(*), sum("end" - "start") from rocpd_{table}').fetchone()
            for table in ("kernel_dispatch", "memory_copy", "memory_allocate", "region")
        }
        samples = db.execute("select count(*) from rocpd_sample").fetchone()[0]
    found = sums(trace)
    assert found["kernel"] == want["kernel_dispatch"]
    assert found["memcpy"] == want["memory_copy"]
    assert found["memory"] == want["memory_allocate"]
    regions = [found[kind] for kind in ("runtime", "driver", "communication", "user_range")]
    assert (sum(n for n, _ in regions), sum(ns for _, ns in regions)) == want["region"]
    assert found["counter"][0] + found["mark"][0] == samples
    trace.ledgers[0].check()
    assert trace.ledgers[0].ignored == {"rocpd_arg": 2}


def test_work_is_joined_to_its_call_by_the_stack_id() -> None:
    trace = tracekit.read(sample(ONE))
    names = {row["correlation"]: row["name"] for row in rows_of(trace, "runtime")}
    assert {names[row["correlation"]] for row in rows_of(trace, "kernel")} == {"hipLaunchKernel"}
    assert {names[row["correlation"]] for row in rows_of(trace, "memcpy")} == {"hipMemcpyAsync"}


def test_kernels_have_shape_registers_and_both_kinds_of_shared_memory() -> None:
    gemm, add = rows_of(tracekit.read(sample(ONE)), "kernel")[:2]
    keys = ("grid_x", "grid_y", "block_x", "block_y", "registers", "static_smem_bytes", "dynamic_smem_bytes", "device")
    assert [gemm[key] for key in keys] == [16, 16, 16, 16, 48, 2048, 2048, 0]
    assert [add[key] for key in keys] == [1024, 1, 256, 1, 16, 0, 0, 1]
    assert gemm["raw_name"] == "_Z8gemm_f32PKfS0_Pfi.kd"
    assert gemm["args"]["accum_vgprs"] == 4


def test_copies_have_bytes_directions_and_both_gpus() -> None:
    copies = rows_of(tracekit.read(sample(ONE)), "memcpy")[:3]
    assert [(row["copy_kind"], row["bytes"], row["device"]) for row in copies] == [
        ("HtoD", MIB, 0), ("PtoP", MIB // 4, 1), ("DtoH", MIB // 4, 1)
    ]  # fmt: skip
    assert (copies[1]["args"]["src_device"], copies[1]["args"]["dst_device"]) == (0, 1)


def test_markers_have_their_messages_and_keep_their_call() -> None:
    trace = tracekit.read(sample(ONE))
    assert [row["name"] for row in rows_of(trace, "user_range")] == ["step 0", "step 1", "step 2"]
    assert {row["args"]["call"] for row in rows_of(trace, "user_range")} == {"roctxThreadRangeA"}
    assert [row["name"] for row in rows_of(trace, "mark")] == ["the end"]


def test_a_free_has_the_size_of_the_allocation_at_its_address_or_none() -> None:
    sizes = [row["bytes"] for row in rows_of(tracekit.read(sample(ONE)), "memory")]
    assert sizes == [4 * MIB, 65_536, -4 * MIB, None]


def test_counters_of_kernels_are_totals_with_their_instances_added_up() -> None:
    trace = tracekit.read(sample(ONE))
    rows = {(row["name"][:4], json.loads(row["args"])["metric"]): row for row in trace.totals.to_pylist()}
    waves = rows["gemm", "SQ_WAVES"]
    want = [4 * (duration // 100) + 6 for duration in (20_000, 21_000, 22_000)]
    assert [waves[key] for key in ("calls", "value_min", "value_max", "value_avg")] == [3, want[0], want[2], want[1]]
    assert [row["value"] for row in rows_of(trace, "counter")] == [51.5, 52.5, 53.5]


def test_processes_of_a_merged_database_stay_apart() -> None:
    trace = tracekit.read(sample("rocpd/merged.db"))
    alone = sums(tracekit.read(sample(ONE)))
    assert {kind: count for kind, (count, _) in sums(trace).items()} == {k: 2 * n for k, (n, _) in alone.items()}
    assert Counter(row["pid"] for row in rows_of(trace, "kernel")) == {4300: 6, 4301: 6}
    for kind in ("kernel", "memcpy"):
        launches = {(row["pid"], row["correlation"]) for row in rows_of(trace, "runtime")}
        assert {(row["pid"], row["correlation"]) for row in rows_of(trace, kind)} <= launches


def test_the_generator_writes_the_committed_rows_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_amd.py"), str(tmp_path)], check=True)
    for path in (tmp_path / "rocpd").iterdir():
        with (
            contextlib.closing(sqlite3.connect(path)) as new,
            contextlib.closing(sqlite3.connect(sample(f"rocpd/{path.name}"))) as old,
        ):
            assert list(new.iterdump()) == list(old.iterdump())
    for path in (tmp_path / "rocprof-csv").iterdir():
        assert path.read_bytes() == sample(f"rocprof-csv/{path.name}").read_bytes()


# Other schemas and damage


def test_rows_without_args_stay_among_a_column_of_many_values() -> None:
    found = args_of(3000, [Extra("a", arrow.array(list(range(3000)), pa.int64()))])
    assert found is not None
    assert found.to_pylist()[:3] == [None, '{"a":1}', '{"a":2}']
    assert len(found) == 3000


def changed(tmp_path: Path, *statements: str) -> Path:
    """Return a copy of the sample after statements of SQL; `@` stands for the ending of its tables."""
    path = tmp_path / "x.db"
    shutil.copyfile(sample(ONE), path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        name = db.execute("select name from sqlite_master where name like 'rocpd_metadata%' limit 1").fetchone()[0]
        for view in db.execute("select name from sqlite_master where type = 'view'").fetchall():
            db.execute(f'drop view "{view[0]}"')
        for statement in statements:
            db.execute(statement.replace("@", name.removeprefix("rocpd_metadata")))
        db.commit()
    return path


@pytest.mark.parametrize(
    "table", ["string", "event", "info_agent", "info_kernel_symbol", "info_pmc", "pmc_event", "track", "info_thread"]
)
def test_a_database_without_a_table_of_facts_keeps_its_events(table: str, tmp_path: Path) -> None:
    trace = tracekit.read(changed(tmp_path, f'drop table "rocpd_{table}@"'))
    trace.ledgers[0].check()
    assert len(trace.events) == len(tracekit.read(sample(ONE)).events)


def test_odd_rows_cost_themselves_alone(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        'update "rocpd_kernel_dispatch@" set "end" = "start" - 1 where rowid = 1',
        'update "rocpd_kernel_dispatch@" set grid_size_x = 1 << 60, kernel_id = 99 where rowid = 2',
        'update "rocpd_memory_copy@" set "start" = \'soon\' where rowid = 1',
        "update \"rocpd_pmc_event@\" set value = 'much' where rowid = 1",
        'update "rocpd_event@" set extdata = \'{"message\' where rowid = 9',
        'update "rocpd_info_agent@" set type_index = -1 where rowid = 1',
    )
    trace = tracekit.read(path)
    trace.ledgers[0].check()
    assert trace.ledgers[0].dropped == {"ends-before-start": 1, "no-time": 1}
    assert "kernel 99" in trace.events["name"].to_pylist()


def test_a_database_of_another_program_gets_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("create table a (b)")
        db.commit()
    with pytest.raises(ParseError, match="no table rocpd_metadata"):
        tracekit.read(path, format="rocpd")
    assert run_command("summary", path, "--from", "rocpd", code=1).output.startswith("error: ")
