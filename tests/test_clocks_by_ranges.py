"""A log and a trace of one process whose clocks are seconds apart, or go faster or slower: found by their ranges.

The true clock is known: the logs are made from the NVTX rows of real exports, or from a simulated program.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from logged import EPOCH, MS, PID, US, Range, program, shifted, write_kineto, write_log
from support import corpus, corpus_root

from tracekit.conversion import read
from tracekit.pipeline import view

NVTX = """
    select coalesce(text, (select value from StringIds where id = textId)), start, end, globalTid & 0xffffff
    from NVTX_EVENTS where eventType = 59 and end > start + 2 and globalTid >> 24 & 0xffffff = ?
    order by start, end desc
"""
CALLS = """
    create temp table work as
    select start, end, correlationId as id, globalPid >> 24 as process from CUPTI_ACTIVITY_KIND_KERNEL
    union all select start, end, correlationId, globalPid >> 24 from CUPTI_ACTIVITY_KIND_MEMCPY
    union all select start, end, correlationId, globalPid >> 24 from CUPTI_ACTIVITY_KIND_MEMSET;
    create temp table calls (globalTid integer, correlationId integer, at integer);
    insert into calls select globalTid, correlationId, min(start) from CUPTI_ACTIVITY_KIND_RUNTIME group by 1, 2;
    create index work_by_id on work (id);
    create index calls_by_thread on calls (globalTid, at);
"""
CHARGED = """
    select n.start, n.end, coalesce(sum(work.end - work.start), 0)
    from NVTX_EVENTS n left join calls on calls.globalTid = n.globalTid and calls.at between n.start and n.end
    left join work on work.id = calls.correlationId and work.process = calls.globalTid >> 24
    where n.eventType = 59 and n.end > n.start + 2 and n.globalTid >> 24 & 0xffffff = ?
    group by n.rowid order by n.start, n.end desc
"""


def exports_with_nvtx() -> list[tuple[str, int]]:
    """Every export of nsys of the corpus that has push/pop ranges, by process."""
    found = []
    for path in sorted((corpus_root() / "nsys_sqlite").glob("*.sqlite")):
        with closing(sqlite3.connect(path)) as db:
            if db.execute("select 1 from sqlite_master where name = 'NVTX_EVENTS'").fetchone():
                pids = (
                    "select distinct globalTid >> 24 & 0xffffff from NVTX_EVENTS where eventType = 59 and end > start"
                )
                found += [(path.name, pid) for (pid,) in db.execute(pids)]
    return found


def test_the_corpus_has_exports_with_ranges() -> None:
    corpus("nsys_sqlite/h100_2gpu_1s_2026.2.sqlite")
    assert {("h100_2gpu_1s_2026.2.sqlite", 111), ("h100_2gpu_1s_2026.2.sqlite", 112)} <= set(exports_with_nvtx())


@pytest.mark.parametrize(
    ("offset", "ppm"), [(2_500 * US, 0.0), (3_700 * MS, 50.0), (-86_000 * MS, -50.0), (900 * MS, 12.5)]
)
@pytest.mark.parametrize(("name", "pid"), exports_with_nvtx() or [("h100_2gpu_1s_2026.2.sqlite", 111)])
def test_the_log_of_a_real_programs_ranges_meets_its_export(
    tmp_path: Path, name: str, pid: int, offset: int, ppm: float
) -> None:
    """In each range of the program is another one that only the log has: what it launched is what nsys' ids say."""
    export = corpus(f"nsys_sqlite/{name}")
    with closing(sqlite3.connect(export)) as db, db:
        [(session,)] = db.execute("select utcEpochNs from TARGET_INFO_SESSION_START_TIME")
        db.executescript(CALLS)
        rows, charged = db.execute(NVTX, (pid,)).fetchall(), db.execute(CHARGED, (pid,)).fetchall()
    base = rows[0][1]
    ranges = []
    for number, (text, start, end, tid) in enumerate(rows):
        at, stop = (round((t - base) * (1 + ppm / 1e6)) for t in (start, end))
        ranges.append(Range(text.split(", op_id")[0].split(", seq")[0], at, stop, tid))
        ranges.append(Range(f"range {number}", at + 1, stop - 1, tid))
    ranges.sort(key=lambda r: (r.start, -r.end))
    path = write_log(
        tmp_path / "log.jsonl", ranges, pid=pid, host="modal", tid=rows[0][3], epoch=session + base + offset
    )
    trace = read([path, export])
    facts = trace.run.sources[0].facts["joined_into"]
    assert facts["ranges_in_both"] == len(rows)
    assert facts["clock_uncertainty_ns"] < 1 * US
    assert abs(facts.get("clock_drift_ppm", 0.0) - ppm) < 0.01
    mine = trace.to_pandas().query("name.str.startswith('range ')").copy()
    mine["number"] = mine["name"].str.slice(6).astype(int)
    mine = mine.sort_values("number")
    origin = trace.run.origin_ns or 0
    starts, ends = (np.array([row[column] for row in charged]) + session - origin for column in (0, 1))
    at = mine["ts_ns"].to_numpy().astype(np.int64)
    sure = facts["clock_uncertainty_ns"] + 2
    assert np.abs(at - starts - 1).max() <= sure
    assert np.abs(at + mine["dur_ns"].to_numpy().astype(np.int64) - ends + 1).max() <= sure
    columns = {column.name: column.values for column in view(trace, "user_defined").tables[0].columns}
    shown = dict(zip(columns["name"], columns["device_total"], strict=True))
    truth = [row[2] for row in charged]
    assert [shown[f"range {number}"] for number in range(len(rows))] == truth
    assert sum(truth) > 0


@pytest.mark.parametrize("seed", range(6))
def test_a_second_run_of_a_program_is_not_the_first(tmp_path: Path, seed: int) -> None:
    """The same process id in a container, the same loop, seconds later: only the time of each turn differs a little."""
    rng = random.Random(seed)
    first = program(seed, steps=60)
    late, second = 0, []
    for r in first:
        late += rng.randrange(-40, 41) * US
        second.append(replace(r, start=r.start + late, end=r.end + late))
    after = shifted(second, 9_000 * MS)
    trace = read([write_log(tmp_path / "log.jsonl", first), write_kineto(tmp_path / "k.json", after)])
    assert {source for source, _ in zip(*(trace.to_pandas()[c] for c in ("source", "pid")), strict=True)} == {0, 1}
    assert "joined_into" not in trace.run.sources[0].facts


def test_few_ranges_do_not_join_clocks_that_are_seconds_apart(tmp_path: Path) -> None:
    ranges = program(steps=6)
    trace = read(
        [write_log(tmp_path / "log.jsonl", ranges), write_kineto(tmp_path / "k.json", shifted(ranges, 9_000 * MS))]
    )
    assert set(trace.to_pandas()["source"]) == {0, 1}
    [note] = [str(note) for code, note in trace.ledgers[0].notes.items() if code == "not-one-process"]
    assert "a process id can be used again" in note


@pytest.mark.parametrize("ppm", [0.0, 50.0, -50.0])
def test_a_clock_that_was_set_by_seconds_is_found(tmp_path: Path, ppm: float) -> None:
    ranges = program(3, steps=200)
    other = [replace(r, start=round(r.start * (1 + ppm / 1e6)), end=round(r.end * (1 + ppm / 1e6))) for r in ranges]
    path = write_log(tmp_path / "log.jsonl", other, epoch=EPOCH - 17_000 * MS)
    trace = read([path, write_kineto(tmp_path / "k.json", ranges)])
    facts = trace.run.sources[0].facts["joined_into"]
    middle = (ranges[0].start + ranges[-1].end) // 2
    true = 17_000 * MS - round(middle * ppm / 1e6)
    assert abs(facts["clock_offset_ns"] - true) <= facts["clock_uncertainty_ns"] + 5 * US
    assert facts["clock_drift_ppm" if ppm else "process"] == (pytest.approx(ppm, abs=0.5) if ppm else PID)
    assert trace.ledgers[0].kept == 0


@pytest.mark.parametrize("seed", range(4))
def test_two_runs_of_an_even_loop_are_two(tmp_path: Path, seed: int) -> None:
    """A loop with a timer: each turn begins within 10 µs of its time, in both runs."""
    rng = random.Random(seed)
    runs = []
    for _ in range(2):
        at = [n * 10 * MS + rng.randrange(10 * US) for n in range(1, 100)]
        runs.append([Range("loop", start, start + 4 * MS + rng.randrange(10 * US)) for start in at])
    path = write_log(tmp_path / "log.jsonl", runs[0])
    trace = read([path, write_kineto(tmp_path / "k.json", shifted(runs[1], 9_000 * MS))])
    assert set(trace.to_pandas()["source"]) == {0, 1}


def test_an_even_loop_does_not_join_clocks_that_are_seconds_apart(tmp_path: Path) -> None:
    """It meets itself at every turn."""
    even = [Range("step", n * 10 * MS, n * 10 * MS + 4 * MS) for n in range(1, 200)]
    path = write_log(tmp_path / "log.jsonl", even)
    trace = read([path, write_kineto(tmp_path / "k.json", shifted(even[50:150], 9_003 * MS))])
    assert set(trace.to_pandas()["source"]) == {0, 1}
