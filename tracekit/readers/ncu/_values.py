"""Numbers and units as Nsight Compute prints them."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from tracekit.readers.printed.numbers import ANY_NUMBER, Style

DURATIONS = ("gpu__time_duration.sum", "Duration", "gpu__time_duration.avg")
"""Metrics that are the duration of a launch, the best one first."""
GRID_SIZES = ("Grid Size", "launch__grid_size")
BLOCK_SIZES = ("Block Size", "launch__block_size")
_WHOLE = frozenset(
    (
        *(*GRID_SIZES, *BLOCK_SIZES, "Registers Per Thread", "launch__registers_per_thread", "Threads"),
        *("launch__thread_count", "Elapsed Cycles", "launch__stack_size"),
    )
)
_COUNTED = frozenset(("", "byte", "sector", "inst", "request", "cycle", "ns", "nsecond", "thread", "warp", "block"))
_PREFIX = {"": 0, "n": -9, "u": -6, "µ": -6, "μ": -6, "m": -3, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_TIME = re.compile(r"([numµμ]?)(?:s|second)")
_SIZE = re.compile(r"([KMGTP]?)byte")
_CLOCK = re.compile(r"([KkMGT]?)[hH]z")
_LONGEST = 60
_LARGEST = 300
_EXACT = 1 << 53


@lru_cache(maxsize=4096)
def base_unit(unit: str) -> tuple[str, int]:
    """Return the unit without its prefix, and the power of ten that turns a value into it.

    >>> base_unit("usecond"), base_unit("Gbyte/second"), base_unit("cycle/nsecond"), base_unit("Kbyte/block")
    (('ns', 3), ('B/s', 9), ('Hz', 9), ('B/block', 3))
    """
    above, line, below = unit.partition("/")
    exponent = 0
    if found := _TIME.fullmatch(above):
        above, exponent = "ns", _PREFIX[found[1]] + 9
    elif found := _SIZE.fullmatch(above):
        above, exponent = "B", _PREFIX[found[1]]
    elif found := _CLOCK.fullmatch(above):
        above, exponent = "Hz", _PREFIX[found[1]]
    if found := _TIME.fullmatch(below):
        below, exponent = "s", exponent - _PREFIX[found[1]]
    base = f"{above}{line}{below}"
    return ("Hz" if base == "cycle/s" else base), exponent


def is_number(text: str) -> bool:
    """Return whether a cell is a number in any style."""
    return len(text) <= _LONGEST and ANY_NUMBER.fullmatch(text) is not None


def is_whole(metric: str, unit: str) -> bool:
    """Return whether the values of a metric are whole numbers in this unit."""
    return metric in _WHOLE or metric.startswith("Block Limit") or (metric.endswith(".sum") and unit in _COUNTED)


def value_of(text: str, style: Style) -> Decimal | None:
    """Return a cell as a number, None for another text.

    >>> from tracekit.readers.printed.numbers import POINT
    >>> value_of("54,207,744", POINT), value_of("CachePreferNone", POINT)
    (Decimal('54207744'), None)
    """
    plain = style.plain(text) if is_number(text) else None
    if plain is None:
        return None
    value = Decimal(plain)
    return value if not value or -_LARGEST < value.adjusted() < _LARGEST else None


def is_exact(value: Decimal) -> bool:
    """Return whether a double has all digits of a whole number."""
    return abs(value) <= _EXACT
