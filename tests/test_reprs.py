"""What objects show of themselves: at most one screen, whatever they hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from support import sample

import tracekit
from tracekit import archive, doctor
from tracekit.model.report import SCREEN_ROWS
from tracekit.readers.builder import RowBuilder

COLUMNS = 100
PLAIN = (str, bytes, int, float, bool, type(None), Path)


def inside(thing: object, depth: int = 5) -> Iterator[object]:
    """Yield an object and the objects of ours in it; containers and columns of libraries are looked into."""
    if isinstance(thing, PLAIN) or depth == 0:
        return
    if isinstance(thing, Mapping):
        for each in list(thing.values())[:50]:
            yield from inside(each, depth - 1)
    elif isinstance(thing, (list, tuple)):
        for each in thing[:50]:
            yield from inside(each, depth - 1)
    elif type(thing).__module__.startswith("tracekit"):
        yield thing
        for field in dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ():
            yield from inside(getattr(thing, field.name), depth - 1)


def rows_of(text: str) -> int:
    return sum(max(-(-len(line) // COLUMNS), 1) for line in text.split("\n"))


def many_kernels(names: int) -> tracekit.Trace:
    builder = RowBuilder()
    for number in range(names):
        name = f"kernel_{number}<{'int, ' * 300}>"
        builder.add(
            ts_ns=10 * number, dur_ns=5, event_id=number, name=name, kind="kernel", source=0, device=0, stream=0
        )

    return tracekit.Trace(pa.Table.from_batches([builder.take()]))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("reprs")
    kineto, csv = sample("kineto/gpu.pt.trace.json"), sample("nvprof-csv/gpu-and-api-trace.csv")
    many = many_kernels(100)
    added = archive.add(folder / "archive", csv)
    return {
        "trace": tracekit.read([kineto, csv]),
        "many": many,
        "report": tracekit.report(kineto),
        "summary": tracekit.summary(many),
        "view": tracekit.view(csv, "kernel"),
        "comparison": tracekit.compare(kineto, csv),
        "comparison of many": tracekit.compare(many, many, by="operator", rules=["kernel.total > 3%"]),
        "history": tracekit.compare([many, many, many], history=True),
        "inspection": tracekit.inspect([kineto, csv]),
        "conversion": tracekit.convert(csv, folder / "x.json"),
        "written": tracekit.write(many, folder / "y.json"),
        "added": added,
        "entries": archive.entries(folder / "archive"),
        "verification": archive.verify(folder / "archive"),
        "diagnosis": doctor.diagnose(str(kineto)),
        "explanation": tracekit.explain(csv, "device.busy_time", "device.kernel_time"),
    }


def test_no_repr_is_longer_than_one_screen(results: dict[str, object]) -> None:
    long = {
        (name, type(thing).__name__): (rows_of(repr(thing)), len(repr(thing)))
        for name, result in results.items()
        for thing in inside(result)
        if rows_of(repr(thing)) > SCREEN_ROWS + 2
    }
    assert long == {}


def test_a_report_shows_its_first_screen_and_how_to_go_on(results: dict[str, object]) -> None:
    summary = tracekit.summary(sample("kineto/gpu.pt.trace.json"))
    lines = repr(summary).splitlines()
    assert lines[0] == summary.headline.opening.sentence  # type: ignore[union-attr]
    assert lines[-1].endswith("api, other") or 'report["NAME"]' in lines[-1]
    assert "--view" not in repr(summary)


def test_a_comparison_shows_its_verdict_and_what_changed(results: dict[str, object]) -> None:
    text = repr(results["comparison of many"])
    assert text.startswith("comparison of a trace against a trace: same")
    assert "device.total" in text
    assert "rule kernel.total > 3%: met" in text
