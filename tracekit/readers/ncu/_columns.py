"""The heads of Nsight Compute's tables of --csv, and the cells below them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

HEAD = re.compile(r'"?(?:ID"?[,;\t]"?)?Process ID"?[,;\t]"?Process Name')
_DIMENSIONS = re.compile(r"\((\d{1,10}), ?(\d{1,10}), ?(\d{1,10})\)", re.ASCII)
_INTEGER = re.compile(r"\d{1,18}", re.ASCII)
_PLACES = {"ID": "id", "Process ID": "pid", "Context": "context", "Stream": "stream"}
_TEXTS = {"Process Name": "process", "Host Name": "host", "CC": "cc", "Kernel Time": "profiled_at"}
_SHAPES = {"Block Size": "block", "Grid Size": "grid"}
_OTHERS = ("Kernel Name", "Device", "Invocations", "Section Name", "Metric Name", "Metric Unit", "Metric Value")
IDENTITY = frozenset((*_PLACES, *_TEXTS, *_SHAPES, *_OTHERS))
"""Columns of a launch, in a table with a column for each metric."""
_VALUES = (("Metric Value",), ("Minimum", "Maximum", "Average"))
OF_METRIC = frozenset(
    (
        *("Section Name", "Metric Name", "Metric Unit", "Metric Value", "Minimum", "Maximum", "Average"),
        *("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup", "Invocations"),
        "Body Item Label",
    )
)
"""Columns that differ within a launch."""
_NEEDED = IDENTITY | set(_VALUES[1])
"""Columns that each row of a table with a line for each metric has. Those of 2025 end behind them."""
ATTRIBUTE = "device__attribute_"


@dataclass(frozen=True)
class Columns:
    """The head of a table of --csv. delimiter: between cells. wide: it has a column for each metric."""

    titles: tuple[str, ...]
    delimiter: str
    wide: bool

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Return the columns of a metric's value, or of its minimum, maximum and mean; () in a wide table."""
        return next((names for names in _VALUES if set(names) <= set(self.titles)), ())

    @cached_property
    def metrics(self) -> tuple[tuple[int, str], ...]:
        """Return place and name of each metric of a wide table."""
        return tuple(
            (place, title)
            for place, title in enumerate(self.titles)
            if title and title not in IDENTITY and not is_range(title)
        )

    @cached_property
    def places(self) -> dict[str, int]:
        """Return the place of each column."""
        return {title: place for place, title in enumerate(self.titles)}

    @cached_property
    def value_places(self) -> tuple[int, ...]:
        """Return the places of the columns `values`."""
        return tuple(self.places[title] for title in self.values)

    @cached_property
    def of_launch(self) -> Callable[[list[str]], tuple[str, ...]]:
        """Return a function of the cells of a row that gives those which are the same for all metrics of a launch."""
        return itemgetter(*(place for title, place in self.places.items() if title not in OF_METRIC))

    @property
    def by_launch(self) -> bool:
        """Return whether the table has launches, which have an id; else all launches of a kernel are a row."""
        return "ID" in self.titles

    @cached_property
    def fewest(self) -> int:
        """Return the number of cells of the shortest row: it ends behind the value, before the columns of rules."""
        needed = (place for place, title in enumerate(self.titles) if title in _NEEDED or is_range(title))
        return len(self.titles) if self.wide else max(needed) + 1

    def filled(self, cells: list[str]) -> list[str]:
        """Return the cells of a row, with empty ones for those behind the value that it lacks; others as they are."""
        width = len(self.titles)
        if self.fewest <= len(cells) < width and (len(cells) > self.fewest or cells[-1]):
            return [*cells, *[""] * (width - len(cells))]
        return cells[:width] if len(cells) > width and not any(cells[width:]) else cells

    def filled_lines(self, data: bytes, count: int) -> bytes:
        """Return lines, with empty cells at the end of each row of `count` cells as `filled` adds them."""
        row = rb'(?m)^((?:"[^"\n]*",){%d}"[^"\n]*"),?(?=\r?$)' % (count - 1)
        return re.sub(row, rb"\1" + b',""' * (len(self.titles) - count), data)

    def is_row(self, cells: list[str]) -> bool:
        """Return whether cells are those of a row."""
        return len(cells) == len(self.titles) and _INTEGER.fullmatch(cells[0].strip()) is not None

    def is_units(self, cells: list[str]) -> bool:
        """Return whether cells are those of the line of units, which has no id and no name."""
        named = dict(zip(self.titles, cells, strict=False))
        return self.wide and len(cells) == len(self.titles) and not cells[0] and not named.get("Kernel Name")


def is_range(title: str) -> bool:
    """Return whether a column has ranges of NVTX: its title lists their parts, `thread Domain:Push/Pop_Range:...`."""
    return "Domain:" in title


def split(text: str, delimiter: str) -> list[str]:
    """Return the cells of a line, [] for one that is no CSV."""
    try:
        rows = list(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        return []
    return rows[0] if len(rows) == 1 else []


def columns_of(text: str) -> Columns | None:
    """Return the head of a table, None for another line."""
    text = text.strip()
    found = HEAD.match(text)
    if found is None:
        return None
    delimiter = next(char for char in text if char in ",;\t")
    titles = tuple(title.strip() for title in split(text, delimiter))
    wide = "Metric Name" not in titles and any("__" in title for title in titles)
    columns = Columns(titles, delimiter, wide)
    if not {"Kernel Name", "Process ID"} <= set(titles) or len(set(titles)) < len(titles):
        return None
    return columns if wide or ("Metric Name" in titles and columns.values) else None


def place_of(named: dict[str, str]) -> dict[str, object]:
    """Return where a launch ran, and its shape, from the cells of a row."""
    args: dict[str, object] = {}
    for title, cell in named.items():
        if not cell:
            continue
        if title in _PLACES:
            args[_PLACES[title]] = int(cell) if _INTEGER.fullmatch(cell) else cell
        elif title in _TEXTS:
            args[_TEXTS[title]] = cell
        elif title in _SHAPES:
            args[_SHAPES[title]] = dimensions(cell)
    ranges = {title: cell for title, cell in named.items() if cell and is_range(title)}
    return args | ({"nvtx": ranges} if ranges else {})


def dimensions(cell: str) -> list[int] | str:
    """Return three dimensions, or another text as it is.

    >>> dimensions("(64, 32, 1)")
    [64, 32, 1]
    """
    found = _DIMENSIONS.fullmatch(cell)
    return [int(group) for group in found.groups()] if found else cell


def integer(cell: str | None, limit: int = 1 << 31) -> int | None:
    """Return a whole number below the limit, None for another text."""
    return int(cell) if cell and _INTEGER.fullmatch(cell) and int(cell) < limit else None
