"""What two processes do at the same moment is put between two steps of an archive, a batch or a query."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.archive import _add as archive_settle
from tracekit.archive import _list as archive_list
from tracekit.archive import _store as archive_store
from tracekit.archive import _upkeep as archive_prune
from tracekit.archive import _upkeep as archive_verify
from tracekit.archive._add import files_of, settle
from tracekit.archive._entry import Entry, Label
from tracekit.archive._list import Listing, entry_of, listing
from tracekit.archive._store import Store, StoredEntry, open_store
from tracekit.archive._upkeep import Problem
from tracekit.batch._result import Outcome
from tracekit.batch._run import do_run
from tracekit.batch._store import Owner
from tracekit.queries import _engine as query_engine
from tracekit.queries._tables import EVENTS as QUERIED_EVENTS
from tracekit.queries._tables import TOTALS as QUERIED_TOTALS
from tracekit.queries._views import QueryTables
