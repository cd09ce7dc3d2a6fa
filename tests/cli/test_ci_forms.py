"""`--format github` and `--format junit` of compare, doctor and batch, as the CI systems read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from batch_trees import Here, put
from ci_forms import commands, junit, states
from compare_runs import repeats, steps, write
from doctor_cases import CASES
from support import run_command, sample

from tracekit import batch
from tracekit.model.checks import Check, CheckList, CheckState
from tracekit.render import github
from tracekit.render import junit as junit_form

HOSTILE = 'a%0Ab,c:d::e]]>&<f "q" \x00\x1b[31m\u202e\ud800\ufffe\uffff\u2028|`x`</details>$x$ é核🙂\r\n::error::pwned'


@pytest.fixture(autouse=True)
def outside_of_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The tests may run on GitHub, whose own summary they would write into."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.setattr(batch, "LocalEngine", Here)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("sides")
    return repeats(folder / "base", 5, count=5), repeats(folder / "new", 5, effect=0.1, seed=3, count=5)


GATES = ("--fail-on", "step.p50 > 3%", "--fail-on", "step.p50 > 50%")


def test_a_violated_rule_is_an_error_annotation_and_the_verdict_a_notice(sides: tuple[str, str]) -> None:
    done = run_command("compare", *sides, *GATES, "--format", "github", code=3)
    violated, verdict = commands(done.stdout)
    assert (violated.level, violated.properties) == ("error", {"title": "tracekit compare: step.p50 > 3%"})
    assert violated.text.startswith("violated: step.p50 ")
    assert verdict.level == "notice"
    assert verdict.text.startswith("slower: step.mean ")
    assert done.stderr == ""


def test_the_summary_is_printed_or_written_or_appended_for_github(
    sides: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("compare", *sides, *GATES, "--format", "github")
    printed = run_command(*ask, code=3).stdout
    shown = printed[printed.index("## ") :]
    assert shown.startswith("## tracekit compare: 1 of 2 checks failed\n\nslower: step.mean ")
    assert "| **violated** | `step.p50 > 3%` |" in shown
    assert "| met | `step.p50 > 50%` |" in shown
    assert "<details><summary>All tables</summary>\n\n### " in shown
    run_command(*ask, "-o", tmp_path / "mine.md", code=3)
    assert (tmp_path / "mine.md").read_text(encoding="utf-8") == shown
    target = tmp_path / "summary"
    target.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(target))
    done = run_command(*ask, code=3)
    assert target.read_text(encoding="utf-8") == f"before\n{shown}"
    assert done.stdout == printed.removesuffix(shown)


def test_a_summary_keeps_the_limit_of_github_for_all_commands_of_a_step(
    sides: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "summary"
    for before in (1_000_000 - 5_000, 1_000_000 - 5):
        target.write_text("x" * before, encoding="ascii")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(target))
        run_command("compare", *sides, *GATES, "--format", "github", code=3)
        text = target.read_text(encoding="utf-8")
        assert len(text.encode()) <= 1_000_000
        assert ("The tables are too large for a job summary." in text) == (before == 1_000_000 - 5_000)


def test_an_undecided_rule_is_a_warning_and_skipped_and_with_strict_an_error_and_failed(tmp_path: Path) -> None:
    base = write(tmp_path / "base.parquet", steps(10, noise=0.01))
    new = write(tmp_path / "new.parquet", steps(10, noise=0.01, seed=1, factor=1.04))
    rule = ("compare", base, new, "--fail-on", "step.p50 > 1%")
    assert [each.level for each in commands(run_command(*rule, "--format", "github").stdout)] == ["warning", "notice"]
    assert states(junit(run_command(*rule, "--format", "junit").stdout)) == {"step.p50 > 1%": "skipped"}
    strict = run_command(*rule, "--strict", "--format", "github", code=3).stdout
    assert [each.level for each in commands(strict)] == ["error", "notice"]
    assert states(junit(run_command(*rule, "--strict", "--format", "junit", code=3).stdout)) == {
        "step.p50 > 1%": "failure"
    }


def test_each_rule_is_a_case_of_junit_and_the_verdict_is_one_without_rules(sides: tuple[str, str]) -> None:
    done = junit(run_command("compare", *sides, *GATES, "--format", "junit", code=3).stdout)
    assert states(done) == {"step.p50 > 3%": "failure", "step.p50 > 50%": "passed"}
    failure = next(done.iter("failure"))
    assert failure.get("type") == "violated"
    assert (failure.text or "").startswith("step.p50 ")
    assert states(junit(run_command("compare", *sides, "--format", "junit").stdout)) == {"verdict": "passed"}


def test_a_run_that_cannot_be_read_is_an_error_of_junit(sides: tuple[str, str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("nothing", encoding="utf-8")
    ask = ("compare", sides[0], "--new", sides[1], "--new", bad, "--fail-on", "step.p50 > 50%")
    assert states(junit(run_command(*ask, "--format", "junit", code=1).stdout))[str(bad)] == "error"
    assert commands(run_command(*ask, "--format", "github", code=1).stdout)[0].level == "error"


def test_a_history_alone_and_a_tree_without_runs_are_still_reports(sides: tuple[str, str], tmp_path: Path) -> None:
    done = run_command("compare", sides[0], "--history", "--format", "junit")
    assert states(junit(done.stdout)) == {"history": "passed"}
    (tmp_path / "empty").mkdir()
    done = run_command("batch", "empty", "-o", tmp_path / "out", "--format", "junit", code=1)
    assert list(states(junit(done.stdout)).values()) == ["error"]


def test_an_empty_trace_is_an_error_of_junit_as_it_is_exit_code_1(sides: tuple[str, str], tmp_path: Path) -> None:
    empty = write(tmp_path / "tree" / "a" / "x.parquet", [])
    done = run_command("compare", sides[0], empty, "--format", "junit", code=1)
    assert states(junit(done.stdout)) == {"verdict": "passed", f"events of {empty}": "error"}
    done = run_command("batch", "tree", "-o", tmp_path / "out", "--format", "junit", code=1)
    assert states(junit(done.stdout)) == {"a": "failure"}


def test_the_suffix_xml_is_junit(sides: tuple[str, str], tmp_path: Path) -> None:
    run_command("compare", *sides, "-o", tmp_path / "out.xml")
    junit((tmp_path / "out.xml").read_text(encoding="ascii"))


def test_a_defect_is_an_annotation_on_the_file_and_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    odd = tmp_path / "sub" / "odd.json"
    odd.write_bytes(CASES["overlap.json"][0])
    [defect, _] = commands(run_command("doctor", odd, "--format", "github", code=3).stdout)
    assert defect.level == "error"
    assert defect.properties["file"] == "sub/odd.json"
    assert defect.properties["title"] == f"tracekit doctor: {odd}: overlapping-slices"
    # Outside of the checkout there is no file to annotate.
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "elsewhere"))
    assert "file" not in commands(run_command("doctor", odd, "--format", "github", code=3).stdout)[0].properties
    lines = tmp_path / "run.csv"
    rows = sample("nvprof-csv/gpu-trace-17-columns.csv").read_bytes().split(b"\n")
    rows[9] = b"never" + rows[9][rows[9].index(b",") :]
    lines.write_bytes(b"\n".join(rows))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    found = commands(run_command("doctor", lines, "--format", "github", code=None).stdout)
    places = [each.properties["line"] for each in found if "line" in each.properties]
    assert places == ["10"]


def test_each_defect_is_a_case_and_an_input_without_one_passes(tmp_path: Path) -> None:
    odd, bad = tmp_path / "odd.json", tmp_path / "bad.json"
    odd.write_bytes(CASES["overlap.json"][0])
    bad.write_text("no trace", encoding="utf-8")
    good = sample("nvprof-csv/gpu-trace-17-columns.csv")
    out = tmp_path / "doctor.xml"
    run_command("doctor", odd, good, bad, "--format", "junit", "-o", out, code=1)
    found = states(junit(out.read_text(encoding="ascii")))
    assert found == {f"{odd}: overlapping-slices": "failure", str(good): "passed", str(bad): "error"}
    assert "exists already" in run_command("doctor", odd, "--format", "junit", "-o", out, code=1).stderr
    assert "input itself" in run_command("doctor", odd, "--format", "junit", "-o", odd, "--force", code=1).stderr
    # One input that cannot be read still gives a report, which the CI system shows.
    assert states(junit(run_command("doctor", bad, "--format", "junit", code=1).stdout)) == {str(bad): "error"}


def test_the_summary_of_doctor_has_every_defect_and_remark_as_a_row(tmp_path: Path) -> None:
    odd = tmp_path / "odd.json"
    odd.write_bytes(CASES["overlap.json"][0])
    shown = run_command("doctor", odd, "--format", "github", code=3).stdout
    assert "## tracekit doctor: 1 of 1 check failed" in shown
    assert "| `overlapping-slices` |" in shown


def test_fix_and_a_form_for_ci_exclude_each_other(tmp_path: Path) -> None:
    words = ("doctor", tmp_path / "x.json", "--fix", "-o", "y.json", "--format", "junit")
    assert "hint: run doctor once for the checks" in run_command(*words, code=2).stderr


def tree(root: Path) -> Path:
    put(root / "good" / "rank0.jsonl", sample("recorder-log/rank0.jsonl").read_bytes())
    put(root / "bad" / "run.nvprof", b"no profile")
    put(root / "slow" / "run.parquet", Path(write(root.parent / "slow.parquet", steps(8))).read_bytes())
    return root


def test_each_run_of_a_batch_is_a_case(tmp_path: Path) -> None:
    ask = ("batch", tree(tmp_path / "tree"), "-o", tmp_path / "out", "--budget", "kernel_time <= 1us", "--jobs", "1")
    found = junit(run_command(*ask, "--format", "junit", code=3).stdout)
    assert states(found) == {"bad": "error", "good": "passed", "slow": "failure"}
    assert "the budget is kernel_time <= 1us" in (next(found.iter("failure")).text or "")
    done = run_command(*ask, "--format", "github", code=3)
    levels = [(each.level, each.properties["title"]) for each in commands(done.stdout)]
    assert levels == [
        ("error", "tracekit batch: bad"), ("error", "tracekit batch: slow"), ("notice", "tracekit batch")
    ]  # fmt: skip
    assert "| **over budget** | `slow` |" in done.stdout
    assert "3 runs: " in done.stdout


def test_a_budget_whose_figure_no_run_has_is_wrong_usage(tmp_path: Path) -> None:
    put(tmp_path / "tree" / "a" / "run.parquet", Path(write(tmp_path / "x.parquet", steps(8))).read_bytes())
    ask = ("batch", tmp_path / "tree", "-o", tmp_path / "out", "--jobs", "1")
    said = run_command(*ask, "--budget", "peak_memory <= 1GiB", code=2).stderr
    assert "error: --budget 'memory.peak <= 1GiB': no run has this figure" in said
    assert "hint: figures of these runs: span, steps, step.p50" in said
    run_command(*ask, "--budget", "step_p50 <= 1s")


def hostile() -> CheckList:
    checks = tuple(Check(HOSTILE, state, "word", HOSTILE, HOSTILE, 3) for state in (*CheckState, CheckState.FAILED))
    return CheckList("doctor", HOSTILE, checks, HOSTILE, (HOSTILE, HOSTILE))


def test_hostile_names_stay_in_their_annotation(tmp_path: Path) -> None:
    text = github.commands(hostile(), tmp_path)
    found = commands(text)
    assert [each.level for each in found] == ["error", "error", "error", "warning", "notice", "notice", "notice"]
    assert text.count("\n") == len(found), "no name begins a line of its own"
    assert all(each.text.isprintable() for each in found)
    assert all("%0Ab,c:d::e]]>&<f" in each.text for each in found), "what a name spells is shown, not obeyed"
    assert all(set(each.properties) == {"title"} for each in found)


def test_hostile_names_are_legal_xml() -> None:
    found = junit(junit_form.document(hostile()))
    names = [case.get("name", "") for case in found.iter("testcase")]
    assert len(names) == 5
    assert all("a%0Ab,c:d::e]]>&<f" in name and "é核🙂" in name for name in names)


def test_hostile_names_stay_in_their_cell_of_the_summary() -> None:
    text = github.summary(hostile(), "# x\n")
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len(rows) == 2 + 5
    assert text.count("</details>") == 1
    assert "::error::pwned" not in [line[:14] for line in text.split("\n")]


def test_a_summary_of_many_runs_shows_every_failure_and_counts_the_rest() -> None:
    failed = [Check(f"run{number}", CheckState.FAILED, "failed", "why") for number in range(200)]
    passed = [Check(f"ok{number}", CheckState.PASSED, "ok") for number in range(5_000)]
    text = github.summary(CheckList("batch", "runs", (*passed, *failed)))
    assert all(f"| `run{number}` |" in text for number in range(200))
    assert "\n4,950 more checks not shown here.\n" in text
    wide = [Check(f"run{number}", CheckState.FAILED, "failed", "w" * 1_000) for number in range(5_000)]
    assert len(github.summary(CheckList("batch", "runs", tuple(wide))).encode()) <= github.MOST_SUMMARY_BYTES


def test_credentials_in_names_are_masked(tmp_path: Path) -> None:
    odd = tmp_path / "odd.json"
    events = json.loads(CASES["overlap.json"][0])
    for event in events["traceEvents"]:
        event["name"] = "HF_TOKEN=hf_" + "a" * 34
    odd.write_text(json.dumps(events), encoding="utf-8")
    for form in ("github", "junit"):
        assert "a" * 34 not in run_command("doctor", odd, "--format", form, code=3).stdout
