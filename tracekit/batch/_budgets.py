"""Budgets: limits for key figures, such as "step_p50 <= 120ms". A root has its own, which hold for all its runs."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.batch._figures import KEY_FIGURES, KeyFigure
from tracekit.batch._store import Result
from tracekit.errors import Option, UsageError, sentence
from tracekit.units import (
    BYTE_FACTOR,
    TIME_EXPONENT,
    Unit,
    format_bytes,
    format_ratio,
    format_span,
    split_quantity,
    to_bytes,
    to_ns,
)

_TEXT = re.compile(r"\s*(?P<figure>\w+)\s*(?P<op>>=|<=|>|<)\s*(?P<limit>[^<>=]+)")
_HOLDS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit that a key figure is to keep. limit: ns, bytes, a count, or a ratio (0..1)."""

    text: str
    figure: KeyFigure
    op: str
    limit: int | float

    def broken_by(self, result: Result) -> str:
        """Return a sentence if a run breaks this budget; "" if it keeps it, or if its figure is not known."""
        value = result["figures"].get(self.figure.name)
        if value is None or _HOLDS[self.op](value, self.limit):
            return ""
        return f"{self.figure.title.lower()} {_amount(value, self.figure.unit)}; the budget is {self.text}"


def parse(text: str) -> Budget:
    """Return the budget in a text. Raises: UsageError, with the names of the figures or the units."""
    found = _TEXT.fullmatch(text)
    figure = next((f for f in KEY_FIGURES if found and f.name == found["figure"]), None)
    if found is None or figure is None:
        names = ", ".join(f.name for f in KEY_FIGURES)
        raise UsageError(
            sentence(Option("budget", repr(text)), ": not a budget"),
            hint=f'FIGURE <= LIMIT, such as "step_p50 <= 120ms"; FIGURE: {names}',
        )
    try:
        limit = _limit(found["limit"].strip(), figure.unit)
    except ValueError:
        raise UsageError(
            sentence(Option("budget", repr(text)), f": not a limit for {figure.name}"),
            hint=f"give {_UNITS[figure.unit]}",
        ) from None
    return Budget(" ".join((figure.name, found["op"], found["limit"].strip())), figure, found["op"], limit)


def broken(budgets: Sequence[Budget], result: Result) -> list[str]:
    """Return a sentence for each budget that a run breaks."""
    return [text for text in (budget.broken_by(result) for budget in budgets) if text]


_UNITS = {
    Unit.NS: "a time in ns, us, ms or s",
    Unit.BYTES: "a size in B, KiB, MiB or GiB",
    Unit.COUNT: "a whole number",
    Unit.RATIO: "a share in %",
}


def _limit(text: str, unit: Unit) -> int | float:
    number, word = split_quantity(text)
    if unit is Unit.NS and word in TIME_EXPONENT:
        return to_ns(number, word)
    if unit is Unit.BYTES and (binary := word.replace("iB", "B")) in BYTE_FACTOR:
        return to_bytes(number, binary)
    if unit is Unit.COUNT and not word and number == int(number):
        return int(number)
    if unit is Unit.RATIO and word == "%":
        return float(number) / 100
    raise ValueError(text)


def _amount(value: int | float, unit: Unit) -> str:
    if unit is Unit.NS:
        return format_span(round(value))
    if unit is Unit.RATIO:
        return f"{format_ratio(value)} %"
    return format_bytes(round(value)) if unit is Unit.BYTES else f"{value:,}"
