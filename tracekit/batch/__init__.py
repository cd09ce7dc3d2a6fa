"""Archive and report every run below some roots; unchanged runs keep their results. Guide: `docs/batch.md`.

    done = batch.run(["/data/profiles"], "out", jobs=4)

The plan (`plan.py`) lists what is new. Workers (`tracekit.workers`) call one function (`_work.py`), which makes each
run in a folder of its own; the finished folder is renamed into place. `index.py` makes the page over all of OUT. The
outputs depend on the runs alone: neither on the clock, nor on the order of work, nor on the number of processes.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from tracekit.arguments import checked
from tracekit.batch import index
from tracekit.batch._result import Outcome, lost_outcome
from tracekit.batch._scan import RootScan, absolute_roots, hidden_root, refuse_mixed, run_key, scan, settle_links
from tracekit.batch._store import (
    FORM_VERSION,
    RESULT_NAME,
    OutputFolder,
    Owner,
    PathReason,
    RootJson,
    RunResult,
    json_text,
    key_of,
    write_text,
)
from tracekit.batch._workers import DaskEngine, LocalEngine
from tracekit.batch.index import Budget, SlowProgram, broken, parse, unmatched
from tracekit.batch.plan import PlannedRun, RunOptions, RunTask, plan_runs, reason_of, touched_result
from tracekit.conversion import writer_for
from tracekit.errors import Option, OutputError, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import plural
from tracekit.render.base import RenderOptions
from tracekit.safety.anonymize import Anonymizer
from tracekit.safety.limits import applied, cpus, in_force
from tracekit.workers.local import Workers

__all__ = ["BatchOptions", "BatchResult", "Progress", "run", "run_with"]

POLL_S = 0.3
"""Time between two looks at runs that another batch is doing."""
ProgressCall = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a batch: runs done of the runs to do, and the bytes of their files."""

    done: int
    total: int
    bytes_done: int
    bytes_total: int


_USUAL_PAGE = RenderOptions()


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of a batch. Counts are of the runs found below the roots of this batch.

    done: runs by the reason for doing them, as in `plan.PlannedRun` ("new", "changed", "version", ...).
    failed, partial: runs with that status and why, from earlier batches too; partial ones lack a file that could not be
    read. over: runs beyond a budget, and by what. problems: places that could not be scanned. others: files that
    were not read, as `plan` says. dropped: runs with dropped records, and how many; they are partial too, and still
    have all their results. incomplete: runs with inputs that lost too many records, and a sentence for each.
    names: of all runs. unmatched: budgets whose figure no run of this batch has, with the figures that some have.
    left_out: runs in no trend, since they lack rows that their siblings have, and a sentence for each. notes:
    places skipped on purpose, and why. cut: runs with an input that ends too early, and where. without_events: runs
    whose inputs have neither events nor totals. empty: roots without a run. cleared: dead batches whose unfinished work
    was removed. forgotten: results removed because their files are gone. skipped: the paths of `others`, those first
    that may be damaged profiles. new, changed, gone: the names of runs without an earlier result, of runs whose files
    changed, and of results of these roots whose files are gone. slower: programs with a run, or a level of runs, that
    is slower than their other runs, the worst first, and a sentence with the figures for each.
    """

    out: Path
    runs: int
    unchanged: int
    done: Mapping[str, int]
    failed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    partial: tuple[tuple[str, tuple[str, ...]], ...] = ()
    over: tuple[tuple[str, tuple[str, ...]], ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    others: int = 0
    cleared: int = 0
    forgotten: int = 0
    page: Path = field(default=Path())
    dropped: tuple[tuple[str, int], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    empty: tuple[str, ...] = ()
    incomplete: tuple[tuple[str, str], ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    cut: tuple[tuple[str, str], ...] = ()
    without_events: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    unmatched: tuple[tuple[str, tuple[str, ...]], ...] = ()
    skipped: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    slower: tuple[tuple[str, str], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Return whether every run is read to its end, has all its results and keeps its budgets."""
        return not (self.failed or self.partial or self.problems or self.over or self.cut)


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of a batch. page: the budget of each run's page. The others are those of `run`."""

    jobs: int = 0
    dask: str = ""
    run_pattern: str = ""
    archive: str | Path | None = None
    to: Sequence[str] = ()
    budgets: Sequence[str] = ()
    strict: bool = False
    force: bool = False
    forget: bool = False
    page: RenderOptions = _USUAL_PAGE
    anonymize: Anonymizer | None = None
    progress: ProgressCall | None = None


@checked()
def run(
    roots: Sequence[str | Path],
    out: str | Path,
    *,
    jobs: int = 0,
    dask: str = "",
    run_pattern: str = "",
    archive: str | Path | None = None,
    to: Sequence[str] = (),
    budgets: Sequence[str] = (),
    strict: bool = False,
    force: bool = False,
    forget: bool = False,
    page_events: int = 2_000_000,
    page_mb: float = 32,
    page_args_mb: float = 8,
    anonymize: Anonymizer | None = None,
    progress: ProgressCall | None = None,
) -> BatchResult:
    """Do every new or changed run below the roots, and write the page over all of OUT.

    jobs: processes; 0 is one for each CPU. dask: the address of a scheduler to use instead. run_pattern: a glob
    relative to each root; its matches are the runs. archive: a folder or URL instead of OUT/archive; "" is none.
    to: targets of `convert` to write beside the report. budgets: limits for key figures, such as "step.p50 <= 120ms",
    of all runs of these roots until the next batch of them. force: do unchanged runs too. forget: remove results whose
    files are gone. page_events, page_mb, page_args_mb: the most that a page's timeline holds, as in `write_report`.
    anonymize: write tokens in the place of paths, names of runs, hosts and the like into OUT; another batch with the
    same key finds its runs again. The result of this function has the real names. A bad run fails alone. Ctrl-C keeps
    what is done. `tracekit.limits` around the call hold for each run, which fails alone at one.

    Raises: TracekitError where nothing can be done.
    """
    return run_with(
        roots,
        out,
        BatchOptions(
            jobs=jobs,
            dask=dask,
            run_pattern=run_pattern,
            archive=archive,
            to=to,
            budgets=budgets,
            strict=strict,
            force=force,
            forget=forget,
            page=RenderOptions(page_events=page_events, page_mb=page_mb, page_args_mb=page_args_mb),
            anonymize=anonymize,
            progress=progress,
        ),
    )


def run_with(roots: Sequence[str | Path], out: str | Path, wanted: BatchOptions) -> BatchResult:
    """Do a batch as `run` does, with its options in one object. Raises: TracekitError where nothing can be done."""
    for name in wanted.to:
        writer_for("", name)
    limits = [parse(text) for text in wanted.budgets]
    if wanted.jobs < 0:
        hint = sentence(Option("jobs", "4"), "; 0 takes one for each CPU")
        raise UsageError(sentence(Option("jobs", str(wanted.jobs)), ": not a number of processes"), hint=hint)
    root_paths = absolute_roots(roots)
    output = OutputFolder(Path(os.path.abspath(out)))  # noqa: PTH100 - links stay as the user wrote them
    for root in root_paths:
        if Path(root) == output.path:
            hint = sentence("choose another folder with ", Option("o"))
            raise UsageError(sentence(Option("o", str(out)), " is a root itself"), hint=hint)
    archive_place, anonymize, run_pattern = _archive_place(wanted.archive, output), wanted.anonymize, wanted.run_pattern
    given = in_force()
    options = RunOptions(archive_place, tuple(sorted(set(wanted.to))), wanted.strict, wanted.page, anonymize, given)
    engine: Workers[RunTask, Outcome] = DaskEngine(wanted.dask) if wanted.dask else LocalEngine(wanted.jobs or cpus())
    refuse_mixed(output, anonymize)
    output.make()
    with applied(replace(given, seconds=0)), Owner(output.work) as owner:  # the time is that of each run
        cleared = len(owner.clear())
        index.write_assets(output)
        barred = [output.path] + ([Path(archive_place)] if archive_place and "://" not in archive_place else [])
        scans = [scan(root, pattern=run_pattern, without=barred) for root in root_paths]
        settle_links(scans)
        plans = list(plan_runs(scans, output.results(), output, options, force=wanted.force))
        for each in scans:
            _write_root(output, each, run_pattern, limits, plans, anonymize)
        _update_times(output, plans, owner, options)
        work = _BatchWork(output, owner, options, [plan for plan in plans if plan.why], wanted.progress)
        done = work.run(engine)
        with owner.hold("index"):
            forgotten = index.forget(output, owner.folder, all_gone=wanted.forget)
            index.write(output)
        results = output.results()
        lacking = index.left_out(output)
        new = {plan.key for plan in plans if plan.why in ("new", "changed")}
        slow = index.slower_programs(output, {plan.key for plan in plans}, new)
    named = [(plan.name, results[plan.key]) for plan in plans if plan.key in results]
    skipped = _skipped(scans, plans)
    shown_roots = set(root_paths) if anonymize is None else {anonymize.file(root) for root in root_paths}
    gone = results.keys() - {plan.key for plan in plans}
    dropped = [(name, sum(result["records"]["dropped"].values())) for name, result in named]
    names = {plan.key: plan.name for plan in plans}
    return BatchResult(
        out=output.path,
        runs=len(plans),
        unchanged=sum(not plan.why for plan in plans),
        done=done,
        failed=_with_status(named, "failed"),
        partial=tuple(each for each in _with_status(named, "partial") if each[1]),
        over=tuple((name, tuple(found)) for name, result in named if (found := broken(limits, result))),
        problems=tuple(problem for each in scans for problem in each.problems),
        others=len(skipped),
        cleared=cleared,
        forgotten=forgotten,
        page=output.path / "index.html",
        dropped=tuple((name, count) for name, count in dropped if count),
        notes=tuple(note for each in scans for note in each.notes),
        incomplete=tuple((name, text) for name, result in named for text in result.get("incomplete", [])),
        left_out=tuple((plan.name, lacking[plan.key]) for plan in plans if plan.key in lacking),
        cut=tuple((name, result["cut"]) for name, result in named if "cut" in result),
        without_events=tuple(
            name
            for name, result in named
            if result["status"] != "failed" and not (result["events"] or result["totals"])
        ),
        names=tuple(plan.name for plan in plans),
        unmatched=tuple(unmatched(limits, [result for _, result in named])),
        skipped=skipped,
        new=tuple(plan.name for plan in plans if plan.why == "new"),
        changed=tuple(plan.name for plan in plans if plan.why == "changed"),
        gone=tuple(sorted(results[key]["run"] for key in gone if results[key]["root"] in shown_roots)),
        slower=tuple(_slow_words(each, names.get(each.key), hidden=anonymize is not None) for each in slow),
        empty=tuple(root for root in root_paths if all(plan.candidate.root != root for plan in plans)),
    )


def _slow_words(slow: SlowProgram, name: str | None, *, hidden: bool) -> tuple[str, str]:
    """Return the title of a program and what became slower. hidden: results have tokens, so the run is the title.

    name: that of the run in this batch, None for a run of an earlier one.
    """
    run = name or slow.run
    others = f"{plural(slow.others, 'run')} before" if slow.since else plural(slow.others, "other run")
    return run if hidden else slow.title, f"{slow.change} {'since' if slow.since else 'in'} {run}; {others}"


_COMPRESSED = (".gz", ".zst", ".xz", ".bz2", ".zip")


def _skipped(scans: Sequence[RootScan], plans: Sequence[PlannedRun]) -> tuple[str, ...]:
    """Return the paths of files that are read in no run, below their root. Possible damaged profiles come first."""
    read = {(plan.candidate.root, plan.candidate.inside, file.path) for plan in plans for file in plan.files}
    suffixes = {Path(path).suffix.lower() for *_, path in read} | set(_COMPRESSED)
    found: list[tuple[bool, str]] = []
    for each in scans:
        for candidate in each.candidates:
            inside = "" if candidate.inside == "." else f"{candidate.inside}/"
            for file in candidate.files:
                if (candidate.root, candidate.inside, file.path) not in read:
                    is_like_profile = not file.size or Path(file.path).suffix.lower() in suffixes
                    found.append((not is_like_profile, _valid_text(f"{inside}{file.path}")))
        found += [(Path(name).suffix.lower() not in suffixes, _valid_text(name)) for name in each.outside]
    return tuple(name for _, name in sorted(found))


def _with_status(named: Sequence[tuple[str, RunResult]], status: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((name, index.reasons_of(result)) for name, result in named if result["status"] == status)


def _archive_place(archive: str | Path | None, output: OutputFolder) -> str:
    if archive is None:
        return str(output.path / "archive")
    text = str(archive)
    if not text or "://" in text:
        return text.rstrip("/")
    return os.path.abspath(text)  # noqa: PTH100 - links stay as the user wrote them


def _write_root(
    output: OutputFolder,
    found: RootScan,
    pattern: str,
    budgets: Sequence[Budget],
    plans: Sequence[PlannedRun],
    anonymizer: Anonymizer | None,
) -> None:
    """Write what the scan of a root found: its runs, and every file that belongs to none."""
    mine = [plan for plan in plans if plan.candidate.root == found.root]
    runs = {plan.candidate.inside for plan in mine}
    unknown = [
        f"{candidate.inside}/{file.path}" if candidate.inside != "." else file.path
        for candidate in found.candidates
        if candidate.inside not in runs
        for file in candidate.files
    ]
    root = RootJson(
        form=FORM_VERSION,
        root=found.root,
        run_pattern=pattern,
        budgets=[budget.text for budget in budgets],
        runs=sorted(plan.key for plan in mine),
        outside=[_valid_text(name) for name in sorted(found.outside)],
        unknown=[_valid_text(name) for name in sorted(unknown)],
        problems=[PathReason(path=_valid_text(path), reason=reason) for path, reason in sorted(found.problems)],
        notes=[PathReason(path=_valid_text(path), reason=reason) for path, reason in sorted(found.notes)],
    )
    key = key_of(found.root, ".")
    if anonymizer is not None:
        key, root = run_key(anonymizer, found.root, "."), hidden_root(root, anonymizer)
    write_text(output.roots / f"{key}.json", json_text(root))


def _valid_text(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _update_times(output: OutputFolder, plans: Sequence[PlannedRun], owner: Owner, options: RunOptions) -> None:
    """Write the new times of touched files into their results, so that the next batch need not hash them."""
    for plan in plans:
        if plan.touched and not plan.why and owner.claim(plan.key):
            old = output.result(plan.key)
            if old is not None:
                result = touched_result(old, plan, options)
                write_text(output.runs / plan.key / RESULT_NAME, json_text(result))
            owner.release(plan.key)


class _BatchWork:
    """The runs that one batch has to do. Runs claimed by another batch wait until that one is done or dead."""

    def __init__(
        self,
        output: OutputFolder,
        owner: Owner,
        options: RunOptions,
        plans: Sequence[PlannedRun],
        progress: ProgressCall | None,
    ) -> None:
        self._output, self._owner, self._options = output, owner, options
        self._plans = {plan.key: plan for plan in plans}
        self._waiting = deque(plans)
        self._elsewhere: deque[PlannedRun] = deque()
        self._done: Counter[str] = Counter()
        self._report = progress or (lambda _: None)
        self._progress = Progress(0, len(plans), 0, sum(map(_size, plans)))

    def run(self, engine: Workers[RunTask, Outcome]) -> dict[str, int]:
        """Do all runs, and move each result to its place as it comes. Return counts by reason."""
        if not self._plans:
            return {}
        self._report(self._progress)
        with engine:
            while True:
                for outcome in engine.run(self._tasks(), _lost):
                    self._commit(outcome)
                    self._count(self._plans[outcome.key], self._plans[outcome.key].why)
                if not self._elsewhere:
                    return dict(sorted(self._done.items()))
                time.sleep(POLL_S)
                self._waiting, self._elsewhere = self._elsewhere, deque()

    def _tasks(self) -> Iterator[RunTask]:
        while self._waiting:
            plan = self._waiting.popleft()
            if not self._owner.claim(plan.key):
                self._elsewhere.append(plan)
            elif self._was_done_elsewhere(plan):
                self._owner.release(plan.key)
                self._count(plan, "by another batch")
            else:
                yield plan.task(self._output, self._owner.folder, self._options)

    def _was_done_elsewhere(self, plan: PlannedRun) -> bool:
        """Return whether another batch has finished a claimed run since it was planned."""
        result = self._output.result(plan.key)
        if result is None or plan.why in ("forced", "retry"):
            return False
        why, _ = reason_of(plan, result, self._output, self._options)
        return not why

    def _commit(self, outcome: Outcome) -> None:
        if not outcome.folder:
            raise OutputError(outcome.error, hint="finished runs are kept; fix this and start the batch again")
        self._output.commit(Path(outcome.folder), outcome.key, self._owner.folder)
        self._owner.release(outcome.key)

    def _count(self, plan: PlannedRun, why: str) -> None:
        self._done[why] += 1
        now = self._progress
        self._progress = replace(now, done=now.done + 1, bytes_done=now.bytes_done + _size(plan))
        self._report(self._progress)


def _size(plan: PlannedRun) -> int:
    return sum(file.size for file in plan.files)


def _lost(task: RunTask, reason: str) -> Outcome:
    return lost_outcome(task, Path(task.work, f"lost-{task.key}"), reason)
