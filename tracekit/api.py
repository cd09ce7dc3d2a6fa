"""The public functions of `import tracekit`, with plain arguments.

Each function that takes a trace also takes inputs (a path, a folder, a pattern, a URL, or several of them). Of inputs
it reads only the columns that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tracekit import pipeline
from tracekit.comparison import Comparison
from tracekit.comparison import compare as _compare
from tracekit.conversion import Conversion, Inspection
from tracekit.errors import UsageError
from tracekit.explanation import explain as _explain
from tracekit.index.topology import parse as parse_topology
from tracekit.inputs import ALL, InputOptions, PathLike
from tracekit.inputs.clocks.placement import Align
from tracekit.inputs.options import parse_align
from tracekit.inputs.selection import Selection
from tracekit.model.report import Report, Section
from tracekit.model.trace import Trace
from tracekit.render.base import RenderOptions
from tracekit.safety.anonymize import Anonymizer
from tracekit.safety.limits import Limits, applied, size_of
from tracekit.views.base import ViewOptions
from tracekit.writers.base import WHOLE, OutputSubset, Written

__all__ = [
    "TraceLike",
    "compare",
    "convert",
    "explain",
    "inspect",
    "limits",
    "query",
    "read",
    "report",
    "summary",
    "view",
    "write",
    "write_report",
]

TraceLike = Trace | PathLike | Sequence[PathLike]
"""A trace, or what `read` accepts."""


@contextmanager
def limits(
    *, read_bytes: int | str = 0, read_events: int = 0, seconds: float = 0, memory: int | str = 0
) -> Iterator[None]:
    """Limit the cost of all that is read within the block; 0 for no limit. What was read up to a limit is kept.

    read_bytes: of each input, unpacked, as a number or as "2GiB". read_events: of each input. seconds: of the block;
    reading ends after four fifths of them, and nothing else does. The trace then says that it is incomplete.
    `tracekit.batch.run` holds each run to the limits, also to `memory`, by processes of its own; nothing else in Python
    is held to that one.
    Raises: UsageError for a limit that is none.
    """
    most, held = _size("read_bytes", read_bytes), _size("memory", memory)
    if min(most, held, read_events) < 0 or not seconds >= 0:
        raise UsageError("limits: a limit is below zero", hint="0 is no limit")
    with applied(Limits(most, read_events, seconds, memory=held)):
        yield


def _size(argument: str, given: int | str) -> int:
    try:
        return size_of(given) if isinstance(given, str) else given
    except ValueError as err:
        raise UsageError(f"{argument}={given!r}: not a size", hint='such as "2GiB"') from err


def read(
    inputs: PathLike | Sequence[PathLike],
    *,
    format: str = "",
    selection: Selection = ALL,
    strict: bool = False,
    columns: frozenset[str] | None = None,
    demangle: bool = True,
    options: Mapping[str, str] | None = None,
    partial: bool = False,
    progress: Callable[[float], None] | None = None,
    anonymize: Anonymizer | None = None,
    align: str | Sequence[str] = (),
    rank_from: str = "",
) -> Trace:
    """Return the trace of one or several inputs: paths, folders, patterns, "-", URLs.

    format: a reader's name (`tracekit formats`); "" lets the content decide. selection: keep only these rows. strict:
    raise at the first note. columns: keep only these columns of EVENTS. demangle: make C++ names readable. options:
    those of one format. partial: read the other inputs if one is bad, and name it in `Trace.failures`. progress: called
    with the share done, 0..1. anonymize: replace paths, users, hosts and the like by stable tokens. align: how clocks
    of several inputs meet, as `--align` says. rank_from: a regular expression whose first group is the rank in an
    input's name.
    Raises: TracekitError.
    """
    how = InputOptions(
        format=format,
        selection=selection,
        strict=strict,
        demangle=demangle,
        options=options or {},
        columns=columns,
        partial=partial,
        progress=progress,
        anonymize=anonymize,
        align=_align(align),
        rank_from=rank_from,
    )
    return pipeline.read(inputs, how)


def _align(words: str | Sequence[str]) -> Align:
    return parse_align([words] if isinstance(words, str) else words)


def _trace(source: TraceLike) -> Trace:
    return source if isinstance(source, Trace) else pipeline.read(source, InputOptions())


def _grouped(options: ViewOptions | None, by: str, topology: str, *, each: bool) -> ViewOptions | None:
    """Return the options with the groups of ranks that a caller names. Raises: UsageError."""
    if each and not by:
        raise UsageError("each without by", hint='such as by="rank"')
    if not by and not topology:
        return options
    placed = parse_topology(topology) if topology else None
    return replace(options or ViewOptions(), by=by, each=each, topology=placed)


def view(
    source: TraceLike,
    name: str,
    options: ViewOptions | None = None,
    *,
    by: str = "",
    each: bool = False,
    topology: str = "",
) -> Section:
    """Return one view of a trace, for example "kernel". Raises: TracekitError, UsageError for an unknown name.

    by: "rank", "host", "tp", "pp", "dp", "ep" or another dimension: each row then has the median, least and most over
    its groups, and which ones. each: the table of each group instead. topology: the groups, as `--topology` takes them.
    """
    options = _grouped(options, by, topology, each=each)
    if not isinstance(source, Trace):
        how = pipeline.for_summary(InputOptions(), options.compat if options else "", [name], by_ranks=_by(options))
        source = pipeline.read(source, how)
    return pipeline.view(source, name, options)


def _by(options: ViewOptions | None) -> bool:
    return options is not None and bool(options.by or options.topology)


def summary(
    source: TraceLike,
    *,
    views: Sequence[str] = (),
    options: ViewOptions | None = None,
    by: str = "",
    each: bool = False,
    topology: str = "",
) -> Report:
    """Return the tables that `tracekit summary` prints: those of these views ("all": every table), or the usual ones.

    by, each, topology: as in `view`. Raises: TracekitError, UsageError for an unknown view.
    """
    options = _grouped(options, by, topology, each=each)
    if not isinstance(source, Trace):
        how = pipeline.for_summary(InputOptions(), options.compat if options else "", views, by_ranks=_by(options))
        source = pipeline.read(source, how)
    return pipeline.summary(source, views=views, options=options)


def report(
    source: TraceLike,
    *,
    options: ViewOptions | None = None,
    by: str = "",
    each: bool = False,
    topology: str = "",
) -> Report:
    """Return every view of a trace; `write_report` makes the page of it. Raises: TracekitError.

    by, each, topology: adds the tables by group, as in `view`.
    """
    return pipeline.report(_trace(source), options=_grouped(options, by, topology, each=each))


def write_report(
    source: TraceLike,
    target: PathLike,
    *,
    form: str = "html",
    force: bool = False,
    page_events: int = 2_000_000,
    page_mb: float = 32,
    page_args_mb: float = 8,
    by: str = "",
    each: bool = False,
    topology: str = "",
) -> None:
    """Write the report of all views into a file, complete or not at all: an HTML page, or text, json, csv, markdown.

    page_events, page_mb: the most events, and MB of them, on the page's timeline; the page shows where others are.
    page_args_mb: the most MB of their arguments. by, each, topology: as in `report`. Raises: TracekitError.
    """
    how = RenderOptions(page_events=page_events, page_mb=page_mb, page_args_mb=page_args_mb)
    shown = _grouped(None, by, topology, each=each)
    pipeline.write_report(_trace(source), target, form=form, force=force, options=how, shown=shown)


def convert(
    source: PathLike | Sequence[PathLike],
    target: PathLike,
    *,
    to: str = "",
    format: str = "",
    selection: Selection = ALL,
    strict: bool = False,
    demangle: bool = True,
    options: Mapping[str, str] | None = None,
    partial: bool = False,
    force: bool = False,
    viewer: str = "",
    progress: Callable[[float], None] | None = None,
    anonymize: Anonymizer | None = None,
    align: str | Sequence[str] = (),
    rank_from: str = "",
    split: str = "",
    max_events: int = 0,
    max_mb: str = "",
    findings: bool = False,
) -> Conversion:
    """Convert inputs into one file, as a stream: memory does not grow with the input.

    to: a target's name; "" lets the target's suffix decide. force: replace a file that exists. viewer: "chrome",
    "perfetto" or "speedscope", to respect its limits. split: "step", "rank", "time=1s", "events=200000" or
    "mb=100" writes pieces and an index. max_events, max_mb: the longest events alone. findings: mark the events of the
    findings, which needs the whole trace in memory. The others are those of `read`. Nothing is left half-written.
    Raises: TracekitError.
    """
    how = InputOptions(
        format=format,
        selection=selection,
        strict=strict,
        demangle=demangle,
        options=options or {},
        partial=partial,
        progress=progress,
        anonymize=anonymize,
        align=_align(align),
        rank_from=rank_from,
    )
    shape = OutputSubset(split, max_events, max_mb)
    if findings:
        if shape != WHOLE:
            raise UsageError("findings: not with split, max_events or max_mb", hint="convert twice")
        return pipeline.convert_with_findings(source, target, how, to=to, force=force, viewer=viewer)
    return pipeline.convert(source, target, how, to=to, force=force, viewer=viewer, shape=shape)


def write(trace: Trace, target: PathLike, *, to: str = "", force: bool = False, viewer: str = "") -> Written:
    """Write a trace into a file; the suffix or `to` names the target. Raises: TracekitError."""
    return pipeline.write(trace, target, to=to, force=force, viewer=viewer)


def inspect(
    inputs: PathLike | Sequence[PathLike],
    *,
    format: str = "",
    selection: Selection = ALL,
    strict: bool = False,
    options: Mapping[str, str] | None = None,
    partial: bool = False,
    align: str | Sequence[str] = (),
    rank_from: str = "",
) -> Inspection:
    """Return what each input is and holds, and the ledger of its records. Raises: TracekitError."""
    how = InputOptions(
        format=format,
        selection=selection,
        strict=strict,
        options=options or {},
        partial=partial,
        align=_align(align),
        rank_from=rank_from,
    )
    return pipeline.inspect(inputs, how)


def compare(
    base: PathLike | Sequence[PathLike],
    new: PathLike | Sequence[PathLike],
    *,
    rules: Sequence[str] = (),
    history: bool = False,
    format: str = "",
    one_run: bool = False,
    partial: bool = False,
    by: str = "",
) -> Comparison:
    """Return the comparison of two sides: runs, folders or patterns of repeats, archives.

    by: "module" or "operator" divides the change of the device time by these: `tree` of the result.
    rules: gates such as "step.p50 > 3%". The result has `verdict`, `changes` and `checked`; `report()` makes tables.
    Raises: TracekitError.
    """
    sides = [[str(side)] if isinstance(side, (str, Path)) else [str(each) for each in side] for side in (base, new)]
    return _compare(*sides, rules=rules, history=history, format=format, one_run=one_run, partial=partial, by=by)


def query(inputs: PathLike | Sequence[PathLike], sql: str, *, format: str = "", strict: bool = False) -> pa.Table:
    """Return the answer to one SELECT over the views `events` and `totals` of inputs or archives, as an Arrow table.

    Raises: TracekitError; MissingExtraError without DuckDB.
    """
    from tracekit.queries import query as answered

    return answered(inputs, sql, InputOptions(format=format, strict=strict))


def explain(source: TraceLike, left: str, right: str) -> Report:
    """Return why two cells differ, in steps that add up. left, right: VIEW.COLUMN or VIEW.ROW.COLUMN.

    Raises: TracekitError, UsageError for a cell that does not exist or has no definition.
    """
    return _explain(_trace(source), left, right)
