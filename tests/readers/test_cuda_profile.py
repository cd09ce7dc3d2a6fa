"""Logs of the CUDA command line profiler: real files, our samples, and damage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SAMPLES, corpus, read_sample, sample, sure_readers

import tracekit
from tracekit.api import inspect
from tracekit.errors import ParseError, TracekitError, UnknownFormatError
from tracekit.model.trace import Trace

HEAD = b"# CUDA_PROFILE_LOG_VERSION 2.0\n# CUDA_DEVICE 0 Tesla C2050\n# CUDA_CONTEXT 1\n"


def log(tmp_path: Path, text: bytes) -> Trace:
    path = tmp_path / "cuda_profile_0.log"
    path.write_bytes(text)
    return tracekit.read(path)


def column(trace: Trace, name: str) -> list[object]:
    return list(trace.events.column(name).to_pylist())


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "kernels", "kernel_ns", "copies", "copy_ns"),
    [
        ("szabar_kv.log", 2, 4_742_336, 2, 548_256),
        ("matrixpowers_csv.log", 342, 2_592_984_577, 54, 1_380_416_474),
        ("rtx2080_gridsize3d_csv.log", 1, 3_296, 0, 0),
    ],
)
def test_real_logs_give_the_figures_that_were_checked_by_hand(
    name: str, kernels: int, kernel_ns: int, copies: int, copy_ns: int
) -> None:
    kinds = inspect(corpus(f"cuda_cmdline_profiler/{name}")).inputs[0]["by_kind"]
    assert kinds["kernel"] == {"events": kernels, "dur_ns": kernel_ns}
    assert kinds.get("memcpy", {"events": 0, "dur_ns": 0}) == {"events": copies, "dur_ns": copy_ns}


@pytest.mark.corpus
def test_a_short_row_keeps_its_shape_and_its_other_columns() -> None:
    (row,) = tracekit.read(corpus("cuda_cmdline_profiler/rtx2080_gridsize3d_csv.log")).events.to_pylist()
    assert [row[c] for c in ("grid_x", "grid_y", "grid_z", "block_x", "stream", "registers")] == [64, 1, 1, 128, 1, 16]
    assert (row["name"], row["raw_name"]) == ("kernel(unsigned long*)", "_Z6kernelPm")
    assert orjson.loads(row["args"]) == {
        "cputime_ns": 73355, "occupancy": 1.0, "cacheconfigexecuted": 0, "cacheconfigrequested": 0, "active_warps": 0,
        "active_cycles": 0,
    }  # fmt: skip


def test_time_stamps_are_ns_of_the_epoch_and_their_difference_the_duration() -> None:
    trace = tracekit.read(sample("cuda-profile/kvp-timestamps.log"))
    assert trace.run.origin_ns == 0
    assert column(trace, "ts_ns")[0] == 0x13E224F5BD69F44F
    assert column(trace, "dur_ns")[0] == 0x13E224F5BD70B70F - 0x13E224F5BD69F44F
    assert column(trace, "copy_kind")[0] == "HtoD"
    assert trace.ledgers[0].notes == {}


def test_rows_without_stamps_are_laid_end_to_end_for_each_stream_and_the_user_is_told() -> None:
    trace = tracekit.read(sample("cuda-profile/kvp-streamid.log"))
    assert trace.run.sources[0].synthetic_time
    assert "synthetic-times" in trace.ledgers[0].notes
    for stream in set(column(trace, "stream")):
        rows = [r for r in trace.events.to_pylist() if r["stream"] == stream]
        rows.sort(key=lambda r: r["event_id"])
        assert rows[0]["ts_ns"] == 0
        assert all(a["ts_ns"] + a["dur_ns"] == b["ts_ns"] for a, b in pairwise(rows))


def test_version_1_stamps_are_the_hosts_and_say_so() -> None:
    trace = tracekit.read(sample("cuda-profile/kvp-version-1.log"))
    assert trace.run.origin_ns is None
    assert column(trace, "ts_ns")[0] == 391_794_283
    assert "host-timestamps" in trace.ledgers[0].notes


def test_two_forms_of_one_run_read_the_same() -> None:
    one, two = (tracekit.read(sample(f"cuda-profile/{name}-timestamps.log")) for name in ("kvp", "csv"))
    drop = ["event_id"]
    assert one.events.drop_columns(drop).to_pylist() == two.events.drop_columns(drop).to_pylist()


def test_odd_cells_take_the_exact_way_and_lose_nothing(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        HEAD + b"method,gputime,cputime,gridsizeX,regperthread,weird\n"
        b"method=[ a ] gputime=[ 1.2345 ] cputime=[ 1e1 ] gridsizeX=[ 7.0 ] regperthread=[ many ] weird=[ x y ] \n"
        b"method=[ foo [lambda(int)] ] gputime=[ 2 ] weird=[ 0x1F ]\n"
        b"method=[ b ] gputime=[ 3.5 ] gridsizeX=[ 4294967296 ]\n",
    )
    rows = sorted(trace.events.to_pylist(), key=lambda r: r["event_id"])
    assert [r["dur_ns"] for r in rows] == [1234, 2000, 3500]
    assert [r["name"] for r in rows] == ["a", "foo [lambda(int)]", "b"]
    assert orjson.loads(rows[0]["args"]) == {
        "cputime_ns": 10000, "gputime_ns": 1234, "regperthread": "many", "weird": "x y",
    } or orjson.loads(rows[0]["args"]) == {"cputime_ns": 10000, "regperthread": "many", "weird": "x y"}  # fmt: skip
    assert rows[0]["grid_x"] == 7
    assert orjson.loads(rows[2]["args"]) == {"gridsizeX": 4294967296}


def test_bad_rows_cost_themselves_with_line_and_reason(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        HEAD + b"method,gputime\nmethod=[ a ] gputime=[ 1.000 ]\nhello\nmethod=[ b ] gputime=[ -1.0 ]\n"
        b"gputime=[ 1.0 ]\nmethod=[ c ]\nmethod=[ d ] gputime=[ 1e30 ]\n"
        b"method=[ f ] gputime=[ 13e999999999 ]\nmethod=[ g ] gputime=[ 1.0 ] gridsizeX=[ 1e999999999 ]\n\n"
        b"\0\0\nmethod=[ e ] gputime=[ 2.000 ]\n",
    )
    assert column(trace, "name") == ["a", "g", "e"]
    (ledger,) = trace.ledgers
    assert ledger.dropped == {"bad-row": 6}
    assert ledger.ignored == {"column-line": 1, "blank": 2}
    assert ledger.notes["bad-row"].places[0] == "line 6"


def test_a_torn_last_row_costs_that_row(tmp_path: Path) -> None:
    for tail in (b"method=[ b ] gputime=[ 12", b"method=[ b ] gputi"):
        trace = log(tmp_path, HEAD + b"method,gputime\nmethod=[ a ] gputime=[ 1.000 ] \n" + tail)
        assert column(trace, "name") == ["a"]
        assert trace.ledgers[0].dropped == {"torn-row": 1}
    trace = log(tmp_path, HEAD + b"# CUDA_PROFILE_CSV 1\nmethod,gputime\na,1.000\nb,2.0")
    assert column(trace, "name") == ["a"]


def test_logs_of_several_contexts_in_one_file_keep_apart(tmp_path: Path) -> None:
    one = sample("cuda-profile/two-contexts_0.log").read_bytes()
    two = sample("cuda-profile/two-contexts_1.log").read_bytes()
    trace = log(tmp_path, one + two)
    assert set(column(trace, "device")) == {0, 1}
    assert trace.events.num_rows == sum(
        tracekit.read(sample(f"cuda-profile/two-contexts_{n}.log")).events.num_rows for n in (0, 1)
    )
    assert len(trace.run.devices) == 2


def test_a_second_context_may_have_no_rows(tmp_path: Path) -> None:
    assert log(tmp_path, HEAD + b"method,gputime,cputime,occupancy\n").events.num_rows == 0


def test_a_log_without_its_head_is_read_from_its_rows(tmp_path: Path) -> None:
    trace = log(tmp_path, b"method=[ a ] gputime=[ 1.000 ] cputime=[ 2.000 ]\n")
    assert column(trace, "name") == ["a"]
    assert "no-column-line" in trace.ledgers[0].notes


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("method,cputime", "neither gputime"),
        ("gputime,cputime", "no column method"),
        ("method,gputime,gputime", "twice"),
    ],
)
def test_a_wrong_column_line_costs_the_file(columns: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=f"line 4: .*{reason}"):
        log(tmp_path, HEAD + columns.encode() + b"\na,1.0\n")


STAMPED = (
    b"gpustarttimestamp,gpuendtimestamp,method,gputime\n"
    b"gpustarttimestamp=[ 13e224f5a60f82e0 ] gpuendtimestamp=[ 13e224f5a60f86c8 ] method=[ s ] gputime=[ 1.000 ] \n"
)
PLAIN = b"method,gputime\nmethod=[ p ] gputime=[ 2.000 ] \n"
HOST = b"timestamp,method,gputime\ntimestamp=[ 5.000 ] method=[ h ] gputime=[ 3.000 ] \n"
START = 0x13E224F5A60F82E0


def rows(trace: Trace) -> list[tuple[object, ...]]:
    return [(r["name"], r["ts_ns"], r["dur_ns"], r["args"]) for r in trace.events.to_pylist()]


def test_a_log_without_stamps_behind_one_with_stamps_is_laid_behind_it(tmp_path: Path) -> None:
    trace = log(tmp_path, HEAD + STAMPED + HEAD + PLAIN + HEAD + HOST)
    assert rows(trace) == [
        ("s", START, 1000, None), ("p", START + 1000, 2000, None), ("h", START + 3000, 3000, '{"timestamp_ns":5000}'),
    ]  # fmt: skip
    assert trace.run.origin_ns == 0
    assert not trace.run.sources[0].synthetic_time
    assert trace.ledgers[0].notes["synthetic-times"].count == 2
    assert "another clock than the first" in trace.ledgers[0].notes["synthetic-times"].text


def test_a_log_with_stamps_behind_one_without_keeps_them_in_args(tmp_path: Path) -> None:
    trace = log(tmp_path, HEAD + PLAIN + HEAD + STAMPED)
    assert rows(trace) == [("p", 0, 2000, None), ("s", 2000, 1000, f'{{"gpustarttimestamp_ns":{START}}}')]
    assert trace.run.origin_ns is None
    assert trace.run.sources[0].synthetic_time


def test_logs_of_two_runs_without_stamps_lie_one_behind_the_other(tmp_path: Path) -> None:
    assert rows(log(tmp_path, (HEAD + PLAIN) * 2)) == [("p", 0, 2000, None), ("p", 2000, 2000, None)]


def test_logs_of_two_runs_on_the_hosts_clock_are_told_of(tmp_path: Path) -> None:
    trace = log(tmp_path, (HEAD + HOST) * 2)
    assert trace.run.origin_ns is None
    assert {"host-timestamps", "several-host-clocks"} <= trace.ledgers[0].notes.keys()


def test_the_host_stamp_beside_the_devices_own_goes_into_args_and_is_never_a_start(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        HEAD + b"timestamp,gpustarttimestamp,method,gputime\n"
        b"timestamp=[ 5.000 ] gpustarttimestamp=[ 13e224f5a60f82e0 ] method=[ a ] gputime=[ 1.000 ] \n"
        b"timestamp=[ 7.000 ] method=[ b ] gputime=[ 1.000 ] \n",
    )
    assert rows(trace) == [("a", START, 1000, '{"timestamp_ns":5000}')]
    assert trace.ledgers[0].dropped == {"bad-row": 1}


def test_durations_that_add_up_to_more_than_a_clock_holds_are_dropped(tmp_path: Path) -> None:
    row = b"method=[ a ] gputime=[ 4500000000000000.000 ] \n"
    trace = log(tmp_path, HEAD + b"method,gputime\n" + row * 3 + b"method=[ b ] gputime=[ 1.000 ] streamid=[ 7 ] \n")
    assert sorted(column(trace, "dur_ns")) == [1000, 4_500_000_000_000_000_000]
    assert trace.ledgers[0].dropped == {"bad-row": 2}


def test_a_shape_in_one_key_fills_its_columns(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        HEAD + b"method,gputime,gridsize,threadblocksize\n"
        b"method=[ a ] gputime=[ 1.000 ] gridsize=[ 2918, 7 ] threadblocksize=[ 512, 2, 1 ] \n"
        b"method=[ b ] gputime=[ 1.000 ] gridsize=[ 1, 2, 3 ] threadblocksize=[ 4 ] \n"
        b"method=[ c ] gputime=[ 1.000 ] gridsize=[ 99999999999, 2, 3 ] threadblocksize=[ x, 1, 1 ] \n"
        b"method=[ d [x] ] gputime=[ 1.000 ] gridsize=[ 5, 6 ] threadblocksize=[ 7, 8, 9 ] \n",
    )
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    found = [[r[c] for c in shape] for r in trace.events.to_pylist()]
    none = [None] * 6
    assert found == [[2918, 7, None, 512, 2, 1], [1, 2, 3, None, None, None], none, [5, 6, None, 7, 8, 9]]
    assert column(trace, "args") == [
        None, '{"threadblocksize":4}', '{"gridsize":"99999999999, 2, 3","threadblocksize":"x, 1, 1"}', None,
    ]  # fmt: skip


def test_the_words_of_opencl_are_those_of_cuda(tmp_path: Path) -> None:
    head = HEAD.replace(b"CUDA", b"OPENCL") + b"# OPENCL_PROFILE_CSV 1\n"
    words = b"method,gputime,ndrangesizeX,ndrangesizeY,ndrangesizeZ,workgroupsizeX,workgroupsizeY,workgroupsizeZ"
    (row,) = log(
        tmp_path, head + words + b",stapmemperworkgroup,regperworkitem\nk,1.000,1,2,3,4,5,6,7,8\n"
    ).events.to_pylist()
    names = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "static_smem_bytes", "registers", "args")
    assert [row[n] for n in names] == [1, 2, 3, 4, 5, 6, 7, 8, None]


def test_kernels_called_like_copies_are_kernels(tmp_path: Path) -> None:
    names = [
        "memcpy_kernel",
        "memset_kernel",
        "memset32_post",
        "memcpyHtoDaligned",
        "memcpy",
        "memset128",
        "memcpyAtoH",
    ]
    text = "".join(f"method=[ {name} ] gputime=[ 1.000 ] \n" for name in names)
    trace = log(tmp_path, HEAD + b"method,gputime\n" + text.encode())
    assert column(trace, "kind") == ["kernel", "kernel", "memset", "memcpy", "memcpy", "memset", "memcpy"]
    assert column(trace, "copy_kind") == [None, None, None, "HtoD", None, None, "AtoH"]


def test_copies_are_known_in_any_case(tmp_path: Path) -> None:
    names = ["MEMCPYHTOD", "MemcpydToaAsync", "memcpypeer", "MemCpy", "MEMCOPY", "MemSet"]
    text = "".join(f"method=[ {name} ] gputime=[ 1.000 ] \n" for name in names)
    trace = log(tmp_path, HEAD + b"method,gputime\n" + text.encode())
    assert column(trace, "kind") == ["memcpy"] * 5 + ["memset"]
    assert column(trace, "copy_kind") == ["HtoD", "DtoA", "PtoP", None, None, None]


def test_a_copy_of_cuda_1_has_no_direction(tmp_path: Path) -> None:
    trace = log(tmp_path, b"method,gputime,cputime,occupancy\nmethod=[ memcopy ] gputime=[ 14.288 ] \n")
    assert (column(trace, "kind"), column(trace, "copy_kind")) == (["memcpy"], [None])


WARNED = b"NV_Warning: Ignoring the invalid profiler config option: gld_incoherent\n"
UNLIKE = b"NV_Warning: Counter 'branch' is not compatible with other selected counters\n"


@pytest.mark.parametrize("csv", [False, True])
@pytest.mark.parametrize("gap", [b"", b"\n", UNLIKE + b"\n"])
def test_warnings_of_the_driver_are_told_and_cost_no_row(csv: bool, gap: bytes, tmp_path: Path) -> None:
    head = WARNED + HEAD + (b"# CUDA_PROFILE_CSV 1\n" if csv else b"") + gap + UNLIKE + b"method,gputime\n"
    row = b"a,1.000\n" if csv else b"method=[ a ] gputime=[ 1.000 ] \n"
    trace = log(tmp_path, head + row + WARNED + row)
    (ledger,) = trace.ledgers
    assert column(trace, "dur_ns") == [1000, 1000]
    assert not ledger.dropped
    assert ledger.ignored == {"message": 3 + (UNLIKE in gap), "column-line": 1} | ({"blank": 1} if gap else {})
    assert {n.text: n.count for n in ledger.notes.values() if n.code.startswith("driver-warning")} == {
        "the driver itself warns: Ignoring the invalid profiler config option: gld_incoherent": 2,
        "the driver itself warns: Counter 'branch' is not compatible with other selected counters": 1 + (UNLIKE in gap),
    }


@pytest.mark.parametrize("indent", [b"    ", b"\t", b"  "])
def test_an_indented_log_is_read(indent: bytes, tmp_path: Path) -> None:
    rows = b"method,gputime\nmethod=[ a ] gputime=[ 1.000 ] \nmethod=[ b ] gputime=[ 2.000 ] \n"
    text = b"".join(indent + line for line in (HEAD + rows).splitlines(keepends=True))
    for before in (b"", b"A log of my kernels:\n\n"):
        trace = log(tmp_path, before + text)
        assert (column(trace, "name"), column(trace, "device")) == (["a", "b"], [0, 0])
        assert trace.ledgers[0].dropped == ({"no-column-line": 1} if before else {})


KEYS = b"method,gputime,cputime,occupancy\n"
KERNEL = b"method=[ a ] gputime=[ 1.000 ] cputime=[ 2.000 ] occupancy=[ 0.500 ] \n"
COPY = b"method=[ memcpyHtoD ] gputime=[ 1.000 ] cputime=[ 2.000 ] \n"


@pytest.mark.parametrize(
    ("before", "last", "whole"),
    [
        (KERNEL, KERNEL.rstrip(), True),
        (COPY, KERNEL.rstrip(), True),
        (KERNEL + COPY, COPY.rstrip(), True),
        (KERNEL + COPY, b"method=[ a ] gputime=[ 1.000 ] cputime=[ 2.000 ]", False),
        (KERNEL, b"method=[ a ] gputime=[ 1.000 ]", False),
        (KERNEL, b"gputime=[ 1.000 ]", False),
    ],
)
def test_a_last_row_without_line_end_is_kept_only_where_it_is_whole(
    before: bytes, last: bytes, whole: bool, tmp_path: Path
) -> None:
    trace = log(tmp_path, HEAD + KEYS + before + last)
    assert trace.events.num_rows == before.count(b"\n") + whole
    assert trace.ledgers[0].dropped == ({} if whole else {"torn-row": 1})


def test_digits_below_1_ns_and_numbers_in_the_wrong_place_are_told(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        HEAD
        + b"method,gputime,cputime,streamid\nmethod=[ a ] gputime=[ 1.0004 ] cputime=[ 2.0000 ] streamid=[ -1 ] \n",
    )
    notes = trace.ledgers[0].notes
    assert (notes["rounded"].count, notes["odd-cell"].count) == (1, 1)
    assert notes["odd-cell"].places == ["line 5"]
    assert column(trace, "args") == ['{"cputime_ns":2000,"streamid":-1}']


def test_headers_without_a_number_are_told(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        b"# CUDA_PROFILE_LOG_VERSION 7\n# CUDA_DEVICE x y\n# CUDA_CONTEXT zz\n# NV_Warning: Ignoring foo\n" + PLAIN,
    )
    assert {"unknown-version", "bad-header", "unknown-header"} <= trace.ledgers[0].notes.keys()
    assert (column(trace, "device"), column(trace, "context")) == ([None], [None])


def test_a_counter_named_as_our_own_member_keeps_its_value(tmp_path: Path) -> None:
    trace = log(
        tmp_path,
        HEAD
        + b"method,gputime,cputime,cputime_ns\nmethod=[ a ] gputime=[ 1.000 ] cputime=[ 2.000 ] cputime_ns=[ 5 ] \n",
    )
    assert column(trace, "args") == ['{"cputime_ns":2000,"cputime_ns_":5}']


def test_a_log_of_web_requests_is_none_of_ours(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError):
        log(tmp_path, b"timestamp,method,url,status\n2020-01-01,GET,/x,200\n")


def test_many_header_lines_do_not_pile_up(tmp_path: Path) -> None:
    heads = b"".join(b"# CUDA_CONTEXT %d\n" % n for n in range(3000))
    trace = log(tmp_path, HEAD + heads + PLAIN)
    assert len(trace.run.sources[0].facts["contexts"]) == 1000


@given(st.data())
def test_damage_anywhere_is_a_row_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["kvp-timestamps", "csv-many-columns", "kvp", "csv-short-rows"]))
    text = bytearray(sample(f"cuda-profile/{name}.log").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.mktemp("d") / "x"
    path.write_bytes(bytes(text))
    try:
        trace = tracekit.read(path, format="cuda-profile")
    except TracekitError:
        return
    assert trace.ledgers[0].read == trace.ledgers[0].accounted()


@pytest.mark.parametrize("name", ["kvp-timestamps", "csv-many-columns", "csv-short-rows", "kvp-version-1"])
def test_a_log_cut_anywhere_holds_no_row_that_the_whole_log_has_not(name: str, tmp_path: Path) -> None:
    text = b"".join(sample(f"cuda-profile/{name}.log").read_bytes().splitlines(keepends=True)[:11])
    path = tmp_path / "cut.log"
    path.write_bytes(text)
    # Names stay mangled: a child of the demangler for each of hundreds of reads would be most of the time.
    whole = {row["event_id"]: row for row in tracekit.read(path, demangle=False).events.to_pylist()}
    ends = text.rindex(b"\n", 0, len(text) - 1) + 1
    for cut in [*range(text.index(b"method"), ends, 13), *range(ends, len(text))]:
        path.write_bytes(text[:cut])
        try:
            trace = tracekit.read(path, format="cuda-profile", demangle=False)
        except ParseError:
            continue
        found = {row["event_id"]: row for row in trace.events.to_pylist()}
        assert found == {key: whole[key] for key in found}, cut
        lost = text[:cut].count(b"\n") + (text[cut - 1 : cut] != b"\n") - trace.ledgers[0].read
        assert lost == 0


def test_a_short_key_in_the_place_of_a_long_one_at_the_end_of_the_log_is_read(tmp_path: Path) -> None:
    key = "a_counter_with_a_very_long_name_indeed"
    path = tmp_path / "x.log"
    path.write_text(
        "# CUDA_PROFILE_LOG_VERSION 2.0\n"
        f"method=[ k ] gputime=[ 1.5 ] {key}=[ 7 ]\nmethod=[ k ] gputime=[ 2.5 ] b=[ 7 ]\n",
        encoding="utf-8",
    )
    trace = tracekit.read(path, format="cuda-profile")
    assert trace.events.column("dur_ns").to_pylist() == [1500, 2500]


COPIES: dict[str, Callable[[int, str], str]] = {
    "cat -n": lambda number, line: f"{number:6d}\t{line}",
    "grep -n": lambda number, line: f"{number}:{line}",
    "an editor": lambda number, line: f"{number:3d} {line}",
    "a mail": lambda _, line: f"> {line}",
    "a diff": lambda _, line: f"+{line}",
    "quotation marks": lambda _, line: '"' + line.replace('"', '""') + '"' if line else line,
    "Excel": lambda _, line: f'"{line}"' if "," in line else line,
    "numbers and quotation marks": lambda number, line: f'{number}: "{line}"',
    "a logger": lambda number, line: f"2024-03-01 10:00:{number % 60:02d},{number:03d} INFO train: {line}",
    "docker": lambda _, line: f"gpu_1  | {line}",
    "glog": lambda number, line: f"I0803 16:17:01.{number:06d}  4515 a.cc:{number}] {line}",
}


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("path", sorted((SAMPLES / "cuda-profile").iterdir()), ids=lambda path: path.stem)
def test_a_copied_log_is_the_same_log(path: Path, copy: str, tmp_path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    made = tmp_path / "x"
    made.write_text("".join(COPIES[copy](at, line) + "\n" for at, line in enumerate(lines, 1)), "utf-8")
    assert sure_readers(made) == ["cuda-profile"]
    trace, whole = tracekit.read(made), read_sample(f"cuda-profile/{path.name}")
    assert trace.events.equals(whole.events)
    assert trace.ledgers[0].read == whole.ledgers[0].read


def test_the_title_of_a_log_in_a_sentence_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("The log begins with # CUDA_PROFILE_LOG_VERSION 2.0\nand has rows.\n")
    assert sure_readers(path) == []


@pytest.mark.parametrize("times", [28, 8_000])
def test_a_line_of_keys_without_a_time_is_no_log_and_costs_no_time(times: int, tmp_path: Path) -> None:
    # Each key more doubled the time: 12 s for 28 of them.
    path = tmp_path / "x"
    path.write_text("a=[ x ] " * times + "gputime\n")
    assert sure_readers(path) == []
    path.write_text("a=[ x ] method=[ " * (times // 3) + "gputime\n")
    assert sure_readers(path) == []


@pytest.mark.parametrize("odd", ["a" * 60_000, "a=[ " * 15_000, "method=[ k ] " + "b=[" * 20_000, "] a" * 20_000])
def test_a_long_line_that_is_no_row_costs_no_time(odd: str, tmp_path: Path) -> None:
    row = "method=[ k ] gputime=[ 1.0 ] cputime=[ 2.0 ] "
    trace = log(tmp_path, HEAD + f"method,gputime,cputime\n{row}\n{odd}\n{row}\n".encode())
    assert column(trace, "name") == ["k", "k"]
    trace = log(tmp_path, f"{row}\n{odd}\n{row}\n".encode())
    assert column(trace, "name") == ["k", "k"]
