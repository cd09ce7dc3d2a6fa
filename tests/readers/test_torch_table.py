"""PyTorch's printed tables: real ones of all ages, what PyTorch prints here, ours, and damaged ones."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doors.readers import host_kind, size_bytes, time_ns
from doors.readers import torch_columns_columns_of as columns_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import SAMPLES, corpus, corpus_next, missing, run_command, sample, sure_readers

import tracekit
from tracekit.model.trace import Trace

Row = dict[str, Any]
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected_torch.json").read_text("utf-8"))
TABLES = [name for name in EXPECTED if name.startswith("torch-table/")]


def rows_of(trace: Trace) -> list[Row]:
    """The rows of the tables, without those of memory and the totals, with their args."""
    rows = trace.totals.to_pylist()
    for row in rows:
        row["args"] = json.loads(row["args"] or "{}")
    return [row for row in rows if "cells" in row["args"]]


def by_table(trace: Trace) -> list[tuple[int, int, int, int]]:
    """Rows, calls, and the sums of the self times on host and device, of each table."""
    tables: dict[int, list[Row]] = {}
    for row in rows_of(trace):
        tables.setdefault(row["run"], []).append(row)
    return [
        (len(rows), sum(row["calls"] or 0 for row in rows), _sum(rows, "self_ns"), _sum(rows, "device_self_ns"))
        for rows in tables.values()
    ]


def _sum(rows: list[Row], key: str) -> int:
    return sum(row["args"].get(key) or 0 for row in rows)


def header(trace: Trace) -> list[tuple[str, int]]:
    return [(row["name"], row["total_ns"]) for row in trace.totals.to_pylist() if row["section"] == "header"]


REAL = {
    "torchprof_old_1.x.md": ([(5, 5, 1_671_730, 0)], [1_671_000, 6_701_000]),
    "torchprof_1.7_memory.md": ([(18, 18, 1_832_008, 1_831_624)], [1_832_000, 1_831_000]),
    "quentin_shapes_memory.md": (
        [(15, 129, 1_480_000, 435_000), (15, 208, 44_272_000, 0)], [1_938_000, 817_000, 45_390_000, 38_012_000]
    ),
    "kernelheim_cuda.md": ([(7, 14, 1_719_682, 1_763_000)], [1_720_000, 1_763_000]),
    "gpumode_l4_notebook.ipynb": (
        [(3, 30001, 252_034_000, 269_413_000), (3, 30001, 52_203_000, 30_000_000)],
        [252_034_000, 269_413_000, 52_203_000, 30_000_000],
    ),
    "xpu_triton.md": ([(9, 5440, 127_894_170, 352_797_000)], [433_194_000, 389_655_000]),
    "amd_rocm_trimmed.md": ([(4, 960, 0, 424_457_000)], [341_746_000]),
}  # fmt: skip
"""Rows, calls and self sums of each table, and the totals below them: counted by hand (SOURCES.md of the corpus)."""


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_real_tables_have_the_sums_that_were_counted_by_hand(name: str) -> None:
    path = corpus_next(f"torch_table/{name}")
    trace = tracekit.read(path)
    tables, totals = REAL[name]
    assert sure_readers(path) == ["torch-table"]
    assert by_table(trace) == tables
    assert [ns for _, ns in header(trace)] == totals
    assert trace.ledgers[0].dropped == {}


@pytest.mark.corpus
def test_tables_that_people_edited_are_read_as_far_as_they_go() -> None:
    recipe = tracekit.read(corpus_next("torch_table/tutorials_profiler_recipe.txt"))
    assert [rows for rows, *_ in by_table(recipe)] == [10] * 6 + [2]
    assert [len(row["args"]["stack"]) for row in rows_of(recipe)[-2:]] == [4, 4]
    assert recipe.ledgers[0].ignored["totals that cannot be read"] == 1, "57.549m has no unit of time"
    assert recipe.ledgers[0].notes["bad-total"].places == ["line 15"]
    stacks = tracekit.read(corpus_next("torch_table/tutorials_stacks_memory.txt"))
    assert header(stacks) == [("Self CPU time total", ns * 1000) for ns in (5_931_000, 5_347_000, 225_801)]
    assert [row["name"] for row in rows_of(stacks)][9] == "aten::_local_scalar_dense"
    cpu = tracekit.read(corpus_next("torch_table/tutorials_cpu_rows.txt"))
    assert [rows for rows, *_ in by_table(cpu)] == [20, 20]
    arm = tracekit.read(corpus_next("torch_table/tutorials_graviton.rst"))
    assert [ns for _, ns in header(arm)][:5] == [n * 10**6 for n in (16_201, 7_262, 6_094, 4_123, 2_034)]
    for trace in (recipe, stacks, cpu, arm):
        assert trace.ledgers[0].dropped == {}


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["plain", "sched1"])
def test_a_table_agrees_with_the_averages_that_were_stored_beside_it(name: str) -> None:
    rows = rows_of(tracekit.read(corpus(f"generated/torch/{name}.table.txt")))
    stored = json.loads(corpus(f"generated/torch/{name}.averages.json").read_bytes())
    known: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for each in stored:
        times = (each["self_cpu_us"], each["cpu_us"])
        for printed in {each["name"], each["name"][:52] + "...", each["name"][:77] + "..."}:
            known.setdefault((printed, each["count"]), []).append(times)
    assert rows
    for row in rows:
        wanted = known[row["name"], row["calls"]]
        assert any(_is_printed(row["args"]["self_ns"], a) and _is_printed(row["total_ns"], b) for a, b in wanted), row


def _is_printed(ns: int, us: float) -> bool:
    return abs(ns - us * 1000) <= (1 if us < 1000 else 500) + 1e-3


# What PyTorch prints here


_TORCH = """
import json, torch
from torch.autograd import profiler as legacy
from torch.profiler import ProfilerActivity, profile, record_function

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))

def work():
    with record_function("model_inference"):
        model(torch.randn(4, 16)).sum().backward()

experimental = torch._C._profiler._ExperimentalConfig(verbose=True)
everything = {"record_shapes": True, "with_stack": True, "profile_memory": True, "with_flops": True}
with profile(activities=[ProfilerActivity.CPU], experimental_config=experimental, **everything) as full:
    work()
stacks = full.key_averages(group_by_stack_n=4)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as plain:
    work()
    work()
with legacy.profile(use_kineto=False) as old:
    work()
made = {
    "plain": (plain.key_averages(), {}),
    "sorted": (plain.key_averages(), {"sort_by": "self_cpu_time_total", "row_limit": 5}),
    "ms": (plain.key_averages(), {"time_unit": "ms"}),
    "a head": (plain.key_averages(), {"header": "My header"}),
    "top level": (plain.events(), {"top_level_events_only": True, "row_limit": -1}),
    "shapes": (plain.key_averages(group_by_input_shape=True), {"row_limit": -1}),
    "narrow": (plain.key_averages(), {"max_name_column_width": 20}),
    "stacks, memory, FLOPs": (stacks, {"row_limit": 40}),
    "legacy": (old.key_averages(), {}),
}
print(json.dumps({
    name: (rows.table(**options), [(r.key, r.count, r.self_cpu_time_total, r.cpu_time_total) for r in rows])
    for name, (rows, options) in made.items()
}))
"""


@pytest.fixture(scope="module")
def torch_tables() -> dict[str, tuple[str, list[tuple[str, int, float, float]]]]:
    """Tables of the PyTorch that is installed, in all forms, each with the averages that it was made of.

    In a process of its own: with stacks, torch 2.13 keeps the names of the frames around by their addresses, and reads
    them when they may be gone (UnicodeDecodeError). A small program has few such frames; it is run again if that fails.
    """
    if importlib.util.find_spec("torch") is None:
        missing("torch is not installed (pip install torch==2.13.0)")
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", _TORCH], capture_output=True, text=True, check=False)
        if "UnicodeDecodeError" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[str, list[tuple[str, int, float, float]]]] = json.loads(done.stdout)
    return found


FORMS = (
    "plain", "sorted", "ms", "a head", "top level", "shapes", "narrow", "stacks, memory, FLOPs", "legacy"
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_compat_prints_each_table_of_pytorch_again_byte_for_byte(
    form: str, torch_tables: dict[str, tuple[str, list[tuple[str, int, float, float]]]], tmp_path: Path
) -> None:
    text, _ = torch_tables[form]
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8")
    assert text.count("\n") > 6
    assert run_command("summary", path, "--compat", "torch").stdout == text
    assert tracekit.read(path).ledgers[0].dropped == {}


@pytest.mark.parametrize("form", ["plain", "shapes", "legacy"])
def test_rows_calls_and_times_are_those_of_key_averages(
    form: str, torch_tables: dict[str, tuple[str, list[tuple[str, int, float, float]]]], tmp_path: Path
) -> None:
    text, averages = torch_tables[form]
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8")
    rows = rows_of(tracekit.read(path))
    assert len(rows) == len(averages)
    for row, want in zip(rows, averages, strict=True):
        name, calls, own, total = want
        assert name.startswith(row["name"].removesuffix("..."))
        assert row["calls"] == calls
        for got, us in ((row["args"]["self_ns"], own), (row["total_ns"], total)):
            step = 1 if us < 1000 else 1000
            assert abs(got - us * 1000) <= step / 2 + 1e-3, row["name"]


# Our samples


@pytest.mark.parametrize("name", TABLES)
def test_samples_have_the_figures_of_their_generator(name: str) -> None:
    want = EXPECTED[name]
    trace = tracekit.read(sample(name))
    found = by_table(trace)
    assert len(found) == want["tables"]
    assert trace.ledgers[0].dropped == {}
    if "rows" in want:
        assert sum(rows for rows, *_ in found) == want["rows"]
    if want["tables"] == 1:
        assert found[0][1] == want["calls"]
        assert found[0][2] == pytest.approx(want["self_ns"], abs=500 * want["rows"])


def test_the_generator_writes_the_committed_files_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_torch.py"), str(tmp_path)], check=True)
    made = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert [name for name in made if (tmp_path / name).read_bytes() != (SAMPLES / name).read_bytes()] == []
    assert set(EXPECTED) == set(made) - {"expected_torch.json"}


def test_kernels_copies_and_device_ranges_are_told_apart() -> None:
    rows = rows_of(tracekit.read(sample("torch-table/cuda.txt")))
    work = [(row["kind"], row["section"]) for row in rows if row["section"] != "CPU"]
    assert work == [
        ("kernel", "CUDA"), ("kernel", "CUDA"), ("memcpy", "CUDA"), ("memset", "CUDA"), ("step", "CUDA, ranges")
    ]  # fmt: skip
    kernels = tracekit.view(sample("torch-table/cuda.txt"), "kernel").to_pandas()
    assert kernels["total"].sum() == sum(row["total_ns"] for row in rows if row["kind"] == "kernel")


def test_the_memory_of_each_row_is_in_the_view_of_memory() -> None:
    table = tracekit.view(sample("torch-table/cuda.txt"), "memory").to_pandas()
    sizes = {(row["name"], row["place"]): row["increased"] for _, row in table.iterrows()}
    assert sizes["aten::mm", "CUDA"] == 786_432
    assert sizes["aten::empty", "CPU"] == 48
    assert sizes["autograd::engine::evaluate_function: MmBackward0", "CUDA"] == -786_432


def test_operators_have_self_time_and_device_time_beside_their_totals() -> None:
    table = tracekit.view(sample("torch-table/cuda.txt"), "operator").to_pandas().set_index("name")
    row = next(r for r in rows_of(tracekit.read(sample("torch-table/cuda.txt"))) if r["name"] == "aten::mm")
    assert table.loc["aten::mm", "self"] == row["args"]["self_ns"]
    assert table.loc["aten::mm", "device_total"] == row["args"]["device_ns"]
    assert table["self_ratio"].sum() == pytest.approx(1)


def test_sort_and_top_of_compat_are_orders_of_pytorch() -> None:
    done = run_command("summary", sample("torch-table/cuda.txt"), "--compat", "torch", "--sort", "self", "--top", "2")
    rows = done.stdout.splitlines()[3:5]
    assert [line.split()[0] for line in rows] == ["cudaDeviceSynchronize", "Optimizer.step#SGD.step"]
    wrong = run_command("summary", sample("torch-table/cuda.txt"), "--compat", "torch", "--sort", "p50", code=2)
    assert "PyTorch has no such order" in wrong.output


def test_stacks_and_flops_are_taken_from_the_columns_that_hold_them() -> None:
    table = tracekit.view(sample("torch-table/cpu-stacks-and-flops.txt"), "torch").to_pandas().set_index("name")
    assert table.loc["aten::mm", "flops"] == 402_653_184
    assert table.loc["aten::mm", "location"] == "torch/nn/modules/conv.py(439): _conv_forward"
    assert len(table.loc["aten::mm", "stack"].split("\n")) == 2


# Edges


HEAD = "Name         Self CPU %      Self CPU    # of Calls"
EDITS: dict[str, tuple[Callable[[list[str]], list[str]], list[tuple[int, int]], set[str]]] = {
    "a line between the rows": (lambda t: [*t[:5], "progress 50 %", *t[5:]], [(11, 160)], {"bad-row"}),
    "a blank line between the rows": (lambda t: [*t[:5], "", *t[5:]], [(11, 160)], {"table-parted"}),
    "no rule below the rows": (lambda t: [*t[:-2], "done"], [(11, 160)], set()),
    "blanks at the ends lost": (lambda t: [line.rstrip() for line in t], [(11, 160)], set()),
    "blanks at both ends lost": (lambda t: [line.strip() for line in t], [(11, 160)], set()),
    "a row that lost its time": (lambda t: [*t[:4], t[4].replace("ms", "m"), *t[5:]], [(10, 156)], {"bad-row"}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_table_keeps_its_rows_or_says_which_it_lost(edit: str, tmp_path: Path) -> None:
    lines = sample("torch-table/comments-of-a-program.txt").read_text(encoding="utf-8").splitlines()
    plain = [line.removeprefix("#    ") for line in lines[:17]]
    change, want, codes = EDITS[edit]
    path = tmp_path / "x.txt"
    path.write_text("\n".join(change(plain)) + "\n", encoding="utf-8")
    trace = tracekit.read(path)
    assert [(rows, calls) for rows, calls, *_ in by_table(trace)] == want
    assert set(trace.ledgers[0].notes) - {"names-cut", "table-cut"} == codes


@pytest.mark.parametrize(
    "head",
    [
        HEAD, "Name  Self HPU  Self HPU %  HPU total  HPU time avg  # of Calls", "Name   Source Location",
        "Name  CPU time  CUDA time  Calls  CPU total  CUDA total", "Name  Self NPU  NPU total  Self NPU Mem",
    ],
)  # fmt: skip
def test_heads_of_any_device_are_known(head: str) -> None:
    assert columns_of(head) is not None


@pytest.mark.parametrize(
    "head",
    [
        "Name  Total Count  Time (ms)  Min Time (ms)", "Name  Calls  CPU Total / Avg / Max", "Name   Age", "Name",
        "Name  Calls", "Name  Self CPU  Self XPU  CUDA total", "Time(%)  Time  Calls  Avg  Min  Max  Name",
        "Name  Self CPU  Self CPU",
    ],
)  # fmt: skip
def test_heads_of_other_tables_are_not_ours(head: str) -> None:
    assert columns_of(head) is None


@pytest.mark.parametrize("side", ["<", ">"])
def test_the_side_of_a_column_is_found_behind_a_head_that_is_too_long(side: str) -> None:
    """PyTorch 1.1 to 1.5 printed `Self CPU total %` in 15 columns: what follows is moved by one."""
    titles = ["Self CPU total %", "Self CPU total", "CPU total %", "CPU total", "CPU time avg", "Number of Calls"]
    head = f"{'Name':<30}  " + "  ".join(f"{title:{side}15}" for title in titles)
    columns = columns_of(head, "  ".join(["-" * 30, *["-" * 15] * len(titles)]))
    assert columns is not None
    assert [str(each) for each in columns.sides(head)] == ["<", *side * len(titles)]


@pytest.mark.parametrize(
    ("cell", "ns", "size"),
    [
        ("13.370us", 13_370, None), ("-45.000us", -45_000, None), ("5.931s", 5_931_000_000, None),
        ("57.549m", None, None), ("1.5", None, None), ("756.50 Kb", None, 774_656), ("-1.50 GB", None, -1_610_612_736),
        ("0 b", None, 0), ("9" * 30 + " GB", None, None), ("-", None, None),
    ],
)  # fmt: skip
def test_cells_are_exact_or_nothing(cell: str, ns: int | None, size: int | None) -> None:
    assert (time_ns(cell), size_bytes(cell)) == (ns, size)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", "operator"), ("AddmmBackward0", "operator"), ("cudaLaunchKernel", "runtime"),
        ("cuLaunchKernel", "driver"), ("hipLaunchKernel", "runtime"), ("ProfilerStep*", "step"),
        ("nccl:all_reduce", "communication"), ("Optimizer.step#SGD.step", "optimizer"), ("my range", "user_range"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "dataloader"), ("nn.Module: A_0", "python_op"),
        ("train.py(12): step", "python_op"), ("Activity Buffer Request", "overhead"),
    ],
)  # fmt: skip
def test_kinds_follow_from_names(name: str, kind: str) -> None:
    assert str(host_kind(name, old=False)) == kind


def test_names_of_old_tables_are_operators() -> None:
    assert str(host_kind("conv2d", old=True)) == "operator"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(range(26)), max_size=40), st.text(max_size=30))
def test_lines_in_any_order_are_all_accounted_for(tmp_path: Path, order: list[int], more: str) -> None:
    lines = sample("torch-table/cuda.txt").read_text(encoding="utf-8").splitlines()
    lines = [*lines, more.replace("\n", " "), "```", "", "..."]
    path = tmp_path / "x.txt"
    path.write_text(
        "\n".join([lines[1], *(lines[n % len(lines)] for n in order), ""]), encoding="utf-8", errors="replace"
    )
    trace = tracekit.read(path)
    trace.ledgers[0].check()


# Cells, rows and totals that would be lost


_RULE = "  ".join(["-" * 30] + ["-" * 12] * 6)
_TITLES = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")


def small_table(*rows: tuple[str, ...], totals: tuple[str, ...] = ("Self CPU time total: 10.000ms",)) -> str:
    lines = [_RULE, "  ".join([f"{'Name':>30}", *(f"{title:>12}" for title in _TITLES)]), _RULE]
    lines += ["  ".join([f"{row[0]:>30}", *(f"{cell:>12}" for cell in row[1:])]) for row in rows]
    return "\n".join([*lines, _RULE, *totals, ""])


_MM = ("aten::mm", "60.00%", "6.000ms", "60.00%", "6.000ms", "3.000ms", "2")
_ADD = ("aten::add", "40.00%", "4.000ms", "40.00%", "4.000ms", "2.000ms", "2")


def with_cell(row: tuple[str, ...], place: int, cell: str) -> tuple[str, ...]:
    return (*row[:place], cell, *row[place + 1 :])


@pytest.mark.parametrize("cell", ["4.0…", "4.0...", "?", "nanms"])
@pytest.mark.parametrize("place", [1, 2, 3, 5, 6])
def test_a_cell_beside_the_total_that_cannot_be_read_costs_that_cell(place: int, cell: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(small_table(_MM, with_cell(_ADD, place, cell)))
    trace = tracekit.read(path)
    rows = rows_of(trace)
    assert [(row["name"], row["total_ns"]) for row in rows] == [("aten::mm", 6_000_000), ("aten::add", 4_000_000)]
    assert rows[1]["calls"] == (None if place == 6 else 2)
    assert rows[1]["args"]["self_ns"] == (None if place == 2 else 4_000_000)
    assert trace.ledgers[0].dropped == {}
    note = trace.ledgers[0].notes["odd-cell"]
    assert f"{_TITLES[place - 1]}: {cell!r}" in note.text
    assert note.places == ["line 5"]


@pytest.mark.parametrize("at", [0, 1])
def test_a_row_without_its_total_is_dropped_also_where_it_is_the_last(at: int, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    rows = [_MM, _ADD]
    rows[at] = with_cell(rows[at], 4, "4.0…")
    path.write_text(small_table(*rows))
    trace = tracekit.read(path)
    assert (len(rows_of(trace)), trace.ledgers[0].dropped) == (1, {"bad-row": 1})


def headline_of(path: Path) -> tuple[str, dict[str, Any]]:
    found = json.loads(run_command("summary", path, "--format", "json").stdout)
    return run_command("summary", path).stdout, found["headline"]["top"]


def test_the_whole_of_a_cut_table_is_the_total_that_it_prints(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(small_table(_MM, _ADD, totals=("Self CPU time total: 40.000ms",)))
    out, top = headline_of(path)
    assert (top["total_ns"], top["printed"], top["count"]) == (40_000_000, "Self CPU time total", 2)
    assert [name["share"] for name in top["names"]] == [0.15, 0.1]
    assert "Self CPU time total: 40 ms (as printed)" in out
    assert "10 ms" not in out


def test_the_whole_of_a_table_with_all_its_rows_is_their_sum(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(small_table(_MM, _ADD))
    out, top = headline_of(path)
    assert (top["total_ns"], "printed" in top) == (10_000_000, False)
    assert "Operators (self time) took 10 ms in total" in out


@pytest.mark.parametrize("rows", [8, 10])
def test_kernels_of_a_cut_table_are_parts_of_the_time_of_the_device(rows: int, tmp_path: Path) -> None:
    lines = sample("torch-table/cuda.txt").read_text(encoding="utf-8").splitlines()
    kernels = [line for line in lines if "ampere_scudnn" in line or "cutlass" in line]
    path = tmp_path / "x.txt"
    path.write_text("\n".join([*lines[: rows - 5], *kernels[:1], *lines[-3:], ""]), encoding="utf-8")
    _, top = headline_of(path)
    assert (top["view"], top["printed"], top["total_ns"]) == ("kernel", "Self CUDA time total", 74_833_000)


def test_two_cut_tables_have_each_its_own_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    first = small_table(_MM, totals=("Self CPU time total: 40.000ms",))
    path.write_text(first + small_table(_ADD, totals=("Self CPU time total: 50.000ms",)))
    _, top = headline_of(path)
    assert (top["total_ns"], top["names"][0]["name"]) == (40_000_000, "aten::mm")


# Names that PyTorch cut


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKern...", "runtime"), ("cudaStreamSynchro...", "runtime"), ("hipLaunchK...", "runtime"),
        ("cuLaunchKerne...", "driver"), ("aten::cudnn_convol...", "operator"), ("Optimizer.step#SG...", "optimizer"),
        ("ProfilerSt...", "step"), ("Lazy Function L...", "overhead"), ("nccl:all_re...", "communication"),
        ("my own ran...", "user_range"),
    ],
)  # fmt: skip
def test_a_cut_name_has_the_kind_of_the_whole_one(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(small_table((name, *_MM[1:]), _ADD))
    trace = tracekit.read(path)
    (row,) = (row for row in rows_of(trace) if row["name"] == name)
    assert row["kind"] == kind
    assert "names-cut" not in trace.ledgers[0].notes, "one row is of one name"
    assert "names" not in run_command("summary", path).stdout.splitlines()[0]


def test_rows_with_one_cut_name_are_two_names(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(small_table(("aten::very_long...", *_MM[1:]), ("aten::very_long...", *_ADD[1:])))
    trace = tracekit.read(path)
    assert trace.ledgers[0].notes["names-cut"].count == 2
    table = tracekit.view(trace, "operator").tables[0]
    columns = {column.name: list(column.values) for column in table.columns}
    assert (columns["name"], columns["total"]) == (["aten::very_long..."] * 2, [6_000_000, 4_000_000])


def test_rows_with_one_whole_name_are_one(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(small_table(_MM, ("aten::mm", *_ADD[1:])))
    table = tracekit.view(tracekit.read(path), "operator").tables[0]
    assert next(list(column.values) for column in table.columns if column.name == "total") == [10_000_000]
