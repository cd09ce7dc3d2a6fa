"""A trace without events: every command names it and ends with exit code 1; what is cut is named by batch too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support import run_command as run
from support import sample

TRACE = sample("kineto/gpu.pt.trace.json")
EMPTY = {
    "chrome.json": '{"traceEvents": []}',
    "names_only.json": '{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "a"}}]}',
    "torch.json": '{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}',
}
"""Files of known formats that have no event."""


@pytest.fixture(params=EMPTY)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.write_text(EMPTY[request.param])
    return path


@pytest.mark.parametrize(
    "words",
    [
        "summary {}",
        "inspect {}",
        "doctor {}",
        "convert {} -o {}.pftrace",
        "compare {} {}",
        "query {}",
        "explain {} kernel.total device.kernel_time",
        "open {} --no-browser",
        "open {} --trace --no-browser",
    ],
)
def test_a_trace_without_events_is_named_and_exit_code_1(words: str, empty: Path) -> None:
    result = run(*words.format(*[empty] * words.count("{}")).split(), code=1)
    assert f"error: {empty}: no events in it" in result.stderr
    assert "hint: did the profiler stop before the work began?" in result.stderr


def test_a_query_of_a_trace_without_events_has_its_answer_and_exit_code_1(empty: Path) -> None:
    result = run("query", empty, "SELECT count(*) AS n FROM events", "--format", "csv", code=1)
    assert result.stdout.split() == ["n", "0"]
    assert f"error: {empty}: no events in it" in result.stderr


def test_commands_that_answer_from_other_inputs_name_the_empty_one(tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text(EMPTY["chrome.json"])
    for words in (("query", TRACE, empty), ("explain", TRACE, empty, "kernel.total", "device.kernel_time")):
        result = run(*words, code=1)
        assert f"error: {empty}: no events in it" in result.stderr
        assert result.stdout


def test_an_error_names_the_whole_path_where_outputs_shorten_it(tmp_path: Path) -> None:
    cut = tmp_path / "a" / "b" / "c" / "cut.json"
    cut.parent.mkdir(parents=True)
    cut.write_text('[{"ph": "X", "name": "gemm", "ts": 0, "dur": 10, "pid": 0, "tid": 7}, {"ph": "X", "na')
    out = tmp_path / "out.json"
    assert f"error: {cut}: " in run("summary", cut, "--strict", code=1).stderr
    assert f"error: {cut}: " in run("convert", cut, "-o", out, "--strict", code=1).stderr
    assert f"error: {cut}: no event" in run("convert", cut, "-o", out, "--name", "no such name", code=1).stderr
    totals = shutil.copy(sample("nvprof-csv/summary-new.csv"), cut.parent)
    assert f"error: {totals} has only totals" in run("convert", totals, "-o", out, code=2).stderr
    # What is made to be kept or sent has no folders of this machine.
    assert str(tmp_path) not in run("inspect", cut, "--format", "json").stdout


def test_neither_totals_alone_nor_an_archive_with_an_empty_run_are_an_empty_input(tmp_path: Path) -> None:
    totals = sample("nvprof-csv/summary-new.csv")
    run("convert", totals, "-o", tmp_path / "run.parquet")
    empty = tmp_path / "empty.json"
    empty.write_text(EMPTY["chrome.json"])
    run("archive", "add", tmp_path / "kept", totals)
    run("archive", "add", tmp_path / "kept", empty, code=1)
    for name in (totals, tmp_path / "run.parquet", tmp_path / "kept"):
        run("query", name, "SELECT count(*) AS n FROM events")  # does not read the totals


def test_a_filter_that_keeps_nothing_is_no_empty_trace() -> None:
    assert "no events in it" not in run("summary", TRACE, "--name", "no such name").stderr


def stepped(folder: Path, first: int, name: str = "steps.json") -> Path:
    """Write a trace of three steps with a kernel each."""
    events = []
    for number in range(first, first + 3):
        at = {"ph": "X", "ts": 100 * number, "pid": 1}
        events.append({**at, "cat": "user_annotation", "name": f"ProfilerStep#{number}", "dur": 90, "tid": 1})
        events.append(
            {
                **at,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "dur": 5,
                "tid": 1,
                "args": {"correlation": number},
            }
        )
        args = {"device": 0, "stream": 7, "correlation": number}
        events.append(
            {**at, "cat": "kernel", "name": "gemm", "dur": 40, "tid": 7, "ts": 100 * number + 10, "args": args}
        )
    path = folder / name
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    return path


@pytest.mark.parametrize("suffix", ["json", "json.gz", "parquet", "jsonl", "csv", "pftrace"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kind", "kernel", "--step", "3:4"), "the steps are 4 to 6"),
        (("--step", "3"), "the steps are 4 to 6"),
        (("--step", "7:"), "the steps are 4 to 6"),
        (("--name", "no such name"), "no event passes the filter"),
        (("--time", "5s:6s"), "they start at"),
        (("--min-dur", "5s"), "no event passes the filter"),
    ],
)
def test_filters_that_nothing_passes_write_no_file(
    tmp_path: Path, suffix: str, words: tuple[str, ...], said: str
) -> None:
    source, target = stepped(tmp_path, 4), tmp_path / f"out.{suffix}"
    result = run("convert", source, "-o", target, *words, code=1)
    assert said in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["steps.json"]


def test_filters_that_nothing_passes_keep_the_older_file(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("older")
    run("convert", stepped(tmp_path, 4), "-o", target, "--step", "9", "--force", code=1)
    assert target.read_text() == "older"


def test_filters_that_pass_events_of_one_input_of_two_write_a_file(tmp_path: Path) -> None:
    both = stepped(tmp_path, 4, "a.json"), stepped(tmp_path, 8, "b.json")
    run("convert", *both, "-o", tmp_path / "some.json", "--step", "9")
    said = run("convert", *both, "-o", tmp_path / "none.json", "--step", "7", code=1).stderr
    assert "a.json: the steps are 4 to 6" in said
    assert "b.json: the steps are 8 to 10" in said
    assert not (tmp_path / "none.json").exists()


def test_one_step_is_selected_by_its_number_alone(tmp_path: Path) -> None:
    source = stepped(tmp_path, 4)
    for words in ("5", "5:6"):
        run("convert", source, "-o", tmp_path / f"{words[-1]}.csv", "--step", words)
    assert (tmp_path / "5.csv").read_bytes() == (tmp_path / "6.csv").read_bytes()
    assert b"gemm" in (tmp_path / "5.csv").read_bytes()


def test_an_empty_input_among_others_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text(EMPTY["chrome.json"])
    result = run("summary", TRACE, empty, code=1)
    assert "empty.json: no events in it" in result.stderr
    assert "Top kernels" in result.stdout


def test_batch_names_what_is_cut_or_empty(tmp_path: Path) -> None:
    whole = TRACE.read_bytes()
    for name, data in {"cut": whole[: len(whole) // 2], "empty": EMPTY["chrome.json"].encode(), "whole": whole}.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "trace.json").write_bytes(data)
    said = run("batch", tmp_path / "runs", "-o", tmp_path / "out", "--jobs", "1", code=None)
    assert "cut was cut: " in said.stderr
    assert "empty: no events in it" in said.stderr
    assert said.exit_code == 3


def test_a_baseline_names_what_is_cut_or_empty(tmp_path: Path) -> None:
    whole = TRACE.read_bytes()
    for name, data in {"cut": whole[: len(whole) // 2], "empty": EMPTY["chrome.json"].encode(), "whole": whole}.items():
        (tmp_path / f"{name}.json").write_bytes(data)
        run("archive", "add", tmp_path / "kept", tmp_path / f"{name}.json", code=int(name == "empty"))
    new = tmp_path / "new.json"
    new.write_bytes(whole + b"\n")  # the same bytes would be the same run
    text = " ".join(run("compare", "--baseline", tmp_path / "kept", "--new", new).stdout.split())
    assert "was cut: " in text.split("left out")[1]
    assert "empty" in text.split("left out")[1]
    only_empty = run("compare", "--baseline", f"{tmp_path / 'kept'}:run=empty", "--new", new, code=1)
    assert "no events in it" in only_empty.stderr
