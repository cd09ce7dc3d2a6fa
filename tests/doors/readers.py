"""Cells, lines and numbers of printed tables are tried one at a time, and parts are held against each other."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.readers.amd import _rows as amd_cells
from tracekit.readers.archive import _conform as archive_conform
from tracekit.readers.cuda_profile import _rows as cuda_profile_columns
from tracekit.readers.cuda_profile._rows import PAD, LogCells, LogText
from tracekit.readers.engine.cells import RowError
from tracekit.readers.ncu import _launches as ncu_cells
from tracekit.readers.ncu import _launches as ncu_values
from tracekit.readers.ncu.reader import NcuLines
from tracekit.readers.nsys import _tables as nsys_tables
from tracekit.readers.nvprof import _cells as nvprof_cells
from tracekit.readers.nvprof import _tables as nvprof_row
from tracekit.readers.nvprof._lines import NvprofHeader, Table, cut_cells
from tracekit.readers.nvprof._names import strip_suffix, suffixes
from tracekit.readers.nvprof._session import NvprofSession
from tracekit.readers.nvprof._state import OpenTable, ProfiledRun
from tracekit.readers.nvprof._tables import plain_number
from tracekit.readers.perfetto._own_args import SHAPES, TYPES, columns_of, split
from tracekit.readers.torch import table as torch_columns
from tracekit.readers.torch.table import columns_of as torch_columns_columns_of
from tracekit.readers.torch.table import host_kind, size_bytes, time_ns
from tracekit.readers.trace_event import resync as trace_event_resync
from tracekit.readers.trace_event.resync import is_json, pieces, repaired
from tracekit.readers.xplane._scan import scan
