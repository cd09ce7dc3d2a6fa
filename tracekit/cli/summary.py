"""tracekit summary: tables of what took the time."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import _common
from tracekit.cli._common import (
    OUTPUT,
    SEVERAL,
    By,
    Each,
    ReadArguments,
    TopologyText,
    by_options,
    empty_inputs,
    example,
    finish,
    progress,
    render_options,
    say,
)
from tracekit.cli.process.terminal import draws_bars, in_color, output_width, show

if TYPE_CHECKING:
    from tracekit.model.report import Report
    from tracekit.rank_summaries import Summary
    from tracekit.views.base import ViewOptions

__all__ = ["summary"]

TERMINAL_ROWS = 20
"""Rows of each table at a terminal."""


@example(
    "tracekit summary run.csv",
    "tracekit summary run.csv --view kernel --top 10",
    "tracekit summary rank*.jsonl --by rank",
    "tracekit summary trace.json --all --format json",
)
def summary(
    reading: ReadArguments,
    view: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Show this view: kernel, findings, ...; repeatable.",
            autocompletion=_common.views,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show all usual tables, not one screen.", rich_help_panel=OUTPUT)
    ] = False,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORM",
            help="Print text, json, csv, spreadsheet or markdown.",
            autocompletion=_common.forms,
            rich_help_panel=OUTPUT,
        ),
    ] = "text",
    sort: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Sort by this column; -COLUMN: smallest first.",
            autocompletion=_common.sort_keys,
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    unit: Annotated[
        str, typer.Option(metavar="UNIT", help="Print all times in s, ms, us or ns.", rich_help_panel=OUTPUT)
    ] = "",
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help=f"Show N rows of a table, 0 for all; a terminal: {TERMINAL_ROWS}.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    thread_sep: Annotated[
        bool, typer.Option("--thread-sep", help="Show a block for each thread.", rich_help_panel=OUTPUT)
    ] = False,
    op_detail: Annotated[
        bool, typer.Option(help="Show below each operator what it launched.", rich_help_panel=OUTPUT)
    ] = True,
    by: By = "",
    each: Each = False,
    topology: TopologyText = "",
    pager: Annotated[
        bool, typer.Option(help="Show long output in the pager that PAGER names.", rich_help_panel=OUTPUT)
    ] = True,
    compat: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Print the tables of another profiler: paddle, ...",
            autocompletion=_common.compats,
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Read ranks apart, in N processes and in bounded memory; 0: one for each CPU. The default for more "
            "than 32 inputs.",
            rich_help_panel=SEVERAL,
        ),
    ] = None,
    dask: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Read ranks apart, on this Dask scheduler.", rich_help_panel=SEVERAL),
    ] = "",
) -> None:
    """Print one screen: what took the time, and what to look at.

    Or print tables: those of --view, or all usual ones with --all. `tracekit formats` lists the views.
    """
    from tracekit import pipeline
    from tracekit.errors import UsageError
    from tracekit.render.page.data import page_report, part_of
    from tracekit.views.base import ViewOptions

    if unit not in ("", "s", "ms", "us", "ns"):
        raise UsageError(f"--unit {unit}: no such unit", hint="one of: s, ms, us, ns")
    if (page := page_report(reading.inputs)) is not None:
        given = {"--sort": sort, "--thread-sep": thread_sep, "--no-op-detail": not op_detail, "--compat": compat}
        given |= {"--by": by, "--each": each, "--topology": topology}
        _refuse_of_page(reading, [name for name, value in given.items() if value])
        made = part_of(page, view or (), top or 0)
        shown = replace(render_options(unit, output_width()), asked=frozenset(view or ()))
        text = pipeline.render(made, format_, shown)
        show(text, pager=False, form=format_)
        finish((), made.incomplete)
        return
    values = pipeline.view_options(reading.options())
    placed = by_options(by, topology, each=each)
    asked = bool(every or view or compat or sort or thread_sep or by) or top is not None or not op_detail
    one_screen = format_ == "text" and not asked
    if top is None:
        top = TERMINAL_ROWS if format_ == "text" and not one_screen and not compat and sys.stdout.isatty() else 0
    options = ViewOptions(sort, top, thread_sep, op_detail, compat, values, by, each, placed)
    apart = _read_apart(reading, view or [], options, jobs, dask, every=every)
    if apart is not None:
        _print(apart.report, format_, unit, one_screen=one_screen, pager=pager, asked=frozenset(view or ()))
        finish(apart.failures, apart.report.incomplete)
        return
    with progress(f"reading {reading.inputs[0]}") as update:
        how = reading.input_options(update)
        of_formats = {key: text for key, text in how.options.items() if key not in values}
        how = pipeline.for_summary(replace(how, options=of_formats), compat, view or (), by_ranks=bool(by or placed))
        trace, made = pipeline.summary_of(reading.inputs, how, views=view or (), options=options)
    named = frozenset(view or ())
    _print(made, format_, unit, one_screen=one_screen, pager=pager, compat=compat, asked=named)
    if compat and format_ == "text":  # what the other profiler prints goes to stdout, and nothing else
        for note in dict.fromkeys((*made.notes, *(note for section in made.sections for note in section.notes))):
            say(f"note: {note}")
    finish(trace.failures, made.incomplete, empty_inputs(trace.ledgers))


def _read_apart(
    reading: ReadArguments, views: list[str], options: ViewOptions, jobs: int | None, dask: str, *, every: bool
) -> Summary | None:
    """Return the summary of ranks that are read apart; None where the inputs are read together. Raises: UsageError."""
    from tracekit.errors import UsageError

    if dask and jobs is not None:
        raise UsageError("--dask and --jobs contradict each other", hint="the cluster has its own workers")
    if jobs is None and not dask:
        from tracekit.inputs.paths import several

        if not several(reading.inputs):
            return None
    from tracekit import rank_summaries
    from tracekit.inputs.paths import expand, have_dumps

    items = expand(reading.inputs)
    together = not rank_summaries.fits(len(items), [*views, *(["all"] if every else [])], options)
    if jobs is None and not dask and (together or have_dumps(items)):
        return None
    with progress(f"reading {len(items):,} inputs") as update:
        how = reading.input_options(update)
        of_formats = {key: text for key, text in how.options.items() if key not in options.values}
        return rank_summaries.summary(
            reading.inputs,
            replace(how, options=of_formats),
            views=views,
            shown=options,
            jobs=jobs or 0,
            dask=dask,
            given=items,
        )


def _print(
    made: Report,
    form: str,
    unit: str,
    *,
    one_screen: bool,
    pager: bool,
    compat: str = "",
    asked: frozenset[str] = frozenset(),
) -> None:
    from tracekit import pipeline

    if one_screen:
        how_shown = render_options(unit, output_width(), color=in_color(), bars=draws_bars())
        text = pipeline.first_screen(made, how_shown)
    else:
        # What other profilers print has no colours.
        how_shown = render_options(unit, output_width(), color=in_color() and not compat)
        how_shown = replace(how_shown, asked=asked)
        text = pipeline.render(made, form, how_shown, compat=compat)
    show(text, pager=pager, form=form)


def _refuse_of_page(reading: ReadArguments, given: list[str]) -> None:
    """Refuse what needs the events. Raises: UsageError."""
    from dataclasses import fields

    from tracekit.errors import UsageError

    for field in fields(reading):
        if field.name not in ("inputs", "debug", "strict", "demangle") and getattr(reading, field.name):
            given.append(f"--{'from' if field.name == 'format' else field.name.replace('_', '-')}")
    if given:
        raise UsageError(
            f"{given[0]}: {reading.inputs[0]} is a page of tracekit, which has tables and no events",
            hint="--view, --top, --unit and --format work; give the trace itself for the others",
        )
