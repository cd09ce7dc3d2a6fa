"""Several files as one run: clocks that are brought together, files that share none, ranks, copies, and ids."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from support import corpus, sample
from typer.testing import CliRunner
from viewers import perfetto

import tracekit
from benchmarks.truth.cluster import Cluster, simulate, write_kineto
from tracekit.cli import app
from tracekit.errors import UsageError
from tracekit.inputs.clocks.placement import Align
from tracekit.inputs.options import parse_align
from tracekit.model.trace import Trace

MS = 1_000_000


def clocks(trace: Trace) -> list[dict[str, object]]:
    return [source.facts["clock"] for source in trace.run.sources]


def notes(trace: Trace) -> dict[str, str]:
    return {code: str(note) for ledger in trace.ledgers for code, note in ledger.notes.items()}


def cluster(**how: int | float | bool) -> Cluster:
    return simulate(3, **{"hosts": 3, "ranks_per_host": 1, "collectives": 80, "seconds": 20.0, "lose": False, **how})  # type: ignore[arg-type]


def off_by(trace: Trace, made: Cluster) -> int:
    """The largest distance between ends of one collective, less what the ranks truly left apart."""
    frame = trace.to_pandas().query("kind == 'kernel'")
    end = (frame["ts_ns"] + frame["dur_ns"]).to_numpy().astype(np.int64)
    number = np.array([json.loads(text)["Seq"] for text in frame["args"]])
    rank = frame["rank"].to_numpy().astype(np.int64)
    true = {
        (m, r): t for m, r, t in zip(made.meeting.tolist(), made.rank.tolist(), made.true_end.tolist(), strict=True)
    }
    wrong = end - np.array([true[m, r] for m, r in zip(number.tolist(), rank.tolist(), strict=True)])
    # All times are on the clock of one host: its own drift is no fault.
    own = wrong[rank == 0], end[rank == 0]
    line = np.polyfit((own[1] - own[1][0]).astype(float), (own[0] - own[0][0]).astype(float), 1)
    return int(np.abs(wrong - own[0][0] - np.polyval(line, (end - own[1][0]).astype(float))).max())


@pytest.mark.parametrize("wall_clock", [True, False])
def test_ranks_whose_clocks_are_seconds_apart_are_put_onto_one(tmp_path: Path, wall_clock: bool) -> None:
    made = cluster()
    trace = tracekit.read(write_kineto(made, tmp_path, wall_clock=wall_clock))
    found = clocks(trace)
    assert sorted(str(each["method"]) for each in found)[:2] == ["collectives", "collectives"]
    assert len({each["group"] for each in found}) == 1
    most = max(int(str(each["uncertainty_ns"] or 0)) for each in found)
    assert off_by(trace, made) <= 3 * most < 200_000
    assert (trace.run.origin_ns is not None) == wall_clock
    assert "moved by" in notes(trace)["clock-moved"]
    assert "clocks-not-comparable" not in notes(trace)


def test_without_alignment_each_input_keeps_the_clock_of_its_file(tmp_path: Path) -> None:
    made = cluster()
    paths = write_kineto(made, tmp_path)
    trace = tracekit.read(paths, align="none")
    assert {str(each["method"]) for each in clocks(trace)} == {"wall-clock"}
    assert all(each["offset_ns"] == 0 for each in clocks(trace))
    assert "how well these agree is unknown" in notes(trace)["clocks-by-wall-clock"]
    starts = {rank: int(group.min()) for rank, group in trace.to_pandas().groupby("rank")["ts_ns"]}
    origin = trace.run.origin_ns or 0
    for rank in range(3):
        first = int(made.start[made.rank == rank].min())
        assert abs(starts[rank] + origin - (first - 20_000)) <= 1


def test_a_convert_a_read_and_an_inspect_say_the_same_of_clocks(tmp_path: Path) -> None:
    paths = write_kineto(cluster(), tmp_path)
    trace = tracekit.read(paths)
    tracekit.convert(paths, tmp_path / "out.parquet")
    tracekit.convert(paths, tmp_path / "out.json")
    again = tracekit.read(tmp_path / "out.parquet")
    assert clocks(again) == clocks(trace)
    assert again.events.column("ts_ns").to_pylist() == trace.events.column("ts_ns").to_pylist()
    whole = json.loads((tmp_path / "out.json").read_text())
    assert [source["facts"]["clock"] for source in whole["tracekit"]["sources"]] == clocks(trace)
    assert [each["facts"]["clock"] for each in tracekit.inspect(paths).inputs] == clocks(trace)
    shown = CliRunner().invoke(app, ["inspect", *map(str, paths)]).stdout
    assert shown.count("by collectives, against") == 2
    assert "certainly" in shown


def test_durations_change_with_a_clocks_rate_alone_and_nesting_stays(tmp_path: Path) -> None:
    made = cluster()
    paths = write_kineto(made, tmp_path)
    trace, apart = tracekit.read(paths), tracekit.read(paths, align="none")
    for rank in range(3):
        here, there = (each.to_pandas() for each in (trace, apart))
        ratio = here[here["rank"] == rank]["dur_ns"].sum() / there[there["rank"] == rank]["dur_ns"].sum()
        assert abs(ratio - 1) < 110e-6
    assert len(trace.to_pandas()) == len(apart.to_pandas())


def test_a_clock_that_was_set_on_the_way_is_said_and_not_averaged(tmp_path: Path) -> None:
    made = cluster(collectives=200, step_us=3_000.0)
    [broken] = made.breaks
    paths = write_kineto(made, tmp_path, wall_clock=False)
    trace = tracekit.read(paths)
    jumps = [each for each in clocks(trace) if "breaks" in each]
    assert jumps
    reference = next(number for number, each in enumerate(clocks(trace)) if each["method"] == "reference")
    assert len(jumps) == (2 if broken.host == reference else 1)
    for each in jumps:
        [one] = each["breaks"]  # type: ignore[misc]
        assert abs(abs(one["by_ns"]) - 3 * MS) < MS // 5
        first, last = each["valid_ns"]  # type: ignore[misc]
        assert not first < one["at_ns"] < last
    assert "jumps on the way" in notes(trace)["clock-jumps"]
    shown = " ".join(CliRunner().invoke(app, ["inspect", *map(str, paths)]).stdout.split())
    assert shown.count("ns only") == len(jumps)


def test_inputs_of_two_runs_are_not_aligned_by_chance(tmp_path: Path) -> None:
    """Both state rank 0: their collectives are not the same ones."""
    made = cluster(hosts=2)
    paths = write_kineto(made, tmp_path)
    whole = json.loads(paths[1].read_text())
    whole["distributedInfo"]["rank"] = 0
    paths[1].write_text(json.dumps(whole))
    assert {str(each["method"]) for each in clocks(tracekit.read(paths))} == {"wall-clock"}


def test_runs_hours_apart_are_not_aligned(tmp_path: Path) -> None:
    paths = write_kineto(cluster(hosts=2), tmp_path)
    whole = json.loads(paths[1].read_text())
    whole["baseTimeNanoseconds"] += 2 * 3_600_000_000_000
    paths[1].write_text(json.dumps(whole))
    assert {str(each["method"]) for each in clocks(tracekit.read(paths))} == {"wall-clock"}


def test_the_gloo_ranks_of_one_host_keep_their_wall_clock() -> None:
    trace = tracekit.read([corpus(f"generated/torch/ddp_rank{rank}.pt.trace.json") for rank in (0, 1)])
    first, second = clocks(trace)
    assert (first["method"], second["method"]) == ("wall-clock", "wall-clock")
    assert (first["offset_ns"], second["offset_ns"]) == (0, 0)
    assert 0 < int(str(second["uncertainty_ns"])) < MS


def test_a_gloo_rank_whose_clock_was_set_comes_back(tmp_path: Path) -> None:
    """The second rank's wall clock a second off: collectives find it."""
    paths = [corpus(f"generated/torch/ddp_rank{rank}.pt.trace.json") for rank in (0, 1)]
    whole = json.loads(Path(paths[1]).read_text())
    whole["baseTimeNanoseconds"] += 1_000 * MS
    (tmp_path / "rank1.json").write_text(json.dumps(whole))
    found = clocks(tracekit.read([paths[0], tmp_path / "rank1.json"]))
    moved = next(each for each in found if each["method"] == "collectives")
    low, high = moved["possible_ns"]  # type: ignore[misc]
    assert low <= (-1_000 * MS if moved is found[1] else 1_000 * MS) <= high
    assert high - low < 2 * MS


def test_inputs_without_common_ground_are_side_by_side_and_say_so() -> None:
    inputs = [sample("nvprof-csv/gpu-and-api-trace.csv"), sample("nsys-sqlite/nvtx-v2.sqlite")]
    for trace in (tracekit.read(inputs), tracekit.read([inputs[0], sample("nvprof-csv/api-trace.csv")])):
        assert "each starts at its own zero" in notes(trace)["clocks-not-comparable"]
        assert len({each["group"] for each in clocks(trace)}) == 2
    report = tracekit.summary(inputs)
    assert any("each starts at its own zero" in note for note in report.notes)


def test_a_log_without_ground_is_placed_by_an_offset() -> None:
    csv, api = sample("nvprof-csv/gpu-and-api-trace.csv"), sample("nvprof-csv/api-trace.csv")
    alone = tracekit.read(api)
    trace = tracekit.read([csv, api], align=f"{Path(api).name}=+12ms")
    assert "clocks-not-comparable" not in notes(trace)
    mine = trace.to_pandas().query("source == 1")["ts_ns"]
    assert int(mine.min()) == int(alone.to_pandas()["ts_ns"].min()) + 12 * MS
    assert notes(trace)["clock-moved"] == "times are moved by +12,000,000 ns, as --align says"
    bare = tracekit.read([csv, api], align="+12ms")
    assert bare.events.column("ts_ns").to_pylist() == trace.events.column("ts_ns").to_pylist()


def test_an_offset_is_added_to_a_wall_clock(tmp_path: Path) -> None:
    paths = write_kineto(cluster(hosts=2), tmp_path)
    before, after = tracekit.read(paths, align="none"), tracekit.read(paths, align=["none", "rank1.json=-3ms"])
    at = [int(t.to_pandas().query("rank == 1")["ts_ns"].min()) + (t.run.origin_ns or 0) for t in (before, after)]
    assert at[1] - at[0] == -3 * MS


def test_inputs_that_share_a_clock_share_it_beside_one_that_does_not(tmp_path: Path) -> None:
    paths = write_kineto(cluster(hosts=2), tmp_path)
    together = tracekit.read(paths)
    trace = tracekit.read([*paths, sample("nvprof-csv/gpu-and-api-trace.csv")])
    groups = [each["group"] for each in clocks(trace)]
    assert groups[0] == groups[1] != groups[2]
    frame, alone = trace.to_pandas(), together.to_pandas()
    gap = [
        int(each.query("rank == 1")["ts_ns"].min()) - int(each.query("rank == 0")["ts_ns"].min())
        for each in (frame, alone)
    ]
    assert gap[0] == gap[1]
    skew = next(table for table in tracekit.view(trace, "ranks").tables if table.name == "ranks")
    assert len(skew) == 2


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ([], Align()),
        (["none"], Align("none")),
        (["rank1.json=collectives", "a=b=+1us"], Align("auto", {"rank1.json": "collectives", "a=b": 1_000})),
        (["-2ns"], Align(-2)),
    ],
)
def test_words_of_align(words: list[str], want: Align) -> None:
    assert parse_align(words) == want


@pytest.mark.parametrize("word", ["soon", "x=12ms", "x=+12", "x=+1e30s", "=", "x="])
def test_words_that_align_does_not_know(word: str) -> None:
    with pytest.raises(UsageError):
        parse_align([word])


def test_an_input_that_is_not_there_cannot_be_aligned(tmp_path: Path) -> None:
    paths = write_kineto(cluster(hosts=2), tmp_path)
    with pytest.raises(UsageError, match="no input has this name"):
        tracekit.read(paths, align="rank7.json=none")


def test_a_method_that_relates_nothing_is_said() -> None:
    inputs = [sample("nvprof-csv/gpu-and-api-trace.csv"), sample("nsys-sqlite/nvtx-v2.sqlite")]
    assert "its clock stays as it is" in notes(tracekit.read(inputs, align="collectives"))["clock-refused"]


def test_the_rank_in_a_name_is_the_rank_of_rows_that_state_none(tmp_path: Path) -> None:
    for number in (3, 12):
        (tmp_path / f"worker-{number}.csv").write_bytes(Path(sample("nvprof-csv/gpu-and-api-trace.csv")).read_bytes())
    trace = tracekit.read(tmp_path, rank_from=r"worker-(\d+)")
    assert set(trace.to_pandas()["rank"]) == {3, 12}
    stated = write_kineto(cluster(hosts=2), tmp_path)
    trace = tracekit.read(stated[1], rank_from=r"x(\d)")
    assert set(trace.to_pandas()["rank"].dropna()) == {1}
    assert "finds no rank" in notes(trace)["no-rank-in-name"]
    for pattern in ("(", "worker", "(w)orker"):
        with pytest.raises(UsageError, match="rank_from"):
            tracekit.read(tmp_path / "worker-3.csv", rank_from=pattern)


def test_one_file_by_two_names_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(Path(sample("nvprof-csv/gpu-and-api-trace.csv")).read_bytes())
    os.link(path, tmp_path / "b.csv")
    trace = tracekit.read([path, path, tmp_path / "b.csv"])
    assert trace.events.equals(tracekit.read(path).events)
    assert "is the same file: it is read once" in notes(trace)["same-file"]
    named = tracekit.read([f"x={path}", f"y={path}"])
    assert len(named.run.sources) == 2


def test_a_copy_of_a_file_counts_and_is_named(tmp_path: Path) -> None:
    data = Path(sample("nvprof-csv/gpu-and-api-trace.csv")).read_bytes()
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "c.csv").write_bytes(data.replace(b"1.190000", b"1.190001"))
    trace = tracekit.read(tmp_path)
    assert len(trace.run.sources) == 3
    assert "/b.csv has the same bytes: remove it if it is a copy" in notes(trace)["same-bytes"]
    assert ["same-bytes" in ledger.notes for ledger in trace.ledgers] == [True, False, False]
    assert "same-bytes" not in notes(tracekit.read([tmp_path / "a.csv", tmp_path / "c.csv"]))
    named = tracekit.read([f"x={tmp_path / 'a.csv'}", f"y={tmp_path / 'b.csv'}"])
    assert "same-bytes" not in notes(named)


@pytest.mark.viewer
@pytest.mark.parametrize("suffix", ["json", "pftrace"])
def test_perfetto_shows_a_joined_trace_as_the_sum_of_its_parts(tmp_path: Path, suffix: str) -> None:
    """Three containers with one process id, one thread, one stream, and the same correlation and arrow ids."""
    made = cluster(collectives=40)
    paths = write_kineto(made, tmp_path)
    parts = []
    for path in paths:
        tracekit.convert(path, tmp_path / f"{path.stem}.out.{suffix}")
        parts.append(perfetto(tmp_path / f"{path.stem}.out.{suffix}"))
    tracekit.convert(paths, tmp_path / f"all.{suffix}", align="wall-clock")
    tracekit.convert(paths, tmp_path / f"moved.{suffix}")
    backwards = (
        "select count(*) as arrows from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id"
        " where b.ts < a.ts"
    )
    for name, exact in (("all", True), ("moved", False)):
        whole = perfetto(
            tmp_path / f"{name}.{suffix}",
            [backwards],
        )
        assert not whole["errors"]
        assert whole["slices"] == sum(part["slices"] for part in parts)
        assert whole["flows"] == sum(part["flows"] for part in parts)
        total = sum(part["sum_dur_ns"] for part in parts)
        assert abs(whole["sum_dur_ns"] - total) <= (0 if exact else total // 5_000)
        assert len(whole["processes"]) == sum(len(part["processes"]) for part in parts)
        assert whole["sql"][0] == [{"arrows": 0}]


def logs_of_hosts(folder: Path, hosts: list[tuple[str, int]]) -> list[Path]:
    """Write a log of the recorder for each host: its name, and the Unix time of the start of its clock."""
    paths = []
    for number, (host, boot) in enumerate(hosts):
        head = {"format": "tracekit-log", "version": 1, "pid": 100 + number, "perf_ns": 1_000, "epoch_ns": boot + 1_000}
        lines = [
            head | ({"host": host} if host else {}),
            {"k": "thread", "t": 0, "tid": 100 + number, "name": "MainThread"},
            {"k": "name", "id": 1, "name": "work"},
            {"k": "r", "t": 0, "x": [1, 5_000 + number, -1, 9_000]},
            {"k": "end", "t": 9_500, "items": 2, "how": "stop"},
        ]
        paths.append(folder / f"log{number}.jsonl")
        paths[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    return paths


BOOT = 1_795_700_000 * 10**9


@pytest.mark.parametrize("count", [2, 3, 5])
def test_logs_of_one_host_share_its_clock(count: int, tmp_path: Path) -> None:
    trace = tracekit.read(logs_of_hosts(tmp_path, [("node1", BOOT + each) for each in range(count)]))
    assert "clocks-by-wall-clock" not in notes(trace)
    assert {each["group"] for each in clocks(trace)} == {0}
    assert [source.facts["host"] for source in trace.run.sources] == ["node1"] * count


@pytest.mark.parametrize(
    "hosts",
    [
        [("node1", BOOT), ("node2", BOOT), ("node1", BOOT)],
        [("localhost", BOOT), ("localhost", BOOT + 3 * 10**9), ("localhost", BOOT)],
        [("", BOOT), ("", BOOT), ("", BOOT)],
    ],
    ids=["two hosts", "two machines of one name", "hosts that are not known"],
)
def test_logs_that_are_not_of_one_host_keep_the_note(hosts: list[tuple[str, int]], tmp_path: Path) -> None:
    trace = tracekit.read(logs_of_hosts(tmp_path, hosts))
    assert "how well these agree is unknown" in notes(trace)["clocks-by-wall-clock"]
