"""Help: groups, examples that work as printed, 80 columns; and errors of one style for wrong words."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from support import run_command as run
from support import sample

from tracekit import cli
from tracekit.cli.demo import SAMPLES
from tracekit.cli.help import OPTION_GROUPS, first_sentence

GOOD = sample("nvprof-csv/gpu-and-api-trace.csv")
SERVE = ("open", "mcp", "record")
"""Commands that run until somebody has looked, or that run a program of the user."""


def leaves(group: object, *path: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Give the words and the object of each command."""
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from leaves(command, *path, name)
        else:
            yield (*path, name), command


COMMANDS = dict(leaves(typer.main.get_command(cli.app)))
EXAMPLES = [
    (line, 3 if path == ("doctor",) or "--fail-on" in line else 0)
    for path, command in COMMANDS.items()
    for line in (getattr(command, "epilog", "") or "").splitlines()
    if path[0] not in SERVE
]


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `tracekit demo` makes it, with two runs in runs/ and an archive."""
    folder = tmp_path_factory.mktemp("demo")
    for name, source in SAMPLES.items():
        shutil.copy(sample(source), folder / name)
    for day in ("monday", "tuesday"):
        (folder / "runs" / day).mkdir(parents=True)
        shutil.copy(folder / "run.csv", folder / "runs" / day / "run.csv")
    before = Path.cwd()
    os.chdir(folder)
    try:
        run("archive", "add", "profiles", "run.csv", "--run", "nightly", "--tag", "gpu=H200")
    finally:
        os.chdir(before)
    return folder


@pytest.mark.parametrize(("line", "most"), EXAMPLES, ids=[line for line, _ in EXAMPLES])
def test_every_example_of_help_works_as_printed(
    line: str, most: int, demo_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo_folder)
    program, *words = shlex.split(line)
    assert program == "tracekit"
    # As a shell does: patterns that are not in quotes become the names of files.
    quoted = {word for word in words if f"'{word}'" in line or f'"{word}"' in line}
    expanded = [
        name for word in words for name in ((sorted(glob.glob(word)) or [word]) if word not in quoted else [word])
    ]
    result = run(*expanded, code=None)
    assert result.exit_code in (0, most), result.output


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_of_every_command_fits_80_columns_and_ends_with_examples(path: tuple[str, ...]) -> None:
    text = run(*path, "--help", width=80).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert f"tracekit {' '.join(path)}" in text.split("\nExamples:\n")[1]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_groups_of_options_are_in_one_order(path: tuple[str, ...]) -> None:
    text = run(*path, "--help", width=80).stdout
    headings = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    known = [name for name in headings if name in OPTION_GROUPS]
    assert known == [name for name in OPTION_GROUPS if name in known]
    assert known[-1] == "Other"
    assert headings[-1] == "Examples"


def test_the_commands_are_listed_in_groups_with_one_line_each() -> None:
    text = run("--help", width=80).stdout
    for group, names in cli.COMMAND_GROUPS.items():
        part = text.split(f"\n{group}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in part.splitlines()] == list(names)
    assert len(text.splitlines()) <= 50


def test_the_first_sentence_has_no_full_stop() -> None:
    assert first_sentence("Print one. Then more.\n\nAnd more.") == "Print one"
    assert first_sentence("Print\n  one.") == "Print one"


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ("summary {} --topp 3", "--topp: no such option; did you mean --top?", "`tracekit summary --help`"),
        ("archive list x --formatt csv", "--formatt: no such option; did you mean --format?", "archive list --help`"),
        ("summary {} -x", "-x: no such option", "`tracekit summary --help`"),
        ("summary {} --top x", "--top x: not a whole number of 0 or more", "--top N: Show N rows"),
        ("summary {} --top=-1", "--top -1: not a whole number of 0 or more", "--top N: Show N rows"),
        ("summary {} --rank 0 --rank x", "--rank x: not a whole number", "--rank N: Keep events of this rank"),
        ("open {} --port 70000", "--port 70000: not a whole number from 0 to 65535", "--port N: "),
        ("report {} -o x.html --page-mb 0", "--page-mb 0: not a number of 0.1 or more", "--page-mb MB: "),
        ("summary", "INPUT is missing", "for example: tracekit summary run.csv"),
        ("convert {}", "-o OUT is missing", "for example: tracekit convert run.csv -o run.json.gz"),
        ("summary {} --top", "--top: its value is missing", "`tracekit summary --help`"),
        ("summary {} --all=yes", "--all: takes no value", "`tracekit summary --help`"),
        ("demo one", "one: more than `tracekit demo` takes", "tracekit demo"),
        ("summary {} -q -v", "-q and -v contradict each other", "use only one of them"),
        ("archive ad", "ad: no such command; did you mean add?", "`tracekit archive --help` lists the commands"),
    ],
)
def test_wrong_words_get_an_error_and_a_hint(words: str, error: str, hint: str) -> None:
    result = run(*words.format(GOOD).split(), code=2)
    first, second = result.stderr.splitlines()
    assert first == f"error: {error}"
    assert second.startswith("hint: ")
    assert hint in second
    assert result.stdout == ""


def test_a_file_alone_is_a_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOOD, "run.csv")
    shutil.copy(GOOD, "summary")
    as_named = run("summary", "run.csv").stdout
    assert run("run.csv").stdout == as_named
    assert run("run.*").stdout == as_named
    assert run("mine=run.csv").stdout == run("summary", "mine=run.csv").stdout
    kernels = run("summary", "run.csv", "--view", "kernel", "--top", "3").stdout
    assert run("run.csv", "--view", "kernel", "--top", "3").stdout == kernels
    assert run("--view", "kernel", "--top", "3", "run.csv").stdout == kernels
    # A file that is called like a command is one only with its folder.
    assert "INPUT is missing" in run("summary", code=2).stderr
    assert run("./summary").stdout == as_named.replace("run.csv", "summary")


def test_a_word_that_is_nothing_gets_near_commands_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOOD, "sumary_2")
    result = run("sumary", code=2)
    assert result.stderr == (
        "error: sumary: neither a command nor a file\n"
        "hint: did you mean tracekit summary or tracekit summary sumary_2?\n"
    )
    shutil.copy(GOOD, "run.csv")
    assert "no such file\nhint: check the path; did you mean run.csv?" in run("rnu.csv", code=1).stderr
    assert "`tracekit --help` lists the commands" in run("qqqq", code=2).stderr
    (tmp_path / "profiles").mkdir()
    shutil.copy(GOOD, tmp_path / "profiles" / "run.csv")
    assert "did you mean profiles?" in run("profles/run.csv", code=1).stderr


def test_the_help_of_a_switch_that_is_on_says_so() -> None:
    for path, command in COMMANDS.items():
        switches = [each for each in command.params if any(name.startswith("--no-") for name in each.secondary_opts)]
        shown = " ".join(run(*path, "--help").stdout.split()) if switches else ""
        on = [each for each in switches if each.default is True and not getattr(each, "hidden", False)]
        assert shown.count("[default: on]") == len(on), path
    assert " ".join(run("record", "--help").stdout.split()).count("[default: on]") == 4
