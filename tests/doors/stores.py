"""What two processes do at the same moment is put between two steps of an archive, a batch or a query."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.archive import _list as archive_list
from tracekit.archive import _prune as archive_prune
from tracekit.archive import _settle as archive_settle
from tracekit.archive import _store as archive_store
from tracekit.archive import _verify as archive_verify
from tracekit.archive._entry import Entry
from tracekit.archive._list import Listing, entry_of, listing
from tracekit.archive._revisions import Label
from tracekit.archive._settle import files_of, settle
from tracekit.archive._store import Store, Stored, open_store
from tracekit.archive._verify import Problem
from tracekit.batch._claims import Owner
from tracekit.batch._work import Outcome, work
from tracekit.query import _engine as query_engine
