"""json: the public form of a report, changed only with the version.

`{"tracekit": VERSION, "sections": [{"view", "tables": [{"name", "columns": [{"name", "unit"}], "rows": [[...]]}],
"notes": [...], "findings": [...]}], "ledger": [...]}`. Times are integer ns, ratios 0..1; null is unknown, and so is a
float that is not finite. A section has `findings` where it has any: {"rule", "owner", "claim", "evidence": [{"cell",
"value", "unit"}], "events": [ids], "saving_ns", "share", "confidence", "because", "advice", "check", "part_of",
"window_ns", "ranks"}.
A whole summary has `"headline"` after the version: {"opening": {"rule", "sentence", "meaning"}, "step": {"steps",
"warm_up", "owners", "p5_ns", "median_ns", "p95_ns", "low_ns", "high_ns", "host_ns"} or null, "run_ns", "run_note",
"devices": [{"label", "devices", "window", "window_ns", "parts": [{"name", "ns", "low", "middle", "high", "pieces":
[{"name", "ns", "count", "view", "others", "most_ns"}]}]}], "devices_note", "figure": {"before", "value", "unit",
"after"} and "quoted": [{"view", "table", "columns", "rows", "count"}] of a trace about something else than time, "top":
{"view", "column", "title", "part", "total_ns", "count", "names": [{"name", "ns", "calls", "share"}]} or null (with
"printed" where the total is that of the file, with "of" where it and the shares are of that), "below": further names or
null, "findings": [{"rule", "owner", "saving_ns", "share", "part_of"}], "findings_count", "findings_note",
"reservations": [sentences]}; `report.Headline` explains them.
Of a trace that lost records "incomplete" is the first member, a list of sentences, and ratios are null.
A note counts the rows that --top cut. Characters that a terminal would obey are \\u escapes. Figures are drawings:
only the html report has them.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from tracekit.model.report import Finding, Headline, QuotedTable, Report, ReportTable, Section
from tracekit.render.base import Renderer, RenderOptions
from tracekit.render.cells import finite
from tracekit.render.prose import omitted_line

__all__ = ["RENDERER"]

# In a JSON text these occur only within strings, where the escape means the same.
_UNSAFE = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def render(report: Report, options: RenderOptions) -> str:  # noqa: ARG001 - numbers are exact whatever the options
    """Return the report as JSON, with one line for each row of a table."""
    sections = _array([_section(section) for section in report.sections], 2)
    ledger = _array([_dumps(ledger) for ledger in report.ledgers], 2)
    first = f'"incomplete": {_dumps(report.incomplete)}, ' if report.incomplete else ""
    headline = f',\n "headline": {_dumps(_headline(report.headline))}' if report.headline else ""
    text = (
        f'{{{first}"tracekit": {_dumps(report.version)}{headline},\n "sections": {sections},\n "ledger": {ledger}}}\n'
    )
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _section(section: Section) -> str:
    tables = _array([_table(table) for table in section.tables], 4)
    left_out = [f"{table.name}: {line}" for table in section.tables if (line := omitted_line(table))]
    notes = _dumps([*section.notes, *left_out])
    found = _array([_dumps(_finding(finding)) for finding in section.findings], 4)
    more = f',\n   "findings": {found}' if section.findings else ""
    return f'{{"view": {_dumps(section.view)}, "tables": {tables},\n   "notes": {notes}{more}}}'


def _headline(headline: Headline) -> dict[str, object]:
    found: dict[str, Any] = asdict(headline)
    for key in ("host_ns", "pitch_ns", "samples_per_s") if headline.step is not None else ():
        if found["step"][key] is None:
            del found["step"][key]
    if headline.step is not None and not headline.step.processes:
        del found["step"]["processes"]
    found["quoted"] = [_quoted(each) for each in headline.quoted]
    for key in ("figure", "quoted"):
        if not found[key]:
            del found[key]
    for key in ("top", "below"):
        if found[key] is None:
            continue
        for word in ("printed", "of"):
            if not found[key][word]:
                del found[key][word]
        for name in found[key]["names"]:
            del name["kernel_class"]  # the colour of a bar
    # The findings are whole in their section.
    found["findings"] = [
        {
            "rule": each.rule,
            "owner": each.owner,
            "saving_ns": each.saving_ns,
            "share": finite(each.share),
            "part_of": each.part_of,
        }
        for each in headline.findings
    ]
    return found


def _quoted(quoted: QuotedTable) -> dict[str, object]:
    rows = zip(*(map(finite, column.values) for column in quoted.columns), strict=True)
    return {
        "view": quoted.view,
        "table": quoted.table,
        "columns": [{"name": column.name, "unit": str(column.unit)} for column in quoted.columns],
        "rows": [list(row) for row in rows],
        "count": quoted.count,
    }


def _finding(finding: Finding) -> dict[str, object]:
    evidence = [{"cell": e.cell, "value": finite(e.value), "unit": str(e.unit)} for e in finding.evidence]
    return {
        "rule": finding.rule,
        "owner": finding.owner,
        "claim": finding.claim,
        "evidence": evidence,
        "events": list(finding.events),
        "saving_ns": finding.saving_ns,
        "share": finite(finding.share),
        "confidence": finding.confidence,
        "because": finding.because,
        "advice": finding.advice,
        "check": finding.check,
        "part_of": finding.part_of,
        "window_ns": finding.window_ns,
        "ranks": finding.ranks,
    }


def _table(table: ReportTable) -> str:
    columns = _dumps([{"name": column.name, "unit": str(column.unit)} for column in table.columns])
    rows = _array([_dumps([finite(cell) for cell in row]) for row in table.rows()], 6)
    return f'{{"name": {_dumps(table.name)}, "columns": {columns}, "rows": {rows}}}'


def _array(items: list[str], indent: int) -> str:
    """Return a JSON array with each item on a line of its own."""
    start = f"\n{' ' * indent}"
    return f"[{start}{f',{start}'.join(items)}]" if items else "[]"


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


RENDERER = Renderer(name="json", suffixes=(".json",), render=render)
