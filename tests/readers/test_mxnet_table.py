"""MXNet's printed sums: table and JSON of one run agree, every figure is printed again, counters are no times."""

from __future__ import annotations

import json
import re
import struct
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

ORDERS = ("avg", "count", "max", "min", "total")
TABLES = ("mxnet/mxnet_1.9.1_aggregate_table.txt", *(f"generated/mxnet/mxnet_stats.{o}.txt" for o in ORDERS))
JSONS = ("mxnet/mxnet_1.9.1_aggregate.json", *(f"generated/mxnet/mxnet_stats.{o}.json" for o in ORDERS))


def totals(path: Path) -> list[dict[str, Any]]:
    rows = tracekit.read(path).totals.to_pylist()
    for row in rows:
        row["args"] = json.loads(row["args"] or "{}")
    return rows


def figures(row: dict[str, Any]) -> list[float]:
    """The numbers of a line as MXNet prints them: ms, thousandths of a counter, or its unit of memory."""
    if row["kind"] == "memory":
        return [row["value_min"], row["value_max"], row["value_avg"]]
    if row["kind"] == "counter":
        return [v / 1000 for v in (row["args"]["last"], row["value_min"], row["value_max"], row["value_avg"])]
    return [row[key] / 1e6 for key in ("total_ns", "min_ns", "max_ns", "avg_ns")]


@pytest.mark.corpus
@pytest.mark.parametrize("name", TABLES)
def test_every_line_of_a_table_is_printed_again(name: str) -> None:
    want: Counter[tuple[str, ...]] = Counter()
    for line in corpus(name).read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(r"(.+?)\s+(\d+)((?:\s+\d+\.\d{4}){3,4})", line)
        if found:
            want[(found[1], found[2], *found[3].split())] += 1
    got = Counter((r["name"], str(r["calls"]), *(f"{v:.4f}" for v in figures(r))) for r in totals(corpus(name)))
    assert got == want
    assert got.total() >= 17


@pytest.mark.corpus
@pytest.mark.parametrize("name", JSONS)
def test_every_figure_of_a_json_is_printed_again(name: str) -> None:
    want: Counter[tuple[Any, ...]] = Counter()
    for top, domains in json.loads(corpus(name).read_bytes()).items():
        for domain, names in domains.items() if top != "Unit" else ():
            for entry, values in names.items():
                keys = ("Total", "Min", "Max", "Avg") if top == "Time" else ("Min", "Max", "Avg")
                want[(domain, entry, values["Count"], *(f"{values[k]:.4g}" for k in keys))] += 1
    got = Counter(
        (r["section"], r["name"], r["calls"], *(f"{v:.4g}" for v in figures(r))) for r in totals(corpus(name))
    )
    assert got == want


@pytest.mark.corpus
@pytest.mark.parametrize("order", ORDERS)
def test_table_and_json_of_one_run_agree_to_the_digits_of_the_json(order: str) -> None:
    table = {(r["section"], r["name"]): r for r in totals(corpus(f"generated/mxnet/mxnet_stats.{order}.txt"))}
    other = {(r["section"], r["name"]): r for r in totals(corpus(f"generated/mxnet/mxnet_stats.{order}.json"))}
    assert table.keys() == other.keys()
    for key, row in table.items():
        assert row["kind"] == other[key]["kind"]
        assert figures(row) == pytest.approx(figures(other[key]), rel=1e-3, abs=6e-5)


@pytest.mark.corpus
def test_counters_are_told_from_times_and_the_user_hears_of_it() -> None:
    trace = tracekit.read(corpus(TABLES[0]))
    counters = {r["name"]: r for r in trace.totals.to_pylist() if r["kind"] == "counter"}
    assert counters.keys() == {"MXNet C API Calls", "MXNet C API Concurrency", "cnt"}
    assert (counters["cnt"]["value_min"], counters["cnt"]["value_max"], counters["cnt"]["total_ns"]) == (0, 6, None)
    assert json.loads(counters["MXNet C API Calls"]["args"]) == {"last": 388}
    assert "counters-as-times" in trace.ledgers[0].notes


@pytest.mark.corpus
def test_memory_keeps_the_printed_numbers_and_their_unit() -> None:
    (row,) = [r for r in totals(corpus(TABLES[0])) if r["kind"] == "memory"]
    assert (row["value_min"], row["value_max"], row["value_avg"], row["unit"]) == (0.032, 592.548, 296.258, "kB")
    assert row["bytes"] is None


@pytest.mark.corpus
def test_only_this_reader_says_yes_to_its_files_in_all_of_the_corpus() -> None:
    assert claimed_alone("mxnet-table") == {*TABLES, *JSONS}


def test_invalid_json_of_an_older_mxnet_is_read_line_by_line() -> None:
    trace = tracekit.read(sample("mxnet-table/mxnet15-invalid.json"))
    assert [(r["name"], r["calls"]) for r in trace.totals.to_pylist()] == [
        ("FullyConnected", 6),
        ('say "hi"', 2),
        ("Memory: cpu/0", 31),
    ]
    assert trace.totals.column("unit")[2].as_py() == "kb"
    assert "bad-json" in trace.ledgers[0].notes


def test_json_on_one_line_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_text(json.dumps(json.loads(sample("mxnet-table/mxnet19.json").read_bytes())))
    assert totals(path) == totals(sample("mxnet-table/mxnet19.json"))


def test_names_with_blanks_and_long_names_are_whole(tmp_path: Path) -> None:
    text = sample("mxnet-table/mxnet19.txt").read_text(encoding="utf-8")
    path = tmp_path / "x"
    path.write_text(text.replace("softmax                  ", "a name of several words, longer than its column "))
    assert "a name of several words, longer than its column" in {r["name"] for r in totals(path)}


def test_several_dumps_in_one_log_are_several_runs(tmp_path: Path) -> None:
    text = sample("mxnet-table/mxnet19.txt").read_text(encoding="utf-8")
    path = tmp_path / "x"
    path.write_text(f"epoch 0\n{text}epoch 1\n{text}")
    trace = tracekit.read(path)
    assert Counter(trace.totals.column("run").to_pylist()) == {0: 17, 1: 17}
    assert trace.ledgers[0].dropped == {}


OLD = """
Profile Statistics.
\tNote that counter items are counter values and not time units.
Device Storage
=================
Name                          Total Count        Time (ms)    Min Time (ms)    Max Time (ms)    Avg Time (ms)
----                          -----------        ---------    -------------    -------------    -------------
Memory: gpu/0                           2         800.0000         400.0000         400.0000         400.0000
Memory: cpu/0                           4           7.0000           0.0000          90.5000          45.2500

operator
=================
Name                          Total Count        Time (ms)    Min Time (ms)    Max Time (ms)    Avg Time (ms)
----                          -----------        ---------    -------------    -------------    -------------
Pooling                                 4           2.0000           0.1000           1.0000           0.5000

"""


def test_the_title_of_older_tables_begins_a_run_and_their_memory_is_no_time(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(f"# CPU\n```{OLD}```\n# GPU\n```{OLD.rstrip()}\n```\n")
    trace = tracekit.read(path)
    assert not trace.ledgers[0].dropped
    rows = totals(path)
    assert [(r["run"], r["name"], r["kind"], r["total_ns"]) for r in rows] == [
        (run, *row) for run in (0, 1) for row in (
            ("Memory: gpu/0", "memory", None), ("Memory: cpu/0", "memory", None), ("Pooling", "operator", 2_000_000),
        )
    ]  # fmt: skip
    assert [(r["value_min"], r["value_max"], r["unit"], r["args"]["last"]) for r in rows[:2]] == [
        (400.0, 400.0, "kB", 800.0), (0.0, 90.5, "kB", 7.0),
    ]  # fmt: skip
    assert set(trace.ledgers[0].notes) == {"memory-as-times"}


@pytest.mark.parametrize("before", ["> ", "    ", "INFO:root:12:", "[1,3]<stdout>:"])
def test_what_a_log_or_a_quotation_puts_before_each_line_is_taken_away(before: str, tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_text("".join(f"{before}{line}".rstrip() + "\n" for line in OLD.splitlines()))
    assert inspect(path).inputs[0]["format"] == "mxnet-table"
    rows = totals(path)
    assert [(r["section"], r["name"]) for r in rows] == [
        ("Device Storage", "Memory: gpu/0"), ("Device Storage", "Memory: cpu/0"), ("operator", "Pooling"),
    ]  # fmt: skip
    assert {r["rank"] for r in rows} == {3 if "stdout" in before else None}


@pytest.mark.parametrize("broken", [False, True])
def test_json_that_a_program_printed_twice_is_two_runs(broken: bool, tmp_path: Path) -> None:
    """The broken form is what 1.5 wrote: a comma too many, a brace too few."""
    entry = {"Count": 2, "Total": 3.0, "Min": 1.0, "Max": 2.0, "Avg": 1.5}
    text = json.dumps(
        {"Time": {"operator": {"dot": entry}}, "Memory": {}, "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4
    )
    if broken:
        text = text.replace('"kB"', '"kb",')[: text.rindex("}") + 1]
    path = tmp_path / "unknown"
    path.write_text(f"epoch 0\nINFO:root:{text}\nepoch 1\n{text}\n\ndone\n")
    assert inspect(path).inputs[0]["format"] == "mxnet-table"
    assert [(r["run"], r["name"], r["calls"], r["total_ns"]) for r in totals(path)] == [
        (0, "dot", 2, 3_000_000), (1, "dot", 2, 3_000_000),
    ]  # fmt: skip
    ledger = tracekit.read(path).ledgers[0]
    assert (ledger.kept, "bad-json" in ledger.notes) == (2, broken)
    assert ledger.read == ledger.accounted()
    if not broken:
        assert ledger.ignored == {"other output": 4}  # three lines, and the words before a brace


def test_times_of_a_long_run_are_times_though_single_precision_rounds_them(tmp_path: Path) -> None:
    def single(us: float) -> float:
        return float(struct.unpack("f", struct.pack("f", us / 1000))[0])

    spent = (33_333_001, 40_000_123, 26_667_009)
    cells = (sum(spent), min(spent), max(spent), sum(spent) / 3)
    row = f"{'epoch':<25}{3:>16} " + " ".join(f"{single(cell):>16.4f}" for cell in cells)
    path = tmp_path / "x"
    path.write_text(OLD.replace("Pooling", f"{row}\nPooling"))
    found = {r["name"]: r for r in totals(path)}["epoch"]
    assert found["kind"] == "operator"
    assert abs(found["total_ns"] - sum(spent) * 1000) < 8_000


def test_entries_without_all_figures_and_torn_ones_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    whole = {"Count": 1, "Total": 1, "Min": 1, "Max": 1, "Avg": 1}
    path.write_text(json.dumps({"Time": {"operator": {"a": {"Count": 1}, "b": whole}}}))
    assert tracekit.read(path).ledgers[0].dropped == {"bad-row": 1}
    text = sample("mxnet-table/mxnet19.json").read_text(encoding="utf-8")
    path.write_text(text[: text.index('"relu"') + 60])
    assert tracekit.read(path).ledgers[0].dropped == {"torn-row": 1}


@pytest.mark.parametrize(
    ("stated", "unit"), [("", "kb"), ("MB", "MB"), (None, "None"), ("kB", "kB"), ("\ud800", "\\ud800")]
)
def test_memory_of_any_stated_unit_is_memory(tmp_path: Path, stated: object, unit: str) -> None:
    path = tmp_path / "x.json"
    entry = {"Device Storage": {"Memory: cpu/0": {"Count": 3, "Min": 0, "Max": 65.5, "Avg": 32.75}}}
    path.write_text(json.dumps({"Memory": entry, "Unit": {"Time": "ms", "Memory": stated}}))
    (row,) = totals(path)
    assert (row["kind"], row["calls"], row["value_max"], row["unit"]) == ("memory", 3, 65.5, unit)


def test_halves_of_characters_in_names_stay_as_escapes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    entry = {"Count": 1, "Total": 1, "Min": 1, "Max": 1, "Avg": 1}
    path.write_text(json.dumps({"Time": {"op\ud800": {"a\udfffb": entry}}, "Unit": {"Time": "ms", "Memory": "kB"}}))
    (row,) = totals(path)
    assert (row["section"], row["name"]) == ("op\\ud800", "a\\udfffb")


def test_a_size_beyond_every_number_is_shown_as_none(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    entry = {"Device Storage": {"Memory: cpu/0": {"Count": 3, "Min": 0, "Max": 1e308, "Avg": 1}}}
    path.write_text(json.dumps({"Memory": entry, "Unit": {"Time": "ms", "Memory": "kB"}}))
    (table,) = tracekit.view(tracekit.read(path), "mxnet").tables
    assert {c.name: c.values for c in table.columns}["max"] == [None]


def test_text_without_statistics_is_refused_when_forced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("nothing here\n")
    with pytest.raises(ParseError):
        tracekit.read(path, format="mxnet-table")


@pytest.mark.parametrize("name", ["mxnet19.txt", "mxnet15-invalid.json", "mxnet19.json"])
@given(data=st.data())
def test_no_damage_brings_anything_but_our_own_errors(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = sample(f"mxnet-table/{name}").read_text(encoding="utf-8").splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        action = data.draw(st.sampled_from(["cut", "text", "number", "drop"]))
        if action == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, 100))]
        elif action == "text":
            lines[at] = data.draw(st.text(max_size=40)) + lines[at]
        elif action == "number":
            odd = data.draw(st.sampled_from(["9" * 40, "-1", "inf", "1e99", "", "null", "[]"]))
            lines[at] = re.sub(r"\d+", odd, lines[at])
        else:
            lines[at] = ""
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    try:
        inspect(path, format="mxnet-table")
    except TracekitError:
        return


@pytest.mark.parametrize("layout", [None, 2])
def test_one_lost_character_costs_one_entry(tmp_path: Path, layout: int | None) -> None:
    text = sample("mxnet-table/mxnet19.json").read_text("utf-8")
    if layout is not None:
        text = json.dumps(json.loads(text), indent=layout)
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")
    whole = len(tracekit.read(path).totals)
    inner = text.index("{", text.index('"Time"')) + 1
    for at in [at for at, each in enumerate(text) if at >= inner and each in '"{}:,'][::3]:
        path.write_text(text[:at] + text[at + 1 :], "utf-8")
        trace = tracekit.read(path)
        lost = whole - len(trace.totals)
        assert lost == sum(trace.ledgers[0].dropped.values()) <= 1
        assert bool(trace.incomplete) == bool(lost)


@pytest.mark.parametrize("layout", [None, 0])
def test_entries_that_no_layout_shows_are_told(tmp_path: Path, layout: int | None) -> None:
    text = json.dumps(json.loads(sample("mxnet-table/mxnet19.json").read_bytes()), indent=layout)
    path = tmp_path / "x.json"
    for at in [at for at, each in enumerate(text) if each in '"{}' and at > 60][::9]:
        path.write_text(text[:at] + text[at + 1 :], "utf-8")
        try:
            trace = tracekit.read(path)
        except ParseError:
            continue
        lost = 17 - len(trace.totals)
        assert sum(trace.ledgers[0].dropped.values()) >= lost
        assert bool(trace.incomplete) >= bool(lost)
