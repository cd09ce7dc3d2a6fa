"""An input that was cut gets no advice to record again what may be behind the cut: all views and the first screen."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.index.trace_index import TraceIndex
from tracekit.views.advice import is_cut

ADVICE = re.compile(
    r"\b[Rr]ecord (?!could|of|was|is|has)\w+|with_stack|with_modules|record_shapes|profile_memory|ProfilerActivity"
    r"|--trace="
)
Event = dict[str, Any]


def event(name: str, cat: str, at: int, dur: int, **args: Any) -> Event:
    device = cat in ("kernel", "gpu_memcpy")
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 0 if device else 1,
        "tid": 7,
        "ts": at,
        "dur": dur,
        "args": args,
    }


def trace(*events: Event) -> str:
    return json.dumps({"schemaVersion": 1, "traceEvents": list(events)}, indent=0)


def host(steps: bool = True, calls: bool = True, operators: bool = True) -> list[Event]:
    rows: list[Event] = []
    for number in range(8):
        at = 1000 * number
        rows += [event(f"ProfilerStep#{number}", "user_annotation", at, 990)] * steps
        rows += [event("aten::mm", "cpu_op", at + 10, 900)] * operators
        rows += [event("cudaLaunchKernel", "cuda_runtime", at + 20, 5, correlation=number + 1)] * calls
    return rows


def kernels(count: int = 8) -> list[Event]:
    return [event("gemm", "kernel", 1000 * n + 30, 20, correlation=n + 1, device=0, stream=7) for n in range(count)]


def cut_behind(rows: list[Event], lost: list[Event]) -> str:
    """The text of a trace whose last rows are lost: it ends within the first of them."""
    text = trace(*rows, *lost)
    return text[: len(trace(*rows)) + 20]


CUT: dict[str, Callable[[], str]] = {
    "before the device rows": lambda: cut_behind(host(), kernels()),
    "no steps": lambda: cut_behind(host(steps=False), kernels()),
    "only API calls": lambda: cut_behind(host(steps=False, operators=False), kernels()),
    "only steps": lambda: cut_behind(host(calls=False, operators=False), kernels()),
    "within the device rows": lambda: cut_behind([*host(), *kernels(3)], kernels()[3:]),
    "before the host rows": lambda: cut_behind(kernels(), host()),
    "only moments": lambda: cut_behind(
        [{"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 5, "s": "t"} for _ in range(9)], host()
    ),
}


def all_said(path: Path) -> str:
    report = tracekit.summary(tracekit.read(path), views=("all",))
    said = [note for section in report.sections for note in section.notes]
    said += [text for section in report.sections for each in section.findings for text in (each.claim, each.advice)]
    first = tracekit.summary(tracekit.read(path)).headline
    assert first is not None
    assert first.opening is not None
    said += [str(first.opening), first.devices_note, first.findings_note, first.run_note]
    return "\n".join(said)


@pytest.mark.parametrize("name", CUT)
def test_no_view_and_no_first_screen_tells_to_record_what_may_be_behind_the_cut(name: str, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(CUT[name]())
    assert is_cut(TraceIndex(tracekit.read(path)))
    said = all_said(path)
    assert not ADVICE.search(said), ADVICE.findall(said)


def test_a_compressed_trace_that_was_cut_counts_as_well(tmp_path: Path) -> None:
    packed = gzip.compress(trace(*host(), *[event(f"k{n}", "kernel", n, 1) for n in range(9000)]).encode(), mtime=0)
    path = tmp_path / "cut.json.gz"
    path.write_bytes(packed[: len(packed) // 40])
    assert not ADVICE.search(all_said(path))


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        (host(), "ProfilerActivity.CUDA"),
        (host(steps=False, operators=False), "Record GPU activity too"),
        (kernels(), "record_shapes=True"),
    ],
    ids=["host", "calls", "device"],
)
def test_a_whole_trace_is_told_what_to_record(rows: list[Event], advice: str, tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    path.write_text(trace(*rows))
    assert not is_cut(TraceIndex(tracekit.read(path)))
    assert advice in all_said(path)


def test_launches_whose_kernels_the_cut_took_are_not_said_to_be_lost_by_the_profiler(tmp_path: Path) -> None:
    """Kernels in any order: half of them are behind the cut, so that half of the launches have none."""
    shuffled = kernels()[::2] + kernels()[1::2]
    path = tmp_path / "cut.json"
    path.write_text(cut_behind([*host(), *shuffled[:4]], shuffled[4:]))
    report = tracekit.summary(tracekit.read(path), views=("findings",))
    assert not [each for section in report.sections for each in section.findings if each.rule == "lost rows"]
    path.write_text(trace(*host(), *shuffled[:4]))
    report = tracekit.summary(tracekit.read(path), views=("findings",))
    assert [each.rule for section in report.sections for each in section.findings if each.rule == "lost rows"]
