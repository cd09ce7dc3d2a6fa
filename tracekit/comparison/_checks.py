"""Comparison -> CheckList: its rules, and the runs that could not be read, as CI systems show them."""

from __future__ import annotations

from tracekit.comparison._report import Comparison, report_of
from tracekit.comparison._rules import MET, NOT_JUDGED, VIOLATED, CheckedRule
from tracekit.errors import COMMAND_LINE
from tracekit.model.checks import Check, CheckList, CheckState

__all__ = ["checks_of"]


def checks_of(comparison: Comparison, *, strict: bool = False) -> CheckList:
    """Return a check for each rule, each input that failed and each that lost too many records.

    Without a rule, the verdict is a check that passes: a report of no tests at all is an error for some readers.
    strict: a rule that the data cannot decide has failed.
    """
    # A rule on what is left of a run decides nothing.
    incomplete = bool(comparison.incomplete)
    checks = [_of_rule(checked, incomplete=incomplete, strict=strict) for checked in comparison.checked]
    verdict = dict(report_of(comparison, top=1).facts).get("verdict", "")
    if not comparison.checked and comparison.sides is not None:
        state = CheckState.ERROR if incomplete else CheckState.PASSED
        checks.append(Check("verdict", state, comparison.verdict, verdict))
    elif not comparison.checked:
        checks.append(Check("history", CheckState.PASSED, "read", "a history alone has no verdict"))
    checks += [
        Check(f"records of input {number}", CheckState.ERROR, "incomplete", text)
        for number, text in enumerate(comparison.incomplete, 1)
    ]
    checks += [
        Check(f"events of {name}", CheckState.ERROR, "empty", f"{name} has neither events nor totals")
        for name in comparison.empty
    ]
    checks += [
        Check(each.name, CheckState.ERROR, "not read", each.error.worded(COMMAND_LINE), each.name)
        for each in comparison.failures
    ]
    title = " against ".join(name for name in comparison.names if name)
    return CheckList("compare", title, tuple(checks), verdict, comparison.left_out)


def _of_rule(checked: CheckedRule, *, incomplete: bool, strict: bool) -> Check:
    name = checked.rule.text
    if incomplete:
        return Check(name, CheckState.UNDECIDED, "not decided", "an input lost too many of its records")
    if checked.state == MET:
        return Check(name, CheckState.PASSED, checked.state, checked.text)
    if checked.state == NOT_JUDGED:
        return Check(name, CheckState.ERROR, checked.state, checked.text)
    failed = checked.state == VIOLATED or strict
    return Check(name, CheckState.FAILED if failed else CheckState.UNDECIDED, checked.state, checked.text)
