"""tracekit doctor: the defects of profiles, what each viewer does with them, and a repaired trace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import _ci, _common
from tracekit.cli._common import EXIT_GATE, READING, EmptyInput, example, finish, progress
from tracekit.cli.process.terminal import output_width, show
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from tracekit.doctor import Diagnosis, DoctorOptions
    from tracekit.errors import Failure

__all__ = ["doctor"]


@example("tracekit doctor trace.json", "tracekit doctor trace.json --fix -o repaired.json.gz")
def doctor(
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT...", help="Files, folders, patterns, URLs, or - for stdin.")
    ],
    format: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="Read as this format, not as recognised.",
            autocompletion=_common.formats,
            rich_help_panel=READING,
        ),
    ] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="Set an option of a format.",
            autocompletion=_common.options,
            rich_help_panel=READING,
        ),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Write a trace without the defects to -o.")] = False,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="The repaired trace: .json, .json.gz or .pftrace. Without --fix: the output of github or junit.",
        ),
    ] = "",
    to: Annotated[str, typer.Option(metavar="TARGET", help="chrome or perfetto; else the suffix decides.")] = "",
    ledger: Annotated[str, typer.Option(metavar="FILE", help="List every change in FILE, not OUT.ledger.jsonl.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORM", help="Print text or json, or for CI github or junit.")
    ] = "text",
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """Name the defects of a trace, what viewers do with it; repair it.

    Exits with code 3 while there are defects.
    """
    from tracekit.doctor import DoctorOptions, diagnose
    from tracekit.errors import Failure
    from tracekit.inputs import expand, refuse_inputs
    from tracekit.options import split

    del debug  # `runnable` looks at it
    forms = ("text", "json", *_ci.FORMS)
    if format_ not in forms:
        raise UsageError(f"--format {format_}: no such form", hint=f"one of: {', '.join(forms)}")
    for_ci = format_ in _ci.FORMS
    if fix and for_ci:
        raise UsageError(f"--format {format_} with --fix", hint="run doctor once for the checks, and once for --fix")
    if not fix and ((output and not for_ci) or ledger or to):
        raise UsageError("-o, --to and --ledger belong to --fix", hint=f"tracekit doctor {inputs[0]} --fix -o OUT")
    items = expand(inputs)
    if for_ci:
        _ci.refuse_existing(output, force=force)
        refuse_inputs(output or "-", inputs)
    with ExitStack() as stack:
        update = stack.enter_context(progress(f"reading {inputs[0]}"))
        options = DoctorOptions(format, split(option or ()), progress=update)
        if fix:
            _fix([item.name for item in items], options, output, to, ledger, force=force, form=format_)
            return
        found: list[Diagnosis] = []
        names: list[str] = []
        failures: list[Failure] = []
        for item in items:
            try:
                found.append(diagnose(item.name, options))
                names.append(item.name)
            except TracekitError as err:
                if len(items) == 1 and not for_ci:
                    raise
                failures.append(Failure(item.name, err))
    if for_ci:
        _publish(format_, list(zip(names, found, strict=True)), failures, output or "-", force=force)
    elif format_ == "json":
        _print_json({"inputs": [each.to_json() for each in found]})
    else:
        from tracekit.doctor.text import diagnosis_text

        show("\n".join(diagnosis_text(each, output_width()) for each in found))
    diagnosed = zip(names, found, strict=True)
    empty = [EmptyInput(name, x.format) for name, x in diagnosed if not (x.events or x.totals or x.findings)]
    finish(failures, (), empty)
    if not all(each.is_clean for each in found):
        raise typer.Exit(EXIT_GATE)


def _publish(
    form: str, found: Sequence[tuple[str, Diagnosis]], failures: Sequence[Failure], output: str, *, force: bool
) -> None:
    """Print the defects for a CI system."""
    from tracekit import pipeline
    from tracekit.doctor.checks import checks_of, report_of
    from tracekit.render.base import RenderOptions

    details = (
        pipeline.render(report_of([each for _, each in found]), "markdown", RenderOptions()) if form == "github" else ""
    )
    _ci.publish(form, checks_of(found, failures), details=details, output=output, force=force)


def _fix(
    names: list[str], options: DoctorOptions, output: str, to: str, ledger: str, *, force: bool, form: str
) -> None:
    """Write the repaired trace, and print what was changed."""
    from tracekit.doctor import repair

    if len(names) != 1:
        raise UsageError("--fix repairs one input at a time", hint="name one file")
    if not output.strip() or output == "-":
        raise UsageError("--fix needs -o OUT, a file", hint=f"tracekit doctor {names[0]} --fix -o repaired.json.gz")
    done = repair(names[0], output, options, to=to, force=force, ledger=ledger or None)
    if form == "json":
        _print_json({"inputs": [done.before.to_json()], "fixed": done.to_json()})
    else:
        from tracekit.doctor.text import diagnosis_text, repair_text

        width = output_width()
        show("\n".join((diagnosis_text(done.before, width), repair_text(done, width))))
    if done.after is not None and not done.after.is_clean:
        raise typer.Exit(EXIT_GATE)


def _print_json(data: dict[str, object]) -> None:
    import orjson

    from tracekit._version import __version__

    text = orjson.dumps({"tracekit": __version__, **data}, option=orjson.OPT_INDENT_2).decode()
    show(f"{text}\n", pager=False, form="json")
