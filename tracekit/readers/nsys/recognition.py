"""Recognition of the exports of Nsight Systems, without what reading needs.

The list of formats has the patterns, and every SQLite database is asked about its tables.
"""

from __future__ import annotations

from tracekit.readers.base import Confidence
from tracekit.readers.beside import TEXTS
from tracekit.readers.head import Head

__all__ = ["STATS_LATE", "sniff_arrow", "sniff_sqlite"]

STATS_LATE = (
    rb"(?:Start|Duration|Total|Total Time|Avg|TAvg) ?\((?:ns|nsec|us|ms|s|KiB|MB|B)\)",
    rb"Total Time",
    rb"(?:Processing|Running|Exporting) \[",
    rb"Executing '",
    rb" contain .*\bdata\b",
    rb"Statistics \(",
    rb"[Mm]igration [Ss]ize",
)
"""Patterns that show a table behind the head of a long log."""

SIGNATURE = (
    "NVTX_EVENTS",
    "TARGET_INFO_",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "CUPTI_ACTIVITY_KIND_",
    "OSRT_API",
    "ProcessStreams",
)

_STREAM = b"\xff\xff\xff\xff"

_OWN = tuple(name for name in SIGNATURE if name not in ("OSRT_API", "ProcessStreams"))
_NVPROF = {"StringTable", "Version"}


def sniff_sqlite(head: Head) -> Confidence:
    """Return YES for StringIds beside any table of such an export, or alone.

    MAYBE for tables of such an export without StringIds: it is called by its name, unless another reader is sure.
    """
    others = head.tables - {"StringIds"}
    if "StringIds" in head.tables:
        known = not others or any(table.startswith(SIGNATURE) for table in others)
        return Confidence.YES if known else Confidence.NO
    known = _NVPROF.isdisjoint(others) and any(table.startswith(_OWN) for table in others)
    return Confidence.MAYBE if known else Confidence.NO


def sniff_arrow(head: Head) -> Confidence:
    """Return YES for streams of Arrow that name tables of such an export, and for the table of texts in a folder."""
    if head.beside:
        own = any(table.startswith(SIGNATURE) for table in head.beside)
        return Confidence.YES if own and head.name.startswith(f"{TEXTS}.") else Confidence.NO
    if not head.data.startswith(_STREAM) or b"table_name" not in head.data:
        return Confidence.NO
    known = any(name.encode() in head.data for name in (*SIGNATURE, TEXTS, "ENUM_", "ANALYSIS_", "DIAGNOSTIC_EVENT"))
    return Confidence.YES if known else Confidence.MAYBE
