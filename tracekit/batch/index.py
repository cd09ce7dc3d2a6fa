"""index.html and index.json: all that lies in OUT, and nothing else. Both follow from the results alone, byte for byte.

Whichever batch writes them last writes the same: `runs/` and `roots/` in OUT say all that is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tracekit._version import __version__
from tracekit.batch._figures import FIGURES
from tracekit.batch._store import FORM, Out, Result, json_text, read_json, write_text
from tracekit.render import batch_page, html
from tracekit.render.base import RenderOptions
from tracekit.render.batch_page import BatchPage, Link, Trend
from tracekit.report import Cell, Column, ReportTable, Series
from tracekit.units import Unit

MOST_TRENDS = 40
"""Kinds of runs that the page draws, those with most runs first; index.json has all numbers."""
_HASH = re.compile(r"(?<![0-9A-Za-z])(?=[0-9a-f]*\d)[0-9a-f]{7,40}(?![0-9A-Za-z])")


@dataclass(frozen=True, slots=True)
class _Row:
    """One run of the index. status: "ok", "partial", "failed"; gone: its files are no longer there."""

    key: str
    result: Result
    gone: bool

    @property
    def order(self) -> tuple[str, int, str, str]:
        return self.result["date"], self.result["start_ns"] or 0, self.result["run"], self.key

    @property
    def dropped(self) -> int:
        """Return how many records of its files were lost."""
        return sum(self.result["records"]["dropped"].values())


def write_assets(out: Out) -> None:
    """Write what all pages share."""
    for name, text in html.assets().items():
        write_text(out.path / "assets" / name, text)


def write(out: Out) -> None:
    """Write index.json and index.html."""
    rows, roots = _rows(out), _roots(out)
    write_text(out.path / "index.json", json_text(_json(rows, roots)))
    page = batch_page.render(_page(rows, roots), RenderOptions(assets="assets"))
    write_text(out.path / "index.html", page)


def forget(out: Out, trash: Path, *, all_gone: bool) -> int:
    """Remove results whose files are gone: those that failed (nothing is lost with them), or all. Return how many."""
    gone = [row for row in _rows(out) if row.gone and (all_gone or row.result["status"] == "failed")]
    for row in gone:
        out.remove(row.key, trash)
    return len(gone)


def reasons_of(result: Result) -> tuple[str, ...]:
    """Return why a run failed, or parts of it: one sentence each."""
    return tuple(
        f"{each['file']}: {each['reason']}" if each["file"] and each["file"] not in each["reason"] else each["reason"]
        for each in result["reasons"]
    )


def _roots(out: Out) -> list[dict[str, Any]]:
    found = [read_json(path) for path in sorted(out.roots.glob("*.json"))]
    return sorted(({"notes": [], **root} for root in found if root is not None), key=lambda root: str(root["root"]))


def _rows(out: Out) -> list[_Row]:
    """Return all runs, oldest first."""
    runs = {str(root["root"]): set(root["runs"]) for root in _roots(out)}
    rows = [
        _Row(key, result, key not in runs.get(result["root"], {key})) for key, result in out.results().items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row.order)


def _json(rows: Sequence[_Row], roots: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "form": FORM,
        "tracekit": __version__,
        "counts": _counts(rows),
        "figures": [{"name": f.name, "title": f.title, "unit": str(f.unit)} for f in FIGURES],
        "runs": [_run_json(row) for row in rows],
        "roots": [{key: value for key, value in root.items() if key not in ("form", "runs")} for root in roots],
    }


_KEPT = (
    "run", "key", "root", "inside", "status", "reasons", "date", "date_from", "start_ns", "figures", "facts", "events",
    "totals", "records", "notes", "archive",
)  # fmt: skip


def _run_json(row: _Row) -> dict[str, Any]:
    result = row.result
    return {
        **{name: result[name] for name in _KEPT},
        "kind": kind_of(result["run"]),
        "dropped": row.dropped,
        "gone": row.gone,
        "sources": [{k: s[k] for k in ("path", "size", "sha256", "format", "read")} for s in result["sources"]],
        "others": [other["path"] for other in result["others"]],
        "outputs": [f"runs/{row.key}/{each['path']}" for each in result["outputs"]],
    }


def _counts(rows: Sequence[_Row]) -> dict[str, int]:
    status = [row.result["status"] for row in rows]
    return {
        "runs": len(rows), **{name: status.count(name) for name in ("ok", "partial", "failed")},
        "gone": sum(row.gone for row in rows), "events": sum(row.result["events"] for row in rows),
        "totals": sum(row.result["totals"] for row in rows), "dropped": sum(row.dropped for row in rows),
    }  # fmt: skip


def kind_of(run: str) -> str:
    """Return what runs that repeat each other have in common: the name without its numbers.

    >>> kind_of("resnet50/2026-01-31"), kind_of("nightly-3f9a6b0c/rank0")
    ('resnet#/#-#-#', 'nightly-#/rank#')
    """
    return re.sub(r"\d+", "#", _HASH.sub("#", run))


def _page(rows: Sequence[_Row], roots: Sequence[dict[str, Any]]) -> BatchPage:
    newest = list(reversed(rows))
    bad = [row for row in newest if row.result["status"] != "ok"]
    told = [(row, reason) for row in bad for reason in row.result["reasons"]]
    figures = [f for f in FIGURES if any(row.result["figures"].get(f.name) is not None for row in rows)]
    names = [Path(str(root["root"])).name or str(root["root"]) for root in roots]
    trends, more = _trends([row for row in rows if row.result["status"] != "failed"])
    notes = [f"{len(more):,} more kinds of runs repeat; index.json has their figures"] if more else []
    problems = [f"{problem['path']}: {problem['reason']}" for root in roots for problem in root["problems"]]
    return BatchPage(
        title=", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "no runs",
        version=__version__,
        facts=tuple(_facts(rows)),
        runs=ReportTable(
            "runs", "Runs",
            (
                Column("run", "Run", Unit.TEXT, [row.result["run"] for row in newest]),
                Column("date", "Date", Unit.TEXT, [row.result["date"] for row in newest]),
                Column("status", "Status", Unit.TEXT, [_status(row) for row in newest]),
                *_dropped(newest),
                *(Column(f.name, f.title, f.unit, [_cell(row, f.name) for row in newest]) for f in figures),
                Column("events", "Events", Unit.COUNT, [row.result["events"] or None for row in newest]),
                Column("sources", "Sources", Unit.COUNT, [len(row.result["sources"]) for row in newest]),
                Column("device", "Device", Unit.TEXT, [row.result["facts"].get("device") for row in newest]),
            ),
        ),
        run_links=[_report(row) for row in newest],
        files=[tuple(_links(row)) for row in newest],
        failures=ReportTable(
            "failures", "What failed, and why",
            (
                Column("run", "Run", Unit.TEXT, [row.result["run"] for row, _ in told]),
                Column("reason", "Reason", Unit.TEXT, [_short_reason(row, reason) for row, reason in told]),
                Column("status", "Status", Unit.TEXT, [_status(row) for row, _ in told]),
            ),
        ),
        failure_links=[_report(row) for row, _ in told],
        trends=trends,
        lists=tuple(_lists(rows, roots, problems)),
        notes=tuple(notes),
    )  # fmt: skip


def _short_reason(row: _Row, reason: Mapping[str, str]) -> str:
    """Return a reason with its file's name below the run, which stands beside it."""
    home = f"{row.result['root']}/{row.result['inside']}/"
    text = reason["reason"].replace(home, "")
    return text if not reason["file"] or reason["file"] in text else f"{reason['file']}: {text}"


def _status(row: _Row) -> str:
    return f"{row.result['status']}, files gone" if row.gone else str(row.result["status"])


def _dropped(rows: Sequence[_Row]) -> Iterator[Column]:
    """Give the column of lost records, where a run lost some: it stands beside the status, which may well be `ok`."""
    if any(row.dropped for row in rows):
        yield Column("dropped", "Records dropped", Unit.COUNT, [row.dropped or None for row in rows])


def _cell(row: _Row, name: str) -> Cell:
    value: Cell = row.result["figures"].get(name)
    return value


def _facts(rows: Sequence[_Row]) -> Iterator[tuple[str, str]]:
    counts = _counts(rows)
    yield "runs", f"{counts['runs']:,}"
    for name in ("failed", "partial", "gone"):
        if counts[name]:
            yield name, f"{counts[name]:,}"
    if rows:
        first, last = rows[0].result["date"], rows[-1].result["date"]
        yield "dates", first if first == last else f"{first} to {last}"
    for name in ("events", "totals"):
        if counts[name]:
            yield name, f"{counts[name]:,}"
    read = sum(row.result["records"]["read"] for row in rows)
    lossy = sum(row.dropped > 0 for row in rows)
    lost = f"{counts['dropped']:,} dropped, of {lossy:,} {'run' if lossy == 1 else 'runs'}" if lossy else "none dropped"
    yield "records", f"{read:,} read, {lost}"


def _report(row: _Row) -> str | None:
    has_one = any(each["path"] == "report.html" for each in row.result["outputs"])
    return f"runs/{quote(row.key)}/report.html" if has_one else None


def _links(row: _Row) -> Iterator[Link]:
    for each in row.result["outputs"]:
        if each["path"] != "report.html":
            yield Link(each["path"], f"runs/{quote(row.key)}/{quote(each['path'])}")
    if row.result["archive"] and row.result["options"]["archive"] == "archive":
        yield Link("parquet", "archive/" + quote(row.result["archive"]["name"]))
    yield Link("json", f"runs/{quote(row.key)}/result.json")


def _lists(
    rows: Sequence[_Row], roots: Sequence[dict[str, Any]], problems: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    beside = [f"{row.result['run']}: {other['path']}" for row in rows for other in row.result["others"]]
    unknown = [f"{root['root']}/{name}" for root in roots for name in root["unknown"]]
    outside = [f"{root['root']}/{name}" for root in roots for name in root["outside"]]
    passed = [f"{note['path']}: {note['reason']}" for root in roots for note in root["notes"]]
    for lines, what in (
        (problems, "could not be looked into"), (unknown, "in folders without a profile"),
        (outside, "outside of the pattern for runs"), (beside, "beside profiles, of no format that is known"),
        (passed, "passed over"),
    ):  # fmt: skip
        if lines:
            yield f"{len(lines):,} {what}", tuple(lines)


def _trends(rows: Sequence[_Row]) -> tuple[tuple[Trend, ...], list[str]]:
    """Return the drawn figures of each kind of run that there are several of, and the kinds that are not drawn."""
    kinds: dict[str, list[_Row]] = {}
    for row in rows:
        kinds.setdefault(kind_of(row.result["run"]), []).append(row)
    several = sorted((k for k, mine in kinds.items() if len(mine) > 1), key=lambda k: (-len(kinds[k]), k))
    trends = []
    for kind in several[:MOST_TRENDS]:
        mine = kinds[kind]
        charts = tuple(_charts(mine))
        if charts:
            first, last = mine[0].result["date"], mine[-1].result["date"]
            dates = first if first == last else f"{first} to {last}"
            trends.append(Trend(kind.replace("#", "…"), f"{len(mine):,} runs, {dates}", charts))
    return tuple(trends), several[MOST_TRENDS:]


def _charts(rows: Sequence[_Row]) -> Iterator[Series]:
    for figure in FIGURES:
        values: list[int | float | None] = [row.result["figures"].get(figure.name) for row in rows]
        known = [value for value in values if value is not None]
        if not figure.drawn or len(known) < 2 or not any(known):
            continue
        labels = [f"{row.result['date']} {row.result['run']}" for row in rows]
        before = sorted(known[:-1])
        middle = before[(len(before) - 1) // 2]
        change = f", last {100 * (known[-1] / middle - 1):+.1f} %" if middle else ""
        yield Series(f"{figure.title}{change}", figure.unit, labels, values, (("median before", middle),))
