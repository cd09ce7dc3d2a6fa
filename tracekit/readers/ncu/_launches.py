"""Rows of TOTALS of many launches and their metrics at once. The numbers equal the ones of `_launches`."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from decimal import Decimal
from functools import cached_property, lru_cache
from math import prod
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from tracekit.errors import Option, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Bytes, Column, Mask, Rows, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS
from tracekit.readers.builder import Values
from tracekit.readers.printed.numbers import ANY_NUMBER, POINT, Style, choose, styles_of
from tracekit.readers.printed.pasted import RankRows

# Whole blocks of a table of --csv at once, when all their lines are rows in the form in which ncu writes them.
#
# ncu puts each cell in quotation marks. So the marks alone say where the cells are: they take turns, and between two
# cells stands a comma or the end of a line. A block where that does not hold is left to the reading by lines.


_QUOTE, _COMMA, _END, _RETURN = b'",\n\r'
_INTEGER = r"^[0-9]{1,18}$"
_STRANGE = (b"\x1b", b"\0", b"==PROF== ", b"==WARNING== ", b"==ERROR== ", b"Process ID")
"""What makes a line another one than a row."""


@dataclass(frozen=True, slots=True, eq=False)
class MetricCells:
    """The cells of a block, row by row. clean: whether a cell begins and ends with a visible character of ASCII."""

    texts: Column
    clean: Mask
    width: int

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.texts) // self.width

    def column(self, place: int) -> Column:
        """Return a column."""
        return arrow.take(self.texts, np.arange(place, len(self.texts), self.width))

    def row(self, number: int) -> list[str]:
        """Return the cells of a row."""
        return arrow.texts(self.texts.slice(number * self.width, self.width))


def without_escapes(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the lines without those in which a quotation mark is part of a text, and these."""
    raw: Bytes = np.frombuffer(data, np.uint8)
    pairs = np.flatnonzero((raw[:-1] == _QUOTE) & (raw[1:] == _QUOTE))
    before, behind = raw[np.maximum(pairs - 1, 0)], raw[np.minimum(pairs + 2, len(raw) - 1)]
    empty = (pairs == 0) | (before == _COMMA) | (before == _END)
    empty &= (behind == _COMMA) | (behind == _RETURN) | (behind == _END)
    spans: list[tuple[int, int]] = []
    for pair in pairs[~empty].tolist():
        if not spans or pair >= spans[-1][1]:
            begin, end = data.rfind(b"\n", 0, pair) + 1, data.find(b"\n", pair) + 1
            spans.append((begin, end or len(data)))
    if not spans:
        return data, []
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(data)]
    kept = b"".join([data[end:begin] for end, begin in zip(ends, begins, strict=True)])
    return kept, [data[begin:end] for begin, end in spans]


def cells_of(data: bytes, width: int) -> MetricCells | None:
    """Return the cells of whole lines, None where a line is not certainly a row. width: cells of a row, two or more."""
    if any(strange in data for strange in _STRANGE):
        return None
    raw: Bytes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(raw == _QUOTE)
    if not len(quotes) or len(quotes) % (2 * width) or quotes[0] or data[-1] != _END:
        return None
    opens, closes = quotes[0::2], quotes[1::2]
    rows = len(opens) // width
    after = raw[closes + 1]
    gap = np.append(opens[1:], len(data)) - closes
    last = np.zeros(len(closes), np.bool_)
    last[width - 1 :: width] = True
    windows = after == _RETURN
    returns = int(np.count_nonzero(windows))
    good = np.where(last, ((after == _END) & (gap == 2)) | (windows & (gap == 3)), (after == _COMMA) & (gap == 2))
    if not good.all() or data.count(b"\n") != rows or data.count(b"\r") != returns:
        return None
    if not (raw[closes[windows] + 2] == _END).all():
        return None
    bounds = np.zeros(2 * len(opens) + 1, np.int64)
    bounds[1::2], bounds[2::2] = opens + 1, closes
    every = arrow.text_column(bounds, raw, pa.large_string())
    texts = pc.cast(arrow.take(every, np.arange(1, 2 * len(opens), 2)), pa.string())
    first, final = raw[opens + 1], raw[closes - 1]
    clean = (first > 0x20) & (first < 0x7F) & (final > 0x20) & (final < 0x7F)
    cells = MetricCells(texts, clean, width)
    return cells if arrow.bools(pc.match_substring_regex(cells.column(0), _INTEGER)).all() else None


# Numbers and units as Nsight Compute prints them.


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
    if match := _TIME.fullmatch(above):
        above, exponent = "ns", _PREFIX[match[1]] + 9
    elif match := _SIZE.fullmatch(above):
        above, exponent = "B", _PREFIX[match[1]]
    elif match := _CLOCK.fullmatch(above):
        above, exponent = "Hz", _PREFIX[match[1]]
    if match := _TIME.fullmatch(below):
        below, exponent = "s", exponent - _PREFIX[match[1]]
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


# The heads of Nsight Compute's tables of --csv, and the cells below them.


HEAD = re.compile(r'"?(?:ID"?[,;\t]"?)?Process ID"?[,;\t]"?Process Name')
_DIMENSIONS = re.compile(r"\((\d{1,10}), ?(\d{1,10}), ?(\d{1,10})\)", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
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
class NcuColumns:
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
        return len(cells) == len(self.titles) and _WHOLE_NUMBER.fullmatch(cells[0].strip()) is not None

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


def columns_of(text: str) -> NcuColumns | None:
    """Return the head of a table, None for another line."""
    text = text.strip()
    match = HEAD.match(text)
    if match is None:
        return None
    delimiter = next(char for char in text if char in ",;\t")
    titles = tuple(title.strip() for title in split(text, delimiter))
    wide = "Metric Name" not in titles and any("__" in title for title in titles)
    columns = NcuColumns(titles, delimiter, wide)
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
            args[_PLACES[title]] = int(cell) if _WHOLE_NUMBER.fullmatch(cell) else cell
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
    match = _DIMENSIONS.fullmatch(cell)
    return [int(group) for group in match.groups()] if match else cell


def integer(cell: str | None, limit: int = 1 << 31) -> int | None:
    """Return a whole number below the limit, None for another text."""
    return int(cell) if cell and _WHOLE_NUMBER.fullmatch(cell) and int(cell) < limit else None


# Rows of TOTALS from launches of kernels and their metrics.


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


class NcuMetric(NamedTuple):
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
    metrics: dict[tuple[str, str, str], NcuMetric] = field(default_factory=dict)

    def add(self, metric: NcuMetric) -> bool:
        """Add a metric. Return False where the launch has it with this value: two sections may show the same one."""
        key = (metric.name, metric.unit, " ".join(metric.cells))
        if key in self.metrics:
            return False
        self.metrics[key] = metric
        return True


class NcuLaunches:
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
            _EmittedMetrics(launch, style, self._rows, self._ledger).add()
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
            metrics = (m for m in launch.metrics.values() if m.name in names and len(m.cells) == 1)
            if any(value_of(metric.cells[0], style) != prod(dimensions) for metric in metrics):
                return False
    return True


def times_of(launch: Launch, style: Style | None, ledger: Ledger) -> dict[str, object]:
    """Return the columns of the duration of a launch; {} where no metric has it."""
    for wanted in DURATIONS:
        for metric in launch.metrics.values():
            if metric.name == wanted and (times := list(_ns(metric, style))):
                return _summed(times, launch.calls, ledger)
    return {}


def _ns(metric: NcuMetric, style: Style | None) -> Iterator[Decimal]:
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


class _EmittedMetrics:
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

    def _add(self, metric: NcuMetric) -> None:
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


_REGULAR = r"^-?(?:[0-9]{1,15}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,4})(?:\.[0-9]{1,15})?$"
"""Numbers that Arrow reads as Python's Decimal does, once their commas are gone."""
_EXACT_FLOAT = float(1 << 53)


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """Metrics of launches, in order. launch: of each. name, unit, section: codes of their texts. text: as printed."""

    launch: Rows
    name: Rows
    unit: Rows
    section: Rows
    text: Column
    names: Sequence[str]
    units: Sequence[str]
    sections: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class _NcuNumbers:
    """value: nan for other texts. printed: which texts have to be kept."""

    value: F64
    is_value: Mask
    printed: Mask


def add_rows(launches: Sequence[Launch], metrics: Metrics, rows: RankRows, ledger: Ledger) -> None:
    """Add the rows of launches, each before those of its metrics. launches: with the metrics that are durations."""
    numbers = _numbers(metrics, ledger)
    own = [times_of(launch, POINT, ledger) for launch in launches]
    count = len(launches) + len(metrics.text)
    at_metric = np.arange(len(metrics.text)) + metrics.launch + 1
    at_launch = np.searchsorted(metrics.launch, np.arange(len(launches))) + np.arange(len(launches))
    launch = np.empty(count, np.int64)
    launch[at_metric], launch[at_launch] = metrics.launch, np.arange(len(launches))
    is_metric = np.zeros(count, np.int32)
    is_metric[at_metric] = 1

    def spread(values: Column, places: Rows) -> Column:
        """Return a column of all rows, null in other places."""
        index = np.full(count, len(values), np.int64)
        index[places] = np.arange(len(values))
        return arrow.array(values).take(arrow.array(index, mask=index == len(values)))

    columns: dict[str, Values] = {
        "section": pa.DictionaryArray.from_arrays(is_metric, arrow.array(["launches", "metrics"])),
        "kind": KERNEL,
        "name": _dictionary([each.name for each in launches], launch),
        "device": arrow.take(arrow.array([each.device for each in launches], pa.int32()), launch),
        "calls": arrow.take(arrow.array([each.calls for each in launches], pa.int64()), launch),
        "args": pc.coalesce(
            spread(
                arrow.array(
                    [orjson.dumps(each.args).decode() if each.args else None for each in launches], pa.string()
                ),
                at_launch,
            ),
            spread(_args(launches, metrics, numbers), at_metric),
        ),
        "value_text": spread(
            pc.if_else(arrow.array(~numbers.is_value), metrics.text, pa.scalar(None, pa.string())), at_metric
        ),
        "unit": spread(_units(metrics, numbers), at_metric),
    }
    value = spread(arrow.array(numbers.value, mask=~numbers.is_value), at_metric)
    columns |= {"value_min": value, "value_max": value, "value_avg": value}
    for column in sorted({column for each in own for column in each}):
        kind = pa.float64() if column == "avg_ns" else pa.int64()
        columns[column] = spread(arrow.array([each.get(column) for each in own], kind), at_launch)
    rows.block(launches[0].run, count, columns)


def _dictionary(texts: Sequence[str], place: Rows) -> Column:
    codes: dict[str, int] = {}
    spots = np.array([codes.setdefault(text, len(codes)) for text in texts], np.int32)
    return pa.DictionaryArray.from_arrays(spots[place], arrow.array(list(codes), pa.string()))


def _numbers(metrics: Metrics, ledger: Ledger) -> _NcuNumbers:
    exponents = [base_unit(unit)[1] for unit in metrics.units]
    exponent = np.array(exponents, np.int64)[metrics.unit]
    regular = arrow.bools(pc.match_substring_regex(metrics.text, _REGULAR))
    plain = pc.replace_substring_regex(metrics.text, ",", "")
    suffix = arrow.take(arrow.array([f"e{each}" for each in exponents], pa.string()), metrics.unit)
    written = pc.binary_join_element_wise(plain, suffix, "")
    written = pc.if_else(arrow.array(regular), written, "nan")
    value = arrow.floats(pc.cast(written, pa.float64())).copy()
    is_value = regular.copy()
    printed = regular & (((exponent != 0) & (value != 0)) | (np.abs(value) > _EXACT_FLOAT))
    # A double cannot tell 2^53 from what is just above.
    rest = np.flatnonzero(~regular | (np.abs(value) == _EXACT_FLOAT))
    for row, text, power in zip(
        rest.tolist(), arrow.texts(arrow.take(metrics.text, rest)), exponent[rest].tolist(), strict=True
    ):
        number = value_of(text, POINT)
        is_value[row] = number is not None
        if number is None:
            if is_number(text):
                ledger.note("ambiguous-number", AMBIGUOUS)
            continue
        scaled = number.scaleb(power)
        value[row] = float(scaled)
        printed[row] = (power != 0 and bool(scaled)) or not is_exact(scaled)
    return _NcuNumbers(value, is_value, printed)


def _units(metrics: Metrics, numbers: _NcuNumbers) -> Column:
    """Return the base units of numbers, and the units of other texts; null for none."""
    base = arrow.take(arrow.array([base_unit(unit)[0] or None for unit in metrics.units], pa.string()), metrics.unit)
    if numbers.is_value.all():
        return base
    raw = arrow.take(arrow.array([unit or None for unit in metrics.units], pa.string()), metrics.unit)
    return pc.if_else(arrow.array(numbers.is_value), base, raw)


def _args(launches: Sequence[Launch], metrics: Metrics, numbers: _NcuNumbers) -> Column:
    """Return `args`: metric, id, section, printed, as far as a row has them."""

    def json(value: object) -> str:
        return orjson.dumps(value).decode()

    names = [f'{{"metric":{json(name)}' for name in metrics.names]
    ids = [f',"id":{json(each.args["id"])}' if "id" in each.args else "" for each in launches]
    sections = [f',"section":{json(section)}' if section else "" for section in metrics.sections]
    parts = [
        arrow.take(arrow.array(texts, pa.string()), place)
        for texts, place in ((names, metrics.name), (ids, metrics.launch), (sections, metrics.section))
    ]
    if numbers.printed.any():
        # A number has no character that JSON escapes; a unit might.
        units = arrow.take(arrow.array([json(f" {unit}")[1:] for unit in metrics.units], pa.string()), metrics.unit)
        printed = pc.binary_join_element_wise(',"printed":"', metrics.text, units, "")
        parts.append(pc.if_else(arrow.array(numbers.printed), printed, ""))
    return pc.binary_join_element_wise(*parts, "}", "")


def take_rows(metrics: Metrics, rows: I64) -> Metrics:
    """Return some of the metrics."""
    texts = metrics.names, metrics.units, metrics.sections
    codes = metrics.launch[rows], metrics.name[rows], metrics.unit[rows], metrics.section[rows]
    return Metrics(*codes, arrow.take(metrics.text, rows), *texts)
