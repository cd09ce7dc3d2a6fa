"""tracekit compare: the change between two sides of runs, with a verdict and gates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import _ci
from tracekit.cli._common import EXIT_GATE, example, finish, form_of, print_error, progress, say
from tracekit.cli.process import settings
from tracekit.cli.process.terminal import output_width, show
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


@example("tracekit compare 'base/*.json' 'new/*.json' --fail-on 'step.p50 > 3%'")
def compare(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BASE NEW",
            show_default=False,
            help="Each is a file, a folder of repeats, an archive, ARCHIVE:ID, ARCHIVE:TAG, or a pattern in quotes: "
            "'runs/*.json'.",
        ),
    ] = None,
    base: Annotated[list[str] | None, typer.Option(metavar="INPUT", help="A run of BASE; repeatable.")] = None,
    new: Annotated[list[str] | None, typer.Option(metavar="INPUT", help="A run of NEW; repeatable.")] = None,
    baseline: Annotated[
        str, typer.Option(metavar="ARCHIVE:TAG", help="Use archived runs as BASE, by tag, run=NAME or id.")
    ] = "",
    history: Annotated[
        bool,
        typer.Option("--history", help="Show the trend and change points of BASE, and compare with its last level."),
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help='Exit with code 3 if the limit is exceeded: "step.p50 > 3%"; repeatable.'),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 3 also if the data is not enough to decide a rule.")
    ] = False,
    min_effect: Annotated[str, typer.Option(metavar="P%", help="Ignore smaller changes.")] = "1%",
    same_within: Annotated[
        str, typer.Option(metavar="P%", help='The verdict is "same" if the whole interval is within this.')
    ] = "3%",
    by: Annotated[
        str, typer.Option("--by", metavar="module|operator", help="Divide the change of the device time by these.")
    ] = "",
    one_run: Annotated[bool, typer.Option("--one-run", help="Read a folder as one run, not as repeats.")] = False,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORM",
            help="text, json, markdown, html, csv, spreadsheet, or for CI github or junit; else from the suffix.",
        ),
    ] = "",
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="A file, or - for stdout.")] = "-",
    unit: Annotated[
        str, typer.Option(metavar="UNIT", help="s, ms, us or ns; by default each column has its own.")
    ] = "",
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Names in each table, 0 for all; 20 in text and markdown."),
    ] = None,
    reader: Annotated[str, typer.Option("--from", metavar="FORMAT", help="Read the inputs as this format.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Compare runs: the verdict, its certainty, and the parts of the change, exact to the ns."""
    from tracekit import pipeline
    from tracekit.comparison import MET, VIOLATED, VerdictLimits, checks_of, report_of
    from tracekit.comparison import compare as compare_runs
    from tracekit.inputs import refuse_inputs
    from tracekit.render.base import RenderOptions
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
    if top is None:
        top = _TOP if form in ("text", "markdown", "github") else 0
    report = report_of(comparison, top=top)
    width = output_width() if output == "-" else 0
    for_ci = form in _ci.FORMS
    how = RenderOptions(time_unit=unit, width=width)
    text = "" if form == "junit" else pipeline.render(report, "markdown" if for_ci else form, how)
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
        finish(comparison.failures, comparison.incomplete)
    for checked in comparison.checked:
        if checked.state != MET:
            if not for_ci:  # the output says it
                say(f"{checked.state}: {checked.rule.text}: {checked.text}")
            failed |= checked.state == VIOLATED or strict
    if failed:
        for failure in comparison.failures:
            print_error(failure.error)
        raise typer.Exit(EXIT_GATE)
    finish(comparison.failures)


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
