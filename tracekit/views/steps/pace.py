"""The pace of training: how often a step begins, and how many samples it handles in a second.

The pitch of a step is the time from its start to the start of the next one, so it has what the program does between
steps (evaluation, checkpoints, reading data before a step begins). It is known where the next step of the same owner
has the next number, or where neither has a number. A step whose args count its samples (`num_samples` of the recorder
and of Paddle) has a rate: samples by pitch. The last step has neither.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.statistics import nearest_rank
from tracekit.index.steps import Steps
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import args, arrow
from tracekit.model.arrow import F64, I64, Mask

__all__ = ["SAMPLES", "Pace", "pace_of"]

SAMPLES = ("num_samples", "samples", "batch_size")
"""Members of a step's args that count its samples."""
_LIKE = 0.02
"""A pitch that differs by no more than this share from the time of a step says nothing new."""


@dataclass(frozen=True, slots=True, eq=False)
class Pace:
    """The pitch of each of n steps in ns, 0 where it is not known; the samples of each, NaN where they are not.

    durations: of each step, ns.
    """

    pitches: I64
    durations: I64
    samples: F64

    def pitch(self, at: I64) -> int | None:
        """Return the median pitch of the steps at these places, None where it is about the time of a step."""
        known = at[self.pitches[at] > 0]
        if not known.size:
            return None
        pitch, takes = (nearest_rank(np.sort(times[known]), 50) for times in (self.pitches, self.durations))
        return pitch if abs(pitch - takes) > _LIKE * takes else None

    def rate(self, at: I64) -> float | None:
        """Return the median of samples per second over the steps at these places, None where too few are counted."""
        known = at[(self.pitches[at] > 0) & ~np.isnan(self.samples[at])]
        if not known.size or 2 * known.size < np.count_nonzero(self.pitches[at] > 0):
            return None
        rates = np.sort(self.samples[known] * 1e9 / self.pitches[known])
        return float(rates[(rates.size - 1) // 2])


def pace_of(index: TraceIndex, steps: Steps) -> Pace:
    """Return the pace of the steps."""
    pitches = np.zeros(steps.rows.size, np.int64)
    if steps.rows.size > 1:
        known, numbers = index.has("step")[steps.rows], index.ints("step")[steps.rows]
        follows: Mask = ~(known[1:] | known[:-1]) | (known[1:] & known[:-1] & (numbers[1:] == numbers[:-1] + 1))
        follows &= steps.owner[1:] == steps.owner[:-1]
        pitches[:-1] = np.where(follows, np.diff(steps.starts), 0).clip(min=0)
    return Pace(pitches, steps.durations, _samples(index, steps))


def _samples(index: TraceIndex, steps: Steps) -> F64:
    if "args" not in index.events.column_names or not steps.rows.size:
        return np.full(steps.rows.size, np.nan)
    counts, known = args.floats(arrow.take(index.events.column("args"), steps.rows), *SAMPLES)
    sensible = known & (counts >= 0) & (counts < 1 << 53)
    return np.where(sensible, counts, np.nan).astype(np.float64)
