"""Comparison -> Report: verdict, rules, metrics, parts of the change, matched names, runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from tracekit._version import __version__
from tracekit.arguments import checked as with_checked_arguments
from tracekit.comparison._amount import Amount
from tracekit.comparison._change import (
    FASTER,
    LESS,
    LEVEL,
    MORE,
    SLOWER,
    TOO_FEW_RUNS,
    UNKNOWN,
    Change,
    VerdictLimits,
)
from tracekit.comparison._first_screen import intervals_of, verdict_of, waterfall_of
from tracekit.comparison._history import History, history_section
from tracekit.comparison._match import NameGroup
from tracekit.comparison._measure import Sides, measure, measure_names, weights
from tracekit.comparison._metrics import METRICS, ComparedMetric, parse_metric
from tracekit.comparison._parts import (
    ChangePart,
    ChangeParts,
    cut,
    device_parts,
    flame,
    named_groups,
    split,
    step_parts,
)
from tracekit.comparison._profile import Profile
from tracekit.comparison._rules import MET, CheckedRule, describe, describe_single, percent
from tracekit.comparison._tree_parts import PARTS, TreeChange, TreeRow
from tracekit.comparison._tree_waterfalls import tree_waterfalls
from tracekit.errors import Failure, UnknownNameError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.change import Waterfall
from tracekit.model.display import escape_controls, plural
from tracekit.model.report import Cell, Column, Report, ReportTable, Section, one_screen, without_shares
from tracekit.model.units import Unit, format_span, sentence_span

MIN_SHARE = 0.01
"""Share of the time below which a name has no interval of its own."""
_NAMES_SHOWN = 20
"""Names in each table that a notebook shows."""
_TOTAL = ComparedMetric("total", "device", "total", None, Unit.NS)
_HOST_WORDS = {
    "operator": ("Operators by self time", "self time of operators on the host, without launches and waits"),
    "api": ("API calls", "time of API calls"),
    "path": ("Call paths by self time", "self time of ranges and API calls, by call path"),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `compare`.

    sides: None for a history alone. changes: one for each of METRICS. main: the change that the verdict is about.
    """

    sides: Sides | None
    changes: tuple[Change, ...]
    main: Change | None
    checked: tuple[CheckedRule, ...]
    history: History | None
    notes: tuple[str, ...]
    limits: VerdictLimits = VerdictLimits()
    names: tuple[str, str] = ("", "")
    failures: tuple[Failure, ...] = ()
    """Runs that could not be read, among others that could."""
    left_out: tuple[str, ...] = ()
    """A sentence for each run that lacks a kind of rows that its siblings have. It is in no figure."""
    undecided: str = ""
    """Why there is no verdict, if a side was cut or lacks its kernels."""
    tree: TreeChange | None = None
    """The change by module or operator, if it was asked for."""

    @with_checked_arguments()
    def __getitem__(self, metric: str) -> Change:
        """Return the change of a metric, such as "step.p50" or 'kernel["gemm"].avg'.

        Raises: UsageError for no metric; UnknownNameError, which is a KeyError, of a history alone.
        """
        wanted = parse_metric(metric)
        for change in self.changes:
            if change.metric.text == wanted.text:
                return change
        if self.sides is None:
            raise UnknownNameError(f"{metric}: a history alone has no changes", hint="name NEW too")
        found = measure(self.sides, wanted, self.limits)
        return replace(found, verdict=UNKNOWN, why=self.undecided) if self.undecided else found

    def __repr__(self) -> str:
        if self.sides is None:
            return repr(self.report(top=1))
        lines = [*self.incomplete, f"comparison of {self.names[0]} against {self.names[1]}: {_verdict(self)}"]
        lines += [
            f"  {word}: {_side_text(side)}" for word, side in (("base", self.sides.base), ("new", self.sides.new))
        ]
        lines += [f"  {describe(each)}" for each in self.changes if each.base is not None and each.new is not None]
        lines += [f"  rule {each.rule.text}: {each.state}" for each in self.checked]
        return "\n".join(one_screen(map(escape_controls, lines)))

    def _repr_html_(self) -> str:
        return self.report(top=_NAMES_SHOWN)._repr_html_()

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Return a sentence for each input that lost too many of its records to be compared."""
        return self.sides.incomplete if self.sides is not None else ()

    @property
    def empty(self) -> tuple[str, ...]:
        """Return the names of the runs of a side that has neither events nor totals."""
        sides = (self.sides.base, self.sides.new) if self.sides is not None else ()
        return tuple(run.label for side in sides if all(run.is_empty for run in side) for run in side)

    @property
    def verdict(self) -> str:
        """Return "slower", "faster", "same", "not enough runs" or "not enough data"."""
        return self.main.verdict if self.main is not None else UNKNOWN

    @property
    def passed(self) -> bool:
        """Return whether every rule is met: none is violated or undecided. Without rules it is True."""
        return all(each.state == MET for each in self.checked)

    @with_checked_arguments()
    def report(self, *, top: int = 0) -> Report:
        """Return the tables of the comparison. top: names in each table, 0 for all."""
        return report_of(self, top=top)


def report_of(comparison: Comparison, *, top: int = 0) -> Report:
    """Return the report. top: names in each table, 0 for all; one row has the sum of the others."""
    sections: list[Section] = []
    facts: list[tuple[str, str]] = []
    ledgers: list[Mapping[str, object]] = []
    notes: list[str] = []
    title = "Comparison"
    if comparison.sides is not None:
        title = f"{comparison.names[0]} against {comparison.names[1]}"
        facts = [
            ("verdict", _verdict(comparison)),
            ("base", _side_text(comparison.sides.base)),
            ("new", _side_text(comparison.sides.new)),
            *([("left out", ", ".join(comparison.left_out))] if comparison.left_out else []),
        ]
        sections = _sections(comparison, comparison.sides, top)
        for run in (*comparison.sides.base, *comparison.sides.new):
            ledgers += [ledger.to_json() for ledger in run.ledgers]
            notes += [f"{run.label}: {note}" for ledger in run.ledgers for note in ledger.notes.values()]
    if comparison.history is not None:
        past = history_section(comparison.history)
        sections.append(past if comparison.sides is not None else replace(past, notes=(*past.notes, *comparison.notes)))
    lost = comparison.incomplete or ((comparison.undecided,) if comparison.undecided else ())
    if lost:
        sections = list(map(without_shares, sections))
    unique = tuple(dict.fromkeys(notes))
    return Report(title, __version__, tuple(facts), tuple(sections), tuple(ledgers), unique, lost)


SHORT_ROWS, SHORT_NAMES = 5, 4
"""Rows of the two tables of a short report: the parts, and the names that changed most."""
_NAMED_METRICS = 4


def short_report(
    comparison: Comparison, *, rows: int = SHORT_ROWS, names: int = SHORT_NAMES, metrics: int = _NAMED_METRICS
) -> Report:
    """Return the report for one screen: the verdict, what changed, and what to look at.

    rows: of the table of parts. names: of the table of names that changed most. metrics: named for each verdict.
    """
    whole = report_of(comparison, top=names)
    sides = comparison.sides
    if sides is None:
        return whole
    waterfall = None if whole.incomplete else waterfall_of(sides, comparison.main)
    asked = [
        section
        for section in whole.sections
        if section.title == "Rules"
        or (comparison.tree is not None and section.title == f"Change by {comparison.tree.by}")
    ]
    if comparison.history is not None:
        asked.append(whole.sections[-1])
    shown = [*asked]
    if waterfall is not None and waterfall.new != waterfall.base:
        shown.append(_short_waterfall(waterfall, rows))
    if not (whole.incomplete or comparison.empty) and (changed := _changed_names(comparison, sides, names)) is not None:
        shown.append(changed)
    facts = [
        # The title has the name of a side that is one run.
        *((key, _counts_of(sides, key, text)) for key, text in whole.facts),
        *([("changed", text)] if (text := _changed_metrics(comparison, metrics)) else []),
        *([("look at", text)] if waterfall is not None and (text := _largest_part(waterfall)) else []),
    ]
    notes = [
        *_of_both_sides(comparison.notes),
        *whole.notes,
        "--all shows all metrics, names and runs; -o FILE.html makes a page",
    ]
    return replace(whole, facts=tuple(facts), sections=tuple(shown), notes=tuple(dict.fromkeys(notes)))


def _counts_of(sides: Sides, key: str, text: str) -> str:
    runs = {"base": sides.base, "new": sides.new}.get(key, ())
    return text.removesuffix(f": {runs[0].label}") if len(runs) == 1 else text


def _of_both_sides(notes: Sequence[str]) -> list[str]:
    """Return the notes; one that both sides have is said once."""
    texts = {note.removeprefix("base: ") for note in notes if note.startswith("base: ")}
    both = {text for text in texts if f"new: {text}" in notes}
    merged = [
        f"base and new: {text}" if (text := note.removeprefix("base: ").removeprefix("new: ")) in both else note
        for note in notes
    ]
    return list(dict.fromkeys(merged))


def _short_waterfall(whole: Waterfall, most: int) -> Section:
    """Return the parts that changed, the largest changes first, and one row for the others."""
    changed = sorted((part for part in whole.parts if part.difference), key=lambda part: -abs(part.difference))
    shown, rest = changed[:most], changed[most:]
    rows = [(part.label, part.base, part.new) for part in shown]
    if rest:
        count = f"({plural(len(rest), 'more part')})"
        rows.append((count, sum(part.base for part in rest), sum(part.new for part in rest)))
    change = whole.new - whole.base
    columns = (
        Column("part", "Part", Unit.TEXT, [label for label, _, _ in rows], 0),
        Column("base", "Base", Unit.NS, [base for _, base, _ in rows], 0),
        Column("new", "New", Unit.NS, [new for _, _, new in rows], 0),
        Column("difference", "Difference", Unit.NS, [new - base for _, base, new in rows], 0),
        Column("share", "Of the change", Unit.RATIO, [(new - base) / change for _, base, new in rows], 1),
    )
    title = f"{whole.title} (parts of {whole.what})"
    return Section("compare", title, (ReportTable("change_parts", title, columns),))


def _changed_names(comparison: Comparison, sides: Sides, most: int) -> Section | None:
    """Return the names whose time changed most: of the step, else of the device, else of the host; None for none."""
    per = "a step after warm-up" if sides.by_step else "a run"
    candidates: list[Section] = []
    if sides.by_step and any(run.steady for run in (*sides.base, *sides.new)):
        candidates.append(_step_section(sides, most))
    elif sides.groups:
        candidates.append(_device_section(comparison, sides, most, per))
    for kind in _HOST_WORDS:
        candidates += _host_sections(sides, most, per, kind)
    candidates += _total_sections(sides, most)
    for section in candidates:
        for table in section.tables:
            kept = [column for column in table.columns if column.name in ("name", "base", "new", "difference")]
            changes = next(column.values for column in kept if column.name == "difference")
            rows = [number for number, value in enumerate(changes) if value]
            if rows:
                title = f"{table.title}: what changed most"
                columns = tuple(replace(column, values=[column.values[row] for row in rows]) for column in kept)
                return Section("compare", title, (ReportTable(table.name, title, columns),))
    return None


def _changed_metrics(comparison: Comparison, most: int) -> str:
    """Return "slower: kernel.total +15.00 %, ...; same: 4 metrics" of all metrics but that of the verdict."""
    if comparison.incomplete or comparison.undecided:
        return ""
    of_verdict: dict[str, list[Change]] = {}
    for change in comparison.changes:
        is_known = change.base is not None and change.new is not None
        if is_known and (comparison.main is None or change.metric != comparison.main.metric):
            of_verdict.setdefault(change.verdict, []).append(change)
    parts = []
    for verdict, changes in of_verdict.items():
        if verdict not in (SLOWER, FASTER, MORE, LESS):
            parts.append(f"{verdict}: {plural(len(changes), 'metric')}")
            continue
        named = [f"{c.metric.text} {percent(c.ratio)}" for c in changes[:most] if c.ratio is not None]
        more = len(changes) - len(named)
        parts.append(f"{verdict}: {', '.join([*named, *([f'{more:,} more'] if more else [])])}")
    return "; ".join(parts)


def _largest_part(whole: Waterfall) -> str:
    """Return the part that has most of the change: "gemm kernels, +1.161 ms of +1.762 ms"; "" where none has."""
    change = whole.new - whole.base
    parts = [part for part in whole.parts if part.difference * change > 0]
    if not parts:
        return ""
    largest = max(parts, key=lambda part: abs(part.difference))
    return f"{largest.label}: {_signed(largest.difference)} of {_signed(change)}"


def _signed(ns: int) -> str:
    return f"{'+' if ns > 0 else ''}{sentence_span(ns)}"


def _verdict(comparison: Comparison) -> str:
    if comparison.incomplete:
        return f"{UNKNOWN}: too many records are missing or could not be read"
    if comparison.undecided:
        return f"{UNKNOWN}: {comparison.undecided}"
    if comparison.main is None:
        return f"{UNKNOWN}: not all runs have steps, device work or operators"
    if comparison.verdict == TOO_FEW_RUNS:
        return f"{TOO_FEW_RUNS}: {describe(comparison.main, interval=False)} ({comparison.main.why}; repeat the runs)"
    if comparison.main.single and comparison.verdict != UNKNOWN:
        return describe_single(comparison.main)
    why = f" ({comparison.main.why})" if comparison.main.why else ""
    if comparison.verdict == UNKNOWN and not why:
        why = f": a change of more than {100 * comparison.limits.same:g} % is possible; more runs are needed"
    return f"{comparison.verdict}: {describe(comparison.main)}{why}"


def _side_text(runs: Sequence[Profile]) -> str:
    steps = sum(run.step_count for run in runs)
    count = f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'}"
    step_text = f"{steps:,} {'step' if steps == 1 else 'steps'} after warm-up" if steps else "no steps"
    labels = [run.label for run in runs[:3]] + ([f"{len(runs) - 3:,} more"] if len(runs) > 3 else [])
    return f"{count}, {step_text}: {', '.join(labels)}"


def _sections(comparison: Comparison, sides: Sides, top: int) -> list[Section]:
    per = "a step after warm-up" if sides.by_step else "a run"
    waterfall = waterfall_of(sides, comparison.main)
    out = [_verdict_section(comparison, sides, waterfall)]
    if waterfall is not None:
        out.append(_waterfall_section(waterfall))
    if comparison.tree is not None:
        out.append(_tree_section(comparison.tree, top, per))
    if comparison.checked:
        out.append(Section("compare", "Rules", (_rules(comparison.checked),)))
    out.append(_metrics(comparison))
    if sides.by_step and any(run.steady for run in (*sides.base, *sides.new)):
        out.append(_step_section(sides, top))
    if sides.groups:
        out.append(_device_section(comparison, sides, top, per))
    for kind in _HOST_WORDS:
        out += _host_sections(sides, top, per, kind)
    out += _total_sections(sides, top)
    matched = [group for group in sides.groups if group.how != "same"]
    if matched:
        out.append(_matches(matched))
    out.append(_runs(sides))
    return out


def _waterfall_section(whole: Waterfall) -> Section:
    change = whole.new - whole.base
    columns = (
        Column("part", "Part", Unit.TEXT, [part.label for part in whole.parts], 0),
        Column("only", "Only in", Unit.TEXT, [_ONLY_IN.get(part.how) for part in whole.parts], 2),
        Column("base", "Base", Unit.NS, [part.base for part in whole.parts], 0),
        Column("new", "New", Unit.NS, [part.new for part in whole.parts], 0),
        Column("difference", "Difference", Unit.NS, [part.difference for part in whole.parts], 0),
        Column(
            "share",
            "Of the change",
            Unit.RATIO,
            [part.difference / change if change else None for part in whole.parts],
            3,
        ),
    )
    notes = (f"parts of {whole.what}; the rows add up exactly",)
    table = ReportTable("change_parts", whole.title, columns)
    return Section("compare", whole.title, (table,), (whole,), notes)


_ONLY_IN = {"new": "new", "gone": "base"}


def _verdict_section(comparison: Comparison, sides: Sides, waterfall: Waterfall | None) -> Section:
    notes = list(comparison.notes)
    if comparison.history is not None and comparison.history.since:
        first = comparison.history.labels[comparison.history.since]
        notes.append(f"base: the runs since the last change of level, starting with {first}")
    notes.append(
        f"intervals contain the true change with {100 * LEVEL:g} % probability; changes below "
        f"{100 * comparison.limits.least:g} % do not count; same: within {100 * comparison.limits.same:g} %"
    )
    main = comparison.main
    columns = (
        Column("verdict", "Verdict", Unit.TEXT, [comparison.verdict], 0),
        Column("metric", "Metric", Unit.TEXT, [main.metric.text if main else None], 0),
        Column("base_runs", "Base runs", Unit.COUNT, [len(sides.base)], 2),
        Column("new_runs", "New runs", Unit.COUNT, [len(sides.new)], 2),
        Column("difference", "Difference", Unit.NS, [main.difference if main else None], 1),
        *_change_columns([main])[:-1],
        Column("values", "From", Unit.TEXT, [_value_count(main) if main else None], 3),
        Column(
            "why",
            "Why",
            Unit.TEXT,
            [main.why or None if main else comparison.undecided or "nothing that both sides have"],
            4,
        ),
    )
    why = "Too many records are missing or could not be read." if comparison.incomplete else comparison.undecided
    figures = (verdict_of(main, why, waterfall, comparison.limits), intervals_of(comparison.changes))
    return Section("compare", "Verdict", (ReportTable("verdict", "Verdict", columns),), figures, tuple(notes))


def _rules(checked: Sequence[CheckedRule]) -> ReportTable:
    columns = (
        Column("rule", "Rule", Unit.TEXT, [each.rule.text for each in checked], 0),
        Column("state", "State", Unit.TEXT, [each.state for each in checked], 0),
        Column("change", "Change", Unit.RATIO, [each.change.ratio for each in checked], 0),
        Column("text", "Why", Unit.TEXT, [each.text for each in checked], 1),
    )
    return ReportTable("rules", "Rules", columns)


def _metrics(comparison: Comparison) -> Section:
    tables, lacking = [], []
    for unit, name, title in (
        (Unit.NS, "metrics", "Times"),
        (Unit.BYTES, "memory", "Memory"),
        (Unit.COUNT, "counts", "Counts"),
    ):
        chosen = [c for c in comparison.changes if c.metric.unit is unit]
        lacking += [c.metric.text for c in chosen if c.base is None and c.new is None]
        chosen = [c for c in chosen if c.base is not None or c.new is not None]
        if chosen:
            tables.append(_metric_table(name, title, unit, chosen))
    notes = []
    whys: dict[str, list[str]] = {}
    for c in comparison.changes:
        if c.why and (c.base is not None or c.new is not None):
            whys.setdefault(c.why, []).append(c.metric.text)
    notes += [f"{', '.join(metrics)}: {why}" for why, metrics in whys.items()]
    if lacking:
        notes.append(f"neither side has: {', '.join(lacking)}")
    return Section("compare", "Metrics", tuple(tables), notes=tuple(notes))


def _metric_table(name: str, title: str, unit: Unit, changes: Sequence[Change]) -> ReportTable:
    shown = Unit.NUMBER if unit is Unit.COUNT else unit

    def cell(value: float | None) -> Cell:
        if value is None:
            return None
        return round(value, 3) if unit is Unit.COUNT else round(value)

    differences = [
        None if c.base is None or c.new is None else cell(c.new - c.base) if unit is Unit.COUNT else c.difference
        for c in changes
    ]
    columns = (
        Column("metric", "Metric", Unit.TEXT, [c.metric.text for c in changes], 0),
        Column("base", "Base", shown, [cell(c.base) for c in changes], 0),
        Column("new", "New", shown, [cell(c.new) for c in changes], 0),
        Column("difference", "Difference", shown, differences, 1),
        *_change_columns(changes),
        Column("values", "From", Unit.TEXT, [_value_count(c) for c in changes], 3),
        Column("meaning", "Meaning", Unit.TEXT, [METRICS[c.metric.text][1] for c in changes], 5),
    )
    return ReportTable(name, title, columns)


def _value_count(change: Change) -> str | None:
    return f"{change.count[0]:,} and {change.count[1]:,} {change.values}" if change.values else None


def _change_columns(changes: Sequence[Change | None]) -> tuple[Column, ...]:
    return (
        Column("change", "Change", Unit.RATIO, [c.ratio if c else None for c in changes], 0),
        Column("low", "Low", Unit.RATIO, [c.low if c else None for c in changes], 2),
        Column("high", "High", Unit.RATIO, [c.high if c else None for c in changes], 2),
        Column("verdict", "Verdict", Unit.TEXT, [c.verdict if c else None for c in changes], 0),
    )


def _part_columns(parts: Sequence[ChangePart], whole: ChangeParts) -> tuple[Column, ...]:
    change = whole.new - whole.base
    return (
        Column("name", "Name", Unit.TEXT, [part.label for part in parts], 0),
        Column("match", "Match", Unit.TEXT, [part.group.how if part.group else None for part in parts], 1),
        Column("base", "Base", Unit.NS, [part.base for part in parts], 0),
        Column("new", "New", Unit.NS, [part.new for part in parts], 0),
        Column("difference", "Difference", Unit.NS, [part.difference for part in parts], 0),
        Column(
            "share", "Of the change", Unit.RATIO, [part.difference / change if change else None for part in parts], 3
        ),
    )


def _adds_up(what: str, whole: ChangeParts) -> str:
    difference = whole.new - whole.base
    sign = "+" if difference > 0 else ""
    ratio = f" ({percent(whole.new / whole.base - 1)})" if whole.base > 0 else ""
    return (
        f"{what}: {format_span(whole.base)} -> {format_span(whole.new)}, {sign}{format_span(difference)}{ratio}; "
        "the rows add up exactly"
    )


def _step_section(sides: Sides, top: int) -> Section:
    whole = step_parts(sides)
    rows, _ = cut(whole, top)
    notes = (
        _adds_up("mean step", whole),
        "where kernels or copies overlap, the time counts for the one that began first",
    )
    table = ReportTable("step_parts", "Step time by name", _part_columns(rows, whole))
    return Section("compare", "What the step is made of", (table,), notes=notes)


def _device_section(comparison: Comparison, sides: Sides, top: int, per: str) -> Section:
    whole = device_parts(sides)
    limits = comparison.limits
    rows, _ = cut(whole, top)
    large = [
        part.group
        for part in whole.rows
        if part.group and part.group.base and part.group.new and part.base and _is_large(part, whole)
    ]
    # What a cut side shows of a name decides nothing.
    large = [] if comparison.undecided else large
    # Each interval may be wrong. All of them together are as sure as one (Bonferroni).
    level = 1 - (1 - LEVEL) / max(1, len(large))
    change_of_group = {
        group: measure_names(sides, _TOTAL, frozenset(group.base), frozenset(group.new), limits, level=level)
        for group in large
    }
    changes = [change_of_group.get(part.group) if part.group else None for part in rows]
    calls = [_calls(sides, part.group) for part in rows]
    first, second, *others = _part_columns(rows, whole)
    columns = (
        first,
        Column("kind", "Kind", Unit.TEXT, [part.group.kind if part.group else None for part in rows], 4),
        second,
        Column("base_calls", "Base calls", Unit.NUMBER, [before for before, _ in calls], 4),
        Column("new_calls", "New calls", Unit.NUMBER, [after for _, after in calls], 4),
        *others,
        *_change_columns(changes),
    )
    notes = [_adds_up(f"device time of {per}", whole)]
    if large:
        notes.append(f"intervals of names: all {len(large)} together are as sure as one; names below 1 % have none")
    title = "Device time by name"
    return Section("compare", title, (ReportTable("device_parts", title, columns),), notes=tuple(notes))


_PART_TITLES = {
    "only_here": ("Only here", "operators that only one side has"),
    "more_calls": ("More calls", "more or fewer calls, at the base's time per call"),
    "other_shapes": ("Other shapes", "calls with shapes or datatypes that only one side has"),
    "other_kernel": ("Other kernel", "the same calls, computed by other kernels"),
    "other_floor": ("Other floor", "the same calls, with another least time (datatype or device)"),
    "efficiency": ("Efficiency", "the work takes more or fewer times its least time than in the base"),
    "not_known": ("Not known", "the same calls and kernels, of which no least time is known"),
}


def _tree_section(tree: TreeChange, top: int, per: str) -> Section:
    title = f"Change by {tree.by}"
    if tree.parts is None:
        return Section("compare", title, notes=(f"no change by {tree.by}: {tree.why}",))
    whole = tree.parts
    rows = list(whole.rows)
    if top and len(rows) > top:
        rest = rows[top:]
        sums = tuple(sum(row.parts[number] for row in rest) for number in range(len(PARTS)))
        label = f"({len(rest):,} more {tree.by}s)"
        rows = [*rows[:top], TreeRow(label, sum(r.base for r in rest), sum(r.new for r in rest), sums)]
    columns = (
        Column("name", tree.by.capitalize(), Unit.TEXT, [row.label for row in rows], 0),
        Column("base", "Base", Unit.NS, [row.base for row in rows], 0),
        Column("new", "New", Unit.NS, [row.new for row in rows], 0),
        Column("difference", "Difference", Unit.NS, [row.difference for row in rows], 0),
        *(
            Column(part, _PART_TITLES[part][0], Unit.NS, [row.parts[number] for row in rows], 1)
            for number, part in enumerate(PARTS)
        ),
    )
    shown = [(part, ns) for part, ns in zip(PARTS, whole.parts, strict=True)]
    change = whole.new - whole.base
    waterfall = (
        Column("part", "Part", Unit.TEXT, ["base", *(_PART_TITLES[part][0].lower() for part, _ in shown), "new"], 0),
        Column("difference", "Difference", Unit.NS, [None, *(ns for _, ns in shown), None], 0),
        Column("total", "Total", Unit.NS, [*accumulate((whole.base, *whole.parts)), whole.new], 0),
        Column(
            "share", "Of the change", Unit.RATIO, [None, *(ns / change if change else None for _, ns in shown), None], 1
        ),
        Column("meaning", "Meaning", Unit.TEXT, [None, *(_PART_TITLES[part][1] for part, _ in shown), None], 2),
    )
    words = f"device time of {per} by {tree.by}"
    notes = [_adds_up(words, ChangeParts((), whole.base, whole.new))]
    if tree.by == "module" and not whole.aligned:
        notes.append("not all runs name modules: ranges of the program stand for them")
    tables = (
        ReportTable("change_reasons", "What changed", waterfall),
        ReportTable(f"{tree.by}_change", title, columns),
    )
    reasons = {part: _PART_TITLES[part][0].lower() for part in PARTS}
    figures = tree_waterfalls(
        rows, whole, tree.by, f"the device time of {per}", reasons, (tables[0].name, tables[1].name)
    )
    return Section("compare", title, tables, figures, notes=tuple(notes))


def _is_large(part: ChangePart, whole: ChangeParts) -> bool:
    return part.base >= MIN_SHARE * whole.base or part.new >= MIN_SHARE * whole.new


def _calls(sides: Sides, group: NameGroup | None) -> tuple[float | None, float | None]:
    if group is None:
        return None, None
    out = []
    for runs, keys in ((sides.base, group.base), (sides.new, group.new)):
        share = weights(runs, by_step=sides.by_step, by_runs=sides.by_runs)
        none = Amount(0, 0)
        calls = sum(
            weight * sum((run.steady if sides.by_step else run.whole).get(key, none).calls for key in keys)
            for run, weight in zip(runs, share, strict=True)
        )
        out.append(round(float(calls), 3))
    return out[0], out[1]


def _host_sections(sides: Sides, top: int, per: str, kind: str) -> list[Section]:
    def amounts(run: Profile) -> dict[tuple[str, str], int]:
        found = run.steady_host if sides.by_step else run.whole_host
        return {key: amount.total for key, amount in found.items() if key[0] == kind}

    base, new = ({key[1] for run in runs for key in amounts(run)} for runs in (sides.base, sides.new))
    if not (base or new):
        return []
    whole = split(sides, named_groups(base, new, kind), amounts, what=kind)
    rows, _ = cut(whole, top)
    title, what = _HOST_WORDS[kind]
    table = ReportTable(f"{kind}_parts", title, _part_columns(rows, whole))
    drawn = (flame(whole, per),) if kind == "path" else ()
    return [Section("compare", title, (table,), drawn, (_adds_up(f"{what}, {per}", whole),))]


def _total_sections(sides: Sides, top: int) -> list[Section]:
    """Return the tables summed by profilers, each on its own, since one may repeat the time of another."""
    runs = (*sides.base, *sides.new)
    if any(not run.totals for run in runs):
        return []
    plain = Sides(sides.base, sides.new, (), by_step=False)
    tables, notes = [], []
    for number, section in enumerate(sorted({section for run in runs for section, _ in run.totals})):
        names = [{n for run in side for s, n in run.totals if s == section} for side in (sides.base, sides.new)]

        def amounts(run: Profile, section: str = section) -> dict[tuple[str, str], int]:
            return {key: amount.total for key, amount in run.totals.items() if key[0] == section}

        whole = split(plain, named_groups(names[0], names[1], section), amounts)
        rows, _ = cut(whole, top)
        tables.append(ReportTable(f"totals_{number}", section, _part_columns(rows, whole)))
        notes.append(_adds_up(section, whole))
    return [Section("compare", "Tables of the profiler", tuple(tables), notes=tuple(notes))]


def _matches(groups: Sequence[NameGroup]) -> Section:
    columns = (
        Column("match", "Match", Unit.TEXT, [group.how for group in groups], 0),
        Column("base", "Base", Unit.TEXT, [" + ".join(n for _, n in group.base) or None for group in groups], 0),
        Column("new", "New", Unit.TEXT, [" + ".join(n for _, n in group.new) or None for group in groups], 0),
        Column("why", "What agrees", Unit.TEXT, [group.why or None for group in groups], 1),
    )
    return Section("compare", "Names of one side alone", (ReportTable("matches", "Matches", columns),))


def _runs(sides: Sides) -> Section:
    runs = [("base", run) for run in sides.base] + [("new", run) for run in sides.new]
    columns = (
        Column("side", "Side", Unit.TEXT, [side for side, _ in runs], 0),
        Column("run", "Run", Unit.TEXT, [run.label for _, run in runs], 0),
        Column("format", "Format", Unit.TEXT, [", ".join(run.formats) for _, run in runs], 4),
        Column("steps", "Steps", Unit.COUNT, [run.step_count for _, run in runs], 1),
        Column("warm_up", "Warm-up", Unit.COUNT, [run.warm_up for _, run in runs], 2),
        Column(
            "step",
            "Mean step",
            Unit.NS,
            [round(run.step_total / run.step_count) if run.step_count else None for _, run in runs],
            1,
        ),
        Column(
            "device",
            "Device time, whole run",
            Unit.NS,
            [sum(a.total for a in run.whole.values()) if run.whole else None for _, run in runs],
            2,
        ),
    )
    return Section("compare", "Runs", (ReportTable("runs", "Runs", columns),))
