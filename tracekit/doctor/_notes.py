"""From the ledgers of readers to findings: each note is a defect, a remark, or known better from the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracekit.doctor.defects import DEFECTS
from tracekit.doctor.findings import EXAMPLES, Example, Finding
from tracekit.doctor.noted import class_of_note
from tracekit.trace import Ledger

_OF_TRACKS = frozenset(
    {"null-time", "text-time", "text-id", "bad-metadata", "byte-order-mark", "counter-without-number"}
    | {"trailing-comma", "lost-comma", "doubled-comma", "open-list"}
)
"""Notes that only the second reading of a JSON trace makes, or that it alone makes of every format."""


def findings_of_notes(ledgers: Sequence[Ledger], found: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Return all defects and all remarks, of the rows and of the notes in the ledgers.

    ledgers: the reader's; for a JSON trace also that of the second reading.
    """
    every = {each.defect.code: each for each in found}
    remarks: list[Finding] = []
    for number, ledger in enumerate(ledgers):
        codes = ledger.notes if not number else [code for code in ledger.notes if code in _missing(ledgers[0], ledger)]
        for code in codes:
            note = ledger.notes[code]
            defect = class_of_note(code, note.text, dropped=code in ledger.dropped, format=ledger.format)
            if defect is None:
                continue
            text = note.text.removeprefix("dropped: ")
            finding = Finding(defect, note.count, [Example(where) for where in note.places[:EXAMPLES]], text=text)
            if defect.code == "remark":
                remarks.append(finding)
            elif (known := every.get(defect.code)) is None:
                every[defect.code] = finding
            elif known.time_ns is None:
                known.count += finding.count
                known.examples = [*known.examples, *finding.examples][:EXAMPLES]
                known.text = "; ".join(dict.fromkeys(filter(None, (known.text, text))))
        if (reservation := ledger.reservation) and not number and "lost-bytes" not in ledger.notes:
            every["events-lost"] = Finding(DEFECTS["events-lost"], 1, [], text=reservation)
    if empty := ledgers[0].ignored.get("empty object", 0):
        every["empty-object"] = Finding(DEFECTS["empty-object"], empty)
    order = {code: place for place, code in enumerate(DEFECTS)}
    ranked = sorted(every.values(), key=lambda each: order[each.defect.code])
    defects = [each for each in ranked if not each.defect.remark]
    return defects, [*(each for each in ranked if each.defect.remark), *remarks]


def _missing(first: Ledger, second: Ledger) -> set[str]:
    """Return the notes of the second reading that say something new."""
    return {code for code in second.notes if code in _OF_TRACKS} - set(first.notes)
