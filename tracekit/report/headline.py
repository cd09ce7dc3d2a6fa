"""Findings, and the headline: the figures of the first screen. `report` has them beside its tables."""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.text import display
from tracekit.text.display import Value, html_facts, shortened, visible
from tracekit.units import Unit, format_ratio, format_span


@dataclass(frozen=True, slots=True)
class Evidence:
    """A cell of another view's table that a finding rests on. cell: "VIEW.ROW.COLUMN"."""

    cell: str
    value: Value
    unit: Unit


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, its evidence, and the most that a fix can save.

    claim: one sentence with numbers. events: ids of the first events that it is about. saving_ns: upper bound of the
    time that a fix saves; share: the same as a part of the window, 0..1; window_ns: the length of that window, 0 where
    a rule has one of its own. confidence: "high", "medium" or "low", for the reason `because`. advice: the fix. check:
    what to look at after the change. owner: the rank or input, "" for the only one. part_of: the rule of another
    finding of the same report that is the cause of this one, "" for none.
    """

    rule: str
    owner: str
    claim: str
    evidence: tuple[Evidence, ...]
    events: tuple[int, ...]
    saving_ns: int
    share: float
    confidence: str
    because: str
    advice: str
    check: str
    part_of: str = ""
    window_ns: int = 0

    def __repr__(self) -> str:
        title, *facts = self._facts()
        lines = [f"{title[0]}: {title[1]}", *(f"  {word:<13}{text}" for word, text in facts)]
        return "\n".join(shortened(line, 2 * display.SCREEN) for line in lines)

    def _repr_html_(self) -> str:
        title, *facts = self._facts()
        return f"<p><b>{display.escaped(title[0])}</b>: {display.escaped(title[1])}</p>{html_facts(facts)}"

    def _of(self) -> str:
        return f" of {format_span(self.window_ns)}" if self.window_ns else ""

    def _facts(self) -> list[tuple[str, str]]:
        owner = f" ({self.owner})" if self.owner else ""
        facts = [
            (f"{self.rule}{owner}", self.claim),
            (
                "could save",
                f"up to {format_span(self.saving_ns)} ({format_ratio(self.share)} %{self._of()})"
                if self.saving_ns
                else "nothing by itself",
            ),
            ("confidence", f"{self.confidence}: {self.because}"),
            *([("part of", self.part_of)] if self.part_of else []),
            ("fix", self.advice),
            ("check", self.check),
        ]
        return [(visible(word), visible(text)) for word, text in facts]


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of a step, over the steps of all owners after their warm-up.

    steps: how many; warm_up: how many more are left out. owners: ranks or inputs that have steps. p5_ns, median_ns,
    p95_ns: nearest rank. low_ns, high_ns: the least and the greatest median of an owner.
    """

    steps: int
    warm_up: int
    owners: int
    p5_ns: int
    median_ns: int
    p95_ns: int
    low_ns: int
    high_ns: int


@dataclass(frozen=True, slots=True)
class TimePart:
    """One part of the time of some devices: "compute", "exposed_comm", "exposed_copies" or "idle".

    ns: of all devices together. low, middle, high: the least, the median (nearest rank) and the greatest share of a
    device's own window, 0..1.
    """

    name: str
    ns: int
    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """The time of a group of devices in parts that add up to `window_ns`, a sum over the devices.

    label: of the device, or of what the devices have in common. window: "steps" or "run".
    """

    label: str
    devices: int
    window: str
    window_ns: int
    parts: tuple[TimePart, ...]


@dataclass(frozen=True, slots=True)
class TopName:
    """A name and its time. calls: None where they are not known. share: of the time of all names, 0..1."""

    name: str
    ns: int
    calls: int | None
    share: float | None


@dataclass(frozen=True, slots=True)
class TopNames:
    """The names that take most time in a table, largest first.

    view, column: the cells that are quoted. title: the noun of these names, such as "kernels". part: the run or section
    of the table that is quoted, "" for all of it. total_ns: of all `count` names. printed: the name of the total that
    the input itself prints below a table that lacks rows, which `total_ns` is then; "" for a sum.
    """

    view: str
    column: str
    title: str
    part: str
    total_ns: int
    count: int
    names: tuple[TopName, ...]
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    """The figures of the first screen. What is not known is None or empty, and a note has the reason.

    step: None without steps. run_ns: first start to last end of the events. devices: a bar each. findings: the best
    ones, of `findings_count`. reservations: what limits every figure, such as records that could not be read.
    """

    step: StepTime | None = None
    run_ns: int | None = None
    run_note: str = ""
    devices: tuple[DeviceTime, ...] = ()
    devices_note: str = ""
    top: TopNames | None = None
    findings: tuple[Finding, ...] = ()
    findings_count: int = 0
    findings_note: str = ""
    reservations: tuple[str, ...] = ()
