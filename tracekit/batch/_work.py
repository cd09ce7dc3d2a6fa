"""One run, from its files to a finished folder. Workers call `work`, on this machine or another one."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tracekit import archive, pipeline
from tracekit._version import __version__
from tracekit.batch._scan import FileState, hidden_result, own
from tracekit.batch._store import (
    FORM_VERSION,
    RESULT_NAME,
    ArchivedJson,
    ReasonJson,
    RecordsJson,
    RunResult,
    SourceJson,
    json_text,
)
from tracekit.batch.index import figures_of
from tracekit.batch.plan import RunTask, file_state_json, sha256_of, tool_digest
from tracekit.errors import (
    COMMAND_LINE,
    AllInputsError,
    Failure,
    InputError,
    MissingExtraError,
    OutputError,
    SchemaError,
    TracekitError,
    UsageError,
)
from tracekit.inputs import InputOptions, stored_name
from tracekit.model.report import Report
from tracekit.model.trace import Ledger, Trace
from tracekit.safety import guard
from tracekit.safety.limits import applied, in_force, size_text
from tracekit.workers.dask import DaskWorkers
from tracekit.workers.local import DIED, LocalWorkers

ASSETS = "../../assets"
"""Path from a run's folder to the assets that all pages share."""
_SUFFIX_OF_TARGET = {
    "chrome": ".json.gz",
    "jsonl": ".jsonl.gz",
    "csv": ".csv.gz",
    "parquet": ".parquet",
    "cuda-kvp": ".kvp",
    "cuda-csv": ".cuda.csv",
    "fluid-pb": ".prof",
    "paddle-pb": ".paddle_trace.pb",
    "perfetto": ".pftrace.gz",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of a worker. made: the finished folder; "" if it could not make one, with the reason in `error`."""

    key: str
    made: str
    status: str
    error: str = ""


@dataclass(slots=True)
class _RunState:
    """The state of a run. reasons: (file, reason); file is "" for the run as a whole. again: the next batch retries."""

    trace: Trace | None = None
    entry: archive.Entry | None = None
    report: Report | None = None
    reasons: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    again: bool = False


def work(task: RunTask) -> Outcome:
    """Do one run in a new folder below `task.work`. A failure is part of the result: this function raises nothing.

    A failure of the machine, unlike one of the input files, marks the run for a retry by the next batch.
    """
    if (error := worker_mismatch(task.work, task.version, task.tool)) is not None:
        return Outcome(task.key, "", "failed", error)
    if (tokens := task.options.anonymize) is not None:
        task = replace(task, options=replace(task.options, anonymize=own(tokens, task.root, task.folder)))
    _allow_many_files(len(task.files))
    try:
        made = Path(tempfile.mkdtemp(prefix="run-", dir=task.work))
        made.chmod(0o777 & ~_umask())
        with applied(task.options.limits.begun_now()):
            return _done(task, made)
    except OSError as err:
        return Outcome(task.key, "", "failed", f"{err.filename or 'the system'}: {err.strerror or err}")


def _allow_many_files(count: int) -> None:
    """Raise the soft limit of open files for a run of many files: all of them are open at once."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * count + 256
    if soft != resource.RLIM_INFINITY and soft < needed:
        with contextlib.suppress(OSError, ValueError):
            limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, soft), hard))


def worker_mismatch(work_folder: str, version: str, tool: str) -> str | None:
    """Return why a worker cannot work for a batch (another tracekit or file system); None if it can."""
    if (version, tool) != (__version__, tool_digest()):
        return f"the worker on {socket.gethostname()} has another tracekit ({__version__}, the batch has {version})"
    if not Path(work_folder).is_dir():
        return f"the worker on {socket.gethostname()} does not see {work_folder}: OUT must be on a shared file system"
    return None


def _done(task: RunTask, made: Path) -> Outcome:
    state = _RunState()
    task = replace(task, files=tuple(_current(Path(task.folder, file.path), file) for file in task.files))
    digests = [sha256_of(Path(task.folder, file.path)) for file in task.files]
    try:
        _make(task, made, state)
    except AllInputsError as err:
        state.reasons += [
            ("", each.error.worded(COMMAND_LINE)) for each in err.failures if not _is_listed(each.error, state)
        ]
    except TracekitError as err:
        state.again = isinstance(err, (OutputError, MissingExtraError, SchemaError)) or _is_gone(err)
        state.reasons += _reasons_of(task, state, err)
    except MemoryError:
        most = task.options.limits.memory
        text = f"needed more memory than {size_text(most)} (--max-memory)"
        state.reasons.append(("", f"the run was ended: it {text}" if most else "out of memory"))
        state.again = not most
    except OSError as err:
        state.reasons.append(("", f"{err.filename or 'the system'}: {err.strerror or err}"))
        state.again = True
    except Exception as err:  # noqa: BLE001 - a bug of ours fails this run, with the reason, and not the batch
        state.reasons.append(("", f"tracekit failed: {type(err).__name__}: {err}"))
        state.again = True
    changed = _changed_meanwhile(task, digests)
    if changed:
        state.again = True
        state.reasons += [(path, "changed while it was read") for path in changed]
    if state.report is None:
        for path in made.iterdir():
            path.unlink()
    result = _result(task, made, state, digests)
    (made / RESULT_NAME).write_text(json_text(result), encoding="ascii")
    return Outcome(task.key, str(made), result["status"])


def _reasons_of(task: RunTask, state: _RunState, err: TracekitError) -> list[tuple[str, str]]:
    """Return the reason of each file that cannot be read, or else the error of the whole run."""
    failures: list[Failure] = []
    if len(task.files) > 1 and not state.again and not state.reasons:
        with contextlib.suppress(TracekitError):
            _read([str(Path(task.folder, file.path)) for file in task.files], task, failures)
    relative = {str(Path(task.folder, file.path)): file.path for file in task.files}
    named = [(relative.get(f.name, f.name), f.error.worded(COMMAND_LINE)) for f in failures]
    return named or [("", err.worded(COMMAND_LINE))]


def _is_listed(error: TracekitError, state: _RunState) -> bool:
    return any(text == error.worded(COMMAND_LINE) for _, text in state.reasons)


def _is_gone(err: TracekitError) -> bool:
    return isinstance(err, InputError) and isinstance(err.__cause__, OSError)


def _current(path: Path, file: FileState) -> FileState:
    """Return the file's present size and time: the plan may be hours old."""
    try:
        facts = path.stat()
    except OSError:
        return file
    return replace(file, size=facts.st_size, mtime_ns=facts.st_mtime_ns)


def _changed_meanwhile(task: RunTask, digests: Sequence[str]) -> list[str]:
    changed = []
    for file, sha256 in zip(task.files, digests, strict=True):
        path = Path(task.folder, file.path)
        try:
            facts = path.stat()
        except OSError:
            changed.append(file.path)
            continue
        same = (facts.st_size, facts.st_mtime_ns) == (file.size, file.mtime_ns)
        if not same or (not sha256 and os.access(path, os.R_OK)):
            changed.append(file.path)
    return changed


def _make(task: RunTask, made: Path, state: _RunState) -> None:
    """Archive, report, convert. Files that cannot be read become reasons, as long as one file can be read."""
    with contextlib.ExitStack() as own:
        _make_of(task, made, state, own)


def _make_of(task: RunTask, made: Path, state: _RunState, own: contextlib.ExitStack) -> None:
    paths = [str(Path(task.folder, file.path)) for file in task.files]
    failures: list[Failure] = []
    source: str | list[str]
    reading = InputOptions(anonymize=task.options.anonymize)
    try:
        if task.options.archive:
            inside = task.options.archive == str(Path(task.out, "archive"))
            added = archive.add(
                task.options.archive,
                paths,
                replace(reading, strict=task.options.strict, partial=True),
                run=task.name,
                workspace=made.parent if inside else None,
            )
            failures += added.failures
            state.entry = archive.entry_at(added.path)
            source = added.path
            own.enter_context(applied(in_force().without_size()))
            trace = pipeline.read(source, reading)
        else:
            trace, source = _read(paths, task, failures)
    finally:
        relative = {path: file.path for path, file in zip(paths, task.files, strict=True)}
        for failure in failures:
            text = failure.error.worded(COMMAND_LINE)
            state.reasons.append((relative.get(failure.name, failure.name), text))
            state.again |= _is_gone(failure.error)
    state.trace = trace
    report = replace(pipeline.report(trace), title=task.name)
    page = pipeline.render(report, "html", replace(task.options.page, assets=ASSETS))
    (made / "report.html").write_bytes(page.encode("utf-8", "replace"))
    for name in task.options.to:
        target = made / f"trace{_SUFFIX_OF_TARGET.get(name) or '.' + name}"
        try:
            done = pipeline.convert(source, target, reading, to=name)
        except UsageError as err:  # there are only totals, and they have no timeline
            why = err.sentence.about("the run") if err.path == source else err.sentence
            state.notes.append(f"{name}: {why.worded(COMMAND_LINE)}")
            continue
        state.notes += [f"{name}: {n:,} rows not written: {why}" for why, n in sorted(done.written.left_out.items())]
    state.report = report


def _read(paths: list[str], task: RunTask, failures: list[Failure]) -> tuple[Trace, list[str]]:
    """Return the trace of the files that can be read completely, and their paths."""
    good = list(paths)
    while True:
        how = InputOptions(strict=task.options.strict, partial=True, anonymize=task.options.anonymize)
        trace = pipeline.read(good, how)
        failures += trace.failures
        if not trace.failures:
            return trace, good
        failed = {failure.name for failure in trace.failures}
        good = [path for path in good if path not in failed]
        if not good:
            raise AllInputsError(trace.failures)


def _result(task: RunTask, made: Path, state: _RunState, digests: Sequence[str]) -> RunResult:
    """Return the result of a run, as it is written. The same bytes always give the same result."""
    trace, report = state.trace, state.report
    failed = {path for path, _ in state.reasons if path}
    formats = {s.path: s.format for s in trace.run.sources} if trace else {}
    ledgers = trace.ledgers if trace else ()
    good = report is not None
    lost = _lost(task, ledgers)
    whole = not (state.reasons or lost or (report is not None and report.incomplete))
    status = "failed" if not good else "ok" if whole else "partial"
    date, date_from = _date(task, state) if good else (_file_date(task), "file")
    outputs = [path for path in sorted(made.iterdir()) if path.name != RESULT_NAME]
    result: RunResult = {
        "form": FORM_VERSION,
        "tracekit": __version__,
        "tool": task.tool,
        "options": task.options.to_json(Path(task.out)),
        "run": task.name,
        "key": task.key,
        "root": task.root,
        "inside": task.inside,
        "status": status,
        "again": state.again,
        "reasons": [{"file": path, "reason": _without_work_folder(text, made, task)} for path, text in state.reasons],
        "lost": lost,
        "date": date,
        "date_from": date_from,
        "start_ns": _start(trace) if good else None,
        "facts": dict(report.facts) if report else {},
        "figures": figures_of(trace, report) if trace and report else {},
        "events": trace.events.num_rows if trace else 0,
        "totals": trace.totals.num_rows if trace else 0,
        "records": _records(ledgers),
        "notes": [*(report.notes if report else ()), *state.notes],
        "incomplete": list(report.incomplete) if report else [],
        "sources": [
            SourceJson(
                **file_state_json(file),
                sha256=sha256,
                format=formats.get(_name_in_trace(task, file), ""),
                read=good and file.path not in failed,
            )
            for file, sha256 in zip(task.files, digests, strict=True)
        ],
        "others": list(map(file_state_json, task.others)),
        "outputs": [{"path": path.name, "bytes": path.stat().st_size} for path in outputs],
        "archive": _archived(state.entry, task.options.archive) if state.entry and good else None,
    }
    if task.kind:
        result["kind"] = task.kind
    return hidden_result(result, task.folder, task.options.anonymize)


def _name_in_trace(task: RunTask, file: FileState) -> str:
    """Return the name of a file as the trace has it."""
    stored, tokens = stored_name(str(Path(task.folder, file.path))), task.options.anonymize
    return stored if tokens is None else tokens.file(stored)


def _lost(task: RunTask, ledgers: Sequence[Ledger]) -> list[ReasonJson]:
    """Return a sentence for each input whose records could not all be read: how many, and the reasons."""
    lost: list[ReasonJson] = []
    for ledger in ledgers:
        if count := sum(ledger.dropped.values()):
            texts = [ledger.notes[code].text if code in ledger.notes else code for code in ledger.dropped]
            why = "; ".join(dict.fromkeys(text.removeprefix("dropped: ") for text in texts))
            file = next((f.path for f in task.files if _is_of(ledger, task, f)), ledger.path)
            records = "record" if ledger.read == 1 else "records"
            lost.append({"file": file, "reason": f"{count:,} of {ledger.read:,} {records} dropped: {why}"})
    return lost


def _is_of(ledger: Ledger, task: RunTask, file: FileState) -> bool:
    return ledger.path.endswith(file.path) or ledger.path == _name_in_trace(task, file)


def _archived(entry: archive.Entry, root: str) -> ArchivedJson:
    return {"id": entry.id, "name": entry.path[len(root) :].lstrip("/"), "bytes": entry.bytes}


def _without_work_folder(text: str, made: Path, task: RunTask) -> str:
    """Return a reason without the paths of this batch's unfinished folders."""
    return text.replace(f"{made}/", "").replace(f"{task.work}/", "")


def _records(ledgers: Sequence[Ledger]) -> RecordsJson:
    dropped: dict[str, int] = {}
    for ledger in ledgers:
        for code, count in ledger.dropped.items():
            dropped[code] = dropped.get(code, 0) + count
    return {
        "read": sum(ledger.read for ledger in ledgers),
        "kept": sum(ledger.kept for ledger in ledgers),
        "merged": sum(ledger.merged for ledger in ledgers),
        "facts": sum(ledger.facts for ledger in ledgers),
        "filtered": sum(ledger.filtered for ledger in ledgers),
        "ignored": sum(sum(ledger.ignored.values()) for ledger in ledgers),
        "dropped": dict(sorted(dropped.items())),
    }


def _date(task: RunTask, state: _RunState) -> tuple[str, str]:
    """Return the day of a run and its source ("trace", "file" or "given"), by the archive's rule."""
    if state.entry is not None:
        return state.entry.date.isoformat(), state.entry.date_from
    trace = state.trace
    if trace is not None:
        first = trace.events.column("ts_ns")[0].as_py() if trace.events.num_rows else None
        if (day := archive.clock_date(trace.run, first)) is not None:
            return day.isoformat(), "trace"
    return _file_date(task), "file"


def _file_date(task: RunTask) -> str:
    return datetime.fromtimestamp(min(file.mtime_ns for file in task.files) // 10**9, UTC).date().isoformat()


def _start(trace: Trace | None) -> int | None:
    """Return the Unix time of the first event in ns, None where the trace has no wall clock."""
    if trace is None or trace.run.origin_ns is None or not trace.events.num_rows:
        return None
    if archive.clock_date(trace.run, first := trace.events.column("ts_ns")[0].as_py()) is None:
        return None
    return trace.run.origin_ns + int(first)


def lost_outcome(task: RunTask, made: Path, reason: str, *, again: bool = True) -> Outcome:
    """Return the outcome of a run whose process was ended. again: the next batch does the run again."""
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    state = _RunState(reasons=[("", reason)], again=again)
    result = _result(task, made, state, [""] * len(task.files))
    (made / RESULT_NAME).write_text(json_text(result), encoding="ascii")
    return Outcome(task.key, str(made), "failed")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Runs with a limit on memory or time: each is done in a process of its own, which the worker watches.


def work_limited(task: RunTask) -> Outcome:
    """Do one run, within the limits of the batch. A run that was ended for a limit has failed; nothing is raised."""
    limits = task.options.limits
    if not (limits.memory or limits.seconds):
        return work(task)
    program = guard.python_words("from tracekit.batch._work import child; child()")
    try:
        ended = guard.watched(program, memory=limits.memory, seconds=limits.seconds, given=pickle.dumps(task))
    except OSError as err:
        return Outcome(task.key, "", "failed", f"{err.filename or 'the system'}: {err.strerror or err}")
    reason = guard.reason_of_end(ended, limits)
    if reason is None and not ended.code:
        key, made, status, error = json.loads(ended.output)
        return Outcome(key, made, status, error)
    text = DIED.format(task="run").replace(" twice", "") if reason is None else f"the run was ended: it {reason}"
    return lost_outcome(task, Path(task.work, f"lost-{task.key}"), text, again=reason is None)


def child() -> None:
    """Do the run that stdin has, and print its outcome."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may print there
    task: RunTask = pickle.load(sys.stdin.buffer)  # the worker wrote it
    guard.obey(task.options.limits.memory)
    made = work(task)
    with os.fdopen(answer, "w", encoding="ascii") as out:
        json.dump([made.key, made.made, made.status, made.error], out)


# The workers of a batch: processes of this machine, or a Dask cluster.


class LocalEngine(LocalWorkers[RunTask, Outcome]):
    """Workers that are processes of this machine."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs, work_limited, "run")


class DaskEngine(DaskWorkers[RunTask, Outcome]):
    """The workers of a Dask cluster. OUT and the roots must be on shared file systems."""

    def __init__(self, address: str) -> None:
        super().__init__(
            address,
            work_limited,
            key=lambda task: f"{Path(task.work).name}-{task.key}",
            mismatch=_mismatch,
            needs="all workers need this tracekit, and OUT at the same path",
            kept="finished runs are kept; start the scheduler and this batch again",
            noun="run",
        )


def _mismatch(task: RunTask) -> tuple[Callable[..., str | None], tuple[object, ...]]:
    return worker_mismatch, (task.work, task.version, task.tool)
