"""A run whose ranks are read apart has the figures of all its events together."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pytest
from shaped_traces import BF, ShapedTrace
from small_limits import Limit, small
from support import corpus, sample
from typer.testing import CliRunner

import tracekit
from benchmarks.ranks import make
from benchmarks.truth.cluster import simulate, write_kineto
from tracekit import pipeline, rank_summaries
from tracekit.cli import app
from tracekit.errors import AllInputsError, UsageError
from tracekit.index import topology
from tracekit.inputs import USUAL, Input, InputOptions
from tracekit.inputs.options import parse_align
from tracekit.model.report import Section
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
        monkeypatch.setattr(rank_summaries, "LocalWorkers", Here)


def together(files: Sequence[Path], options: InputOptions) -> dict[str, Section]:
    """The same views of all events in memory."""
    columns = pipeline.columns_of(rank_summaries.SHARED)
    how = replace(options, columns=columns, args_of=pipeline.args_of(rank_summaries.SHARED), partial=True)
    trace = pipeline.read(list(files), how)
    return {name: pipeline.view(trace, name, PLAIN) for name in rank_summaries.SHARED}


def same_as_together(files: Sequence[Path], options: InputOptions = USUAL) -> rank_summaries.Summary:
    made = rank_summaries.summary(list(files), options, views=rank_summaries.SHARED, shown=PLAIN)
    compare(made, together(files, options))
    return made


def compare(made: rank_summaries.Summary, expected: Mapping[str, Section], by: Sequence[str] = ("",)) -> None:
    """The tables and notes are the same, but for the parts that need all events at once."""
    not_shown = {(view, name + end) for view, name in NOT_SHOWN for end in by}
    for found in made.report.sections:
        want = expected[found.view]
        expected_tables = [t.name for t in want.tables if (found.view, t.name) not in not_shown]
        assert [t.name for t in found.tables] == expected_tables, found.view
        for table in found.tables:
            other = next(t for t in want.tables if t.name == table.name)
            columns = [c for c in other.columns if found.view != "overview" or c.name not in UNIONS]
            assert [c.name for c in table.columns] == [c.name for c in columns]
            for mine, theirs in zip(table.columns, columns, strict=True):
                assert list(mine.values) == list(theirs.values), (found.view, table.name, mine.name)
                assert mine.unit == theirs.unit
        gone = ("union:", "bandwidth of collectives", "link:", "a step on a device", "no launch of the device work")
        parts = "Breakdown of device time by step:"
        kept = [n for n in want.notes if not any(f": {text}" in f": {n}" for text in gone) and not n.startswith(parts)]
        assert [note for note in found.notes if note in kept] == kept, found.view


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


def test_ranks_that_come_late_together_are_named_where_ranks_are_read_apart(tmp_path: Path) -> None:
    files = []
    for rank in range(6):
        events = []
        for i in range(20):
            start = 1_000 * i + 13 * ((rank * 7 + i) % 5) / 10 + (300 if rank in (1, 4, 5) else 0)
            args = {"Collective name": "allreduce", "Process Group Name": "0", "stream": 20, "device": 0}
            event = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"}
            events.append({**event, "pid": 0, "tid": 20, "ts": start, "dur": 1_000 * i + 400 - start, "args": args})
        facts = {"distributedInfo": {"rank": rank, "world_size": 6}, "schemaVersion": 1}
        files.append(tmp_path / f"rank{rank}.pt.trace.json")
        files[-1].write_text(json.dumps({**facts, "traceEvents": events}))
    made = same_as_together(files)
    (section,) = (each for each in made.report.sections if each.view == "ranks")
    (groups,) = (table for table in section.tables if table.name == "late_groups")
    assert list(groups.column("late_group").values) == ["ranks 1, 4, 5"]
    first = rank_summaries.summary(list(files), USUAL).report.headline
    assert first is not None
    assert first.findings_note.startswith("straggler: ranks 1, 4, 5 come late together to 20 of 20 collectives")


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


def test_shares_with_shapes_have_the_work_of_all_their_events(tmp_path: Path) -> None:
    """FLOPs, floors and what limits: of operators and kernels by name, added up."""
    files = []
    for rank, us in enumerate((300.0, 170.7, 410.1)):
        trace = ShapedTrace(back_to_back=True)
        trace.begin("ProfilerStep#1", cat="user_annotation")
        for size in (4096, 2048 + 64 * rank):
            trace.begin("aten::linear", ([size, size], BF), ([size, size], BF))
            trace.op(
                "aten::mm", ([size, size], BF), ([size, size], BF), us=us, kernel="sm90_xmma_gemm_bf16bf16_bf16f32"
            )
            trace.end()
        trace.op("aten::add", ([1 << 20], BF), ([1 << 20], BF), "1", us=1.0 if rank else 90.0, kernel="add")
        trace.op("my::op", us=33.3)
        trace.end()
        files.append(trace.write(tmp_path).rename(tmp_path / f"rank{rank}.pt.trace.json"))
        facts = (
            f'{{"distributedInfo": {{"rank": {rank}, "world_size": 3}}, "baseTimeNanoseconds": 1711964646000000000, '
        )
        text = files[-1].read_text().replace("{", facts, 1)
        files[-1].write_text(text)
    made = same_as_together(files)
    operators = next(each for each in made.report.sections if each.view == "operator").tables[0]
    assert {"flops", "of_best", "floor", "known"} <= {column.name for column in operators.columns}


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
    rest = rank_summaries.summary([path for path in files if "00002" not in path.name], USUAL)
    broken = next(path for path in files if "00002" in path.name)
    BREAKS[how](broken)
    made = rank_summaries.summary([], USUAL, given=[Input(str(path)) for path in files])
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
    made = rank_summaries.summary(files, USUAL)
    assert (made.read, made.ranks, made.failures) == (3, 5, ())
    assert made.report.notes[0] == "3 of 5 ranks: ranks 1, 4 are missing; every figure is of the others"


def test_a_rank_in_two_files_is_refused_by_name(run: Path, tmp_path: Path) -> None:
    files = copy_of(run, tmp_path)
    again = tmp_path / "again.json.gz"
    shutil.copy(files[3], again)
    made = rank_summaries.summary([*files, again], USUAL)
    assert [str(failure.error) for failure in made.failures] == [
        f"{again}: rank 3 is also in {files[3]}; ranks that are read apart need a file each"
    ]
    assert made.read == 5


def test_one_file_by_two_names_is_read_once(run: Path, tmp_path: Path) -> None:
    files = copy_of(run, tmp_path)
    (tmp_path / "link.json.gz").hardlink_to(files[0])
    made = rank_summaries.summary([*files, tmp_path / "link.json.gz"], USUAL)
    assert made.failures == ()
    assert any("same file" in note for note in made.report.notes)


def test_no_readable_input_is_an_error(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("nothing")
    with pytest.raises(AllInputsError) as caught:
        rank_summaries.summary([tmp_path / "a", tmp_path / "b"], USUAL)
    assert len(caught.value.failures) == 2


def test_views_that_need_all_events_say_so(run: Path) -> None:
    made = rank_summaries.summary([run], USUAL, views=["idle", "kernel"])
    assert made.report.sections[0].tables == ()
    assert made.report.sections[0].notes[0].startswith("needs all events at once")
    assert made.report.sections[1].tables


BY = {
    "rank": ViewOptions(by="rank"),
    "each rank": ViewOptions(by="rank", each=True, op_detail=False),
    "host": ViewOptions(by="host"),
    "tp": ViewOptions(by="tp", topology=topology.parse("tp=2,dp=3")),
    "each dp": ViewOptions(by="dp", topology=topology.parse("tp=2,dp=3"), each=True, top=3, op_detail=False),
}


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("six")
    make(folder, 6, 1_000)
    return sorted(folder.iterdir())


def by_group_together(files: Sequence[Path], shown: ViewOptions) -> dict[str, Section]:
    how = replace(pipeline.for_summary(USUAL, "", rank_summaries.SHARED, by_ranks=True), partial=True)
    made = pipeline.summary(pipeline.read(list(files), how), views=rank_summaries.SHARED, options=shown)
    return {each.view: each for each in made.sections}


@pytest.mark.parametrize("by", BY)
def test_tables_by_group_are_those_of_all_events(six: list[Path], by: str) -> None:
    shown = BY[by]
    made = rank_summaries.summary(six, USUAL, views=rank_summaries.SHARED, shown=shown)
    noun = "" if shown.each else f"_by_{shown.by}{'_group' if shown.by == 'tp' else ''}"
    compare(made, by_group_together(six, shown), [noun and f"{noun}_{what}" for what in ("time", "rate")])
    assert any(table.columns for section in made.report.sections for table in section.tables)


def test_groups_of_ranks_read_apart_need_files_of_their_own(six: list[Path], tmp_path: Path) -> None:
    """Both ranks of a file are of one tensor group, and not of one data group."""
    trace = tracekit.read(six[0])
    at = trace.events.schema.get_field_index("rank")
    ranks = pa.array(np.arange(trace.events.num_rows) % 2, pa.int32())
    events = trace.events.set_column(at, trace.events.schema.field(at), ranks)
    both = tmp_path / "both.jsonl"
    pipeline.write(replace(trace, events=events), both)
    files = [both, *six[2:]]
    made = rank_summaries.summary(files, USUAL, views=["kernel"], shown=BY["tp"])
    assert made.report.sections[0].tables == by_group_together(files, BY["tp"])["kernel"].tables
    with pytest.raises(UsageError, match="ranks of rank 0 and rank 1 are in one file"):
        rank_summaries.summary(files, USUAL, views=["kernel"], shown=BY["rank"])


def test_a_group_without_one_of_its_ranks_is_made_of_the_others(
    six: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is gone between the look and the tables."""
    work = rank_summaries.work

    def gone(task: rank_summaries.Task) -> rank_summaries.Answer:
        return rank_summaries.lost(task, "gone") if task.share and task.number == 3 else work(task)

    monkeypatch.setattr(rank_summaries, "work", gone)
    made = rank_summaries.summary(six, USUAL, views=["kernel"], shown=BY["each dp"])
    expected = by_group_together([path for path in six if path != six[3]], BY["each dp"])["kernel"]
    assert made.report.sections[0].tables == expected.tables
    assert made.report.notes[0] == "5 of 6 ranks: rank 3 is missing; every figure is of the others"


def test_many_ranks_are_compared_apart(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.RANKS_TOGETHER, 4)
    done = CliRunner().invoke(app, ["summary", str(run), "--by", "rank", "--view", "kernel"])
    assert done.exit_code == 0, done.output
    assert "5 inputs read rank by rank" in done.output
    assert "compared: 5 ranks" in done.output
    wrong = CliRunner().invoke(app, ["summary", str(run), "--by", "tp"])
    assert wrong.exit_code == 2
    assert "the files do not say the tp groups" in wrong.output
    not_shown = CliRunner().invoke(app, ["summary", str(run), "--by", "rank", "--jobs", "1", "--view", "idle"])
    assert "needs all events at once" in not_shown.output


@pytest.mark.parametrize("shown", [ViewOptions(compat="paddle"), ViewOptions(thread_sep=True)])
def test_options_that_need_all_events_are_refused(run: Path, shown: ViewOptions) -> None:
    with pytest.raises(UsageError, match="read apart"):
        rank_summaries.summary([run], USUAL, shown=shown)


def test_too_many_durations_are_rounded_and_said_so(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.RANK_VALUES, 40)
    exact = together([run], USUAL)["kernel"].tables[0]
    made = rank_summaries.summary([run], USUAL, views=["kernel"])
    found = made.report.sections[0].tables[0]
    for column, other in zip(found.columns, exact.columns, strict=True):
        if not re.fullmatch(r"p\d+", column.name):
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
    small(monkeypatch, Limit.RANKS_TOGETHER, 4)
    many = CliRunner().invoke(app, ["summary", str(run), "--view", "kernel"])
    assert many.exit_code == 0, many.output
    assert "5 inputs read rank by rank" in many.output
    all_events = CliRunner().invoke(app, ["summary", str(run), "--view", "idle"])
    assert "read rank by rank" not in all_events.output
