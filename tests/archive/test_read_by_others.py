"""DuckDB, pandas and Dask read the archive as docs/archive.md says, and come to our figures."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, sample

import tracekit
from tracekit import archive

TEXT = (ROOT / "docs" / "archive.md").read_text(encoding="utf-8")
CODE = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
SOURCES = {
    "nightly": "nvprof-csv/gpu-and-api-trace.csv",
    "42": "kineto/gpu.pt.trace.json",
    "a b": "kineto/cpu.pt.trace.json",
}


def code_with(word: str) -> str:
    (found,) = [code for code in CODE if word in code]
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for run, name in SOURCES.items():
        archive.add(tmp_path / "profiles", sample(name), run=run, date="2026-01-31")
    archive.add(tmp_path / "profiles", sample("paddle-summary/gpu.txt"), run="summed", date="2026-02-01")
    shutil.copy(sample(SOURCES["nightly"]), tmp_path / "run.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(code, "archive.md", "exec"), names)
    return names


def kernel_ns() -> dict[str, int]:
    frames = {run: tracekit.read(sample(name)).to_pandas() for run, name in SOURCES.items()}
    sums = {run: int(f[f["kind"] == "kernel"]["dur_ns"].sum()) for run, f in frames.items()}
    return {run: total for run, total in sums.items() if total}


def test_duckdb(folder: Path) -> None:
    pytest.importorskip("duckdb")
    rows = run(code_with("import duckdb"))["rows"]
    assert {str(row[1]): row[3] for row in rows} == kernel_ns()


def test_duckdb_reads_totals_without_partitions(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    sql = "SELECT count(*) FROM read_parquet('profiles/totals/**/*.parquet', hive_partitioning = false)"
    assert duckdb.sql(sql).fetchall() == [(52,)]


def test_pandas(folder: Path) -> None:
    import pandas as pd

    rows = run(code_with("import pandas"))["rows"]
    assert {k: v for k, v in rows.to_dict().items() if v} == kernel_ns()
    assert rows.dtype == "int64[pyarrow]"
    assert len(pd.read_parquet("profiles/totals", partitioning=None)) == 52


@pytest.mark.filterwarnings("ignore")  # Dask calls what newer pandas deprecates
def test_dask(folder: Path) -> None:
    dd = pytest.importorskip("dask.dataframe")
    rows = run(code_with("import dask"))["rows"]
    assert {k: v for k, v in rows.to_dict().items() if v} == kernel_ns()
    totals = dd.read_parquet("profiles/totals", dataset={"partitioning": None})
    assert totals.shape[0].compute() == 52


def test_python(folder: Path) -> None:
    names = run(code_with("from tracekit import archive"))
    assert names["done"].run == "nightly"
    assert names["entry"].tags == {"gpu": "H200"}
    assert names["trace"].events.num_rows == 137
