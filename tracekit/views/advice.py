"""Advice on what an input lacks: an input that was cut may have had it behind the cut.

No advice asks to record again what may be in the part of a file that could not be read.
"""

from __future__ import annotations

import re

from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.cuts import where_cut
from tracekit.model.trace import all_ledgers

__all__ = ["READ_ALL", "for_part", "is_cut", "of_part", "without_recording"]

READ_ALL = "The file was cut: what is behind the cut may have it."
_RECORDS = lazy_pattern(
    r"\brecord(?:ing)?\b|with_stack|with_modules|record_shapes|profile_memory|ProfilerActivity|--trace=|--sample=|"
    r"--cuda-graph-trace|record_function",
    re.IGNORECASE,
)
_HAS_NONE = lazy_pattern(r"\b(?:this|the) trace has (no\b|none\b)")


@join
def is_cut(index: TraceIndex) -> bool:
    """Return whether an input of the trace ends before its end."""
    return bool(where_cut(all_ledgers(index.ledgers, index.run)))


def for_part(index: TraceIndex, text: str) -> str:
    """Return a text about what a trace lacks; of an input that was cut, about the part that was read.

    Such a text does not say how to record what is lacking, and says that it may be behind the cut.
    """
    said = of_part(index, text)
    if said == text:
        return text
    return f"{said.rstrip('. ')}. {READ_ALL}" if said else READ_ALL


def of_part(index: TraceIndex, text: str) -> str:
    """Return such a text without the words about the cut, for a place that has them once."""
    return _HAS_NONE.sub(r"the part that was read has \1", without_recording(text)) if is_cut(index) else text


def without_recording(text: str) -> str:
    """Return a text without the sentences, clauses and remarks that say what to record.

    >>> without_recording("needs shapes (PyTorch: record_shapes=True) and calls; record them. Look at it.")
    'needs shapes and calls. Look at it.'
    """
    text = re.sub(r" ?\([^()]*\)", lambda remark: "" if _RECORDS.search(remark[0]) else remark[0], text)
    kept = []
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        first, *others = sentence.rstrip(".").split("; ")
        if first and not _RECORDS.search(first):
            clauses = [first, *(each for each in others if not _RECORDS.search(each))]
            kept.append("; ".join(clauses) + ("." if sentence.endswith(".") else ""))
    return " ".join(kept)
