"""The sample traces: the generator writes them again byte for byte, and an independent reading finds their figures."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).parents[1] / "sample_traces"
FOLDERS = ("nvprof-csv", "nvprof-text", "cuda-profile", "recorder-log")
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8"))
NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
EXACT_NS = EXPECTED["nvprof-csv/gpu-trace-20-columns.csv"]["sum_dur_ns"]


def files_under(root: Path) -> dict[str, bytes]:
    paths = [path for folder in FOLDERS for path in (root / folder).iterdir()] + [root / "expected.json"]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def test_generator_writes_the_committed_files_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "generate.py"), str(tmp_path)], check=True)
    made, committed = files_under(tmp_path), files_under(SAMPLES)
    assert made.keys() == committed.keys()
    assert [name for name in made if made[name] != committed[name]] == []


def test_every_file_is_small_and_has_its_line_in_the_readme() -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    for name, data in files_under(SAMPLES).items():
        assert len(data) < 200 * 1024, name
        assert name == "expected.json" or re.search(rf"^\|.*\b{re.escape(Path(name).name)}\b", readme, re.M), name


def test_every_file_has_figures_and_its_classes_of_lines_are_all_its_lines() -> None:
    assert EXPECTED.keys() == files_under(SAMPLES).keys() - {"expected.json"}
    for name, figures in EXPECTED.items():
        data = (SAMPLES / name).read_bytes()
        text = data.decode("utf-16" if data[:2] == b"\xff\xfe" else "utf-8-sig")
        lines = text.count("\n") + (not text.endswith("\n"))
        assert sum(figures["lines"].values()) == lines, name


def _csv_lines(name: str) -> list[str]:
    data = (SAMPLES / name).read_bytes()
    text = data.decode("utf-16" if data[:2] == b"\xff\xfe" else "utf-8-sig")
    return re.sub(r"(?m)^\[\d+,\d+\]<stderr>:", "", text).replace("\r\n", "\n").split("\n")


def _kind(name: str, row: dict[str, str]) -> str:
    if name.startswith("[CUDA memcpy"):
        return "copies"
    if name == "[CUDA memset]":
        return "memsets"
    if name.startswith("[Unified Memory"):
        return "unified_memory"
    return "kernels" if row.get("Grid X") else "api"


def _count_csv(name: str) -> tuple[dict[str, int], int]:
    """Rows by kind and the sum of their ns, read line by line with the csv module and decimals."""
    counts = dict.fromkeys(("kernels", "copies", "memsets", "api", "unified_memory"), 0)
    total = Decimal(0)
    columns: list[str] = []
    scale = Decimal(1)
    delimiter = ";" if "excel" in name else ","
    for line in _csv_lines(name):
        cells = next(csv.reader([line.replace("\r", " ")], delimiter=delimiter), [])
        if cells[:2] == ["Start", "Duration"]:
            columns = cells
        elif len(cells) == len(columns) > 0 and cells[0] in NS:
            scale = Decimal(NS[cells[1]])
        elif len(cells) == len(columns) > 0 and cells[0][:1].isdigit():
            row = dict(zip(columns, cells, strict=True))
            counts[_kind(row["Name"], row)] += 1
            total += Decimal(row["Duration"].replace(",", ".") or 0) * scale
    assert total == int(total)
    return counts, int(total)


# the ranks of tagged output have their own unit rows, which this plain loop does not keep apart
TRACES = [n for n in EXPECTED if n.startswith("nvprof-csv") and "totals" not in EXPECTED[n] and "tag-output" not in n]


@pytest.mark.parametrize("name", TRACES)
def test_csv_trace_holds_the_rows_and_the_ns_that_are_expected(name: str) -> None:
    counts, total = _count_csv(name)
    if name.endswith("appended-runs.csv"):
        # the units change in the middle; the loop follows them, since each table brings its unit row
        assert EXPECTED[name]["lines"]["units"] == 2
    assert counts == {kind: EXPECTED[name][kind] for kind in counts}
    assert total == EXPECTED[name]["sum_dur_ns"]


TEXT_TRACES = [n for n in EXPECTED if n.startswith("nvprof-text") and "totals" not in EXPECTED[n]]


@pytest.mark.parametrize("name", TEXT_TRACES)
def test_text_trace_holds_the_rows_and_the_ns_that_are_expected(name: str) -> None:
    rows = re.findall(
        r"(?m)^ *([\d.]+)(ns|us|ms|s)  +(?:([\d.]+)(ns|us|ms|s)|-)  ", (SAMPLES / name).read_text("utf-8")
    )
    assert len(rows) == EXPECTED[name]["data_rows"]
    durations = [Decimal(value) * NS[unit] for _, _, value, unit in rows if value]
    starts = [Decimal(value) * NS[unit] for value, unit, _, _ in rows]
    assert sum(durations) == EXPECTED[name]["sum_dur_ns"]
    assert min(starts) == EXPECTED[name]["first_start_ns"]


@pytest.mark.parametrize("name", [n for n in EXPECTED if n.startswith("nvprof-text")])
def test_text_cells_end_under_the_end_of_their_header(name: str) -> None:
    lines = (SAMPLES / name).read_text("utf-8").split("\n")
    head = next(line for line in lines if line.endswith("  Name") or line.lstrip().startswith("Invocations"))
    ends = [match.end() for match in re.finditer(r"\S+(?: \S+)*", head)]
    if head.endswith("Name"):
        ends.pop()
    data = [line for line in lines[lines.index(head) + 1 :] if re.match(r" *[\d.]+(ns|us|ms|s|%)? |.*%  ", line)]
    assert data
    for line in data[:20]:
        assert all(line[end - 1] != " " and line[end : end + 2] in ("", "  ") for end in ends[1:]), line


@pytest.mark.parametrize("name", [n for n in EXPECTED if n.startswith("cuda-profile")])
def test_log_holds_the_rows_and_the_ns_that_are_expected(name: str) -> None:
    lines = (SAMPLES / name).read_text("utf-8").splitlines()
    columns = next(line for line in lines if not line.startswith("#")).split(",")
    as_csv = any(line.endswith("_PROFILE_CSV 1") for line in lines)
    rows = []
    for line in lines[lines.index(",".join(columns)) + 1 :]:
        pairs = zip(columns, line.split(","), strict=False) if as_csv else re.findall(r"(\w+)=\[ (\S+) \]", line)
        rows.append({key: value for key, value in pairs if value})
    assert len(rows) == EXPECTED[name]["data_rows"]
    durations = [Decimal(row["gputime"]) * 1000 for row in rows]
    assert sum(durations) == EXPECTED[name]["sum_dur_ns"]
    assert sum(row["method"].startswith("memcpy") for row in rows) == EXPECTED[name]["copies"]
    if "gpustarttimestamp" in columns:
        spans = [int(row["gpuendtimestamp"], 16) - int(row["gpustarttimestamp"], 16) for row in rows]
        assert spans == durations
        assert min(int(row["gpustarttimestamp"], 16) for row in rows) == EXPECTED[name]["first_start_ns"]


@pytest.mark.parametrize("name", [n for n in EXPECTED if "summary" in n and n.startswith("nvprof-csv")])
def test_summary_sums_what_the_trace_lists(name: str) -> None:
    totals = EXPECTED[name]["totals"]
    if "unified" in name:
        assert totals["gpu_activities_calls"] == 61
        assert totals["unified_memory_calls"] + 4 == EXPECTED["nvprof-csv/gpu-trace-22-columns.csv"]["unified_memory"]
        return
    assert totals["gpu_activities_total_ns"] == EXACT_NS
    assert totals["api_calls_total_ns"] == EXPECTED["nvprof-csv/api-trace.csv"]["sum_dur_ns"]
    assert totals["api_calls_calls"] == EXPECTED["nvprof-csv/api-trace.csv"]["data_rows"]


def test_the_same_run_has_the_same_ns_wherever_a_file_can_hold_them() -> None:
    rounded = {
        "nvprof-csv/gpu-trace-seconds.csv": 500,
        "nvprof-text/gpu-trace.txt": 5,
        "nvprof-text/gpu-trace-old.txt": 5,
    }
    same = [n for n in EXPECTED if EXPECTED[n]["kernels"] == 48 and EXPECTED[n]["data_rows"] == 61]
    assert len(same) >= 20
    for name in same:
        if name == "cuda-profile/two-contexts_1.log":  # another device's part of the run
            continue
        assert abs(EXPECTED[name]["sum_dur_ns"] - EXACT_NS) <= rounded.get(name, 0) * 61, name


def test_device_work_starts_after_its_call_and_a_stream_does_one_thing_at_a_time() -> None:
    lines = _csv_lines("nvprof-csv/gpu-and-api-trace.csv")
    head = next(i for i, line in enumerate(lines) if line.startswith('"Start"'))
    rows = list(csv.DictReader([lines[head], *lines[head + 2 :]]))
    called: dict[str, Decimal] = {}
    free: dict[str, Decimal] = {}
    overlaps = 0
    busy = Decimal(0)
    for row in rows:
        start, end = Decimal(row["Start"]), Decimal(row["Start"]) + Decimal(row["Duration"]) / 1000
        if not row["Device"]:
            called[row["Correlation_ID"]] = start
            continue
        assert called[row["Correlation_ID"]] < start
        assert free.get(row["Stream"], Decimal(0)) <= start
        overlaps += start < busy
        free[row["Stream"]] = end
        busy = max(busy, end)
    assert sorted(free) == ["14", "7"]
    assert overlaps >= 3


def test_mangled_names_demangle_to_the_kernels_of_the_nvprof_files() -> None:
    cxxfilt = pytest.importorskip("cxxfilt")
    text = (SAMPLES / "cuda-profile/kvp.log").read_text("utf-8")
    mangled = set(re.findall(r"method=\[ (_Z\S+) \]", text))
    assert len(mangled) == 11
    demangled = {cxxfilt.demangle(name) for name in mangled}
    assert not demangled & mangled
    printed = (SAMPLES / "nvprof-csv/gpu-trace-20-columns.csv").read_text("utf-8")
    for name in demangled:
        if not name.startswith("void sort_points"):  # the one that nvprof leaves mangled
            assert f'"{re.split("[<(]", name)[0]}' in printed, name
    assert any("(anonymous namespace)" in name for name in demangled)
    assert any("{lambda(float)#1}" in name for name in demangled)
