"""The command line: one word a command. Heavy imports wait inside the commands, so that --help is quick."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit._version import __version__
from tracekit.cli._common import (
    EXIT_FAILED,
    EXIT_USAGE,
    discard_stdout,
    error_of_system,
    prepare_process,
    print_error,
    print_traceback,
    runnable,
)
from tracekit.cli.process.limited import LimitedWork, limit_parameters, watch_if_asked
from tracekit.cli.process.settings import NO_CONFIG, default_map
from tracekit.cli.process.startup import PlainGroup
from tracekit.errors import UsageError
from tracekit.safety.library_calls import leave_if_stuck

if TYPE_CHECKING:
    from typer._click import Context

    app: typer.Typer

_READ_NOTHING = ("formats", "demo", "config", "record")
"""Commands that take no limits."""
_LIMITED: Mapping[str, LimitedWork] = {"batch": "run", "mcp": "question"}
"""What the limits on memory and time are for, where that is not the command."""
_COMMANDS = (
    "convert",
    "summary",
    "report",
    "open",
    "inspect",
    "doctor",
    "explain",
    "query",
    "compare",
    "batch",
    "record",
    "formats",
    "demo",
    "archive",
    "config",
    "mcp",
)
"""Each is a module of this folder that has a function of the same name, or a `typer.Typer` of several commands."""


class Commands(PlainGroup):
    """The commands; a word that is none of them is refused with the command that was probably meant."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Return the remaining words. Raises: typer.Exit with code 2 where the first word is no command."""
        if not ctx.resilient_parsing:
            try:
                ctx.default_map = default_map(args)
            except UsageError as err:
                print_error(err)
                raise typer.Exit(EXIT_USAGE) from None
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


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tracekit {__version__}")
        raise typer.Exit


def version_option(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    no_config: Annotated[
        bool, typer.Option(NO_CONFIG, help="Ignore tracekit.toml and [tool.tracekit] of pyproject.toml.")
    ] = False,
) -> None:
    """Take the options in front of a command."""


@cache
def commands(names: Iterable[str]) -> typer.Typer:
    """Return the command line with these commands; the modules of others are not imported."""
    made = typer.Typer(
        name="tracekit",
        cls=Commands,
        help="Read the profiles of GPU and deep-learning programs, and write traces, tables, reports and archives.",
        epilog="Start with: tracekit demo    or: tracekit summary YOUR_FILE",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    made.callback()(version_option)
    for name in names:
        command = getattr(import_module(f"tracekit.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            made.add_typer(command)
        else:
            limits = [] if name in _READ_NOTHING else limit_parameters(_LIMITED.get(name, "command"))
            # The words behind the program's name are the program's own, also those that look like options of ours.
            settings = {"allow_interspersed_args": False} if name == "record" else None
            epilog = getattr(command, "example", None)
            made.command(name, epilog=epilog, context_settings=settings)(runnable(command, limits))
    return made


def __getattr__(name: str) -> object:
    if name == "app":
        return commands(_COMMANDS)
    raise AttributeError(f"module 'tracekit.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line; what `tracekit` and `python -m tracekit` call."""
    prepare_process()
    # What is imported lives to the end: one look for garbage in it takes a twentieth of the start.
    gc.set_threshold(200_000)
    if sys.argv[1:2] != ["record"]:  # options of a recorded program are none of ours
        watch_if_asked(sys.argv[1:], print_error)
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    completing = any(name.startswith("_TRACEKIT_COMPLETE") for name in os.environ)
    # The version needs no command, but typer needs one to make a group.
    word = _COMMANDS[0] if word == "--version" else word
    try:
        commands((word,) if word in _COMMANDS and not completing else _COMMANDS)(prog_name="tracekit")
    except SystemExit as end:
        leave_if_stuck(end.code if isinstance(end.code, int) else EXIT_FAILED if end.code else 0)
        raise
    except OSError as err:  # the text of --help does not fit
        print_error(error_of_system(err))
        sys.exit(EXIT_FAILED)
    except Exception as err:  # noqa: BLE001 - --debug shows any error as a traceback
        print_traceback(err)
        sys.exit(EXIT_FAILED)
    finally:
        discard_stdout()
