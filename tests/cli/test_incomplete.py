"""Inputs of which more than 1 % of the data records were dropped: every output says so first, and gives no shares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import run_command

import tracekit
from tracekit.inputs.selection import Selection
from tracekit.model.units import Unit
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions

SENTENCE = "INCOMPLETE: 2 of 100 records of run.json could not be read"
FORMS = ("text", "json", "csv", "markdown")


def write(path: Path, good: int = 98, bad: int = 2) -> Path:
    """A trace of operators and kernels, and events of a phase that Kineto does not write."""
    base = {"ph": "X", "dur": 5, "pid": 1, "tid": 2}
    events: list[dict[str, object]] = [
        base | {"name": "aten::mm", "cat": "cpu_op", "ts": 9 * i} for i in range(good // 2)
    ]
    events += [
        base | {"name": "gemm", "cat": "kernel", "ts": 9 * i, "pid": 0, "args": {"device": 0, "stream": 7}}
        for i in range(good - good // 2)
    ]
    events += [{"ph": "Q", "ts": 1, "pid": 1, "tid": 2, "name": "x"}] * bad
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}), encoding="utf-8")
    return path


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    return write(tmp_path / "run.json")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", ["summary", "compare", "explain"])
def test_the_first_line_says_what_is_missing(command: str, form: str, lossy: Path) -> None:
    words = {"compare": [lossy], "explain": ["kernel.total", "device.kernel_time"]}.get(command, [])
    done = run_command(command, lossy, *words, "--format", form, code=1)
    assert SENTENCE in done.stdout.splitlines()[0]


def test_a_page_begins_with_what_is_missing(lossy: Path, tmp_path: Path) -> None:
    done = run_command("report", lossy, "-o", tmp_path / "page.html", code=1)
    assert done.stderr.startswith(SENTENCE)
    body = (tmp_path / "page.html").read_text(encoding="utf-8").partition("<body>")[2]
    assert body.strip().startswith(f'<p class="incomplete" role="alert">{SENTENCE}')


def test_inspect_and_query_say_it_first(lossy: Path) -> None:
    assert run_command("inspect", lossy, code=1).stdout.startswith(SENTENCE)
    found = json.loads(run_command("inspect", lossy, "--format", "json", code=1).stdout)
    assert next(iter(found)) == "incomplete"
    assert run_command("query", lossy, "SELECT count(*) FROM events", code=1).stderr.startswith(SENTENCE)


@pytest.mark.parametrize("target", ["out.parquet", "out.json", "out.jsonl", "folder/"])
def test_what_was_read_is_converted_and_stays_marked(target: str, lossy: Path, tmp_path: Path) -> None:
    output = f"{tmp_path}/{target}"
    done = run_command("convert", lossy, "-o", output, code=1)
    assert done.stderr.startswith(SENTENCE)
    made = next(Path(output).iterdir()) if target == "folder/" else Path(output)
    trace = tracekit.read(made)
    assert trace.events.num_rows == 98
    assert trace.incomplete[0].startswith(SENTENCE)


def test_an_archived_run_stays_marked_whatever_is_read_of_it(lossy: Path, tmp_path: Path) -> None:
    done = run_command("archive", "add", tmp_path / "kept", lossy, code=1)
    assert done.stderr.startswith(SENTENCE)
    for selection in (Selection(), Selection(kinds=frozenset({"kernel"}))):
        trace = tracekit.read(tmp_path / "kept", selection=selection)
        assert [text.startswith(SENTENCE) for text in trace.incomplete] == [True]


def test_shares_and_findings_are_not_known(lossy: Path, tmp_path: Path) -> None:
    whole = tracekit.summary(write(tmp_path / "whole.json", 100, 0), views=["all"])
    made = tracekit.summary(lossy, views=["all"])
    ratios = [c for s in made.sections for t in s.tables for c in t.columns if c.unit is Unit.RATIO]
    assert ratios
    assert {cell for column in ratios for cell in column.values} == {None}
    assert any(c.values for s in whole.sections for t in s.tables for c in t.columns if c.unit is Unit.RATIO)
    assert [each.rule for each in whole.section("findings").findings] == ["expensive kernel"]
    findings = made.section("findings")
    assert (findings.tables, findings.findings) == ((), ())
    assert "not checked" in findings.notes[0]
    for name in FORMS:
        printed = RENDERERS[name].render(made, RenderOptions())
        assert " %)" not in printed.replace("(%)", ""), name


def test_a_rule_on_what_is_left_is_not_decided(lossy: Path) -> None:
    done = run_command("compare", lossy, lossy, "--fail-on", "device.total > 3%", code=1)
    assert "not enough data: too many records are missing or could not be read" in done.stdout


@pytest.mark.parametrize("name", ["paddle", "fluid", "theano", "mxnet", "singa"])
def test_tables_of_other_profilers_say_it_first(name: str, lossy: Path) -> None:
    assert run_command("summary", lossy, "--compat", name, code=1).stdout.startswith(SENTENCE)


def test_a_batch_says_it_on_its_page(lossy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    lossy.rename(folder / "run.json")
    for _ in range(2):  # the second one finds the run unchanged
        done = run_command("batch", tmp_path / "runs", "-o", tmp_path / "out", "--jobs", "1", code=1)
        assert done.stderr.startswith(SENTENCE)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8").partition("<body")[2]
    sentence = "INCOMPLETE: too many records of 1 of 1 runs are missing or could not be read"
    assert page.partition(">")[2].strip().startswith(f'<p class="incomplete" role="alert">{sentence}')
    index = json.loads((tmp_path / "out" / "index.json").read_text(encoding="utf-8"))
    assert next(iter(index)) == "incomplete"
    assert index["runs"][0]["figures"]["busy"] is None


@pytest.mark.parametrize(("good", "bad", "code"), [(990, 10, 0), (989, 11, 1), (99, 1, 0)])
def test_up_to_one_percent_is_a_note(good: int, bad: int, code: int, tmp_path: Path) -> None:
    done = run_command("summary", write(tmp_path / "run.json", good, bad), code=code)
    assert done.stdout.startswith("INCOMPLETE") == bool(code)
    assert f"{bad:,} dropped" in done.stdout


def test_what_is_filtered_or_ignored_is_not_lost(tmp_path: Path) -> None:
    path = write(tmp_path / "run.json", 100, 0)
    assert tracekit.read(path, selection=Selection(name="gemm")).incomplete == ()


def test_a_cut_last_record_is_no_loss(tmp_path: Path) -> None:
    path = write(tmp_path / "run.json", 20, 0)
    path.write_bytes(path.read_bytes()[:-40])
    trace = tracekit.read(path)
    assert trace.ledgers[0].dropped
    assert trace.incomplete == ()
