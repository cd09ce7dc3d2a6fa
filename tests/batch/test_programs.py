"""Runs of one program make a trend, and unlike ones never do; the page shows the course of each program."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from batch_trees import put
from compare_runs import LAYERS, Launch, steps, write
from support import sample
from viewers import chromium_page

from tracekit import batch
from tracekit.model.report import Series
from tracekit.model.units import Unit
from tracekit.render.page.sparkline import spark

OTHER: tuple[Launch, ...] = (
    ("aten::embedding", "gather_rows", 4_000_000_000, 8),
    ("aten::sort", "radix_sort", 9_000_000_000, 8),
    ("aten::cumsum", "scan_blocks", 2_000_000_000, 8),
)


def run(tree: Path, name: str, number: int, layers: tuple[Launch, ...] = LAYERS, factor: float = 1.0) -> None:
    made = tree.parent / "made.parquet"
    write(made, steps(4, layers=layers, factor=factor, seed=number))
    put(tree / name / "run.parquet", made.read_bytes(), number)
    made.unlink()


def programs(out: Path) -> dict[str, str]:
    return {each["run"]: each["program"] for each in json.loads((out / "index.json").read_text())["runs"]}


def done(tree: Path) -> tuple[Path, str]:
    out = tree.parent / "out"
    batch.run([tree], out, jobs=1)
    return out, (out / "index.html").read_text(encoding="utf-8")


def test_runs_of_unlike_programs_make_no_trend_though_their_names_do(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(3):
        run(tree, f"job{number}", number, factor=1 + number / 100)
    run(tree, "job3", 3, OTHER)
    run(tree, "job4", 4, factor=1.03)
    out, page = done(tree)
    found = programs(out)
    assert len({found[f"job{n}"] for n in (0, 1, 2, 4)}) == 1
    assert found["job3"] == f"{found['job0']}, program 2"
    percentages = [float(each) for each in re.findall(r"([+-][\d.]+) %", page)]
    assert percentages
    assert max(map(abs, percentages)) < 5


def test_runs_of_unlike_formats_make_no_trend_though_their_names_do(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    names = ("recorder-log/rank0.jsonl", "theano/theano-1.0.5.txt", "kineto/gpu.pt.trace.json")
    for number, name in enumerate(names):
        put(tree / f"run{number}" / Path(name).name, sample(name).read_bytes(), number)
    out, page = done(tree)
    assert len(set(programs(out).values())) == 3
    assert 'id="trends"' not in page
    assert " %" not in page.partition('id="programs"')[2].partition('id="runs"')[0]


def test_a_program_that_changed_a_kernel_is_still_one_program(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    run(tree, "job0", 0)
    run(tree, "job1", 1, (*LAYERS[:3], ("aten::mm", "new_gemm", 250_000, 64), *LAYERS[4:]))
    out, _ = done(tree)
    assert len(set(programs(out).values())) == 1


def test_a_last_run_that_is_far_from_the_others_has_no_percentage(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number, factor in enumerate((1, 1, 1, 40)):
        run(tree, f"job{number}", number, factor=factor)
    _, page = done(tree)
    assert "40 times" in page
    assert "+3900" not in page


def test_a_failed_run_is_with_its_program_and_first_on_the_page(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(3):
        run(tree, f"job{number}", number)
    put(tree / "job3" / "session.nvprof", b"SQLite format 3\0" + bytes(50), 3)
    text = sample("kineto/gpu.pt.trace.json").read_bytes()
    put(tree / "cut4" / "gpu.pt.trace.json", text[: len(text) * 2 // 3], 4)
    out, page = done(tree)
    found = programs(out)
    assert found["job3"] == found["job0"]
    failures = page.partition('id="failed"')[2].partition("</section>")[0]
    assert re.findall(r">(failed|partial)<", failures) == ["failed", "partial"]
    assert page.index('id="failed"') < page.index('id="programs"') < page.index('id="runs"')
    assert "✕ 1 failed" in page


def test_a_cut_run_is_in_no_trend_and_named_at_the_top(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    text = sample("kineto/gpu.pt.trace.json").read_bytes()
    for number in range(4):
        cut = text if number != 3 else text[: len(text) * 2 // 3]
        put(tree / f"job{number}" / "gpu.pt.trace.json", cut + b"\n" * number, number)
    out, page = done(tree)
    facts = page.partition("<main")[0]
    assert "job3: was cut: " in facts
    assert "left out of the trends" in facts
    assert "<small>3 runs, " in page
    assert set(re.findall(r"last ([+-][\d.]+ %)", page)) == {"+0.0 %"}
    runs = {each["run"]: each for each in json.loads((out / "index.json").read_text())["runs"]}
    assert [name for name, each in runs.items() if "cut" in each] == ["job3"]
    assert runs["job3"]["status"] == "partial"


def test_results_of_an_earlier_version_are_grouped_by_name_and_format(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(2):
        run(tree, f"job{number}", number)
    out, _ = done(tree)
    for path in out.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        del result["program"]
        path.write_text(json.dumps(result))
    batch.run([tree], out, jobs=1)
    assert len(set(programs(out).values())) == 1


def test_names_that_differ_only_in_the_number_of_their_numbers_have_labels_of_their_own(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    run(tree, "job1", 0)
    run(tree, "job1-2", 1)
    out, _ = done(tree)
    assert len(set(programs(out).values())) == 2


def test_a_course_goes_through_the_known_values_and_marks_failed_runs() -> None:
    made = spark(Series("Step p50", Unit.NS, list("abcde"), [100, 110, None, 120, 90]), (2,))
    assert made.path.count("M") == 2
    assert made.path.count("L") == 2
    assert made.crosses == ("50.0",)
    heights = [100 - float(y) for _, y in made.dots]
    assert heights[3] < heights[0] < heights[1] < heights[2]
    assert made.summary == "Step p50 of 5 runs: 90 ns to 120 ns, last 90 ns; 1 failed"
    level = spark(Series("Span", Unit.NS, list("ab"), [1_000_000, 1_000_001]))
    assert abs(float(level.dots[0][1]) - float(level.dots[1][1])) < 1
    assert spark(Series("Span", Unit.NS, ["a"], [5])).dots == (("50.0", "50.0"),)


@pytest.mark.viewer
@pytest.mark.parametrize("width", [1300, 420])
@pytest.mark.parametrize("scripts", [True, False])
def test_courses_and_links_are_there_on_every_screen_without_scripts(width: int, scripts: bool, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(3):
        run(tree, f"job{number}", number)
    out, _ = done(tree)
    script = """[...document.querySelectorAll(".programs li")].map((one) => [
      one.querySelector("svg").getBoundingClientRect().width, one.querySelector(".last b").textContent,
      one.querySelector(".last a").textContent, one.querySelector("div a").hash])"""
    seen = chromium_page(out / "index.html", width=width, scripts=scripts, script=script)
    assert (seen.page_errors, seen.requests, seen.overflow_px) == ([], [], 0)
    ((wide, last, newest, trend),) = seen.value
    assert wide > 300
    assert (last, newest, trend) == ("890 us", "newest report", "#trend-1")


def titles(tree: Path) -> list[str]:
    _, page = done(tree)
    listed = page.partition('id="programs"')[2].partition('id="runs"')[0]
    return sorted(re.sub("<[^>]*>", "", each) for each in re.findall(r"<b>(.*?)</b>\n", listed))


def with_command(tree: Path, name: str, number: int, *command: str) -> None:
    head, *lines = sample("recorder-log/rank0.jsonl").read_text().splitlines(keepends=True)
    text = json.dumps(json.loads(head) | {"command": list(command)}) + "\n"
    put(tree / name / "log.jsonl", "".join([text, *lines]).encode(), number)


def test_a_program_has_the_title_of_its_command_without_interpreter_and_folder(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(2):
        with_command(tree, f"run{number}", number, "/usr/bin/python3", "-u", "/home/me/train_gpt.py", "--lr", "0.1")
    assert titles(tree) == ["train_gpt.py --lr 0.1"]


def test_commands_that_differ_in_their_options_have_the_program_as_title(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(2):
        with_command(tree, f"run{number}", number, "./bench_gemm", str(number))
    assert titles(tree) == ["bench_gemm …"]


def test_a_program_without_a_command_has_the_title_of_its_folders_and_not_of_the_word_run(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(2):
        run(tree, f"resnet50/nightly-{number}/run_{number}", number)
        run(tree, f"bert/run-{number}", 4 + number)
    assert titles(tree) == ["bert", "resnet50/nightly-…"]


def test_runs_whose_folders_have_no_word_of_their_own_are_named_from_the_first_to_the_last(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(3):
        run(tree, f"run-{number:03}", number)
    assert titles(tree) == ["run-000 to run-002"]


def test_programs_with_one_command_have_titles_of_their_own(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number, name in enumerate(("a", "b")):
        with_command(tree, name, number, "python", "train.py")
    assert titles(tree) == ["train.py (a)", "train.py (b)"]


def test_a_long_command_is_shortened_in_its_middle(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    with_command(tree, "run0", 0, "python", "train.py", *(f"--option-{n}=7" for n in range(9)), "--last")
    (title,) = titles(tree)
    assert len(title) == 48
    assert title.startswith("train.py --option-0")
    assert title.endswith("--last")
    assert "…" in title
