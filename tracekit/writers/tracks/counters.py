"""Counters by process and name: the viewers draw one line for each."""

from __future__ import annotations

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.writers.tracks.batch import Batch
from tracekit.writers.tracks.codes import Codes, classes, value_codes
from tracekit.writers.tracks.lanes import Lanes


class CounterNumbers:
    """Numbers counters from 0, in order of appearance."""

    def __init__(self, lanes: Lanes) -> None:
        self.known: dict[tuple[int, str], int] = {}
        """Number of the process, and name -> number of the counter."""
        self._lanes = lanes

    def of(self, batch: Batch, rows: I64) -> I64:
        """Return the number of the counter of each row. rows: values of counters."""
        names = value_codes(batch.columns["name"])
        parts: list[Codes | None] = [(batch.track[rows], int(batch.track.max()) + 1)]
        parts.append(None if names is None else (names[0][rows], names[1]))
        codes, first = classes(parts, len(rows))
        numbers = []
        for row in rows[first].tolist():
            process = self._lanes.tracks[int(batch.track[row])].lane.process.number
            numbers.append(self.known.setdefault((process, batch.text("name", row) or ""), len(self.known)))
        return np.array(numbers, np.int64)[codes]
