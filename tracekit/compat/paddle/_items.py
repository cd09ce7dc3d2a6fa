"""Items of Paddle's tables: rows grouped by name as Paddle first sees them, sorted as it sorts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tracekit.analysis.intervals import I64
from tracekit.errors import Option, UsageError, sentence
from tracekit.report import Cell, Column
from tracekit.units import Unit
from tracekit.views.base import ViewOptions


@dataclass(frozen=True, slots=True)
class Group:
    """Rows in groups, numbered as they are first seen. codes: the group of each row. first: a row of each group."""

    codes: I64
    first: I64

    @property
    def count(self) -> int:
        """The number of groups."""
        return self.first.size


def group(seen: I64, *keys: I64) -> Group:
    """Return the groups of rows that agree in all keys (none below -1); seen: when each row is seen."""
    codes = np.zeros(seen.size, np.int64)
    for key in keys:
        _, codes = np.unique(codes * (int(key.max(initial=0)) + 2) + key, return_inverse=True)
        codes = codes.astype(np.int64, copy=False)
    order = np.argsort(seen, kind="stable")
    _, at = np.unique(codes[order], return_index=True)
    first = order[np.sort(at)]
    number = np.empty(at.size, np.int64)
    number[codes[first]] = np.arange(first.size)
    return Group(number[codes] if codes.size else codes, first)


@dataclass(frozen=True, slots=True)
class Times:
    """Calls and the sum, longest and shortest of durations in ns, of one item; ratio: None where it has no whole."""

    calls: int
    total: int
    max: int
    min: int
    ratio: float | None = None

    def over(self, whole: int | None) -> Times:
        """Return it with its ratio to a whole; 0 where the whole is 0, None where it is None."""
        ratio = None if whole is None else self.total / whole if whole else 0.0
        return Times(self.calls, self.total, self.max, self.min, ratio)

    @property
    def avg(self) -> float:
        """The mean."""
        return self.total / self.calls


def times(groups: Group, values: I64) -> list[Times]:
    """Return the times of each group. Paddle's maximum begins at 0."""
    total, most = np.zeros(groups.count, np.int64), np.zeros(groups.count, np.int64)
    least = np.full(groups.count, np.iinfo(np.int64).max)
    np.add.at(total, groups.codes, values)
    np.maximum.at(most, groups.codes, values)
    np.minimum.at(least, groups.codes, values)
    calls = np.bincount(groups.codes, minlength=groups.count)
    columns = (calls.tolist(), total.tolist(), most.tolist(), least.tolist())
    return [Times(*row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table of times. level: its indent. cpu, gpu: None where Paddle prints dashes."""

    name: str
    calls: int | None
    cpu: Times | None
    gpu: Times | None
    level: int = 0
    thread: str = ""
    flops: int | None = None


def line_columns(lines: Sequence[Line], *sides: str) -> list[Column]:
    """Return the columns of times of these sides ("cpu", "gpu"): total, avg, max, min, ratio of each."""
    columns = []
    for side in sides:
        sides_of_lines: list[Times | None] = [getattr(line, side) for line in lines]
        title = side.upper()
        # A maximum below its minimum is of no occurrence: Others has only totals.
        single = [t if t is not None and t.calls else None for t in sides_of_lines]
        cells: dict[str, list[Cell]] = {
            "total": [None if t is None else t.total for t in sides_of_lines],
            "avg": [None if t is None else round(t.total / t.calls) for t in single],
            "max": [None if t is None else t.max for t in single],
            "min": [None if t is None else t.min for t in single],
        }
        columns += [Column(f"{side}_{key}", f"{title} {key}", Unit.NS, cells[key], 1) for key in cells]
        ratio: list[Cell] = [None if t is None else t.ratio for t in sides_of_lines]
        columns.append(Column(f"{side}_ratio", f"{title} ratio", Unit.RATIO, ratio, 2))
    return columns


Sides = tuple[Times, Times]
"""CPU and GPU times of an item."""
_KEYS: Mapping[str, tuple[Callable[[Sides], float], bool]] = MappingProxyType(
    {
        "CPUTotal": (lambda item: item[0].total, True),
        "CPUAvg": (lambda item: item[0].avg, True),
        "CPUMax": (lambda item: item[0].max, True),
        "CPUMin": (lambda item: item[0].min, False),
        "GPUTotal": (lambda item: item[1].total, True),
        "GPUAvg": (lambda item: item[1].avg, True),
        "GPUMax": (lambda item: item[1].max, True),
        "GPUMin": (lambda item: item[1].min, False),
    }
)
"""Paddle's SortedKeys, and whether the largest comes first."""


def sort_key(options: ViewOptions) -> str:
    """Return the name of a SortedKeys: Paddle's own, or one of our columns. Raises: UsageError."""
    wanted = options.sorted_by
    own = {key.lower(): key for key in _KEYS} | {"": "CPUTotal"}
    own |= {f"{key[:3]}_{key[3:]}".lower(): key for key in _KEYS}
    own |= {key[3:].lower(): key for key in _KEYS if key.startswith("CPU")}
    if wanted.lower() not in own:
        raise UsageError(sentence(Option("sort", wanted), ": Paddle sorts by no such key"), choices=_KEYS)
    return own[wanted.lower()]


def ranked(items: Sequence[Sides], key: str) -> list[int]:
    """Return the order of items by a SortedKeys; equal ones stay as they were seen."""
    figure_of, largest_first = _KEYS[key]
    return sorted(range(len(items)), key=lambda i: figure_of(items[i]), reverse=largest_first)
