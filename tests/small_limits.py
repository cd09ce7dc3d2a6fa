"""The limits that tests make small, each named once: a constant that is renamed is one line here.

    small(monkeypatch, Limit.CHROME_BATCH_ROWS, 1)

Limits keep memory bounded and work in blocks. What is behind one is tried with a file of a few rows instead of one of
a million: `small` puts another number in place of the constant until the test ends.
"""

from __future__ import annotations

import importlib
from enum import Enum

import pytest


class Limit(Enum):
    """A limit, and the constants of the package that hold it."""

    CACHED_NAMES = ("tracekit.readers.names.CACHED_NAMES",)
    CHROME_BATCH_ROWS = ("tracekit.writers.chrome.trace.BATCH_ROWS",)
    CHROME_EVENTS = ("tracekit.writers.chrome.trace.MOST_EVENTS",)
    CLAIM_DEAD_AFTER_S = ("tracekit.batch._store.DEAD_AFTER_S",)
    CLAIM_REFRESH_S = ("tracekit.batch._store.REFRESH_S",)
    COVERED_LEAST_RANGES = ("tracekit.analysis.covered.LEAST",)
    COVERED_STRIDE = ("tracekit.analysis.covered._STRIDE",)
    COVERED_WINDOW_RANGES = ("tracekit.analysis.covered._WINDOW",)
    COVERED_WINDOWS = ("tracekit.analysis.covered._WINDOWS",)
    DASK_CONNECT_S = ("tracekit.workers.dask.CONNECT_S",)
    DEMANGLED_BATCH_BYTES = ("tracekit.readers.names.BATCH_TEXT_BYTES",)
    EXPANSION = ("tracekit.safety.limits.EXPANSION",)
    FEW_BYTES_OF_PACKETS = ("tracekit.readers.packets.framing._FEW_BYTES",)
    FEW_LANES = ("tracekit.analysis.lanes._FEW",)
    FIREFOX_CHUNK_BYTES = ("tracekit.writers.firefox._document.CHUNK_BYTES",)
    FLOWS_ENDED = ("tracekit.writers.tracks.arrows.ENDED_FLOWS",)
    FLOWS_OPEN = ("tracekit.writers.tracks.arrows.OPEN_FLOWS",)
    JSONL_BYTES_AT_ONCE = ("tracekit.writers.jsonl.BYTES_AT_ONCE",)
    JSON_CARRIED_BYTES = ("tracekit.readers.trace_event.stream.MOST_CARRIED",)
    JSON_SHAPES_WITH_NAMES = ("tracekit.readers.trace_event.scan.MANY_SHAPES",)
    JSON_SLAB_BYTES = ("tracekit.readers.trace_event.stream.SLAB_BYTES",)
    KEPT_TRACE_BYTES = ("tracekit.viewer.cache.MOST_BYTES",)
    KERNEL_CLASS_NAME = ("tracekit.analysis.kernel_class.LONGEST_NAME",)
    LATE_TABLE_BLOCK_BYTES = ("tracekit.readers.printed.late.BLOCK_BYTES",)
    LATE_TABLE_WINDOWS = ("tracekit.readers.printed.late.MOST_WINDOWS",)
    LIBRARY_CALL_MERCY_S = ("tracekit.safety.library_calls._MERCY_S",)
    LINE_BYTES = ("tracekit.readers.source.MAX_LINE_BYTES",)
    ARROW_ARGS_ROWS = ("tracekit.views.timeline.timeline._AT_ONCE",)
    BLOCK_OF_FILE_BYTES = ("tracekit.readers.streams.BLOCK_BYTES",)
    BUFFER_OF_FILE_BYTES = ("tracekit.readers.source._BUFFER_BYTES",)
    LOCALE_ROW_CHARACTERS = ("tracekit.readers.printed.locale._LONGEST_ROW",)
    LOG_ITEMS_A_LINE = ("tracekit.recorder._jsonl.ITEMS_A_LINE",)
    LOG_OPEN_RANGES = ("tracekit.readers.recorder_log.reader.OPEN_KEPT",)
    LOG_THREADS = ("tracekit.readers.recorder_log.reader.THREADS_KEPT",)
    NAME_PATTERNS = ("tracekit.readers.trace_event.columns.MOST_PATTERNS",)
    NCU_HELD_LAUNCHES = ("tracekit.readers.ncu._launches._MOST_HELD",)
    NSYS_REPORT_MEMORY_BYTES = ("tracekit.readers.nsys.report.decode.MEMORY_BYTES",)
    NSYS_STATS_BATCH_ROWS = ("tracekit.readers.engine.rows.BATCH_ROWS",)
    NSYS_STATS_ROWS_AT_ONCE = ("tracekit.readers.engine.rows.ROWS_AT_ONCE",)
    PACKETS_OF_A_BLOCK = ("tracekit.readers.packets.framing._MOST_PACKETS",)
    PAGE_STRETCHES = ("tracekit.render.page.timeline.MOST_STRETCHES",)
    PAIRS_LONG_ROWS = ("tracekit.readers.trace_event.pairs.LONG_ROWS",)
    PAIRS_OPEN = ("tracekit.readers.engine.pairing.MOST_OPEN",)
    PARQUET_ROWS_PER_GROUP = ("tracekit.writers.parquet.ROWS_PER_GROUP",)
    PARQUET_TOTALS_TEXT = ("tracekit.writers.parquet.MOST_TOTALS_TEXT",)
    PASTED_BLOCK_BYTES = ("tracekit.readers.printed.pasted._BLOCK_BYTES",)
    PATH_BLOCK = (
        "tracekit.analysis.critical_path._BLOCK",
        "tracekit.analysis.path_graph._BLOCK",
    )
    PATH_FEW_LANES = ("tracekit.analysis.path_graph._FEW_LANES",)
    PATH_GAIN_CELLS = ("tracekit.analysis.critical_path._CELLS",)
    PATH_GAIN_FEW_SETS = ("tracekit.analysis.critical_path._FEW_SETS",)
    PATH_GAIN_RUNS = ("tracekit.analysis.critical_path._MOST_RUNS",)
    PATH_GAIN_STOPS = ("tracekit.analysis.critical_path._STOPS_AT_ONCE",)
    PATH_GUESSED_PAUSES = ("tracekit.analysis.critical_path._MOST_GUESSED",)
    PATH_TOTALS_NODES = ("tracekit.views.path.critical_path._BLOCK",)
    PATH_WAITS = ("tracekit.analysis.path_graph._MOST",)
    PATH_WAIT_PAIRS = ("tracekit.analysis.path_graph._MOST_PAIRS",)
    PATH_WIDE_WAIT_PAIRS = ("tracekit.analysis.path_graph._MOST_WIDE",)
    PENDING_LAUNCHES = ("tracekit.inputs.steps.PENDING_LAUNCHES",)
    PERFETTO_BATCH_ROWS = ("tracekit.writers.perfetto.trace.BATCH_ROWS",)
    PERFETTO_CHUNK_BYTES = ("tracekit.writers.perfetto._packets.CHUNK_BYTES",)
    PERFETTO_ROWS_IN_MEMORY = (
        "tracekit.readers.perfetto.reader._CHUNK_ROWS",
        "tracekit.readers.perfetto.reader._KEPT_ROWS",
    )
    PERFETTO_SLICE_ROWS = (
        "tracekit.readers.packets.rows.PIECE_ROWS",
        "tracekit.readers.perfetto._lanes.PIECE_ROWS",
        "tracekit.readers.perfetto._slices.PIECE_ROWS",
    )
    PLACES_IN_FOUR_BYTES = ("tracekit.analysis.segments._MOST_IN_FOUR_BYTES",)
    QUERY_CHECKED_ROWS = ("tracekit.queries._checks.CHECKED_ROWS",)
    RANKS_TOGETHER = ("tracekit.rank_summaries.MOST_TOGETHER",)
    RANK_VALUES = ("tracekit.rank_summaries._merge.MOST_VALUES",)
    RECORDED_NAMES = (
        "tracekit.recorder._ranges.MAX_NAMES",
        "tracekit.recorder._session.MAX_NAMES",
    )
    RESAMPLE_CHUNK = ("tracekit.analysis.resample._CHUNK",)
    SERIES_CHUNK = ("tracekit.analysis.series._CHUNK",)
    SPAN_ROWS = ("tracekit.model.trace._BLOCK",)
    SORT_ROWS = ("tracekit.inputs.order.SORT_ROWS",)
    SPILL_CHUNK_ROWS = ("tracekit.safety.spill.CHUNK_ROWS",)
    SPILL_FAN_IN = ("tracekit.safety.spill.FAN_IN",)
    SPILL_PIECE_ROWS = ("tracekit.safety.spill.PIECE_ROWS",)
    SPEEDSCOPE_BATCH_ROWS = ("tracekit.writers.speedscope.BATCH_ROWS",)
    STATISTICS_BLOCK = ("tracekit.analysis.statistics._BLOCK",)
    UNION_ADDITIONS = ("tracekit.analysis.range_union._FEW",)
    UNION_PART_RANGES = ("tracekit.analysis.range_union._PART",)
    UNION_RANGES = ("tracekit.analysis.range_union._MANY",)
    UNION_STRIDE = ("tracekit.analysis.range_union._STRIDE",)
    UNION_WINDOW_SAMPLES = ("tracekit.analysis.range_union._EACH",)
    UNPACKED_BYTES = ("tracekit.safety.limits.UNPACKED_BYTES",)
    XPLANE_CELLS = ("tracekit.readers.xplane.reader._MOST_CELLS",)
    XPLANE_NEAR_BYTES = ("tracekit.readers.xplane.reader._NEAR",)
    XPLANE_PIECE_BYTES = ("tracekit.readers.xplane.reader._PIECE_BYTES",)
    XPLANE_TEXT_BYTES = ("tracekit.readers.xplane._members._MOST_TEXT",)


def small(patch: pytest.MonkeyPatch, limit: Limit, value: float) -> None:
    """Put a number in place of a limit until `patch` is undone."""
    for place in limit.value:
        module, _, constant = place.rpartition(".")
        patch.setattr(importlib.import_module(module), constant, value)
