"""tracekit archive: keep runs in a folder or an object store."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli._common import (
    EXIT_FAILED,
    ReadArguments,
    empty_inputs,
    example,
    finish,
    progress,
    render_options,
    runnable,
    say,
    tell_incomplete,
    tell_ledger,
)
from tracekit.cli.help import HelpCommand, HelpGroup
from tracekit.cli.process.limited import limit_parameters
from tracekit.cli.process.terminal import one_line, output_width
from tracekit.cli.process.terminal import show as show_text
from tracekit.errors import UsageError
from tracekit.model.display import plural
from tracekit.model.units import format_bytes

if TYPE_CHECKING:
    from datetime import date

    from tracekit.archive import Entry
    from tracekit.model.report import ReportTable

__all__ = ["archive"]

archive = typer.Typer(
    name="archive",
    cls=HelpGroup,
    help="Keep runs for years: add, list, show, verify, prune, export. An archive is a folder of self-describing "
    "Parquet files, or a URL such as s3://.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
SHORT_ID = 12

Root = Annotated[str, typer.Argument(metavar="ARCHIVE", help="A folder, or a URL such as s3://BUCKET/FOLDER.")]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="An id or its first digits, as `tracekit archive list` shows them.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="KEY[=VALUE]", help="Only runs with this tag; repeatable.")
]
Form = Annotated[str, typer.Option("--format", metavar="FORM", help="text, json, csv, spreadsheet or markdown.")]
ShortForm = Annotated[str, typer.Option("--format", metavar="FORM", help="text or json.")]


@example("tracekit archive add profiles run.csv --run nightly --tag gpu=H200")
def add(
    root: Root,
    reading: ReadArguments,
    run: Annotated[str, typer.Option(metavar="NAME", help="Name of the run; by default that of the first input.")] = "",
    tag: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Add a tag; repeatable.")] = None,
    date: Annotated[
        str, typer.Option(metavar="YYYY-MM-DD", help="Day of the run; by default from its clock, else from its file.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Archive again what the archive has already.")] = False,
) -> None:
    """Archive the inputs as one run. The same sources under the same run are archived once."""
    from tracekit import archive as archives
    from tracekit.model.trace import incomplete

    with progress(f"archiving {reading.inputs[0]}") as update:
        done = archives.add(
            root,
            reading.inputs,
            reading.input_options(update),
            run=run,
            tags=_tags(tag),
            date=date or None,
            force=force,
        )
    lost = incomplete(done.ledgers)
    tell_incomplete(lost)
    word = "added" if done.new else "changed" if done.changed else "already archived:"
    say(f"{word} {done.path}: {_rows(done.events, done.totals)}, {done.bytes:,} bytes")
    source = {"trace": "from the clock of the trace", "file": "from the last change of its file", "given": "as given"}
    say(f"run {done.run}, date {done.date} ({source[done.date_from]}){''.join(f', {t}' for t in _texts(done.tags))}")
    if done.new or done.changed:
        tell_ledger(done.ledgers)
    print(done.id)
    finish(done.failures, lost, empty_inputs(done.ledgers))


def _rows(events: int, totals: int) -> str:
    counts = [f"{n:,} {what}" for n, what in ((events, "events"), (totals, "totals")) if n]
    return " and ".join(counts) or "no events"


def _tags(words: Sequence[str] | None) -> dict[str, str]:
    tags = {}
    for word in words or ():
        key, _, value = word.partition("=")
        tags[key] = value
    return tags


def _texts(tags: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" if value else key for key, value in tags.items()]


@example("tracekit archive list profiles --tag gpu=H200 --since 2026-01-01")
def list_(
    root: Root,
    tag: Tags = None,
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Only this run.")] = None,
    since: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="Only runs since this day.")] = "",
    until: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="Only runs up to this day.")] = "",
    format_: Form = "text",
) -> None:
    """List the archived runs, oldest first."""
    from tracekit import archive as archives

    listed = archives.listing(root, tag=tag or (), since=since or None, until=until or None, run=run)
    entries, failures = listed.entries, listed.failures
    if format_ == "json":
        _print_json([entry.to_json() for entry in entries])
    else:
        _print_table(root, _listing(entries), format_)
    if not (entries or failures or archives.is_archive(root)):
        say(f"note: {root} has no archived run")
    finish(failures)


def _list_text(values: object, separator: str) -> str:
    return separator.join(map(str, values)) if isinstance(values, list) else str(values)


def _print_json(value: object) -> None:
    import json

    show_text(json.dumps(value, indent=2, ensure_ascii=True, default=str) + "\n", pager=False, form="json")


def _print_table(title: str, table: ReportTable, form: str) -> None:
    from tracekit import pipeline
    from tracekit._version import __version__
    from tracekit.model.report import Report, Section

    if form not in ("text", "csv", "spreadsheet", "markdown"):
        raise UsageError(
            f"--format {form}: not an output format", hint="one of: text, json, csv, spreadsheet, markdown"
        )
    report = Report(title, __version__, (), (Section("archive", table.title, (table,)),))
    show_text(pipeline.render(report, form, render_options(width=output_width())), pager=False, form=form)


def _listing(entries: Sequence[Entry]) -> ReportTable:
    from tracekit.model.report import Column, ReportTable
    from tracekit.model.units import Unit

    size = sum(entry.bytes for entry in entries)
    title = f"{plural(len(entries), 'run')}, {format_bytes(size)}"
    return ReportTable(
        "entries",
        title,
        (
            Column("id", "id", Unit.ID, [entry.id[:SHORT_ID] for entry in entries]),
            Column("date", "date", Unit.ID, [entry.date.isoformat() for entry in entries]),
            Column("run", "run", Unit.TEXT, [entry.run for entry in entries]),
            Column("events", "events", Unit.COUNT, [entry.events for entry in entries]),
            Column("totals", "totals", Unit.COUNT, [entry.totals for entry in entries], 3),
            Column("bytes", "size", Unit.BYTES, [entry.bytes for entry in entries], 1),
            Column("tags", "tags", Unit.TEXT, [" ".join(_texts(entry.tags)) for entry in entries], 1),
            Column("sources", "sources", Unit.COUNT, [len(entry.sources) for entry in entries], 2),
            Column("formats", "formats", Unit.TEXT, [_list_text(entry.facts["formats"], " ") for entry in entries], 2),
        ),
    )


@example("tracekit archive show profiles 8e7159b2")
def show(root: Root, entry_id: Id, format_: ShortForm = "text") -> None:
    """Show everything about one entry: run, tags, sources with their fingerprints, facts, ledgers."""
    from tracekit import archive as archives

    if format_ not in ("text", "json"):
        raise UsageError(f"--format {format_}: not an output format", hint="one of: text, json")
    entry = archives.find(root, entry_id)
    if format_ == "json":
        _print_json(entry.to_json())
        return
    lines = [entry.path]
    facts: list[tuple[str, object]] = [
        ("id", entry.id),
        ("run", entry.run),
        ("date", f"{entry.date} (from: {entry.date_from})"),
        ("tags", " ".join(_texts(entry.tags))),
        ("events", f"{entry.events:,}"),
        ("totals", f"{entry.totals:,}"),
        ("bytes", f"{entry.bytes:,}"),
        ("schema", entry.schema),
        ("tracekit", entry.version),
        *((k, v) for k, v in entry.facts.items() if isinstance(v, (str, int, float))),
        ("devices", _list_text(entry.facts["devices"], ", ")),
    ]
    lines += [f"  {key:<16} {str(value)[:400]}" for key, value in facts if str(value)]
    for source in entry.sources:
        label = f"{source.label} = " if source.label else ""
        lines.append(f"  source           {label}{source.path} ({source.format}, {source.size_bytes or 0:,} bytes)")
        lines.append(f"    sha256         {source.sha256}")
    print("\n".join(map(one_line, lines)))
    sys.stdout.flush()
    tell_ledger(entry.ledgers, whole=True)


@example("tracekit archive verify profiles")
def verify(root: Root, format_: ShortForm = "text") -> None:
    """Read every byte and count every row.

    Exits with code 1 if a file is damaged, renamed, foreign or archived twice.
    """
    from dataclasses import asdict

    from tracekit import archive as archives

    if format_ not in ("text", "json"):
        raise UsageError(f"--format {format_}: not an output format", hint="one of: text, json")
    with progress(f"verifying {root}") as update:
        audit = archives.verify(root, progress=update)
    if format_ == "json":
        _print_json(asdict(audit))
    else:
        for problem in audit.problems:
            line = f"{problem.path}: {problem.code}: {problem.text}"
            print(one_line(line))
        for path in audit.leftovers:
            print(one_line(f"{path}: of a running add, or left by a killed one: the next `add` removes that"))
        print(
            f"{audit.files:,} {'file is' if audit.files == 1 else 'files are'} undamaged: {audit.events:,} events, "
            f"{audit.totals:,} totals, {audit.bytes:,} bytes; {plural(len(audit.problems), 'problem')}"
        )
    if audit.problems:
        raise typer.Exit(EXIT_FAILED)


@example("tracekit archive prune profiles --older-than 90d --keep baseline --dry-run")
def prune(
    root: Root,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Remove runs older than this: 90d, 12w, 2y.")] = "",
    max_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Remove the oldest runs until the archive has this size: 10GiB.")
    ] = "",
    tag: Tags = None,
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Only this run.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="KEY[=VALUE]", help="Never remove runs with this tag; repeatable.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
) -> None:
    """Remove runs by age, size, tag or name. Try it with --dry-run first."""
    from tracekit import archive as archives

    before = _day_before(older_than) if older_than else None
    most = _size(max_size) if max_size else None
    done = archives.prune(
        root,
        before=before,
        max_bytes=most,
        tag=tag or (),
        run=run,
        keep=keep or (),
        dry_run=dry_run,
        partial=True,
    )
    word = "would remove" if dry_run else "removed"
    for entry in done.removed:
        print(one_line(f"{word} {entry.date} {entry.id[:SHORT_ID]} {entry.run}: {entry.bytes:,} bytes, {entry.path}"))
    for path in done.leftovers:
        print(one_line(f"{word} {path}: left by an add that was killed"))
    cut = f" (before {before})" if before else ""
    say(f"{word} {plural(len(done.removed), 'run')}{cut}, {done.bytes:,} bytes")
    say(f"{plural(done.kept, 'run')}, {done.kept_bytes:,} bytes kept")
    if most is not None and done.kept_bytes > most:
        say(f"note: that is more than --max-size {max_size}: the rest is kept by --keep, --tag or --run")
    finish(done.failures)


def _day_before(age: str) -> date:
    matched = re.fullmatch(r"(\d{1,5})([dwy])", age.strip())
    days = int(matched[1]) * {"d": 1, "w": 7, "y": 365}[matched[2]] if matched else 0
    if not matched or days > 300_000:
        raise UsageError(f"--older-than {age}: not an age", hint="days, weeks or years: 90d, 12w, 2y")
    return datetime.now(UTC).date() - timedelta(days=days)


def _size(text: str) -> int:
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if not matched:
        raise UsageError(f"--max-size {text}: not a size", hint="such as 500MB, 10GiB; without a unit: bytes")
    step = 1024 if matched[3] else 1000
    return int(float(matched[1]) * step ** " KMGT".index(matched[2].upper() or " "))


@example("tracekit archive export profiles 8e7159b2 -o kept.json.gz")
def export(
    root: Root,
    entry_id: Id,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT", help="The output file; its suffix chooses the target.")
    ],
    to: Annotated[
        str, typer.Option(metavar="TARGET", help="chrome, parquet, jsonl, csv ...; by default from the suffix.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Convert an archived run to any target of `tracekit convert`."""
    from tracekit import archive as archives
    from tracekit import pipeline
    from tracekit.inputs import InputOptions

    entry = archives.find(root, entry_id)
    with progress(f"converting {entry.path}") as update:
        done = pipeline.convert(entry.path, output, InputOptions(progress=update), to=to, force=force)
    rows = _rows(done.written.events, done.written.totals)
    say(f"wrote {output}: {rows}, {done.written.size():,} bytes")
    for reason, count in done.written.unexplained():
        say(f"note: {count:,} {'row' if count == 1 else 'rows'} not written: {reason}")
    for note in done.written.notes:
        say(f"note: {note}")
    tell_ledger(done.ledgers)


for _name, _command in (
    ("add", add),
    ("list", list_),
    ("show", show),
    ("verify", verify),
    ("prune", prune),
    ("export", export),
):
    _limits = limit_parameters() if _name in ("add", "export") else []
    _add = archive.command(name=_name, cls=HelpCommand, epilog=getattr(_command, "example", None))
    _add(runnable(_command, _limits))
