"""The same run in each format that we can write gives the same figures in every view that the format can feed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit
from benchmarks.truth import kineto, nsys, nvprof
from benchmarks.truth.machine import Rank, World
from benchmarks.truth.training import Plan, train
from tracekit import pipeline
from tracekit.inputs.selection import Selection
from tracekit.model.report import Finding
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.trace import Trace
from tracekit.views.base import ViewOptions

ILLS = ("", "item each layer", "pageable")
PROFILERS = ("kineto.json", "nsys.sqlite", "nvprof.csv")
CALLS = frozenset({*DEVICE_WORK, *API_CALLS} - {Kind.SYNC})
"""The kinds that every profiler records: one row for each call and each piece of work."""
WHOLE = (".json", ".json.gz", ".parquet", ".jsonl")
"""Targets that keep every row of a trace."""
COPY = re.compile(r"\[CUDA memcpy (\w+)\]|Memcpy (\w+) \(.*\)|memcpy(\w+)")
OF_THREADS = ("critical_path.path_names",)
"""Tables that differ where a format does not know the threads of calls, as nvprof's CSV."""

Row = dict[str, Any]


def written(rank: Rank, folder: Path) -> dict[str, Path]:
    """Write one run as each profiler writes it. The writers share no code with the readers."""
    paths = {name: folder / name for name in PROFILERS}
    kineto.write(rank, paths["kineto.json"], "calls")
    nsys.write([rank], paths["nsys.sqlite"])
    nvprof.write(rank, paths["nvprof.csv"])
    return paths


@pytest.fixture(scope="module", params=ILLS, ids=lambda ill: ill or "healthy")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    (rank,) = train(World(3), Plan(steps=6, layers=3, ill=request.param))
    return written(rank, tmp_path_factory.mktemp("run"))


def figures(trace: Trace, *, same_ids: bool = False) -> dict[str, list[Row]]:
    """Return the rows of every table of every view, and of the findings, without what a profiler names by itself.

    Each tool has its own names for copies, and numbers its records in its own order.
    """
    out: dict[str, list[Row]] = {}
    for section in pipeline.summary(trace, views=["all"], options=ViewOptions()).sections:
        for table in section.tables:
            names = [column.name for column in table.columns]
            rows = [dict(zip(names, map(common, row), strict=True)) for row in table.rows()]
            if not same_ids:
                rows = [{k: v for k, v in row.items() if not k.endswith("event")} for row in rows]
            out[f"{section.view}.{table.name}"] = sorted(rows, key=repr)
        findings = [figure for figure in section.figures if isinstance(figure, Finding)]
        if findings:
            out[f"{section.view}.findings"] = [{"rule": f.rule, "saving": f.saving_ns} for f in findings]
    return out


def common(cell: object) -> object:
    """Return a cell with one name for copies of a direction."""
    if isinstance(cell, str) and (found := COPY.fullmatch(cell)):
        return f"copy {found[found.lastindex or 0]}"
    return cell


def differences(one: dict[str, list[Row]], other: dict[str, list[Row]]) -> Iterator[str]:
    """Yield the tables that differ, with their first rows that do."""
    for table in sorted(one.keys() | other.keys()):
        a, b = one.get(table, []), other.get(table, [])
        if a != b:
            yield f"{table}: {[row for row in a if row not in b][:1]} | {[row for row in b if row not in a][:1]}"


def test_profilers_agree_on_a_run(run: dict[str, Path]) -> None:
    seen = {name: figures(tracekit.read(path, selection=Selection(kinds=CALLS))) for name, path in run.items()}
    first = seen["kineto.json"]
    assert len(first) >= 12
    assert first["kernel.kernels"]
    assert list(differences(first, seen["nsys.sqlite"])) == []
    without = [{k: v for k, v in one.items() if k not in OF_THREADS} for one in (first, seen["nvprof.csv"])]
    assert list(differences(*without)) == []


@pytest.mark.parametrize("name", PROFILERS)
@pytest.mark.parametrize("suffix", WHOLE)
def test_a_conversion_gives_the_figures_of_its_source(
    run: dict[str, Path], name: str, suffix: str, tmp_path: Path
) -> None:
    target = tmp_path / f"converted{suffix}"
    tracekit.convert(run[name], target)
    before, after = (figures(tracekit.read(path)) for path in (run[name], target))
    assert list(differences(before, after)) == []


@pytest.mark.parametrize("name", PROFILERS)
@pytest.mark.parametrize("target", ["cuda-kvp", "cuda-csv"])
def test_a_log_of_cudas_command_line_profiler_gives_the_figures_of_its_device_work(
    run: dict[str, Path], name: str, target: str, tmp_path: Path
) -> None:
    path = tmp_path / "cuda.log"
    tracekit.convert(run[name], path, to=target)
    work = Selection(kinds=frozenset(DEVICE_WORK))
    before, after = (figures(tracekit.read(each, selection=work)) for each in (run[name], path))
    for table in ("kernel.kernels", "memory_manipulation.copies", "device.devices", "breakdown.devices"):
        assert list(differences({table: before[table]}, {table: after[table]})) == []
