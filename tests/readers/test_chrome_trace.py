"""Chrome traces: every phase, pairs in any order, real files of other producers, our own traces and back, damage."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small
from strategies import rows_of, tables
from support import claimed_alone, corpus, corpus_verdicts, sample, sure_readers
from trace_event_cases import Event, args_of, ledger_adds_up, ns, plain, rows, sure_of_text

import tracekit
from tracekit.api import inspect
from tracekit.errors import SchemaError, TracekitError, UsageError
from tracekit.model.trace import Trace
from tracekit.readers.trace_event import stream

OTHERS = [
    "tensorflow/tf_2.21_timeline.json",
    "jax/jax_trace.json.gz",
    "generated/jax/vm.trace.json.gz",
    "generated/viztracer/viz_plain.json",
    "generated/viztracer/viz_small_buffer.json",
    "generated/pyspy/pyspy.chrometrace",
]


def write(path: Path, events: list[Any], **beside: Any) -> Path:
    path.write_text(json.dumps({"traceEvents": events, **beside}), encoding="utf-8")
    return path


def of(path: Path) -> dict[str, Event]:
    return {row["name"]: row for row in rows(tracekit.read(path))}


def b(name: str, ts: float, **more: Any) -> Event:
    return {"ph": "B", "name": name, "ts": ts, "pid": 1, "tid": 1, **more}


def e(name: str, ts: float, **more: Any) -> Event:
    return {"ph": "E", "name": name, "ts": ts, "pid": 1, "tid": 1, **more}


@pytest.mark.parametrize("name", OTHERS)
def test_one_reader_is_sure_and_the_ledger_adds_up(name: str, tmp_path: Path) -> None:
    (tmp_path / "unknown").write_bytes(corpus(name).read_bytes())
    assert sure_readers(tmp_path / "unknown") == ["chrome-trace"]
    assert ledger_adds_up(corpus(name), "chrome-trace")["read"] == len(plain(corpus(name))[0])


@pytest.mark.parametrize("name", OTHERS)
def test_slices_of_real_files_are_exact_and_keep_all_they_say(name: str) -> None:
    events = dict(enumerate(plain(corpus(name))[0], 1))
    found = {r["event_id"]: r for r in rows(tracekit.read(corpus(name)))}
    slices = {n: event for n, event in events.items() if event.get("ph") == "X"}
    assert slices.keys() <= found.keys()
    for number, event in slices.items():
        row = found[number]
        assert (row["ts_ns"], row["dur_ns"], row["name"]) == (ns(event["ts"]), ns(event["dur"]), event["name"])
        said = args_of(row)
        assert {k: said[k] for k in event.get("args", {})} == event.get("args", {})
        assert said.get("cat") == event.get("cat")


def test_no_file_of_the_corpus_has_two_readers_and_no_trace_of_this_family_has_none() -> None:
    assert {name: sure for name, sure in corpus_verdicts().items() if len(sure) > 1} == {}
    assert {name for name in claimed_alone("chrome-trace") if "viewer_cases" not in name} == set(OTHERS)


def test_py_spy_pairs_sum_to_what_perfetto_shows() -> None:
    found = rows(tracekit.read(corpus("generated/pyspy/pyspy.chrometrace")))
    assert len(found) == 8
    assert sum(r["dur_ns"] for r in found) == 15936636000
    assert {r["kind"] for r in found} == {"python_op"}
    assert all({"filename", "line"} <= args_of(r).keys() for r in found)


def test_viztracer_has_the_clock_of_its_metadata() -> None:
    assert tracekit.read(corpus("generated/viztracer/viz_plain.json")).run.origin_ns == 1795224918918837881


def test_every_phase_of_the_sample() -> None:
    trace = tracekit.read(sample("chrome-trace/every-phase.json"))
    found = {(r["name"], r["event_id"]): r for r in rows(trace)}
    assert found["outer", 2]["dur_ns"] == 80_000
    assert (found["inner", 4]["dur_ns"], args_of(found["inner", 4])) == (20_125, {"cat": "demo", "y": [1, 2]})
    assert [(found["read", n]["dur_ns"], found["read", n]["tid"], args_of(found["read", n])["id"]) for n in (7, 8)] == [
        (19_000, None, "0x1f"), (19_000, None, "0x20")
    ]  # fmt: skip
    assert [args_of(found["arrow", n])["ph"] for n in (12, 13, 14)] == ["s", "t", "f"]
    assert [found[f"memory {s}", 15]["value"] for s in ("used", "free")] == [1.5, 2.0]
    assert found["queue", 16]["value"] == 3.0
    assert found["open", 23]["dur_ns"] is None
    assert {v for k, v in trace.run.ids.items() if k[0] == "tid"} == {"worker A"}
    assert "13774319520209737161" in trace.run.ids.values()
    ledger = trace.ledgers[0]
    assert (ledger.read, ledger.merged, ledger.facts, ledger.ignored) == (23, 4, 2, {"empty object": 1})


@given(data=st.data())
def test_pairs_are_found_in_any_order_of_the_file(data: st.DataObject, tmp_path: Path) -> None:
    """Nested ranges with times that all differ: whatever the order of the lines, the same pairs come out."""
    depths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    events, stack, at, want = [], list[tuple[str, int]](), 0, {}
    for number, depth in enumerate(depths):
        while len(stack) > depth:
            name, begin = stack.pop()
            at += 1
            events.append(e(name if number % 2 else "", at) if number % 3 else {**e("", at), "name": name})
            want[name] = at - begin
        at += 1
        stack.append((f"r{number}", at))
        events.append(b(f"r{number}", at))
    while stack:
        name, begin = stack.pop()
        at += 1
        events.append(e(name, at))
        want[name] = at - begin
    for event in events:
        if event["name"] == "":
            del event["name"]
    shuffled = data.draw(st.permutations(events))
    path = write(tmp_path / "x", shuffled)
    found = {r["name"]: r["dur_ns"] // 1000 for r in rows(tracekit.read(path))}
    assert found == want


def test_pairs_beside_each_other_in_order_of_their_ends_may_be_of_no_length(tmp_path: Path) -> None:
    events = [b("x:y", 5), e("x:y", 5), b("x:z", 5), e("x:z", 9), b("x", 1), e("x", 9)]
    found = of(write(tmp_path / "x", events))
    assert {k: (r["ts_ns"], r["dur_ns"]) for k, r in found.items()} == {
        "x": (1000, 8000), "x:y": (5000, 0), "x:z": (5000, 4000)
    }  # fmt: skip


def test_crossing_ranges_and_stray_ends(tmp_path: Path) -> None:
    events = [b("a", 1), b("b", 2), e("a", 3), e("b", 4), e("c", 5), b("d", 6)]
    trace = tracekit.read(write(tmp_path / "x", events))
    assert {r["name"]: r["dur_ns"] for r in rows(trace)} == {"a": 2000, "b": 2000, "d": None}
    assert trace.ledgers[0].dropped == {"end-without-begin": 1}
    assert "open-range" in trace.ledgers[0].notes


def test_what_an_end_adds_stays(tmp_path: Path) -> None:
    events = [b("a", 1, args={"x": 1}), e("a", 2, args={"x": 2}), b("b", 3), e("b", 4, args={"y": 3})]
    found = of(write(tmp_path / "x", events))
    assert args_of(found["a"]) == {"x": 1, "end_args": {"x": 2}}
    assert args_of(found["b"]) == {"y": 3}


def test_records_of_other_forms_beside_the_events_are_told(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x", [b("x", 1), e("x", 2)],
        samples=[{"ts": 1, "sf": 5}, {"ts": 2, "sf": 5}], stackFrames={"5": {"name": "read"}},
        systemTraceEvents="# tracer: nop\n foo-1 [000] 1.0: sched_switch: x\n",
    )  # fmt: skip
    trace = tracekit.read(path)
    notes = {code: note.count for code, note in trace.ledgers[0].notes.items()}
    assert notes == {"other-records-samples": 2, "other-records-systemTraceEvents": 1}
    assert trace.run.sources[0].facts["stackFrames"] == {"5": {"name": "read"}}
    assert not trace.run.sources[0].facts.keys() & {"samples", "systemTraceEvents"}


@pytest.mark.parametrize(("form", "unit"), [("{}", None), ('{{"traceEvents":{}, "displayTimeUnit":"ms"}}', "ms")])
def test_a_second_trace_in_the_file_is_told(form: str, unit: str | None, tmp_path: Path) -> None:
    one = form.format(json.dumps([b("x", 1), e("x", 2)]))
    (tmp_path / "x").write_text(f"{one}\n{one}\n", encoding="utf-8")
    trace = tracekit.read(tmp_path / "x")
    assert len(trace.events) == 1
    assert list(trace.ledgers[0].notes) == ["another-list"]
    assert trace.run.sources[0].facts.get("displayTimeUnit") == unit


@pytest.mark.parametrize("between", ["\n", ",\n", "\r\n"])
@pytest.mark.parametrize("args", [{}, {"a": {"b": 1}}])
def test_events_without_brackets_around_them_are_read(between: str, args: Event, tmp_path: Path) -> None:
    """Lines of JSON, and pieces that were copied out of a trace."""
    events = [{"ph": "X", "name": n, "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": args} for n in "abc"]
    (tmp_path / "x").write_text("\n" + between.join(map(json.dumps, events)) + between, encoding="utf-8")
    assert sure_readers(tmp_path / "x") == ["chrome-trace"]
    assert ledger_adds_up(tmp_path / "x", "chrome-trace")["kept"] == 3
    assert set(of(tmp_path / "x")) == {"a", "b", "c"}


def test_an_object_with_a_phase_is_no_event_by_that() -> None:
    for text in ('{"ph": "X"}', '{"name": "x", "soil": {"ph": "A"}, "list": []}', '{"name": 1, "ph": "7.1", "ts": 4}'):
        assert sure_of_text(text.encode()) == []


def test_work_with_a_global_id_may_end_in_another_process(tmp_path: Path) -> None:
    def point(phase: str, scope: str, pid: int, ts: int) -> Event:
        return {"ph": phase, "name": scope, "cat": "net", "id2": {scope: "0x9"}, "pid": pid, "tid": pid, "ts": ts}

    moves = [("b", "global", 1, 3), ("b", "local", 1, 4), ("e", "local", 2, 5), ("e", "global", 2, 9)]
    trace = tracekit.read(write(tmp_path / "x", [point(*move) for move in moves]))
    assert {r["name"]: (r["dur_ns"], r["pid"]) for r in rows(trace)} == {"global": (6000, 1), "local": (None, 1)}
    assert trace.ledgers[0].dropped["end-without-begin"] == 1


def test_ranges_of_two_threads_do_not_meet(tmp_path: Path) -> None:
    events = [b("a", 1), b("a", 2, tid=2), e("a", 3), e("a", 9, tid=2), b("p", 1, pid=2), e("p", 2, pid=2)]
    found = sorted((r["tid"], r["dur_ns"]) for r in rows(tracekit.read(write(tmp_path / "x", events))))
    assert found == [(1, 1000), (1, 2000), (2, 7000)]


@pytest.mark.parametrize(
    "form", ["array", "open array", "object", "trailing comma", "bom", "utf-16", "other keys first"]
)
def test_forms_of_the_file(form: str, tmp_path: Path) -> None:
    event = '{"ph": "X", "name": "é", "ts": 1, "dur": 2, "pid": 1, "tid": 1}'
    text = {
        "array": f"[{event}]", "open array": f"[\n{event},\n", "object": f'{{"traceEvents": [{event}]}}',
        "trailing comma": f'{{"traceEvents": [{event},]}}', "bom": f"\ufeff[{event}]", "utf-16": f"\ufeff[{event}]",
        "other keys first": f'{{"otherData": {{"traceEvents": [1]}}, "x": "]}}", "traceEvents": [{event}]}}',
    }[form]  # fmt: skip
    path = tmp_path / "x"
    path.write_text(text, encoding="utf-16-le" if form == "utf-16" else "utf-8")
    assert [(r["name"], r["ts_ns"], r["dur_ns"]) for r in rows(tracekit.read(path))] == [("é", 1000, 2000)]


def test_ns_in_the_field_of_us_is_found_and_can_be_overruled(tmp_path: Path) -> None:
    path = sample("chrome-trace/fluid-timeline.json")
    trace = tracekit.read(path)
    assert "ns-in-us" in trace.ledgers[0].notes
    assert trace.events.column("ts_ns")[0].as_py() == 1767225600000000000
    assert {r["device"] for r in rows(trace) if r["kind"] == "kernel"} == {0}
    small = write(tmp_path / "x", [{"ph": "X", "name": "a", "ts": 3, "dur": 4, "pid": 1, "tid": 1}])
    assert rows(tracekit.read(small, options={"time_unit_of_file": "ns"}))[0]["dur_ns"] == 4
    with pytest.raises(UsageError):
        tracekit.read(small, options={"time_unit_of_file": "days"})


def test_the_streams_of_a_jax_device_are_its_work(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/device:GPU:1 (NVIDIA A100)"}},
        {"ph": "M", "pid": 3, "tid": 17, "name": "thread_name", "args": {"name": "Stream #17(Compute)"}},
        {"ph": "X", "pid": 3, "tid": 17, "ts": 1, "dur": 2, "name": "fusion.1"},
        {"ph": "X", "pid": 3, "tid": 18, "ts": 1, "dur": 2, "name": "MemcpyD2H"},
        {"ph": "X", "pid": 9, "tid": 18, "ts": 1, "dur": 2, "name": "$a.py:1 f"},
    ]
    trace = tracekit.read(write(tmp_path / "x", events, displayTimeUnit="ns", metadata={"highres-ticks": True}))
    found = {r["name"]: (r["kind"], r["device"], r["stream"], r["tid"]) for r in rows(trace)}
    assert found == {
        "fusion.1": ("kernel", 1, 17, None), "MemcpyD2H": ("memcpy", 1, 18, None),
        "$a.py:1 f": ("python_op", None, None, 18),
    }  # fmt: skip
    assert trace.run.streams[0, 1, 17] == "Stream #17(Compute)"


COLUMNS = [
    c for c in tracekit.read(sample("chrome-trace/py-spy.json")).events.schema.names if c not in ("event_id", "args")
]


def comparable(trace: Trace) -> list[str]:
    out = []
    for row in rows_of(trace.events):
        text = row["args"]
        try:
            args = None if text is None else json.loads(str(text), parse_float=Decimal)
        except ValueError:
            args = text
        out.append(repr([row[c] for c in COLUMNS]) + repr(args))
    return sorted(out)


@pytest.mark.parametrize(
    "name",
    [
        "kineto/gpu.pt.trace.json",
        "nvprof-csv/gpu-and-api-trace.csv",
        "chrome-trace/every-phase.json",
        "mxnet/mxnet-1.9.1.json",
    ],
)
def test_our_own_traces_come_back_column_by_column(name: str, tmp_path: Path) -> None:
    trace = tracekit.read(sample(name))
    for target in ("x.json", "x.json.gz"):
        tracekit.write(trace, tmp_path / target)
        again = tracekit.read(tmp_path / target)
        want = comparable(trace)
        if name.startswith("chrome-trace"):  # a negative duration is written as 0, and noted in its args
            assert len(comparable(again)) == len(want)
        assert comparable(again) == want
        assert again.run.origin_ns == trace.run.origin_ns


def test_names_of_our_own_traces_come_back(tmp_path: Path) -> None:
    inputs = [
        sample("kineto/gpu.pt.trace.json"),
        sample("recorder-log/rank0.jsonl"),
        sample("recorder-log/rank1.jsonl"),
    ]
    trace = tracekit.read(inputs)
    trace.run.streams[0, 0, 7] = "copies"
    tracekit.write(trace, tmp_path / "x.json")
    again = tracekit.read(tmp_path / "x.json")
    assert trace.run.devices
    assert len(trace.run.processes) == 3
    assert len(trace.run.threads) > 3
    for table in ("devices", "streams", "processes", "threads"):
        assert getattr(again.run, table) == getattr(trace.run, table), table


@given(table=tables("events", max_rows=8))
def test_any_rows_of_ours_come_back(table: Any, tmp_path: Path) -> None:
    trace = Trace(table)
    kept = [
        r for r in rows(trace)
        if not (r["kind"] == "counter" and r["value"] is not None and repr(r["value"]) in ("nan", "inf", "-inf"))
    ]  # fmt: skip
    tracekit.write(trace, tmp_path / "x.json", force=True)
    again = tracekit.read(tmp_path / "x.json")
    if len(again.events) != len(kept):
        return  # rows beyond what a viewer holds are left out
    want = sorted(
        (r["ts_ns"], r["dur_ns"] if r["kind"] != "flow" else 0, r["name"] or "", r["kind"])
        for r in kept
        if r["dur_ns"] is not None
    )
    found = sorted(
        (r["ts_ns"], r["dur_ns"] if r["kind"] != "flow" else 0, r["name"] or "", r["kind"])
        for r in rows(again)
        if r["dur_ns"] is not None
    )
    assert found == want


PHASES = st.sampled_from([*"XBEbenistfCMNODPSTF", "(", ")", "?", ""])
events = st.fixed_dictionaries(
    {"ph": PHASES},
    optional={
        "name": st.sampled_from(["a", "b", "", 'q"', "é"]) | st.integers(),
        "cat": st.sampled_from(["c", "d"]),
        "ts": st.integers(-5, 50) | st.floats(allow_nan=True) | st.text(max_size=3) | st.none(),
        "dur": st.integers(-5, 50) | st.none() | st.floats(0, 1e9),
        "pid": st.integers(0, 2) | st.text(max_size=2) | st.integers(1 << 60, 1 << 70),
        "tid": st.integers(0, 2) | st.none() | st.lists(st.integers(), max_size=1),
        "id": st.integers(0, 2) | st.just("0x2") | st.none(),
        "id2": st.just({"local": "0x1"}),
        "args": st.integers() | st.dictionaries(
            st.sampled_from(["a", "b", "cat", "value"]), st.integers() | st.floats() | st.text(max_size=3), max_size=3
        ),
    },
)  # fmt: skip


@given(
    made=st.lists(events, max_size=14), cut=st.integers(0, 60), junk=st.binary(max_size=4), where=st.integers(0, 900)
)
def test_nothing_but_our_own_errors_whatever_stands_in_the_file(
    made: list[Any], cut: int, junk: bytes, where: int, tmp_path: Path
) -> None:
    text = json.dumps(made).encode()
    where = min(where, len(text))
    data = text[:where] + junk + text[where:]
    (tmp_path / "x").write_bytes(data[: len(data) - min(cut, len(data))])
    try:
        ledger_adds_up(tmp_path / "x", "chrome-trace")
    except SchemaError:
        raise
    except TracekitError:
        pass


def test_tables_that_are_no_traces_are_refused() -> None:
    for text in (b"[]", b"[1, 2]", b'[{"name": "x", "cpu_time": 3}]', b'{"Time": {}}', b"{", b"[", b'{"traceEvents"'):
        assert sure_of_text(text) == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("kineto/gpu.pt.trace.json", b'"record_shapes"', b'"record_sha\xffpes"'),
        ("kineto/gpu.pt.trace.json", b'"traceName": "C', b'"traceName": "\xe2\x82C'),
        ("kineto/gpu.pt.trace.json", b'"world_size": 4', b'"world_size": 1e400'),
        ("kineto/gpu.pt.trace.json", b'"traceEvents": [', b'"traceEvents": [99'),
        ("mxnet/mxnet-1.9.1.json", b'"traceEvents": [', b'"traceEvents": [1 2'),
        ("paddle-json/paddle26.paddle_trace.json", b"ProfileStep#", b"ProfileStep#x"),
        ("paddle-json/paddle26.paddle_trace.json", b'"ts": 17952273', b'"ts": 179522730000000000'),
        ("paddle-json/paddle26.paddle_trace.json", b'"ts": 17952273', b'"ts": 1795227300'),
    ],
)
def test_what_fuzzing_found_costs_what_it_breaks_alone(name: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    data = sample(name).read_bytes()
    assert old in data
    (tmp_path / "x").write_bytes(data.replace(old, new, 1))
    reader = name.split("/")[0]
    ledger_adds_up(tmp_path / "x", reader)
    whole = len(tracekit.read(sample(name)).events)
    assert whole - 2 <= len(tracekit.read(tmp_path / "x", format=reader).events) <= whole


def test_counters_of_several_series_need_no_name(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [{"ph": "C", "ts": 1, "pid": 1, "args": {"a": 1, "b": 2}}])
    assert {n: r["value"] for n, r in of(path).items()} == {"a": 1.0, "b": 2.0}


def test_a_counter_is_named_by_its_event_and_its_series(tmp_path: Path) -> None:
    found = (("memory", {"used": 3}), ("queue", {"value": 4}), ("gpu", {"gpu": 5}), (None, {"depth": 6}))
    events = [{"ph": "C", "name": name, "ts": n, "pid": 1, "args": args} for n, (name, args) in enumerate(found)]
    rows = of(write(tmp_path / "x", [{k: v for k, v in event.items() if v is not None} for event in events]))
    assert {n: (r["value"], r["raw_name"]) for n, r in rows.items()} == {
        "memory used": (3.0, "memory"), "queue": (4.0, None), "gpu": (5.0, None), "depth": (6.0, None),
    }  # fmt: skip


@st.composite
def pair_events(draw: st.DrawFn) -> list[Event]:
    """Begins and ends of a few lanes: sorted or not, beside each other or not, with and without names."""
    out: list[Event] = []
    for _ in range(draw(st.integers(0, 40))):
        phase = draw(st.sampled_from("BEbe"))
        event: Event = {"ph": phase, "ts": draw(st.integers(0, 9)), "pid": 1, "tid": draw(st.integers(1, 2))}
        if phase in "be":
            event |= {"id": draw(st.integers(1, 2)), "cat": draw(st.sampled_from(["c", "d"]))}
        if draw(st.booleans()) or phase in "Bb":
            event["name"] = draw(st.sampled_from(["f", "g"]))
        if draw(st.booleans()):
            event["args"] = {"n": len(out)}
        out.append(event)
    order = draw(st.sampled_from(["as drawn", "sorted", "beside"]))
    if order == "sorted":
        out.sort(key=lambda e: int(e["ts"]))
    elif order == "beside":
        begins = [e for e in out if e["ph"] == "B"]
        out = [e for begin in begins for e in (begin, begin | {"ph": "E", "ts": int(begin["ts"]) + 1})]
    return out


@given(pair_events(), st.integers(1, 7), st.integers(1, 12))
def test_pairs_are_the_same_on_disk_and_in_memory(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], chunk: int, long: int
) -> None:
    whole = {"ph": "X", "name": "x", "ts": 0, "dur": 1, "pid": 1, "tid": 1}
    path = write(tmp_path_factory.mktemp("pairs") / "x.json", [whole, *events])
    with pytest.MonkeyPatch.context() as patch:
        want = tracekit.read(path, format="chrome-trace")
        small(patch, Limit.SPILL_CHUNK_ROWS, chunk)
        small(patch, Limit.SPILL_PIECE_ROWS, 3)
        small(patch, Limit.SPILL_FAN_IN, 2)
        small(patch, Limit.PAIRS_LONG_ROWS, long)
        # One slab an event: rows come to the disk little by little.
        small(patch, Limit.JSON_SLAB_BYTES, 64)
        found = tracekit.read(path, format="chrome-trace")

    def key(row: Event) -> int:
        return int(row["event_id"])

    assert sorted(rows(found), key=key) == sorted(rows(want), key=key)
    mine, theirs = found.ledgers[0].to_json(), want.ledgers[0].to_json()
    assert {n["code"]: n["count"] for n in mine.pop("notes")} == {n["code"]: n["count"] for n in theirs.pop("notes")}
    assert mine == theirs


def test_more_open_ranges_than_wait_are_given_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [b(f"r{n}", n) for n in range(100)] + [e(f"r{n}", 200 - n) for n in reversed(range(100))]
    path = write(tmp_path / "x", events)
    small(monkeypatch, Limit.SPILL_CHUNK_ROWS, 20)
    small(monkeypatch, Limit.SPILL_PIECE_ROWS, 10)
    small(monkeypatch, Limit.PAIRS_LONG_ROWS, 30)
    small(monkeypatch, Limit.PAIRS_OPEN, 60)
    trace = tracekit.read(path)
    ledger = trace.ledgers[0]
    unknown = trace.events.column("dur_ns").null_count
    assert 40 <= unknown < 100
    assert ledger.notes["too-many-open"].count == unknown == ledger.notes["open-range"].count
    assert ledger.dropped == {"end-without-begin": unknown}
    assert list(tmp_path.iterdir()) == [path]


def test_ends_in_the_order_of_their_begins_cost_no_time(tmp_path: Path) -> None:
    count = 20_000
    events = [b(f"r{n}", n) for n in range(count)] + [e(f"r{n}", count + n) for n in range(count)]
    path = write(tmp_path / "x", [*events, *(e("none", 2 * count) for _ in range(count))])
    trace = tracekit.read(path, columns=frozenset({"dur_ns"}))
    assert trace.events.column("dur_ns").unique().to_pylist() == [count * 1000]


@pytest.mark.parametrize("args", ['{"a":1}', '{"value":0.5}', '{"value":{"x":[1]}}'])
def test_the_first_time_that_is_too_long_is_none_on_every_way_of_reading(args: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    times = ("4611686018427387.903", "4611686018427387.904")
    events = ",\n".join(f'{{"ph":"X","pid":1,"tid":2,"name":"a","ts":0,"dur":{dur},"args":{args}}}' for dur in times)
    path.write_text(f'{{"traceEvents":[\n{events}\n]}}')
    trace = tracekit.read(path)
    assert trace.events["dur_ns"].to_pylist() == [(1 << 62) - 1, None]
    assert trace.ledgers[0].notes["bad-time"].count == 1


@pytest.mark.parametrize("inner", ["x" * 40, 'say \\"hi\\" \\\\', '},{\\"name\\":[', "é}]"])
def test_an_event_that_is_too_long_is_one_event(inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is longer than several limits, its text has what looks like events, and it ends at any place of a block."""
    small(monkeypatch, Limit.JSON_CARRIED_BYTES, 1 << 20)
    small(monkeypatch, Limit.JSON_SLAB_BYTES, 1 << 17)
    short = '{{"ph":"X","name":"{}","ts":1,"dur":1,"pid":1,"tid":1}}'
    for extra in range(3):
        text = f"{inner * ((3 << 20) // len(inner.encode()))}{'y' * extra}"
        args = f'{{"a":[{{"s":"{text}"}},{{"t":"{text}"}}]}}'
        long = f'{{"ph":"X","name":"long","ts":2,"dur":1,"pid":1,"tid":1,"args":{args}}}'
        path = tmp_path / "x.json"
        events = [short.format("a"), f"\n{long}", short.format("b"), short.format("c")]
        path.write_text(f'{{"traceEvents":[{",".join(events)}]}}', "utf-8")
        trace = tracekit.read(path)
        assert [row["name"] for row in rows(trace)] == ["a", "b", "c"]
        assert (trace.ledgers[0].read, trace.ledgers[0].dropped) == (4, {"event-too-long": 1})


def test_a_long_event_whose_quotes_do_not_fit_does_not_take_all_that_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("MOST_CARRIED", 1 << 18), ("MOST_SKIPPED", 1 << 20), ("SLAB_BYTES", 1 << 17)):
        monkeypatch.setattr(stream, name, size)
    event = '{"ph":"X","name":"after","ts":1,"dur":1,"pid":1,"tid":1}'
    path = tmp_path / "x.json"
    path.write_text(f'{{"traceEvents":[{{"name":"{"x" * (1 << 19)},{",".join([event] * 50_000)}]}}', "utf-8")
    trace = tracekit.read(path)
    assert len(trace.events) == 50_000
    assert trace.ledgers[0].dropped == {"event-too-long": 1}


def test_blanks_behind_the_list_of_events_cost_no_time(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    event = '{"ph":"X","name":"k","ts":1,"dur":1,"pid":1,"tid":1}'
    path.write_text(f'{{"traceEvents":[{event}],"a":{{}}{" " * 500_000},"b":1}}', "utf-8")
    assert len(tracekit.read(path).events) == 1


@pytest.mark.parametrize("target", ["x.jsonl", "x.csv", "x.json", "x.pftrace", "x.parquet"])
@pytest.mark.parametrize("form", ["chrome-trace", "kineto"])
def test_escapes_in_args_are_the_characters_in_every_target(target: str, form: str, tmp_path: Path) -> None:
    """Python's json escapes all that is not ASCII."""
    more = {"cat": "cpu_op", "args": {"layer": "café", "größe": 1, "External id": 3}}
    whole = {"ph": "X", "name": "ö", "ts": 1, "dur": 2, "pid": 1, "tid": 1, **more}
    events = [whole, {**whole, "ts": 4e-06}, b("é", 8, args={"ä": "中"}), e("é", 9, args={"z": "😀"})]
    path = write(tmp_path / "in", events if form == "chrome-trace" else events[:2])
    assert "\\u00e9" in path.read_text(encoding="utf-8")
    tracekit.convert(path, tmp_path / target, format=form)
    data = (tmp_path / target).read_bytes()
    assert b"u00e9" not in data
    assert "café".encode() in data
    assert "größe".encode() in data
    for row in rows(tracekit.read(tmp_path / target) if target != "x.csv" else tracekit.read(path)):
        assert "\\u" not in row["args"]


def test_a_negative_duration_is_no_time_in_the_sums_by_kind(tmp_path: Path) -> None:
    durations = [5, -3, "12.5", -1e3, 10.0, None]
    events = [{"ph": "X", "name": "f", "ts": 9, "dur": dur, "pid": 1, "tid": 1} for dur in durations]
    found = inspect(write(tmp_path / "x", events)).inputs[0]
    assert found["by_kind"] == {"user_range": {"events": 6, "dur_ns": 27_500}}
    assert (found["first_ns"], found["last_ns"]) == (9000, 21_500)
