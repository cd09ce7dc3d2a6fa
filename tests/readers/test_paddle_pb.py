"""Paddle's tree files: figures of real ones, the JSON of the same run, damage, and what no file of ours has."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, claimed_alone, corpus, sample

import tracekit
from tracekit.api import inspect
from tracekit.errors import ParseError, TracekitError
from tracekit.messages import messages

CLASSES = messages("nodetree")
PAIRS = (
    "generated/paddle26/range.0",
    "generated/paddle26/workers.0",
    "generated/paddle3/all.0",
    "generated/paddle3/shapes_mem.0",
)
GLUED = re.compile(r"\[[0-9.]+ [mun]?s\]$")


def decoded(path: Path) -> Any:
    return CLASSES["NodeTreesProto"].FromString(path.read_bytes())


def written(tmp_path: Path, message: Any) -> Path:
    path = tmp_path / "unknown"
    path.write_bytes(message.SerializeToString())
    return path


def a_tree(*hosts: tuple[str, int, int, int], version: bytes = b"1.0.2") -> Any:
    """A file with one thread and these ranges: name, type, start, end."""
    whole = CLASSES["NodeTreesProto"](version=version, span_indx=3)
    tree = whole.thread_trees.add(thread_id=77)
    for number, (name, kind, start, end) in enumerate(hosts, 1):
        node = tree.host_nodes.add(id=number, parentid=0)
        node.host_trace_event.MergeFrom(
            CLASSES["HostTraceEventProto"](
                name=name.encode(), type=kind, start_ns=start, end_ns=end, process_id=9, thread_id=77
            )
        )
    return whole


def rows_of(path: Path) -> list[dict[str, Any]]:
    return tracekit.read(path).events.to_pylist()


@pytest.mark.corpus
def test_the_corpus_file_has_the_figures_that_were_counted_by_hand() -> None:
    trace = tracekit.read(corpus("paddle_profiler/paddle_2.6.2.paddle_trace.pb"))
    kinds = Counter(row["kind"] for row in trace.events.to_pylist())
    # SOURCES.md: types {7: 25, 2: 4, 9: 4, 10: 4, 11: 4, 0: 48, 8: 100}, one of 7 is the root node; 3 extra_info.
    assert kinds == {
        "user_range_native": 24, "step": 4, "forward": 4, "backward": 4, "optimizer": 4, "operator": 48,
        "operator_inner": 100,
    }  # fmt: skip
    assert trace.ledgers[0].ignored == {"root-node": 1}
    assert trace.run.sources[0].facts["version"] == "1.0.2"
    assert len(trace.run.sources[0].facts["extra_info"]) + len(trace.run.threads) == 3


@pytest.mark.corpus
@pytest.mark.parametrize("stem", PAIRS)
def test_json_and_protobuf_of_one_run_agree_event_by_event(stem: str) -> None:
    """The JSON keeps ts in whole us, and its exact times as float32 us: that, and no more, is the slack."""
    rows = rows_of(corpus(f"{stem}.pb"))
    events = json.loads(corpus(f"{stem}.json").read_bytes())["traceEvents"]
    ranges = [row for row in rows if row["dur_ns"] is not None]
    shown = [event for event in events if event.get("ph") == "X"]
    assert len(ranges) == len(shown) > 0
    base = min(row["ts_ns"] for row in ranges)
    mine: dict[tuple[str, int, int], list[tuple[int, int]]] = {}
    theirs: dict[tuple[str, int, int], list[tuple[int, int, Decimal]]] = {}
    for row in ranges:
        mine.setdefault((row["name"], row["pid"], row["tid"]), []).append((row["ts_ns"], row["dur_ns"]))
    for event in shown:
        start = int(Decimal(event["args"]["start_time"].split()[0]) * 1000)
        key = (GLUED.sub("", event["name"]), event["pid"], int(event["tid"].split("(")[0]))
        theirs.setdefault(key, []).append((start, event["ts"], Decimal(str(event["dur"]))))
    assert mine.keys() == theirs.keys()
    for key, spans in mine.items():
        for (ts, dur), (start, whole_us, dur_us) in zip(sorted(spans), sorted(theirs[key]), strict=True):
            assert ts // 1000 == whole_us
            assert abs(ts - base - start) <= np.spacing(np.float32((ts - base) / 1000)) * 1000 + 1
            assert abs(dur - dur_us * 1000) <= float(np.spacing(np.float32(dur / 1000))) * 1000 + 1
    allocations = [row for row in rows if row["kind"] == "memory"]
    assert Counter((row["name"], row["bytes"], row["ts_ns"] // 1000) for row in allocations) == Counter(
        (event["cat"], event["args"]["increase_bytes"], event["ts"]) for event in events if event.get("ph") == "i"
    )


@pytest.mark.corpus
@pytest.mark.parametrize("stem", PAIRS)
def test_sums_of_the_rows_are_those_of_the_messages(stem: str) -> None:
    whole = decoded(corpus(f"{stem}.pb"))
    hosts = [n.host_trace_event for t in whole.thread_trees for n in t.host_nodes]
    real = [h for h in hosts if h.end_ns < 1 << 63]
    rows = rows_of(corpus(f"{stem}.pb"))
    assert sum(h.end_ns - h.start_ns for h in real) == sum(row["dur_ns"] or 0 for row in rows)
    allocations = [m.mem_event.increase_bytes for t in whole.thread_trees for n in t.host_nodes for m in n.mem_nodes]
    assert sorted(allocations) == sorted(row["bytes"] for row in rows if row["kind"] == "memory")


@pytest.mark.corpus
def test_only_this_reader_says_yes_to_its_files_in_all_of_the_corpus() -> None:
    assert claimed_alone("paddle-pb") == {f"{stem}.pb" for stem in PAIRS} | {
        "paddle_profiler/paddle_2.6.2.paddle_trace.pb"
    }


def test_device_work_is_whole_and_joined_to_its_call() -> None:
    rows = rows_of(sample("paddle-pb/gpu.paddle_trace.pb"))
    kinds = Counter(row["kind"] for row in rows)
    assert kinds == {
        "runtime": 72, "driver": 4, "kernel": 48, "memcpy": 10, "memset": 3, "memory": 2, "step": 1, "operator": 1,
    }  # fmt: skip
    calls = {row["correlation"]: row for row in rows if row["kind"] in ("runtime", "driver")}
    work = [row for row in rows if row["kind"] in ("kernel", "memcpy", "memset")]
    assert all(calls[row["correlation"]]["ts_ns"] <= row["ts_ns"] for row in work)
    assert sum(row["dur_ns"] for row in work) == 3683507  # the run's own, as in every sample
    kernel = next(row for row in rows if row["kind"] == "kernel")
    assert (kernel["grid_x"], kernel["block_x"], kernel["registers"], kernel["static_smem_bytes"]) == (
        49,
        128,
        128,
        12288,
    )
    assert json.loads(kernel["args"])["occupancy"] == 0.25
    copy = next(row for row in rows if row["kind"] == "memcpy")
    assert (copy["bytes"], copy["copy_kind"], json.loads(copy["args"])["src_kind"]) == (4816896, "HtoD", "Pageable")
    operator = next(row for row in rows if row["kind"] == "operator")
    assert json.loads(operator["args"])["input_shapes"] == {"X": [[4, 3, -1]]}
    assert any(row["raw_name"] for row in work)


def test_facts_names_of_threads_and_devices_are_kept() -> None:
    run = tracekit.read(sample("paddle-pb/gpu.paddle_trace.pb")).run
    assert run.devices == {(0, 0): "Tesla P100-PCIE-16GB"}
    assert run.threads == {(0, 21604, 21604): "MainThread"}
    assert run.sources[0].facts["device_properties"][0]["sm_count"] == 56
    assert run.origin_ns == 0


def test_allocations_on_a_root_node_are_kept_and_the_root_itself_is_not() -> None:
    trace = tracekit.read(sample("paddle-pb/paddle3-memory.paddle_trace.pb"))
    assert trace.ledgers[0].ignored == {"root-node": 2}
    of_loader = [row for row in trace.events.to_pylist() if row["tid"] == 3708]
    assert [row["kind"] for row in of_loader] == ["memory"] * 5
    assert trace.run.threads[(0, 3662, 3708)].startswith("Dataloader_")


def test_the_samples_of_our_script_are_written_again_byte_for_byte(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(ROOT / "sample_traces/_paddle.py"), str(tmp_path)], check=True)
    for name in (
        "paddle-pb/gpu.paddle_trace.pb",
        "fluid-pb/gpu.prof",
        "paddle-summary/gpu.txt",
        "fluid-report/all.txt",
    ):
        assert (tmp_path / name).read_bytes() == sample(name).read_bytes()


def test_a_clock_that_is_not_unix_time_has_no_known_zero(tmp_path: Path) -> None:
    trace = tracekit.read(written(tmp_path, a_tree(("a", 0, 500, 900))))
    assert trace.run.origin_ns is None
    assert trace.events.column("ts_ns").to_pylist() == [500]


def test_ranges_that_cannot_be_are_dropped_with_their_reason(tmp_path: Path) -> None:
    message = a_tree(("good", 0, 10, 20), ("backwards", 0, 20, 10), ("too late", 0, 5, (1 << 63) + 5))
    trace = tracekit.read(written(tmp_path, message))
    assert trace.events.column("name").to_pylist() == ["good"]
    assert trace.ledgers[0].dropped == {"bad-time": 2}


def test_types_unknown_and_new_are_kept(tmp_path: Path) -> None:
    rows = rows_of(written(tmp_path, a_tree(("launch", 15, 1, 2), ("static", 16, 2, 3), ("later", 40, 3, 4))))
    assert [(row["kind"], row["args"]) for row in rows] == [
        ("operator_inner", '{"type":15}'),
        ("operator_inner", '{"type":16}'),
        ("other", '{"type":40}'),
    ]


def test_fields_of_a_newer_paddle_are_noted_and_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(a_tree(("a", 0, 1, 2)).SerializeToString() + b"\x4a\x03abc")
    trace = tracekit.read(path)
    assert trace.events.num_rows == 1
    assert trace.ledgers[0].ignored["unknown-field"] == 1
    assert "unknown-field" in trace.ledgers[0].notes


def test_a_name_that_is_not_utf_8_is_repaired_with_a_note(tmp_path: Path) -> None:
    message = a_tree(("x", 0, 1, 2))
    message.thread_trees[0].host_nodes[0].host_trace_event.name = b"na\xffme"
    trace = tracekit.read(written(tmp_path, message))
    assert trace.events.column("name").to_pylist() == ["na\ufffdme"]
    assert "not-utf-8" in trace.ledgers[0].notes


def test_several_supplements_and_those_without_an_event_are_accounted_for(tmp_path: Path) -> None:
    message = a_tree(("conv", 0, 1, 2), ("broken", 0, 9, 3))
    for node, count in zip(message.thread_trees[0].host_nodes, (2, 1), strict=True):
        for number in range(count):
            event = node.op_supplement_nodes.add().op_supplement_event
            event.op_type, event.callstack = f"op{number}".encode(), b"here"
    trace = tracekit.read(written(tmp_path, message))
    ledger = trace.ledgers[0]
    assert ledger.merged == 2
    assert ledger.ignored == {"supplement-without-event": 1}
    args = json.loads(trace.events.column("args")[0].as_py())
    assert [args["op_type"], args["supplements"][0]["op_type"]] == ["op0", "op1"]


def test_a_shape_of_zeros_is_not_known(tmp_path: Path) -> None:
    message = a_tree(("a", 0, 1, 2))
    call = message.thread_trees[0].host_nodes[0].runtime_nodes.add()
    call.runtime_trace_event.MergeFrom(
        CLASSES["CudaRuntimeTraceEventProto"](name=b"cudaLaunchKernel", start_ns=1, end_ns=2)
    )
    work = call.device_nodes.add().device_event
    work.name, work.type, work.start_ns, work.end_ns = b"k", 4, 3, 4
    work.kernel_info.grid_x = work.kernel_info.block_x = work.kernel_info.registers_per_thread = 0
    kernel = next(row for row in rows_of(written(tmp_path, message)) if row["kind"] == "kernel")
    assert kernel["grid_x"] is None
    assert kernel["registers"] is None


def test_a_file_forced_upon_the_reader_is_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"hello, this is text\n")
    with pytest.raises(ParseError):
        tracekit.read(path, format="paddle-pb")


def test_a_file_without_trees_gives_no_rows_and_its_facts(tmp_path: Path) -> None:
    trace = tracekit.read(written(tmp_path, CLASSES["NodeTreesProto"](version=b"1.0.2", span_indx=0)))
    assert trace.events.num_rows == 0
    assert trace.run.sources[0].facts["span_indx"] == 0


@given(data=st.data())
def test_no_damage_brings_anything_but_our_own_errors(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = bytearray(sample("paddle-pb/gpu.paddle_trace.pb").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(base) - 1))
        action = data.draw(st.sampled_from(["flip", "cut", "insert", "copy"]))
        if action == "flip":
            base[at] = data.draw(st.integers(0, 255))
        elif action == "cut":
            del base[at : at + data.draw(st.integers(1, 400))]
        elif action == "insert":
            base[at:at] = data.draw(st.binary(min_size=1, max_size=12))
        else:
            base[at:at] = base[at : at + data.draw(st.integers(1, 200))]
        if not base:
            break
    path = tmp_path_factory.mktemp("fuzz") / "x.pb"
    path.write_bytes(bytes(base))
    try:
        found = inspect(path, format="paddle-pb").inputs[0]
    except TracekitError:
        return
    ledger = found["ledger"]
    assert found["events"] == ledger["kept"]
