"""Printed reports in logs, notebooks and documents: what stands around their lines is taken away, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import sample

import tracekit
from tracekit.formats import READERS
from tracekit.model.trace import Ledger
from tracekit.readers.base import ReadOptions
from tracekit.readers.printed.pasted import Plain
from tracekit.readers.source import open_source

MARK = re.compile(r"Function profiling\s*$")


@pytest.mark.parametrize(
    ("title", "line", "words"),
    [
        ("2. Function profiling", "64.5%  0.1s", "64.5%  0.1s"),
        ("2. Function profiling", "3. Message", "Message"),
        ("2. Function profiling", "3.", ""),
        ("1 Function profiling", "64.5%  0.1s", "64.5%  0.1s"),
        ("1 Function profiling", "64  0.1s", " 0.1s"),
        ("12Function profiling", "64.5%", "64.5%"),
        ("12Function profiling", "13  64.5%", "  64.5%"),
        ("> Function profiling", ">64.5%", "64.5%"),
        ("> Function profiling", ">   64.5%", "  64.5%"),
        ("+Function profiling", "+  64.5%", "  64.5%"),
        ("[12:00:01] Function profiling", "[12:00:02]   64.5%", "  64.5%"),
        ("a: Function profiling", "b: 64.5%", "b: 64.5%"),
    ],
)
def test_a_prefix_is_taken_from_lines_that_have_it_whole(title: str, line: str, words: str) -> None:
    plain = Plain(MARK)
    assert plain.of(title) == (None, "Function profiling")
    assert plain.of(line) == (None, words)


def test_rows_below_a_numbered_heading_keep_their_shares(tmp_path: Path) -> None:
    text = sample("theano/theano-1.0.5.txt").read_text(encoding="utf-8")
    rows = [line.strip() for line in text.splitlines()]
    path = tmp_path / "x.txt"
    path.write_text("\n".join(rows), encoding="utf-8")
    want = tracekit.read(path).totals.to_pylist()
    path.write_text("\n".join(rows).replace("Function profiling", "3. Function profiling"), encoding="utf-8")
    assert tracekit.read(path).totals.to_pylist() == want


PRINTED = (
    "mxnet-table/mxnet19.txt", "fluid-report/all.txt", "paddle-summary/gpu.txt", "caffe-time/gpu.log",
    "singa/verbosity-1.txt", "theano/theano-1.0.5.txt", "torch-table/cuda.txt",
)  # fmt: skip


@pytest.mark.parametrize("name", PRINTED)
def test_a_report_in_a_notebook_is_known_and_read_as_it_was_printed(name: str, tmp_path: Path) -> None:
    text = sample(name).read_text(encoding="utf-8")
    output = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
    notebook = {"cells": [{"cell_type": "code", "outputs": [output], "source": []}], "nbformat": 4}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(notebook, indent=1), encoding="utf-8")
    assert tracekit.read(path).totals.equals(tracekit.read(sample(name)).totals)


@pytest.mark.parametrize("name", PRINTED)
def test_a_coloured_report_is_known_and_read_as_a_plain_one(name: str, tmp_path: Path) -> None:
    lines = sample(name).read_text(encoding="utf-8").splitlines()
    path = tmp_path / "x.txt"
    path.write_text("".join(f"\x1b[38;5;1m{line}\x1b[0m\x1b[K\n" for line in lines), encoding="utf-8")
    assert tracekit.read(path).totals.equals(tracekit.read(sample(name)).totals)


BEHIND_LOGS = (*PRINTED, "nvprof-text/summary.txt")


@pytest.mark.parametrize(
    ("name", "tag"),
    [*((name, tag) for name in BEHIND_LOGS for tag in ("", "[1,0]<stdout>:")), ("mxnet-table/mxnet19.json", "")],
)
def test_a_report_behind_a_long_log_is_read_as_it_was_printed(name: str, tag: str, tmp_path: Path) -> None:
    report = sample(name).read_text(encoding="utf-8").splitlines()
    lines = ["step 1: the loss is 0.1", *[f"step {n}: the loss is 0.05" for n in range(10_000)], *report]
    path = tmp_path / "x.txt"
    path.write_text("".join(f"{tag}{line}\n" for line in lines), encoding="utf-8")
    got, want = tracekit.read(path), tracekit.read(sample(name))
    same = [c for c in want.totals.column_names if c != "rank"]
    assert got.totals.select(same).equals(want.totals.select(same))
    assert got.totals["rank"].to_pylist() == [0 if tag else None] * len(want.totals)


SAMPLES = (
    "mxnet-table/mxnet19.txt",
    "torch-table/cuda.txt",
    "torch-table/cpu-stacks-and-flops.txt",
    "fluid-report/all.txt",
    "fluid-report/paddle18-alloc.txt",
    "caffe-time/gpu.log",
    "singa/verbosity-3-two-ranks.txt",
    "theano/theano-1.0.5.txt",
    "paddle-summary/gpu.txt",
    "paddle-summary/paddle3-threads-us.txt",
    "paddle-summary/paddle26-benchmark.txt",
    "paddle-summary/paddle3-memory.txt",
    "nvprof-text/summary.txt",
    "nvprof-text/gpu-trace.txt",
    "nvprof-text/events.txt",
    "nvprof-csv/gpu-trace-20-columns.csv",
    "nsys-stats-csv/columns.txt",
    "nsys-stats-csv/sums.csv",
    "cuda-profile/kvp.log",
    "cuda-profile/csv.log",
)
LONG = 40_000
HOSTILE = (
    "a" + " " * LONG + "b", " " * LONG + "b", "\t" * LONG + "b", "\xa0" * LONG + "b", "1 " * LONG + "x", "1" * LONG,
    *["1 " * 2040 + "x"] * 20, "-" * LONG + "x", "-- " * LONG + "x", "\x1b[" * LONG, "> " * LONG + "x", '"' * LONG,
    "- / " * LONG, "| " * LONG, "," * LONG, "\tforward: " * LONG + " ms.", *["CUDA API " * 400 + "Statistics"] * 20,
    "Self CPU time total:" + "*" * LONG + "x x", "-Thread: x" + "-" * LONG + "y", "GPU activities:" + " " * LONG + "x",
    "** " + "(a:" * LONG, "Processing [a] with [" + "/a:" * LONG,
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_long_lines_take_time_by_their_length_alone(name: str, tmp_path: Path) -> None:
    """Wherever they stand: in all parts of a report."""
    report = sample(name).read_text(encoding="utf-8").splitlines()
    step = max(4, len(report) // 4)
    lines = [line for at in range(0, len(report), step) for line in (*report[at : at + step], *HOSTILE)]
    path = tmp_path / "x.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_source(str(path)) as source:
        ledger = Ledger()
        for _ in READERS[name.partition("/")[0]].read(source, ReadOptions(), ledger).batches:
            pass
    assert ledger.read == ledger.kept + ledger.merged + ledger.facts + sum(ledger.dropped.values()) + sum(
        ledger.ignored.values()
    )
