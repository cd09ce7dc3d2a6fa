"""A program's own log beside a profile says what one file with everything says: simulated runs, split in two.

The whole is a trace of a simulated training run, with steps, phases, ranges of the program, operators, calls and device
work. It is split into a log with what the program knows and a profile with what a profiler sees. The log has the true
clock, or one that is off by seconds and drifts; then a part of the ranges is in both files.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from views.tables import dicts

from benchmarks.truth import kineto, nsys
from benchmarks.truth.machine import Range, Rank, World
from benchmarks.truth.training import Plan, train
from tracekit import Trace
from tracekit.conversion import read
from tracekit.model.report import Finding
from tracekit.pipeline import view
from tracekit.recorder import log_format

HOST, PERF = "node7", 7_000_000_000_000
OWN = ("user_range", "step", "dataloader", "optimizer", "forward", "backward")
"""Kinds of what the program marks itself."""
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
VIEWS = ("model", "operator", "user_defined", "steps", "findings")


@dataclass(frozen=True)
class Clock:
    """The log's clock: ns that it is ahead at the log's first range, and ns that it gains in each ms."""

    ahead: int = 0
    gain: float = 0.0

    def at(self, ns: int) -> int:
        return ns + round(ns * self.gain / 1e6)


def program(seed: int) -> Rank:
    """A training run with ranges of its own around operators of the main thread."""
    rng = random.Random(seed)
    plan = Plan(
        steps=rng.randrange(12, 20),
        layers=rng.randrange(2, 5),
        loss_every=rng.randrange(4),
        backward=rng.choice(["paused", "tight"]),
        loader=rng.choice(["", LOADER]),
        load_ms=rng.choice([0, 0.4]),
        ill=rng.choice(["", "sync each", "lost kernels"]),
        size=0.1,
    )
    [rank] = train(World(seed), plan)
    steps = [each for each in rank.ranges if each.kind == "step"]
    main = steps[0].tid
    for each in rank.ranges:
        if each.kind != "step" and _own(each):
            # A mark takes time: no range of the program begins or ends with what is in it.
            each.start, each.end = each.start - 60, each.end + 60
    for step in steps:
        inside = [each for each in rank.ranges if each.tid == main and each.kind != "nvtx" and _around(step, each)]
        outer = [each for each in inside if not any(_around(other, each) for other in inside)]
        at = 0
        while at < len(outer) - 1:
            last = min(at + rng.randrange(4), len(outer) - 1)
            rank.ranges.append(
                Range("nvtx", f"block {rng.randrange(4)}", main, outer[at].start - 1, outer[last].end + 1)
            )
            at = last + 1 + rng.randrange(2)
    return rank


def _own(each: Range) -> bool:
    return each.kind in ("step", "nvtx") or "Loader" in each.name or each.name.startswith("Optimizer")


def _around(other: Range, each: Range) -> bool:
    return other is not each and other.start <= each.start and each.end <= other.end


def write_whole(rank: Rank, path: Path) -> Path:
    if path.suffix == ".json":
        kineto.write(rank, path, "rows")
        path.write_text(json.dumps({"host_name": HOST, **json.loads(path.read_text())}))
        return path
    nsys.write([rank], path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table TARGET_INFO_SYSTEM_ENV (name text, value text)")
        db.execute("insert into TARGET_INFO_SYSTEM_ENV values ('Hostname', ?)", (HOST,))
    return path


def own_rows(whole: Trace) -> pd.DataFrame:
    frame = whole.to_pandas()
    own = frame[frame["kind"].isin(OWN) & frame["tid"].notna() & frame["device"].isna()]
    return own.sort_values(["ts_ns", "dur_ns"], ascending=[True, False])


def write_log(whole: Trace, path: Path, clock: Clock, *, hooked: bool = False) -> Path:
    """Write what the program marks, as `recorder.step()` does, or hooked, as the hooks of `watch` do: these begin and
    end a step in two calls, so the log has it without a thread."""
    own, origin = own_rows(whole), whole.run.origin_ns or 0
    first = int(own["ts_ns"].min())
    pid = int(own["pid"].iloc[0])
    head = log_format.head_line(
        tracekit="1", pid=pid, perf_ns=PERF, epoch_ns=origin + first + clock.ahead, host=HOST, rank=None, process="p"
    )
    lines = [head]
    names: dict[tuple[str, str], int] = {}
    items: dict[int, list[int]] = {}
    steps: list[int] = []
    spans: list[int] = []
    opened: dict[int, list[tuple[int, int]]] = {}
    for tid in sorted(set(own["tid"])):
        items[int(tid)], opened[int(tid)] = [], []
    for index, tid in enumerate(items):
        lines.append(log_format.thread_line(index=index, tid=tid, name=f"t{tid}"))
    columns = ("name", "kind", "tid", "ts_ns", "dur_ns", "step")
    threads = {tid: index for index, tid in enumerate(items)}
    for name, kind, tid, ts, dur, step in zip(*(own[c] for c in columns), strict=True):
        start, end = (PERF + clock.at(int(t) - first) for t in (ts, ts + dur))
        key = (name, kind)
        if key not in names:
            names[key] = len(names) + 1
            stated = None if kind == "user_range" else kind
            lines.append(log_format.name_line(name_id=names[key], name=key[0], kind=stated))
        number = names[key]
        if kind == "step":
            steps += [int(step), start, threads[tid]]
        if kind == "step" and hooked:
            spans += [number, start, len(spans) + 1, threads[tid], -number, end, len(spans) + 1, threads[tid]]
            continue
        _close(items[tid], opened[tid], start)
        items[tid] += [number, start]
        opened[tid].append((number, end))
    for tid, flat in items.items():
        _close(flat, opened[tid], 1 << 62)
        if flat:
            lines.append(log_format.range_line(thread=threads[tid], items=flat))
    lines += [log_format.step_line(items=steps)] if steps else []
    lines += [log_format.async_line(items=spans)] if spans else []
    last = PERF + clock.at(int((own["ts_ns"] + own["dur_ns"]).max()) - first)
    lines.append(log_format.end_line(perf_ns=last, items=0))
    path.write_bytes(b"".join(log_format.encode(line) for line in lines))
    return path


def _close(flat: list[int], opened: list[tuple[int, int]], until: int) -> None:
    while opened and opened[-1][1] <= until:
        number, end = opened.pop()
        flat += [-number, end]


def write_profile(rank: Rank, path: Path, *, kept: int) -> Path:
    """Write the trace without what the log has, but for one in `kept` of the program's ranges; 0 for none."""
    ranges, rank.ranges = rank.ranges, []
    marked = 0
    for each in ranges:
        marked += each.kind == "nvtx"
        if not _own(each) or (kept and each.kind == "nvtx" and marked % kept == 0):
            rank.ranges.append(each)
    return write_whole(rank, path)


CASES = [(suffix, seed) for seed in range(3) for suffix in (".json", ".sqlite")]


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize(("suffix", "seed"), CASES)
def test_all_views_say_of_log_and_profile_what_they_say_of_one_file(
    tmp_path: Path, suffix: str, seed: int, hooked: bool
) -> None:
    whole = read(write_whole(program(seed), tmp_path / f"whole{suffix}"))
    log = write_log(whole, tmp_path / "log.jsonl", Clock(), hooked=hooked)
    both = read([log, write_profile(program(seed), tmp_path / f"profile{suffix}", kept=0)])
    assert set(both.to_pandas()["source"]) == {1}
    assert len(both.to_pandas()) == len(whole.to_pandas())
    for name in VIEWS[:-1] if hooked else VIEWS:
        assert shown(both, name) == shown(whole, name), name
    for one, other in zip(findings(both), findings(whole), strict=True):
        assert (one.rule, one.confidence, one.claim) == (other.rule, other.confidence, other.claim)
        # On a path through a thread, a step that is on none has no row.
        assert one.saving_ns == pytest.approx(other.saving_ns, rel=0.01 if hooked else 0)


@pytest.mark.parametrize("clock", [Clock(3_700_000_000, 50.0), Clock(-900_000_000, -12.0), Clock(40_000)], ids=str)
@pytest.mark.parametrize(("suffix", "seed"), CASES)
def test_a_log_on_another_clock_charges_the_same_work(tmp_path: Path, suffix: str, seed: int, clock: Clock) -> None:
    """The program's blocks are in both files; steps and phases in the log alone."""
    whole = read(write_whole(program(seed), tmp_path / f"whole{suffix}"))
    log = write_log(whole, tmp_path / "log.jsonl", clock)
    both = read([log, write_profile(program(seed), tmp_path / f"profile{suffix}", kept=1)])
    assert set(both.to_pandas()["source"]) == {1}
    assert len(both.to_pandas()) == len(whole.to_pandas())
    sure = both.run.sources[0].facts["joined_into"]["clock_uncertainty_ns"]
    assert sure < 1_000
    for name in ("model", "operator", "user_defined"):
        for one, other in zip(shown(both, name), shown(whole, name), strict=True):
            found = {row["name"]: row for row in one if not row.get("level")}
            mains = [row for row in other if not row.get("level")]
            assert len(found) == len(mains)
            for row in mains:
                mine = found[row["name"]]
                for column in ("calls", "device_total", "device_self"):
                    assert mine.get(column) == row.get(column), (name, row["name"], column)
                if row.get("calls"):
                    assert abs(mine["total"] - row["total"]) <= (2 * sure + 4) * row["calls"]
    assert [(f.rule, f.confidence) for f in findings(both)] == [(f.rule, f.confidence) for f in findings(whole)]
    steps = [trace.to_pandas().query("kind == 'kernel'")["step"].fillna(-1).tolist() for trace in (both, whole)]
    # An export of nsys does not number the rows in its steps; a log does.
    assert all(one == other for one, other in zip(*steps, strict=True) if other >= 0)
    assert max(steps[0]) >= max(steps[1])


def shown(trace: Trace, name: str) -> list[list[dict[str, Any]]]:
    section = view(trace, name)
    return [dicts(replace(section, tables=(table,))) for table in section.tables]


def findings(trace: Trace) -> Sequence[Finding]:
    return view(trace, "findings").findings
