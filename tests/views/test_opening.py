"""The opening sentence: every input has one, its numbers are those of the headline, and it guesses no cause."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, corpus, read_sample, run_command, sample
from views.tables import trace as trace_of

import tracekit
from tracekit.errors import TracekitError
from tracekit.model.report import DeviceTime, Finding, Headline, Opening, StepTime, TimePart, TopName, TopNames
from tracekit.model.trace import Trace
from tracekit.model.units import format_bytes, sentence_span
from tracekit.views.findings.findings import RULES as FINDING_RULES
from tracekit.views.headline.opening import (
    CALLS,
    CAUSES,
    LONGEST,
    OPERATORS,
    RANGES,
    STACKS,
    OpeningFacts,
    about,
    opening_of,
)

EVERY = sorted(
    path.relative_to(SAMPLES).as_posix() for path in SAMPLES.glob("*/*.*") if not path.name.startswith("_")
)  # fmt: skip
ms = 1_000_000
_SHARE = re.compile(r"(less than |more than )?(\d+) %")
_TIME = re.compile(r"[\d,.]+ (?:ns|us|ms|s)\b")


FOLDERS = (
    "cuda_cmdline_profiler", "generated", "jax", "kineto", "mxnet", "nsys_sqlite", "nvprof_gputrace_csv",
    "nvprof_metrics_csv", "nvprof_metrics_txt", "nvprof_sqlite", "nvprof_summary_csv", "paddle_fluid",
    "paddle_profiler", "singa", "tensorflow", "theano",
)  # fmt: skip
"""Folders of public profiles."""
MOST_BYTES = 1_500_000


def headline_of_trace(trace: Trace) -> Headline:
    found = tracekit.summary(trace).headline
    assert found is not None
    return found


@functools.cache
def headline_of(name: str) -> Headline:
    return headline_of_trace(read_sample(name))


def shares_of(headline: Headline) -> Iterator[float]:
    """Yield every share that a sentence may quote."""
    for group in headline.devices:
        for part in group.parts:
            yield from (part.ns / group.window_ns, 1 - part.ns / group.window_ns, part.low, part.high)
    yield from (each.share for each in headline.findings)
    for top in filter(None, (headline.top, headline.below)):
        yield from (each.share for each in top.names if each.share is not None)
        for phase in ("Dataloader", "Forward", "Backward", "Optimization"):
            yield sum(each.share or 0.0 for each in top.names if each.name.startswith(f"{phase}, "))
    for quoted in headline.quoted:
        for column in quoted.columns:
            known = [cell for cell in column.values if isinstance(cell, int | float)]
            whole = headline.figure.value if headline.figure is not None else 0
            yield from known if not column.name.startswith("self_") else (cell / whole for cell in known)


def numbers_are_those_of(headline: Headline) -> None:
    opening = headline.opening
    assert opening is not None
    shares = {about(share) for share in shares_of(headline)}
    names = [each.name for top in filter(None, (headline.top, headline.below)) for each in top.names]
    text = opening.sentence
    for found in _SHARE.finditer(text):
        if not any(found[0] in name for name in names):
            assert found[0] in shares, (text, found[0])
    if headline.step is not None and opening.meaning.partition(" a step")[1]:
        step = headline.step
        unlike = step.p95_ns >= 3 * step.p5_ns > 0
        a_step = (
            f"{sentence_span(step.p5_ns)} to {sentence_span(step.p95_ns)}" if unlike else sentence_span(step.median_ns)
        )
        assert f"{a_step} a step" in opening.meaning
    if headline.figure is not None and headline.figure.unit.value == "bytes":
        assert format_bytes(headline.figure.value) in text


def reads_well(opening: Opening | None) -> None:
    assert opening is not None
    text = f"{opening.sentence} {opening.meaning}"
    assert opening.sentence.endswith(".")
    assert len(opening.sentence) <= LONGEST
    assert opening.sentence[:1] == opening.sentence[:1].strip() != ""
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|  |\.\.$|: \.|[{}]owner|\( ", text.replace("...", "")), text


def keeps_its_word(headline: Headline) -> None:
    """What the opening announces is there."""
    assert headline.opening is not None
    if headline.opening.meaning.endswith("is below."):
        assert headline.quoted or headline.top, headline.opening


@pytest.mark.parametrize("name", EVERY)
def test_every_sample_has_a_sentence_with_the_numbers_of_its_headline(name: str) -> None:
    headline = headline_of(name)
    reads_well(headline.opening)
    keeps_its_word(headline)
    numbers_are_those_of(headline)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_public_profile_has_a_sentence_with_the_numbers_of_its_headline(folder: str) -> None:
    read = 0
    for path in sorted(corpus(folder).rglob("*")):
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            continue
        with contextlib.suppress(TracekitError):  # figures and notes beside the profiles
            headline = tracekit.summary(tracekit.read(path)).headline
            if headline is not None:
                reads_well(headline.opening)
                keeps_its_word(headline)
                numbers_are_those_of(headline)
                read += 1
    assert read


GOLDEN = {
    "kineto/gpu.pt.trace.json": "The GPU waits 99 % of the steps: the program is still starting.",
    "nvprof-csv/gpu-trace-20-columns.csv": "The GPU is busy 98 % of the run.",
    "nvprof-csv/api-trace.csv": "GPU time is not known: this trace has only API calls.",
    "nvprof-csv/metrics.csv": "Metrics of 13 kernels, without times.",
    "nvprof-csv/peer-copies.csv": "The 2 GPUs wait 46 % of the run.",
    "nvprof-sqlite/version-11-markers.nvprof": (
        "The 2 GPUs wait more than 99 % of the run: long API calls stop the host."
    ),
    "nsys-sqlite/two-processes.sqlite": "GPU 0 waits 99 % of the steps: the program is still starting.",
    "ncu/details.csv": "gemm<float, (int)4> takes more than 99 % of the time of all kernels.",
    "xplane/tpu.xplane.pb": "The TPU waits 61 % of the run.",
    "xplane/gpu.xplane.pb": "The 2 GPUs wait 94 % of each step, and the trace does not show why.",
    "rocprof-csv/hcc_ops_trace_4242.csv": "For 54 % of the run the GPU only copies.",
    "rocprof-csv/roctx_trace_4242.csv": "Nothing here has a duration: this trace has points in time alone.",
    "recorder-log/rank0.jsonl": "Backward takes 50 % of each step.",
    "paddle-json/paddle26.paddle_trace.json": "Loading data takes 28 % of each step.",
    "kineto/cpu.pt.trace.json": "CPU only: aten::addmm itself takes 23 % of the time of all operators.",
    "torch-memory/two-gpus.pickle": "Memory peaked at 18.00 MiB, allocated on GPU 0.",
    "folded/py-spy.folded": "48 % of the 251 samples are in operator()(Tensor const&, int) itself.",
    "pprof/go-cpu.pb": "operator()(Tensor const&, int) itself takes 48 % of the sampled time.",
    "paddle-summary/paddle26-benchmark.txt": "This input has no times of kernels, operators or calls.",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_sentence_of(name: str) -> None:
    opening = headline_of(name).opening
    assert opening is not None
    assert opening.sentence == GOLDEN[name]


def test_a_phase_of_several_ranks_is_one() -> None:
    ranks = [sample(f"recorder-log/rank{number}.jsonl") for number in (0, 1)]
    opening = headline_of_trace(tracekit.read(ranks)).opening
    assert opening is not None
    assert opening.sentence == "Backward takes 50 % of each step."


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("ncu/details.csv", "It reaches 97 % of the compute peak and 41 % of the memory peak: compute is its limit."),
        ("xplane/tpu.xplane.pb", "Why is not known: 5 device events are too few to judge."),
        ("recorder-log/rank0.jsonl", "443.9 us a step. This is time of the host: GPU time is not known."),
    ],
)
def test_the_meaning_of(name: str, meaning: str) -> None:
    opening = headline_of(name).opening
    assert opening is not None
    assert opening.meaning == meaning


def device(idle: float, comm: float = 0.0, copies: float = 0.0, *, window: str = "steps", count: int = 1) -> DeviceTime:
    whole = 1000 * ms
    shares = {"compute": 1 - idle - comm - copies, "exposed_comm": comm, "exposed_copies": copies, "idle": idle}
    parts = tuple(TimePart(name, round(share * whole), share, share, share) for name, share in shares.items())
    return DeviceTime("GPU 0" if count == 1 else f"{count} devices", count, window, whole, parts)


def finding(rule: str, share: float, confidence: str = "medium", **more: Any) -> Finding:
    facts = {"owner": "", "claim": f"{rule}. And more.", "window_ns": 1000 * ms} | more
    return Finding(
        rule=rule, evidence=(), events=(), saving_ns=round(share * 1000 * ms), share=share, confidence=confidence,
        because="", advice="", check="", **facts,
    )  # fmt: skip


STEP = StepTime(10, 0, 1, 99 * ms, 100 * ms, 101 * ms, 100 * ms, 100 * ms)


def said(group: DeviceTime | None, *findings: Finding, step: StepTime | None = STEP, **more: Any) -> Opening:
    step = step if group is None or group.window == "steps" else None
    headline = Headline(step=step, run_ns=1000 * ms, devices=(group,) if group else (), findings=findings)
    return opening_of(OpeningFacts(headline, findings, **more))


class TestDeviceTime:
    def test_a_cause_is_named_where_it_explains_at_least_half_of_the_time(self) -> None:
        assert said(device(0.8), finding("launch-bound", 0.5)).sentence == (
            "The GPU waits 80 % of each step: the host launches too late."
        )
        other = said(device(0.8), finding("launch-bound", 0.3))
        assert other.sentence == "The GPU waits 80 % of each step."
        assert "At most 30 % is explained (launch-bound); the rest is not known." in other.meaning

    @pytest.mark.parametrize("rule", CAUSES)
    def test_low_confidence_reads_may(self, rule: str) -> None:
        part = {"exposed_comm": {"comm": 0.6}, "idle": {}, "exposed_copies": {}}[CAUSES[rule].parts[0]]
        group = device(0.1 if part else 0.6, **part)
        low = said(group, finding(rule, 0.6, "low", owner="rank 3"))
        sure = said(group, finding(rule, 0.6, "medium", owner="rank 3"))
        assert low.rule == sure.rule == rule
        assert "may" in low.sentence
        assert "may" not in sure.sentence
        reads_well(low)
        reads_well(sure)

    def test_every_cause_is_a_rule_of_findings(self) -> None:
        known = {rule.name for rule in FINDING_RULES} | {"profiler overhead"}
        assert set(CAUSES) <= known, set(CAUSES) - known

    def test_launches_that_keep_up_leave_the_work_alone(self) -> None:
        found = said(device(0.762), finding("launch-bound", 0.8))
        assert found.meaning == (
            "100 ms a step. If launches kept up, the same work would need about 24 ms. Do not tune the kernels first."
        )
        kernel = finding("expensive kernel", 0.2)
        assert "tune" not in said(device(0.762), finding("launch-bound", 0.8), kernel).meaning

    def test_a_saving_is_a_part_of_the_steps_where_the_run_begins_before_them(self) -> None:
        # 10 steps of 100 ms in a window of 2 s: what saves 0.8 s saves 80 % of each step, and 40 % of the window.
        half = finding("data loading", 0.4, window_ns=2000 * ms)
        early = dataclasses.replace(half, saving_ns=800 * ms)
        assert said(device(0.8), early).meaning == "100 ms a step. Without this, it would be 20 ms at best."
        busy = dataclasses.replace(early, rule="fp32 arithmetic")
        assert said(device(0.03), busy).meaning.endswith(" fp32 arithmetic, at most 80 %.")
        every = dataclasses.replace(busy, saving_ns=1200 * ms)
        assert said(device(0.03), every).meaning.endswith("The first thing that could save time: fp32 arithmetic.")

    def test_what_happens_once_is_not_said_of_each_step(self) -> None:
        assert said(device(0.6), finding("host pauses", 0.6)).sentence.startswith("The GPU waits 60 % of the steps: ")

    def test_idle_time_without_a_cause_is_not_known(self) -> None:
        unknown = said(device(0.6), finding("idle, cause not in the trace", 0.6, "low"))
        assert unknown.sentence == "The GPU waits 60 % of each step, and the trace does not show why."
        assert said(device(0.6)).meaning.endswith("Why is not known: no rule found a reason.")

    @pytest.mark.parametrize(
        ("recorded", "advice"),
        [
            ((), "Record host operators and API calls too, or put ranges around host work."),
            ((CALLS,), "Record host operators too, or put ranges around host work."),
            ((CALLS, RANGES), "Record host operators too."),
            ((OPERATORS,), "Record API calls too, or put ranges around host work."),
            ((OPERATORS, CALLS), "Record Python stacks too, or put ranges around host work."),
            ((OPERATORS, CALLS, RANGES), "Record Python stacks too, or put more ranges around host work."),
            ((OPERATORS, CALLS, STACKS), "Put ranges around host work."),
            ((OPERATORS, CALLS, RANGES, STACKS), "Put more ranges around host work."),
        ],
    )
    def test_only_what_the_trace_lacks_is_advised(self, recorded: tuple[str, ...], advice: str) -> None:
        lack = finding("idle, cause not in the trace", 0.6, "low")
        assert said(device(0.6), lack, recorded=frozenset(recorded)).meaning == f"100 ms a step. {advice}"

    def test_a_server_may_wait_for_requests(self) -> None:
        found = said(device(0.6, window="run"), finding("idle, cause not in the trace", 0.6, "low"))
        assert (
            found.meaning == "If the program waits for requests, nothing is wrong; else record what the host does, too."
        )

    def test_a_busy_device_is_no_alarm(self) -> None:
        found = said(device(0.03))
        assert (found.rule, found.sentence) == ("busy", "The GPU is busy 97 % of each step.")
        assert found.meaning == "100 ms a step. No rule found time to save."
        assert said(device(0.0)).sentence == "The GPU is busy 100 % of each step."
        assert said(device(0.0001)).sentence == "The GPU is busy more than 99 % of each step."

    def test_a_little_idle_time_without_a_reason_is_no_alarm(self) -> None:
        assert said(device(0.15)).sentence == "The GPU is busy 85 % of each step."
        assert said(device(0.15), finding("data loading", 0.1)).sentence.startswith("The GPU waits 15 % of each step: ")
        assert said(device(0.2)).sentence == "The GPU waits 20 % of each step."

    def test_steps_that_are_unlike_have_a_range(self) -> None:
        unlike = StepTime(2, 0, 1, ms, ms, 9 * ms, ms, ms)
        assert said(device(0.03), step=unlike).meaning.startswith("1 ms to 9 ms a step. ")

    def test_a_trend_of_a_busy_device_is_said(self) -> None:
        assert said(device(0.03), finding("slower and slower", 0.2)).sentence == (
            "The GPU is busy 97 % of each step, but it gets slower and slower."
        )

    def test_the_largest_part_is_said(self) -> None:
        assert said(device(0.2, comm=0.3)).sentence == "For 30 % of each step the GPU only communicates."
        assert said(device(0.2, copies=0.3)).sentence == "For 30 % of each step the GPU only copies."
        late = finding("straggler", 0.2, owner="rank 5")
        assert said(device(0.1, comm=0.3, count=8), late).sentence == (
            "For 30 % of each step the 8 GPUs only communicate: rank 5 comes late."
        )
        group = finding("straggler", 0.2, owner="rank 4", claim="Ranks 4-7 come late together to 24 of 24 collectives.")
        assert said(device(0.1, comm=0.3, count=8), group).sentence.endswith(": ranks 4-7 come late.")

    def test_where_rows_are_missing_idle_time_is_no_alarm(self) -> None:
        lost = finding("lost rows", 0.0, "high", claim="Rows are missing: 4 launches without a kernel. And more.")
        found = said(device(0.6), lost, finding("launch-bound", 0.6))
        assert found.sentence == "The GPU is busy 40 % of each step or more: rows of its work are missing."
        assert found.meaning == "Rows are missing: 4 launches without a kernel."
        several = said(device(0.3, count=8), lost).sentence
        assert several == "The 8 GPUs are busy 70 % of each step or more: rows of their work are missing."
        assert said(None, lost).sentence == "GPU time is not known: rows of its work are missing."
        perhaps = dataclasses.replace(lost, confidence="low")
        assert said(None, perhaps).sentence == "GPU time is not known: rows of its work may be missing."
        assert said(device(0.996), perhaps).sentence == (
            "The trace shows the GPU busy for less than 1 % of each step: rows of its work may be missing."
        )


class TestWithoutDevices:
    def test_an_empty_trace_says_so(self) -> None:
        headline = Headline(run_note="no events")
        assert opening_of(OpeningFacts(headline, has_events=False)).sentence == "This trace is empty: it has no events."

    def test_lost_records_come_first(self) -> None:
        assert said(device(0.9), finding("launch-bound", 0.9), lost=True).rule == "lost records"

    @pytest.mark.parametrize("name", ["x" * 400, "", "void a::b<c, d>(e) [clone]" * 9, "名" * 200])
    @pytest.mark.parametrize("count", [1, 2])
    def test_long_names_leave_room_for_the_sentence(self, name: str, count: int) -> None:
        for view, title in [("operator", "operators"), ("user_defined", "user ranges"), ("model", "phases and layers")]:
            top = TopNames(view, "self", title, "", 100, count, (TopName(name, 90, 1, 0.9),))
            headline = Headline(run_ns=5, top=top)
            reads_well(opening_of(OpeningFacts(headline, on_cpu=True)))

    def test_filters_that_nothing_passes(self) -> None:
        assert opening_of(OpeningFacts(Headline(), filtered=True, has_events=False)).rule == "filters"


def test_json_and_terminal_have_the_same_sentence(tmp_path: Path) -> None:
    path = sample("kineto/gpu.pt.trace.json")
    found = json.loads(run_command("summary", path, "--format", "json").stdout)["headline"]["opening"]
    assert found["sentence"] == GOLDEN["kineto/gpu.pt.trace.json"]
    assert found["rule"] == "start-up"
    assert run_command("summary", path).stdout.splitlines()[0] == found["sentence"]
    run_command("report", path, "-o", tmp_path / "page.html")
    assert f'<p class="sentence">{found["sentence"]}</p>' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_idle_device_of_a_real_program_is_judged_as_its_parts_are() -> None:
    rows: list[dict[str, Any]] = [
        {"ts_ns": 1000 * i, "dur_ns": 990, "kind": "kernel", "name": "k", "device": 0, "stream": 7} for i in range(100)
    ]
    headline = tracekit.summary(trace_of(*rows)).headline
    assert headline is not None
    assert headline.opening is not None
    assert headline.opening.sentence == "The GPU is busy 99 % of the run."
