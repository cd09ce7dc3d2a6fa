"""Defaults of a project: `tracekit.toml` and `[tool.tracekit]`, what they change, and `tracekit config`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from batch_trees import Here, put
from compare_runs import repeats, steps, write
from support import PACKAGE, ROOT, run_command, sample

from tracekit import batch
from tracekit.cli import app
from tracekit.cli.process.settings import SETTINGS


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which commands run, and above which nothing is configured."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batch, "LocalEngine", Here)
    return tmp_path


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("sides")
    return repeats(folder / "base", 5, count=5), repeats(folder / "new", 5, effect=0.1, seed=3, count=5)


def values() -> dict[str, tuple[Any, str]]:
    data = json.loads(run_command("config", "--format", "json").stdout)
    return {each["key"]: (each["value"], each["from"]) for each in data["settings"]}


def test_without_a_file_every_value_is_the_default_of_the_option() -> None:
    assert {origin for _, origin in values().values()} == {"default"}
    group = typer.main.get_command(app)
    commands = dict(group.commands)  # type: ignore[attr-defined]
    for setting in SETTINGS:
        tables = [commands[setting.table]] if setting.table else [commands["summary"], commands["explain"]]
        found = [p for command in tables for p in command.params if p.name == setting.parameter]
        assert found, f"no command has the option of {setting.name}"
        assert {p.default for p in found} == {setting.default}
        assert all(f"--{setting.key}" in p.opts for p in found)


def test_each_key_is_documented() -> None:
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    assert [setting.name for setting in SETTINGS if f"`{setting.key}`" not in page] == []


def test_each_environment_variable_is_documented() -> None:
    read = re.compile(r"environ(?:ment)?(?:\.get\(|\.setdefault\(|\.pop\(|\[)\s*\"([A-Z_]+)\"|\"(TRACEKIT_[A-Z_]+)\"")
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    page = page[page.index("## Environment variables") :]
    names = {
        name
        for path in PACKAGE.rglob("*.py")
        for match in read.findall(path.read_text(encoding="utf-8"))
        for name in match
        if name
    }
    assert {"NO_COLOR", "COLUMNS", "PAGER", "GITHUB_STEP_SUMMARY", "TRACEKIT_LOG"} <= names
    # The last ones are between processes of tracekit, set for libraries, or named only to say that they do nothing.
    ours = {"TRACEKIT_WATCHED_BY", "PYTHONSAFEPATH", "PYTHONPATH", "TRACEKIT_N_APPLY"}
    ours |= {"TRACEKIT_RECORD", "TRACEKIT_MIN_MEMORY_SIZE"}
    assert {name for name in names - ours if f"`{name}`" not in page} == set()


@pytest.mark.parametrize(
    ("file", "begin"), [("tracekit.toml", ""), ("pyproject.toml", '[project]\nname = "x"\n[tool.tracekit')]
)
def test_a_gate_of_the_project_fails_the_command(
    project: Path, sides: tuple[str, str], file: str, begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{begin}.compare]" if begin else "[compare]"
    (project / file).write_text(f'{table}\nfail-on = "step.p50 > 3%"\n', encoding="utf-8")
    (project / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(project / "deep" / "er")
    assert "violated: step.p50 > 3%" in run_command("compare", *sides, code=3).stderr
    # The command line wins, and the whole file can be ignored.
    run_command("compare", *sides, "--fail-on", "step.p50 > 50%")
    run_command("--no-config", "compare", *sides)
    assert values()["compare.fail-on"] == (["step.p50 > 3%"], str(project / file))


def test_the_nearest_file_counts_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "tracekit.toml").write_text('unit = "us"\ndemangle = false\n', encoding="utf-8")
    inner = project / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert values()["unit"][0] == "us"
    (inner / "pyproject.toml").write_text("[tool.other]\nx = 1\n", encoding="utf-8")
    assert values()["unit"][0] == "us"
    (inner / "pyproject.toml").write_text('[tool.tracekit]\nunit = "ms"\n', encoding="utf-8")
    assert values()["unit"][0] == "ms"
    assert values()["demangle"] == (True, "default")
    (inner / "tracekit.toml").write_text('unit = "s"\n', encoding="utf-8")
    assert values()["unit"][0] == "s"


def test_the_search_ends_at_the_root_of_a_repository(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "tracekit.toml").write_text('unit = "us"\n', encoding="utf-8")
    (project / "clone" / ".git").mkdir(parents=True)
    monkeypatch.chdir(project / "clone")
    assert values()["unit"] == ("", "default")


def test_defaults_reach_tables_pages_and_commands_of_groups(project: Path) -> None:
    run = sample("nvprof-csv/gpu-trace-17-columns.csv")
    before = run_command("summary", run, "--view", "kernel").stdout
    (project / "tracekit.toml").write_text(
        'unit = "ns"\nanonymize = true\ndemangle = false\n[summary]\ntop = 2\n', encoding="utf-8"
    )
    after = run_command("summary", run, "--view", "kernel").stdout
    assert "(ns)" in after
    assert "(ns)" not in before
    assert len(after.splitlines()) < len(before.splitlines())
    assert run_command("summary", run, "--view", "kernel", "--top", "0", "--unit", "us").stdout.count("\n") > 15
    run_command("archive", "add", "kept", run, "--run", "x")
    listed = run_command("archive", "list", "kept", "--format", "json").stdout
    assert "--lr 0.1" not in listed, "`anonymize` is for archive add too"


def test_a_budget_of_the_project_fails_a_batch(project: Path) -> None:
    put(project / "tree" / "slow" / "run.parquet", Path(write(project / "slow.parquet", steps(8))).read_bytes())
    (project / "tracekit.toml").write_text('[batch]\nbudget = ["kernel_time <= 1us"]\njobs = 1\n', encoding="utf-8")
    assert "over budget: slow" in run_command("batch", "tree", "-o", "out", code=3).stderr


def test_a_history_alone_needs_no_rule_of_the_project(project: Path, sides: tuple[str, str]) -> None:
    (project / "tracekit.toml").write_text('[compare]\nfail-on = "step.p50 > 3%"\n', encoding="utf-8")
    run_command("compare", sides[0], "--history")
    assert "needs NEW" in run_command("compare", sides[0], "--history", "--fail-on", "step.p99 > 1%", code=2).stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "x: no such key\n"),
        ("unti = 's'", "unti: no such key; did you mean unit?"),
        ("[compare]\nfail_on = 'x'", "compare.fail_on: no such key; did you mean compare.fail-on?"),
        ("budget = 'x'", "budget: no such key; did you mean batch.budget?"),
        ("[comprae]\ntop = 1", "comprae: no such key; did you mean compare or compare.by?"),
        ("[compare]\noutput = 'x'", "compare.output: no such key; --output belongs to the command line"),
        ("format = 'junit'", "format: no such key; --format belongs to the command line"),
        ("[doctor]\nformat = 'json'", "doctor"),
        ("[compare]\nformat = 'junit'", "compare.format: no such key; --format belongs to the command line"),
        ("[summary]\nview = 'kernel'", "summary.view: no such key; --view belongs to the command line"),
        ("compare = 3", "compare: no such key"),
        ("[compare]\ntop = '3'", "compare.top = '3': not a whole number"),
        ("[compare]\ntop = true", "compare.top = True: not a whole number"),
        ("[compare]\ntop = -1", "compare.top = -1: not a whole number"),
        ("[compare]\nmin-effect = 1", "compare.min-effect = 1: not a text"),
        ("[compare]\nfail-on = [1]", "compare.fail-on = [1]: not a text, or a list of texts"),
        ("demangle = 'yes'", "demangle = 'yes': not true or false"),
        ("[batch]\npage-mb = '8'", "batch.page-mb = '8': not a number"),
        ("[compare", "not valid TOML (Expected ']'"),
        ('"\\u001b[31m" = 1', "\\x1b[31m: no such key"),
    ],
)
def test_a_wrong_key_or_value_is_wrong_usage_of_every_command(project: Path, text: str, said: str) -> None:
    (project / "tracekit.toml").write_text(text, encoding="utf-8")
    for words in (["config"], ["summary", sample("nvprof-csv/gpu-trace-17-columns.csv")]):
        error = run_command(*words, code=2).stderr
        assert error.startswith(f"error: {project / 'tracekit.toml'}: {said}")
        assert "\nhint: " in error
    # Help, and a line that ignores the file, are never in the way of a fix.
    run_command("summary", "--help")
    run_command("config", "--no-config")
    run_command("--no-config", "formats", "--view", "kernel", code=None)


@pytest.mark.parametrize("text", ["[compare]\nfail-on = 'speed > 3%'", "[batch]\nbudget = 'speed <= 3'", "unit = 'h'"])
def test_config_refuses_what_its_command_would_refuse(project: Path, text: str) -> None:
    (project / "tracekit.toml").write_text(text, encoding="utf-8")
    assert "\nhint: " in run_command("config", code=2).stderr


def test_an_error_of_usage_names_the_file_that_gives_defaults(project: Path, sides: tuple[str, str]) -> None:
    (project / "tracekit.toml").write_text('[compare]\nfail-on = "memory.peak > 3%"\n', encoding="utf-8")
    error = run_command("compare", *sides, code=2).stderr
    assert "memory.peak: neither side has it" in error
    assert f"note: {project / 'tracekit.toml'} gives defaults: compare.fail-on; `tracekit --no-config compare`" in error


def test_a_pyproject_of_others_is_not_read(project: Path) -> None:
    for text in ("[tool.other\n", "name = tracekit", "[tool]\ntracekit = 3\n"):
        (project / "pyproject.toml").write_text(text, encoding="utf-8")
        assert values()["unit"] == ("", "default")


def test_the_text_fits_a_screen(project: Path) -> None:
    (project / "tracekit.toml").write_text('[compare]\nfail-on = ["step.p50 > 3%", "kernel.total > 5%"]\n', "utf-8")
    lines = run_command("config").stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines[2:])) <= 80
    at = lines.index("compare.fail-on       step.p50 > 3%      tracekit.toml")
    assert lines[at + 1] == "                      kernel.total > 5%"
