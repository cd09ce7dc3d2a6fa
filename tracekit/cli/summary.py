"""tracekit summary: tables of what took the time."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tracekit.cli import _names
from tracekit.cli._common import Reading, example, expanded, finish, output_width, progress, say

TERMINAL_ROWS = 20
"""Rows of each table at a terminal."""


@expanded
@example("tracekit summary run.csv --view kernel --top 10")
def summary(
    reading: Reading,
    view: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Show this view, such as kernel; repeat it for several, or say all. `tracekit formats` lists them.",
            autocompletion=_names.views,
        ),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORM", help="Print text, json, csv or markdown.", autocompletion=_names.forms
        ),
    ] = "text",
    sort: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Sort by this column, largest first; -COLUMN sorts smallest first.",
            autocompletion=_names.sort_keys,
        ),
    ] = "",
    unit: Annotated[
        str, typer.Option(metavar="UNIT", help="Print times in s, ms, us or ns, not each in its own.")
    ] = "",
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help=f"Show N rows of each table, 0 for all. A terminal shows {TERMINAL_ROWS} by default.",
        ),
    ] = None,
    thread_sep: Annotated[bool, typer.Option("--thread-sep", help="Show a block for each thread.")] = False,
    op_detail: Annotated[bool, typer.Option(help="Show below each operator what it called and launched.")] = True,
    compat: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Print the figures and the layout of another profiler, such as paddle. `tracekit formats` lists them.",
            autocompletion=_names.compats,
        ),
    ] = "",
) -> None:
    """Print tables by kind, device, operator, kernel, copy and API call. Times are exact; every record is counted."""
    from dataclasses import replace

    from tracekit import pipeline
    from tracekit.errors import UsageError
    from tracekit.render.base import RenderOptions
    from tracekit.views.base import ViewOptions

    if unit not in ("", "s", "ms", "us", "ns"):
        raise UsageError(f"--unit {unit}: no such unit", hint="one of: s, ms, us, ns")
    values = pipeline.view_options(reading.options())
    with progress(f"reading {reading.inputs[0]}") as update:
        how = reading.input_options(update)
        of_formats = {key: text for key, text in how.options.items() if key not in values}
        how = pipeline.for_summary(replace(how, options=of_formats), compat, view or ())
        trace = pipeline.read(reading.inputs, how)
    if top is None:
        top = TERMINAL_ROWS if format_ == "text" and not compat and sys.stdout.isatty() else 0
    options = ViewOptions(sort, top, thread_sep, op_detail, compat, values)
    made = pipeline.summary(trace, views=view or (), options=options)
    text = pipeline.render(made, format_, RenderOptions(time_unit=unit, width=output_width()), compat=compat)
    sys.stdout.write(text)
    if compat and format_ == "text":  # what the other profiler prints goes to stdout, and nothing else
        for note in dict.fromkeys((*made.notes, *(note for section in made.sections for note in section.notes))):
            say(f"note: {note}")
    finish(trace.failures, made.incomplete)
