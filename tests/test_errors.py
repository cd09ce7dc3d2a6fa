"""Errors: parts that each surface words. A file may have the name of an option; no one rewrites it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, run_command, sample

import tracekit
from tracekit import archive, batch, cli, errors
from tracekit.errors import COMMAND_LINE, PYTHON, NamedPath, Option, PerSurface, Sentence, TracekitError, sentence
from tracekit.model.trace import Ledger
from tracekit.render.base import RenderOptions
from tracekit.safety.limits import Limits

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
NAMES = ["out --force", "--from NAME", "a --strict b", "x --option decimal=,", "--max-read-bytes SIZE", "view --view A"]


@dataclasses.dataclass(frozen=True)
class Wrong:
    """A mistake about a path, in Python and on the command line. make: prepares the path."""

    python: Callable[[str], object]
    words: Callable[[str], list[str]]
    make: Callable[[Path], object] = lambda _: None


def _truncated(path: Path) -> None:
    shutil.copy(sample("nvprof-csv/truncated.csv"), path)


def _totals(path: Path) -> None:
    shutil.copy(sample("theano/theano-1.0.5.txt"), path)


WRONG = {
    "missing": Wrong(tracekit.read, lambda path: ["summary", path]),
    "no known format": Wrong(tracekit.read, lambda path: ["summary", path], lambda path: path.write_bytes(b"?")),
    "another format": Wrong(
        lambda path: tracekit.read(path, format="parquet"),
        lambda path: ["summary", path, "--from", "parquet"],
        lambda path: path.write_bytes(b"?"),
    ),
    "a folder without profiles": Wrong(tracekit.inspect, lambda path: ["inspect", path], Path.mkdir),
    "a note": Wrong(
        lambda path: tracekit.read(path, strict=True), lambda path: ["summary", path, "--strict"], _truncated
    ),
    "a filter that is not for it": Wrong(
        lambda path: tracekit.read(path, selection=tracekit.Selection(steps=(1, 2))),
        lambda path: ["summary", path, "--step", "1:2"],
        lambda path: shutil.copy(CSV, path),
    ),
    "an output that exists": Wrong(
        lambda path: tracekit.convert(CSV, path, to="chrome"),
        lambda path: ["convert", str(CSV), "-o", path, "--to", "chrome"],
        lambda path: path.write_bytes(b"x"),
    ),
    "an output that is a folder": Wrong(
        lambda path: tracekit.write_report(CSV, path, force=True),
        lambda path: ["report", str(CSV), "-o", path, "--force"],
        Path.mkdir,
    ),
    "an output without a folder": Wrong(
        lambda path: tracekit.convert(CSV, f"{path}/x.json"), lambda path: ["convert", str(CSV), "-o", f"{path}/x.json"]
    ),
    "an output without a target": Wrong(
        lambda path: tracekit.convert(CSV, path), lambda path: ["convert", str(CSV), "-o", path]
    ),
    "sums without a timeline": Wrong(
        lambda path: tracekit.convert(path, f"{path}.json"),
        lambda path: ["convert", path, "-o", f"{path}.json"],
        _totals,
    ),
    "no archive": Wrong(lambda path: archive.entries(path), lambda path: ["archive", "list", path]),
    "no topology": Wrong(
        lambda path: tracekit.view(CSV, "kernel", topology=path), lambda path: ["summary", str(CSV), "--topology", path]
    ),
    "a root that is missing": Wrong(
        lambda path: batch.run([path], f"{path}-out"), lambda path: ["batch", path, "-o", f"{path}-out"]
    ),
    "a side that is missing": Wrong(lambda path: tracekit.compare(path, CSV), lambda path: ["compare", path, str(CSV)]),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", WRONG)
def test_a_path_is_shown_as_it_is_whatever_it_is_called(case: str, name: str, tmp_path: Path) -> None:
    wrong, path = WRONG[case], tmp_path / name
    wrong.make(path)
    with pytest.raises(TracekitError) as caught:
        wrong.python(str(path))
    assert name in str(caught.value)
    assert name in (caught.value.path or caught.value.found)
    words = wrong.words(str(path))
    shown = run_command(words[0], *words[1:], code=None).stderr
    assert name in shown.partition("error: ")[2].partition("\n")[0], shown


def test_python_says_arguments_and_a_command_says_options(tmp_path: Path) -> None:
    target = tmp_path / "there.json"
    target.write_bytes(b"x")
    with pytest.raises(tracekit.OutputExistsError) as caught:
        tracekit.convert(CSV, target)
    assert caught.value.hint == "choose another name, or force=True to replace it"
    assert (
        "hint: choose another name, or --force to replace it\n"
        in run_command("convert", CSV, "-o", target, code=1).stderr
    )
    with pytest.raises(tracekit.UsageError, match=r"^split 5x: not a way to split$") as split:
        tracekit.convert(CSV, tmp_path / "x.json", split="5x")
    assert (split.value.option, split.value.found) == ("split", "5x")
    assert (
        "error: --split 5x: not a way to split\n"
        in run_command("convert", CSV, "-o", tmp_path / "x.json", "--split", "5x", code=2).stderr
    )


def test_an_error_says_what_was_asked_and_what_there_is() -> None:
    with pytest.raises(tracekit.UsageError) as caught:
        tracekit.view(CSV, "kernl")
    error = caught.value
    assert (error.option, error.found, error.path) == ("view", "kernl", "")
    assert "kernel" in error.choices
    assert str(error) == "view kernl: no such view; did you mean kernel?"
    assert error.worded(COMMAND_LINE) == "--view kernl: no such view; did you mean kernel?"


def test_a_note_that_becomes_an_error_says_arguments_in_python() -> None:
    ledger = Ledger(path="run --strict.csv", strict=True)
    with pytest.raises(TracekitError) as caught:
        ledger.note("guess", sentence("a guess (", Option("option", "decimal=,"), " decides)"), where="line 3")
    assert str(caught.value) == "run --strict.csv: line 3: a guess (options decimal=, decides)"
    assert caught.value.worded(COMMAND_LINE) == "run --strict.csv: line 3: a guess (--option decimal=, decides)"
    kept = Ledger(path="x")
    kept.note("guess", sentence("a guess (", Option("option", "decimal=,"), " decides)"))
    assert [str(note) for note in kept.notes.values()] == ["a guess (--option decimal=, decides)"]


def every_kind(path: str) -> Iterator[TracekitError]:
    """Give an error of every public class about a path."""
    stop = errors.StopReading("limit-of-time", sentence("was read (", Option("max-time"), ")"), sentence("wait"))
    for kind in (
        TracekitError,
        errors.InputError,
        errors.OutputError,
        errors.ScratchError,
        errors.UsageError,
        errors.SchemaError,
    ):
        yield kind("is wrong", path=path, hint=sentence("add ", Option("force")))
    yield errors.UnknownFormatError(path, "nothing")
    yield errors.AmbiguousFormatError(path, ["chrome", "kineto"])
    yield errors.ParseError(path, "line 3", "no time")
    yield errors.UnsupportedVersionError(path, "9", "1 to 3")
    yield errors.OutputExistsError(path)
    yield errors.LimitError(path, stop)
    yield errors.AllInputsError([errors.Failure(path, errors.InputError("is missing", path=path))])
    yield errors.MissingExtraError(Option("dask", path), "dask")


PATHS = st.lists(
    st.sampled_from([*NAMES, "/", "run.csv", "--time A:B", " ", "é", "日本", ".."]), min_size=1, max_size=5
)


@given(PATHS)
def test_any_path_is_whole_in_every_kind_of_error_on_both_surfaces(pieces: list[str]) -> None:
    path = "".join(pieces)
    for error in every_kind(path):
        if isinstance(error, errors.AllInputsError):
            error = error.failures[0].error
        assert path in str(error)
        assert path in error.worded(COMMAND_LINE)
        assert path in (error.path, error.found)


def test_an_error_comes_whole_from_another_process() -> None:
    for error in every_kind("out --force/run.csv"):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error)
        assert back.args == error.args
        for surface in (COMMAND_LINE, PYTHON):
            assert (back.worded(surface), back.advised(surface)) == (error.worded(surface), error.advised(surface))
        assert (back.path, back.option, back.found, back.choices) == (
            error.path,
            error.option,
            error.found,
            error.choices,
        )
    many = pickle.loads(pickle.dumps(errors.AllInputsError([errors.Failure("a", errors.InputError("b", path="a"))])))
    assert [(each.name, str(each.error)) for each in many.failures] == [("a", "a: b")]


def test_a_credential_is_masked_on_both_surfaces_and_options_stay_parts() -> None:
    error = TracekitError(
        sentence(Option("option", "HF_TOKEN=xyz"), " is unknown"),
        hint=sentence("s3://me:pw@host/a is refused; ", Option("force"), " helps"),
    )
    assert str(error) == "options HF_TOKEN=[masked] is unknown"
    assert error.worded(COMMAND_LINE) == "--option HF_TOKEN=[masked] is unknown"
    assert error.found == "HF_TOKEN=[masked]"
    assert error.hint == "s3://masked@host/a is refused; force=True helps"
    # The option's name shows that its value is secret, and a password may be in two parts of a sentence.
    assert "abc123" not in TracekitError(Option("api-key", "abc123")).worded(COMMAND_LINE)
    assert "abc123" not in str(TracekitError(Option("api-key", "abc123")))
    assert "abc123" not in str(TracekitError(sentence("train.py --api-key ", NamedPath("abc123"))))
    path = tracekit.InputError("no such file", path="https://me:pw@host/x").path
    assert path == "https://masked@host/x"


def test_advice_for_the_command_line_alone_is_not_given_in_python() -> None:
    error = errors.OutputError("is a device", hint=PerSurface("-o - writes to stdout"))
    assert (error.hint, error.advised(COMMAND_LINE)) == ("", "-o - writes to stdout")


def test_a_sentence_is_joined_flat() -> None:
    made = sentence("a ", sentence("b ", Option("to", "x")), "", " c")
    assert made == Sentence(("a b ", Option("to", "x"), " c"))
    assert not sentence("")
    assert sentence(NamedPath("p"), ": q").about("r").worded(PYTHON) == "r: q"
    assert sentence(NamedPath("p"), ": q").without_place() == sentence("q")


# What the raise sites name, by reading them: most of these errors need a machine or a file of their own.


def calls(name: str) -> Iterator[tuple[Path, ast.Call]]:
    """Give the calls of a function, or of the classes whose names end so, below the command line."""
    for path in sorted((ROOT / "tracekit").rglob("*.py")):
        if path.relative_to(ROOT / "tracekit").parts[0] != "cli":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith(name):
                    yield path, node


def options_named() -> set[tuple[str, str]]:
    """Return the options that any sentence names: on the command line, and in Python."""
    found = set()
    for _, node in calls("Option"):
        if node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value and node.func.id == "Option":  # type: ignore[attr-defined]
            option = Option(str(node.args[0].value))
            found.add((option.worded(COMMAND_LINE), option.worded(PYTHON).removesuffix("=True")))
    return found


def options_of_commands() -> set[str]:
    command = typer.main.get_command(cli.app)
    waiting, found = [command], set()
    while waiting:
        each = waiting.pop()
        waiting += getattr(each, "commands", {}).values()
        found |= {word for parameter in each.params for word in (*parameter.opts, *parameter.secondary_opts)}
    return found


def arguments_of_python() -> set[str]:
    functions = [getattr(tracekit, name) for name in tracekit.__all__]
    functions += [getattr(part, name) for part in (batch, archive) for name in part.__all__]
    functions += [RenderOptions, Limits, tracekit.Trace.filter]
    found = {"view"}  # the function, whose first argument it is
    for each in filter(callable, functions):
        found |= set(inspect.signature(each).parameters)
    return found


NOT_IN_PYTHON = {"--fix", "--port"}
"""Options of commands that have no function: doctor and open."""


@pytest.mark.source
def test_every_option_that_an_error_names_exists_on_both_surfaces() -> None:
    named = options_named()
    assert len(named) > 30
    assert {option for option, _ in named} <= options_of_commands()
    assert {argument for option, argument in named if option not in NOT_IN_PYTHON} <= arguments_of_python()


@pytest.mark.source
def test_no_error_below_the_command_line_has_an_option_in_a_text() -> None:
    ours = "|".join(sorted(word.removeprefix("--") for word in options_of_commands() if word.startswith("--")))
    spelled = re.compile(rf"(?<![\w-])--({ours})(?![\w-])")
    texts = [
        (path.name, text.lineno, text.value)
        for path, call in calls("Error")
        for text in ast.walk(call)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and spelled.search(text.value)
    ]
    assert texts == []
