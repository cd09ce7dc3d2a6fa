"""The command line: one word a command. Heavy imports wait inside the commands, so that --help is quick."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from glob import glob
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit._version import __version__
from tracekit.cli._common import (
    EXIT_FAILED,
    discard_stdout,
    error_of_system,
    prepare_process,
    print_error,
    print_traceback,
    runnable,
)
from tracekit.cli.help import HelpCommand, HelpGroup
from tracekit.cli.process.limited import LimitedWork, limit_parameters, watch_if_asked
from tracekit.cli.process.settings import NO_CONFIG, default_map
from tracekit.errors import UsageError
from tracekit.safety.library_calls import leave_if_stuck

if TYPE_CHECKING:
    from typer._click import Context

    app: typer.Typer

_READ_NOTHING = ("formats", "demo", "config", "record")
"""Commands that take no limits."""
_WITHOUT_DATA = ("formats", "record")
"""Commands that do without the libraries for data, or load them where they need them."""
_LIMITED: Mapping[str, LimitedWork] = {"batch": "run", "mcp": "question"}
"""What the limits on memory and time are for, where that is not the command."""
COMMAND_GROUPS: dict[str, tuple[str, ...]] = {
    "Read": ("summary", "report", "open", "inspect", "query", "explain"),
    "Convert and repair": ("convert", "doctor"),
    "Compare": ("compare",),
    "Many runs": ("batch", "archive"),
    "Record": ("record",),
    "First steps": ("demo", "formats"),
    "Automation": ("config", "mcp"),
}
"""The commands by their group in help.

Each is a module of this folder that has a function of the same name, or a `typer.Typer` of several commands.
"""
_COMMANDS = tuple(name for names in COMMAND_GROUPS.values() for name in names)
_MOST_FILES = 10_000
"""Files of a folder that are looked at for a name like a word that is no command."""
_OWN_OPTIONS = ("-h", "--help", "--version", "--install-completion", "--show-completion", NO_CONFIG)


class Commands(HelpGroup):
    """The commands; inputs without a command are those of `summary`, and any other word is refused."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Return the remaining words. Raises: UsageError where the first word is neither a command nor an input."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        words = _with_command(args)
        ctx.default_map = default_map(words)
        first = next((word for word in words if word not in _OWN_OPTIONS), "-")
        if first in self.commands or first.startswith("-"):
            return super().parse_args(ctx, words)
        raise _no_command(first)


def _with_command(words: Sequence[str]) -> list[str]:
    """Return a command line with its command: inputs without one are those of `summary`."""
    own = next((place for place, word in enumerate(words) if word not in _OWN_OPTIONS), len(words))
    front, rest = list(words[:own]), list(words[own:])
    asks = {*_OWN_OPTIONS} - {NO_CONFIG}
    if rest and rest[0] not in _COMMANDS and not asks & set(front) and _is_summary(rest):
        return [*front, "summary", *rest]
    return [*front, *rest]


def _is_summary(words: Sequence[str]) -> bool:
    """Return whether a command line names an input where a command could be: `tracekit run.csv --view kernel`."""
    first = words[0]
    if first.startswith("-") and first != "-":
        return any(_is_input(word) for word in words[1:])
    # A name with a folder or a suffix is no command: summary says what is wrong with it.
    return _is_input(first) or os.sep in first or "." in first


def _is_input(word: str) -> bool:
    if word == "-" or "://" in word:
        return True
    label, _, rest = word.partition("=")
    try:
        names = [name for name in (word, rest if label else "") if name]
        return any(Path(name).exists() or bool(glob(name)) for name in names)  # noqa: PTH207 - it may be absolute
    except (OSError, ValueError):  # longer than a file name, or with a zero byte
        return False


def _no_command(word: str) -> UsageError:
    """Return the error of a word that is neither a command nor an input, with near names of both."""
    from tracekit.options import nearest

    try:
        files = [entry.name for entry in islice(Path().iterdir(), _MOST_FILES)]
    except OSError:
        files = []
    near = [f"tracekit {name}" for name in nearest(word, _COMMANDS)]
    near += [f"tracekit summary {name}" for name in nearest(word, files)]
    hint = f"did you mean {' or '.join(near[:3])}?" if near else "`tracekit --help` lists the commands"
    return UsageError(f"{word}: neither a command nor a file", hint=hint)


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
        help="Read the profiles of GPU and deep-learning programs. `tracekit FILE` prints one screen: what took the "
        "time, and what to look at.",
        epilog="tracekit demo\ntracekit tracekit-demo/run.csv\n"
        "tracekit compare tracekit-demo/rank0.jsonl tracekit-demo/rank1.jsonl",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    made.callback()(version_option)
    group_of = {name: group for group, members in COMMAND_GROUPS.items() for name in members}
    for name in names:
        command = getattr(import_module(f"tracekit.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            made.add_typer(command, rich_help_panel=group_of[name])
        else:
            limits = [] if name in _READ_NOTHING else limit_parameters(_LIMITED.get(name, "command"))
            # The words behind the program's name are the program's own, even if they look like our options.
            settings = {"allow_interspersed_args": False} if name == "record" else None
            examples = getattr(command, "example", None)
            panel = group_of[name]
            add = made.command(name, cls=HelpCommand, epilog=examples, rich_help_panel=panel, context_settings=settings)
            add(runnable(command, limits, reads=name not in _WITHOUT_DATA))
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
    # So do the looks at the end of the process, an eighth of a short command: nothing there needs to be found.
    atexit.register(gc.freeze)
    words = _with_command(sys.argv[1:])
    word = next((each for each in words if each != NO_CONFIG), "")
    if word != "record":  # options of a recorded program are none of ours
        watch_if_asked(sys.argv[1:], print_error)
    completing = any(name.startswith("_TRACEKIT_COMPLETE") for name in os.environ)
    # The version needs no command, but typer needs one to make a group.
    word = "formats" if word == "--version" else word
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
