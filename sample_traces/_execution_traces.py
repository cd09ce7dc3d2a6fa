"""Write the samples of execution traces: `python sample_traces/_execution_traces.py [--record] [FOLDER]`.

The traces of Chakra are made here. With `--record`, one training step runs under torch.profiler and its
ExecutionTraceObserver on a CPU, and both files are written with the process id 4242 and without the name of the host.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PID = 4242
ALL_REDUCE, ALL_GATHER = 0, 2
COMPUTATION, SEND, COLLECTIVE = 4, 5, 7


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def number(field: int, value: int) -> bytes:
    """Return a field with a number; protobuf leaves out 0."""
    return varint(field << 3) + varint(value) if value else b""


def text(field: int, value: str | bytes) -> bytes:
    """Return a field with a text or message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name: str, value: bool | int | str) -> bytes:
    """Return an attribute; also a number of 0 is written, for it is one of several kinds of values."""
    if isinstance(value, bool):
        stored = varint(27 << 3) + varint(value)
    else:
        stored = text(29, value) if isinstance(value, str) else varint(9 << 3) + varint(value)
    return text(10, text(1, name) + stored)


def framed(*messages: bytes) -> bytes:
    """Return messages, each after its length."""
    return b"".join(varint(len(each)) + each for each in messages)


def node(
    id: int,
    name: str,
    kind: int,
    *,
    waits: tuple[int, ...] = (),
    needs: tuple[int, ...] = (),
    start_us: int = 0,
    dur_us: int = 0,
    inputs: tuple[Any, Any, Any] | None = None,
    outputs: tuple[Any, Any, Any] | None = None,
    **attributes: bool | int | str,
) -> bytes:
    """Return a node. inputs, outputs: values, shapes and types."""
    out = number(1, id) + text(2, name) + number(3, kind)
    out += text(4, b"".join(map(varint, waits))) if waits else b""
    out += text(5, b"".join(map(varint, needs))) if needs else b""
    out += number(6, start_us) + number(7, dur_us)
    for field, side in ((8, inputs), (9, outputs)):
        if side is not None:
            out += text(field, b"".join(text(at, str(each)) for at, each in enumerate(side, 1)))
    return out + b"".join(attribute(key, value) for key, value in attributes.items())


def converted() -> bytes:
    """Return a trace as Chakra's converter writes it: durations without starts, kernels below their operators."""
    a, b, c = ([3, 4, 0, 512, 4, "cuda:0"], [5, 6, 0, 128, 4, "cuda:0"], [9, 10, 0, 1024, 4, "cuda:0"])
    product = ([a, b], [[64, 8], [8, 16]], ["Tensor(float)", "Tensor(float)"])
    result = ([c], [[64, 16]], ["Tensor(float)"])
    schema = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
    metadata = b"".join(
        text(2, text(1, name) + (text(29, value) if isinstance(value, str) else varint(9 << 3) + varint(value)))
        for name, value in (("schema", "1.0.2-chakra.0.0.4"), ("pid", PID), ("start_ts", 1000), ("finish_ts", 1005))
    )
    return framed(
        metadata,
        node(2, "[pytorch|profiler|execution_trace|thread]", 1, is_cpu_op=True, rf_id=0, scope=7, tid=1),
        node(7, "aten::mm", COMPUTATION, waits=(2,), dur_us=31, inputs=product, outputs=result, is_cpu_op=True,
             rf_id=4, fw_parent=0, seq_id=-1, scope=0, tid=1, fw_tid=0, op_schema=schema),
        node(8, "ampere_sgemm_32x32_sliced1x4_nn", COMPUTATION, waits=(7,), needs=(7,), dur_us=12, is_cpu_op=False,
             rf_id=4, scope=0, tid=1, stream=7),
        node(11, "c10d::allreduce_", COMPUTATION, waits=(2,), needs=(7,), dur_us=20, is_cpu_op=True, rf_id=5, scope=0,
             tid=1),
        node(12, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", COLLECTIVE,
             waits=(11,), needs=(8, 11), dur_us=45, is_cpu_op=False, stream=20, comm_type=ALL_REDUCE, comm_size=4096,
             pg_name="0"),
    )  # fmt: skip


def simulated() -> bytes:
    """Return a trace as simulators take it: starts, collectives without an operator, a send."""
    return framed(
        text(1, "0.0.4"),
        node(0, "layer1 forward", COMPUTATION, dur_us=100, num_ops=2_000_000, tensor_size=65_536),
        node(1, "layer1 weights", COLLECTIVE, needs=(0,), start_us=100, dur_us=250, comm_type=ALL_GATHER,
             comm_size=1 << 20),
        node(2, "to the next stage", SEND, needs=(0,), start_us=100, dur_us=40, comm_size=65_536, comm_dst=1),
        node(3, "layer1 gradients", COLLECTIVE, needs=(1,), start_us=350, dur_us=300, comm_type=ALL_REDUCE,
             comm_size=1 << 20),
    )  # fmt: skip


def record(target: Path) -> None:
    """Record one step with both profilers of PyTorch."""
    import torch
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function, schedule

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, batch = torch.nn.Linear(16, 32), torch.randn(8, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tempfile.TemporaryDirectory() as folder:
        nodes, events = Path(folder) / "et.json", Path(folder) / "kineto.json"
        with profile(
            activities=[ProfilerActivity.CPU],
            execution_trace_observer=ExecutionTraceObserver().register_callback(str(nodes)),
            schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
            on_trace_ready=lambda done: done.export_chrome_trace(str(events)),
        ) as running:
            for _ in range(2):
                with record_function("forward"):
                    loss = torch.relu(model(batch)).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                running.step()
        _write_recorded(target, nodes.read_text(), json.loads(events.read_text()))


def _write_recorded(target: Path, nodes: str, trace: dict[str, Any]) -> None:
    own = json.loads(nodes)["pid"]

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: renamed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [renamed(each) for each in value]
        return PID if value == own else value.replace(str(own), str(PID)) if isinstance(value, str) else value

    trace = renamed({key: value for key, value in trace.items() if key not in ("host_name", "trace_id")})
    trace["traceName"] = "linear.pt.trace.json"
    lines = ",\n".join(json.dumps(each) for each in trace.pop("traceEvents"))
    head = json.dumps(trace)[:-1]
    (target / "kineto" / "linear.pt.trace.json").write_text(f'{head}, "traceEvents": [\n{lines}\n]}}\n')
    changed = nodes.replace(f'"pid": {own}', f'"pid": {PID}', 1)
    (target / "execution-trace" / "linear.et.json").write_text(changed.rstrip() + "\n")


def main(arguments: list[str]) -> None:
    """Write the samples."""
    target = Path(next((each for each in arguments if not each.startswith("-")), HERE))
    for folder in ("chakra", "execution-trace", "kineto"):
        (target / folder).mkdir(parents=True, exist_ok=True)
    (target / "chakra" / "converted.et").write_bytes(converted())
    (target / "chakra" / "simulated.et").write_bytes(simulated())
    if "--record" in arguments:
        record(target)


if __name__ == "__main__":
    main(sys.argv[1:])
