"""Rows of some kinds, and keys to group them by, for the index and the tables of statistics.

Only rows with a duration take part in statistics; a note says how many have none. A duration below zero counts as
zero, and a note says how many there are (upstream lets them subtract time).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tracekit.analysis.segments import compact_codes, narrow, rows_by
from tracekit.analysis.statistics import DEFAULT_PERCENTILES, Grouped, grouped
from tracekit.errors import Option, TracekitError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask, Rows
from tracekit.model.report import Cell
from tracekit.model.trace import text_codes

__all__ = [
    "INT64_MAX",
    "Groups",
    "Key",
    "exact_sum",
    "exact_sums",
    "group_by",
    "key_of",
    "kind_mask",
    "numbered",
    "numbered_codes",
    "rows_of_groups",
    "statistics",
    "statistics_by",
    "sums",
    "too_long",
    "too_much",
    "used_key",
    "zeros",
]

INT64_MAX = (1 << 63) - 1


_LEAVE_OUT = sentence(
    "leave out the rows that cannot be true: ", Option("time", takes="A:B"), ", ", Option("name", takes="REGEX")
)


@dataclass(frozen=True, slots=True)
class Key:
    """One column that rows are grouped by: `codes` of shape (n,) count into `labels`; a label may be None."""

    codes: I64
    labels: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups. codes: shape (n,), the group of each row. labels: for each key, a cell a group."""

    codes: I64
    count: int
    labels: tuple[list[Cell], ...]


def zeros(count: int) -> I64:
    """Return the codes of rows in a single group: one number for all rows takes no memory, and is not for writing."""
    return np.broadcast_to(np.int64(0), count)


def kind_mask(table: pa.Table | pa.RecordBatch, kinds: Collection[str]) -> Mask:
    """Return shape (n,): whether a row is of one of the kinds; a null kind is of none."""
    parts = [np.zeros(0, np.bool_)]
    column = table.column("kind")
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
        encoded = arrow.encoded(chunk)
        wanted = np.array([text in kinds for text in arrow.texts(encoded.dictionary)] + [False], np.bool_)
        parts.append(wanted[arrow.codes(encoded)])
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def key_of(table: pa.Table, column: str, rows: I64) -> Key:
    """Return a column as a key for these rows; label 0 is None."""
    values = table.column(column)
    if not pa.types.is_dictionary(values.type):
        values = arrow.pc.dictionary_encode(values)
    codes, labels = text_codes(values.unify_dictionaries())
    codes = codes[rows]
    codes += 1
    return Key(codes, [None, *labels])


def used_key(batch: pa.RecordBatch, column: str, rows: I64) -> Key:
    """Return a column as a key for these rows of a batch, with the labels that they use alone.

    Batches may share a dictionary of a hundred thousand names, of which each uses a few.
    """
    if (one := _only_value(batch.column(column))) is not None:
        return Key(zeros(rows.size), one if rows.size else [])
    values = arrow.encoded(batch.column(column))
    used, codes = compact_codes(arrow.codes(values)[rows].astype(np.int64) + 1, len(values.dictionary) + 1)
    known = arrow.texts(values.dictionary.take(arrow.array(used[used > 0] - 1)))
    return Key(codes, [*([None] if len(known) < used.size else []), *known])


def _only_value(column: arrow.Column) -> list[Cell] | None:
    """Return the one value of all rows of a column of whole numbers, None where they differ."""
    if pa.types.is_dictionary(column.type):
        return None
    if column.null_count:
        return [None] if column.null_count == len(column) else None
    low, high = arrow.bounds(column) or (None, None)
    return [low] if low == high else None


def group_by(*keys: Key) -> Groups:
    """Return the groups of rows that agree in all keys, in order of their labels' codes; each has a row at least."""
    count = len(keys[0].labels)
    found, codes = compact_codes(keys[0].codes, count)
    parts = [found]
    count = found.size
    for key in keys[1:]:
        width = len(key.labels)
        if width == 1:
            parts.append(np.zeros(count, np.int64))
            continue
        found, codes = compact_codes(_wide(codes, count, key.codes, width), count * width)
        parts = [part[found // width] for part in parts] + [found % width]
        count = found.size
    labels = tuple([key.labels[i] for i in part.tolist()] for key, part in zip(keys, parts, strict=True))
    return Groups(codes, count, labels)


def rows_of_groups(groups: Groups, chosen: Mask) -> Iterator[tuple[int, Rows]]:
    """Yield each group with its rows among the chosen ones, ascending; groups without such rows are left out.

    chosen: shape (n,).
    """
    rows = np.flatnonzero(chosen)
    if groups.count > 1:
        for group, places in rows_by(narrow(groups.codes[rows])):
            yield group, rows[places]
    elif rows.size:
        yield 0, rows


def numbered(keys: Iterable[Key]) -> I64:
    """Return one number a row, equal exactly where all keys are; as `group_by` numbers its groups.

    Keys that are made one after the other are not all in memory at once.
    """
    return numbered_codes((key.codes, len(key.labels)) for key in keys)


def numbered_codes(columns: Iterable[tuple[Rows, int]]) -> I64:
    """Return what `numbered` does, of columns of codes, as narrow as they are, and the number of labels of each."""
    codes, count = np.zeros(0, np.int64), 0
    for column, width in columns:
        found, codes = compact_codes(_wide(codes, count, column, width) if count else column, max(count, 1) * width)
        count = found.size
    return codes


def _wide(codes: I64, count: int, more: Rows, width: int) -> Rows:
    """Return a number for each pair of codes. count, width: how many the codes, and those beside them, may be."""
    if count == 1:
        return more
    wide = codes * np.int64(width)
    wide += more
    return wide


def statistics_by(
    codes: Rows, labels: Sequence[Cell], values: I64, percents: Sequence[int]
) -> tuple[list[Cell], Grouped]:
    """Return the labels that rows have, in order, and the statistics of each, as `group_by` and `statistics` would.

    The codes stay as narrow as they are. Raises: TracekitError where a sum exceeds int64.
    """
    found = _statistics(codes, len(labels), values, percents)
    used = np.flatnonzero(found.present)
    return [labels[each] for each in used.tolist()], found if used.size == len(labels) else found.of(used)


def statistics(groups: Groups, values: I64, percents: Sequence[int] = DEFAULT_PERCENTILES) -> Grouped:
    """Return calls, totals, percentiles of durations by group. Raises: TracekitError where a sum exceeds int64."""
    return _statistics(groups.codes, groups.count, values, percents)


def _statistics(codes: Rows, count: int, values: I64, percents: Sequence[int]) -> Grouped:
    try:
        return grouped(codes, count, values, percents)
    except OverflowError as err:
        raise too_long() from err


def sums(codes: I64, count: int, values: I64, what: str) -> tuple[list[int], list[int]]:
    """Return calls and total of the values of each group. Raises: TracekitError where a total exceeds int64."""
    try:
        result = grouped(codes, count, values, ())
    except OverflowError as err:
        raise too_much(what) from err
    return result.calls.tolist(), result.total.tolist()


def exact_sum(values: I64) -> int:
    """Return the total of the values, however large it is."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def exact_sums(codes: I64, count: int, values: I64) -> list[int]:
    """Return the total of the values of each group, however large it is."""
    high, low = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(high, codes, values >> 32)
    np.add.at(low, codes, values & 0xFFFFFFFF)
    return [(one << 32) + other for one, other in zip(high.tolist(), low.tolist(), strict=True)]


def too_much(what: str) -> TracekitError:
    """Return the error for values that add up to more than int64 holds."""
    return TracekitError(f"the {what} add up to more than int64 holds", hint=_LEAVE_OUT)


def too_long() -> TracekitError:
    """Return the error for durations that together exceed 292 years."""
    return TracekitError("the durations add up to more than 292 years", hint=_LEAVE_OUT)
