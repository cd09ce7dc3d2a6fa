"""DeepSpeed's flops profiler: every number is the one that is printed, and the tree has the paths of the modules."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import _text_summaries as made
import pytest
from support import read_sample, sample

import tracekit
from tracekit.errors import UnknownFormatError


def rows(trace: tracekit.Trace, section: str) -> list[dict[str, Any]]:
    found = [row for row in trace.totals.to_pylist() if row["section"] == section]
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in found]


def walked(module: made.Module, path: tuple[str, ...] = ()) -> Iterator[tuple[str, made.Module]]:
    yield ".".join(path) or module.kind, module
    for each in module.below:
        yield from walked(each, (*path, each.name))


def shown(text: str) -> int:
    """Return a printed number with a prefix as whole units."""
    number, _, unit = text.strip().partition(" ")
    power = {"": 0, "K": 3, "M": 6, "G": 9, "T": 12}[unit.removesuffix("MACs")]
    return int(Decimal(number).scaleb(power))


@pytest.mark.parametrize(("name", "seed", "layers"), [("one-gpu.txt", 4, 2), ("older-in-a-log.log", 5, 1)])
def test_modules_have_their_paths_and_the_printed_numbers(name: str, seed: int, layers: int) -> None:
    found = rows(read_sample(f"deepspeed-flops/{name}"), "modules")
    wanted = list(walked(made.model(random.Random(seed), layers)))
    assert [row["name"] for row in found] == [path for path, _ in wanted]
    for row, (path, module) in zip(found, wanted, strict=True):
        number, unit = made.latency(module.us).split()
        assert row["total_ns"] == int(Decimal(number) * {"us": 1000, "ms": 10**6, "s": 10**9}[unit])
        assert row["args"]["params"] == shown(made.amount(module.params))
        assert row["args"]["macs"] == shown(made.amount(module.macs, "MACs"))
        assert row["args"]["class"] == module.kind
        assert row["args"]["depth"] == (path.count(".") + 1 if path != "Encoder" else 0)


def test_own_times_add_up_to_the_model() -> None:
    found = rows(read_sample("deepspeed-flops/one-gpu.txt"), "modules")
    own = sum(row["args"]["self_ns"] for row in found)
    assert abs(own - found[0]["total_ns"]) <= 5_000 * len(found)  # of three digits


def test_the_summary_has_its_times_and_values() -> None:
    found = {row["name"]: row for row in rows(read_sample("deepspeed-flops/one-gpu.txt"), "summary")}
    assert len(found) == 14
    assert (found["bwd latency"]["total_ns"], found["bwd latency"]["kind"]) == (8_280_000, "backward")
    assert (found["fwd MACs per GPU"]["value_avg"], found["fwd MACs per GPU"]["unit"]) == (4.23e9, "MACs")
    assert found["samples/second"]["value_avg"] == 812.5
    assert found["world size"]["args"]["step"] == 10


def test_the_best_modules_of_a_depth_are_listed() -> None:
    found = rows(read_sample("deepspeed-flops/one-gpu.txt"), "aggregated")
    assert [(row["args"]["depth"], row["args"]["of"], row["name"]) for row in found[:3]] == [
        (0, "params", "Encoder"), (0, "MACs", "Encoder"), (0, "fwd latency", "Encoder"),
    ]  # fmt: skip


def test_two_profiles_of_a_log_are_two_runs(tmp_path: Path) -> None:
    text = sample("deepspeed-flops/one-gpu.txt").read_text("utf-8")
    path = tmp_path / "out.log"
    path.write_text("a line\n" * 20_000 + text + "loss 3\n" * 3 + text + "a line\n" * 20_000, "utf-8")
    trace = tracekit.read(path)
    assert [len([r for r in trace.totals.to_pylist() if r["run"] == run]) for run in range(2)] == [40, 40]


def test_modules_that_the_profiler_left_out_have_no_row(tmp_path: Path) -> None:
    head = (
        "-" * 26 + " DeepSpeed Flops Profiler " + "-" * 26 + "\n" + "-" * 30 + " Detailed Profile per GPU " + "-" * 30
    )
    numbers = "1 K = 1% Params, 2 GMACs = 1% MACs, 3.5 us = 1% latency, 4 TFLOPS"
    path = tmp_path / "x.txt"
    path.write_text(
        f"{head}\nNet(\n  {numbers}\n  (a): Block(...)\n  (0-11): 12 x Layer(\n    {numbers}\n"
        f"    (c): Linear({numbers}, k=(1, 2))\n"
        f"  )\n  (d): Linear({numbers}, x=1)\n)\n{'-' * 78}\n(e): Linear({numbers})\n",
        "utf-8",
    )
    assert [row["name"] for row in rows(tracekit.read(path), "modules")] == ["Net", "0-11", "0-11.c", "d"]


@pytest.mark.parametrize(
    "line",
    [
        f"(a): Linear({'9' * 25} T = 1% Params, 1 GMACs = 1% MACs, 1 us = 1% latency, 1 TFLOPS)",
        "(a): Linear(1 K = 1% Params, 1 GMACs = 1% MACs, 99999999999999999999 s = 1% latency, 1 TFLOPS)",
        "(a): Linear(1 K = 1% Params, 1 XMACs = 1% MACs, 1 us = 1% latency, 1 TFLOPS)",
    ],
)
def test_numbers_that_cannot_be_are_dropped_with_their_line(line: str, tmp_path: Path) -> None:
    head = "-" * 26 + " DeepSpeed Flops Profiler " + "-" * 26 + "\nfwd latency:  1 ms\n"
    path = tmp_path / "x.txt"
    path.write_text(f"{head}{'-' * 30} Detailed Profile per GPU {'-' * 30}\nNet(\n  {line}\n)\n", "utf-8")
    trace = tracekit.read(path)
    assert rows(trace, "modules") == []
    assert sum(trace.ledgers[0].dropped.values()) == 1


def test_a_text_about_the_profiler_is_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("We used the DeepSpeed Flops Profiler to measure.\n", "utf-8")
    with pytest.raises(UnknownFormatError):
        tracekit.read(path)
