"""Axes of pictures: ticks at round numbers, with labels that a person reads at a glance.

>>> [label for _, label in linear(3_700_000, Unit.NS).ticks]
['0', '1', '2', '3', '4 ms']
>>> [label for _, label in logarithmic(0.3, 40).ticks]
['0.1', '1', '10', '100']
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

from tracekit.lazy_dataclass import dataclass
from tracekit.model.units import Unit

__all__ = ["Axis", "linear", "logarithmic"]

_LARGE = ((1, ""), (10**6, "M"), (10**9, "G"), (10**12, "T"))
_UNITS: dict[Unit, tuple[tuple[int, str], ...]] = {
    Unit.NS: ((1, "ns"), (10**3, "us"), (10**6, "ms"), (10**9, "s")),
    Unit.COUNT: _LARGE,
    Unit.NUMBER: _LARGE,
    Unit.BYTES: tuple((1 << 10 * i, word) for i, word in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))),
}
_WHOLE = frozenset({Unit.NS, Unit.BYTES, Unit.COUNT})
"""Units without parts: half a byte has no tick."""
_STEPS = (1, 2, 5)
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis. low, high: the values at its ends. ticks: (value, label), ascending, the last one with the unit.

    word: the unit. is_log: places are those of logarithms.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    word: str
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return where a value is on the axis, 0..1; at an end where it is beyond."""
        if not self.is_log:
            part = (value - self.low) / (self.high - self.low)
        elif value <= self.low:
            part = 0.0
        else:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        return min(max(part, 0.0), 1.0)


def linear(highest: float, unit: Unit, most: int = 4) -> Axis:
    """Return an axis from 0 to a round number at or above the highest value, in at most so many steps."""
    highest = highest if math.isfinite(highest) and highest > 0 else 1
    size, word = _unit_for(highest, unit)
    top = Decimal(highest) / size if not isinstance(size, Decimal) else Decimal(repr(highest)) / size
    step = _step(top / most, whole=unit in _WHOLE and size == 1)
    count = max(math.ceil(top / step), 1)
    labels = [_digits(step * i) for i in range(count + 1)]
    labels[-1] += f" {word}" if word else ""
    values = [float(step * i * size) for i in range(count + 1)]
    return Axis(0, values[-1], tuple(zip(values, labels, strict=True)), word)


def _unit_for(highest: float, unit: Unit) -> tuple[int | Decimal, str]:
    if unit is Unit.RATIO:
        return Decimal("0.01"), "%"
    units = _UNITS.get(unit, ((1, ""),))
    return next(((size, word) for size, word in reversed(units) if highest >= size), units[0])


def _step(least: Decimal, *, whole: bool) -> Decimal:
    """Return the smallest of 1, 2, 5 and their multiples by powers of ten that is not below a number."""
    if whole and least <= 1:
        return Decimal(1)
    exponent = least.adjusted()
    return next(step for step in _steps(exponent) if step >= least)


def _steps(exponent: int) -> Iterator[Decimal]:
    yield from (Decimal(step).scaleb(exponent) for step in _STEPS)
    yield Decimal(1).scaleb(exponent + 1)


def _digits(value: Decimal) -> str:
    text = f"{value:,f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def logarithmic(low: float, high: float, word: str = "", most: int = 6) -> Axis:
    """Return an axis over whole powers of ten around two values above 0, with a tick at most so many steps."""
    first = math.floor(math.log10(low) + 1e-9)
    last = max(math.ceil(math.log10(high) - 1e-9), first + 1)
    ticks = [(10.0**power, _power(power)) for power in range(first, last + 1, -((first - last) // most))]
    if ticks[-1][0] < 10.0**last:
        ticks.append((10.0**last, _power(last)))
    ticks[-1] = ticks[-1][0], f"{ticks[-1][1]} {word}".rstrip()
    return Axis(10.0**first, 10.0**last, tuple(ticks), word, is_log=True)


def _power(power: int) -> str:
    """Return a power of ten with its prefix: "100 k"; without one where there is none."""
    if power < 0:
        return f"{Decimal(1).scaleb(power):f}" if power > -6 else f"1e{power}"
    thousands, rest = divmod(power, 3)
    return f"{10**rest}{' ' * bool(thousands)}{_PREFIXES[thousands]}" if thousands < len(_PREFIXES) else f"1e{power}"
