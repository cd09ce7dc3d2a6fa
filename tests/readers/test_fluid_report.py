"""fluid.profiler's printed reports: every line of every real one is printed again from what was read of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import claimed_alone, corpus, sample

import tracekit
from tracekit.api import inspect
from tracekit.errors import ParseError, TracekitError

FILES = (
    "paddle_fluid/fluid_report_all_default.txt",
    "paddle_fluid/fluid_report_cpu_total.txt",
    "generated/paddle18_fluid/cpu_calls_opdetail.txt",
    "generated/paddle18_fluid/cpu_max_allopdetail.txt",
    "generated/paddle18_fluid/cpu_total_default.txt",
)


def totals(path: Path) -> list[dict[str, Any]]:
    rows = tracekit.read(path).totals.to_pylist()
    for row in rows:
        row["args"] = json.loads(row["args"] or "{}")
    return rows


@pytest.mark.corpus
@pytest.mark.parametrize("name", FILES)
def test_every_event_line_is_printed_again_from_what_was_read(name: str) -> None:
    """Six digits, as C++ prints a double: total, min, max and ave of each line, its ratio and, in All, both times."""
    want: Counter[tuple[str, ...]] = Counter()
    for line in corpus(name).read_text(encoding="utf-8").splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) in (7, 9) and re.fullmatch(r"\d+", cells[1]):
            want[tuple(cells)] += 1
    got: Counter[tuple[str, ...]] = Counter()
    for row in totals(corpus(name)):
        if not row["section"].startswith("Event Summary"):
            continue
        args = row["args"]
        times = [f"{row[key] / 1e6:.6g}" for key in ("total_ns", "min_ns", "max_ns")]
        both = [
            f"{args[f'{side}_time']} ({args[f'{side}_ratio']})" for side in ("cpu", "gpu") if f"{side}_time" in args
        ]
        name_printed = row["raw_name"] or row["name"]
        mean = f"{row['avg_ns'] / 1e6:.6g}"
        got[(name_printed, str(row["calls"]), times[0], *both, *times[1:], mean, args["ratio"])] += 1
    assert got == want
    assert got.total() > 10


@pytest.mark.corpus
def test_overhead_and_facts_of_each_report_are_header_rows() -> None:
    rows = [row for row in totals(corpus(FILES[0])) if row["section"] == "header"]
    first = {row["name"]: row for row in rows if row["run"] == 0}
    assert first["Threads"]["value_text"] == "merged"
    assert first["Place"]["value_text"] == "All"
    assert first["Total time"]["total_ns"] == 56_614_500
    overhead = first["Framework overhead"]
    assert (overhead["total_ns"], overhead["args"]["percent"]) == (48_316_000, "85.342")
    assert {row["run"] for row in rows} == {0, 1}


@pytest.mark.corpus
def test_parts_of_parts_know_their_parent_and_thread() -> None:
    rows = {row["name"]: row for row in totals(corpus(FILES[3])) if row["section"] == "Event Summary, parts"}
    assert rows["mul0/compute"]["args"] == {"thread": 0, "level": 2, "parent": "mul0", "ratio": "0.0385365"}
    assert rows["mul0"]["args"]["parent"] == "mul"


@pytest.mark.corpus
def test_only_this_reader_says_yes_to_its_files_in_all_of_the_corpus() -> None:
    assert claimed_alone("fluid-report") == set(FILES)


def test_copies_and_allocations_of_a_run_on_a_gpu_are_read() -> None:
    rows = {(row["run"], row["section"], row["name"]): row for row in totals(sample("fluid-report/all.txt"))}
    assert rows[0, "GpuMemCpy Summary", "GpuMemcpy"]["calls"] == 10
    assert rows[0, "GpuMemCpy Summary, parts", "GpuMemcpyAsync"]["total_ns"] == 600_000
    memory = rows[1, "Memory Profiling Report", "Place(gpu:0):conv2d"]
    assert (memory["calls"], memory["bytes"], memory["args"]["free_calls"]) == (6, 12_500 * 1024 * 1024 // 1000, 4)
    assert rows[1, "Memory Profiling Report", "Place(cpu):Unknown"]["bytes"] == 1 << 14
    assert rows[1, "Event Summary", "conv2d"]["raw_name"] == "thread0::conv2d"
    assert rows[1, "Event Summary, parts", "conv2d/compute"]["args"]["parent"] == "conv2d"


def test_a_size_beyond_every_memory_is_dropped_and_told(tmp_path: Path) -> None:
    text = sample("fluid-report/all.txt").read_text(encoding="utf-8")
    path = tmp_path / "x.txt"
    path.write_text(text.replace("12.5 ", "9223372036854775808 "))
    trace = tracekit.read(path)
    assert trace.ledgers[0].dropped == {"bad-size": 1}
    assert trace.totals.num_rows == tracekit.read(sample("fluid-report/all.txt")).totals.num_rows - 1


def test_the_earliest_table_without_ratios_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(
        "------------------------->     Profiling Report     <-------------------------\n\nPlace: CUDA\n"
        "Sorted by total time in descending order in the same thread\n\n"
        "Event               Calls       Total       Min.        Max.        Ave.        \n"
        "thread0::elementwise add 12     1e-05       0.5         2           0.75        \n\n"
    )
    (row,) = [row for row in totals(path) if row["section"] == "Event Summary"]
    assert (row["name"], row["calls"], row["total_ns"], row["max_ns"]) == ("elementwise add", 12, 10, 2_000_000)


def test_a_report_that_is_cut_costs_its_last_line(tmp_path: Path) -> None:
    text = sample("fluid-report/paddle18-alloc.txt").read_text(encoding="utf-8")
    cut = text.index("mul1/compute") + 40
    path = tmp_path / "x"
    path.write_text(text[:cut])
    assert tracekit.read(path).ledgers[0].dropped == {"torn-row": 1}


def test_a_line_of_the_program_within_the_table_is_dropped_and_others_are_ignored(tmp_path: Path) -> None:
    text = sample("fluid-report/all.txt").read_text(encoding="utf-8")
    path = tmp_path / "x"
    path.write_text("pass 1\n" + text.replace("fetch ", "a warning\nfetch ", 1) + "done\n")
    trace = tracekit.read(path)
    assert trace.ledgers[0].dropped == {"bad-row": 1}
    assert trace.totals.num_rows == tracekit.read(sample("fluid-report/all.txt")).totals.num_rows


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "unknown"
    path.write_text(text, encoding="utf-8")
    return path


WIDE = """------------------------->     Profiling Report     <-------------------------

Place: All
Time unit: ms
Sorted by total time in descending order in the same thread

-------------------------     GpuMemCpy Summary     -------------------------

GpuMemcpy                Calls: 5           Total: 0.5         Ratio: 0.2%
  GpuMemcpyAsync         Calls: 5           Total: 0.5         Ratio: 0.2%

-------------------------       Event Summary       -------------------------

Event                  Calls       Total       CPU Time (Ratio)        GPU Time (Ratio)        Min.        Max.        \
Ave.        Ratio.
thread0::hash          7000        312345      312345.281171 (1.000000)0.000000 (0.000000)     0.182629    9.23849     \
44.6207     0.9
thread0::sum           5           34707       34707.000000 (1.000000) 0.000000 (0.000000)     0.010019    6.17422     \
6941.4      0.1
  GpuMemcpyAsync       5           0.5         0.500000 (1.000000)     0.000000 (0.000000)     0.01        0.2         \
0.1         1.4e-06
""".replace("\\\n", "")  # fmt: skip


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What rows say apart from their places in the file and the threads."""
    return [(r["section"], r["name"], r["calls"], r["total_ns"], r["avg_ns"], r["args"].get("ratio")) for r in rows]


def test_a_cell_as_wide_as_its_column_touches_the_next_one(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in totals(written(tmp_path, WIDE))}
    assert rows["hash"]["total_ns"] == 312_345_000_000
    assert rows["hash"]["args"]["gpu_time"] == "0.000000"
    assert len(rows) == 7
    assert rows["GpuMemcpyAsync"]["section"] == "Event Summary, parts"


def test_a_report_within_a_document_reads_as_the_plain_one_though_all_of_it_is_indented(tmp_path: Path) -> None:
    plain = totals(written(tmp_path, WIDE))
    document = "Results:\n\n    .. code-block:: text\n\n" + "".join(
        f"        {line}".rstrip() + "\n" for line in WIDE.splitlines()
    )
    assert told(totals(written(tmp_path, document))) == told(plain)
    assert {row["section"] for row in plain if row["args"].get("level")} == {"Event Summary, parts"}


@pytest.mark.parametrize("before", [
    "[INFO] 2020-05-11 10:22:{:02},123 trainer: ", "> ", "+", "# ", "\x1b[32m[log]\x1b[0m ", "[1,0]<stdout>:",
    "\x1b[1m",
])  # fmt: skip
def test_what_a_log_or_a_quotation_puts_before_each_line_is_taken_away(before: str, tmp_path: Path) -> None:
    lines = (f"{before.format(number)}{line}".rstrip() for number, line in enumerate(WIDE.splitlines()))
    found = written(tmp_path, "\n".join((*lines, "")))
    assert inspect(found).inputs[0]["format"] == "fluid-report"
    assert told(totals(found)) == told(totals(written(tmp_path, WIDE)))
    assert not tracekit.read(found).ledgers[0].dropped


def test_reports_that_ranks_of_a_job_write_at_once_are_told_apart(tmp_path: Path) -> None:
    other = WIDE.replace("7000  ", "7001  ").replace("thread0", "thread3")
    both = [f"[1,{r}]<stdout>:{line}\n" for two in zip(WIDE.splitlines(), other.splitlines(), strict=True)
            for r, line in enumerate(two)]  # fmt: skip
    rows = totals(written(tmp_path, "".join(both)))
    for rank, text in ((0, WIDE), (1, other)):
        mine = [row for row in rows if row["rank"] == rank]
        assert {row["run"] for row in mine} == {rank}
        assert told(mine) == told(totals(written(tmp_path, text)))


@pytest.mark.parametrize("after", ["```\n", "</code></pre>\n", '"""\n', "pass 1, loss 0.5\ndone\n"])
def test_lines_that_follow_the_last_row_at_once_are_not_of_the_table(after: str, tmp_path: Path) -> None:
    ledger = tracekit.read(written(tmp_path, WIDE + after)).ledgers[0]
    assert not ledger.dropped
    assert not ledger.notes
    assert ledger.ignored["other output"] == after.count("\n")


@pytest.mark.parametrize("where", [WIDE.index("thread0::hash"), len(WIDE)])
def test_a_first_or_last_row_that_lost_cells_is_told(where: int, tmp_path: Path) -> None:
    text = WIDE[:where] + "thread0::mul   7     0.5    0.5\n" + WIDE[where:]
    assert tracekit.read(written(tmp_path, text)).ledgers[0].dropped == {"bad-row": 1}


def test_columns_that_paddle_never_had_are_told(tmp_path: Path) -> None:
    text = WIDE.replace("Ratio.\n", "Ratio.      FLOPs.\n")
    ledger = tracekit.read(written(tmp_path, text)).ledgers[0]
    assert [note.code for note in ledger.notes.values()] == ["unknown-columns"]


def test_copies_of_a_web_page_that_lost_its_blanks_stay_parts_of_their_sum(tmp_path: Path) -> None:
    rows = totals(written(tmp_path, re.sub(" +", " ", WIDE.replace("\n ", "\n").replace(")0", ") 0"))))
    assert [r["section"] for r in rows if r["name"].startswith("Gpu")][:2] == [
        "GpuMemCpy Summary", "GpuMemCpy Summary, parts",
    ]  # fmt: skip


def test_rows_behind_output_between_blank_lines_are_read_with_a_note(tmp_path: Path) -> None:
    lines = sample("fluid-report/paddle18-alloc.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    path = tmp_path / "x.txt"
    at = next(n for n, line in enumerate(lines) if "mul0/infer_shape" in line)
    for other in ("\n", "\nuser    0m3.4s\n\n", "\nepoch 3 0.5\nstep 4 of 5 0.25 0.125\n\n"):
        path.write_text("".join((*lines[:at], other, *lines[at:])), encoding="utf-8")
        trace = tracekit.read(path)
        assert trace.totals.equals(tracekit.read(sample("fluid-report/paddle18-alloc.txt")).totals)
        assert set(trace.ledgers[0].notes) == {"table-parted"}
        assert not trace.ledgers[0].dropped


def test_text_without_a_report_is_refused_when_forced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("nothing here\n")
    with pytest.raises(ParseError):
        tracekit.read(path, format="fluid-report")


@given(data=st.data())
def test_no_damage_brings_anything_but_our_own_errors(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = sample("fluid-report/all.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        action = data.draw(st.sampled_from(["swap", "cut", "text", "number"]))
        if action == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif action == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, 200))]
        elif action == "text":
            lines[at] = data.draw(st.text(max_size=60)) + lines[at]
        else:
            odd = data.draw(st.sampled_from(["9" * 40, "-1", "inf", "nan", "1e99", ""]))
            lines[at] = re.sub(r"\d+", odd, lines[at])
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    try:
        inspect(path, format="fluid-report")
    except TracekitError:
        return
