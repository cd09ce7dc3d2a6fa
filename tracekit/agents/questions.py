"""The answers of the tools, from the profiles in the folders: the JSON that the commands print, page by page."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit import archive, comparison, explanation, pipeline, queries
from tracekit.agents.answers import MOST_ITEMS, Answer, Page, SizeBudget, items, opened, report_json, safe, sections
from tracekit.agents.cache import AnswerCache, TraceCache
from tracekit.agents.folders import Fingerprint, ProfileFolders
from tracekit.errors import Failure, TracekitError, UsageError
from tracekit.formats import READERS
from tracekit.inputs import InputOptions, reader_for
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Report
from tracekit.model.trace import Trace
from tracekit.options import no_such
from tracekit.readers.source import open_source
from tracekit.views.base import FINDINGS, ViewOptions

__all__ = ["Answering"]

_LOOKED_AT = 500
"""Files whose format is looked up for one answer of `profiles`."""
_PARTIAL = InputOptions(partial=True)


@dataclass(slots=True)
class Answering:
    """Answers questions about the profiles of some folders. Keeps the traces of the last ones."""

    folders: ProfileFolders
    _traces: TraceCache = field(default_factory=TraceCache)
    _answers: AnswerCache = field(default_factory=AnswerCache)
    _formats: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def answer(self, tool: str, given: dict[str, Any]) -> Answer:
        """Return the answer of a tool. given: its arguments, checked. Raises: TracekitError."""
        asked: dict[str, Callable[..., Answer]] = {
            "summary": self.summary,
            "findings": self.findings,
            "view": self.view,
            "query": self.query,
            "compare": self.compare,
            "explain": self.explain,
        }
        if tool == "profiles":
            return self.profiles(**given)
        # The same question about the same files again, such as after the agent's context was cut.
        named = [given[word] for word in ("profile", "profiles", "base", "new") if word in given]
        names = [name for each in named for name in ([each] if isinstance(each, str) else each)]
        files = tuple(each for name in names for each in self._files_of(name))
        return self._answers.answer((tool, json.dumps(given), files), lambda: asked[tool](**given))

    def _files_of(self, name: str) -> Fingerprint:
        path = self._side(name)
        root = path if Path(path).exists() else path.rpartition(":")[0]
        return self.folders.fingerprint(Path(root))

    def profiles(self, folder: str, top: int, skip: int) -> Answer:
        """Return the profiles in the folders, or in one of them, with their formats."""
        files = self.folders.files(self.folders.path_of(folder) if folder else None)
        found: list[Answer] = []
        place, more = skip, False
        for path in islice(files, skip, None):
            if len(found) == top or place - skip == _LOOKED_AT:
                more = True
                break
            place += 1
            if name := self._format_of(path):
                found.append(self._listed(path, name))
        return {
            **opened(),
            "folders": list(self.folders.by_label),
            "profiles": safe(found),
            "files_looked_at": place - skip,
            "next_skip": place if more else None,
        }

    def _listed(self, path: Path, form: str) -> Answer:
        facts = path.stat()
        changed = datetime.fromtimestamp(facts.st_mtime, UTC).isoformat(timespec="seconds")
        title = READERS[form].title if form in READERS else form
        return {
            "name": self.folders.name_of(path),
            "format": form,
            "title": title,
            "bytes": facts.st_size,
            "changed": changed,
        }

    def _format_of(self, path: Path) -> str:
        """Return the format of a file, "" for none."""
        try:
            facts = path.stat()
            key = (str(path), facts.st_mtime_ns, facts.st_size)
            if key not in self._formats:
                with open_source(str(path)) as source:
                    self._formats[key] = reader_for(source).name
        except OSError:
            return ""
        except TracekitError:
            self._formats[key] = ""
        return self._formats[key]

    def _trace(self, *names: str) -> Trace:
        """Return the trace of one or several profiles, read once while their files do not change."""
        paths = [self.folders.path_of(name) for name in names]
        key = tuple(each for path in paths for each in self.folders.fingerprint(path))
        return self._traces.trace(key, lambda: pipeline.read([str(path) for path in paths], _PARTIAL))

    def summary(self, profile: str) -> Answer:
        """Return the first screen of a summary, and the tables that there are."""
        trace = self._trace(profile)
        report = pipeline.summary(trace)
        made = report_json(report, 0)
        views = [_listed_view(each) for each in made["sections"]]
        rest = {
            **opened(profile=profile),
            **self._lost(made, trace),
            "facts": safe([list(each) for each in report.facts[:MOST_ITEMS]]),
            "views": views,
            "other_views": [name for name in pipeline.TABLE_VIEWS if name not in {each["view"] for each in views}],
            "notes": items(safe(report.notes)),
            "ledger": _ledgers(made),
        }
        headline, cut = _bounded(made.get("headline"), SizeBudget.beside(rest))
        return {**rest, "headline": headline, "notes": [*cut, *rest["notes"]]}

    def findings(self, profile: str, top: int, skip: int) -> Answer:
        """Return the findings with all that supports them."""
        trace = self._trace(profile)
        section = pipeline.view(trace, FINDINGS)
        made = report_json(pipeline.report_of(trace, [section]), 0)
        (shown,) = made["sections"]
        every = [_short_events(each) for each in shown.get("findings", [])]
        rest = {**opened(profile=profile), **self._lost(made, trace), "notes": items(shown["notes"])}
        kept = SizeBudget.beside(rest).first_fitting(every[skip : skip + top])
        until = skip + len(kept)
        more = until if until < len(every) else None
        return {**rest, "findings": kept, "findings_total": len(every), "next_skip": more}

    def view(
        self, profile: str, view: str, table: str, sort: str, columns: Sequence[str], top: int, skip: int
    ) -> Answer:
        """Return one page of a view."""
        page = Page(top, skip, tuple(columns))
        trace = self._trace(profile)
        section = pipeline.view(trace, view, ViewOptions(sorted_by=sort, top=page.end))
        if table:
            named = tuple(each for each in section.tables if each.name == table)
            if not named:
                raise no_such("table", table, f"table of the view {view}", [each.name for each in section.tables])
            section = replace(section, tables=named)
        return {**opened(profile=profile), **self._pages(pipeline.report_of(trace, [section]), page, trace)}

    def explain(self, profile: str, left: str, right: str, top: int) -> Answer:
        """Return the steps from one cell to another."""
        trace = self._trace(profile)
        report = explanation.explain(trace, left, right)
        return {**opened(profile=profile), **self._pages(report, Page(top), trace)}

    def _pages(self, report: Report, page: Page, trace: Trace | None = None) -> Answer:
        made = report_json(report, page.end)
        rest = {**opened(), **self._lost(made, trace), "notes": items(safe(report.notes))}
        return {**rest, "sections": sections(made["sections"], page, SizeBudget.beside(rest))}

    def query(self, profiles: Sequence[str], sql: str, top: int, skip: int) -> Answer:
        """Return one page of the rows of a SELECT."""
        if not profiles:
            raise UsageError("profiles: no profile is named", hint="the tool `profiles` lists the names")
        paths = [self.folders.path_of(name) for name in profiles]
        archived = any(archive.is_archive(path) for path in paths if path.is_dir())
        asked = (
            queries.ask([str(path) for path in paths], sql, _PARTIAL)
            if archived or any(archive.entry_at(path) for path in paths)
            else queries.ask(self._trace(*profiles), sql)
        )
        with asked as reply:
            rows, more = _rows(reply.reader, skip, top)
            text = io.BytesIO()
            queries.write(rows.to_reader(), "json", text)
            ledgers = [ledger.to_json() for ledger in reply.ledgers]
            failures = reply.failures
        made = safe(json.loads(text.getvalue()))
        rest = {
            **opened(profiles=list(profiles)),
            "columns": made["columns"],
            "ledger": _ledgers({"ledger": safe(ledgers)}),
            "failures": self._reasons(failures),
        }
        kept = SizeBudget.beside(rest).first_fitting(made["rows"])
        more |= len(kept) < len(made["rows"])
        return {**rest, "rows": kept, "next_skip": skip + len(kept) if more else None}

    def compare(
        self,
        base: Sequence[str],
        new: Sequence[str],
        rules: Sequence[str],
        by: str,
        columns: Sequence[str],
        top: int,
        skip: int,
    ) -> Answer:
        """Return the change between two sides: verdict first, then its parts."""
        sides = [[self._side(name) for name in side] for side in (base, new)]
        found = comparison.compare(*sides, rules=rules, partial=True, by=by)
        page = Page(top, skip, tuple(columns))
        pages = self._pages(comparison.report_of(found), page)
        if found.incomplete:
            pages["incomplete"] = items(safe(found.incomplete))
        checked = [{"rule": each.rule.text, "state": each.state, "text": each.text} for each in found.checked]
        failures = self._reasons(found.failures)
        return {
            **opened(base=list(base), new=list(new)),
            **pages,
            "rules": safe(checked),
            "failures": failures,
        }

    def _side(self, name: str) -> str:
        """Return the path of a side of a comparison, with the selector of ARCHIVE:TAG."""
        try:
            return str(self.folders.path_of(name))
        except TracekitError:
            root, colon, selector = name.rpartition(":")
            if not colon or not root or "/" in selector or "\\" in selector:
                raise
            return f"{self.folders.path_of(root)}:{selector}"

    def _lost(self, made: Answer, trace: Trace | None) -> Answer:
        """Return what makes the answer incomplete: sentences on lost records, and inputs that could not be read."""
        lost = {"incomplete": made["incomplete"]} if "incomplete" in made else {}
        failures = self._reasons(trace.failures) if trace is not None else []
        return {**lost, **({"failures": failures} if failures else {})}

    def _reasons(self, failures: Sequence[Failure]) -> list[str]:
        return items([safe(self.folders.named(str(each.error))) for each in failures])


def _listed_view(section: Answer) -> Answer:
    """Return the entry of a view in a summary: its tables with their sizes, or why it has none."""
    tables = [{"name": each["name"], "rows": each["rows_total"]} for each in section["tables"]]
    return {"view": section["view"], "tables": tables, **({} if tables else {"notes": items(section["notes"], 3)})}


def _short_events(finding: Answer) -> Answer:
    events = finding["events"]
    return {**finding, "events": events[:10], "events_total": len(events)}


def _ledgers(made: Answer) -> list[Any]:
    return items([_with_short_lists(each, 3) for each in made["ledger"]], 8)


def _bounded(headline: Any, budget: SizeBudget) -> tuple[Any, list[str]]:
    """Return the headline, and a note if its lists are cut because it is large: a run may have thousands of ranks."""
    if budget.takes(headline):
        return headline, []
    for most in (MOST_ITEMS, 10, 3, 1):
        shown = _with_short_lists(headline, most)
        if budget.takes(shown):
            return shown, [f"the headline is large: each of its lists has only the first {most} items"]
    return None, ["the headline is too large for an answer: the tool `view` has its tables"]


def _with_short_lists(value: Any, most: int) -> Any:
    if isinstance(value, dict):
        return {key: _with_short_lists(each, most) for key, each in value.items()}
    return [_with_short_lists(each, most) for each in value[:most]] if isinstance(value, list) else value


def _rows(reader: pa.RecordBatchReader, skip: int, top: int) -> tuple[pa.Table, bool]:
    """Return the rows of a page, and whether there are more."""
    kept: list[pa.RecordBatch] = []
    seen = 0
    for batch in reader:
        first = min(max(skip - seen, 0), batch.num_rows)
        kept.append(batch.slice(first, max(skip + top - seen - first, 0)))
        seen += batch.num_rows
        if seen > skip + top:
            break
    return pa.Table.from_batches(kept, reader.schema), seen > skip + top
