"""Rows become markers: the columns of a marker table, one text a row, sorted by track."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask, Rows
from tracekit.columns.arrow import Column, pc
from tracekit.schema import Kind
from tracekit.writers.firefox._fields import Fields, Strings
from tracekit.writers.tracks.batch import COUNTER, NOT_WRITTEN, SLICE, Batch
from tracekit.writers.tracks.codes import Codes, classes, value_codes
from tracekit.writers.tracks.digits import Millis, Piece, fixed_rows
from tracekit.writers.tracks.fields import number_pieces, own_numbers
from tracekit.writers.tracks.spool import Spool
from tracekit.writers.tracks.texts import quoted

COLUMNS = ("data", "name", "startTime", "endTime", "phase", "category")
"""The columns of a marker table; the part of the spool is their number."""
CHUNK_BYTES = 1 << 24
"""Most bytes of markers that are built at once."""
CATEGORIES = {kind.value: number for number, kind in enumerate(Kind, 1)}
"""Number of the category of each kind. 0 is the category that every profile must have."""
_EXACT = 1 << 53


class MarkerMaker:
    """Writes the markers of batches to a spool, by track."""

    def __init__(self, spool: Spool) -> None:
        self.strings = Strings()
        self.fields = Fields()
        self.counts: dict[int, int] = {}
        """Track -> number of its markers."""
        self.rounded = 0
        """Rows with a number that a double cannot hold."""
        self._spool = spool

    def add(self, batch: Batch) -> int:
        """Write the markers of a batch and return how many they are."""
        rows = np.flatnonzero((batch.phase != NOT_WRITTEN) & (batch.phase != COUNTER))
        if not len(rows):
            return 0
        rows = rows[np.argsort(batch.track[rows], kind="stable")]
        tracks = batch.track[rows]
        for track, count in zip(*(x.tolist() for x in np.unique(tracks, return_counts=True)), strict=True):
            self.counts[track] = self.counts.get(track, 0) + count
        slices = batch.phase[rows] == SLICE
        ends = _texts(Millis(batch.ts[rows] + np.where(slices, batch.dur[rows], 0)))
        columns = {
            "name": _texts(self._numbers(batch, "name")[rows]),
            "startTime": _texts(Millis(batch.ts[rows])),
            "endTime": pc.if_else(arrow.array(slices), ends, "null,"),
            "phase": _texts(slices.astype(np.int64)),
            "category": _texts(_categories(batch)[rows]),
        }
        for name, texts in columns.items():
            self._spool.add(COLUMNS.index(name), tracks, texts)
        first = 0
        for data in self._data(batch, rows):
            self._spool.add(0, tracks[first : first + len(data)], data)
            first += len(data)
        return len(rows)

    def _numbers(self, batch: Batch, column: str) -> I64:
        """Return the number of each row's text in the string table; a null name is the empty text."""
        known, texts = batch.columns[column], batch.texts[column]
        if known.all_null:
            return np.full(batch.count, self.strings.number(""), np.int64)
        used = np.where(known.mask(), known.values, -1)
        distinct, place = np.unique(used, return_inverse=True)
        numbers = [self.strings.number(texts[code] if code >= 0 else "") for code in distinct.tolist()]
        return np.array(numbers, np.int64)[place]

    def _data(self, batch: Batch, rows: Rows) -> Iterator[Column]:
        """Yield the objects with the fields of the rows, each with a comma, in columns of bounded size."""
        codes, suffixes = self._suffixes(batch)
        parts = [self._own_numbers(batch, rows)]
        if batch.args.null_count < batch.count:
            args = batch.encoded_args()
            members = arrow.array([self.fields.members(text) for text in arrow.texts(args.dictionary)], pa.string())
            parts.append(pc.fill_null(arrow.take(members.take(args.indices), rows), ""))
        if batch.has_value[rows].any():
            values = pc.cast(arrow.array(batch.value[rows]), pa.string())
            infinite = ~np.isfinite(batch.value[rows])
            if infinite.any():
                values = pc.if_else(arrow.array(infinite), pc.binary_join_element_wise('"', values, '"', ""), values)
            texts = pc.binary_join_element_wise('"value":', values, ",", "")
            parts.append(pc.if_else(arrow.array(batch.has_value[rows]), texts, ""))
        if batch.negative:
            stated = [f'"dur_ns":{batch.negative[row]},' if row in batch.negative else "" for row in rows.tolist()]
            parts.append(arrow.array(stated, pa.string()))
        ends = arrow.array(suffixes, pa.string())
        sizes = arrow.ints(pc.binary_length(ends))[codes[rows]]
        for part in parts:
            sizes = sizes + arrow.ints(pc.binary_length(part))
        upto = np.cumsum(sizes, dtype=np.int64)
        start = 0
        while start < len(rows):
            before = int(upto[start - 1]) if start else 0
            end = max(int(np.searchsorted(upto, before + CHUNK_BYTES, "right")), start + 1)
            pieces = [part.slice(start, end - start) for part in parts]
            yield pc.binary_join_element_wise(*pieces, arrow.take(ends, codes[rows[start:end]]), "")
            start = end

    def _suffixes(self, batch: Batch) -> tuple[Rows, list[str]]:
        """Return the end of each object as codes, and the ends: fields with few distinct texts, and the type."""
        codes, first = classes([value_codes(batch.columns[n]) for n in ("kind", "raw_name", "copy_kind")], batch.count)
        out = []
        for row in first.tolist():
            texts = [(name, batch.text(name, row)) for name in ("raw_name", "copy_kind")]
            given = "".join(f'"{name}":{self.strings.number(text)},' for name, text in texts if text is not None)
            out.append(f'{given}"type":{quoted(batch.text("kind", row) or "")}}},')
        return codes, out

    def _own_numbers(self, batch: Batch, rows: Rows) -> Column:
        """Return the begin of each object: a brace and the columns of numbers, each followed by a comma."""
        present = own_numbers(batch)
        self._count_rounded(batch, present)
        masks: list[Codes | None] = [(mask.view(np.int8), 2) for _, mask in present if mask is not None]
        of_row, first = classes(masks, batch.count)
        groups: list[tuple[int, list[Piece]]] = []
        places = []
        for code, row in enumerate(first.tolist()):
            place = np.arange(len(rows)) if len(first) == 1 else np.flatnonzero(of_row[rows] == code)
            if not len(place):
                continue
            names = [name for name, mask in present if mask is None or mask[row]]
            pieces = [b"{", *number_pieces(batch, names, rows[place])]
            groups.append((len(place), [*pieces, b","] if names else pieces))
            places.append(place)
        texts = fixed_rows(groups)
        if len(groups) == 1:
            return texts
        order = np.empty(len(rows), np.int64)
        order[np.concatenate(places)] = np.arange(len(rows))
        return arrow.take(texts, order)

    def _count_rounded(self, batch: Batch, present: list[tuple[str, Mask | None]]) -> None:
        beyond = np.zeros(batch.count, np.bool_)
        for name, mask in present:
            values = batch.columns[name].values
            if int(values.max()) > _EXACT or int(values.min()) < -_EXACT:
                large = (values > _EXACT) | (values < -_EXACT)
                beyond |= large if mask is None else large & mask
        self.rounded += int(np.count_nonzero(beyond))


def _texts(values: Millis | I64) -> Column:
    """Return each value as a text with a comma."""
    return fixed_rows([(len(values.ns if isinstance(values, Millis) else values), [values, b","])])


def _categories(batch: Batch) -> I64:
    table = np.array([CATEGORIES.get(text, 0) for text in batch.texts["kind"]], np.int64)
    return table[batch.columns["kind"].values]
