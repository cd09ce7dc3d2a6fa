"""An archive: a folder or fsspec URL of self-describing Parquet files. Guide: `docs/archive.md`.

    ROOT/events/date=2026-01-31/run=nightly/ID-DIGEST.parquet
    ROOT/totals/...                                             traces that have only totals

One file is one run: its rows, its sources with their fingerprints, the ledgers of its records, its tags. There is no
index and no lock, so there is nothing to corrupt or to wait for. ID is a hash of the run's name and of its sources'
fingerprints: adding twice makes one file. DIGEST is the beginning of the SHA-256 of the file's bytes: `verify` detects
any change. A file gets its name when it is complete.
"""

from __future__ import annotations

from tracekit.archive._add import Added, add
from tracekit.archive._entry import Entry, clock_date, replaced
from tracekit.archive._list import Listing, arrow_file, entries, entry_at, find, is_archive, listing, read
from tracekit.archive._upkeep import Problem, Pruned, Verification, prune, verify

__all__ = [
    "Added",
    "Entry",
    "Listing",
    "Problem",
    "Pruned",
    "Verification",
    "add",
    "arrow_file",
    "clock_date",
    "entries",
    "entry_at",
    "find",
    "is_archive",
    "listing",
    "prune",
    "read",
    "replaced",
    "verify",
]
