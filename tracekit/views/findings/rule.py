"""The declaration of a rule of `findings`: the module of a rule ends in one, and `findings.RULES` lists it.

Sources of thresholds: data loading 5 % and 20 % are xprof's limits for moderately and highly input-bound (tb_plugin:
5 %); exposed communication 10 % is tb_plugin's, launch latency 10 % of idle time xprof's. The others are choices of
tracekit.
"""

from __future__ import annotations

from collections.abc import Callable

from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.options import OptionSpec
from tracekit.views.base import View
from tracekit.views.findings._facts import Facts, RuleResult

__all__ = ["LEAST_SHARE", "Rule", "threshold"]


def threshold(key: str, default: float, unit: Unit, help: str) -> OptionSpec[float]:
    """Return a threshold of 0 or more: an option of the view, which `--option KEY=VALUE` sets (docs/findings.md)."""
    return OptionSpec(key, float, default, help, least=0, unit=unit)


LEAST_SHARE = threshold(
    "least_share", 0.01, Unit.RATIO, "The smallest savings that any rule shows, as a share of the window."
)
"""The threshold that all rules share."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of `findings`, declared once: notes, options, documentation and the order of findings follow.

    name: as notes list it. check: finds what the rule is about; `Facts.thresholds` has its thresholds by key.
    columns: of EVENTS that it reads itself; args_of: the kinds of rows whose `args` it reads.
    evidence: the views whose cells it quotes (`Facts.cells`).
    precedence: a rule with one may be the cause of what other rules find: of two causes the one with the smaller number
    may be the cause of the other. None: it is never a cause. joins_ranks: it compares ranks, whatever input each is of.
    """

    name: str
    check: Callable[[Facts], RuleResult]
    thresholds: tuple[OptionSpec[float], ...] = ()
    columns: frozenset[str] = frozenset()
    args_of: frozenset[Kind] = frozenset()
    evidence: tuple[View, ...] = ()
    precedence: int | None = None
    joins_ranks: bool = False
