"""Arrows of the input on the timeline: which events they lead from and to."""

from __future__ import annotations

import pytest
from small_limits import Limit, small
from timelines import drawn
from views.tables import Row, trace
from views.test_timeline import figure, view


def point(phase: str, ts: int, tid: int | None, number: int = 1, more: str = "", **row: object) -> Row:
    args = f'{{"ph":"{phase}","cat":"{row.pop("cat", "c")}"{more}}}'
    return {"ts_ns": ts, "kind": "flow", "name": "arrow", "tid": tid, "correlation": number, "args": args, **row}


def span(name: str, start: int, length: int, tid: int) -> Row:
    return {"ts_ns": start, "dur_ns": length, "kind": "operator", "name": name, "tid": tid}


def arrows(*rows: Row) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    section = view(trace(*sorted(rows, key=lambda row: (row["ts_ns"], -row.get("dur_ns", 0)))))
    found = figure(section)
    names = [each.name for each in drawn(found)]
    pairs = zip(*(places.tolist() for places in found.flows), strict=True)
    return [(names[a], names[b]) for a, b in pairs], tuple(note for note in section.notes if "not drawn" in note)


EVENTS = (span("outer", 0, 100, 1), span("inner", 10, 20, 1), span("later", 50, 10, 2), span("last", 80, 10, 2))


def test_points_are_of_the_innermost_event_at_their_time() -> None:
    made = arrows(*EVENTS, point("s", 10, 1), point("f", 55, 2, more=',"bp":"e"'))
    assert made == ([("inner", "later")], ())
    assert arrows(*EVENTS, point("s", 40, 1), point("f", 80, 2, more=',"bp":"e"')) == ([("outer", "last")], ())


def test_an_end_without_bp_is_of_the_next_event() -> None:
    assert arrows(*EVENTS, point("s", 10, 1), point("f", 40, 2)) == ([("inner", "later")], ())
    assert arrows(*EVENTS, point("s", 10, 1), point("f", 51, 2)) == ([("inner", "last")], ())


def test_each_end_leads_back_to_the_point_before_it() -> None:
    chain = (point("s", 10, 1), point("t", 55, 2), point("f", 85, 2, more=',"bp":"e"'))
    assert arrows(*EVENTS, *chain) == ([("inner", "later"), ("later", "last")], ())
    twice = (point("s", 10, 1), *(point("f", at, 2, more=',"bp":"e"') for at in (55, 85)))
    assert arrows(*EVENTS, *twice) == ([("inner", "later"), ("inner", "last")], ())


def test_ids_of_other_names_cats_and_inputs_are_other_arrows() -> None:
    begin, end = point("s", 10, 1), {**point("f", 55, 2), "args": '{"ph":"f","cat":"c","bp":"e"}'}
    lost = ("not drawn: 2 flow events of the input without a partner, or without an event at its time",)
    assert arrows(*EVENTS, begin, end) == ([("inner", "later")], ())
    for other in ({"name": "b"}, {"args": '{"ph":"f","cat":"d","bp":"e"}'}, {"correlation": 2}):
        assert arrows(*EVENTS, begin, {**end, **other}) == ([], lost)


def test_an_id_that_is_used_again_begins_a_new_arrow() -> None:
    bound = ',"bp":"e"'
    rows = (point("s", 10, 1), point("f", 55, 2, more=bound), point("s", 60, 1), point("f", 85, 2, more=bound))
    assert arrows(*EVENTS, *rows) == ([("outer", "last"), ("inner", "later")], ())


def test_points_without_an_event_or_another_end_are_counted() -> None:
    made = arrows(*EVENTS, point("s", 45, 2), point("f", 55, 2, more=',"bp":"e"'), point("s", 20, 1, number=7))
    assert made == ([], ("not drawn: 3 flow events of the input without a partner, or without an event at its time",))


def test_an_arrow_that_repeats_a_launch_is_drawn_once() -> None:
    call = {"ts_ns": 0, "dur_ns": 5, "kind": "runtime", "name": "call", "tid": 1, "correlation": 3}
    work = {"ts_ns": 20, "dur_ns": 5, "name": "work", "device": 0, "stream": 7, "correlation": 3}
    ends = (point("s", 0, 1), point("f", 20, None, more=',"bp":"e"', device=0, stream=7))
    assert arrows(call, work, *ends) == ([], ())
    assert arrows(call, {**work, "correlation": 4}, *ends) == ([("call", "work")], ())


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_args_of_points_may_come_in_parts(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    points = (
        point("s", 10, 1), point("x", 12, 1), point("f", 55, 2, more=',"bp":"e"'), {**point("s", 20, 1), "args": None},
        point("s", 30, 1, cat="d"), point("t", 55, 2, cat="d"), point("f", 80, 2, cat="d", more=',"bp":"e"'),
    )  # fmt: skip
    whole = arrows(*EVENTS, *points)
    assert whole[0] == [("outer", "later"), ("inner", "later"), ("later", "last")]
    small(monkeypatch, Limit.ARROW_ARGS_ROWS, rows)
    assert arrows(*EVENTS, *points) == whole
