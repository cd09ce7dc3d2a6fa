"""Tables of VTune: every time is the one that is written, and names keep their commas."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import _text_summaries as made
import pytest
from support import read_sample, run_command, sample

import tracekit
from tracekit.errors import UnknownFormatError


def rows(trace: tracekit.Trace) -> list[dict[str, Any]]:
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in trace.totals.to_pylist()]


def of(name: str, grouping: str) -> dict[str, object]:
    return {"grouping": grouping, "frames": [name], "callers": "unknown"}


def totals(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "out.csv"
    path.write_text(text, encoding="utf-8")
    return rows(tracekit.read(path))


def test_functions_have_their_cpu_time_and_their_whole_name() -> None:
    found = {row["name"]: row for row in rows(read_sample("vtune-csv/hotspots.csv"))}
    wanted = made.vtune_functions(random.Random(9))
    assert found.keys() == {name for name, _, _ in wanted}
    for name, full, time in wanted:
        row = found[name]
        assert (row["total_ns"], row["section"], row["kind"]) == (time * 1000, "samples", "other")
        assert (row["args"]["grouping"], row["args"]["frames"]) == ("Function", [name])
        assert row["raw_name"] == (full if full != name else None)
        assert row["args"]["Instructions Retired"] == time * 2200
        assert row["args"]["CPU Time:Spin Time"] == float(f"{time // 10 / 1e6:f}")


def test_computing_tasks_are_work_of_a_gpu() -> None:
    trace = read_sample("vtune-csv/gpu-hotspots.csv")
    found = rows(trace)
    kinds = ("kernel", "kernel", "memcpy", "memset", "other")
    for row, kind, (name, _, times) in zip(found, kinds, made.vtune_tasks(random.Random(11)), strict=True):
        assert (row["name"], row["kind"], row["calls"]) == (name, kind, len(times))
        assert row["total_ns"] == sum(times) * 1000
        assert row["avg_ns"] == pytest.approx(sum(times) * 1000 / len(times), abs=500)  # of six decimals
    assert found[0]["args"]["global_size"] == [128, 8]
    assert found[1]["args"]["global_size"] == [4096]
    assert (found[0]["args"]["simd"], found[0]["args"]["spill_bytes"]) == (16, 64)
    assert trace.ledgers[0].ignored["rows without a time"] == 1


def test_a_top_down_tree_has_the_own_times_that_add_up() -> None:
    found = rows(read_sample("vtune-csv/top-down.tsv"))
    wanted = made.vtune_functions(random.Random(10))
    assert [(row["name"], row["total_ns"]) for row in found] == [(name, time * 1000) for name, _, time in wanted]
    assert [row["args"]["depth"] for row in found] == [0, 1, 2, 3, 4]
    assert found[0]["args"]["CPU Time:Total"] == 100.0  # a share


def test_a_summary_has_metrics_of_the_run_and_facts() -> None:
    trace = read_sample("vtune-csv/summary.csv")
    found = {row["args"]["metric"]: row for row in rows(trace)}
    assert {(row["section"], row["name"], row["total_ns"]) for row in rows(trace)} == {("metrics", "the run", None)}
    elapsed = found["Elapsed Time"]
    assert (elapsed["value_avg"], elapsed["unit"], elapsed["value_text"]) == (149.771137, "s", "149.771137")
    assert found["Spin Time"]["args"]["level"] == 2
    assert found["CPI Rate"]["value_avg"] == 0.66547
    assert found["Effective CPU Utilization(%)"]["unit"] == "%"
    assert "DRAM, GB/sec" not in found
    facts = trace.run.sources[0].facts
    assert (facts["command"], facts["elapsed_ns"]) == ("./app 40", 149_771_137_000)
    assert trace.ledgers[0].facts == 2


def test_metrics_of_a_run_are_not_added_up() -> None:
    """Elapsed time and the CPU time of all cores are of one run: their sum is nothing."""
    shown = run_command("summary", sample("vtune-csv/summary.csv")).stdout
    assert "The run took 149.8 s" in shown
    assert "Metrics of the run as a whole" in shown
    assert "CPU Time" in shown
    overview = tracekit.view(read_sample("vtune-csv/summary.csv"), "overview")
    assert not overview.tables


@pytest.mark.parametrize(("name", "seed"), [("hotspots.csv", 9), ("top-down.tsv", 10)])
def test_functions_are_shown_first_by_their_own_time(name: str, seed: int) -> None:
    shown = run_command("summary", sample(f"vtune-csv/{name}")).stdout
    first = max(made.vtune_functions(random.Random(seed)), key=lambda each: each[2])
    assert "itself takes" in shown.splitlines()[0]
    (table,) = tracekit.view(read_sample(f"vtune-csv/{name}"), "samples").tables
    assert (table.column("name").values[0], table.column("self").values[0]) == (first[0], first[2] * 1000)


def test_the_total_of_a_function_is_known_only_where_its_callers_are() -> None:
    flat, tree = (
        tracekit.view(read_sample(f"vtune-csv/{name}"), "samples") for name in ("hotspots.csv", "top-down.tsv")
    )
    assert "total" not in [column.name for column in flat.tables[0].columns]
    assert (len(flat.figures), len(tree.figures)) == (0, 1)
    own = {name: time * 1000 for name, _, time in made.vtune_functions(random.Random(10))}
    below = {name: sum(list(own.values())[place:]) for place, name in enumerate(own)}
    table = tree.tables[0]
    assert dict(zip(table.column("name").values, table.column("total").values, strict=True)) == below


def test_siblings_of_a_tree_have_their_own_callers(tmp_path: Path) -> None:
    lines = ["Function Stack\tCPU Time:Total\tCPU Time:Self\tModule"]
    lines += ["main\t6\t1\ta", " f\t3\t1\ta", "  g\t2\t2\ta", " g\t2\t2\ta", "other\t4\t4\tb"]
    found = totals("\n".join(lines) + "\n", tmp_path)
    assert [row["args"]["frames"] for row in found] == [
        ["main"],
        ["main", "f"],
        ["main", "f", "g"],
        ["main", "g"],
        ["other"],
    ]


def test_a_tree_without_own_times_has_no_sums(tmp_path: Path) -> None:
    found = totals("Call Stack\tCPU Time\tModule\nmain\t6\ta\n f\t5\ta\n", tmp_path)
    assert ["frames" in row["args"] for row in found] == [False, False]


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", "^"])
@pytest.mark.parametrize("suffix", ["", "s"])
def test_any_delimiter_and_a_printed_unit_are_read(delimiter: str, suffix: str, tmp_path: Path) -> None:
    lines = [["Function", "Module", "CPU Time"], ["main", "a.out", f"12.345{suffix}"], ["f", "b.so", f"0{suffix}"]]
    found = totals("".join(delimiter.join(cells) + "\n" for cells in lines), tmp_path)
    assert [(row["name"], row["total_ns"], row["args"]) for row in found] == [
        ("main", 12_345_000_000, {"Module": "a.out", **of("main", "Function, Module")}),
        ("f", 0, {"Module": "b.so", **of("f", "Function, Module")}),
    ]


def test_a_table_of_several_groupings_is_named_by_the_finest(tmp_path: Path) -> None:
    text = "Process\tModule\tFunction\tCPU Time:Self\nrun\tlibc.so\tread\t1.5\nrun\t\t[Unknown]\t0.25\n"
    found = totals(text, tmp_path)
    assert [(row["name"], row["total_ns"]) for row in found] == [("read", 1_500_000_000), ("[Unknown]", 250_000_000)]
    grouping = of("read", "Process, Module, Function")
    assert found[0]["args"] == {"Process": "run", "Module": "libc.so", **grouping}


def test_task_types_are_ranges_of_the_user(tmp_path: Path) -> None:
    text = "Task Type;CPU Time;CPU Time:Spin Time\nconvolution;1.5;0\n[Outside any task];0.5;0\n"
    assert [(row["name"], row["kind"]) for row in totals(text, tmp_path)] == [
        ("convolution", "user_range"),
        ("[Outside any task]", "other"),
    ]


def test_computing_tasks_without_a_prefix_in_their_columns_are_read(tmp_path: Path) -> None:
    (row,) = totals("Computing Task\tTotal Time\tInstance Count\nk\t0.25s\t4\n", tmp_path)
    assert (row["total_ns"], row["calls"], row["kind"]) == (250_000_000, 4, "kernel")


@pytest.mark.parametrize("cell", ["80.0%", "-1", "nan", "1,5", "9" * 23, "5ms"])
def test_a_time_that_is_not_in_seconds_is_dropped(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"Function;CPU Time;Module\nmain;1.5;a\nf;{cell};a\n")
    trace = tracekit.read(path)
    assert [row["name"] for row in rows(trace)] == ["main"]
    assert sum(trace.ledgers[0].dropped.values()) == 1


@pytest.mark.parametrize("broken", ["f;2", "f;2;a;b"])
def test_a_row_of_another_width_is_dropped(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"Function;CPU Time;Module\nmain;1.5;a\n{broken}\ng;3;a\n")
    trace = tracekit.read(path)
    assert [row["name"] for row in rows(trace)] == ["main", "g"]
    assert sum(trace.ledgers[0].dropped.values()) == 1


def test_a_row_that_was_cut_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(sample("vtune-csv/hotspots.csv").read_bytes()[:-3])
    trace = tracekit.read(path)
    assert len(rows(trace)) == 4
    assert sum(trace.ledgers[0].dropped.values()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Function,CPU Time\nmain,1.5\n",
        "Name,CPU Time,Module\nmain,1.5,a\n",
        "Function,CPU Time,Module\nmain,80.0%,a\n",
        "Module,Hardware Event Count:INST_RETIRED.ANY\na.out,5\n",
    ],
)
def test_tables_of_other_programs_and_without_times_are_not_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(UnknownFormatError):
        tracekit.read(path)


def test_tables_of_other_groupings_are_never_in_one_sum() -> None:
    """Time of modules is the time of their functions once more."""
    (table,) = tracekit.view(read_sample("vtune-csv/two-groupings.csv"), "samples").tables
    by = zip(*(table.column(name).values for name in ("grouping", "ratio")), strict=True)
    shares: dict[Any, float] = {}
    for grouping, share in by:
        shares[grouping] = shares.get(grouping, 0.0) + float(str(share))
    assert {grouping: round(share, 9) for grouping, share in shares.items()} == {"Function": 1.0, "Module": 1.0}
    assert "memcpy itself takes 40 %" in run_command("summary", sample("vtune-csv/two-groupings.csv")).stdout
