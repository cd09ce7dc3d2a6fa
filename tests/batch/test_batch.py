"""A batch over a tree: every file accounted for, nothing done twice, one bad run costs itself alone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from batch_trees import Here, Outcome, content, do_run, put, tree
from compare_runs import steps, write
from support import sample
from timelines import read_page
from viewers import chromium_page

from tracekit import archive, batch
from tracekit.batch.index import parse
from tracekit.batch.plan import RunTask
from tracekit.errors import InputError, UsageError
from tracekit.inputs import reading
from tracekit.readers.source import Source

Done = tuple[Path, Path, batch.BatchResult]
"""A tree, OUT, and the outcome of the batch."""


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "processes" not in request.keywords:
        monkeypatch.setattr(batch, "LocalEngine", Here)


def index(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "index.json").read_text(encoding="ascii"))
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("batch")
    root = tree(folder / "tree", 8)
    return root, folder / "out", batch.run([root], folder / "out", jobs=2)


def copied(done: Done, folder: Path) -> tuple[Path, Path]:
    """The tree at its own place, with a copy of what the batch left: what follows may change both... of the copy."""
    out = folder / "out"
    shutil.copytree(done[1], out)
    return done[0], out


def test_every_file_of_the_tree_is_part_of_a_run_or_named_as_none(done: Done) -> None:
    root, out, made = done
    listed = index(out)
    found = {f"{run['inside']}/{each['path']}" for run in listed["runs"] for each in run["sources"]}
    found |= {f"{run['inside']}/{name}" for run in listed["runs"] for name in run["others"]}
    found |= {name for each in listed["roots"] for name in each["unknown"] + each["outside"]}
    assert found == {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert (made.runs, made.done) == (8, {"new": 8})
    assert made.others == sum(len(run["others"]) for run in listed["runs"]) + 1


def test_the_page_lists_the_files_that_are_part_of_no_run(done: Done) -> None:
    root, out, _ = done
    part = (out / "index.html").read_text(encoding="utf-8").partition('id="files"')[2]
    lists = dict(re.findall(r"<summary>([^<]+)</summary>(.*?)</details>", part, re.S))
    assert list(lists) == [
        "1 in folders without a profile",
        "1 beside profiles, not read: of no known format, or a report whose export was read",
    ]
    assert f"{root}/notes/readme.txt" in lists["1 in folders without a profile"]
    assert (
        "nvprof/2026-01-01: train.py"
        in lists["1 beside profiles, not read: of no known format, or a report whose export was read"]
    )


def test_a_broken_run_is_listed_with_its_reasons_and_the_others_are_done(
    done: Done,
) -> None:
    _, out, made = done
    assert not made.is_whole
    [(name, reasons)] = made.failed
    assert name == "nvprof/2026-01-02"
    assert any("session.nvprof" in reason for reason in reasons)
    runs = {run["run"]: run for run in index(out)["runs"]}
    assert runs[name]["status"] == "failed"
    assert {run["status"] for key, run in runs.items() if key != name} == {"ok"}
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "session.nvprof" in page
    assert "SQLite" in page


def test_the_figures_are_those_of_the_report_and_the_archive_holds_every_run(
    done: Done,
) -> None:
    _, out, _ = done
    assert list(index(out)) == ["form", "tracekit", "counts", "figures", "runs", "roots"]  # as people read it
    runs = {run["run"]: run for run in index(out)["runs"]}
    entries = {entry.run: entry for entry in archive.entries(out / "archive")}
    assert entries.keys() == {name for name, run in runs.items() if run["status"] == "ok"}
    assert not archive.verify(out / "archive").problems
    for name, entry in entries.items():
        assert (runs[name]["events"], runs[name]["totals"]) == (entry.events, entry.totals)
        assert runs[name]["date"] == entry.date.isoformat()
        assert runs[name]["archive"]["id"] == entry.id
    kernels = runs["kineto/2026-01-01"]["figures"]
    assert kernels["kernel_calls"] == 48
    assert kernels["kernel_time"] == 3_050_099  # the sum of the 48 durations in the file
    assert kernels["busy"] == 3_091_463 / 395_141_681  # kernels, copies and memsets, over the span of the device
    assert kernels["peak_memory"] == 4_096  # the device allocated more than the host; the reserved 2 MiB do not count
    assert runs["recorder/2026-01-01"]["figures"]["step_p50"] == 443_873
    assert runs["theano/2026-01-01"]["figures"]["span"] is None


def test_pages_share_their_assets_and_every_link_leads_to_a_file(done: Done) -> None:
    _, out, _ = done
    reports = sorted(out.glob("runs/*/report.html"))
    assert len(reports) == 7
    for page in [out / "index.html", *reports]:
        text = page.read_text(encoding="utf-8")
        assert "<style>" not in text
        links = text.split('href="')[1:] + text.split('src="')[1:]
        for link in (each.split('"')[0] for each in links if not each.startswith("#")):
            assert (page.parent / unquote(link)).is_file()
    assert {"page.js", "timeline.js", "report.css"} <= {file.name for file in (out / "assets").iterdir()}
    assert max(page.stat().st_size for page in reports) < 500_000


def test_each_archived_run_has_a_link_to_its_file_in_the_archive(done: Done) -> None:
    _, out, _ = done
    page = (out / "index.html").read_text(encoding="utf-8")
    links = [unquote(link) for link in re.findall(r'href="([^"]+)">parquet<', page)]
    expected = [Path(entry.path).relative_to(out).as_posix() for entry in archive.entries(out / "archive")]
    assert len(links) == 7
    assert sorted(links) == sorted(expected)
    rows = re.findall(r"<tr>.*?</tr>", page.partition('id="runs"')[2], re.S)
    runs = {name: row for row in rows for name in re.findall(r'report\.html">([^<]+)<', row)}
    for entry in archive.entries(out / "archive"):
        assert f"/{quote(entry.id)}-" in runs[entry.run]  # each in the row of its own run


def test_a_run_in_an_archive_outside_of_out_has_no_link_to_it(tmp_path: Path) -> None:
    put(tmp_path / "tree" / "job" / "rank0.jsonl", sample("recorder-log/rank0.jsonl").read_bytes())
    batch.run([tmp_path / "tree"], tmp_path / "out", archive=tmp_path / "kept")
    assert len(archive.entries(tmp_path / "kept")) == 1
    assert not (tmp_path / "out" / "archive").exists()
    assert ">parquet<" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_second_batch_does_nothing_and_changes_nothing(
    done: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, out = copied(done, tmp_path)
    before = content(out)
    monkeypatch.setattr(batch, "LocalEngine", lambda jobs: None)  # nobody to work
    again = batch.run([root], out, jobs=2)
    assert (again.done, again.unchanged) == ({}, 8)
    assert [name for name, _ in again.failed] == ["nvprof/2026-01-02"]  # named again: the exit code stays 3
    assert content(out) == before


def test_one_changed_run_is_redone_alone_and_a_touched_one_is_not(tmp_path: Path) -> None:
    root, out = tree(tmp_path / "tree", 4), tmp_path / "out"
    batch.run([root], out, jobs=1)
    before = content(out)
    log = root / "recorder" / "2026-01-01" / "rank0.jsonl"
    put(log, log.read_bytes(), 20)  # other time, same bytes
    again = batch.run([root], out, jobs=1)
    assert (again.done, again.unchanged) == ({}, 4)
    result = next(out.glob("runs/recorder*/result.json"))
    assert json.loads(result.read_bytes())["sources"][0]["mtime_ns"] == log.stat().st_mtime_ns
    put(log, log.read_bytes() + b"\n", 20)
    again = batch.run([root], out, jobs=1)
    assert (again.done, again.unchanged) == ({"changed": 1}, 3)
    changed = {name for name, digest in content(out).items() if before.get(name) != digest}
    assert all("recorder" in name or name in ("index.html", "index.json") for name in changed)


def test_runs_with_a_missing_output_a_torn_result_or_other_options_are_done_again(tmp_path: Path) -> None:
    root, out = tree(tmp_path / "tree", 3), tmp_path / "out"
    batch.run([root], out, jobs=1)
    before = content(out)
    next(out.glob("runs/kineto*/report.html")).unlink()
    next(out.glob("runs/nvprof*/result.json")).write_bytes(b'{"form": 1, "tor')
    next(out.glob("archive/events/*/run=recorder*/*.parquet")).write_bytes(b"")
    assert batch.run([root], out, jobs=1).done == {"new": 1, "output missing": 2}
    assert content(out) == before
    made = batch.run([root], out, jobs=1, to=["chrome"])
    assert made.done == {"options": 3}
    assert len(list(out.glob("runs/*/trace.json.gz"))) == 3


def test_pages_keep_their_budget_and_another_one_makes_them_again(tmp_path: Path) -> None:
    root, out = tmp_path / "tree", tmp_path / "out"
    put(root / "a" / "run.csv", sample("nvprof-csv/gpu-and-api-trace.csv").read_bytes())
    assert batch.run([root], out, jobs=1, page_events=100, page_args_mb=0).done == {"new": 1}
    (page,) = out.glob("runs/*/report.html")
    head = read_page(page.read_text(encoding="utf-8")).head
    assert (0 < head["n"] <= 100, head["total"], head["args"]) == (True, 137, [])
    assert batch.run([root], out, jobs=1, page_events=100, page_args_mb=0).unchanged == 1
    assert batch.run([root], out, jobs=1).done == {"options": 1}
    assert read_page(page.read_text(encoding="utf-8")).head["n"] == 137
    with pytest.raises(UsageError, match=r"page_mb=0: at least 0\.1"):
        batch.run([root], out, jobs=1, page_mb=0)


def test_without_an_archive_the_reports_are_the_same(tmp_path: Path) -> None:
    root = tree(tmp_path / "tree", 4)
    batch.run([root], tmp_path / "a", jobs=1)
    made = batch.run([root], tmp_path / "b", jobs=1, archive="")
    assert made.is_whole
    assert not (tmp_path / "b" / "archive").exists()
    for page in (tmp_path / "a" / "runs").glob("*/report.html"):
        assert page.read_bytes() == (tmp_path / "b" / "runs" / page.parent.name / "report.html").read_bytes()


def test_the_row_of_a_cut_trace_has_the_number_of_dropped_records(tmp_path: Path) -> None:
    data = sample("recorder-log/rank0.jsonl").read_bytes()
    put(tmp_path / "tree" / "whole" / "rank0.jsonl", data)
    put(tmp_path / "tree" / "cut" / "rank0.jsonl", data[:-40], 1)
    made = batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1)
    assert not made.is_whole
    assert [name for name, _ in made.cut] == ["cut"]
    assert made.dropped == (("cut", 1),)
    listed = index(tmp_path / "out")
    assert {run["run"]: (run["status"], run["dropped"]) for run in listed["runs"]} == {
        "whole": ("ok", 0),
        "cut": ("partial", 1),
    }
    lost = next(run["lost"] for run in listed["runs"] if run["run"] == "cut")
    assert lost == [{"file": "rank0.jsonl", "reason": "1 of 94 records dropped: the last line was cut"}]
    assert listed["counts"]["dropped"] == 1
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Records dropped" in page
    assert "1 dropped, in 1 run" in page
    again = batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1)
    assert (again.done, again.dropped) == ({}, made.dropped)


def _steps(root: Path, lengths_us: Sequence[int]) -> None:
    """Write runs of one kind, each with steps of one length."""
    for number, length in enumerate(lengths_us):
        rows = [{"name": f"step {k}", "kind": "step", "ts_ns": k * 10**6, "dur_ns": length * 1000} for k in range(4)]
        made = Path(write(root.parent / f"made{number}.parquet", rows)).read_bytes()
        put(root / f"night-{number:02}" / "run.parquet", made, number)


def test_a_run_beyond_its_budget_is_named_and_the_batch_says_so(tmp_path: Path) -> None:
    _steps(tmp_path / "tree", [100, 400])
    budgets = ["step_p50 <= 300us", "busy >= 60%"]
    made = batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1, budgets=budgets)
    why = "step p50 400 us; the budget is step.p50 <= 300us"
    assert made.over == (("night-01", (why,)),)  # busy is not known, so its budget is not broken
    assert not made.is_whole
    listed = index(tmp_path / "out")
    assert {run["run"]: run["over"] for run in listed["runs"]} == {"night-00": [], "night-01": [why]}
    assert f"over budget: {why}".replace("<", "&lt;") in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    again = batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1)
    assert (again.done, again.over, again.is_whole) == ({}, (), True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step_p50", "not a budget"),
        ("speed <= 3", "not a budget"),
        ("step_p50 <= 3", "not a limit for step.p50"),
        ("busy >= 3ms", "not a limit for busy"),
        ("peak_memory < 3 %", "not a limit for memory.peak"),
        ("kernel_calls < 3.5", "not a limit for kernel_calls"),
    ],
)
def test_a_budget_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        batch.run([tmp_path], tmp_path / "out", budgets=[text])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("step_p50 <= 3ms", "step.p50 <= 3ms"),
        ("step.p50 <= 3ms", "step.p50 <= 3ms"),
        ("memory.peak < 3GiB", "memory.peak < 3GiB"),
        ("peak_memory < 3GiB", "memory.peak < 3GiB"),
        ("kernel.time < 3s", "kernel_time < 3s"),
    ],
)
def test_a_figure_has_one_name_in_budgets_and_gates_and_both_spellings_are_read(text: str, shown: str) -> None:
    assert parse(text).text == shown


def test_a_trend_names_the_run_where_its_level_changed(tmp_path: Path) -> None:
    _steps(tmp_path / "tree", [100, 101, 100, 101, 100, 150, 151, 150, 151, 150])
    batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "step p50: level +50.0 % since 2026-01-06 night-05" in page


def test_a_page_without_losses_has_no_column_for_them(tmp_path: Path) -> None:
    put(tmp_path / "tree" / "job" / "rank0.jsonl", sample("recorder-log/rank0.jsonl").read_bytes())
    batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Records dropped" not in page
    assert "none dropped" in page


def test_files_of_one_folder_are_one_run_and_a_bad_one_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "tree" / "job"
    for rank in (0, 1):
        put(folder / f"rank{rank}.jsonl", sample(f"recorder-log/rank{rank}.jsonl").read_bytes())
    put(folder / "gpu.nvprof", b"nothing")
    put(folder / "train.py", b"print()")
    made = batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1)
    [(name, reasons)] = made.partial
    assert name == "job"
    assert "gpu.nvprof" in reasons[0]
    [run] = index(tmp_path / "out")["runs"]
    assert [s["read"] for s in run["sources"]] == [False, True, True]
    assert run["others"] == ["train.py"]
    assert run["events"] == sum(x.events_out for x in archive.entries(tmp_path / "out" / "archive")[0].ledgers)


def test_a_pattern_names_the_runs_and_files_outside_of_it_are_listed(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    for rank in (0, 1):
        put(root / "jobs" / "a" / f"node{rank}" / "log.jsonl", sample(f"recorder-log/rank{rank}.jsonl").read_bytes())
    put(root / "old" / "log.jsonl", sample("recorder-log/rank0.jsonl").read_bytes())
    assert batch.run([root], tmp_path / "all", jobs=1).runs == 3
    made = batch.run([root], tmp_path / "out", jobs=1, run_pattern="jobs/*")
    assert (made.runs, made.others) == (1, 1)
    listed = index(tmp_path / "out")
    assert [s["path"] for s in listed["runs"][0]["sources"]] == ["node0/log.jsonl", "node1/log.jsonl"]
    assert listed["roots"][0]["outside"] == ["old/log.jsonl"]
    files = batch.run([root], tmp_path / "files", jobs=1, run_pattern="**/*.jsonl")
    assert files.runs == 3
    with pytest.raises(UsageError):
        batch.run([root], tmp_path / "out", run_pattern="../*")


def test_out_inside_a_root_is_not_read(tmp_path: Path) -> None:
    root = tree(tmp_path / "tree", 2)
    assert batch.run([root], root / "out", jobs=1, to=["jsonl"]).runs == 2
    assert batch.run([root], root / "out", jobs=1, to=["jsonl"]).runs == 2
    with pytest.raises(UsageError):
        batch.run([root], root)
    with pytest.raises(UsageError):
        batch.run([root, root / "kineto"], tmp_path / "out")
    with pytest.raises(InputError):
        batch.run([root / "missing"], tmp_path / "out")


def test_runs_of_the_same_name_below_two_roots_are_two_runs(tmp_path: Path) -> None:
    data = sample("recorder-log/rank0.jsonl").read_bytes()
    for number, name in enumerate(("one/tree", "two/tree", "three/other")):
        put(tmp_path / name / "job" / "log.jsonl", data, number)
    roots = [tmp_path / "one" / "tree", tmp_path / "two" / "tree", tmp_path / "three" / "other"]
    batch.run(roots, tmp_path / "out", jobs=1)
    names = {run["run"] for run in index(tmp_path / "out")["runs"]}
    assert len(names) == 3
    assert len(archive.entries(tmp_path / "out" / "archive")) == 3


def test_a_run_whose_files_are_gone_stays_and_a_failed_one_goes(tmp_path: Path) -> None:
    root, out = tree(tmp_path / "tree", 6), tmp_path / "out"
    batch.run([root], out, jobs=2)
    shutil.rmtree(root / "kineto" / "2026-01-01")
    shutil.rmtree(root / "nvprof" / "2026-01-02")  # the one that failed
    made = batch.run([root], out, jobs=1)
    assert (made.runs, made.done, made.forgotten) == (4, {}, 1)
    runs = {run["run"]: run for run in index(out)["runs"]}
    assert len(runs) == 5
    assert runs["kineto/2026-01-01"]["gone"]
    assert batch.run([root], out, jobs=1, forget=True).forgotten == 1
    assert len(index(out)["runs"]) == 4
    assert len(archive.entries(out / "archive")) == 5  # what is archived lasts


def test_names_of_files_that_are_no_text_or_markup_do_no_harm(tmp_path: Path) -> None:
    data = sample("recorder-log/rank0.jsonl").read_bytes()
    names = ["<script>alert(1)", "a%2Fb", "x" * 240, "bell\x07", "‮gnp", "sur\udcffrogate", "run=1", " lead"]
    for number, name in enumerate(names):
        put(tmp_path / "tree" / name / "log.jsonl", data + b"\n" * number)
    made = batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1)
    assert made.is_whole
    assert made.runs == len(names)
    assert not archive.verify(tmp_path / "out" / "archive").problems
    assert "<script>alert" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1).done == {}


@pytest.mark.viewer
@pytest.mark.parametrize("width", [1300, 420])
def test_the_page_opens_without_error_request_or_overflow(done: Done, width: int) -> None:
    seen = chromium_page(done[1] / "index.html", width=width, script=_LOOK)
    assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
    assert seen.value["rows"] == 8
    assert seen.value["sorted"] == sorted(seen.value["sorted"])
    assert seen.value["style"]


_LOOK = """(() => {
  const table = document.querySelector("#runs table");
  table.querySelector("thead button").click();
  return {rows: table.tBodies[0].rows.length, sorted: [...table.tBodies[0].rows].map((row) => row.cells[0].textContent),
          style: getComputedStyle(document.body).maxWidth === "1240px"};
})()"""


@pytest.mark.viewer
def test_a_report_draws_its_timeline_by_the_shared_scripts(done: Done) -> None:
    page = next(done[1].glob("runs/kineto*/report.html"))
    seen = chromium_page(
        page, script="[document.querySelectorAll('#tl').length, document.querySelectorAll('thead button').length > 0]"
    )
    assert (seen.console, seen.page_errors, seen.requests) == ([], [], [])
    assert seen.value == [1, True]


def test_runs_are_newest_first_and_a_trend_compares_the_last_run_with_the_median_before(tmp_path: Path) -> None:
    for number, factor in enumerate((1, 2, 3, 4, 5)):
        data = Path(write(tmp_path / f"nightly{number}.parquet", steps(4, factor=factor))).read_bytes()
        put(tmp_path / "tree" / f"nightly{number}" / "run.parquet", data, number)
    for number, factor in enumerate((4, 3)):
        data = Path(write(tmp_path / f"weekly{number}.parquet", steps(5, factor=factor))).read_bytes()
        put(tmp_path / "tree" / f"weekly{number}" / "run.parquet", data, 10 + number)
    put(tmp_path / "tree" / "alone" / "run.parquet", data, 20)
    batch.run([tmp_path / "tree"], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    names = ["alone", "weekly1", "weekly0", "nightly4", "nightly3", "nightly2", "nightly1", "nightly0"]
    assert re.findall(r'report\.html">(\w+)<', page) == names
    assert [run["run"] for run in index(tmp_path / "out")["runs"]] == names[::-1]
    assert "Kernels, last +150.0 %" in page  # 5 against 2, the lower of the two middle ones
    assert "Kernels, last -25.0 %" in page
    assert "alone, " not in page.partition('id="trends"')[2]
    assert page.count(" runs, 2026-") == 2  # a kind with one run has no trend


def test_a_file_that_disappears_before_it_is_read_is_tried_again_by_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        put(tmp_path / "tree" / "job" / f"rank{rank}.jsonl", sample(f"recorder-log/rank{rank}.jsonl").read_bytes())
        for rank in (0, 1)
    ]
    data = files[1].read_bytes()

    class Late(Here):
        def run(self, tasks: Iterator[RunTask], lost: Callable[[RunTask, str], Outcome]) -> Iterator[Outcome]:
            for task in tasks:
                files[1].unlink()
                yield do_run(task)

    with monkeypatch.context() as patch:
        patch.setattr(batch, "LocalEngine", Late)
        made = batch.run([tmp_path / "tree"], tmp_path / "out")
    assert [name for name, _ in made.partial] == ["job"]
    put(files[1], data)
    again = batch.run([tmp_path / "tree"], tmp_path / "out")
    assert (again.done, again.partial) == ({"retry": 1}, ())


def test_a_file_without_permission_is_tried_again_by_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (0, 1):
        data = sample(f"recorder-log/rank{rank}.jsonl").read_bytes()
        put(tmp_path / "tree" / "job" / f"rank{rank}.jsonl", data)
    original = reading.open_source

    def refused(name: str | Path) -> Source:  # root may read every file, so permissions alone would show nothing
        if str(name).endswith("rank1.jsonl"):
            raise InputError(f"{name}: cannot be read") from PermissionError(13, "Permission denied")
        return original(name)

    with monkeypatch.context() as patch:
        patch.setattr(reading, "open_source", refused)
        made = batch.run([tmp_path / "tree"], tmp_path / "out")
    assert [name for name, _ in made.partial] == ["job"]
    again = batch.run([tmp_path / "tree"], tmp_path / "out")
    assert (again.done, again.partial) == ({"retry": 1}, ())


def test_progress_counts_every_run_and_its_bytes(tmp_path: Path) -> None:
    root = tree(tmp_path / "tree", 3)
    calls: list[batch.Progress] = []
    batch.run([root], tmp_path / "out", progress=calls.append)
    assert [(now.done, now.total) for now in calls] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert calls[-1].bytes_done == calls[-1].bytes_total > 0


def test_a_file_that_was_a_profile_and_is_none_any_more_fails_its_run(tmp_path: Path) -> None:
    root, out = tree(tmp_path / "tree", 3), tmp_path / "out"
    batch.run([root], out)
    put(root / "recorder" / "2026-01-01" / "rank0.jsonl", b"")
    made = batch.run([root], out)
    assert made.done == {"changed": 1}
    assert "empty" in made.failed[0][1][0]


def test_other_runs_keep_their_results_when_other_roots_are_batched_into_the_same_folder(tmp_path: Path) -> None:
    one, two = tree(tmp_path / "one", 2), tree(tmp_path / "two", 3)
    batch.run([one], tmp_path / "out")
    made = batch.run([two], tmp_path / "out")
    assert made.runs == 3
    listed = index(tmp_path / "out")
    assert len(listed["runs"]) == 5
    assert not any(run["gone"] for run in listed["runs"])


def test_a_run_of_more_files_than_a_process_may_open_is_read(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")  # not on Windows
    data = sample("recorder-log/rank0.jsonl").read_bytes()
    for rank in range(60):
        put(tmp_path / "tree" / "job" / f"rank{rank:03}.jsonl", data)
    opened = len(list(Path("/dev/fd").iterdir()))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 30, before[1]))
    try:
        made = batch.run([tmp_path / "tree"], tmp_path / "out", archive="")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (made.runs, made.failed, made.partial) == (1, (), ())
    assert len(index(tmp_path / "out")["runs"][0]["sources"]) == 60


def test_results_of_another_batch_in_the_tree_are_not_runs(tmp_path: Path) -> None:
    root = tree(tmp_path / "tree", 3)
    first = batch.run([root], root / "old", jobs=1)
    second = batch.run([root], tmp_path / "new", jobs=1)
    assert (second.runs, second.others) == (first.runs, first.others)
    assert index(tmp_path / "new")["runs"] == index(root / "old")["runs"]
