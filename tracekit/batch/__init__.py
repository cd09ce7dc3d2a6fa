"""Batch: every run below some roots is archived and reported, what is unchanged is left alone. `docs/batch.md` guides.

    done = batch.run(["/data/profiles"], "out", jobs=4)

The plan (`plan.py`) says what is new; workers (`local.py`, `dask.py`) do it by one function (`_work.py`), each run in a
folder of its own that is put in its place whole; `index.py` makes the page over all that lies in OUT. What stands
there follows from the runs alone: no clock, no order, no count of processes shows in it.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracekit.batch import index
from tracekit.batch._claims import Owner
from tracekit.batch._scan import Scan, absolute_roots, scan, settle
from tracekit.batch._store import FORM, RESULT, Out, Result, json_text, key_of, write_text
from tracekit.batch._work import Outcome, lost
from tracekit.batch.dask import Cluster
from tracekit.batch.local import Engine, Local
from tracekit.batch.plan import Planned, Task, Wanted, planned, reason_of, touched_result
from tracekit.errors import OutputError, UsageError
from tracekit.pipeline import writer_for

__all__ = ["Batch", "Progress", "run"]

POLL_S = 0.3
"""Between two looks at runs that another batch is doing."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is: runs done of those to do, and their bytes."""

    done: int
    of: int
    bytes_done: int
    bytes_of: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch did. Counts are of runs found below the roots of this batch.

    done: made anew, by why ("new", "changed", "version", "options", "lost", "retry", "forced"). failed, partial: every
    run that has a reason standing, with its reasons, old ones too. problems: places that could not be looked into.
    dropped: each run that lost records of its files, with how many; such a run is whole all the same.
    notes: places that were passed over, and why: no run is lost by them. empty: roots in which there is no run.
    """

    out: Path
    runs: int
    unchanged: int
    done: Mapping[str, int]
    failed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    partial: tuple[tuple[str, tuple[str, ...]], ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    others: int = 0
    cleared: int = 0
    forgotten: int = 0
    page: Path = field(default=Path())
    dropped: tuple[tuple[str, int], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Tell whether every run has all its results."""
        return not (self.failed or self.partial or self.problems)


def run(
    roots: Sequence[str | Path], out: str | Path, *, jobs: int = 0, dask: str = "", run_pattern: str = "",
    archive: str | Path | None = None, to: Sequence[str] = (), strict: bool = False, force: bool = False,
    forget: bool = False, progress: Callable[[Progress], None] | None = None,
) -> Batch:  # fmt: skip
    """Do what is to be done for every run below the roots, and write the page over all of OUT.

    jobs: processes, 0 for one a CPU. dask: the address of a scheduler instead. run_pattern: a glob relative to each
    root, whose matches are the runs. archive: a folder or URL instead of OUT/archive, "" for none. to: more targets of
    `convert`, beside the report. force: do the unchanged too. forget: remove results whose files are gone.
    A bad run costs itself alone. Raises: TracekitError where nothing can be done. Ctrl-C leaves what is done.
    """
    for name in to:
        writer_for("", name)
    if jobs < 0:
        raise UsageError(f"--jobs {jobs}: not a number of processes", hint="--jobs 4; 0 takes one for each CPU")
    places = absolute_roots(roots)
    place = Out(Path(os.path.abspath(out)))  # noqa: PTH100 - links stay as the user wrote them
    for root in places:
        if Path(root) == place.path:
            raise UsageError(f"-o {out} is a root itself", hint="choose another folder with -o")
    where = _archive_place(archive, place)
    wanted = Wanted(where, tuple(sorted(set(to))), strict)
    engine: Engine = Cluster(dask) if dask else Local(jobs or _cpus())
    place.make()
    with Owner(place.work) as owner:
        cleared = len(owner.clear())
        index.write_assets(place)
        barred = [place.path] + ([Path(where)] if where and "://" not in where else [])
        scans = [scan(root, pattern=run_pattern, without=barred) for root in places]
        settle(scans)
        plans = list(planned(scans, place.results(), place, wanted, force=force))
        for found in scans:
            _write_root(place, found, run_pattern, plans)
        _take_over_times(place, plans, owner)
        done = _do([p for p in plans if p.why], place, owner, wanted, engine, progress)
        with owner.hold("index"):
            forgotten = index.forget(place, owner.folder, all_gone=forget)
            index.write(place)
        results = place.results()
    told = [(plan.name, results[plan.key]) for plan in plans if plan.key in results]
    profiles = sum(len(plan.files) for plan in plans)
    return Batch(
        out=place.path, runs=len(plans), unchanged=sum(not plan.why for plan in plans), done=done,
        failed=_with_status(told, "failed"), partial=_with_status(told, "partial"),
        problems=tuple(problem for each in scans for problem in each.problems),
        others=sum(len(c.marks) for s in scans for c in s.candidates) + sum(len(s.outside) for s in scans) - profiles,
        cleared=cleared, forgotten=forgotten, page=place.path / "index.html",
        dropped=tuple((name, lost) for name, result in told if (lost := sum(result["records"]["dropped"].values()))),
        notes=tuple(note for each in scans for note in each.notes),
        empty=tuple(root for root in places if all(plan.candidate.root != root for plan in plans)),
    )  # fmt: skip


def _with_status(told: Sequence[tuple[str, Result]], status: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((name, index.reasons_of(result)) for name, result in told if result["status"] == status)


def _archive_place(archive: str | Path | None, place: Out) -> str:
    if archive is None:
        return str(place.path / "archive")
    text = str(archive)
    if not text or "://" in text:
        return text.rstrip("/")
    return os.path.abspath(text)  # noqa: PTH100 - links stay as the user wrote them


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _write_root(place: Out, found: Scan, pattern: str, plans: Sequence[Planned]) -> None:
    """Write down what the look into a root found: what is a run, and every file that is part of none."""
    mine = [plan for plan in plans if plan.candidate.root == found.root]
    runs = {plan.candidate.inside for plan in mine}
    unknown = [
        f"{candidate.inside}/{mark.path}" if candidate.inside != "." else mark.path
        for candidate in found.candidates if candidate.inside not in runs
        for mark in candidate.marks
    ]  # fmt: skip
    facts = {
        "form": FORM, "root": found.root, "run_pattern": pattern, "runs": sorted(plan.key for plan in mine),
        "outside": [_text(name) for name in sorted(found.outside)],
        "unknown": [_text(name) for name in sorted(unknown)],
        "problems": [{"path": _text(path), "reason": reason} for path, reason in sorted(found.problems)],
        "notes": [{"path": _text(path), "reason": reason} for path, reason in sorted(found.notes)],
    }  # fmt: skip
    write_text(place.roots / f"{key_of(found.root, '.')}.json", json_text(facts))


def _text(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _take_over_times(place: Out, plans: Sequence[Planned], owner: Owner) -> None:
    """Let the results of runs that were only touched have the new times: next time no content need be read."""
    for plan in plans:
        if plan.touched and not plan.why and owner.claim(plan.key):
            old = place.result(plan.key)
            if old is not None:
                write_text(place.runs / plan.key / RESULT, json_text(touched_result(old, plan.files, plan.others)))
            owner.release(plan.key)


def _do(
    plans: Sequence[Planned], place: Out, owner: Owner, wanted: Wanted, engine: Engine,
    progress: Callable[[Progress], None] | None,
) -> dict[str, int]:  # fmt: skip
    """Have the work done, and put each result in its place as it comes. Return how many, by why."""
    if not plans:
        return {}
    by_key = {plan.key: plan for plan in plans}
    sizes = {plan.key: sum(mark.size for mark in plan.files) for plan in plans}
    waiting = deque(plans)
    elsewhere: deque[Planned] = deque()
    done: Counter[str] = Counter()
    told = Progress(0, len(plans), 0, sum(sizes.values()))

    if progress is not None:
        progress(told)

    def tell(key: str) -> None:
        nonlocal told
        told = replace(told, done=told.done + 1, bytes_done=told.bytes_done + sizes[key])
        if progress is not None:
            progress(told)

    def ours(plan: Planned) -> Task | None:
        """Return the task of a run that we have claimed, None when another batch has just done it."""
        then = place.result(plan.key)
        fresh = False
        if then is not None and plan.why not in ("forced", "retry"):
            why, _ = reason_of(plan, then, place, wanted)
            fresh = not why
        if fresh:
            owner.release(plan.key)
            done["by another batch"] += 1
            tell(plan.key)
            return None
        return plan.task(place, owner.folder, wanted)

    def tasks() -> Iterator[Task]:
        while waiting:
            plan = waiting.popleft()
            if not owner.claim(plan.key):
                elsewhere.append(plan)
            elif (task := ours(plan)) is not None:
                yield task

    with engine:
        while True:
            for outcome in engine.run(tasks(), _lost):
                _commit(outcome, place, owner)
                done[by_key[outcome.key].why] += 1
                tell(outcome.key)
            if not elsewhere:
                return dict(sorted(done.items()))
            time.sleep(POLL_S)
            waiting, elsewhere = elsewhere, deque()


def _commit(outcome: Outcome, place: Out, owner: Owner) -> None:
    if not outcome.made:
        raise OutputError(outcome.error, hint="what is done stays; start the batch again when that is mended")
    place.commit(Path(outcome.made), outcome.key, owner.folder)
    owner.release(outcome.key)


def _lost(task: Task, reason: str) -> Outcome:
    return lost(task, Path(task.work, f"lost-{task.key}"), reason)
