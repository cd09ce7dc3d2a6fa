"""The pace of steps: how often one begins, and samples a second; and the first screen of a log that has them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from views.tables import dicts, on_trace, trace

from tracekit.model.report import Headline
from tracekit.model.trace import Trace
from tracekit.pipeline import first_screen, render, summary
from tracekit.render.base import RenderOptions
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

STEPS = on_trace(VIEWS["steps"])
MS = 1_000_000


def step(at: int, takes: int, number: int | None, samples: Any = None, **more: Any) -> dict[str, Any]:
    args = None if samples is None else json.dumps({"num_samples": samples})
    return {
        "ts_ns": at,
        "dur_ns": takes,
        "kind": "step",
        "step": number,
        "name": "step",
        "tid": 1,
        "args": args,
        **more,
    }


def phase(kind: str, at: int, takes: int) -> dict[str, Any]:
    return {"ts_ns": at, "dur_ns": takes, "kind": kind, "name": kind, "tid": 1}


def times(made: Trace) -> list[dict[str, Any]]:
    return dicts(STEPS(made, ViewOptions()).tables[0])


def headline(made: Trace) -> Headline:
    found = summary(made).headline
    assert found is not None
    return found


def screen(made: Trace) -> str:
    return first_screen(summary(made), RenderOptions(width=80))


def loop(pitch: int, takes: int, samples: Any, count: int = 8, **more: Any) -> list[dict[str, Any]]:
    return [step(n * pitch, takes, n, samples, **more) for n in range(count)]


def test_steps_with_time_between_them_have_a_pitch_and_samples_are_by_the_pitch() -> None:
    made = trace(*loop(4 * MS, 3 * MS, 32))
    (row,) = times(made)
    assert (row["p50"], row["pitch"], row["samples_per_s"]) == (3 * MS, 4 * MS, 8000)
    found = headline(made).step
    assert found is not None
    assert (found.pitch_ns, found.samples_per_s) == (4 * MS, 8000)
    assert "8 steps, 8,000 samples/s, one begins every 4 ms" in " ".join(screen(made).split())


def test_steps_that_follow_each_other_have_no_pitch_of_their_own() -> None:
    made = trace(*loop(3 * MS, 3 * MS, None))
    assert not {"pitch", "samples_per_s"} & set(times(made)[0])
    assert "begins every" not in screen(made)
    found = json.loads(render(summary(made), "json"))["headline"]["step"]
    assert not {"pitch_ns", "samples_per_s"} & set(found)


def test_an_evaluation_between_two_steps_is_in_no_median() -> None:
    rows = loop(4 * MS, 4 * MS, 32)
    for row in rows[5:]:
        row["ts_ns"] += 500 * MS
    (row,) = times(trace(*rows))
    assert (row.get("pitch"), row["samples_per_s"]) == (None, 8000)


def test_a_gap_in_the_numbers_is_no_pitch() -> None:
    rows = [step(0, 5, 0), step(10, 5, 1), step(1000, 5, 90), step(1010, 5, 91)]
    assert times(trace(*rows))[0]["pitch"] == 10
    assert "pitch" not in times(trace(rows[0], rows[2]))[0]


@pytest.mark.parametrize("samples", [-1, "many", None])
def test_samples_that_are_not_counted_are_not_known(samples: Any) -> None:
    rows = loop(4 * MS, 3 * MS, 32)
    for row in rows[:5]:
        row["args"] = None if samples is None else json.dumps({"num_samples": samples})
    assert "samples_per_s" not in times(trace(*rows))[0], "most steps have none"
    rows = loop(4 * MS, 3 * MS, 32)
    rows[6]["args"] = json.dumps({"num_samples": samples})
    assert times(trace(*rows))[0]["samples_per_s"] == 8000, "one step without says nothing of the others"


def test_ranks_are_not_added_up_since_several_may_read_the_same_samples() -> None:
    made = trace(*loop(4 * MS, 3 * MS, 32, rank=0, pid=1), *loop(4 * MS, 3 * MS, 64, rank=1, pid=2))
    assert [row["samples_per_s"] for row in times(made)] == [8000, 16000]
    assert "8,000 samples/s a rank" in " ".join(screen(made).split())


def phases_of(at: int) -> list[dict[str, Any]]:
    kinds = ("dataloader", "forward", "backward", "optimizer")
    return [phase(kind, at + place * MS, MS - 1000 * place) for place, kind in enumerate(kinds)]


def test_the_first_screen_says_what_takes_the_step_with_all_its_phases() -> None:
    rows = loop(4 * MS, 4 * MS, 32)
    made = trace(*rows, *(each for row in rows for each in phases_of(row["ts_ns"])))
    shown = screen(made)
    assert shown.startswith("Loading data takes 25 % of each step.") or "of each step." in shown.splitlines()[0]
    for name in ("Dataloader", "Forward", "Backward", "Optimization", "Others"):
        assert any(line.endswith(name) for line in shown.splitlines()), shown
    assert "This trace has no GPU activity." in shown
    assert len(shown.splitlines()) <= 30


def test_phases_outside_of_steps_are_not_said_to_be_in_each_step() -> None:
    rows = loop(4 * MS, 4 * MS, 32)
    evaluation = [phase("forward", 40 * MS + place * MS, MS) for place in range(20)]
    shown = screen(trace(*rows, *(each for row in rows for each in phases_of(row["ts_ns"])), *evaluation))
    assert shown.startswith("Forward takes 54 % of all phases, in steps and outside.")
