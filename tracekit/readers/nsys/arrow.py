"""nsys export --type arrow, arrowdir and parquetdir: the tables of the SQLite export as Arrow streams or Parquet.

    run.arrows                                      one stream a table: its name is in the metadata, as table_name
    run_arwdir/StringIds.arrow                      one file a table
    run_pqtdir/StringIds.parquet
    run_pqtdir/CUPTI_ACTIVITY_KIND_KERNEL.parquet

A record is a row of a table. Tables and columns are those of the SQLite export, and are read by the same code: see
[nsys-sqlite](nsys-sqlite.md) for what becomes of each. So all figures are those of the database of the same report.

Name the folder: `tracekit summary run_pqtdir`. Its input is `StringIds`, the table of all texts; the other files beside
it are read as its tables. Streams of Arrow, files of Arrow and Parquet are all taken, whichever of them a folder has.

Not supported: `--type hdf` (export as sqlite or parquetdir), and a folder in a zip archive.
Sources: NVIDIA's User Guide of Nsight Systems (export formats) and "SQLite Schema Reference"; exports made from
databases of our own with pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.options import OSRT

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read"]


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a damaged table, or for one that is not of such an export."""
    from tracekit.readers.nsys.arrow_tables import ArrowTables
    from tracekit.readers.nsys.sqlite import read_tables, refuse_without_texts

    tables = ArrowTables(source, ledger)
    refuse_without_texts(tables, source)
    return read_tables(tables, "nsys-arrow", source, options, ledger, osrt=options.value(OSRT))
