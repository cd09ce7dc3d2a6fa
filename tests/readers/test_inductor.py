"""Bandwidth lines of TorchInductor: figures equal those that a generator knows, and hostile lines are no kernels."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import _text_summaries as made
import pytest
from support import read_sample

import tracekit
from tracekit.errors import TracekitError, UnknownFormatError


def totals(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "out.log"
    path.write_text(text, encoding="utf-8", newline="")
    return tracekit.read(path).totals.to_pylist()


def test_each_line_of_a_log_is_a_kernel_of_its_rank() -> None:
    found = read_sample("inductor-bandwidth/log-of-two-ranks.log").totals.to_pylist()
    # The generator's own numbers, less the digits that are printed.
    rng = random.Random(1)
    wanted = []
    for rank in range(2):
        wanted += [(rank, rank, name, int(f"{ms:.3f}".replace(".", "")) * 1000) for ms, _, name in made.kernels(rng, 6)]
        rng.random()
    assert [(row["run"], row["rank"], row["name"], row["total_ns"]) for row in found] == wanted
    assert {row["kind"] for row in found} == {"kernel"}


def test_calls_of_a_kernel_add_up_and_small_sizes_are_not_known(tmp_path: Path) -> None:
    lines = [(0.5, 0.25, "triton_a_0"), (0.7, 0.25, "triton_a_0"), (0.1, 0.0001, "triton_b_1")]
    text = "".join(made.bandwidth(ms, size, f" \t 9.99% \t {name}") + "\n" for ms, size, name in lines)
    first, second = totals(text, tmp_path)
    assert [first[key] for key in ("calls", "total_ns", "min_ns", "max_ns", "bytes")] == [
        2, 1_200_000, 500_000, 700_000, 500_000_000,
    ]  # fmt: skip
    assert "gb_per_s" not in json.loads(first["args"] or "{}")
    assert (second["calls"], second["bytes"], json.loads(second["args"])["gb_per_s"]) == (1, None, 1.0)


def test_a_benchmark_has_registers_and_the_key_of_the_kernel() -> None:
    found = read_sample("inductor-bandwidth/benchmark.txt").totals.to_pylist()
    assert len(found) == 5
    assert all(row["name"][:3] in ("POI", "RED", "PER") for row in found)
    assert json.loads(found[0]["args"])["registers"] == 36


def test_configurations_that_were_only_tried_are_no_kernels(tmp_path: Path) -> None:
    numbers = "  0.500ms    \t0.250 GB \t  500.00GB/s   36 regs    0 spills   0 shared mem @ X"
    text = f"gpt2                 POI c0aaaaaaaa\n{numbers}\n"
    with pytest.raises(TracekitError):
        totals(text, tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "copied 0.123ms    0.012 GB    104.30GB/s at best",
        "0.123ms 0.012 GB 104.30MB/s triton_a",
        "rate 104.30GB/s",
        "0.123ms    0.012 GB    104.30GB/s",
        "9" * 400 + ".123ms    0.012 GB    104.30GB/s    x",
    ],
)
def test_other_lines_with_rates_are_no_kernels(line: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError):
        totals(line + "\n", tmp_path)


def test_a_line_that_was_cut_is_dropped(tmp_path: Path) -> None:
    text = "".join(made.bandwidth(0.5, 0.25, f" \t triton_a_{at}") + "\n" for at in range(2))[:-2]
    path = tmp_path / "out.log"
    path.write_bytes(text.encode())
    trace = tracekit.read(path)
    assert [row["name"] for row in trace.totals.to_pylist()] == ["triton_a_0"]
    assert sum(trace.ledgers[0].dropped.values()) == 1


def test_lines_in_the_middle_of_a_long_log_are_found(tmp_path: Path) -> None:
    line = made.bandwidth(0.5, 0.25, " \t triton_a_0") + "\n"
    assert len(totals("a line of a log\n" * 9000 + line + "a line of a log\n" * 90_000, tmp_path)) == 1
