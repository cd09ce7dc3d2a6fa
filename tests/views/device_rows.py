"""Random traces of devices and hosts on short times, and plain-Python looks at them: the oracles walk each instant."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]

WORK = ("kernel", "memcpy", "memset")
CALLS = ("cudaLaunchKernel", "cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaMemcpy")


@st.composite
def traces(draw: st.DrawFn, *, sources: int = 1, most: int = 22) -> list[Row]:
    """Rows of device work, calls, operators, ranges and steps. Any of what joins them may be unknown."""
    time, length = st.integers(0, 40), st.none() | st.integers(-2, 12)
    maybe = st.none() | st.integers(0, 5)
    shared = {
        "ts_ns": time, "dur_ns": length, "source": st.integers(0, sources - 1), "pid": st.none() | st.just(1),
        "correlation": maybe,
    }  # fmt: skip
    work = st.fixed_dictionaries(
        shared
        | {
            "kind": st.sampled_from((*WORK, "kernel", "kernel")),
            "name": st.sampled_from(("gemm", "ncclDevKernel_AllReduce", None)),
            "device": st.none() | st.integers(0, 1),
            "stream": st.integers(7, 8),
        }
    )
    thread = {"tid": st.none() | st.integers(3, 4)}
    call = st.fixed_dictionaries(
        shared | thread | {"kind": st.sampled_from(("runtime", "driver")), "name": st.sampled_from(CALLS)}
    )
    host = st.fixed_dictionaries(
        shared | thread | {"kind": st.sampled_from(("operator", "user_range")), "name": st.sampled_from(("a", "b"))}
    )
    step = st.fixed_dictionaries(shared | {"kind": st.just("step"), "step": maybe})
    return draw(st.lists(st.one_of(work, work, call, call, host, step), max_size=most))


def length(row: Row) -> int:
    return max(row["dur_ns"] or 0, 0)


def end(row: Row) -> int:
    return int(row["ts_ns"]) + length(row)


def in_order(rows: list[Row]) -> list[Row]:
    """As the trace has them: by start, the longer first; numbered by event_id."""
    numbered = [{**row, "event_id": number} for number, row in enumerate(rows)]
    return sorted(numbered, key=lambda r: (r["ts_ns"], -(-1 if r["dur_ns"] is None else r["dur_ns"])))


def work_by_device(rows: list[Row]) -> dict[tuple[Any, Any], list[Row]]:
    """Device work with a duration, by (source, device), in order."""
    found: dict[tuple[Any, Any], list[Row]] = {}
    for row in in_order(rows):
        if row["kind"] in WORK and row["dur_ns"] is not None:
            found.setdefault((row["source"], row["device"]), []).append(row)
    return found


def span(rows: list[Row], source: int) -> tuple[int, int]:
    mine = [row for row in rows if row["source"] == source]
    return min(row["ts_ns"] for row in mine), max(end(row) for row in mine)


def instants(rows: list[Row]) -> set[int]:
    return {t for row in rows for t in range(row["ts_ns"], end(row))}


def parts(work: list[Row], low: int, high: int) -> Row:
    """Compute, exposed communication, exposed copies, idle of a window, by looking at each instant."""
    talk = [r for r in work if r["kind"] == "kernel" and "nccl" in (r["name"] or "")]
    compute = instants([r for r in work if r["kind"] == "kernel" and r not in talk])
    window = set(range(low, high))
    copies, comm = instants([r for r in work if r["kind"] != "kernel"]), instants(talk)
    return {
        "span": high - low, "compute": len(compute & window), "exposed_comm": len((comm - compute) & window),
        "exposed_copies": len((copies - comm - compute) & window),
        "idle": len(window - copies - comm - compute), "communication": len(comm & window),
        "overlap": len(comm & compute & window),
    }  # fmt: skip


def launch_of(rows: list[Row], work: Row) -> Row | None:
    """The first call of its process with the work's correlation."""
    for row in in_order(rows):
        same = all(row[k] == work[k] for k in ("source", "pid", "correlation"))
        if row["kind"] in ("runtime", "driver") and same and work["correlation"] is not None:
            return row
    return None
