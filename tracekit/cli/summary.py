"""tracekit summary: tables of what took the time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli._common import Reading, example, expanded, finish, output_width, progress, say

if TYPE_CHECKING:
    pass


@expanded
@example("tracekit summary run.csv --view kernel --top 10")
def summary(
    reading: Reading,
    view: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="overview, device, kernel, operator ...; repeatable; all: every table."),
    ] = None,
    format_: Annotated[str, typer.Option("--format", metavar="FORM", help="text, json, csv or markdown.")] = "text",
    sort: Annotated[
        str, typer.Option(metavar="COLUMN", help="Sort by it, largest first; -COLUMN: smallest first.")
    ] = "",
    unit: Annotated[
        str, typer.Option(metavar="UNIT", help="s, ms, us or ns; without it each column has its own.")
    ] = "",
    top: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Rows a table, 0 for all; at a terminal 20 unless said.")
    ] = None,
    thread_sep: Annotated[bool, typer.Option("--thread-sep", help="A block for each thread.")] = False,
    op_detail: Annotated[bool, typer.Option(help="Below each operator what it called and launched.")] = True,
    compat: Annotated[
        str, typer.Option(metavar="NAME", help="Figures and layout of paddle, fluid, theano, singa or mxnet.")
    ] = "",
) -> None:
    """Print tables: by kind, device, kernel, copy and API call. Times are exact; every record is accounted for."""
    from dataclasses import replace

    from tracekit import pipeline
    from tracekit.errors import UsageError
    from tracekit.render.base import RenderOptions
    from tracekit.views.base import ViewOptions

    if unit not in ("", "s", "ms", "us", "ns"):
        raise UsageError(f"--unit {unit}: no such unit", hint="one of: s, ms, us, ns")
    views = pipeline.views_of(compat, view or ())
    given = reading.options()
    numbers, thresholds = _view_numbers(given), _thresholds(given)
    how = replace(reading.input_options(), options=given)
    with progress(f"reading {reading.inputs[0]}") as update:
        trace = pipeline.read(reading.inputs, replace(how, columns=pipeline.columns_of(views, compat), progress=update))
    if top is None:
        top = 20 if format_ == "text" and not compat and sys.stdout.isatty() else 0
    options = ViewOptions(sorted_by=sort, top=top, thread_sep=thread_sep, op_detail=op_detail, compat=compat, **numbers)
    options = replace(options, thresholds=thresholds)
    made = pipeline.summary(trace, views=view or (), options=options)
    text = pipeline.render(made, format_, RenderOptions(time_unit=unit, width=output_width()), compat=compat)
    sys.stdout.write(text)
    if compat and format_ == "text":  # what the upstream prints goes to stdout, and nothing else
        for note in dict.fromkeys((*made.notes, *(note for section in made.sections for note in section.notes))):
            say(f"note: {note}")
    finish(trace.failures)


def _view_numbers(options: dict[str, str]) -> dict[str, Any]:
    """Take the options of single views out of those of formats. Raises: UsageError for a value that is no count."""
    from tracekit.errors import UsageError
    from tracekit.views.base import VIEW_NUMBERS

    found = {key: options.pop(key) for key in VIEW_NUMBERS if key in options}
    for key, text in found.items():
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise UsageError(f"--option {key}={text}: not a count", hint=f"such as --option {key}=20")
    return {key: int(text) for key, text in found.items()}


def _thresholds(options: dict[str, str]) -> dict[str, float]:
    """Take the thresholds of findings out of those of formats. Raises: UsageError for a value that is no number."""
    from tracekit.errors import UsageError
    from tracekit.views.findings.findings import THRESHOLDS, chosen

    found = {key: options.pop(key) for key in THRESHOLDS if key in options}
    numbers = {}
    for key, text in found.items():
        try:
            numbers[key] = float(text)
        except ValueError as err:
            raise UsageError(f"--option {key}={text}: not a number", hint=THRESHOLDS[key].meaning) from err
    chosen(numbers)
    return numbers
