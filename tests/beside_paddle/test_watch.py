"""Watched Paddle loops (watched.py): what is counted, how it nests, and what it leaves alone."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from beside_paddle.running import HERE, made_once, run_under_paddle
from recorder.reading import Log, read_log

from tracekit import pipeline

LAYERS = ("first", "act", "last", "last.0")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the logs."""

    def record(folder: Path) -> None:
        run_under_paddle(HERE / "watched.py", folder, str(folder))

    return made_once(tmp_path_factory, "watched", record)


@pytest.fixture
def told(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "told.json").read_text(encoding="utf-8"))


def path_of(folder: Path, scene: str) -> Path:
    [path] = folder.glob(f"{scene}.pid*.jsonl")
    return path


def log_of(folder: Path, scene: str) -> Log:
    log = read_log(path_of(folder, scene))
    assert not log.notes
    return log


def nested(log: Log) -> Counter[tuple[str, str]]:
    return Counter((seen.parent.name if seen.parent else "", seen.name) for seen in log.ranges)


def test_a_loop_has_its_batches_phases_and_steps(folder: Path) -> None:
    """Two rounds of three batches, one by `loader()` and one by the loader itself."""
    log = log_of(folder, "plain")
    assert log.calls() == {
        "dataloader (start)": 2, "dataloader": 8, "forward": 6, "backward": 6, "optimizer": 6, "step": 6,
    }  # fmt: skip
    assert {number for number, _, _ in log.steps} == {-1, *range(6)}
    kinds = Counter(row["kind"] for row in pipeline.read(str(path_of(folder, "plain"))).events.to_pylist())
    assert kinds == {"dataloader": 10, "forward": 6, "backward": 6, "optimizer": 6, "step": 6}


def test_a_step_is_from_the_fetching_of_its_batch_to_that_of_the_next(folder: Path) -> None:
    log = log_of(folder, "plain")
    reads = sorted(seen.begin for seen in log.ranges if seen.name == "dataloader")
    steps = sorted(log.overlapping, key=lambda seen: seen.begin)[:3]
    for step, (begin, after) in zip(steps, itertools.pairwise(reads[:4]), strict=True):
        assert step.begin <= begin < step.end <= after


def test_verbosity_2_has_every_layer_and_changes_no_result(folder: Path, told: dict[str, Any]) -> None:
    found = nested(log_of(folder, "layers"))
    assert found == {
        ("", "dataloader (start)"): 1, ("", "dataloader"): 4, ("", "forward"): 3, ("", "backward"): 3,
        ("", "optimizer"): 3, ("forward", "first.forward"): 3, ("forward", "act.forward"): 3,
        ("forward", "last.forward"): 3, ("last.forward", "last.0.forward"): 3,
    }  # fmt: skip
    rows = pipeline.read(str(path_of(folder, "layers"))).events.select(["name", "args"]).to_pylist()
    assert "Linear" in next(row["args"] for row in rows if row["name"] == "first.forward")
    assert told["layers"] == {"same results": True}


LOADER = {"dataloader": 4, "dataloader (start)": 1}
"""Ranges of a loader that nobody named: the recorder finds it."""


def test_without_a_named_loader_steps_go_from_forward_to_the_last_optimizer(folder: Path) -> None:
    log = log_of(folder, "without_loader")
    # One forward is without gradients.
    assert log.calls() == {"forward": 4, "backward": 3, "optimizer": 3, "step": 3} | LOADER


def test_the_outermost_step_of_each_optimizer_is_one_range(folder: Path) -> None:
    log = log_of(folder, "two_optimizers")
    assert log.calls() == {"forward": 3, "backward": 3, "optimizer": 6, "step": 3} | LOADER
    ends = sorted(seen.end for seen in log.ranges if seen.name == "optimizer")
    assert [step.end >= end for step, end in zip(log.overlapping, ends[1::2], strict=True)] == [True] * 3


def test_an_error_ends_its_ranges(folder: Path, told: dict[str, Any]) -> None:
    log = log_of(folder, "errors")
    assert told["errors"] == {"raised": 2}
    assert not any(seen.unfinished for seen in log.ranges)
    assert log.calls()["forward"] == 2
    assert log.calls()["backward"] == 2
    assert nested(log)["forward", "act.forward"] == 1


def test_a_backward_pass_in_a_backward_pass_is_part_of_it(folder: Path) -> None:
    assert log_of(folder, "nested_backward").calls() == {"forward": 2, "backward": 2}


def test_nothing_is_put_into_objects_and_copies_are_not_watched(folder: Path, told: dict[str, Any]) -> None:
    assert told["copies"] == {"nothing put in": True}
    assert log_of(folder, "copies").calls() == {"backward": 3}, "`backward` is of any loss"


def test_remove_restores_paddle(folder: Path, told: dict[str, Any]) -> None:
    assert told["removed"] == {"replaced": 6, "restored": True, "active": False}
    assert not log_of(folder, "removed").calls()


def test_the_timer_counts_a_batch_once(told: dict[str, Any]) -> None:
    assert told["by_profiler"]["reads"] == 3
    assert " reader_cost: " in told["by_profiler"]["info"]


def test_compiled_models_run_as_they_do_unwatched(folder: Path, told: dict[str, Any]) -> None:
    assert told["compiled"] == {"same": True}
    assert told["traced_during_the_watch"] == {"close": True}
    assert log_of(folder, "compiled").calls()["forward"] == 1


def test_threads_keep_their_ranges_apart(folder: Path) -> None:
    log = log_of(folder, "threads")
    assert log.calls() == {"forward": 15, "backward": 15, **{f"{name}.forward": 15 for name in LAYERS}}
    assert Counter(Counter(seen.thread for seen in log.ranges).values()) == {30: 3}


def test_wrong_arguments_are_refused_and_nothing_is_watched(told: dict[str, Any]) -> None:
    assert told["wrong_arguments"]["said"] == [
        "model is a paddle.nn.Layer, not str", "verbosity is 1 or 2, not 3",
        "optimizer is a paddle.optimizer.Optimizer, not int", "dataloader gives batches to a loop, int does not",
        "optimizer is a paddle.optimizer.Optimizer, not str",
    ]  # fmt: skip
    assert told["wrong_arguments"]["left"] is False
