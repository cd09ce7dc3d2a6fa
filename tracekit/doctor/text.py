"""A diagnosis and a repair as text for a terminal, from 60 columns on."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from tracekit.doctor.findings import Diagnosis, Example, FoundDefect
from tracekit.doctor.repair import Repair
from tracekit.model.cuts import ends_in_the_middle
from tracekit.model.display import escape_controls, plural, shortened
from tracekit.model.trace import Ledger
from tracekit.model.units import percent, short_span

__all__ = ["diagnosis_text", "repair_text"]

_LABEL = 12
_LEAST = 60
_ANEW = ", so the output is no copy of the input: it was written anew"


def diagnosis_text(found: Diagnosis, width: int) -> str:
    """Return what is wrong with an input, class by class. width: columns of the terminal, 0 for 80."""
    wide = max(width or 80, _LEAST)
    rows = [plural(count, noun) for count, noun in ((found.events, "event"), (found.totals, "total")) if count]
    head = f"{escape_controls(found.path)} ({found.format}, {' and '.join(rows) or 'no events'})"
    if found.is_clean:
        lines = [f"{head}: no defects"]
    else:
        lines = [f"{head}: {_kinds(len(found.findings))}"]
    for finding in found.findings:
        lines += ["", *_finding(finding, wide)]
    if found.remarks:
        lines += ["", "Remarks (not defects)"]
        for finding in found.remarks:
            lines += _wrapped("", _remark(finding), wide)
    return "\n".join(lines) + "\n"


def repair_text(done: Repair, width: int) -> str:
    """Return the summary of a repair: the ledger of the records, and what was changed."""
    wide = max(width or 80, _LEAST)
    parts = [("kept", done.kept), ("changed", done.changed), ("merged", done.merged), ("facts", done.facts)]
    lines = [f"{escape_controls(str(done.output))}: {plural(done.written, 'event')} written"]
    lines += [f"  records read    {done.read:>14,}"]
    lines += [f"    {name:<14}{count:>14,}" for name, count in parts if count]
    for name, reasons in (("ignored", done.ignored), ("dropped", done.dropped)):
        lines += [f"    {name:<14}{count:>14,}  {escape_controls(reason)}" for reason, count in sorted(reasons.items())]
    for code, count in sorted(done.changes.items()):
        lines.append(f"  changes         {count:>14,}  {code}")
    if done.masked:
        what = "value that looks like a credential" if done.masked == 1 else "values that look like credentials"
        text = f"{done.masked:,} {what}"
        lines += _wrapped("masked", f"{text}{_ANEW if done.has_unread_credentials else ''}", wide)
    elif done.has_unread_credentials:
        text = "values that look like credentials, in parts of the file that are not read"
        lines += _wrapped("left out", f"{text}{_ANEW}", wide)
    for text in ends_in_the_middle([Ledger.from_json(done.before.ledger)]):
        lines += _wrapped("cut", text.replace("The file", "The input"), wide)
    lost = [each for each in done.before.findings if not each.defect.fix]
    for finding in lost:
        lines += _wrapped("lost", f"{finding.defect.title}: they cannot be restored", wide)
    lines.append(f"  every change: {escape_controls(str(done.ledger))}")
    return "\n".join(lines) + "\n"


def _kinds(count: int) -> str:
    return "1 kind of defect" if count == 1 else f"{count} kinds of defects"


def _finding(finding: FoundDefect, width: int) -> Iterator[str]:
    defect = finding.defect
    yield f"  {defect.title}: {finding.count:,}{_time(finding)}"
    yield from _wrapped("what", defect.meaning, width)
    if finding.text:
        yield from _wrapped("here", escape_controls(finding.text), width)
    if finding.examples:
        yield from _wrapped("first", _places(finding.examples), width)
    for viewer, text in finding.viewers().items():
        yield from _wrapped(viewer, text, width)
    yield from _wrapped("--fix", defect.fix or "they cannot be restored", width)


def _time(finding: FoundDefect) -> str:
    if not finding.time_ns:
        return ""
    share = f", {percent(round(finding.share * 10**6), 10**6)} % of the time" if finding.share is not None else ""
    return f" ({short_span(finding.time_ns)}{share})"


def _places(examples: Sequence[Example]) -> str:
    return ", ".join(shortened(escape_controls(str(each)), 60) for each in examples)


def _remark(finding: FoundDefect) -> str:
    text = escape_controls(finding.text or finding.defect.meaning)
    times = f", {finding.count:,} times" if finding.count > 1 else ""
    where = f" (first at {_places(finding.examples[:1])})" if finding.examples else ""
    return f"{text.rstrip('.')}{times}{where}"


def _wrapped(label: str, text: str, width: int) -> list[str]:
    indent = " " * (4 + _LABEL if label else 2)
    first = f"    {label:<{_LABEL}}" if label else "  "
    return textwrap.wrap(text, width - 1, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
