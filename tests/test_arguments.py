"""Every public function and method refuses a wrong argument with one error of ours, which names the argument."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import sample

import tracekit
from tracekit import archive, batch
from tracekit.arguments import checked, signature_of
from tracekit.errors import ArgumentTypeError, NoSuchPlaceError, TracekitError, UnknownNameError, UsageError

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")


class _Strange:
    """An object of no type that an argument has."""


STRANGE = (3.5, b"x", _Strange(), [None], {"a": _Strange()}, {1, _Strange()}, np.zeros(2))
"""Values of a type that no argument of these functions has."""
ANY = {"progress"}
"""Arguments that take functions: what a function of the user raises is his own."""


def calls(folder: Path) -> dict[str, tuple[Callable[..., object], dict[str, object]]]:
    """Return each public function and method with arguments that are right."""
    trace = tracekit.read(CSV)
    report = tracekit.summary(trace)
    section = report["kernel"]
    comparison = tracekit.compare(trace, trace)
    targets = (str(folder / f"{number}.json") for number in range(10_000))

    def limited(**limits: object) -> None:
        with tracekit.limits(**limits):  # type: ignore[arg-type]
            pass

    limited.__wrapped__ = tracekit.limits  # type: ignore[attr-defined]

    def to_file(function: Callable[..., object]) -> Callable[..., object]:
        def write(**given: object) -> object:
            return function(**{"target": next(targets), **given})

        write.__wrapped__ = function  # type: ignore[attr-defined]
        return write

    return {
        "read": (tracekit.read, {"inputs": CSV}),
        "view": (tracekit.view, {"source": trace, "name": "kernel"}),
        "summary": (tracekit.summary, {"source": trace, "views": ["kernel"]}),
        "report": (tracekit.report, {"source": trace}),
        "write_report": (to_file(tracekit.write_report), {"source": trace, "form": "json"}),
        "convert": (to_file(tracekit.convert), {"source": CSV}),
        "write": (to_file(tracekit.write), {"trace": trace}),
        "inspect": (tracekit.inspect, {"inputs": CSV}),
        "compare": (tracekit.compare, {"base": trace, "new": trace}),
        "query": (tracekit.query, {"inputs": trace, "sql": "SELECT 1"}),
        "explain": (tracekit.explain, {"source": trace, "left": "device.busy_time", "right": "device.kernel_time"}),
        "limits": (limited, {}),
        "Selection": (tracekit.Selection, {}),
        "ViewOptions": (tracekit.ViewOptions, {}),
        "Trace.filter": (trace.filter, {}),
        "Trace.to_pandas": (trace.to_pandas, {}),
        "Trace.to_polars": (trace.to_polars, {}),
        "Report.section": (report.section, {"view": "kernel"}),
        "Report[...]": (report.__getitem__, {"view": "kernel"}),
        "Report.to_pandas": (report.to_pandas, {}),
        "Report.to_arrow": (report.to_arrow, {}),
        "Report.show": (report.show, {}),
        "Section[...]": (section.__getitem__, {"table": 0}),
        "Section.to_pandas": (section.to_pandas, {}),
        "ReportTable[...]": (section[0].__getitem__, {"key": 0}),
        "ReportTable.column": (section[0].column, {"name": "calls"}),
        "Comparison[...]": (comparison.__getitem__, {"metric": "device.total"}),
        "Comparison.report": (comparison.report, {}),
        "archive.add": (archive.add, {"root": folder / "a", "inputs": CSV}),
        "archive.entries": (archive.entries, {"root": folder / "a"}),
        "archive.find": (archive.find, {"root": folder / "a", "entry_id": "0000"}),
        "archive.prune": (archive.prune, {"root": folder / "a", "run": "none", "dry_run": True}),
        "archive.verify": (archive.verify, {"root": folder / "a"}),
        "batch.run": (batch.run, {"roots": [str(folder)], "out": str(folder / "out")}),
    }


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Callable[..., object], dict]]:
    folder = tmp_path_factory.mktemp("arguments")
    archive.add(folder / "a", CSV)
    return calls(folder)


NAMES = [
    "read",
    "view",
    "summary",
    "report",
    "write_report",
    "convert",
    "write",
    "inspect",
    "compare",
    "query",
    "explain",
    "limits",
    "Selection",
    "ViewOptions",
    "Trace.filter",
    "Trace.to_pandas",
    "Trace.to_polars",
    "Report.section",
    "Report[...]",
    "Report.to_pandas",
    "Report.to_arrow",
    "Report.show",
    "Section[...]",
    "Section.to_pandas",
    "ReportTable[...]",
    "ReportTable.column",
    "Comparison[...]",
    "Comparison.report",
    "archive.add",
    "archive.entries",
    "archive.find",
    "archive.prune",
    "archive.verify",
    "batch.run",
]


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_of_another_type_is_refused_by_its_name(name: str, every: dict) -> None:
    function, right = every[name]
    for argument, parameter in signature_of(function).parameters.items():
        if argument in ANY or argument == "self" or parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        for value in STRANGE:
            annotation = str(parameter.annotation)
            if (isinstance(value, float) and "float" in annotation) or (
                isinstance(value, dict) and "object" in annotation
            ):
                continue
            with contextlib.redirect_stdout(io.StringIO()), pytest.raises(TracekitError) as caught:
                function(**{**right, argument: value})
            said = str(caught.value)
            assert "\n" not in said, (argument, value)
            assert argument in said or "is not an input" in said, (argument, value, said)


def test_every_function_is_tried(every: dict) -> None:
    assert set(NAMES) == set(every)
    functions = {name for name in tracekit.__all__ if inspect.isfunction(getattr(tracekit, name))}
    assert functions <= set(NAMES)


def test_an_unknown_argument_and_a_missing_one_name_those_that_exist() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^read: no argument formt; did you mean format\?") as caught:
        tracekit.read(CSV, formt="x")  # type: ignore[call-arg]
    assert "format" in caught.value.choices
    with pytest.raises(TypeError, match=r"^view: missing a required argument: 'name'"):
        tracekit.view(CSV)  # type: ignore[call-arg]


WRONG_VALUES: dict[str, Callable[[], object]] = {
    "top": lambda: tracekit.view(CSV, "kernel", top=-1),
    "top ": lambda: tracekit.ViewOptions(top=-1),
    "viewer": lambda: tracekit.convert(CSV, "never.json", viewer="perfeto"),
    "viewer ": lambda: tracekit.write(tracekit.read(CSV), "never.json", viewer="perfeto"),
    "unit": lambda: tracekit.summary(CSV).show(unit="min"),
    "BASE": lambda: tracekit.compare([], CSV),
    "NEW": lambda: tracekit.compare(CSV),
    "min_effect": lambda: tracekit.compare(CSV, CSV, min_effect=3),
    "format": lambda: tracekit.query(tracekit.read(CSV), "SELECT 1", format="kineto"),
    "sql": lambda: tracekit.query(CSV, "DROP TABLE events"),
    "each": lambda: tracekit.view(CSV, "kernel", each=True),
    "column": lambda: tracekit.compare(tracekit.read(CSV, columns=["name"]), CSV),
    "generator": lambda: tracekit.read(path for path in [CSV]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_a_value_that_cannot_be_is_refused_with_advice(case: str) -> None:
    with pytest.raises(UsageError) as caught:
        WRONG_VALUES[case]()
    assert caught.value.hint
    assert "--" not in f"{caught.value} {caught.value.hint}"
    assert not Path("never.json").exists()


def test_an_error_says_what_the_argument_must_be() -> None:
    with pytest.raises(UsageError, match=r"^view: top must be int, not str \('3'\)") as caught:
        tracekit.view(CSV, "kernel", top="3")  # type: ignore[arg-type]
    assert (caught.value.option, caught.value.found) == ("top", "str ('3')")
    with pytest.raises(TypeError, match=r"^summary: views must be str or a list of str, not list \(\[3\]\)"):
        tracekit.summary(CSV, views=[3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"^read: strict must be bool, not str \('no'\)"):
        tracekit.read(CSV, strict="no")  # type: ignore[arg-type]


def test_a_name_that_is_not_there_is_a_key_error_and_a_place_an_index_error() -> None:
    report = tracekit.summary(CSV)
    for wrong in (lambda: report["kernl"], lambda: report["kernel"]["x"], lambda: report["kernel"][0]["totl"]):
        with pytest.raises(UnknownNameError) as caught:
            wrong()
        assert isinstance(caught.value, KeyError)
        assert not str(caught.value).startswith("'")
        assert caught.value.choices
    for far in (lambda: report[99], lambda: report["kernel"][9], lambda: report["kernel"][0][-99]):
        with pytest.raises(NoSuchPlaceError, match=r"has no (row|table|section) -?\d+"):
            far()
        with pytest.raises(IndexError):
            far()


def test_numbers_of_numpy_are_numbers_and_a_list_of_names_is_a_set_of_columns() -> None:
    trace = tracekit.read(CSV, columns=["name", "kind"])
    assert {"name", "kind", "ts_ns", "dur_ns"} == set(trace.events.column_names)
    assert len(tracekit.view(CSV, "kernel", top=np.int64(2))[0]) == 2  # type: ignore[arg-type]
    assert len(tracekit.read(CSV).filter(stream=np.int32(7), min_dur=np.int64(5))) > 0  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"columns nme: no such column; did you mean name\?"):
        tracekit.read(CSV, columns=["nme"])


def test_the_advice_is_in_the_traceback() -> None:
    with pytest.raises(TracekitError) as caught:
        tracekit.view(CSV, "kernl")
    assert caught.value.__notes__ == [f"hint: {caught.value.hint}"]


def test_a_decorated_function_keeps_its_signature_and_checks_what_is_given() -> None:
    @checked("free")
    def function(word: str, *, pairs: dict[str, int] | None = None, free: int = 0) -> str:
        return f"{word} {pairs} {free}"

    assert list(inspect.signature(function).parameters) == ["word", "pairs", "free"]
    assert function("a", pairs={"b": 1}, free="x") == "a {'b': 1} x"  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="pairs must be a dict of str to int or None, not dict"):
        function("a", pairs={"b": "1"})  # type: ignore[dict-item]
