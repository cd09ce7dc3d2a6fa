"""Profiles of fluid.profiler: figures of real ones, the report printed beside them, odd devices, damage."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import claimed_alone, corpus, sample

import tracekit
from tracekit.api import inspect
from tracekit.errors import ParseError, TracekitError, UnknownFormatError
from tracekit.messages import messages

CLASSES = messages("profile")
FILES = (
    "paddle_fluid/fluid_profile_all.prof",
    "generated/paddle18_fluid/cpu_calls_opdetail.pb",
    "generated/paddle18_fluid/cpu_max_allopdetail.pb",
    "generated/paddle18_fluid/cpu_total_default.pb",
)


def written(tmp_path: Path, *events: dict[str, Any], **more: Any) -> Path:
    path = tmp_path / "unknown"
    path.write_bytes(CLASSES["Profile"](events=[CLASSES["Event"](**e) for e in events], **more).SerializeToString())
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return tracekit.read(path).events.to_pylist()


@pytest.mark.corpus
def test_the_corpus_file_has_the_figures_that_were_counted_by_hand() -> None:
    trace = tracekit.read(corpus(FILES[0]))
    rows = trace.events.to_pylist()
    assert len(rows) == 373
    assert sum(row["dur_ns"] for row in rows) == 109128856
    assert trace.span() == (1795226675877607542, 1795226675923354931)
    assert trace.run.sources[0].facts["profile_start_ns"] == 480249724
    assert trace.run.sources[0].facts["profile_end_ns"] == 0
    assert {row["device"] for row in rows} == {None}  # device 0 is a block's depth here, not a GPU


@pytest.mark.corpus
@pytest.mark.parametrize("stem", ["cpu_total_default", "cpu_calls_opdetail"])
def test_calls_are_those_of_the_report_printed_beside_the_profile(stem: str) -> None:
    """Calls alone: the report of 1.8 takes its times from another clock than the profile, which has whole us."""
    rows = rows_of(corpus(f"generated/paddle18_fluid/{stem}.pb"))
    calls = Counter(row["name"] for row in rows if row["dur_ns"] is not None)
    text = corpus(f"generated/paddle18_fluid/{stem}.txt").read_text(encoding="utf-8")
    printed = [line.split()[:2] for line in text.splitlines() if line.lstrip().startswith("thread0::")]
    assert len(printed) >= 16
    assert {name.removeprefix("thread0::"): int(count) for name, count in printed}.items() <= calls.items()


@pytest.mark.corpus
@pytest.mark.parametrize("name", FILES)
def test_counts_and_sums_are_those_of_the_messages(name: str) -> None:
    whole = CLASSES["Profile"].FromString(corpus(name).read_bytes())
    trace = tracekit.read(corpus(name))
    rows = trace.events.to_pylist()
    timed = [row for row in rows if row["dur_ns"] is not None]
    assert Counter(e.name.decode() for e in whole.events) == Counter(row["name"] for row in timed)
    assert sum(e.end_ns - e.start_ns for e in whole.events) == sum(row["dur_ns"] for row in timed)
    memory = [row for row in rows if row["kind"] == "memory"]
    assert len(memory) == 2 * len(whole.mem_events)
    assert sum(row["bytes"] for row in memory) == 0
    assert sum(m.bytes for m in whole.mem_events) == sum(row["bytes"] for row in memory if row["name"] == "Allocate")
    assert trace.ledgers[0].read == len(whole.events) + len(whole.mem_events) + 2


@pytest.mark.corpus
def test_only_this_reader_says_yes_to_its_files_in_all_of_the_corpus() -> None:
    assert claimed_alone("fluid-pb") == set(FILES)


def test_api_calls_operators_parts_and_device_work_are_told_apart() -> None:
    rows = rows_of(sample("fluid-pb/gpu.prof"))
    kinds = Counter(row["kind"] for row in rows)
    assert kinds == {
        "runtime": 72, "driver": 4, "kernel": 48, "memcpy": 10, "memset": 3, "memory": 2, "operator": 2,
        "operator_inner": 1, "user_range_native": 1,
    }  # fmt: skip
    work = [row for row in rows if row["kind"] in ("kernel", "memcpy", "memset")]
    assert sum(row["dur_ns"] for row in work) == 3683507
    assert {(row["device"], row["tid"]) for row in work} == {(0, None)}
    assert {row["stream"] for row in work} == {7, 14}
    assert {row["copy_kind"] for row in work if row["kind"] == "memcpy"} == {"HtoD", "DtoD", "DtoH"}
    pooling = next(row for row in rows if row["name"] == "\u00e9 pooling")
    assert json.loads(pooling["args"]) == {"block": 2}


def test_an_allocation_is_a_plus_and_a_minus() -> None:
    memory = [row for row in rows_of(sample("fluid-pb/gpu.prof")) if row["kind"] == "memory"]
    assert [(row["name"], row["bytes"], row["device"]) for row in memory] == [("Allocate", 4096, 0), ("Free", -4096, 0)]
    assert json.loads(memory[1]["args"])["free_in"] == "fetch"
    assert memory[0]["event_id"] == memory[1]["event_id"]


def test_before_the_field_type_a_device_of_minus_one_is_the_host(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"name": b"mul", "start_ns": 5, "end_ns": 9, "device_id": -1, "sub_device_id": 4},
        {"name": b"sgemm", "start_ns": 6, "end_ns": 8, "device_id": 1, "sub_device_id": 7},
    )
    rows = rows_of(path)
    assert [(r["kind"], r["tid"], r["device"], r["stream"]) for r in rows] == [
        ("operator", 4, None, None),
        ("kernel", None, 1, 7),
    ]
    assert tracekit.read(path).run.origin_ns is None


def test_an_allocation_never_freed_has_its_plus_alone(tmp_path: Path) -> None:
    memory = CLASSES["MemEvent"](start_ns=9, end_ns=0, bytes=64, place=1, alloc_in=b"x")
    trace = tracekit.read(written(tmp_path, {"name": b"a", "start_ns": 1, "end_ns": 2}, mem_events=[memory]))
    assert [row["bytes"] for row in trace.events.to_pylist() if row["kind"] == "memory"] == [64]
    assert "not-freed" in trace.ledgers[0].notes


def test_events_that_cannot_be_are_dropped_with_their_reason(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"name": b"good", "start_ns": 1, "end_ns": 2},
        {"name": b"backwards", "start_ns": 9, "end_ns": 2},
        {"name": b"wide", "start_ns": 1, "end_ns": 2, "device_id": 1 << 40},
    )
    trace = tracekit.read(path)
    assert trace.events.num_rows == 1
    assert trace.ledgers[0].dropped == {"bad-time": 1, "bad-value": 1}


def test_the_draft_s_size_of_a_copy_is_read(tmp_path: Path) -> None:
    copy = CLASSES["MemCopy"](bytes_of_the_draft=12)
    rows = rows_of(written(tmp_path, {"name": b"a", "start_ns": 1, "end_ns": 2, "device_id": 0, "memcopy": copy}))
    assert (rows[0]["kind"], rows[0]["bytes"]) == ("memcpy", 12)


def test_a_profile_without_events_is_taken_where_nothing_else_claims_it(tmp_path: Path) -> None:
    trace = tracekit.read(written(tmp_path, start_ns=480249724, end_ns=0))
    assert trace.events.num_rows == 0
    assert trace.run.sources[0].format == "fluid-pb"


def test_another_protobuf_is_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(b"\x0a\x0c\x0a\x04conv\x12\x04Conv")
    with pytest.raises(UnknownFormatError):
        tracekit.read(path)
    with pytest.raises(ParseError):
        tracekit.read(path, format="fluid-pb")


@given(data=st.data())
def test_no_damage_brings_anything_but_our_own_errors(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = bytearray(sample("fluid-pb/gpu.prof").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(len(base) - 1, 0)))
        if data.draw(st.booleans()):
            base[at : at + data.draw(st.integers(0, 300))] = data.draw(st.binary(max_size=12))
        else:
            base[at:at] = base[at : at + data.draw(st.integers(1, 200))]
    path = tmp_path_factory.mktemp("fuzz") / "x.pb"
    path.write_bytes(bytes(base))
    try:
        found = inspect(path, format="fluid-pb").inputs[0]
    except TracekitError:
        return
    assert found["events"] >= found["ledger"]["kept"]


def test_a_kernel_that_paddle_named_by_its_operator_has_its_own_name_back(tmp_path: Path) -> None:
    """DeviceTracer::GenProfile writes the operator as the name, and what ran as detail; both come back."""
    times = {"start_ns": 10**18, "end_ns": 10**18 + 5, "device_id": 0, "sub_device_id": 7, "type": 1}
    path = written(
        tmp_path,
        {"name": b"conv2d", "detail_info": b"_Z4gemmi", **times},
        {"name": b"fetch", "detail_info": b"MEMCPY_DtoH", "memcopy": {"bytes": 8}, **times},
        {"name": b"gemm", **times},
    )
    rows = {row["name"]: row for row in rows_of(path)}
    assert {name: (row["kind"], row["args"]) for name, row in rows.items()} == {
        "gemm(int)": ("kernel", '{"operator":"conv2d"}'),
        "MEMCPY_DtoH": ("memcpy", '{"operator":"fetch"}'),
        "gemm": ("kernel", None),
    }
    back = CLASSES["Profile"].FromString(_copied(path, tmp_path).read_bytes())
    assert [(event.name, event.detail_info) for event in back.events] == [
        (b"conv2d", b"gemm(int)"), (b"fetch", b"MEMCPY_DtoH"), (b"gemm", b""),
    ]  # fmt: skip


def _copied(path: Path, folder: Path) -> Path:
    target = folder / "copy.prof"
    tracekit.convert(path, target, to="fluid-pb")
    return target
