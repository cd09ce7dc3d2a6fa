"""Traces of host ranges, launches and device work for tests, with slow oracles of what belongs to what."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]

RANGES = ("operator", "user_range", "step", "forward", "operator_inner")


def op(name: str, start: int, end: int, kind: str = "operator", **more: Any) -> Row:
    """A range or call on thread 7 of process 1, unless said otherwise."""
    return {"name": name, "kind": kind, "ts_ns": start, "dur_ns": end - start, "pid": 1, "tid": 7, **more}


def call(correlation: int, start: int, end: int, **more: Any) -> Row:
    """A launch call."""
    return op("cudaLaunchKernel", start, end, "runtime", correlation=correlation, **more)


def work(name: str, correlation: int | None, start: int, end: int, kind: str = "kernel", **more: Any) -> Row:
    """A kernel, or other device work, of device 0."""
    return {
        "name": name, "kind": kind, "ts_ns": start, "dur_ns": end - start, "pid": 1, "device": 0, "stream": 1,
        "correlation": correlation, **more,
    }  # fmt: skip


@st.composite
def nested(draw: st.DrawFn, start: int = 0, end: int = 64, depth: int = 4) -> list[tuple[int, int]]:
    """Ranges in [start, end) that are nested or disjoint."""
    found: list[tuple[int, int]] = []
    at = start
    for _ in range(draw(st.integers(0, 3))):
        first = draw(st.integers(at, end))
        last = draw(st.integers(first, end))
        if last == first:
            continue
        found.append((first, last))
        if depth > 1:
            found += draw(nested(first, last, depth - 1))
        at = last
    return found


@st.composite
def programs(draw: st.DrawFn) -> list[Row]:
    """Nested ranges on two threads, launch calls anywhere, and device work with and without a launch."""
    rows: list[Row] = []
    for tid in (7, 8):
        for first, last in draw(nested()):
            kind, name = draw(st.sampled_from(RANGES)), draw(st.sampled_from("abc"))
            rows.append(op(name, first, last, kind, tid=tid, rank=tid - 7))
    for number in range(draw(st.integers(0, 8))):
        at, tid = draw(st.integers(0, 70)), draw(st.sampled_from((7, 8)))
        rows.append(call(number, at, at + draw(st.integers(0, 1)), tid=tid, rank=tid - 7))
    for _ in range(draw(st.integers(0, 12))):
        at = draw(st.integers(0, 90))
        number = draw(st.none() | st.integers(0, 9))
        kind = draw(st.sampled_from(("kernel", "memcpy")))
        rows.append(work(draw(st.sampled_from("xy")), number, at, at + draw(st.integers(0, 20)), kind, rank=0))
    return rows


def around(rows: list[Row], launch: Row, kinds: tuple[str, ...] = RANGES) -> Row | None:
    """The innermost range of these kinds on the launch's thread that holds the launch's start."""
    mine = [r for r in rows if r["kind"] in kinds and r["tid"] == launch["tid"]]
    holding = [r for r in mine if r["ts_ns"] <= launch["ts_ns"] < r["ts_ns"] + r["dur_ns"]]
    return min(holding, key=lambda r: r["dur_ns"]) if holding else None


def launch_of(rows: list[Row], device_row: Row) -> Row | None:
    """The first call with the correlation of a device row."""
    calls = [r for r in rows if r["kind"] == "runtime" and r["correlation"] == device_row["correlation"]]
    return min(calls, key=lambda r: r["ts_ns"]) if calls and device_row["correlation"] is not None else None
