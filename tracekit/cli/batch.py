"""tracekit batch: every run below some folders, archived and reported; what is unchanged is left alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli._common import example, say

if TYPE_CHECKING:
    from tracekit.batch import Batch, Progress

EXIT_NOT_ALL = 3
AFTER_S = 1.0


@example("tracekit batch profiles -o out --jobs 4")
def batch(
    roots: Annotated[list[str], typer.Argument(metavar="ROOT...", help="Folders of runs; OUT in them is not read.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="Where the results stand.")] = "batch",
    jobs: Annotated[int, typer.Option(metavar="N", help="Processes of this machine; 0: one a CPU.")] = 0,
    dask: Annotated[str, typer.Option(metavar="ADDRESS", help="A Dask scheduler instead, tcp://HOST:PORT.")] = "",
    run_pattern: Annotated[
        str, typer.Option(metavar="GLOB", help="What is a run, such as 'nightly/*'; else each folder with profiles.")
    ] = "",
    archive: Annotated[
        str | None, typer.Option(metavar="ARCHIVE", help="A folder or URL to archive to; else OUT/archive.")
    ] = None,
    no_archive: Annotated[bool, typer.Option("--no-archive", help="Archive nothing.")] = False,
    to: Annotated[
        list[str] | None, typer.Option(metavar="TARGET", help="A file of this target too, such as chrome; repeatable.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A note of a reader fails its file.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do again what is unchanged too.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove results of runs whose files are gone.")] = False,
) -> None:
    """Archive and report every run below some folders, and write one page over all of them. Start it again at will."""
    from tracekit import batch as batches
    from tracekit.errors import InputError, UsageError

    if no_archive and archive is not None:
        raise UsageError("--no-archive and --archive contradict each other", hint="leave one of them out")
    if dask and jobs:
        raise UsageError("--dask and --jobs contradict each other", hint="the cluster has its own workers")
    with _progress() as update:
        done = batches.run(
            roots, output, jobs=jobs, dask=dask, run_pattern=run_pattern, archive="" if no_archive else archive,
            to=to or (), strict=strict, force=force, forget=forget, progress=update,
        )  # fmt: skip
    _tell(done)
    if not done.runs and not done.problems and not done.forgotten:
        found = (
            f"{done.others:,} {'file' if done.others == 1 else 'files'} of no known format"
            if done.others
            else "no file"
        )
        hint = "does --run-pattern match what is there?" if run_pattern else "is it the right folder?"
        raise InputError(
            f"{', '.join(done.empty)}: no run ({found})", hint=f"{hint} `tracekit formats` lists what is read"
        )
    if not done.is_whole:
        raise typer.Exit(EXIT_NOT_ALL)


def _tell(done: Batch) -> None:
    if done.cleared:
        say(f"removed what {done.cleared:,} dead {'batch' if done.cleared == 1 else 'batches'} left")
    if done.forgotten:
        say(f"forgot {done.forgotten:,} runs whose files are gone")
    for name, reasons in (*done.failed, *done.partial):
        for reason in reasons:
            say(f"error: {name}: {reason}")
    for path, reason in done.problems:
        say(f"error: {path}: {reason}")
    for path, reason in done.notes:
        say(f"note: {path}: {reason}")
    for root in done.empty if done.runs else ():
        say(f"note: {root}: no run")
    if done.dropped:
        lost, runs = sum(count for _, count in done.dropped), len(done.dropped)
        records, of = ("record" if lost == 1 else "records"), ("run" if runs == 1 else "runs")
        say(f"note: {lost:,} {records} dropped, of {runs:,} {of}; the page says how many of which")
    made = ", ".join(f"{count:,} {why}" for why, count in done.done.items())
    say(
        f"{done.runs:,} runs: {sum(done.done.values()):,} done{f' ({made})' if made else ''}, "
        f"{done.unchanged:,} unchanged"
    )
    say(
        f"{len(done.failed):,} failed, {len(done.partial):,} in part; "
        f"{done.others:,} {'file is no profile' if done.others == 1 else 'files are no profiles'} that I know"
    )
    say(f"the page: {done.page}")


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None] | None]:
    """Give what draws runs done, rate and time left on stderr, if that is a terminal, after one second."""
    if not sys.stderr.isatty():
        yield None
        return
    import threading
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
    )  # fmt: skip
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("runs", total=None, rate="")
    begun = time.monotonic()
    start = threading.Timer(AFTER_S, bar.start)
    start.daemon = True

    def update(now: Progress) -> None:
        if not now.done:
            start.start()
            bar.update(task, total=now.of)
            return
        seconds = time.monotonic() - begun
        rate = f"{now.done / seconds:.1f}/s, {now.bytes_done / seconds / 1e6:.1f} MB/s" if seconds else ""
        bar.update(task, completed=now.done, total=now.of, rate=rate)

    try:
        yield update
    finally:
        start.cancel()
        if start.ident is not None:
            start.join()
        bar.stop()
