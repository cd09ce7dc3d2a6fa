"""Pages as inputs: the report that a page holds, and parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tracekit.errors import Option, UsageError, sentence
from tracekit.render.page.data import MOST_OF_PAGE, PAGE_HEAD, is_page, report_in
from tracekit.report import Report, first_rows


def page_report(inputs: Sequence[str]) -> Report | None:
    """Return the report that a page of `tracekit report` holds, without its timeline; None where there is no page.

    Raises: UsageError for a page among other inputs; ParseError for one that is cut off or was changed.
    """
    for path in inputs:
        try:
            with Path(path).open("rb") as file:
                if not is_page(file.read(PAGE_HEAD)):
                    continue
                if len(inputs) > 1:
                    raise UsageError(f"{path}: a page of tracekit is read alone", hint="give the traces themselves")
                file.seek(0)
                return report_in(file.read(MOST_OF_PAGE), path)
        except (OSError, ValueError):  # no file: what else it is shows when it is read
            continue
    return None


def part_of(report: Report, views: Sequence[str] = (), top: int = 0) -> Report:
    """Return some sections of a report, in the wanted order, with the first rows of each table; top: 0 for all.

    Raises: UsageError for a view that the report does not have.
    """
    if views and "all" not in views:
        have = {section.view: section for section in report.sections}
        for name in views:
            if name not in have:
                raise UsageError(sentence(Option("view", name), ": no such view on this page"), choices=have)
        report = replace(report, sections=tuple(have[name] for name in dict.fromkeys(views)))
    return report if not top else replace(report, sections=tuple(first_rows(each, top) for each in report.sections))
