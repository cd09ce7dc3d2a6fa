"""A name in each event: shapes that differ in the name alone are parsed once, and read as if each had been parsed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small

from tracekit.api import read
from tracekit.model.trace import Trace
from tracekit.readers.trace_event import columns
from tracekit.readers.trace_event.plan import EventPlan
from tracekit.readers.trace_event.scan import NAME, Scan, scan

NAMES = (
    *("a", 'k\\"x', "\\\\", "0", "12 34", "é\\u00e9", "{", "ProfilerStep#7", "nccl:all_reduce", "Memcpy HtoD (x -> y)"),
    *(
        "",
        "_Z1fv",
        '\\"name\\":\\"q',
        "enumerate(DataLoader)#_X.__next__",
        "hipMemcpyAsync",
        "[memory]",
        "void k<1>(int)",
    ),
)
CATS = ("kernel", "cpu_op", "user_annotation", "gpu_memcpy", "cuda_runtime", "Operator", "mtia_ccp_events", "ac2g")
NUMBERS = ("1", "-1", "12.5", "1e3", "7.0", "null", '"3"', "123456789012345678901", "-0", "12345678901234567")


def events(draw: random.Random, count: int) -> str:
    """Return events with names in any place, twice, in args, with escapes, and with odd numbers beside them."""

    def name() -> str:
        return '"' + draw.choice(NAMES) + draw.choice(("", "1", "22", "x")) + '"'

    made = []
    for i in range(count):
        if draw.random() < 0.3:
            made.append(
                f'{{"ph":"X","cat":"Operator","name":{name()},"ts":{i}.25,"dur":1,"pid":1,"tid":1,"args":{{"v":[{i}]}}}}'
            )
            continue
        ts = draw.choice((str(i), f"{i}.5", draw.choice(NUMBERS)))
        members = [f'"ph":"{draw.choice("XXXXXXibeBEsfCM")}"', f'"name":{name()}', f'"cat":"{draw.choice(CATS)}"']
        members += [
            f'"ts":{ts}',
            f'"pid":{draw.choice("012")}',
            f'"tid":{draw.choice(("1", "2", chr(34) + "x" + chr(34)))}',
        ]
        if draw.random() < 0.8:
            members.append(f'"dur":{draw.choice(("5", "5.25", draw.choice(NUMBERS)))}')
        if draw.random() < 0.6:
            args = ['"device":0', f'"stream":{draw.choice(NUMBERS)}', f'"correlation":{i}', f'"name":{name()}']
            args += [f'"grid":[{i % 9},1,1]', f'"Bytes":{draw.choice(NUMBERS)}', f'"v":{draw.choice(NUMBERS)}']
            members.append(f'"args":{{{",".join(draw.sample(args, draw.randrange(4)))}}}')
        if draw.random() < 0.1:
            members.append(f'"{draw.choice(("name", "na" + chr(92) + "u006de"))}":{name()}')
        if draw.random() < 0.2:
            members.append(f'"id":{draw.choice(("1", chr(34) + "0x1" + chr(34), "22"))}')
        if draw.random() < 0.1:
            members.append(f'"x":{{"name":{name()},"a":[1,2,{name()}]}}')
        if draw.random() < 0.3:
            draw.shuffle(members)
        made.append("{" + (", " if draw.random() < 0.3 else ",").join(members) + "}")
    return ",\n".join(made)


def each_shape_parsed(path: Path, monkeypatch: pytest.MonkeyPatch, name: str = "") -> Trace:
    """Return the trace of a reader that has a plan of its own for each shape."""

    def parsed(self: columns.Patterns, scan: Scan, code: int) -> tuple[columns.Pattern, None]:
        return columns.Pattern(EventPlan(scan.object(int(scan.sample[code])))), None

    with monkeypatch.context() as patched:
        small(patched, Limit.JSON_SHAPES_WITH_NAMES, 1 << 40)
        patched.setattr(columns.Patterns, "of", parsed)
        return read(path, format=name)


@pytest.mark.parametrize("head", ['{"traceEvents":[', '{"schemaVersion":1,"traceEvents":['])
@pytest.mark.parametrize("most", [1024, 64])
@pytest.mark.parametrize("shapes", [1 << 40, 0])
def test_events_are_those_of_a_reader_that_parses_each_shape(
    head: str, most: int, shapes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text(head + events(random.Random(f"{head} {most}"), 1500) + "]}")
    small(monkeypatch, Limit.NAME_PATTERNS, most)
    small(monkeypatch, Limit.JSON_SHAPES_WITH_NAMES, shapes)
    renamed, shared = [], []
    monkeypatch.setattr(
        EventPlan, "renamed", lambda self, raw, real=EventPlan.renamed: renamed.append(raw) or real(self, raw)
    )
    monkeypatch.setattr(
        columns, "OwnNames", lambda *parts, real=columns.OwnNames: shared.append(sum(parts[0] >= 0)) or real(*parts)
    )
    found = read(path)
    assert len(renamed) > 20
    assert sum(shared) > 100
    expected = each_shape_parsed(path, monkeypatch)
    assert found.events.to_pylist() == expected.events.to_pylist()
    assert found.events.num_rows > 500
    assert found.ledgers == expected.ledgers


@pytest.mark.parametrize("head", ['{"traceEvents":[', '{"schemaVersion":1,"traceEvents":['])
def test_one_event_is_parsed_for_all_names(head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    args = '"args":{"device":0,"stream":7,"correlation":%d}'
    event = '{"ph":"X","cat":"kernel","name":"k%d","ts":%d,"dur":1,"pid":0,"tid":7,' + args + "}"
    path.write_text(head + ",\n".join(event % (i, i, i) for i in range(800)) + "]}")
    parsed = []
    monkeypatch.setattr(columns, "EventPlan", lambda text: parsed.append(text) or EventPlan(text))
    rows = read(path).events.to_pylist()
    assert [row["name"] for row in rows] == [f"k{i}" for i in range(800)]
    assert [row["ts_ns"] for row in rows] == [1000 * i for i in range(800)]
    assert len(parsed) <= 2


NAMED = (
    '{"ph":"X","cat":"kernel","name":"%s","ts":1,"dur":2,"pid":0,"tid":7,"args":{"device":0}}',
    '{"ph":"X","cat":"user_annotation","name":"%s","ts":1,"dur":2,"pid":1,"tid":7,"args":{"x":5}}',
    '{"ph":"X","cat":"Operator","ts":1,"dur":2,"pid":1,"tid":7,"args":{"x":5},"name":"%s"}',
    '{"ph":"X","args":{"y":3},"cat":"gpu_memcpy","name":"%s","ts":1,"dur":2,"pid":0,"tid":7,"z":4}',
    '{"ph":"i","name":"%s","cat":"c","ts":1,"pid":1,"tid":7,"s":"t","args":{"Bytes":8}}',
    '{"ph":"C","name":"%s","ts":1,"pid":1,"args":{"k":7}}',
    '{"ph":"b","cat":"c","id":1,"name":"%s","ts":1,"pid":1,"tid":7}',
)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("kineto", '{"schemaVersion":1,"deviceProperties":[],"traceEvents":['),
        ("chrome-trace", '{"traceEvents":['),
        ("chrome-trace", '{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":['),
        ("chrome-trace", '{"viztracer_metadata":{"version":"1"},"traceEvents":['),
        ("chrome-trace", '{"tracekit":{"lanes":[{"tid":7,"process":1,"thread":7}]},"traceEvents":['),
    ],
)
@pytest.mark.parametrize("shapes", [1 << 40, 0])
def test_a_name_that_says_more_than_itself_keeps_its_meaning(
    name: str, head: str, shapes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, Limit.JSON_SHAPES_WITH_NAMES, shapes)
    names = [
        *NAMES,
        "FillBuffer",
        "CopyHostToDevice",
        "$a.py:3 f",
        "Optimizer.step#SGD.step",
        "ProfilerStep#8",
        "k",
        "kk",
    ]
    path = tmp_path / "a.json"
    path.write_text(head + ",\n".join(event % each for each in [*names, *names[::-1]] for event in NAMED) + "]}")
    found, expected = read(path, format=name), each_shape_parsed(path, monkeypatch, name)
    assert found.events.num_rows > 200
    assert found.events.to_pylist() == expected.events.to_pylist()
    assert found.ledgers == expected.ledgers


def test_args_behind_and_before_a_name_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    events = [
        {"ph": "X", "before": "b" * (n % 3), "name": "n" * n, "ts": n, "dur": 1, "pid": 1, "tid": 1, "behind": [n, "x"]}
        for n in range(60)
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    for event, row in zip(events, read(path).events.to_pylist(), strict=True):
        assert json.loads(row["args"]) == {key: event[key] for key in ("before", "behind")}
        assert row["name"] == event["name"]


def test_notes_count_each_event_of_each_name(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps(
            {"traceEvents": [{"ph": "X", "name": f"k{i % 40}", "ts": i, "pid": 1, "tid": 1} for i in range(100)]}
        )
    )
    note = read(path).ledgers[0].notes["no-duration"]
    assert note.count == 100
    assert note.places[0] == "event 1"


def test_a_number_in_id2_is_the_id_of_its_own_event(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    points = [("b", 1, 0), ("b", 2, 10), ("e", 1, 20), ("e", 2, 40)]
    rows = [
        {"ph": ph, "name": "a", "cat": "c", "ts": ts, "pid": 1, "tid": 1, "id2": {"local": number}}
        for ph, number, ts in points
    ]
    path.write_text(json.dumps({"traceEvents": rows}))
    found = sorted((row["ts_ns"], row["dur_ns"]) for row in read(path).events.to_pylist())
    assert found == [(0, 20_000), (10_000, 30_000)]


TEXTS = ("", "a", "1e5", "k 7", '\\"x', "\\\\", "é", "\x7f", '\\"name\\":\\"q', "\\u0041", "{[,", "\t")
KEYS = ("name", "nam", 'a\\"name', "na\\u006de", "args", "n", "names")


@given(st.data())
def test_a_shape_without_its_name_and_the_name_are_the_shape(data: st.DataObject) -> None:
    texts = st.sampled_from(TEXTS).map(lambda text: f'"{text}"')
    values = st.recursive(
        st.one_of(texts, st.sampled_from(("1", "-12.5", "1e5", "null", "[]", "123456789012345678901"))),
        lambda inner: st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=3).map(
            lambda members: "{" + ",".join(f'"{key}":{value}' for key, value in members) + "}"
        ),
        max_leaves=4,
    )
    members = st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=4)
    objects = data.draw(st.lists(members, max_size=12))
    blank = data.draw(st.sampled_from(("", " ")))
    text = ",".join(
        "{" + ",".join(f'{blank}"{key}"{blank}:{blank}{value}' for key, value in each) + "}" for each in objects
    ).encode()
    whole, cut = scan(text), scan(text, by_name=True)
    assert whole.names is None
    assert cut.names is not None
    assert whole.broken == cut.broken
    assert len(whole.start) == len(cut.start)
    for row, code in enumerate(cut.codes.tolist()):
        shape, name = cut.shapes[code], int(cut.names.codes[row])
        if name >= 0:
            before, _, behind = shape.partition(NAME + b'"')
            shape = before + NAME[:-1] + cut.names.texts[name] + behind
            assert json.loads(cut.names.texts[name]).isascii()
        assert shape == whole.shapes[int(whole.codes[row])]


def test_names_of_their_own_are_cut_out_of_many_shapes() -> None:
    event = '{"ph":"X","name":"k%d","ts":%d,"args":{"name":"y"}}'
    found = scan(",".join(event % (i, i) for i in range(800)).encode())
    assert found.names is not None
    assert found.shapes == [b'{"ph":"X","name":"","ts":0,"args":{"name":"y"}}']
    assert found.names.texts[:2] == [b'"k0"', b'"k1"']
    assert scan(",".join(event % (i % 7, i) for i in range(800)).encode()).names is None
