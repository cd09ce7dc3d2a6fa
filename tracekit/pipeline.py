"""The program on one page: read, view, summarise, report, convert, write, inspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path

from tracekit import compat as upstreams
from tracekit._version import __version__
from tracekit.compat.base import Compat
from tracekit.conversion import Conversion as Conversion
from tracekit.conversion import Inspection as Inspection
from tracekit.conversion import convert as convert
from tracekit.conversion import inspect as inspect
from tracekit.conversion import read as read
from tracekit.conversion import read_summed
from tracekit.conversion import write as write
from tracekit.conversion import writer_for as writer_for
from tracekit.errors import Option, OutputExistsError, UsageError, sentence
from tracekit.formats import READERS
from tracekit.index.rank_groups import dimensions
from tracekit.index.trace_index import TraceIndex, index_of
from tracekit.inputs import USUAL, InputOptions, PathLike, expand, refuse_inputs
from tracekit.model import arrow
from tracekit.model.cuts import where_cut
from tracekit.model.report import Headline, Report, Section
from tracekit.model.trace import ARCHIVED_LEDGERS, JOINED_INTO, Trace, all_ledgers
from tracekit.options import no_such, unknown_option
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions, first_lines
from tracekit.views import FIRST_VIEWS, SUMMARY, VIEWS, by_group
from tracekit.views.base import View, ViewOptions, computed, needs_events
from tracekit.views.check import check_options
from tracekit.views.headline.facts import facts_of
from tracekit.writers.base import new_file

__all__ = [
    "TABLE_VIEWS",
    "Conversion",
    "Inspection",
    "args_of",
    "columns_of",
    "convert",
    "convert_with_findings",
    "every_compat",
    "every_view",
    "first_screen",
    "for_report",
    "for_summary",
    "inspect",
    "own_views",
    "read",
    "render",
    "report",
    "report_of",
    "summary",
    "summary_of",
    "view",
    "view_named",
    "view_options",
    "views_of",
    "with_tables_of",
    "write",
    "write_report",
    "writer_for",
]


def view(trace: Trace, name: str, options: ViewOptions | None = None) -> Section:
    """Return what the view of that name has to say of a trace. Raises: UsageError for an unknown name."""
    options = options or ViewOptions()
    _check([name], options)
    return _sections(index_of(trace), [name], options)[0]


def convert_with_findings(
    inputs: PathLike | Sequence[PathLike],
    target: PathLike,
    options: InputOptions = USUAL,
    *,
    to: str = "",
    force: bool = False,
    viewer: str = "",
) -> Conversion:
    """Convert inputs into a trace for a viewer, with the findings on lanes of their own.

    The trace is in memory as a whole, since a finding is about all of it. Raises: TracekitError.
    """
    from tracekit.views.timeline.marked import with_findings

    writer = writer_for(target, to)
    if writer.holds != "events":
        raise UsageError(
            sentence(Option("findings"), f": {writer.name} is not for a viewer"), hint="such as chrome or perfetto"
        )
    refuse_inputs(target, [item.name for item in expand(inputs)])
    trace = read(inputs, options)
    marked, count = with_findings(index_of(trace), view(trace, "findings").findings)
    written = write(marked, target, to=to, force=force, viewer=viewer)
    text = f"{count:,} of the events are marks of findings, on threads named after them"
    written.notes.append(text if count else "no finding has an event to mark")
    return Conversion(written, trace.run, trace.ledgers, trace.failures)


def _check(names: Sequence[str], options: ViewOptions) -> None:
    check_options(options, [view_named(name, options.compat) for name in names], every_view)


def _sections(index: TraceIndex, names: Sequence[str], options: ViewOptions) -> list[Section]:
    if options.topology:
        dimensions(index, options.topology)  # it is refused whether or not a view looks at it
    if options.by:
        return by_group.sections([view_named(name, options.compat) for name in names], index, options)
    sections = []
    for name in names:
        sections.append(_section(index, name, options))
        if name == "findings" and "critical_path" not in names:
            from tracekit.views.path.critical_path import drop_graphs

            drop_graphs(index)
    return sections


def _section(index: TraceIndex, name: str, options: ViewOptions) -> Section:
    arrow.release_memory()  # that of the reader, or of the view before
    return computed(view_named(name, options.compat), index, options)


def view_named(name: str, compat: str = "") -> View:
    """Return the view of that name; with the figures of an upstream, where one is named that prints such a table.

    Raises: UsageError for an unknown name.
    """
    if compat and (printed := upstreams.load(compat).view(name)) is not None:
        return printed
    if name in VIEWS:
        return VIEWS[name]
    if name in upstreams.VIEWS and (upstream_view := upstreams.load(name).view(name)) is not None:
        return upstream_view
    raise no_such(Option("view"), name, "view", (*VIEWS, *upstreams.VIEWS))


def every_view() -> Iterator[View]:
    """Give all views: the common ones, then those of each profiler of `compat`, which is loaded then."""
    yield from VIEWS.values()
    for compat in every_compat():
        yield from compat.views


def every_compat() -> list[Compat]:
    """Return all profilers of `compat`; each is loaded."""
    return [upstreams.load(name) for name in upstreams.names()]


def view_options(given: Mapping[str, str]) -> dict[str, object]:
    """Return those of `key: text` options that belong to views, as typed values; the others belong to formats.

    Raises: UsageError for one that neither has, and for a bad value.
    """
    formats = {spec.key: spec for reader in READERS.values() for spec in reader.options}
    values: dict[str, object] = {}
    for key, text in given.items():
        views = list(VIEWS.values() if key in formats else every_view())
        known = {spec.key: spec for view in views for spec in view.options}
        if key in known:
            values[key] = known[key].parsed(text)
        elif key not in formats:
            raise unknown_option(key, (*formats.values(), *known.values()))
    return values


def columns_of(views: Sequence[str], compat: str = "") -> frozenset[str]:
    """Return the columns of EVENTS that these views need, for an upstream's figures too where one is named.

    Raises: UsageError for an unknown name.
    """
    return frozenset().union(*(view_named(name, compat).columns for name in views))


def args_of(views: Sequence[str], compat: str = "") -> frozenset[str] | None:
    """Return the kinds of rows whose `args` these views read, None for all. Raises: UsageError for an unknown name."""
    kinds: set[str] = set()
    for view in (view_named(name, compat) for name in views):
        if "args" in view.columns:
            if view.args_of is None:
                return None
            kinds |= view.args_of
    return frozenset(kinds)


def for_summary(
    options: InputOptions, compat: str = "", views: Sequence[str] = (), *, by_ranks: bool = False
) -> InputOptions:
    """Return how to read what a summary of these views shows: with the columns that they, and ranks, need.

    Views that inputs of a profiler's own formats have add theirs once the formats are known.
    Raises: UsageError for an unknown name.
    """
    more = None if compat or (views and "all" not in views) else _own_columns
    names = views_of(compat, views)
    columns = columns_of(names, compat) | (by_group.COLUMNS if by_ranks else frozenset())
    return replace(options, columns=columns, args_of=args_of(names, compat), more_columns=more)


def _own_columns(form: str) -> frozenset[str]:
    return columns_of([name for name in upstreams.VIEWS if form in upstreams.COMPATS[name]])


def summary_of(
    inputs: PathLike | Sequence[PathLike], how: InputOptions, *, views: Sequence[str], options: ViewOptions
) -> tuple[Trace, Report]:
    """Return the summary of inputs, and their trace: of a few rows where the views are made of sums alone.

    Such views are made batch by batch, in memory that does not grow with the inputs. Raises: TracekitError.
    """
    named = [view_named(name) for name in views] if views and "all" not in views and not needs_events(options) else []
    factories = dict.fromkeys(each.sums for each in named)
    if None in factories or not factories:
        trace = read(inputs, how)
        return trace, summary(trace, views=views, options=options)
    sums = [each for make in factories if make is not None for each in make()]
    found = read_summed(inputs, how, sums)
    if isinstance(found, Trace):
        return found, summary(found, views=views, options=options)
    _check(views, options)
    index = index_of(found.trace)
    for each in sums:
        each.give(index)
    return found.trace, report_of(found.trace, _sections(index, views, options), events=found.events)


def summary(trace: Trace, *, views: Sequence[str] = (), options: ViewOptions | None = None) -> Report:
    """Return a report of the named views ("all": every table); when none is named of `views.SUMMARY`, or of a compat's.

    Unasked the other views are shown too where they have a table, and either the trace has sums alone or nothing else
    is to be seen. Raises: UsageError.
    """
    compat = options.compat if options else ""
    names = views_of(compat, views, trace)
    options = options or ViewOptions()
    _check(names, options)
    index = index_of(trace)
    sections = _sections(index, names, options)
    if views or compat or options.by:
        return report_of(trace, sections)
    if not trace.events.num_rows or not any(section.tables for section in sections):
        there = set(trace.events.schema.names)
        rest = [name for name in TABLE_VIEWS if name not in names and VIEWS[name].columns <= there]
        sections += [section for name in rest if (section := _section(index, name, options)).tables]
    return report_of(trace, sections, _headline(trace, sections, options))


def _headline(trace: Trace, sections: Sequence[Section], options: ViewOptions) -> Headline:
    """Return the headline. It quotes sections that are there, unless their rows were sorted, cut or split."""
    from tracekit.views.headline import headline

    index = index_of(trace)
    plain = ViewOptions(values=options.values)
    given = {each.view: each for each in sections} if replace(options, op_detail=True) == plain else {}

    def section(name: str) -> Section:
        return given[name] if name in given else _section(index, name, plain)

    arrow.release_memory()
    return headline.find(index, section, own_views(trace))


def own_views(trace: Trace) -> tuple[str, ...]:
    """Return the views of the upstreams whose own formats were read: they are shown unasked."""
    formats = {source.format for source in trace.run.sources}
    return tuple(name for name in upstreams.VIEWS if upstreams.COMPATS[name] & formats)


def _first_views(trace: Trace | None) -> tuple[str, ...]:
    """Return the views that come first because a format is about nothing else."""
    formats = {source.format for source in trace.run.sources} if trace is not None else set()
    return tuple(view for view, about in FIRST_VIEWS.items() if about & formats)


def views_of(compat: str, views: Sequence[str] = (), trace: Trace | None = None) -> tuple[str, ...]:
    """Return the views that a summary shows: those named, all tables, `views.SUMMARY`, or those of an upstream.

    trace: adds the views of the profilers whose own formats were read.
    Raises: UsageError for an unknown compat, and for a view that the profiler does not have.
    """
    if not compat:
        upstream_views = () if trace is None else own_views(trace)
        if "all" in views:
            return (*TABLE_VIEWS, *upstream_views)
        return tuple(views) or (*_first_views(trace), *SUMMARY, *upstream_views)
    printed = tuple(view.name for view in upstreams.load(compat).views)
    for name in views:
        if name not in printed:
            raise UsageError(sentence(Option("view", name), f": {compat} prints no such table"), choices=printed)
    return tuple(views) or printed


def for_report(options: InputOptions) -> InputOptions:
    """Return how to read what the report of all views shows: with the columns that they need."""
    names = tuple(VIEWS)
    return replace(options, columns=columns_of(names), args_of=args_of(names), more_columns=_own_columns)


def report(trace: Trace, *, options: ViewOptions | None = None) -> Report:
    """Return the report of all views, timeline included, for the HTML page; `options.by` adds the tables by group."""
    index = index_of(trace)
    options = options or ViewOptions()
    names = (*VIEWS, *own_views(trace))
    _check(names, options)
    by = options if options.by else None
    options = replace(options, by="", each=False)
    if options.topology:
        dimensions(index, options.topology)
    sections_by_view = {}
    # The critical path behind the findings: both need its graph, the largest of all joins, and nothing else does.
    for name in sorted(names, key=lambda name: names.index("findings" if name == "critical_path" else name)):
        sections_by_view[name] = _section(index, name, options)
    sections = [sections_by_view[name] for name in names]
    first = _headline(trace, sections, options)
    if by:
        for place, more in enumerate(by_group.sections([view_named(name) for name in names], index, by)):
            if names[place] not in by_group.WHOLE:
                sections[place] = with_tables_of(sections[place], more)
    return report_of(trace, sections, first)


def with_tables_of(section: Section, other: Section) -> Section:
    """Return a section with the tables of another one after its own, and the notes that it lacks."""
    notes = (*section.notes, *(note for note in other.notes if note not in section.notes))
    return replace(section, tables=(*section.tables, *other.tables), notes=notes)


TABLE_VIEWS = tuple(name for name in VIEWS if name != "timeline")
"""Every view but the timeline, which is a picture for the page alone."""


def report_of(
    trace: Trace, sections: Sequence[Section], first: Headline | None = None, *, events: int | None = None
) -> Report:
    """Return sections with the facts, ledgers and notes of a trace, and its headline.

    events: how many there are, where the trace has a few rows in the place of all.
    """
    sources = trace.run.sources
    titled = [source for source in sources if JOINED_INTO not in source.facts] or sources
    more = f" and {len(titled) - 1} more" if len(titled) > 1 else ""
    title = f"{titled[0].label or Path(titled[0].path).name}{more}" if titled else "trace"
    if len(trace.ledgers) == 1 and titled and ARCHIVED_LEDGERS in titled[0].facts and not titled[0].label:
        # A converted or repaired trace has the facts of its sources, but it is another file.
        read, made_from = Path(trace.ledgers[0].path).name, Path(titled[0].path).name
        title = title if read == made_from else f"{read} (made from {title})"
    notes = tuple(
        f"{Path(ledger.path).name}: {note}" if len(sources) > 1 else str(note)
        for ledger in trace.ledgers
        for note in ledger.notes.values()
    )
    filtered = sum(ledger.filtered for ledger in trace.ledgers)
    left = trace.events.num_rows + trace.totals.num_rows
    if filtered and (not left or any(not section.tables and not section.figures for section in sections)):
        # Else "this trace has none" would be taken as a word about the file.
        words = '"this trace has none" is about the other records' if left else "no record is left to show"
        count = f"{filtered:,} record{'' if filtered == 1 else 's'}"
        notes = (*notes, f"the filters removed {count}: {words}")
        sections, first = (sections, first) if left else ((), None)
    elif any(not section.tables and not section.figures for section in sections) and where_cut(
        all_ledgers(trace.ledgers, trace.run)
    ):
        notes = (*notes, '"this trace has none" is about the part that could be read')
    ledgers = tuple(ledger.to_json() for ledger in trace.ledgers)
    titles = {s.format: READERS[s.format].title for s in sources if s.format in READERS}
    return Report(
        title,
        __version__,
        facts_of(trace, titles, events),
        tuple(sections),
        ledgers,
        notes,
        trace.incomplete,
        first,
    )


def render(shown: Report, form: str = "text", options: RenderOptions | None = None, *, compat: str = "") -> str:
    """Return a report in a form of `RENDERERS`; text of a compat is laid out as that upstream does.

    Raises: UsageError for another form.
    """
    if compat and form == "text":
        return first_lines(shown) + upstreams.load(compat).layout.render(shown, options or RenderOptions())
    if form not in RENDERERS:
        raise no_such(Option("format"), form, "form", RENDERERS)
    return RENDERERS[form].render(shown, options or RenderOptions())


def first_screen(shown: Report, options: RenderOptions | None = None) -> str:
    """Return the first screen of a summary as text: headline, bars, findings, top names, and what else there is."""
    from tracekit.render import first_screen as screen

    return screen.text(shown, options or RenderOptions())


def write_report(
    trace: Trace,
    target: PathLike,
    *,
    form: str = "html",
    force: bool = False,
    options: RenderOptions | None = None,
    shown: ViewOptions | None = None,
) -> None:
    """Write the report of all views into a file, whole or not at all: an HTML page, or another form of `render`.

    shown: the options of the views.

    Raises: OutputExistsError, OutputError, UsageError.
    """
    if Path(target).exists() and not force:
        raise OutputExistsError(str(target))
    refuse_inputs(target, [s.opened or s.path for s in trace.run.sources])
    made = report(trace, options=shown)
    index_of(trace).clear()  # the page needs none of the joins
    pieces = _pieces(made, form, options)
    with new_file(Path(target), force=force) as file:
        text = TextIOWrapper(file, "utf-8", "replace", newline="")
        text.writelines(pieces)
        text.detach()


def _pieces(shown: Report, form: str, options: RenderOptions | None) -> Iterable[str]:
    """Return a report in a form of `RENDERERS`, piece by piece where it can be. Raises: UsageError for another form."""
    pieces = RENDERERS[form].pieces if form in RENDERERS else None
    return [render(shown, form, options)] if pieces is None else pieces(shown, options or RenderOptions())
