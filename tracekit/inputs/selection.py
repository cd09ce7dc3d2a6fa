"""Selection: the user's filters, the same words in every command, applied to batches as they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.errors import ArgumentTypeError, Option, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import Column, Mask, pc
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS, TIME_EXPONENT, split_quantity, to_ns
from tracekit.options import no_such

__all__ = [
    "LEFT_NOTHING",
    "Bounds",
    "Selection",
    "SelectionBounds",
    "first_rows",
    "parse_duration",
    "parse_offset",
    "parse_steps",
    "parse_times",
]

LEFT_NOTHING = "filter-left-nothing"
"""Code of the note on a selection that no row passes."""
Bounds: TypeAlias = tuple[int | None, int | None]
"""First and end of a half-open range, None for open."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters on rows; an empty field filters nothing. A row whose column is null does not pass a filter on it.

    name: regular expression searched in the name. kinds, ranks, devices, streams: one value or several, kept as a
    frozenset. steps, times_ns: half-open ranges (first, end), None for open, or texts as the command line takes them:
    "3", "2:10", "1.5s:2s"; times are on the sources' own clock. min_dur_ns: shortest duration, in ns or as "10us". Rows
    of TOTALS have no time and no step: only name, kind, rank and device filter them.
    Raises: UsageError for an unknown kind, a bad expression or an empty range; ArgumentTypeError.
    """

    name: str = ""
    kinds: frozenset[str] = frozenset()
    ranks: frozenset[int] = frozenset()
    devices: frozenset[int] = frozenset()
    streams: frozenset[int] = frozenset()
    steps: Bounds | None = None
    times_ns: Bounds | None = None
    min_dur_ns: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise _wrong("name", "str", self.name)
        for field, kind in (("kinds", str), ("ranks", Integral), ("devices", Integral), ("streams", Integral)):
            object.__setattr__(self, field, _values(field, getattr(self, field), kind))
        object.__setattr__(self, "steps", _range("steps", self.steps, parse_steps))
        object.__setattr__(self, "times_ns", _range("times_ns", self.times_ns, parse_times))
        shortest: object = self.min_dur_ns
        if isinstance(shortest, str):
            object.__setattr__(self, "min_dur_ns", parse_duration(shortest))
        elif not _is_whole(shortest):
            raise _wrong("min_dur_ns", "int or str", shortest)
        if self.min_dur_ns < 0:
            raise UsageError(f"min_dur_ns {self.min_dur_ns}: a duration is not below zero")
        strange = self.kinds - schema.KINDS
        if strange:
            raise no_such("kind", sorted(strange)[0], "kind", sorted(schema.KINDS))
        try:
            re.compile(self.name)
        except re.error as err:
            raise UsageError(f"name {self.name!r} is not a valid regular expression ({err})") from err

    def __bool__(self) -> bool:
        return self != Selection()

    def apply(self, batch: pa.RecordBatch, ledger: Ledger) -> pa.RecordBatch:
        """Return the rows that pass, and move the records of the others from kept to filtered."""
        if not self or not batch.num_rows:
            return batch
        mask = self.mask(batch)
        if mask.all():
            return batch
        return _left(batch, mask, ledger)

    def columns(self) -> set[str]:
        """Return the columns of EVENTS that the filters look at."""
        looked_at = (
            *((self.name, "name"), (self.kinds, "kind"), (self.ranks, "rank"), (self.devices, "device")),
            *((self.streams, "stream"), (self.steps, "step"), (self.times_ns, "ts_ns"), (self.min_dur_ns, "dur_ns")),
        )
        return {column for wanted, column in looked_at if wanted}

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Return which rows of EVENTS or TOTALS pass."""
        totals = schema.is_totals(batch)
        mask = np.ones(batch.num_rows, np.bool_)
        if self.name:
            mask &= _text_mask(batch.column("name"), lambda names: pc.match_substring_regex(names, self.name))
        if self.kinds:
            wanted = arrow.array(sorted(self.kinds))
            mask &= _text_mask(batch.column("kind"), lambda kinds: pc.is_in(kinds, wanted))
        for numbers, column in ((self.ranks, "rank"), (self.devices, "device"), (self.streams, "stream")):
            if numbers and column in batch.schema.names:
                values = batch.column(column)
                limits = np.iinfo(arrow.dtype_of(values.type))
                possible = [each for each in sorted(numbers) if limits.min <= each <= limits.max]
                mask &= arrow.bools(pc.is_in(values, arrow.array(possible, values.type)))
        if totals:
            return mask
        if self.steps is not None:
            mask &= _range_mask(batch.column("step"), self.steps)
        if self.times_ns is not None:
            mask &= _range_mask(batch.column("ts_ns"), self.times_ns)
        if self.min_dur_ns:
            mask &= _range_mask(batch.column("dur_ns"), (self.min_dur_ns, None))
        return mask


class SelectionBounds:
    """The times and steps of rows before the selection: a note has them where the selection leaves nothing."""

    def __init__(self, selection: Selection) -> None:
        self._times, self._steps = bool(selection.times_ns), selection.steps is not None
        self._first_ns: int | None = None
        self._last_ns = 0
        self._first_step: int | None = None
        self._last_step = 0
        self._timed = False

    @property
    def lacks_steps(self) -> bool:
        """Return whether steps are selected, and there were events, none of them in a step."""
        return self._timed and self._first_step is None

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Look at a batch, and return it."""
        if schema.is_totals(batch):
            return batch
        if self._times:
            first, last = arrow.bounds(batch.column("ts_ns")) or (0, 0)
            self._first_ns = first if self._first_ns is None else min(self._first_ns, first)
            self._last_ns = max(self._last_ns, last)
        if self._steps:
            self._timed = True
            if (numbers := arrow.bounds(batch.column("step"))) is not None:
                self._first_step = numbers[0] if self._first_step is None else min(self._first_step, numbers[0])
                self._last_step = max(self._last_step, numbers[1])
        return batch

    def note(self, ledger: Ledger) -> None:
        """Note where the rows were, if the selection left none of them."""
        if not ledger.filtered or ledger.kept:
            return
        if (first := self._first_ns) is not None:
            text = f"no event passes the filter: they start at {first} ns to {self._last_ns} ns"
            ledger.note(LEFT_NOTHING, text)
        if (step := self._first_step) is not None:
            there = f"only step is {step}" if step == self._last_step else f"steps are {step} to {self._last_step}"
            ledger.note(LEFT_NOTHING, f"no event passes the filter: the {there}")


def first_rows(batch: pa.RecordBatch, count: int, ledger: Ledger) -> pa.RecordBatch:
    """Return the first rows of a batch; the records of the others are ignored: a limit ends before them."""
    before = ledger.filtered
    left = _left(batch, np.arange(batch.num_rows) < count, ledger)
    ledger.ignore("beyond a limit", ledger.filtered - before)
    ledger.filtered = before
    return left


def _left(batch: pa.RecordBatch, mask: Mask, ledger: Ledger) -> pa.RecordBatch:
    """Return the rows of a mask, and move the records of the others from kept to filtered."""
    kept = batch.filter(arrow.array(mask))
    if schema.is_totals(batch):
        filtered = batch.num_rows - kept.num_rows
        ledger.totals_out -= filtered
    else:
        # One record may have made several rows: it counts as filtered when none of them is left.
        records = arrow.ints(batch.column("event_id"))
        filtered = len(sets.without(records[~mask], records[mask]))
        ledger.events_out -= batch.num_rows - kept.num_rows
    filtered = min(filtered, ledger.kept)
    ledger.kept -= filtered
    ledger.filtered += filtered
    return kept


def _text_mask(column: Column, test: Callable[[Column], Column]) -> Mask:
    """Return the rows whose text passes a test of the distinct texts; null does not pass."""
    encoded = arrow.encoded(column)
    return np.append(arrow.bools(test(encoded.dictionary)), False)[arrow.codes(encoded)]


def _range_mask(column: Column, bounds: Bounds) -> Mask:
    inside, values = arrow.valid(column), arrow.ints(column)
    low, high = bounds
    if low is not None:
        inside &= values >= low
    if high is not None:
        inside &= values < high
    return inside


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _wrong(argument: str, wanted: str, value: object) -> ArgumentTypeError:
    return ArgumentTypeError("Selection", argument, wanted, type(value).__name__)


def _values(field: str, given: object, kind: type) -> frozenset[object]:
    """Return one value or several as a set. Raises: ArgumentTypeError."""
    several = [given] if isinstance(given, (str, Integral)) else given
    word = "str" if kind is str else "int"
    if not isinstance(several, Iterable) or isinstance(several, (bytes, Mapping)):
        raise _wrong(field, f"{word} or several of them", given)
    found: list[object] = []
    for each in several:
        if not isinstance(each, kind) or isinstance(each, bool):
            raise _wrong(field, f"{word} or several of them", each)
        found.append(int(each) if isinstance(each, Integral) else each)
    return frozenset(found)


def _range(field: str, given: object, parse: Callable[[str], Bounds]) -> Bounds | None:
    """Return a half-open range, from a text too; None for none. Raises: UsageError, ArgumentTypeError."""
    if given is None:
        return None
    if isinstance(given, str):
        return parse(given)
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2
    if not is_pair or not all(each is None or _is_whole(each) for each in given):  # type: ignore[attr-defined]
        raise _wrong(field, "a tuple (first, end) of int or None, or str", given)
    low, high = (None if each is None else int(each) for each in given)  # type: ignore[attr-defined]
    if low is not None and high is not None and high <= low:
        word = "step" if field == "steps" else "time"
        raise UsageError(f"{word} ({low}, {high}): the end is not after the first, so nothing is selected")
    return low, high


def _bounds(text: str, option: Option, parse: Callable[[str], int]) -> Bounds:
    given = replace(option, value=text)
    hint = sentence(replace(option, takes="A:B"), f", for example {_EXAMPLES[option.name]}")
    first, colon, last = text.partition(":")
    try:
        low = parse(first) if first.strip() else None
        high = parse(last) if last.strip() else None
    except ValueError as err:
        raise UsageError(sentence(given, f": {err}"), hint=hint) from err
    if not colon or (low is not None and high is not None and high <= low):
        raise UsageError(sentence(given, ": not a range"), hint=hint)
    return low, high


_EXAMPLES = {"step": "2:10", "time": "1.5s:2s"}


def parse_steps(text: str) -> Bounds:
    """Return the half-open range of "2:10", "2:" or ":10", and of "3" for step 3 alone. Raises: UsageError."""
    single = text.strip()
    if single.isascii() and single.isdigit() and len(single) < 19:
        return int(single), int(single) + 1
    return _bounds(text, Option("step"), _count)


def _count(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ValueError(f"{digits!r} is not the number of a step")
    return int(digits)


def parse_times(text: str) -> Bounds:
    """Return the half-open range in ns of "1.5s:2s" (units s, ms, us, ns). Raises: UsageError, also without a unit."""
    return _bounds(text, Option("time"), _with_unit)


def parse_offset(text: str, option: Option) -> int:
    """Return the ns of "+12ms" or "-3us". Raises: UsageError, also without a sign or a unit."""
    given = replace(option, value=text)
    sign, rest = text[:1], text[1:].strip()
    try:
        if sign not in ("+", "-"):
            raise ValueError("an offset begins with + or -")
        ns = _with_unit(rest)
    except ValueError as err:
        hint = sentence(replace(option, takes="INPUT=+12ms"), ", or a method")
        raise UsageError(sentence(given, f": {err}"), hint=hint) from err
    if not 0 <= ns < MAX_NS:
        raise UsageError(sentence(given, ": not an offset"))
    return -ns if sign == "-" else ns


def _with_unit(text: str) -> int:
    # One user means seconds by a bare number, another the unit of the file; 0 is 0 in both.
    number, unit = split_quantity(text)
    if not unit and number:
        raise ValueError(f"{text.strip()} has no unit; one of {', '.join(TIME_EXPONENT)}")
    return to_ns(number, unit or "ns")


def parse_duration(text: str) -> int:
    """Return the ns of "10us". Raises: UsageError, also without a unit."""
    try:
        ns = _with_unit(text)
    except ValueError as err:
        hint = sentence(Option("min-dur", takes="D"), ", for example 10us")
        raise UsageError(sentence(Option("min-dur", text), f": {err}"), hint=hint) from err
    if not 0 <= ns < MAX_NS:
        raise UsageError(sentence(Option("min-dur", text), ": not a duration"))
    return ns
