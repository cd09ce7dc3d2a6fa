"""Work as counters have it: by hand from metrics of three profilers, with rates where a duration is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracekit import pipeline
from tracekit.analysis.efficiency.counters import counted_bytes, counted_flops
from tracekit.model.report import Cell, Section

THREADS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value")  # fmt: skip
H100 = {"device__attribute_display_name": ("", "NVIDIA H100 80GB HBM3"),
        "device__attribute_multiprocessor_count": ("", "132")}  # fmt: skip


def section_of(path: Path) -> Section:
    return pipeline.report(pipeline.read([path])).section("efficiency")


def ncu(folder: Path, metrics: dict[str, tuple[str, int | str]]) -> Section:
    head = [*HEAD[:11], *metrics]
    rows = [head, [*[""] * 11, *(unit for unit, _ in metrics.values())]]
    place = [0, 42, "train", "127.0.0.1", "saxpy", 1, 7, "(256, 1, 1)", "(64, 1, 1)", 0, "9.0"]
    rows.append([*map(str, place), *(str(value) for _, value in metrics.values())])
    path = folder / "raw.csv"
    path.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows) + "\n", encoding="utf-8")
    return section_of(path)


def cells(section: Section, table: str) -> dict[str, Cell]:
    (found,) = (each for each in section.tables if each.name == table)
    return {column.name: column.values[0] for column in found.columns}


def test_bytes_and_flops_of_ncu_are_held_against_the_peaks_of_the_device(tmp_path: Path) -> None:
    metrics: dict[str, tuple[str, int | str]] = {
        "gpu__time_duration.sum": ("ns", 100_000),
        "dram__bytes_read.sum": ("byte", 200_000_000),
        "dram__bytes_write.sum": ("byte", 68_000_000),
        THREADS.format("fadd"): ("inst", 1_000),
        THREADS.format("fmul"): ("inst", 500),
        THREADS.format("ffma"): ("inst", 334_500_000),
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum": ("", 9_894_000_000),
    }
    section = ncu(tmp_path, metrics | H100)
    moved = cells(section, "measured")
    assert (moved["read"], moved["written"], moved["moved"]) == (200_000_000, 68_000_000, 268_000_000)
    assert moved["moved_rate"] == pytest.approx(2.68e12)
    assert moved["of_bandwidth"] == pytest.approx(0.8)
    (table,) = (each for each in section.tables if each.name == "measured_flops")
    assert table.column("units").values == ["fp32", "bf16 to fp32, tensor cores"]
    assert table.column("measured_flops").values == [1_500 + 2 * 334_500_000, 9_894_000_000]
    assert table.column("of_flops").values == pytest.approx([669_001_500 / 1e-4 / 66.9e12, 0.1])
    names = {column.name for each in section.tables for column in each.columns}
    assert "floor" not in names
    assert "no floor" in " ".join(section.notes)


def test_without_a_duration_or_a_known_device_there_is_no_rate_or_no_share(tmp_path: Path) -> None:
    both: dict[str, tuple[str, int | str]] = {"dram__bytes.sum": ("byte", 1_000)}
    alone = cells(ncu(tmp_path, both | H100), "measured")
    assert alone["moved"] == 1_000
    assert "moved_rate" not in alone
    unnamed = cells(ncu(tmp_path, both | {"gpu__time_duration.sum": ("ns", 1_000)}), "measured")
    assert unnamed["moved_rate"] == 1e9
    assert "of_bandwidth" not in unnamed


def test_counts_of_nvprof_and_rocprof_have_their_documented_units(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    rows = [
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"',
        '"Tesla V100-SXM2-16GB (0)","k()",2,"dram_read_transactions","Device Memory Read Transactions",10,30,20',
        '"Tesla V100-SXM2-16GB (0)","k()",2,"dram_write_transactions","Device Memory Write Transactions",1,3,2',
        '"Tesla V100-SXM2-16GB (0)","k()",2,"flop_count_dp","Floating Point Operations(Double Precision)",7,9,8',
        '"Tesla V100-SXM2-16GB (0)","k()",2,"flop_count_sp","Floating Point Operations(Single Precision)",0,0,0',
    ]
    path.write_text(
        "==1== NVPROF is profiling process 1, command: ./k\n==1== Metric result:\n" + "\n".join(rows) + "\n"
    )
    section = section_of(path)
    assert cells(section, "measured")["moved"] == 22 * 32
    assert {key: cells(section, "measured_flops")[key] for key in ("units", "measured_flops")} == {
        "units": "fp64",
        "measured_flops": 8,
    }
    assert counted_bytes({"FETCH_SIZE": 10.5, "WRITE_SIZE": 0.5}).moved == 11 * 1024


def test_matrix_cores_of_amd_count_in_units_of_512() -> None:
    found = counted_flops({"SQ_INSTS_VALU_MFMA_MOPS_BF16": 3, "SQ_INSTS_VALU_MFMA_MOPS_F64": 2, "SQ_INSTS_VALU": 9})
    assert [(each.units, each.flops, each.rate) for each in found] == [
        ("bf16, matrix cores", 1_536, "bf16"),
        ("fp64, matrix cores", 1_024, "fp64_matrix"),
    ]


def test_half_of_a_count_is_no_sum() -> None:
    read = counted_bytes({"FETCH_SIZE": 2})
    assert (read.read, read.written, read.moved) == (2048, None, None)
    assert counted_flops({THREADS.format("fadd"): 1, THREADS.format("fmul"): 1}) == []
    # Instructions of tensor cores have no fixed number of FLOPs; a part of a count is not counted beside it.
    assert counted_flops({"sm__inst_executed_pipe_tensor_op_hmma.sum": 5}) == []
    assert counted_flops({"sm__ops_path_tensor_src_fp8_dst_fp32_sparsity_on.sum": 5}) == []


def test_products_of_fp16_that_are_summed_in_fp16_have_their_own_peak(tmp_path: Path) -> None:
    short, long = counted_flops(
        {"sm__ops_path_tensor_src_fp16_dst_fp16.sum": 5, "sm__ops_path_tensor_src_fp16_dst_fp32.sum": 6}
    )
    assert (short.shorter, long.shorter) == (True, False)
    # Counts of threads in fp16 ran on units whose peak is not in the table.
    half = counted_flops({THREADS.format(f"h{each}"): 1 for each in ("add", "mul", "fma")})
    assert [(each.flops, each.rate) for each in half] == [(4, "")]


def test_a_file_without_counters_has_no_such_tables(tmp_path: Path) -> None:
    section = ncu(tmp_path, {"gpu__time_duration.sum": ("ns", 100)})
    assert not [each for each in section.tables if each.name.startswith("measured")]


ROOFS = "device," + ",".join(f"{name},{name}Low,{name}High" for name in ("HBMBw", "FP64Flops", "MFMAF64Flops")) + "\n"
PASS = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,wave_size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,TCC_EA_RDREQ_sum,"
    "TCC_EA_RDREQ_32B_sum,TCC_EA_WRREQ_sum,TCC_EA_WRREQ_64B_sum,SQ_INSTS_VALU_MFMA_MOPS_F64\n"
    '0,2,0,7,7,1024,64,0,0,8,0,16,64,"triad(double*)",1000,11000,1,1000,0,500,500,100\n'
    '1,2,0,7,7,1024,64,0,0,8,0,16,64,"triad(double*)",21000,51000,2,3000,0,500,500,100\n'
)


@pytest.mark.parametrize(
    ("devices", "bandwidth", "note"),
    [("0,50,1,99,10,1,99,40,1,99\n", 50, "measured (roofline.csv)"),
     ("0,50,1,99,10,1,99,40,1,99\n1,80,1,99,9,1,99,20,1,99\n", 80, "the highest of 2 devices")],
)  # fmt: skip
def test_roofs_that_were_measured_are_the_peaks_of_the_run(
    devices: str, bandwidth: int, note: str, tmp_path: Path
) -> None:
    (tmp_path / "pmc_perf.csv").write_text(PASS)
    (tmp_path / "roofline.csv").write_text(ROOFS + devices)
    section = section_of(tmp_path / "pmc_perf.csv")
    moved = cells(section, "measured")
    # Means of two launches: 2,000 reads of 64 bytes, 500 writes of 64, in 20 us.
    assert (moved["moved"], moved["launch_time"]) == (160_000, 20_000)
    assert moved["of_bandwidth"] == pytest.approx(160_000 / 20_000 / bandwidth)
    flops = cells(section, "measured_flops")
    assert flops["of_flops"] == pytest.approx(512 * 100 / 20_000 / 40)
    assert note in " ".join(section.notes)


def test_without_roofs_rates_of_rocprof_compute_have_no_peak(tmp_path: Path) -> None:
    (tmp_path / "pmc_perf.csv").write_text(PASS)
    (tmp_path / "roofline.csv").write_text(ROOFS + "0,none,1,99,10,1,99,40,1,99\n")
    section = section_of(tmp_path / "pmc_perf.csv")
    moved = cells(section, "measured")
    assert moved["moved_rate"] == pytest.approx(8e9)
    assert "of_bandwidth" not in moved
