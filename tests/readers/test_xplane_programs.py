"""Compiled programs in XPlane files: the work of each op, and the op of each kernel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hlo_programs import Plane, Program, message, metadata_plane

import tracekit
from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_units import WorkUnits, work_units

US = 1_000_000
BF = "bf16"
GEMM = b'{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}'
NEW_GEMM = b'{"gemm_backend_config":' + GEMM + b"}"
FORWARD = message((3, 1), (6, b"\x02\x03"))
"""Kernel: output features first, then input features, then two spatial dimensions."""


def gpu(program: Program, *kernels: tuple[str, str], launch: Sequence[int] = (), nodes: Sequence[int] = ()) -> Any:
    """Return a GPU that ran kernels one after the other: name and op of each."""
    plane = Plane(1, "/device:GPU:0")
    events = []
    for at, (name, op) in enumerate(kernels):
        own: dict[str, Any] = {"hlo_op": f"&{op}", "hlo_module": "&jit_step", "program_id": program.number}
        own["correlation_id"] = launch[at] if launch else at + 1
        if nodes:
            own |= {"cuda_graph_id": 24, "cuda_graph_node_id": nodes[at]}
        events.append(plane.event(name, at * 100 * US, (at + 1) * US, **own))
    plane.line(7, "Stream #7(Compute)", 1000, events)
    plane.stats = [plane.stat("gpu_device_name", "NVIDIA H100 80GB HBM3"), plane.stat("core_count", 132)]
    return plane


def read(folder: Path, *planes: Any) -> tracekit.Trace:
    path = folder / "x.xplane.pb"
    path.write_bytes(message(*[plane.data() for plane in planes]))
    return tracekit.read(path)


def ops(trace: tracekit.Trace) -> list[dict[str, Any] | None]:
    """The member `xla_op` of each device event, in order of time."""
    rows = sorted(trace.events.to_pylist(), key=lambda row: row["ts_ns"])
    return [json.loads(row["args"]).get("xla_op") for row in rows if row["device"] is not None]


def work_of(folder: Path, program: Program, name: str) -> tuple[Any, ...]:
    """Family, FLOPs and bytes of an op, as its kernel has them."""
    (found,) = ops(read(folder, metadata_plane(program), gpu(program, ("kernel", name))))
    assert found is not None
    return found.get("family"), found.get("flops"), found.get("bytes")


def units(trace: tracekit.Trace) -> WorkUnits:
    found = work_units(TraceIndex(trace))
    assert found is not None
    return found


def inputs(program: Program, *shapes: Any, within: int = 1) -> list[int]:
    return [program.op("parameter", made, parameter=at, within=within) for at, made in enumerate(shapes)]


@pytest.mark.parametrize("config", [GEMM, NEW_GEMM], ids=["flat", "within"])
def test_a_product_of_a_library_has_its_work_without_its_scratch_memory(tmp_path: Path, config: bytes) -> None:
    program = Program()
    a, b = inputs(program, (BF, [64, 32]), (BF, [32, 16]))
    out = [(BF, [64, 16]), ("s8", [4096])]
    program.op("custom-call", out, a, b, name="custom-call.1", target="__cublas$gemm", config=config)
    assert work_of(tmp_path, program, "custom-call.1") == (
        "matrix product", 2 * 64 * 16 * 32, 2 * (64 * 32 + 32 * 16 + 64 * 16)
    )  # fmt: skip


def test_a_batched_product_within_a_fusion_is_that_of_the_fusion(tmp_path: Path) -> None:
    program = Program()
    x, y = inputs(program, (BF, [4, 8, 32]), (BF, [4, 32, 16]), within=2)
    numbers = message((1, b"\x02"), (2, b"\x01"), (3, b"\x00"), (4, b"\x00"))
    program.op("dot", ("f32", [4, 8, 16]), x, y, within=2, dot=numbers)
    a, b = inputs(program, (BF, [4, 8, 32]), (BF, [4, 32, 16]))
    program.op("fusion", ("f32", [4, 8, 16]), a, b, name="gemm_fusion_dot.1", calls=[2])
    assert work_of(tmp_path, program, "gemm_fusion_dot.1") == (
        "matrix product", 2 * 4 * 8 * 16 * 32, 2 * (4 * 8 * 32 + 4 * 32 * 16) + 4 * 4 * 8 * 16
    )  # fmt: skip


@pytest.mark.parametrize(("target", "first", "second", "out"), [
    ("__cudnn$convForward", [2, 3, 8, 8], [5, 3, 3, 3], [2, 5, 6, 6]),
    ("__cudnn$convBackwardInput", [2, 5, 6, 6], [5, 3, 3, 3], [2, 3, 8, 8]),
    ("__cudnn$convBackwardFilter", [2, 3, 8, 8], [2, 5, 6, 6], [5, 3, 3, 3]),
])  # fmt: skip
def test_a_convolution_of_a_library_and_its_gradients_do_the_same_work(
    tmp_path: Path, target: str, first: list[int], second: list[int], out: list[int]
) -> None:
    program = Program()
    a, b = inputs(program, (BF, first), (BF, second))
    made = [(BF, out), ("u8", [99])]
    program.op("custom-call", made, a, b, name="cudnn-conv.1", target=target, convolution=FORWARD)
    # Each of the 2*5*6*6 results has 3*3*3 multiply-adds.
    moved = 2 * (2 * 3 * 8 * 8 + 5 * 3 * 3 * 3 + 2 * 5 * 6 * 6)
    assert work_of(tmp_path, program, "cudnn-conv.1") == ("convolution", 2 * 2 * 5 * 6 * 6 * 27, moved)


def test_a_transposed_convolution_meets_each_element_of_its_image_once(tmp_path: Path) -> None:
    program = Program()
    a, b = inputs(program, (BF, [2, 3, 4, 4]), (BF, [5, 3, 2, 2]))
    window = message(*[(1, message((1, 2), (2, 1), (6, 2)))] * 2)
    program.op("convolution", (BF, [2, 5, 8, 8]), a, b, name="conv.1", window=window, convolution=FORWARD, groups=1)
    assert work_of(tmp_path, program, "conv.1")[:2] == ("convolution", 2 * (2 * 3 * 4 * 4) * (5 * 2 * 2))


def test_an_operand_counts_once_and_only_the_part_that_is_read_or_changed(tmp_path: Path) -> None:
    program = Program()
    big, small, at = inputs(program, ("f32", [1000, 8]), ("f32", [2, 8]), ("s32", []), within=2)
    part = program.op("dynamic-slice", ("f32", [2, 8]), big, at, at, within=2)
    total = program.op("add", ("f32", [2, 8]), part, small, within=2)
    program.op("dynamic-update-slice", ("f32", [1000, 8]), big, total, at, at, within=2)
    a, b, c = inputs(program, ("f32", [1000, 8]), ("f32", [2, 8]), ("s32", []))
    program.op("fusion", ("f32", [1000, 8]), a, b, c, name="update_fusion", calls=[2])
    # A slice of 64 bytes is read and another one written; the indices are 4 bytes.
    assert work_of(tmp_path, program, "update_fusion") == (None, None, 64 + 64 + 4 + 64)


def test_two_operands_that_are_one_result_count_once(tmp_path: Path) -> None:
    program = Program()
    (a,) = inputs(program, [("f32", [10]), ("f32", [20])])
    first = program.op("get-tuple-element", ("f32", [20]), a, index=1)
    view = program.op("bitcast", ("f32", [4, 5]), first)
    other = program.op("get-tuple-element", ("f32", [10]), a, index=0)
    program.op("custom", ("f32", [1]), first, view, other, name="twice")
    assert work_of(tmp_path, program, "twice") == (None, None, 80 + 40 + 4)


@pytest.mark.parametrize("opcode", ["all-reduce", "all-gather-start", "copy-done", "while", "custom-call"])
def test_what_a_link_limits_or_a_library_alone_knows_has_no_work(tmp_path: Path, opcode: str) -> None:
    program = Program()
    (a,) = inputs(program, ("f32", [8]))
    program.op(opcode, ("f32", [8]), a, name="x.1", target="my_kernel")
    assert work_of(tmp_path, program, "x.1") == (None, None, None)


def graph() -> Program:
    """A program of two products and three fusions, scheduled in another order than written."""
    program = Program()
    a, b = inputs(program, (BF, [64, 64]), (BF, [64, 64]))
    inner = program.op("parameter", (BF, [64, 64]), parameter=0, within=2)
    program.op("negate", (BF, [64, 64]), inner, within=2)
    out = [(BF, [64, 64]), ("s8", [64])]
    gemm = {"target": "__cublas$gemm", "config": GEMM}
    one = program.op("custom-call", out, a, b, name="custom-call.1", **gemm)
    two = program.op("custom-call", out, b, a, name="custom-call.2", **gemm)
    fused = [program.op("fusion", (BF, [64, 64]), one, name=name, calls=[2]) for name in ("f", "f.1", "g.7")]
    program.order = [one, fused[0], two, fused[2], fused[1]]
    return program


LAUNCH = [("nvjet_a", "command_buffer_1"), ("f", "command_buffer_1"), ("nvjet_b", "command_buffer_1"),
          ("g_7", "command_buffer_1"), ("f", "command_buffer_1")]  # fmt: skip
SCHEDULE = ["custom-call.1", "f", "custom-call.2", "g.7", "f.1"]


def named(found: list[dict[str, Any] | None]) -> list[str | None]:
    return [each["op"] if each else None for each in found]


def test_kernels_of_a_graph_are_the_ops_of_the_schedule(tmp_path: Path) -> None:
    program = graph()
    kernels = gpu(program, *LAUNCH, *LAUNCH, launch=[1] * 5 + [2] * 5)
    assert named(ops(read(tmp_path, metadata_plane(program), kernels))) == SCHEDULE * 2


def test_a_launch_that_the_file_has_half_of_is_known_by_the_nodes_of_a_whole_one(tmp_path: Path) -> None:
    program = graph()
    kernels = gpu(program, *LAUNCH, *LAUNCH[2:3], launch=[1] * 5 + [2], nodes=[31, 5, 32, 7, 9, 32])
    assert named(ops(read(tmp_path, metadata_plane(program), kernels))) == [*SCHEDULE, "custom-call.2"]
    without = gpu(program, *LAUNCH, *LAUNCH[2:3], launch=[1] * 5 + [2])
    assert named(ops(read(tmp_path, metadata_plane(program), without))) == [*SCHEDULE, None]


def test_kernels_that_fit_the_schedule_twice_or_nowhere_have_no_op(tmp_path: Path) -> None:
    program = graph()
    twice = gpu(program, ("f", "command_buffer_1"), launch=[1])
    assert named(ops(read(tmp_path, metadata_plane(program), twice))) == [None]
    other = gpu(program, *LAUNCH[::-1], launch=[1] * 5)
    assert named(ops(read(tmp_path, metadata_plane(program), other))) == [None] * 5
    library = gpu(program, ("nvjet_a", "command_buffer_1"), launch=[1])
    assert named(ops(read(tmp_path, metadata_plane(program), library))) == [None]


def test_a_product_that_takes_two_kernels_in_a_graph_has_both(tmp_path: Path) -> None:
    program = graph()
    launch = [*LAUNCH[:3], ("splitK_reduce", "command_buffer_1"), *LAUNCH[3:]]
    kernels = gpu(program, *launch, launch=[1] * 6)
    found = named(ops(read(tmp_path, metadata_plane(program), kernels)))
    assert found == ["custom-call.1", "f", "custom-call.2", "custom-call.2", "g.7", "f.1"]


def test_all_kernels_of_one_execution_share_its_work(tmp_path: Path) -> None:
    program = Program()
    a, b = inputs(program, (BF, [2, 3, 8, 8]), (BF, [5, 3, 3, 3]))
    made = [(BF, [2, 5, 6, 6]), ("u8", [99])]
    target = "__cudnn$convForward"
    program.op("custom-call", made, a, b, name="conv.1", target=target, convolution=FORWARD, op_name="jit(f)/conv")
    program.op("copy", (BF, [2, 5, 6, 6]), a, name="copy.1")
    once = [("Im2Col", "conv.1"), ("Cijk", "conv.1"), ("copy_kernel", "copy.1")]
    trace = read(tmp_path, metadata_plane(program), gpu(program, *once, *once, *once))
    found = units(trace)
    by_name = {each.call.name: each for each in found.groups}
    assert by_name.keys() == {"conv", "copy"}
    # Kernels 1 and 2, 4 and 5, 7 and 8 take that many us.
    assert (by_name["conv"].calls, by_name["conv"].ns) == (3, 27_000)
    assert by_name["conv"].kernel == "Cijk"
    assert by_name["conv"].device.peaks is not None
    assert by_name["conv"].device.peaks.rates["bf16"] == 989.4
    assert found.flops.sum() == 3 * 2 * 2 * 5 * 6 * 6 * 27
    assert (found.reason == -1).all()


def test_an_op_with_many_kernels_of_one_name_is_not_known(tmp_path: Path) -> None:
    program = Program()
    (a,) = inputs(program, ("f32", [64]))
    for name in ("a.1", "b.1", "c.1"):
        program.op("copy", ("f32", [64]), a, name=name)
    once = [("k", "a.1"), ("k", "b.1"), ("k", "c.1"), ("k", "c.1"), ("k", "c.1")]
    found = units(read(tmp_path, metadata_plane(program), gpu(program, *once, *once)))
    assert [each.calls for each in found.groups] == [4]
    assert found.reasons == ["the file does not state it", "it is not known which kernels are one execution of the op"]
    assert (found.reason >= 0).sum() == 6


def test_an_op_of_a_library_says_that_there_is_no_formula(tmp_path: Path) -> None:
    program = Program()
    (a,) = inputs(program, ("f32", [64]))
    program.op("custom-call", ("f32", [64]), a, name="mine.1", target="my_kernel")
    program.op("copy", ("f32", [64]), a, name="copy.1")
    found = units(read(tmp_path, metadata_plane(program), gpu(program, ("k", "mine.1"), ("c", "copy.1"))))
    assert [found.reasons[code] for code in found.reason.tolist() if code >= 0] == ["no formula for this operator"]


def test_a_damaged_program_and_a_missing_one_cost_nothing_else(tmp_path: Path) -> None:
    program = graph()
    plane = Plane(9, "/host:metadata")
    plane.name("jit_step(7)", **{"Hlo Proto": program.data()[:-3]})
    trace = read(tmp_path, plane, gpu(program, ("f", "f.1")))
    assert ops(trace) == [None]
    assert trace.ledgers[0].kept == 1
    other = graph()
    other.number = 8
    assert ops(read(tmp_path, metadata_plane(other), gpu(program, ("f", "f.1")))) == [None]


def test_computations_that_call_each_other_again_and_again_take_no_time(tmp_path: Path) -> None:
    program = Program()
    (a,) = inputs(program, ("f32", [4]), within=40)
    program.op("negate", ("f32", [4]), a, within=40)
    for number in range(39, 1, -1):
        (x,) = inputs(program, ("f32", [4]), within=number)
        for _ in range(2):
            x = program.op("fusion", ("f32", [4]), x, within=number, calls=[number + 1])
    (b,) = inputs(program, ("f32", [4]))
    program.op("fusion", ("f32", [4]), b, name="deep", calls=[2])
    assert ops(read(tmp_path, metadata_plane(program), gpu(program, ("deep", "deep")))) == [None]


def tpu(**stats: Any) -> Any:
    plane = Plane(2, "/device:TPU:0")
    text = "%fusion.3 = bf16[64,16] fusion(f32[64,32] %a, f32[32,16] %b), kind=kOutput"
    plane.name(text, "fusion.3", hlo_category="convolution fusion", program_id=7, **stats)
    plane.line(3, "XLA Ops", 1000, [plane.event(text, 0, 10 * US)])
    plane.stats = [plane.stat("device_type_string", "TPU v5 lite"), plane.stat("peak_teraflops_per_second", 197.0)]
    plane.stats.append(plane.stat("peak_hbm_bw_gigabytes_per_second", 819.0))
    return plane


def test_a_tpu_states_its_work_and_only_bytes_of_hbm_count(tmp_path: Path) -> None:
    parts = [message((1, message((1, operation), (2, space), (3, size)))) for operation, space, size in (
        (1, 1, 4096), (1, 3, 9000), (2, 1, 2048)
    )]  # fmt: skip
    program = Program()
    a, b = inputs(program, ("f32", [64, 32]), ("f32", [32, 16]), within=2)
    program.op("dot", ("f32", [64, 16]), a, b, within=2, dot=message((1, b"\x01"), (2, b"\x00")))
    x, y = inputs(program, ("f32", [64, 32]), ("f32", [32, 16]))
    program.op("fusion", ("f32", [64, 16]), x, y, name="fusion.3", calls=[2], op_name="jit(f)/dot_general")
    stats = {"flops": 65_536, "bytes_accessed": 15_144, "memory_access_breakdown": b"".join(parts)}
    trace = read(tmp_path, metadata_plane(program), tpu(**stats))
    (group,) = units(trace).groups
    assert (group.work.flops, group.work.bytes, group.work.shape) == (65_536, 4096 + 2048, "64x16x32")
    assert (group.work.family, group.work.datatype, group.call.name) == ("convolution", "float", "dot_general")
    # Without the program: bf16 is what XLA multiplies in unless asked otherwise.
    (alone,) = units(read(tmp_path, tpu(**stats))).groups
    assert (alone.work.datatype, alone.work.bytes) == ("c10::BFloat16", 4096 + 2048)
