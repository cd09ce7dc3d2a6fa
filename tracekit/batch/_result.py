"""The state of a run while it is done, and its result, as it is written into its folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path

from tracekit import archive
from tracekit._version import __version__
from tracekit.batch._programs import names_hashed
from tracekit.batch._scan import FileState, hidden_result
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
from tracekit.batch.plan import RunTask, file_state_json
from tracekit.inputs import stored_name
from tracekit.lazy_dataclass import dataclass
from tracekit.model.cuts import where_cut
from tracekit.model.report import Report
from tracekit.model.trace import Ledger, Trace, all_ledgers


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of a worker. folder: the finished one; "" if it could not make one, with the reason in `error`."""

    key: str
    folder: str
    status: str
    error: str = ""


@dataclass(slots=True)
class RunState:
    """The state of a run. reasons: (file, reason); file is "" for the run as a whole. again: the next batch retries."""

    trace: Trace | None = None
    entry: archive.Entry | None = None
    report: Report | None = None
    reasons: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    again: bool = False


def result_of(task: RunTask, folder: Path, state: RunState, digests: Sequence[str]) -> RunResult:
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
    outputs = [path for path in sorted(folder.iterdir()) if path.name != RESULT_NAME]
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
        "reasons": [{"file": path, "reason": _without_work_folder(text, folder, task)} for path, text in state.reasons],
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
    # A hash of a short name can be guessed, so an anonymous result has none.
    if report is not None and task.options.anonymize is None:
        result["program"] = names_hashed(report)
    if trace is not None and (cut := where_cut(all_ledgers(trace.ledgers, trace.run))):
        result["cut"] = cut
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


def _without_work_folder(text: str, folder: Path, task: RunTask) -> str:
    """Return a reason without the paths of this batch's unfinished folders."""
    return text.replace(f"{folder}/", "").replace(f"{task.work}/", "")


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


def _date(task: RunTask, state: RunState) -> tuple[str, str]:
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


def lost_outcome(task: RunTask, folder: Path, reason: str, *, again: bool = True) -> Outcome:
    """Return the outcome of a run whose process was ended. again: the next batch does the run again."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    state = RunState(reasons=[("", reason)], again=again)
    result = result_of(task, folder, state, [""] * len(task.files))
    (folder / RESULT_NAME).write_text(json_text(result), encoding="ascii")
    return Outcome(task.key, str(folder), "failed")
