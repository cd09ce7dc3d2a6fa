"""The public face: plain functions that take traces or inputs, with errors that speak of arguments."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import sample
from timelines import read_page

import tracekit
from tracekit import api, batch
from tracekit.cli import batch as cli_batch
from tracekit.cli import report as cli_report
from tracekit.errors import TracekitError, UsageError
from tracekit.render.base import RenderOptions

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")


def test_the_examples_run() -> None:
    assert doctest.testmod(api).failed == 0


def test_every_public_name_is_there() -> None:
    for name in tracekit.__all__:
        assert getattr(tracekit, name) is not None
    assert set(tracekit.__all__) <= set(dir(tracekit))
    with pytest.raises(AttributeError):
        _ = tracekit.no_such_name  # type: ignore[attr-defined]


def test_no_module_has_the_name_of_a_function() -> None:
    """Python would set the module on the package, so the name would be one or the other."""
    functions = {name for name in tracekit.__all__ if callable(getattr(tracekit, name))}
    modules = {path.stem for path in Path(tracekit.__file__).parent.iterdir()}
    assert functions & modules == set()


def test_views_take_inputs_as_well_as_traces() -> None:
    trace = tracekit.read(CSV)
    assert tracekit.view(CSV, "kernel") == tracekit.view(trace, "kernel")
    assert [s.view for s in tracekit.summary(str(CSV)).sections] == [s.view for s in tracekit.summary(trace).sections]
    assert tracekit.summary([CSV], views=["api"]).sections == tracekit.summary(trace, views=["api"]).sections
    assert tracekit.report(CSV).sections == tracekit.report(trace).sections
    assert tracekit.explain(CSV, "kernel.total", "device.kernel_time") == tracekit.explain(
        trace, "kernel.total", "device.kernel_time"
    )


def test_a_page_is_written_from_inputs(tmp_path: Path) -> None:
    tracekit.write_report(CSV, tmp_path / "run.html")
    assert "maxwell_scudnn" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_query_gives_a_table() -> None:
    assert tracekit.query(CSV, "SELECT count(*) AS n FROM events").to_pylist() == [{"n": 137}]


def test_two_runs_are_compared() -> None:
    found = tracekit.compare(CSV, CSV)
    assert found.report().sections


WRONG: dict[str, Callable[[Path], object]] = {
    "view": lambda _: tracekit.view(CSV, "kernl"),
    "format": lambda _: tracekit.read(CSV, format="nvprof"),
    "strict": lambda _: tracekit.read(sample("nvprof-csv/truncated.csv"), strict=True),
    "force": lambda folder: tracekit.convert(CSV, new_file(folder / "there.json")),
    "target": lambda folder: tracekit.convert(CSV, folder / "x.unknown"),
    "options": lambda _: tracekit.read(CSV, options={"no_such": "1"}),
    "sorted_by": lambda _: tracekit.summary(CSV, options=tracekit.ViewOptions(sorted_by="totl")),
    "compat": lambda _: tracekit.summary(CSV, options=tracekit.ViewOptions(compat="caffe2")),
    "kind": lambda _: tracekit.Selection(kinds=frozenset({"kernl"})),
    "name": lambda _: tracekit.Selection(name="("),
    "rules": lambda _: tracekit.compare(CSV, CSV, rules=["faster!"]),
    "unknown": lambda folder: tracekit.read(new_file(folder / "x")),
    "tag": lambda folder: tracekit.archive.add(folder / "a", CSV, tags={"": "x"}),
    "date": lambda folder: tracekit.archive.add(folder / "a", CSV, date="soon"),
    "since": lambda folder: tracekit.archive.entries(folder, since="soon"),
}


def new_file(path: Path) -> Path:
    path.write_bytes(b"?")
    return path


@pytest.mark.parametrize("case", WRONG)
def test_errors_speak_of_arguments(case: str, tmp_path: Path) -> None:
    with pytest.raises(TracekitError) as caught:
        WRONG[case](tmp_path)
    said = f"{caught.value} {caught.value.hint}"
    assert not re.search(r"(^|\s|`)--[a-z]", said), said


def test_an_open_file_is_refused_in_a_sentence() -> None:
    with CSV.open("rb") as file, pytest.raises(UsageError, match="inputs are names of files") as caught:
        tracekit.read(file)  # type: ignore[arg-type]
    assert str(CSV) in caught.value.hint
    with pytest.raises(UsageError, match="int is not an input"):
        tracekit.read(42)  # type: ignore[arg-type]


def test_a_bad_input_among_others_is_named_where_partial_is_given(tmp_path: Path) -> None:
    bad = new_file(tmp_path / "bad")
    trace = tracekit.read([CSV, bad], partial=True)
    assert [failure.name for failure in trace.failures] == [str(bad)]
    assert trace.events.num_rows == tracekit.read(CSV).events.num_rows
    assert [f.name for f in tracekit.inspect([CSV, bad], partial=True).failures] == [str(bad)]
    done = tracekit.convert([CSV, bad], tmp_path / "x.parquet", partial=True)
    assert [failure.name for failure in done.failures] == [str(bad)]
    with pytest.raises(TracekitError):
        tracekit.read([CSV, bad])


def test_a_page_keeps_its_budget_and_commands_and_functions_have_the_same_default(tmp_path: Path) -> None:
    path = sample("nvprof-csv/gpu-and-api-trace.csv")
    tracekit.write_report(path, tmp_path / "page.html", page_events=100)
    head = read_page((tmp_path / "page.html").read_text(encoding="utf-8")).head
    assert (0 < head["n"] <= 100, head["total"]) == (True, 137)
    with pytest.raises(UsageError, match="page_events=0: at least 1 is needed"):
        tracekit.write_report(path, tmp_path / "none.html", page_events=0)
    with pytest.raises(UsageError, match="page_args_mb=nan"):
        tracekit.write_report(path, tmp_path / "none.html", page_args_mb=float("nan"))
    assert not (tmp_path / "none.html").exists()
    wanted = RenderOptions()
    for function in (tracekit.write_report, batch.run, cli_report.report, cli_batch.batch):
        found = inspect.signature(function).parameters
        for name in ("page_events", "page_mb", "page_args_mb"):
            assert found[name].default == getattr(wanted, name), (function, name)


@pytest.mark.parametrize("function", [api.view, api.summary, api.report, api.write_report])
def test_what_is_shown_has_the_same_arguments_everywhere(function: Callable[..., object]) -> None:
    """Each function lists them, so that help and editors show them; `_shown` has them all, with these defaults."""
    declared = inspect.signature(api._shown).parameters
    own = inspect.signature(inspect.unwrap(function)).parameters
    shared = own.keys() & declared.keys() - {"options"}
    assert {"by", "each", "topology"} <= shared
    for name in shared:
        assert (own[name].default, own[name].annotation) == (declared[name].default, declared[name].annotation), name
    if function in (api.view, api.summary):
        assert shared == declared.keys() - {"options"}
