"""paddle.profiler's printed tables: every line of every real one is printed again from what was read of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import claimed_alone, corpus, corpus_root, sample

import tracekit
from tracekit.api import inspect
from tracekit.errors import ParseError, TracekitError
from tracekit.model.units import TIME_EXPONENT

FOLDERS = ("generated/paddle26", "generated/paddle3", "paddle_profiler")
UNKNOWN = "- / - / - / - / -"
NOTHING = "0.00 / 0.00 / 0.00 / 0.00 / 0.00"


def files() -> list[Path]:
    """All printed files that have more than blanks: a view without rows prints nothing."""
    found = [p for folder in FOLDERS for p in sorted(corpus(folder).glob("*.txt"))]
    return [p for p in found if p.read_text(encoding="utf-8").strip()]


def totals(path: Path) -> list[dict[str, Any]]:
    rows = tracekit.read(path).totals.to_pylist()
    for row in rows:
        row["args"] = json.loads(row["args"] or "{}")
    return rows


def cell(row: dict[str, Any], *names: str) -> str:
    """Times as the table prints them: value / unit with two decimals, a dash for what is not known."""
    scale = 10 ** TIME_EXPONENT[row["args"]["time_unit"]]
    return " / ".join("-" if row[name] is None else f"{row[name] / scale:.2f}" for name in names)


def printed_again(rows: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """Name, calls and the two compound cells of each line that has such."""
    lines: dict[tuple[Any, ...], dict[str, str]] = {}
    order: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        if "percent" not in row["args"] or row["section"].startswith(("Overview", "Distribution")):
            continue
        side = "GPU" if "GPU" in row["section"] or row["section"].startswith("Kernel") else "CPU"
        title = row["section"].removesuffix(", parts").removesuffix(", GPU")
        key = (row["run"], title, row["args"].get("parent"), row["name"], row["args"].get("thread"), row["calls"])
        text = f"{cell(row, 'total_ns', 'avg_ns', 'max_ns', 'min_ns')} / {row['args']['percent']}"
        order[(*key, side)] += 1
        lines.setdefault((*key, order[(*key, side)]), {})[side] = text
    return Counter(
        (key[3], "-" if key[5] is None else str(key[5]), sides.get("CPU", UNKNOWN), sides.get("GPU", NOTHING))
        for key, sides in lines.items()
    )


def as_printed(text: str) -> Counter[tuple[str, ...]]:
    """The same read off the text in another way: cells are parted by two blanks."""
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) > 2 and cells[2].count(" / ") == 4 and cells[0] != "Name":
            gpu = cells[3] if len(cells) > 3 else ""
            both = (cells[2], gpu) if " / " in gpu else (UNKNOWN, cells[2])
            found[cells[0], cells[1], both[0], NOTHING if set(both[1].split(" / ")) <= {"0.00", "-"} else both[1]] += 1
    return found


def test_rows_behind_a_blank_line_are_told(tmp_path: Path) -> None:
    lines = sample("paddle-summary/paddle3-threads-us.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    path = tmp_path / "x.txt"
    for words in ("cast dygraph", "  Backward  "):
        at = next(n for n, line in enumerate(lines) if line.startswith(words))
        path.write_text("".join((*lines[:at], "\nuser    0m3.4s\n\n", *lines[at:])), encoding="utf-8")
        ledger = tracekit.read(path).ledgers[0]
        assert ledger.notes["table-parted"].count == ledger.ignored["rows behind a blank line"] >= 2
    assert "table-parted" not in tracekit.read(sample("paddle-summary/paddle3-threads-us.txt")).ledgers[0].notes


@pytest.mark.corpus
def test_every_line_with_compound_cells_is_printed_again_from_what_was_read() -> None:
    compared = 0
    for path in files():
        want = as_printed(path.read_text(encoding="utf-8"))
        assert printed_again(totals(path)) == want, path
        compared += want.total()
    assert compared > 2000


@pytest.mark.corpus
def test_overview_memory_and_device_tables_are_printed_again() -> None:
    compared = 0
    for path in files():
        rows = totals(path)
        want: Counter[tuple[str, ...]] = Counter()
        for line in path.read_text(encoding="utf-8").splitlines():
            cells = re.split(r"\s{2,}", line.strip())
            simple = len(cells) == 4 and re.fullmatch(r"\d+", cells[1]) and re.fullmatch(r"[\d.]+", cells[3])
            device = line.startswith("CPU(") and "Utilization =" not in line
            if simple or device or (len(cells) == 7 and cells[1] == "Allocated"):
                want[tuple(cells)] += 1
        got: Counter[tuple[str, ...]] = Counter()
        for row in rows:
            args = row["args"]
            if row["section"].startswith("Overview"):
                got[row["name"], str(row["calls"]), cell(row, "total_ns"), args["percent"]] += 1
            elif row["section"] == "Memory Summary":
                sizes = (row["calls"], args["frees"], args["allocated_bytes"], args["freed_bytes"], row["bytes"])
                got[row["name"], args["type"], *map(str, sizes)] += 1
            elif row["section"] == "Device Summary":
                got[row["name"], f"{row['value_avg']:.2f}"] += 1
        assert got == want, path
        compared += want.total()
    assert compared > 500


@pytest.mark.corpus
def test_all_printed_files_are_known_to_this_reader_alone_and_nothing_else_is() -> None:
    assert claimed_alone("paddle-summary") == {path.relative_to(corpus_root()).as_posix() for path in files()}


@pytest.mark.corpus
def test_four_reports_in_one_log_are_four_runs_and_nothing_is_dropped() -> None:
    trace = tracekit.read(corpus("paddle_profiler/paddle_2.6.2_summary.txt"))
    rows = trace.totals.to_pylist()
    assert {row["run"] for row in rows} == {0, 1, 2, 3}
    assert trace.ledgers[0].dropped == {}
    assert trace.ledgers[0].read == 569
    units = {row["run"]: json.loads(row["args"])["time_unit"] for row in rows if row["section"] == "Model Summary"}
    assert units == {0: "ms", 1: "us", 2: "s", 3: "ns"}
    operators = [row for row in rows if row["section"] == "Operator Summary"]
    threads = {row["run"]: json.loads(row["args"]).get("thread") for row in operators}
    assert threads[0] is None
    assert threads[1] is not None


@pytest.mark.corpus
def test_totals_in_ns_are_the_sums_of_the_trace_of_the_same_run() -> None:
    """Operators by name: the table in ns and the events of the tree file say the same, but for nested repeats."""
    sums: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for row in tracekit.read(corpus("generated/paddle3/all.0.pb")).events.to_pylist():
        if row["kind"] == "operator":
            sums[row["name"]] += row["dur_ns"]
            calls[row["name"]] += 1
    rows = [
        r for r in totals(corpus("generated/paddle3/all.summary.ns.op0.thr0.txt")) if r["section"] == "Operator Summary"
    ]
    assert len(rows) == len(sums)
    assert {r["name"]: (r["calls"], r["total_ns"]) for r in rows} == {n: (calls[n], sums[n]) for n in sums}


def test_tables_of_a_gpu_have_their_own_sections() -> None:
    rows = totals(sample("paddle-summary/gpu.txt"))
    by_section = {row["section"]: row for row in rows}
    kernels = [row for row in rows if row["section"] == "Kernel Summary"]
    assert sum(row["calls"] for row in kernels) == 48
    assert {row["kind"] for row in kernels} == {"kernel"}
    device = [row for row in rows if row["section"] == "Operator Summary, GPU, parts" and row["args"]["level"] == 2]
    assert len(device) == len(kernels)
    assert device[0]["args"]["parent"] == "conv2d compute"
    assert not [r for r in rows if r["section"] == "Operator Summary, parts" and r["name"] == device[0]["name"]]
    assert by_section["Operator Summary"]["args"]["flops"] == "118013952"
    assert [r["device"] for r in rows if r["section"] == "Device Summary"] == [None, None, 0]
    overview = {r["name"]: r["calls"] for r in rows if r["section"] == "Overview Summary, GPU, parts"}
    assert overview == {"Kernel": 48, "Memcpy": 10, "Memset": 3}
    assert by_section["Distribution Summary, parts"]["args"]["parent"] == "ProfileStep"
    assert by_section["Memory Manipulation Summary, GPU"]["kind"] == "memcpy"


def test_the_benchmark_is_read_with_its_units_and_an_inf_is_unknown() -> None:
    rows = {(r["section"], r["name"]): r for r in totals(sample("paddle-summary/gpu.txt"))}
    assert rows["Perf Summary", "Reader Ratio"]["value_avg"] == 0.989
    reader = rows["Perf Summary", "reader_cost"]
    assert (reader["avg_ns"], reader["max_ns"], reader["min_ns"]) == (100_000.0, 110_000, None)
    assert reader["args"]["min"] == "inf"
    batch = rows["Perf Summary", "batch_cost"]
    assert (batch["avg_ns"], batch["max_ns"], batch["min_ns"]) == (9_860_000.0, 7_980_000, 7_860_000)
    ips = rows["Perf Summary", "ips"]
    assert (ips["value_avg"], ips["value_max"], ips["unit"]) == (101.41524, 127.25977, "steps/s")
    assert rows["Benchmark", "batch_cost"]["avg_ns"] == 9_860_000.0
    assert rows["Benchmark", "ips"]["value_avg"] == 101.415


OUR_PERF = """\
============================================Perf Summary============================================
Reader Ratio: 12.500%
Time Unit: s, IPS Unit: images/s
|                 |       avg       |       max       |       min       |       p50       |       p95       |       p99       |       std       |
|   reader_cost   |     0.00100     |     0.00200     |       inf       |     0.00050     |     0.00100     |       nan       |     0.00000     |
|    batch_cost   |     0.01000     |     0.02000     |     0.00500     |     0.00900     |     0.01800     |     0.01900     |     0.00123     |
|       ips       |    100.50000    |    200.00000    |     50.00000    |     90.00000    |    180.00000    |    190.00000    |     12.50000    |
Over 30 steps; the first 10 are skipped.
"""  # noqa: E501
OUR_PERF_WITHOUT_READER = """\
============================================Perf Summary============================================
Time Unit: s, IPS Unit: steps/s
|                 |       avg       |       max       |       min       |       p50       |       p95       |       p99       |       std       |
|    batch_cost   |     0.01000     |     0.02000     |     0.00500     |     0.00900     |     0.01800     |     0.01900     |     0.00123     |
|       ips       |    100.50000    |    200.00000    |     50.00000    |     90.00000    |    180.00000    |    190.00000    |     12.50000    |
Warning: over all 3 steps: none is skipped, because there are no more than 10.
"""  # noqa: E501


def test_the_columns_that_our_own_profiler_adds_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(OUR_PERF + "the program says something\n" + OUR_PERF_WITHOUT_READER, encoding="utf-8")
    trace = tracekit.read(path)
    assert not trace.ledgers[0].dropped
    assert not trace.ledgers[0].notes
    assert trace.ledgers[0].ignored["other output"] == 1
    rows = {(r["run"], r["section"], r["name"]): r for r in totals(path)}
    cost = rows[0, "Perf Summary", "batch_cost"]
    assert [cost[k] for k in ("avg_ns", "max_ns", "min_ns", "median_ns", "std_ns")] == [
        10_000_000.0, 20_000_000, 5_000_000, 9_000_000, 1_230_000.0,
    ]  # fmt: skip
    assert cost["args"] == {"p95_ns": 18_000_000, "p99_ns": 19_000_000, "time_unit": "s"}
    assert rows[0, "Perf Summary", "ips"]["args"] == {"p50": 90.0, "p95": 180.0, "p99": 190.0, "std": 12.5}
    assert rows[0, "Perf Summary", "reader_cost"]["args"] == {
        "min": "inf", "p99": "nan", "p95_ns": 1_000_000, "time_unit": "s",
    }  # fmt: skip
    steps = rows[0, "header", "steps measured"]
    assert (steps["calls"], steps["args"]) == (30, {"skipped": 10})
    assert (rows[1, "header", "steps measured"]["calls"], rows[1, "header", "steps measured"]["args"]) == (3, {})


def test_lines_of_the_program_are_ignored_and_one_within_a_table_is_dropped(tmp_path: Path) -> None:
    text = sample("paddle-summary/paddle3-threads-us.txt").read_text(encoding="utf-8")
    before = totals(sample("paddle-summary/paddle3-threads-us.txt"))
    path = tmp_path / "x.log"
    path.write_text("epoch 1\n" + text.replace("add dygraph  ", "W1121 a warning\nadd dygraph  ", 1) + "bye\n")
    trace = tracekit.read(path)
    assert trace.ledgers[0].dropped == {"bad-row": 1}
    assert trace.totals.num_rows == len(before)


def test_the_first_version_s_tables_without_calls_and_with_a_blank_too_few_are_read(tmp_path: Path) -> None:
    """Its overview has no calls, its Model Summary begins with the whole time (profiler_statistic.py of March 2022)."""
    three, four = (f"{'  '.join('-' * width for width in widths)}  \n" for widths in ((25, 25, 25), (15, 6, 40, 40)))
    heads = ("Name", "Calls", *(f"{place} Total / Avg / Max / Min / Ratio(%)" for place in ("CPU", "GPU")))

    def row(widths: tuple[int, ...], *cells: str) -> str:
        return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)) + "  \n"

    def overview(*cells: str) -> str:
        return row((25, 25, 25), *cells)

    def model(*cells: str) -> str:
        return row((15, 6, 40, 40), *cells)

    path = tmp_path / "x"
    path.write_text("".join([
        "----------Overview Summary----------\nTime unit: ms\n", three, overview("Event Type", "CPU Time", "Ratio (%)"),
        three, overview("Total Time", "7.25", "100.00"), overview("  Forward", "3.50", "48.28"), three,
        overview("", "GPU Time", "Ratio (%)"), three, overview("  Kernel", "2.00", "27.59"), three, "\n",
        "----------Model Summary----------\nTime unit: ms\n", four, model(*heads), four,
        model("Total Time", "-", "7.25 / - / - / - / 100.00", "- / - / - / -/ -"),
        model("  Forward", "2", "3.50 / 1.75 / 2.00 / 1.50 / 48.28", "1.00 / 0.50 / 0.60 / 0.40 / 13.79"), four, "\n",
    ]))  # fmt: skip
    assert not tracekit.read(path).ledgers[0].dropped
    assert [(r["section"], r["name"], r["total_ns"], r["args"].get("parent")) for r in totals(path)] == [
        ("Overview Summary", "Total Time", 7_250_000, None),
        ("Overview Summary, parts", "Forward", 3_500_000, "Total Time"),
        ("Overview Summary, GPU, parts", "Kernel", 2_000_000, None),
        ("Model Summary", "Total Time", 7_250_000, None),
        ("Model Summary, parts", "Forward", 3_500_000, "Total Time"),
        ("Model Summary, GPU, parts", "Forward", 1_000_000, "Total Time"),
    ]


@pytest.mark.parametrize("before", [
    "[2022-08-11 10:00:{:02},123] [    INFO] - ", "+", "+  ", "> ", "    ", "[1,0]<stdout>:", "\x1b[1;32m",
])  # fmt: skip
def test_what_a_log_or_a_quotation_puts_before_each_line_is_taken_away(before: str, tmp_path: Path) -> None:
    text = sample("paddle-summary/paddle3-threads-us.txt").read_text(encoding="utf-8")
    path = tmp_path / "unknown"
    lines = (f"{before.format(number % 60)}{line}" for number, line in enumerate(text.splitlines()))
    path.write_text("".join(f"{line}\x1b[0m\n" if "\x1b" in before else f"{line.rstrip()}\n" for line in lines))
    assert inspect(path).inputs[0]["format"] == "paddle-summary"
    assert not tracekit.read(path).ledgers[0].dropped
    rank = 0 if "stdout" in before else None
    assert totals(path) == [row | {"rank": rank} for row in totals(sample("paddle-summary/paddle3-threads-us.txt"))]


def test_summaries_that_ranks_of_a_job_print_at_once_are_told_apart(tmp_path: Path) -> None:
    lines = sample("paddle-summary/paddle3-threads-us.txt").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "log"
    path.write_text("".join(f"[1,{rank}]<stdout>:{line}\n" for line in lines for rank in (4, 5)))
    rows = totals(path)
    parts = [
        [row | {"order": 0, "run": 0, "rank": 0} for row in rows if (row["rank"], row["run"]) == key]
        for key in ((4, 0), (5, 1))
    ]
    assert len(parts[0]) + len(parts[1]) == len(rows)
    assert parts[0] == parts[1]


@pytest.mark.parametrize("after", ["```", "</pre>", '"""'])
def test_a_quotation_that_ends_without_the_last_rule_ends_the_table(after: str, tmp_path: Path) -> None:
    text = sample("paddle-summary/paddle3-threads-us.txt").read_text(encoding="utf-8")
    row = text.index("matmul dygraph")
    cut = text.index("\n", row) + 1
    path = tmp_path / "x.md"
    path.write_text(f"{text[:cut]}{after}\nwords  3  0.1\n")
    ledger = tracekit.read(path).ledgers[0]
    assert not ledger.dropped
    assert ledger.ignored["other output"] == 2


def test_a_step_line_may_follow_the_words_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("[Train] step 10: batch_cost: 0.00986 s ips: 101.415 samples/s\n[Train] loss 3 ips: 3\n")
    rows = totals(path)
    assert [(r["name"], r["args"]["text"]) for r in rows] == [
        ("batch_cost", "[Train] step 10:"),
        ("ips", "[Train] step 10:"),
    ]


def test_a_table_that_is_cut_costs_its_last_line(tmp_path: Path) -> None:
    text = sample("paddle-summary/paddle3-threads-us.txt").read_text(encoding="utf-8")
    cut = text.index("matmul dygraph") + 70
    path = tmp_path / "x.log"
    path.write_text(text[:cut])
    trace = tracekit.read(path)
    assert trace.ledgers[0].dropped == {"torn-row": 1}
    assert trace.totals.num_rows > 20


def test_a_thread_s_line_without_a_rule_before_it_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "x"
    step = " batch_cost: 0.00986 s ips: 101.415 steps/s\n"
    path.write_text(f"{step}-----Operator Summary-----\n-----Thread: 7-----\nadd  1  2\n")
    trace = tracekit.read(path)
    assert trace.totals.num_rows == 2
    assert trace.ledgers[0].dropped == {"bad-row": 1}


def test_text_without_tables_is_refused_when_forced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("nothing here\n")
    with pytest.raises(ParseError):
        tracekit.read(path, format="paddle-summary")


@given(data=st.data())
def test_no_damage_brings_anything_but_our_own_errors(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = sample("paddle-summary/gpu.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(lines) - 1))
        action = data.draw(st.sampled_from(["drop", "swap", "cut", "text", "number"]))
        other = data.draw(st.integers(0, len(lines) - 1))
        if action == "drop" and len(lines) > 1:
            del lines[at]
        elif action == "swap":
            lines[at], lines[min(other, len(lines) - 1)] = lines[min(other, len(lines) - 1)], lines[at]
        elif action == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, 200))]
        elif action == "text":
            lines[at] = data.draw(st.text(max_size=60)) + lines[at]
        else:
            lines[at] = re.sub(
                r"\d+", data.draw(st.sampled_from(["9" * 40, "-1", "inf", "nan", "1e99", ""])), lines[at]
            )
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    try:
        inspect(path, format="paddle-summary")
    except TracekitError:
        return
