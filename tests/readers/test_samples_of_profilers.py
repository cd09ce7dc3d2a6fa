"""Stacks of sampling profilers: folded, speedscope, Firefox, pprof; real files, ours, damage, the view, the page."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, corpus_next, run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.model.report import Flame
from tracekit.model.trace import Trace

OURS = (
    "folded/py-spy.folded", "folded/powershell.txt", "speedscope/py-spy.speedscope.json", "firefox/samply.json",
    "firefox/gecko.json", "pprof/go-cpu.pb",
)  # fmt: skip


def sums(trace: Trace) -> tuple[int, int, float]:
    """The samples, the ns and the other weights of all rows."""
    rows = trace.totals.to_pylist()
    samples = sum(json.loads(row["args"])["samples"] for row in rows)
    return samples, sum(row["total_ns"] or 0 for row in rows), sum(row["value_avg"] or 0 for row in rows)


def stacks(trace: Trace) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for row in trace.totals.to_pylist():
        path = tuple(json.loads(row["args"])["frames"])
        found[path] = found.get(path, 0) + (row["value_avg"] if row["total_ns"] is None else row["total_ns"])
    return found


REAL = {
    "folded_perf_vertx.txt.gz": ("folded", 199, 0, 285),
    "folded_java_faults.txt": ("folded", 12, 0, 200),
    "folded_time_simpleperf.txt": ("folded", 45, 0, 152_364),
    "folded_flat_depth1.txt": ("folded", 32, 0, 70_275),
    "folded_utf16le.txt": ("folded", 5, 0, 14),
    "folded_crlf.txt": ("folded", 5, 0, 14),
    "folded_with_invalids.txt": ("folded", 5, 0, 14),
    "folded_alternating.txt": ("folded", 182, 0, 182),
    "speedscope_evented.speedscope.json": ("speedscope", 0, 0, 14),
    "speedscope_two_sampled.speedscope.json": ("speedscope", 10, 28_000_000_000, 0),
    "pyspy_0.4.1.speedscope.json.gz": ("speedscope", 5091 - 336, (5091 - 336) * 1_000_000, 0),
    "samply_v55.json.gz": ("firefox", 670, 0, 670),
    "samply_v49.json.gz": ("firefox", 2539, 0, 8234),
    "firefox_processed_v24.json": ("firefox", 21, 0, 21),
    "firefox_processed_v0.json": ("firefox", 21, 0, 21),
    "firefox_gecko_v13.json": ("firefox", 21, 0, 21),
    "firefox63_devtools.json.gz": ("firefox", 39, 0, 39),
    "firefox79_devtools.json.gz": ("firefox", 483, 0, 483),
    "pprof_go_cpu.pb.gz": ("pprof", 9, 1_500_000_000, 0),
    "pprof_hand.pb.gz": ("pprof", 5, 0, 38),
    "pprof_cpp_unsymbolized.pb.gz": ("pprof", 52, 7_120_000_000, 0),
}
"""Reader, samples, ns, other weights: counted apart (SOURCES.md of the corpus). The raw profile has 7 in its child."""


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_sums_that_were_counted_apart(name: str) -> None:
    path = corpus_next(f"samples/{name}")
    reader, *want = REAL[name]
    trace = tracekit.read(path)
    assert sure_readers(path) == [reader]
    assert list(sums(trace)) == want
    assert trace.ledgers[0].dropped == {}


@pytest.mark.corpus
def test_cpu_time_and_markers_of_samply_are_counted() -> None:
    for name, cpu, markers, threads in (("samply_v55", 474_709_000, 537, 48), ("samply_v49", 2_508_771_000, 0, 1)):
        trace = tracekit.read(corpus_next(f"samples/{name}.json.gz"))
        facts = trace.run.sources[0].facts
        assert (facts["cpu_ns"], facts["threads"]) == (cpu, threads)
        assert trace.ledgers[0].ignored.get("markers", 0) == markers


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "why"), [("bad_open", "never closed"), ("bad_order", "not the innermost open one")])
def test_profiles_that_do_not_nest_are_refused_with_their_reason(name: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        tracekit.read(corpus_next(f"samples/speedscope_{name}.json"))


def generated() -> tuple[tuple[tuple[str, ...], int], ...]:
    return tuple(runpy.run_path(str(SAMPLES / "_samples.py"))["STACKS"])


@pytest.mark.parametrize("name", OURS)
def test_ours_have_the_stacks_of_their_generator(name: str) -> None:
    want = {stack: float(count) for stack, count in generated()}
    trace = tracekit.read(sample(name))
    found = stacks(trace)
    if name.startswith("folded"):
        want["main", "train", "backward"] += 1
    elif name.startswith("speedscope"):
        want = {tuple(f"{frame} (train.py)" for frame in stack): n * 10_000_000 for stack, n in want.items()}
        want["main (train.py)",] += 500_000_000
        want["main (train.py)", "train (train.py)"] = 750_000_000
    elif name == "firefox/gecko.json":
        want = dict.fromkeys(want, 2.0)
    elif name.startswith("pprof"):
        want = {stack: n * 10_000_000 for stack, n in want.items()} | {("train 0x4f2a10",): 10_000_000}
    assert found == want
    assert trace.ledgers[0].dropped == {}


def test_the_generator_writes_the_committed_files_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_samples.py"), str(tmp_path)], check=True)
    assert [name for name in OURS if (tmp_path / name).read_bytes() != sample(name).read_bytes()] == []


def test_the_view_counts_a_function_once_a_sample_and_its_own_apart() -> None:
    table = tracekit.view(sample("folded/py-spy.folded"), "samples").to_pandas().set_index("name")
    assert table.loc["backward", "self_samples"] == 81
    assert table.loc["backward", "total_samples"] == 81, "it calls itself in 5 samples, which count once"
    assert table.loc["main", "total_samples"] == 234
    assert table["self_samples"].sum() == 251
    times = tracekit.view(sample("pprof/go-cpu.pb"), "samples").to_pandas().set_index("name")
    assert times.loc["main", "total"] == 2_330_000_000


def test_threads_have_blocks_when_they_are_asked_for() -> None:
    out = run_command(
        "summary", sample("speedscope/py-spy.speedscope.json"), "--view", "samples", "--thread-sep", width=200
    )
    assert "Thread 1" in out.stdout
    assert "Thread 2" in out.stdout


def test_the_flame_graph_has_every_stack() -> None:
    from tracekit import pipeline

    trace = tracekit.read(sample("folded/py-spy.folded"))
    report = pipeline.report(trace)
    (flame,) = [f for section in report.sections for f in section.figures if isinstance(f, Flame)]
    found = {}
    for place, own in enumerate(flame.new):
        path, at = [flame.names[place]], flame.parents[place]
        while at >= 0:
            path, at = [flame.names[at], *path], flame.parents[at]
        if own:
            found[tuple(path)] = float(own)
    assert found == stacks(trace)
    assert flame.unit == "samples"


@pytest.mark.viewer
def test_the_page_draws_the_samples_as_wide_as_they_are_many(tmp_path: Path) -> None:
    from viewers import chromium_page

    path = tmp_path / "r.html"
    run_command("report", sample("folded/py-spy.folded"), "-o", path)
    seen = chromium_page(path, script="window.tracekit.flame.drawn.shown")
    assert (seen.console, seen.page_errors, seen.requests) == ([], [], [])
    drawn = {(name, y): width for name, _, y, width, _ in seen.value}
    assert drawn["main", 18] / drawn["", 0] == pytest.approx(234 / 251, abs=1e-3)
    assert drawn["worker", 18] / drawn["", 0] == pytest.approx(17 / 251, abs=1e-3)


NOT_STACKS = (
    "int a = 5;\nreturn a;\nx = 7; y 5\n", "step 1\nstep 2\nstep 3\n", "a;b;c\n1;2;3\n4;5;6\n", "hello world 1\n",
    "epoch 7 loss 0.5 accuracy 1\n" * 5, "Time;Calls;Name\n1,5;3;gemm 5\n2,5;3;relu 7\n",
)  # fmt: skip


@pytest.mark.parametrize("text", NOT_STACKS)
def test_other_text_with_numbers_is_not_taken_for_stacks(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8")
    assert "folded" not in sure_readers(path)


BACK = [{"type": "O", "frame": 0, "at": 2}, {"type": "C", "frame": 0, "at": 1}]
BAD: dict[str, dict[str, Any]] = {
    "no weights": {"profiles": [{"type": "sampled", "samples": [[0]], "weights": []}]},
    "frames that are not there": {"profiles": [{"type": "sampled", "samples": [[7], ["x"], 3], "weights": [1, 1, 1]}]},
    "no profiles": {"profiles": 7},
    "times that go back": {"profiles": [{"type": "evented", "events": BACK}]},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_speedscope_file_without_a_sound_profile_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    schema = {"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": "a"}]}}
    path.write_text(json.dumps(schema | BAD[name]), encoding="utf-8")
    with pytest.raises(ParseError):
        tracekit.read(path)


def test_a_line_of_dots_among_stacks_is_no_stack(tmp_path: Path) -> None:
    (tmp_path / "x.folded").write_text("...\nmain;f 3\nmain;g 4\nmain;f;h 5\n")
    assert tracekit.inspect(tmp_path / "x.folded").inputs[0]["format"] == "folded"


def test_blanks_within_a_line_of_stacks_cost_no_time(tmp_path: Path) -> None:
    path = tmp_path / "x.folded"
    path.write_text(f"main;f 3\nmain;{' ' * 200_000}g\nmain;{' ' * 200_000}h 4\n")
    assert len(tracekit.read(path).totals) == 2
