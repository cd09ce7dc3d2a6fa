"""fluid's Profiling Report: one table a thread, and one of all threads together where there are several.

Names are those of ranges. "op/compute" is a part of "op": it stands below it, indented, if "op" is in the same table.
What is no part is a main row; these add up to the total that ratios (fractions) are of. All orders descend; the default
one is that of the first end. With the tracer option Default no parts are shown but "GpuMemcpy...", as upstream does.

The time of an event is its time on the host for the state CPU, that of the GPU work launched in it for GPU, and the sum
of both for All. Layout, arithmetic and 6 significant digits: paddle/fluid/platform/profiler_helper.h of Paddle 1.8 and
2.0, held against reports that Paddle 1.8 printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracekit.trace import Trace

WIDTH: Final = 12
ORDERS: Final = {
    "default": "event first end time", "calls": "number of calls", "total": "total time", "max": "maximum time",
    "min": "minimum time", "ave": "average time",
}  # fmt: skip
PLACES: Final = {"CPU": "CPU", "GPU": "CUDA", "All": "All"}
_RANKS: Final[dict[str, Callable[[Item], float]]] = {
    "calls": lambda item: item.calls, "total": lambda item: item.total, "max": lambda item: item.max,
    "min": lambda item: item.min, "ave": lambda item: item.ave,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """One row. Times in ms; ratio: of the sum of the main rows."""

    name: str
    calls: int
    total: float
    min: float
    max: float
    cpu: float
    gpu: float
    ratio: float = 0.0

    @property
    def ave(self) -> float:
        """The average time of a call."""
        return self.total / self.calls


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of a thread, or of all: main rows in order, and the parts of each by its name."""

    main: list[Item]
    parts: dict[str, list[Item]]
    total: float


def report_text(frame: Any, *, state: str, sorted_key: str, tracer_option: str) -> str:
    """Return the report(s) of the ranges that `ranges_of` gave.

    state: CPU, GPU or All; sorted_key: one of ORDERS; tracer_option: Default, OpDetail or AllOpDetail.
    """
    threads = sorted(frame["thread"].unique().tolist())
    text = ""
    if len(threads) > 1:
        merged = _block(frame, "", state, sorted_key)
        text += _report([merged], state, sorted_key, tracer_option, is_merged=True)
    blocks = [_block(frame[frame["thread"] == k], f"thread{k}::", state, sorted_key) for k in threads]
    return text + _report(blocks, state, sorted_key, tracer_option, is_merged=False)


def events_of(trace: Trace) -> Any:
    """Return the events as a DataFrame, by start, longest first; overlapping ranges have the thread of their begin."""
    columns = ["ts_ns", "dur_ns", "name", "kind", "source", "pid", "tid", "correlation", "args"]
    events = trace.events.select(columns).to_pandas()
    events["kind"] = events["kind"].astype(str)
    events["args"] = events["args"].astype("string").fillna("")
    began = events["args"].str.extract(r'"tid":(\d+)', expand=False).astype("Int64")
    events["tid"] = events["tid"].astype("Int64").fillna(began)
    return events


def ranges_of(trace: Trace) -> Any:
    """Return the ranges of a trace that have both ends, as a DataFrame (thread, name, host_ns, gpu_ns), by end.

    Threads are counted from 0 in the order of their first event. GPU work belongs to all ranges around its launch.
    `attrs["unfinished"]`: how many ranges had no end.
    """
    events = events_of(trace)
    kinds = events["kind"]
    device, api = kinds.isin(["kernel", "memcpy", "memset"]), kinds.isin(["runtime", "driver"])
    is_cut = events["args"].str.contains('"unfinished":true', regex=False)
    ranges = events[~device & ~api & ~is_cut & events["dur_ns"].notna() & events["tid"].notna()].copy()
    ranges["host_ns"] = ranges["dur_ns"].astype("int64")
    ranges["end_ns"] = ranges["ts_ns"] + ranges["host_ns"]
    ranges["gpu_ns"] = gpu_ns(ranges, events[api], events[device])
    ranges["thread"] = ranges.groupby(["pid", "tid"], sort=False).ngroup()
    ranges["name"] = ranges["name"].astype(str)
    found = ranges.sort_values(["thread", "end_ns"], kind="stable")[["thread", "name", "host_ns", "gpu_ns"]]
    found.attrs["unfinished"] = int(is_cut.sum())
    return found


def gpu_ns(ranges: Any, calls: Any, work: Any) -> Any:
    """Return for each range how long the work ran whose launch lies in it, on its thread."""
    import numpy as np

    spent = np.zeros(len(ranges), np.int64)
    sums = work.groupby(["source", "pid", "correlation"])["dur_ns"].sum().rename("work_ns").reset_index()
    launches = calls.merge(sums, on=["source", "pid", "correlation"]).sort_values("ts_ns")
    for thread, found in launches.groupby(["pid", "tid"]):
        mine = np.flatnonzero((ranges["pid"] == thread[0]) & (ranges["tid"] == thread[1]))
        at = found["ts_ns"].to_numpy("int64")
        total = np.concatenate(([0], np.cumsum(found["work_ns"].to_numpy("int64"))))
        first = np.searchsorted(at, ranges["ts_ns"].to_numpy("int64")[mine], "left")
        last = np.searchsorted(at, ranges["end_ns"].to_numpy("int64")[mine], "right")
        spent[mine] = total[last] - total[first]
    return spent


def _block(frame: Any, prefix: str, state: str, sorted_key: str) -> Block:
    times = {"CPU": frame["host_ns"], "GPU": frame["gpu_ns"], "All": frame["host_ns"] + frame["gpu_ns"]}[state]
    by_name = frame.assign(time=times).groupby("name", sort=False)
    figures = by_name["time"].agg(["count", "sum", "min", "max"])
    hosts, gpus = by_name["host_ns"].sum(), by_name["gpu_ns"].sum()
    items = [
        Item(prefix + name, int(count), total / 1e6, low / 1e6, high / 1e6, cpu / 1e6, gpu / 1e6)
        for (name, count, total, low, high), cpu, gpu in zip(figures.itertuples(), hosts, gpus, strict=True)
    ]
    names = {item.name for item in items}

    def parent(item: Item) -> str:
        above, slash, _ = item.name.rpartition("/")
        return above if slash and above in names else ""

    total = sum(item.total for item in items if not parent(item))
    rated = [
        Item(i.name, i.calls, i.total, i.min, i.max, i.cpu, i.gpu, i.total / total if total else 0.0) for i in items
    ]
    parts: dict[str, list[Item]] = {}
    for item in rated:
        parts.setdefault(parent(item), []).append(item)
    main = parts.pop("", [])
    if sorted_key != "default":
        main.sort(key=_RANKS[sorted_key], reverse=True)
    return Block(main, parts, total)


def _report(blocks: list[Block], state: str, sorted_key: str, tracer_option: str, *, is_merged: bool) -> str:
    lines = ["", "------------------------->     Profiling Report     <-------------------------", ""]
    if is_merged:
        lines.append("Note! This Report merge all thread info into one.")
    lines += [f"Place: {PLACES[state]}", "Time unit: ms"]
    lines += [f"Sorted by {ORDERS[sorted_key]} in descending order in the same thread", ""]
    if len(blocks) == 1:
        lines += _overhead(blocks[0])
    lines += ["", "-------------------------       Event Summary       -------------------------", ""]
    every = [item.name for block in blocks for items in (block.main, *block.parts.values()) for item in items]
    width = max(map(len, every), default=0) + 8
    heads = ["Calls", "Total", "CPU Time (Ratio)", "GPU Time (Ratio)", "Min.", "Max.", "Ave.", "Ratio."]
    lines.append("Event".ljust(width) + _cells([h for h in heads if state == "All" or "Time" not in h]))
    for block in blocks:
        shown = _shown(block, tracer_option)
        for item in block.main:
            lines += _rows(item, shown, width, state, 0)
    return "\n".join(lines) + "\n"


def _overhead(block: Block) -> Iterator[str]:
    parts = [item for items in block.parts.values() for item in items]
    compute = sum(item.ratio for item in parts if "compute" in item.name)
    yield f"Total time: {block.total:g}"
    for name, ratio in (("  Computation time", compute), ("  Framework overhead", 1 - compute)):
        yield f"{name:<25}Total: {_six(block.total * ratio)}Ratio: {100 * ratio:g}%"
    yield ""
    yield "-------------------------     GpuMemCpy Summary     -------------------------"
    yield ""
    kinds = [[item for item in parts if f"GpuMemcpy{kind}" in item.name] for kind in ("Async", "Sync")]
    yield _copies("GpuMemcpy", [item for found in kinds for item in found])
    for kind, found in zip(("Async", "Sync"), kinds, strict=True):
        if found:
            yield _copies(f"  GpuMemcpy{kind}", found)


def _copies(name: str, items: list[Item]) -> str:
    calls, total, ratio = sum(i.calls for i in items), sum(i.total for i in items), sum(i.ratio for i in items)
    return f"{name:<25}Calls: {calls:<{WIDTH}}Total: {_six(total)}Ratio: {100 * ratio:g}%"


def _shown(block: Block, tracer_option: str) -> dict[str, list[Item]]:
    """Return the parts that the option shows: by default copies alone, which move up to their main row."""
    if tracer_option != "Default":
        return block.parts
    shown: dict[str, list[Item]] = {}
    for parent, items in block.parts.items():
        above = parent.partition("/")[0]
        for i in items:
            if "GpuMemcpy" in i.name:
                name = f"{above}/{i.name.rpartition('/')[2]}"
                shown.setdefault(above, []).append(Item(name, i.calls, i.total, i.min, i.max, i.cpu, i.gpu, i.ratio))
    return shown


def _rows(item: Item, parts: dict[str, list[Item]], width: int, state: str, depth: int) -> Iterator[str]:
    cells = [str(item.calls), f"{item.total:g}"]
    if state == "All":
        cells += [f"{time:f} ({time / item.total if item.total else 0.0:f})" for time in (item.cpu, item.gpu)]
    cells += [f"{value:g}" for value in (item.min, item.max, item.ave, item.ratio)]
    yield ("  " * depth + item.name).ljust(width) + _cells(cells)
    for part in parts.get(item.name, ()):
        yield from _rows(part, parts, width, state, depth + 1)


def _cells(cells: list[str]) -> str:
    wide = 2 if len(cells) == 8 else 1
    return "".join(cell.ljust(WIDTH * (wide if number in (2, 3) else 1)) for number, cell in enumerate(cells))


def _six(value: float) -> str:
    return f"{value:g}".ljust(WIDTH)
