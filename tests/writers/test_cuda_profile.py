"""The legacy log written back: what the format can hold comes back equal, what it cannot is told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, sample

import tracekit
from tracekit.errors import OutputExistsError
from tracekit.readers.builder import RowBuilder
from tracekit.trace import Run, SourceFacts, Trace

LOGS = [
    "kvp-timestamps",
    "csv-timestamps",
    "csv-many-columns",
    "csv-short-rows",
    "kvp",
    "kvp-streamid",
    "opencl",
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


def test_an_nvprof_trace_becomes_a_log_and_is_told_what_was_left_out(tmp_path: Path) -> None:
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


def test_what_a_line_cannot_hold_is_left_out_by_reason(tmp_path: Path) -> None:
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


def test_an_empty_trace_is_a_log_without_rows(tmp_path: Path) -> None:
    trace = Trace(pa.Table.from_batches([RowBuilder().take()]))
    tracekit.write(trace, tmp_path / "x.kvp")
    assert tracekit.read(tmp_path / "x.kvp").events.num_rows == 0
    with pytest.raises(OutputExistsError):
        tracekit.write(trace, tmp_path / "x.kvp")
