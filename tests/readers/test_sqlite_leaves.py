"""Whole numbers from the pages of a database: the rows of SQLite, or none, whatever the file is."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.trace import Ledger
from tracekit.readers.source import open_source
from tracekit.readers.sqlite.database import CellType, Database
from tracekit.readers.sqlite.leaves import NeedsSqlite, PlainTable, integer_blocks

Row = tuple[Any, ...]
LONG = 1 << 63
EDGES = st.sampled_from(
    [bound + by for bits in (7, 8, 15, 23, 24, 31, 47, 63) for bound in (1 << bits,) for by in (-1, 0)]
)
INTEGERS = st.one_of(
    st.integers(0, 2), st.integers(-300, 300), EDGES, EDGES.map(lambda n: -n), st.integers(-LONG, LONG - 1)
).map(lambda n: max(min(n, LONG - 1), -LONG))
CELLS = st.one_of(st.none(), INTEGERS)
ODD = st.one_of(CELLS, st.text(max_size=70), st.floats(allow_nan=False), st.binary(max_size=600))
SCHEMA = "create table x(a INTEGER, b INT NOT NULL DEFAULT 3, c TEXT, d BIGINT, e)"


def made(path: Path, rows: Sequence[Row], *, page: int = 512, script: str = SCHEMA, ids: Sequence[int] = ()) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"pragma page_size = {page}; {script}")
        marks = ", ".join("?" * (len(rows[0]) if rows else 5))
        if ids:
            names = ", ".join(["rowid", *"abcde"])
            db.executemany(f"insert into x({names}) values (?, {marks})", [(n, *r) for n, r in zip(ids, rows)])
        else:
            db.executemany(f"insert into x values ({marks})", rows)
        db.commit()
    return path


def table(path: Path, columns: str, *, unread: Collection[str] = ()) -> PlainTable:
    with closing(sqlite3.connect(path)) as db:
        names = [row[1] for row in db.execute("pragma table_info(x)")]
        root = db.execute("select rootpage from sqlite_master where name = 'x'").fetchone()[0]
    return PlainTable(path, root, len(names), {name: names.index(name) for name in columns}, unread)


def ours(plain: PlainTable, size: int = 7) -> tuple[list[Row], bool]:
    """Return the rows that come from the pages, and whether these are all."""
    found: list[Row] = []
    with suppress(NeedsSqlite):
        for count, columns in integer_blocks(plain, size):
            assert 0 < count <= size
            found += zip(*(columns[name].to_pylist() for name in plain.places), strict=True)
        return found, True
    return found, False


def theirs(path: Path, columns: str) -> list[Row]:
    """Return the rows of SQLite, those before an error where there is one."""
    query, found = f"select {', '.join(columns)} from x", list[Row]()
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
        db.text_factory = bytes
        try:
            for row in db.execute(query):
                found.append(row)
        except sqlite3.Error:
            # Python asks for the next row before it gives one, so the last one before an error is lost.
            with suppress(sqlite3.Error):
                found = db.execute(f"{query} limit {len(found) + 1}").fetchall()
    return found


@given(
    st.lists(st.tuples(CELLS, INTEGERS, ODD, CELLS, ODD), max_size=60),
    st.sampled_from([512, 4096, 65536]),
    st.sampled_from(["a", "bd", "dba"]),
    st.integers(1, 70),
)
def test_the_rows_are_those_of_sqlite(rows: list[Row], page: int, columns: str, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = made(Path(folder, "x.db"), [(*row[:4], None) for row in rows], page=page)
        found, whole = ours(table(path, columns), size)
        assert found == theirs(path, columns)[: len(found)]
        short = all(not isinstance(row[2], str | bytes) or len(row[2]) < 12 for row in rows)
        assert whole or not short


@given(
    st.lists(st.tuples(ODD, CELLS, CELLS, ODD, ODD), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=6),
    st.sampled_from([512, 1024]),
)
def test_of_odd_cells_and_damaged_pages_there_are_the_rows_of_sqlite_or_none(
    rows: list[Row], damage: list[tuple[int, int]], page: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = made(Path(folder, "x.db"), rows, page=page, script=SCHEMA.replace(" NOT NULL", ""))
        plain = table(path, "abd")
        data = bytearray(path.read_bytes())
        for place, byte in damage:
            data[page + place % (len(data) - page)] = byte
        path.write_bytes(data)
        found, whole = ours(plain)
        # SQLite reads a page of an index as one of a table where it is asked to; texts and floats are never ours.
        reference = theirs(path, "abd")
        assert found == reference[: len(found)]
        assert not whole or len(found) == len(reference)
        assert all(cell is None or type(cell) is int for row in found for cell in row)


@given(st.lists(st.sampled_from([-LONG, -1, 0, 1, 127, 128, 1 << 21, 1 << 35, 1 << 56, LONG - 1]), unique=True))
def test_row_numbers_of_any_length_are_passed_over(ids: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = made(Path(folder, "x.db"), [(n, 1, None, -n if n > -LONG else 0, None) for n in ids], ids=ids)
        assert ours(table(path, "ad")) == (theirs(path, "ad"), True)


@given(st.lists(st.one_of(st.none(), st.integers(-(1 << 25), 1 << 25)), min_size=1, max_size=40), st.integers(1, 40))
def test_an_unread_column_is_missing_only_where_all_its_cells_are_small(cells: list[int | None], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = made(Path(folder, "x.db"), [(n, 1, None, cell, None) for n, cell in enumerate(cells)])
        at = 0
        for count, columns in integer_blocks(table(path, "ad", unread={"d"}), size):
            mine = cells[at : at + count]
            if all(cell is None or -(1 << 23) <= cell < 1 << 23 for cell in mine):
                assert columns.keys() == {"a"}
            else:
                assert columns["d"].to_pylist() == mine
            at += count
        assert at == len(cells)


@pytest.mark.parametrize(
    ("script", "column"),
    [
        (SCHEMA + "; create index i on x(a)", "a"),
        ("create table x(a REAL, b, c, d, e)", "a"),
        ("create table x(a INTEGER PRIMARY KEY, b, c, d, e)", "a"),
        ("create table x(a INTEGER PRIMARY KEY, b INT, c, d, e) without rowid", "b"),
        ("create table x(a INT UNIQUE, b, c, d, e)", "a"),
        (SCHEMA, "a"),
    ],
)
def test_blocks_are_the_same_whatever_the_table_is_like(tmp_path: Path, script: str, column: str) -> None:
    path = made(tmp_path / "x.db", [(n, 3 * n, None, n << 40, None) for n in (5, 4, 9, 1, 2)], script=script)
    with open_source(str(path)) as source, Database(source, Ledger()) as db:
        found = [*db.blocks("x", {column: CellType.INTEGER}, 2)]
    assert [block.count for block in found] == [2, 2, 1]
    mine = [cell for block in found for cell in block.columns[column].to_pylist()]
    real = "REAL" in script  # of another type: each cell counts as empty
    assert mine == [None if real else row[0] for row in theirs(path, column)]


def test_a_column_that_was_added_later_has_its_default(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", [(n, 3 * n, None, n, None) for n in range(9)])
    with closing(sqlite3.connect(path)) as db:
        db.execute("alter table x add column f INTEGER DEFAULT 8")
        db.execute("insert into x(a, b, f) values (1, 1, 1)")
        db.commit()
    with open_source(str(path)) as source, Database(source, Ledger()) as db_:
        found = [block.columns["f"].to_pylist() for block in db_.blocks("x", {"f": CellType.INTEGER}, 20)]
    assert found == [[8] * 9 + [1]]


def test_a_text_among_numbers_costs_its_own_cell(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", [("odd" if n == 7 else n, n, None, None, None) for n in range(20)])
    ledger = Ledger()
    with open_source(str(path)) as source, Database(source, ledger) as db:
        found = [*db.blocks("x", {"a": CellType.INTEGER}, 4, unread={"a"})]
    assert [block.first for block in found] == [1, 5, 9, 13, 17]
    assert found[1].columns["a"].to_pylist() == [4, 5, 6, None]
    assert ledger.notes["cell-of-another-type"].count == 1
