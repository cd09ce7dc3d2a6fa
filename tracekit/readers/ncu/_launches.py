"""Rows of TOTALS from launches of kernels and their metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import prod
from typing import NamedTuple

from tracekit.errors import Option, sentence
from tracekit.readers.ncu._values import (
    BLOCK_SIZES,
    DURATIONS,
    GRID_SIZES,
    base_unit,
    is_exact,
    is_number,
    is_whole,
    value_of,
)
from tracekit.readers.printed.numbers import POINT, Style, choose, styles_of
from tracekit.readers.printed.pasted import RankRows
from tracekit.schema import Kind
from tracekit.trace import Ledger
from tracekit.units import MAX_NS

KERNEL = str(Kind.KERNEL)
_MOST_HELD = 5_000
"""Cells that are held until they show the style of the file's numbers."""
AMBIGUOUS = sentence(
    "numbers with an unclear decimal sign, or written unlike the others of the file, were kept as text (",
    Option("option", "decimal=,"),
    " or decimal=. decides)",
)
REPLAYED = (
    "ncu replays kernels one by one, with clocks and caches under its control: durations are of single launches, not "
    "of the program's run"
)


class Metric(NamedTuple):
    """A metric of a launch. cells: its value, or minimum, maximum and mean, as printed."""

    name: str
    unit: str
    section: str
    cells: tuple[str, ...]


@dataclass(slots=True)
class Launch:
    """A launch, or `calls` launches of one kernel. args: where it ran, and its shape."""

    run: int
    name: str
    args: dict[str, object]
    device: int | None = None
    calls: int = 1
    metrics: dict[tuple[str, str, str], Metric] = field(default_factory=dict)

    def add(self, metric: Metric) -> bool:
        """Add a metric. Return False where the launch has it with this value: two sections may show the same one."""
        key = (metric.name, metric.unit, " ".join(metric.cells))
        if key in self.metrics:
            return False
        self.metrics[key] = metric
        return True


class Launches:
    """Makes rows of launches as soon as the style of the numbers is known."""

    def __init__(self, rows: RankRows, ledger: Ledger, decimal: str) -> None:
        self._rows, self._ledger, self._decimal = rows, ledger, decimal
        self._held: list[Launch] = []
        self._cells = 0
        self._style: Style | None = None
        self.found = 0

    @property
    def style(self) -> Style | None:
        """Return the style of the numbers; None as long as it is not known."""
        return self._style

    def add(self, launch: Launch) -> None:
        """Take a launch with all its metrics."""
        self.found += 1
        self._held.append(launch)
        self._cells += len(launch.metrics)
        if self._style is not None or self._cells > _MOST_HELD:
            self.settle()

    def settle(self) -> None:
        """Make the rows of the launches that are held."""
        style = self._style or self._chosen()
        for launch in self._held:
            _Emitted(launch, style, self._rows, self._ledger).add()
        self._held, self._cells = [], 0

    def _chosen(self) -> Style | None:
        """Return the style of the cells; None where they may mean either of two numbers."""
        cells = {
            (cell, is_whole(metric.name, metric.unit))
            for launch in self._held
            for metric in launch.metrics.values()
            for cell in metric.cells
            if is_number(cell)
        }
        styles = styles_of(cells, self._decimal)
        if not styles:
            return POINT
        style = choose(styles, self._fits, [text for text, _ in cells], None)
        self._style = style
        return style

    def _fits(self, style: Style) -> bool:
        """Return whether the sizes of grids and blocks are the products of their dimensions."""
        return all(_sizes_fit(launch, style) for launch in self._held)


def _sizes_fit(launch: Launch, style: Style) -> bool:
    for names, dimensions in ((GRID_SIZES, launch.args.get("grid")), (BLOCK_SIZES, launch.args.get("block"))):
        if isinstance(dimensions, list):
            found = (m for m in launch.metrics.values() if m.name in names and len(m.cells) == 1)
            if any(value_of(metric.cells[0], style) != prod(dimensions) for metric in found):
                return False
    return True


def times_of(launch: Launch, style: Style | None, ledger: Ledger) -> dict[str, object]:
    """Return the columns of the duration of a launch; {} where no metric has it."""
    for wanted in DURATIONS:
        for metric in launch.metrics.values():
            if metric.name == wanted and (times := list(_ns(metric, style))):
                return _summed(times, launch.calls, ledger)
    return {}


def _ns(metric: Metric, style: Style | None) -> Iterator[Decimal]:
    unit, exponent = base_unit(metric.unit)
    if unit == "ns" and style is not None:
        for cell in metric.cells:
            value = value_of(cell, style)
            if value is not None and 0 <= (ns := value.scaleb(exponent)) < MAX_NS:
                yield ns


def _summed(times: Sequence[Decimal], calls: int, ledger: Ledger) -> dict[str, object]:
    whole = [int(time.to_integral_value()) for time in times]
    if len(whole) == 1:
        ledger.note("replayed", REPLAYED)
        alone = {"min_ns": whole[0], "max_ns": whole[0]} if calls == 1 else {}
        return {"total_ns": whole[0], **alone}
    total = times[-1] * calls
    if len(whole) != 3 or total >= MAX_NS:
        return {}
    ledger.note("replayed", REPLAYED)
    why = "the total of a kernel is the printed mean times its launches: the file has no total"
    ledger.note("total-of-mean", why)
    total_ns = int(total.to_integral_value())
    return {"total_ns": total_ns, "min_ns": whole[0], "max_ns": whole[1], "avg_ns": float(times[-1])}


class _Emitted:
    """Makes the rows of one launch. style: None where its numbers are not known."""

    def __init__(self, launch: Launch, style: Style | None, rows: RankRows, ledger: Ledger) -> None:
        self.launch, self.style, self.rows, self.ledger = launch, style, rows, ledger

    def add(self) -> None:
        """Add the row of the launch, then those of its metrics."""
        launch = self.launch
        self.rows.add(
            launch.run,
            "launches",
            launch.name,
            KERNEL,
            launch.args,
            device=launch.device,
            calls=launch.calls,
            **times_of(launch, self.style, self.ledger),
        )
        for metric in launch.metrics.values():
            self._add(metric)

    def _add(self, metric: Metric) -> None:
        launch = self.launch
        unit, exponent = base_unit(metric.unit)
        args: dict[str, object] = {"metric": metric.name}
        if "id" in launch.args:
            args["id"] = launch.args["id"]
        if metric.section:
            args["section"] = metric.section
        values = [None if self.style is None else value_of(cell, self.style) for cell in metric.cells]
        numbers = [value.scaleb(exponent) for value in values if value is not None]
        columns: dict[str, object] = {}
        if len(numbers) == len(values):
            low, high, mean = numbers if len(numbers) == 3 else (numbers[0],) * 3
            columns |= {"value_min": float(low), "value_max": float(high), "value_avg": float(mean)}
            if (exponent and any(numbers)) or not all(map(is_exact, numbers)):
                args["printed"] = " ".join((*metric.cells, metric.unit))
        else:
            columns["value_text"] = ", ".join(metric.cells)
            unit = metric.unit
            if any(map(is_number, metric.cells)):
                self.ledger.note("ambiguous-number", AMBIGUOUS)
        if unit:
            columns["unit"] = unit
        self.rows.add(
            launch.run, "metrics", launch.name, KERNEL, args, device=launch.device, calls=launch.calls, **columns
        )
