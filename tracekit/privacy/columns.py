"""Texts of whole columns changed at once: only distinct texts that match a regular expression are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import Rows
from tracekit.columns.arrow import Column, DictColumn, pc

MOST_CLEAN = 1 << 16
"""Texts that are known not to match, for one input."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A text that was changed: its column, the rows that have it, and its number among the texts of the column."""

    column: str
    rows: Rows
    text: str


def text_columns(batch: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    """Yield place and name of each column that has texts of its own; `kind` has none."""
    for place, field in enumerate(batch.schema):
        kind = field.type.value_type if isinstance(field.type, pa.DictionaryType) else field.type
        if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and field.name != "kind":
            yield place, field.name


def changed_batch(
    batch: pa.RecordBatch,
    suspect: str,
    change: Callable[[str, str], str],
    tell: Callable[[Changed], None] | None = None,
    clean: set[str | None] | None = None,
) -> pa.RecordBatch:
    """Return a batch with texts changed; the same batch when no text is.

    suspect: the regular expression of texts that may be changed, "" for all. change: called with a column's name and
    each distinct suspect text. tell: called for each text that was changed, with its rows. clean: texts of earlier
    batches that do not match; dictionaries of the batches of one input have mostly the same texts.
    """
    columns: dict[int, Column] = {}
    for place, name in text_columns(batch):
        column = batch.column(place)
        if column.null_count == len(column):
            continue
        values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
        is_dictionary = values is not column
        if is_dictionary and clean is not None and clean.issuperset(texts := arrow.optional_texts(values)):
            continue
        rows = _suspects(values, suspect)
        if not rows.size:
            if is_dictionary and clean is not None and len(clean) < MOST_CLEAN:
                clean.update(texts)
            continue
        distinct = arrow.take(values, rows).dictionary_encode()
        before = arrow.optional_texts(distinct.dictionary)
        after = [None if text is None else change(name, text) for text in before]
        different = np.array([a != b for a, b in zip(before, after, strict=True)], np.bool_)
        codes = arrow.codes(distinct)
        hit = (codes >= 0) & different[codes] if different.size else np.zeros(len(codes), np.bool_)
        if not hit.any():
            continue
        rows, codes = rows[hit], codes[hit]
        replaced = np.zeros(len(values), np.bool_)
        replaced[rows] = True
        new = pc.replace_with_mask(
            values, arrow.array(replaced), arrow.take(arrow.array(after, values.type), codes.astype(np.int64))
        )
        if tell is not None:
            _tell(tell, name, column, rows, codes, before)
        columns[place] = _encoded_anew(column, new) if isinstance(column, pa.DictionaryArray) else new
    if not columns:
        return batch
    arrays = [columns.get(place, batch.column(place)) for place in range(batch.num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _suspects(values: Column, suspect: str) -> Rows:
    """Return the places of the texts that match. Mostly none does, and one search over all bytes shows that."""
    if not len(values):
        return np.empty(0, np.int64)
    if not suspect:
        return np.arange(len(values))
    offsets, data = arrow.text_parts(values)
    begin, end = int(offsets[0]), int(offsets[-1])
    whole = arrow.text_column(np.array([0, end - begin], np.int64), data[begin:end], pa.large_string())
    if not arrow.bools(pc.match_substring_regex(whole, suspect))[0]:
        return np.empty(0, np.int64)
    return np.flatnonzero(arrow.bools(pc.match_substring_regex(values, suspect)))


def _encoded_anew(column: DictColumn, values: Column) -> Column:
    """Return a dictionary column with other texts: a dictionary may not have the same text twice."""
    texts = arrow.encoded(values)
    indices = column.indices.cast(pa.int32())
    if len(texts.dictionary) == len(values):
        return pa.DictionaryArray.from_arrays(indices, values)
    return arrow.encoded(texts.take(indices))


def _tell(
    tell: Callable[[Changed], None],
    name: str,
    column: Column,
    places: Rows,
    codes: Rows,
    before: list[str | None],
) -> None:
    """Call `tell` for each text with the rows of the batch that have it."""
    of_row = arrow.codes(column) if isinstance(column, pa.DictionaryArray) else None
    for code in np.unique(codes).tolist():
        mine = places[codes == code]
        rows = mine if of_row is None else np.flatnonzero(np.isin(of_row, mine))
        if rows.size:
            tell(Changed(name, rows, before[code] or ""))
