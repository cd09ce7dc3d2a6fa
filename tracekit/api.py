"""The public functions of `import tracekit`: a function for each command, with the names of its options.

Each function that takes a trace also takes inputs (a path, a folder, a pattern, a URL, or several of them). Of inputs
it reads only the columns that it needs. Each refuses a wrong argument with a UsageError that names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from tracekit import pipeline
from tracekit.arguments import checked
from tracekit.comparison import Comparison, VerdictLimits
from tracekit.comparison import compare as _compare
from tracekit.conversion import Conversion, Inspection
from tracekit.errors import Option, UsageError
from tracekit.explanation import explain as _explain
from tracekit.index.topology import parse as parse_topology
from tracekit.inputs import ALL, InputOptions, PathLike, text_of
from tracekit.inputs.clocks.placement import Align
from tracekit.inputs.options import parse_align
from tracekit.inputs.selection import Selection
from tracekit.model import schema
from tracekit.model.report import Report, Section
from tracekit.model.trace import Trace
from tracekit.options import no_such
from tracekit.render.base import RenderOptions
from tracekit.safety.anonymize import Anonymizer
from tracekit.safety.limits import Limits, applied, size_of
from tracekit.views.base import ViewOptions
from tracekit.writers.base import VIEWERS, WHOLE, OutputSubset, Written

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
SideLike = TraceLike | Sequence[Trace | PathLike]
"""One side of a comparison: one run, or several."""
_LIMITS = VerdictLimits()


@checked()
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


@checked("inputs")
def read(
    inputs: PathLike | Sequence[PathLike],
    *,
    format: str = "",
    selection: Selection | None = ALL,
    strict: bool = False,
    columns: Iterable[str] | None = None,
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
    raise at the first note. columns: keep only these columns of EVENTS, and the times. demangle: make C++ names
    readable. options: those of one format. partial: read the other inputs if one is bad, and name it in
    `Trace.failures`. progress: called with the share done, 0..1. anonymize: replace paths, users, hosts and the like by
    stable tokens. align: how clocks of several inputs meet, as `--align` says. rank_from: a regular expression whose
    first group is the rank in an input's name.
    Raises: TracekitError.
    """
    how = InputOptions(
        format=format,
        selection=selection or ALL,
        strict=strict,
        demangle=demangle,
        options=options or {},
        columns=_columns(columns),
        partial=partial,
        progress=progress,
        anonymize=anonymize,
        align=_align(align),
        rank_from=rank_from,
    )
    return pipeline.read(inputs, how)


def _columns(names: Iterable[str] | None) -> frozenset[str] | None:
    """Return the names of columns of EVENTS. Raises: UsageError for another name."""
    if names is None:
        return None
    wanted = frozenset([names] if isinstance(names, str) else names)
    for name in sorted(wanted.difference(schema.EVENTS.names)):
        raise no_such("columns", name, "column", schema.EVENTS.names)
    return wanted


def _check_viewer(viewer: str) -> None:
    """Raise UsageError for a viewer whose limits are not known."""
    if viewer and viewer not in VIEWERS:
        raise no_such(Option("for"), viewer, "viewer", VIEWERS)


def _align(words: str | Sequence[str]) -> Align:
    return parse_align([words] if isinstance(words, str) else words)


def _trace(source: TraceLike) -> Trace:
    return source if isinstance(source, Trace) else pipeline.read(source, InputOptions())


def _shown(
    options: ViewOptions | Mapping[str, object] | None,
    *,
    top: int = 0,
    sort: str = "",
    thread_sep: bool = False,
    op_detail: bool = True,
    compat: str = "",
    by: str = "",
    topology: str = "",
    each: bool = False,
) -> ViewOptions:
    """Return the options of views, and the ones that a caller adds. Raises: UsageError."""
    if each and not by:
        raise UsageError("each without by", hint='such as by="rank"')
    shown = options if isinstance(options, ViewOptions) else ViewOptions(values=dict(options or {}))
    if by or topology:
        shown = replace(shown, by=by, each=each, topology=parse_topology(topology) if topology else None)
    if thread_sep:
        shown = replace(shown, thread_sep=True)
    if not op_detail:
        shown = replace(shown, op_detail=False)
    return replace(shown, top=int(top) or shown.top, sorted_by=sort or shown.sorted_by, compat=compat or shown.compat)


@checked("source")
def view(
    source: TraceLike,
    name: str,
    options: ViewOptions | Mapping[str, object] | None = None,
    *,
    top: int = 0,
    sort: str = "",
    thread_sep: bool = False,
    op_detail: bool = True,
    compat: str = "",
    by: str = "",
    each: bool = False,
    topology: str = "",
) -> Section:
    """Return one view of a trace, for example "kernel": `section[0]` is its first table. Times are ns.

    top: rows of each table, 0 for all. sort: a column, largest first; "-total" sorts smallest first. thread_sep: a
    block for each thread. op_detail: below each operator, what it called and launched. compat: a profiler whose figures
    are shown, such as "paddle". options: the view's own options by key, such as {"n_ops": 10}, or a `ViewOptions`.
    by: "rank", "host", "tp", "pp", "dp", "ep" or another dimension: each row then has the median, least and most over
    its groups, and which ones. each: the table of each group instead. topology: the groups, as `--topology` takes them.
    Raises: TracekitError; UsageError for an unknown view, column or option.
    """
    shown = _shown(
        options, top=top, sort=sort, thread_sep=thread_sep, op_detail=op_detail, compat=compat, by=by,
        topology=topology, each=each,
    )  # fmt: skip
    return pipeline.view(_for_views(source, [name], shown), name, shown)


def _for_views(source: TraceLike, views: Sequence[str], shown: ViewOptions) -> Trace:
    """Return the trace; of inputs with the columns that these views need."""
    if isinstance(source, Trace):
        return source
    by_ranks = bool(shown.by or shown.topology)
    return pipeline.read(source, pipeline.for_summary(InputOptions(), shown.compat, views, by_ranks=by_ranks))


@checked("source")
def summary(
    source: TraceLike,
    *,
    views: str | Sequence[str] = (),
    options: ViewOptions | Mapping[str, object] | None = None,
    top: int = 0,
    sort: str = "",
    thread_sep: bool = False,
    op_detail: bool = True,
    compat: str = "",
    by: str = "",
    each: bool = False,
    topology: str = "",
) -> Report:
    """Return the tables that `tracekit summary` prints: those of these views ("all": every table), or the usual ones.

    In a notebook the report shows its first screen, and its sections folded. `report["kernel"]` is a section.
    The other arguments are those of `view`. Raises: TracekitError; UsageError for an unknown view, column or option.
    """
    named = [views] if isinstance(views, str) else list(views)
    shown = _shown(
        options, top=top, sort=sort, thread_sep=thread_sep, op_detail=op_detail, compat=compat, by=by,
        topology=topology, each=each,
    )  # fmt: skip
    return pipeline.summary(_for_views(source, named, shown), views=named, options=shown)


@checked("source")
def report(
    source: TraceLike,
    *,
    options: ViewOptions | Mapping[str, object] | None = None,
    top: int = 0,
    sort: str = "",
    by: str = "",
    each: bool = False,
    topology: str = "",
) -> Report:
    """Return every view of a trace; `write_report` makes the page of it.

    top, sort, options: as in `view`. by, each, topology: adds the tables by group, as in `view`. Raises: TracekitError.
    """
    shown = _shown(options, top=top, sort=sort, by=by, topology=topology, each=each)
    return pipeline.report(_trace(source), options=shown)


@checked("source")
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
    shown = _shown(None, by=by, topology=topology, each=each)
    pipeline.write_report(_trace(source), target, form=form, force=force, options=how, shown=shown)


@checked("source")
def convert(
    source: PathLike | Sequence[PathLike],
    target: PathLike,
    *,
    to: str = "",
    format: str = "",
    selection: Selection | None = ALL,
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
        selection=selection or ALL,
        strict=strict,
        demangle=demangle,
        options=options or {},
        partial=partial,
        progress=progress,
        anonymize=anonymize,
        align=_align(align),
        rank_from=rank_from,
    )
    _check_viewer(viewer)
    shape = OutputSubset(split, max_events, max_mb)
    if findings:
        if shape != WHOLE:
            raise UsageError("findings: not with split, max_events or max_mb", hint="convert twice")
        return pipeline.convert_with_findings(source, target, how, to=to, force=force, viewer=viewer)
    return pipeline.convert(source, target, how, to=to, force=force, viewer=viewer, shape=shape)


@checked()
def write(trace: Trace, target: PathLike, *, to: str = "", force: bool = False, viewer: str = "") -> Written:
    """Write a trace into a file; the suffix or `to` names the target. force, viewer: as in `convert`.

    Raises: TracekitError.
    """
    _check_viewer(viewer)
    return pipeline.write(trace, target, to=to, force=force, viewer=viewer)


@checked("inputs")
def inspect(
    inputs: PathLike | Sequence[PathLike],
    *,
    format: str = "",
    selection: Selection | None = ALL,
    strict: bool = False,
    options: Mapping[str, str] | None = None,
    partial: bool = False,
    align: str | Sequence[str] = (),
    rank_from: str = "",
) -> Inspection:
    """Return what each input is and holds, and the ledger of its records. Raises: TracekitError."""
    how = InputOptions(
        format=format,
        selection=selection or ALL,
        strict=strict,
        options=options or {},
        partial=partial,
        align=_align(align),
        rank_from=rank_from,
    )
    return pipeline.inspect(inputs, how)


@checked("base", "new")
def compare(
    base: SideLike,
    new: SideLike = (),
    *,
    rules: str | Sequence[str] = (),
    history: bool = False,
    format: str = "",
    one_run: bool = False,
    partial: bool = False,
    by: str = "",
    min_effect: float = _LIMITS.least,
    same_within: float = _LIMITS.same,
) -> Comparison:
    """Return the comparison of two sides: runs, folders or patterns of repeats, archives; traces, or lists of these.

    A list has several runs of one side, so a run of many files is a folder, or a trace that was read of them.
    rules: gates such as "step.p50 > 3%". by: "module" or "operator" divides the change of the device time by these:
    `tree` of the result. min_effect: smaller changes do not count, 0.01 is 1 %. same_within: the verdict is "same" if
    the whole interval is within this share. The result has `verdict`, `changes` and `checked`; `comparison["step.p50"]`
    is one change, and `report(top=20)` makes tables.
    Raises: TracekitError; UsageError for a trace that was read without the columns that are compared.
    """
    return _compare(
        _side(base),
        _side(new),
        rules=[rules] if isinstance(rules, str) else rules,
        history=history,
        format=format,
        one_run=one_run,
        partial=partial,
        by=by,
        limits=VerdictLimits(_share("min_effect", min_effect), _share("same_within", same_within)),
    )


def _side(side: SideLike) -> list[str | Trace]:
    several = [side] if isinstance(side, (Trace, str, os.PathLike)) or not isinstance(side, Sequence) else side
    return [each if isinstance(each, Trace) else text_of(each) for each in several]


def _share(argument: str, given: float) -> float:
    if not 0 <= given <= 1:
        raise UsageError(f"{argument} {given}: not a share from 0 to 1", hint="0.03 is 3 %")
    return float(given)


@checked("inputs")
def query(
    inputs: TraceLike, sql: str, *, format: str = "", strict: bool = False, all_versions: bool = False
) -> pa.Table:
    """Return the answer to one SELECT over the tables `events` and `totals` of a trace, of inputs or archives.

    all_versions: of an archive, count the older versions of a changed run too.

    The answer is a table of Arrow: `to_pandas()`, `to_pylist()`, `polars.from_arrow(table)`. Times are ns. Columns of
    `events`: `trace.events.column_names`; "DESCRIBE events" lists them too.
    Raises: TracekitError; UsageError for anything but one SELECT; MissingExtraError without DuckDB.
    """
    from tracekit.queries import query as answered

    return answered(inputs, sql, InputOptions(format=format, strict=strict), all_versions=all_versions)


@checked("source")
def explain(source: TraceLike, left: str, right: str) -> Report:
    """Return why two cells differ, in steps that add up. left, right: VIEW.COLUMN or VIEW.ROW.COLUMN.

    Raises: TracekitError, UsageError for a cell that does not exist or has no definition.
    """
    return _explain(_trace(source), left, right)
