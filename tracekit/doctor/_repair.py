"""Writing a trace without the defects of its input, with a list of every change.

The input is read a second time. Rows with a defect are changed by the repair of its class, or left out. The reader has
repaired the text before, and the writer gives each track slices that nest, small ids and times that viewers keep.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import orjson
from isal import igzip

from tracekit._version import __version__
from tracekit.conversion import writer_for
from tracekit.doctor._changes import Changes
from tracekit.doctor._diagnosis import USUAL, DoctorOptions, Examined, begin, examine, sources
from tracekit.doctor.findings import Diagnosis
from tracekit.errors import Option, OutputExistsError, UsageError, sentence
from tracekit.inputs import refuse_inputs, steps
from tracekit.privacy.guard import Guard
from tracekit.readers.source import Source
from tracekit.writers.base import Stream, WriteOptions, Writer, new_file

_WRITTEN_ANEW = {"empty-object", "open-list"}
"""Remarks that a viewer stumbles over all the same."""
TARGETS = ("chrome", "perfetto")


@dataclass(slots=True)
class Repair:
    """The result of a repair. before: the input's diagnosis. after: the output's, None for one that is not read.

    Records: read = kept + changed + merged + facts + sum(ignored) + sum(dropped). changes: class -> rows changed or
    left out. ledger: the file with every change.
    """

    before: Diagnosis
    after: Diagnosis | None
    output: Path
    ledger: Path
    read: int = 0
    kept: int = 0
    changed: int = 0
    merged: int = 0
    facts: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    written: int = 0

    def to_json(self) -> dict[str, object]:
        """Return the public form: the first line of the ledger file, and `fixed` of `--format json`."""
        return {
            "input": self.before.path,
            "output": self.output.name,
            "ledger": self.ledger.name,
            "read": self.read,
            "kept": self.kept,
            "changed": self.changed,
            "merged": self.merged,
            "facts": self.facts,
            "ignored": dict(sorted(self.ignored.items())),
            "dropped": dict(sorted(self.dropped.items())),
            "changes": dict(sorted(self.changes.items())),
            "written": self.written,
            "clean": None if self.after is None else self.after.is_clean,
        }


def repair(
    name: str,
    target: str | Path,
    options: DoctorOptions = USUAL,
    *,
    to: str = "",
    force: bool = False,
    ledger: str | Path | None = None,
) -> Repair:
    """Write a trace without the defects of an input, and the list of changes; the suffix or `to` names the target.

    ledger: the file for the changes; None: beside the target, with ".ledger.jsonl" behind its name. Each is written
    whole or not at all, the trace first: a kill between the two leaves it without its list.
    Raises: TracekitError.
    """
    target = Path(target)
    listing = target.with_name(f"{target.name}.ledger.jsonl") if ledger is None else Path(ledger)
    writer = writer_for(target, to)
    if writer.name not in TARGETS:
        raise UsageError(
            sentence(Option("fix"), f" writes a trace for viewers, not {writer.name}"),
            hint=sentence("pass ", Option("to", takes="TARGET"), f"; targets: {', '.join(TARGETS)}"),
            choices=TARGETS,
        )
    for path in (target, listing):
        refuse_inputs(path, [name])
        if path.exists() and not force:
            raise OutputExistsError(str(path))
    with sources(name) as source:
        examined = examine(source, name, options)
        if examined.diagnosis.totals and not examined.diagnosis.events:
            raise UsageError(
                f"{examined.diagnosis.path} has only totals, no events: a trace needs a timeline",
                hint="`tracekit summary` shows the totals",
            )
        done = Repair(examined.diagnosis, None, target, listing)
        with new_file(listing, force=force) as changes:

            def line(change: dict[str, object]) -> None:
                changes.write(orjson.dumps(change, default=str) + b"\n")

            if _may_stay(examined) and writer.name == "chrome":
                _copy(source, target, force=force)
                _add_up(done, examined, None)
            else:
                _write(done, examined, source, name, options, writer, line, force=force)
            if writer.name == "chrome":
                with sources(str(target)) as written:
                    done.after = examine(written, str(target), DoctorOptions()).diagnosis
            line({"summary": {"tracekit": __version__, **done.to_json()}})
    return done


def _may_stay(examined: Examined) -> bool:
    """Return whether the input is a trace in JSON that every viewer takes as it is."""
    remarks = {each.defect.code for each in examined.diagnosis.remarks}
    return examined.reader.trace_events and examined.diagnosis.is_clean and not remarks & _WRITTEN_ANEW


def _copy(source: Source, target: Path, *, force: bool) -> None:
    """Write the text of a trace without defects as it is; packed where the name of the target ends with .gz."""
    with new_file(target, force=force) as out, closing(source.binary()) as text:
        if not target.name.lower().endswith(".gz"):
            shutil.copyfileobj(text, out, 1 << 20)
            return
        with igzip.IGzipFile(filename="", mode="wb", fileobj=out, compresslevel=1, mtime=0) as packed:
            shutil.copyfileobj(text, packed, 1 << 20)


def _write(
    done: Repair,
    examined: Examined,
    source: Source,
    name: str,
    options: DoctorOptions,
    writer: Writer,
    line: Callable[[dict[str, object]], None],
    *,
    force: bool,
) -> None:
    reading = begin(source, name, options, sort=examined.sort)
    found = {each.defect.code: each.rows for each in examined.diagnosis.findings if len(each.rows)}
    if "clock-skew" in found:
        found["clock-skew"] = np.concatenate((found["clock-skew"], examined.checks.forsaken))
    if len(broken := examined.repaired_json()):
        found["bad-escape"] = broken
    codes = {each.defect.code for each in examined.diagnosis.findings}
    changes = Changes(codes, found, examined.bad_points, examined.checks.groups, examined.reader.record, line)
    ledgers = (reading.ledger, *reading.opened.ledgers[1:])
    with closing(reading.rows()) as rows:
        batches = steps.marked(rows, reading.ledger) if examined.reader.steps else rows
        guard = Guard(reading.opened.run, ledgers)
        stream = Stream(reading.opened.run, changes.apply(map(guard.rows, batches)), ledgers)
        written = writer.write(stream, done.output, WriteOptions(force=force, version=__version__))
        guard.facts(last=True)
    for code, places in reading.ledger.every.items():
        if code in reading.ledger.dropped:
            note = reading.ledger.notes[code]
            for place in places:
                line({"record": place, "defect": code, "change": note.text, "count": note.count})
    done.written, done.output = written.events, written.path
    _add_up(done, examined, changes)
    for reason, count in written.left_out.items():
        done.dropped[reason] = done.dropped.get(reason, 0) + count
        done.kept -= count


def _add_up(done: Repair, examined: Examined, changes: Changes | None) -> None:
    """Put the numbers of records into the result; without changes all are as they were."""
    ledger = examined.ledger
    done.read, done.merged, done.facts = ledger.read, ledger.merged, ledger.facts
    done.ignored, done.dropped = dict(ledger.ignored), dict(ledger.dropped)
    done.kept = ledger.kept
    if changes is None:
        done.written = ledger.events_out
    if changes is not None:
        done.changed, done.changes = changes.changed(), changes.counts
        done.kept -= done.changed
        if changes.dropped:
            done.dropped["arrow with a defect"] = changes.dropped
            done.kept -= changes.dropped
