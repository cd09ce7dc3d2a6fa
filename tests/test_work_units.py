"""Which operator each kernel's work belongs to, what it is, and why the rest is unknown."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from shaped_traces import BF, F32, ShapedTrace, units_of
from support import SAMPLES, corpus, corpus_next, shared_efficiency

import tracekit
from tracekit.analysis.efficiency.floors import Limit
from tracekit.index import work_units as work_units_module
from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_units import LIMITS, WorkUnits, work_units


def reasons(units: WorkUnits) -> dict[str, int]:
    """Device ns by reason of what is unknown, "" for what is known."""
    found: Counter[str] = Counter()
    for code, ns in zip(units.reason.tolist(), units.host.work_ns.tolist(), strict=True):
        found["" if code < 0 else units.reasons[code]] += ns
    return dict(found)


def of(units: WorkUnits) -> list[tuple[str, int]]:
    """Name and device ns of each unit, in order of start."""
    return [(units.groups[g].call.name, ns) for g, ns in zip(units.group.tolist(), units.ns.tolist(), strict=True)]


def test_the_eleven_traps_of_efficiency_json() -> None:
    """By hand: lost bias, output_mask, fp32 attention, decode, text dims, grouped deconvolution, TF32 ..."""
    units = units_of(shared_efficiency("efficiency.json"))
    assert units is not None
    answers = [line.split("\t") for line in shared_efficiency("efficiency.answers.txt").read_text().splitlines()[:10]]
    works = [units.groups[g].work for g in units.group.tolist()]
    assert len(works) == len(answers) == 10
    for found, (title, flops, moved) in zip(works, answers, strict=True):
        if "convention" in flops:
            assert found.flops == 5 * 16 * 16 * 559 * 559, title
        else:
            assert found.flops == int(flops.removeprefix("FLOPs=")), title
        assert moved == "bytes=None" or found.bytes == int(moved.removeprefix("bytes=")), title
    tf32 = next(each for each in units.groups if each.call.name == "aten::mm")
    assert tf32.reach.rate == "tf32"
    assert tf32.reach.of_peak == pytest.approx(2 * 4096**3 / 494.7e12 / 400e-6)
    assert reasons(units) == {"": 1_690_000, "the launch is not in the trace": 1_000_000}


def test_the_outermost_convolution_has_the_work_and_all_below_it_the_time(tmp_path: Path) -> None:
    trace = ShapedTrace()
    x, w, bias = ([4, 64, 56, 56], BF), ([64, 64, 3, 3], BF), ([64], BF)
    sizes = ("[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
    trace.begin("aten::conv2d", x, w, bias, "[1, 1]", "[1, 1]", "[1, 1]", "1")
    trace.begin("aten::convolution", x, w, bias, *sizes)
    trace.begin("aten::cudnn_convolution", x, w, "[1, 1]", "[1, 1]", "[1, 1]", "1", "True", "False", "True")
    trace.kernel(3, "nchwToNhwcKernel")
    trace.kernel(50, "sm90_xmma_fprop_implicit_gemm_bf16bf16")
    trace.end()
    trace.op("aten::add_", x, ([1, 64, 1, 1], BF), "1", us=7)
    trace.end()
    trace.end()
    trace.op("aten::add_", x, ([1, 64, 1, 1], BF), "1", us=9)
    units = trace.units(tmp_path)
    assert of(units) == [("aten::convolution", 60_000), ("aten::add_", 9_000)]
    assert units.groups[units.group[0]].kernel == "sm90_xmma_fprop_implicit_gemm_bf16bf16"
    assert units.flops[0] == 2 * 576 * 4 * 64 * 56 * 56 + 4 * 64 * 56 * 56
    assert reasons(units) == {"": 69_000}


def test_operators_without_a_formula_have_what_is_inside(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.begin("aten::linear", ([8, 64], BF), ([32, 64], BF))
    trace.begin("aten::addmm", ([32], BF), ([8, 64], BF), ([64, 32], BF), "1", "1")
    trace.kernel(10, "gemm")
    trace.kernel(2, "splitKreduce_kernel")
    trace.end()
    trace.end()
    trace.op("my::op", ([8, 64], BF), us=5)
    trace.op("aten::mm", us=4)  # recorded without shapes
    trace.kernel(6)
    trace.kernel(3, launched=False)
    trace.begin("step", cat="user_annotation")
    trace.kernel(1)
    trace.end()
    units = trace.units(tmp_path)
    assert of(units) == [("aten::addmm", 12_000)]
    assert reasons(units) == {
        "": 12_000,
        "no formula for this operator": 5_000,
        "shapes are not recorded": 4_000,
        "launched by no operator": 7_000,
        "the launch is not in the trace": 3_000,
    }


def test_kernels_of_a_graph_say_so(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.op("aten::mm", ([64, 64], BF), ([64, 64], BF), us=4)
    trace.begin("## Call CompiledFxGraph abc ##")
    trace.kernel(10, "gemm")
    trace.end()
    (launch,) = [each for each in trace.events if each["cat"] == "cuda_runtime"][1:]
    launch["name"] = "cudaGraphLaunch"
    assert reasons(trace.units(tmp_path)) == {
        "": 4_000, "launched by a graph: operators not known": 10_000
    }  # fmt: skip


def test_a_copy_over_a_link_is_not_held_against_memory(tmp_path: Path) -> None:
    trace = ShapedTrace()
    x = ([1 << 20], F32)
    trace.begin("aten::copy_", x, x, "False")
    trace.kernel(100, "Memcpy DtoH (Device -> Pageable)", cat="gpu_memcpy")
    trace.end()
    trace.begin("aten::copy_", x, x, "False")
    trace.kernel(10, "Memcpy DtoD (Device -> RatedDevice)", cat="gpu_memcpy")
    trace.end()
    units = trace.units(tmp_path)
    linked, local = (units.groups[g] for g in units.group.tolist())
    assert linked.reach.floor_ns is None
    assert "link" in linked.reach.unknown
    assert local.reach.floor_ns == pytest.approx(8 * (1 << 20) / 3350e9 * 1e9)
    assert set(reasons(units)) == {"", "a copy over a link of unknown rate"}
    # What has a reason is not known in any view.
    assert units.known[units.group == units.groups.index(linked)].tolist() == [False]
    assert units.known[units.group == units.groups.index(local)].tolist() == [True]


def test_lists_of_tensors_take_their_datatype_from_the_kernel(tmp_path: Path) -> None:
    trace = ShapedTrace()
    lists: tuple[Sequence[object], str] = ([[1024, 64], [1024, 64]], "TensorList")
    trace.op("aten::cat", lists, "0", us=10, kernel="CatArrayBatchedCopy<at::native::OpaqueType<2u>, 1>")  # type: ignore[arg-type]
    trace.op("aten::cat", lists, "0", us=11, kernel="nameless")  # type: ignore[arg-type]
    units = trace.units(tmp_path)
    assert units.nbytes.tolist() == [2 * 2 * 2 * 65536, 0]
    assert reasons(units) == {"": 10_000, "the datatype is not recorded": 11_000}


def test_a_call_quicker_than_its_floor_is_an_exception_and_stays_one(tmp_path: Path) -> None:
    trace = ShapedTrace()
    x = ([1 << 20], BF)
    trace.op("aten::add", x, x, "1", us=1, kernel="add")
    trace.op("aten::add", x, x, "1", us=100, kernel="add")
    units = trace.units(tmp_path)
    assert units.quicker.tolist() == [True, False]
    assert units.floor_ns[0] > units.ns[0]
    assert units.saving_ns.tolist() == [0.0, pytest.approx(100_000 - units.floor_ns[1])]


def test_device_numbers_of_hip_do_not_matter_where_all_devices_are_alike(tmp_path: Path) -> None:
    trace = ShapedTrace({"id": 0, "name": "AMD Instinct MI300X VF", "totalGlobalMem": 205571227648, "numSms": 304})
    trace.begin("aten::mm", ([64, 64], BF), ([64, 64], BF))
    trace.kernel(10, "Cijk_Ailk_Bjlk_BBS", number=2)
    trace.end()
    units = trace.units(tmp_path)
    assert units.groups[0].device.peaks is not None
    assert units.groups[0].reach.limit is Limit.FAR


def test_shapes_in_the_names_of_ranges_need_a_kernel_that_tells_the_datatype(tmp_path: Path) -> None:
    """emit_nvtx(record_shapes=True) writes sizes into the names, and no datatypes."""
    trace = ShapedTrace()
    for number, kernel in enumerate(
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn", "mine")
    ):
        trace.begin("aten::linear, seq = 5, op_id = 7, sizes = [[64, 128], [32, 128]]", cat="user_annotation")
        name = (
            f"aten::mm, seq = {number}, op_id = {number + 8}, sizes = [[64, 128], [128, 32]], input_op_ids = [(1, 0)]"
        )
        trace.begin(name, cat="user_annotation")
        trace.kernel(10.0, kernel)
        trace.end()
        trace.end()
    trace.begin("aten::addmm, op_id = 3, sizes = [[32], [64, 128], [128, 32], [], []]", cat="user_annotation")
    trace.kernel(10.0, "ampere_fp16_s16816gemm_fp16_128x64")
    trace.end()
    trace.begin("aten::mm, op_id = 3, sizes = [[torn", cat="user_annotation")
    trace.kernel(10.0, "ampere_fp16_s16816gemm_fp16_128x64")
    trace.end()
    units = trace.units(tmp_path)
    known = units.known
    assert units.flops[known].tolist() == [2 * 64 * 128 * 32, 2 * 64 * 128 * 32, 2 * 64 * 128 * 32 + 64 * 32]
    assert units.nbytes[known].tolist()[:2] == [2 * (64 * 128 + 128 * 32 + 64 * 32)] * 2
    assert reasons(units) == {
        "": 30_000, "the datatype is not recorded": 10_000, "shapes are not recorded": 10_000
    }  # fmt: skip
    assert len([each for each in units.groups if each.work.is_known]) == 2


def test_calls_of_one_shape_are_one_group(tmp_path: Path) -> None:
    trace = ShapedTrace()
    for _ in range(50):
        trace.op("aten::mm", ([64, 64], BF), ([64, 64], BF), us=10, kernel="gemm")
    units = trace.units(tmp_path)
    assert len(units) == 50
    assert len(units.groups) == 1
    assert units.groups[0].calls == 50
    assert units.groups[0].ns == 500_000


def test_a_trace_without_shapes_or_device_work_has_no_units(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.op("aten::mm", us=10)
    assert units_of(trace.write(tmp_path)) is None
    only_host = ShapedTrace()
    only_host.begin("aten::mm", ([64, 64], BF), ([64, 64], BF))
    only_host.end()
    assert units_of(only_host.write(tmp_path)) is None


def test_no_call_of_the_corpus_is_quicker_than_its_floor_without_an_explanation() -> None:
    """All files of PyTorch in the corpus, the generated ones too; a call below its floor is an exception by name."""
    files = [*corpus("kineto").glob("*.json.gz"), *corpus("generated/torch").rglob("*.pt.trace.json")]
    assert len(files) > 8
    known = 0
    for path in files:
        units = units_of(path)
        if units is None:
            continue
        known += int(units.known.sum())
        above = np.nan_to_num(units.floor_ns, nan=0.0) > 1.02 * units.ns
        assert (above == units.quicker).all(), path
        assert {LIMITS[code] for code in units.limit[above].tolist()} <= {Limit.CACHE, Limit.LESS_WORK}, path
        assert (units.saving_ns[above] == 0).all(), path
    assert known > 0


def test_a_tpu_states_its_own_work_and_peaks() -> None:
    units = units_of(corpus_next("xplane/tpu_inference_4x.xplane.pb.gz"))
    assert units is not None
    # 1213 ops that are no copies; 12 of them are collectives, which a link limits.
    assert len(units) == 1201
    assert units.place.max() == -1
    assert reasons(units).keys() == {"", "the file does not state it", "communication"}
    device = units.groups[0].device
    assert device.peaks is not None
    assert (device.peaks.rates, device.peaks.memory_gbps) == ({"bf16": 918.0}, 1637.993152512)
    broadcast = [each for each in units.groups if each.work.bytes == 5368709120 and each.calls == 1]
    assert broadcast
    for each in broadcast:
        assert each.reach.of_peak == pytest.approx(5368709120 / 1637.993152512e9 / each.ns * 1e9, rel=1e-6)
    assert not any(each.reach.is_sure for each in units.groups)


def test_floors_of_a_real_trace_are_not_above_the_time() -> None:
    units = units_of(corpus("kineto/hta_amd_mi250.json.gz"))
    assert units is not None
    assert len(units) > 10
    assert not units.quicker.any()
    assert np.nansum(units.floor_ns) < units.ns.sum()
    assert units.groups[0].device.peaks is not None
    assert "MI210" in units.groups[0].device.note


def test_each_launch_of_a_graph_does_the_work_of_the_operators_that_it_captured(tmp_path: Path) -> None:
    """A product of 2 ms that is captured once and launched three times: the FLOPs of three calls."""
    trace = ShapedTrace()

    def call(name: str, **args: object) -> None:
        trace.now += 1
        trace.events.append({"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 7, "tid": 7, "ts": trace.now,
                             "dur": 0.5, "args": args})  # fmt: skip

    call("hipStreamBeginCapture")
    trace.begin("aten::mm", ([4096, 4096], BF), ([4096, 4096], BF))
    call("hipLaunchKernel", kernel="gemm", correlation=500)
    trace.end()
    call("hipStreamEndCapture")
    for launch in range(3):
        call("hipGraphLaunch", correlation=600 + launch)
        work = {"correlation": 600 + launch, "device": 0, "stream": 7}
        trace.events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 9000 * (launch + 1),
                             "dur": 2000, "args": work})  # fmt: skip
    units = trace.units(tmp_path)
    assert len(units) == 3
    assert units.ns.tolist() == [2_000_000] * 3
    assert units.flops.tolist() == [2 * 4096**3] * 3
    assert (units.floor_ns < 2_000_000).all()
    names, texts = units.host.index.texts("name")
    assert {texts[code] for code in names[units.launched]} == {"hipGraphLaunch"}
    assert {texts[code] for code in names[units.rows]} == {"aten::mm"}
    assert reasons(units) == {"": 6_000_000}


def test_an_index_has_the_shape_of_the_view_inside_of_it(tmp_path: Path) -> None:
    trace = ShapedTrace()
    for rows in (65536, 65536, 128):
        trace.begin("aten::index", ([50000, 1024], BF), ([], ""))
        trace.begin("aten::as_strided", ([50000, 1024], BF), f"[{rows}, 1024]", "[0, 1]", "")
        trace.end()
        trace.begin("aten::as_strided", ([rows], "long int"), "[1]", "[1]", "")
        trace.end()
        trace.kernel(90.0 if rows > 1000 else 3.0, "vectorized_gather_kernel")
        trace.end()
    trace.op("aten::index", ([50000, 1024], BF), ([], ""), us=20.0)
    units = trace.units(tmp_path)
    moved = [2 * 2 * rows * 1024 + 8 * rows for rows in (65536, 65536, 128)]
    assert units.nbytes[units.known].tolist() == moved
    assert reasons(units) == {"": 183_000, "the shapes of the indices are not recorded": 20_000}


def test_a_report_of_nsight_systems_states_the_bandwidth_of_a_device_outside_the_table(tmp_path: Path) -> None:
    thread = (70 << 24) | 71
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"""create table StringIds (id integer primary key, value text);
            insert into StringIds values (1, 'cudaLaunchKernel'), (2, 'vectorized_elementwise_kernel<float>');
            create table TARGET_INFO_GPU (id integer, name text, smCount integer, computeMajor integer,
                computeMinor integer, totalMemory integer, memoryBandwidth integer, clockRate integer,
                l2CacheSize integer);
            insert into TARGET_INFO_GPU values (0, 'NVIDIA RTX 2000 Ada', 22, 8, 9, 16000000000, 256000000000,
                2130000000, 1000);
            create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, globalTid integer);
            insert into NVTX_EVENTS values (10, 40, 59, 'aten::add, seq = 1, op_id = 3, sizes = [[4096, 4096], '
                || '[4096, 4096], []], input_op_ids = [(1, 0)]', {thread});
            create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer,
                correlationId integer, nameId integer);
            insert into CUPTI_ACTIVITY_KIND_RUNTIME values (20, 30, {thread}, 1, 1);
            create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, globalPid integer,
                correlationId integer, shortName integer, deviceId integer);
            insert into CUPTI_ACTIVITY_KIND_KERNEL values (100, 2000100, {thread - 71}, 1, 2, 0);""")
        db.commit()
    units = units_of(path)
    assert units is not None
    (group,) = units.groups
    assert group.reach.of_peak == pytest.approx(3 * 4096 * 4096 * 4 / 256e9 / 2e-3)
    assert "the bandwidth is that of the file" in group.device.note


@pytest.mark.parametrize(
    "name", ["nsys-sqlite/two-processes.sqlite", "nsys-sqlite/nvtx-v2.sqlite", "nvprof-csv/gpu-and-api-trace.csv"]
)
def test_a_trace_without_shapes_needs_no_host_tree_to_say_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = SAMPLES / name
    index = TraceIndex(tracekit.read(path))
    # The whole way says the same: a tree is made, and no unit is found with it.
    monkeypatch.setattr(work_units_module, "_may_have_shapes", lambda _: True)
    assert work_units(index) is None
    monkeypatch.undo()

    def no_tree(_: TraceIndex) -> NoReturn:
        raise AssertionError("a host tree was made")

    monkeypatch.setattr(work_units_module, "host_with_graphs", no_tree)
    assert work_units(TraceIndex(tracekit.read(path))) is None
