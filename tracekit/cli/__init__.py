"""The command line: one line a command. Heavy imports wait inside the commands, so that --help is quick."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from tracekit._version import __version__
from tracekit.cli import (
    archive,
    batch,
    compare,
    convert,
    demo,
    doctor,
    explain,
    formats,
    inspect,
    query,
    report,
    summary,
)
from tracekit.cli import open as opening
from tracekit.cli._common import EXIT_USAGE, guarded, prepare_process, print_error
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from typer._click import Context


class Commands(TyperGroup):
    """The commands; a word that is none of them is refused with the command that was probably meant."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Return the remaining words. Raises: typer.Exit with code 2 where the first word is no command."""
        word = args[0] if args else "-"
        if word.startswith("-") or word in self.commands or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        print_error(_no_command(word, list(self.commands)))
        raise typer.Exit(EXIT_USAGE)


def _no_command(word: str, commands: list[str]) -> UsageError:
    from tracekit.options import did_you_mean

    if os.path.exists(word) or os.sep in word or "." in word:  # noqa: PTH110 - any text may stand here
        return UsageError(f"{word}: an input, where a command is needed", hint=f"tracekit summary {word}")
    near = did_you_mean(word, commands)
    return UsageError(f"{word}: no such command{near}", hint="`tracekit --help` lists the commands")


app = typer.Typer(
    name="tracekit",
    cls=Commands,
    help="Read the profiles of GPU and deep-learning programs, and write traces, tables, reports and archives.",
    epilog="Start with: tracekit demo    or: tracekit summary YOUR_FILE",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tracekit {__version__}")
        raise typer.Exit


def version_option(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Take the options in front of a command."""


app.callback()(version_option)

_COMMANDS = (
    convert.convert,
    summary.summary,
    report.report,
    opening.open,
    inspect.inspect,
    doctor.doctor,
    explain.explain,
    query.query,
    compare.compare,
    batch.batch,
    formats.formats,
    demo.demo,
)
for _command in _COMMANDS:
    app.command(epilog=getattr(_command, "example", None))(guarded(_command))
app.add_typer(archive.archive)


def main() -> None:
    """Run the command line; what `tracekit` and `python -m tracekit` call."""
    prepare_process()
    app(prog_name="tracekit")
