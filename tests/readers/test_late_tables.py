"""A table that a program printed in a long log is found, wherever in the log it is: in every format that is printed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from small_limits import Limit, small
from support import SAMPLES, sample

import tracekit
from tracekit.api import inspect
from tracekit.errors import TracekitError, UnknownFormatError
from tracekit.formats import READERS
from tracekit.inputs.inventory import StockJson
from tracekit.readers.printed import late
from tracekit.readers.source import HEAD_BYTES, TAIL_BYTES

PRINTED = sorted(name for name, reader in READERS.items() if reader.marks.in_logs)
BEFORE, BEHIND = 1000, 3300
STYLES = {
    "times in brackets": "[2026-01-01 10:{:02}:{:02}] step {} loss 3.1415 lr 0.0003 tokens/s 12345 of the run",
    "commas": "2026-01-01 10:{:02}:{:02},123 INFO trainer: step {}, loss=3.1415, start of data, total time 3 s, name a",
}


def log(style: str, first: int, count: int) -> bytes:
    lines = (STYLES[style].format(n // 60 % 60, n % 60, n) for n in range(first, first + count))
    return "".join(f"{line}\n" for line in lines).encode()


def found_in(path: Path) -> tuple[object, ...]:
    entry: StockJson = inspect(path).inputs[0]
    return entry["format"], entry["events"], entry["totals"], entry["by_kind"], entry["ledger"]["dropped"]


def in_the_middle(path: Path, table: bytes, style: str) -> Path:
    before, behind = log(style, 0, BEFORE), log(style, BEFORE, BEHIND)
    assert len(before) > HEAD_BYTES
    assert len(behind) > TAIL_BYTES
    path.write_bytes(before + table + b"\n" * (not table.endswith(b"\n")) + behind)
    return path


def samples(name: str) -> list[Path]:
    """The samples of a format but for those whose own end is cut: in a log a line comes behind it."""
    paths = sorted(path for path in (SAMPLES / name).iterdir() if path.name not in ("truncated.csv",))
    return [path for path in paths if not path.read_bytes().startswith(b"\xff\xfe")]


def test_all_formats_that_programs_print_are_looked_for() -> None:
    assert {"nsys-stats-csv", "nvprof-csv", "nvprof-text", "torch-table", "ncu", "theano"} <= set(PRINTED)
    assert all(READERS[name].marks.late for name in PRINTED)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", PRINTED)
def test_a_table_in_the_middle_of_a_long_log_is_read_as_the_table_alone(name: str, style: str, tmp_path: Path) -> None:
    for path in samples(name) if style == "commas" else samples(name)[:1]:
        log_file = in_the_middle(tmp_path / path.name, path.read_bytes(), style)
        assert found_in(log_file) == found_in(path), path.name


@pytest.mark.parametrize("name", ["nsys-stats-csv/columns.txt", "nvprof-csv/summary-new.csv", "ncu/details.txt"])
def test_a_table_at_the_end_of_a_long_log_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(log("times in brackets", 0, BEFORE) + sample(name).read_bytes())
    assert found_in(path)[1:3] == found_in(sample(name))[1:3]


def test_a_table_behind_64_kib_of_log_is_read(tmp_path: Path) -> None:
    table = (
        "Processing [report1.sqlite] with [/opt/nvidia/nsight-systems/reports/cuda_gpu_kern_sum.py]... \n\n"
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n"
        " Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name\n"
        " --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----\n"
        "    100.0           100000         10   10000.0   10000.0     10000     10000          0.0  axpy\n\n"
    )
    path = tmp_path / "x.log"
    path.write_bytes(log("times in brackets", 0, 1500) + table.encode())
    (row,) = tracekit.read(path).totals.to_pylist()
    assert (row["name"], row["calls"], row["total_ns"]) == ("axpy", 10, 100_000)


@pytest.mark.parametrize("form", ["gzip", "utf-16"])
def test_a_compressed_log_and_one_of_powershell_are_searched_too(form: str, tmp_path: Path) -> None:
    table = sample("torch-table/cuda.txt").read_bytes()
    path = in_the_middle(tmp_path / "x.log", table, "commas")
    data = path.read_bytes()
    path.write_bytes(gzip.compress(data) if form == "gzip" else data.decode().encode("utf-16"))
    assert found_in(path)[:3] == found_in(sample("torch-table/cuda.txt"))[:3]


def test_tags_of_ranks_are_found_where_the_table_is(tmp_path: Path) -> None:
    """The head has no line of the profiler, so it cannot show whether its lines have tags."""
    lines = sample("nsys-stats-csv/cuda_gpu_trace.csv").read_text(encoding="utf-8").splitlines()
    tagged = "".join(f"[1,{rank}]<stdout>:{line}\n" for rank in (0, 1) for line in lines).encode()
    path = tmp_path / "alone.log"
    path.write_bytes(tagged)
    assert {row["rank"] for row in tracekit.read(path).events.to_pylist()} == {0, 1}
    assert found_in(in_the_middle(tmp_path / "x.log", tagged, "commas")) == found_in(path)


def test_a_table_counts_more_than_a_beginning_that_may_be_of_another_format(tmp_path: Path) -> None:
    """The log of a program that loaded a net of Caffe; what was printed behind it is clear."""
    first = b"I0101 10:00:00.000000  4711 net.cpp:58] Initializing net from parameters\n"
    path = in_the_middle(tmp_path / "x.log", sample("torch-table/cuda.txt").read_bytes(), "commas")
    path.write_bytes(first + path.read_bytes())
    assert found_in(path)[0] == "torch-table"


def test_a_log_without_a_table_is_not_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(log("commas", 0, 20_000))
    with pytest.raises(UnknownFormatError):
        inspect(path)


def test_a_log_that_talks_of_tables_all_the_time_is_asked_about_so_many_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, Limit.LATE_TABLE_WINDOWS, 3)
    asked = []
    whole = late.heads_behind

    def counted(*args: object) -> object:
        for head in whole(*args):  # type: ignore[arg-type]
            asked.append(head)
            yield head

    monkeypatch.setattr(late, "heads_behind", counted)
    path = tmp_path / "x.log"
    path.write_bytes(b"Total Time of step: 3 s\n" * 40_000)
    with pytest.raises(TracekitError):
        inspect(path)
    assert len(asked) == 3
