"""Running totals of memory that a file itself gives, in the args of its rows of kind memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I64, Chunked, Mask, pc

__all__ = ["RUNNING_TOTALS", "TYPES", "extracted", "stated_totals"]

TYPES = ("allocated", "reserved")
"""What the program asked for, and what the framework took from the device."""
RUNNING_TOTALS = (
    ("allocated", "Total Allocated"),
    ("reserved", "Total Reserved"),
    ("allocated", "current_allocated"),
    ("reserved", "current_reserved"),
)
"""The keys of running totals, and of which type of memory each is."""


def extracted(args: Chunked, pattern: str) -> Chunked:
    """Return what the group `found` of a pattern matches in each text, null for none."""
    found = pc.struct_field(pc.extract_regex(args, pattern), "found")
    return pc.if_else(pc.equal(pc.binary_length(found), 0), pa.scalar(None, pa.string()), found)


def stated_totals(args: Chunked, kind: str) -> tuple[I64, Mask]:
    """Return the running totals that the file gives, of a type of memory, and which rows have one.

    The first key that a row has counts.
    """
    values, known = np.zeros(len(args), np.int64), np.zeros(len(args), np.bool_)
    for key in (key for of, key in RUNNING_TOTALS if of == kind):
        texts = extracted(args, rf'"{key}":\s*"?(?P<found>\d{{1,18}})')
        new = texts.is_valid().to_numpy() & ~known
        values[new] = arrow.ints(pc.cast(texts, pa.int64()))[new]
        known |= new
    return values, known
