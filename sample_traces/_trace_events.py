"""Trace-event files of the training run on a GPU, as several producers write them: text made here, without tracekit.

python sample_traces/_trace_events.py [FOLDER]        (default: the folder this file is in)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from _model import API, DEVICE, KERNEL, MEMCPY, PID, Event, training_run

EPOCH_NS = 1_767_225_600_000_000_000
BASE_NS = 1_767_139_200_000_000_000
TID = 21604


def micros(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _kineto_event(event: Event, ts: str) -> str:
    args: dict[str, object] = {"External id": event.correlation}
    if event.kind == API:
        args |= {"cbid": 211, "correlation": event.correlation}
        cat, name, place = "cuda_runtime", event.name, f'"pid": {PID}, "tid": {TID}'
    else:
        if event.kind == KERNEL:
            args["queued"] = 0
        args |= {"device": event.device, "context": event.context, "stream": event.stream}
        args["correlation"] = event.correlation
        if event.kind == KERNEL and event.kernel is not None and event.grid is not None:
            cat, name = "kernel", event.name
            args |= {
                "registers per thread": event.kernel.registers,
                "shared memory": event.kernel.static_smem + event.kernel.dynamic_smem,
                "blocks per SM": 1.5, "warps per SM": 12.0, "grid": list(event.grid),
                "block": list(event.kernel.block), "est. achieved occupancy %": 38,
            }  # fmt: skip
        elif event.kind == MEMCPY:
            kind = event.name.removeprefix("[CUDA memcpy ").removesuffix("]")
            cat, name = "gpu_memcpy", f"Memcpy {kind} ({event.source_memory} -> {event.target_memory})"
            args |= {"bytes": event.bytes, "memory bandwidth (GB/s)": round((event.bytes or 0) / (event.dur or 1), 3)}
        else:
            cat, name = "gpu_memset", "Memset (Device)"
            args |= {"bytes": event.bytes}
        place = f'"pid": {event.device}, "tid": {event.stream}'
    body = json.dumps(args)[1:-1]
    return (
        f'  {{\n    "ph": "X", "cat": "{cat}", "name": {json.dumps(name)}, {place},\n    "ts": {ts}, '
        f'"dur": {micros(event.dur or 0)},\n    "args": {{\n      {body}\n    }}\n  }}'
    )


def _arrow(phase: str, event: Event, ts: str, place: str) -> str:
    bound = ', "bp": "e"' if phase == "f" else ""
    return (
        f'  {{\n    "ph": "{phase}", "id": {event.correlation}, {place}, "ts": {ts},\n    "cat": "ac2g", '
        f'"name": "ac2g"{bound}\n  }}'
    )


def _meta(name: str, pid: int | str, tid: int | str, args: str) -> str:
    where = f'"ts": 86400000000.000, "pid": {pid}, "tid": {tid}'
    return f'  {{\n    "name": "{name}", "ph": "M", {where},\n    "args": {{ {args} }}\n  }}'


def _host(cat: str, name: str, ts: str, dur: int, args: str) -> str:
    head = f'"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {PID}, "tid": {TID}'
    return f'  {{\n    {head},\n    "ts": {ts}, "dur": {micros(dur)},\n    "args": {{\n      {args}\n    }}\n  }}'


def _memory(ts: str, total: int, size: int, device: int, kind: int) -> str:
    head = '"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]"'
    args = f'"Total Reserved": 2097152, "Total Allocated": {total}, "Bytes": {size}, "Device Id": {device}'
    args += f', "Device Type": {kind}, "Ev Idx": 9, "Addr": 140187843952640'
    where = f'"pid": {PID}, "tid": {TID},\n    "ts": {ts}'
    return f'  {{\n    {head},\n    {where},\n    "args": {{\n      {args}\n    }}\n  }}'


_OP = (
    '"External id": {},"Record function id": 0, "Concrete Inputs": ["", "C:\\\\data"], '
    '"Input Dims": [[16, 32], []], "Ev Idx": 3'
)


def kineto() -> str:
    """torch 2.4 and later: ts after baseTimeNanoseconds, which comes after the events, as the rank does."""
    run, lines = training_run(), list[str]()
    offset = EPOCH_NS - BASE_NS
    first, last = run[0].start, max(e.end for e in run)
    third = (last - first) // 3
    for step in range(3):
        args = f'"External id": {step + 1}, "Record function id": 0, "Ev Idx": {step}'
        start = micros(first + step * third + offset)
        lines.append(_host("user_annotation", f"ProfilerStep#{step + 10}", start, third, args))
    for event in run:
        ts = micros(event.start + offset)
        launch = event.kind == API and event.name == "cudaLaunchKernel"
        if launch:
            lines.append(_host("cpu_op", "aten::op", ts, event.dur or 0, _OP.format(event.correlation)))
        lines.append(_kineto_event(event, ts))
        if launch:
            lines.append(_arrow("s", event, ts, f'"pid": {PID}, "tid": {TID}'))
        elif event.kind == KERNEL:
            lines.append(_arrow("f", event, ts, f'"pid": {event.device}, "tid": {event.stream}'))
    when = micros(run[3].start + offset)
    lines += [_memory(when, *of) for of in ((4096, 4096, 0, 1), (0, -4096, 0, 1), (64, 64, -1, 0))]
    lines += [
        _meta("process_name", PID, 0, '"name": "python"'),
        _meta("process_labels", PID, 0, '"labels": "CPU"'),
        _meta("process_name", 0, 0, '"name": "python"'),
        _meta("process_labels", 0, 0, '"labels": "GPU 0"'),
        _meta("thread_name", 0, 7, '"name": "stream 7 "'),
        _meta("thread_name", PID, TID, f'"name": "thread {TID} (python)"'),
    ]
    span = f'"ph": "X", "cat": "Trace", "ts": {micros(first + offset)}, "dur": {micros(last - first)}'
    who = '"pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)"'
    lines.append(f'  {{\n    {span},\n    {who},\n    "args": {{\n      "Op count": 0\n    }}\n  }}')
    end = f'"pid": "", "tid": "", "ts": {micros(last + offset)}'
    lines.append(f'  {{\n    "name": "Record Window End", "ph": "i", "s": "g",\n    {end}\n  }}')
    device = f'"id": 0, "name": "{DEVICE}", "totalGlobalMem": 17071734784,\n      "computeMajor": 6, "numSms": 56'
    head = f'"schemaVersion": 1,\n  "deviceProperties": [\n    {{\n      {device}\n    }}\n  ],\n  "record_shapes": 1'
    tail = '"traceName": "C:\\\\runs\\\\worker0.json",\n  "displayTimeUnit": "ms",\n  '
    tail += f'"distributedInfo": {{"backend": "nccl", "rank": 3, "world_size": 4}},\n  "baseTimeNanoseconds": {BASE_NS}'
    events = ",\n".join(lines)
    return f'\n{{\n  {head},\n  "traceEvents": [\n{events}\n  ],\n  {tail}\n}}\n'


def kineto_old() -> str:
    """torch 1.8: capitalised categories, whole microseconds of Unix time, no base."""
    lines = []
    for event in training_run():
        ts, dur = (event.start + EPOCH_NS) // 1000, (event.dur or 0) // 1000
        cat = {API: "Runtime", KERNEL: "Kernel", MEMCPY: "Memcpy"}.get(event.kind, "Memset")
        pid, tid = (PID, f'"{TID}"') if event.kind == API else (event.device, f'"stream {event.stream}"')
        args: dict[str, object] = {"correlation": event.correlation, "external id": event.correlation}
        if event.kind != API:
            args |= {"device": event.device, "context": event.context, "stream": event.stream}
        lines.append(
            f'  {{\n    "ph": "X", "cat": "{cat}", "name": {json.dumps(event.name)}, "pid": {pid}, "tid": {tid},\n'
            f'    "ts": {ts}, "dur": {dur},\n    "args": {json.dumps(args)}\n  }}'
        )
    return (
        '\n{\n  "schemaVersion": 1,\n  \n  "deviceProperties": [\n    {"id": 0, "name": "' + DEVICE + '"}\n  ],\n'
        '  "traceEvents": [\n' + ",\n".join(lines) + "\n]}"
    )


def phases() -> str:
    """Every phase, in an order that is none, in the array form of a program that was killed."""
    lines = [
        '{"ph":"E","pid":1,"tid":1,"ts":90}',
        '{"ph":"B","name":"outer","cat":"demo","pid":1,"tid":1,"ts":10,"args":{"x":1}}',
        '{"ph":"E","name":"inner","pid":1,"tid":1,"ts":40.25,"args":{"y":[1,2]}}',
        '{"ph":"B","name":"inner","cat":"demo","pid":1,"tid":1,"ts":20.125}',
        '{"ph":"X","name":"whole","pid":1,"tid":"worker A","ts":5,"dur":1e-3}',
        '{"ph":"X","name":"hashed","pid":13774319520209737161,"tid":2,"ts":"7.5","dur":2}',
        '{"ph":"b","cat":"io","id":"0x1f","name":"read","pid":1,"tid":1,"ts":11}',
        '{"ph":"b","cat":"io","id":"0x20","name":"read","pid":1,"tid":1,"ts":12}',
        '{"ph":"n","cat":"io","id":"0x1f","name":"half","pid":1,"tid":1,"ts":13}',
        '{"ph":"e","cat":"io","id":"0x1f","name":"read","pid":1,"tid":1,"ts":30}',
        '{"ph":"e","cat":"io","id":"0x20","name":"read","pid":1,"tid":1,"ts":31}',
        '{"ph":"s","cat":"f","id":7,"name":"arrow","pid":1,"tid":1,"ts":21}',
        '{"ph":"t","cat":"f","id":7,"name":"arrow","pid":1,"tid":2,"ts":22}',
        '{"ph":"f","cat":"f","id":7,"name":"arrow","pid":1,"tid":2,"ts":23,"bp":"e"}',
        '{"ph":"C","name":"memory","pid":1,"tid":1,"ts":24,"args":{"used":1.5,"free":2}}',
        '{"ph":"C","name":"queue","pid":1,"tid":1,"ts":25,"args":{"value":3}}',
        '{"ph":"i","name":"mark","pid":1,"tid":1,"ts":26,"s":"g"}',
        '{"ph":"O","name":"object","cat":"o","id":1,"pid":1,"tid":1,"ts":27,"args":{"snapshot":{"a":"{"}}}',
        '{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"main"}}',
        '{"ph":"M","name":"process_name","pid":1,"args":{"name":"demo"}}',
        '{"ph":"X","name":"names \\u00e9 \\ud83d\\ude00 \\" \\\\","pid":1,"tid":1,"ts":100,"dur":-5,"cname":"good"}',
        "{}",
        '{"ph":"B","name":"open","pid":1,"tid":1,"ts":200}',
    ]
    return "[\n" + ",\n".join(lines) + ",\n"


def mini_caffe() -> str:
    """Scopes in order of their ends: inner before outer, each a pair; whole us since the profiler was made."""
    pairs, at = list[tuple[str, int, int]](), 100
    for step in range(3):
        start = at
        for layer, dur in (("conv1", 210), ("relu1", 0), ("pool1", 31), ("fc", 77)):
            pairs.append((f"step{step}:forward:{layer}", at, at + dur))
            at += dur
        pairs += [(f"step{step}:forward", start, at), (f"step{step}", start, at + 3)]
        at += 10
    lines = [
        f'    {{\n      "name": "{name}",\n      "cat": "category",\n      "ph": "{phase}",\n      "ts": {ts},\n'
        '      "pid": 0,\n      "tid": 0\n    }'
        for name, begin, end in pairs
        for phase, ts in (("B", begin), ("E", end))
    ]
    events = ",\n".join(lines)
    return f'{{\n  "traceEvents": [\n{events}  ],\n  "displayTimeUnit": "ms"\n}}\n'


def fluid_timeline() -> str:
    """tools/timeline.py of Paddle: nanoseconds in the field of microseconds."""
    lines = ['{"name":"process_name","ph":"M","pid":0,"args":{"name":"trainer1:cpu:block:0"}}']
    lines.append('{"name":"process_name","ph":"M","pid":1,"args":{"name":"trainer1:gpu:0"}}')
    for event in training_run():
        pid = 0 if event.kind == API else 1
        lines.append(
            f'{{"ph":"X","cat":"Op","name":{json.dumps(event.name)},"pid":{pid},"tid":{event.stream or 0},'
            f'"ts":{event.start + EPOCH_NS},"dur":{event.dur or 0},"args":{{"name":{json.dumps(event.name)}}}}}'
        )
    return '{"traceEvents":[' + ",".join(lines) + "]}"


def _glued(dur: int) -> str:
    return f"[{dur / 1e6:.3f} ms]" if dur >= 1_000_000 else f"[{micros(dur)} us]"


def paddle() -> str:
    """paddle.profiler on a GPU: device rows with pid = device, a name with a quote, the tail cut off its last brace."""
    run = training_run()
    first, lines = run[0].start, list[str]()
    for event in run:
        start, dur = event.start - first, event.dur or 0
        end = start + dur
        times = f'"start_time": "{micros(start)} us",\n      "end_time": "{micros(end)} us"'
        device = f'"device": {event.device}, "context": {event.context},\n      "stream": {event.stream}, '
        device += f'"correlation id": {event.correlation}'
        name = event.name
        if event.kind == API:
            cat, lane = "CudaRuntime", f'"pid": {PID}, "tid": "{TID}(C++)"'
            args = f'"correlation id": {event.correlation}'
        elif event.kind == KERNEL and event.kernel is not None and event.grid is not None:
            cat, lane = "Kernel", f'"pid": {event.device}, "tid": {event.stream}'
            shape = f'"grid": {list(event.grid)},\n      "block": {list(event.kernel.block)}'
            args = f'{device},\n      "registers per thread": {event.kernel.registers},\n      {shape}'
            args += f',\n      "shared memory": {event.kernel.static_smem + event.kernel.dynamic_smem}'
            args += ',\n      "theoretical achieved occupancy %": 37.500'
        else:
            cat, lane = (
                ("Memcpy" if event.kind == MEMCPY else "Memset"),
                f'"pid": {event.device}, "tid": {event.stream}',
            )
            name = name.replace("[CUDA memcpy ", "MEMCPY_").removesuffix("]") if event.kind == MEMCPY else "MEMSET"
            args = f'{device},\n      "bytes": {event.bytes},\n      "memory bandwidth (GB/s)": 1.250'
        ts = (event.start + EPOCH_NS) // 1000
        lines.append(
            f'  {{\n    "name": "{name}{_glued(dur)}", {lane},\n'
            f'    "ts": {ts}, "dur": {micros(dur)},\n'
            f'    "ph": "X", "cat": "{cat}",\n    "cname": "good",\n'
            f'    "args": {{\n      {times},\n      {args}\n    }}\n  }}'
        )
        if event.kind == KERNEL:
            lines.append(
                f'  {{\n    "name": "launch", "id": {event.correlation}, '
                f'"pid": {event.device}, "tid": {event.stream},\n'
                f'    "ts": {ts + dur // 2000}, "ph": "f", "cat": "async", "bp": "e"\n  }}'
            )
    lines.append(
        f'  {{\n    "name": "say "hi"[1.000 us]", "pid": {PID}, "tid": "{TID}(Python)",\n    "ts": {EPOCH_NS // 1000}, '
        '"dur": 1.000,\n    "ph": "X", "cat": "PythonUserDefined",\n    "args": {\n      "start_time": "0.000 us",\n'
        '      "end_time": "1.000 us"\n    }\n  }'
    )
    lines.append(
        '  {\n    "name": "process_name", "pid": 0, "tid": 7,\n    "ph": "M",\n    "args": {\n'
        '      "name": "Deivce 0 (GPU)"\n    }\n  }'
    )
    properties = f'{{\n      "id": 0, "name": "{DEVICE}", "totalGlobalMem": 17071734784\n    }}'
    head = '"displayTimeUnit": "ms",\n    "schemaVersion": "1.0.2",\n    "span_indx": "0",\n    '
    head += f'"deviceProperties": [{properties}]'
    return f'\n  {{\n    {head},\n    "traceEvents": [\n' + ",\n".join([*lines, "  {}"]) + '\n  ],\n  "ExtraInfo": {\n'


FILES: dict[str, Callable[[], str]] = {
    "kineto/gpu.pt.trace.json": kineto,
    "kineto/gpu-torch-1.8.json": kineto_old,
    "chrome-trace/every-phase.json": phases,
    "chrome-trace/fluid-timeline.json": fluid_timeline,
    "mini-caffe/three-steps.json": mini_caffe,
    "paddle-json/gpu-broken-tail.json": paddle,
}


def main(folder: Path) -> None:
    for name, text in FILES.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
