"""Help in groups, and wrong usage as an error and a hint.

An option names its group with `rich_help_panel`, and a command names its own in `tracekit.cli.COMMAND_GROUPS`; both are
printed in the order of `OPTION_GROUPS` and of that table. Options without a group are the first, "Options".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand

from tracekit.cli._common import EXIT_USAGE, FILTERS, LIMITS, OTHER, OUTPUT, READING, SEVERAL, SHARING, print_error
from tracekit.cli.process.startup import PlainGroup
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter, Parameter

    _OfCommands = Command
else:
    _OfCommands = object  # the class of typer that a class below has too

__all__ = ["OPTION_GROUPS", "HelpCommand", "HelpGroup", "first_sentence"]

OPTION_GROUPS = ("Options", OUTPUT, READING, FILTERS, SEVERAL, SHARING, LIMITS, OTHER)
"""The order of the groups of options. A group that is not listed comes behind the first two."""
_NAME_ROOM = 26
"""The most characters of the column of names; a longer name has its text in the next line."""
_NUMBERS = {int: "a whole number", float: "a number"}


class _OwnErrors(_OfCommands):
    """A command or a group of them whose errors of wrong usage are worded here."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """Return the context of a run. Raises: typer.Exit with code 2, after the error, for words that are wrong."""
        path = f"{parent.command_path} {info_name}" if parent is not None else str(info_name)
        with _wrong_usage_told(self, path, list(args)):
            return super().make_context(info_name, args, parent, **extra)


class HelpCommand(_OwnErrors, TyperCommand):
    """A command whose help has its options in groups and ends with examples."""

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """Return the words of the usage line behind the command's name."""
        arguments = list(_usage_of_arguments(self.get_params(ctx)))
        # Behind the program of `record` all options are the program's own.
        return [*arguments, "[OPTIONS]"] if ctx.allow_interspersed_args else ["[OPTIONS]", "--", *arguments]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the arguments, and the options group by group."""
        _write_options(self.get_params(ctx), formatter)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002 - typer asks so
        """Write the examples, one a line, as a shell takes them."""
        _write_examples(self.epilog or "", formatter)


class HelpGroup(_OwnErrors, PlainGroup):
    """Commands whose help lists them in groups."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Return the command that the first word names. Raises: typer.Exit with code 2, after the error, for none."""
        if args and args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            from tracekit.options import did_you_mean

            near = did_you_mean(args[0], self.list_commands(ctx))
            hint = f"`{ctx.command_path} --help` lists the commands"
            print_error(UsageError(f"{args[0]}: no such command{near}", hint=hint))
            raise typer.Exit(EXIT_USAGE)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the commands group by group, then the options."""
        self.format_commands(ctx, formatter)
        _write_options(self.get_params(ctx), formatter)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write each command with its first sentence."""
        groups: dict[str, list[tuple[str, str]]] = {}
        room = max(map(len, self.list_commands(ctx)), default=0)
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                group = getattr(command, "rich_help_panel", None) or "Commands"
                groups.setdefault(group, []).append((name.ljust(room), first_sentence(command.help or "")))
        _write_groups(groups, formatter)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002 - typer asks so
        """Write the examples, one a line, as a shell takes them."""
        _write_examples(self.epilog or "", formatter)


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, without its full stop."""
    first = " ".join(text.split("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".")


def _usage_of_arguments(parameters: Iterable[Parameter]) -> Iterator[str]:
    for each in parameters:
        if each.param_type_name == "argument":
            name = each.metavar or str(each.name).upper()
            yield name if each.required else f"[{name}]"


def _write_options(parameters: Sequence[Parameter], formatter: HelpFormatter) -> None:
    arguments: list[tuple[str, str]] = []
    groups: dict[str, list[tuple[str, str]]] = {}
    for each in parameters:
        if getattr(each, "hidden", False):
            continue
        row = (_names(each), _meaning(each))
        if each.param_type_name == "argument":
            arguments.append(row)
            continue
        is_help = "--help" in each.opts or "--version" in each.opts
        group = getattr(each, "rich_help_panel", None) or (OTHER if is_help else "Options")
        groups.setdefault(group, []).append(row)
    known = [*OPTION_GROUPS[:2], *(name for name in groups if name not in OPTION_GROUPS), *OPTION_GROUPS[2:]]
    ordered = {"Arguments": arguments} | {name: groups[name] for name in known if name in groups}
    room = min(max((len(name) for rows in ordered.values() for name, _ in rows), default=0), _NAME_ROOM)
    padded = {group: [(name.ljust(room), text) for name, text in rows] for group, rows in ordered.items() if rows}
    _write_groups(padded, formatter)


def _names(parameter: Parameter) -> str:
    """Return how a parameter is written: "-o, --output OUT", "--[no-]pager", "INPUT..."."""
    takes = parameter.metavar or str(parameter.name).upper()
    if parameter.param_type_name == "argument":
        return takes
    names = sorted(parameter.opts, key=lambda name: (name.startswith("--"), name))
    off = f"--no-{names[-1].removeprefix('--')}"
    if parameter.secondary_opts == [off]:
        names[-1] = f"--[no-]{names[-1].removeprefix('--')}"
    elif parameter.secondary_opts:
        names[-1] += f"/{parameter.secondary_opts[0]}"
    is_flag = getattr(parameter, "is_flag", False) or getattr(parameter, "count", False)
    return ", ".join(names) if is_flag else f"{', '.join(names)} {takes}"


def _meaning(parameter: Parameter) -> str:
    """Return the help text of a parameter, with its default where that is a value that a user could have typed."""
    text = " ".join((getattr(parameter, "help", None) or "").split())
    if parameter.required and parameter.param_type_name == "option":
        return f"{text} (required)"
    default = parameter.default
    if default is True and any(name.startswith("--no-") for name in parameter.secondary_opts):
        return f"{text} [default: on]"
    is_value = not isinstance(default, bool) and not callable(default) and default not in (None, "", 0, [], ())
    return f"{text} [default: {default}]" if is_value and getattr(parameter, "show_default", True) else text


def _write_groups(groups: Mapping[str, list[tuple[str, str]]], formatter: HelpFormatter) -> None:
    for group, rows in groups.items():
        with formatter.section(group):
            formatter.write_dl(rows, col_max=_NAME_ROOM)


def _write_examples(lines: str, formatter: HelpFormatter) -> None:
    if lines:
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in lines.splitlines()))


# Wrong usage. The parser of typer raises its own errors; they have what was wrong as attributes.


@contextmanager
def _wrong_usage_told(command: object, path: str, words: list[str]) -> Iterator[None]:
    """Print an error of the parser as ours, and end with exit code 2. words: what the parser got."""
    try:
        yield
    except typer.Exit:
        raise
    except Exception as err:
        refusal = err if isinstance(err, TracekitError) else _refusal(err, command, path, words)
        if refusal is None:
            raise
        print_error(refusal)
        raise typer.Exit(EXIT_USAGE) from None


def _refusal(err: Exception, command: object, path: str, words: list[str]) -> UsageError | None:
    """Return an error of the parser in our words; None for what is none, and for the help of a word alone."""
    if not hasattr(err, "format_message") or type(err).__name__ == "NoArgsIsHelpError":
        return None
    context = getattr(err, "ctx", None)
    see = f"`{path} --help` lists the options"
    parameter = cast("Parameter | None", getattr(err, "param", None))
    option = getattr(err, "option_name", "")
    kind = type(err).__name__
    if kind == "NoSuchOption":
        return _no_option(option, context, see)
    if kind == "MissingParameter" and parameter is not None:
        return _missing(parameter, command, path)
    if kind == "BadParameter" and parameter is not None:
        return _bad_value(parameter, words)
    if kind == "BadOptionUsage":
        takes = "takes no value" if "does not take" in str(err) else "its value is missing"
        return UsageError(f"{option}: {takes}", hint=see)
    message = str(err).rstrip(".")
    if unexpected := re.search(r"unexpected extra argument.*?\(((?!s\)).*)\)$", message):
        usage = " ".join(_usage_of_arguments(context.command.get_params(context))) if context is not None else ""
        return UsageError(f"{unexpected[1]}: more than `{path}` takes", hint=f"{path} {usage}".rstrip())
    return UsageError(message, hint=see)


def _no_option(option: str, context: Context | None, see: str) -> UsageError:
    from tracekit.options import did_you_mean

    parameters = context.command.get_params(context) if context is not None else []
    known = [name for each in parameters if not getattr(each, "hidden", False) for name in _all_names(each)]
    return UsageError(f"{option}: no such option{did_you_mean(option, known)}", hint=see)


def _all_names(parameter: Parameter) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts] if parameter.param_type_name == "option" else []


def _missing(parameter: Parameter, command: object, path: str) -> UsageError:
    """Return the error of what must be there, with the first example of the command."""
    example = (getattr(command, "epilog", None) or "").splitlines()
    hint = f"for example: {example[0]}" if example else f"`{path} --help` has the words"
    name = _names(parameter).removesuffix("...").split(", ")
    takes = f" {parameter.metavar}" if len(name) > 1 and parameter.metavar else ""
    return UsageError(f"{name[0]}{takes} is missing", hint=hint)


def _bad_value(parameter: Parameter, words: list[str]) -> UsageError:
    """Return the error of a value of a wrong form, with what the option is for."""
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    kind: Callable[[str], float] = int
    if any(isinstance(limit, float) for limit in (low, high, parameter.default)) or "float" in str(
        getattr(parameter, "type_descriptor", "")
    ):
        kind = float
    wanted = _NUMBERS[int if kind is int else float]
    if low is not None and high is not None:
        wanted += f" from {low:g} to {high:g}"
    elif low is not None:
        wanted += f" of {low:g} or more"
    given = _values(parameter, words)
    wrong = next((value for value in given if not _fits(value, kind, low, high)), given[-1] if given else "")
    name = _all_names(parameter)[0] if _all_names(parameter) else _names(parameter)
    takes = parameter.metavar or "N"
    return UsageError(f"{name} {wrong}: not {wanted}", hint=f"{name} {takes}: {_meaning(parameter)}")


def _values(parameter: Parameter, words: list[str]) -> list[str]:
    """Return the values of an option among the words of a command line."""
    found = []
    for place, word in enumerate(words):
        for name in _all_names(parameter):
            if word == name and place + 1 < len(words):
                found.append(words[place + 1])
            elif word.startswith(f"{name}="):
                found.append(word.partition("=")[2])
    return found


def _fits(text: str, kind: Callable[[str], float], low: float | None, high: float | None) -> bool:
    try:
        number = kind(text)
    except ValueError:
        return False
    return (low is None or number >= low) and (high is None or number <= high)
