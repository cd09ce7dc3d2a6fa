"""The timeline of a page in Chromium: what is drawn is the trace, column by column, and what hands and keys do."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from render.timeline_pages import I64, Lane, Rows, random_row, write
from support import sample
from viewers import PageResult, chromium_page, perfetto
from views.tables import trace

import tracekit
from tracekit import pipeline

pytestmark = pytest.mark.viewer

HERE = Path(__file__).parent
SPAN = 2_000_000_000
F64 = npt.NDArray[np.float64]


def opened(path: Path, script: str, **options: Any) -> Any:
    """Run a script on a page that has read all its events; the page has nothing to complain about."""
    # scripts that a page carries packed come after its load event
    begun = "while (!window.tracekit?.timeline) await new Promise((done) => setTimeout(done, 5));"
    whole = f"(async () => {{ {begun} await tracekit.timeline.ready; {HELP} {script} }})()"
    return quiet(chromium_page(path, script=whole, **options)).value


def quiet(page: PageResult) -> PageResult:
    assert (page.console, page.page_errors, page.requests, page.overflow_px) == ([], [], [], 0)
    return page


HELP = (HERE / "timeline_help.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def large() -> Rows:
    """300,000 events on 9 rows: sparse and crowded, one kind and several, host and device."""
    random = np.random.default_rng(7)
    names = [
        (f"name {i}", kind) for i, kind in enumerate(["kernel", "kernel", "memcpy", "operator", "runtime", "step"] * 5)
    ]
    every = range(len(names))
    device = Lane("stream 7", [random_row(random, 90_000, every, SPAN)], host=False, group="GPU 0")
    single = Lane("stream 8", [random_row(random, 40_000, [0], SPAN)], host=False, group="GPU 0")
    few = Lane("stream 9", [random_row(random, 12, every, SPAN)], host=False, group="GPU 0")
    nested = Lane("thread 1", [random_row(random, n, every, SPAN) for n in (200, 3000, 40_000, 60_000)])
    far = Lane("thread 2", [random_row(random, n, every, SPAN // 3) for n in (65_536, 1200)])
    return Rows([device, single, few, nested, far], names)


WINDOWS = (HERE / "timeline_windows.js").read_text(encoding="utf-8")


def unpacked(text: str, kind: type) -> npt.NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), kind)


def differences(made: Rows, seen: dict[str, Any]) -> dict[str, int]:
    """Return how many columns differ from the trace, by what differs; `columns` and `crowded` count those compared."""
    kinds = sorted({kind for _, kind in made.names})
    return differing(made.columns(), np.array([kinds.index(kind) for _, kind in made.names]), len(kinds), seen)


def differing(
    columns: tuple[I64, I64, I64, I64], kind_of: npt.NDArray[Any], kinds: int, seen: dict[str, Any]
) -> dict[str, int]:
    """columns: starts, lengths and name codes of all places, and the first place of each row with the end."""
    starts_, lengths_, codes_, first = columns
    shades = np.array(seen["shades"], np.uint32)
    off = dict.fromkeys(("columns", "crowded", "share", "count", "kind", "empty", "height", "colour"), 0)
    for window in seen["windows"]:
        edges: F64 = window["t0"] + np.arange(window["w"] + 1) * window["per"]
        left, right = edges[:-1], edges[1:]
        for row in window["rows"]:
            s = slice(first[row["r"]], first[row["r"] + 1])
            starts, ends, kind = starts_[s], starts_[s] + lengths_[s], kind_of[codes_[s]]
            share = np.diff(worked(starts, ends, edges)) / window["per"]
            i = np.minimum(np.searchsorted(ends, left, "right"), np.searchsorted(starts, left, "left"))
            count = np.searchsorted(starts, right, "left") - i
            got = unpacked(row["count"], np.int32)
            has = got > 0
            drawn = np.where(has, unpacked(row["share"], np.float64), 0)
            got_kind = unpacked(row["kind"], np.uint8)
            off["columns"] += share.size
            off["share"] += int((np.abs(share - drawn) * window["per"] > 1e-2).sum())
            off["count"] += int((got != count).sum())
            most = np.zeros((kinds, share.size))
            for k in range(kinds):
                most[k] = np.diff(worked(starts[kind == k], ends[kind == k], edges))
            some = has & (most.max(0) > 0)
            off["kind"] += int((most[got_kind, np.arange(share.size)][some] < most.max(0)[some] - 1e-2).sum())
            # the picture itself
            low, high, tall = (
                unpacked(row["low"], np.uint32),
                unpacked(row["high"], np.uint32),
                unpacked(row["tall"], np.int32),
            )
            off["empty"] += int(((low == seen["ground"]) != (count == 0)).sum())
            crowd = count > 1
            off["crowded"] += int(crowd.sum())
            full = row["h"] - 1
            up = np.maximum(2, np.floor(np.minimum(1, drawn) * full + 0.5)).astype(int)
            off["height"] += int((tall[crowd] != up[crowd]).sum())
            off["colour"] += int((low[crowd] != shades[got_kind[crowd], 0, 16]).sum())
            below = crowd & (up < full)
            off["colour"] += int((high[below] != shades[got_kind[below], 0, 3]).sum())
            alone = count == 1
            off["height"] += int((tall[alone] != full).sum())
    return off


def worked(starts: I64, ends: I64, edges: F64) -> F64:
    """Return the work before each edge: the running total as a line through all begins and ends."""
    if not starts.size:
        return np.zeros(edges.size)
    total = np.r_[0, np.cumsum(ends - starts)]
    return np.interp(edges, np.stack([starts, ends], 1).ravel(), np.stack([total[:-1], total[1:]], 1).ravel())


def test_each_pixel_column_of_50_windows_is_what_the_trace_says(large: Rows, tmp_path: Path) -> None:
    off = differences(large, opened(write(large, tmp_path / "p.html"), WINDOWS))
    assert off.pop("columns") > 60_000
    assert off.pop("crowded") > 5000
    assert off == dict.fromkeys(off, 0)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("- over - under) / per", "- under) / per", {"share"}),
        ("count[c] = j - i;", "count[c] = j - i - 1;", {"count"}),
        ("if (work[k] > 0 && work[k] >= work[best]) best = k;", "", {"kind"}),
        ("if (!n[c]) continue;", "if (n[c] !== 1) continue;", {"empty", "height", "colour"}),
    ],
)
def test_a_fault_in_the_picture_is_noticed(
    large: Rows, tmp_path: Path, before: str, after: str, what: set[str]
) -> None:
    off = differences(large, opened(write(large, tmp_path / "p.html", {before: after}), WINDOWS))
    assert what <= {word for word, n in off.items() if n}


def test_each_event_can_be_reached_by_zooming(large: Rows, tmp_path: Path) -> None:
    script = """
    let missed = 0;
    for (let k = 0; k < 300; k++) {
      const i = Math.floor(k * 997.3 * 37) % T.head.n, r = D.rowOf(i), wide = Math.max(D.length(r, i), 1);
      T.show(T.start[i] - wide * .2, T.start[i] + wide * 1.2);
      const {count, event} = D.scan(r, T.view.t0, (T.view.t1 - T.view.t0) / 1000, 1000);
      let alone = false;
      for (let c = 0; c < 1000; c++) alone ||= count[c] === 1 && event[c] === i;
      // events without length can share their ns with others: no zoom takes them apart
      if (!alone && D.length(r, i) > 0) missed++;
    }
    return missed;
    """
    assert opened(write(large, tmp_path / "p.html"), script) == 0


@pytest.fixture(scope="module")
def small() -> Rows:
    """One step of a training loop: ranges, Python frames, operators and calls of a thread, two streams, a counter."""

    def row(*events: tuple[int, int, int]) -> tuple[I64, I64, I64]:
        starts, lengths, codes = np.array(events, np.int64).T
        return starts, lengths, codes

    names = [
        ("ProfilerStep#1", "step"),
        ("train.py(12): step", "python_op"),
        ("aten::linear", "operator"),
        ("cudaLaunchKernel", "runtime"),
        ("void gemm<float, 128>(float*)", "kernel"),
        ("Memcpy HtoD", "memcpy"),
        ("aten::add", "operator"),
    ]
    host = Lane(
        "thread 5",
        [
            row((0, 1000, 0), (1000, 1000, 0)),
            row((10, 900, 1), (1010, 900, 1)),
            row((20, 800, 1), (1020, 800, 1)),
            row((100, 300, 2), (500, 100, 6), (1100, 300, 2)),
            row((150, 20, 3), (1150, 20, 3)),
        ],
        layers=[("ranges", 1), ("python", 2), ("operators", 1), ("calls", 1)],
        group="host 1 \u00b7 process 7",
    )
    streams = [
        Lane("stream 7", [row((300, 400, 4), (1300, 400, 4))], host=False, group="GPU 0"),
        Lane("stream 8", [row((500, 300, 5), (1900, 0, 5))], host=False, group="GPU 0"),
    ]
    # places: 0 and 1 steps, 2 to 5 Python, 6 to 8 operators, 9 and 10 calls, 11 and 12 kernels, 13 and 14 copies
    return Rows(
        [host, *streams],
        names,
        links={11: 9, 12: 10},
        flows=[(6, 8)],
        args={"bytes": [(13, 4096), (14, -1)], "Input Dims": [(6, "[[2, 3]]"), (8, "[[4]]")]},
        counters={"queue": (np.array([100, 1500]), np.array([3, 9]))},
        head={"steps": [[0, 1000, "ProfilerStep#1"], [1000, 1000, "ProfilerStep#2"]]},
    )


def test_a_search_counts_lists_and_walks_its_hits_in_order_of_time(small: Rows, tmp_path: Path) -> None:
    script = """
    const box = document.querySelector(".tl-find input");
    const ask = async (words) => {
      box.value = words;
      box.dispatchEvent(new Event("input"));
      await pause(30);
      return text("#tl-hits");
    };
    key("/");
    const out = {focus: document.activeElement === box, hits: await ask("^aten::")};
    out.list = [...document.querySelectorAll(".tl-list li span")].map((each) => each.textContent);
    box.blur();
    out.walked = [1, 2, 3, 4].map(() => { key("n"); return T.selected; });
    key("p");
    out.back = T.selected;
    out.bad = await ask("gemm<(");
    out.invalid = box.getAttribute("aria-invalid");
    out.none = await ask("nothing like that");
    out.cleared = [await ask(""), T.marked];
    return out;
    """
    found = opened(write(small, tmp_path / "p.html"), script)
    assert found["focus"]
    assert found["hits"] == "3 hits in 2 names"
    assert found["list"] == ["aten::linear", "aten::add"]
    assert found["walked"] == [6, 7, 8, 6]
    assert found["back"] == 8
    assert found["bad"].startswith("This is not a valid regular expression: ")
    assert found["invalid"] == "true"
    assert found["none"] == "0 hits in 0 names"
    assert found["cleared"] == ["", None]


def test_measuring_says_busy_time_idle_time_and_top_names(small: Rows, tmp_path: Path) -> None:
    script = """
    const heard = [];
    tracekit.on("window", (detail) => heard.push(detail));
    T.measure(400, 1400);
    await pause(400);
    const {start, end, busy, total, names} = T.statistics;
    return {start, end, busy, total, names, text: text(".tl-dock section:last-child"), heard, hash: location.hash};
    """
    found = opened(write(small, tmp_path / "p.html"), script)
    # kernels 400 to 700 and 1300 to 1400, copies 500 to 800: together 400 to 800 and 1300 to 1400
    assert found["busy"] == [[1, 500]]
    assert found["total"] == 3
    assert found["names"] == [["void gemm<float, 128>(float*)", 2, 400], ["Memcpy HtoD", 1, 300]]
    assert "1,000 ns" in found["text"]
    assert "busy 50.0 %, idle 50.0 %; 3 events" in found["text"]
    assert found["heard"] == [{"start": 400, "end": 1400, "from": "timeline"}]
    assert "m=400ns-1.4us" in found["hash"]


def test_idle_time_is_not_known_where_events_are_not_in_the_page(small: Rows, tmp_path: Path) -> None:
    rows = sum(len(lane.rows) for lane in small.lanes)
    missing = [{"rows": [0, rows], "start": 700, "end": 900, "count": 1, "busy": 50}]
    made = Rows(small.lanes, small.names, head={"missing": missing, "budget": "--page-events takes more."})
    script = 'T.measure(400, 1400); await pause(400); return text(".tl-dock section:last-child");'
    said = opened(write(made, tmp_path / "p.html"), script)
    assert "busy at least 50.0 %; 3 events in this page" in said
    assert "Idle time is not known: events of 50 ns" in said
    assert "idle 50" not in said


def test_a_measured_window_equals_the_union_of_many_rows(large: Rows, tmp_path: Path) -> None:
    found = opened(write(large, tmp_path / "p.html"), "T.measure(3e8, 9e8); await pause(1500); return T.statistics;")
    starts, lengths, codes, first = large.columns()
    s = slice(0, int(first[3]))
    a, b = np.clip(starts[s], 3e8, 9e8), np.clip(starts[s] + lengths[s], 3e8, 9e8)
    order = np.argsort(a)
    reach = np.maximum.accumulate(np.r_[0, b[order]])
    busy = np.maximum(0, b[order] - np.maximum(a[order], reach[:-1])).sum()
    assert found["busy"] == [[0, busy]]
    work = np.bincount(codes[s], weights=b - a, minlength=len(large.names))
    top = int(np.argmax(work))
    assert found["names"][0][::2] == [large.names[top][0], work[top]]


def test_layers_fold_and_steps_stay(small: Rows, tmp_path: Path) -> None:
    script = """
    const seen = () => T.items().filter((it) => it.is === "rows").map((it) => [it.word, it.rows]);
    const out = [seen()];
    T.foldLayer("python");
    out.push(seen());
    T.reveal(4); // a frame of the second row: its layer unfolds
    out.push(seen());
    const group = T.items().find((it) => it.is === "group" && it.group === 0);
    T.fold(group);
    out.push(T.items().map((it) => it.is));
    return out;
    """
    streams = [["", 1], ["", 1]]
    calls = [["operators", 1], ["calls", 1]]
    open_, folded, revealed, group = opened(write(small, tmp_path / "p.html"), script)
    assert open_ == [["ranges", 1], ["python", 2], *calls, *streams]
    assert folded == [["ranges", 1], ["python", 1], *calls, *streams]
    assert revealed == open_
    assert group == ["group", "sum", "group", "rows", "rows", "group", "counter"]


def test_keys_move_zoom_fit_measure_and_select(small: Rows, tmp_path: Path) -> None:
    script = """
    matchMedia("(prefers-reduced-motion: reduce)");
    const out = {}, view = () => [T.view.t0, T.view.t1];
    const scroll = document.querySelector(".tl-scroll");
    key("w"); out.w = view();
    key("d"); out.d = view();
    key("a"); key("s"); await pause(50); out.s = view();
    scroll.focus();
    T.select(11);
    key("f", scroll); await pause(500); out.f = view();
    key("m", scroll); out.m = T.measured;
    key("Escape", scroll); out.escape = [T.measured, T.selected];
    key("ArrowRight", scroll); out.right = T.selected;
    key("ArrowLeft", scroll); out.left = T.selected;
    key("ArrowDown", scroll); out.down = T.selected;
    key("ArrowUp", scroll); out.up = T.selected;
    await pause(300);
    out.spoken = text("[aria-live]");
    const modified = new KeyboardEvent("keydown", {key: "w", ctrlKey: true, bubbles: true});
    const before = view(); document.body.dispatchEvent(modified); out.ctrl = String(before) === String(view());
    return out;
    """
    found = opened(write(small, tmp_path / "p.html"), script)
    assert found["w"] == pytest.approx([300, 1700])
    assert found["d"] == pytest.approx([580, 1980])
    assert found["s"] == pytest.approx([0, 2000])
    assert found["f"] == pytest.approx([220, 780])
    assert found["m"] == {"start": 300, "end": 700}
    assert found["escape"] == [None, 11]
    assert (found["right"], found["left"], found["down"], found["up"]) == (12, 11, 13, 11)
    assert (
        found["spoken"]
        == "void gemm<float, 128>(float*), kernel, GPU 0 \u00b7 stream 7, starts at 300 ns, takes 400 ns"
    )
    assert found["ctrl"]


def test_a_mouse_zooms_moves_measures_and_selects(small: Rows, tmp_path: Path) -> None:
    script = """
    const top = document.querySelector(".tl-top"), box = top.getBoundingClientRect(), out = {};
    const {W, LEFT} = T.parts.size();
    const at = (t) => box.left + LEFT + (t - T.view.t0) / (T.view.t1 - T.view.t0) * (W - LEFT);
    const y = box.top + T.items().find((it) => it.is === "rows" && T.lanes[it.lane].label === "stream 7").y + 8;
    const mouse = {clientY: y, pointerId: 1, button: 0, pointerType: "mouse", bubbles: true};
    const point = (type, x, more = {}) => top.dispatchEvent(new PointerEvent(type, {clientX: x, ...mouse, ...more}));
    top.setPointerCapture = () => {};
    const picked = [];
    tracekit.on("pick", (detail) => picked.push(detail));
    point("pointermove", at(500)); out.tip = text(".tl-tip");
    point("pointerdown", at(500)); point("pointerup", at(500));
    out.selected = T.selected; out.picked = picked; out.detail = text(".tl-card"); out.partners = D.partners(11);
    const wheel = {clientX: at(500), clientY: y, deltaY: -60, ctrlKey: true, cancelable: true, bubbles: true};
    top.dispatchEvent(new WheelEvent("wheel", wheel));
    out.zoomed = [T.view.t1 - T.view.t0, at(500)];
    T.show(500, 1500);
    const from = at(1000);
    point("pointerdown", from);
    point("pointermove", from + (W - LEFT) / 10);
    point("pointerup", from + (W - LEFT) / 10);
    out.dragged = [T.view.t0, T.view.t1];
    point("pointerdown", at(600), {shiftKey: true});
    point("pointermove", at(900), {shiftKey: true});
    point("pointerup", at(900));
    out.measured = T.measured;
    return out;
    """
    found = opened(write(small, tmp_path / "p.html"), script)
    name = "void gemm<float, 128>(float*)"
    assert found["tip"] == f"{name}kernel \u00b7 400 ns \u00b7 at 300 ns"
    assert found["selected"] == 11
    lane = "GPU 0 \u00b7 stream 7"
    expected = {
        "name": name,
        "kind": "kernel",
        "place": 11,
        "start": 300,
        "length": 400,
        "lane": lane,
        "from": "timeline",
    }
    assert found["picked"] == [expected]
    assert "launched by cudaLaunchKernel, 150 ns before" in found["detail"]
    assert found["partners"] == [[9, "launched"]]
    assert found["zoomed"][0] == pytest.approx(2000 * np.exp(-0.27))
    assert found["dragged"] == pytest.approx([400, 1400])
    assert [found["measured"]["start"], found["measured"]["end"]] == pytest.approx([600, 900])


def test_arrows_lead_to_launches_and_flows_and_args_to_their_values(small: Rows, tmp_path: Path) -> None:
    script = """
    const out = {ways: [D.partners(9), D.partners(6), D.partners(8)], args: []};
    for (const place of [6, 8, 13, 14, 0]) out.args.push(await D.argsOf(place));
    T.select(13);
    await pause(200);
    out.shown = text(".tl-args-box");
    return out;
    """
    found = opened(write(small, tmp_path / "p.html"), script)
    assert found["ways"] == [[[11, "launch"]], [[8, "to"]], [[6, "from"]]]
    dims = "Input Dims"
    assert found["args"] == [
        [[dims, "[[2, 3]]", ""]],
        [[dims, "[[4]]", ""]],
        [["bytes", 4096, ""]],
        [["bytes", -1, ""]],
        [],
    ]
    assert found["shown"] == "bytes4,096"


def test_other_parts_of_the_page_mark_show_and_ask(small: Rows, tmp_path: Path) -> None:
    script = """
    const out = {};
    tracekit.emit("mark", {names: ["aten::add", "Memcpy HtoD"], kinds: ["memcpy"], from: "tables"});
    out.marked = T.marked.total;
    tracekit.emit("goto", {start: 100, end: 500, places: [6, 9], from: "tables"});
    await pause(500);
    out.goto = [T.view.t0, T.view.t1, T.marked.total, T.selected];
    tracekit.emit("window", {start: 200, end: 300, from: "flame"});
    out.window = T.measured;
    const found = await new Promise((reply) => tracekit.emit("events", {names: ["Memcpy HtoD"], kinds: null, reply}));
    out.events = [[...found.start], [...found.length], found.missing];
    return out;
    """
    found = opened(write(small, tmp_path / "p.html"), script)
    assert found["marked"] == 2
    assert found["goto"] == pytest.approx([68, 532, 2, 6])
    assert found["window"] == {"start": 200, "end": 300}
    assert found["events"] == [[500, 1900], [300, 0], 0]


def test_a_link_shows_its_window_and_follows_the_view(small: Rows, tmp_path: Path) -> None:
    script = """
    location.hash = "view=kernel&t=0.5us-1.25us&m=600ns-900ns&e=11";
    await pause(100);
    const out = {view: [T.view.t0, T.view.t1], measured: T.measured, selected: T.selected};
    T.show(250, 750);
    await pause(400);
    out.hash = location.hash;
    tracekit.link.set("t", "nonsense");
    await pause(50);
    out.whole = [T.view.t0, T.view.t1];
    return out;
    """
    found = opened(write(small, tmp_path / "p.html"), script)
    assert found["view"] == [500, 1250]
    assert found["measured"] == {"start": 600, "end": 900}
    assert found["selected"] == 11
    assert "view=kernel" in found["hash"]
    assert "t=250ns-750ns" in found["hash"]
    assert found["whole"] == [0, 2000]


def saved(path: Path, make: str, target: Path, window: str = "0, T.head.span") -> Path:
    script = f"""
    const {{blob}} = await T.saving.{make}({window});
    const bytes = new Uint8Array(await blob.arrayBuffer());
    let out = "";
    for (let i = 0; i < bytes.length; i += 8192) out += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(out);
    """
    target.write_bytes(base64.b64decode(opened(path, script)))
    return target


def test_a_saved_chrome_trace_is_read_back_exactly(small: Rows, tmp_path: Path) -> None:
    trace = tracekit.read(saved(write(small, tmp_path / "p.html"), "chromeTrace", tmp_path / "w.json"))
    starts, lengths, codes, _ = small.columns()
    expected = sorted(
        (1_000_000 + int(s), int(d), *small.names[c]) for s, d, c in zip(starts, lengths, codes, strict=True)
    )
    every = trace.events.to_pylist()
    rows = [r for r in every if r["kind"] != "flow"]
    assert [(r["ts_ns"], r["name"]) for r in every if r["kind"] == "flow"] == [(1_000_100, "flow"), (1_001_100, "flow")]
    assert sorted((r["ts_ns"], r["dur_ns"], r["name"], r["kind"]) for r in rows) == expected
    assert {r["bytes"] for r in rows if r["kind"] == "memcpy"} == {4096, -1}
    assert not any(ledger.dropped for ledger in trace.ledgers)


def test_a_saved_window_holds_the_events_that_touch_it_whole(small: Rows, tmp_path: Path) -> None:
    trace = tracekit.read(saved(write(small, tmp_path / "p.html"), "chromeTrace", tmp_path / "w.json", "450, 460"))
    found = sorted((r["ts_ns"] - 1_000_000, r["dur_ns"], r["name"]) for r in trace.events.to_pylist())
    assert found == [
        (0, 1000, "ProfilerStep#1"),
        (10, 900, "train.py(12): step"),
        (20, 800, "train.py(12): step"),
        (300, 400, "void gemm<float, 128>(float*)"),
    ]


def test_a_saved_perfetto_trace_has_the_slices_in_their_nesting(small: Rows, tmp_path: Path) -> None:
    target = saved(write(small, tmp_path / "p.html"), "perfettoTrace", tmp_path / "w.pftrace")
    seen = perfetto(target, ["select ts, dur, name, category, depth from slice", "select count(*) as n from flow"])
    assert seen["accepted"], seen["refusal"]
    assert seen["errors"] == {}
    starts, lengths, codes, _ = small.columns()
    expected = sorted(
        (1_000_000 + int(s), int(d), *small.names[c]) for s, d, c in zip(starts, lengths, codes, strict=True)
    )
    assert sorted((row["ts"], row["dur"], row["name"], row["category"]) for row in seen["sql"][0]) == expected
    assert {row["name"]: row["depth"] for row in seen["sql"][0]}["cudaLaunchKernel"] == 4
    assert seen["sql"][1] == [{"n": 3}]  # two launches, and an arrow of the input


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>window.bad = 1</script>",
    '"><svg onload=window.bad=1>',
    "javascript:alert(1)",
    "\u202eexe.txt",
    "__proto__",
    "constructor",
    "a\u0007b",
    "&lt;b&gt; ]]> --> ${window.bad=1} {{7*7}}",
    "../../etc/passwd\r\nX: y",
    "n" * 20_000,
]


def test_hostile_names_run_nothing_and_stay_as_they_are(tmp_path: Path) -> None:
    n = len(HOSTILE)
    every = np.arange(n, dtype=np.int64)
    lane = Lane("<b onclick=alert(1)>lane", [(every * 100, np.full(n, 90), every)], host=False, group="</title><i>GPU")
    made = Rows([lane], [(name, "kernel") for name in HOSTILE], args={HOSTILE[0]: [(0, HOSTILE[1])]})
    made.head = {
        "title": HOSTILE[1],
        "steps": [[0, 500, HOSTILE[0]]],
        "marks": [{"title": HOSTILE[0], "view": "findings", "row": 1, "places": [0], "start": 0, "end": 50}],
    }
    script = """
    const made = () => document.querySelectorAll("#tl img, #tl svg, #tl b[onclick], #tl i[onclick]").length;
    const out = {names: [], elements: made()};
    const svg = T.saving.svg(), parsed = new DOMParser().parseFromString(svg, "image/svg+xml");
    const acts = (each) => [...each.attributes].some((it) => it.name.startsWith("on"));
    out.svg = [
      parsed.querySelectorAll("parsererror, script, img, foreignObject").length,
      parsed.querySelectorAll("text").length > 5,
      [...parsed.querySelectorAll("*")].filter(acts).length,
    ];
    for (let i = 0; i < T.head.n; i++) { T.select(i); await pause(10); out.names.push(text(".tl-name")); }
    T.search("."); await pause(20);
    const marks = document.querySelector(".tl-menu button"); marks.click();
    await pause(300);
    const json = JSON.parse(await (await T.saving.chromeTrace(0, T.head.span)).blob.text());
    out.saved = json.traceEvents.filter((each) => each.ph === "X").map((each) => each.name);
    out.bad = window.bad ?? null;
    out.elements += made();
    return out;
    """
    found = opened(write(made, tmp_path / "p.html"), script)
    assert found["names"] == HOSTILE
    assert found["saved"] == HOSTILE
    assert found["svg"] == [0, True, 0]
    assert found["elements"] == 0
    assert found["bad"] is None


def test_a_picture_is_saved_as_png_and_svg(small: Rows, tmp_path: Path) -> None:
    script = """
    const blob = await T.saving.png();
    const shown = await createImageBitmap(blob);
    const {W, H, strip, over} = T.parts.size();
    return [blob.type, shown.width === W, shown.height === H + strip + over, T.saving.svg()];
    """
    kind, wide, tall, svg = opened(write(small, tmp_path / "p.html"), script, width=1700)
    assert (kind, wide, tall) == ("image/png", True, True)
    assert "ProfilerStep#1" in svg
    assert "void gemm&lt;float, 128&gt;(float*)" in svg


def test_a_name_without_room_loses_its_namespaces_before_its_own_name(tmp_path: Path) -> None:
    name = "void at::native::(anonymous namespace)::reduce_kernel<at::native::ReduceOp<float, c10::Half>, 4>(int, int)"
    starts = np.array([0, 1000])
    lane = Lane("stream 9", [(starts, np.array([800, 100]), np.zeros(2, np.int64))])
    rows = Rows([lane], [(name, "kernel")])
    script = "return [T.saving.svg(), document.querySelector('#tl').innerText];"
    svg, shown = opened(write(rows, tmp_path / "p.html"), script, width=1700)
    assert "void at::native" in svg, "the long one has room for all"
    assert ">reduce_ke" in svg
    assert "reduce_kernel<ReduceOp<float, Half>, 4>(int, int)" in shown


def test_a_window_says_how_many_of_its_events_are_not_in_the_page(small: Rows, tmp_path: Path) -> None:
    missing = [
        {"rows": [3, 4], "start": 700, "end": 900, "count": 1234, "busy": 50},
        {"rows": [5, 7], "start": 1800, "end": 1900, "count": 7, "busy": 1},
    ]
    made = Rows(small.lanes, small.names, head={"missing": missing, "budget": "--page-events takes more."})
    script = """
    const out = [], said = async (a, b) => {
      T.show(a, b);
      await pause(350);
      const box = document.querySelector(".tl-absent");
      return box.hidden ? "" : box.textContent;
    };
    for (const [a, b] of [[0, 2000], [0, 500], [800, 1200]]) out.push(await said(a, b));
    return out;
    """
    whole, before, part = opened(write(made, tmp_path / "p.html"), script)
    assert whole == "1,241 events of this window are not in this page (hatched). --page-events takes more."
    assert before == ""
    assert part.startswith("Up to 1,234 events of this window")


def test_the_timeline_works_in_a_sandboxed_frame(small: Rows, tmp_path: Path) -> None:
    more = """
    (async () => {
      while (!tracekit.timeline) await new Promise((done) => setTimeout(done, 5));
      const t = tracekit.timeline;
      await t.ready;
      t.paint();
      t.search("aten");
      t.select(3);
      parent.postMessage([t.head.n, t.marked.total, t.stats.rectangles > 5], "*");
    })();
    """
    inner = write(small, tmp_path / "inner.html", more=more).read_text(encoding="utf-8")
    outer = tmp_path / "outer.html"
    quoted = inner.replace("&", "&amp;").replace('"', "&quot;")
    outer.write_text(
        "<!doctype html><title>x</title><script>window.heard = new Promise((done) => "
        "addEventListener('message', (event) => done(event.data)));</script>"
        f'<iframe sandbox="allow-scripts" width="900" height="700" srcdoc="{quoted}"></iframe>',
        encoding="utf-8",
    )
    assert quiet(chromium_page(outer, script="window.heard")).value == [15, 3, True]


@pytest.mark.parametrize("width", [1300, 420])
def test_the_page_fits_its_window(small: Rows, width: int, tmp_path: Path) -> None:
    script = (
        "T.select(11); T.measure(0, 900); T.search('a'); await pause(400); return document.documentElement.scrollWidth;"
    )
    assert opened(write(small, tmp_path / "p.html"), script, width=width) == width


def test_a_report_of_a_real_profile_has_all_its_events(tmp_path: Path) -> None:
    trace = tracekit.read(sample("kineto/gpu.pt.trace.json"))
    tracekit.write_report(trace, tmp_path / "r.html")
    script = """
    const out = [], {begin, unit} = T.head;
    for (let i = 0; i < T.head.n; i++) {
      const start = BigInt(begin) + BigInt(T.start[i]) * BigInt(unit);
      out.push([String(start), T.length(i) * unit, T.parts.kinds[D.kindAt(i)]]);
    }
    return [out, T.parts.names.length];
    """
    found, names = opened(tmp_path / "r.html", script)
    rows = [r for r in trace.events.to_pylist() if r["kind"] not in ("counter", "flow")]
    assert sorted((int(start), length, kind) for start, length, kind in found) == sorted(
        (r["ts_ns"], r["dur_ns"] or 0, r["kind"]) for r in rows
    )
    assert names >= len({r["name"] for r in rows})


def test_an_event_without_length_at_the_very_end_is_drawn_and_saved(tmp_path: Path) -> None:
    row = tuple(np.array(column, np.int64) for column in ((0, 1000), (900, 0), (0, 1)))
    made = Rows([Lane("thread 1", [(row[0], row[1], row[2])])], [("work", "operator"), ("mark", "operator")])
    script = """
    T.paint();
    const {width, left} = T.picture(), w = width - left;
    const {count} = D.scan(0, T.view.t0, (T.view.t1 - T.view.t0) / w, w);
    const {events} = await T.saving.chromeTrace(T.view.t0, T.view.t1);
    return [Math.max(...count.slice(w - 3, w)), events];
    """
    assert opened(write(made, tmp_path / "p.html"), script) == [1, 2]


def test_shares_of_names_that_run_several_times_at_once_are_of_the_window(tmp_path: Path) -> None:
    """Forty rows with the same kernel: 40 times the window in sum, and never more than all of it."""
    row = (np.array([0, 600]), np.array([400, 400]), np.array([0, 1]))
    lanes = [Lane(f"stream {i}", [row], host=False, group=f"GPU {i % 2}") for i in range(40)]
    made = Rows(lanes, [("gemm", "kernel"), ("relu", "kernel")])
    script = """
    await pause(500);
    const cells = [...document.querySelectorAll(".tl-dock td:last-child, .tl-bars b")].map((each) => each.textContent);
    const whole = [T.statistics.shares, cells, text(".tl-dock section:last-child")];
    T.measure(100, 300);
    await pause(500);
    return [...whole, T.statistics.shares];
    """
    shares, cells, said, part = opened(write(made, tmp_path / "p.html"), script)
    assert shares == [0.4, 0.4]
    assert part == [1]
    assert "Shares are of the window on 2 devices." in said
    assert sorted(cells) == ["40.0 %", "40.0 %", "80.0 %", "80.0 %"]


def test_no_figure_is_shown_while_events_are_read_and_none_is_nan(large: Rows, tmp_path: Path) -> None:
    script = """
    return window.said;
    """
    watch = "const face = window.tracekit.timeline = {};"
    seen = f"""{watch} window.said = []; const listen = () => {{
      const card = document.querySelector(".tl-dock"); if (card) window.said.push(card.textContent);
      if (window.said.length < 400) setTimeout(listen, 1); }}; listen();"""
    said = opened(write(large, tmp_path / "p.html", {watch: seen}), "await pause(900);" + script)
    assert said
    assert not [text for text in said if "NaN" in text or "undefined" in text or "No lane" in text]


def test_a_counter_without_a_value_is_not_known(tmp_path: Path) -> None:
    row = (np.array([0]), np.array([1000]), np.array([0]))
    made = Rows(
        [Lane("stream 7", [row], host=False)], [("gemm", "kernel")], counters={"q": (np.array([0]), np.array([1]))}
    )
    script = """
    const counter = T.items().find((it) => it.is === "counter");
    counter.counter.values[0] = NaN;
    const box = T.parts.canvases.top.getBoundingClientRect();
    const at = {clientX: box.left + 400, clientY: box.top + counter.y + 5};
    T.parts.canvases.top.dispatchEvent(new PointerEvent("pointermove", at));
    return text(".tl-tip");
    """
    assert opened(write(made, tmp_path / "p.html"), script).startswith("not known")


def test_the_tooltip_follows_keys_that_zoom_and_move(small: Rows, tmp_path: Path) -> None:
    script = """
    const top = T.parts.canvases.top, box = top.getBoundingClientRect();
    const it = T.items().find((each) => each.is === "rows" && each.row === T.lanes[1].row);
    const { LEFT, W } = T.parts.size(), at = (t) => LEFT + (t - T.view.t0) / (T.view.t1 - T.view.t0) * (W - LEFT);
    const x = at(320);
    top.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + x, clientY: box.top + it.y + 5}));
    const tip = () => (document.querySelector(".tl-tip").hidden ? "" : text(".tl-tip"));
    const out = [tip()];
    key("w"); await frame();
    out.push(tip(), Math.abs(at(320) - x) < 2);
    T.show(750, 1250); await frame();
    out.push(tip());
    T.show(1200, 1500); await frame();
    out.push(tip());
    return out;
    """
    before, zoomed, stays, gap, _ = opened(write(small, tmp_path / "p.html"), script)
    assert "gemm" in before
    assert "at 300 ns" in before
    assert zoomed == before
    assert stays
    assert gap == ""


@pytest.mark.parametrize("name", ["", "  ", "\u3000", "\u2800", "\u200d", "\u3164"])
def test_a_blank_name_has_a_placeholder_everywhere(name: str, tmp_path: Path) -> None:
    rows = [
        {"ts_ns": 1000 * i, "dur_ns": 700, "kind": "kernel", "name": name, "device": 0, "stream": 7} for i in range(9)
    ]
    rows += [
        {"ts_ns": 1000 * i, "dur_ns": 900, "kind": "operator", "name": "aten::mm", "tid": 1, "pid": 1} for i in range(9)
    ]
    path = tmp_path / "p.html"
    path.write_text(pipeline.render(pipeline.report(trace(*rows)), "html"), encoding="utf-8")
    script = """
    await pause(700);
    T.select(0);
    const cells = "#kernel tbody th, .tl-dock td:first-child";
    const names = [...document.querySelectorAll(cells)];
    document.querySelector("#kernel tbody th").click();
    await pause(100);
    return [names.map((each) => each.textContent), T.parts.names, T.marked.total];
    """
    cells, names, marked = opened(path, script)
    assert cells == ["(blank name)" if name else "(no name)"] * 2
    assert sorted(names) == sorted([cells[0], "aten::mm"])
    assert marked == 9
