"""What the timeline of a page knows of real traces: arguments, arrows, tracks, colours, hosts and the critical path."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from render.test_timeline_page import WINDOWS, differing, opened, saved, unpacked
from support import corpus, sample
from viewers import perfetto

import tracekit
from tracekit import pipeline
from tracekit.index.trace_index import TraceIndex
from tracekit.model.timeline import Timeline
from tracekit.model.trace import Trace
from tracekit.render.base import RenderOptions
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

pytestmark = pytest.mark.viewer


WHOLE = "T.view.t0, T.view.t1"


def page(trace: Trace, target: Path) -> Path:
    tracekit.write_report(trace, target)
    return target


def on_lanes(trace: Trace) -> list[dict[str, object]]:
    """The rows of a trace that are on lanes."""
    timed = trace.events.to_pylist()
    return [r for r in timed if r["kind"] not in ("counter", "flow")]


ARGUMENTS = """
    const out = [], {begin, unit} = T.head;
    for (let i = 0; i < T.head.n; i++) {
      out.push([String(BigInt(begin) + BigInt(T.start[i]) * BigInt(unit)), await D.membersOf(i)]);
    }
    return out;
    """


@pytest.mark.parametrize(
    "name", ["kineto/hta_alexnet.json.gz", "nsys_sqlite/h100_2gpu_1s_2026.2.sqlite", "mxnet/mxnet_1.9.1_profile.json"]
)
def test_the_arguments_of_each_event_of_a_real_trace_are_in_its_page(name: str, tmp_path: Path) -> None:
    trace = tracekit.read(corpus(name))
    found = opened(page(trace, tmp_path / "r.html"), ARGUMENTS)
    expected = Counter((r["ts_ns"], r["args"] or "") for r in on_lanes(trace))
    assert Counter((int(start), text) for start, text in found) == expected
    assert sum(text != "" for _, text in expected) > 50


def test_a_selected_event_shows_its_arguments_with_each_digit(tmp_path: Path) -> None:
    source = tmp_path / "t.json"
    args = (
        '{"id":12345678901234567890,"ratio":0.10000000000000000001,"Input Dims":[[2,03.5e2],[]],'
        '"path":"C:\\\\x\\\\","turn":"\\u202eb<i>","__proto__":7,"list":{"a":null}}'
    ).replace("03.5", "3.5")
    event = f'{{"ph":"X","name":"op","pid":1,"tid":1,"ts":1,"dur":2,"args":{args}}}'
    source.write_text(f'{{"traceEvents":[{event}]}}', encoding="utf-8")
    trace = tracekit.read(source)
    script = """
    T.select(0);
    while (!document.querySelector(".tl-args-box").children.length) await pause(5);
    const cells = (row) => [...row.children].map((each) => each.textContent);
    return [...document.querySelectorAll(".tl-args-box dl > div")].map(cells);
    """
    shown = opened(page(trace, tmp_path / "r.html"), script)
    assert sorted(shown) == sorted(
        [
            ["id", "12345678901234567890"],
            ["ratio", "0.10000000000000000001"],
            ["Input Dims", "[[2,3.5e2],[]]"],
            ["path", "C:\\x\\"],
            ["turn", "\\u{202e}b<i>"],
            ["__proto__", "7"],
            ["list", '{"a":null}'],
        ]
    )
    again = tracekit.read(saved(tmp_path / "r.html", "chromeTrace", tmp_path / "w.json"))
    assert [json.loads(r["args"]) for r in again.events.to_pylist()] == [json.loads(args)]
    assert perfetto(tmp_path / "w.json")["accepted"]
    seen = perfetto(saved(tmp_path / "r.html", "perfettoTrace", tmp_path / "w.pftrace"), [
        "select key, string_value, int_value, real_value from args order by key"
    ])  # fmt: skip
    assert seen["accepted"], seen["refusal"]
    found = {row["key"]: row for row in seen["sql"][0]}
    assert found["debug.path"]["string_value"] == "C:\\x\\"
    assert found["debug.Input Dims"]["string_value"] == "[[2,3.5e2],[]]"


def test_a_saved_window_of_a_real_trace_has_its_arguments(tmp_path: Path) -> None:
    trace = tracekit.read(corpus("kineto/hta_alexnet.json.gz"))
    again = tracekit.read(saved(page(trace, tmp_path / "r.html"), "chromeTrace", tmp_path / "w.json", WHOLE))
    columns = ("ts_ns", "dur_ns", "name", "kind", "correlation", "stream", "bytes", "copy_kind", "grid_x", "args")

    def rows(made: Trace) -> Counter[tuple[object, ...]]:
        return Counter(tuple(r[c] for c in columns) for r in on_lanes(made))

    assert rows(again) == rows(trace)


def test_what_is_beyond_the_budget_of_arguments_is_said(tmp_path: Path) -> None:
    trace = tracekit.read(sample("kineto/gpu.pt.trace.json"))
    target = tmp_path / "r.html"
    pipeline.write_report(trace, target, options=RenderOptions(page_args_mb=0))
    script = """
    T.select(0);
    while (!document.querySelector(".tl-args-box").children.length) await pause(5);
    const {note} = await T.saving.chromeTrace(0, T.head.span);
    return [text(".tl-args-box"), note];
    """
    shown, note = opened(target, script)
    assert shown.startswith("Not in this page: ")
    assert "other arguments" in shown
    assert note.endswith("were not in the page")


ARROWS = """
    const [from, to] = D.flows(), name = (i) => T.parts.names[T.name[i]];
    const out = {flows: [...from].map((i, x) => [name(i), name(to[x])]), links: 0, back: 0, dashed: null};
    for (let i = 0; i < D.link.length; i++) {
      if (D.link[i] < 0) continue;
      out.links++;
      const there = D.partners(D.link[i]).some(([j, way]) => j === i && way === "launch");
      out.back += there && D.partners(i).some(([j, way]) => j === D.link[i] && way === "launched");
    }
    if (from.length) {
      T.select(from[0]);
      T.reveal(from[0]);
      await pause(400);
      T.show(0, T.head.span);
      out.shown = [...document.querySelectorAll(".tl-links button b")].map((each) => each.textContent);
      out.dashed = T.saving.svg().includes('stroke-dasharray="5 3"');
    }
    return out;
    """


@pytest.mark.parametrize(
    ("name", "flows", "links"),
    [
        ("kineto/hta_nccl_data.json.gz", 543, 3774),  # fwdbwd; ac2g repeats the launches
        ("kineto/hta_alexnet.json.gz", 25, 98),  # ac2g of synchronization, which launches nothing
        ("nsys_sqlite/h100_2gpu_1s_2026.2.sqlite", 0, 2092),
    ],
)
def test_arrows_of_real_traces_lead_both_ways(name: str, flows: int, links: int, tmp_path: Path) -> None:
    found = opened(page(tracekit.read(corpus(name)), tmp_path / "r.html"), ARROWS)
    assert (len(found["flows"]), found["links"], found["back"]) == (flows, links, links)
    if flows:
        assert found["flows"][0][1] in found["shown"]
        assert found["dashed"]


def test_arrows_between_forward_and_backward_are_those_of_autograd(tmp_path: Path) -> None:
    trace = tracekit.read(sample("kineto/cpu.pt.trace.json"))
    found = opened(page(trace, tmp_path / "r.html"), ARROWS)["flows"]
    assert len(found) == 21
    assert all(target.endswith("Backward0") for _, target in found)
    assert ["aten::relu", "ReluBackward0"] in found
    again = tracekit.read(saved(tmp_path / "r.html", "chromeTrace", tmp_path / "w.json", WHOLE))
    assert sum(r["kind"] == "flow" for r in again.events.to_pylist()) == 2 * len(found)
    seen = perfetto(
        saved(tmp_path / "r.html", "perfettoTrace", tmp_path / "w.pftrace", WHOLE),
        [
            (
                "select a.name as source, b.name as target from flow f "
                "join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in"
            )
        ],
    )
    assert sorted([row["source"], row["target"]] for row in seen["sql"][0]) == sorted(found)
    seen = perfetto(tmp_path / "w.json", ["select count(*) as n from flow"])
    assert seen["sql"][0] == [{"n": len(found)}]


def test_kernels_that_communicate_are_drawn_in_their_own_colour_column_by_column(tmp_path: Path) -> None:
    trace = tracekit.read(corpus("kineto/hta_nccl_data.json.gz"))
    path = page(trace, tmp_path / "r.html")
    more = """
    const orange = T.parts.size().css(T.picture().shades[T.head.kinds.indexOf("communication kernel")][0][16]);
    const blue = T.parts.size().css(T.picture().shades[T.head.kinds.indexOf("conv kernel")][0][16]);
    const marked = (kinds) => { tracekit.emit("mark", {names: [name], kinds, from: "tables"}); return T.marked.total; };
    const isOne = (code) => T.head.kinds[T.parts.kindOf[code]] === "communication kernel";
    const name = T.parts.names.find((_, code) => isOne(code));
    T.select(T.name.findIndex((code) => T.parts.names[code] === name));
    const colors = {orange, blue, marked: [marked(["kernel"]), marked(["operator"])], kind: text(".tl-card dd")};
    tracekit.emit("mark", {names: [], from: "tables"});
    """
    more += "const R = D.rowOf(T.name.findIndex(isOne));"
    windows = WINDOWS.replace("return { windows,", "return { colors, windows,")
    windows = windows.replace("all[(k * 7 + 3) % all.length]", "all.find(([row]) => row === R)")
    seen = opened(path, more + windows)
    assert seen["colors"]["orange"] == "#c57d01"  # --comm, of "exposed communication" in the bar of the first screen
    assert seen["colors"]["blue"] == "#2a3fc5"
    assert seen["colors"]["marked"][0] > 10
    assert seen["colors"]["marked"][1] == 0
    assert seen["colors"]["kind"] == "communication kernel"
    (figure,) = (
        each
        for each in VIEWS["timeline"].compute(TraceIndex(trace), ViewOptions()).figures
        if isinstance(each, Timeline)
    )
    every = slice(None)
    events = figure.events
    columns = (events.starts_at(every), events.lengths_at(every), events.codes_at(every).astype(np.int64), events.first)
    off = differing(columns, np.array(figure.kind_of), len(figure.kinds), seen)
    assert off.pop("columns") > 20_000
    assert off.pop("crowded") > 500
    assert off == dict.fromkeys(off, 0)
    there = {figure.kinds[k] for w in seen["windows"] for r in w["rows"] for k in set(unpacked(r["kind"], np.uint8))}
    assert {"communication kernel", "conv kernel"} <= there


def queue(calls: list[int], starts: list[int]) -> dict[int, int]:
    """The queue after each change of it: counted one by one."""
    found, length = {}, 0
    for time, change in sorted([(t, 1) for t in calls] + [(t, -1) for t in starts]):
        length += change
        found[time] = length
    return found


@pytest.mark.parametrize("name", ["kineto/hta_nccl_data.json.gz", "nsys_sqlite/h100_2gpu_1s_2026.2.sqlite"])
def test_the_queue_of_a_device_is_what_was_launched_and_has_not_begun(name: str, tmp_path: Path) -> None:
    trace = tracekit.read(corpus(name))
    script = """
    return D.counters.filter((it) => it.queue).map((it) => ({
      group: T.groups[it.group].label, times: [...it.times], values: [...it.values], max: it.max, unit: T.head.unit,
    }));
    """
    found = opened(page(trace, tmp_path / "r.html"), script)
    rows = trace.events.to_pylist()
    calls: dict[tuple[int, int], dict[str, object]] = {}
    for r in rows:
        if r["kind"] in ("runtime", "driver") and r["correlation"] is not None and r["dur_ns"] is not None:
            calls.setdefault((r["pid"], r["correlation"]), r)
    begin = min(r["ts_ns"] for r in rows)
    pairs: dict[int, list[tuple[int, int]]] = {}
    for r in rows:
        call = calls.get((r["pid"], r["correlation"])) if r["kind"] in ("kernel", "memcpy", "memset") else None
        if call and call["ts_ns"] <= r["ts_ns"]:
            pairs.setdefault(r["device"], []).append((call["ts_ns"] - begin, r["ts_ns"] - begin))
    assert {each["group"].rpartition("GPU ")[2] for each in found} == {str(device) for device in pairs}
    for each in found:
        expected = queue(*map(list, zip(*pairs[int(each["group"].rpartition("GPU ")[2])], strict=True)))
        got = {int(t) * each["unit"]: v for t, v in zip(each["times"], each["values"], strict=True)}
        assert got == expected
        assert each["max"] == max(expected.values()) > 0


def test_tracks_that_a_trace_cannot_show_are_absent(tmp_path: Path) -> None:
    script = "return D.counters.map((it) => [it.label, it.unit, it.group < 0 ? '' : T.groups[it.group].label, it.max]);"
    seen = opened(page(tracekit.read(sample("nsys-sqlite/two-processes.sqlite")), tmp_path / "a.html"), script)
    labels = [(label, unit) for label, unit, *_ in seen]
    assert labels.count(("memory allocated", "bytes")) == 2
    assert ("queue", "") in labels
    only_host = opened(page(tracekit.read(sample("kineto/cpu.pt.trace.json")), tmp_path / "b.html"), script)
    assert only_host == []


def test_machines_are_the_outermost_level_where_there_are_several(tmp_path: Path) -> None:
    logs = [tmp_path / "rank0.jsonl", tmp_path / "rank1.jsonl"]
    for number, log in enumerate(logs):
        text = sample(f"recorder-log/{log.name}").read_text(encoding="utf-8")
        assert '"node7"' in text
        log.write_text(text.replace('"node7"', f'"node{7 + number}"'), encoding="utf-8")
    script = """
    const seen = () => T.items().map((it) => (it.is === "host" ? it.host : it.is));
    const out = [seen()], host = T.items().find((it) => it.is === "host");
    T.fold(host);
    out.push(seen());
    T.fold(host);
    T.select(0);
    out.push(seen(), text(".tl-card dl > div:nth-child(2) dd"));
    out.push(T.saving.svg().includes(">host node8<"));
    return out;
    """
    open_, folded, again, place, drawn = opened(page(tracekit.read(logs), tmp_path / "r.html"), script)
    first, second = open_.index("node7"), open_.index("node8")
    assert first == 0
    assert {"group", "rows"} <= set(open_[1:second])
    assert folded[: folded.index("node8")] == ["node7", *["group", "sum"] * open_[:second].count("group")]
    assert folded[folded.index("node8") :] == open_[second:]
    assert again == open_
    assert place.startswith("node7 · ")
    assert drawn
    alone = opened(page(tracekit.read(logs[:1]), tmp_path / "one.html"), "return T.items().map((it) => it.is);")
    assert "host" not in alone


PATH = """
    const buttons = [...document.querySelectorAll(".tl-tools button")];
    const button = buttons.find((each) => each.textContent === "critical path");
    const drawn = () => T.saving.svg().split("#b3123c").length - 1;
    const out = {hidden: button.hidden, before: drawn()};
    if (button.hidden) return out;
    button.click();
    while (button.ariaPressed !== "true" || !document.querySelector(".tl-path-key li")) await pause(5);
    out.after = drawn();
    out.text = text(".tl-path-key");
    out.heads = T.head.paths;
    out.pieces = (await D.paths()).map(({starts, ends, places}) => [...starts].map((t, i) => [
      t, ends[i], T.start[places[i]], D.endOf(places[i]), T.parts.kinds[D.kindAt(places[i])],
    ]));
    T.select((await D.paths())[0].places[0]);
    out.card = text(".tl-card dl");
    button.click();
    while (button.ariaPressed !== "false") await pause(5);
    out.again = drawn();
    return out;
    """


@pytest.mark.parametrize(
    "name",
    ["kineto/hta_nccl_data.json.gz", "kineto/hta_alexnet.json.gz", "nsys_sqlite/h100_2gpu_1s_2026.2.sqlite"],
)
def test_the_critical_path_is_drawn_on_its_events(name: str, tmp_path: Path) -> None:
    trace = tracekit.read(corpus(name))
    found = opened(page(trace, tmp_path / "r.html"), PATH)
    assert (found["hidden"], found["before"], found["again"]) == (False, 0, 0)
    assert found["after"] > 10
    assert "on it" not in found["card"]
    assert "critical path" in found["card"]
    table = VIEWS["critical_path"].compute(TraceIndex(trace), ViewOptions()).tables[0]
    columns = {column.name: list(column.values) for column in table.columns}
    owners = columns.get("owner", [""] * len(columns["part"]))
    times = {(owner, part): time for owner, part, time in zip(owners, columns["part"], columns["time"], strict=True)}
    unit = 1000 if all(not r["ts_ns"] % 1000 and not (r["dur_ns"] or 0) % 1000 for r in on_lanes(trace)) else 1
    for head, pieces in zip(found["heads"], found["pieces"], strict=True):
        own = {part: time for (owner, part), time in times.items() if owner == head["label"]}
        assert (head["span"], head["n"], head["left"]) == (sum(own.values()), len(pieces), 0)
        assert head["ns"] == sum(end - start for start, end, *_ in pieces) * unit
        assert f"{head['ns']:,} ns in events, {head['span']:,} ns with pauses" in found["text"]
        by_kind: Counter[str] = Counter()
        before = 0
        for start, end, first, last, kind in pieces:
            assert before <= start
            assert first <= start < end <= last
            before = end
            by_kind[kind] += (end - start) * unit
        assert by_kind["kernel"] == own["kernel"]
        assert by_kind["memcpy"] + by_kind["memset"] == own["copy"]


def test_a_page_without_a_critical_path_has_no_button_for_it(tmp_path: Path) -> None:
    trace = tracekit.read(sample("nvprof-csv/gpu-trace-22-columns.csv"))
    assert opened(page(trace, tmp_path / "r.html"), PATH) == {"hidden": True, "before": 0}
