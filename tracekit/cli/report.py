"""tracekit report: one HTML page that opens offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli._common import (
    By,
    Each,
    PageArgsMb,
    PageEvents,
    PageMb,
    ReadArguments,
    TopologyText,
    by_options,
    empty_inputs,
    example,
    finish,
    progress,
    say,
    tell_incomplete,
    tell_ledger,
)

__all__ = ["report"]


@example("tracekit report run.csv -o page.html", "tracekit report rank0.jsonl rank1.jsonl -o ranks.html --by rank")
def report(
    reading: ReadArguments,
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="Write this page.")] = "report.html",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    by: By = "",
    each: Each = False,
    topology: TopologyText = "",
    page_events: PageEvents = 2_000_000,
    page_mb: PageMb = 32,
    page_args_mb: PageArgsMb = 8,
) -> None:
    """Write one page: timeline, findings and every table.

    It opens in any browser, offline, and counts every record of the inputs. If a trace has more events than
    --page-events, the page skips the shortest, and shows where and how many.
    """
    from tracekit import pipeline
    from tracekit.errors import OutputExistsError
    from tracekit.render.base import RenderOptions
    from tracekit.views.base import ViewOptions

    if Path(output).exists() and not force:
        raise OutputExistsError(output)
    shown = ViewOptions(by=by, each=each, topology=by_options(by, topology, each=each))
    with progress(f"reading {reading.inputs[0]}") as update:
        trace = pipeline.read(reading.inputs, pipeline.for_report(reading.input_options(update)))
    how = RenderOptions(page_events=page_events, page_mb=page_mb, page_args_mb=page_args_mb)
    pipeline.write_report(trace, output, force=force, options=how, shown=shown)
    tell_incomplete(trace.incomplete)
    say(f"wrote {output}: {Path(output).stat().st_size:,} bytes, opens in any browser, needs no network")
    tell_ledger(trace.ledgers)
    finish(trace.failures, trace.incomplete, empty_inputs(trace.ledgers))
