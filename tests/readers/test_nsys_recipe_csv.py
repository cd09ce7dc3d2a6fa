"""Tables of `nsys recipe`: every sum is the one that is written, and no guess is made where the recipe is not known."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path
from typing import Any

import _text_summaries as made
import pytest
from support import read_sample, sample

import tracekit
from tracekit.errors import UnknownFormatError

NEWER = "Name,Sum,Count,Mean,Std,Min,Q1,Median,Q3,Max,Rank\n"


def rows(trace: tracekit.Trace) -> list[dict[str, Any]]:
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in trace.totals.to_pylist()]


def totals(text: str, path: Path) -> list[dict[str, Any]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return rows(tracekit.read(path))


def test_kernels_of_each_rank_have_the_numbers_of_the_table() -> None:
    found = rows(read_sample("nsys-recipe-csv/cuda_gpu_kern_sum.rank_stats.csv"))
    wanted = made.of_ranks(made.recipe_rows(random.Random(12), made.RECIPE_KERNELS))
    for row, (name, rank, values) in zip(found, wanted, strict=True):
        assert (row["name"], row["rank"], row["kind"], row["section"]) == (name, rank, "kernel", "cuda_gpu_kern_sum")
        assert [row[key] for key in ("calls", "total_ns", "min_ns", "max_ns")] == [
            len(values), sum(values), min(values), max(values),
        ]  # fmt: skip
        assert row["avg_ns"] == statistics.mean(values)
        assert row["std_ns"] == pytest.approx(statistics.stdev(values))
        median = statistics.median(values)
        assert abs(row["median_ns"] - median) <= 0.5
        assert row["args"].get("median_ns", row["median_ns"]) == median
        assert row["args"]["Q1"] == statistics.quantiles(values, n=4, method="inclusive")[0]


def test_calls_of_an_older_recipe_are_read() -> None:
    found = rows(read_sample("nsys-recipe-csv/cuda_api_sum.older.rank_stats.csv"))
    wanted = made.of_ranks(made.recipe_rows(random.Random(14), made.RECIPE_CALLS))
    assert [(row["name"], row["rank"], row["calls"], row["total_ns"]) for row in found] == [
        (name, rank, len(values), sum(values)) for name, rank, values in wanted
    ]
    assert [row["kind"] for row in found[:3]] == ["runtime", "driver", "runtime"]
    assert "Time" not in found[0]["args"]


def test_ranges_of_all_ranks_have_no_median_that_is_approximate() -> None:
    trace = read_sample("nsys-recipe-csv/nvtx_sum.all_stats.csv")
    found = rows(trace)
    made_rows = made.recipe_rows(random.Random(13), made.RECIPE_RANGES)
    for row, name in zip(found, made.RECIPE_RANGES, strict=True):
        values = [value for each, _, _, values in made_rows if each == name for value in values]
        assert (row["name"], row["kind"], row["rank"]) == (name, "user_range", None)
        assert (row["total_ns"], row["calls"]) == (sum(values), len(values))
        assert (row["median_ns"], row["std_ns"]) == (None, None)
        assert row["args"].keys() == {"Q1 (approx)", "Median (approx)", "Q3 (approx)", "Std (approx)"}
    assert trace.ledgers[0].merged == 1  # the second line of a name


def test_sizes_are_bytes_of_a_device() -> None:
    found = rows(read_sample("nsys-recipe-csv/cuda_gpu_mem_size_sum.rank_stats_by_device.csv"))
    for row, (name, rank, device, values) in zip(
        found, made.recipe_rows(random.Random(15), made.RECIPE_COPIES), strict=True
    ):
        assert (row["name"], row["rank"], row["device"], row["calls"]) == (name, rank, device, len(values))
        assert (row["bytes"], row["unit"], row["total_ns"]) == (sum(values), "bytes", None)
        assert (row["value_min"], row["value_max"]) == (min(values), max(values))
    assert [row["kind"] for row in found[:2]] == ["memcpy", "memset"]


def test_of_a_folder_the_sums_of_ranks_are_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "report7"
    folder.mkdir()
    made_rows = made.recipe_rows(random.Random(1), made.RECIPE_COPIES)
    (folder / "rank_stats.csv").write_text(made.recipe_table(made_rows, "Name"))
    (folder / "rank_stats_by_device.csv").write_text(made.recipe_table(made_rows, "Name", by_device=True))
    (folder / "all_stats.csv").write_text(made.recipe_of_all(made_rows, "Name"))
    (folder / "files.csv").write_text("Rank,File\n0,a\n1,b\n")
    (folder / "x.nsys-analysis").write_text('{"RecipeName": "cuda_gpu_mem_time_sum", "Outputs": []}')
    trace = tracekit.read(folder)
    found = rows(trace)
    assert sum(row["total_ns"] for row in found) == sum(sum(values) for _, _, _, values in made_rows)
    assert {row["section"] for row in found} == {"cuda_gpu_mem_time_sum"}
    assert "2 files with the same work" in trace.ledgers[0].notes["same-work"].text
    assert trace.run.sources[0].facts["recipe"] == "cuda_gpu_mem_time_sum"


def test_the_name_of_the_folder_says_the_recipe(tmp_path: Path) -> None:
    text = made.recipe_table(made.recipe_rows(random.Random(2), made.RECIPE_COPIES), "Name")
    (row, *_) = totals(text, tmp_path / "cuda_gpu_mem_size_sum-1" / "rank_stats.csv")
    assert (row["section"], row["unit"], row["total_ns"]) == ("cuda_gpu_mem_size_sum", "bytes", None)


def test_a_file_that_is_named_after_its_recipe_needs_no_analysis(tmp_path: Path) -> None:
    (tmp_path / "x.nsys-analysis").write_text('{"RecipeName": "cuda_gpu_mem_time_sum"}')
    text = made.recipe_table(made.recipe_rows(random.Random(2), made.RECIPE_COPIES), "Name")
    (row, *_) = totals(text, tmp_path / "cuda_gpu_mem_size_sum.csv")
    assert row["unit"] == "bytes"


@pytest.mark.parametrize("analysis", ["", "[1]", '{"RecipeName": 5}', '{"RecipeName": "gpu_gaps"}', "{" * 5000])
def test_an_analysis_that_cannot_be_read_says_nothing(analysis: str, tmp_path: Path) -> None:
    (tmp_path / "x.nsys-analysis").write_text(analysis)
    text = made.recipe_table(made.recipe_rows(random.Random(2), made.RECIPE_KERNELS), "Name")
    (row, *_) = totals(text, tmp_path / "rank_stats.csv")
    assert (row["section"], row["kind"]) == ("sums", "kernel")


def test_copies_of_an_unknown_recipe_have_no_total(tmp_path: Path) -> None:
    text = made.recipe_table(made.recipe_rows(random.Random(2), made.RECIPE_COPIES), "Name")
    path = tmp_path / "a.csv"
    path.write_text(text)
    trace = tracekit.read(path)
    for row in rows(trace):
        assert (row["total_ns"], row["bytes"], row["unit"]) == (None, None, None)
        assert row["args"]["Sum"] > 0
    assert "recipe-not-known" in trace.ledgers[0].notes


@pytest.mark.parametrize(
    ("head", "names", "kinds"),
    [
        ("Name", ("gemm", "scale"), ("kernel", "kernel")),
        ("Name", ("poll", "my_sem"), ("other", "other")),
        ("Name", ("cudaLaunchKernel_v7000", "cuMemAlloc_v2"), ("runtime", "driver")),
        ("name", ("gemm", "b"), ("other", "other")),
        ("Text", ("forward", "MPI_Bcast"), ("user_range", "communication")),
    ],
)
def test_rows_of_an_unknown_recipe_are_what_their_names_show(
    head: str, names: tuple[str, ...], kinds: tuple[str, ...], tmp_path: Path
) -> None:
    text = NEWER.replace("Name", head) + "".join(f"{name},30,2,15.0,7.0,10.0,12.5,15.0,17.5,20.0,0\n" for name in names)
    found = totals(text, tmp_path / "a.csv")
    assert tuple(row["kind"] for row in found) == kinds
    assert found[0]["name"] == names[0].removesuffix("_v7000")


def test_columns_may_come_in_another_order_and_a_single_call_has_no_deviation(tmp_path: Path) -> None:
    text = "Rank,Time (%),Total Time,Instances,Avg,Med,Min,Max,StdDev,Name\n3,100.0,1500,1,1500.0,1500.0,1500,1500,,k\n"
    (row,) = totals(text, tmp_path / "rank_stats.csv")
    assert (row["name"], row["rank"], row["calls"], row["total_ns"], row["std_ns"]) == ("k", 3, 1, 1500, None)
    assert (row["section"], row["kind"], row["median_ns"]) == ("cuda_gpu_kern_sum", "kernel", 1500)


@pytest.mark.parametrize("cell", ["", "x", "-5", "1.5", "9" * 23, "nan"])
def test_a_row_without_a_whole_sum_is_dropped(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "rank_stats.csv"
    path.write_text(f"{NEWER}a,30,2,15.0,7.0,10.0,12.5,15.0,17.5,20.0,0\nb,{cell},2,15.0,7.0,10.0,12,15,17,20.0,0\n")
    trace = tracekit.read(path)
    assert [row["name"] for row in rows(trace)] == ["a"]
    assert sum(trace.ledgers[0].dropped.values()) == 1


@pytest.mark.parametrize("cut", [2, 30])
def test_a_row_that_was_cut_is_dropped(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "nvtx_sum.csv"
    path.write_bytes(sample("nsys-recipe-csv/nvtx_sum.all_stats.csv").read_bytes()[:-cut])
    trace = tracekit.read(path)
    assert len(rows(trace)) == 2
    assert sum(trace.ledgers[0].dropped.values()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Name,Sum,Count,Mean,Min,Max\na,30,2,15.0,10.0,20.0\n",
        NEWER.replace("Name", "Metric Name") + "a,30,2,15.0,7.0,10.0,12.5,15.0,17.5,20.0,0\n",
        "player,Total,Q1,Q3,Min,Max\na,30,2,15.0,10.0,20.0\n",
        NEWER,
    ],
)
def test_other_tables_are_not_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(UnknownFormatError):
        tracekit.read(path)
