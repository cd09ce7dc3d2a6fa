"""A trace without events: every command names it and ends with exit code 1; what is cut is named by batch too."""

from __future__ import annotations

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
    "words", ["summary {}", "inspect {}", "doctor {}", "convert {} -o {}.pftrace", "compare {} {}"]
)
def test_a_trace_without_events_is_named_and_exit_code_1(words: str, empty: Path) -> None:
    result = run(*words.format(*[empty] * words.count("{}")).split(), code=1)
    assert f"{empty.name}: no events in it" in result.stderr
    assert "hint: did the profiler stop before the work began?" in result.stderr


def test_a_filter_that_keeps_nothing_is_no_empty_trace() -> None:
    assert "no events in it" not in run("summary", TRACE, "--name", "no such name").stderr


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
