"""One run, from its files to a finished folder. Workers call `do_run`, on this machine or another one."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tracekit import archive, pipeline
from tracekit._version import __version__
from tracekit.batch._result import Outcome, RunState, result_of
from tracekit.batch._scan import FileState, anonymizer_of_run
from tracekit.batch._store import (
    RESULT_NAME,
    json_text,
)
from tracekit.batch.plan import RunTask, sha256_of, tool_digest
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
from tracekit.inputs import InputOptions
from tracekit.model.trace import Trace
from tracekit.safety.limits import applied, in_force, size_text

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


def do_run(task: RunTask) -> Outcome:
    """Do one run in a new folder below `task.work`. A failure is part of the result: this function raises nothing.

    A failure of the machine, unlike one of the input files, marks the run for a retry by the next batch.
    """
    if (error := worker_mismatch(task.work, task.version, task.tool)) is not None:
        return Outcome(task.key, "", "failed", error)
    if (tokens := task.options.anonymize) is not None:
        task = replace(task, options=replace(task.options, anonymize=anonymizer_of_run(tokens, task.root, task.folder)))
    _allow_many_files(len(task.files))
    try:
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=task.work))
        folder.chmod(0o777 & ~_umask())
        with applied(task.options.limits.begun_now()):
            return _outcome_of(task, folder)
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


def _outcome_of(task: RunTask, folder: Path) -> Outcome:
    state = RunState()
    task = replace(task, files=tuple(_current(Path(task.folder, file.path), file) for file in task.files))
    digests = [sha256_of(Path(task.folder, file.path)) for file in task.files]
    try:
        _write_outputs(task, folder, state)
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
    # A job may still write its profile while the batch reads it: half a file must not stay as the result.
    changed = _changed_meanwhile(task, digests)
    if changed:
        state.again = True
        state.reasons += [(path, "changed while it was read") for path in changed]
    # A run without a report has no outputs either, so that no page links to a trace of a failed run.
    if state.report is None:
        for path in folder.iterdir():
            path.unlink()
    result = result_of(task, folder, state, digests)
    (folder / RESULT_NAME).write_text(json_text(result), encoding="ascii")
    return Outcome(task.key, str(folder), result["status"])


def _reasons_of(task: RunTask, state: RunState, err: TracekitError) -> list[tuple[str, str]]:
    """Return the reason of each file that cannot be read, or else the error of the whole run."""
    failures: list[Failure] = []
    if len(task.files) > 1 and not state.again and not state.reasons:
        with contextlib.suppress(TracekitError):
            _read([str(Path(task.folder, file.path)) for file in task.files], task, failures)
    relative = {str(Path(task.folder, file.path)): file.path for file in task.files}
    named = [(relative.get(f.name, f.name), f.error.worded(COMMAND_LINE)) for f in failures]
    return named or [("", err.worded(COMMAND_LINE))]


def _is_listed(error: TracekitError, state: RunState) -> bool:
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


def _write_outputs(task: RunTask, folder: Path, state: RunState) -> None:
    """Archive, report, convert. Files that cannot be read become reasons, as long as one file can be read."""
    with contextlib.ExitStack() as limits:
        _write_archive_and_pages(task, folder, state, limits)


def _write_archive_and_pages(task: RunTask, folder: Path, state: RunState, limits: contextlib.ExitStack) -> None:
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
                workspace=folder.parent if inside else None,
                replaces=task.replaces,
            )
            failures += added.failures
            state.entry = archive.entry_at(added.path)
            source = added.path
            # The archived file is ours, made of an input that was read within the limits: its size is not held again.
            limits.enter_context(applied(in_force().without_size()))
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
    (folder / "report.html").write_bytes(page.encode("utf-8", "replace"))
    for name in task.options.to:
        target = folder / f"trace{_SUFFIX_OF_TARGET.get(name) or '.' + name}"
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
