"""tracekit summary PAGE: the tables of a page come back, and what a page cannot do is refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import run_command, sample

from tracekit import pipeline
from tracekit.inputs import USUAL
from tracekit.model.report import Report
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions

INPUT = sample("nvprof-csv/gpu-and-api-trace.csv")


@pytest.fixture(scope="module")
def report() -> Report:
    return pipeline.report(pipeline.read(INPUT, pipeline.for_report(USUAL)))


@pytest.fixture(scope="module")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("page") / "report.html"
    target.write_text(pipeline.render(report, "html"), encoding="utf-8")
    return target


def test_a_page_is_read_back_with_the_numbers_of_its_trace(page: Path, report: Report) -> None:
    found = run_command("summary", page, "--format", "json").stdout
    assert found == RENDERERS["json"].render(report, RenderOptions())
    kernels = json.loads(run_command("summary", page, "--format", "json", "--view", "kernel").stdout)["sections"]
    of_trace = json.loads(run_command("summary", INPUT, "--format", "json", "--view", "kernel").stdout)["sections"]
    assert [each["tables"] for each in kernels] == [each["tables"] for each in of_trace]
    top = json.loads(run_command("summary", page, "--format", "json", "--view", "kernel", "--top", "2").stdout)
    assert len(top["sections"][0]["tables"][0]["rows"]) == 2
    assert any("not shown" in note for note in top["sections"][0]["notes"])
    assert "Kernels" in run_command("summary", page, "--view", "kernel", "--unit", "ms").stdout


@pytest.mark.parametrize(
    "words", [["--sort", "calls"], ["--name", "x"], ["--compat", "paddle"], ["--from", "nvprof-csv"], ["--rank", "0"]]
)
def test_what_needs_events_is_refused_for_a_page(page: Path, words: list[str]) -> None:
    found = run_command("summary", page, *words, code=2)
    assert f"{words[0]}: {page} is a page of tracekit, which has tables and no events" in found.stderr
    assert found.stdout == ""


def test_a_page_has_the_views_that_it_has_and_is_read_alone(page: Path) -> None:
    assert "--view kernl: no such view on this page" in (run_command("summary", page, "--view", "kernl", code=2).stderr)
    assert "a page of tracekit is read alone" in run_command("summary", page, INPUT, code=2).stderr


def test_a_damaged_page_and_one_of_another_tool_cost_one_sentence(page: Path, tmp_path: Path) -> None:
    whole = page.read_bytes()
    place = whole.index(b'id="report-data"')
    cases = {
        "cut.html": (whole[: place + 400], "cut off"),
        "edited.html": (whole.replace(whole[place + 150 : place + 160], b"AAAAAAAAAA"), "changed after it was written"),
        "other.html": (b"<!doctype html><title>x</title><p>kernel 1 ms</p></html>", "an HTML page"),
    }
    for name, (text, words) in cases.items():
        file = tmp_path / name
        file.write_bytes(text)
        said = run_command("summary", file, code=1).stderr
        assert words in said
        assert "Traceback" not in said
        assert len(said.splitlines()) <= 2


def test_other_commands_say_what_a_page_is(page: Path) -> None:
    said = run_command("inspect", page, code=1).stderr
    assert "a page of tracekit: tables, no events" in said
    assert "`tracekit summary" in said
