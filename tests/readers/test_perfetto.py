"""Perfetto's traces: real files against figures counted apart and against Perfetto's engine, clocks, damage."""

from __future__ import annotations

import gzip
import json
import runpy
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from small_limits import Limit, small
from support import SAMPLES, corpus_next, sample, sure_readers
from viewers import perfetto

import tracekit
from tracekit.errors import ParseError
from tracekit.model.trace import Trace

MAKE = runpy.run_path(str(SAMPLES / "_perfetto.py"))
message, packet, snapshot, Sequence = MAKE["message"], MAKE["packet"], MAKE["snapshot"], MAKE["Sequence"]
track, process, thread, annotation, Fixed = (
    MAKE[name] for name in ("track", "process", "thread", "annotation", "Fixed")
)
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
MS = 1_000_000

FACTS: dict[str, dict[str, tuple[int, int]]] = {
    "rocprofv3_mi300a.pftrace.gz": {
        "runtime": (1125, 660_285_053),
        "driver": (1520, 307_547_790),
        "kernel": (15, 194_762),
        "counter": (32, 0),
    },
    "rocprofv3_hip_only.pftrace.gz": {"runtime": (1132, 439_494_339)},
    "rocprofv3_small.pftrace": {"runtime": (5, 20_452_899)},
    "rocprofv3_empty.pftrace": {},
    "rust_tracing_tokio.pftrace.gz": {"user_range": (20_013, 15_268_403_925), "mark": (8, 0)},
    "rust_instants_only.pftrace": {"mark": (15, 0)},
    "basic_3_slices.perfetto-trace": {"user_range": (3, 3000)},
    "async_tracks.perfetto-trace": {"user_range": (5, 710_000_000)},
    "interned_instants.perfetto-trace": {"mark": (6, 0)},
}
"""Rows and ns of each kind, counted apart (SOURCES.md of the corpus)."""

SPANS = {
    "rocprofv3_mi300a.pftrace.gz": (131529871447132, 131550566865468),
    "rocprofv3_hip_only.pftrace.gz": (130215589207198, 130239743750895),
    "rust_tracing_tokio.pftrace.gz": (1726155023241496947, 1726155024826704112),
    "rust_instants_only.pftrace": (1764460649134296700, 1764460664006871900),
    "basic_3_slices.perfetto-trace": (11, 1013),
    "chrome_page_loads.pftrace.gz": (687421451714618, 687445909438058),
}
PACKETS = {
    "rocprofv3_mi300a.pftrace.gz": 5441,
    "rocprofv3_hip_only.pftrace.gz": 2346,
    "rocprofv3_small.pftrace": 32,
    "rocprofv3_empty.pftrace": 13,
    "rust_tracing_tokio.pftrace.gz": 40_044,
    "rust_instants_only.pftrace": 19,
    "basic_3_slices.perfetto-trace": 9,
    "async_tracks.perfetto-trace": 17,
    "interned_instants.perfetto-trace": 6,
    "gpu_counters_android.perfetto-trace": 16,
    "chrome_page_loads.pftrace.gz": 50_501,
}


def read(folder: Path, *packets: bytes) -> Trace:
    """The trace of packets."""
    path = folder / "t.pftrace"
    path.write_bytes(b"".join(packets))
    assert sure_readers(path) == ["perfetto"]
    return tracekit.read(path)


def rows(trace: Trace) -> list[dict[str, Any]]:
    found = trace.events.to_pylist()
    for row in found:
        row["args"] = json.loads(row["args"] or "{}")
    return found


def kinds(trace: Trace) -> dict[str, tuple[int, int]]:
    """Rows and ns of each kind, without arrows."""
    found: dict[str, tuple[int, int]] = {}
    for row in trace.events.to_pylist():
        if row["kind"] != "flow":
            count, total = found.get(row["kind"], (0, 0))
            found[row["kind"]] = count + 1, total + (row["dur_ns"] or 0)
    return found


def ours(trace: Trace) -> Counter[tuple[int, int, str | None]]:
    """Start, duration (-1 without an end) and name of slices and moments."""
    return Counter(
        (row["ts_ns"], 0 if row["kind"] == "mark" else _or(row["dur_ns"], -1), row["raw_name"] or row["name"] or None)
        for row in trace.events.to_pylist()
        if row["kind"] not in ("flow", "counter")
    )


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def theirs(path: Path) -> tuple[Counter[tuple[int, int, str | None]], dict[str, Any]]:
    """The same of Perfetto's engine, and what else it says."""
    seen = perfetto(path, ["select ts, dur, name from slice"])
    return Counter((int(row["ts"]), row["dur"], row["name"] or None) for row in seen["sql"][0]), seen


@pytest.mark.corpus
@pytest.mark.parametrize("name", FACTS)
def test_real_files_have_the_events_that_were_counted_apart(name: str) -> None:
    path = corpus_next(f"perfetto/{name}")
    assert sure_readers(path) == ["perfetto"]
    assert kinds(tracekit.read(path)) == FACTS[name]


@pytest.mark.corpus
@pytest.mark.parametrize("name", PACKETS)
def test_every_packet_of_a_real_file_is_counted(name: str) -> None:
    trace = tracekit.read(corpus_next(f"perfetto/{name}"))
    assert trace.ledgers[0].read == PACKETS[name]
    if name in SPANS:
        assert trace.span() == SPANS[name]


@pytest.mark.corpus
@pytest.mark.viewer
@pytest.mark.parametrize("name", FACTS)
def test_real_files_have_the_slices_of_perfettos_engine(name: str) -> None:
    path = corpus_next(f"perfetto/{name}")
    want, seen = theirs(path)
    assert ours(tracekit.read(path)) == want
    assert not seen["errors"] or name.startswith("interned_instants")


@pytest.mark.corpus
@pytest.mark.viewer
def test_slices_of_chrome_differ_from_those_of_the_engine_only_where_ends_have_empty_names() -> None:
    path = corpus_next("perfetto/chrome_page_loads.pftrace.gz")
    want, _ = theirs(path)
    trace = tracekit.read(path)
    found = ours(trace)
    objects = Counter({key: count for key, count in found.items() if key[2] == "FrameLoader"})
    assert objects.total() == 90, "phases N, O and D, of which the engine makes nothing"
    found -= objects
    assert found.total() == want.total() == 25_192
    states = {
        "Initializing", "BeginNavigation", "WillStartRequest", "OnResponseStarted", "WillProcessResponse",
        "ReadyToCommitNavigation", "DidCommitNavigation", "Same document", "ResponseStarted",
        "WillCommitWithoutUrlLoader", "NavigationThrottle::WillStartRequest",
    }  # fmt: skip
    assert {key[2] for key in (found - want) + (want - found)} <= states
    # A state of a navigation ends when the next one begins: the engine lets them last to the end of the navigation.
    ends = {(row["ts_ns"] + row["dur_ns"]) for row in rows(trace) if row["name"] == "Initializing" and row["dur_ns"]}
    begins = {row["ts_ns"] for row in rows(trace) if row["name"] in ("BeginNavigation", "Same document")}
    assert all(any(0 <= begin - end < MS for begin in begins) for end in ends)


@pytest.mark.corpus
def test_a_rocprofv3_file_has_devices_and_correlations() -> None:
    trace = tracekit.read(corpus_next("perfetto/rocprofv3_mi300a.pftrace.gz"))
    kernels = [row for row in rows(trace) if row["kind"] == "kernel"]
    assert {(row["device"], row["stream"], row["tid"]) for row in kernels} == {(4, 1, None)}
    assert all(row["correlation"] == row["args"]["corr_id"] for row in kernels)
    assert all(row["dur_ns"] == row["args"]["delta_ns"] for row in rows(trace) if "delta_ns" in row["args"])
    counters = [row for row in rows(trace) if row["kind"] == "counter"]
    gpu = [row for row in counters if row["name"] == "ALLOCATE BYTES on Agent [4] (GPU)"]
    assert [row["value"] for row in gpu[:3]] == [0, 4096 * 1024, 4096 * 1024]
    arrows = Counter(row["correlation"] for row in rows(trace) if row["kind"] == "flow")
    assert arrows.total() == 2660
    assert sum(count - 1 for count in arrows.values()) == 15
    assert {name[-4:] for row in kernels if (name := row["raw_name"]) is not None} == {".kd]", "r.kd"}
    assert not any(row["name"].endswith((".kd", ".kd]")) for row in kernels)


@pytest.mark.corpus
def test_launches_of_a_rocprofv3_file_are_found_as_its_arrows_show_them() -> None:
    """By correlation id. The arrows are a second way: they name the same call of each kernel."""
    trace = tracekit.read(corpus_next("perfetto/rocprofv3_mi300a.pftrace.gz"))
    found = rows(trace)
    calls = {row["correlation"]: row for row in found if row["kind"] in ("runtime", "driver")}
    ends: dict[int, list[int]] = {}
    for row in found:
        if row["kind"] == "flow":
            ends.setdefault(row["correlation"], []).append(row["ts_ns"])
    starts = {arrow[1]: arrow[0] for arrow in ends.values() if len(arrow) > 1}
    kernels = [row for row in found if row["kind"] == "kernel"]
    assert [calls[row["correlation"]]["ts_ns"] for row in kernels] == [starts[row["ts_ns"]] for row in kernels]
    launch = tracekit.view(trace, "launch").to_pandas()
    assert launch["launches"].sum() == len(kernels) == 15


@pytest.mark.viewer
@pytest.mark.parametrize("path", ["corpus-next/perfetto/rocprofv3_mi300a.pftrace.gz", "program.pftrace"])
def test_arrows_are_in_the_chrome_trace(path: str, tmp_path: Path) -> None:
    """All points of an arrow have one name and one category there: Perfetto's engine joins no others."""
    source = corpus_next(path.partition("/")[2]) if "/" in path else sample(f"perfetto/{path}")
    tracekit.convert(source, tmp_path / "x.json")
    want, found = (engine_arrows(each) for each in (source, tmp_path / "x.json"))
    assert found == want
    assert len(want) > 2


def engine_arrows(path: Path) -> set[tuple[int, int]]:
    """Start of the slices at both ends of each arrow, after the first slice."""
    slices = "join slice s on flow.slice_out = s.id join slice e on flow.slice_in = e.id"
    zero = "(select min(ts) from slice)"
    seen = perfetto(path, [f"select s.ts - {zero} as one, e.ts - {zero} as other from flow {slices}"])
    return {(row["one"], row["other"]) for row in seen["sql"][0]}


@pytest.mark.corpus
def test_arrows_to_kernels_are_on_the_page() -> None:
    """15 of the 2,645 arrows have another end."""
    trace = tracekit.read(corpus_next("perfetto/rocprofv3_mi300a.pftrace.gz"))
    notes = tracekit.view(trace, "timeline").notes
    assert [note for note in notes if "without a partner" in note] == [
        "not drawn: 2,630 flow events of the input without a partner, or without an event at its time"
    ]


@pytest.mark.viewer
def test_our_sample_has_the_slices_counters_and_arrows_of_the_engine() -> None:
    path = sample("perfetto/program.pftrace")
    sql = [
        "select c.ts, c.value, t.name from counter c join counter_track t on c.track_id = t.id",
        "select s.ts, a.key from slice s join args a using (arg_set_id) where a.key like 'debug.%'",
        "select s.ts out, e.ts at from flow join slice s on flow.slice_out = s.id join slice e on flow.slice_in = e.id",
    ]
    seen = perfetto(path, sql)
    trace = tracekit.read(path)
    want, _ = theirs(path)
    assert ours(trace) == want
    assert not seen["errors"]
    found = rows(trace)
    counters = {(row["ts_ns"], row["value"], row["name"]) for row in found if row["kind"] == "counter"}
    assert counters == {(row["ts"], row["value"], row["name"]) for row in seen["sql"][0]}
    args = Counter((row["ts"], row["key"].removeprefix("debug.").partition("[")[0]) for row in seen["sql"][1])
    own: Counter[tuple[int, str]] = Counter()
    for row in found:
        if row["kind"] not in ("flow", "counter"):
            for key, value in row["args"].items():
                if key not in ("cat", "id"):
                    own[row["ts_ns"], key] += len(value) if isinstance(value, list) else 1
    assert own == args
    arrows: dict[int, list[int]] = {}
    for row in found:
        if row["kind"] == "flow":
            arrows.setdefault(row["correlation"], []).append(row["ts_ns"])
    drawn = sorted((at, to) for times in arrows.values() for at, to in pairwise(times))
    assert drawn == sorted((row["out"], row["at"]) for row in seen["sql"][2])


@pytest.mark.viewer
def test_stages_of_gpus_are_those_of_the_engine() -> None:
    path = sample("perfetto/gpu.pftrace")
    seen = perfetto(path, ["select ts, dur, name from gpu_slice"])
    trace = tracekit.read(path)
    found = [row for row in rows(trace) if row["kind"] == "kernel"]
    # The engine calls a stage by its kind, also where the kernel is named.
    own = sorted((row["ts_ns"], row["dur_ns"], row["name"].partition("_")[0]) for row in found)
    assert own == sorted((int(row["ts"]), row["dur"], row["name"]) for row in seen["sql"][0])


def test_stages_of_gpus_have_lanes_and_processes() -> None:
    trace = tracekit.read(sample("perfetto/gpu.pftrace"))
    found = rows(trace)
    stages = [row for row in found if row["kind"] == "kernel"]
    lanes = Counter((row["device"], row["stream"], row["pid"], row["name"]) for row in stages)
    assert lanes == {
        (0, 0, None, "Vertex"): 2,
        (0, 1, None, "Vertex"): 2,
        (1, 1, 4242, "gemm"): 2,
        (1, 1, 4242, "gemm_f16_128x64"): 1,
    }
    assert trace.run.streams == {(0, 0, 0): "3D", (0, 0, 1): "Copy", (0, 1, 1): "Compute"}
    assert stages[-1]["args"]["submission_id"] == 8
    (shaped,) = [row["args"] for row in stages if row["name"] == "gemm_f16_128x64"]
    assert (shaped["grid"], shaped["block"], shaped["waves"]) == ([64, 2, 1], [256, 1, 1], "2")
    counters = [(row["device"], row["name"], row["value"]) for row in found if row["kind"] == "counter"]
    assert (0, "GPU busy", 25.0) in counters
    assert (0, "Clock", 1402.0) in counters
    assert (0, "GPU memory of process 4242", float(1 << 19)) in counters
    assert len(counters) == 8


@pytest.mark.corpus
def test_counters_of_a_gpu_have_their_names() -> None:
    trace = tracekit.read(corpus_next("perfetto/gpu_counters_android.perfetto-trace"))
    found = [(row["ts_ns"], row["name"], row["value"], row["device"]) for row in rows(trace)]
    assert found == [
        (10 * at, name, float(at), 0) for at, name in zip(range(1, 10), ["bar", "counter 2", "foo"] * 3, strict=True)
    ]


def test_a_packet_of_two_types_is_one_packet(tmp_path: Path) -> None:
    event = (11, message((9, INSTANT), (23, "twice")))
    one = Sequence(3)
    trace = read(
        tmp_path,
        one.event(10, INSTANT, "a"),
        packet((8, 20), event, event, (53, b""), (1, b"")),
        one.event(30, INSTANT),
    )
    assert [row["name"] for row in rows(trace)] == ["a", "twice", None]
    assert (trace.ledgers[0].read, trace.ledgers[0].kept) == (3, 3)


def test_lists_and_dictionaries_are_args_level_by_level(tmp_path: Path) -> None:
    leaf = message((10, "x"), (4, -1))
    inner = message((10, "in"), (11, leaf), (11, message((10, "x"), (5, 0.5))), (11, message((10, "y"), (12, b""))))
    mixed = annotation((10, "mixed"), (12, message((2, 1))), (12, message((6, "t"))), (12, message((11, leaf))))
    old = message((1, 1), (2, "k"), (3, message((5, 7))))
    trace = read(
        tmp_path,
        Sequence(3).event(
            10, INSTANT, "a", mixed, (4, message((10, "deep"), (11, inner))), annotation((10, "old"), (8, old)),
            annotation((10, "p"), (7, 255)), annotation((10, "p"), (6, "again")),
            annotation((10, "j"), (9, '{"q":[1]}')),
        ),
    )  # fmt: skip
    assert rows(trace)[0]["args"] == {
        "mixed": [True, "t", {"x": -1}],
        "deep": {"in": {"x": -1, "x (2)": 0.5, "y": [None]}},
        "old": {"k": 7},
        "p": "0xff",
        "p (2)": "again",
        "j": {"q": [1]},
    }


def test_a_clock_in_steps_counts_on_from_its_snapshot(tmp_path: Path) -> None:
    one = Sequence(5, (58, 65), (11, message((11, 9))))
    trace = read(
        tmp_path,
        snapshot(5, (6, 1000), (65, 50, 1, 10)),
        one.event(3, BEGIN, "a"),
        one.event(0, BEGIN, "b"),
        one.event(2, END),
        snapshot(5, (6, 9000), (65, 0, 1, 10)),
        one.event(1, END),
    )
    assert [(row["name"], row["ts_ns"], row["dur_ns"]) for row in rows(trace)] == [("a", 1030, 7980), ("b", 1030, 20)]


@pytest.mark.viewer
def test_clocks_are_converted_as_the_engine_converts_them(tmp_path: Path) -> None:
    """Drift between snapshots, times before the first one, and a clock that only another one relates to the trace's."""
    path = tmp_path / "clocks.pftrace"
    packets = [
        snapshot(1, (6, 1_000), (3, 600), (1, 10_000_000), main=6),
        snapshot(2, (3, 700), (70, 5, 0, 100)),
        snapshot(1, (6, 2_000), (3, 1_700), (1, 10_001_000)),
        snapshot(1, (6, 3_000), (3, 2_650), (1, 10_002_000)),
    ]
    one = Sequence(2)
    for clock, time in ((3, 590), (3, 650), (3, 1_699), (3, 1_700), (3, 9_000), (70, 5), (70, 30), (1, 10_001_500)):
        name = f"{clock} at {time}"
        packets.append(packet((8, time), (58, clock), (10, 2), (11, message((9, INSTANT), (23, name), (11, 7)))))
    packets.append(one.event(2_500, INSTANT, "none"))
    path.write_bytes(b"".join(packets))
    want, seen = theirs(path)
    assert not seen["errors"]
    trace = tracekit.read(path)
    assert ours(trace) == want
    assert trace.run.origin_ns == 9_999_000


@pytest.mark.viewer
def test_events_wait_for_the_snapshot_of_their_clock(tmp_path: Path) -> None:
    path = tmp_path / "late.pftrace"
    early = packet((8, 500), (58, 3), (10, 2), (11, message((9, INSTANT), (23, "early"), (11, 7))))
    path.write_bytes(early + snapshot(1, (6, 1_000), (3, 600)))
    want, _ = theirs(path)
    assert ours(tracekit.read(path)) == want == Counter({(900, 0, "early"): 1})


def test_events_on_a_clock_that_no_snapshot_names_are_dropped(tmp_path: Path) -> None:
    lone = packet((8, 500), (58, 9), (10, 2), (11, message((9, INSTANT), (23, "lone"))))
    good = packet((8, 500), (10, 2), (11, message((9, INSTANT), (23, "good"))))
    trace = read(tmp_path, snapshot(1, (6, 1_000), (3, 600)), lone, good)
    assert [row["name"] for row in rows(trace)] == ["good"]
    assert trace.ledgers[0].dropped == {"clock-unknown": 1}


THREAD, DELTA_US, ABSOLUTE_US = 44, 1, 16


@pytest.mark.viewer
@pytest.mark.parametrize("clocks", [[], [snapshot(1, (6, 50_000_000), (3, 20_000_000), main=6)]])
def test_events_of_older_producers_count_from_the_time_of_their_thread(tmp_path: Path, clocks: list[bytes]) -> None:
    """Steps of each sequence, an absolute time between them, a new reference, losses, an event without a time."""
    path = tmp_path / "old.pftrace"
    one, two = (Sequence(number, (11, message((11, 9)))) for number in (3, 4))

    def reference(number: int, us: int) -> bytes:
        return packet((THREAD, message((1, 7), (2, 8), (6, us))), (10, number))

    def event(of: Any, kind: int, name: str, *time: tuple[int, int]) -> bytes:
        named = ((10, of.text(2, name)),) if name else ()
        return of.packet((11, message((9, kind), (11, 9), *named, *time)))

    packets = [
        *clocks,
        packet((60, message((1, 9), (2, "lane")))),
        event(one, INSTANT, "before a reference", (DELTA_US, 1)),
        reference(3, 1_000),
        reference(4, 90_000),
        event(one, BEGIN, "a", (DELTA_US, 100)),
        event(two, INSTANT, "state cleared", (DELTA_US, 5)),
        reference(4, 95_000),
        event(two, INSTANT, "other sequence", (DELTA_US, 5)),
        event(one, INSTANT, "at once", (ABSOLUTE_US, 1_150)),
        event(one, INSTANT, "step of 0", (DELTA_US, 0)),
        event(one, END, "", (DELTA_US, 200)),
        event(one, INSTANT, "no time"),
        reference(3, 5_000),
        event(one, INSTANT, "new reference", (DELTA_US, 1)),
        packet((42, 1), (10, 3)),
    ]
    one.first = True
    packets += [
        event(one, INSTANT, "after a loss", (DELTA_US, 1)),
        event(one, INSTANT, "absolute after a loss", (ABSOLUTE_US, 6_000)),
        event(two, INSTANT, "went on", (DELTA_US, 5)),
    ]
    path.write_bytes(b"".join(packets))
    want, _ = theirs(path)
    trace = tracekit.read(path)
    assert ours(trace) == want
    assert len(want) == 7
    assert trace.ledgers[0].dropped == {"bad-time": 4}
    assert "fields-not-read" not in trace.ledgers[0].notes


def test_packets_that_need_a_lost_state_are_dropped_until_it_is_cleared(tmp_path: Path) -> None:
    one, two = Sequence(3), Sequence(3)
    trace = read(
        tmp_path,
        one.event(10, INSTANT, "before"),
        packet((42, 1), (10, 3)),
        one.event(20, INSTANT, "before"),
        two.event(30, INSTANT, "after"),
    )
    assert [row["name"] for row in rows(trace)] == ["before", "after"]
    assert trace.ledgers[0].dropped == {"state-lost": 1}
    assert "data-loss" in trace.ledgers[0].notes


@pytest.mark.viewer
def test_an_end_with_a_name_ends_what_is_within(tmp_path: Path) -> None:
    path = tmp_path / "named.pftrace"
    one = Sequence(3, (11, message((11, 9))))
    path.write_bytes(
        b"".join(
            [
                one.event(10, BEGIN, "outer"),
                one.event(20, BEGIN, "inner"),
                one.event(30, END, "outer"),
                one.event(40, BEGIN, "next"),
                one.event(50, END, "other"),
                one.event(60, END),
            ]
        )
    )
    want, _ = theirs(path)
    trace = tracekit.read(path)
    assert ours(trace) == want == Counter({(10, 20, "outer"): 1, (20, 10, "inner"): 1, (40, 20, "next"): 1})
    assert trace.ledgers[0].dropped == {"end-without-begin": 1}


def test_compressed_packets_are_read_in_their_place(tmp_path: Path) -> None:
    one = Sequence(3)
    plain = [one.event(10 * at, INSTANT, f"m{at % 3}") for at in range(9)]
    whole = read(tmp_path, *plain)
    packed = read(tmp_path, plain[0], packet((50, zlib.compress(b"".join(plain[1:5])))), *plain[5:])
    named = ["ts_ns", "name", "kind"]
    assert packed.events.select(named).equals(whole.events.select(named))
    ledger = packed.ledgers[0]
    assert (ledger.read, ledger.kept, ledger.facts) == (10, 9, 1)


def test_damaged_compressed_packets_cost_themselves(tmp_path: Path) -> None:
    one = Sequence(3)
    trace = read(tmp_path, one.event(10, INSTANT, "a"), packet((50, b"nothing")), one.event(20, INSTANT, "b"))
    assert [row["name"] for row in rows(trace)] == ["a", "b"]
    assert trace.ledgers[0].dropped == {"damaged": 1}


def test_a_file_of_compressed_packets_that_grow_without_end_is_bounded(tmp_path: Path) -> None:
    bomb = zlib.compress(b"\0" * (80 << 20))
    trace = read(tmp_path, Sequence(3).event(10, INSTANT, "a"), packet((50, bomb)))
    assert trace.ledgers[0].dropped == {"damaged": 1}


def test_other_packets_are_counted_by_type(tmp_path: Path) -> None:
    one = Sequence(3)
    trace = read(tmp_path, one.event(10, INSTANT, "a"), *[packet((1, message((1, 2))), (10, 4))] * 3, packet((66, b"")))
    assert trace.ledgers[0].ignored == {"ftrace_events packets": 3, "perf_sample packets": 1}
    assert "ftrace_events (3), perf_sample (1)" in trace.ledgers[0].notes["packets-not-read"].text


def test_a_cut_file_gives_the_packets_before_the_cut(tmp_path: Path) -> None:
    one = Sequence(3)
    data = one.event(10, BEGIN, "a") + one.event(20, END)
    (tmp_path / "cut.pftrace").write_bytes(data + one.event(30, INSTANT, "b")[:-2])
    trace = tracekit.read(tmp_path / "cut.pftrace")
    assert [row["dur_ns"] for row in rows(trace)] == [10]
    assert trace.ledgers[0].dropped == {"torn-row": 1}


def test_damage_ends_the_file_with_its_byte(tmp_path: Path) -> None:
    data = b"".join(Sequence(3).event(10, INSTANT, "a") for _ in range(3))
    (tmp_path / "bad.pftrace").write_bytes(data + b"\x77" + data)
    trace = tracekit.read(tmp_path / "bad.pftrace")
    assert len(rows(trace)) == 3
    assert trace.ledgers[0].notes["damaged"].places == [f"byte {len(data)}"]


def test_a_file_that_begins_with_no_packet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.pftrace").write_bytes(b"\x12\x02ab")
    with pytest.raises(ParseError, match="byte 0: no packet of Perfetto: byte 0x12 where a packet begins with 0x0a"):
        tracekit.read(tmp_path / "no.pftrace", format="perfetto")


def test_gzip_changes_nothing(tmp_path: Path) -> None:
    path = sample("perfetto/program.pftrace")
    (tmp_path / "p.pftrace.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert tracekit.read(tmp_path / "p.pftrace.gz").events.equals(tracekit.read(path).events)


def test_a_trace_on_disk_is_that_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that do not fit into memory: the same events, from slices that are open over many pieces."""

    one, two = Sequence(3, (11, message((11, 9)))), Sequence(4, (11, message((11, 10))))
    packets = [one.event(0, BEGIN, "outermost"), two.event(1, BEGIN, "other")]
    for at in range(60):
        packets += [one.event(10 + 5 * at, BEGIN, f"n{at % 7}", (47, Fixed(at % 4)))]
        packets += [two.event(11 + 5 * at, INSTANT, "m")]
        packets += [one.event(13 + 5 * at, END)] if at % 9 else []
    packets += [one.event(9000, END)] * 3 + [two.event(9000, END)]
    whole = read(tmp_path, *packets)
    small(monkeypatch, Limit.PERFETTO_ROWS_IN_MEMORY, 16)
    small(monkeypatch, Limit.PERFETTO_SLICE_ROWS, 8)
    small(monkeypatch, Limit.SPILL_PIECE_ROWS, 3)
    pieces = read(tmp_path, *packets)
    key = ["ts_ns", "event_id", "kind"]
    for trace in (whole, pieces):
        assert trace.ledgers[0].merged == 57
    one_table, other = (trace.events.to_pandas().sort_values(key).reset_index(drop=True) for trace in (whole, pieces))
    assert one_table.equals(other)
