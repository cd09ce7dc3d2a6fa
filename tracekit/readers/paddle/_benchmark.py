"""The output of paddle.profiler's benchmark timer: lines of step_info, and the Perf Summary between pipes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from tracekit.readers.engine.cells import RowError
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.printed.lines import CUT_NUMBER, NUMBER, TextLine, known_cell, printed
from tracekit.readers.printed.pasted import RankRows
from tracekit.schema import Kind
from tracekit.trace import Ledger
from tracekit.units import MAX_NS, TIME_EXPONENT

PERF, STEPS = "Perf Summary", "Benchmark"
PERF_TITLE = re.compile(r"={3,}Perf Summary={3,}")
_CELL = rf"(?:{NUMBER}|{CUT_NUMBER})"
STEP_LINE = re.compile(
    rf"(.*?)(?:reader_cost: ({_CELL}) s )?(?:batch_cost: ({_CELL}) s )?ips: ({_CELL}) ([^\s/]{{1,40}}/s)\s*",
    re.ASCII,
)
ABSENT = frozenset(("", "-", "inf", "-inf", "nan"))
"""Cells that Paddle prints where it has no value."""
_READER_RATIO = re.compile(rf"Reader Ratio: ({NUMBER})%", re.ASCII)
_UNITS = re.compile(r"Time Unit: (\w+), IPS Unit: (\S{1,60})")
_SPREAD = ("p50", "p95", "p99", "std")
"""Columns that tracekit's own Profiler adds."""
_OVER = re.compile(
    r"(?:Over (\d{1,15}) steps; the first (\d{1,15}) are skipped\."
    r"|Warning: over (?:the only step|all (\d{1,15}) steps): none is skipped, because there are no more than "
    r"\d{1,15}\.)",
    re.ASCII,
)
_KINDS = {"reader_cost": Kind.DATALOADER, "batch_cost": Kind.STEP}


def number(cell: str) -> float | None:
    """Return a number, None for an absent one. Raises: RowError for another text."""
    cell = cell.strip()
    if cell in ABSENT:
        return None
    if not re.fullmatch(NUMBER, cell) or abs(Decimal(cell)) > MAX_NS:
        raise RowError
    return float(Decimal(cell))


class Benchmark:
    """Makes rows of the lines of the benchmark."""

    def __init__(self, rows: RankRows, ledger: Ledger) -> None:
        self._rows, self._ledger = rows, ledger
        self._step = 0
        self._unit, self._ips_unit = "s", ""
        self._spread: tuple[str, ...] = ()

    def begin(self) -> None:
        """Begin a series of lines, or a summary."""
        self._step = 0
        self._unit, self._ips_unit = "s", ""
        self._spread = ()

    def step(self, found: re.Match[str], line: TextLine, run: int) -> None:
        """Take a line of step_info: averages since the one before it, in seconds."""
        if line.torn and not found[0].endswith("/s"):
            drop_torn(self._ledger, line.where)
            return
        args: dict[str, object] = {"step_info": self._step}
        if found[1].strip():
            args["text"] = found[1].strip()[:200]
        self._step += 1
        cells = {"reader_cost": found[2], "batch_cost": found[3], "ips": found[4]}
        known = {key: known_cell(cell, key, self._ledger, line.where) for key, cell in cells.items()}
        rate = known.pop("ips")
        try:
            costs = [(key, printed(cell, "s").ns) for key, cell in known.items() if cell]
            ips = None if rate is None else number(rate)
        except (RowError, ValueError):
            self._ledger.drop("bad-time", where=line.where, text="dropped: times beyond 146 years")
            return
        for name, cost in costs:
            self._rows.add(run, STEPS, name, str(_KINDS[name]), args, avg_ns=float(cost))
        self._rows.add(run, STEPS, "ips", str(Kind.OTHER), args, value_avg=ips, unit=found[5])
        self._ledger.kept += 1

    def perf(self, line: TextLine, stripped: str, run: int) -> bool:
        """Take a line of the summary; False for another line, which ends the summary."""
        if ratio := _READER_RATIO.fullmatch(stripped):
            self._rows.add(run, PERF, "Reader Ratio", str(Kind.OTHER), unit="%", value_avg=float(Decimal(ratio[1])))
            self._ledger.kept += 1
            return True
        if units := _UNITS.fullmatch(stripped):
            self._unit = units[1] if units[1] in TIME_EXPONENT else "s"
            self._ips_unit = units[2]
            self._ledger.ignore("titles")
            return True
        if over := _OVER.fullmatch(stripped):
            skipped = {"skipped": int(over[2])} if over[2] else {}
            self._rows.add(
                run, "header", "steps measured", str(Kind.OTHER), skipped, calls=int(over[1] or over[3] or 1)
            )
            self._ledger.kept += 1
            return True
        cells = [cell.strip() for cell in stripped.split("|")]
        if cells[1:5] == ["", "avg", "max", "min"] and cells[5:-1] in ([], list(_SPREAD)) and not cells[0] + cells[-1]:
            self._spread = tuple(cells[5:-1])
            self._ledger.ignore("titles")
        elif len(cells) != 6 + len(self._spread) or cells[0] or cells[-1]:
            if not (line.torn and stripped.startswith("|")):
                return False
            drop_torn(self._ledger, line.where)
        else:
            self._row(line, run, *cells[1:5], spread=cells[5:-1])
        return True

    def _row(
        self, line: TextLine, run: int, name: str, mean: str, high: str, low: str, *, spread: Sequence[str]
    ) -> None:
        if not spread:
            self._ledger.note(
                "perf-averages",
                "Paddle's Perf Summary sums one batch more than it divides by, and its minimum may miss the least "
                "value: figures are as printed",
            )
        more = dict(zip(self._spread, spread, strict=True))
        printed_cells = {"avg": mean, "max": high, "min": low} | more
        absent = {key: cell for key, cell in printed_cells.items() if cell in ABSENT}
        try:
            if name == "ips":
                values = [number(cell) for cell in (mean, high, low)]
                shares = {key: found for key, cell in more.items() if (found := number(cell)) is not None}
                args = {**absent, **shares}
                self._rows.add(
                    run,
                    PERF,
                    name,
                    str(Kind.OTHER),
                    args,
                    unit=self._ips_unit or None,
                    value_avg=values[0],
                    value_max=values[1],
                    value_min=values[2],
                )
            else:
                times = [None if cell in ABSENT else printed(cell, self._unit) for cell in (mean, high, low)]
                average, longest, shortest = times
                spreads = {key: printed(cell, self._unit) for key, cell in more.items() if cell not in ABSENT}
                tails = {f"{key}_ns": spreads[key].rounded() for key in ("p95", "p99") if key in spreads}
                self._rows.add(
                    run,
                    PERF,
                    name,
                    str(_KINDS.get(name, Kind.OTHER)),
                    absent | tails | {"time_unit": self._unit},
                    avg_ns=None if average is None else float(average.ns),
                    max_ns=None if longest is None else longest.rounded(),
                    min_ns=None if shortest is None else shortest.rounded(),
                    median_ns=spreads["p50"].rounded() if "p50" in spreads else None,
                    std_ns=float(spreads["std"].ns) if "std" in spreads else None,
                )
        except (RowError, ValueError):
            self._ledger.drop(
                "bad-row", where=line.where, text="dropped: a line within a table that is not a row of it"
            )
            return
        self._ledger.kept += 1
