"""A batch names the programs that became slower, and no healthy one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from batch_trees import Here, put
from compare_runs import Launch, steps, write
from support import run_command

from tracekit import batch
from tracekit.batch.checks import checks_of
from tracekit.batch.slower import slowdown


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LocalEngine", Here)


def healthy(count: int, seed: int, spread: float = 0.01) -> list[float]:
    rng = random.Random(seed)
    return [1e6 * rng.gauss(1, spread) for _ in range(count)]


@pytest.mark.parametrize("count", [2, 3, 5, 6, 8, 20, 60])
@pytest.mark.parametrize("spread", [0.0, 0.005, 0.01])
def test_a_healthy_program_is_never_slower(count: int, spread: float) -> None:
    found = [slowdown(healthy(count, seed, spread), {count - 1}) for seed in range(15)]
    assert found == [None] * 15


@pytest.mark.parametrize(
    ("values", "at", "since"),
    [
        ([10.0, 11.0], 1, False),  # 10 % above the only run before
        ([10, 10.2, 10.1, 12], 3, False),
        ([10, 10.1, 10.2, 10.1, 10, 10.1, 12], 6, False),
        ([10, 10.1, 10.2, 10.1, 10, 10.1, 11, 11.1, 11, 11.2], 6, True),
        # The level is the new one, and the last run is slow beside it.
        ([10, 10.1, 10.2, 10.1, 10, 10.1, 5, 5.1, 5, 5.1, 5, 5.1, 6], 12, False),
    ],
)
def test_a_program_that_became_slower_is_found_with_its_run(values: list[float], at: int, since: bool) -> None:
    found = slowdown([1e6 * value for value in values], {len(values) - 1})
    assert found is not None
    assert (found.at, found.since) == (at, since)


@pytest.mark.parametrize(
    "values",
    [
        [11.0, 10.0],  # it became faster
        [10, 10.6],  # two runs show no change of 6 %
        [10, 12, 10, 12.5],  # as slow as a run before, nearly
        [14, 14.1, 10, 10.1, 10, 10.1, 10, 10.2, 10],  # the first runs were slow, once
        [10, 10.1, 10, 10.1, 10] + [11, 11.1, 11, 11.1] * 4,  # the level rose long ago
        [0, 0, 0, 10.0],  # a share of nothing is none
    ],
)
def test_values_that_show_no_slowdown_have_none(values: list[float]) -> None:
    assert slowdown([1e6 * value for value in values], {len(values) - 1}) is None


def test_a_run_that_did_more_is_not_slow_for_it() -> None:
    times = [10e6, 10e6, 10.1e6, 20e6]
    assert slowdown(times, {3}) is not None
    assert slowdown(times, {3}, [100, 100, 100, 200]) is None
    assert slowdown(times, {3}, [100, 100, 101, 99]) is not None
    assert slowdown(times, {3}, [100, 100, None, None]) is None


def test_an_older_run_is_named_only_where_it_is_new() -> None:
    values = [1e6 * value for value in (10, 10.1, 10, 15, 10.1, 10, 10.2)]
    assert slowdown(values, {6}) is None
    found = slowdown(values, {2, 3, 6})
    assert found is not None
    assert found.at == 3


LAYERS: tuple[Launch, ...] = (("aten::mm", "gemm", 4_000_000_000, 8), ("aten::add", "add", 1_000_000_000, 8))


def runs(tree: Path, program: str, factors: list[float], rename: str) -> None:
    """Write runs of a program, night after night; each is so many times as slow."""
    layers = tuple((f"{rename}{op}", f"{rename}{kernel}", ns, calls) for op, kernel, ns, calls in LAYERS)
    for number, factor in enumerate(factors):
        made = tree.parent / "made.parquet"
        write(made, steps(4, layers=layers, factor=factor, seed=number))
        put(tree / program / f"night-{number:02}" / "run.parquet", made.read_bytes(), number)
        made.unlink()


def test_the_terminal_names_the_slower_programs_the_worst_first_and_few_of_them(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    runs(tree, "steady", [1.0, 1.0, 1.0], "a")
    runs(tree, "faster", [1.0, 1.0, 0.7], "b")
    for name, factor in (("little", 1.2), ("double", 2.0), ("half", 1.5), ("least", 1.15)):
        runs(tree, name, [1.0, 1.0, factor], name)
    said = run_command("batch", tree, "-o", tmp_path / "out").stderr
    lines = [line for line in said.splitlines() if line.startswith("slower: ")]
    assert [line.split(" ")[1].split("/")[0] for line in lines[:3]] == ["double", "half", "little"]
    assert "step p50" in lines[0]
    assert "in double/night-02; 2 other runs" in lines[0]
    assert "(+100" in lines[0] or "(+99" in lines[0]
    assert lines[3:] == ["slower: 1 more program; the page has their figures"]
    assert "steady" not in said
    assert said.count("\n") <= 30
    # They stay named as long as nothing newer was read, and are no failure.
    again = batch.run([tree], tmp_path / "out", jobs=1)
    assert again.is_whole
    assert [text.partition(";")[0].rpartition(" ")[2] for _, text in again.slower] == [
        f"{name}/night-02" for name in ("double", "half", "little", "least")
    ]
    notes = checks_of(again, "tree").notes
    assert sum(note.startswith("slower: ") for note in notes) == 4
    assert run_command("batch", "-q", tree, "-o", tmp_path / "out").stderr == ""
