"""`compare` on files: repeats, single runs, folders of ranks, archives, totals, odd and empty traces."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from compare_runs import LAYERS, repeats, steps, write
from doors.compare import RunInput, unique_runs
from support import sample

import tracekit
from tracekit import archive, pipeline
from tracekit.comparison import (
    FASTER,
    MET,
    NOT_JUDGED,
    SAME,
    SLOWER,
    UNKNOWN,
    VIOLATED,
    Change,
    Comparison,
    compare,
    report_of,
)
from tracekit.errors import AllInputsError, InputError, UsageError
from tracekit.model.arrow import pc
from tracekit.model.report import Flame, Report, ReportTable
from tracekit.model.trace import Trace


def table(report: Report, name: str) -> ReportTable:
    return next(t for section in report.sections for t in section.tables if t.name == name)


def column(report: Report, name: str, of: str) -> list[object]:
    return list(table(report, name).column(of).values)


def notes_of(found: Comparison) -> list[str]:
    return [note for section in report_of(found).sections for note in section.notes]


def change(found: Comparison, metric: str) -> Change:
    return next(c for c in found.changes if c.metric.text == metric)


@pytest.mark.parametrize(("effect", "said"), [(0.10, SLOWER), (-0.10, FASTER)])
def test_repeats_with_a_known_effect(tmp_path: Path, effect: float, said: str) -> None:
    base = repeats(tmp_path / "base", 8, seed=1, count=6)
    new = repeats(tmp_path / "new", 8, effect=effect, seed=2, count=6)
    found = compare(base, new)
    assert found.verdict == said
    step = change(found, "step.mean")
    assert (step.values, step.count) == ("runs", (8, 8))
    assert step.low is not None
    assert step.high is not None
    assert step.low < effect < step.high
    report = report_of(found)
    assert sum(column(report, "step_parts", "difference")) == step.difference  # type: ignore[arg-type]
    device = change(found, "device.total")
    assert sum(column(report, "device_parts", "difference")) == device.difference  # type: ignore[arg-type]


def test_quiet_repeats_are_the_same(tmp_path: Path) -> None:
    found = compare(
        repeats(tmp_path / "a", 8, noise=0.004, seed=1, count=6),
        repeats(tmp_path / "b", 8, noise=0.004, seed=2, count=6),
    )
    assert found.verdict == SAME


def test_one_run_a_side_is_judged_by_its_steps_with_a_note(tmp_path: Path) -> None:
    base = write(tmp_path / "a.parquet", steps(30, noise=0.02, seed=1))
    new = write(tmp_path / "b.parquet", steps(30, noise=0.02, seed=2, factor=1.1))
    found = compare(base, new)
    assert found.verdict == SLOWER
    assert change(found, "step.p50").values == "steps"
    assert any("not between runs" in note for note in notes_of(found))


def test_warm_up_is_left_out_on_both_sides(tmp_path: Path) -> None:
    base = write(tmp_path / "a.parquet", steps(20, warm_up=1))
    new = write(tmp_path / "b.parquet", steps(20, warm_up=4))
    found = compare(base, new)
    assert (found.verdict, change(found, "step.mean").difference) == (SAME, 0)
    assert change(found, "kernel.total").difference == 0
    assert found.sides is not None
    assert [run.warm_up for run in (*found.sides.base, *found.sides.new)] == [1, 4]
    assert "new: 4 warm-up steps skipped (as in the view `steps`)" in notes_of(found)


def test_another_number_of_steps_is_no_change(tmp_path: Path) -> None:
    found = compare(write(tmp_path / "a.parquet", steps(10)), write(tmp_path / "b.parquet", steps(30)))
    assert change(found, "device.total").difference == 0
    assert change(found, "kernel.calls").base == change(found, "kernel.calls").new == len(LAYERS)


def doubled(source: Path, target: Path) -> str:
    """Write a run in which everything takes twice as long."""
    trace = tracekit.read(source)
    times = [pc.multiply(trace.events.column(name), 2) for name in ("ts_ns", "dur_ns")]
    events = trace.events
    for name, column_ in zip(("ts_ns", "dur_ns"), times, strict=True):
        events = events.set_column(events.schema.get_field_index(name), events.schema.field(name), column_)
    tracekit.write(Trace(events, trace.totals, trace.run, trace.ledgers), target)
    return str(target)


@pytest.mark.parametrize(
    "name", ["nvprof-csv/gpu-and-api-trace.csv", "kineto/gpu.pt.trace.json", "recorder-log/rank0.jsonl"]
)
def test_one_run_a_side_with_doubled_times_is_slower_by_100_percent(name: str, tmp_path: Path) -> None:
    new = doubled(sample(name), tmp_path / "new.parquet")
    found = compare(str(sample(name)), new)
    assert found.main is not None
    text = dict(report_of(found).facts)["verdict"]
    assert text.startswith("slower by 100 % (one run each: no estimate of noise): ")
    (rule,) = compare(str(sample(name)), new, rules=[f"{found.main.metric.text} > 3%"]).checked
    assert (rule.state, rule.text.endswith("(one run each: no estimate of noise)")) == ("violated", True)
    back = compare(new, str(sample(name)))
    assert dict(report_of(back).facts)["verdict"].startswith("faster by 50 % (one run each")


@pytest.mark.parametrize(
    "name", ["nvprof-csv/gpu-and-api-trace.csv", "kineto/gpu.pt.trace.json", "recorder-log/rank0.jsonl"]
)
def test_a_run_against_itself_is_the_same(name: str) -> None:
    found = compare(str(sample(name)), str(sample(name)))
    assert found.main is not None
    (rule,) = compare(str(sample(name)), str(sample(name)), rules=[f"{found.main.metric.text} > 3%"]).checked
    assert (found.verdict, rule.state) == ("same", "met")


@pytest.mark.parametrize(
    ("factor", "verdict", "states"),
    [
        (1.005, "same", ("met", "not enough runs")),
        (1.02, "not enough runs", ("met", "not enough runs")),
        (1.05, "not enough runs", ("not enough runs", "not enough runs")),
        (1.09, "slower", ("violated", "violated")),
        (0.9, "faster", ("met", "met")),
    ],
)
def test_small_changes_of_one_run_each_may_be_noise(
    factor: float, verdict: str, states: tuple[str, str], tmp_path: Path
) -> None:
    base = write(tmp_path / "a.parquet", steps(1))
    new = write(tmp_path / "b.parquet", steps(1, factor=factor, idle_ns=round(20_000 * factor)))
    found = compare(base, new, rules=["step.mean > 3%", "step.mean > 0.1%"])
    assert found.verdict == verdict
    assert tuple(rule.state for rule in found.checked) == states


def test_a_percentile_counts_where_the_mean_changed_too(tmp_path: Path) -> None:
    base = write(tmp_path / "a.parquet", steps(12, noise=0.01))
    twice = write(tmp_path / "b.parquet", steps(12, noise=0.01, factor=2, idle_ns=40_000))
    other = write(tmp_path / "c.parquet", steps(12, noise=0.05, seed=1))
    assert [rule.state for rule in compare(base, twice, rules=["step.p95 > 3%", "step.max > 3%"]).checked] == [
        "violated",
        "violated",
    ]
    noisy = compare(base, other, rules=["step.max > 3%"])
    assert (change(noisy, "step.max").ratio or 0) > 0.03
    assert noisy.checked[0].state == "not enough runs"


def test_traces_without_steps_are_compared_by_the_run(tmp_path: Path) -> None:
    base = write(tmp_path / "a.parquet", steps(9, named_steps=False))
    new = write(tmp_path / "b.parquet", steps(9, named_steps=False, factor=1.5))
    found = compare(base, new)
    assert found.main is not None
    assert found.main.metric.text == "device.total"
    assert (found.verdict, found.main.single) == ("slower", True)  # nothing within the runs repeats
    assert change(found, "kernel.avg").values == "calls"
    report = report_of(found)
    assert sum(column(report, "device_parts", "difference")) == change(found, "device.total").difference  # type: ignore[arg-type]


def test_steps_on_one_side_alone_are_a_note(tmp_path: Path) -> None:
    found = compare(write(tmp_path / "a.parquet", steps(9)), write(tmp_path / "b.parquet", steps(9, named_steps=False)))
    assert change(found, "step.p50").why == "new has none"
    assert change(found, "device.total").difference == 0
    assert any("1 of 1 runs of new have no steps" in note for note in found.notes)


def test_empty_traces_have_an_answer(tmp_path: Path) -> None:
    empty, full = write(tmp_path / "a.parquet", []), write(tmp_path / "b.parquet", steps(9))
    for base, new in ((empty, empty), (empty, full), (full, empty)):
        rules = ["step.p50 > 3%", "kernel.total > 3%"] if base != new else []
        found = compare(base, new, rules=rules)
        assert found.verdict == UNKNOWN
        assert {checked.state for checked in found.checked} == ({NOT_JUDGED} if rules else set())
        for form in ("text", "json", "markdown", "html", "csv"):
            assert pipeline.render(report_of(found), form)


def test_summaries_of_nvprof_are_compared_by_name() -> None:
    found = compare(str(sample("nvprof-csv/summary-old.csv")), str(sample("nvprof-csv/summary-new.csv")))
    assert change(found, "kernel.total").difference == 0
    report = report_of(found)
    assert any("totals summed by the profiler" in note for note in found.notes)
    api = table(report, "api_parts")
    rows = {row[0]: row for row in api.rows()}
    assert rows["cudaLaunch"][1] == "gone"
    assert rows["cudaLaunchKernel"][1] == "new"


def test_tables_of_a_profiler_are_compared_each_by_itself() -> None:
    file = str(sample("theano/theano-1.0.5.txt"))
    found = compare(file, file)
    titles = [t.title for section in report_of(found).sections for t in section.tables]
    assert {"Class", "Ops", "Apply"} <= set(titles)
    assert found.verdict == UNKNOWN
    other = compare(file, str(sample("kineto/gpu.pt.trace.json")))
    assert any("only some runs have are not compared: " in note and "Apply" in note for note in other.notes)


def test_two_formats_are_compared_with_a_warning() -> None:
    found = compare(str(sample("nvprof-csv/gpu-and-api-trace.csv")), str(sample("kineto/gpu.pt.trace.json")))
    assert change(found, "kernel.total").difference == 0
    assert any(note.startswith("different formats: nvprof-csv and kineto") for note in found.notes)


def test_memory_is_compared_without_repeats(tmp_path: Path) -> None:
    base = write(tmp_path / "a.parquet", steps(6, memory=1 << 20))
    new = write(tmp_path / "b.parquet", steps(6, memory=3 << 20))
    found = compare(base, new, rules=["memory.peak > 1MiB", "memory.peak > 4MiB"])
    peak = change(found, "memory.peak")
    assert (peak.base, peak.new, peak.verdict) == (1 << 20, 3 << 20, "more")
    assert [checked.state for checked in found.checked] == [VIOLATED, MET]


def test_a_folder_of_ranks_is_one_run_and_a_folder_of_repeats_is_several(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / "ranks" / f"rank{rank}.parquet", steps(6, rank=rank))
    base = write(tmp_path / "base.parquet", steps(6))
    found = compare(base, str(tmp_path / "ranks"))
    assert found.sides is not None
    assert len(found.sides.new) == 1
    assert found.sides.new[0].owners == 3
    assert change(found, "step.mean").difference == 0
    assert change(found, "kernel.calls").difference == 0
    assert any("read as one run (its files have different ranks)" in note for note in found.notes)
    twice = compare(base, repeats(tmp_path / "repeats", 3, count=6))
    assert twice.sides is not None
    assert len(twice.sides.new) == 3
    once = compare(base, str(tmp_path / "repeats"), one_run=True)
    assert once.sides is not None
    assert len(once.sides.new) == 1


def test_patterns_and_several_words_are_repeats(tmp_path: Path) -> None:
    folder = repeats(tmp_path / "a", 5, count=6)
    other = repeats(tmp_path / "b", 2, count=6)
    found = compare(f"{folder}/*.parquet", [f"{other}/r00.parquet", f"{other}/r01.parquet"])
    assert found.sides is not None
    assert (len(found.sides.base), len(found.sides.new)) == (5, 2)


def test_a_bad_file_among_repeats_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    folder = repeats(tmp_path / "a", 5, count=6)
    (tmp_path / "bad.json").write_text("not a trace", encoding="utf-8")
    found = compare(folder, [f"{folder}/r00.parquet", str(tmp_path / "bad.json")], partial=True)
    assert [Path(failure.name).name for failure in found.failures] == ["bad.json"]
    assert found.sides is not None
    assert len(found.sides.new) == 1
    with pytest.raises(AllInputsError):
        compare(folder, [str(tmp_path / "bad.json"), str(tmp_path / "none.json")], partial=True)


@pytest.mark.parametrize(("base", "new"), [("nothing/*.json", "x"), ("no-such-file.json", "x"), ("", "x")])
def test_words_that_name_nothing_are_errors(base: str, new: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, UsageError)):
        compare(base, new)


def fill(root: Path, levels: list[float], *, tag: str = "branch", noise: float = 0.003) -> None:
    for number, level in enumerate(levels):
        path = write(
            root.parent / "made" / f"{root.name}{number}.parquet",
            steps(8, factor=level * (1 + noise * (number * 7 % 5 - 2) + 1e-5 * number)),
        )
        archive.add(root, path, run="nightly", date=f"2026-01-{number + 1:02}", tags={tag: "main"})


def test_a_baseline_is_the_entries_of_an_archive_with_a_tag(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    fill(root, [1.0] * 6)
    new = repeats(tmp_path / "new", 6, effect=0.1, noise=0.003, count=8)
    for word in (f"{root}:branch=main", f"{root}:branch", f"{root}:run=nightly", str(root)):
        found = compare(word, new)
        assert found.sides is not None
        assert len(found.sides.base) == 6
        assert found.verdict == SLOWER
    entry = archive.entries(root)[0]
    one = compare(f"{root}:{entry.id}", entry.path)
    assert one.sides is not None
    assert one.sides.base[0].label == one.sides.new[0].label
    with pytest.raises(InputError, match="no entry has the tag, run or id other"):
        compare(f"{root}:other", new)
    with pytest.raises(InputError, match="not an archive"):
        compare(f"{tmp_path / 'new'}:branch", new)


def test_an_entry_with_two_files_in_an_archive_counts_once(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    fill(root, [1.0] * 4)
    fill(tmp_path / "other", [1.0] * 2, tag="fork")  # the first two of the same sources: the files of a racing add
    for entry in archive.entries(tmp_path / "other"):
        target = root / Path(entry.path).relative_to(tmp_path / "other")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(entry.path, target)
    entries = archive.entries(root)
    assert (len(entries), len({entry.id for entry in entries})) == (6, 4)
    new = repeats(tmp_path / "new", 4, effect=0.1, noise=0.003, count=8)
    found = compare(str(root), new)
    assert found.sides is not None
    assert [run.label for run in found.sides.base] == list(
        dict.fromkeys(f"nightly {e.date} {e.id[:8]}" for e in entries)
    )
    [note] = [note for note in notes_of(found) if "counted once" in note]
    assert note.startswith("2 entries found twice, counted once: nightly 2026-01-01")
    past = compare(str(root), history=True).history
    assert past is not None
    assert len(past.labels) == 4
    # The other file of NEW's own sources is no base for it either.
    assert entries[0].id == entries[1].id
    for path in (entries[0].path, entries[1].path):
        held = compare(str(root), path)
        assert held.sides is not None
        assert len(held.sides.base) == 3


def test_of_an_entry_with_two_files_the_file_by_tracekit_is_read(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    fill(root, [1.0] * 2)
    entry, other = archive.entries(root)
    foreign = RunInput("foreign", ("foreign",), entry=replace(entry, as_written=False))
    own = RunInput("own", ("own",), entry=entry)
    rest = [RunInput("other", ("other",), entry=other), RunInput("file", ("file",)), RunInput("file", ("file",))]
    for runs in ([foreign, *rest, own], [own, *rest, foreign]):
        kept, notes = unique_runs(runs)
        assert [run.label for run in kept] == ["own", "other", "file", "file"]
        assert notes == ["1 entry found twice, counted once: own"]
    assert unique_runs(rest) == (rest, [])
    later = RunInput("later", ("later",), entry=replace(entry, as_written=False))
    assert unique_runs([foreign, later])[0] == [foreign]


def test_an_entry_that_two_words_name_counts_once(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    fill(root, [1.0] * 3)
    new = repeats(tmp_path / "new", 3, effect=0.1, noise=0.003, count=8)
    found = compare([f"{root}:branch=main", f"{root}:{archive.entries(root)[1].id}"], new)
    assert found.sides is not None
    assert len(found.sides.base) == 3
    assert any(note.startswith("1 entry found twice, counted once: nightly 2026-01-02") for note in notes_of(found))


def test_a_history_shows_where_the_level_changed_and_compares_with_the_last_one(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    fill(root, [1.0] * 8 + [1.2] * 8)
    found = compare(str(root), history=True)
    assert found.history is not None
    assert [place for place, _ in found.history.points] == [8]
    assert found.history.labels[8].startswith("nightly 2026-01-09")
    report = report_of(found)
    assert str(column(report, "history", "said")[8]).startswith("up +19")
    new = repeats(tmp_path / "new", 6, effect=0.2, noise=0.003, count=8)
    assert compare(str(root), new).verdict == SLOWER
    last = compare(str(root), new, history=True)
    assert last.verdict == SAME
    assert last.sides is not None
    assert len(last.sides.base) == 8


def test_the_base_of_a_history_is_the_runs_after_its_last_change(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    fill(root, [1.0] * 8 + [1.3] * 8 + [1.6] * 8)
    new = repeats(tmp_path / "new", 3, effect=0.6, noise=0.003, count=8)
    found = compare(str(root), new, history=True)
    assert found.history is not None
    assert [number for number, _ in found.history.points] == [8, 16]
    assert found.history.since == 16
    assert found.sides is not None
    assert len(found.sides.base) == 8


def test_only_allocated_memory_counts_as_peak() -> None:
    file = str(sample("kineto/gpu.pt.trace.json"))
    assert change(compare(file, file), "memory.peak").base == 4_096  # 2 MiB are reserved


RANGE = [{"ts_ns": 0, "dur_ns": 5, "name": "setup", "kind": "user_range"}]
"""A trace without steps, device work and operators."""


def test_a_run_with_nothing_to_compare_is_named(tmp_path: Path) -> None:
    base, new = write(tmp_path / "a.parquet", steps(6)), write(tmp_path / "b.parquet", RANGE)
    found = compare(base, new)
    assert found.verdict == UNKNOWN
    assert f"new: nothing to compare in {new}" in found.notes


def test_a_history_counts_the_runs_without_its_metric(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{number}.parquet", steps(6)) for number in range(3)]
    found = compare([*files, write(tmp_path / "x.parquet", RANGE)], history=True)
    assert found.history is not None
    assert found.history.values[3] is None
    notes = report_of(found).sections[-1].notes
    assert "1 run has no step.mean" in notes
    assert "no change point in 3 runs; at least 8 runs are needed" in notes


def test_a_steady_history_has_no_change_point(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    fill(root, [1.0] * 10)
    found = compare(str(root), history=True)
    assert found.history is not None
    assert not found.history.points
    assert "no change point in 10 runs" in report_of(found).sections[-1].notes


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html", "csv"])
def test_the_same_inputs_give_the_same_bytes(tmp_path: Path, form: str) -> None:
    base, new = repeats(tmp_path / "a", 5, count=6), repeats(tmp_path / "b", 5, effect=0.1, seed=5, count=6)
    made = [pipeline.render(report_of(compare(base, new), top=3), form) for _ in range(2)]
    assert made[0] == made[1]


def test_rows_that_are_cut_are_added_up_in_one(tmp_path: Path) -> None:
    base, new = write(tmp_path / "a.parquet", steps(9)), write(tmp_path / "b.parquet", steps(9, factor=1.3))
    found = compare(base, new)
    for name in ("step_parts", "device_parts", "operator_parts"):
        cut, whole = (table(report_of(found, top=top), name) for top in (2, 0))
        assert sum(cut.column("difference").values) == sum(whole.column("difference").values)  # type: ignore[arg-type]
        assert any("more names)" in str(cell) for cell in cut.column("name").values)


def test_call_paths_add_up_and_are_the_same_in_table_and_flame_graph(tmp_path: Path) -> None:
    base, new = write(tmp_path / "a.parquet", steps(9)), write(tmp_path / "b.parquet", steps(9, factor=1.3))
    report = report_of(compare(base, new))
    section = next(s for s in report.sections if s.title == "Call paths by self time")
    [flame] = [figure for figure in section.figures if isinstance(figure, Flame)]
    paths: list[str] = []
    for name, parent in zip(flame.names, flame.parents, strict=True):
        assert parent < len(paths)
        paths.append(f"{paths[parent]} › {name}" if parent >= 0 else name)
    drawn = {path: sides for path, *sides in zip(paths, flame.base, flame.new, strict=True)}
    rows = section.tables[0]
    told = zip(*(rows.column(name).values for name in ("name", "base", "new")), strict=True)
    assert {str(name): sides for name, *sides in told} == drawn
    times = table(report, "metrics")
    mean = next(row for row in times.rows() if row[0] == "step.mean")
    assert [sum(flame.base), sum(flame.new)] == mean[1:3]  # the steps hold all that the host did


def test_json_holds_exact_numbers(tmp_path: Path) -> None:
    base, new = write(tmp_path / "a.parquet", steps(9)), write(tmp_path / "b.parquet", steps(9, factor=1.25))
    text = pipeline.render(report_of(compare(base, new)), "json")
    found = json.loads(text)
    tables = {t["name"]: t for section in found["sections"] for t in section["tables"]}
    names = [c["name"] for c in tables["metrics"]["columns"]]
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in tables["metrics"]["rows"]}
    assert rows["step.mean"]["difference"] == round(0.25 * 870_000)
    assert tables["verdict"]["rows"][0][0] == SLOWER
    assert rows["kernel.total"]["change"] == pytest.approx(0.25, rel=1e-4)
