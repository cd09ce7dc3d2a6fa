"""Marks on the timeline: the events that findings are about.

A finding names its events by their ids, which count from the beginning of each input. So an id that several inputs have
is looked up among the lanes of the finding's owner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.report import Finding
from tracekit.report.timeline import Timeline
from tracekit.text.display import visible


def marks(
    figure: Timeline, findings: Sequence[tuple[str, int, Finding]], unit: int
) -> list[tuple[tuple[str, int], dict[str, object]]]:
    """Return view and row of each finding with events in the timeline, and its mark.

    findings: view, row from 1, and finding.
    """
    wanted = np.unique(np.array([number for *_, each in findings for number in each.events], np.int64))
    if not wanted.size or not len(figure.events):
        return []
    rows = np.flatnonzero(np.isin(figure.events.ids, wanted))
    places = figure.events.places_of(rows)
    rows, places = rows[places >= 0], places[places >= 0]
    ids = figure.events.ids[rows]
    owners = _lane_groups(figure, places)
    made = []
    for view, row, finding in findings:
        mine = np.isin(ids, np.array(finding.events, np.int64))
        if finding.owner:
            of_owner = np.array([_is_of(group, finding.owner) for group in owners], np.bool_)
            mine = mine & of_owner if (mine & of_owner).any() else mine
        found = np.sort(places[mine])
        if not found.size or np.unique(ids[mine]).size < found.size:
            continue  # nothing to show, or several events have the id: which one is meant is not known
        starts = figure.events.starts_at(found)
        ends = starts + figure.events.lengths_at(found)
        mark: dict[str, object] = {
            "title": visible(f"{finding.rule} ({finding.owner})" if finding.owner else finding.rule),
            "view": visible(view),
            "row": row,
            "places": found.tolist(),
            "start": int(starts.min()) // unit,
            "end": int(ends.max()) // unit,
        }
        made.append(((view, row), mark))
    return made


def _lane_groups(figure: Timeline, places: I64) -> list[str]:
    """Return the group of the lane of each place."""
    groups = [lane.group for lane in figure.lanes for _ in range(lane.depth)]
    return [groups[row] for row in (np.searchsorted(figure.events.first, places, "right") - 1).tolist()]


def _is_of(group: str, owner: str) -> bool:
    return group == owner or group.startswith(f"{owner} · ")
