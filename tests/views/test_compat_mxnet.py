"""The view mxnet: MXNet's trace gives the tables of its dumps(), in all five orders, and these print themselves."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from support import corpus, run_command, sample
from views.tables import Row, dicts, event_rows, on_trace, statistics, trace

import tracekit
from tracekit import pipeline
from tracekit.compat.mxnet import VIEW
from tracekit.errors import UsageError
from tracekit.model.report import ReportTable
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.render.base import RenderOptions
from tracekit.views.base import ViewOptions

ORDERS = ("total", "avg", "min", "max", "count")
FOLDER = "generated/mxnet"
OTHER = "mxnet/mxnet_1.9.1_aggregate_table.txt"


def text(of: Trace, unit: str = "", **options: Any) -> str:
    made = pipeline.summary(of, options=ViewOptions(compat="mxnet", **options))
    return pipeline.render(made, "text", RenderOptions(time_unit=unit), compat="mxnet")


def printed(path: Path, **options: Any) -> str:
    return text(tracekit.read(path), **options)


def tables(of: Trace, **options: Any) -> dict[str, ReportTable]:
    return {t.name: t for t in on_trace(VIEW)(of, ViewOptions(**options)).tables}


@pytest.mark.corpus
@pytest.mark.parametrize("key", ORDERS)
def test_the_trace_gives_the_table_of_dumps(key: str) -> None:
    want = corpus(f"{FOLDER}/mxnet_stats.{key}.txt").read_text(encoding="utf-8")
    assert printed(corpus(f"{FOLDER}/mxnet_profile.json"), sorted_by=key) == want


@pytest.mark.corpus
def test_without_a_key_the_trace_gives_the_table_by_total_as_dumps_does() -> None:
    want = corpus(f"{FOLDER}/mxnet_stats.total.txt").read_text(encoding="utf-8")
    assert printed(corpus(f"{FOLDER}/mxnet_profile.json")) == want


@pytest.mark.corpus
@pytest.mark.parametrize("name", [OTHER, *(f"{FOLDER}/mxnet_stats.{key}.txt" for key in ORDERS)])
def test_a_printed_table_prints_itself(name: str) -> None:
    assert printed(corpus(name)) == corpus(name).read_text(encoding="utf-8")


@pytest.mark.corpus
@pytest.mark.parametrize("key", ORDERS)
def test_a_printed_table_in_another_order_is_what_mxnet_prints_in_it(key: str) -> None:
    want = corpus(f"{FOLDER}/mxnet_stats.{key}.txt").read_text(encoding="utf-8")
    for other in ORDERS:
        assert printed(corpus(f"{FOLDER}/mxnet_stats.{other}.txt"), sorted_by=key) == want


@pytest.mark.corpus
@pytest.mark.parametrize("key", ORDERS)
def test_json_of_dumps_gives_the_same_table_to_its_four_digits(key: str) -> None:
    want = corpus(f"{FOLDER}/mxnet_stats.{key}.txt").read_text(encoding="utf-8").splitlines()
    got = printed(corpus(f"{FOLDER}/mxnet_stats.{key}.json")).splitlines()
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        for a, b in zip(ours.split(), theirs.split(), strict=True):
            assert a == b or float(a) == pytest.approx(float(b), rel=5e-4)


@pytest.mark.corpus
def test_json_of_a_compat_is_valid_and_has_the_figures() -> None:
    path = corpus(f"{FOLDER}/mxnet_profile.json")
    found = run_command("summary", path, "--compat", "mxnet", "--format", "json")
    made = json.loads(found.stdout)["sections"][0]["tables"]
    assert [table["name"] for table in made] == [
        "Device Storage", "MXNET_C_API", "event", "mydomain", "mydomain,frame", "mydomain,instant_marker", "operator",
    ]  # fmt: skip
    assert made[0]["rows"] == [["Memory: cpu/0", 31, 0.0, 65.536, 32.768]]
    assert ["mycounter", 2, 5000, 3000, 5000, 1000.0] in made[3]["rows"]
    assert made[5]["rows"] == []


def test_samples_print_themselves_also_from_parquet(tmp_path: Path) -> None:
    path = sample("mxnet-table/mxnet19.txt")
    assert printed(path) == path.read_text(encoding="utf-8")
    tracekit.convert(path, tmp_path / "table.parquet")
    assert printed(tmp_path / "table.parquet") == path.read_text(encoding="utf-8")


def test_invalid_json_of_an_older_mxnet_gives_its_table_in_its_unit() -> None:
    lines = printed(sample("mxnet-table/mxnet15-invalid.json")).splitlines()
    assert lines[1:6] == [
        "Profile Statistics:", "\tNote the difference in units for different entries.", "Device Storage",
        "=================",
        "Name                          Total Count    Min Use  (kb)    Max Use  (kb)    Avg Use  (kb)",
    ]  # fmt: skip
    assert 'say "hi"                                2           0.0150           0.0030           0.0120' in lines[14]


def test_several_printed_runs_stay_apart(tmp_path: Path) -> None:
    one = sample("mxnet-table/mxnet19.txt").read_text(encoding="utf-8")
    (tmp_path / "two.txt").write_text(one + one, encoding="utf-8")
    assert printed(tmp_path / "two.txt") == one + one


def test_the_command_prints_the_table_alone_and_notes_on_stderr() -> None:
    path = sample("mxnet/mxnet-1.9.1.json")
    found = run_command("summary", path, "--compat", "mxnet", "--sort", "-count")
    assert found.stdout == printed(path, sorted_by="-count")
    assert "note: MXNet prints a counter as if it were us" in found.stderr


def mxnet_run(**facts: Any) -> Run:
    return Run(origin_ns=0, sources=[SourceFacts("m", "mxnet", facts={"tool": "MXNet profiler", **facts})])


def timed(name: str, us: int, cat: str = "operator", **more: Any) -> Row:
    return {"name": name, "dur_ns": us * 1000, "kind": "operator", "args": f'{{"cat":"{cat}"}}'} | more


def counted(name: str, value: float, cat: str, ts: int = 0) -> Row:
    return {"name": name, "kind": "counter", "value": value, "ts_ns": ts, "args": f'{{"cat":"{cat}"}}'}


def test_among_equal_figures_the_last_name_stands_first_whatever_the_order() -> None:
    of = trace(*(timed(name, us) for name, us in (("a", 2), ("b", 1), ("c", 1), ("b2", 1))), run=mxnet_run())
    for key, want in (("total", ["a", "c", "b2", "b"]), ("-total", ["c", "b2", "b", "a"])):
        assert [row["name"] for row in dicts(tables(of, compat="mxnet", sorted_by=key)["operator"])] == want


def test_an_operator_counts_once_though_the_trace_has_it_as_a_task_too() -> None:
    task = timed("dot", 9, args='{"cat":"operator","id":5,"tid":5}')
    users = timed("mine", 9, args='{"cat":"mydomain","id":5,"tid":5}')
    for run, calls in ((mxnet_run(), 1), (None, 2)):
        of = trace(timed("dot", 10), task, users, run=run)
        found = {row["name"]: row["calls"] for row in dicts(tables(of)["times"])}
        assert found == {"dot": calls, "mine": 1}


def test_counters_and_memory_have_half_their_range_as_average_under_compat_only() -> None:
    values = [counted("n", v, "mydomain", t) for t, v in enumerate((7, 2, 4))]
    memory = [counted("Memory: cpu/0", v, "Device Storage", t) for t, v in enumerate((0, 65536, 32))]
    of = trace(*values, *memory, run=mxnet_run())
    upstream = tables(of, compat="mxnet")
    (row,) = dicts(upstream["mydomain"])
    assert row == {"name": "n", "count": 3, "total": 4000, "min": 2000, "max": 7000, "avg": 2000.0}
    (row,) = dicts(upstream["Device Storage"])
    assert row == {"name": "Memory: cpu/0", "count": 3, "min": 0.0, "max": 65.536, "avg": 32.768}
    right = tables(of)
    (row,) = dicts(right["counters"])
    assert (row["last"], row["min"], row["max"], row["avg"]) == (4, 2, 7, pytest.approx(13 / 3))
    (row,) = dicts(right["memory"])
    assert (row["last"], row["min"], row["max"], row["avg"]) == (32, 0, 65536, round(65568 / 3))


def test_an_older_mxnets_kb_is_a_hundred_bytes_where_the_user_says_so() -> None:
    path = sample("mxnet/mxnet-1.9.1.json")
    old = text(tracekit.read(path, options={"memory_unit": "kb"}))
    assert "Min Use  (kb)    Max Use  (kb)    Avg Use  (kb)" in old
    line = next(line for line in old.splitlines() if line.startswith("Memory: "))
    new = next(line for line in printed(path).splitlines() if line.startswith("Memory: "))
    assert float(line.split()[4]) == pytest.approx(10 * float(new.split()[4]))
    with pytest.raises(UsageError, match="memory_unit=KB"):
        tracekit.read(path, options={"memory_unit": "KB"})


def test_times_are_single_floats_and_long_names_are_not_cut() -> None:
    of = trace(timed("n" * 40, 123_456_789), run=mxnet_run())
    single = struct.unpack("f", struct.pack("f", 123456.789))[0]
    assert f"{'n' * 40}{1:>16} {single:>16.4f} " in text(of)
    assert "Time (us)" in text(of, unit="us")


def test_other_orders_and_units_are_refused() -> None:
    of = trace(timed("a", 1), run=mxnet_run())
    with pytest.raises(UsageError, match="MXNet has no such order"):
        text(of, sorted_by="name")
    with pytest.raises(UsageError, match="no unit of time"):
        text(of, unit="h")


def test_an_empty_trace_says_what_is_needed() -> None:
    for options in (ViewOptions(), ViewOptions(compat="mxnet")):
        section = on_trace(VIEW)(trace(), options)
        assert section.tables == ()
        assert section.notes[0].startswith("needs ")
    assert text(trace()) == ""


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, -1e300])
def test_counters_of_any_value_pass_all_forms(value: float) -> None:
    of = trace(counted("n", value, "d"), counted("n", 1.5, "d"), counted("m", value, "Device Storage"))
    for compat in ("", "mxnet"):
        made = pipeline.summary(of, views=["mxnet"], options=ViewOptions(compat=compat))
        for form in ("text", "json", "csv", "markdown"):
            assert "n" in pipeline.render(made, form, compat=compat)
    notes = on_trace(VIEW)(of, ViewOptions()).notes
    assert any("are no numbers" in note for note in notes) is (abs(value) == float("inf") or value != value)


def test_allocations_of_any_trace_are_memory_in_use() -> None:
    sizes = (100, 50, -100, 25)
    of = trace(
        *({"kind": "memory", "bytes": b, "ts_ns": t, "device": 1, "name": "Allocate"} for t, b in enumerate(sizes))
    )
    (row,) = dicts(tables(of)["memory"])
    assert (row["name"], row["calls"], row["last"], row["max"], row["min"]) == ("Memory: gpu/1", 4, 75, 150, 50)


def test_a_printed_table_has_no_average_of_counters() -> None:
    found = tables(tracekit.read(sample("mxnet-table/mxnet19.txt")))
    assert list(found) == ["times", "counters", "memory"]
    assert "avg" not in [column.name for column in found["counters"].columns]
    assert all(isinstance(row["max"], int) for row in dicts(found["memory"]))


@given(rows=event_rows())
def test_each_category_holds_the_statistics_of_its_rows(rows: list[Row]) -> None:
    want: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        if row["dur_ns"] is not None:
            want.setdefault((row["kind"], row["name"] or "(no name)"), []).append(max(row["dur_ns"], 0))
    of = trace(*rows)
    found = dicts(tables(of)["times"]) if want else []
    assert {(r["category"], r["name"]) for r in found} == set(want)
    for row in found:
        values = want[row["category"], row["name"]]
        assert {key: row[key] for key in statistics(values)} == statistics(values)
    upstream = tables(of, compat="mxnet")
    assert sum(r["count"] for t in upstream.values() for r in dicts(t)) == sum(map(len, want.values()))


def test_rows_that_lack_figures_are_shown_without_them() -> None:
    run = Run(sources=[SourceFacts("x.txt", "mxnet-table", facts={"sections": [[0, "operator"]]})])
    row = {"name": "a", "kind": "operator", "section": "operator", "calls": 2, "total_ns": 4_000_000}
    made = trace(totals=(row,), run=run)
    (found,) = dicts(on_trace(VIEW)(made, ViewOptions()))
    assert (found["total"], found["avg"], found["min"]) == (4_000_000, None, None)
    assert "4.0000" in text(made)
    assert text(made, sorted_by="avg") == text(made)
