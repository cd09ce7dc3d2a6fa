"""Stacks of samples, summed: what all readers of this folder make rows of."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
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
_UNITS = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "seconds": "s"}


class Stacks:
    """Sums by profile, thread and stack. A weight is a number in the unit of its profile."""

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self.options, self.ledger = options, ledger
        self._sums: dict[tuple[int, str, str, tuple[str, ...]], list[Decimal | int]] = {}
        self._text = 0

    def add(self, run: int, thread: str, unit: str, frames: Sequence[str], weight: Decimal | int, samples: int) -> None:
        """Add samples of one stack. frames: the outermost first. unit: "ns", "us", "ms", "s" are times."""
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

    def __len__(self) -> int:
        return len(self._sums)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield a row of TOTALS for each stack, in the order in which they were met."""
        rows = TotalRows(self.options.source, self.ledger)
        for (run, thread, unit, frames), (weight, samples) in self._sums.items():
            for frame in frames:
                if len(frame) > MOST_NAME:
                    why = f"names longer than {MOST_NAME:,} characters are cut"
                    self.ledger.note("name-too-long", why, where=f"a name of {len(frame):,} characters")
            names = [clean(frame) for frame in frames] or ["(no frames)"]
            args: dict[str, object] = {"frames": names, "samples": int(samples)}
            if thread:
                args["thread"] = clean(thread)
            if unit in TIME_EXPONENT:
                ns = int((Decimal(weight).scaleb(TIME_EXPONENT[unit])).to_integral_value())
                if abs(ns) >= MAX_NS:
                    raise ParseError(self.ledger.path, "", "times beyond 146 years")
                rows.add(run, SECTION, names[-1], str(Kind.OTHER), args, total_ns=ns)
            else:
                rows.add(run, SECTION, names[-1], str(Kind.OTHER), args, value_avg=float(weight), unit=unit or SECTION)
            yield from rows.take()
        yield from rows.take(everything=True)


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
