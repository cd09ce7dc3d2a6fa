"""CSV for scripts, and for spreadsheets: the schema's columns, a header, RFC 4180 quotes, one newline a row.

    ts_ns,dur_ns,event_id,name,raw_name,kind,source,...,args
    120,35,7,"gemm",,"kernel",0,...,"{""x"":1}"

Every text is in quotes, also an empty one; an empty cell without quotes is null. Integers are whole ns and bytes.
`value` is the shortest decimal that reads back as the same float, or nan, inf, -inf. `args` is JSON in a cell. A trace
with only totals becomes a table of TOTALS. Totals beside events are not written, since one table cannot hold both.
The facts of the run are not in the file: Parquet and JSON Lines keep them.

The target `csv` writes names unchanged. A spreadsheet takes a name that begins with = + - or @ for a formula: the
target `spreadsheet` puts an apostrophe in front of such a text (also behind a semicolon), and shows control characters
as escapes. Its files are for people, and are not read back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come."""
    from tracekit.writers import _csv

    return _csv.write(stream, target, options)


def write_for_spreadsheet(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come, with no formula among the texts."""
    from tracekit.writers import _csv

    return _csv.write(stream, target, options, spreadsheet=True)


WRITER = Writer(
    name="csv",
    title="CSV: one row for each event, or the totals of a trace without events",
    suffixes=(".csv", ".csv.gz", ".csv.zst"),
    write=write,
    holds="both",
)
SPREADSHEET = Writer(
    name="spreadsheet",
    title="CSV for Excel, LibreOffice Calc and the like: no name in it is a formula",
    suffixes=(".spreadsheet.csv", ".spreadsheet.csv.gz", ".spreadsheet.csv.zst"),
    write=write_for_spreadsheet,
    holds="both",
)
WRITERS_HERE: tuple[Writer, ...] = (WRITER, SPREADSHEET)
