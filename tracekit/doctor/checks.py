"""Diagnoses -> CheckList and Report: each defect as a check, as CI systems show it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracekit._version import __version__
from tracekit.doctor.findings import Diagnosis, FoundDefect
from tracekit.errors import COMMAND_LINE, Failure
from tracekit.model.checks import Check, CheckList, CheckState
from tracekit.model.display import plural
from tracekit.model.report import Column, Report, ReportTable, Section
from tracekit.model.units import Unit

__all__ = ["checks_of", "report_of"]

_LINE = re.compile(r"line (\d{1,9})")


def checks_of(found: Sequence[tuple[str, Diagnosis]], failures: Sequence[Failure]) -> CheckList:
    """Return a check for each defect of each input; an input without defects is one that passes.

    found: each diagnosis with its input as the user named it, which an annotation needs.
    """
    checks = []
    for name, each in found:
        checks += [_of_defect(name, defect) for defect in each.findings]
        if each.is_clean:
            checks.append(Check(name, CheckState.PASSED, "no defects", _events(each), name))
    checks += [
        Check(each.name, CheckState.ERROR, "not read", each.error.worded(COMMAND_LINE), each.name) for each in failures
    ]
    bad = sum(not each.is_clean for _, each in found)
    verdict = f"{bad:,} of {plural(len(found), 'input')} with defects" if bad else ""
    return CheckList("doctor", ", ".join(name for name, _ in found), tuple(checks), verdict)


def _events(diagnosis: Diagnosis) -> str:
    return f"{plural(diagnosis.events, 'event')} of {diagnosis.format}"


def _of_defect(path: str, found: FoundDefect) -> Check:
    places = ", ".join(map(str, found.examples))
    first = f" First: {places}." if places else ""
    text = f"{found.defect.title} ({found.count:,}). {found.defect.meaning}{first}"
    # The annotation is beside the line of the first place, where the format has lines.
    line = _LINE.fullmatch(found.examples[0].where) if found.examples else None
    name = f"{path}: {found.defect.code}"
    return Check(name, CheckState.FAILED, "defect", text, path, int(line[1]) if line else 0)


def report_of(found: Sequence[Diagnosis]) -> Report:
    """Return the defects and remarks of all inputs as tables."""
    sections = []
    for title, name, rows in (
        ("Defects", "defects", [(each, defect) for each in found for defect in each.findings]),
        ("Remarks (not defects)", "remarks", [(each, remark) for each in found for remark in each.remarks]),
    ):
        if rows:
            columns = (
                Column("input", "Input", Unit.TEXT, [each.path for each, _ in rows]),
                Column("code", "Code", Unit.TEXT, [finding.defect.code for _, finding in rows]),
                Column("count", "Count", Unit.COUNT, [finding.count for _, finding in rows]),
                Column("meaning", "What", Unit.TEXT, [finding.text or finding.defect.meaning for _, finding in rows]),
                Column("fix", "--fix", Unit.TEXT, [finding.defect.fix or "cannot be restored" for _, finding in rows]),
            )
            sections.append(Section("doctor", title, (ReportTable(name, title, columns),)))
    facts = [("input", f"{each.path} ({_events(each)})") for each in found]
    return Report("Doctor", __version__, tuple(facts), tuple(sections))
