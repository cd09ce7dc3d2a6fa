"""Tables of rocprof and rocprofv3: real files, ours against the database of the same run, damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import SAMPLES, corpus_next, run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.model.trace import Trace

REAL = {
    "v1_spatter_results.csv": (520, 13_534_918_164), "v1_gunrock_results.csv": (56, 9_025_354),
    "v1_llama_gfx12_results.csv.gz": (1963, 662_138_329), "v3_decode_kernel_trace.csv": (144, 1_857_381),
    "v3_decode_hip_api_trace.csv": (920, 4_449_331), "v3_prefill_kernel_trace.csv.gz": (1128, 66_066_571),
    "v3_prefill_hip_api_trace.csv": (5, 1_411_305), "v3_doc_kernel_trace.csv": (9, 96_160),
    "v3_doc_hip_trace.csv": (17, 476_345_901), "v3_doc_hsa_api_trace.csv": (10, 13_473),
    "v3_doc_marker_api_trace.csv": (5, 4_962_639), "v3_doc_memory_allocation_trace.csv": (6, 894_894),
    "v3_doc_memory_copy_trace.csv": (4, 329_162), "v3_doc_scratch_memory_trace.csv": (2, 609_107_599),
    "v3_doc_rccl_trace.csv": (21, 430_140_109), "v3_doc_rocpd-to-csv.csv": (13, 173_915_064),
    "v3_doc2024_kernel_trace.csv": (7, 795_453), "v3_doc2024_memory_copy_trace.csv": (2, 1_145_680),
}  # fmt: skip
"""Events and nanoseconds (SOURCES.md of the corpus)."""
SUMS = {
    "v1_spatter_results.stats.csv": (2, 520, 13_534_918_164), "v1_gunrock_results.stats.csv": (8, 56, 9_025_354),
    "v1_kokkos_hiptrace.stats.csv": (8, 14, 1_649_757), "v1_kokkos_hiptrace.hip_stats.csv": (17, 104, 357_020_417),
    "v1_kokkos_hiptrace.copy_stats.csv": (3, 30, 8_026_215), "v1_llama_f16.hip_stats.csv": (32, 15_966, 3_013_407_433),
    "v1_llama_f16.stats.csv": (31, 32_193, 5_359_968_890), "v1_llama.copy_stats.csv": (4, 3140, 387_953_826),
    "v1_llama_gfx12.stats.csv": (20, 1963, 662_138_329), "v3_doc_hip_api_stats.csv": (17, 155, 308_269_675),
    "v3_doc_hip_domain_stats.csv": (1, 13, 458_514_859),
}  # fmt: skip
"""Rows, calls and nanoseconds."""
COUNTED = {
    "v3_decode_counter_collection.csv": (34, 42_346.6875), "v3_doc_counter_collection.csv": (4, 65_536.0),
    "v3_doc2024_counter_collection.csv": (7, None), "v3_doc_kernel_names.csv": (4, None),
}  # fmt: skip
"""Launches and the sum of the counter's values, where it is known."""


def whole(trace: Trace) -> None:
    """Fail if a row of the file is lost."""
    trace.ledgers[0].check()
    assert not trace.ledgers[0].dropped
    assert set(trace.ledgers[0].ignored) <= {"header", "blank"}


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_real_traces_have_the_rows_and_times_that_were_counted_apart(name: str) -> None:
    path = corpus_next(f"rocprof/{name}")
    trace = tracekit.read(path)
    whole(trace)
    assert sure_readers(path) == ["rocprof-csv"]
    assert (len(trace.events), sum(trace.events["dur_ns"].to_pylist())) == REAL[name]


@pytest.mark.corpus
@pytest.mark.parametrize("name", SUMS)
def test_real_sums_have_the_calls_and_times_that_were_counted_apart(name: str) -> None:
    path = corpus_next(f"rocprof/{name}")
    trace = tracekit.read(path)
    whole(trace)
    assert sure_readers(path) == ["rocprof-csv"]
    calls, times = (trace.totals[column].to_pylist() for column in ("calls", "total_ns"))
    assert (len(calls), sum(calls), sum(times)) == SUMS[name]


@pytest.mark.corpus
@pytest.mark.parametrize("name", COUNTED)
def test_real_counters_are_totals_and_their_kernels_no_events(name: str) -> None:
    trace = tracekit.read(corpus_next(f"rocprof/{name}"))
    whole(trace)
    launches, total = COUNTED[name]
    assert len(trace.events) == 0
    assert sum(trace.totals["calls"].to_pylist()) == launches
    if total is not None:
        assert sum(json.loads(text)["total"] for text in trace.totals["args"].to_pylist()) == total


@pytest.mark.corpus
def test_marks_are_told_from_ranges_by_their_length() -> None:
    trace = tracekit.read(corpus_next("rocprof/v3_doc_marker_api_trace.csv"))
    assert sorted(trace.events["kind"].to_pylist()) == ["mark"] * 2 + ["user_range"] * 3


# Ours


@pytest.mark.parametrize("kind", ["kernel", "memcpy", "runtime"])
def test_the_tables_agree_with_the_database_of_the_same_run(kind: str) -> None:
    file = {"kernel": "kernel", "memcpy": "memory_copy", "runtime": "hip_api"}[kind]
    keys = ["name", "ts_ns", "dur_ns", "correlation", "copy_kind", "stream", "tid", "grid_x", "block_y", "registers"]
    found = []
    for path in (f"rocprof-csv/4242_{file}_trace.csv", "rocpd/4242_results.db"):
        trace = tracekit.read(sample(path))
        found.append([tuple(row[key] for key in keys) for row in trace.events.to_pylist() if row["kind"] == kind])
    assert sorted(found[0], key=str) == sorted(found[1], key=str)


def test_kernels_of_rocprof_and_their_sums_agree() -> None:
    trace = tracekit.read(sample("rocprof-csv/results.csv"))
    sums = {row["name"]: (row["calls"], row["total_ns"]) for row in _totals("results.stats.csv")}
    found: dict[str, tuple[int, int]] = {}
    for name, ns in zip(*(trace.events[column].to_pylist() for column in ("name", "dur_ns")), strict=True):
        calls, total = found.get(name, (0, 0))
        found[name] = (calls + 1, total + ns)
    assert found == sums
    assert all(name.endswith(" [clone .kd]") for name in trace.events["raw_name"].to_pylist())


def test_counters_are_those_of_the_database() -> None:
    database = tracekit.read(sample("rocpd/4242_results.db")).totals.to_pylist()
    keys = ("name", "calls", "value_min", "value_max", "value_avg")
    found = [tuple(row[key] for key in keys) for row in _totals("4242_counter_collection.csv")]
    assert sorted(found) == sorted(tuple(row[key] for key in keys) for row in database)


def _totals(name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = tracekit.read(sample(f"rocprof-csv/{name}")).totals.to_pylist()
    return rows


# rocprofv2, counters without times, samples of instructions


def test_tables_of_rocprofv2_agree_with_the_database_of_the_same_run() -> None:
    database = tracekit.read(sample("rocpd/4242_results.db")).events.to_pylist()
    for name, kind, keys in (
        ("results_4242.csv", "kernel", ("name", "ts_ns", "dur_ns", "correlation", "pid", "stream", "registers")),
        ("hip_api_trace_4242.csv", "runtime", ("name", "ts_ns", "dur_ns", "correlation")),
        ("hcc_ops_trace_4242.csv", "kernel", ("name", "ts_ns", "dur_ns", "correlation")),
        ("hcc_ops_trace_4242.csv", "memcpy", ("ts_ns", "dur_ns", "correlation")),
    ):
        trace = tracekit.read(sample(f"rocprof-csv/{name}"))
        whole(trace)
        found = [
            sorted(tuple(row[key] for key in keys) for row in rows if row["kind"] == kind)
            for rows in (trace.events.to_pylist(), database)
        ]
        assert found[0] == found[1]
    assert trace.run.sources[0].facts["tool"] == "rocprofv2"


@pytest.mark.parametrize("name", ["results_4242.csv", "counters.csv"])
def test_counters_with_a_column_each_are_those_of_the_database(name: str) -> None:
    database = tracekit.read(sample("rocpd/4242_results.db")).totals.to_pylist()
    keys = ("name", "calls", "value_min", "value_max", "value_avg")
    found = [tuple(row[key] for key in keys) for row in _totals(name) if row["section"] == "metrics"]
    assert sorted(found) == sorted(tuple(row[key] for key in keys) for row in database)


def test_rows_of_further_dies_are_the_same_launch() -> None:
    ledger = tracekit.read(sample("rocprof-csv/results_4242.csv")).ledgers[0]
    ledger.check()
    assert (ledger.kept, ledger.merged) == (6, 6)


def test_launches_without_times_are_totals() -> None:
    assert [row["calls"] for row in _totals("counters.csv") if row["section"] == "gpu"] == [3, 3]
    assert "kernel" in run_command("summary", sample("rocprof-csv/counters.csv"), "--view", "kernel").output.lower()


def test_roctx_of_rocprofv2_is_moments() -> None:
    trace = tracekit.read(sample("rocprof-csv/roctx_trace_4242.csv"))
    whole(trace)
    assert [row["name"] for row in trace.events.to_pylist()] == ["step 0", None, "step 1", None, "step 2", None]
    assert set(trace.events["kind"].to_pylist()) == {"mark"}


def test_samples_of_instructions_are_totals_with_their_place() -> None:
    rows = _totals("pc_sampling_host_trap.csv")
    assert sum(float(str(row["value_avg"])) for row in rows) == 20
    frames = [json.loads(str(row["args"]))["frames"] for row in rows]
    assert ["/home/user/project/gemm.hip:12", "s_waitcnt vmcnt(0)"] in frames


@pytest.mark.corpus
def test_real_samples_of_instructions_are_counted() -> None:
    trace = tracekit.read(corpus_next("rocprof/v3_doc_pc_sampling_host_trap.csv"))
    # The file has no line end, but the number that may be cut is in no sum.
    assert trace.ledgers[0].dropped == {}
    assert sum(trace.totals["value_avg"].to_pylist()) == 79


def test_old_tables_end_each_line_in_a_comma(tmp_path: Path) -> None:
    """The first rocprof wrote so, without the number of the GPU."""
    path = tmp_path / "results.csv"
    lines = ["Index,KernelName,DispatchNs,BeginNs,EndNs,CompleteNs,SQ_WAVES,", '0,"scale(int, int)",1,5,9,11,4096,']
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    trace = tracekit.read(path)
    whole(trace)
    assert [(row["name"], row["ts_ns"], row["dur_ns"], row["device"]) for row in trace.events.to_pylist()] == [
        ("scale(int, int)", 5, 4, None)
    ]
    assert trace.totals["value_avg"].to_pylist() == [4096.0]


# Damage


def test_bad_rows_cost_themselves_alone(tmp_path: Path) -> None:
    lines = sample("rocprof-csv/4242_hip_api_trace.csv").read_text(encoding="utf-8").splitlines()
    odd = ['"A","b",1', '"HIP","x",1,1,1,soon,5', '"HIP","x",1,1,1,9,5', '"HIP","open,1,1,1,5,9', ""]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([*lines[:4], *odd, *lines[4:]]) + "\n", encoding="utf-8")
    ledger = tracekit.read(path).ledgers[0]
    ledger.check()
    assert ledger.dropped == {"bad-row": 2, "bad-time": 1, "ends-before-start": 1}
    assert ledger.kept == len(lines) - 1


def test_another_header_gets_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in (b"a,b\n1,2\n", b"Name,Ca\rlls,TotalDurationNs,AverageNs,Percentage\n"):
        path.write_bytes(text)
        with pytest.raises(ParseError, match="not the header of a table of rocprof"):
            tracekit.read(path, format="rocprof-csv")


FILES = sorted(path.name for path in (SAMPLES / "rocprof-csv").iterdir())


def test_a_header_below_blank_lines_without_a_line_end_is_a_header(tmp_path: Path) -> None:
    """The blank lines are a block of their own then. Found by fuzzing."""
    path = tmp_path / "ranges.csv"
    path.write_bytes(b"   \nMessage,ROCTX_ID,Domain")
    ledger = tracekit.read(path, format="rocprof-csv").ledgers[0]
    assert (ledger.read, ledger.ignored) == (2, {"blank": 1, "header": 1})


def test_a_line_ends_at_its_line_end_alone(tmp_path: Path) -> None:
    """Python's str.splitlines also ends lines at U+2028, U+0085 and form feeds."""
    path = tmp_path / "kernel_trace.csv"
    name = sample("rocprof-csv/4242_kernel_trace.csv")
    head, row, *_ = name.read_text(encoding="utf-8").splitlines()
    kernel = tracekit.read(name).events["raw_name"][0].as_py() or tracekit.read(name).events["name"][0].as_py()
    assert kernel in row
    path.write_text("\n".join([head, row.replace(kernel, "a\u2028b\u0085c\x0cd"), ""]), encoding="utf-8")
    trace = tracekit.read(path)
    whole(trace)
    assert [trace.ledgers[0].read, trace.events["name"].to_pylist()] == [2, ["a\u2028b\u0085c\x0cd"]]


@pytest.mark.parametrize(
    "header", ["Domain,ROCTX_ID,Message,Time tamp", "Domain,ROCTX_ID,Message", "Domain,ROCTX_ID,Message,Begin,End"]
)
def test_rows_of_a_table_without_its_times_are_dropped_and_counted(header: str, tmp_path: Path) -> None:
    path = tmp_path / "roctx_trace.csv"
    path.write_text(f"{header}\nROCTX_DOMAIN,0,a{',7' * (header.count(',') - 2)}\n")
    with pytest.raises(ParseError, match="without a column of its times"):
        tracekit.read(path)
