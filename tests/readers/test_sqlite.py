"""Databases as columns: both ways return the same blocks, an odd cell costs only itself, damage is reported."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tracekit.errors import ParseError
from tracekit.model.trace import Ledger
from tracekit.readers.source import open_source
from tracekit.readers.sqlite.database import CellType, Database, RowBlock

COLUMNS = {"a": CellType.INTEGER, "r": CellType.REAL, "t": CellType.TEXT, "b": CellType.HEX, "gone": CellType.INTEGER}


def made(path: Path, rows: list[tuple[Any, ...]], *, script: str = "create table x(a, r, t, b)") -> Path:
    db = sqlite3.connect(path)
    db.executescript(script)
    db.executemany("insert into x values (?, ?, ?, ?)", rows)
    db.commit()
    db.close()
    return path


def blocks(path: Path, size: int = 4) -> tuple[list[RowBlock], Ledger]:
    ledger = Ledger()
    with open_source(str(path)) as source, Database(source, ledger) as db:
        return list(db.blocks("x", COLUMNS, size)), ledger


def cells(found: list[RowBlock]) -> list[tuple[Any, ...]]:
    return [row for b in found for row in zip(*(b.columns[c].to_pylist() for c in "artb"), strict=True)]


ROWS = [(i, i / 4, f"text {i}", bytes([i])) for i in range(10)]


def test_blocks_hold_the_rows_in_their_order_without_the_columns_that_are_not_there(tmp_path: Path) -> None:
    found, ledger = blocks(made(tmp_path / "x.db", ROWS))
    assert [(b.first, b.count) for b in found] == [(1, 4), (5, 4), (9, 2)]
    assert cells(found) == [(i, i / 4, f"text {i}", f"{i:02X}") for i in range(10)]
    assert "gone" not in found[0].columns
    assert not ledger.notes


def test_nulls_stay_nulls_also_in_blocks_that_have_nothing_else(tmp_path: Path) -> None:
    rows = [(None, None, None, None)] * 6 + [(7, 0.5, "x", b"\1")]
    found, ledger = blocks(made(tmp_path / "x.db", rows))
    assert cells(found) == [(None, None, None, None)] * 6 + [(7, 0.5, "x", "01")]
    assert found[0].integers("a").tolist() == [0] * 4
    assert not found[0].valid("a").any()
    assert not ledger.notes


@pytest.mark.parametrize("at", [0, 5, 9])
def test_a_cell_of_another_type_costs_itself_wherever_it_stands(tmp_path: Path, at: int) -> None:
    rows: list[tuple[Any, ...]] = list(ROWS)
    rows[at] = ("seven", "x", 3, 4)
    found, ledger = blocks(made(tmp_path / "x.db", rows))
    want = [(i, i / 4, f"text {i}", f"{i:02X}") for i in range(10)]
    want[at] = (None, None, None, "34")
    assert cells(found) == want
    assert [b.first for b in found] == [1, 5, 9]
    assert ledger.notes["cell-of-another-type"].count == 3 if at else True
    assert "cell-of-another-type" in ledger.notes


def test_bytes_that_are_no_utf_8_become_the_replacement_character(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", ROWS)
    db = sqlite3.connect(path)
    db.execute("update x set t = cast(x'41FF42' as text) where a = 6")
    db.commit()
    db.close()
    assert cells(blocks(path)[0])[6][2] == "A\ufffdB"


@pytest.mark.parametrize("module", ["adbc_driver_sqlite", "adbc_driver_manager"])
def test_without_the_driver_the_blocks_are_the_same(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "x.db", [*ROWS, (None, None, None, None)])
    slow_way, tables = Database._slow, []
    monkeypatch.setattr(Database, "_slow", lambda *given: tables.append(given[1]) or slow_way(*given))
    fast = blocks(path)[0]
    assert tables == []
    monkeypatch.setitem(sys.modules, module, None)
    slow = blocks(path)[0]
    assert tables == ["x"]
    assert cells(slow) == cells(fast)
    assert [b.columns["a"].type for b in slow] == [pa.int64()] * 3


@pytest.mark.parametrize("made_before", ["AdbcConnection", "AdbcStatement"])
def test_ctrl_c_between_two_handles_of_the_driver_is_ctrl_c(
    made_before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle that is made at that moment is in nobody's list of what to close, and keeps its owner open."""
    import adbc_driver_manager as adbc

    make, handles = getattr(adbc, made_before), []

    def interrupted(owner: Any) -> None:
        handles.append(make(owner))
        raise KeyboardInterrupt

    monkeypatch.setattr(adbc, made_before, interrupted)
    path = made(tmp_path / "x.db", ROWS)
    with pytest.raises(KeyboardInterrupt):
        blocks(path)
    assert len(handles) == 1


def test_views_and_virtual_tables_are_no_tables(tmp_path: Path) -> None:
    script = "create table x(a, r, t, b); create view y as select * from x; create virtual table z using fts5(t);"
    path = made(tmp_path / "x.db", [], script=script)
    with open_source(str(path)) as source, Database(source, Ledger()) as db:
        assert "x" in db.tables
        assert not {"y", "z"} & db.tables.keys()


def test_a_cut_database_is_refused_with_its_sizes(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", ROWS)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ParseError, match="is cut: it has 5,000 of 8,192 bytes") as caught:
        blocks(path)
    assert "recover" in caught.value.hint


def test_a_damaged_page_is_told_with_the_table_and_row(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", [(i, 0.5, "t" * 50, b"") for i in range(500)])
    data = bytearray(path.read_bytes())
    data[-4096 * 3 : -4096 * 2] = b"\x5a" * 4096
    path.write_bytes(data)
    with pytest.raises(ParseError, match="table x after row"):
        blocks(path)


def test_a_schema_that_sqlite_itself_cannot_quote_is_refused(tmp_path: Path) -> None:
    import tracekit
    from tracekit.errors import UnknownFormatError

    path = made(tmp_path / "x.db", ROWS)
    path.write_bytes(path.read_bytes().replace(b"table x", b"tabl\x80 x").replace(b"TABLE x", b"TABL\x80 x"))
    with pytest.raises(ParseError, match="cannot be read"):
        blocks(path)
    with pytest.raises(UnknownFormatError):
        tracekit.read(path)


def test_rows_that_are_only_in_the_log_beside_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.executescript("pragma journal_mode = wal; pragma wal_autocheckpoint = 0; create table x(a, r, t, b);")
    db.execute("insert into x values (1, 2.0, 'in the log', x'00')")
    db.commit()
    found, ledger = blocks(path)
    assert cells(found) == [(1, 2.0, "in the log", "00")]
    assert "open-database" in ledger.notes
    db.close()


def test_a_locked_database_can_be_read_all_the_same(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", ROWS)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("begin exclusive")
        assert len(cells(blocks(path)[0])) == 10
        db.execute("rollback")


def test_nothing_is_written_beside_the_database(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", ROWS)
    before = path.read_bytes()
    blocks(path)
    assert [p.name for p in tmp_path.iterdir()] == ["x.db"]
    assert path.read_bytes() == before


def test_names_with_quotes_and_keywords_are_columns_like_others(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.executescript('create table "odd ""table"(a, "end", "a""b"); insert into "odd ""table" values (1, 2, 3);')
    db.close()
    with open_source(str(path)) as source, Database(source, Ledger()) as opened:
        (block,) = opened.blocks('odd "table', {"end": CellType.INTEGER, 'a"b': CellType.INTEGER})
        assert (block.integers("end").tolist(), block.integers('a"b').tolist()) == ([2], [3])
        assert opened.count('odd "table') == 1
