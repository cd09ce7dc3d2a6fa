"""The checks of archived files before a query reads them in place: an untrusted file may have any bytes."""

from __future__ import annotations

from dataclasses import field

import pyarrow as pa

from tracekit import archive
from tracekit.archive import Entry
from tracekit.errors import InputError, ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import schema
from tracekit.readers.archive.check import check_footer, check_rows

VERIFY = "`tracekit archive verify` checks every file"
CHECKED_ROWS, ROWS_OF_A_FILE = 1_000_000, 10_000
"""So many rows are read completely before a query begins, in about half a second; opening a file takes as long as some
thousand rows. With more, a query would lose what it gains by reading only the columns that it needs."""


@dataclass(slots=True)
class Checks:
    """The checks of the files of one query. rows: that may still be read completely. unchecked: files that were not."""

    rows: int = field(default_factory=lambda: CHECKED_ROWS)
    unchecked: list[str] = field(default_factory=list)

    def is_plain(self, entry: Entry) -> bool:
        """Return whether a file can be read in place, without its reader. Raises: TracekitError for a damaged file.

        The facts, the number of rows and the columns of each file are checked; its bytes and rows while there are few.
        """
        if not entry.as_written:
            self.unchecked.append(entry.path)
        if not entry.as_written or entry.schema != schema.VERSION:
            return False
        filesystem, inside = archive.arrow_file(entry.path)
        try:
            with filesystem.open_input_file(inside) as file:
                rows, plain = check_footer(entry.path, file)
        except (OSError, pa.ArrowException) as err:
            raise ParseError(entry.path, "footer", f"it cannot be read ({err})", hint=VERIFY) from err
        counted = entry.events if entry.table == "events" else entry.totals
        if rows != counted:
            text = f"{entry.path}: it has {rows:,} {entry.table}, but its ledgers count {counted:,}"
            raise InputError(text, hint=VERIFY)
        cost = rows + ROWS_OF_A_FILE
        if "://" in entry.path or cost > self.rows:
            self.unchecked.append(entry.path)
        else:
            self.rows -= cost
            check_rows(entry.path)
        return plain
