"""nvprof's CSV: the known figures of every real file and sample; an oddity costs its own row at most."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from doors.readers import NvprofSession, strip_suffix, suffixes
from hypothesis import given
from hypothesis import strategies as st
from nvprof_cases import (
    API_3,
    API_4,
    GPU_17,
    GPU_20,
    PREAMBLE,
    UNITS_17,
    UNITS_20,
    copy,
    kernel,
    read,
    strip_ids,
)
from support import corpus, sample

import tracekit
from tracekit.errors import ParseError
from tracekit.readers.base import Confidence
from tracekit.readers.head import Head
from tracekit.readers.nvprof import csv as nvprof_csv
from tracekit.readers.nvprof import text as nvprof_text

EXPECTED: dict[str, Any] = json.loads(sample("expected.json").read_text("utf-8"))
CSV_SAMPLES = [n for n in EXPECTED if n.startswith("nvprof-csv/")]

# rows, kernels and their ns, copies and their ns, memsets, first start, last end, streams, lines dropped
TRACES: dict[str, tuple[int, ...]] = {
    "concurrentKernels.csv": (10, 9, 85865961, 1, 1120, 0, 598807267, 609599840, 9, 0),
    "batchCUBLAS.csv": (237, 44, 1625266, 193, 42247052, 0, 1176737000, 1246937464, 21, 0),
    "convolutionTexture.csv": (24, 20, 4882429, 4, 93101689, 0, 807846478, 906114323, 1, 0),
    "nvgraph_Pagerank.csv": (815, 567, 1081628, 154, 58177, 94, 1484759000, 1493156320, 1, 0),
    "sobol_reduction_warning.csv": (401, 201, 20766024, 100, 168062955, 100, 1325622000, 1669500512, 1, 0),
    "poly_correlation_seconds.csv": (10, 4, 1289962000, 6, 126293000, 0, 669162000, 2085666000, 1, 0),
    "stencil2d_truncated.csv.gz": (13798, 13715, 138863218, 83, 86092710, 0, 1148817000, 2065166713, 1, 1),
    "cuda_timeline.csv": (8, 2, 3712, 6, 47808, 0, 215481427, 215549620, 2, 0),
    "h2d_h2d_overlap.csv": (8, 2, 2744016, 6, 66989583, 0, 665032627, 702817090, 2, 0),
    "vecAdd_nonBlocking_6streams.csv": (24, 6, 336671, 18, 5105276, 0, 515301806, 518999796, 6, 0),
}  # fmt: skip
TOTALS = {
    "nvprof_summary_csv/h2d_log_old.csv": (4, 4, 1),
    "nvprof_summary_csv/appended_runs_tmp.csv": (20, 20, 1),
    "nvprof_summary_csv/appended_runs_dev1.csv": (10, 10, 1),
    "nvprof_metrics_csv/binomialOptions_metrics.csv": (120, 1, 1),
    "nvprof_metrics_csv/HSOpticalFlow_metrics.csv": (678, 1, 6),
    "nvprof_metrics_csv/trans3cke_metrics.csv": (113, 1, 1),
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", TRACES)
def test_real_trace_gives_its_verified_figures(name: str) -> None:
    entry = tracekit.inspect(corpus(f"nvprof_gputrace_csv/{name}")).inputs[0]
    trace = tracekit.read(corpus(f"nvprof_gputrace_csv/{name}"))
    kinds = {k: (v["events"], v["dur_ns"]) for k, v in entry["by_kind"].items()}
    nothing = (0, 0)
    found = (
        entry["events"], *kinds.get("kernel", nothing), *kinds.get("memcpy", nothing), kinds.get("memset", nothing)[0],
        entry["first_ns"], entry["last_ns"], len(trace.events.column("stream").unique()),
        sum(entry["ledger"]["dropped"].values()),
    )  # fmt: skip
    assert entry["format"] == "nvprof-csv"
    assert found == TRACES[name]
    assert len(entry["devices"]) == 1
    assert trace.events.column("correlation").null_count == found[0] - found[1]


@pytest.mark.corpus
@pytest.mark.parametrize("name", TOTALS)
def test_real_totals_have_their_verified_rows_runs_and_kernels(name: str) -> None:
    trace = tracekit.read(corpus(name))
    rows = trace.totals
    found = (rows.num_rows, len(rows.column("run").unique()), len(rows.column("name").combine_chunks().dictionary))
    assert found == TOTALS[name]
    assert not trace.events.num_rows
    assert not trace.ledgers[0].dropped
    if "summary" in name:
        assert len({r["pid"] for r in trace.run.sources[0].facts["runs"]}) == found[0]


@pytest.mark.corpus
def test_real_appended_runs_have_each_their_own_unit() -> None:
    rows = tracekit.read(corpus("nvprof_summary_csv/h2d_log_old.csv")).totals.to_pylist()
    assert [r["total_ns"] for r in rows] == [3840, 3968, 3808, 12714446]
    assert [(r["min_ns"], r["avg_ns"], r["max_ns"]) for r in rows][3] == (6353943, 6357223.0, 6360503)


@pytest.mark.parametrize("name", CSV_SAMPLES)
def test_sample_gives_what_is_expected(name: str) -> None:
    want = EXPECTED[name]
    entry = tracekit.inspect(sample(name)).inputs[0]
    ledger = entry["ledger"]
    assert entry["format"] == want["reader"]
    assert entry["events"] + entry["totals"] == want["data_rows"] == ledger["kept"]
    assert ledger["read"] == sum(want["lines"].values())
    assert sum(ledger["dropped"].values()) == want["lines"].get("truncated", 0)
    assert sum(kind["dur_ns"] for kind in entry["by_kind"].values()) == want["sum_dur_ns"]
    assert (entry["first_ns"], entry["last_ns"]) == (want["first_start_ns"], want["last_end_ns"])
    for ours, theirs in (("kernel", "kernels"), ("memset", "memsets")):
        assert entry["by_kind"].get(ours, {"events": 0})["events"] == want[theirs]
    rows = tracekit.read(sample(name)).totals.to_pylist()
    for key, value in want.get("totals", {}).items():
        part, column = key.rsplit("_", 1) if not key.endswith("_ns") else (key.removesuffix("_total_ns"), "ns")
        section = {"gpu_activities": "GPU activities", "api_calls": "API calls", "unified_memory": "Unified Memory"}
        mine = [r for r in rows if r["section"] == section.get(part, part + "s")]
        sums = {"rows": len(mine), "calls": sum(r["calls"] for r in mine), "ns": sum(r["total_ns"] or 0 for r in mine)}
        assert sums[column] == value


@pytest.mark.parametrize("name", CSV_SAMPLES)
def test_columns_and_rows_read_the_same(name: str, tmp_path: Path) -> None:
    data = sample(name).read_bytes()
    fast = read(tmp_path, data)
    with mock.patch.object(NvprofSession, "block", return_value=None):
        slow = read(tmp_path, data)
    assert fast.events == slow.events
    assert fast.ledger.ignored == slow.ledger.ignored


def test_one_process_alone_has_its_rows_in_a_mixed_file() -> None:
    tagged = tracekit.read(sample("nvprof-csv/mpirun-tag-output.csv")).events
    ranks, pids = tagged.column("rank").to_pylist(), tagged.column("pid").to_pylist()
    assert sorted(set(zip(ranks, pids, strict=True))) == [(0, 21604), (1, 21605)]
    assert ranks.count(0) == ranks.count(1) == 61


def test_mixed_rows_without_tags_have_no_pid_and_a_note_says_so() -> None:
    trace = tracekit.read(sample("nvprof-csv/mpirun.csv"))
    pids = trace.events.column("pid").to_pylist()
    note = trace.ledgers[0].notes["rows-mixed"]
    assert set(pids) == {None, 21605}
    assert note.count == pids.count(None) > 100


def test_unified_memory_copies_have_their_size_and_faults_no_invented_duration() -> None:
    rows = tracekit.read(sample("nvprof-csv/gpu-trace-22-columns.csv")).events.to_pylist()
    copies = [r for r in rows if r["name"].startswith("[Unified Memory Memcpy")]
    faults = [r for r in rows if r["name"] == "[Unified Memory CPU page faults]"]
    assert {(r["kind"], r["bytes"] % 4096, r["copy_kind"] in ("HtoD", "DtoH")) for r in copies} == {("memcpy", 0, True)}
    assert {(r["kind"], r["dur_ns"], r["device"], r["stream"]) for r in faults} == {("overhead", None, None, None)}
    assert json.loads(faults[0]["args"]) == {"unified_memory": "PC 0x46de3225", "virtual_address": "0x7f246e000000"}


def test_peer_copies_keep_both_ends() -> None:
    rows = tracekit.read(sample("nvprof-csv/peer-copies.csv")).events.to_pylist()
    peer = next(r for r in rows if r["copy_kind"] == "PtoP")
    args = json.loads(peer["args"])
    assert (args["src_device"], args["src_context"]) == ("Tesla P100-PCIE-16GB (1)", "2")
    assert (args["dst_device"], args["dst_context"]) == ("Tesla P100-PCIE-16GB (0)", "1")
    assert peer["device"] == 1


def test_launch_in_an_api_trace_names_its_kernel_apart() -> None:
    rows = tracekit.read(sample("nvprof-csv/api-trace-3-columns.csv")).events.to_pylist()
    launch = next(r for r in rows if r["name"].startswith("cudaLaunch"))
    assert (launch["name"], launch["correlation"], launch["kind"]) == ("cudaLaunch", 10, "runtime")
    assert json.loads(launch["args"]) == {"kernel": "maxwell_scudnn_128x64_relu_interior_nn_v1"}
    assert launch["tid"] is None


def test_every_cell_of_a_row_finds_its_column(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() + copy("2.5", "0.5"))
    first, second = got.events
    assert {k: v for k, v in first.items() if v is not None} == {
        "ts_ns": 1000000, "dur_ns": 2000, "event_id": 6, "name": "add(int*)", "kind": "kernel", "source": 0,
        "pid": 4242, "device": 0, "context": 1, "stream": 7, "correlation": 7, "grid_x": 4, "grid_y": 2, "grid_z": 1,
        "block_x": 128, "block_y": 1, "block_z": 1, "registers": 16, "static_smem_bytes": 512,
        "dynamic_smem_bytes": 64,
    }  # fmt: skip
    assert (second["ts_ns"], second["dur_ns"], second["bytes"], second["copy_kind"]) == (2500000, 500, 4096, "HtoD")
    assert json.loads(second["args"]) == {"src_mem_type": "Pageable", "dst_mem_type": "Device"}
    assert got.run.devices == {(0, 0): "Tesla T4"}
    assert got.run.origin_ns is None
    assert got.run.processes == {(0, 4242): "./train --lr 0.1, --steps 3"}


def test_columns_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    text = '"Name","Stream","Duration","New Thing","Start"\n,,us,GB/s,ms\n"[CUDA memset]","7",2.5,3.25,1.5\n'
    row = read(tmp_path, PREAMBLE + text).events[0]
    assert (row["ts_ns"], row["dur_ns"], row["stream"], row["kind"]) == (1500000, 2500, 7, "memset")
    assert json.loads(row["args"]) == {"New Thing": "3.25GB/s"}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (kernel(start="-1.000000"), "negative-time"),
        (kernel(duration="-2.000000"), "negative-time"),
        (kernel(start="1e30"), "absurd-time"),
        (kernel(duration="99999999999999999999"), "absurd-time"),
        (kernel(start="nan"), "bad-time"),
        (kernel(duration="inf"), "bad-time"),
        (kernel(start="abc"), "bad-time"),
        (kernel(start=""), "bad-time"),
        (kernel(duration=""), "no-duration"),
        ("1.000000,2.000000,4,2\n", "short-row"),
    ],
)
@pytest.mark.parametrize("others", [0, 40])
def test_a_bad_row_costs_itself_and_says_why(row: str, reason: str, others: int, tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() * others + row + kernel() * others)
    assert len(got.events) == 2 * others
    assert got.ledger.dropped == {reason: 1}
    assert got.ledger.notes[reason].places == [f"line {6 + others}"]


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        (kernel().replace(",4,2,1,", ",4.5,2,1,"), "grid_x", "Grid X: '4.5' is not a whole number"),
        (kernel().replace(",4,2,1,", ",4294967296,2,1,"), "grid_x", "Grid X: '4294967296'"),
        (kernel().replace(",4,2,1,", ",4…,2,1,"), "grid_x", "Grid X: '4…'"),
        (kernel().replace('"1","7"', '"1","7…"'), "stream", "Stream: '7…' was cut"),
        (copy(size="-4"), "bytes", "Size: "),
        (copy(size="nan"), "bytes", "Size: "),
        (copy(size="552.9…"), "bytes", "Size: "),
    ],
)
@pytest.mark.parametrize("others", [0, 40])
def test_an_optional_cell_that_cannot_be_read_costs_itself(
    row: str, column: str, reason: str, others: int, tmp_path: Path
) -> None:
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() * others + row + kernel() * others)
    assert len(got.events) == 2 * others + 1
    assert got.events[others][column] is None
    assert got.events[others]["dur_ns"] is not None
    assert got.ledger.dropped == {}
    note = got.ledger.notes["odd-cell"]
    assert reason in note.text
    assert note.places == [f"line {6 + others}"]


@pytest.mark.parametrize("column", ["Start", "Duration", "Name"])
def test_a_missing_column_costs_the_file_and_is_named(column: str, tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=f"line 4.*{column}") as caught:
        read(tmp_path, PREAMBLE + GPU_20.replace(f'"{column}",', ""))
    assert caught.value.hint


def test_a_trace_without_its_row_of_units_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="line 5: a row of units was expected"):
        read(tmp_path, PREAMBLE + GPU_20 + kernel() * 30)


@pytest.mark.parametrize("text", [PREAMBLE + GPU_20, PREAMBLE + GPU_20 + UNITS_20])
def test_a_header_without_rows_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="a table header without rows"):
        read(tmp_path, text)


def test_a_file_without_tables_has_no_rows_and_says_so(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE)
    assert got.events == got.totals == []
    assert "no-rows" in got.ledger.notes


def test_no_kernels_were_profiled_is_read_and_the_calls_that_follow_too(tmp_path: Path) -> None:
    calls = '==4242== API calls:\n"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,ms,,ms,ms,ms,\n'
    got = read(tmp_path, PREAMBLE + "No kernels were profiled.\n\n" + calls + '99.5,1.5,2,0.75,0.5,1.0,"cudaFree"\n')
    assert [(r["section"], r["total_ns"], r["kind"]) for r in got.totals] == [("API calls", 1500000, "runtime")]
    assert got.ledger.ignored["message"] == 1


def test_output_that_looks_like_csv_is_no_row(tmp_path: Path) -> None:
    junk = 'N,100000000\n1,2.302585,loss\n0.5,0.25,0.125\nstep,loss\n1,2,3\n{"a": 1}\n'
    clean = PREAMBLE + API_3 + '1.500000,2.500000,"cudaMalloc"\n' * 40
    dirty = PREAMBLE + junk + API_3 + ('1.500000,2.500000,"cudaMalloc"\n' * 20 + junk) * 2
    got = read(tmp_path, dirty)
    assert strip_ids(got.events) == strip_ids(read(tmp_path, clean).events)
    assert got.ledger.ignored["application-output"] == 3 * 6


def test_calls_of_other_interfaces_are_kept_as_other(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + API_4 + '1.0,2.0,"acc_wait@a.c:3",\n' * 30 + '1.0,2.0,"cuInit",5\n')
    assert {(r["kind"], r["correlation"]) for r in got.events} == {("other", None), ("driver", 5)}


def test_only_digits_in_brackets_at_the_end_are_a_correlation_id(tmp_path: Path) -> None:
    names = ["k [lambda(int) (instance 1)]", "k(int) [218]", "k(int)[218]", "k [21a]", "[CUDA memset]", "k [1] [2]"]
    rows = "".join(kernel(name=n).replace(",,,,,", ",,,").replace('",7\n', '"\n') for n in names)
    got = read(tmp_path, PREAMBLE + GPU_17 + UNITS_17 + rows * 4)
    assert got.column("name")[:6] == [names[0], "k(int)", "k(int)[218]", "k [21a]", "[CUDA memset]", "k [1]"]
    assert got.column("correlation")[:6] == [None, 218, None, None, None, 2]


@given(
    st.lists(st.text(alphabet="a1 []()9é", max_size=30) | st.from_regex(r"[a-z]{1,3} \[\d{1,20}\]\)?", fullmatch=True))
)
def test_suffixes_by_columns_are_those_of_each_name(texts: list[str]) -> None:
    texts = [t.strip() for t in texts]
    plain, _, numbers = suffixes(pa.array(texts, pa.string()))
    for text, found, number in zip(texts, plain.tolist(), numbers.tolist(), strict=True):
        want = strip_suffix(text)[1]
        assert (number if found else None) == want, text


def test_a_name_keeps_quotes_commas_and_its_own_letters(tmp_path: Path) -> None:
    names = ['f<a, b>(int, "x")', "größe(µ)", 'say ""hi"" (x)']
    rows = "".join(kernel(name=n) for n in names)
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + rows + kernel() * 30)
    assert got.column("name")[:3] == ['f<a, b>(int, "x")', "größe(µ)", 'say "hi" (x)']


def test_mangled_names_become_readable_and_keep_their_own_spelling(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel(name="_Z3addPi") * 20)
    assert set(zip(got.column("name"), got.column("raw_name"), strict=True)) == {("add(int*)", "_Z3addPi")}


def test_a_stream_that_is_no_number_gets_one_and_keeps_its_text(tmp_path: Path) -> None:
    rows = kernel().replace('"7"', '"Default"') * 40 + kernel()
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + rows)
    numbers = set(got.column("stream"))
    assert len(numbers) == 2
    assert 7 in numbers
    assert {got.run.ids[("stream", 0, n)] for n in numbers if n != 7} == {"Default"}


def test_each_appended_run_has_its_units_pid_and_facts(tmp_path: Path) -> None:
    second = (PREAMBLE + GPU_20 + UNITS_20.replace("ms,us", "s,ns")).replace("4242", "77").replace("./train", "./test")
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() * 30 + "done, 1.5\n" + second + kernel() * 30)
    assert {(r["pid"], r["ts_ns"], r["dur_ns"]) for r in got.events} == {(4242, 1000000, 2000), (77, 10**9, 2)}
    runs = got.run.sources[0].facts["runs"]
    assert [(r["run"], r["pid"], r["command"].split()[0]) for r in runs] == [(0, 4242, "./train"), (1, 77, "./test")]
    assert "rows-mixed" not in got.ledger.notes


def test_mixed_tables_of_unlike_units_are_refused_row_by_row(tmp_path: Path) -> None:
    start = PREAMBLE.replace("4242", "1").splitlines()[0] + "\n" + PREAMBLE.replace("4242", "2").splitlines()[0] + "\n"
    first = "==1== Profiling result:\n" + GPU_20 + UNITS_20 + kernel("100.0")
    second = "==2== Profiling result:\n" + GPU_20 + UNITS_20.replace("ms,us", "s,us") + kernel("0.5")
    got = read(tmp_path, start + first + second + kernel("0.6") + kernel("101.0") + kernel("0.7"))
    assert [r["ts_ns"] for r in got.events] == [10**8, 5 * 10**8, 6 * 10**8, 101 * 10**9]
    assert got.ledger.dropped == {"mixed-rows": 1}


def test_tables_of_unlike_width_are_told_apart_though_mixed(tmp_path: Path) -> None:
    begin = "".join(f"=={p}== NVPROF is profiling process {p}, command: ./a\n" for p in (1, 2))
    gpu = "==1== Profiling result:\n" + GPU_20 + UNITS_20 + kernel("1.0")
    api = "==2== Profiling result:\n" + API_4 + '1.0,1.0,"cudaFree",3\n'
    got = read(tmp_path, begin + gpu + api + kernel("2.0") + '2.0,1.0,"cudaFree",4\n' + kernel("3.0"))
    assert [(r["pid"], r["kind"]) for r in got.events] == [
        (1, "kernel"), (2, "runtime"), (1, "kernel"), (2, "runtime"), (1, "kernel")
    ]  # fmt: skip


@pytest.mark.parametrize("tag", ["[1,{}]<stderr>:", "[{}] ", " {}: ", "[job@1,{}]<stdout>: "])
def test_each_rank_of_tagged_output_is_read_apart(tag: str, tmp_path: Path) -> None:
    one = (PREAMBLE + GPU_20 + UNITS_20 + kernel("1.0") * 3).splitlines()
    two = (PREAMBLE + GPU_20 + UNITS_20.replace("ms,us", "s,ms") + kernel("1.0") * 3).replace("4242", "5").splitlines()
    lines = [tag.format(rank) + text for pair in zip(one, two, strict=True) for rank, text in enumerate(pair)]
    got = read(tmp_path, "\n".join(lines) + "\n")
    assert sorted({(r["rank"], r["pid"], r["ts_ns"], r["dur_ns"]) for r in got.events}) == [
        (0, 4242, 10**6, 2000), (1, 5, 10**9, 2 * 10**6)
    ]  # fmt: skip
    assert len(got.events) == 6


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("quotes", [True, False])
def test_a_table_saved_again_by_a_spreadsheet_is_the_same(delimiter: str, quotes: bool, tmp_path: Path) -> None:
    rows = [kernel("1.250000", name="add(int)"), copy("2.5", size="4704")] * 15
    plain = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + "".join(rows)).events
    cells = [[c.strip('"').replace(".", ",") for c in row.rstrip("\n").split(",")] for row in rows]
    table = [GPU_20.replace('"', "").strip().split(","), UNITS_20.strip().split(","), *cells]
    mark = '"' if quotes else ""
    text = PREAMBLE + "".join(delimiter.join(mark + c + mark if c else c for c in row) + "\r\n" for row in table)
    assert read(tmp_path, text).events == plain


def test_separators_of_thousands_are_refused_not_guessed(tmp_path: Path) -> None:
    head = PREAMBLE + "Start;Duration;Name\nus;us;\n"
    got = read(tmp_path, head + "1234,5;2,5;cudaFree\n1.234,5;2,5;cudaFree\n1.234;2;cudaFree\n")
    assert [(r["ts_ns"], r["dur_ns"]) for r in got.events] == [(1234500, 2500)] * 2
    assert got.ledger.dropped == {"ambiguous-number": 1}


DOUBTFUL = PREAMBLE + "Start;Duration;Name\nus;us;\n" + "1,234;5,678;cudaFree\n" * 2


@pytest.mark.parametrize("times", [1, 200])
def test_numbers_that_may_mean_either_are_refused_with_one_sentence(tmp_path: Path, times: int) -> None:
    text = DOUBTFUL + "2,345;6,789;cudaMalloc\n" * times
    with pytest.raises(ParseError, match=r"'1,234' may be 1\.234 or 1234, and no other number") as caught:
        read(tmp_path, text)
    assert caught.value.where == f"line {PREAMBLE.count(chr(10)) + 3}"
    assert "options decimal=" in caught.value.hint


def test_a_decimal_comma_elsewhere_settles_what_the_first_numbers_mean(tmp_path: Path) -> None:
    got = read(tmp_path, DOUBTFUL + "2,5;1,0;cudaMalloc\n")
    assert [(r["ts_ns"], r["dur_ns"]) for r in got.events] == [(1234, 5678)] * 2 + [(2500, 1000)]
    assert got.ledger.dropped == {}


def test_decimal_points_elsewhere_cost_the_numbers_with_commas(tmp_path: Path) -> None:
    got = read(tmp_path, DOUBTFUL + "2.5;1.0;cudaMalloc\n")
    assert [(r["ts_ns"], r["dur_ns"]) for r in got.events] == [(2500, 1000)]
    assert got.ledger.dropped == {"ambiguous-number": 2}


def test_output_of_the_program_settles_nothing(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="may be 1\\.234 or 1234"):
        read(tmp_path, "loss; 0.5\n" + DOUBTFUL)


def test_a_summary_without_preamble_units_and_quotes(tmp_path: Path) -> None:
    text = "Time(%),Time,Calls,Avg,Min,Max,Name\n47.79%,542.36ms,10,54.236ms,1.5us,60ms,void f<int, float>(int, int)\n"
    row = read(tmp_path, text).totals[0]
    assert (row["name"], row["calls"], row["total_ns"]) == ("void f<int, float>(int, int)", 10, 542360000)
    assert (row["min_ns"], row["max_ns"], row["avg_ns"]) == (1500, 60000000, 54236000.0)
    assert json.loads(row["args"]) == {"percent": "47.79"}


def test_metric_values_keep_number_unit_and_level(tmp_path: Path) -> None:
    head = (
        '==1== Metric result:\n"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
    )
    values = [
        'a,"A",31.012638%,91.062458%,60.122612%', 'b,"B","Low (1)","High (8)","Mid (5)"',
        'c,"C",7.100000B/s,12.300000GB/s,4.500000MB/s', 'd,"D",1,3,2', 'e,"E",<OVERFLOW>,<OVERFLOW>,<OVERFLOW>',
    ]  # fmt: skip
    got = read(tmp_path, head + "".join(f'"Tesla T4 (0)","k(int)",3,{v}\n' for v in values))
    rows = got.totals
    assert [(r["value_min"], r["value_max"], r["value_avg"], r["unit"]) for r in rows] == [
        (31.012638, 91.062458, 60.122612, "%"), (1, 8, 5, "level"),
        (7.1, 12.3 * 2**30, 4.5 * 2**20, "B/s"), (1, 3, 2, None), (None, None, None, None),
    ]  # fmt: skip
    assert [r["value_text"] for r in rows] == [None, "Mid (5)", None, None, "<OVERFLOW>"]
    assert json.loads(rows[2]["args"])["printed"] == {
        "min": "7.100000B/s",
        "max": "12.300000GB/s",
        "avg": "4.500000MB/s",
    }
    assert {(r["section"], r["device"], r["calls"], r["name"]) for r in rows} == {("metrics", 0, 3, "k(int)")}


def test_counters_of_each_call_make_a_row_each(tmp_path: Path) -> None:
    head = '"Device","Context","Stream","Kernel","ipc","gld_throughput"\n'
    got = read(tmp_path, PREAMBLE + head + '"Tesla T4 (0)","1","7","k(int) [9]",0.5,12.5GB/s\n')
    assert [(r["value_avg"], r["unit"], r["calls"]) for r in got.totals] == [(0.5, None, 1), (12.5, "GB/s", 1)]
    assert json.loads(got.totals[0]["args"]) == {
        "metric": "ipc", "context": "1", "stream": "7", "correlation_id": "9"
    }  # fmt: skip
    assert got.ledger.kept == 1


def test_ranges_are_summed_apart_from_the_run(tmp_path: Path) -> None:
    head = '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,us,,us,us,us,\n'
    row = '"GPU activities",100.0,2.5,1,2.5,2.5,2.5,"k(int)"\n'
    nvtx = (
        '==4242== NVTX result:\n==4242==   Thread "<unnamed>" (id = 29)\n==4242==     Domain "d"\n'
        '==4242==       Range "step 1"\n'
    )
    got = read(tmp_path, PREAMBLE + head + row + "\n" + nvtx + head + '"Range",100.0,9,1,9,9,9,"step 1"\n' + row)
    assert [r["section"] for r in got.totals] == ["GPU activities", "NVTX Range", "NVTX GPU activities"]
    assert json.loads(got.totals[2]["args"]) == {
        "percent": "100.0", "thread": "<unnamed>", "thread_id": "29", "domain": "d", "range": "step 1"
    }  # fmt: skip
    assert {r["run"] for r in got.totals} == {0}


def test_tables_that_are_not_read_are_counted_and_named(tmp_path: Path) -> None:
    other = '==4242== System profiling result:\n"Device","","Count","Avg"\n"Tesla T4 (0)","SM Clock (MHz)",4,1328.5\n'
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() * 20 + other)
    assert len(got.events) == 20
    assert got.ledger.ignored["other-table"] == 2
    assert "tables-not-read" in got.ledger.notes


def test_nvprofs_own_warnings_are_passed_on(tmp_path: Path) -> None:
    text = "==1== Warning: Found 3 invalid records in the result.\n"
    got = read(tmp_path, text + PREAMBLE + GPU_20 + UNITS_20 + kernel())
    assert "Found 3 invalid records" in str(got.ledger.notes["nvprof-warning"])
    assert got.run.sources[0].facts["warnings"] == ["Found 3 invalid records in the result."]


def test_nul_padding_is_no_row_and_hides_none(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() * 20 + "\0" * 4096)
    assert len(got.events) == 20
    assert not got.ledger.dropped
    assert len(read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() + "\0" * 99 + kernel()).events) == 2


def test_a_row_of_units_may_have_more_commas_than_the_header(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20.replace("\n", ",,\n") + kernel())
    assert [(row["ts_ns"], row["dur_ns"]) for row in got.events] == [(1_000_000, 2_000)]
    assert not got.ledger.dropped


def test_a_trace_without_copies_has_no_unit_of_size_and_is_read_by_columns(tmp_path: Path) -> None:
    table = PREAMBLE + GPU_20 + UNITS_20.replace("KB,GB/s", ",") + kernel() * 40
    with mock.patch.object(NvprofSession, "line", autospec=True, side_effect=NvprofSession.line) as by_line:
        got = read(tmp_path, table + copy(size="4.000000KB"))
    assert by_line.call_count <= 6
    assert len(got.events) == 41
    assert (got.events[0]["bytes"], got.events[40]["bytes"]) == (None, 4096)


def test_cells_with_units_of_their_own_need_no_row_of_units(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE + API_3.replace("us,us,\n", "") + '1.5ms,2.5us,"cudaFree"\n' * 20)
    assert {(r["ts_ns"], r["dur_ns"]) for r in got.events} == {(1500000, 2500)}
    assert len(got.events) == 20


def test_a_later_table_that_cannot_be_read_costs_itself_alone(tmp_path: Path) -> None:
    good = PREAMBLE + GPU_20 + UNITS_20 + kernel() * 20
    again = "==4242== Profiling result:\n"
    got = read(tmp_path, good + again + GPU_20.replace('"Duration",', "") + UNITS_20 + kernel() * 3)
    assert len(got.events) == 20
    assert got.ledger.ignored["other-table"] == 4
    assert "Duration" in str(got.ledger.notes["tables-not-read"])
    got = read(tmp_path, good + again + GPU_20 + kernel() * 3)
    assert len(got.events) == 20
    assert got.ledger.dropped == {"no-unit": 3}


def test_a_row_that_was_cut_in_the_middle_of_the_file_is_counted(tmp_path: Path) -> None:
    cut = "2.065168,0.027458,64" + PREAMBLE.replace("4242", "5")
    got = read(tmp_path, PREAMBLE + GPU_20 + UNITS_20 + kernel() * 20 + cut + GPU_20 + UNITS_20 + kernel() * 20)
    assert got.ledger.dropped == {"broken-row": 1}
    assert [got.column("pid").count(p) for p in (4242, 5)] == [20, 20]


def test_a_progress_bar_before_a_header_or_a_row_hides_neither(tmp_path: Path) -> None:
    bar = "\r 50%|##  |\r100%|####|"
    text = PREAMBLE + bar + GPU_20 + UNITS_20 + kernel() * 20 + bar + "\r" + kernel("9.0") + kernel() * 20
    got = read(tmp_path, text)
    assert len(got.events) == 41
    assert got.events[20]["ts_ns"] == 9000000


def test_owners_of_two_tables_that_begin_together_are_not_guessed(tmp_path: Path) -> None:
    begin = "".join(f"=={p}== NVPROF is profiling process {p}, command: ./a\n" for p in (1, 2))
    begin += "==1== Profiling result:\n==2== Profiling result:\n"
    got = read(tmp_path, begin + (GPU_20 + UNITS_20) * 2 + kernel("5.0") * 20 + kernel("1.0") * 20)
    assert got.column("pid") == [None] * 40
    assert got.ledger.notes["rows-mixed"].count == 40


def test_runs_one_after_the_other_are_never_called_mixed(tmp_path: Path) -> None:
    one = PREAMBLE + GPU_20 + UNITS_20 + kernel("5.0") * 20 + kernel("1.0") * 20
    got = read(tmp_path, one + one.replace("4242", "5"))
    assert [got.column("pid").count(p) for p in (4242, 5)] == [40, 40]
    assert "rows-mixed" not in got.ledger.notes


def test_a_run_without_a_table_does_not_unsettle_the_next(tmp_path: Path) -> None:
    empty = PREAMBLE.replace("4242", "5")
    table = PREAMBLE + GPU_20 + UNITS_20 + kernel() * 20
    for text in (empty + table, empty + "No kernels were profiled.\n" + table.split("\n", 2)[2]):
        got = read(tmp_path, text)
        assert set(got.column("pid")) == {4242}
        assert not got.ledger.notes


def test_totals_of_mixed_processes_are_noted(tmp_path: Path) -> None:
    begin = "".join(f"=={p}== NVPROF is profiling process {p}, command: ./a\n" for p in (1, 2))
    begin += "==1== Profiling result:\n==2== Profiling result:\n"
    head = '"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,us,,us,us,us,\n'
    got = read(
        tmp_path, begin + head + '100.0,2.5,1,2.5,2.5,2.5,"k(int)"\n' + head + '100.0,3.5,1,3.5,3.5,3.5,"k(int)"\n'
    )
    assert sorted(r["total_ns"] for r in got.totals) == [2500, 3500]
    assert got.ledger.notes["totals-mixed"].count == 1


def test_pgprof_is_named_as_the_tool(tmp_path: Path) -> None:
    got = read(tmp_path, PREAMBLE.replace("NVPROF", "PGPROF") + GPU_20 + UNITS_20 + kernel())
    assert got.run.sources[0].facts["tool"] == "pgprof"


def test_an_imported_profile_has_no_pid(tmp_path: Path) -> None:
    again = "======== Profiling result:\n" + API_3 + '1.0,2.0,"cudaFree"\n' * 20
    got = read(tmp_path, again + again)
    assert set(got.column("pid")) == {None}
    assert [r["run"] for r in got.run.sources[0].facts["runs"]] == [0, 1]


def test_a_last_line_without_end_keeps_what_is_sure(tmp_path: Path) -> None:
    head = PREAMBLE + GPU_20 + UNITS_20 + kernel(correlation=123)
    whole = read(tmp_path, head.rstrip("\n"))
    assert [(r["name"], r["correlation"]) for r in whole.events] == [("add(int*)", None)]
    assert "unfinished-line" in whole.ledger.notes
    cut = read(tmp_path, head[: head.rindex("(int")])
    assert not cut.events
    assert cut.ledger.dropped == {"torn-row": 1}
    closed = PREAMBLE + API_3 + '1.5,2.5,"cudaFree"'
    assert len(read(tmp_path, closed).events) == 1


@pytest.mark.parametrize("name", CSV_SAMPLES)
def test_a_cut_anywhere_keeps_the_rows_before_it(name: str, tmp_path: Path) -> None:
    data = sample(name).read_bytes()
    whole = read(tmp_path, data)
    mixed = "mpirun.csv" in name
    draw = random.Random(name)
    for at in draw.sample(range(1, len(data)), 12):
        try:
            got = read(tmp_path, data[:at], reader="nvprof-csv")
        except ParseError:
            continue
        unsure = {"correlation", "value_avg"} if "unfinished-line" in got.ledger.notes else set()
        unsure |= {"pid"} if mixed else set()
        for found, want in ((got.events, whole.events), (got.totals, whole.totals)):
            for ours, theirs in zip(found, want, strict=False):
                differ = {k for k in ours if ours[k] != theirs[k]}
                assert differ <= unsure or (differ == {"args"} and "unfinished-line" in got.ledger.notes), (at, differ)
        lost = sum(got.ledger.dropped.values()) - sum(whole.ledger.dropped.values())
        assert lost <= 1


@pytest.mark.parametrize("name", [n for n in CSV_SAMPLES if "utf-16" not in n])
def test_line_ends_and_byte_order_mark_change_nothing(name: str, tmp_path: Path) -> None:
    data = sample(name).read_bytes().removeprefix(b"\xef\xbb\xbf")
    plain = read(tmp_path, data)
    for other in (data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data):
        got = read(tmp_path, other)
        assert (got.events, got.totals, got.ledger.ignored) == (plain.events, plain.totals, plain.ledger.ignored)


JUNK = st.sampled_from(
    ["hello world", "1,2,3", "N,100000000", "0.5 loss", 'epoch 1, "acc" 0.3, x', "==99999== Warning: odd", "", "\t",
     '{"a": 1, "b": [1, 2]}', '"quoted, text"', "Time 3.2s", "100%|####| 3/3", "-1,-2", "ünï\u2028code",
     'loss,0.25,"x"']
)  # fmt: skip


@pytest.mark.parametrize(
    "name", ["gpu-trace-20-columns", "api-trace-3-columns", "summary-new", "metrics", "appended-runs"]
)
@given(data=st.data())
def test_lines_of_the_program_between_rows_change_no_row(name: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("junk")
    lines = sample(f"nvprof-csv/{name}.csv").read_text("utf-8").split("\n")
    plain = read(folder, "\n".join(lines))
    for at, text in data.draw(st.lists(st.tuples(st.integers(0, len(lines) - 1), JUNK), min_size=1, max_size=6)):
        lines.insert(at, text)
    got = read(folder, "\n".join(lines))
    assert strip_ids(got.events) == strip_ids(plain.events)
    assert got.totals == plain.totals
    assert not got.ledger.dropped


NUMBERS = (
    st.decimals(0, 10**7, places=6).map(lambda d: f"{d:f}")
    | st.decimals(0, 10**4, places=9).map(lambda d: f"{d:f}")
    | st.integers(0, 10**9).map(str)
    | st.decimals(Decimal("1e-6"), Decimal("0.1"), places=12).map(lambda d: f"{d:.6e}")
    | st.integers(0, 10**6).map(lambda n: f"{n}.{n % 2}5")
)
SCALE = {"s": 9, "ms": 6, "us": 3, "ns": 0}
FACTOR = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=60),
    units=st.tuples(st.sampled_from(sorted(SCALE)), st.sampled_from(sorted(SCALE)), st.sampled_from(sorted(FACTOR))),
)
def test_times_and_sizes_are_exactly_the_decimal_text(
    rows: Any, units: tuple[str, str, str], tmp_path_factory: Any
) -> None:
    start, duration, size = units
    table = PREAMBLE + GPU_20 + UNITS_20.replace("ms,us", f"{start},{duration}").replace("KB,GB", f"{size},GB")
    got = read(tmp_path_factory.mktemp("exact"), table + "".join(copy(*row) for row in rows))
    kept = {r["event_id"]: r for r in got.events}
    for number, (ts, dur, count) in enumerate(rows, 6):
        want = (
            int(Decimal(ts).scaleb(SCALE[start]).to_integral_value()),
            int(Decimal(dur).scaleb(SCALE[duration]).to_integral_value()),
            int((Decimal(count) * FACTOR[size]).to_integral_value()),
        )
        if max(want[:2]) < 2**62:
            assert (kept[number]["ts_ns"], kept[number]["dur_ns"], kept[number]["bytes"]) == want
        else:
            assert number not in kept
    assert got.ledger.kept + got.ledger.dropped.get("absurd-time", 0) == len(rows)


def test_blocks_of_any_size_give_the_same_rows(tmp_path: Path) -> None:
    text = PREAMBLE + GPU_20 + UNITS_20 + "".join(kernel(f"{i}.5", correlation=i) for i in range(3000))
    text = text.replace("2000.5,", "x,").replace("2500.5,2.0", "==4242== Warning: odd\n2500.5,2.0")
    whole = read(tmp_path, text)
    assert len(whole.events) == 2999
    from tracekit.readers.source import Source

    lines = Source.line_blocks
    with mock.patch.object(Source, "line_blocks", lambda self, ledger: lines(self, ledger, 4096)):
        assert read(tmp_path, text).events == whole.events


def _head(text: str, name: str = "x") -> Head:
    return Head(name, text.encode())


@pytest.mark.parametrize(
    ("text", "csv", "plain"),
    [
        (PREAMBLE + GPU_20, True, False),
        (GPU_17, True, False),
        (PREAMBLE, False, True),
        ("Start,Duration,Name\nms,us,\n", True, False),
        ("Start,Duration,Name\n1,2,x\n", False, False),
        ("a,b,c\n1,2,3\n", False, False),
        ("Time(%),Total Time (ns),Instances,Average\n", False, False),
        ("", False, False),
        ("======== Profiling result:\n", False, True),
        ("   Start  Duration  Name\n     0ns  1.1900us  cuDeviceGetCount\n", False, True),
        ("import csv\nprint('==1== Profiling result:')\n", False, False),
        ("# CUDA_PROFILE_LOG_VERSION 2.0\nmethod,gputime,cputime\n", False, False),
    ],
)
def test_exactly_one_form_claims_a_file(text: str, csv: bool, plain: bool) -> None:
    assert (nvprof_csv.sniff(_head(text)) is Confidence.YES) == csv
    assert (nvprof_text.sniff(_head(text)) is Confidence.YES) == plain


def test_a_preamble_alone_belongs_to_the_form_its_name_says() -> None:
    assert nvprof_csv.sniff(_head(PREAMBLE, "a.csv")) is Confidence.YES
    assert nvprof_text.sniff(_head(PREAMBLE, "a.csv")) is Confidence.NO


@given(st.binary(max_size=400) | st.text(max_size=300).map(str.encode))
def test_sniffing_never_raises(data: bytes) -> None:
    assert not (nvprof_csv.sniff(Head("x", data)) is nvprof_text.sniff(Head("x", data)) is Confidence.YES)


@given(text=st.text(alphabet='",;\t\n\r 0123456789.abcSDN=', max_size=300))
def test_any_text_after_a_header_gives_rows_or_a_parse_error(text: str, tmp_path_factory: Any) -> None:
    try:
        got = read(tmp_path_factory.mktemp("any"), PREAMBLE + API_4 + text, reader="nvprof-csv")
    except ParseError:
        return
    assert got.ledger.kept == len(got.events) + len(got.totals)
