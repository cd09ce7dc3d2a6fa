"""The views against HolisticTraceAnalysis on its own sample traces.

hta_figures.json holds what HTA 0.5.0 says (make_hta_figures.py made it); the traces are read in place from the corpus.
What HTA looks at is selected here as it does it: where a trace has several steps, the calls that began before the last
step, and the device work that these launched. Where figures still differ, the test says why, and computes HTA's
figure from its reason.

HTA's times are binary µs, as coarse as `np.spacing` of the largest (0.25 µs for times since 1970), ours whole ns: so a
difference of two of its times is held to two such steps, a sum of n to n times that.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import corpus
from views.tables import dicts, on_trace

from tracekit import pipeline
from tracekit.analysis.intervals import merge, union_length
from tracekit.index import gaps, grouping, launches
from tracekit.index.trace_index import TraceIndex
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

FIGURES: dict[str, Any] = json.loads(Path(__file__).with_name("hta_figures.json").read_text(encoding="utf-8"))
FILES: dict[str, dict[str, Any]] = FIGURES["files"]
SYNC_ROWS = {"hta_alexnet", "hta_event_sync_multi_stream"}
"""Traces with rows of CUDA synchronization, which HTA takes as work of the device where they name a stream."""

pytestmark = pytest.mark.corpus


@cache
def selected(name: str) -> Trace:
    """What HTA looks at. A Trace is frozen, so that tests may share it."""
    whole = pipeline.read(corpus(f"kineto/{name}.json.gz"))
    ts = whole.events.column("ts_ns").to_numpy()
    work = grouping.kind_mask(whole.events, DEVICE_WORK)
    steps = grouping.kind_mask(whole.events, {Kind.STEP})
    if np.count_nonzero(steps) < 2:
        return whole
    last = ts[steps].max()
    keep = ts < last
    launch = launches.launches_of(TraceIndex(whole), np.flatnonzero(work)).launch
    keep[work] = (launch >= 0) & (ts[launch] < last)
    return Trace(whole.events.filter(pa.array(keep)), whole.totals, whole.run, whole.ledgers)


def times(trace: Trace, *kinds: Kind) -> tuple[Any, Any, Any]:
    rows = np.flatnonzero(grouping.kind_mask(trace.events, kinds))
    starts, ends = gaps.times_of(TraceIndex(trace), rows)
    return rows, starts, ends


def grain(trace: Trace) -> float:
    """The step between two of HTA's times, in ns."""
    return float(np.spacing(trace.events.column("ts_ns").to_numpy().max() / 1e3) * 1e3)


def view(trace: Trace, name: str, table: int = 0, **options: Any) -> list[dict[str, Any]]:
    return dicts(on_trace(VIEWS[name])(trace, ViewOptions(**options)).tables[table])


@pytest.mark.parametrize("name", sorted(set(FILES) - SYNC_ROWS))
def test_idle_compute_and_the_rest_are_htas(name: str) -> None:
    trace, wanted = selected(name), FILES[name]["temporal"]
    (row,) = view(trace, "breakdown")
    ours = {
        "idle": row["idle_active"], "compute": row["compute"], "kernel": row["active"],
        "non_compute": row["exposed_comm"] + row["exposed_copies"],
    }  # fmt: skip
    rows, _, _ = times(trace, *DEVICE_WORK)
    for key, value in wanted.items():
        many = 1 if key == "kernel" else rows.size
        # The larger part of the grains cancels out: in the end all figures are closer than 0.1 µs.
        assert abs(value * 1e3 - ours[key]) <= min(2 * grain(trace) * many, 100), key


@pytest.mark.parametrize("name", sorted(SYNC_ROWS))
def test_hta_takes_rows_of_synchronization_as_work_and_waits_for_events_as_compute(name: str) -> None:
    trace, wanted = selected(name), FILES[name]["temporal"]
    kernel, copies = times(trace, Kind.KERNEL), times(trace, Kind.MEMCPY, Kind.MEMSET)
    # From the file itself: a wait for the whole device has stream 2^32 - 1, which is "none" to us and a stream to HTA.
    with gzip.open(corpus(f"kineto/{name}.json.gz")) as file:
        rows = [e for e in json.load(file)["traceEvents"] if e.get("cat") == "cuda_sync" and e["args"]["stream"] != -1]
    starts = np.array([row["ts"] * 1000 for row in rows], np.int64)
    sync = starts, starts + np.array([row["dur"] * 1000 for row in rows], np.int64)
    waits = np.array(["Sync" not in row["name"] for row in rows])  # HTA's pattern of what computes not: .*Sync

    def joined(*parts: tuple[Any, Any]) -> tuple[Any, Any]:
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    every = merge(*joined(kernel[1:], copies[1:], sync))
    span = int(every[1][-1] - every[0][0])
    busy = int((every[1] - every[0]).sum())
    computes = union_length(*joined(kernel[1:], (sync[0][waits], sync[1][waits])))
    found = {"idle": span - busy, "compute": computes, "non_compute": busy - computes, "kernel": span}
    assert found == {key: value * 1e3 for key, value in wanted.items()}
    # Ours leaves these rows out.
    (row,) = view(trace, "breakdown")
    assert row["compute"] == union_length(*kernel[1:]) < computes
    assert row["active"] - row["idle_active"] == union_length(*joined(kernel[1:], copies[1:])) < busy


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_overlap_of_communication_and_compute_is_htas(name: str) -> None:
    (row,) = view(selected(name), "breakdown")
    wanted = FILES[name]["overlap"]
    assert (None if row["overlap_share"] is None else round(100 * row["overlap_share"], 2)) == wanted


def test_a_trace_with_communication_is_among_the_samples() -> None:
    assert FILES["hta_nccl_data"]["overlap"] == 14.76


@pytest.mark.parametrize("name", sorted(FILES))
def test_totals_of_kernels_and_copies_are_htas(name: str) -> None:
    trace = selected(name)
    rows = view(trace, "kernel")
    found = [[row["total"], row["max"], row["min"]] for row in rows]
    merged: dict[Any, list[list[int]]] = {}
    for row in view(trace, "memory_manipulation"):  # HTA knows names alone, and we tell directions apart
        merged.setdefault(row["name"], []).append([row["total"], row["max"], row["min"]])
    found += [[sum(t for t, _, _ in m), max(x for _, x, _ in m), min(n for _, _, n in m)] for m in merged.values()]
    wanted = [[round(value * 1e3) for value in row[:3]] for row in FILES[name]["kernels"]]
    if name in SYNC_ROWS:
        wanted = without_waits(trace, wanted)
    assert sorted(found) == sorted(wanted)


def without_waits(trace: Trace, wanted: list[list[int]]) -> list[list[int]]:
    """Take out the line of HTA's table that the waits for events are: rows of kind sync, named without "Sync"."""
    rows, starts, ends = times(trace, Kind.SYNC)
    names = trace.events.column("name").take(rows).to_pylist()
    stream = trace.events.column("stream").take(rows).to_pylist()
    spent = [
        int(e - s)
        for s, e, n, at in zip(starts, ends, names, stream, strict=True)
        if at is not None and "Sync" not in n
    ]
    line = [sum(spent), max(spent), min(spent)]
    assert line in wanted
    left = list(wanted)
    left.remove(line)
    return left


@pytest.mark.parametrize("name", sorted(n for n in FILES if FILES[n]["launches"]["launches"]))
def test_launches_and_their_times_are_htas(name: str) -> None:
    trace, wanted = selected(name), FILES[name]["launches"]
    rows = view(trace, "launch")
    for key in ("launches", "short", "slow_calls", "late"):
        assert sum(row[key] for row in rows) == wanted[key], key
    for key, ours in (("call", "call_total"), ("work", "total")):
        assert sum(row[ours] for row in rows) == round(wanted[key] * 1e3), key
    queued = sum(row["queue_total"] for row in rows)
    assert abs(queued - wanted["queue"] * 1e3) <= 2 * grain(trace) * wanted["launches"]


def test_hta_knows_no_launches_of_hip() -> None:
    assert FILES["hta_amd_mi250"]["launches"]["launches"] == 0
    assert sum(row["launches"] for row in view(selected("hta_amd_mi250"), "launch")) == 16


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_longest_queues_of_streams_are_htas(name: str) -> None:
    found = sorted([row["stream"], row["queue_max"]] for row in view(selected(name), "launch", 1))
    wanted = FILES[name]["queue"]
    if name == "hta_event_sync_multi_stream":
        # A launch begins in the very µs in which the work before it does. HTA counts it before that work has left.
        assert wanted == [[20, 1], [24, 1], [28, 2]]
        wanted = [[20, 1], [24, 1], [28, 1]]
    assert found == wanted


@pytest.mark.parametrize("name", sorted(FILES))
def test_time_in_which_the_host_was_late_is_htas_host_wait(name: str) -> None:
    """HOST_WAIT: the launch began after the stream's work before it ended: our host late and synchronization."""
    trace = selected(name)
    index = TraceIndex(trace)
    found = gaps.find_gaps(index, by_stream=True)
    assert found.starts.size
    stream = np.array([found.owners[lane][2] for lane in found.lane.tolist()])
    gap, late = found.ends - found.starts, found.cause <= gaps.CAUSES.index("synchronization")
    begun = trace.events.column("ts_ns").to_numpy()[found.launch]
    # A gap whose launch began within two of HTA's grains of the gap may count as either.
    sure = np.abs(begun - found.starts) > 2 * grain(trace) * (grain(trace) > 1)
    for number in set(stream.tolist()):
        mine = stream == number
        hta = {c: t * 1e3 for s, c, t in FILES[name]["idle"] if s == number}
        rounding = 2 * grain(trace) * np.count_nonzero(mine) + 10
        assert hta.get("host_wait", 0) >= gap[mine & late & sure].sum() - rounding
        assert hta.get("host_wait", 0) <= gap[mine & (late | ~sure)].sum() + rounding
        assert abs(sum(hta.values()) - gap[mine].sum()) <= rounding
        # KERNEL_WAIT and OTHER are of work that was queued.
        assert not set(found.cause[mine & ~late].tolist()) & {gaps.CAUSES.index("host late")}
