"""Tables by rank, host and parallel group: each holds what the tables of single ranks hold, figure by figure."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, sample
from views.tables import Row, dicts, event_rows, trace

import tracekit
from benchmarks.truth.cluster import simulate, write_kineto
from tracekit import pipeline
from tracekit.errors import UsageError
from tracekit.index.topology import parse
from tracekit.inputs.selection import Selection
from tracekit.model.report import ReportTable, Section
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.render.page.data import page_report
from tracekit.views.base import ViewOptions
from tracekit.views.by_group import WHOLE, spread

VIEWS = tuple(name for name in pipeline.TABLE_VIEWS if name not in WHOLE)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("cluster")
    cluster = simulate(11, hosts=2, ranks_per_host=2, collectives=30, seconds=2.0, lose=True)
    return {
        "cluster": write_kineto(cluster, folder),
        "gloo": [corpus(f"generated/torch/ddp_rank{rank}.pt.trace.json") for rank in (0, 1)],
        "recorder": [sample(f"recorder-log/rank{rank}.jsonl") for rank in (0, 1)],
        "two ranks in one log": [sample("nvprof-csv/mpirun-tag-output.csv")],
        "totals": [sample("singa/verbosity-3-two-ranks.txt")],
    }


@cache
def whole(paths: tuple[Path, ...]) -> Trace:
    return tracekit.read(list(paths))


@cache
def of_rank(paths: tuple[Path, ...], rank: int) -> Trace:
    return tracekit.read(list(paths), selection=Selection(ranks=frozenset({rank})))


def ranks_of(made: Trace) -> list[int]:
    found = {*made.events.column("rank").to_pylist(), *made.totals.column("rank").to_pylist()} - {None}
    return sorted(found)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("case", ["cluster", "gloo", "recorder", "two ranks in one log", "totals"])
def test_the_table_of_each_rank_is_that_of_the_rank_alone(case: str, name: str, run: dict[str, list[Path]]) -> None:
    paths = tuple(run[case])
    every = pipeline.view(whole(paths), name, ViewOptions(by="rank", each=True))
    compared = pipeline.view(whole(paths), name, ViewOptions(by="rank"))
    alone = {rank: pipeline.view(of_rank(paths, rank), name) for rank in ranks_of(whole(paths))}
    assert len(alone) > 1
    titles = {table.name: table for table in every.tables}
    assert set(titles) == {table.name for section in alone.values() for table in section.tables}
    for table_name, table in titles.items():
        rows = dicts(table)
        for rank, section in alone.items():
            own = [t for t in section.tables if t.name == table_name]
            mine = [{k: v for k, v in row.items() if k != "by"} for row in rows if row["by"] == f"rank {rank}"]
            wanted = dicts(own[0]) if own else []
            assert [{k: row[k] for k in wanted[0]} for row in mine] == wanted if wanted else not mine
            assert all(row[k] is None for row in mine for k in set(row) - set(wanted[0]))
    check_spread(compared, {f"rank {rank}": section for rank, section in alone.items()})


def check_spread(compared: Section, alone: dict[str, Section]) -> None:
    """Compute median, min and max again with pandas, from the tables of single groups."""
    for table in compared.tables:
        base = table.name.rsplit("_by_", 1)[0]
        names = [c.name for c in table.columns][: [c.name for c in table.columns].index("measure")]
        tables = {label: t for label, s in alone.items() for t in s.tables if t.name == base and len(t)}
        titles = {c.title: c.name for t in tables.values() for c in t.columns if c.unit is table.column("median").unit}
        for row in dicts(table):
            key = {name: row[name] for name in names}
            values = {}
            for label, own in tables.items():
                frame = pd.DataFrame(dicts(own), dtype=object)
                for name, cell in key.items():
                    column = frame[name] if name in frame else pd.Series([None] * len(frame), dtype=object)
                    frame = frame[column.isna() if cell is None else column == cell]
                found = [] if titles[row["measure"]] not in frame else frame[titles[row["measure"]]].dropna().tolist()
                if "level" in frame and base != "modules":  # there, rows below a row are no details
                    found = found[:1] if (frame["level"] == 0).any() else []
                values |= {label: found[0]} if found else {}
            series = pd.Series(values)
            assert row["groups"] == len(series)
            assert row["median"] == series.quantile(0.5, interpolation="lower"), (table.name, row)
            assert (row["min"], row["max"]) == (series.min(), series.max())
            assert (row["min_at"], row["max_at"]) == (series.astype(float).idxmin(), series.astype(float).idxmax())
            assert table.column("median").unit is not None


@pytest.mark.parametrize("name", ["kernel", "overview", "api", "distributed", "ranks", "breakdown"])
@pytest.mark.parametrize(("by", "of"), [("tp", {0: [0, 1], 1: [2, 3]}), ("dp", {0: [0, 2], 1: [1, 3]})])
def test_the_tables_of_a_parallel_group_are_those_of_its_ranks(
    by: str, of: dict[int, list[int]], name: str, run: dict[str, list[Path]]
) -> None:
    paths = run["cluster"]
    options = ViewOptions(by=by, each=True, topology=parse("tp=2,dp=2"))
    every = pipeline.view(whole(tuple(paths)), name, options)
    assert every.tables
    for group, ranks in of.items():
        alone = pipeline.view(tracekit.read(paths, selection=Selection(ranks=frozenset(ranks))), name)
        for table in alone.tables:
            (found,) = [t for t in every.tables if t.name == table.name]
            mine = [row for row in dicts(found) if row["by"] == f"{by} group {group}"]
            wanted = dicts(table)
            keys = [key for key in wanted[0] if key != "dimension"]
            assert [[row[key] for key in keys] for row in mine] == [[row[key] for key in keys] for row in wanted]


@given(
    cells=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(-(2**62), 2**62)), min_size=1, max_size=40
    )
)
def test_median_least_and_most_are_those_of_sorted_lists(cells: list[tuple[int, int, int]]) -> None:
    once = {(row, group): value for row, group, value in cells}
    rows = sorted({row for row, _ in once})
    made = spread(
        np.array([rows.index(row) for row, _ in once]),
        np.array([group for _, group in once]),
        np.array(list(once.values()), np.int64),
        len(rows),
    )
    for place, row in enumerate(rows):
        own = sorted((value, group) for (r, group), value in once.items() if r == row)
        values = [value for value, _ in own]
        assert made.groups[place] == len(own)
        assert made.median[place] == values[math.ceil(len(own) / 2) - 1]
        assert (made.least[place], made.least_at[place]) == own[0]
        assert made.most[place] == values[-1]
        assert made.most_at[place] == min(group for value, group in own if value == values[-1])


@given(rows=event_rows())
def test_no_row_vanishes_and_groups_of_one_add_up_to_the_whole(rows: list[Row]) -> None:
    made = trace(*rows, run=Run(origin_ns=0, sources=[SourceFacts(f"{n}.json", "kineto") for n in "abc"]))
    every = pipeline.view(made, "overview", ViewOptions(by="rank", each=True))
    assert sum(row["calls"] for table in every.tables for row in dicts(table)) == len(rows)
    apart = {row["by"] for table in every.tables for row in dicts(table)}
    assert not any(not label for label in apart)


def two_hosts() -> Trace:
    sources = [
        SourceFacts(f"rank{rank}.json", "kineto", facts={"host_name": f"node{rank // 2}", "distributedInfo": {
            "rank": rank, "world_size": 5, "pg_config": [
                {"pg_name": "0", "pg_desc": "default_pg", "ranks": []},
                {"pg_name": "1", "pg_desc": "mesh_tp", "ranks": [rank // 2 * 2, rank // 2 * 2 + 1]},
                {"pg_name": "2", "pg_desc": "DATA_PARALLEL_GROUP", "ranks": [rank % 2, rank % 2 + 2]},
            ],
        }})
        for rank in range(4)
    ]  # fmt: skip
    rows = [
        {"ts_ns": 10 * i, "dur_ns": 10 ** rank, "name": name, "rank": rank, "source": rank, "device": 0}
        for rank in range(4) for i, name in enumerate(("gemm", "relu") if rank else ("gemm",))
    ]  # fmt: skip
    return trace(*rows, run=Run(origin_ns=0, sources=sources))


def table_of(made: Trace, options: ViewOptions, view: str = "kernel") -> ReportTable:
    return pipeline.view(made, view, options).tables[0]


def test_rows_that_some_ranks_lack_count_the_ranks_that_have_them() -> None:
    section = pipeline.view(two_hosts(), "kernel", ViewOptions(by="rank"))
    assert [
        (r["name"], r["measure"], r["groups"], r["median"], r["min"], r["min_at"], r["max"], r["max_at"])
        for r in dicts(section)
    ] == [
        ("relu", "Total", 3, 100, 10, "rank 1", 1000, "rank 3"),
        ("gemm", "Total", 4, 10, 1, "rank 0", 1000, "rank 3"),
    ]
    assert section.tables[0].name == "kernels_by_rank_time"
    assert "4 of 5 ranks: the others are not in the trace (rank 4)" in section.notes


def test_ranks_of_a_host_are_added_up() -> None:
    found = dicts(table_of(two_hosts(), ViewOptions(by="host", each=True, sorted_by="total")))
    assert [(r["by"], r["name"], r["calls"], r["total"]) for r in found] == [
        ("node0", "gemm", 2, 11), ("node0", "relu", 1, 10), ("node1", "gemm", 2, 1100), ("node1", "relu", 2, 1100),
    ]  # fmt: skip


def test_parallel_groups_are_read_from_the_process_groups_of_the_files() -> None:
    section = pipeline.view(two_hosts(), "kernel", ViewOptions(by="dp", each=True))
    assert {(r["by"], r["name"], r["total"]) for r in dicts(section)} == {
        ("dp group 0", "gemm", 101), ("dp group 0", "relu", 100),
        ("dp group 1", "gemm", 1010), ("dp group 1", "relu", 1010),
    }  # fmt: skip
    assert "dp group 0: rank 0, 2; dp group 1: rank 1, 3" in section.notes
    places = {
        r["by"]: r["total"] for r in dicts(table_of(two_hosts(), ViewOptions(by="tp-rank", each=True), "overview"))
    }
    assert places == {"tp rank 0": 201, "tp rank 1": 2020}


def test_a_topology_that_contradicts_the_files_is_used_and_said() -> None:
    made = two_hosts()
    for source in made.run.sources:
        source.facts["distributedInfo"]["world_size"] = 4
    section = pipeline.view(made, "kernel", ViewOptions(by="tp", topology=parse("tp=2,dp=2,order=dp-tp")))
    assert (
        "--topology tp=2,dp=2,order=dp-tp has ranks 0, 2 as one tp group, the process groups of the files have ranks "
        "0, 1: the tables use --topology"
    ) in section.notes
    agreeing = pipeline.view(made, "kernel", ViewOptions(by="tp", topology=parse("tp=2,dp=2")))
    assert not any("process groups" in note for note in agreeing.notes)


@pytest.mark.parametrize(
    ("by", "topology", "said"),
    [
        ("tp", "tp=2,dp=3", "tp 2 x dp 3 = 6 ranks, and the run has 5"),
        ("pp", "", "by pp: the files do not say the pp groups"),
        ("hots", "", "by hots: no such dimension; did you mean host?"),
        ("tp", "tp=2", "tp 2 ranks do not divide the 5 of the run"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(by: str, topology: str, said: str) -> None:
    with pytest.raises(UsageError, match="^.*" + said.replace("?", r"\?")):
        pipeline.view(two_hosts(), "kernel", ViewOptions(by=by, topology=parse(topology) if topology else None))


def test_ranks_whose_group_is_not_known_are_shown_and_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    path.write_text("rank,tp\n0,0\n1,1\n")
    options = ViewOptions(by="tp", topology=parse(str(path)))
    section = pipeline.view(two_hosts(), "overview", options)
    total = next(row for table in section.tables for row in dicts(table) if row["measure"] == "Total")
    assert (total["groups"], total["max"], total["max_at"]) == (1, 21, "tp group 0")
    assert "tp group 0: rank 0, 1; tp not known: rank 2, 3" in section.notes
    assert any("compared: 1 tp group, without the rows of tp not known" in note for note in section.notes)
    each = dicts(table_of(two_hosts(), ViewOptions(by="tp", each=True, topology=options.topology), "overview"))
    assert {(row["by"], row["total"]) for row in each} == {("tp group 0", 21), ("tp not known", 2200)}


def test_inputs_that_name_no_rank_are_groups_of_their_own() -> None:
    rows: list[Row] = [{"dur_ns": 5, "name": "k", "source": 0, "rank": 1}, {"dur_ns": 7, "name": "k", "source": 1}]
    made = trace(*rows, run=Run(origin_ns=0, sources=[SourceFacts("a.json", "f"), SourceFacts("b.json", "f")]))
    found = dicts(table_of(made, ViewOptions(by="rank", each=True)))
    assert {(r["by"], r["total"]) for r in found} == {("rank 1", 5), ("b.json (no rank)", 7)}


def test_the_same_rank_on_two_hosts_is_two() -> None:
    sources = [SourceFacts(f"{host}.json", "f", facts={"host": host}) for host in ("a", "b")]
    rows: list[Row] = [{"dur_ns": 5 + s, "name": "k", "source": s, "rank": 0} for s in (0, 1)]
    found = dicts(table_of(trace(*rows, run=Run(origin_ns=0, sources=sources)), ViewOptions(by="rank", each=True)))
    assert {(r["by"], r["total"]) for r in found} == {("a.json · rank 0", 5), ("b.json · rank 0", 6)}
    same = [SourceFacts(f"{n}.json", "f", facts={"host": "a"}) for n in "ab"]
    one = dicts(table_of(trace(*rows, run=Run(origin_ns=0, sources=same)), ViewOptions(by="rank", each=True)))
    assert [(r["by"], r["total"]) for r in one] == [("rank 0", 11)]


def test_the_figure_of_a_group_is_the_median_over_its_devices() -> None:
    rows = [
        {"ts_ns": 0, "dur_ns": 10 * rank + 10 * (rank == 5), "name": "k", "rank": rank, "source": rank, "device": 0}
        for rank in range(6)
    ]  # fmt: skip
    rows += [{"ts_ns": 1000, "dur_ns": 0, "name": "end", "kind": "mark", "rank": r, "source": r} for r in range(6)]
    sources = [SourceFacts(f"{r}.json", "f", facts={"host": "ab"[r // 3]}) for r in range(6)]
    made = trace(*rows, run=Run(origin_ns=0, sources=sources))
    section = pipeline.view(made, "breakdown", ViewOptions(by="host"))
    (compute, *_) = dicts(section)
    assert (compute["measure"], compute["groups"]) == ("Compute", 2)
    assert (compute["min"], compute["min_at"], compute["max"], compute["max_at"]) == (10, "a", 40, "b")
    said = "Breakdown of device time, of the run: of several rows (device, source) of a host the median is its figure"
    assert said in section.notes


def test_sort_chooses_the_figure() -> None:
    (row, other) = dicts(table_of(two_hosts(), ViewOptions(by="rank", sorted_by="calls")))
    assert (row["measure"], row["median"], row["name"], other["name"]) == ("Calls", 1, "gemm", "relu")
    assert len(table_of(two_hosts(), ViewOptions(by="rank", top=1))) == 1
    assert table_of(two_hosts(), ViewOptions(by="rank", top=1)).omitted == 1


def test_lists_of_single_events_have_no_spread(run: dict[str, list[Path]]) -> None:
    section = pipeline.view(whole(tuple(run["cluster"])), "idle", ViewOptions(by="rank"))
    assert "Largest gaps: a list of single events has no spread; --each shows it for each rank" in section.notes


def test_the_arguments_of_python_are_the_options(run: dict[str, list[Path]], tmp_path: Path) -> None:
    made = tracekit.summary(run["gloo"], views=["operator"], by="rank")
    assert made.sections[0].tables[0].name == "operators_by_rank_time"
    assert tracekit.view(run["gloo"], "operator", by="rank") == made.sections[0]
    with pytest.raises(UsageError, match=r"(?m)^each without by$"):
        tracekit.summary(run["gloo"], each=True)
    page = tracekit.report(run["gloo"], by="dp", topology="dp=2")
    names = [table.name for table in page.section("operator").tables]
    assert names == ["operators", "operators_by_dp_group_time"]
    tracekit.write_report(run["gloo"], tmp_path / "page.html", by="rank")
    kept = page_report([str(tmp_path / "page.html")])
    assert kept is not None
    assert "operators_by_rank_time" in [table.name for table in kept.section("operator").tables]
