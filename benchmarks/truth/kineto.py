"""A writer of Kineto traces, as torch.profiler exports them, independent of tracekit's own writers.

sync: "rows" with cuda_sync rows (enable_cuda_sync_events), "calls" with API rows only (torch's default), "none" with
neither cuda_sync rows nor the calls that record events and wait for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.truth.machine import Range, Rank

BASE_NS = 1_700_000_000_000_000_000
EPOCH_NS = 86_400_000_000_000
"""Where the simulation's zero is on the clock of the trace."""
_CATEGORIES = {
    "op": "cpu_op",
    "user": "user_annotation",
    "nvtx": "user_annotation",
    "step": "user_annotation",
}
_CBID = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaEventSynchronize": 137,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
    "cudaMalloc": 20,
    "cudaFree": 22,
    "cudaGraphLaunch": 311,
}
_EVENT_CALLS = ("cudaEventRecord", "cudaStreamWaitEvent")
_CATEGORY_OF_WORK = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
SMS = 132


def write(rank: Rank, path: Path, sync: str, clock: Callable[[int], int] = lambda ns: ns) -> None:
    """Write the trace of one rank. clock: from the simulation's time to the time of this rank's clock."""

    def ts(ns: int) -> float:
        return (EPOCH_NS + clock(ns)) / 1_000

    def dur(start: int, end: int) -> float:
        return (clock(end) - clock(start)) / 1_000

    events: list[dict[str, object]] = []
    pid = rank.pid
    callers: list[Range] = []  # Python functions are on the main thread alone
    for each in sorted(rank.ranges, key=lambda each: (each.start, -each.end)):
        if each.kind == "python":
            while callers and callers[-1].end <= each.start:
                callers.pop()
            python: dict[str, object] = {"Python id": each.number, "Python thread": 0, "Ev Idx": each.number - 1}
            python["Python parent id"] = callers[-1].number if callers else None
            callers.append(each)
            events.append(
                _x("python_function", each.name, pid, each.tid, ts(each.start), dur(each.start, each.end), python)
            )
            continue
        args: dict[str, object] = {"External id": each.number, "Record function id": 0, "Ev Idx": each.number - 1}
        if each.sequence >= 0:
            args |= {"Sequence number": each.sequence, "Fwd thread id": each.forward_tid}
        if each.dims:
            args |= {"Concrete Inputs": [""] * len(each.dims), "Input type": ["c10::BFloat16"] * len(each.dims)}
            args["Input Dims"] = [list(sizes) for sizes in each.dims]
        events.append(
            _x(_CATEGORIES[each.kind], each.name, pid, each.tid, ts(each.start), dur(each.start, each.end), args)
        )
    launching = {each.correlation for each in rank.works}
    for call in rank.calls:
        if sync == "none" and call.name in _EVENT_CALLS:
            continue
        driver = call.name.startswith("cu") and not call.name.startswith("cuda")
        args = {"External id": call.range or call.correlation, "cbid": _CBID.get(call.name, 0)}
        args["correlation"] = call.correlation
        category = "cuda_driver" if driver else "cuda_runtime"
        events.append(_x(category, call.name, pid, call.tid, ts(call.start), dur(call.start, call.end), args))
        if call.correlation in launching:
            events.append(_flow("s", call.correlation, pid, call.tid, ts(call.start)))
    for work in rank.works:
        if work.lost:
            continue
        args = {"External id": work.range, "device": rank.device, "context": 1, "stream": work.stream}
        args["correlation"] = work.correlation
        if work.kind == "kernel":
            blocks = work.grid[0] * work.grid[1] * work.grid[2]
            args = {"External id": work.range, "queued": 0, **args}
            args |= {"registers per thread": 64, "shared memory": 16384, "blocks per SM": round(blocks / SMS, 6)}
            args["warps per SM"] = round(blocks * work.block[0] / 32 / SMS, 6)
            args |= {"grid": list(work.grid), "block": list(work.block), "est. achieved occupancy %": 40}
            if work.collective:
                args |= {"Collective name": work.collective, "In msg nelems": work.elements}
                args |= {"Out msg nelems": work.elements, "Group size": rank.ranks, "dtype": "BFloat16"}
                args |= {"Process Group Name": "0", "Process Group Description": "default_pg"}
                args["Process Group Ranks"] = str(list(range(rank.ranks)))
            if work.group:
                args["graph id"] = work.group
        else:
            args["bytes"] = work.bytes
            args["memory bandwidth (GB/s)"] = work.bytes / max(1, work.end - work.start)
        category = _CATEGORY_OF_WORK[work.kind]
        events.append(
            _x(category, work.name, rank.device, work.stream, ts(work.start), dur(work.start, work.end), args)
        )
        events.append(_flow("f", work.correlation, rank.device, work.stream, ts(work.start)))
    if sync == "rows":
        for wait in rank.syncs:
            args = {"External id": wait.correlation, "cuda_sync_kind": wait.kind}
            if wait.kind in ("Stream Wait Event", "Event Sync"):
                args |= {"wait_on_stream": wait.on_stream, "wait_on_cuda_event_record_corr_id": wait.on_record}
                args["wait_on_cuda_event_id"] = wait.event
            args |= {"stream": wait.stream, "correlation": wait.correlation, "device": rank.device, "context": 1}
            events.append(
                _x("cuda_sync", wait.kind, rank.device, wait.stream, ts(wait.start), dur(wait.start, wait.end), args)
            )
    for each_memory in rank.memory:
        args = {"Total Reserved": each_memory.reserved, "Total Allocated": each_memory.allocated}
        args |= {"Bytes": each_memory.bytes, "Addr": each_memory.address, "Device Id": rank.device, "Device Type": 1}
        events.append(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid, "tid": each_memory.tid}
            | {"ts": ts(each_memory.at), "args": args}
        )
    events += _names(rank, ts(0))
    end = rank.end()
    span = {"ph": "X", "cat": "Trace", "ts": ts(0), "dur": dur(0, end), "pid": "Spans", "tid": "PyTorch Profiler"}
    events.append({**span, "name": "PyTorch Profiler (0)", "args": {"Op count": 0}})
    events.append(
        {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": ts(end)},
    )
    device = {"id": rank.device, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_017_493_504, "numSms": SMS}
    device |= {"computeMajor": 9, "computeMinor": 0, "warpSize": 32, "maxThreadsPerMultiprocessor": 2048}
    trace: dict[str, object] = {"schemaVersion": 1, "deviceProperties": [device], "cupti_version": 24}
    if rank.ranks > 1:
        groups = [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": rank.ranks}]
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank.number, "world_size": rank.ranks, "pg_count": 1}
        trace["distributedInfo"] |= {"pg_config": [groups[0] | {"ranks": list(range(rank.ranks))}]}  # type: ignore[operator]
    trace |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS, "traceEvents": events}
    path.write_text(json.dumps(trace), encoding="utf-8")


def _x(cat: str, name: str, pid: int, tid: int, ts: float, dur: float, args: dict[str, object]) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _flow(phase: str, id: int, pid: int, tid: int, ts: float) -> dict[str, object]:
    flow: dict[str, object] = {"ph": phase, "id": id, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g"}
    return flow if phase == "s" else {**flow, "bp": "e"}


def _names(rank: Rank, ts: float) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for pid, label in ((rank.pid, "CPU"), (rank.device, f"GPU {rank.device}")):
        rows.append({"name": "process_name", "ph": "M", "ts": ts, "pid": pid, "tid": 0, "args": {"name": "python"}})
        rows.append({"name": "process_labels", "ph": "M", "ts": ts, "pid": pid, "tid": 0, "args": {"labels": label}})
    for tid, name in rank.threads.items():
        args = {"name": f"thread {tid} ({name})"}
        rows.append({"name": "thread_name", "ph": "M", "ts": ts, "pid": rank.pid, "tid": tid, "args": args})
    for stream in rank.streams:
        args = {"name": f"stream {stream} "}
        rows.append({"name": "thread_name", "ph": "M", "ts": ts, "pid": rank.device, "tid": stream, "args": args})
    return rows
