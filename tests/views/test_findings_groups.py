"""Findings about groups of ranks that come late together, and ranks that are slow in their own steps."""

from __future__ import annotations

import random
import re

import pytest
from views.hosts import call, op
from views.tables import Row, dicts, on_trace, trace
from views.test_findings import MS, US, collective, found, one, step

from tracekit.index import owners as owners_of
from tracekit.index.parallel_groups import listed
from tracekit.index.trace_index import TraceIndex
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.render.prose import finding_title
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.ranks import late_groups


def late(
    members: tuple[int, ...],
    ranks: int = 8,
    by: int = 300 * US,
    noise: float = 20.0,
    rounds: int = 30,
    facts: dict[int, dict[str, object]] | None = None,
) -> Trace:
    """Ranks that meet in collectives, to which some come late; noise: us, of each start. facts: of the inputs."""
    rng = random.Random(7)
    rows: list[Row] = []
    end = 0
    for i in range(rounds):
        begin = end + 500 * US
        starts = [begin + (by if r in members else 0) + round(abs(rng.gauss(0, noise)) * US) for r in range(ranks)]
        end = max(starts) + 100 * US
        for rank, start in enumerate(starts):
            own = {"pid": rank, "rank": rank, "source": rank}
            rows += [
                call(i, start - 5 * US, start, **own),
                collective(rank, start, end + rng.randrange(900), pid=rank, correlation=i),
                op("cudaStreamSynchronize", start, end, "runtime", correlation=100 + i, **own),
            ]  # fmt: skip
    sources = [SourceFacts(f"rank{r}.json", "kineto", facts=(facts or {}).get(r, {})) for r in range(ranks)]
    return trace(*rows, run=Run(origin_ns=0, sources=sources))


@pytest.mark.parametrize("members", [(4, 5, 6, 7), (0, 1, 2, 3), (1, 5), (0, 3, 6)])
def test_ranks_that_come_late_together_are_one_finding(members: tuple[int, ...]) -> None:
    finding = one(late(members), "straggler")
    assert "come late together to 30 of 30 collectives" in finding.claim
    assert finding.saving_ns >= 30 * 230 * US
    assert finding.owner == f"rank {members[0]}"
    assert finding.who == f"ranks {listed(members)}"
    assert finding_title(finding).startswith(f"straggler (ranks {listed(members)}): ")


@pytest.mark.parametrize("noise", [20.0, 150.0])
@pytest.mark.parametrize("slow", ["node0", "node1", "node2"])
def test_a_slow_host_is_named(slow: str, noise: float) -> None:
    """Ranks lie on hosts in turn; with the larger noise no collective has all of a host after all others."""
    hosts = {rank: f"node{rank % 3}" for rank in range(12)}
    members = tuple(rank for rank, host in hosts.items() if host == slow)
    facts: dict[int, dict[str, object]] = {rank: {"host": host} for rank, host in hosts.items()}
    finding = one(late(members, 12, noise=noise, facts=facts), "straggler")
    assert finding.claim.startswith(f"Host {slow} (4 ranks: rank {members[0]}, ")


def test_a_slow_parallel_group_is_named() -> None:
    groups = [
        {"pg_name": f"{i + 1}", "pg_desc": "TENSOR_MODEL_PARALLEL_GROUP", "ranks": [2 * i, 2 * i + 1]} for i in range(4)
    ]
    facts: dict[int, dict[str, object]] = {
        rank: {"distributedInfo": {"rank": rank, "world_size": 8, "pg_config": groups}} for rank in range(8)
    }
    finding = one(late((4, 5), noise=100.0, facts=facts), "straggler")
    assert "tp group" in finding.claim.lower()
    assert "rank 4, rank 5" in finding.claim


def test_one_late_rank_of_a_host_is_no_slow_host() -> None:
    facts: dict[int, dict[str, object]] = {rank: {"host": f"node{rank // 2}"} for rank in range(8)}
    assert one(late((5,), facts=facts), "straggler").claim.startswith("rank 5 comes last in 30 of 30")


@pytest.mark.parametrize("noise", [20.0, 150.0])
def test_hosts_that_are_late_by_chance_are_no_finding(noise: float) -> None:
    facts: dict[int, dict[str, object]] = {rank: {"host": f"node{rank // 4}"} for rank in range(16)}
    assert not found(late((), 16, noise=noise, facts=facts), "straggler")


def test_one_late_rank_is_no_group() -> None:
    assert one(late((5,)), "straggler").claim.startswith("rank 5 comes last in 30 of 30")


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_ranks_that_come_late_by_chance_are_no_group(ranks: int) -> None:
    assert not found(late((), ranks, noise=60.0), "straggler")


@pytest.mark.parametrize("members", [(4, 5, 6, 7), (9,)])
def test_every_rank_is_examined_in_numeric_order(members: tuple[int, ...]) -> None:
    made = late(members, 12)
    finding = one(made, "straggler")
    assert str(members[0]) in finding.claim
    assert owners_of.find(TraceIndex(made)).labels == [f"rank {r}" for r in range(12)]


HOSTS: dict[int, dict[str, object]] = {rank: {"host": f"node{rank % 2}"} for rank in range(8)}
PAIRS: dict[int, dict[str, object]] = {
    rank: {
        "distributedInfo": {
            "rank": rank,
            "world_size": 8,
            "pg_config": [
                {"pg_name": f"{i + 1}", "pg_desc": "TENSOR_MODEL_PARALLEL_GROUP", "ranks": [2 * i, 2 * i + 1]}
                for i in range(4)
            ],
        }
    }
    for rank in range(8)
}


@pytest.mark.parametrize(
    ("members", "noise", "facts", "group"),
    [
        ((4, 5, 6, 7), 20.0, {}, "ranks 4-7"),
        ((0, 3, 6), 20.0, {}, "ranks 0, 3, 6"),
        ((1, 5), 60.0, {}, "ranks 1, 5"),
        ((1, 3, 5, 7), 150.0, HOSTS, "host node1"),
        ((4, 5), 100.0, PAIRS, "tp group 2"),
    ],
)
def test_the_view_of_ranks_shows_the_groups_that_the_finding_names(
    members: tuple[int, ...], noise: float, facts: dict[int, dict[str, object]], group: str
) -> None:
    made = late(members, noise=noise, facts=facts)
    finding = one(made, "straggler")
    section = on_trace(VIEWS["ranks"])(made, ViewOptions())
    (row,) = dicts(next(table for table in section.tables if table.name == "late_groups"))
    assert (row["late_group"], row["members"]) == (group, listed(members))
    claim = re.search(r"late together to ([\d,]+) of ([\d,]+)", finding.claim)
    assert claim is not None
    assert (row["last"], row["collectives"]) == (int(claim[1]), int(claim[2]))
    # The finding quotes the row of the group, not figures of single ranks.
    columns = ("last", "last_share", "late_p50", "late")
    assert [(each.cell, each.value) for each in finding.evidence] == [
        (f"ranks.{group}.{column}", row[column]) for column in columns
    ]
    (note,) = (note for note in section.notes if note.startswith("straggler: "))
    assert note.startswith(f"straggler: {group} ")
    assert f"late together to {row['last']} of {row['collectives']} collectives" in note


def test_a_straggler_beside_a_late_group_is_named_and_its_members_are_not() -> None:
    """Rank 0 alone is the latest in every third collective, and the four of a host in all others."""
    facts: dict[int, dict[str, object]] = {rank: {"host": f"node{rank // 4}"} for rank in range(12)}
    rng = random.Random(11)
    rows: list[Row] = []
    end = 0
    for i in range(60):
        begin = end + 500 * US
        late_by = dict.fromkeys((8, 9, 10, 11), 300 * US) | ({0: 900 * US} if i % 3 == 0 else {})
        starts = [begin + late_by.get(r, 0) + rng.randrange(20 * US) for r in range(12)]
        end = max(starts) + 100 * US
        for rank, start in enumerate(starts):
            rows.append(collective(rank, start, end + rng.randrange(900), pid=rank, correlation=i))
    sources = [SourceFacts(f"rank{r}.json", "kineto", facts=facts[r]) for r in range(12)]
    section = on_trace(VIEWS["ranks"])(trace(*rows, run=Run(origin_ns=0, sources=sources)), ViewOptions())
    named = [note.split(": ")[1].split(" ")[0:2] for note in section.notes if note.startswith("straggler: ")]
    assert named == [["host", "node2"], ["rank", "0"]]


@pytest.mark.parametrize(
    ("members", "facts"), [((), {}), ((5,), {}), ((5,), HOSTS), ((), HOSTS)], ids=["none", "one", "one-host", "hosts"]
)
def test_ranks_without_a_late_group_have_no_table_of_groups(
    members: tuple[int, ...], facts: dict[int, dict[str, object]]
) -> None:
    section = on_trace(VIEWS["ranks"])(late(members, facts=facts), ViewOptions())
    assert "late_groups" not in {table.name for table in section.tables}
    assert not any("late together" in note for note in section.notes)


def test_a_run_of_too_many_collectives_says_that_groups_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_groups, "MOST_CELLS", 100)
    section = on_trace(VIEWS["ranks"])(late((4, 5, 6, 7)), ViewOptions())
    assert any(note.startswith("not checked: ranks that come late together") for note in section.notes)


def stepping(slow: int, since: int, factor: float, jitter: float = 0.01, ranks: int = 12, steps: int = 60) -> Trace:
    rng = random.Random(3)
    rows: list[Row] = []
    for rank in range(ranks):
        for number in range(steps):
            took = 2 * MS * (factor if rank == slow and number >= since else 1) * rng.gauss(1, jitter)
            at = number * 5 * MS
            rows.append({**step(number, at, at + round(took)), "rank": rank, "source": 11 - rank, "pid": rank})
    return trace(*rows)


def test_a_rank_whose_own_steps_are_longer_is_found_with_the_step_from_which_it_is() -> None:
    finding = one(stepping(10, 30, 1.35), "straggler")
    assert finding.owner == "rank 10"
    assert "in 30 of 60 steps (50.00 %) from step no. 31 on" in finding.claim
    assert 30 * 0.62 * MS <= finding.saving_ns <= 30 * 0.75 * MS


@pytest.mark.parametrize("jitter", [0.01, 0.05])
def test_steps_that_are_longest_by_chance_are_no_finding(jitter: float) -> None:
    assert not found(stepping(-1, 0, 1.0, jitter), "straggler")


def messages(sizes: dict[int, float], ranks: int = 4) -> Trace:
    """Rounds of collectives of so many bytes, each at so many GB/s of bus bandwidth, with nothing beside them."""
    rows: list[Row] = []
    at = key = 0
    for _ in range(12):
        for size, rate in sizes.items():
            took = round(size * 2 * (ranks - 1) / ranks / rate)
            key += 1
            for rank in range(ranks):
                own = {"pid": rank, "rank": rank, "source": rank}
                start, end = at + 6 * US, at + 6 * US + took
                args = f'{{"Collective name":"allreduce","Process Group Name":"0","Group size":{ranks}}}'
                rows += [
                    call(key, at, at + 5 * US, **own),
                    {**collective(rank, start, end, pid=rank, correlation=key), "bytes": size, "args": args},
                    op("cudaStreamSynchronize", start, end, "runtime", correlation=9000 + key, **own),
                ]  # fmt: skip
            at += took + 20 * US
    return trace(*rows)


def test_a_size_that_is_slow_against_the_best_of_the_group_is_named() -> None:
    finding = one(messages({64 << 20: 200.0, 1 << 20: 10.0}), "low bandwidth")
    assert "12 collectives all_reduce of 1.00 MiB reach 10 GB/s" in finding.claim
    assert "5 % of the 200 GB/s" in finding.claim
    true = 12 * round((1 << 20) * 1.5 * (1 / 10 - 1 / 200))
    assert 0.98 * true <= finding.saving_ns <= 1.05 * true


def test_sizes_that_are_all_about_as_fast_are_no_finding() -> None:
    assert not found(messages({64 << 20: 200.0, 1 << 20: 150.0}), "low bandwidth")
    assert not found(messages({1 << 20: 10.0}), "low bandwidth")
