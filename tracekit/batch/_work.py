"""One run, from its files to a folder that is ready to be put in its place. A worker calls it, here or far away."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracekit import archive, pipeline
from tracekit._version import __version__
from tracekit.batch._figures import figures_of
from tracekit.batch._scan import Mark
from tracekit.batch._store import FORM, RESULT, json_text
from tracekit.batch.plan import Task, mark_json, sha256_of, tool_digest
from tracekit.errors import (
    AllInputsError,
    InputError,
    MissingExtraError,
    OutputError,
    SchemaError,
    TracekitError,
    UsageError,
)
from tracekit.inputs import Failure
from tracekit.render.base import RenderOptions
from tracekit.report import Report
from tracekit.trace import Ledger, Trace

ASSETS = "../../assets"
"""From a run's folder to what all pages share."""
_SUFFIXES = {
    "chrome": ".json.gz", "jsonl": ".jsonl.gz", "csv": ".csv.gz", "parquet": ".parquet", "cuda-kvp": ".kvp",
    "cuda-csv": ".cuda.csv", "fluid-pb": ".prof", "paddle-pb": ".paddle_trace.pb",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a worker hands back. made: the folder, "" when it could not even make one; then `error` says why."""

    key: str
    made: str
    status: str
    error: str = ""


@dataclass(slots=True)
class _Made:
    """What became of a run. reasons: (file, what went wrong); file is "" for the run as a whole."""

    trace: Trace | None = None
    entry: archive.Entry | None = None
    report: Report | None = None
    reasons: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    again: bool = False


def work(task: Task) -> Outcome:
    """Do one run in a new folder below `task.work`. Whatever happens to a run stands in its result: this never raises
    for a bad input, and what a machine spoilt is marked to be done again.
    """
    if (error := stranger(task.work, task.version, task.tool)) is not None:
        return Outcome(task.key, "", "failed", error)
    _allow_many_files(len(task.files))
    try:
        made = Path(tempfile.mkdtemp(prefix="run-", dir=task.work))
        made.chmod(0o777 & ~_umask())
        return _done(task, made)
    except OSError as err:
        return Outcome(task.key, "", "failed", f"{err.filename or 'the system'}: {err.strerror or err}")


def _allow_many_files(count: int) -> None:
    """Raise the soft limit of open files where a run has many: all its files are open at once."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, soft), hard))


def stranger(work_folder: str, version: str, tool: str) -> str | None:
    """Return why a worker cannot work for a batch: another tracekit, another file system. None when it can."""
    if (version, tool) != (__version__, tool_digest()):
        return f"the worker on {socket.gethostname()} has another tracekit ({__version__}, the batch has {version})"
    if not Path(work_folder).is_dir():
        return f"the worker on {socket.gethostname()} does not see {work_folder}: OUT must lie on a shared file system"
    return None


def _done(task: Task, made: Path) -> Outcome:
    outcome = _Made()
    task = replace(task, files=tuple(_present(Path(task.folder, mark.path), mark) for mark in task.files))
    marks = [sha256_of(Path(task.folder, mark.path)) for mark in task.files]
    try:
        _make(task, made, outcome)
    except AllInputsError as err:
        outcome.reasons += [("", str(each)) for each in err.errors if not _named(each, outcome)]
    except TracekitError as err:
        outcome.again = isinstance(err, (OutputError, MissingExtraError, SchemaError)) or _is_gone(err)
        outcome.reasons += _each_reason(task, outcome, err)
    except MemoryError:
        outcome.reasons.append(("", "out of memory"))
        outcome.again = True
    except OSError as err:
        outcome.reasons.append(("", f"{err.filename or 'the system'}: {err.strerror or err}"))
        outcome.again = True
    except Exception as err:  # noqa: BLE001 - a bug of ours costs this run its result, with the reason, not the batch
        outcome.reasons.append(("", f"tracekit failed: {type(err).__name__}: {err}"))
        outcome.again = True
    changed = _changed_meanwhile(task, marks)
    if changed:
        outcome.again = True
        outcome.reasons += [(path, "changed while it was read") for path in changed]
    if outcome.report is None:
        for path in made.iterdir():
            path.unlink()
    result = _result(task, made, outcome, marks)
    (made / RESULT).write_text(json_text(result), encoding="ascii")
    return Outcome(task.key, str(made), result["status"])


def _each_reason(task: Task, outcome: _Made, err: TracekitError) -> list[tuple[str, str]]:
    """Return the reason of a run that failed, or of each of its files where several were tried and none is named."""
    failures: list[Failure] = []
    if len(task.files) > 1 and not outcome.again and not outcome.reasons:
        with contextlib.suppress(TracekitError):
            _read([str(Path(task.folder, mark.path)) for mark in task.files], task, failures)
    inside_of = {str(Path(task.folder, mark.path)): mark.path for mark in task.files}
    return [(inside_of.get(f.name, f.name), str(f.error)) for f in failures] or [("", str(err))]


def _named(error: TracekitError, outcome: _Made) -> bool:
    return any(text == str(error) for _, text in outcome.reasons)


def _is_gone(err: TracekitError) -> bool:
    return isinstance(err, InputError) and isinstance(err.__cause__, OSError)


def _present(path: Path, mark: Mark) -> Mark:
    """Return the mark as it is now: the plan may be hours old."""
    try:
        facts = path.stat()
    except OSError:
        return mark
    return replace(mark, size=facts.st_size, mtime_ns=facts.st_mtime_ns)


def _changed_meanwhile(task: Task, marks: Sequence[str]) -> list[str]:
    changed = []
    for mark, sha256 in zip(task.files, marks, strict=True):
        path = Path(task.folder, mark.path)
        try:
            facts = path.stat()
        except OSError:
            changed.append(mark.path)
            continue
        same = (facts.st_size, facts.st_mtime_ns) == (mark.size, mark.mtime_ns)
        if not same or (not sha256 and os.access(path, os.R_OK)):
            changed.append(mark.path)
    return changed


def _make(task: Task, made: Path, outcome: _Made) -> None:
    """Archive, report, convert. Files that cannot be read are named and left out, as long as one can."""
    paths = [str(Path(task.folder, mark.path)) for mark in task.files]
    failures: list[Failure] = []
    source: str | list[str]
    try:
        if task.wanted.archive:
            inside = task.wanted.archive == str(Path(task.out, "archive"))
            added = archive.add(
                task.wanted.archive, paths, run=task.name, strict=task.wanted.strict, failures=failures,
                workspace=made.parent if inside else None,
            )  # fmt: skip
            outcome.entry = archive.entry_at(added.path)
            source = added.path
            trace = pipeline.read(source)
        else:
            trace, source = _read(paths, task, failures)
    finally:
        inside_of = {path: mark.path for path, mark in zip(paths, task.files, strict=True)}
        for failure in failures:
            outcome.reasons.append((inside_of.get(failure.name, failure.name), str(failure.error)))
            outcome.again |= _is_gone(failure.error)
    outcome.trace = trace
    report = replace(pipeline.report(trace), title=task.name)
    page = pipeline.render(report, "html", RenderOptions(assets=ASSETS))
    (made / "report.html").write_bytes(page.encode("utf-8", "replace"))
    for name in task.wanted.to:
        target = made / f"trace{_SUFFIXES.get(name) or '.' + name}"
        try:
            done = pipeline.convert(source, target, to=name)
        except UsageError as err:  # totals alone have no timeline
            outcome.notes.append(f"{name}: {str(err).replace(f'{source} ', 'the run ')}")
            continue
        outcome.notes += [
            f"{name}: {n:,} rows left out: {reason}" for reason, n in sorted(done.written.left_out.items())
        ]
    outcome.report = report


def _read(paths: list[str], task: Task, failures: list[Failure]) -> tuple[Trace, list[str]]:
    """Return the trace of the files that can be read to their end, and which they are."""
    good = list(paths)
    while True:
        bad: list[Failure] = []
        trace = pipeline.read(good, strict=task.wanted.strict, failures=bad)
        failures += bad
        if not bad:
            return trace, good
        lost = {failure.name for failure in bad}
        good = [path for path in good if path not in lost]
        if not good:
            raise AllInputsError(failure.error for failure in bad)


def _result(task: Task, made: Path, outcome: _Made, marks: Sequence[str]) -> dict[str, Any]:
    """Return the documented JSON object of a run. It holds nothing that another run of the same bytes would not."""
    trace, report = outcome.trace, outcome.report
    failed = {path for path, _ in outcome.reasons if path}
    formats = {s.path: s.format for s in trace.run.sources} if trace else {}
    ledgers = trace.ledgers if trace else ()
    good = report is not None
    status = "failed" if not good else "partial" if outcome.reasons else "ok"
    date, date_from = _date(task, outcome) if good else (_file_date(task), "file")
    outputs = [
        {"path": path.name, "bytes": path.stat().st_size} for path in sorted(made.iterdir()) if path.name != RESULT
    ]
    entry = outcome.entry if good else None
    return {
        "form": FORM,
        "tracekit": __version__,
        "tool": task.tool,
        "options": task.wanted.to_json(Path(task.out)),
        "run": task.name,
        "key": task.key,
        "root": task.root,
        "inside": task.inside,
        "status": status,
        "again": outcome.again,
        "reasons": [{"file": path, "reason": _lasting(text, made, task)} for path, text in outcome.reasons],
        "date": date,
        "date_from": date_from,
        "start_ns": _start(trace) if good else None,
        "facts": dict(report.facts) if report else {},
        "figures": figures_of(trace, report) if trace and report else {},
        "events": trace.events.num_rows if trace else 0,
        "totals": trace.totals.num_rows if trace else 0,
        "records": _records(ledgers),
        "notes": [*(report.notes if report else ()), *outcome.notes],
        "sources": [
            {
                **mark_json(mark), "sha256": sha256, "format": formats.get(str(Path(task.folder, mark.path)), ""),
                "read": good and mark.path not in failed,
            }
            for mark, sha256 in zip(task.files, marks, strict=True)
        ],
        "others": list(map(mark_json, task.others)),
        "outputs": outputs,
        "archive": {"id": entry.id, "name": entry.path[len(task.wanted.archive) :].lstrip("/"), "bytes": entry.bytes}
        if entry
        else None,
    }  # fmt: skip


def _lasting(text: str, made: Path, task: Task) -> str:
    """Return a reason without the folders of this one batch."""
    return text.replace(f"{made}/", "").replace(f"{task.work}/", "")


def _records(ledgers: Sequence[Ledger]) -> dict[str, Any]:
    """Return the sum of the ledgers: of each record read, what became of it."""
    dropped: dict[str, int] = {}
    for ledger in ledgers:
        for code, count in ledger.dropped.items():
            dropped[code] = dropped.get(code, 0) + count
    sums = {name: sum(getattr(x, name) for x in ledgers) for name in ("read", "kept", "merged", "facts", "filtered")}
    ignored = sum(sum(x.ignored.values()) for x in ledgers)
    return {**sums, "ignored": ignored, "dropped": dict(sorted(dropped.items()))}


def _date(task: Task, outcome: _Made) -> tuple[str, str]:
    """Return the day of a run and whence it is known, by the archive's own rule."""
    if outcome.entry is not None:
        return outcome.entry.date.isoformat(), outcome.entry.date_from
    trace = outcome.trace
    if trace is not None:
        first = trace.events.column("ts_ns")[0].as_py() if trace.events.num_rows else None
        if (day := archive.clock_date(trace.run, first)) is not None:
            return day.isoformat(), "trace"
    return _file_date(task), "file"


def _file_date(task: Task) -> str:
    return datetime.fromtimestamp(min(mark.mtime_ns for mark in task.files) // 10**9, UTC).date().isoformat()


def _start(trace: Trace | None) -> int | None:
    """Return the Unix time of the first event in ns, None where the trace has no wall clock."""
    if trace is None or trace.run.origin_ns is None or not trace.events.num_rows:
        return None
    if archive.clock_date(trace.run, first := trace.events.column("ts_ns")[0].as_py()) is None:
        return None
    return trace.run.origin_ns + int(first)


def lost(task: Task, made: Path, reason: str) -> Outcome:
    """Return the outcome of a run whose worker did not come back; it is made here, and done again by the next batch."""
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    outcome = _Made(reasons=[("", reason)], again=True)
    result = _result(task, made, outcome, [""] * len(task.files))
    (made / RESULT).write_text(json_text(result), encoding="ascii")
    return Outcome(task.key, str(made), "failed")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
