"""Joined traces in Perfetto's engine: the sum of their parts, no arrow between inputs, no process over another one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import corpus, corpus_next
from viewers import perfetto

import tracekit
from benchmarks.truth.cluster import simulate, write_kineto

pytestmark = pytest.mark.viewer

_OF_SLICE = (
    " left join thread_track tt{0} on s{0}.track_id = tt{0}.id left join thread th{0} on th{0}.utid = tt{0}.utid"
    " left join process_track pt{0} on s{0}.track_id = pt{0}.id"
    " left join process p{0} on p{0}.upid = coalesce(th{0}.upid, pt{0}.upid)"
)
BY_PROCESS = (
    f"select p.upid, p.name, count(*) as n, sum(max(s.dur, 0)) as ns from slice s{_OF_SLICE.format('')} group by 1"
)
ARROWS = (
    "select po.name as one, pi.name as other, sum(si.ts < so.ts) as back, count(*) as n from flow f"
    " join slice so on f.slice_out = so.id join slice si on f.slice_in = si.id"
    f"{_OF_SLICE.format('o')}{_OF_SLICE.format('i')} group by 1, 2"
)


def ranks_in_containers(folder: Path) -> list[Path]:
    """Two hosts with two ranks each: all have the same process, thread, device, stream, correlation and arrow ids."""
    made = simulate(21, hosts=2, ranks_per_host=2, collectives=25, seconds=5.0, lose=False)
    return write_kineto(made, folder)


def files(*names: str) -> Any:
    """Real files, found when the test runs."""

    def found(_: Path) -> list[Path]:
        return [corpus_next(name) if name.startswith("roc") else corpus(name) for name in names]

    return found


CASES = {
    "containers": ranks_in_containers,
    "gloo": files("generated/torch/ddp_rank0.pt.trace.json", "generated/torch/ddp_rank1.pt.trace.json"),
    "nsys": files("nsys_sqlite/mock_2026.1.sqlite", "nsys_sqlite/mordred_old_schema.sqlite.gz"),
    "paddle": files("generated/paddle26/range.0.json", "generated/paddle26/workers.0.json"),
    "rocprof": files(
        "rocprof/v3_decode_hip_api_trace.csv",
        "rocprof/v3_decode_kernel_trace.csv",
        "rocprof/v3_prefill_hip_api_trace.csv",
        "rocprof/v3_prefill_kernel_trace.csv.gz",
    ),
    "torch and nsys": files("kineto/hta_alexnet.json.gz", "nsys_sqlite/mordred_old_schema.sqlite.gz"),
}


def label_of(name: str | None, labels: list[str]) -> str:
    """The input that a process is of: its name has the input's label."""
    found = [label for label in labels if label in (name or "")]
    assert len(found) == 1, f"process {name!r} names {found}"
    return found[0]


@pytest.mark.parametrize("suffix", ["json", "pftrace"])
@pytest.mark.parametrize("case", CASES)
def test_a_joined_trace_is_the_sum_of_its_inputs(tmp_path: Path, case: str, suffix: str) -> None:
    paths = CASES[case](tmp_path)
    labels = [f"part{number}x" for number in range(len(paths))]
    parts = {}
    for label, path in zip(labels, paths, strict=True):
        tracekit.convert(f"{label}={path}", tmp_path / f"{label}.{suffix}")
        parts[label] = perfetto(tmp_path / f"{label}.{suffix}", [BY_PROCESS])
    named = [f"{label}={path}" for label, path in zip(labels, paths, strict=True)]
    for align in ("none", "auto"):
        tracekit.convert(named, tmp_path / f"{align}.{suffix}", align=align)
        whole = perfetto(tmp_path / f"{align}.{suffix}", [BY_PROCESS, ARROWS])
        assert not whole["errors"]
        for key in ("slices", "instants", "counters", "flows", "unfinished"):
            assert whole[key] == sum(part[key] for part in parts.values()), key
        by_process, arrows = whole["sql"]
        # A process of the engine is one of one input, and none has gone into another.
        assert len({row["upid"] for row in by_process}) == sum(len(part["sql"][0]) for part in parts.values())
        assert len({row["name"] for row in by_process}) == len(by_process)
        counts: Counter[str] = Counter()
        times: Counter[str] = Counter()
        for row in by_process:
            counts[label_of(row["name"], labels)] += row["n"]
            times[label_of(row["name"], labels)] += row["ns"]
        for label, part in parts.items():
            assert counts[label] == part["slices"]
            slack = 0 if align == "none" else part["sum_dur_ns"] // 5_000  # a clock that drifts
            assert abs(times[label] - part["sum_dur_ns"]) <= slack
        for row in arrows:
            assert label_of(row["one"], labels) == label_of(row["other"], labels)
            assert row["back"] == 0


def test_the_original_ids_are_in_the_facts(tmp_path: Path) -> None:
    """Device 0 of each host is a device of its own; the numbers of the files stay in the rows and in the lanes."""
    paths = ranks_in_containers(tmp_path)
    tracekit.convert(paths, tmp_path / "all.json")
    tracekit.convert(paths, tmp_path / "all.pftrace")
    for suffix in ("json", "pftrace"):
        whole = perfetto(tmp_path / f"all.{suffix}")
        gpus = [each["name"] for each in whole["processes"] if "GPU 0" in each["name"]]
        assert len(gpus) == 4
        assert all("(process 77)" in name for name in gpus)
    frame = tracekit.read(tmp_path / "all.json").to_pandas()
    kernels = frame[frame["kind"] == "kernel"]
    assert set(kernels["device"]) == {0}
    assert set(kernels["pid"]) == {77}
    assert set(kernels["rank"]) == {0, 1, 2, 3}
    assert kernels.groupby("rank")["correlation"].nunique().tolist() == [25] * 4
