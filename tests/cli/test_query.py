"""`tracekit query` as a user runs it."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from forked import forks
from support import cpu_seconds, run_command, sample, wait_until

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
SQL = "SELECT kind, count(*) AS n, sum(dur_ns) AS total_ns FROM events GROUP BY kind ORDER BY total_ns DESC"


run = functools.partial(run_command, "query")


def test_text_shows_times_in_a_unit_with_every_digit() -> None:
    text = run(CSV, SQL).stdout
    assert "total_ns (us)" in text
    assert "3,050.099" in text
    assert "3,050,099" in run(CSV, SQL, "--unit", "ns").stdout


def test_several_inputs_come_before_the_query() -> None:
    done = run(CSV, sample("recorder-log/rank0.jsonl"), "SELECT count(*) AS n FROM events", "--format", "csv")
    assert done.stdout.split() == ["n", "175"]


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "txt", "md"])
def test_the_suffix_chooses_the_format_and_no_file_is_replaced(form: str, tmp_path: Path) -> None:
    out = tmp_path / f"x.{form}"
    run(CSV, SQL, "-o", out)
    data = out.read_bytes()
    match form:
        case "csv":
            assert data.startswith(b"kind,n,total_ns\r\nruntime,72,394740222\r\n")
        case "json":
            assert json.loads(data)["rows"][0] == ["runtime", 72, 394740222]
        case "parquet":
            assert pq.read_table(out).column("total_ns").to_pylist()[0] == 394740222
        case "md":
            assert b"| --- |" in data
        case _:
            assert b"394,740.222" in data
    assert "exists already" in run(CSV, SQL, "-o", out, code=1).stderr
    run(CSV, SQL, "-o", out, "--force")
    assert out.read_bytes() == data


def test_forms_to_stdout() -> None:
    assert json.loads(run(CSV, SQL, "--format", "json").stdout)["columns"][2]["unit"] == "ns"
    assert run(CSV, SQL, "--format", "parquet").stdout_bytes[:4] == b"PAR1"


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELEC", "for example"),
        ("SELECT * FROM event", 'Did you mean "events"'),
        ("SELECT nothing", "DESCRIBE events"),
        ("SELECT error('boom')", ""),
    ],
)
def test_a_hint_is_of_what_is_wrong_with_the_query(sql: str, hint: str) -> None:
    said = run(CSV, sql, code=2).stderr
    assert ("hint: " in said) == bool(hint)
    assert hint in said


def test_a_file_named_for_a_spreadsheet_has_no_formula(tmp_path: Path) -> None:
    out = tmp_path / "q.spreadsheet.csv"
    run(CSV, "SELECT '=1+1' AS \"=a\", -5 AS n", "-o", out)
    assert out.read_text(encoding="utf-8").split() == ["'=a,n", "'=1+1,-5"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([CSV, "SELEC"], 2, "syntax error"),
        ([CSV, "SELECT nothing FROM events"], 2, "nothing"),
        ([CSV, "DROP VIEW events"], 2, "DROP is refused"),
        ([SQL], 2, "no input is named, only a query"),
        ([CSV, "-o", "x.csv"], 2, "no SELECT: -o and --format are for one query"),
        ([CSV, "--format", "json"], 2, "no SELECT: -o and --format are for one query"),
        ([CSV, SQL, "--format", "html"], 2, "not an output format"),
        ([CSV, SQL, "--unit", "days"], 2, "not a unit"),
        (["missing.csv", SQL], 1, "no such file"),
        ([CSV, "SELECT CAST(name AS BIGINT) FROM events"], 1, "convert"),
        ([CSV, "SELECT * FROM read_text('pyproject.toml')"], 2, "may read only its inputs"),
    ],
)
def test_errors_are_one_sentence_and_an_exit_code(words: list[object], code: int, said: str) -> None:
    done = run(*words, code=code)
    assert said in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""


def test_an_output_never_replaces_an_input(tmp_path: Path) -> None:
    mine = tmp_path / "x.csv"
    mine.write_bytes(CSV.read_bytes())
    run(mine, SQL, "-o", mine, "--force", code=1)
    assert mine.read_bytes() == CSV.read_bytes()


def test_a_failure_in_the_middle_leaves_no_output(tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    run(CSV, "SELECT CAST(name AS BIGINT) AS x FROM events", "-o", out, code=1)
    assert list(tmp_path.iterdir()) == []


def test_dropped_records_are_a_note() -> None:
    done = run(sample("nvprof-csv/truncated.csv"), SQL)
    assert "1 of 67 records dropped" in done.stderr


def test_a_long_query_is_a_query(tmp_path: Path) -> None:
    sql = "SELECT " + ", ".join(f"1 AS a_rather_long_name_{n}" for n in range(300))
    assert run(CSV, sql, "--format", "csv").stdout.count("a_rather_long_name_") == 300
    assert "the query is empty" in run(CSV, "", code=2).stderr


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    assert "suffix" in run(CSV, SQL, "-o", tmp_path / "x.xlsx", code=2).stderr
    run(CSV, SQL, "-o", tmp_path / "x.xlsx", "--format", "csv")


ENDLESS = {
    "in the engine": "SELECT count(*) FROM range(1000000000) AS a, range(1000000000) AS b",
    "while it plans": "SELECT levenshtein(repeat('ab', 300000), repeat('bc', 300000))",
    "between batches": "SELECT a.range, b.range FROM range(1000000000) AS a, range(1000000000) AS b",
}


@pytest.mark.parametrize("where", ENDLESS)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_query_that_never_would(tmp_path: Path, where: str, name: str) -> None:
    number = signal.Signals[name]
    own = os.environ | {"TMPDIR": str(tmp_path)}
    forks().run("query", CSV, "SELECT 1", check=True)  # what a query imports is there from now on
    with forks().start("query", CSV, ENDLESS[where], "-o", tmp_path / "out.csv", env=own) as child:
        # A fork takes under 0.5 s of CPU time until the query starts; from then on the query is what takes time.
        wait_until(lambda: child.poll() is not None or cpu_seconds(child.pid) > 1)
        child.send_signal(number)
        out, err = child.communicate()
    assert (child.returncode, out) == (130 if name == "SIGINT" else 128 + number, b"")
    assert err in (b"", b"interrupted: no half-written file is left\n")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_time_ends_a_query_in_its_sentence(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tracekit", "query", "--max-time", "3s", str(CSV), ENDLESS["in the engine"]]
    done = subprocess.run(words, capture_output=True, check=False, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines()[0].startswith("error: the command was ended: it took longer than 3 s")
    assert len(done.stderr.splitlines()) == 2
    assert list(tmp_path.iterdir()) == []
