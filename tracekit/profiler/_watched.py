"""Calls of a watched model in a window: what `tracekit.recorder.torch.watch` and its like record of layers and phases.

The faces that time operators or layers themselves (SINGA, Mini-Caffe) fill their tables from these, where the program
only watches its model.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tracekit.profiler._notes import print_note
from tracekit.profiler._window import Window

PHASES: Final = ("forward", "backward", "optimizer")
_LAYER_ENDINGS: Final = (".forward", ".backward")


class WatchedCall(NamedTuple):
    """A phase of a watched loop, or the forward or backward of a layer. Times are ns on the clock of the log.

    step: -1 outside of any. phase: the kind of the phase, "" for a layer. inner: it has none of these within it.
    """

    name: str
    phase: str
    tid: int
    step: int
    start_ns: int
    end_ns: int
    inner: bool


def watched_calls(window: Window) -> list[WatchedCall]:
    """Return the calls of a window, thread by thread, outer ones before those within them.

    A window that cannot be read has none, and a note says so.
    """
    from tracekit.errors import TracekitError

    columns = ["name", "kind", "tid", "step", "ts_ns", "dur_ns"]
    try:
        events = window.read().events
    except TracekitError as error:
        print_note(f"watched calls are lost: {error}")
        return []
    rows = [
        row
        for row in events.select(columns).to_pylist()
        if row["dur_ns"] is not None
        and (row["kind"] in PHASES or (row["kind"] == "user_range" and str(row["name"]).endswith(_LAYER_ENDINGS)))
    ]
    rows.sort(key=lambda row: (row["tid"], row["ts_ns"], -row["dur_ns"]))
    calls: list[WatchedCall] = []
    for number, row in enumerate(rows, 1):
        end = row["ts_ns"] + row["dur_ns"]
        inner = number == len(rows) or rows[number]["tid"] != row["tid"] or rows[number]["ts_ns"] >= end
        phase = row["kind"] if row["kind"] in PHASES else ""
        step = -1 if row["step"] is None else row["step"]
        calls.append(WatchedCall(row["name"], phase, row["tid"], step, row["ts_ns"], end, inner))
    return calls
