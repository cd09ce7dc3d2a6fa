"""Exports of Nsight Systems as Arrow streams, Arrow files and Parquet, made of the database of the same run.

    python sample_traces/_arrow_exports.py [FOLDER]

The bytes depend on the version of pyarrow; the tables in them do not.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TYPES = {"INTEGER": pa.int64(), "INT": pa.int64(), "REAL": pa.float64(), "BLOB": pa.binary()}


def tables(database: Path) -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables of a database with the types that their columns declare."""
    with closing(sqlite3.connect(database)) as db:
        for (name,) in db.execute("select name from sqlite_master where type = 'table' order by rowid").fetchall():
            columns = [(row[1], row[2].upper()) for row in db.execute(f'pragma table_info("{name}")')]
            rows = db.execute(f'select * from "{name}"').fetchall()
            cells = list(zip(*rows, strict=True)) or [()] * len(columns)
            arrays = {
                column: pa.array(values, TYPES.get(kind.partition(" ")[0], pa.string()))
                for (column, kind), values in zip(columns, cells, strict=True)
            }
            yield name, pa.table(arrays).replace_schema_metadata({"table_name": name})


def streams(database: Path, path: Path, *, ends: bool = True) -> None:
    """Write `--type arrow`: one stream behind the other. ends: with a mark at the end of each, as pyarrow writes it."""
    parts = []
    for _, table in tables(database):
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        data = out.getvalue().to_pybytes()
        parts.append(data if ends else data.removesuffix(b"\xff\xff\xff\xff\0\0\0\0"))
    path.write_bytes(b"".join(parts))


def folder(database: Path, path: Path, form: str = "parquet") -> None:
    """Write a file a table: "parquet", "arrow" (streams), or "arrow file"."""
    path.mkdir(parents=True)
    for name, table in tables(database):
        if form == "parquet":
            pq.write_table(table, path / f"{name}.parquet")
            continue
        new = pa.ipc.new_stream if form == "arrow" else pa.ipc.new_file
        with new(str(path / f"{name}.arrow"), table.schema) as writer:
            writer.write_table(table)


def write_all(root: Path, database: Path) -> None:
    """Write the sample under root."""
    (root / "nsys-arrow").mkdir(parents=True, exist_ok=True)
    streams(database, root / "nsys-arrow" / "two-processes.arrows")


if __name__ == "__main__":
    here = Path(__file__).parent
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else here, here / "nsys-sqlite" / "two-processes.sqlite")
