"""The members of an event's args that are no columns of numbers, as JSON text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import Mask
from tracekit.columns.arrow import Column, pc
from tracekit.writers.tracks.batch import COUNTER, NOT_WRITTEN, Batch
from tracekit.writers.tracks.texts import merged, number, quoted


@dataclass(slots=True)
class Members:
    """Text of the members of each row, "" for a row without any; None where no row has any."""

    texts: Column | None = None
    present: Mask | None = None


def gathered(batch: Batch) -> Members:
    """Return the members of args that are not columns; each distinct text of args is converted once."""
    texts: Column | None = None
    if batch.args.null_count < batch.count:
        args = batch.encoded_args()
        converted = arrow.array([merged(text) for text in arrow.texts(args.dictionary)], pa.string())
        texts = pc.fill_null(converted.take(args.indices), "")
    single = _of_single_rows(batch)
    if single:
        few = arrow.array([single.get(row, "") for row in range(batch.count)], pa.string())
        texts = few if texts is None else pc.binary_join_element_wise(few, texts, "")
    if texts is None:
        return Members()
    return Members(texts, arrow.bools(pc.not_equal(texts, "")))


def _of_single_rows(batch: Batch) -> dict[int, str]:
    """Return row -> members that only a few rows have, each followed by a comma."""
    out = {row: f'"dur_ns":{duration},' for row, duration in batch.negative.items()}
    counters = batch.phase == COUNTER
    for row in np.flatnonzero(batch.has_value & ~counters & (batch.phase != NOT_WRITTEN)).tolist():
        out[row] = out.get(row, "") + f'"value":{number(float(batch.value[row]))},'
    for row in np.flatnonzero(counters).tolist():
        out[row] = _of_counter(batch, row, out.get(row, ""))
    return out


def _of_counter(batch: Batch, row: int, others: str) -> str:
    """Put the value of a counter alone into its args: each other number there would become a series."""
    text = f'"value":{number(float(batch.value[row]))}}},"tracekit":{{' + others
    if batch.has_dur[row] and '"dur_ns":' not in text:
        text += f'"dur_ns":{batch.dur[row]},'
    if batch.text("name", row) is None:
        text += '"name":null,'
    for name in ("raw_name", "copy_kind"):
        value = batch.text(name, row)
        if value is not None:
            text += f'"{name}":{quoted(value)},'
    return text
