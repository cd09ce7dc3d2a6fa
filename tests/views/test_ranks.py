from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus, sample
from views.tables import Row, dicts, event_rows, on_trace, trace

from tracekit.api import read
from tracekit.index import matched_collectives, owners
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Section
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.pipeline import render, summary
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

RANKS = on_trace(VIEWS["ranks"])
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
KINDS = ("kernel", "memcpy", "communication", "step", "operator")


def table(section: Section, name: str) -> list[Row]:
    (found,) = [t for t in section.tables if t.name == name]
    return dicts(found)


def collective(rank: int, start: int, end: int, *, group: str | None = "0", name: str = NCCL, **more: Any) -> Row:
    args: Row = {"Collective name": "allreduce"} | more.pop("members", {})
    if group is not None:
        args |= {"Process Group Name": group, "Process Group Ranks": "[0, 1]"}
    row = {"ts_ns": start, "dur_ns": end - start, "rank": rank, "source": rank, "name": name, "kind": "kernel"}
    return {**row, "device": 0, "stream": 20, "args": json.dumps(args), **more}


def job(ranks: int, late: dict[int, int], *, offset: int = 0, rounds: int = 30, scatter: int = 0) -> list[Row]:
    """Rounds of 1 ms: all ranks come at the same time but those that are late; all leave 100 us after the last."""
    rng = random.Random(3)
    rows = []
    for i in range(rounds):
        begin = 1_000_000 * i
        starts = [begin + late.get(r, 0) + rng.randint(0, 2_000) for r in range(ranks)]
        end = max(starts) + 100_000
        for r in range(ranks):
            shift = offset * r
            left = end + rng.randint(0, scatter)
            rows.append(collective(r, starts[r] + shift, left + shift))
            rows.append({"ts_ns": begin + shift, "dur_ns": 50_000 + 10_000 * r, "rank": r, "source": r, "device": 0})
    return rows


def test_collectives_are_numbered_by_their_first_start() -> None:
    places = (("0", 900), ("1", 150), ("0", 1_900), ("1", 1_150))
    index = TraceIndex(trace(*(collective(r, at + r, at + 50, group=group) for r in (0, 1) for group, at in places)))
    met = matched_collectives.find(index, owners.find(index))
    assert [met.starts[met.meeting == i].tolist() for i in range(met.count)] == [
        [150, 151], [900, 901], [1_150, 1_151], [1_900, 1_901],
    ]  # fmt: skip


@pytest.mark.parametrize("offset", [0, 7_000_000_123, -3_000])
def test_a_straggler_is_named_whatever_the_clocks_say(offset: int) -> None:
    section = RANKS(trace(*job(4, {2: 200_000}, offset=offset, scatter=1_000)), ViewOptions())
    (said,) = [note for note in section.notes if note.startswith("straggler")]
    assert said.startswith("straggler: rank 2 came last in 30 of 30 collectives whose last rank is known, by ")
    rows = {r["owner"]: r for r in table(section, "ranks")}
    assert [rows[f"rank {r}"]["last"] for r in range(4)] == [0, 0, 30, 0]
    assert rows["rank 0"]["wait_p50"] == pytest.approx(200_000, abs=4_000)
    assert rows["rank 2"]["wait"] == 0
    assert rows["rank 2"]["late_p50"] == pytest.approx(200_000, abs=4_000)
    clocks = {r["owner"]: r for r in table(section, "clocks")}
    for r in range(4):
        assert clocks[f"rank {r}"]["offset"] == pytest.approx(offset * r, abs=2_000)
        assert clocks[f"rank {r}"]["uncertainty"] <= 3_000
    (found,) = table(section, "collectives")
    assert (found["name"], found["group"], found["ranks"], found["collectives"]) == ("all_reduce", "0", 4, 30)
    assert found["transfer_p50"] == pytest.approx(100_000, abs=4_000)
    assert found["skew_p50"] == pytest.approx(200_000, abs=4_000)


def test_a_skew_below_the_uncertainty_names_nobody() -> None:
    section = RANKS(trace(*job(3, {1: 5_000}, scatter=80_000)), ViewOptions())
    assert "no skew exceeds the uncertainty of the clocks: no straggler can be named" in section.notes
    assert {r["latest"] for r in table(section, "skews")} == {"(too close to tell)"}
    assert all(r["last"] == 0 for r in table(section, "ranks"))


def test_to_come_last_by_chance_makes_no_straggler() -> None:
    rng = random.Random(5)
    rows = []
    for i in range(40):
        starts = [1_000_000 * i + rng.randint(0, 300_000) for _ in range(2)]
        rows += [collective(r, starts[r], max(starts) + 100_000) for r in range(2)]
    section = RANKS(trace(*rows), ViewOptions())
    assert not any(note.startswith("straggler") for note in section.notes)
    assert any(note.startswith("no rank came last more often than by chance") for note in section.notes)


def test_skew_transfer_and_waits_by_hand() -> None:
    rows = []
    for i, (a, b, end) in enumerate(((0, 300, 400), (1000, 1000, 1150), (2500, 2000, 2600))):
        rows += [collective(0, a, end, event_id=i), collective(1, b, end)]
    section = RANKS(trace(*rows), ViewOptions())
    (found,) = table(section, "collectives")
    assert (found["skew"], found["skew_max"], found["transfer"], found["transfer_p50"]) == (800, 500, 350, 100)
    assert found["waiting"] == 800 / 1150
    assert [(r["owner"], r["wait"], r["last"], r["late"]) for r in table(section, "ranks")] == [
        ("rank 0", 300, 1, 500), ("rank 1", 500, 1, 300),
    ]  # fmt: skip
    assert [(r["number"], r["skew"], r["latest"], r["late"]) for r in table(section, "skews")] == [
        (2, 500, "rank 0", 500), (0, 300, "rank 1", 300), (1, 0, "(too close to tell)", 0),
    ]  # fmt: skip
    cut = next(t for t in RANKS(trace(*rows), ViewOptions(top=1)).tables if t.name == "skews")
    assert (len(cut), cut.omitted) == (1, 2)


def test_the_files_own_number_pairs_what_the_order_would_not() -> None:
    """The second trace begins one collective later; "Seq" says so."""
    rows = [collective(0, 1000 * i, 1000 * i + 100, members={"Seq": i}) for i in range(6)]
    rows += [collective(1, 1000 * i, 1000 * i + 100, members={"Seq": i}) for i in range(1, 6)]
    section = RANKS(trace(*rows), ViewOptions())
    assert table(section, "collectives")[0]["collectives"] == 5
    assert table(section, "collectives")[0]["skew_max"] == 0
    assert "1 collective has no counterpart in another rank" in section.notes


def test_rows_of_different_operations_are_no_collective() -> None:
    rows = [collective(r, 1000 * i, 1000 * i + 100) for i in range(3) for r in (0, 1)]
    rows += [collective(0, 9000, 9100), collective(1, 9000, 9100, members={"Collective name": "allgather"})]
    section = RANKS(trace(*rows), ViewOptions())
    assert table(section, "collectives")[0]["collectives"] == 3
    assert any(note.startswith("2 rows skipped: same group and number, but different names") for note in section.notes)


def test_groups_of_other_members_are_others_and_sends_are_none() -> None:
    rows = [collective(r, 1000 * i, 1000 * i + 100) for i in range(3) for r in (0, 1)]
    other = {"Process Group Name": "0", "Process Group Ranks": "[2, 3]", "Collective name": "allreduce"}
    rows += [collective(2, 50, 99) | {"args": json.dumps(other)}, collective(3, 10, 99) | {"args": json.dumps(other)}]
    rows += [collective(r, 7000, 7100, group=None, name="ncclDevKernel_SendRecv(x)") | {"args": None} for r in (0, 1)]
    found = {
        (r["name"], r["ranks"]): r["collectives"] for r in table(RANKS(trace(*rows), ViewOptions()), "collectives")
    }
    assert found == {("all_reduce", 2): 4}


def test_without_groups_streams_pair_in_their_order() -> None:
    rows = []
    for r in (0, 1):
        for i in range(4):
            rows.append(collective(r, 1000 * i + 5 * r, 1000 * i + 90, group=None, stream=20 + r) | {"args": None})
            rows.append(collective(r, 1000 * i + 100, 1000 * i + 190, group=None, stream=30 - r) | {"args": None})
    (found,) = table(RANKS(trace(*rows), ViewOptions()), "collectives")
    assert (found["name"], found["collectives"], found["skew_max"]) == ("all_reduce", 8, 5)


def test_host_ranges_count_where_devices_have_none_but_not_those_that_queue() -> None:
    rows = [
        {"ts_ns": 1000 * i, "dur_ns": 90, "kind": "communication", "name": name, "rank": r, "source": r}
        for i in range(4) for r in (0, 1) for name in ("gloo:all_reduce", "nccl:all_reduce")
    ]  # fmt: skip
    section = RANKS(trace(*rows), ViewOptions())
    assert [r["name"] for r in table(section, "collectives")] == ["gloo:all_reduce"]
    assert "8 host ranges say when a collective was queued, not when it ran" in section.notes


def test_imbalance_is_the_most_over_the_mean() -> None:
    rows = [
        {"ts_ns": 0, "dur_ns": takes, "kind": kind, "rank": rank, "source": rank, "device": 0, "step": 0}
        for rank, takes in ((0, 100), (1, 300)) for kind in ("kernel", "step")
    ]  # fmt: skip
    section = RANKS(trace(*rows), ViewOptions())
    assert [(r["measure"], r["mean"], r["min"], r["max"], r["imbalance"], r["most"]) for r in dicts(section)] == [
        ("mean step time", 200, 100, 300, 1.5, "rank 1"), ("device busy", 200, 100, 300, 1.5, "rank 1"),
    ]  # fmt: skip
    assert "needs collectives on two or more ranks: there is no skew" in section.notes


def test_inputs_are_ranks_where_none_are_named_and_the_same_rank_of_two_inputs_is_one() -> None:
    two = Run(sources=[SourceFacts("x/a", "f"), SourceFacts("x/b", "f")])
    rows = [
        collective(r, 1000 * i + 10**9 * r, 1000 * i + 100 + 10**9 * r) | {"rank": None}
        for i in range(4) for r in (0, 1)
    ]  # fmt: skip
    section = RANKS(trace(*rows, run=two), ViewOptions())
    assert [r["owner"] for r in table(section, "ranks")] == ["a", "b"]
    assert table(section, "collectives")[0]["skew_max"] == 0
    few = RANKS(trace(*rows[:4], run=two), ViewOptions())
    assert "2 collectives skipped: the clocks could not be aligned" in few.notes
    shared = Run(origin_ns=0, sources=two.sources)
    same = RANKS(trace(*(dict(r, rank=0) for r in rows), run=shared), ViewOptions())
    assert same.notes[0].startswith("needs several ranks")


@pytest.mark.parametrize("rows", [(), ({"dur_ns": 5},), ({"dur_ns": 5, "kind": "operator"},)])
def test_one_rank_gives_a_note(rows: tuple[Row, ...]) -> None:
    section = RANKS(trace(*rows), ViewOptions())
    assert section.tables == ()
    assert section.notes[0].startswith("needs several ranks (inputs or processes); this trace has ")


@settings(max_examples=100, deadline=None)
@given(rows=event_rows(KINDS), names=st.lists(st.sampled_from([NCCL, "all_reduce", "x"]), min_size=25, max_size=25))
def test_of_any_trace_parts_agree(rows: list[Row], names: list[str]) -> None:
    named = [dict(r, name=n) for r, n in zip(rows, names, strict=False)]
    made = trace(*named)
    section = RANKS(made, ViewOptions())
    keep = [c for c in made.events.schema.names if c in VIEWS["ranks"].columns]
    assert RANKS(Trace(made.events.select(keep), made.totals, made.run), ViewOptions()) == section
    if not any(t.name == "collectives" for t in section.tables):
        return
    kinds, ranks = table(section, "collectives"), table(section, "ranks")
    assert sum(k["collectives"] * k["ranks"] for k in kinds) == sum(r["collectives"] for r in ranks)
    assert all(r["wait"] >= 0 for r in ranks)
    assert all(0 <= k["skew_p50"] <= k["skew_max"] <= k["skew"] for k in kinds)
    assert sum(r["last"] for r in ranks) <= sum(k["collectives"] for k in kinds)


def test_two_ranks_of_torch_on_cpus() -> None:
    """corpus/generated/torch: 14 collectives of gloo a rank; their ends scatter by more than any skew."""
    paths = [corpus(f"generated/torch/ddp_rank{r}.pt.trace.json") for r in (0, 1)]
    section = RANKS(read(paths), ViewOptions())
    assert {r["name"]: r["collectives"] for r in table(section, "collectives")} == {
        "gloo:all_reduce": 8, "gloo:barrier": 4, "gloo:broadcast": 2,
    }  # fmt: skip
    assert any("no straggler can be named" in note for note in section.notes)


def test_samples_are_rendered_in_every_form() -> None:
    made = summary(read([sample("recorder-log/rank0.jsonl"), sample("recorder-log/rank1.jsonl")]), views=["ranks"])
    for form in ("text", "json", "csv", "markdown", "html"):
        assert "all_reduce" in render(made, form)
