"""The opening sentence of a report, and what it means for the reader: made by rules from figures of the headline.

The first rule that fits makes both. Nothing is guessed: the shares of device time are facts, and a cause is named only
where a finding explains at least half of that time, with "may" where its confidence is low. What a trace cannot show
is "not known". Every number is one of the headline, rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from tracekit.lazy_dataclass import dataclass
from tracekit.model.names import short_names
from tracekit.model.report import DeviceTime, Finding, Headline, Opening, QuotedTable, StepTime, TopNames
from tracekit.model.units import Unit, format_bytes, sentence_span
from tracekit.views.advice import READ_ALL
from tracekit.views.hang_words import HangWords
from tracekit.views.headline.content import KINDS, OF_STEPS
from tracekit.views.tables.metrics import OF_THE_RUN
from tracekit.views.tables.model import OTHERS, PHASES, STEP

__all__ = ["CALLS", "CAUSES", "OPERATORS", "RANGES", "RULES", "STACKS", "OpeningFacts", "about", "opening_of"]

LEAST_SHARE, _LEAST_UNKNOWN = 0.1, 0.2
"""A device that waits, copies or communicates for less than this is busy; and one that waits for a little more than
this without a known reason."""
_EXPLAINS = 0.5
"""The least part of the time that a finding must be about to be called its cause."""
LONGEST = 90
"""Characters of the sentence: a line of a terminal, or two large lines of a page."""
_NAME, _LEAST_NAME = 40, 16
"""Characters of a name in a sentence: at most, and at least."""


@dataclass(frozen=True, slots=True)
class IdleCause:
    """The cause that a finding names for the time in which a device does not compute.

    says, may: the cause, and with low confidence. parts: of the device time that it may explain. each: the cause is one
    of every step; others happen once or now and then. means: "" for what a step would take without it.
    """

    says: str
    may: str
    parts: tuple[str, ...] = ("idle",)
    each: bool = True
    means: str = ""


_LARGE, _NEARLY = 1000, 0.99
_COPIES = ("exposed_copies", "idle")
_TALKS = ("exposed_comm", "idle")
CAUSES: dict[str, IdleCause] = {
    "launch-bound": IdleCause("the host launches too late", "the host may launch too late"),
    "data loading": IdleCause("it waits for data", "it may be waiting for data"),
    "host pauses": IdleCause("the host pauses", "the host may be pausing", each=False),
    "profiler overhead": IdleCause(
        "the profiler stops the host",
        "the profiler may be stopping the host",
        each=False,
        means="Without the profiler the program is faster: do not take this idle time for its own.",
    ),
    "long host calls": IdleCause("long API calls stop the host", "long API calls may stop the host", each=False),
    "compilation": IdleCause("the program compiles", "the program may be compiling", each=False),
    "long operator": IdleCause("one operator holds up the host", "one operator may hold up the host"),
    "needless synchronization": IdleCause("the host waits for results", "the host may be waiting for results"),
    "device allocation": IdleCause("memory is allocated in between", "memory allocation may be the reason"),
    "start-up": IdleCause(
        "the program is still starting",
        "the program may still be starting",
        each=False,
        means="A run pays this once: start the profiler later, or do not count it.",
    ),
    "warm-up": IdleCause(
        "the first steps are slow",
        "the first steps may be slow",
        each=False,
        means="A run pays this once: leave the first steps out of the profile.",
    ),
    "pageable copies": IdleCause("pageable memory slows the copies", "pageable memory may slow the copies", _COPIES),
    "tiny copies": IdleCause("many small copies hold it up", "many small copies may hold it up", _COPIES),
    "straggler": IdleCause("{late} late", "{owner} may come late", _TALKS),
    "unequal stages": IdleCause("the stages are unequal", "the stages may be unequal", _TALKS),
    "low bandwidth": IdleCause("little bandwidth is used", "the bandwidth may be low", ("exposed_comm",)),
    "shared device": IdleCause("another process uses it too", "another process may use it", each=False),
}
"""Findings that explain why a device does not compute, by their rule."""

_TRENDS = {
    "slower and slower": ("it gets slower and slower", "it may get slower and slower"),
    "uneven steps": ("steps take unequal times", "steps may take unequal times"),
    "memory growth": ("memory keeps growing", "memory may keep growing"),
}
"""Findings about a device that is busy all the same."""
_COMPUTE = ("expensive kernel", "tail effect", "little parallelism", "fp32 arithmetic")
_LOST = "lost rows"
_UNEXPLAINED = "idle, cause not in the trace"
_LOADER = next(iter(PHASES.values()))
_UNLIKE = 3
"""Times from which the 95th percentile of the steps is unlike the 5th."""
OPERATORS, CALLS, RANGES, STACKS = "host operators", "API calls", "ranges", "Python stacks"
"""What a trace may have of the host, in words."""
_DOES = {"idle": "waits", "exposed_comm": "only communicates", "exposed_copies": "only copies"}


@dataclass(frozen=True, slots=True)
class OpeningFacts:
    """The facts that the rules look at: the headline, all findings, and what the input has.

    recorded: which of OPERATORS, CALLS, RANGES and STACKS the window of the steps has.
    lost: too many records could not be read. device: one of `lanes.DEVICE_WORDS`.
    has_events, has_durations: whether the input has any. on_cpu: it has no GPU activity. cut: it ends before its end,
    so that what it lacks may be behind the cut. hang: of dumps of a recorder.
    """

    headline: Headline
    findings: Sequence[Finding] = ()
    lost: bool = False
    device: str = "GPU"
    has_events: bool = True
    has_durations: bool = True
    on_cpu: bool = False
    cut: bool = False
    filtered: bool = False
    hang: HangWords | None = None
    recorded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OpeningRule:
    """A rule: its name, and what it says; None where it does not fit."""

    name: str
    says: Callable[[OpeningFacts], Opening | None] = field(repr=False)


def opening_of(facts: OpeningFacts) -> Opening:
    """Return the opening sentence: that of the first rule that fits."""
    return next(found for rule in RULES if (found := rule.says(facts)) is not None)


def about(share: float) -> str:
    """Return a share for a sentence; neither "0 %" for some nor "100 %" for less than all.

    >>> about(0.7605), about(0.001), about(0.999)
    ('76 %', 'less than 1 %', 'more than 99 %')
    """
    text = f"{100 * share:.0f}"
    if text == "0" and share > 0:
        return "less than 1 %"
    return "more than 99 %" if text == "100" and share < 1 else f"{text} %"


def _lost(facts: OpeningFacts) -> Opening | None:
    if not facts.lost:
        return None
    return Opening(
        "lost records",
        "Too many records could not be read: how the time is spent is not known.",
        f"Times and counts below are too low. {'Get all of it' if facts.cut else 'Record again'}, or repair the file.",
    )


def _hang(facts: OpeningFacts) -> Opening | None:
    """Dumps of the Flight Recorder: who waits for whom. Traces beside them come first where nothing hangs."""
    if facts.hang is None or not (facts.hang.hangs or not facts.has_events):
        return None
    return Opening("hang", facts.hang.sentence, facts.hang.meaning)


# Traces that are about something else than time.


def _figure(facts: OpeningFacts) -> Opening | None:
    figure = facts.headline.figure
    if figure is None:
        return None
    quoted = facts.headline.quoted[0] if facts.headline.quoted else None
    if figure.unit is Unit.BYTES:
        return Opening(
            "memory", f"{figure.before} {format_bytes(figure.value)}, {figure.after}.", _largest_holder(quoted)
        )
    if quoted is not None and quoted.view == "samples":
        return _samples(figure.value, figure.after.partition(" ")[0], quoted)
    if quoted is not None and quoted.view == "operator":
        calls = f"{figure.value:,} operator {'call' if figure.value == 1 else 'calls'}, without times."
        return Opening("calls", calls, "Name the Kineto trace of the same run beside it to see where the time goes.")
    if quoted is not None and quoted.view == "inference":
        layers = f"{figure.value:,} {'layer' if figure.value == 1 else 'layers'}, without times."
        return Opening("layers", layers, "Name the file of --exportProfile of the same engine beside it to see times.")
    what = figure.after.partition(" ")[0]
    if quoted is not None and OF_THE_RUN in [column.title for column in quoted.columns]:
        return Opening("metrics", "Metrics of the run as a whole, without times of what ran.", _metric(quoted))
    return Opening("metrics", f"Metrics of {figure.value:,} {what}, without times.", _metric(quoted))


def _cells(quoted: QuotedTable, name: str) -> Sequence[object]:
    return next((column.values for column in quoted.columns if column.name == name), ())


def _largest_holder(quoted: QuotedTable | None) -> str:
    rows = [] if quoted is None else list(zip(_cells(quoted, "name"), _cells(quoted, "held"), strict=False))
    known = [(str(name), held) for name, held in rows if isinstance(held, int) and held > 0]
    if not known:
        return "What held it is not in the file."
    name, held = max(known, key=lambda each: each[1])
    return f"The largest part, {format_bytes(held)}, is held by {_short(name)}."


def _samples(whole: int, word: str, quoted: QuotedTable) -> Opening:
    own = next((column.values for column in quoted.columns if column.name.startswith("self_")), ())
    known = [
        (str(name), float(count))
        for name, count in zip(_cells(quoted, "name"), own, strict=False)
        if isinstance(count, int | float) and count > 0
    ]
    means = _SAMPLES
    if not known or whole <= 0:
        return Opening("samples", f"{whole:,} {word}.", means)
    name, count = max(known, key=lambda each: each[1])
    said = _with_name(f"{about(count / whole)} of the {whole:,} {word} are in ", name, " itself.")
    return Opening("samples", f"{said[0].upper()}{said[1:]}", means)


def _metric(quoted: QuotedTable | None) -> str:
    if quoted is None:
        return ""
    for metric, value, unit, name in zip(
        _cells(quoted, "metric"),
        _cells(quoted, "avg"),
        _cells(quoted, "unit") or [""] * quoted.count,
        _cells(quoted, "name"),
        strict=False,
    ):
        if isinstance(value, int | float):
            number = f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.4g}"
            return f"{metric} of {_short(str(name))}: {number}{f' {unit}' if unit else ''}."
    return ""


# Device time.


def _rows_missing(facts: OpeningFacts) -> Opening | None:
    """Rows of the device's work are missing: what looks like idle time may be work."""
    lost = next((each for each in facts.findings if each.rule == _LOST), None)
    if lost is None:
        return None
    group = _main_group(facts.headline.devices)
    are = "may be" if lost.confidence == "low" else "are"
    if group is None:
        said = f"{facts.device} time is not known: rows of its work {are} missing."
    else:
        idle = next(part.ns for part in group.parts if part.name == "idle") / group.window_ns
        verb, whose = ("is", "its") if group.devices == 1 else ("are", "their")
        window = "each step" if group.window == "steps" else "the run"
        share = about(1 - idle)
        if share.startswith("less"):  # "less than 1 % or more" says nothing
            who = _who(facts, group).replace("The ", "the ", 1)
            busy = f"The trace shows {who} busy for {share} of {window}"
        else:
            busy = f"{_who(facts, group)} {verb} busy {share} of {window} or more"
        said = f"{busy}: rows of {whose} work {are} missing."
    return Opening(_LOST, said, _first_words(lost.claim))


def _device(facts: OpeningFacts) -> Opening | None:
    group = _main_group(facts.headline.devices)
    if group is None:
        return None
    shares = {part.name: part.ns / group.window_ns for part in group.parts}
    part = max(_DOES, key=lambda name: shares.get(name, 0.0))
    if shares.get(part, 0.0) < LEAST_SHARE:
        return _busy(facts, group, shares)
    cause = _cause(facts.findings, part, shares[part])
    unexplained = part == "idle" and any(each.rule == _UNEXPLAINED for each in facts.findings)
    if part == "idle" and cause is None and not unexplained and shares[part] < _LEAST_UNKNOWN:
        return _busy(facts, group, shares)
    one = group.devices == 1
    share = about(shares[part])
    each = group.window == "steps" and (cause is None or CAUSES[cause.rule].each)
    window = "each step" if each else "the steps" if group.window == "steps" else "the run"
    verb = _does(group, part)
    verb = verb if one else _plural_verb(verb)
    who = _who(facts, group)
    if part == "idle":
        said = f"{who} {verb} {share} of {window}"
    else:  # "only copies 54 %" would be no more than 54 %
        said = f"For {share} of {window} {who.replace('The ', 'the ', 1)} {verb}"
    if cause is not None:
        found = CAUSES[cause.rule]
        why = (found.may if cause.confidence == "low" else found.says).format(owner=_owner(cause), late=_late(cause))
        return Opening(
            cause.rule, f"{said}: {why}.", _means_cause(facts, group, cause, shares) + _spread(facts, group, part)
        )
    if unexplained:
        return Opening(
            _UNEXPLAINED,
            f"{said}, and the trace does not show why.",
            f"{_means_unknown(facts, group)}{_spread(facts, group, part)}",
        )
    return Opening(part, f"{said}.", f"{_means_part(facts, group, part)}{_spread(facts, group, part)}")


def _main_group(groups: Sequence[DeviceTime]) -> DeviceTime | None:
    """Return the devices that the sentence is about: those with steps first, then those with most time."""
    return max(groups, key=lambda each: (each.window == "steps", each.devices, each.window_ns), default=None)


def _who(facts: OpeningFacts, group: DeviceTime) -> str:
    if len(facts.headline.devices) > 1 and group.devices == 1:
        return " ".join(group.label.split()[:2])
    return f"The {facts.device}" if group.devices == 1 else f"The {group.devices:,} {facts.device}s"


def _does(group: DeviceTime, name: str) -> str:
    """Return what the devices do in a part of their time: exposed copies may be memsets."""
    pieces = next((part.pieces for part in group.parts if part.name == name), ())
    whole = sum(piece.ns for piece in pieces)
    if name != "exposed_copies" or not whole:
        return _DOES[name]
    sets = sum(piece.ns for piece in pieces if _MEMSET in piece.name.lower()) / whole
    if sets >= _NEARLY:
        return "only sets memory"
    return _DOES[name] if sets < LEAST_SHARE else "only copies or sets memory"


_MEMSET = "memset"
_PLURALS = {"waits": "wait", "communicates": "communicate", "copies": "copy", "sets": "set"}


def _plural_verb(verb: str) -> str:
    return " ".join(_PLURALS.get(word, word) for word in verb.split())


def _cause(findings: Sequence[Finding], part: str, share: float) -> Finding | None:
    """Return the first finding that explains at least half of this part of the time."""
    return next(
        (
            each
            for each in findings
            if each.rule in CAUSES and part in CAUSES[each.rule].parts and each.share >= _EXPLAINS * share
        ),
        None,
    )


def _owner(finding: Finding) -> str:
    return finding.owner or "one rank"


def _late(finding: Finding) -> str:
    """Return who comes late: the ranks that the claim begins with where they come together, else the owner."""
    who, come, _ = finding.claim.partition(" come late together")
    if come and len(who) <= _NAME:
        return f"{who[:1].lower()}{who[1:]} come"
    return f"{_owner(finding)} comes"


def _spread(facts: OpeningFacts, group: DeviceTime, name: str) -> str:
    """Return how far the devices differ in a part, "" where they hardly do."""
    part = next(each for each in group.parts if each.name == name)
    if group.devices == 1 or part.high - part.low < LEAST_SHARE:
        return ""
    return f" Single {facts.device}s: {about(part.low)} to {about(part.high)}."


def _step_words(facts: OpeningFacts, group: DeviceTime) -> tuple[str, int]:
    """Return the time of a step, or of the run, in words, and in ns; ("", 0) where it is not known."""
    headline = facts.headline
    if group.window == "steps" and headline.step is not None:
        return _a_step(headline.step), headline.step.median_ns
    if headline.run_ns is None:
        return "", 0
    return f"The run took {sentence_span(headline.run_ns)}", headline.run_ns


def _a_step(step: StepTime) -> str:
    """Return the time of a step: the median, or the range where a median would hide that steps are unlike."""
    if step.p95_ns >= _UNLIKE * step.p5_ns > 0:
        return f"{sentence_span(step.p5_ns)} to {sentence_span(step.p95_ns)} a step"
    return f"{sentence_span(step.median_ns)} a step"


def _means_cause(facts: OpeningFacts, group: DeviceTime, cause: Finding, shares: dict[str, float]) -> str:
    words, whole = _step_words(facts, group)
    first = f"{words}." if words and (group.window == "steps" or CAUSES[cause.rule].each) else ""
    told = CAUSES[cause.rule].means
    if told:
        return f"{first} {told}".strip()
    if not whole:
        return first
    if not CAUSES[cause.rule].each:
        of = f" of the {sentence_span(cause.window_ns)}" if cause.window_ns else ""
        return f"{first} Up to {sentence_span(cause.saving_ns)}{of} could be saved.".strip()
    if cause.rule == "launch-bound":
        then = f"If launches kept up, the same work would need about {_two_digits(whole * (1 - shares['idle']))}."
        tuned = any(each.rule in _COMPUTE for each in facts.findings)
        return f"{first} {then}{'' if tuned else ' Do not tune the kernels first.'}"
    share = _share(facts, group, cause)
    if share >= 1:
        return first
    best = f"without this, it would be {_two_digits(whole * (1 - share))} at best."
    return f"{first} {best[0].upper()}{best[1:]}"


def _share(facts: OpeningFacts, group: DeviceTime, finding: Finding) -> float:
    """Return the part that a finding could save of what `_step_words` names: a step, or the run."""
    step = facts.headline.step
    return step.share_of(finding) if group.window == "steps" and step is not None else finding.share


def _means_unknown(facts: OpeningFacts, group: DeviceTime) -> str:
    if group.window == "steps":
        first = f"{_step_words(facts, group)[0]}. "
        if facts.cut:
            return first + READ_ALL
        return first + _missing(facts.recorded)
    if facts.cut:
        return READ_ALL
    return "If the program waits for requests, nothing is wrong; else record what the host does, too."


def _missing(recorded: frozenset[str]) -> str:
    """Return what to record so that a trace shows why a device waits: only what it does not have."""
    lacks = [name for name in (OPERATORS, CALLS) if name not in recorded]
    if lacks:
        ranges = "" if RANGES in recorded else ", or put ranges around host work"
        return f"Record {' and '.join(lacks)} too{ranges}."
    ranges = f"put {'more ' if RANGES in recorded else ''}ranges around host work"
    return f"{ranges.capitalize()}." if STACKS in recorded else f"Record Python stacks too, or {ranges}."


def _means_part(facts: OpeningFacts, group: DeviceTime, part: str) -> str:
    words, _ = _step_words(facts, group)
    first = f"{words}. " if words and group.window == "steps" else ""
    if part == "exposed_comm":
        return f"{first}No compute hides this communication; the traces of all ranks show which one is late."
    if part == "exposed_copies":
        return f"{first}No kernel hides these copies: copy less, or on a stream of its own while kernels run."
    known = next((each for each in facts.findings if each.rule in CAUSES), None)
    if known is not None:
        explained = about(_share(facts, group, known))
        return f"{first}At most {explained} is explained ({known.rule}); the rest is not known."
    note = facts.headline.findings_note
    if note.startswith("No findings: "):
        return f"{first}Why is not known: {_first_words(note.removeprefix('No findings: '))}"
    return f"{first}Why is not known: no rule found a reason."


def _busy(facts: OpeningFacts, group: DeviceTime, shares: dict[str, float]) -> Opening:
    busy = about(1 - shares.get("idle", 0.0))
    window = "each step" if group.window == "steps" else "the run"
    said = f"{_who(facts, group)} {'is' if group.devices == 1 else 'are'} busy {busy} of {window}"
    words, whole = _step_words(facts, group)
    first = f"{words}." if words and group.window == "steps" else ""
    trend = next((each for each in facts.findings if each.rule in _TRENDS), None)
    if trend is not None and trend is facts.findings[0]:
        says, may = _TRENDS[trend.rule]
        return Opening(trend.rule, f"{said}, but {may if trend.confidence == 'low' else says}.", first)
    if not facts.findings:
        return Opening("busy", f"{said}.", f"{first} No rule found time to save.".strip())
    best = facts.findings[0]
    if best.rule in CAUSES and best.share >= _EXPLAINS:
        # The window of the finding begins before the device's own steps do: that time is not in the share above.
        outside = f"Before that: {best.rule}, up to {sentence_span(best.saving_ns)}."
        return Opening("busy", f"{said}.", f"{first} {outside}".strip())
    if best.rule == "expensive kernel":
        return Opening("busy", f"{said}.", f"{first} {_first_words(best.claim)}".strip())
    could = "may save" if best.confidence == "low" else "could save"
    share = _share(facts, group, best)
    saved = f", at most {about(share)}" if whole and 0 < share < _NEARLY else ""
    return Opening("busy", f"{said}.", f"{first} The first thing that {could} time: {best.rule}{saved}.".strip())


# Names with their times, where no device time is known.


def _only_calls(facts: OpeningFacts) -> Opening | None:
    top = facts.headline.top
    if top is None or top.view != "api" or not facts.has_events:
        return None
    where = "the part that was read" if facts.cut else "this trace"
    advice = READ_ALL if facts.cut else f"Record {facts.device} activity too."
    said = f"{facts.device} time is not known: {where} has only API calls."
    return Opening("API calls", said, f"{_most(top)} {advice}")


def _phases(facts: OpeningFacts) -> Opening | None:
    """The phases of training: where the host is in each step."""
    top = facts.headline.top
    if top is None or not top.of:
        return None
    shares = _shares_of_phases(top)
    if not shares:
        return None
    first = max(shares, key=lambda name: shares[name])
    window = "each step" if top.of == OF_STEPS else top.of
    what = "Loading data" if first == _LOADER else _short(first)
    step = facts.headline.step
    told = f"{_a_step(step)}. " if step is not None else ""
    loading = next((each for each in facts.findings if each.rule == "data loading"), None)
    if loading is not None and first == _LOADER:
        told += "Faster loading shortens it: more workers, or the next batch while this one runs."
    else:
        told += f"This is time of the host: {facts.device} time is not known."
    return Opening("phases", f"{what} takes {about(shares[first])} of {window}.", told)


def _shares_of_phases(top: TopNames) -> dict[str, float]:
    """Return the share of each phase, of all ranks together: "Forward, rank 1" is the phase Forward."""
    shares: dict[str, float] = {}
    for each in top.names:
        phase, _, rank = each.name.partition(", ")
        name = phase if rank and phase in {*PHASES.values(), OTHERS, STEP} else each.name
        if name not in (OTHERS, STEP) and each.share is not None:
            shares[name] = shares.get(name, 0.0) + each.share
    return shares


def _names(facts: OpeningFacts) -> Opening | None:
    top = facts.headline.top
    if top is None:
        return None
    where = "CPU only: " if facts.on_cpu else ""
    step = facts.headline.step
    told = f"{_a_step(step)}." if step is not None else ""
    limit = _limit(facts.headline.quoted, top)
    if limit:
        told = f"{told} {limit}"
    elif facts.on_cpu:
        told = f"{told} This trace has no {facts.device} activity."
    elif facts.headline.run_ns is None:
        told = f"{told} {_when_unknown(facts, top)}"
    elif not facts.headline.devices:
        told = f"{told} {facts.headline.devices_note}"
    return Opening(f"top {top.title}", _most(top, where), told.strip())


_SAMPLES = "Samples show where the program was seen, not how long each call took."
_DEVICE_VIEWS = ("kernel", "memory_manipulation", "api")


def _when_unknown(facts: OpeningFacts, top: TopNames) -> str:
    if top.view == "samples":
        return _SAMPLES
    idle = f"when the {facts.device} was idle" if top.view in _DEVICE_VIEWS else "when each ran"
    if facts.has_events:
        note = facts.headline.run_note
        return f"{idle[0].upper()}{idle[1:]} is not known: {note}." if note else ""
    return f"These are sums: {idle} is not known."


_SINGULAR = {
    "kernels": "kernel",
    "layers": "layer",
    "operators": "operator",
    "user ranges": "range",
    "ranges of threads": "range of a thread",
    "ranges without a thread": "range without a thread",
    "API calls": "API call",
    "functions": "function",
    "other calls": "call",
    KINDS: "kind",
}


def _most(top: TopNames, where: str = "") -> str:
    """Return the sentence about the name that takes most time. where: the words before it."""
    first = top.names[0]
    if top.count == 1:
        one = f"the only {_SINGULAR.get(top.title, 'name')}, "
        one = one if where else f"{one[0].upper()}{one[1:]}"
        return _with_name(f"{where}{one}", first.name, f", takes {sentence_span(first.ns)}.")
    every = f"all {'ranges' if top.title == 'user ranges' else top.title}"
    of = "the sampled time" if top.view == "samples" else f"the time of {every}"
    own = " itself" if top.column == "self" else ""
    share = "most" if first.share is None else about(first.share)
    return _with_name(where, first.name, f"{own} takes {share} of {of}.")


def _with_name(before: str, name: str, after: str) -> str:
    """Return a sentence around a name, which is shortened to the room that is left."""
    room = max(min(LONGEST - len(before) - len(after), _NAME), _LEAST_NAME)
    return f"{before}{_short(name, room)}{after}"


_NEAR, _FAR = 0.8, 0.6
"""Shares of a peak: from 0.8 on it is the limit, below 0.6 of both neither is (Nsight Compute's speed of light)."""


def _limit(quoted: Sequence[QuotedTable], top: TopNames) -> str:
    """Return how near the first kernel comes to the peaks of the device, "" where that is not known."""
    peak = next((each for each in quoted if each.table == "peak"), None)
    if peak is None:
        return ""
    names = list(_cells(peak, "name"))
    row = names.index(top.names[0].name) if top.names[0].name in names else 0
    reached = {
        what: float(cell)
        for what in ("compute", "memory")
        if isinstance(cell := dict(enumerate(_cells(peak, what))).get(row), int | float)
    }
    if not reached:
        return ""
    said = " and ".join(f"{about(share)} of the {what} peak" for what, share in reached.items())
    best = max(reached, key=lambda what: reached[what])
    more = (
        f": {best} is its limit"
        if reached[best] >= _NEAR
        else ": neither is its limit"
        if len(reached) == 2 and reached[best] < _FAR
        else ""
    )
    who = "It" if names[row : row + 1] == [top.names[0].name] else _short(str(names[row]))
    return f"{who} reaches {said}{more}."


def _nothing(facts: OpeningFacts) -> Opening:
    if facts.filtered:
        return Opening("filters", "Nothing passes the filters.", "Choose others, or leave them out.")
    if facts.headline.step is not None:
        step = facts.headline.step
        return Opening("steps", f"A step takes {sentence_span(step.median_ns)}.", "What it does is not in this trace.")
    if not facts.has_events:
        below = "What it has is below." if facts.headline.quoted or facts.headline.top else ""
        return Opening("no times", "This input has no times of kernels, operators or calls.", below)
    if not facts.has_durations:
        said = "Nothing here has a duration: this trace has points in time alone."
        advice = READ_ALL if facts.cut else "Record ranges with a begin and an end to see where the time goes."
        return Opening("no durations", said, advice)
    return Opening("no names", "Where the time goes is not known: nothing here has a name and a time.")


def _empty(facts: OpeningFacts) -> Opening | None:
    headline = facts.headline
    if headline.run_note != "no events" or headline.top is not None or headline.figure is not None or facts.filtered:
        return None
    return Opening("empty", "This trace is empty: it has no events.", "Did the profiler run while the program did?")


def _first_words(text: str) -> str:
    """Return the first sentence of a text."""
    first, stop, _ = text.partition(". ")
    return f"{first.partition('; ')[0].rstrip('.')}." if stop or first else ""


def _short(name: str, width: int = _NAME) -> str:
    return short_names([" ".join(name.split()) or "(no name)"], width)[0]


def _two_digits(ns: float) -> str:
    """Return a time with two digits: an estimate has no more."""
    digits = len(str(max(round(ns), 1))) - 2
    return sentence_span(round(ns / 10**digits) * 10**digits if digits > 0 else round(ns))


RULES = (
    OpeningRule("lost records", _lost),
    OpeningRule("hang", _hang),
    OpeningRule("empty", _empty),
    OpeningRule("another subject than time", _figure),
    OpeningRule("rows missing", _rows_missing),
    OpeningRule("device time", _device),
    OpeningRule("API calls", _only_calls),
    OpeningRule("phases", _phases),
    OpeningRule("names", _names),
    OpeningRule("nothing", _nothing),
)
"""The rules in their order. The last one fits always."""
