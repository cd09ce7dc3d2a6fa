"""Archive: a folder, or a URL that fsspec knows, of self-describing Parquet files. `docs/archive.md` is its guide.

    ROOT/events/date=2026-01-31/run=nightly/ID-DIGEST.parquet
    ROOT/totals/...                                             traces without events: their totals are the table

One file is one run: its rows, its sources with their fingerprints, what became of each record (the ledgers), its tags.
There is no index and no lock: nothing to corrupt, and adding needs nobody's leave. ID is a hash of the sources'
fingerprints and the run's name, so that adding twice is one file; DIGEST is the beginning of the SHA-256 of the file's
bytes, so that `verify` sees any change. A file appears whole or not at all.
"""

from __future__ import annotations

from tracekit.archive._add import Added, add
from tracekit.archive._entry import Entry, clock_date
from tracekit.archive._list import arrow_file, entries, entry_at, find, is_archive, read
from tracekit.archive._prune import Pruned, prune
from tracekit.archive._verify import Problem, Verification, verify

__all__ = [
    "Added",
    "Entry",
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
    "prune",
    "read",
    "verify",
]
