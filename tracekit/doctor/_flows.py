"""Checks of arrows: points "s", "t" and "f" with one id, name and category; each must touch a slice of its track."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tracekit.analysis.links import one_key
from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.doctor.findings import EXAMPLES, Gathered
from tracekit.schema import Kind

_START, _STEP, _END = 0, 1, 2
_PHASES = {"s": _START, "t": _STEP, "f": _END}
_OF_EVERY_CALL = {("ac2g", "ac2g")}
"""Arrows (name, category) of which torch writes one end at every call of the runtime, also where no work follows."""
_NONE = np.iinfo(np.int64).min


@dataclass(slots=True)
class Flows:
    """Takes rows in order of start, with their tracks."""

    _ends: dict[int, int] = field(default_factory=dict)
    """Track -> latest end of a slice so far."""
    _points: list[I64] = field(default_factory=list)
    """One array a batch: key (name and category), id, phase, track, ts, number, waits; shape (7, n)."""
    _texts: dict[tuple[str, str], int] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _loose: Gathered = field(default_factory=lambda: Gathered("flow-without-slice"))
    bad: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Numbers of all flow events that have a defect, once `found` was called."""
    _latest: dict[int, int] = field(default_factory=dict)
    """Track -> latest start of a slice."""

    def see(self, batch: pa.RecordBatch, track: I64) -> None:
        """Take the next rows. track: shape (n,)."""
        kinds = arrow.encoded(batch.column("kind"))
        names = arrow.texts(kinds.dictionary)
        ts, dur = arrow.ints(batch.column("ts_ns")), arrow.ints(batch.column("dur_ns"))
        is_flow = np.array([name == Kind.FLOW for name in names] or [False])[arrow.codes(kinds)]
        slices = arrow.valid(batch.column("dur_ns")) & arrow.valid(batch.column("tid")) & ~is_flow
        points = np.flatnonzero(is_flow & arrow.valid(batch.column("correlation")))
        touching = self._touching(points, slices, track, ts, ts + np.maximum(dur, 0))
        if len(points):
            self._take(batch, points, track, ts, touching)

    def _touching(self, points: I64, slices: Mask, track: I64, ts: I64, ends: I64) -> Mask:
        """Return for each point whether a slice of its track is open; and remember the latest end of each track."""
        rows = np.concatenate((np.flatnonzero(slices), points))
        rows.sort()
        order = rows[np.argsort(track[rows], kind="stable")]
        tracks = track[order]
        touching = np.zeros(len(track), np.bool_)
        bounds = [0, *(np.flatnonzero(tracks[1:] != tracks[:-1]) + 1).tolist(), len(order)]
        for start, stop in pairwise(bounds if len(order) else []):
            mine, own = order[start:stop], int(tracks[start])
            reach = np.where(slices[mine], ends[mine], _NONE)
            reach = np.maximum(np.maximum.accumulate(reach), self._ends.get(own, _NONE))
            touching[mine] = reach >= ts[mine]
            self._ends[own] = int(reach[-1])
            if slices[mine].any():
                self._latest[own] = int(ts[mine[slices[mine]][-1]])
        return touching[points]

    def _take(self, batch: pa.RecordBatch, points: I64, track: I64, ts: I64, touching: Mask) -> None:
        rows = arrow.take(batch, points)
        args = arrow.encoded(rows.column("args"))
        parsed = [_point(text) for text in arrow.optional_texts(args.dictionary)] or [("", "", "")]
        code = arrow.codes(args) if len(args.dictionary) else np.zeros(len(points), np.int64)
        names = arrow.encoded(rows.column("name"))
        texts = [text or "" for text in arrow.optional_texts(names.dictionary)] or [""]
        name = arrow.codes(names) if len(names.dictionary) else np.zeros(len(points), np.int64)
        key = np.empty(len(points), np.int64)
        both, place = np.unique(np.stack((code, name)), axis=1, return_inverse=True)
        for at, (of_args, of_name) in enumerate(both.T.tolist()):
            text = (texts[of_name], parsed[of_args][1])
            key[place.reshape(-1) == at] = self._texts.setdefault(text, len(self._texts))
        self._names = [text for text, _ in self._texts]
        phase = np.array([_PHASES.get(each[0], _STEP) for each in parsed])[code]
        waits = np.array([each[0] == "f" and each[2] != "e" for each in parsed])[code]
        numbers = arrow.ints(rows.column("event_id"))
        loose = ~touching & ~waits
        if loose.any():
            first = [texts[n] for n in name[loose][:EXAMPLES].tolist()]
            self._loose.take(numbers[loose], ts[points][loose], np.zeros(int(loose.sum()), np.int64), first)
        self._points.append(
            np.stack(
                (
                    key, arrow.ints(rows.column("correlation")), phase, track[points], ts[points], numbers,
                    (waits & ~touching).astype(np.int64),
                )
            )
        )  # fmt: skip

    def found(self) -> list[Gathered]:
        """Return the defects of all points."""
        if not self._points:
            return []
        key, identity, phase, track, ts, number, waits = np.concatenate(self._points, axis=1)
        zero = np.zeros(len(key), np.int64)

        def gathered(code: str, mask: Mask) -> Gathered:
            one = Gathered(code)
            if mask.any():
                rows = np.flatnonzero(mask)
                names = [self._names[k] for k in key[rows[:EXAMPLES]].tolist()]
                one.take(number[rows], ts[rows], zero[rows], names)
            return one

        latest = np.array([self._latest.get(t, _NONE) for t in track.tolist()], np.int64)
        never = (waits == 1) & (latest < ts)  # "f" without bp waits for the next slice, and none comes
        if never.any():
            rows = np.flatnonzero(never)
            self._loose.take(number[rows], ts[rows], zero[rows], [self._names[k] for k in key[rows[:3]].tolist()])
        arrow_of = one_key([key, identity], len(key))
        _, arrow_of = np.unique(arrow_of, return_inverse=True)
        count = int(arrow_of.max()) + 1
        starts = np.bincount(arrow_of[phase == _START], minlength=count)
        others = np.bincount(arrow_of[phase != _START], minlength=count)
        alone = ((starts == 0) | (others == 0))[arrow_of]
        order = np.lexsort((number, ts, arrow_of))
        again = np.zeros(len(order), np.bool_)
        is_start = phase[order] == _START
        seen = np.zeros(len(order), np.bool_)
        seen[1:] = (arrow_of[order][1:] == arrow_of[order][:-1]) & is_start[1:] & is_start[:-1]
        again[order] = seen
        first = np.full(count, np.iinfo(np.int64).max)
        rank = np.empty(len(key), np.int64)
        rank[np.lexsort((number, ts))] = np.arange(len(key))  # at one time, viewers take the order of the file
        np.minimum.at(first, arrow_of[phase == _START], rank[phase == _START])
        back = ~alone & (phase != _START) & (rank < first[arrow_of])
        habit = np.array([text in _OF_EVERY_CALL for text in self._texts])
        of_calls = habit[key]
        odd = (alone & ~of_calls) | back | np.isin(number, self._loose.numbers())
        self.bad = np.unique(number[np.isin(arrow_of, arrow_of[odd])])
        return [
            gathered("unmatched-flow", alone & ~of_calls), gathered("flow-of-every-call", alone & of_calls),
            gathered("flow-backwards", back), gathered("duplicate-id", again),
            self._loose,
        ]  # fmt: skip


def _point(args: str | None) -> tuple[str, str, str]:
    """Return phase, category and bp of a point."""
    try:
        found = json.loads(args or "{}")
    except (ValueError, RecursionError):
        return "", "", ""
    if not isinstance(found, dict):
        return "", "", ""
    phase, cat, bp = (found.get(key) for key in ("ph", "cat", "bp"))
    return str(phase or ""), str(cat or ""), str(bp or "")
