"""tracekit explain: the difference of two numbers, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli._common import ReadArguments, empty_inputs, example, finish, progress, render_options
from tracekit.cli.process.terminal import output_width, show

if TYPE_CHECKING:
    pass

__all__ = ["explain"]


@example("tracekit explain run.csv kernel.total device.kernel_time")
def explain(
    reading: ReadArguments,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORM", help="text, json, csv, spreadsheet, markdown.")
    ] = "text",
    unit: Annotated[str, typer.Option(metavar="UNIT", help="s, ms, us or ns.")] = "",
) -> None:
    """Explain why two numbers differ. The last two arguments are cells: VIEW.COLUMN or VIEW.ROW.COLUMN."""
    from tracekit import pipeline
    from tracekit.errors import UsageError
    from tracekit.explanation import explain as explained

    if len(reading.inputs) < 3:
        raise UsageError(
            "explain needs at least one input and two cells",
            hint="tracekit explain run.csv kernel.total device.kernel_time",
        )
    *inputs, left, right = reading.inputs
    with progress(f"reading {inputs[0]}") as update:
        trace = pipeline.read(inputs, reading.input_options(update))
    empty = empty_inputs(trace.ledgers)
    if len(empty) == len(trace.ledgers):  # no cell has a value
        finish(trace.failures, trace.incomplete, empty)
    made = explained(trace, left, right)
    show(pipeline.render(made, format_, render_options(unit, output_width(), exact=True)), form=format_)
    finish(trace.failures, made.incomplete, empty)
