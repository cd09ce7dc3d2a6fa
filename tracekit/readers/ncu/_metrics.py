"""Rows of TOTALS of many launches and their metrics at once. The numbers equal the ones of `_launches`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import F64, I64, Mask, Rows
from tracekit.columns.arrow import Column, pc
from tracekit.readers.builder import Values
from tracekit.readers.ncu._launches import AMBIGUOUS, KERNEL, Launch, times_of
from tracekit.readers.ncu._values import base_unit, is_exact, is_number, value_of
from tracekit.readers.printed.numbers import POINT
from tracekit.readers.printed.pasted import RankRows
from tracekit.trace import Ledger

_REGULAR = r"^-?(?:[0-9]{1,15}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,4})(?:\.[0-9]{1,15})?$"
"""Numbers that Arrow reads as Python's Decimal does, once their commas are gone."""
_EXACT = float(1 << 53)


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
class _Numbers:
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


def _numbers(metrics: Metrics, ledger: Ledger) -> _Numbers:
    exponents = [base_unit(unit)[1] for unit in metrics.units]
    exponent = np.array(exponents, np.int64)[metrics.unit]
    regular = arrow.bools(pc.match_substring_regex(metrics.text, _REGULAR))
    plain = pc.replace_substring_regex(metrics.text, ",", "")
    suffix = arrow.take(arrow.array([f"e{each}" for each in exponents], pa.string()), metrics.unit)
    written = pc.binary_join_element_wise(plain, suffix, "")
    written = pc.if_else(arrow.array(regular), written, "nan")
    value = arrow.floats(pc.cast(written, pa.float64())).copy()
    is_value = regular.copy()
    printed = regular & (((exponent != 0) & (value != 0)) | (np.abs(value) > _EXACT))
    # A double cannot tell 2^53 from what is just above.
    rest = np.flatnonzero(~regular | (np.abs(value) == _EXACT))
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
    return _Numbers(value, is_value, printed)


def _units(metrics: Metrics, numbers: _Numbers) -> Column:
    """Return the base units of numbers, and the units of other texts; null for none."""
    base = arrow.take(arrow.array([base_unit(unit)[0] or None for unit in metrics.units], pa.string()), metrics.unit)
    if numbers.is_value.all():
        return base
    raw = arrow.take(arrow.array([unit or None for unit in metrics.units], pa.string()), metrics.unit)
    return pc.if_else(arrow.array(numbers.is_value), base, raw)


def _args(launches: Sequence[Launch], metrics: Metrics, numbers: _Numbers) -> Column:
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
