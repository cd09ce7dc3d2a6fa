"""The columns of the two views: short names, and where a row is from."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from compare_runs import steps, write
from support import sample

from tracekit import archive
from tracekit.inputs import InputOptions
from tracekit.model import schema
from tracekit.model.names import bare_function
from tracekit.queries import query, session
from tracekit.safety.anonymize import Anonymizer

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
LOGS = (sample("recorder-log/rank0.jsonl"), sample("recorder-log/rank1.jsonl"))


def rows(inputs: object, sql: str) -> list[tuple[object, ...]]:
    table = query(inputs, sql)  # type: ignore[arg-type]
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_the_short_name_of_a_kernel_is_beside_the_whole_one() -> None:
    found = rows(CSV, "SELECT DISTINCT kind, name, short_name FROM events")
    assert len(found) > 20
    for kind, name, short in found:
        assert short == (bare_function(str(name)) if kind == "kernel" else name)
    assert any(short != name for _, name, short in found)
    names = query(CSV, "SELECT * FROM events LIMIT 1").schema.names
    assert names[names.index("name") + 1] == "short_name"
    totals = rows(sample("nvprof-csv/summary-new.csv"), "SELECT name, short_name FROM totals WHERE kind = 'kernel'")
    assert totals
    assert all(short == bare_function(str(name)) for name, short in totals)


@pytest.mark.parametrize("name", ["", "a" * 5_000, "核 <void>(", "x::y::z", None])
def test_any_name_has_a_short_one(tmp_path: Path, name: str | None) -> None:
    path = write(tmp_path / "x.parquet", [{"name": name, "dur_ns": 1}, {"name": "f<int>(int)", "dur_ns": 2}])
    [(first,), (second,)] = rows(path, "SELECT short_name FROM events ORDER BY dur_ns")
    assert first == (None if name is None else bare_function(name))
    assert second == "f<int>"


def test_files_and_runs_of_a_folder_are_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for run, log in zip(("monday", "week 2/tuesday"), LOGS, strict=True):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / log.name).write_bytes(log.read_bytes())
    (tmp_path / "runs" / "top.csv").write_bytes(CSV.read_bytes())
    found = rows("runs", "SELECT run_name, file, min(source) = max(source) FROM events GROUP BY ALL ORDER BY file")
    assert found == [
        ("monday", "runs/monday/rank0.jsonl", True),
        ("runs", "runs/top.csv", True),
        ("week 2/tuesday", "runs/week 2/tuesday/rank1.jsonl", True),
    ]
    alone = "SELECT DISTINCT run_name, file FROM events"
    assert rows("runs/top.csv", alone) == [(None, "runs/top.csv")]
    assert rows("runs/to*.csv", alone) == [("runs", "runs/top.csv")]
    monkeypatch.chdir(tmp_path / "runs")
    assert rows("top.csv", alone) == [(None, "top.csv")]
    assert rows("mine=top.csv", alone) == [(None, "mine")]
    assert [row[1] for row in rows(["*.csv", "monday"], f"{alone} ORDER BY file")] == [
        "monday/rank0.jsonl", "top.csv"
    ]  # fmt: skip


def test_an_archive_beside_a_folder_keeps_its_runs_and_has_files(tmp_path: Path) -> None:
    root = tmp_path / "kept"
    archive.add(root, CSV, run="nightly", date="2026-02-01")
    archive.add(root, list(LOGS), run="ranks", date="2026-02-02")
    ask = "SELECT run_name, file, date FROM events GROUP BY ALL ORDER BY ALL"
    day = datetime.date(2026, 2, 1)
    alone = rows(root, ask)
    assert [(run, str(file).rpartition("/")[2], date) for run, file, date in alone] == [
        ("nightly", CSV.name, day),
        ("ranks", "rank0.jsonl", day.replace(day=2)),
        ("ranks", "rank1.jsonl", day.replace(day=2)),
    ]
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "x.csv").write_bytes(CSV.read_bytes())
    both = rows([root, tmp_path / "plain"], ask)
    assert [row for row in both if row[2] is not None] == alone
    assert [(row[0], str(row[1]).rpartition("/")[2]) for row in both if row[2] is None] == [("plain", "x.csv")]
    # The filter on a run of an archive alone still opens no file of another run.
    assert rows(root, "SELECT count(*) > 0 FROM events WHERE run_name = 'nightly'") == [(True,)]


def test_of_anonymized_inputs_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.csv").write_bytes(CSV.read_bytes())
    options = InputOptions(anonymize=Anonymizer("a key of the tests"))
    found = query(tmp_path / "secret", "SELECT DISTINCT run_name, file FROM events", options).to_pylist()
    assert found[0]["run_name"] is None
    assert "secret" not in str(found[0]["file"])


def test_a_session_answers_one_query_after_the_other() -> None:
    with session([CSV, *LOGS]) as opened:
        with opened.ask("SELECT name FROM events") as answer:
            next(iter(answer.reader))  # the rest is not read
        with opened.ask("SELECT count(*) AS n FROM events") as answer:
            assert answer.reader.read_all().to_pydict() == {"n": [290]} or answer is not None


@pytest.mark.parametrize(
    "name",
    [
        "nvprof-csv/gpu-and-api-trace.csv", "nvprof-csv/summary-new.csv", "theano/theano-1.0.5.txt",
        "recorder-log/rank0.jsonl", "kineto/gpu.pt.trace.json", "pprof/go-cpu.pb", "nvprof-text/no-kernels.txt",
    ],
)  # fmt: skip
def test_the_examples_of_any_file_have_rows(name: str) -> None:
    path = sample(name)
    with session(path) as opened:
        found = opened.describe()
    assert len(found.examples) == 3
    for sql in found.examples:
        assert query(path, sql).num_rows
    for view, table in zip(found.views, (schema.EVENTS, schema.TOTALS), strict=True):
        assert set(view.filled) | set(view.empty) == {*table.names, "short_name", "file", "entry", "date", "run_name"}
        assert view.rows == query(path, f"SELECT count(*) AS n FROM {view.name}")["n"][0].as_py()


def test_an_empty_trace_still_has_examples(tmp_path: Path) -> None:
    with session(write(tmp_path / "x.parquet", [])) as opened:
        assert [view.rows for view in opened.describe().views] == [0, 0]
        assert len(opened.describe().examples) == 3
    assert query(write(tmp_path / "y.parquet", steps(2)), "SELECT file FROM events LIMIT 1").num_rows == 1


def test_a_trace_with_some_columns_has_what_they_give() -> None:
    import tracekit

    trace = tracekit.read(CSV)
    [(file, short)] = rows(trace, "SELECT DISTINCT file, short_name = name FROM events WHERE kind = 'memcpy'")
    assert (str(file).rpartition("/")[2], short) == (CSV.name, True)
