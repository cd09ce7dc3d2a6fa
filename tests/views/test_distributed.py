"""The view distributed: exact sets of instants are the oracle; real runs of PyTorch give names and groups."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus
from views.hosts import op, work
from views.tables import dicts, on_trace, trace

from tracekit.api import read
from tracekit.index.collectives import plain
from tracekit.index.topology import parse
from tracekit.model.report import Section
from tracekit.model.trace import Run, SourceFacts
from tracekit.pipeline import view
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

DISTRIBUTED = on_trace(VIEWS["distributed"])
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def tables(section: Section) -> dict[str, list[dict[str, Any]]]:
    return {table.name: dicts(table) for table in section.tables}


@given(
    rows=st.lists(
        st.tuples(st.sampled_from((NCCL, "gemm", "memcpy")), st.integers(0, 40), st.integers(0, 15), st.integers(0, 1)),
        min_size=1, max_size=14,
    ),
    host=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=4),
)  # fmt: skip
def test_unions_overlap_and_exposed_are_those_of_sets_of_instants(rows: list[Any], host: list[Any]) -> None:
    made = [
        work(name, None, at, at + length, "memcpy" if name == "memcpy" else "kernel", device=device)
        for name, at, length, device in rows
    ]
    made += [op("all_reduce", at, at + length, "communication") for at, length in host]
    found = tables(DISTRIBUTED(trace(*made), ViewOptions()))
    talks = {d: {t for n, a, b, e in rows if n == NCCL and e == d for t in range(a, a + b)} for d in (0, 1)}
    counts = {d: {t for n, a, b, e in rows if n == "gemm" and e == d for t in range(a, a + b)} for d in (0, 1)}
    assert ("overlap" in found) == any(name == NCCL for name, *_ in rows)
    for row in found.get("overlap", ()):
        a, b = talks[row["device"]], counts[row["device"]]
        assert (row["communication"], row["computation"]) == (len(a), len(b))
        assert (row["overlap"], row["exposed"]) == (len(a & b), len(a - b))
        assert row["overlap"] + row["exposed"] == row["communication"]
        assert row["overlap_ratio"] == (len(a & b) / len(a) if a else None)
    if host:
        a = talks[0] | talks[1] | {t for at, length in host for t in range(at, at + length)}
        b = counts[0] | counts[1]
        (row,) = found["with_host"]
        assert (row["communication"], row["computation"], row["overlap"]) == (len(a), len(b), len(a & b))
        assert row["exposed"] == len(a - b)


def test_collectives_are_named_by_operation_and_group_with_their_bytes() -> None:
    args = (
        '{"Collective name":"allreduce","In msg nelems":1000,"dtype":"Float","Process Group Name":"0",'
        '"Process Group Description":"default_pg"}'
    )
    rows = work(NCCL, None, 0, 1000, args=args), work(NCCL, None, 2000, 4000, args=args), work(NCCL, None, 5000, 5500)
    found = tables(DISTRIBUTED(trace(*rows), ViewOptions()))["collectives"]
    assert [(r["name"], r["group"], r["calls"], r["total"], r["bytes"]) for r in found] == [
        ("all_reduce", "0 (default_pg)", 2, 3000, 8000),
        ("all_reduce", None, 1, 500, None),
    ]
    assert found[0]["bandwidth"] == 8000 * 10**9 / 3000
    assert found[1]["bandwidth"] is None


def test_a_collective_that_took_no_time_has_bytes_and_no_bandwidth() -> None:
    args = '{"Collective name":"allreduce","In msg nelems":1000,"dtype":"Float"}'
    found = tables(DISTRIBUTED(trace(work(NCCL, None, 5, 5, args=args)), ViewOptions()))["collectives"]
    assert [(r["bytes"], r["bandwidth"]) for r in found] == [(4000, None)]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Float", 4), ("Double", 8), ("Half", 2), ("BFloat16", 2), ("Int", 4), ("Long", 8), ("Short", 2), ("Byte", 1),
        ("Char", 1), ("Bool", 1), ("Float8_e4m3fn", 1), ("Float8_e5m2", 1), ("Float8_e4m3fnuz", 1),
        ("Float8_e5m2fnuz", 1), ("ComplexFloat", 8), ("ComplexDouble", 16), ("Unsigned Char", 1), ("QInt8", None),
    ],
)  # fmt: skip
def test_the_bytes_of_a_collective_follow_from_its_type(dtype: str, size: int | None) -> None:
    args = json.dumps({"Collective name": "allreduce", "In msg nelems": 1000, "dtype": dtype})
    (found,) = tables(DISTRIBUTED(trace(work(NCCL, None, 0, 1000, args=args)), ViewOptions()))["collectives"]
    assert found.get("bytes") == (None if size is None else 1000 * size)


def test_pytorchs_collectives_of_a_run_on_gpus() -> None:
    found = tables(DISTRIBUTED(read(corpus("kineto/hta_nccl_data.json.gz")), ViewOptions()))
    assert [(r["name"], r["group"], r["calls"]) for r in found["collectives"]] == [
        ("all_reduce", "0 (default_pg)", 15),
        ("broadcast", "0 (default_pg)", 6),
    ]
    events = json.loads(gzip.decompress(corpus("kineto/hta_nccl_data.json.gz").read_bytes()))["traceEvents"]
    kernels = [e["args"] for e in events if e.get("cat") == "kernel"]
    reduced = [args for args in kernels if args.get("Collective name") == "allreduce"]
    assert {args["dtype"] for args in reduced} == {"Float"}
    assert found["collectives"][0]["bytes"] == 4 * sum(args["In msg nelems"] for args in reduced)


def test_gloo_on_the_host_alone_is_told_so() -> None:
    section = DISTRIBUTED(read(corpus("generated/torch/ddp_rank0.pt.trace.json")), ViewOptions())
    found = tables(section)
    assert "overlap" not in found
    assert {r["name"]: r["calls"] for r in found["collectives"]} == {
        "gloo:all_reduce": 8, "gloo:barrier": 4, "gloo:broadcast": 2,
    }  # fmt: skip
    assert "no kernel communicates: the figures are of the host alone" in section.notes


@pytest.mark.parametrize(
    ("name", "is_communication"),
    [
        ("c10d::allreduce_", True), ("nccl:all_reduce", True), ("c_broadcast dygraph", True), ("broadcast", True),
        ("aten::broadcast_tensors", False), ("aten::add", False), ("rpc_async#f", True), ("c_allreduce_sum", True),
        ("interpcubic", False),
    ],
)  # fmt: skip
def test_which_host_ranges_communicate(name: str, is_communication: bool) -> None:
    section = DISTRIBUTED(trace(op(name, 0, 10)), ViewOptions())
    assert bool(section.tables) == is_communication


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("AllReduce", "all_reduce"),
        ("allreduce", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("barrier", "barrier"),
    ],
)
def test_operations_are_spelled_one_way(name: str, word: str) -> None:
    assert plain(name) == word


def test_a_trace_without_communication_says_so() -> None:
    section = DISTRIBUTED(trace(work("gemm", None, 0, 5)), ViewOptions())
    assert section.notes[0] == "needs communication events; this trace has none"


BUS = {
    "allreduce": lambda n: 2 * (n - 1) / n, "allgather": lambda n: (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n, "broadcast": lambda n: 1.0, "reduce": lambda n: 1.0,
}  # fmt: skip
"""nccl-tests, doc/PERFORMANCE.md."""


def collective(name: str, items: int, ranks: int, begin: int, time: int, rank: int = 0, **more: Any) -> dict[str, Any]:
    args = {"Collective name": name, "In msg nelems": items, "dtype": "Float", "Group size": ranks, **more}
    args |= {"Process Group Name": "0", "Process Group Ranks": str(list(range(ranks)))}
    return {**work(NCCL, None, begin, begin + time, args=json.dumps(args)), "rank": rank}


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(BUS)), st.integers(1, 50), st.integers(2, 16), st.integers(1, 9)), min_size=1
    )
)
def test_bus_bandwidth_is_that_of_nccl_tests(calls: list[tuple[str, int, int, int]]) -> None:
    rows = [collective(name, 1000 * size, n, 10_000 * i, 100 * time) for i, (name, size, n, time) in enumerate(calls)]
    found = tables(DISTRIBUTED(trace(*rows), ViewOptions()))["bandwidth"]
    expected: dict[tuple[str, int, int], list[int]] = {}
    for name, size, n, time in calls:
        message = 4000 * size * (n if name == "allgather" else 1)
        expected.setdefault((name, n, message), []).append(100 * time)
    best = max(m / min(times) * 1e9 * BUS[name](n) for (name, n, m), times in expected.items())
    assert len(found) == len(expected)
    for row in found:
        name = next(name for name in BUS if plain(name) == row["name"])
        times = sorted(expected[name, row["ranks"], row["message"]])
        middle = times[(len(times) - 1) // 2]
        bus = row["message"] / middle * 1e9 * BUS[name](row["ranks"])
        assert (row["calls"], row["p50"]) == (len(times), middle)
        assert row["algorithm_bandwidth"] == pytest.approx(row["message"] / middle * 1e9)
        assert row["bus_bandwidth"] == pytest.approx(bus)
        assert row["of_best"] == pytest.approx(bus / best)


def test_the_time_of_a_collective_is_that_of_the_rank_that_came_last() -> None:
    rows = [
        collective("allreduce", 250, 2, begin, time, rank, Seq=seq)
        for rank, seq, begin, time in ((0, 1, 0, 900), (1, 1, 800, 100), (0, 2, 2000, 100), (1, 2, 1500, 600))
    ]
    section = DISTRIBUTED(trace(*rows), ViewOptions())
    [row] = tables(section)["bandwidth"]
    assert (row["calls"], row["p50"], row["message"], row["bus_bandwidth"]) == (2, 100, 1000, 1000 * 10**9 / 100)
    assert not any("lower bound" in note for note in section.notes)
    alone = DISTRIBUTED(trace(*rows[:1]), ViewOptions())
    assert [each["p50"] for each in tables(alone)["bandwidth"]] == [900]
    assert any("lower bound" in note for note in alone.notes)


def test_bandwidth_needs_a_size_and_a_number_of_ranks() -> None:
    unknown = collective("allreduce", 250, 2, 0, 100)
    unknown["args"] = '{"Collective name":"allreduce","In msg nelems":250,"dtype":"Float"}'
    [row] = tables(DISTRIBUTED(trace(unknown), ViewOptions()))["bandwidth"]
    assert (row["ranks"], row["algorithm_bandwidth"], row["bus_bandwidth"], row["of_best"]) == (None, 1e10, None, None)
    assert "bandwidth" not in tables(DISTRIBUTED(trace(work(NCCL, None, 0, 100)), ViewOptions()))


def test_the_messages_of_a_run_on_gpus_are_those_of_its_args() -> None:
    found = tables(DISTRIBUTED(read(corpus("kineto/hta_nccl_data.json.gz")), ViewOptions()))["bandwidth"]
    events = json.loads(gzip.decompress(corpus("kineto/hta_nccl_data.json.gz").read_bytes()))["traceEvents"]
    kernels = [e["args"] for e in events if e.get("cat") == "kernel" and "Collective name" in e["args"]]
    sizes = {"Float": 4, "Long": 8, "Byte": 1}
    counts: dict[tuple[str, int], int] = {}
    for args in kernels:
        key = plain(args["Collective name"]), args["In msg nelems"] * sizes[args["dtype"]]
        counts[key] = counts.get(key, 0) + 1
    assert {(r["name"], r["message"]): r["calls"] for r in found} == counts
    assert {r["ranks"] for r in found} == {2}


def in_group(ranks: list[int], rank: int, items: int, times: tuple[int, int], **more: Any) -> dict[str, Any]:
    """One rank's part of an all_reduce of floats: when it came, and how long it stayed."""
    args = {"Collective name": "allreduce", "In msg nelems": items, "dtype": "Float", "Group size": len(ranks), **more}
    row = work(NCCL, None, times[0], times[0] + times[1], args=json.dumps(args))
    return {**row, "rank": rank, "source": rank}


def four_ranks(**more: Any) -> tuple[list[dict[str, Any]], Run]:
    """Two tp groups (0, 1), (2, 3) with fast links and two dp groups (0, 2), (1, 3) with slow ones; no group is named.

    tp: 4 MB in 20 us, for (0, 1) a second time in 40 us. dp: 4 MB in 400 us and in 500 us.
    """
    mega = 1_000_000  # floats
    plan = [
        ([0, 1], 1, 0, 20_000), ([2, 3], 1, 0, 20_000), ([0, 1], 2, 50_000, 40_000),
        ([0, 2], 1, 100_000, 400_000), ([1, 3], 1, 100_000, 500_000),
    ]  # fmt: skip
    rows = [
        # The first rank comes 5 us before the second and waits: only the time of the second is that of the transfer.
        in_group(ranks, rank, mega, (at + 5_000 * place, took + 5_000 * (1 - place)), Seq=seq,
                 **{"Process Group Name": f"{ranks}", "Process Group Ranks": str(ranks)}, **more)
        for ranks, seq, at, took in plan for place, rank in enumerate(ranks)
    ]  # fmt: skip
    facts = [{"distributedInfo": {"rank": rank, "world_size": 4}} for rank in range(4)]
    return rows, Run(origin_ns=0, sources=[SourceFacts(f"{r}.json", "kineto", facts=f) for r, f in enumerate(facts)])


def test_bandwidth_is_apart_for_each_parallelism_that_a_topology_names() -> None:
    """By hand: 4 MB in 20 us are 200 GB/s; two ranks move 2 (2 - 1) / 2 = 1 times that over the bus."""
    rows, run = four_ranks()
    found = tables(DISTRIBUTED(trace(*rows, run=run), ViewOptions(topology=parse("tp=2,dp=2"))))["bandwidth"]
    assert [(r["dimension"], r["ranks"], r["message"], r["calls"], r["p50"]) for r in found] == [
        ("dp", 2, 4_000_000, 2, 400_000), ("tp", 2, 4_000_000, 3, 20_000),
    ]  # fmt: skip
    assert [(r["bus_bandwidth"], r["best_bandwidth"], r["of_best"]) for r in found] == [
        (1e10, 1e10, 1.0), (2e11, 2e11, 1.0),
    ]  # fmt: skip
    [together] = tables(DISTRIBUTED(trace(*rows, run=run), ViewOptions()))["bandwidth"]
    assert (together["calls"], together["p50"], "dimension" in together) == (5, 40_000, False)
    assert together["of_best"] == pytest.approx(1e11 / 2e11)


def test_each_group_of_a_topology_has_its_own_skew_and_bandwidth() -> None:
    rows, run = four_ranks()
    options = ViewOptions(by="tp", each=True, topology=parse("tp=2,dp=2"))
    whole = trace(*rows, run=run)
    found = {t.name: dicts(t) for t in view(whole, "distributed", options).tables}["bandwidth"]
    tp = {r["by"]: (r["calls"], r["p50"], r["bus_bandwidth"]) for r in found if r["dimension"] == "tp"}
    assert tp == {"tp group 0": (2, 20_000, 2e11), "tp group 1": (1, 20_000, 2e11)}
    skews = {t.name: dicts(t) for t in view(whole, "ranks", options).tables}["collectives"]
    assert {(r["by"], r["collectives"], r["skew"], r["transfer"]) for r in skews} == {
        ("tp group 0", 2, 10_000, 60_000), ("tp group 1", 1, 5_000, 20_000),
    }  # fmt: skip


def test_ranks_that_kineto_shortened_come_from_the_process_groups_of_the_file() -> None:
    """Both tp groups have the name "tp": without their ranks they would be one collective of four."""
    rows, run = four_ranks()
    for row in rows:
        args = json.loads(row["args"])
        ranks = json.loads(args["Process Group Ranks"])
        name = "tp" if ranks[1] - ranks[0] == 1 else "dp"
        row["args"] = json.dumps({**args, "Process Group Name": name, "Process Group Ranks": f"[{ranks[0]}, ...]"})
        info = run.sources[row["rank"]].facts["distributedInfo"]
        info.setdefault("pg_config", []).append({"pg_name": name, "pg_desc": f"mesh_{name}", "ranks": ranks})
    section = DISTRIBUTED(trace(*rows, run=run), ViewOptions())
    found = tables(section)["bandwidth"]
    assert [(r["dimension"], r["ranks"], r["calls"], r["p50"]) for r in found] == [
        ("dp", 2, 2, 400_000), ("tp", 2, 3, 20_000),
    ]  # fmt: skip
    assert not any("lower bound" in note for note in section.notes)


@pytest.mark.parametrize(
    ("operation", "items", "ranks", "algorithm", "bus"),
    [
        # nccl-tests, doc/PERFORMANCE.md, by hand: S / t, and times the factor; t = 1 ms, n = 4, floats of 4 bytes.
        ("allreduce", 250_000, 4, 1e9, 1.5e9),  # S = 1 MB; 2 x 3 / 4
        ("allgather", 250_000, 4, 4e9, 3e9),  # S = 4 x 1 MB, what all ranks put in; 3 / 4
        ("reduce_scatter", 1_000_000, 4, 4e9, 3e9),  # S = 4 MB, what a rank puts in; 3 / 4
        ("alltoall", 1_000_000, 4, 4e9, 3e9),  # 3 / 4
        ("broadcast", 250_000, 4, 1e9, 1e9),
        ("reduce", 250_000, 4, 1e9, 1e9),
        ("allreduce", 250_000, 2, 1e9, 1e9),  # 2 x 1 / 2
        ("allreduce", 250_000, 8, 1e9, 1.75e9),  # 2 x 7 / 8
    ],
)
def test_bandwidths_by_hand(operation: str, items: int, ranks: int, algorithm: float, bus: float) -> None:
    rows = [collective(operation, items, ranks, 0, 1_000_000)]
    [row] = tables(DISTRIBUTED(trace(*rows), ViewOptions()))["bandwidth"]
    assert (row["algorithm_bandwidth"], row["bus_bandwidth"]) == (algorithm, bus)


H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "totalGlobalMem": 85_018_279_936}


def on_hosts(run: Run, hosts: Sequence[str], **device: Any) -> Run:
    """The same run with the host and the device of each rank."""
    sources = [
        SourceFacts(each.path, each.format, facts={**each.facts, "deviceProperties": [{**H100, **device}]}
                    | ({"host": host} if host != "-" else {}))
        for each, host in zip(run.sources, hosts, strict=True)
    ]  # fmt: skip
    return Run(origin_ns=0, sources=sources)


def links(hosts: Sequence[str], **device: Any) -> tuple[list[Any], list[Any], str]:
    """The links of dp and tp, what the fastest collective reached of them, and the notes."""
    rows, run = four_ranks()
    options = ViewOptions(topology=parse("tp=2,dp=2"))
    section = DISTRIBUTED(trace(*rows, run=on_hosts(run, hosts, **device)), options)
    found = tables(section)["bandwidth"]
    return [r.get("link") for r in found], [r.get("of_link") for r in found], " ".join(section.notes)


def test_ranks_of_one_host_are_held_against_the_links_of_their_devices() -> None:
    """NVLink of an H100: 900 GB/s in both directions, so 450 in one. dp reaches 10 GB/s, tp 200."""
    link, reached, notes = links("aaaa")
    assert link == [450e9, 450e9]
    assert reached == pytest.approx([1 / 45, 200 / 450])
    assert "Whether they are linked so is not in the trace" in notes


def test_between_hosts_the_link_is_not_known() -> None:
    link, reached, _ = links("aabb")
    assert link == [None, 450e9]
    assert reached == [None, pytest.approx(200 / 450)]
    assert links("abab")[0] == [450e9, None]


@pytest.mark.parametrize(
    ("hosts", "device"),
    [
        ("----", {}),
        (["localhost"] * 4, {}),
        ("aaaa", {"name": "NVIDIA L4", "numSms": 58}),
        ("aaaa", {"name": "NVIDIA Thor", "numSms": 20}),
        ("aaaa", {"name": "NVIDIA H100 80GB HBM3", "numSms": 66}),
        ("aaaa", {"name": "AMD Radeon Graphics", "numSms": 104, "totalGlobalMem": 68_702_699_520}),
    ],
    ids=[
        "hosts not known",
        "a name that each host has",
        "no links between devices",
        "unknown device",
        "a slice",
        "found by its size",
    ],
)
def test_without_a_host_or_a_link_of_the_device_nothing_is_said(hosts: Sequence[str], device: dict[str, Any]) -> None:
    link, reached, notes = links(hosts, **device)
    assert link == reached == [None, None]
    assert "link:" not in notes


def test_a_group_of_which_some_ranks_are_not_in_the_trace_may_span_hosts() -> None:
    rows, run = four_ranks()
    alone = [row for row in rows if row["source"] == 0]
    [*found] = tables(DISTRIBUTED(trace(*alone, run=on_hosts(run, "aaaa")), ViewOptions()))["bandwidth"]
    assert all("link" not in row for row in found)
