"""`tracekit compare` as a user runs it."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from compare_runs import LAYERS, repeats, steps, write
from support import run_command

from tracekit import archive

run = functools.partial(run_command, "compare")
SECTIONS = ("Metrics", "What the step is made of")
"""Titles above that of a section's first table."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("sides")
    return repeats(folder / "base", 6, count=6), repeats(folder / "new", 6, effect=0.1, seed=3, count=6)


@pytest.mark.parametrize(
    ("width", "hidden"),
    [
        (
            100,
            {
                "Verdict": "From, Why",
                "Times": "From, Meaning",
                "Counts": "Meaning",
                "Device time by name": "Kind, Base calls, New calls, Of the change",
                "Call paths by self time": "Of the change",
            },
        ),
        (
            60,
            {
                "Verdict": "New runs, Low, High, From, Why",
                "Where the change is": "Only in, Of the change",
                "Times": "Difference, Low, High, From, Meaning",
                "Counts": "Low, High, From, Meaning",
                "Step time by name": "Match, Of the change",
                "Device time by name": "Kind, Match, Base calls, New calls, Of the change, Low, High",
                "Operators by self time": "Of the change",
                "API calls": "Match, Of the change",
                "Call paths by self time": "Match, Of the change",
                "Runs": "Format, Device time, whole run",
            },
        ),
    ],
)
def test_a_narrow_terminal_hides_the_limits_of_a_change_before_the_change(
    sides: tuple[str, str], width: int, hidden: dict[str, str]
) -> None:
    blocks = run(*sides, "-v", width=width).stdout.split("\n\n")
    found = {}
    for block in blocks:
        if said := re.search(r"columns? hidden \(([^)]*)\)", " ".join(block.split())):
            title = next(line for line in block.split("\n") if line not in SECTIONS)
            found[title] = said[1]
    assert found == hidden


def test_a_violated_rule_is_exit_code_3_and_one_line(sides: tuple[str, str]) -> None:
    done = run(*sides, "--fail-on", "step.p50 > 3%", "--fail-on", "step.p50 > 50%", code=3)
    assert "slower: step.mean" in done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("violated: step.p50 > 3%: step.p50 ")


def test_a_met_rule_is_exit_code_0_and_silent(sides: tuple[str, str]) -> None:
    assert run(*sides, "--fail-on", "step.p50 > 50%").stderr == ""
    assert run(*reversed(sides), "--fail-on", "step.p50 > 3%").stderr == ""


def test_an_undecided_rule_fails_with_strict(tmp_path: Path) -> None:
    base = write(tmp_path / "base.parquet", steps(10, noise=0.01))
    new = write(tmp_path / "new.parquet", steps(10, noise=0.01, seed=1, factor=1.04))
    rule = ("--fail-on", "step.p50 > 1%")
    assert run(base, new, *rule).stderr.startswith("not enough runs: step.p50 > 1%")
    run(base, new, *rule, "--strict", code=3)


def test_a_rule_about_a_name_that_no_side_has_is_wrong_usage_with_near_names(sides: tuple[str, str]) -> None:
    said = run(*sides, "--fail-on", 'kernel["gemm_c"].avg > 3%', code=2).stderr
    assert 'kernel["gemm_c"].avg: neither side has a kernel of this name; did you mean gemm_' in said
    assert "hint: " in said
    run(*sides, "--fail-on", 'kernel["gemm_*"].avg > 3%', code=3)


@pytest.mark.parametrize(
    ("rule", "near"),
    [("memory.peak > 3%", "step.mean"), ("copy.calls > 3", "kernel.calls"), ("copy.total > 3%", "device.total")],
)
def test_a_rule_about_a_metric_that_no_side_has_is_wrong_usage_with_near_names(
    sides: tuple[str, str], rule: str, near: str
) -> None:
    said = run(*sides, "--fail-on", rule, code=2).stderr
    assert f"{rule.split()[0]}: neither side has it; did you mean {near}?" in said
    assert "--fail-on takes one of: step.mean, step.p50, " in said


def test_a_rule_about_a_metric_that_one_side_lacks_is_not_judged_and_fails(
    sides: tuple[str, str], tmp_path: Path
) -> None:
    new = repeats(tmp_path / "new", 6, count=6, memory=1 << 20)
    for ask in ((sides[0], new), (new, sides[0])):
        assert "not judged: memory.peak > 3%: " in run(*ask, "--fail-on", "memory.peak > 3%", code=3).stderr


def test_a_rule_about_a_name_that_a_change_removed_does_not_fail(sides: tuple[str, str], tmp_path: Path) -> None:
    new = repeats(tmp_path / "new", 6, count=6, layers=LAYERS[1:])
    rule = ("--fail-on", 'kernel["gemm_a"].avg > 3%')
    assert "not enough data: kernel" in run(sides[0], new, *rule).stderr
    run(sides[0], new, *rule, "--strict", code=3)


def test_a_limit_within_the_interval_is_undecided_and_fails_with_strict(tmp_path: Path) -> None:
    base = repeats(tmp_path / "base", 5, count=6, noise=0.03)
    new = repeats(tmp_path / "new", 5, count=6, seed=7, noise=0.03)
    rule = ("--fail-on", "step.p50 > 1%")
    assert run(base, new, *rule).stderr.startswith("undecided: step.p50 > 1%: step.p50 ")
    assert "runs a side would decide it" in " ".join(run(base, new, *rule, "--strict", code=3).stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        ["a.json"],
        ["a", "b", "c"],
        [],
        ["a", "b", "--fail-on", "speed > 3%"],
        ["a", "b", "--format", "pdf"],
        ["a", "b", "--min-effect", "x"],
        ["a", "b", "--min-effect", "3ms"],
        ["a", "b", "--unit", "h"],
        ["--history", "a", "--fail-on", "step.p50 > 3%"],
    ],
)
def test_wrong_usage_is_exit_code_2_with_a_hint(words: list[str]) -> None:
    assert "hint: " in run(*words, code=2).stderr


def test_too_many_words_advise_quotes() -> None:
    assert "put a pattern in quotes" in run("a1", "a2", "b1", "b2", code=2).stderr


def test_repeats_can_be_named_one_by_one(sides: tuple[str, str]) -> None:
    base, new = sides
    named = [f"--base={base}/r0{i}.parquet" for i in range(6)] + [f"--new={new}/r0{i}.parquet" for i in range(6)]
    assert "from 6 and 6 runs" in run(*named).stdout
    assert "from 6 and 6 runs" in run(f"{base}/*.parquet", f"{new}/*.parquet").stdout


@pytest.mark.parametrize(("suffix", "begins"), [("html", "<!doctype html>"), ("md", "# "), ("json", "{"), ("csv", "")])
def test_the_suffix_of_the_output_names_the_form(
    sides: tuple[str, str], tmp_path: Path, suffix: str, begins: str
) -> None:
    out = tmp_path / f"out.{suffix}"
    run(*sides, "-o", out)
    text = out.read_text(encoding="utf-8")
    assert text.lower().startswith(begins)
    assert "gemm_a" in text
    assert "exists already" in run(*sides, "-o", out, code=1).stderr
    run(*sides, "-o", out, "--force")


def test_a_file_named_for_a_spreadsheet_is_one_for_it(sides: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "c.spreadsheet.csv"
    run(*sides, "-o", out)
    assert out.read_text(encoding="utf-8") == run(*sides, "--format", "spreadsheet").stdout


def test_an_unknown_suffix_is_wrong_usage_that_names_the_forms(sides: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out.xlsx"
    said = run(*sides, "-o", out, code=2).stderr
    assert f"-o {out}: the suffix names no output format" in said
    assert "hint: choose one with --format: csv, github, html, json, junit, markdown, spreadsheet, text" in said
    assert not out.exists()
    run(*sides, "-o", out, "--format", "csv")
    assert out.read_text(encoding="utf-8")
    run(*sides, "-o", tmp_path / "plain")
    assert "step.mean" in (tmp_path / "plain").read_text(encoding="utf-8")


def test_an_output_never_replaces_an_input(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", steps(3))
    assert "is an input itself" in run(file, file, "-o", file, "--format", "text", "--force", code=1).stderr


def test_a_baseline_and_its_history(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    for number in range(8):
        path = write(tmp_path / f"{number}.parquet", steps(6, factor=1 + 0.001 * number))
        archive.add(root, path, run="nightly", date=f"2026-02-{number + 1:02}", tags={"good": "yes"})
    new = write(tmp_path / "new.parquet", steps(6, factor=1.3))
    done = run("--baseline", f"{root}:good=yes", new, "--history")
    assert "History" in done.stdout
    assert "no change point in 8 runs" in done.stdout
    assert "8 runs, " in done.stdout
    alone = run("--baseline", f"{root}:good", "--history").stdout
    assert "nightly 2026-02-03" in alone
    assert "NEW is missing" in run("--baseline", f"{root}:good", code=2).stderr
    assert "no entry has the tag" in run("--baseline", f"{root}:bad", new, code=1).stderr


def test_a_bad_file_among_repeats_is_exit_code_1(sides: tuple[str, str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("nothing", encoding="utf-8")
    done = run(sides[0], "--new", sides[1], "--new", bad, code=1)
    assert "bad.json" in done.stderr
    assert "slower" in done.stdout
