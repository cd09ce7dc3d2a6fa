"""Sections of a page by the question that they answer: their order, which are folded, and their groups in the menu.

What runs longest comes first and is open: kernels, operators, steps. Other tables are folded below a line that has
their size and their largest row; links, the search of the page and print unfold them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.model.display import cell_texts, plural, shortened, shown_name
from tracekit.model.report import Column, ReportTable, Section
from tracekit.model.units import Unit, sentence_span
from tracekit.render.page.tables import main_time
from tracekit.render.prose import levels

__all__ = ["grouped", "in_order", "is_folded", "line_of", "with_first_bars"]

LEADING = ("timeline", "findings", "kernel", "operator", "steps", "samples", "metrics")
"""Views that are never folded, in the order of the page. Others follow in the order of the report."""
GROUPS: dict[str, tuple[str, ...]] = {
    "Device": ("kernel", "breakdown", "idle", "device", "launch", "graphs", "memory_manipulation", "metrics"),
    "Work": ("efficiency", "gemm", "convolution", "attention", "compiled"),
    "Host": ("operator", "model", "modules", "inference", "user_defined", "api", "samples", "other"),
    "Memory": ("memory",),
    "Ranks": ("ranks", "distributed", "hang"),
    "Run": ("findings", "steps", "overview", "critical_path", "benchmark"),
}
"""Groups of the menu and their views, in order. A view without a group is in OTHER."""
OTHER = "Other"
Link = tuple[str, str]
"""Anchor and title of a section."""
LEAST_FOLDED = 4
"""Pages with fewer sections show all of them."""
_NAME = 40
_FOLDABLE = frozenset(view for views in GROUPS.values() for view in views) - set(LEADING)


def in_order(sections: Sequence[Section]) -> list[int]:
    """Return the places of sections in the order of the page."""
    rank = {view: place for place, view in enumerate(LEADING)}
    return sorted(range(len(sections)), key=lambda i: (rank.get(sections[i].view, len(rank)), i))


def with_first_bars(sections: Sequence[Section], kind: type) -> int:
    """Return the place of the first section of the report with a figure of a kind, -1 for none."""
    return next((i for i, each in enumerate(sections) if any(isinstance(it, kind) for it in each.figures)), -1)


def is_folded(sections: Sequence[Section], section: Section) -> bool:
    """Return whether a section is folded: not where it is what the page is about."""
    shown = [each for each in sections if each.tables or each.figures]
    leading = any(each.view in LEADING[2:] for each in shown)
    first = next((each for each in shown if each.view not in LEADING[:2]), None)
    return len(shown) >= LEAST_FOLDED and section.view in _FOLDABLE and (leading or section is not first)


def grouped(links: Sequence[tuple[str, Link]]) -> list[tuple[str, tuple[Link, ...]]]:
    """Return what belongs to views in the groups of the menu; nothing where no view has a group."""
    known = {view: (group, place) for group, views in GROUPS.items() for place, view in enumerate(views)}
    if not any(view in known for view, _ in links):
        return []
    found: dict[str, list[tuple[int, Link]]] = {group: [] for group in (*GROUPS, OTHER)}
    for view, link in links:
        group, place = known.get(view, (OTHER, 0))
        found[group].append((place, link))
    in_groups = ((group, sorted(each, key=lambda pair: pair[0])) for group, each in found.items())
    return [(group, tuple(link for _, link in each)) for group, each in in_groups if each]


def line_of(section: Section) -> str:
    """Return what is in a section, as one line: tables, rows, and the largest row of its first table."""
    rows = sum(len(table) + table.omitted for table in section.tables)
    size = [plural(rows, "row")]
    if len(section.tables) > 1:
        size.insert(0, plural(len(section.tables), "table"))
    largest = next((text for table in section.tables if (text := _largest(table))), "")
    return ", ".join(size) + (f" · largest {largest}" if largest else "")


def _largest(table: ReportTable) -> str:
    """Return the row of a table with the most time, or the highest peak, "" where it has none."""
    named = next((column for column in table.columns if column.unit is Unit.TEXT), None)
    column = next((each for each in table.columns if each.name == "peak" and each.unit is Unit.BYTES), None)
    if column is None and (place := main_time(table)) >= 0:
        column = table.columns[place]
    if named is None or column is None:
        return ""
    steps = levels(table)
    known = [(int(value), -i) for i, value in enumerate(column.values) if isinstance(value, int) and not steps[i]]
    if not known or max(known)[0] <= 0:
        return ""
    row = -max(known)[1]
    name = shortened(shown_name(str(named.values[row] or "")), _NAME)
    share = _share(table, "device_ratio" if column.name == "device_total" else "ratio", row)
    return f"{column.title.lower()}: {name}, {_amount(column, row)}{share}"


def _amount(column: Column, row: int) -> str:
    value = column.values[row]
    if column.unit is Unit.NS and isinstance(value, int):
        return sentence_span(value)
    return cell_texts([value], column.unit, "")[0]


def _share(table: ReportTable, name: str, row: int) -> str:
    """Return the share of a row of all time of its table, "" where the table has none."""
    ratio = next((column for column in table.columns if column.name == name and column.unit is Unit.RATIO), None)
    if ratio is None or not isinstance(ratio.values[row], (int, float)):
        return ""
    return f", {cell_texts([ratio.values[row]], Unit.RATIO, '')[0]} %"
