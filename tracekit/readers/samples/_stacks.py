"""Stacks of samples, summed: what all readers of this folder make rows of."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

import orjson
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS, TIME_EXPONENT
from tracekit.readers.base import ReadOptions
from tracekit.readers.printed.lines import TotalRows

SECTION = "samples"
MOST_FRAMES = 2000
MOST_NAME = 4000
MOST_TEXT = 96 << 20
"""Text of different stacks that is kept; of further ones the innermost frame alone is."""
MOST_STRETCHES = 200_000
"""Stretches of time in which one stack was on. Of a file with more of them, their order is not kept."""
Stretch = tuple[Decimal | int, Decimal | int]
"""Begin and length of a time in which one stack was on, in the unit of its profile."""
_UNITS = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "seconds": "s"}


class Stacks:
    """Sums by profile, thread and stack. A weight is a number in the unit of its profile."""

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self.options, self.ledger = options, ledger
        self._sums: dict[tuple[int, str, str, tuple[str, ...]], list[Decimal | int]] = {}
        self._text = 0
        self._stretches: dict[tuple[int, str, str, tuple[str, ...]], list[Stretch]] = {}
        self._count = 0

    def add(
        self,
        run: int,
        thread: str,
        unit: str,
        frames: Sequence[str],
        weight: Decimal | int,
        samples: int,
        stretches: Sequence[Stretch] = (),
    ) -> None:
        """Add samples of one stack. frames: the outermost first. unit: "ns", "us", "ms", "s" are times.

        stretches: when the stack was on, in order of time, where the file says it.
        """
        key = (run, thread, _UNITS.get(unit, unit), tuple(frames[-MOST_FRAMES:]))
        sums = self._sums.get(key)
        if sums is None:
            if len(frames) > MOST_FRAMES:
                why = f"stacks deeper than {MOST_FRAMES:,} frames have their outermost ones cut off"
                self.ledger.note("stack-too-deep", why)
            size = sum(map(len, key[3])) + 4 * len(key[3])
            if self._text + size > MOST_TEXT:
                why = "too many different stacks: of further ones only the innermost frame was kept"
                self.ledger.note("stacks-merged", why)
                key = (*key[:3], key[3][-1:])
                sums = self._sums.get(key)
            else:
                self._text += size
        if sums is None:
            self._sums[key] = [weight, samples]
        else:
            sums[0] += weight
            sums[1] += samples
        if stretches and self._count <= MOST_STRETCHES:
            self._place(self._stretches.setdefault(key, []), stretches)

    def _place(self, known: list[Stretch], stretches: Sequence[Stretch]) -> None:
        """Add stretches of a stack; one that begins where the last one ended makes that one longer."""
        for begin, length in stretches:
            if known and known[-1][0] + known[-1][1] == begin:
                known[-1] = (known[-1][0], known[-1][1] + length)
            else:
                known.append((begin, length))
                self._count += 1
        if self._count > MOST_STRETCHES:
            why = f"more than {MOST_STRETCHES:,} changes of the stack: their order in time is not kept"
            self.ledger.note("order-not-kept", why)
            self._stretches.clear()

    def __len__(self) -> int:
        return len(self._sums)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield a row of TOTALS for each stack, in the order in which they were met."""
        rows = TotalRows(self.options.source, self.ledger)
        for key, (weight, samples) in self._sums.items():
            run, thread, unit, frames = key
            for frame in frames:
                if len(frame) > MOST_NAME:
                    why = f"names longer than {MOST_NAME:,} characters are cut"
                    self.ledger.note("name-too-long", why, where=f"a name of {len(frame):,} characters")
            names = [clean(frame) for frame in frames] or ["(no frames)"]
            args: dict[str, object] = {"frames": names, "samples": int(samples)}
            if thread:
                args["thread"] = clean(thread)
            if at := _whole_numbers(self._stretches.get(key, ()), TIME_EXPONENT.get(unit)):
                args["at"] = at
            if unit in TIME_EXPONENT:
                ns = int((Decimal(weight).scaleb(TIME_EXPONENT[unit])).to_integral_value())
                if abs(ns) >= MAX_NS:
                    raise ParseError(self.ledger.path, "", "times beyond 146 years")
                rows.add(run, SECTION, names[-1], str(Kind.OTHER), args, total_ns=ns)
            else:
                rows.add(run, SECTION, names[-1], str(Kind.OTHER), args, value_avg=float(weight), unit=unit or SECTION)
            yield from rows.take()
        yield from rows.take(everything=True)


def _whole_numbers(stretches: Iterable[Stretch], exponent: int | None) -> list[int]:
    """Return begin and length of each stretch, in ns for times; [] where they are no whole numbers or too large.

    exponent: of the unit of time, None for another unit. Ends are rounded, so that what follows begins where it ends.
    """
    out = []
    for begin, length in stretches:
        ends = [Decimal(each).scaleb(exponent or 0) for each in (begin, begin + length)]
        rounded = [int(each.to_integral_value()) for each in ends]
        if (exponent is None and ends != rounded) or not 0 <= rounded[0] <= rounded[1] < MAX_NS:
            return []
        out += [rounded[0], rounded[1] - rounded[0]]
    return out


def clean(text: str) -> str:
    """Return a name that is UTF-8 and not endless."""
    return text[:MOST_NAME].encode("utf-8", "backslashreplace").decode()


def whole(value: object, most: int = 1 << 53) -> int | None:
    """Return a whole number from 0 on, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most else None


def decimal(value: object) -> Decimal | None:
    """Return a number of JSON exactly, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    number = Decimal(value)
    return number if number.is_finite() and -30 < number.adjusted() < 30 else None


def json_object(data: bytes, name: str, what: str) -> dict[str, object]:
    """Return the object of a JSON file, with its decimal numbers exact. Raises: ParseError."""
    import json

    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        orjson.loads(data)  # refuses what nests too deep, quickly
        document = json.loads(data, parse_float=Decimal)
    except (ValueError, RecursionError, ArithmeticError) as err:
        raise ParseError(name, "", f"the JSON of this {what} is damaged or cut: {str(err)[:120]}") from err
    if not isinstance(document, dict):
        raise ParseError(name, "", f"not a {what}: the JSON has no object")
    return document


def objects(value: object) -> list[dict[str, object]]:
    """Return the objects of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
