"""A query can read its inputs, and do nothing else: no write, no other file, no extension, no setting."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from doors.stores import QUERIED_EVENTS, QUERIED_TOTALS, QueryTables
from doors.stores import query_engine as _engine
from support import sample

from tracekit.errors import MissingExtraError, TracekitError, UsageError
from tracekit.queries import query

duckdb = pytest.importorskip("duckdb")
CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
SECRET = "a secret of this machine"

# {file}: a file that is there; {new}: one that is not.
OTHER_FILES = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_csv_auto('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM read_json_objects('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_scan('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM '{file}'",
    'SELECT * FROM "{file}"',
    "FROM '{file}'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
    "SELECT * FROM query_table('{file}')",
    "SELECT (SELECT content FROM read_text('{file}')) FROM events",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "WITH x AS (SELECT * FROM read_text('{file}')) SELECT * FROM x",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM arrow_scan_dumb(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM variable_of_the_caller",
    "SELECT * FROM table_of_the_module",
    "SELECT * FROM sqlite_scan('{file}', 'x')",
    "SELECT getenv('HOME')",
]
CHANGES = [
    "COPY events TO '{new}'",
    "COPY (SELECT 1) TO '{new}' (FORMAT parquet)",
    "COPY events FROM '{file}'",
    "EXPORT DATABASE '{new}'",
    "IMPORT DATABASE '{folder}'",
    "ATTACH '{new}'",
    "ATTACH '{file}' AS other (READ_ONLY)",
    "DETACH memory",
    "USE memory.main",
    "INSTALL httpfs",
    "INSTALL httpfs FROM community",
    "FORCE INSTALL json",
    "LOAD httpfs",
    "LOAD '{file}'",
    "UPDATE EXTENSIONS",
    "SET enable_external_access = true",
    "SET GLOBAL lock_configuration = false",
    "RESET enable_external_access",
    "SET threads = 1",
    "SET temp_directory = '{folder}'",
    "SET VARIABLE x = 1",
    "PRAGMA enable_external_access",
    "PRAGMA memory_limit = '1TB'",
    "CREATE TABLE t AS SELECT 1",
    "CREATE VIEW v AS SELECT 1",
    "CREATE SECRET (TYPE s3)",
    "CREATE MACRO m(x) AS x",
    "INSERT INTO events VALUES (1)",
    "DELETE FROM events",
    "UPDATE events SET ts_ns = 0",
    "DROP VIEW events",
    "ALTER VIEW events RENAME TO x",
    "CALL pragma_version()",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN TRANSACTION",
    "PREPARE p AS SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "PIVOT events ON kind USING count(*)",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY events TO '{new}'",
    "COPY (SELECT 1) TO '{new}'; SELECT 1",
    "",
    "   ",
    "-- nothing but a comment",
]
"""Those that no SELECT can do, and so are refused by what they are."""
table_of_the_module = pa.table({"x": [1]})


def placed(sql: str, folder: Path) -> str:
    file = folder / "secret.csv"
    file.write_text(f"x\n{SECRET}\n", encoding="utf-8")
    return sql.format(file=file, new=folder / "new", folder=folder)


@pytest.mark.parametrize("sql", OTHER_FILES)
def test_no_other_file_can_be_read(sql: str, tmp_path: Path) -> None:
    variable_of_the_caller = pa.table({"x": [1]})
    with pytest.raises(UsageError) as caught:
        query(CSV, placed(sql, tmp_path))
    assert SECRET not in str(caught.value)
    assert variable_of_the_caller.num_rows == 1


@pytest.mark.parametrize("sql", CHANGES)
def test_nothing_but_one_select_is_run(sql: str, tmp_path: Path) -> None:
    before = set(os.environ)
    with pytest.raises(UsageError) as caught:
        query(CSV, placed(sql, tmp_path))
    assert caught.value.hint
    assert [p.name for p in tmp_path.iterdir()] == ["secret.csv"]
    assert set(os.environ) == before


@pytest.mark.parametrize(
    "sql",
    [
        s
        for s in OTHER_FILES + CHANGES
        if s.split(" ")[0] in {"COPY", "EXPORT", "IMPORT", "ATTACH", "INSTALL", "FORCE", "LOAD", "RESET"}
        or s.startswith(("SET enable", "SET GLOBAL", "SET threads", "SET temp", "PRAGMA memory", "SELECT * FROM read"))
    ],
)
def test_the_engine_itself_refuses_even_if_the_statement_were_let_through(sql: str, tmp_path: Path) -> None:
    base = _engine.locked(
        QueryTables(QUERIED_EVENTS.empty_table(), QUERIED_TOTALS.empty_table()), str(tmp_path / "spill")
    )
    try:
        with pytest.raises(duckdb.Error):
            base.execute(placed(sql, tmp_path)).fetchall()
    finally:
        base.close()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS x",
        "select 1 as x;",
        "VALUES (1)",
        "FROM events LIMIT 1",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "DESCRIBE events",
        "SUMMARIZE totals",
        "SHOW TABLES",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "-- a comment\nSELECT 'COPY; ATTACH'",
        "PIVOT (SELECT kind FROM events) ON kind IN ('kernel', 'memcpy') USING count(*)",
    ],
)
def test_queries_that_only_read_are_run(sql: str) -> None:
    assert query(CSV, sql).num_columns


def test_logins_that_duckdb_keeps_for_this_user_are_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    try:
        assert query(CSV, "SELECT * FROM duckdb_secrets()").num_rows == 0
    except UsageError as err:
        assert "inputs alone" in str(err)  # noqa: PT017 - DuckDB 2 refuses, DuckDB 1 gives an empty list


def test_to_parse_a_query_no_file_is_opened(tmp_path: Path) -> None:
    """DuckDB 1 expands IMPORT DATABASE while it parses, by reading schema.sql."""
    (tmp_path / "schema.sql").write_text(f"SELECT '{SECRET}'; {SECRET};", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        query(CSV, f"IMPORT DATABASE '{tmp_path}'")
    assert SECRET not in str(caught.value)


def test_the_views_are_all_there_is() -> None:
    assert query(CSV, "SHOW TABLES").to_pylist() == [{"name": "events"}, {"name": "totals"}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM events", "nothing"),
        ("SELECT 1 FROM nowhere", "nowhere"),
        ("SELECT sum(name) FROM events", "sum"),
        ("SELECT (", "syntax error"),
        ("SELECT '", "unterminated"),
        ("SELECT CAST(name AS BIGINT) FROM events", "convert"),
        ("SELECT error('boom')", "boom"),
        ("SELECT 9223372036854775807 + ts_ns FROM events", "[Oo]verflow"),
    ],
)
def test_a_wrong_query_is_one_sentence(sql: str, said: str) -> None:
    with pytest.raises(TracekitError, match=said) as caught:
        query(CSV, sql)
    assert "\n" not in str(caught.value)
    assert not str(caught.value).startswith("Parser Error")


def test_nothing_is_left_where_the_query_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    query(CSV, "SELECT a.name FROM events a, events b ORDER BY a.name, b.ts_ns")
    assert list(tmp_path.iterdir()) == []


def test_without_duckdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingExtraError) as caught:
        query(CSV, "SELECT 1")
    assert "tracekit-gpu[query]" in caught.value.hint
