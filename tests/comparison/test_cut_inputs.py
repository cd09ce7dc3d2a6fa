"""A run whose input ends too early has no verdict, in every form of the output; among whole repeats it is left out."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from ci_forms import commands, junit, states
from support import run_command

from tracekit import pipeline
from tracekit.comparison import NOT_JUDGED, SAME, UNKNOWN, Comparison, compare
from tracekit.doctor.note_classes import NOTED
from tracekit.model.cuts import CUT_NOTES
from tracekit.render.base import RenderOptions


def kineto(steps: int = 12, slower: float = 1.0) -> str:
    """A trace of steps of one kernel each, one event a line."""
    events = []
    for step in range(steps):
        at = 2_000 * step
        number = {"correlation": step + 1, "stream": 7, "device": 0}
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 1},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 9, "args": number},
        ]
        times = (1_900 * slower, 5, 1_700 * slower + step % 3)
        for event, dur in zip(events[-3:], times, strict=True):
            event["dur"] = dur
        events[-2]["args"] = {"correlation": step + 1}
    return json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=0)


def kineto_cut_in_an_event(folder: Path) -> tuple[str, str]:
    text = kineto()
    (folder / "base.json").write_text(text)
    (folder / "new.json").write_text(text[: len(text) * 2 // 3])
    return str(folder / "base.json"), str(folder / "new.json")


def kineto_cut_between_events(folder: Path) -> tuple[str, str]:
    base, new = kineto_cut_in_an_event(folder)
    text = Path(base).read_text()
    end = text.rindex("}\n}", 0, len(text) * 2 // 3) + 3
    Path(new).write_text(text[:end])
    return base, new


def kineto_whose_compressed_end_is_missing(folder: Path) -> tuple[str, str]:
    packed = gzip.compress(kineto(2_000).encode(), mtime=0)
    (folder / "base.json.gz").write_bytes(packed)
    (folder / "new.json.gz").write_bytes(packed[: len(packed) * 2 // 3])
    return str(folder / "base.json.gz"), str(folder / "new.json.gz")


def parquet_of_a_cut_trace(folder: Path) -> tuple[str, str]:
    base, new = kineto_cut_in_an_event(folder)
    run_command("convert", new, "-o", folder / "new.parquet")
    return base, str(folder / "new.parquet")


def nvprof_cut_in_a_row(folder: Path) -> tuple[str, str]:
    head = '"Start","Duration","Grid X","Stream","Name","Correlation_ID"\nms,us,,,,\n'
    rows = [f'{number * 2}.000000,100.000000,8,"7","gemm",{number}\n' for number in range(40)]
    text = f"==7== Profiling result:\n{head}{''.join(rows)}"
    (folder / "base.csv").write_text(text)
    (folder / "new.csv").write_text(text[: text.index(',"gemm",25') + 4])
    return str(folder / "base.csv"), str(folder / "new.csv")


CUTS = (
    kineto_cut_in_an_event,
    kineto_cut_between_events,
    kineto_whose_compressed_end_is_missing,
    parquet_of_a_cut_trace,
    nvprof_cut_in_a_row,
)


def rendered(found: Comparison, form: str) -> str:
    return pipeline.render(found.report(), form, RenderOptions())


@pytest.mark.parametrize("cut", CUTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("side", ["NEW", "BASE"])
def test_a_cut_input_has_no_verdict_whichever_side_it_is(cut: object, side: str, tmp_path: Path) -> None:
    base, new = cut(tmp_path)  # type: ignore[operator]
    found = compare(*((base, new) if side == "NEW" else (new, base)), rules=["device.total > 3%"])
    assert found.verdict == UNKNOWN
    assert {each.verdict for each in found.changes} == {UNKNOWN}
    assert [each.state for each in found.checked] == [NOT_JUDGED]
    report = found.report()
    (said,) = report.incomplete
    assert said.startswith(f"{side} was cut: ")
    assert said.endswith(", so there is no verdict")
    assert Path(new).name.partition(".")[0] in said


def test_every_form_of_the_output_says_first_that_there_is_no_verdict(tmp_path: Path) -> None:
    found = compare(*kineto_cut_in_an_event(tmp_path))
    said = found.report().incomplete[0]
    for form in ("text", "markdown"):
        assert rendered(found, form).splitlines()[0].strip("*") == said
    assert next(iter(json.loads(rendered(found, "json")).items())) == ("incomplete", [said])
    assert next(csv.reader(io.StringIO(rendered(found, "csv")))) == [said]
    page = rendered(found, "html")
    assert page.index('role="alert"') < page.index("<h1")
    assert "33." not in page.partition("<script")[0]


def test_no_share_or_percentage_of_a_cut_run_is_shown(tmp_path: Path) -> None:
    found = compare(*nvprof_cut_in_a_row(tmp_path))
    assert not any(word in rendered(found, "text") for word in ("faster", "slower", "(-37"))
    loaded = json.loads(rendered(found, "json"))
    for section in loaded["sections"]:
        for table in section["tables"]:
            places = [i for i, column in enumerate(table["columns"]) if column["unit"] == "ratio"]
            assert all(row[i] is None for row in table["rows"] for i in places)


@pytest.mark.parametrize("cut", CUTS, ids=lambda each: each.__name__)
def test_a_gate_that_a_cut_run_leaves_unjudged_fails(cut: object, tmp_path: Path) -> None:
    base, new = cut(tmp_path)  # type: ignore[operator]
    rule = ("--fail-on", "device.total > 3%")
    for sides in ((base, new), (new, base)):
        done = run_command("compare", *sides, *rule, code=3)
        assert "not judged: device.total > 3%: " in done.stderr
        assert "was cut" in done.stderr


def test_a_gate_that_a_cut_run_leaves_unjudged_is_an_error_in_ci(tmp_path: Path) -> None:
    rule = ("compare", *kineto_cut_in_an_event(tmp_path), "--fail-on", "step.mean > 3%")
    assert commands(run_command(*rule, "--format", "github", code=3).stdout)[0].level == "error"
    assert states(junit(run_command(*rule, "--format", "junit", code=3).stdout)) == {"step.mean > 3%": "error"}


def test_without_a_gate_a_cut_run_fails_nothing(tmp_path: Path) -> None:
    run_command("compare", *kineto_cut_in_an_event(tmp_path), code=0)


def test_a_cut_run_among_whole_ones_is_left_out_and_named(tmp_path: Path) -> None:
    for side in ("base", "new"):
        (tmp_path / side).mkdir()
        for number in range(5):
            (tmp_path / side / f"r{number}.json").write_text(kineto(12, 1 + number / 1_000))
    text = kineto()
    (tmp_path / "new" / "r5.json").write_text(text[: len(text) // 2])
    found = compare(str(tmp_path / "base"), str(tmp_path / "new"))
    assert found.verdict == SAME
    (left_out,) = found.left_out
    assert left_out.startswith(f"{tmp_path}/new/r5.json was cut: ")
    assert not found.undecided


def test_a_list_of_events_that_may_stay_open_is_no_cut(tmp_path: Path) -> None:
    """The Trace Event format lets a list end without its bracket."""
    events = json.loads(kineto())["traceEvents"]
    (tmp_path / "open.json").write_text("[" + ",\n".join(map(json.dumps, events)) + ",\n")
    (tmp_path / "whole.json").write_text(json.dumps(events))
    found = compare(str(tmp_path / "whole.json"), str(tmp_path / "open.json"))
    assert found.verdict == SAME


def test_the_notes_of_a_cut_are_those_that_the_doctor_calls_a_torn_tail() -> None:
    """Except for a last line without its line end, behind which nothing need be missing."""
    torn = {code for code, name in NOTED.items() if name == "torn-tail"}
    assert torn - {"torn-row", "unfinished-line"} == CUT_NOTES
