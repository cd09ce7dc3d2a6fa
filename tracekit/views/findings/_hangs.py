"""The finding `hang`: which rank a distributed program waits for. It comes before all others, for it ends the run.

It is no rule of `RULES`, for only dumps of the Flight Recorder can show it: other traces are not said to be checked.
"""

from __future__ import annotations

from tracekit.index.flight_records import flight_records, hang
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Evidence, Finding
from tracekit.model.units import Unit
from tracekit.views.hang_words import hang_words

RULE = "hang"


def hang_findings(index: TraceIndex) -> list[Finding]:
    """Return the finding, as a list of one; none for a healthy run, or for a trace without dumps."""
    records, report = flight_records(index), hang(index)
    if records is None or report is None or not report.hangs:
        return []
    words = hang_words(report, records)
    evidence = []
    if report.group is not None:
        label = report.group.group.label
        evidence = [Evidence(f"hang.{label}.seq", report.group.seq, Unit.ID)]
        if (completed := report.group.completed_by_all) is not None:
            evidence.insert(0, Evidence(f"hang.{label}.completed", completed, Unit.COUNT))
    claim = f"{words.sentence} {words.meaning}".strip()
    return [
        Finding(
            RULE,
            "",
            claim,
            tuple(evidence),
            (),
            0,
            0.0,
            words.confidence,
            words.because or "the dumps do not show more",
            words.advice or "Record with stacks and a larger ring (TORCH_FR_BUFFER_SIZE), on all ranks.",
            "tracekit summary NEW --view hang: no group has ranks under Not entered.",
        )
    ]
