"""Names in help, completion and errors come from the declarations."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from support import run_command
from typer.core import TyperGroup

from tracekit import compat
from tracekit.cli import app
from tracekit.cli.formats import MOST_KEYS
from tracekit.cli.titles import COMPAT_TITLES, VIEW_TITLES, Title
from tracekit.formats import READERS
from tracekit.model.schema import KINDS
from tracekit.views import VIEWS
from tracekit.writers import WRITERS

COMMANDS = ("convert", "summary", "report", "inspect", "formats")


def run(*words: str) -> str:
    result = run_command(*words, code=None, width=400)
    return result.stdout + result.stderr


def completed(command: str, option: str, begun: str = "") -> set[str]:
    """Return the values that a shell offers for an option of a command."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    found = group.commands[command]
    (param,) = [param for param in found.params if option in param.opts]
    return {item.value for item in param.shell_complete(found.context_class(found), begun)}


def test_the_tables_of_titles_say_what_the_declarations_say() -> None:
    """A view that was added, renamed or given options needs its line in `tracekit/cli/titles.py`: the difference."""
    compats = [compat.load(name) for name in compat.COMPATS]
    views = [*(VIEWS[name] for name in VIEWS), *(own for each in compats if (own := each.view(each.name)) is not None)]
    declared = []
    for view in views:
        keys = tuple(spec.key for spec in view.options)
        declared.append(Title(view.name, view.title, keys if len(keys) <= MOST_KEYS else len(keys)))
    assert list(VIEW_TITLES) == declared
    assert [Title(each.name, each.title) for each in compats] == list(COMPAT_TITLES)


def test_completion_knows_every_name() -> None:
    assert completed("summary", "--from") == set(READERS)
    assert completed("convert", "--to") == set(WRITERS)
    assert completed("summary", "--kind") == set(KINDS)
    assert completed("summary", "--view") == {*VIEWS, *compat.VIEWS, "all"}
    assert completed("summary", "--compat") == set(compat.COMPATS)
    assert completed("convert", "--to", "cuda") == {"cuda-kvp", "cuda-csv"}
    assert completed("summary", "--option", "o") == {"osrt="}
    assert "sync_share=" in completed("summary", "--option")
    assert {"-total", "-name"} <= completed("summary", "--sort", "-")
    assert completed("summary", "--format") == {"text", "json", "csv", "markdown", "spreadsheet"}


def test_a_shell_completes_names() -> None:
    env = {"_TRACEKIT_COMPLETE": "complete_bash", "COMP_WORDS": "tracekit summary --view ker", "COMP_CWORD": "3"}
    code = "from tracekit.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.stdout.split() == ["kernel"], done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--view kernl", "--view kernl: no such view; did you mean kernel?"),
        ("--kind kernl", "kind kernl: no such kind; did you mean kernel?"),
        ("--from nvprof-cvs", "--from nvprof-cvs: no such format; did you mean nvprof-csv"),
        ("--compat padle", "--compat padle: no such profiler; did you mean paddle?"),
        ("--sort totl", "--sort totl: no such column; did you mean total?"),
        ("--option orst=yes", "--option orst: no such option of any format or view; did you mean osrt?"),
        ("--format jsn", "--format jsn: no such form; did you mean json?"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest_one(words: str, message: str) -> None:
    path = "sample_traces/nvprof-csv/gpu-and-api-trace.csv"
    assert f"error: {message}" in run("summary", path, *words.split())


def test_a_wrong_target_or_viewer_is_answered_with_the_nearest_one() -> None:
    path = "sample_traces/nvprof-csv/gpu-and-api-trace.csv"
    assert "--to parket: no such target; did you mean parquet?" in run("convert", path, "-o", "x", "--to", "parket")
    assert "--for perfeto: no such viewer; did you mean perfetto?" in run(
        "convert", path, "-o", "x.json", "--for", "perfeto"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_in_whole_sentences(command: str) -> None:
    commands = vars(typer.main.get_command(app))["commands"]
    helps = [text for option in commands[command].params if (text := getattr(option, "help", None))]
    assert helps
    assert all(text[0].isupper() and text.endswith(".") for text in helps), helps


def test_formats_lists_every_declaration() -> None:
    text = run("formats", "-v")
    for view in VIEWS.values():
        assert f"  {view.name} " in text
        assert all(f"--option {spec.key}=" in text for spec in view.options)
    one = " ".join(run("formats", "--view", "kernel").split())  # lines are broken at 80 columns
    assert all(spec.meaning in one for spec in VIEWS["kernel"].shows)
