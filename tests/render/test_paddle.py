"""The layout of Paddle's tables, from reports made by hand: widths, cuts, blocks, dashes, hostile names."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tracekit import compat
from tracekit.errors import UsageError
from tracekit.model.report import Column, Report, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.render.base import RenderOptions

SIDE = {"total": 2_000_000, "avg": 1_000_000, "max": 1_500_000, "min": 500_000, "ratio": 0.25}


def text(*sections: Section, unit: str = "") -> list[str]:
    return (
        compat.load("paddle").layout.render(Report("t", "0", (), sections), RenderOptions(time_unit=unit)).split("\n")
    )


def table(name: str, rows: list[dict[str, Any]]) -> ReportTable:
    return ReportTable(name, name, tuple(Column(key, key, Unit.NUMBER, [row[key] for row in rows]) for key in rows[0]))


def row(name: str, calls: int | None = 2, *, gpu: bool = True, **more: Any) -> dict[str, Any]:
    cpu = {f"cpu_{key}": value for key, value in SIDE.items()}
    return {"name": name, "level": 0, "calls": calls, **cpu, **({f"gpu_{k}": 0 for k in SIDE} if gpu else {}), **more}


def operators(*rows: dict[str, Any]) -> Section:
    return Section("operator", "", (table("operators", [{"thread": "1", "flops": 0, **r} for r in rows]),))


def test_nothing_to_say_is_an_empty_line_as_paddle_prints_it() -> None:
    assert text(Section("kernel", "", notes=("needs kernels",))) == ["", ""]


def test_times_are_in_the_unit_with_two_decimals_and_the_mean_of_ns_is_not_rounded_first() -> None:
    three = row("op", 3, cpu_total=10, cpu_avg=3)
    assert "10.00 / 3.33 / 1500000.00 / 500000.00 / 25.00" in text(operators(three), unit="ns")[6]
    assert "2.00 / 1.00 / 1.50 / 0.50 / 25.00" in text(operators(row("op")))[6]
    assert "2000.00 / 1000.00 / 1500.00 / 500.00 / 25.00" in text(operators(row("op")), unit="us")[6]
    with pytest.raises(UsageError, match="no unit of time"):
        text(operators(row("op")), unit="min")


def test_a_title_stands_amid_dashes_the_odd_one_at_its_right() -> None:
    head = text(operators(row("op")))
    assert head[0] == "-" * 70 + "Operator Summary" + "-" * 70
    assert head[2] == "  ".join("-" * width for width in (52, 6, 40, 40, 10)) + "  "
    assert len(head[5]) == len(head[0])
    assert head[5].strip("-") == "Thread: 1"


def test_columns_grow_with_calls_and_times_and_never_with_names() -> None:
    wide = row("x" * 70, 12_345_678, cpu_total=10**15)
    lines = text(operators(wide, row("op", thread="2")), unit="ns")
    assert lines[2].split()[1] == "-" * 8
    assert len(lines[2].split()[2]) > 40
    assert lines[6].startswith("x" * 70 + "  12345678")
    assert [line.strip("-") for line in lines if "Thread:" in line] == ["Thread: 1", "Thread: 2"]


def test_below_an_operator_long_names_are_cut_and_device_rows_have_no_host_times() -> None:
    device = {f"cpu_{key}": None for key in SIDE}
    lines = text(operators(
        row("op"), row("c" * 51, level=1, flops=None), row("c" * 50, level=1, flops=None),
        row("k" * 49, level=2, flops=None, **device), row("k" * 48, level=2, flops=None, **device),
    ))  # fmt: skip
    assert lines[7].startswith("  " + "c" * 47 + "...  2 ")
    assert lines[8].startswith("  " + "c" * 50 + "  2 ")
    assert lines[9].startswith("    " + "k" * 45 + "...  2       - / - / - / - / -   ")
    assert lines[10].startswith("    " + "k" * 48 + "  2 ")
    assert lines[8].rstrip().endswith("-")


def test_kernels_lose_their_arguments_and_are_cut() -> None:
    names = ["void gemm<float, 2>(float*, int)", "plain(int)", "k" * 91, "k" * 90]
    kernels = [{key: value for key, value in row(name).items() if not key.startswith("cpu")} for name in names]
    lines = text(Section("kernel", "", (table("kernels", kernels),)))
    shown = [line.split("  2  ")[0].rstrip() for line in lines[5:9]]
    assert shown == ["void gemm<float, 2>", "plain(int)", "k" * 87 + "...", "k" * 90]


def test_others_has_a_total_and_a_share_alone() -> None:
    others = row("Others", None, level=1, cpu_avg=None, cpu_max=None, cpu_min=None, gpu_avg=None)
    lines = text(Section("model", "", (table("model", [row("ProfileStep"), others]),)))
    assert " ".join(lines[6].split()) == "Others - 2.00 / - / - / - / 25.00 0.00 / - / - / - / 0.00"
    assert lines[6].startswith("  Others")


def test_what_a_terminal_would_obey_is_shown_with_escapes() -> None:
    lines = text(operators(row("evil\x1b[2J\nname")))
    assert lines[6].startswith("evil\\x1b[2J\\nname")


def test_unknown_shares_and_peaks_are_dashes_and_without_steps_the_first_table_is_the_last() -> None:
    steps = table("steps", [{"total": 0}])
    device = Section("device", "", (table("devices", [{"name": "CPU(Process)", "utilization": None}]), steps))
    lines = text(operators(row("op")), device)
    assert any(line.split() == ["CPU(Process)", "-"] for line in lines)
    assert not any("Operator Summary" in line for line in lines)
    peaks = table("peaks", [{"place": "Place(cpu)", "allocated": None, "reserved": 7}])
    held = {"place": "Place(cpu)", "name": "op", "type": "Allocated", "allocations": 1, "frees": 0, "allocated": 5}
    memory = Section("memory", "", (peaks, table("memory", [{**held, "freed": 0, "increased": 5}])))
    lines = text(memory)
    assert lines[1:3] == ["Peak Allocated Memory: -", "Peak Reserved Memory: 7"]
    assert lines[-3:] == ["", "", ""]


def test_tables_stand_in_paddles_order_and_a_perf_summary_may_have_an_infinite_minimum() -> None:
    perf = table("perf", [{"summary": 0, "name": "reader_cost", "avg": 0.5, "max": 1.0, "min": math.inf}])
    facts = table("facts", [{"summary": 0, "reader_ratio": None, "unit": "steps/s"}])
    ranges = Section("user_defined", "", (table("ranges", [{"thread": "All threads merged", **row("my range")}]),))
    lines = text(Section("benchmark", "", (perf, facts)), ranges, operators(row("op")))
    titles = [line.strip("-=") for line in lines if line.strip("-=").endswith("Summary")]
    assert titles == ["Operator Summary", "UserDefined Summary", "Perf Summary"]
    assert "|   reader_cost   |     0.50000     |     1.00000     |       inf       |" in lines
    assert not any(line.startswith("Reader Ratio") for line in lines)
