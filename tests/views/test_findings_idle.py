"""Idle time of the device is always answered: by a cause, or by a finding that says what the trace shows of it."""

from __future__ import annotations

import pytest
from views.hosts import call, op, work
from views.tables import Row, trace
from views.test_findings import FINDINGS, MS, US, found, one, step

from tracekit.model.report import Finding, FindingEvents
from tracekit.model.trace import Run, SourceFacts
from tracekit.views.base import ViewOptions

IDLE = "idle, cause not in the trace"


def rounds(
    count: int = 12,
    *,
    gap: int = 0,
    kernels: int = 6,
    kernel: int = 100 * US,
    operators: bool = True,
    calls: bool = True,
    steps: bool = False,
    wait: bool = True,
    between: list[Row] | None = None,
    gap_of: dict[int, int] | None = None,
) -> list[Row]:
    """Rounds of kernels with a wait for their result, and a gap after each. between: rows of a gap, from its start."""
    rows: list[Row] = []
    at = free = correlation = 0
    for number in range(count):
        begin = at
        for _ in range(kernels):
            correlation += 1
            begun = max(at + 12 * US, free)
            free = begun + kernel
            if operators:
                rows.append(op("aten::mm", at, at + 10 * US))
            if calls:
                rows.append(call(correlation, at + 4 * US, at + 9 * US))
            rows.append(work("gemm", correlation, begun, free))
            at += 11 * US
        if wait:
            if calls:
                rows.append(op("cudaStreamSynchronize", at, free + US, "runtime", correlation=10_000 + number))
            at = free + 2 * US
        took = gap if gap_of is None else gap_of.get(number, 0)
        if took:
            rows += [{**row, "ts_ns": at + int(row["ts_ns"])} for row in between or []]
        at += took
        if steps:
            rows.append(step(number, begin, at))
    return rows


def length(rows: list[Row]) -> int:
    return max(int(row["ts_ns"]) + int(row["dur_ns"]) for row in rows)


def rules(rows: list[Row]) -> dict[str, Finding]:
    return {each.rule: each for each in FINDINGS(trace(*rows), ViewOptions()).findings}


@pytest.mark.parametrize("gap", [3 * MS, 1_200 * US])
@pytest.mark.parametrize("operators", [True, False])
def test_what_a_scheduler_does_between_tokens_is_idle_time_without_a_cause(gap: int, operators: bool) -> None:
    ill, cured = rounds(gap=gap, operators=operators), rounds(operators=operators)
    true = length(ill) - length(cured)
    finding = one(trace(*ill), IDLE)
    assert finding.confidence == "low"
    assert 0.98 * true <= finding.saving_ns <= 1.25 * true
    assert "regular: one every" in finding.claim
    assert "after gemm, before gemm" in finding.claim
    runs = "no operator, call or range runs" if operators else "no call or range runs"
    assert f"{runs} on the threads that launch" in finding.claim


def test_regular_pauses_outside_steps_may_be_requests_and_the_first_sentence_says_so() -> None:
    first = one(trace(*rounds(gap=3 * MS)), IDLE).claim.split(". ")[0]
    assert first.endswith("no rule explains it; if these are waits for requests, this is not a problem")
    assert not found(trace(*rounds(gap=3 * MS)), "host pauses")


def test_one_long_pause_or_a_start_is_no_wait_for_requests() -> None:
    one_long = dict.fromkeys(range(8), 2 * MS) | {4: 200 * MS}
    assert "requests" not in one(trace(*rounds(gap_of=one_long)), IDLE).claim
    late = [op("cudaStreamSynchronize", 0, 2 * US, "runtime", correlation=1), *shifted(rounds(gap=MS), 300 * MS)]
    assert "requests" not in one(trace(*late), IDLE).claim


def test_pauses_at_irregular_times_are_not_called_regular() -> None:
    lengths = {i: ms * MS for i, ms in enumerate([3, 9, 2, 14, 6, 2, 22, 5, 8, 4, 12, 7])}
    assert "not regular" in one(trace(*rounds(gap_of=lengths)), IDLE).claim


def test_logging_in_each_step_is_a_pause_of_the_host() -> None:
    ill = rounds(gap=3 * MS, steps=True)
    made = rules(ill)
    assert made["host pauses"].saving_ns == pytest.approx(length(ill) - length(rounds(steps=True)), rel=0.02)
    assert IDLE not in made


def test_a_device_without_host_rows_says_what_to_record() -> None:
    rows = [work("gemm", None, i * 5 * MS, i * 5 * MS + 2 * MS) for i in range(20)]
    finding = one(trace(*rows), IDLE)
    assert finding.saving_ns == 19 * 3 * MS
    assert "What the host does is not known: the trace has no host rows" in finding.claim
    assert finding.advice.startswith("Record the host too")


def test_what_the_host_is_in_is_named() -> None:
    schedule = [op("schedule", 100 * US, 2_900 * US, "user_range")]
    claim = one(trace(*rounds(gap=3 * MS, operators=False, between=schedule)), IDLE).claim
    assert "the host is in the range schedule" in claim
    assert "in schedule." in one(trace(*rounds(gap=3 * MS, between=schedule)), "host pauses").claim
    late: list[Row] = []
    for i in range(12):
        at = i * 5 * MS
        late += [op("aten::sort", at, at + 3 * MS), call(i, at + 2_900 * US, at + 2_950 * US)]
        late.append(work("sort", i, at + 3 * MS, at + 8 * MS - 100 * US))
    assert IDLE not in rules(late)


@pytest.mark.parametrize("name", ["wait_for_request", "queue.get", "epoll_wait"])
def test_waits_for_requests_by_name_have_a_cause(name: str) -> None:
    rows = rounds(gap=3 * MS, between=[op(name, US, 2_990 * US, "user_range")])
    assert not found(trace(*rows), IDLE)


def test_a_device_that_is_fed_is_not_idle() -> None:
    fed = rounds(wait=False, kernel=300 * US)
    assert rules(fed).keys().isdisjoint({IDLE, "host pauses", "launch-bound"})
    little = rounds(gap=1_100 * US, kernel=900 * US)  # 17 % of the run
    assert not found(trace(*little), IDLE)
    assert found(trace(*little), IDLE, idle_share=0.1)
    assert not found(trace(*rounds(gap=3 * MS)), IDLE, idle_ns=100 * MS)


def test_a_cause_that_is_found_leaves_no_idle_time_without_one() -> None:
    loading = rounds(gap=3 * MS, steps=True, between=[op("DataLoader.__next__", 0, 2_990 * US, "user_range")])
    made = rules(loading)
    assert "data loading" in made
    assert IDLE not in made


def test_only_rules_that_could_see_a_problem_are_checked() -> None:
    notes = " ".join(FINDINGS(trace(*rounds(operators=False)), ViewOptions()).notes)
    checked, _, unable = notes.partition("not checked: ")
    assert "host pauses" not in checked
    assert "host pauses (without operators" in unable
    assert "compilation (no range is named like a compiler)" in unable
    notes = " ".join(FINDINGS(trace(*rounds(gap=3 * MS)), ViewOptions()).notes)
    unable = notes.partition("not checked: ")[2]
    assert "host pauses (pauses outside the steps are the rule" in unable
    assert "needless synchronization (each wait is the last one before a pause" in unable
    notes = " ".join(FINDINGS(trace(*rounds()), ViewOptions()).notes)
    assert "host pauses" in notes.partition("not checked: ")[0]
    assert "unexplained idle" not in notes


@pytest.mark.parametrize(
    ("name", "count"),
    [("cudaHostAlloc", 2), ("cuModuleLoadData", 1), ("hipModuleLoadData", 1), ("cuLibraryLoadData", 1),
     ("cudaFuncGetAttributes", 20), ("cudaMallocHost", 3), ("cudaGraphInstantiateWithFlags", 1)],
)  # fmt: skip
def test_long_calls_of_the_host_are_named(name: str, count: int) -> None:
    each = 2 * MS // count
    calls = [op(name, i * each, (i + 1) * each, "runtime", correlation=50_000 + i) for i in range(count)]
    ill = rounds(gap=2 * MS, between=calls)
    finding = one(trace(*ill), "long host calls")
    assert name in finding.claim
    assert finding.confidence == "medium"
    # The last call is the last row of the run: without it the run ends with the wait before.
    true = length(ill) - length(rounds())
    assert 0.98 * true <= finding.saving_ns <= 1.25 * true
    assert not found(trace(*ill), IDLE)
    behind = rounds(gap=2 * MS, between=calls, kernel=900 * US, wait=False)
    assert not found(trace(*behind), "long host calls")


@pytest.mark.parametrize("name", ["hsa_signal_wait_scacquire", "cudaEventQuery", "ncclGroupEnd", "cuStreamWaitValue32"])
def test_calls_that_wait_are_no_long_calls(name: str) -> None:
    ill = rounds(gap=2 * MS, between=[op(name, 0, 2 * MS, "runtime", correlation=50_000)])
    assert not found(trace(*ill), "long host calls")


def test_first_launches_are_no_launching() -> None:
    rows: list[Row] = []
    at = 0
    for i in range(150):
        took = 20 * MS if i in (0, 2, 5, 31) else 5 * US
        rows += [op("aten::mm", at, at + took + 7 * US), call(i, at + 4 * US, at + 4 * US + took)]
        rows.append(work("gemm", i, at + 5 * US + took, at + 75 * US + took))
        at += took + 72 * US
    made = rules(rows)
    assert "4 long API calls" in made["long host calls"].claim
    assert "first launch" in made["long host calls"].claim
    assert made["long host calls"].saving_ns == pytest.approx(80 * MS, rel=0.02)
    assert made.keys().isdisjoint({"launch-bound", IDLE})


@pytest.mark.parametrize(
    "name",
    ["Torch-Compiled Region: 0/1", "_compile.compile_inner (dynamo_timed)", "TorchDynamo", "compile_fx_inner",
     "CachingAutotuner.benchmark_all_configs (dynamo_timed)", "triton autotune", "XlaCompile", "recompile",
     "torch/_dynamo/convert_frame.py(1371): __call__"],
)  # fmt: skip
def test_recompilation_is_named_and_no_pause(name: str) -> None:
    gaps = {7: 40 * MS}
    ill = rounds(steps=True, gap_of=gaps, between=[op(name, 0, 40 * MS, "user_range")])
    made = rules(ill)
    assert name.split(" (")[0] in made["compilation"].claim
    assert made["compilation"].saving_ns == pytest.approx(40 * MS, rel=0.02)
    assert made.keys().isdisjoint({"host pauses", "launch-bound", IDLE})


def test_ranges_around_compiled_code_are_no_compilation() -> None:
    rows = rounds(steps=True)
    regions = [op("Torch-Compiled Region: 0/0", row["ts_ns"], row["ts_ns"] + 600 * US, "user_range")
               for row in rows if row["kind"] == "step"]  # fmt: skip
    assert "compilation" not in rules(rows + regions)
    trained = [op("compile_and_train", row["ts_ns"], row["ts_ns"] + row["dur_ns"], "user_range")
               for row in rows if row["kind"] == "step"]  # fmt: skip
    assert "compilation" not in rules(rows + trained)
    paused = rounds(steps=True, gap_of={9: 40 * MS})
    known = [op("Torch-Compiled Region: 0/0", row["ts_ns"], row["ts_ns"] + row["dur_ns"], "user_range")
             for row in paused if row["kind"] == "step"]  # fmt: skip
    assert rules(paused + known).keys() & {"host pauses", "compilation"} == {"host pauses"}
    runs = [op("torch/_compile.py(31): inner", row["ts_ns"], row["ts_ns"] + row["dur_ns"], "python_op")
            for row in paused if row["kind"] == "step"]  # fmt: skip
    assert "compilation" not in rules(paused + runs)
    generated = rounds(steps=True, gap=MS, between=[op("fbgemm::split_embedding_backward_codegen_autotuned", 0, MS)])
    assert "compilation" not in rules(generated)


def shifted(rows: list[Row], by: int) -> list[Row]:
    return [{**row, "ts_ns": int(row["ts_ns"]) + by} for row in rows]


@pytest.mark.parametrize("name", ["compile", "load_weights", "tokenizer setup"])
def test_a_range_before_the_first_work_is_start_up(name: str) -> None:
    late = [op(name, 0, 300 * MS, "user_range"), *shifted(rounds(), 300 * MS)]
    finding = one(trace(*late), "start-up")
    assert name in finding.claim
    assert finding.saving_ns == pytest.approx(300 * MS, rel=0.02)
    assert not found(trace(*late), IDLE)
    stepping = [op(name, 0, 300 * MS, "user_range"), *shifted(rounds(steps=True), 300 * MS)]
    assert not found(trace(*stepping), "start-up")  # the window begins with the steps


def test_a_first_copy_that_creates_the_context_is_start_up() -> None:
    first = [
        op("hipMemcpy", 0, 300 * MS, "runtime", correlation=900),
        work("CopyHostToDevice", None, 300 * MS - 50 * US, 300 * MS - 10 * US, "memcpy", copy_kind="HtoD"),
    ]
    finding = one(trace(*first, *shifted(rounds(), 300 * MS)), "start-up")
    assert "in hipMemcpy" in finding.claim
    assert 0.99 * 299.9 * MS <= finding.saving_ns <= 300 * MS
    # A copy to the host may wait for work from before the trace begins.
    back = [first[0], {**first[1], "copy_kind": "DtoH"}]
    assert not found(trace(*back, *shifted(rounds(), 300 * MS)), "start-up")


def test_a_start_without_a_name_is_idle_time_without_a_cause() -> None:
    late = [op("cudaGetDeviceCount", 0, 2 * US, "runtime", correlation=1), *shifted(rounds(), 300 * MS)]
    finding = one(trace(*late), IDLE)
    assert "after the start of the window" in finding.claim
    assert finding.saving_ns == pytest.approx(300 * MS, rel=0.03)


def test_a_range_that_covers_a_pause_is_named() -> None:
    gaps = {3: 60 * MS, 8: 60 * MS}
    rows = rounds(steps=True, gap_of=gaps, between=[op("save_checkpoint", US, 59 * MS, "user_range")])
    finding = one(trace(*rows), "host pauses")
    assert "in all in steps 3, 8, in the range save_checkpoint: no operator" in finding.claim
    assert finding.advice.startswith("Do what save_checkpoint does less often")
    assert "no row" not in finding.because
    # A range around the whole run covers every pause, and names none.
    around = [*rounds(steps=True, gap_of=gaps), op("main", -MS, 900 * MS, "user_range")]
    assert "main" not in one(trace(*around), "host pauses").claim


@pytest.mark.parametrize("name", ["Activity Buffer Request", "Buffer Flush", "CUPTI instrumentation"])
def test_the_profilers_own_cost_is_no_ill_of_the_program(name: str) -> None:
    own = op(name, US, 59 * MS, "overhead", pid=-1, tid=0)
    rows = rounds(steps=True, gap_of={5: 60 * MS}, between=[own])
    made = rules(rows)
    assert "host pauses" not in made
    assert name in made["profiler overhead"].claim
    assert made["profiler overhead"].confidence == "low"


def test_loading_of_functions_is_a_cost_of_the_program() -> None:
    own = op("Lazy Function Loading", US, 59 * MS, "overhead")
    rows = rounds(steps=True, gap_of={5: 60 * MS}, between=[own])
    assert "Lazy Function Loading" in one(trace(*rows), "host pauses").claim


def test_few_kernels_that_are_launched_slowly_are_launch_bound() -> None:
    slow: list[Row] = []
    for i in range(40):
        at = i * 60 * US
        slow += [op("aten::add", at, at + 58 * US), call(i, at + 50 * US, at + 56 * US)]
        slow.append(work("add", i, at + 58 * US, at + 62 * US))
    assert "40 kernels take less" in one(trace(*slow), "launch-bound").claim
    assert one(trace(*slow), "launch-bound").claim.startswith("The GPU waits")
    of_tpu = Run(origin_ns=0, sources=[SourceFacts("a.json", "kineto")], devices={(0, 0): "/device:TPU:0 (TPU v4)"})
    assert one(trace(*slow, run=of_tpu), "launch-bound").claim.startswith("The TPU waits")
    # One long operator among few kernels is not how launching is slow.
    one_late = [{**row, "ts_ns": row["ts_ns"] // 12 + (30 * MS if int(row["ts_ns"]) >= MS else 0)} for row in slow]
    short = [{**row, "dur_ns": min(int(row["dur_ns"]), 4 * US)} for row in one_late]
    assert not found(trace(*short), "launch-bound")


def test_calls_of_the_system_and_the_profilers_own_rows_are_named() -> None:
    read = [op("read", 50 * US, 2_950 * US, "other")]
    assert "calls of the system, mostly in read" in one(trace(*rounds(gap=3 * MS, between=read)), IDLE).claim
    own = [op("Activity Buffer Request", 50 * US, 2_950 * US, "overhead", pid=-1, tid=0)]
    finding = one(trace(*rounds(gap=3 * MS, between=own)), IDLE)
    assert "the profiler works itself, mostly in Activity Buffer Request" in finding.claim
    assert finding.advice.startswith("Leave this time out")
    assert "requests" not in finding.claim


@pytest.mark.parametrize("count", [12, 40])
def test_as_many_events_are_marked_as_the_claim_has_gaps(count: int) -> None:
    """A timeline marks the work after each gap, not after five of them."""
    finding = one(trace(*rounds(count, gap=3 * MS)), IDLE)
    gaps = int(finding.claim.partition("Most of it lies in ")[2].partition(" gap")[0])
    assert gaps > 8
    assert isinstance(finding.events, FindingEvents)
    assert finding.events.rows is not None
    assert finding.events.rows.size in (gaps, gaps - 1)  # no work follows the last one
