"""tracekit query: SQL over any input."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli._common import example, finish, form_of, progress, say, tell_incomplete
from tracekit.cli.process.terminal import output_width, show, show_bytes
from tracekit.errors import OutputExistsError, UsageError
from tracekit.safety.scratch import scratch_file, scratch_folder

if TYPE_CHECKING:
    pass

__all__ = ["query"]

_BY_SUFFIX = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".txt": "text", ".md": "markdown"}


@example('tracekit query run.csv "SELECT kind, count(*) AS n FROM events GROUP BY kind"')
def query(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, folders, archives, URLs.")],
    sql: Annotated[str, typer.Argument(metavar="SELECT", help="One SELECT over the views events and totals.")],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORM",
            help="text, markdown, csv, spreadsheet, json or parquet; by default from the suffix.",
        ),
    ] = "",
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="A file, or - for stdout.")] = "-",
    unit: Annotated[str, typer.Option(metavar="UNIT", help="s, ms, us or ns for columns named _ns in text.")] = "",
    reader: Annotated[str, typer.Option("--from", metavar="FORMAT", help="Read the inputs as this format.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Make the first note of reading an error.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Query the events of any input in SQL.

    DuckDB can read the inputs, and nothing else: pip install 'tracekit-gpu[query]'.
    """
    from tracekit.inputs import InputOptions, refuse_inputs
    from tracekit.model.trace import incomplete
    from tracekit.queries import ask, render, write
    from tracekit.render.base import RenderOptions
    from tracekit.writers.base import new_file

    with suppress(UnicodeError):  # in the C locale, Python leaves the bytes of a word that are not ASCII
        sql = os.fsencode(sql).decode("utf-8")
    form = form_of(format_, output, _BY_SUFFIX)
    if unit not in ("", "s", "ms", "us", "ns"):
        raise UsageError(f"--unit {unit}: not a unit", hint="one of: s, ms, us, ns")
    if _is_input(sql):
        raise UsageError(
            f"{sql}: this is an input, but the last argument is the query", hint='tracekit query INPUT... "SELECT ..."'
        )
    if output != "-" and Path(output).exists() and not force:
        raise OutputExistsError(output)
    refuse_inputs(output, inputs)
    shown = ""
    with (
        progress(f"reading {inputs[0]}") as update,
        ask(inputs, sql, InputOptions(format=reader, strict=strict, partial=True, progress=update)) as answer,
    ):
        lost = incomplete(answer.ledgers)
        tell_incomplete(lost)
        if form in ("text", "markdown"):
            width = output_width() if output == "-" else 0
            text = render(answer.reader.read_all(), form, RenderOptions(time_unit=unit, width=width))
            if output == "-":
                shown = text
            else:
                with new_file(Path(output), force=force) as file:
                    file.write(text.encode("utf-8", "replace"))
        elif output == "-":
            # A failure in the middle must not leave half an answer in a pipe.
            with scratch_folder() as folder, scratch_file(folder / "answer") as whole:
                write(answer.reader, form, whole, answer.ledgers)
                whole.seek(0)
                show_bytes(whole)
        else:
            with new_file(Path(output), force=force) as file:
                write(answer.reader, form, file, answer.ledgers)
    show(shown, form=form)
    for ledger in answer.ledgers:
        dropped = sum(ledger.dropped.values())
        if dropped:
            say(f"note: {ledger.path}: {dropped:,} of {ledger.read:,} records dropped; see `tracekit inspect`")
    if answer.unchecked:
        first, *others = answer.unchecked
        more = f" and {len(others):,} more" if others else ""
        say(f"note: {first}{more}: checksums and rows were not checked; `tracekit archive verify` checks them")
    finish(answer.failures, lost)


def _is_input(word: str) -> bool:
    """Return whether the last argument is an input, so that the query is missing."""
    if " " not in word.strip() and "://" in word:
        return True
    try:
        return bool(word.strip()) and Path(word).exists()
    except (OSError, ValueError):  # longer than a file name, like most queries
        return False
