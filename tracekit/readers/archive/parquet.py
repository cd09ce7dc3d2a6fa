"""Our own archive: Parquet with the schema, the facts and the ledgers in its metadata (written by writers/parquet.py).

    PAR1 ... row groups ... | footer: the columns of EVENTS, and texts under tracekit.schema, tracekit.run,
    tracekit.ledger, tracekit.totals, tracekit.check ... | length of the footer | PAR1

A record is a row of the table, and a row of the TOTALS in the metadata. Each is kept: a damaged file is refused as a
whole (checksums over all of it), never read in part. The ledgers of the conversion that made the archive are facts of
its sources ("archived_ledgers", oldest first). A file of `tracekit archive` (it has tracekit.archive) represents its
sources: their ledgers are `Opened.original`, so that a report made from it is the one made from them.

A file that another program wrote anew is read as it is, with a note; columns that it lost are null. Where our
metadata is lost too (DuckDB's COPY, pandas' to_parquet of a changed frame), our columns tell what it is, and the note
says what is not known any more: clock, names of devices and threads, facts of the sources, totals beside events.
Parquet of others is not read: `tracekit query` is no reader of any table.
Older versions of the schema are brought up to the present one; newer ones are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for Parquet with our metadata or columns, or too long to see them."""
    from tracekit.readers.archive import _parquet

    return _parquet.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events and totals. Raises: ParseError, UnsupportedVersionError."""
    from tracekit.readers.archive import _parquet

    return _parquet.read(source, options, ledger)
