"""Tables of `nsys stats` that several processes print at once: the table that a header or a row belongs to."""

from __future__ import annotations

import re

from tracekit.readers.nsys._tables import HOST_CALL, Header
from tracekit.readers.sqlite.cupti import call_kind
from tracekit.schema import Kind

_KERNEL = re.compile(r"^void |[<(]|::")
_SECTIONS = (
    (("Num Calls", "Calls"), ("kern", "mem", "nvtx", "gpu")),
    (("Operation", "Operations"), ("api", "osrt", "kern", "nvtx")),
    (("Instances",), ("api", "osrt", "mem")),
)
"""Columns, and words that the name of a report with such columns does not have."""


def section_of(header: Header, named: str) -> str:
    """Return the section of a table below a line that names a report; another process may have printed that line."""
    for columns, words in _SECTIONS:
        if not set(columns).isdisjoint(header.columns):
            return header.report if any(word in named for word in words) else named or header.report
    return named or header.report


def other_table(header: Header, section: str, name: str) -> tuple[str, Kind] | None:
    """Return section and kind of a row that is not of its table: a call among kernels, or a kernel among calls."""
    if header.form != "sum" or {"Range", "Operation"} & set(header.columns):
        return None
    is_call = bool(HOST_CALL.match(name)) and "(" not in name
    if "Instances" in header.columns and is_call:
        return "cuda_api_sum", call_kind(name)
    of_calls = not {"Num Calls", "Calls"}.isdisjoint(header.columns) and "api" in section
    return ("cuda_gpu_kern_sum", Kind.KERNEL) if of_calls and _KERNEL.search(name) else None
