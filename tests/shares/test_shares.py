"""A run whose ranks are read apart has the figures of all its events together."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from support import corpus, sample
from typer.testing import CliRunner

from benchmarks.ranks import make
from benchmarks.truth.cluster import simulate, write_kineto
from tracekit import pipeline, shares
from tracekit.cli import app
from tracekit.errors import AllInputsError, UsageError
from tracekit.inputs import USUAL, Input, InputOptions
from tracekit.inputs.options import parse_align
from tracekit.report import Section
from tracekit.views.base import ViewOptions
from tracekit.workers.local import Answer, Task

PLAIN = ViewOptions(op_detail=False)
UNIONS = ("union", "share")
NOT_SHOWN = {("distributed", "bandwidth"), ("breakdown", "steps")}


class Here:
    """Does the tasks in this process, in another order than they come."""

    def __init__(self, jobs: int, work: Callable[[Task], Answer], noun: str) -> None:
        self._work = work

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, tasks: Iterator[Task], lost: Callable[[Task, str], Answer]) -> Iterator[Answer]:
        yield from reversed([self._work(task) for task in tasks])


@pytest.fixture(autouse=True)
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "processes" not in request.node.name:
        monkeypatch.setattr(shares, "LocalWorkers", Here)


def together(files: Sequence[Path], options: InputOptions) -> dict[str, Section]:
    """The same views of all events in memory."""
    columns = pipeline.columns_of(shares.SHARED)
    how = replace(options, columns=columns, args_of=pipeline.args_of(shares.SHARED), partial=True)
    trace = pipeline.read(list(files), how)
    return {name: pipeline.view(trace, name, PLAIN) for name in shares.SHARED}


def same_as_together(files: Sequence[Path], options: InputOptions = USUAL) -> shares.Summary:
    expected = together(files, options)
    made = shares.summary(list(files), options, views=shares.SHARED, shown=PLAIN)
    for found in made.report.sections:
        want = expected[found.view]
        expected_tables = [t.name for t in want.tables if (found.view, t.name) not in NOT_SHOWN]
        assert [t.name for t in found.tables] == expected_tables, found.view
        for table in found.tables:
            other = next(t for t in want.tables if t.name == table.name)
            columns = [c for c in other.columns if found.view != "overview" or c.name not in UNIONS]
            assert [c.name for c in table.columns] == [c.name for c in columns]
            for mine, theirs in zip(table.columns, columns, strict=True):
                assert list(mine.values) == list(theirs.values), (found.view, table.name, mine.name)
                assert mine.unit == theirs.unit
        gone = ("union:", "bandwidth of collectives", "a step on a device", "no launch of the device work")
        kept = [note for note in want.notes if not note.startswith(gone)]
        assert [note for note in found.notes if note in kept] == kept, found.view
    return made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("wall", [True, False])
def test_shares_of_a_simulated_cluster_are_all_its_events(tmp_path: Path, seed: int, wall: bool) -> None:
    """Clocks are seconds apart and drift, ranks are lost and records are missing."""
    cluster = simulate(seed, hosts=2 + seed % 3, ranks_per_host=1 + seed % 2, collectives=60, groups=1 + seed % 2)
    same_as_together(write_kineto(cluster, tmp_path, wall_clock=wall))


@pytest.mark.parametrize("align", ["auto", "none", "wall-clock", "rank00001.json.gz=+12ms"])
def test_shares_of_a_training_are_all_its_events(tmp_path: Path, align: str) -> None:
    files = make(tmp_path, 3, 3_000)
    made = same_as_together(files, InputOptions(align=parse_align([align])))
    assert (made.read, made.ranks, made.failures) == (3, 3, ())


REAL = {
    "gloo": ("generated/torch/ddp_rank0.pt.trace.json", "generated/torch/ddp_rank1.pt.trace.json"),
    "hta": ("kineto/hta_ns_resolution_rank0.json.gz", "kineto/hta_cpu_only_rank34.json.gz"),
}


@pytest.mark.parametrize("run", REAL)
def test_shares_of_real_files_are_all_their_events(run: str) -> None:
    same_as_together([corpus(name) for name in REAL[run]])


def test_shares_of_samples_without_ranks_are_all_their_events(tmp_path: Path) -> None:
    """Inputs that share no clock, several formats, no collectives."""
    files = [
        sample("kineto/gpu.pt.trace.json"),
        sample("kineto/cpu.pt.trace.json"),
        sample("recorder-log/killed.jsonl"),
    ]
    same_as_together(files, InputOptions(align=parse_align(["none"])))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    make(folder, 5, 1_500)
    return folder


def copy_of(run: Path, folder: Path) -> list[Path]:
    return [Path(shutil.copy(path, folder)) for path in sorted(run.iterdir())]


BREAKS: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: path.write_bytes(b""),
    "another file": lambda path: path.write_bytes(b"\0\1\2not a profile"),
    "no rows": lambda path: path.write_bytes(gzip.compress(b'{"traceEvents": "none"}')),
    "a folder": lambda path: (path.unlink(), path.mkdir())[1],
    "gone": Path.unlink,
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_rank_costs_its_own_figures_alone(run: Path, tmp_path: Path, how: str) -> None:
    """The figures are those of the other ranks, and every part of the output says how many there are."""
    files = copy_of(run, tmp_path)
    rest = shares.summary([path for path in files if "00002" not in path.name], USUAL)
    broken = next(path for path in files if "00002" in path.name)
    BREAKS[how](broken)
    made = shares.summary([], USUAL, given=[Input(str(path)) for path in files])
    assert [Path(failure.name).name for failure in made.failures] == [broken.name]
    assert (made.read, made.ranks) == (4, 5)
    text = "4 of 5 ranks: rank 2 is missing; every figure is of the others"
    assert made.report.headline is not None
    assert made.report.headline.reservations[0] == text
    assert sum(broken.name in each for each in made.report.headline.reservations) == 1
    assert ("ranks", "4 of 5 ranks") in made.report.facts
    assert made.report.notes[0] == text
    for found, expected in zip(made.report.sections, rest.report.sections, strict=True):
        assert found.tables == expected.tables, found.view
        assert not found.tables or found.notes[0] == text


def test_a_rank_whose_file_was_cut_counts_as_far_as_it_goes(run: Path, tmp_path: Path) -> None:
    files = copy_of(run, tmp_path)
    files[2].write_bytes(files[2].read_bytes()[:9_000])
    made = same_as_together(files)
    assert (made.read, made.failures) == (5, ())


def test_a_rank_that_no_file_has_is_named(run: Path) -> None:
    files = [path for path in sorted(run.iterdir()) if "00001" not in path.name and "00004" not in path.name]
    made = shares.summary(files, USUAL)
    assert (made.read, made.ranks, made.failures) == (3, 5, ())
    assert made.report.notes[0] == "3 of 5 ranks: ranks 1, 4 are missing; every figure is of the others"


def test_a_rank_in_two_files_is_refused_by_name(run: Path, tmp_path: Path) -> None:
    files = copy_of(run, tmp_path)
    again = tmp_path / "again.json.gz"
    shutil.copy(files[3], again)
    made = shares.summary([*files, again], USUAL)
    assert [str(failure.error) for failure in made.failures] == [
        f"{again}: rank 3 is also in {files[3]}; ranks that are read apart need a file each"
    ]
    assert made.read == 5


def test_one_file_by_two_names_is_read_once(run: Path, tmp_path: Path) -> None:
    files = copy_of(run, tmp_path)
    (tmp_path / "link.json.gz").hardlink_to(files[0])
    made = shares.summary([*files, tmp_path / "link.json.gz"], USUAL)
    assert made.failures == ()
    assert any("same file" in note for note in made.report.notes)


def test_no_readable_input_is_an_error(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("nothing")
    with pytest.raises(AllInputsError) as caught:
        shares.summary([tmp_path / "a", tmp_path / "b"], USUAL)
    assert len(caught.value.failures) == 2


def test_views_that_need_all_events_say_so(run: Path) -> None:
    made = shares.summary([run], USUAL, views=["idle", "kernel"])
    assert made.report.sections[0].tables == ()
    assert made.report.sections[0].notes[0].startswith("needs all events at once")
    assert made.report.sections[1].tables


@pytest.mark.parametrize("shown", [ViewOptions(compat="paddle"), ViewOptions(thread_sep=True)])
def test_options_that_need_all_events_are_refused(run: Path, shown: ViewOptions) -> None:
    with pytest.raises(UsageError, match="read apart"):
        shares.summary([run], USUAL, shown=shown)


def test_too_many_durations_are_rounded_and_said_so(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.shares._tallies.MOST_VALUES", 40)
    exact = together([run], USUAL)["kernel"].tables[0]
    made = shares.summary([run], USUAL, views=["kernel"])
    found = made.report.sections[0].tables[0]
    for column, other in zip(found.columns, exact.columns, strict=True):
        if column.name not in ("p50", "p95", "p99"):
            assert list(column.values) == list(other.values), column.name
            continue
        for mine, theirs in zip(column.values, other.values, strict=True):
            assert isinstance(mine, int)
            assert isinstance(theirs, int)
            assert theirs - theirs / 1_000 <= mine <= theirs
    assert any("0.1 % too low" in note for note in made.report.notes)


def test_the_command_reads_many_ranks_in_processes(run: Path, tmp_path: Path) -> None:
    """Workers are processes; one that dies costs its file."""
    files = copy_of(run, tmp_path)
    files[1].write_bytes(b"")
    for words in (["--jobs", "2"], ["--jobs", "2", "--view", "ranks", "--format", "json"]):
        done = CliRunner().invoke(app, ["summary", str(tmp_path), *words])
        assert done.exit_code == 1, done.output
        assert "4 of 5 ranks" in done.stdout
        assert done.stderr.count("rank00001.json.gz") == 1
        assert "the file is empty" in done.stderr


def test_a_few_inputs_are_read_together_and_many_apart(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = CliRunner().invoke(app, ["summary", str(run)])
    assert "read rank by rank" not in few.output
    monkeypatch.setattr(shares, "MOST_TOGETHER", 4)
    many = CliRunner().invoke(app, ["summary", str(run), "--view", "kernel"])
    assert many.exit_code == 0, many.output
    assert "5 inputs read rank by rank" in many.output
    all_events = CliRunner().invoke(app, ["summary", str(run), "--view", "idle"])
    assert "read rank by rank" not in all_events.output
