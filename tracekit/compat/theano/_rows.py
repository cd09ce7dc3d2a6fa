"""Blocks of rows as the reader of Theano's profiles yields them; the views of Theano share them.

A block is what Theano prints of one function: facts (section `header`), the tables Class, Ops and Apply, and what else
it printed. The rows of a trace are brought into the same form, so one view shows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tracekit.index.trace_index import TraceIndex
from tracekit.views.totals import TotalsRow, totals_rows


class Row(TotalsRow):
    """A row as in TOTALS. spread: min, p50, p95, p99, max, std, avg of a call, ns, of rows that come from EVENTS."""

    spread: dict[str, int] | None


CLASS, OPS, APPLY = "Class", "Ops", "Apply"
TABLES = (CLASS, OPS, APPLY)
WHAT = {CLASS: "Classes", OPS: "Ops", APPLY: "Apply instances"}
_PREFIXES = ("Sum of all: ", "Scan Op: ")
_ANY = frozenset(
    {*TABLES, "Node make_thunk", "Memory Profile", "Memory Profile: peaks", "Scan overhead", "Optimizer Profile"}
)
_FACTS = frozenset(
    {
        "Message",
        "Time in calls to Function.__call__",
        "Total compile time",
        "Time in thunks",
        "Scan Op",
        "Optimizer time",
    }
)


@dataclass(slots=True)
class Block:
    """One function. kind: function, sum (of all functions) or scan. label: what tells it from others, in words."""

    source: int
    run: int
    rank: int | None = None
    kind: str = "function"
    label: str = ""
    rows: list[Row] = field(default_factory=list)

    def fact(self, name: str) -> Row | None:
        """Return a row of the head."""
        return next((r for r in self.rows if r["section"] == "header" and r["name"] == name), None)

    def table(self, section: str) -> list[Row]:
        """Return the rows of a section."""
        return [r for r in self.rows if r["section"] == section]


def row(
    section: str,
    name: str,
    args: dict[str, object] | None = None,
    *,
    raw_name: str | None = None,
    calls: int | None = None,
    total_ns: int | None = None,
    avg_ns: float | None = None,
    value_avg: float | None = None,
    value_text: str | None = None,
    spread: dict[str, int] | None = None,
) -> Row:
    """Return a row with all columns; columns that are not given are null."""
    return {
        "source": 0,
        "rank": None,
        "run": 0,
        "section": section,
        "order": 0,
        "name": name,
        "raw_name": raw_name,
        "kind": None,
        "calls": calls,
        "total_ns": total_ns,
        "min_ns": None,
        "max_ns": None,
        "median_ns": None,
        "std_ns": None,
        "avg_ns": avg_ns,
        "device": None,
        "bytes": None,
        "value_min": None,
        "value_max": None,
        "value_avg": value_avg,
        "value_text": value_text,
        "unit": None,
        "args": args or {},
        "range": None,
        "self_ns": None,
        "device_ns": None,
        "device_self_ns": None,
        "spread": spread,
    }


def printed_blocks(index: TraceIndex) -> list[Block]:
    """Return the contents of profiles of Theano, Aesara or PyTensor, in the order of the files."""
    blocks: dict[tuple[int, int], Block] = {}
    for printed in sorted(totals_rows(index), key=lambda row: (row["source"], row["order"])):
        block = blocks.setdefault(
            (printed["source"], printed["run"]), Block(printed["source"], printed["run"], printed["rank"])
        )
        block.rows.append(_plain(printed, block))
    ours = {b.source for b in blocks.values() if any(_is_ours(r) for r in b.rows)}
    made = [b for b in blocks.values() if b.source in ours]
    for block in made:
        texts = [found["value_text"] for name in ("Scan Op", "Message") if (found := block.fact(name))]
        block.label = next((text for text in texts if text and text != "None"), f"function {block.run}")
    return made


def _is_ours(row: Row) -> bool:
    return row["section"] in _ANY or (row["section"] == "header" and row["name"] in _FACTS)


def _plain(found: TotalsRow, block: Block) -> Row:
    section = found["section"]
    for prefix, kind in zip(_PREFIXES, ("sum", "scan"), strict=True):
        if section.startswith(prefix):
            section, block.kind = section.removeprefix(prefix), kind
    if found["args"].get("sum"):
        block.kind = "sum"
    if found["name"] == "Scan Op":
        block.kind = "scan"
    return {**found, "section": section, "name": found["name"] or "", "spread": None}


def remaining(found: TotalsRow) -> int | None:
    """Return how many rows a row stands for that were left out; None for a row of the table."""
    count = found["args"].get("remaining")
    return count if isinstance(count, int) else None


def cut(section: str, rows: Sequence[Row], most: int | None) -> tuple[list[Row], Row | None]:
    """Return the first `most` rows of a table (None: all), and the row for the rest, None where a file was cut.

    The time of the rest is the sum of what is left out, with what the profiler had left out before; its share is of
    the time of all rows.
    """
    shown = [r for r in rows if remaining(r) is None]
    last = next((r for r in rows if remaining(r) is not None), None)
    if most is None or most >= len(shown):
        return shown, last
    gone = shown[most:]
    before = row(section, "") if last is None else last
    count = len(gone) + (remaining(before) or 0)
    time = total(gone) + (before["total_ns"] or 0)
    whole = total(shown) + (before["total_ns"] or 0)
    args: dict[str, object] = {"remaining": count, "percent": 100 * time / whole if whole else 0.0, "s": time / 1e9}
    if "sign" in before["args"]:
        args["sign"] = before["args"]["sign"]
    return shown[:most], row(section, f"(remaining {count} {WHAT.get(section, section)})", args, total_ns=time)


def total(rows: Iterable[TotalsRow]) -> int:
    """Return the sum of the times, ns."""
    return sum(r["total_ns"] or 0 for r in rows)


def number(value: object) -> float | None:
    """Return a cell that was printed as a number; None where it is none."""
    try:
        return float(value) if isinstance(value, (str, int, float)) else None
    except ValueError:
        return None
