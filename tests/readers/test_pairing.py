"""Begins and ends of all formats, against a stack that is searched row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.engine import pairing
from tracekit.readers.engine.pairing import NESTED, SLICES, TRACE_EVENT, OpenRanges, PairingRule, match

ROW = st.tuples(st.integers(0, 2), st.booleans(), st.integers(-1, 2))


def by_stack(rows: list[tuple[int, bool, int]], rule: PairingRule) -> list[int]:
    """The partners of rows, each lane's open begins searched from the innermost outwards."""
    partner = [-1] * len(rows)
    stacks: dict[int, list[int]] = {}
    for row, (lane, begins, name) in enumerate(rows):
        stack = stacks.setdefault(lane, [])
        if begins:
            stack.append(row)
            continue
        for at in range(len(stack) - 1, -1, -1):
            own = rows[stack[at]][2]
            if name < 0 or own == name or (rule.any_end and own < 0):
                begun, inner = stack[at], stack[at + 1 :]
                partner[begun], partner[row] = row, begun
                del stack[at:]
                if rule.ends_inner:
                    for each in inner:
                        partner[each] = row
                else:
                    stack += inner
                break
    return partner


@pytest.mark.parametrize("rule", [TRACE_EVENT, SLICES, NESTED])
@given(rows=st.lists(ROW, max_size=40))
def test_each_rule_finds_what_a_stack_finds(rule: PairingRule, rows: list[tuple[int, bool, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    lane, begins, name = (np.array([row[at] for row in rows], kind) for at, kind in enumerate((int, bool, int)))
    assert match(begins, lane, rule, name).tolist() == by_stack(rows, rule)
    alone = [(0, *rest) for _, *rest in rows]
    assert match(begins, None, rule, name).tolist() == by_stack(alone, rule)


def test_begins_without_end_of_a_lane_whose_names_disagree_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MOST_OPEN", 2)
    begins = np.array([True, True, True, False, False, False])
    name = np.array([0, 1, 2, 1, -1, -1])
    none = np.full(6, -1)
    assert match(begins, None, SLICES, name, none).tolist() == [-1, 3, 3, 1, -1, -1]


def test_an_end_closes_the_last_open_range_of_its_key() -> None:
    found = OpenRanges[str, int]()
    assert [found.begin("a", 1), found.begin("b", 2), found.begin("a", 3)] == [None] * 3
    assert [found.end("a"), found.end("c"), found.end("a"), found.end("a")] == [3, None, 1, None]
    assert list(found.left()) == [("b", 2)]


def test_of_too_many_open_ranges_the_oldest_is_given_up() -> None:
    found = OpenRanges[int, str](most=2)
    assert [found.begin(number, f"range {number}") for number in range(4)] == [None, None, "range 0", "range 1"]
    assert found.end(0) is None
    assert list(found.left()) == [(2, "range 2"), (3, "range 3")]
