"""The view hang on simulated programs: the right cause, and never a wrong accusation."""

from __future__ import annotations

from collections import Counter

from benchmarks.truth.hangs import SCENARIOS, case_of, judged

CASES = 6 * len(SCENARIOS)
"""`python -m benchmarks.truth.hangs` has 500 cases; these are the first of them."""


def test_the_cause_is_right_and_nobody_is_accused_wrongly() -> None:
    wrong = [(case.seed, case.scenario, said) for case, _, said in judged(range(CASES)) if said]
    assert [each for each in wrong if each[2] == "accused"] == []
    assert len(wrong) <= 0.01 * CASES, wrong


def test_each_scenario_is_there_and_faults_leave_calls_open() -> None:
    found = Counter(case_of(seed).scenario for seed in range(2 * len(SCENARIOS)))
    assert set(found) == set(SCENARIOS)
    hung = case_of(list(SCENARIOS).index("a rank does not come"))
    states = [entry["state"] for dump in hung.dumps.values() for entry in dump["entries"]]
    assert {"completed", "scheduled"} <= set(states)
