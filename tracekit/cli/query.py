"""tracekit query: SQL over any input."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli._common import (
    EXIT_USAGE,
    example,
    finish,
    form_of,
    progress,
    say,
    tell_incomplete,
)
from tracekit.cli.process.terminal import output_width, show, show_bytes
from tracekit.errors import OutputExistsError, UsageError
from tracekit.model.display import plural
from tracekit.safety.scratch import scratch_file, scratch_folder

if TYPE_CHECKING:
    from tracekit.queries import Description, QueryAnswer, QuerySession

__all__ = ["query"]

_BY_SUFFIX = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".txt": "text", ".md": "markdown"}


@example('tracekit query run.csv "SELECT kind, count(*) AS n FROM events GROUP BY kind"')
def query(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT... [SELECT]",
            help="Files, folders, archives, URLs, then one SELECT over the views events and totals. Without a SELECT, "
            "the views, their columns and examples are shown.",
        ),
    ],
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
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Of an archive, count older versions of changed runs too.")
    ] = False,
    shell: Annotated[
        bool, typer.Option("--shell", help="Ask one query after the other; each ends with a semicolon.")
    ] = False,
) -> None:
    """Query the events of any input in SQL.

    DuckDB can read the inputs, and nothing else: pip install 'tracekit-gpu[query]'.
    """
    from tracekit.inputs import InputOptions, refuse_inputs
    from tracekit.model.trace import incomplete
    from tracekit.queries import ask, render, session, write
    from tracekit.render.base import RenderOptions
    from tracekit.writers.base import new_file

    inputs, sql = _inputs_and_query(words, shell=shell)
    form = form_of(format_, output, _BY_SUFFIX)
    if unit not in ("", "s", "ms", "us", "ns"):
        raise UsageError(f"--unit {unit}: not a unit", hint="one of: s, ms, us, ns")
    if sql is None:
        if output != "-" or format_:
            what = "--shell" if shell else "no SELECT"
            raise UsageError(f"{what}: -o and --format are for one query", hint='tracekit query INPUT... "SELECT ..."')
        how = InputOptions(format=reader, strict=strict, partial=True)
        with session(inputs, how, all_versions=all_versions) as opened:
            lost = incomplete(opened.inputs.ledgers)
            tell_incomplete(lost)
            if shell:
                _read_queries(opened, unit)
            else:
                show(_description(opened.describe(), inputs))
            _tell_inputs(opened.inputs)
        finish(opened.inputs.failures, lost, opened.inputs.empty)
        return
    if output != "-" and Path(output).exists() and not force:
        raise OutputExistsError(output)
    refuse_inputs(output, inputs)
    shown = ""
    with (
        progress(f"reading {inputs[0]}") as update,
        ask(
            inputs,
            sql,
            InputOptions(format=reader, strict=strict, partial=True, progress=update),
            all_versions=all_versions,
        ) as answer,
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
    _tell_inputs(answer)
    finish(answer.failures, lost, answer.empty)


def _tell_inputs(answer: QueryAnswer) -> None:
    """Print a note on each input that lost records or was not checked."""
    for ledger in answer.ledgers:
        dropped = sum(ledger.dropped.values())
        if dropped:
            say(f"note: {ledger.path}: {dropped:,} of {ledger.read:,} records dropped; see `tracekit inspect`")
    if answer.older:
        few = f"{plural(answer.older, 'older version')} of changed runs"
        say(f"note: {few} left out; --all-versions counts them too")
    if answer.unchecked:
        first, *others = answer.unchecked
        more = f" and {len(others):,} more" if others else ""
        say(f"note: {first}{more}: checksums and rows were not checked; `tracekit archive verify` checks them")


def _inputs_and_query(words: Sequence[str], *, shell: bool) -> tuple[list[str], str | None]:
    """Return the inputs and the query; None for none. Raises: UsageError."""
    if shell or _is_input(words[-1]) or (len(words) == 1 and " " not in words[0].strip() and words[0].strip()):
        return list(words), None
    if len(words) == 1:
        raise UsageError("no input is named, only a query", hint='tracekit query INPUT... "SELECT ..."')
    *inputs, sql = words
    with suppress(UnicodeError):  # in the C locale, Python leaves the bytes of a word that are not ASCII
        sql = os.fsencode(sql).decode("utf-8")
    return inputs, sql


def _description(found: Description, inputs: Sequence[str]) -> str:
    """Return the views, their columns and the examples as text."""
    from tracekit.model.display import plural

    width = max(output_width() or 80, 40)
    lines: list[str] = []
    for view in found.views:
        lines.append(f"{view.name}: {plural(view.rows, 'row')}")
        if view.rows:
            lines += textwrap.wrap(", ".join(view.filled), width - 1, initial_indent="  ", subsequent_indent="  ")
            empty = f"without a value here: {', '.join(view.empty)}" if view.empty else ""
            lines += textwrap.wrap(empty, width - 1, initial_indent="  ", subsequent_indent="  ")
        lines.append("")
    begin = f'tracekit query {" ".join(shlex.quote(word) for word in inputs)} "' if inputs else ""
    end = '"' if inputs else ";"
    for sql in found.examples:
        # A line break within the quotes of the shell is a blank for SQL: what is shown can be pasted.
        lines += textwrap.wrap(f"{begin}{sql}{end}", width - 1, subsequent_indent="    ", break_long_words=False)
    return "\n".join(lines) + "\n"


_HELP = """A query ends with a semicolon, such as: SELECT kind, count(*) AS n FROM events GROUP BY kind;
.tables shows the views, their columns and examples; .quit (or Ctrl-D) ends."""


def _read_queries(opened: QuerySession, unit: str) -> None:
    """Answer the queries that are typed, or that come through a pipe, until there are no more."""
    from tracekit.errors import COMMAND_LINE, TracekitError
    from tracekit.queries import render
    from tracekit.render.base import RenderOptions

    typed = sys.stdin.isatty()
    if typed:
        with suppress(ImportError):
            import readline  # noqa: F401 - arrow keys, and the lines before
        print(_HELP)
    failed = False
    for sql in _statements(typed=typed):
        try:
            if sql == ".help":
                print(_HELP)
            elif sql == ".tables":
                show(_description(opened.describe(), ()))
            elif sql.startswith("."):
                raise UsageError(f"{sql}: no such command", hint=".tables, .help or .quit")
            else:
                with opened.ask(sql) as answer:
                    rows = answer.reader.read_all()
                show(render(rows, "text", RenderOptions(time_unit=unit, width=output_width())))
            sys.stdout.flush()
        except TracekitError as err:
            # A wrong query ends no session, but a script must not end as if it were right.
            failed = True
            say(f"error: {err.worded(COMMAND_LINE)}")
            if advice := err.advised(COMMAND_LINE):
                say(f"hint: {advice}")
        except KeyboardInterrupt:
            if not typed:
                raise
            say("interrupted")
    if failed and not typed:
        raise typer.Exit(EXIT_USAGE)


def _statements(*, typed: bool) -> Iterator[str]:
    """Yield each query without its semicolon, and each line that begins with a dot."""
    held = ""
    while True:
        try:
            line = input("sql> " if not held else "...> ") if typed else sys.stdin.readline()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            held = ""
            print()
            continue
        if not typed and not line:
            break
        if not held and line.strip().startswith("."):
            if line.strip() in (".quit", ".exit"):
                return
            yield line.strip()
            continue
        held = f"{held}\n{line}" if held else line
        if held.rstrip().endswith(";"):
            yield held.strip()
            held = ""
        elif not held.strip():
            held = ""
    if held.strip():
        yield held.strip()


def _is_input(word: str) -> bool:
    """Return whether the last argument is an input, so that the query is missing."""
    if " " not in word.strip() and "://" in word:
        return True
    try:
        return bool(word.strip()) and Path(word).exists()
    except (OSError, ValueError):  # longer than a file name, like most queries
        return False
