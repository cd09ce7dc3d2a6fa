"""Folders of rocprof-compute: counters of thousands of columns, measured roofs, facts, and each launch once."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from support import read_sample, sample

import tracekit
from tracekit.analysis.efficiency.counters import counted_bytes
from tracekit.inputs.paths import expand

HEAD = "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,Kernel_Name"


def rows(trace: tracekit.Trace, section: str) -> list[dict[str, Any]]:
    found = [row for row in trace.totals.to_pylist() if row["section"] == section]
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in found]


def written(folder: Path, counters: dict[str, int], *, times: str = "100,160") -> Path:
    """Write a table of one launch with these counters, and the tables beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    names, values = ",".join(counters), ",".join(map(str, counters.values()))
    path = folder / "pmc_perf.csv"
    path.write_text(
        f"{HEAD},{names},Wave_Size_1,obj_2,Start_Timestamp,End_Timestamp\n"
        f'0,2,1024,64,"copy(double*, int) [clone .kd]",{values},64,0x7f,{times}\n'
    )
    (folder / "timestamps.csv").write_text(f"{HEAD},Start_Timestamp,End_Timestamp\n0,2,1024,64,copy,100,160\n")
    pass_of_waves = f"{HEAD},SQ_WAVES,Start_Timestamp,End_Timestamp\n0,2,1024,64,copy,5,100,160\n"
    (folder / "SQ_LEVEL_WAVES.csv").write_text(pass_of_waves)
    (folder / "sysinfo.csv").write_text("x,command,gpu_model,gpu_arch,hostname\nx,./vcopy -n 9,MI200,gfx90a,node\n")
    (folder / "roofline.csv").write_text(
        "device,HBMBw,HBMBwLow,hbmBwHigh,L2Bw,L2BwLow,L2BwHigh,LDSBw,LDSBwLow,LDSBwHigh,"
        "FP64Flops,FP64FlopsLow,FP64FlopsHigh\n"
        "0,1388.5,1388.25,1388.75,5018,5015,5021,17717,17714,17720,20272.5,20271,20273\n"
    )
    return path


def test_a_header_longer_than_any_head_is_read_whole(tmp_path: Path) -> None:
    """MI300 has a column for each counter of each channel: 2,718 in public files."""
    for count in (3_000, 12_000):
        counters = {f"TCC_EA0_WRREQ_LONG_NAME[{at}]": at for at in range(count)}
        trace = tracekit.read(written(tmp_path / str(count), counters))
        assert len(trace.events) == 1
        found = rows(trace, "metrics")
        assert {row["args"]["metric"]: row["value_avg"] for row in found} == counters
        assert not trace.ledgers[0].dropped


def test_a_folder_has_each_launch_once_with_facts_and_roofs(tmp_path: Path) -> None:
    written(tmp_path / "MI200", {"SQ_WAVES": 16384})
    assert [Path(item.name).name for item in expand(tmp_path)] == ["pmc_perf.csv"]
    trace = tracekit.read(tmp_path)
    assert trace.events["dur_ns"].to_pylist() == [60]
    facts = trace.run.sources[0].facts
    assert (facts["tool"], facts["command"], facts["gpu_arch"]) == ("rocprof-compute", "./vcopy -n 9", "gfx90a")
    assert "other-passes" in trace.ledgers[0].notes
    assert "not-profiles" not in trace.ledgers[0].notes
    found = {row["args"]["metric"]: row for row in rows(trace, "roofs")}
    assert [found["HBMBw"][key] for key in ("value_avg", "value_min", "value_max", "unit", "device")] == [
        1388.5, 1388.25, 1388.75, "GB/s", 0,
    ]  # fmt: skip
    assert found["FP64Flops"]["unit"] == "GFLOP/s"
    assert {row["args"]["source"] for row in found.values()} == {"measured"}


def test_tables_of_passes_and_of_roofs_are_read_when_named(tmp_path: Path) -> None:
    written(tmp_path, {"SQ_WAVES": 16384})
    assert len(tracekit.read(tmp_path / "timestamps.csv").events) == 1
    assert len(rows(tracekit.read(tmp_path / "roofline.csv"), "roofs")) == 4


def test_columns_that_several_passes_repeat_are_no_counters(tmp_path: Path) -> None:
    trace = tracekit.read(written(tmp_path, {"SQ_WAVES": 1, "SQ_WAVES_EQ_64": 2}))
    assert {row["args"]["metric"] for row in rows(trace, "metrics")} == {"SQ_WAVES", "SQ_WAVES_EQ_64"}


def test_times_that_a_spreadsheet_rounded_are_not_known(tmp_path: Path) -> None:
    trace = tracekit.read(written(tmp_path, {"SQ_WAVES": 7}, times="8.1097E+14,8.1097E+14"))
    assert len(trace.events) == 0
    assert [row["calls"] for row in rows(trace, "gpu")] == [1]
    assert [row["value_avg"] for row in rows(trace, "metrics")] == [7]
    assert "rounded-times" in trace.ledgers[0].notes


@pytest.mark.parametrize("times", ["x,y", ",", "160,100", "8.1E+14,100"])
def test_other_bad_times_are_dropped(times: str, tmp_path: Path) -> None:
    trace = tracekit.read(written(tmp_path, {"SQ_WAVES": 7}, times=times))
    assert (len(trace.events), sum(trace.ledgers[0].dropped.values())) == (0, 1)
    assert rows(trace, "gpu") == []


@pytest.mark.parametrize("name", ["sysinfo.csv", "roofline.csv"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe\0", b"a,a\n1,2\n", b'device,"HBMBw\n1', b"device\n" + b"1\n" * 3])
def test_damage_beside_the_counters_costs_no_launch(name: str, data: bytes, tmp_path: Path) -> None:
    path = written(tmp_path, {"SQ_WAVES": 7})
    (tmp_path / name).write_bytes(data)
    assert len(tracekit.read(path).events) == 1


def test_a_link_beside_the_counters_is_not_followed(tmp_path: Path) -> None:
    path = written(tmp_path / "run", {"SQ_WAVES": 7})
    (tmp_path / "run" / "sysinfo.csv").rename(tmp_path / "other.csv")
    (tmp_path / "run" / "sysinfo.csv").symlink_to(tmp_path / "other.csv")
    assert "command" not in tracekit.read(path).run.sources[0].facts


def test_requests_of_the_cache_are_bytes_of_device_memory() -> None:
    """As ROCm's metrics.xml makes FETCH_SIZE and WRITE_SIZE of them; by hand."""
    old = {"TCC_EA_RDREQ_sum": 10, "TCC_EA_RDREQ_32B_sum": 4, "TCC_EA_WRREQ_sum": 8, "TCC_EA_WRREQ_64B_sum": 6}
    found = counted_bytes(old)
    assert (found.read, found.written) == (6 * 64 + 4 * 32, 2 * 32 + 6 * 64)
    new = {key.replace("EA", "EA0"): value for key, value in old.items()} | {"TCC_BUBBLE_sum": 3}
    assert counted_bytes(new).read == 3 * 128 + 3 * 64 + 4 * 32
    assert counted_bytes({"TCC_EA_RDREQ_sum": 10}).read is None
    assert counted_bytes({**old, "FETCH_SIZE": 1}).read == 1024


def test_the_samples_have_what_their_generator_wrote() -> None:
    lines = list(csv.reader(sample("rocprof-csv/pmc_perf.csv").read_text("utf-8").splitlines()))
    trace = read_sample("rocprof-csv/pmc_perf.csv")
    assert trace.events["dur_ns"].to_pylist() == [int(row[-1]) - int(row[-2]) for row in lines[1:]]
    place = lines[0].index("SQ_WAVES")
    wanted = [int(row[place]) for row in lines[1:] if row[1].startswith("copy")]
    (found,) = (
        row for row in rows(trace, "metrics") if row["args"]["metric"] == "SQ_WAVES" and row["name"].startswith("copy")
    )
    assert (found["calls"], found["value_avg"] * 3) == (3, sum(wanted))
    assert len(rows(read_sample("rocprof-csv/roofline-of-two.csv"), "roofs")) == 16
