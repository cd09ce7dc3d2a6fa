"""Checks: what a command decided about each rule, run or defect, in the form that CI systems show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from tracekit.lazy_dataclass import dataclass

__all__ = ["Check", "CheckList", "CheckState"]


class CheckState(StrEnum):
    """The state of a check. ERROR: it could not be made. UNDECIDED: the data is not enough, and nothing fails."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    UNDECIDED = "undecided"


_GRAVEST_FIRST = (CheckState.ERROR, CheckState.FAILED, CheckState.UNDECIDED, CheckState.PASSED)


@dataclass(frozen=True, slots=True)
class Check:
    """One check. name: the rule, run or defect, which has the same name in the next run of the command.

    word: the command's own word for the state, such as "violated". text: one sentence. file: the input that it is
    about, as the user named it, "" for none or several; line: in that file, 0 where it is not known.
    """

    name: str
    state: CheckState
    word: str
    text: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class CheckList:
    """All checks of a command. title: what was checked. verdict: the answer in one sentence, "" for none.

    notes: sentences on what the checks rest on, which fail nothing.
    """

    command: str
    title: str
    checks: tuple[Check, ...]
    verdict: str = ""
    notes: tuple[str, ...] = ()

    def gravest_first(self) -> list[Check]:
        """Return the checks: errors, failures, undecided ones, passed ones, each in the order of the command."""
        return sorted(self.checks, key=lambda check: _GRAVEST_FIRST.index(check.state))

    def unique_names(self) -> Iterator[str]:
        """Yield a name for each check, in their order. Readers of JUnit XML keep one of two that have the same name.

        >>> passed = Check("run", CheckState.PASSED, "ok")
        >>> list(CheckList("batch", "", (passed, passed)).unique_names())
        ['run', 'run (2)']
        """
        seen: Counter[str] = Counter()
        taken = {check.name for check in self.checks}
        for check in self.checks:
            seen[check.name] += 1
            name = check.name
            while seen[check.name] > 1 and name in taken:
                name = f"{check.name} ({seen[check.name]})"
                seen[check.name] += name in taken
            taken.add(name)
            yield name

    def count(self, *states: CheckState) -> int:
        """Return the number of checks in one of these states."""
        return sum(check.state in states for check in self.checks)
