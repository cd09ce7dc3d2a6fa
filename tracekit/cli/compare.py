"""tracekit compare: the change between two sides of runs, with a verdict and gates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import _ci
from tracekit.cli._common import (
    EXIT_GATE,
    OUTPUT,
    READING,
    example,
    finish,
    form_of,
    print_error,
    progress,
    render_options,
    warn,
)
from tracekit.cli.process import settings
from tracekit.cli.process.terminal import output_width, show
from tracekit.cli.process.verbosity import Verbosity, verbosity
from tracekit.errors import OutputExistsError, UsageError

if TYPE_CHECKING:
    pass

__all__ = ["compare"]

_BY_SUFFIX = {
    ".json": "json",
    ".md": "markdown",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".txt": "text",
    ".xml": "junit",
}
_TOP = 20
_SCREEN = 30
"""The lines of a short report."""
_SIZES = ((5, 4, 4), (5, 4, 2), (4, 4, 2), (3, 4, 2), (3, 3, 2), (2, 3, 2), (2, 2, 1), (2, 1, 1))
"""Parts, names and metrics of a short report: the first of these that fits one screen, else the last one."""
GATES = "Gates"
"""The group of options on the verdict and the exit code."""


@example(
    "tracekit compare rank0.jsonl rank1.jsonl",
    "tracekit compare runs/monday runs/tuesday --one-run --all",
    "tracekit compare 'rank0*' 'rank1*' --fail-on 'step.p50 > 30%'",
)
def compare(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BASE NEW",
            show_default=False,
            help="Files, folders of repeats, archives, ARCHIVE:ID, ARCHIVE:TAG, or patterns in quotes: 'runs/*.json'.",
        ),
    ] = None,
    base: Annotated[list[str] | None, typer.Option(metavar="INPUT", help="A run of BASE; repeatable.")] = None,
    new: Annotated[list[str] | None, typer.Option(metavar="INPUT", help="A run of NEW; repeatable.")] = None,
    baseline: Annotated[
        str, typer.Option(metavar="ARCHIVE", help="Archived runs as BASE, by tag, run=NAME or id.")
    ] = "",
    history: Annotated[
        bool,
        typer.Option("--history", help="Show the trend of BASE; compare with its last level."),
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE", help='Exit with code 3 if exceeded: "step.p50 > 3%"; repeatable.', rich_help_panel=GATES
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 3 also if a rule is undecided.", rich_help_panel=GATES),
    ] = False,
    min_effect: Annotated[
        str, typer.Option(metavar="P%", help="Ignore smaller changes.", rich_help_panel=GATES)
    ] = "1%",
    same_within: Annotated[
        str,
        typer.Option(metavar="P%", help="Same: the whole interval is within this.", rich_help_panel=GATES),
    ] = "3%",
    by: Annotated[str, typer.Option("--by", metavar="LEVEL", help="Divide the change by module or operator.")] = "",
    one_run: Annotated[
        bool,
        typer.Option("--one-run", help="Read a folder as one run, not as repeats.", rich_help_panel=READING),
    ] = False,
    every: Annotated[
        bool,
        typer.Option("--all", help="Print all metrics, names and runs, not one screen.", rich_help_panel=OUTPUT),
    ] = False,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORM",
            help="text, json, markdown, html, csv, spreadsheet, github or junit.",
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="OUT", help="A file, or - for stdout.", rich_help_panel=OUTPUT),
    ] = "-",
    unit: Annotated[
        str, typer.Option(metavar="UNIT", help="Print all times in s, ms, us or ns.", rich_help_panel=OUTPUT)
    ] = "",
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Names in each table, 0 for all; implies --all.", rich_help_panel=OUTPUT),
    ] = None,
    reader: Annotated[
        str,
        typer.Option(
            "--from", metavar="FORMAT", help="Read as this format, not as recognised.", rich_help_panel=READING
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Compare runs: faster, slower or the same, how sure, and where.

    The parts of a change add up to the ns. Exits with code 3 if a --fail-on rule is violated, or cannot be judged
    because a side was cut.
    """
    from tracekit import pipeline
    from tracekit.comparison import FAILING, MET, VerdictLimits, checks_of, report_of, short_report
    from tracekit.comparison import compare as compare_runs
    from tracekit.inputs import refuse_inputs
    from tracekit.writers.base import new_file

    form = form_of(format_, output, _BY_SUFFIX, _ci.FORMS)
    if unit not in ("", "s", "ms", "us", "ns"):
        raise UsageError(f"--unit {unit}: not a unit", hint="one of: s, ms, us, ns")
    first, second = _sides(words or [], base or [], new or [], baseline, history=history)
    if not second and fail_on == settings.in_force("fail-on"):
        fail_on = None  # a project's rules are about changes, and a history alone has none
    limits = VerdictLimits(_percent("--min-effect", min_effect), _percent("--same-within", same_within))
    if output != "-" and Path(output).exists() and not force:
        raise OutputExistsError(output)
    refuse_inputs(output, [*first, *second])
    with progress("comparing") as update:
        comparison = compare_runs(
            first,
            second,
            rules=fail_on or (),
            limits=limits,
            history=history,
            format=reader,
            one_run=one_run,
            partial=True,
            by=by,
            progress=update,
        )
    all_names = top is not None
    if top is None:
        top = _TOP if form in ("text", "markdown", "github") else 0
    short = form == "text" and not every and not all_names and verbosity() < Verbosity.VERBOSE
    width = output_width() if output == "-" else 0
    for_ci = form in _ci.FORMS
    how = render_options(unit, width)
    if short:
        for rows, names, metrics in _SIZES:
            report = short_report(comparison, rows=rows, names=names, metrics=metrics)
            text = pipeline.render(report, form, how)
            if len(text.splitlines()) <= _SCREEN:
                break
    elif form == "junit":
        text = ""
    else:
        text = pipeline.render(report_of(comparison, top=top), "markdown" if for_ci else form, how)
    if for_ci:
        checks = checks_of(comparison, strict=strict)
        _ci.publish(form, checks, details=text, output=output, force=force)
        sys.stdout.flush()
    elif output == "-":
        show(text, form=form)
        sys.stdout.flush()
    else:
        with new_file(Path(output), force=force) as file:
            file.write(text.encode("utf-8", "replace"))
    failed = False
    if comparison.incomplete:  # a rule on what is left decides nothing
        finish(comparison.failures, comparison.incomplete, comparison.empty)
    for checked in comparison.checked:
        if checked.state != MET:
            if not for_ci:  # the output says it
                warn(f"{checked.state}: {checked.rule.text}: {checked.text}")
            failed |= checked.state in FAILING or strict
    if failed and not comparison.empty:  # an empty input is an input that failed
        for failure in comparison.failures:
            print_error(failure.error)
        raise typer.Exit(EXIT_GATE)
    finish(comparison.failures, (), comparison.empty)


def _sides(
    words: list[str], base: list[str], new: list[str], baseline: str, *, history: bool
) -> tuple[list[str], list[str]]:
    """Return the words of the two sides. Raises: UsageError."""
    given = [*base, *([baseline] if baseline else [])]
    rest = list(words)
    if not given:
        if not rest:
            raise UsageError("BASE is missing", hint="tracekit compare BASE NEW")
        given, rest = rest[:1], rest[1:]
    if not new and rest:
        new, rest = rest[:1], rest[1:]
    if rest:
        raise UsageError(
            f"{len(words)} inputs, but compare takes two sides",
            hint="put a pattern in quotes, 'runs/*.json', or name repeats with --base and --new",
        )
    if not new and not history:
        raise UsageError("NEW is missing", hint="tracekit compare BASE NEW")
    return given, new


def _percent(option: str, text: str) -> float:
    from tracekit.model.units import split_quantity

    try:
        number, unit = split_quantity(text)
    except ValueError:
        number, unit = None, ""
    if number is None or unit not in ("%", "") or not 0 <= number <= 100:
        raise UsageError(f"{option} {text}: not a percentage", hint=f"such as {option} 1%")
    return float(number) / 100
