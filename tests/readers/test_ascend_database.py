"""Databases of msprof and torch_npu: the same kernels as in the tables, names, launches, operators, odd cells."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from support import sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.model import args
from tracekit.model.trace import Trace

TORCH = "ascend-db/ascend_pytorch_profiler_3.db"
MSPROF = "ascend-db/msprof_20250109171300.db"


def edited(tmp_path: Path, *statements: str, name: str = TORCH) -> Trace:
    path = tmp_path / "x.db"
    shutil.copy(sample(name), path)
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()
    return tracekit.read(path)


def work(trace: Trace) -> Counter[tuple[object, ...]]:
    rows = trace.events.to_pylist()
    return Counter((row["ts_ns"], row["dur_ns"], row["name"], row["stream"]) for row in rows if row["kind"] == "kernel")


def sql(name: str, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(f"file:{sample(name)}?mode=ro&immutable=1", uri=True) as db:
        return db.execute(query).fetchall()


@pytest.mark.parametrize("name", [TORCH, MSPROF])
def test_kernels_are_those_of_kernel_details(name: str) -> None:
    trace = tracekit.read(sample(name))
    assert work(trace) == work(tracekit.read(sample("ascend-csv/kernel_details.csv")))
    assert trace.run.devices == {(0, 0): "Ascend910B"}
    assert trace.run.origin_ns == 0


def test_every_task_has_the_time_and_place_that_sql_finds() -> None:
    rows = [row for row in tracekit.read(sample(TORCH)).events.to_pylist() if row["stream"] is not None]
    found = Counter((row["ts_ns"], row["ts_ns"] + row["dur_ns"], row["stream"], row["correlation"]) for row in rows)
    wanted = sql(TORCH, "select startNs, endNs, streamId, connectionId from TASK")
    assert found == Counter(wanted)
    assert {row["pid"] for row in rows} == {4242}
    assert {row["rank"] for row in rows} == {3}


def test_tasks_within_an_operator_are_not_counted_beside_it() -> None:
    events = tracekit.read(sample(TORCH)).events.to_pylist()
    kinds = Counter((row["name"], row["kind"]) for row in events if row["stream"] in (4, 5))
    assert kinds == {("AI_CORE", "other"): 4, ("Notify_Wait", "other"): 4, ("Memcpy", "other"): 4}
    carriers = [row for row in events if row["name"] == "KERNEL_AICORE"]
    assert {row["kind"] for row in carriers} == {"other"}, "a mixed kernel lies within such a task"


def test_a_copy_has_its_bytes_and_its_direction() -> None:
    (copy,) = [row for row in tracekit.read(sample(TORCH)).events.to_pylist() if row["kind"] == "memcpy"]
    assert (copy["bytes"], copy["copy_kind"], copy["dur_ns"]) == (1 << 20, "HtoD", 47_500)


def test_launches_are_joined_to_their_work() -> None:
    trace = tracekit.read(sample(TORCH))
    rows = trace.events.to_pylist()
    calls = {row["correlation"] for row in rows if row["kind"] in ("driver", "runtime") and row["correlation"]}
    assert all(row["correlation"] in calls for row in rows if row["kind"] == "kernel")
    kinds = {row["name"]: row["kind"] for row in rows}
    assert (kinds["launch"], kinds["aclnnMatmul"], kinds["aclrtMemcpyAsync"]) == ("driver", "runtime", "runtime")


def test_operators_have_the_arguments_that_traces_of_pytorch_have() -> None:
    trace = tracekit.read(sample(TORCH))
    names = trace.events["name"].to_pylist()
    codes, dims = args.values(trace.events["args"], "Input Dims")
    of_types, types = args.values(trace.events["args"], "Input type")
    row, other = names.index("aten::mm"), names.index("aten::add")
    assert dims[codes[row]] == [[1024, 4096], [4096, 4096]]
    assert dims[codes[other]] == [[1024, 4096], [1024, 4096], []]
    assert types[of_types[other]] == ["c10::BFloat16", "c10::BFloat16", "Scalar"]
    thread = trace.events["tid"].to_pylist()[row]
    assert (thread, trace.events["pid"].to_pylist()[row]) == (4242, 4242)


def test_shapes_and_datatypes_in_the_columns_of_each_other_are_told_apart(tmp_path: Path) -> None:
    swap = "update PYTORCH_API set inputShapes = inputDtypes, inputDtypes = inputShapes"
    assert edited(tmp_path, swap).events.equals(tracekit.read(sample(TORCH)).events)


def test_times_of_operators_are_integers_or_texts_of_their_digits(tmp_path: Path) -> None:
    whole = tracekit.read(sample(TORCH)).events["ts_ns"].to_pylist()
    change = (
        "alter table PYTORCH_API rename to old",
        (
            "create table PYTORCH_API as select cast(startNs as integer) startNs, cast(endNs as integer) endNs, "
            "globalTid, connectionId, name, sequenceNumber, fwdThreadId, inputDtypes, inputShapes, type from old"
        ),
        "drop table old",
    )
    assert edited(tmp_path, *change).events["ts_ns"].to_pylist() == whole
    odd = edited(
        tmp_path,
        "update PYTORCH_API set startNs = 'soon' where rowid = 1",
        "update PYTORCH_API set startNs = '9999999999999999999' where rowid = 2",
        "update PYTORCH_API set endNs = null where rowid = 3",
    )
    assert sum(odd.ledgers[0].dropped.values()) == 3
    assert len(odd.events) == len(whole) - 3


def test_steps_ranges_and_marks() -> None:
    steps = [row for row in tracekit.read(sample(TORCH)).events.to_pylist() if row["kind"] == "step"]
    assert [(row["step"], row["name"]) for row in steps] == [(1, "ProfilerStep#1"), (2, "ProfilerStep#2")]
    own = tracekit.read(sample(MSPROF)).events.to_pylist()
    assert [row["name"] for row in own if row["kind"] == "user_range"] == ["step 1", "step 2"]
    assert [row["name"] for row in own if row["kind"] == "mark"] == ["done"]


@pytest.mark.parametrize(
    ("statement", "kernels"),
    [
        ("drop table COMPUTE_TASK_INFO", 56),  # all tasks of engines, and the collectives
        ("drop table COMMUNICATION_OP", 40),
        ("delete from STRING_IDS", 44),
        ("drop table NPU_INFO", 44),
        ("drop table ENUM_API_TYPE", 44),
        ("update TASK set globalTaskId = null", 4),
        ("update TASK set globalPid = 0", 44),
        ("update COMPUTE_TASK_INFO set name = 'no number'", 44),
        ("update CANN_API set globalTid = -1", 44),
        ("alter table COMPUTE_TASK_INFO rename column blockDim to blockNum", 44),
    ],
)
def test_a_database_without_some_of_its_tables_keeps_the_rest(statement: str, kernels: int, tmp_path: Path) -> None:
    trace = edited(tmp_path, statement)
    assert trace.events["kind"].to_pylist().count("kernel") == kernels
    trace.ledgers[0].check()


def test_level_0_knows_no_accelerator_and_its_operators_are_kernels(tmp_path: Path) -> None:
    nothing = "(select id from STRING_IDS where value = 'N/A')"
    trace = edited(tmp_path, f"update COMPUTE_TASK_INFO set taskType = {nothing}, opType = {nothing}")
    assert work(trace) == work(tracekit.read(sample(TORCH)))


def test_a_database_of_another_program_is_not_one_of_these(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("create table STRING_IDS (id integer, value text)")
    db.execute("create table OTHER (id integer)")
    db.commit()
    db.close()
    assert not sure_readers(path)
    path.write_bytes(sample(TORCH).read_bytes()[:9000])
    with pytest.raises(ParseError):
        tracekit.read(path, format="ascend-db")
