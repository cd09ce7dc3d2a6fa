"""Parts that the commands share: the reading options, the only place that prints an error, and messages on stderr."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import signal
import sys
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TextIO

import typer

from tracekit.cli.process import settings
from tracekit.cli.process.limited import LIMITS as LIMITS
from tracekit.cli.process.limited import limits_in_force
from tracekit.cli.process.terminal import STDOUT, escape_what_streams_lack, message_width, name_stdout, wrapped_message
from tracekit.cli.process.terminal import draws_bars as draws_bars
from tracekit.cli.process.terminal import in_color as in_color
from tracekit.cli.process.terminal import one_line as one_line
from tracekit.cli.process.terminal import output_width as output_width
from tracekit.cli.process.terminal import paged as paged
from tracekit.cli.process.terminal import printable as printable
from tracekit.cli.process.terminal import show as show
from tracekit.cli.process.terminal import show_bytes as show_bytes
from tracekit.cli.process.verbosity import OTHER as OTHER
from tracekit.cli.process.verbosity import Verbosity, verbosity, verbosity_in_force, verbosity_parameters
from tracekit.credentials import masked
from tracekit.errors import (
    COMMAND_LINE,
    AllInputsError,
    InputError,
    OutputError,
    SchemaError,
    TracekitError,
    UsageError,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.plugins import PluginWarning

if TYPE_CHECKING:
    from tracekit.errors import Failure
    from tracekit.index.topology import Topology
    from tracekit.inputs import InputOptions
    from tracekit.inputs.selection import Selection
    from tracekit.model.trace import Ledger
    from tracekit.render.base import RenderOptions
    from tracekit.safety.anonymize import Anonymizer

# Names for shell completion, from the registries; a registry is loaded only while a shell completes.


Names = list[tuple[str, str]]
"""Each name, with the words that a shell shows beside it."""


def _beginning(incomplete: str, names: dict[str, str]) -> Names:
    return [(name, words) for name, words in names.items() if name.startswith(incomplete)]


def formats(incomplete: str) -> Names:
    """Return the formats that can be read."""
    from tracekit.formats import READERS

    return _beginning(incomplete, {reader.name: reader.title for reader in READERS.values()})


def targets(incomplete: str) -> Names:
    """Return the targets that can be written."""
    from tracekit.writers import WRITERS

    return _beginning(incomplete, {writer.name: writer.title for writer in WRITERS.values()})


def kinds(incomplete: str) -> Names:
    """Return the kinds of events."""
    from tracekit.model.schema import KINDS

    return _beginning(incomplete, dict.fromkeys(sorted(KINDS), ""))


def views(incomplete: str) -> Names:
    """Return the views, and `all`."""
    from tracekit import compat
    from tracekit.views import VIEWS

    titles = {view.name: view.title for view in VIEWS.values()}
    return _beginning(incomplete, {**titles, **dict.fromkeys(compat.VIEWS, ""), "all": "every table"})


def compats(incomplete: str) -> Names:
    """Return the profilers whose figures and layout can be printed."""
    from tracekit.compat import names

    return _beginning(incomplete, dict.fromkeys(names(), ""))


def sort_keys(incomplete: str) -> Names:
    """Return the keys of the columns of all views; a leading "-" stays."""
    from tracekit.views import VIEWS

    minus = "-" if incomplete.startswith("-") else ""
    titles = {f"{minus}{spec.key}": spec.meaning for view in VIEWS.values() for spec in view.shows}
    return _beginning(incomplete, titles)


def options(incomplete: str) -> Names:
    """Return the options of the formats and views, as `KEY=`."""
    from tracekit.formats import READERS
    from tracekit.views import VIEWS

    of_formats = (spec for reader in READERS.values() for spec in reader.options)
    specs = (*of_formats, *(spec for view in VIEWS.values() for spec in view.options))
    return _beginning(incomplete, {f"{spec.key}=": spec.help for spec in specs})


def forms(incomplete: str) -> Names:
    """Return the forms of tables."""
    from tracekit.render import RENDERERS

    return _beginning(incomplete, dict.fromkeys((name for name in RENDERERS if name != "html"), ""))


# Groups of options in help; `tracekit.cli.help` has their order.


OUTPUT = "Output"
READING = "Reading"
FILTERS = "Filters"
SEVERAL = "Several inputs"
SHARING = "Safe to share"

Align = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOW",
        help="Align clocks: auto, none, wall-clock, ranges, collectives or launches; INPUT=HOW or INPUT=+12ms for one.",
        rich_help_panel=SEVERAL,
    ),
]
RankFrom = Annotated[
    str,
    typer.Option(
        metavar="REGEX",
        help="Take the rank from the input's name: 'rank(\\d+)'.",
        rich_help_panel=SEVERAL,
    ),
]

By = Annotated[
    str,
    typer.Option(
        metavar="DIMENSION",
        help="Compare by rank, host, tp, pp, dp, ep or pp-rank.",
        rich_help_panel=SEVERAL,
    ),
]
Each = Annotated[
    bool,
    typer.Option("--each", help="With --by: show the table of each group.", rich_help_panel=SEVERAL),
]
TopologyText = Annotated[
    str,
    typer.Option(
        "--topology",
        metavar="SIZES|FILE",
        help="The groups of ranks: tp=8,pp=4,dp=32 in Megatron-LM's order tp-cp-ep-dp-pp, or with order=tp-pp-dp. Or a "
        "CSV, JSON or TOML file with the columns rank, tp, pp, dp, ep, host.",
        rich_help_panel=SEVERAL,
    ),
]

Anonymize = Annotated[
    bool,
    typer.Option(
        "--anonymize",
        help="Replace paths, hosts, users, commands, environments and addresses by tokens.",
        rich_help_panel=SHARING,
    ),
]
AnonymizeNames = Annotated[
    bool,
    typer.Option("--anonymize-names", help="Replace the names of events too.", rich_help_panel=SHARING),
]
AnonymizeKey = Annotated[
    str,
    typer.Option(metavar="FILE|TEXT", help="Make the same tokens in each run with this key.", rich_help_panel=SHARING),
]


@functools.cache
def anonymizer(key: str, *, wanted: bool, names: bool) -> Anonymizer | None:
    """Return what replaces private texts, the same one for all inputs of a command; None where nothing is wanted.

    key: a file that has the key, or the key itself. Raises: UsageError for a key alone.
    """
    from tracekit.safety.anonymize import Anonymizer, key_of

    if wanted or names:
        return Anonymizer(key_of(key), names=names)
    if key:
        raise UsageError("--anonymize-key without --anonymize", hint="add --anonymize")
    return None


def _say_what_was_replaced(words: Mapping[str, typing.Any]) -> None:
    """Print what --anonymize replaced in this command, so that a share can be judged before it is looked at."""
    wanted, names = bool(words.get("anonymize")), bool(words.get("anonymize_names"))
    # A batch replaces texts in other processes, and without this door of the inputs.
    if (wanted or names) and "inputs" in words:
        hidden = anonymizer(str(words.get("anonymize_key") or ""), wanted=wanted, names=names)
        if hidden is not None and (account := hidden.account()):
            sys.stdout.flush()
            say(f"anonymized: {account}")


def by_options(by: str, topology: str, *, each: bool) -> Topology | None:
    """Return the topology that the user names, None for none. Raises: UsageError for --each without --by."""
    from tracekit.index.topology import parse

    if each and not by:
        raise UsageError("--each without --by", hint="add --by, such as --by rank")
    return parse(topology) if topology else None


EXIT_FAILED, EXIT_USAGE, EXIT_GATE, EXIT_INTERRUPTED = 1, 2, 3, 130

PAGE = "Size of a page"
PageEvents = Annotated[
    int, typer.Option(metavar="N", min=1, help="The most events of a page's timeline.", rich_help_panel=PAGE)
]
PageMb = Annotated[
    float, typer.Option(metavar="MB", min=0.1, help="The most MB of these events.", rich_help_panel=PAGE)
]
PageArgsMb = Annotated[
    float, typer.Option(metavar="MB", min=0, help="The most MB of their arguments.", rich_help_panel=PAGE)
]
"""The budget of a page."""


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """The inputs and how to read them: the same words in every command. `runnable` turns the fields into options."""

    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="Files, folders, patterns, URLs, - for stdin; NAME=INPUT gives one a name."
        ),
    ]
    format: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="Read as this format, not as recognised.",
            autocompletion=formats,
            rich_help_panel=READING,
        ),
    ] = ""
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first note, as an error.", rich_help_panel=READING)
    ] = False
    demangle: Annotated[bool, typer.Option(help="Make C++ names readable.", rich_help_panel=READING)] = True
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="Set an option of a format or a view.",
            autocompletion=options,
            rich_help_panel=READING,
        ),
    ] = None
    name: Annotated[
        str,
        typer.Option(metavar="REGEX", help="Keep events whose name matches this.", rich_help_panel=FILTERS),
    ] = ""
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Keep events of this kind: kernel; repeatable.",
            autocompletion=kinds,
            rich_help_panel=FILTERS,
        ),
    ] = None
    rank: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Keep events of this rank; repeatable.", rich_help_panel=FILTERS),
    ] = None
    device: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Keep events of this device; repeatable.", rich_help_panel=FILTERS),
    ] = None
    stream: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Keep events of this stream; repeatable.", rich_help_panel=FILTERS),
    ] = None
    step: Annotated[
        str,
        typer.Option(
            metavar="N|A:B",
            help="Keep events of step N, or of A to B-1; `--view steps` has the numbers.",
            rich_help_panel=FILTERS,
        ),
    ] = ""
    time: Annotated[
        str,
        typer.Option(metavar="A:B", help="Keep events that start between: 1.5s:2s.", rich_help_panel=FILTERS),
    ] = ""
    min_dur: Annotated[
        str,
        typer.Option(metavar="D", help="Keep events of at least this duration: 10us.", rich_help_panel=FILTERS),
    ] = ""
    align: Align = None
    rank_from: RankFrom = ""
    anonymize: Anonymize = False
    anonymize_names: AnonymizeNames = False
    anonymize_key: AnonymizeKey = ""
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False

    def selection(self) -> Selection:
        """Return the filter. Raises: UsageError."""
        from tracekit.inputs.selection import Selection, parse_duration, parse_steps, parse_times

        return Selection(
            name=self.name,
            kinds=frozenset(self.kind or ()),
            ranks=frozenset(self.rank or ()),
            devices=frozenset(self.device or ()),
            streams=frozenset(self.stream or ()),
            steps=parse_steps(self.step) if self.step else None,
            times_ns=parse_times(self.time) if self.time else None,
            min_dur_ns=parse_duration(self.min_dur) if self.min_dur else 0,
        )

    def options(self) -> dict[str, str]:
        """Return the options of formats and views. Raises: UsageError."""
        from tracekit.options import split

        return split(self.option or ())

    def input_options(self, progress: Callable[[float], None] | None = None) -> InputOptions:
        """Return how to read the inputs; a bad one among several becomes a failure. Raises: UsageError."""
        from tracekit.inputs import InputOptions
        from tracekit.inputs.options import parse_align

        return InputOptions(
            format=self.format,
            selection=self.selection(),
            strict=self.strict,
            demangle=self.demangle,
            options=self.options(),
            partial=True,
            progress=progress,
            anonymize=anonymizer(self.anonymize_key, wanted=self.anonymize, names=self.anonymize_names),
            align=parse_align(self.align or ()),
            rank_from=self.rank_from,
        )


def runnable(
    command: Callable[..., None], limits: Sequence[inspect.Parameter] = (), *, reads: bool = True
) -> Callable[..., None]:
    """Return what typer calls for a command. reads: it needs the libraries for data, which are prepared before it.

    Its parameter `reading: Reading` is replaced by Reading's fields, and -q, -v and options of limits are added, which
    hold while the command runs. Errors become one sentence, a hint and an exit code.
    """
    parameters, takes_reading = _parameters(command)
    parameters += [*limits, *verbosity_parameters()]
    of_reading = [field.name for field in fields(ReadArguments)]
    added = {each.name for each in (*limits, *verbosity_parameters())}
    make: Callable[..., ReadArguments] = ReadArguments  # typer has checked the types of the words

    @functools.wraps(command)
    def run(**words: typing.Any) -> None:
        try:
            from tracekit.cli.process import prepare_libraries, prepare_memory

            (prepare_libraries if reads else prepare_memory)()
            given = {name: value for name, value in words.items() if name not in added}
            if takes_reading:
                given["reading"] = make(**{name: given.pop(name) for name in of_reading})
            try:
                with (
                    verbosity_in_force(quiet=words["quiet"], verbose=words["verbose"]),
                    limits_in_force(words) if limits else nullcontext(),
                ):
                    anonymizer.cache_clear()
                    try:
                        command(**given)
                    except typer.Exit:
                        _say_what_was_replaced(words)
                        raise
                    _say_what_was_replaced(words)
            except typer.Exit:
                sys.stdout.flush()  # a result that cannot be written counts more than the exit code of a gate
                raise
            sys.stdout.flush()
        except TracekitError as err:
            if words.get("debug") or os.environ.get("TRACEKIT_DEBUG"):
                raise
            for each in err.failures if isinstance(err, AllInputsError) else ():
                print_error(each.error)
            print_error(err)
            if isinstance(err, UsageError) and (text := settings.told()):
                say(f"note: {text}")
            raise typer.Exit(EXIT_USAGE if isinstance(err, UsageError) else EXIT_FAILED) from None
        except BrokenPipeError:
            discard_stdout()  # the reader of our output has gone (| head): end quietly
            raise typer.Exit(EXIT_FAILED) from None
        except KeyboardInterrupt:
            say("interrupted: no half-written file is left")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except OSError as err:
            if words.get("debug") or os.environ.get("TRACEKIT_DEBUG"):
                raise
            print_error(error_of_system(err))
            raise typer.Exit(EXIT_FAILED) from None
        except (typer.Exit, typer.Abort):
            raise
        except MemoryError:
            print_error(_out_of_memory(str(words.get("max_memory") or "")))
            raise typer.Exit(EXIT_FAILED) from None
        except Exception as err:  # the last door: a bug of ours must not become a traceback either
            if words.get("debug") or os.environ.get("TRACEKIT_DEBUG"):
                raise
            print_error(SchemaError(f"tracekit failed: {type(err).__name__}: {err}"))
            raise typer.Exit(EXIT_FAILED) from None

    setattr(run, "__signature__", inspect.Signature(parameters))  # noqa: B010 - functions do not declare it
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    del run.__wrapped__
    return run


def _parameters(command: Callable[..., None]) -> tuple[list[inspect.Parameter], bool]:
    """Return the parameters of a command as typer needs them, with Reading's fields in place of Reading.

    And whether it takes a Reading.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    takes_reading = ReadArguments in hints.values()
    shared = typing.get_type_hints(ReadArguments, include_extras=True) if takes_reading else {}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for name, own in inspect.signature(command).parameters.items():
        if hints[name] is not ReadArguments:
            parameters.append(own.replace(annotation=hints[name], kind=keyword))
            continue
        for field, default in zip(
            fields(ReadArguments), inspect.signature(ReadArguments).parameters.values(), strict=True
        ):
            parameters.append(
                inspect.Parameter(field.name, keyword, default=default.default, annotation=shared[field.name])
            )
    return parameters, takes_reading


def _out_of_memory(most: str) -> TracekitError:
    if not most:
        return TracekitError("out of memory", hint="convert streams; summary and report hold the columns they show")
    text = f"the command was ended: it needed more memory than {most} (--max-memory)"
    return TracekitError(text, hint="a larger --max-memory, --max-read-events N, or a filter such as --kind kernel")


def error_of_system(err: OSError) -> TracekitError:
    """Return the error for one that names no file; where stdout fails too, that is what could not be written."""
    if err.filename == STDOUT:
        discard_stdout()
        reason = "the disk is full" if err.errno == errno.ENOSPC else str(err.strerror or err)
        return OutputError(f"stdout: cannot be written ({reason})", hint="the output is incomplete")
    return TracekitError(f"{err.filename or 'the system'}: {err.strerror or err}")


def discard_stdout() -> bool:
    """Write out what stdout holds. If that fails, discard it, for Python would complain at exit; return whether so."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def prepare_process() -> None:
    """Give closed streams (cron, daemons) somewhere to write to, and end on SIGTERM and SIGHUP as on an exception.

    So `finally` runs, and nothing half-written is left behind.
    """
    _users_environ.update(os.environ)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    escape_what_streams_lack()
    name_stdout()
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    warnings.showwarning = _show_warning
    # numpy's library for matrices starts a thread for each processor when it is loaded; nothing here needs them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Processes of Python that this one starts look for modules in the present folder first, where a stranger's file
    # could be named `pickle.py`.
    os.environ["PYTHONSAFEPATH"] = "1"


_users_environ: dict[str, str] = {}


def users_environment() -> dict[str, str]:
    """Return the environment as the user has set it, without the variables that `prepare_process` adds."""
    return dict(_users_environ or os.environ)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a skipped plugin as a note, and any other warning as Python does."""
    if issubclass(category, PluginWarning):
        say(f"note: {message}")
    else:
        (file or sys.stderr).write(printable(warnings.formatwarning(message, category, filename, lineno, line)))


def form_of(format_: str, output: str, by_suffix: Mapping[str, str], more: Sequence[str] = ()) -> str:
    """Return the form of a command's output: of --format, else of the suffix. Raises: UsageError for no known form.

    more: forms that have no suffix of their own.
    """
    forms = sorted({*by_suffix.values(), "spreadsheet", *more})
    suffix = Path(output).suffix.lower()
    if not format_ and suffix and suffix not in by_suffix:
        raise UsageError(
            f"-o {output}: the suffix names no output format", hint=f"choose one with --format: {', '.join(forms)}"
        )
    if format_ and format_ not in forms:
        raise UsageError(f"--format {format_}: not an output format", hint=f"one of: {', '.join(forms)}")
    of_name = "spreadsheet" if output.lower().endswith(".spreadsheet.csv") else by_suffix.get(suffix, "text")
    return format_ or of_name


def print_traceback(err: Exception) -> None:
    """Print a traceback as Python does (--debug), without what a terminal obeys: it has names of strangers."""
    import traceback

    sys.stderr.write(printable("".join(traceback.format_exception(err))))


def example(*lines: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the examples at the end of its --help, each a line as a shell takes it.

    They run as printed in the folder that `tracekit demo` makes (`tests/cli/test_help.py`), and fit 76 columns.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        setattr(command, "example", "\n".join(lines))  # noqa: B010 - functions do not declare it
        return command

    return decorate


def render_options(
    unit: str = "", width: int = 0, *, color: bool = False, bars: bool = False, exact: bool = False
) -> RenderOptions:
    """Return how a report is printed, with what -q and -v say. exact: with every digit, whatever they say."""
    from tracekit.render.base import RenderOptions

    much = verbosity()
    return RenderOptions(
        time_unit=unit,
        width=width,
        color=color,
        bars=bars,
        quiet=much is Verbosity.QUIET,
        verbose=much is Verbosity.VERBOSE or exact,
    )


def say(text: str) -> None:
    """Print a message of one line to stderr, unless -q is given: stdout is for results. Credentials are masked."""
    if verbosity() > Verbosity.QUIET:
        warn(text)


def warn(text: str) -> None:
    """Print what -q does not silence: an error, rows that are missing, why an exit code is not 0."""
    with suppress(OSError):  # nobody can be reached where stderr fails
        print("\n".join(wrapped_message(one_line(masked(text)), message_width())), file=sys.stderr)


def print_error(err: TracekitError) -> None:
    """Print one sentence of fact and what to do."""
    warn(f"error: {err.worded(COMMAND_LINE)}")
    if advice := err.advised(COMMAND_LINE):
        warn(f"hint: {advice}")


_ADD_RANGES = (
    "put the work into `with watch_program():` of tracekit.recorder.torch (or .paddle), "
    "recorder.step() or recorder.range()"
)
"""The recorder's own advice at the end of such a recording."""


class EmptyInput(NamedTuple):
    """An input without events, and its format."""

    name: str
    format: str


def name_empty(empty: Iterable[str | EmptyInput]) -> None:
    """Print an error for each input without events: a log of the recorder has what its program marks."""
    for each in empty:
        name, form = each if isinstance(each, EmptyInput) else (each, "")
        if form == "recorder-log":
            print_error(InputError("no range was recorded in it", path=name, hint=_ADD_RANGES))
        else:
            print_error(InputError("no events in it", path=name, hint="did the profiler stop before the work began?"))


def finish(failures: Sequence[Failure], incomplete: Sequence[str] = (), empty: Sequence[str | EmptyInput] = ()) -> None:
    """Name the inputs that failed among others that did not, and end with exit code 1 if there are any.

    incomplete: the sentences on inputs that lost too many records, which the output has: they too mean exit code 1.
    empty: the names of inputs without events, which are named here and mean exit code 1.
    """
    for failure in failures:
        print_error(failure.error)
    name_empty(empty)
    if failures or incomplete or empty:
        raise typer.Exit(EXIT_FAILED)


def empty_inputs(ledgers: Iterable[Ledger]) -> list[EmptyInput]:
    """Return the inputs that have neither events nor totals."""
    return [EmptyInput(ledger.name_in_errors, ledger.format) for ledger in ledgers if ledger.is_empty]


def tell_incomplete(sentences: Sequence[str]) -> None:
    """Print the sentences on inputs that lost too many records, before any other message."""
    for text in sentences:
        warn(text)


def tell_ledger(ledgers: tuple[Ledger, ...], *, whole: bool = False) -> None:
    """Print what became of the records, and every note, to stderr."""
    for line in ledger_lines(ledgers, whole=whole):
        say(line)


def ledger_lines(ledgers: tuple[Ledger, ...], *, whole: bool = False) -> Iterator[str]:
    """Give the lines on what became of the records, and every note; whole, or with -v: an account of each input."""
    from tracekit.model.display import plural
    from tracekit.model.ledger_lines import ledger_lines as short_lines

    if not whole and verbosity() < Verbosity.VERBOSE:
        yield from short_lines([ledger.to_json() for ledger in ledgers], verbose=False)
        # A note that several inputs have is one line.
        notes = dict.fromkeys(str(note) for ledger in ledgers for note in ledger.notes.values())
        yield from (f"note: {note}" for note in notes)
        return
    for ledger in ledgers:
        parts = [f"{ledger.kept:,} kept"]
        parts += [f"{ledger.merged:,} merged"] if ledger.merged else []
        parts += [plural(ledger.facts, "header row")] if ledger.facts else []
        parts += [f"{n:,} ignored ({what})" for what, n in sorted(ledger.ignored.items())]
        parts += [f"{ledger.filtered:,} filtered"] if ledger.filtered else []
        parts += [f"{n:,} DROPPED ({reason})" for reason, n in sorted(ledger.dropped.items())]
        yield f"{ledger.path} ({ledger.format}): {ledger.read:,} records read = {', '.join(parts)}"
        yield from (f"note: {note}" for note in ledger.notes.values())


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """Give a function that takes the share done, 0..1; it draws on stderr, if that is a terminal, after one second."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    import time

    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    from rich.console import Console

    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(one_line(label), total=1.0)
    begun = time.monotonic()
    shown = False

    def update(share: float) -> None:
        nonlocal shown
        if not shown and time.monotonic() - begun > 1:
            shown = True
            bar.start()
        if shown:
            bar.update(task, completed=share)

    try:
        yield update
    finally:
        if shown:
            bar.stop()
