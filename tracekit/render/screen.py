"""The words of the first screen: what ran, its headline, a bar for each group of devices, the best findings.

`screen` turns the headline of a report into words, the same for the page and for the terminal (`first_screen`). Every
number is one of `report.Headline`, rounded here; every text is safe to show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls, plural, typical_time_unit
from tracekit.model.names import short_names
from tracekit.model.report import (
    DeviceTime,
    Finding,
    Headline,
    QuotedTable,
    Report,
    ReportTable,
    StepTime,
    TopName,
    TopNames,
)
from tracekit.model.units import Unit, format_ns, four_digits, percent, sentence_span, short_span
from tracekit.render import prose
from tracekit.render.cells import shown_columns
from tracekit.render.figures import amount
from tracekit.render.palette import color_of

__all__ = [
    "Screen",
    "ScreenShare",
    "ShareBar",
    "noun",
    "screen",
    "share_text",
    "shown_first",
    "span_text",
    "span_texts",
    "top_title",
]

BARS = 4
"""The most bars; a line says how many more groups there are."""
_NAMES_IN_BAR = 4
_LABELS = {
    "compute": "compute",
    "exposed_comm": "exposed communication",
    "exposed_copies": "exposed copies",
    "idle": "idle",
}
_WINDOWS = {"steps": "of the steps", "run": "of the run"}
_NAME_WIDTH = 46
_NO_FINDINGS = "No findings: "
_NO_EVENTS = "needs events with a duration"
_LIKE = 0.02
"""Windows that differ by no more than this are taken as the same: a share of them differs by at most 2 points."""
_KEYS = {"exposed_comm": "communication", "exposed_copies": "memcpy", "others": "other"}


@dataclass(frozen=True, slots=True)
class ScreenShare:
    """One part of a bar. percent: as text; width: in percent of the bar; amount, exact: the same time short and exact.

    over: the shares of single devices, "" for one device. full: the whole name where the label is shortened.
    """

    name: str
    label: str
    percent: str
    width: float
    amount: str
    exact: str
    over: str = ""
    full: str = ""

    @property
    def color(self) -> str:
        """Return the colour in a page."""
        return color_of(_KEYS.get(self.name, self.name), int(self.name[-1]) if self.name[-1].isdigit() else 0)


@dataclass(frozen=True, slots=True)
class ShareBar:
    """A bar: its title, the whole that its parts add up to (short and exact), and the parts."""

    title: str
    whole: str
    exact: str
    parts: tuple[ScreenShare, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A finding, or a name that takes much time. view: that has it. number: of the finding there, from 0; -1: a name.

    saving: "up to 1.5 ms"; percent: of the window, and a low confidence. rest: the advice of a finding, the whole of a
    name.
    """

    view: str
    number: int
    title: str
    saving: str
    percent: str
    claim: str
    rest: str
    exact: str


@dataclass(frozen=True, slots=True)
class Screen:
    """The first screen in words.

    sentence, meaning: the opening. value, unit: the first number; before, after: the words around it; spread: the line
    below.

    by_name: the bar is of names, not of device time.
    bar_note, card_note: why there is no bar of device time, or no finding; "" where there is one.
    """

    title: str
    facts: tuple[str, ...]
    sentence: str
    meaning: str
    reservations: tuple[str, ...]
    value: str
    unit: str
    exact: str
    before: str
    after: str
    spread: str
    bars: tuple[ShareBar, ...]
    by_name: bool
    more_bars: str
    bar_note: str
    cards_title: str
    cards: tuple[Card, ...]
    card_note: str


def screen(report: Report, headline: Headline, time_unit: str = "") -> Screen:
    """Return the words of the first screen. time_unit: of all times, "" for the best of each."""
    step, top = headline.step, headline.top
    unknown = f"The time of the run is unknown: {escape_controls(headline.run_note)}."
    after = ""
    figure = headline.figure
    if figure is not None:
        value, before, after = figure.value, escape_controls(figure.before), escape_controls(figure.after)
        spread = unknown if headline.run_ns is None else f"The run took {_in_sentence(headline.run_ns, time_unit)}."
    elif step is not None:
        value, before, after, spread = step.median_ns, "A step takes", "(median)", _spread(step, time_unit)
    elif headline.run_ns is not None:
        value, before, spread = headline.run_ns, "The run took", "No training steps in this trace."
    elif top is not None and top.printed:
        value, before, after, spread = top.total_ns, f"{escape_controls(top.printed)}:", "(as printed)", unknown
    elif top is not None:
        what = f"all {noun(top)}" if top.view == "overview" else noun(top)
        # Where an input has several runs or sections, the figure is that of the one whose names are shown.
        part = f" ({escape_controls(top.part)})" if top.part else ""
        value, before, after, spread = top.total_ns, f"{what[:1].upper()}{what[1:]} took", f"in total{part}", unknown
    else:
        # A dump of calls is about who waits, not about time.
        value, before, spread = -1, "", "" if _is_of_calls(headline) else unknown
    if figure is not None:
        number, _, unit = amount(value, figure.unit).partition(" ")
        exact = f"{value:,} {'bytes' if figure.unit is Unit.BYTES else ''}".rstrip()
    else:
        number, _, unit = (
            _in_sentence(value, time_unit).rpartition(" ") if value >= 0 else ("Time unknown" if spread else "", "", "")
        )
        exact = f"{value:,} ns" if value >= 0 else ""
    bars = [_bar(each, time_unit) for each in headline.devices[:BARS]]
    if not bars and top is not None and top.names[0].share is not None and _adds_up(top):
        bars = [_names_bar(top, time_unit)]
    more = len(headline.devices) - BARS
    # The same reason is not given twice.
    said = (headline.run_note, headline.opening.meaning if headline.opening is not None else "")
    bar_note = "" if any(headline.devices_note in text for text in said) else headline.devices_note
    windows = _windows(headline, time_unit)
    # What has no percentage needs no window.
    of_saving = {window for window, each in zip(windows, headline.findings, strict=True) if each.saving_ns}
    common = of_saving.pop() if len(of_saving) == 1 else ""
    cards = [
        _finding(number, each, time_unit, "" if common else window)
        for number, (each, window) in enumerate(zip(headline.findings, windows, strict=True))
    ]
    title = _findings_title(headline, common)
    if not cards and headline.figure is not None and headline.quoted:
        title, cards = headline.quoted[0].title, _quoted_cards(headline.quoted[0])
    elif not cards and top is not None:
        title, cards = f"Top {noun(top)}", _name_cards(top, time_unit)
    return Screen(
        title=escape_controls(report.title),
        # A sentence says it of inputs; of several runs in one file the fact alone does.
        facts=tuple(
            _facts(
                report,
                clocks=not any("clock" in text for text in headline.reservations),
                totals=not _is_of_calls(headline),
            )
        ),
        sentence=escape_controls(headline.opening.sentence) if headline.opening else "",
        meaning=escape_controls(headline.opening.meaning) if headline.opening else "",
        reservations=tuple(map(escape_controls, headline.reservations)),
        value=number,
        unit=unit,
        exact=exact,
        before=before,
        after=after,
        spread=spread,
        bars=tuple(bars),
        by_name=not headline.devices,
        more_bars=f"{plural(more, 'more group')} of devices: see --view breakdown" if more > 0 else "",
        bar_note=escape_controls(bar_note),
        cards_title=title,
        cards=tuple(cards),
        card_note="" if headline.findings else escape_controls(_no_findings(headline.findings_note)),
    )


def _is_of_calls(headline: Headline) -> bool:
    """Return whether an input has only dumps of calls without a duration, as the Flight Recorder writes them."""
    return headline.opening is not None and headline.opening.rule == "hang" and headline.run_ns is None


def _facts(report: Report, *, clocks: bool, totals: bool) -> Iterator[str]:
    """Yield what ran: format, tool, command, devices, span, size."""
    form = dict(report.facts).get("format", "")
    for key, text in report.facts:
        if key == "totals" and not totals:
            continue
        if key in ("events", "totals"):
            yield escape_controls(f"{text} {key.removesuffix('s') if text == '1' else key}")
        elif key == "clocks" and not clocks:
            continue
        elif key in ("span", "clocks"):
            yield escape_controls(f"{key} {prose.fact_text(key, text)}")
        elif key != "tool" or text not in form:
            yield escape_controls(text)


def span_text(ns: int, unit: str) -> str:
    """Return a time for a column: exact in the unit that was asked for, else with three decimals."""
    return f"{format_ns(ns, unit)} {unit}" if unit else short_span(ns)


def span_texts(times: Sequence[int], unit: str) -> list[str]:
    """Return the times of a column: exact in the unit that was asked for, else with four digits in one unit."""
    if unit:
        return [f"{format_ns(ns, unit)} {unit}" for ns in times]
    # Times below a microsecond are whole numbers of ns.
    common = typical_time_unit(times) if max(times, default=0) >= 1000 else "ns"
    return [f"{four_digits(ns, common)} {common}" for ns in times]


def _in_sentence(ns: int, unit: str) -> str:
    """Return a time for a sentence: exact in the unit that was asked for, else with four digits."""
    return f"{format_ns(ns, unit)} {unit}" if unit else sentence_span(ns)


def top_title(top: TopNames, count: int, unit: str) -> str:
    """Return the title of the table of the top names: "Top kernels (8 of 13, 3.05 ms in total)"."""
    part = f", {escape_controls(top.part)}" if top.part else ""
    known = f"{top.count:,} printed" if top.printed else f"{top.count:,}"
    whole = _in_sentence(top.total_ns, unit)
    total = f"% of {top.of}, {whole}" if top.of else f"{whole} in total"
    return f"Top {noun(top)}{part} ({count:,} of {known}, {total})"


def share_text(each: TopName, top: TopNames) -> str:
    """Return the share of a name in percent. That of a phase is of the time that it covers, which its table has."""
    return _percent(each.share or 0.0) if top.of else percent(each.ns, top.total_ns)


def _spread(step: StepTime, unit: str) -> str:
    parts = [plural(step.steps, "step")]
    if step.warm_up:
        parts[0] += f" after {plural(step.warm_up, 'warm-up step')}"
    if step.samples_per_s is not None:
        each = f" a {_owner_word(step)}" if step.owners > 1 else ""
        parts.append(f"{_four_digits(step.samples_per_s)} samples/s{each}")
    if step.pitch_ns is not None:
        parts.append(f"one begins every {_in_sentence(step.pitch_ns, unit)}")
    if step.steps > 1:
        parts.append(f"p95 {_in_sentence(step.p95_ns, unit)}")
        wide = step.p95_ns - step.p5_ns
        parts.append(f"spread {percent(wide, step.median_ns) if step.median_ns else '-'} % (p5 to p95)")
    if step.host_ns is not None:
        parts.append(f"on the device; the host runs ahead: it launches a step in {_in_sentence(step.host_ns, unit)}")
    if step.owners > 1:
        low, high = _in_sentence(step.low_ns, unit), _in_sentence(step.high_ns, unit)
        of = f" of process {step.processes[0]}" if len(step.processes) == 1 else ""
        of = f" of {len(step.processes):,} processes" if len(step.processes) > 1 else of
        parts.append(f"{plural(step.owners, _owner_word(step))}{of}: medians {low} to {high}")
    return ", ".join(parts)


def _owner_word(step: StepTime) -> str:
    return "part" if step.processes else "rank"


def _four_digits(value: float) -> str:
    """Return a number with four significant digits: "18,570", "3.142"."""
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:g}"


def _bar(each: DeviceTime, unit: str) -> ShareBar:
    parts = []
    for part, shown in zip(each.parts, span_texts([part.ns for part in each.parts], unit), strict=True):
        over = ""
        if each.devices > 1:
            low, middle, high = (f"{100 * share:.1f}" for share in (part.low, part.middle, part.high))
            # Where all devices have one share, a range adds nothing to it.
            over = f"{low} to {high} %, median {middle} %" if low != high else ""
        parts.append(
            ScreenShare(
                part.name,
                _LABELS[part.name],
                percent(part.ns, each.window_ns),
                100 * part.ns / each.window_ns,
                shown,
                f"{part.ns:,} ns",
                over,
            )
        )
    title = f"{escape_controls(each.label)}, {_WINDOWS[each.window]}"
    return ShareBar(title, _in_sentence(each.window_ns, unit), f"{each.window_ns:,} ns", tuple(parts))


def _adds_up(top: TopNames) -> bool:
    """Return whether the names are parts of their whole: phases on several threads overlap each other."""
    return sum(each.ns for each in top.names) <= top.total_ns


def _names_bar(top: TopNames, unit: str) -> ShareBar:
    """Return the bar of a trace without device time: its top names, and all others."""
    shown = top.names[: None if top.of else _NAMES_IN_BAR]
    labels = short_names([escape_controls(each.name) for each in shown], _NAME_WIDTH)
    rest = top.total_ns - sum(each.ns for each in shown)
    *amounts, amount_of_rest = span_texts([*(each.ns for each in shown), rest], unit)
    parts = [
        ScreenShare(
            f"name{number}",
            label,
            share_text(each, top),
            100 * each.ns / top.total_ns,
            shown_ns,
            f"{each.ns:,} ns",
            full=escape_controls(each.name),
        )
        for number, (label, each, shown_ns) in enumerate(zip(labels, shown, amounts, strict=True))
    ]
    count = top.count - len(shown)
    if count or (top.printed and rest > 0):
        words = "all others" if top.printed else f"{plural(count, 'other')}"
        parts.append(
            ScreenShare(
                "others",
                words,
                percent(rest, top.total_ns),
                100 * rest / top.total_ns,
                amount_of_rest,
                f"{rest:,} ns",
            )
        )
    what = noun(top)
    title = f"{what[:1].upper()}{what[1:]}{f', {escape_controls(top.part)}' if top.part else ''}, by name"
    return ShareBar(title, _in_sentence(top.total_ns, unit), f"{top.total_ns:,} ns", tuple(parts))


def noun(top: TopNames) -> str:
    """Return what the top names are: "kernels", "operators (self time)"."""
    return escape_controls(f"{top.title} (self time)" if top.column == "self" else top.title)


def _windows(headline: Headline, unit: str) -> list[str]:
    """Return the window of each finding, "" where it is about that of a bar and needs no words."""
    of_bars = [each.window_ns / each.devices for each in headline.devices]

    def words(each: Finding) -> str:
        if not each.window_ns or not each.saving_ns:
            return ""
        alike = any(math.isclose(each.window_ns, bar, rel_tol=_LIKE) for bar in of_bars)
        return "" if alike else _in_sentence(each.window_ns, unit)

    return list(map(words, headline.findings))


def _findings_title(headline: Headline, window: str) -> str:
    shown, count = len(headline.findings), headline.findings_count
    title = "Findings" if not count else plural(count, "finding") + (f", the best {shown}" if shown < count else "")
    said = [f"% of {window}"] * bool(window) + ["savings overlap, so they do not add up"] * (count > 1)
    return f"{title} ({'; '.join(said)})" if said else title


def _no_findings(note: str) -> str:
    if note.startswith(_NO_EVENTS):
        return "No findings: the rules need events with a start and a duration, and this input has none."
    # Where no rule could be checked, the reason of each rule is for the view `findings`.
    return note.partition("; not checked: ")[0] if note.startswith(_NO_FINDINGS) else f"{note[:1].upper()}{note[1:]}"


def _finding(number: int, each: Finding, unit: str, window: str) -> Card:
    owner = f" ({escape_controls(each.who)})" if each.who else ""
    known = each.saving_ns and math.isfinite(each.share)
    of = f" of {window}" if window else ""
    percents = [f"{_percent(each.share)} %{of}"] if known else []
    doubts = ["low confidence"] if each.saving_ns and each.confidence == "low" else []
    return Card(
        view="findings",
        number=number,
        title=f"{escape_controls(each.rule)}{owner}",
        saving=f"up to {_in_sentence(each.saving_ns, unit)}" if each.saving_ns else "",
        percent=", ".join(percents + doubts),
        claim=escape_controls(each.claim),
        rest=f"fix: {escape_controls(each.advice)}",
        exact=f"{each.saving_ns:,} ns; confidence {each.confidence}: {escape_controls(each.because)}",
    )


def _percent(share: float) -> str:
    """Return a ratio in percent with one decimal; neither "0.0" for some nor "100.0" for less than all."""
    return percent(round(share * 10**9), 10**9) if share >= 0 else f"{100 * share:.1f}"


def shown_first(headline: Headline) -> list[QuotedTable | TopNames]:
    """Return the tables of a headline in order: what the first figure is about, then names with their times."""
    names = [each for each in (headline.top, headline.below) if each is not None]
    # The latency of queries comes before the layers that it is made of.
    first = headline.figure is not None or any(each.view == "inference" for each in headline.quoted)
    return [*headline.quoted, *names] if first else [*names, *headline.quoted]


def _quoted_cards(quoted: QuotedTable) -> list[Card]:
    """Return a card for each of the first rows: the name, the first measure, the other measures."""
    columns = shown_columns(ReportTable(quoted.table, quoted.title, quoted.columns), "")
    names = next((column for column in columns if column.key == "name"), columns[-1])
    measures = [column for column in columns if column is not names]
    labels = short_names(names.texts[:3], _NAME_WIDTH)
    cards = []
    for row, label in enumerate(labels):
        words = [f"{column.title}: {column.texts[row]}" for column in measures]
        whole = names.texts[row]
        cards.append(
            Card(
                quoted.view,
                -1,
                label,
                words[0] if words else "",
                "",
                ", ".join(words[1:]),
                "" if whole == label else whole,
                whole,
            )
        )
    return cards


def _name_cards(top: TopNames, unit: str) -> list[Card]:
    shown = top.names[:3]
    labels = short_names([escape_controls(each.name) for each in shown], _NAME_WIDTH)
    cards = []
    for label, each in zip(labels, shown, strict=True):
        calls = "calls unknown" if each.calls is None else plural(each.calls, "call")
        share = "" if each.share is None else f"{share_text(each, top)} %"
        cards.append(
            Card(
                top.view,
                -1,
                label,
                span_text(each.ns, unit),
                share,
                calls,
                whole if (whole := escape_controls(each.name)) != label else "",
                f"{each.ns:,} ns",
            )
        )
    return cards
