"""Rows of PyTorch's printed tables as its reader keeps them, table by table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.views.totals import HEADER, TotalsRow, in_file_order, totals_rows

FORMAT = "torch-table"
MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Printed:
    """One table. layout: its columns, widths, sides and the lines around it. rows: without those of memory."""

    source: int
    layout: Mapping[str, Any]
    rows: list[TotalsRow]
    memory: dict[tuple[str | None, str], int]

    @property
    def titles(self) -> list[str]:
        """Return the heads of its columns."""
        return _texts(self.layout.get("columns"))

    def lines(self, place: str) -> list[str]:
        """Return the lines "above" its first rule, or its "totals"."""
        return _texts(self.layout.get(place))


def printed_tables(index: TraceIndex) -> list[Printed]:
    """Return the tables of all inputs in the order of the files."""
    layouts: dict[tuple[int, int], Printed] = {}
    for source, facts in facts_by_source(index).items():
        known = facts.facts.get("tables") if facts.format == FORMAT else None
        for layout in known if isinstance(known, list) else ():
            if isinstance(layout, dict) and isinstance(layout.get("run"), int):
                layouts[source, layout["run"]] = Printed(source, layout, [], {})
    for row in in_file_order(totals_rows(index)):
        table = layouts.get((row["source"], row["run"]))
        if table is None or row["section"] == HEADER:
            continue
        if row["kind"] == MEMORY and table.rows:
            table.memory[str(len(table.rows) - 1), str(row["args"].get("place"))] = row["bytes"] or 0
        elif isinstance(row["args"].get("cells"), list):
            table.rows.append(row)
    return list(layouts.values())


def cells_of(row: TotalsRow) -> list[str]:
    """Return the cells of a row as they were printed."""
    return _texts(row["args"].get("cells"))


def stack_of(row: TotalsRow) -> list[str]:
    """Return the frames that were printed below a row."""
    return _texts(row["args"].get("stack"))


def _texts(found: object) -> list[str]:
    return [str(each) for each in found] if isinstance(found, list) else []
