"""A Parquet file of tracekit is scanned where it is, with the answers and the refusals of reading it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from compare_runs import steps, write
from support import sample

import tracekit
from tracekit import pipeline
from tracekit.errors import TracekitError
from tracekit.inputs import InputOptions
from tracekit.queries import ask, query

SAMPLES = (
    "nvprof-csv/gpu-and-api-trace.csv",
    "nvprof-csv/summary-new.csv",
    "theano/theano-1.0.5.txt",
    "kineto/gpu.pt.trace.json",
    "recorder-log/rank0.jsonl",
)
ALL = ("FROM events ORDER BY event_id, name, source", 'FROM totals ORDER BY section, "order", name')


def answers(path: object, options: InputOptions) -> list[object]:
    found: list[object] = []
    for sql in (*ALL, "SELECT count(*) AS n FROM totals"):
        with ask(path, sql, options) as answer:  # type: ignore[arg-type]
            found.append(answer.reader.read_all().to_pylist())
            found.append([ledger.to_json() for ledger in answer.ledgers])
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_of_convert_answers_as_its_reader_would(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.parquet"
    pipeline.convert(sample(name), path)
    # Another option of reading leaves the file to its reader.
    read = answers(path, InputOptions(strict=True))

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("the file was converted")

    monkeypatch.setattr(pipeline, "convert", refused)
    with pytest.raises(AssertionError):
        answers(path, InputOptions(strict=True))
    assert answers(path, InputOptions()) == read


def test_two_files_limits_and_names_are_left_to_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", steps(3))
    count = "SELECT count(*) AS n FROM events"
    whole = query(path, count)["n"][0].as_py()
    assert query([path, path.replace("x.parquet", "./x.parquet")], count)["n"][0].as_py() >= whole
    assert query(f"mine={path}", "SELECT DISTINCT file FROM events").num_rows == 1
    with tracekit.limits(read_events=5):
        assert query(path, count)["n"][0].as_py() < whole


def outcome(path: Path, *, strict: bool) -> object:
    """The rows, or that the file is refused."""
    try:
        return query(path, "FROM events ORDER BY event_id", InputOptions(strict=strict)).to_pylist()
    except TracekitError as err:
        return type(err)


def test_a_damaged_file_is_refused_where_its_reader_refuses_it(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "x.parquet", steps(2)))
    data = path.read_bytes()
    refused = 0
    for at in range(10, len(data), len(data) // 40):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        found = outcome(path, strict=False)
        assert found == outcome(path, strict=True)
        refused += not isinstance(found, list)
    assert refused > 10


def test_a_file_that_another_program_wrote_is_read(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "x.parquet", steps(5)))
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 7), path)
    with ask(path, "SELECT count(*) AS n FROM events") as answer:
        assert answer.reader.read_all()["n"][0].as_py() == 7
    assert "written-anew" in answer.ledgers[0].notes or "facts-lost" in answer.ledgers[0].notes


def test_a_file_that_unpacks_to_more_than_it_may_is_stopped_as_its_reader_stops(tmp_path: Path) -> None:
    """Many equal rows take next to no bytes."""
    rows = [{"ts_ns": 0, "dur_ns": 1, "name": "k", "event_id": 0}] * 200_000
    path = Path(write(tmp_path / "x.parquet", rows))
    table = pq.read_table(path)
    assert query(path, "SELECT count(*) AS n FROM events")["n"][0].as_py() <= table.num_rows
