"""The legacy log written back: what the format can hold comes back equal, what it cannot hold is noted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, sample

import tracekit
from tracekit.errors import OutputExistsError
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.readers.builder import RowBuilder
from tracekit.writers.base import Written

LOGS = [
    "kvp-timestamps",
    "csv-timestamps",
    "csv-many-columns",
    "csv-short-rows",
    "kvp",
    "kvp-streamid",
    "kvp-version-1",
    "opencl",
    "opencl-csv-timestamps",
    "two-contexts_1",
]


def rows(path: Path) -> list[dict[str, object]]:
    return tracekit.read(path).events.drop_columns(["event_id", "source"]).to_pylist()


@pytest.mark.parametrize("name", LOGS)
def test_csv_and_key_value_and_parquet_lead_to_the_same_log(name: str, tmp_path: Path) -> None:
    source = sample(f"cuda-profile/{name}.log")
    a, b, c, d = (tmp_path / n for n in ("a.csvlog", "b.kvp", "c.csvlog", "d.parquet"))
    tracekit.convert(source, a, to="cuda-csv")
    tracekit.convert(a, b)
    tracekit.convert(b, c, to="cuda-csv")
    assert a.read_bytes() == c.read_bytes()
    tracekit.convert(b, d)
    tracekit.convert(d, b, force=True)
    assert rows(b) == rows(d)
    want, got = rows(source), rows(a)
    assert [r | {"args": None} for r in got] == [r | {"args": None} for r in want]


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["szabar_kv", "matrixpowers_csv", "rtx2080_gridsize3d_csv"])
def test_real_logs_keep_every_value(name: str, tmp_path: Path) -> None:
    source = corpus(f"cuda_cmdline_profiler/{name}.log")
    for target, to in ((tmp_path / "x.kvp", "cuda-kvp"), (tmp_path / "x.csvlog", "cuda-csv")):
        tracekit.convert(source, target, to=to)
        assert rows(target) == rows(source)


def test_a_key_value_log_of_the_profiler_comes_back_byte_for_byte(tmp_path: Path) -> None:
    source = sample("cuda-profile/kvp.log")
    tracekit.convert(source, tmp_path / "x.kvp")
    assert (tmp_path / "x.kvp").read_bytes() == source.read_bytes()


def test_an_nvprof_trace_becomes_a_log_with_a_count_of_other_rows(tmp_path: Path) -> None:
    source = sample("nvprof-csv/gpu-and-api-trace.csv")
    done = tracekit.convert(source, tmp_path / "x.csvlog", to="cuda-csv")
    assert done.written.left_out == {"kind driver": 4, "kind runtime": 72}
    assert any("wall clock" in note for note in done.written.notes)
    want = [r for r in tracekit.read(source).events.to_pylist() if r["kind"] in ("kernel", "memcpy", "memset")]
    got = tracekit.read(tmp_path / "x.csvlog").events.to_pylist()
    same = ("ts_ns", "dur_ns", "kind", "grid_x", "block_z", "stream", "bytes", "copy_kind", "registers")
    assert [[r[c] for c in same] for r in got] == [[r[c] for c in same] for r in want]
    kernels = [r["name"] for r in want if r["kind"] == "kernel"]
    assert [r["name"] for r in got if r["kind"] == "kernel"] == kernels


NAMES = st.one_of(
    st.sampled_from(["a", "void f<int, 4>(float*, int)", "g [lambda(int)]", 'say "hi"', "#x"]),
    st.sampled_from(["memcpyHtoDasync", "memset128", "_Z6kernelPm"]),
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12),
)
SMALL = st.one_of(st.none(), st.integers(0, (1 << 31) - 1))
EVENT = st.fixed_dictionaries(
    {
        "ts_ns": st.integers(0, 1 << 61), "dur_ns": st.integers(0, 1 << 40), "name": NAMES, "grid_x": SMALL,
        "grid_y": SMALL, "grid_z": SMALL, "block_x": SMALL, "block_y": SMALL, "block_z": SMALL, "registers": SMALL,
        "stream": st.one_of(st.none(), st.integers(0, 10**15)), "bytes": st.one_of(st.none(), st.integers(0, 10**15)),
        "static_smem_bytes": SMALL, "dynamic_smem_bytes": SMALL, "device": st.sampled_from([0, 1]),
        "args": st.one_of(
            st.none(),
            st.sampled_from(['{"cputime_ns":7365}', '{"cputime_ns":1,"occupancy":0.250}', '{"sm_count":"x y"}']),
        ),
    }
)  # fmt: skip


@given(st.lists(EVENT, min_size=1, max_size=25), st.sampled_from(["cuda-kvp", "cuda-csv"]))
def test_any_device_work_that_fits_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, object]], to: str
) -> None:
    builder = RowBuilder()
    for number, event in enumerate(events):
        name = str(event["name"])
        kind = "memcpy" if name.startswith("memcpy") else "memset" if name.lower().startswith("memset") else "kernel"
        copy = "HtoD" if kind == "memcpy" else None
        plain = {"_Z6kernelPm": ("kernel(unsigned long*)", name)}.get(name, (name, None))
        more = {"kind": kind, "copy_kind": copy, "name": plain[0], "raw_name": plain[1], "context": 1}
        builder.add(**event | more | {"event_id": number, "source": 0})
    table = pa.Table.from_batches([builder.take()])
    trace = Trace(table, run=Run(origin_ns=0, sources=[SourceFacts("x", "test")]))
    path = tmp_path_factory.mktemp("c") / "x"
    written = tracekit.write(trace, path, to=to)
    assert written.events + sum(written.left_out.values()) == len(events)
    if written.left_out:
        return
    drop = ("event_id", "source", "kind", "copy_kind", "name", "raw_name")
    key = lambda r: (r["ts_ns"], -r["dur_ns"], r["device"], str(sorted(map(str, r.items()))))  # noqa: E731
    got = [{k: v for k, v in r.items() if k not in drop} for r in tracekit.read(path).events.to_pylist()]
    want = [{k: v for k, v in r.items() if k not in drop} for r in trace.events.to_pylist()]
    assert sorted(got, key=key) == sorted(want, key=key)
    names = sorted(str(r["raw_name"] or r["name"]) for r in tracekit.read(path).events.to_pylist())
    assert names == sorted(str(r["raw_name"] or r["name"]) for r in trace.events.to_pylist())


def test_rows_that_a_line_cannot_hold_are_counted_by_reason(tmp_path: Path) -> None:
    builder = RowBuilder()
    for number, (name, ts, dur) in enumerate(
        [("a\nb", 0, 1), (" a", 0, 1), ("x ] y=[ z", 0, 1), ("ok", -5, 1), ("ok", 0, None), ("ok", 0, 1)]
    ):
        builder.add(ts_ns=ts, dur_ns=dur, event_id=number, name=name, kind="kernel", source=0)
    builder.add(ts_ns=0, dur_ns=1, event_id=9, name=None, kind="kernel", source=0)
    builder.add(ts_ns=0, dur_ns=1, event_id=9, name="cpu", kind="operator", source=0)
    written = tracekit.write(Trace(pa.Table.from_batches([builder.take()])), tmp_path / "x.kvp")
    assert written.events == 1
    assert written.left_out == {
        "a name that a line cannot hold": 4, "starts before the clock's zero": 1, "no duration": 1, "kind operator": 1,
    }  # fmt: skip


def written(tmp_path: Path, rows: list[dict[str, object]], to: str, run: Run | None = None) -> tuple[Written, Trace]:
    builder = RowBuilder()
    for number, row in enumerate(rows):
        own = {"ts_ns": number * 10, "dur_ns": 5, "event_id": number, "kind": "kernel", "source": 0, "name": "k"}
        builder.add(**own | row)
    trace = Trace(pa.Table.from_batches([builder.take()]), run=run or Run(origin_ns=0))
    done = tracekit.write(trace, tmp_path / "x.log", to=to)
    return done, tracekit.read(tmp_path / "x.log")


BOTH = pytest.mark.parametrize("to", ["cuda-kvp", "cuda-csv"])


@BOTH
def test_texts_in_args_keep_commas_quotes_and_brackets(to: str, tmp_path: Path) -> None:
    args = '{"s":"a, b","q":"x [y]","r":"say \\"hi\\"","z":"at the end ]"}'
    done, back = written(tmp_path, [{"args": args}, {}], to)
    assert done.notes == []
    assert back.events.column("args").to_pylist() == [args, None]


@BOTH
def test_integers_of_any_size_keep_all_digits_also_beside_an_object(to: str, tmp_path: Path) -> None:
    big = f'"n":{10**30 + 1},"m":{-(1 << 63) - 1},"u":{1 << 64}'
    written(tmp_path, [{"args": f'{{{big},"o":{{"x":1}},"s":"a\\ud800"}}'}, {"args": f"{{{big}}}"}], to)
    text = (tmp_path / "x.log").read_text()
    assert [text.count(str(number)) for number in (10**30 + 1, -(1 << 63) - 1, 1 << 64)] == [2, 2, 2]


@BOTH
def test_members_of_args_without_a_place_are_counted(to: str, tmp_path: Path) -> None:
    args = [
        '{"External id":5,"est":{"a":1},"empty":"","two":"a\\nb","lead":" x"}',
        '{"method":"z","timestamp":3,"gputime":4,"gpuendtimestamp":"q"}',
        '{"cputime_ns":1.5}',
        '{"cputime_ns":"abc"}',
        "[1]",
        "not json",
        '{"n":null}',
    ]
    done, back = written(tmp_path, [{"args": a} for a in args], to)
    assert done.events == len(args)
    assert done.notes == ["13 members of args have no column in this log"]
    assert back.events.column("args").null_count == len(args)
    assert back.events.column("ts_ns").to_pylist() == [10 * n for n in range(len(args))]


@BOTH
def test_members_that_change_their_type_are_counted(to: str, tmp_path: Path) -> None:
    done, back = written(tmp_path, [{"args": '{"a":"5","b":true,"c":"007","d":1.50}'}], to)
    assert done.notes == ["2 members of args will read back with another type: true, false, quoted numbers"]
    assert back.events.column("args").to_pylist() == ['{"a":5,"b":"true","c":"007","d":1.50}']


@BOTH
def test_rows_with_times_that_no_clock_holds_are_not_written(to: str, tmp_path: Path) -> None:
    spans = [(0, -1), (1 << 62, 0), ((1 << 62) - 1, 0), ((1 << 62) - 1, 1), (0, 1 << 62), (0, (1 << 62) - 1)]
    done, back = written(tmp_path, [{"ts_ns": ts, "dur_ns": dur} for ts, dur in spans], to)
    assert done.left_out == {"ends before it starts": 1, "ends more than 146 years after the zero": 3}
    assert sorted(zip(*(back.events.column(c).to_pylist() for c in ("ts_ns", "dur_ns")), strict=True)) == [
        (0, (1 << 62) - 1),
        ((1 << 62) - 1, 0),
    ]


@BOTH
def test_copies_of_other_profilers_get_the_names_of_the_log_and_the_user_is_told(to: str, tmp_path: Path) -> None:
    copies: list[dict[str, object]] = [
        {"name": "[CUDA memcpy HtoD]", "kind": "memcpy", "copy_kind": "HtoD"},
        {"name": "memory move", "kind": "memcpy"},
        {"name": "memcpy_own", "kind": "memcpy", "copy_kind": "DtoH"},
        {"name": "memory clear", "kind": "memset"},
        {"name": "memcpyDtoDasync", "kind": "memcpy", "copy_kind": "DtoD"},
        {"name": "memcpyHtoD", "kind": "kernel"},
    ]
    done, back = written(tmp_path, copies, to)
    names = ["memcpyHtoD", "memcpy", "memcpyDtoH", "memset", "memcpyDtoDasync", "memcpyHtoD"]
    assert back.events.column("name").to_pylist() == names
    assert back.events.column("kind").to_pylist()[:5] == [c["kind"] for c in copies[:5]]
    assert back.events.column("copy_kind").to_pylist()[:5] == [c.get("copy_kind") for c in copies[:5]]
    assert [note.split(" ", 1)[0] for note in done.notes] == ["4", "1"]


def test_the_hosts_stamps_of_version_1_come_back_as_they_were(tmp_path: Path) -> None:
    source = sample("cuda-profile/kvp-version-1.log")
    tracekit.convert(source, tmp_path / "x.kvp")
    lines = (tmp_path / "x.kvp").read_text().replace(" \n", "\n").splitlines()
    assert sorted(lines) == sorted(source.read_text().splitlines())
    assert tracekit.read(tmp_path / "x.kvp").run.origin_ns is None


def test_an_opencl_log_keeps_the_words_of_opencl(tmp_path: Path) -> None:
    text = (
        "# OPENCL_PROFILE_LOG_VERSION 2.0\n# OPENCL_DEVICE 0 Tesla K40c\n# OPENCL_CONTEXT 1\n# OPENCL_PROFILE_CSV 1\n"
        "method,gputime,ndrangesizeX,workgroupsizeX,stapmemperworkgroup,regperworkitem,streamid\nk,1.000,1,2,3,4,5\n"
    )
    (tmp_path / "opencl.log").write_text(text)
    tracekit.convert(tmp_path / "opencl.log", tmp_path / "x", to="cuda-csv")
    assert (tmp_path / "x").read_text() == text


def test_columns_that_appear_late_stand_in_the_one_column_line(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{} for _ in range(70_000)]
    rows[-1] = {"registers": 9, "args": '{"late":1}'}
    _, back = written(tmp_path, rows, "cuda-csv")
    assert back.events.num_rows == 70_000
    assert back.events.column("registers").to_pylist()[-1] == 9
    assert back.events.column("args").to_pylist()[-2:] == [None, '{"late":1}']


def test_an_empty_trace_is_a_log_without_rows(tmp_path: Path) -> None:
    trace = Trace(pa.Table.from_batches([RowBuilder().take()]))
    tracekit.write(trace, tmp_path / "x.kvp")
    assert tracekit.read(tmp_path / "x.kvp").events.num_rows == 0
    with pytest.raises(OutputExistsError):
        tracekit.write(trace, tmp_path / "x.kvp")
