"""JSON lines of Nsight Systems: each kind of object, texts before or after, numbers as texts, damage."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import sample

import tracekit
from tracekit.api import inspect
from tracekit.errors import TracekitError, UsageError
from tracekit.model.trace import Trace
from tracekit.safety.limits import Limits, applied

PROCESS = 282_065_551_491_072
THREAD = str(PROCESS + 35_201)
TEXTS = {"data": ["[Unknown]", "cudaLaunchKernel_v7000", "add(int*)", "_Z3addPi", "prefetch", "poll"]}
CALL = {
    "Type": 48,
    "TraceProcessEvent": {
        "startNs": "100", "endNs": "150", "correlationId": 7, "globalTid": THREAD, "name": "1", "returnValue": 0,
        "eventClass": 0,
    },
}  # fmt: skip
KERNEL = {
    "Type": 79,
    "CudaEvent": {
        "startNs": "200", "endNs": "260", "correlationId": 7, "globalPid": str(PROCESS), "deviceId": 0,
        "contextId": "1", "streamId": "7", "eventClass": 3,
        "kernel": {"demangledName": "2", "shortName": "2", "mangledName": "3", "gridX": 4, "gridY": 1, "gridZ": 1,
                   "blockX": 128, "blockY": 1, "blockZ": 1, "registersPerThread": 16, "gridId": "9",
                   "graphNodeId": "5"},
    },
}  # fmt: skip


def lines(tmp_path: Path, *objects: Any) -> Trace:
    path = tmp_path / "run.json"
    path.write_text("".join(json.dumps(o) + "\n" for o in objects), encoding="utf-8")
    return tracekit.read(path)


def cuda(kind: int, **part: Any) -> dict[str, Any]:
    common = {
        "startNs": "300",
        "endNs": "309",
        "globalPid": str(PROCESS),
        "deviceId": 0,
        "streamId": "7",
        "contextId": "1",
    }
    return {"Type": kind, "CudaEvent": {**common, **part}}


def rows(trace: Trace) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if v is not None} for row in trace.events.to_pylist()]


@pytest.mark.parametrize("order", [(TEXTS, CALL, KERNEL), (CALL, KERNEL, TEXTS)])
def test_calls_and_kernels_have_their_names_wherever_the_texts_stand(tmp_path: Path, order: tuple[Any, ...]) -> None:
    trace = lines(tmp_path, *order)
    call, kernel = rows(trace)
    first = order.index(CALL) + 1
    assert call == {
        "ts_ns": 100, "dur_ns": 50, "event_id": first, "name": "cudaLaunchKernel", "raw_name": "cudaLaunchKernel_v7000",
        "kind": "runtime", "source": 0, "pid": 35_201, "tid": 35_201, "correlation": 7,
    }  # fmt: skip
    assert kernel == {
        "ts_ns": 200, "dur_ns": 60, "event_id": first + 1, "name": "add(int*)", "raw_name": "_Z3addPi",
        "kind": "kernel", "source": 0, "pid": 35_201, "device": 0, "context": 1, "stream": 7, "correlation": 7,
        "grid_x": 4, "grid_y": 1,
        "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1, "registers": 16, "args": '{"graphNodeId":"5"}',
    }  # fmt: skip
    assert trace.ledgers[0].facts == 1


def test_copies_memsets_and_synchronization(tmp_path: Path) -> None:
    trace = lines(
        tmp_path, TEXTS, cuda(80, memcpy={"sizebytes": "4096", "copyKind": 11, "srcKind": 0, "dstKind": 2}),
        cuda(80, memset={"sizebytes": "64", "value": 0, "memKind": 2}),
        cuda(106, sync={"syncType": 2, "eventId": 4_294_967_295}), cuda(127, cudaEventRecord={"eventId": 3}),
    )  # fmt: skip
    copy, memset, sync = rows(trace)
    assert (copy["name"], copy["copy_kind"], copy["bytes"]) == ("[CUDA Unified Memory memcpy HtoD]", "HtoD", 4096)
    assert json.loads(copy["args"]) == {"unified_memory": True, "src_mem_type": "Pageable", "dst_mem_type": "Device"}
    assert (memset["kind"], memset["bytes"]) == ("memset", 64)
    assert (sync["kind"], sync["name"]) == ("sync", "Stream sync")
    assert trace.ledgers[0].ignored == {"CudaEvent type 127": 1}


def test_nvtx_ranges_marks_domains_categories_and_names_of_threads(tmp_path: Path) -> None:
    def nvtx(kind: int, **members: Any) -> dict[str, Any]:
        return {"Type": kind, "NvtxEvent": {"Type": kind, "GlobalTid": THREAD, "NsTime": True, **members}}

    trace = lines(
        tmp_path, TEXTS,
        nvtx(59, Timestamp="10", EndTimestamp="20", Text="step", DomainId="3", Category="2", Color=255),
        nvtx(60, Timestamp="11", EndTimestamp="19", TextId="4", RangeId="8", DomainId="0"),
        nvtx(34, Timestamp="12", Text="now", DomainId="0"), nvtx(59, Timestamp="13", Text="open", DomainId="0"),
        nvtx(75, Timestamp="1", Text="NCCL", DomainId="3"), nvtx(39, Timestamp="1", Text="main"),
        nvtx(33, Timestamp="1", Text="io", DomainId="3", Category="2"), nvtx(76, Timestamp="30"),
    )  # fmt: skip
    step, prefetch, now, open_range = rows(trace)
    assert json.loads(step["args"]) == {"domain": "NCCL", "category": "io", "color": "#000000FF"}
    assert "tid" not in prefetch
    assert (prefetch["name"], json.loads(prefetch["args"])) == ("prefetch", {"id": 8, "tid": 35_201})
    assert (now["kind"], "dur_ns" in now) == ("mark", False)
    assert json.loads(open_range["args"]) == {"unfinished": True}
    assert trace.run.threads == {(0, 35_201, 35_201): "main"}
    ledger = trace.ledgers[0]
    assert (ledger.facts, ledger.ignored) == (4, {"NvtxEvent type 76": 1})


def test_calls_of_other_libraries_come_when_asked_for(tmp_path: Path) -> None:
    poll = {"Type": 48, "TraceProcessEvent": {**CALL["TraceProcessEvent"], "name": "5", "eventClass": 27}}
    assert lines(tmp_path, TEXTS, CALL, poll).ledgers[0].ignored == {"calls of other libraries": 1}
    found = tracekit.read(tmp_path / "run.json", options={"osrt": "yes"}).events.to_pylist()
    assert {(r["name"], r["kind"]) for r in found} == {("cudaLaunchKernel", "runtime"), ("poll", "other")}
    with pytest.raises(UsageError):
        tracekit.read(tmp_path / "run.json", options={"osrt": "2"})


def test_without_texts_there_are_no_names_and_a_note(tmp_path: Path) -> None:
    trace = lines(tmp_path, CALL, KERNEL)
    assert [row.get("name") for row in rows(trace)] == [None, None]
    assert "no-texts" in trace.ledgers[0].notes


@pytest.mark.parametrize("line", [b"{oops\n", b"[1]\n", b'{"Type":48,"TraceProcessEvent":{"startNs":"x"}}\n'])
def test_a_bad_line_costs_that_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(json.dumps(TEXTS).encode() + b"\n" + line + json.dumps(CALL).encode() + b"\n")
    ledger = tracekit.read(path).ledgers[0]
    assert ledger.dropped == {"bad-row": 1}
    assert ledger.notes["bad-row"].places == ["line 2"]


def test_the_samples_tell_the_run_of_the_database() -> None:
    database = inspect(sample("nsys-sqlite/schema-of-2021.sqlite")).inputs[0]["by_kind"]
    found = inspect(sample("nsys-jsonl/texts-first.jsonl")).inputs[0]["by_kind"]
    for kind in ("kernel", "memcpy", "memset", "runtime", "driver"):
        assert found[kind] == database[kind]


VALUES = st.one_of(
    st.none(), st.integers(), st.text(max_size=4), st.sampled_from(["5", "-1", 2**70, [], {}, True, 1.5])
)


@given(st.data())
def test_whatever_the_members_hold_only_our_errors_come_out(data: st.DataObject) -> None:
    objects = json.loads(json.dumps([TEXTS, CALL, KERNEL, cuda(106, sync={"eventId": 3})]))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.sampled_from(objects))
        while True:
            if not isinstance(at, dict) or not at:
                break
            key = data.draw(st.sampled_from(sorted(at)))
            if isinstance(at[key], dict) and data.draw(st.booleans()):
                at = at[key]
                continue
            at[key] = data.draw(VALUES)
            break
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_text("".join(json.dumps(o) + "\n" for o in objects), encoding="utf-8")
        hint = "read"
        try:
            tracekit.read(path, format="nsys-jsonl")
        except TracekitError as err:
            hint = err.hint
        assert hint


def test_members_that_nest_deeper_than_json_can_be_written_cost_their_record(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(260):
        deep = [deep]
    call = {**CALL, "TraceProcessEvent": {**CALL["TraceProcessEvent"], "odd": deep}}
    trace = lines(tmp_path, TEXTS, call, CALL)
    assert trace.events.num_rows == 1
    assert sum(trace.ledgers[0].dropped.values()) == 1


@pytest.mark.parametrize("first", [True, False])
def test_texts_may_be_lines_of_their_own(tmp_path: Path, first: bool) -> None:
    texts = [{"type": "String", "id": str(n), "value": text} for n, text in enumerate(TEXTS["data"])]
    order = [*texts, CALL, KERNEL] if first else [CALL, KERNEL, *texts]
    trace = lines(tmp_path, *order)
    assert [row["name"] for row in rows(trace)] == ["cudaLaunchKernel", "add(int*)"]
    ledger = trace.ledgers[0]
    assert ledger.facts == len(texts)
    assert not ledger.notes


def test_many_texts_before_the_first_event_are_still_such_a_file(tmp_path: Path) -> None:
    texts = [{"type": "String", "id": str(n), "value": f"kernel number {n} of a long program"} for n in range(3000)]
    assert [row["name"] for row in rows(lines(tmp_path, *texts, KERNEL))] == ["kernel number 2 of a long program"]


def test_numbers_that_say_none_and_texts_by_number_do_not_stand_in_args(tmp_path: Path) -> None:
    call = json.loads(json.dumps(CALL).replace('"returnValue": 0', '"returnValue32": 0'))
    kernel = json.loads(json.dumps(KERNEL))
    kernel["CudaEvent"] |= {"greenContextId": "0"}
    kernel["CudaEvent"]["kernel"] |= {"eventCategory": "2"}
    none = str((1 << 32) - 1)
    sync = cuda(106, sync={"eventId": int(none), "eventSyncId": none, "syncType": "SYNCHRONIZATION_TYPE_X"})
    called, launched, waited = rows(lines(tmp_path, TEXTS, call, kernel, sync))
    assert "args" not in called
    assert json.loads(launched["args"]) == {"graphNodeId": "5"}
    assert json.loads(waited["args"]) == {"syncType": "SYNCHRONIZATION_TYPE_X"}


def test_processes_have_names_and_what_the_profiler_lost_is_told(tmp_path: Path) -> None:
    comms = [
        {"Type": 27, "CommEvent": {"Timestamp": "1", "GlobalPid": str(PROCESS), "Commname": "python3"}},
        {"Type": 27, "CommEvent": {"Timestamp": "1", "GlobalPid": str(PROCESS + (1 << 24)), "Commname": "other"}},
    ]
    said = [
        {"Type": 49, "DiagnosticEvent": {"Level": level, "Text": text}}
        for level, text in (("Warning", "Not all CUDA events might have been collected."), ("Info", "lost nothing"))
    ]
    trace = lines(tmp_path, TEXTS, *comms, *said, KERNEL)
    assert trace.run.processes == {(0, 35_201): "python3"}
    ledger = trace.ledgers[0]
    assert [note.text for note in ledger.notes.values()] == [
        "Nsight Systems itself warned: Not all CUDA events might have been collected."
    ]
    assert (ledger.facts, ledger.ignored) == (3, {"DiagnosticEvent type 49": 2})


def test_launches_without_one_row_of_a_device_are_lost_rows(tmp_path: Path) -> None:
    assert "3 calls launched work" in lines(tmp_path, TEXTS, *[CALL] * 3).ledgers[0].notes["device-rows-missing"].text
    assert "device-rows-missing" not in lines(tmp_path, TEXTS, *[CALL] * 3, KERNEL).ledgers[0].notes


def test_rows_behind_a_limit_are_not_lost_by_the_profiler(tmp_path: Path) -> None:
    with applied(Limits(read_events=3)):
        trace = lines(tmp_path, TEXTS, *[CALL] * 5, KERNEL)
    assert trace.incomplete
    assert "device-rows-missing" not in trace.ledgers[0].notes


def test_zeros_over_many_lines_make_it_incomplete(tmp_path: Path) -> None:
    """The zeros replace several lines and leave one: how many there were is not known."""
    data = b"\n".join([json.dumps(TEXTS).encode(), *[json.dumps(CALL).encode()] * 2_000, b""])
    path = tmp_path / "x.jsonl"
    for size, incomplete in ((20, False), (len(data) // 20, True)):
        path.write_bytes(data[:50_030] + bytes(size) + data[50_030 + size :])
        trace = tracekit.read(path)
        assert trace.ledgers[0].dropped == {"bad-row": 1}
        assert bool(trace.incomplete) == incomplete
