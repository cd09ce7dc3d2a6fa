"""From the ledgers of readers to findings: each note is a defect, a remark, or known better from the rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tracekit.doctor.defects import DEFECTS, Defect
from tracekit.doctor.findings import EXAMPLES, Example, FoundDefect
from tracekit.model.trace import Ledger

__all__ = ["NOTED", "ROWS", "class_of_note", "findings_of_notes"]

# The class of each note of the readers. One without a class is a remark: nothing is wrong with the file.


ROWS = ""
"""The class of notes that say less than the check of the rows, which counts them again."""

_BY_CLASS = {
    "torn-tail": "torn-row no-end cut compressed-file-damaged no-end-line unfinished-line table-cut list-cut "
    "benchmark-cut rows-missing",
    "bad-json": "bad-json not-json event-too-long line-too-long facts-not-read lost-bytes",
    "lost-quote": "lost-quote",
    "lost-bracket": "lost-bracket list-not-opened list-not-closed",
    "bad-escape": "mended-json",
    "loose-json": "trailing-comma lost-comma doubled-comma",
    "text-time": "text-time",
    "open-list": "open-list",
    "bad-encoding": "not-utf-8 byte-order-mark",
    "second-list": "another-list text-behind",
    "bad-record": "bad-row broken-row bad-line bad-item unknown-line-kind damaged bad-value bad-size no-column "
    "bad-header odd-cell cell-of-another-type number-too-large value-too-large unknown-marker too-many-threads "
    "too-many-variables thread-lost name-lost range-crossed",
    "locale-numbers": "ambiguous-number",
    "no-time": "no-time",
    "bad-time": "bad-time",
    "null-time": "null-time",
    "no-duration": "no-duration",
    "clock-reset": "clock-went-back wall-clock-set",
    "clocks-differ": "several-host-clocks",
    "negative-duration": "ends-before-start",
    "unmatched-begin": "open-range open-call unfinished-range too-many-open annotation-open",
    "unmatched-end": "end-without-begin end-without-start annotation-without-start",
    "text-id": "text-id",
    "unknown-phase": "unknown-phase no-phase",
    "bad-metadata": "bad-metadata",
    "unknown-number": "counter-without-number",
    "missing-table": "no-texts device-rows-missing no-header table-without-header no-column-line columns-lost "
    "facts-lost",
    ROWS: "negative-duration",
}
NOTED = {code: name for name, codes in _BY_CLASS.items() for code in codes.split()}
_ASIDES = re.compile(r"\bNVTX\b|\bUnified Memory\b", re.IGNORECASE)
"""Messages of Nsight Systems that are in almost every profile."""
_OF_THE_PROFILER = ("nvprof-warning", "profiler-", "driver-")
"""Begins of the codes of notes that quote the profiler."""
_ON_PURPOSE = {("torch-table", "table-cut")}
"""Notes (format, code) of a habit: PyTorch prints the rows that its program asks for."""
_LOST = re.compile(
    r"\b(?:lost|lose|losing|dropp(?:ed|ing)|discard|overflow|invalid timestamp|invalid record|incomplete|out of memory|"
    r"missing|not (?:all|complete|recorded)|buffers? (?:full|exhausted)|truncated|inconsistent|out of order)",
    re.IGNORECASE,
)


_PERHAPS = re.compile(r"\bmight\b", re.IGNORECASE)
_SHOWN = frozenset({"orphan-launch", "orphan-work", "missing-table"})
"""Defects of rows that show that events which the profiler might have lost are missing."""


def class_of_note(code: str, text: str, *, dropped: bool = False, format: str = "") -> Defect | None:
    """Return the class of a note of a reader; None where the rows themselves are checked for it.

    text: of the note: a message of the profiler is a defect if it says that events were lost. dropped: records were
    dropped for this reason, which is never a remark.

    >>> class_of_note("nvprof-warning", "nvprof itself warns: 12 records were dropped").code
    'events-lost'
    """
    found = "remark" if (format, code) in _ON_PURPOSE else NOTED.get(code)
    if found == ROWS:
        return None
    if found is None and code.startswith(_OF_THE_PROFILER):
        found = "events-lost" if _LOST.search(text) and not _ASIDES.search(text) else None
    return DEFECTS[found or ("bad-record" if dropped else "remark")]


_OF_TRACKS = frozenset(
    {"null-time", "text-time", "text-id", "bad-metadata", "byte-order-mark", "counter-without-number"}
    | {"trailing-comma", "lost-comma", "doubled-comma", "open-list"}
)
"""Notes that only the second reading of a JSON trace makes, or that it alone makes of every format."""


def findings_of_notes(
    ledgers: Sequence[Ledger], found: Iterable[FoundDefect]
) -> tuple[list[FoundDefect], list[FoundDefect]]:
    """Return all defects and all remarks, of the rows and of the notes in the ledgers.

    ledgers: the reader's; for a JSON trace also that of the second reading.
    """
    every = {each.defect.code: each for each in found}
    remarks: list[FoundDefect] = []
    for number, ledger in enumerate(ledgers):
        codes = ledger.notes if not number else [code for code in ledger.notes if code in _missing(ledgers[0], ledger)]
        for code in codes:
            note = ledger.notes[code]
            defect = class_of_note(code, note.text, dropped=code in ledger.dropped, format=ledger.format)
            if defect is None:
                continue
            if defect.code == "events-lost" and _PERHAPS.search(note.text) and not every.keys() & _SHOWN:
                # The rows were checked for it: each launch has its work.
                defect = DEFECTS["remark"]
            text = note.text.removeprefix("dropped: ")
            finding = FoundDefect(defect, note.count, [Example(where) for where in note.places[:EXAMPLES]], text=text)
            if defect.code == "remark":
                remarks.append(finding)
            elif (known := every.get(defect.code)) is None:
                every[defect.code] = finding
            elif known.time_ns is None:
                known.count += finding.count
                known.examples = [*known.examples, *finding.examples][:EXAMPLES]
                known.text = "; ".join(dict.fromkeys(filter(None, (known.text, text))))
        if (reservation := ledger.reservation) and not number and "lost-bytes" not in ledger.notes:
            every["events-lost"] = FoundDefect(DEFECTS["events-lost"], 1, [], text=reservation)
    if empty := ledgers[0].ignored.get("empty object", 0):
        every["empty-object"] = FoundDefect(DEFECTS["empty-object"], empty)
    order = {code: place for place, code in enumerate(DEFECTS)}
    ranked = sorted(every.values(), key=lambda each: order[each.defect.code])
    defects = [each for each in ranked if not each.defect.remark]
    return defects, [*(each for each in ranked if each.defect.remark), *remarks]


def _missing(first: Ledger, second: Ledger) -> set[str]:
    """Return the notes of the second reading that say something new."""
    return {code for code in second.notes if code in _OF_TRACKS} - set(first.notes)
