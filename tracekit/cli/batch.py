"""tracekit batch: archive and report every run below some folders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import _ci
from tracekit.cli._common import (
    Anonymize,
    AnonymizeKey,
    AnonymizeNames,
    PageArgsMb,
    PageEvents,
    PageMb,
    anonymizer,
    example,
    finish,
    name_empty,
    say,
    warn,
)
from tracekit.model.display import plural

if TYPE_CHECKING:
    from tracekit.batch import BatchResult, Progress

__all__ = ["batch"]

EXIT_NOT_ALL = 3
BAR_AFTER_S = 1.0
NAMES_SHOWN = 3


@example("tracekit batch runs -o out --jobs 2", "tracekit batch runs -o out --budget 'kernel_time <= 10s' --force")
def batch(
    roots: Annotated[list[str], typer.Argument(metavar="ROOT...", help="Folders of runs. OUT is skipped.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="Folder for the results.")] = "batch",
    jobs: Annotated[int, typer.Option(metavar="N", help="Processes on this machine; 0 is one for each CPU.")] = 0,
    dask: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Use the Dask scheduler at this address: tcp://HOST:PORT.")
    ] = "",
    run_pattern: Annotated[
        str, typer.Option(metavar="GLOB", help="Each match is a run, such as 'nightly/*'; else each folder is.")
    ] = "",
    archive: Annotated[
        str | None, typer.Option(metavar="ARCHIVE", help="Archive in this folder or URL instead of OUT/archive.")
    ] = None,
    no_archive: Annotated[bool, typer.Option("--no-archive", help="Make no archive.")] = False,
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="TARGET", help="Also convert each run to this target, such as chrome; repeatable."),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(metavar="LIMIT", help="Limit for a key figure, such as 'step.p50 <= 120ms'; repeatable."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail a file on the first note of its reader.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do unchanged runs again too.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove results of runs whose files are gone.")] = False,
    page_events: PageEvents = 2_000_000,
    page_mb: PageMb = 32,
    page_args_mb: PageArgsMb = 8,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORM", help="Print text, or for CI github or junit.")
    ] = "text",
    anonymize: Anonymize = False,
    anonymize_names: AnonymizeNames = False,
    anonymize_key: AnonymizeKey = "",
) -> None:
    """Archive and report every run below some folders, on one page.

    Unchanged runs keep their results, so start it again at any time.
    """
    from tracekit import batch as batches
    from tracekit.errors import InputError, UsageError
    from tracekit.render.base import RenderOptions

    if format_ not in (forms := ("text", *_ci.FORMS)):
        raise UsageError(f"--format {format_}: no such form", hint=f"one of: {', '.join(forms)}")
    if no_archive and archive is not None:
        raise UsageError("--no-archive and --archive contradict each other", hint="use only one of them")
    if dask and jobs:
        raise UsageError("--dask and --jobs contradict each other", hint="the cluster has its own workers")
    with _progress() as update:
        done = batches.run_with(
            roots,
            output,
            batches.BatchOptions(
                jobs=jobs,
                dask=dask,
                run_pattern=run_pattern,
                archive="" if no_archive else archive,
                to=to or (),
                budgets=budget or (),
                strict=strict,
                force=force,
                forget=forget,
                page=RenderOptions(page_events=page_events, page_mb=page_mb, page_args_mb=page_args_mb),
                anonymize=anonymizer(anonymize_key, wanted=anonymize, names=anonymize_names),
                progress=update,
            ),
        )
    if format_ in _ci.FORMS:
        from tracekit.batch.checks import checks_of

        _ci.publish(format_, checks_of(done, ", ".join(roots)))
    _print_result(done)
    if (anonymize or anonymize_names) and not anonymize_key:
        say("note: without --anonymize-key the next batch cannot know these runs again: it needs another OUT")
    if not done.runs and not done.problems and not done.forgotten:
        found = f"{plural(done.others, 'file')} of no known format" if done.others else "no file"
        hint = "does --run-pattern match the files?" if run_pattern else "is it the right folder?"
        raise InputError(
            f"{', '.join(done.empty)}: no run ({found})", hint=f"{hint} `tracekit formats` lists the known formats"
        )
    _refuse_unmatched(done)
    if not done.is_whole:
        name_empty(done.without_events)
        raise typer.Exit(EXIT_NOT_ALL)
    finish((), [text for _, text in done.incomplete], done.without_events)


def _refuse_unmatched(done: BatchResult) -> None:
    """Raise UsageError for a budget whose figure no run has: it would be kept for ever. The results are written."""
    from tracekit.errors import UsageError

    for text, known in done.unmatched:
        raise UsageError(
            f"--budget '{text}': no run has this figure", hint=f"figures of these runs: {', '.join(known) or 'none'}"
        )


def _print_result(done: BatchResult) -> None:
    for name, text in done.incomplete:
        warn(f"{text} ({name})")
    if done.cleared:
        what = "dead batch" if done.cleared == 1 else "dead batches"
        say(f"removed the unfinished work of {done.cleared:,} {what}")
    if done.forgotten:
        say(f"removed the results of {plural(done.forgotten, 'run')} whose files are gone")
    for name, reasons in (*done.failed, *done.partial):
        for reason in reasons:
            warn(f"error: {name}: {reason}")
    for name, texts in done.over:
        for text in texts:
            warn(f"over budget: {name}: {text}")
    for path, reason in done.problems:
        warn(f"error: {path}: {reason}")
    cut = {name for name, _ in done.cut}
    in_no_trend = {name for name, _ in done.left_out}
    for name, text in done.cut:
        warn(f"error: {name} was cut: {text}{'; left out of the trends' if name in in_no_trend else ''}")
    for name, text in done.left_out:
        if name not in cut:
            say(f"note: {name}: {text}")
    for path, reason in done.notes:
        say(f"note: {path}: {reason}")
    for root in done.empty if done.runs else ():
        say(f"note: {root}: no run")
    if done.dropped:
        verb = "is" if len(done.dropped) == 1 else "are"
        records = plural(sum(count for _, count in done.dropped), "record")
        say(f"note: {records} dropped in {plural(len(done.dropped), 'run')}, which {verb} partial; the page says why")
    for title, text in done.slower[:NAMES_SHOWN]:
        say(f"slower: {title}: {text}")
    if len(done.slower) > NAMES_SHOWN:
        say(f"slower: {plural(len(done.slower) - NAMES_SHOWN, 'more program')}; the page has their figures")
    reasons_done = ", ".join(f"{count:,} {why}" for why, count in done.done.items())
    say(
        f"{plural(done.runs, 'run')}: {sum(done.done.values()):,} done"
        f"{f' ({reasons_done})' if reasons_done else ''}, {done.unchanged:,} unchanged"
    )
    for word, names in (("new", done.new), ("changed", done.changed), ("files gone", done.gone)):
        if names:
            say(f"{word}: {_first_names(names)}")
    partial = {name for name, _ in (*done.partial, *done.dropped, *done.incomplete)} - {name for name, _ in done.failed}
    say(f"{len(done.failed):,} failed, {len(partial):,} partial")
    if done.skipped:
        why = "not a known profile format, or a report read as its export"
        were = "file was" if done.others == 1 else "files were"
        say(f"{done.others:,} {were} skipped ({why}): {_first_names(done.skipped)}")
    say(f"the page: {done.page}")


def _first_names(names: Sequence[str]) -> str:
    """Return the first three names, and the number of the others."""
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{shown} and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else shown


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None] | None]:
    """Yield a function that draws runs done, rate and time left on stderr. On a terminal only, after one second."""
    if not sys.stderr.isatty():
        yield None
        return
    import threading
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    rate_column = TextColumn("{task.fields[rate]}")
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), rate_column, TimeRemainingColumn())
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("runs", total=None, rate="")
    begun = time.monotonic()
    start = threading.Timer(BAR_AFTER_S, bar.start)
    start.daemon = True

    def update(now: Progress) -> None:
        if not now.done:
            start.start()
            bar.update(task, total=now.total)
            return
        seconds = time.monotonic() - begun
        rate = f"{now.done / seconds:.1f}/s, {now.bytes_done / seconds / 1e6:.1f} MB/s" if seconds else ""
        bar.update(task, completed=now.done, total=now.total, rate=rate)

    try:
        yield update
    finally:
        start.cancel()
        if start.ident is not None:
            start.join()
        bar.stop()
