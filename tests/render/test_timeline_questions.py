"""What a person asks of a timeline, answered by clicks and keys alone; and where things are in the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from render.test_timeline_page import opened
from render.timeline_pages import Lane, Rows, write
from viewers import one_browser

pytestmark = pytest.mark.viewer

HANDS = """
const scroll = document.querySelector(".tl-scroll"), top_ = document.querySelector(".tl-top");
const still = async () => { await pause(450); };
/** Where the middle of an event is on the screen. */
const spot = (i) => {
  const box = top_.getBoundingClientRect(), { W, LEFT } = T.parts.size(), row = D.rowOf(i);
  const it = T.items().find((each) => each.is === "rows" && row >= each.row && row < each.row + each.of);
  const y = it.y + (row - it.row) * it.each + it.each / 2 - (it.pin ? 0 : scroll.scrollTop);
  const t = (T.start[i] + T.end(i)) / 2;
  return [box.left + LEFT + (t - T.view.t0) / (T.view.t1 - T.view.t0) * (W - LEFT), box.top + y];
};
const point = (kind, [x, y], more = {}) => top_.dispatchEvent(new PointerEvent(kind, {
  clientX: x, clientY: y, pointerId: 1, button: 0, pointerType: "mouse", bubbles: true, ...more }));
const click = async (at, more) => {
  for (const kind of ["pointermove", "pointerdown", "pointerup"]) point(kind, at, more);
  await frame();
};
const at = (x, y) => { const box = top_.getBoundingClientRect(); return [box.left + x, box.top + y]; };
const type = async (words) => {
  const box = document.querySelector(".tl-find input");
  box.value = words;
  box.dispatchEvent(new Event("input"));
  await still();
};
const buttons = (query) => [...document.querySelectorAll(`${query} button`)];
const press = async (label, query = ".tl-dock") => {
  buttons(query).find((each) => each.textContent.startsWith(label)).click();
  await still();
};
const detail = () => text(".tl-dock section");
const measuredText = () => text(".tl-dock section:last-child");
"""


@pytest.fixture(scope="module", autouse=True)
def _browser() -> Iterator[None]:
    with one_browser():
        yield


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


GEMM, COPY, STEP, LOAD, READ, LAUNCH, SYNC = range(7)
NAMES = [
    ("gemm", "kernel"), ("Memcpy HtoD", "memcpy"), ("step", "step"), ("DataLoader", "operator"), ("read", "operator"),
    ("cudaLaunchKernel", "runtime"), ("cudaDeviceSynchronize", "runtime"),
]  # fmt: skip


def trace(**changes: Any) -> Rows:
    """Three gemms and two copies of one stream; between 1200 and 5000 the device waits for a file that is read."""
    device = Lane(
        "stream 7",
        [(ints(100, 300, 700, 5000, 6000), ints(100, 250, 500, 900, 50), ints(GEMM, COPY, GEMM, GEMM, COPY))],
        host=False,
        group="GPU 0",
    )
    host = Lane(
        "thread 1",
        [
            (ints(0, 5200), ints(5100, 1500), ints(STEP, STEP)),
            (ints(1100, 5300), ints(3700, 60), ints(LOAD, LAUNCH)),
            (ints(1500, 4200), ints(2500, 500), ints(READ, READ)),
        ],
    )
    other = Lane("thread 2", [(ints(1300), ints(400), ints(SYNC))])
    args = {"correlation": [(0, 111), (2, 333), (3, 44609), (8, 44609)], "file": [(9, "train.bin")]}
    made = Rows([device, host, other], NAMES, args=args)
    for key, value in changes.items():
        setattr(made, key, value)
    return made


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write(trace(), tmp_path / "p.html")


def test_which_kernel_is_slowest_and_where(page: Path) -> None:
    script = f"""{HANDS}
    await still();
    await press("gemm");     // the name with most time of the window
    await press("longest");
    return [T.selected, detail()];
    """
    selected, said = opened(page, script)
    assert selected == 3
    for words in ("gemm", "stream 7", "start5,000 ns", "length900 ns"):
        assert words in said


def test_what_the_host_did_in_the_longest_gap(page: Path) -> None:
    script = f"""{HANDS}
    const out = [];
    key("g"); await still(); out.push([T.measured, detail()]);
    key("g"); await still(); out.push([T.measured, detail().slice(0, 15)]);
    key("G"); await still();
    await press("read"); out.push([T.selected, detail()]);
    return out;
    """
    (gap, said), (second, _), (read, shown) = opened(page, script)
    assert gap == {"start": 1200, "end": 5000}
    # 3,800 ns: of the loader what is not in a read; of the step what is in neither; thread 2 was at work meanwhile
    assert said.startswith("Idle gap 1 of 4: 3.800 us")
    parts = [
        "read3.000 us · 78.9 %",
        "DataLoader600 ns · 15.8 %",
        "cudaDeviceSynchronize400 ns · 10.5 %",
        "step200 ns · 5.3 %",
    ]
    assert [said.index(part) for part in parts] == sorted(said.index(part) for part in parts)
    assert "no event of the host" not in said
    assert second == {"start": 550, "end": 700}
    assert read == 9
    assert "start1,500 ns" in shown


def test_a_stretch_that_may_hold_absent_events_is_no_idle_gap(tmp_path: Path) -> None:
    absent = [{"rows": [0, 1], "start": 2000, "end": 2100, "count": 5, "busy": 60}]
    made = trace(head={"missing": absent, "budget": ""})
    script = f"{HANDS} key('g'); await still(); return [T.measured, detail()];"
    gap, said = opened(write(made, tmp_path / "p.html"), script)
    assert gap["end"] - gap["start"] < 3800
    assert "of 3:" in said


def test_a_device_that_never_waits_has_no_gap(tmp_path: Path) -> None:
    row = (ints(0, 10, 20), ints(10, 10, 10), ints(GEMM, COPY, GEMM))
    made = Rows([Lane("stream 7", [row], host=False)], NAMES)
    script = f"{HANDS} key('g'); await still(); return [T.measured, text('[aria-live]')];"
    assert opened(write(made, tmp_path / "p.html"), script) == [None, "no idle gap is known"]


def test_the_host_is_not_known_where_no_event_of_it_is_in_the_page(tmp_path: Path) -> None:
    row = (ints(0, 50), ints(10, 10), ints(GEMM, COPY))
    made = Rows([Lane("stream 7", [row], host=False)], NAMES)
    said = opened(write(made, tmp_path / "p.html"), f"{HANDS} key('g'); await still(); return detail();")
    assert "What the host did is not known" in said


def test_how_long_it_is_between_two_events(page: Path) -> None:
    script = f"""{HANDS}
    const out = [];
    await click(spot(0)); await click(spot(2), {{ shiftKey: true }}); await still();
    out.push([T.measured, T.selected, measuredText(), T.saving.svg().includes(">1.100 us<")]);
    key("Escape"); key("Escape");
    T.select(8); key("m"); T.select(2); key("M"); await still();
    out.push([T.measured, measuredText()]);
    return out;
    """
    (clicked, selected, said, drawn), (by_keys, also) = opened(page, script)
    assert (clicked, selected, drawn) == ({"start": 100, "end": 1200}, 2, True)
    assert "Measured 1.100 us" in said
    assert "From start to start 600 ns, from end to start 500 ns." in said
    assert by_keys == {"start": 700, "end": 5360}
    assert "From start to start 4.600 us, from end to start 4.100 us." in also


def test_arrows_go_to_the_same_name_and_marks_along_the_row(page: Path) -> None:
    script = f"""{HANDS}
    const out = [];
    scroll.focus(); T.select(0);
    for (const name of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", ",", ".", ".", "ArrowLeft"]) {{
      key(name, scroll);
      out.push(T.selected);
    }}
    return out;
    """
    assert opened(page, script) == [2, 3, 3, 2, 1, 2, 3, 2]


def test_a_search_finds_names_arguments_and_ids_and_moves_no_lane(page: Path) -> None:
    script = f"""{HANDS}
    const out = [], place = () => [scroll.getBoundingClientRect().top, scroll.clientHeight], before = place();
    for (const words of ["44609", "correlation=333", "file: train", "TRAIN", "gemm", "correlation=4", "11"]) {{
      await type(words);
      out.push([T.marked.total, text(".tl-hits"), text(".tl-list"), String(place()) === String(before)]);
    }}
    await type("44609"); await press("argument correlation");
    return [out, T.selected];
    """
    found, selected = opened(page, script)
    totals, said, lists, stays = zip(*found, strict=True)
    assert totals == (2, 1, 1, 1, 3, 0, 0)
    assert said[0] == "0 hits in 0 names, 2 by arguments"
    assert said[3] == "0 hits in 0 names, 1 by an argument"
    assert lists[2].startswith("argument file")
    assert said[4] == "3 hits in 1 name"
    assert all(stays)
    assert selected == 3


@pytest.mark.parametrize(("width", "height"), [(1300, 800), (1920, 1080), (420, 800)])
def test_lanes_and_details_are_in_the_window(page: Path, width: int, height: int) -> None:
    script = f"""{HANDS}
    T.select(3); await still();
    document.querySelector("#timeline").scrollIntoView(); await frame();
    return ["#tl", ".tl-scroll", ".tl-dock section", ".tl-dock .tl-name"].map((query) => {{
      const box = document.querySelector(query).getBoundingClientRect();
      return [box.left, box.top, box.right, box.bottom];
    }});
    """
    whole, lanes, _, name = opened(page, script, width=width, height=height)
    for left, top, right, bottom in (whole, lanes, name):
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    assert whole[2] - whole[0] > width - 60
    assert lanes[3] - lanes[1] > 100


def test_details_have_the_size_that_one_left_them(page: Path, tmp_path: Path) -> None:
    script = f"""{HANDS}
    const [grip, dock] = [".tl-grip", ".tl-dock"].map((each) => document.querySelector(each));
    const out = [dock.offsetWidth];
    const go = (kind, clientX) => grip.dispatchEvent(new PointerEvent(kind, {{ clientX, clientY: 300, pointerId: 1 }}));
    go("pointerdown", 900); go("pointermove", 850); go("pointerup", 850); await frame(); out.push(dock.offsetWidth);
    key("ArrowRight", grip); await frame(); out.push(dock.offsetWidth);
    const {"{ W }"} = T.parts.size();
    await press("details below", ".tl-tools");
    out.push(dock.getBoundingClientRect().top > scroll.getBoundingClientRect().bottom, T.parts.size().W > W);
    return [out, localStorage.getItem("tracekit-details")];
    """
    (before, dragged, by_key, below, wider), stored = opened(page, script)
    assert (dragged - before, by_key - dragged, below, wider) == (50, -24, True, True)
    key = 'const KEY = "tracekit-details"'
    remembers = {key: f"localStorage.setItem('tracekit-details', '{stored}'); {key}"}
    again = write(trace(), tmp_path / "again.html", remembers)
    assert opened(again, f"{HANDS} return text('.tl-tools > button:nth-last-of-type(1)');") == "details beside"


def test_the_header_of_a_process_stays_in_sight_and_folds(tmp_path: Path) -> None:
    lanes = [Lane(f"thread {i}", [(ints(10 * i), ints(500), ints(LOAD))], group="process 1") for i in range(60)]
    script = f"""{HANDS}
    scroll.scrollTop = 300; await frame();
    const seen = T.saving.svg().split(">process 1<").length - 1;
    await click(at(200, 8));
    return [seen, T.items().map((it) => it.is)];
    """
    seen, items = opened(write(Rows(lanes, NAMES), tmp_path / "p.html"), script)
    assert seen == 1
    assert items == ["group", "sum"]


def test_a_pinned_lane_stays_on_top_and_in_the_link(tmp_path: Path) -> None:
    lanes = [
        Lane(f"thread {i}", [(ints(10 * i), ints(500), ints(LOAD))], group=f"process {i // 30}") for i in range(60)
    ]
    path = write(Rows(lanes, NAMES), tmp_path / "p.html")
    script = f"""{HANDS}
    const out = [], it = T.items().find((each) => each.lane === 2), place = () => {{
      const {{ pixels, width, left }} = T.picture(), y = 7; // a row of pixels through the first block
      const row = Array.from(pixels.subarray(y * width + left, y * width + width));
      return row.filter((p) => p !== T.picture().ground).length;
    }};
    await click(at(7, it.y + it.each / 2)); // its pin
    scroll.scrollTop = 500; await frame(); await pause(300);
    out.push(place(), T.items()[0].lane, location.hash);
    await click(spot(2)); out.push(T.selected);
    const one = spot(2)[1] - top_.getBoundingClientRect().top; out.push(one < 20);
    key("t"); await frame(); out.push(T.items()[0].is);
    return out;
    """
    drawn, first, link, selected, on_top, after = opened(path, script)
    assert drawn > 100
    assert (first, selected, on_top, after) == (2, 2, True, "group")
    assert "pin=2" in link
    shown = opened(path, f"{HANDS} return T.items().filter((it) => it.pin).map((it) => it.lane);", fragment="#pin=9_2")
    assert shown == [9, 2]


def test_the_mouse_has_its_exact_time(page: Path) -> None:
    script = f"""{HANDS}
    const out = [], cursor = document.querySelector(".tl-cursor");
    point("pointermove", spot(2)); out.push(cursor.hidden, cursor.textContent);
    key("w"); await frame(); out.push(cursor.textContent);
    point("pointermove", at(20, 40)); out.push(cursor.hidden);
    return out;
    """
    hidden, said, zoomed, beside = opened(page, script)
    assert (hidden, beside) == (False, True)
    assert said == zoomed
    assert int(said.removesuffix(" ns").replace(",", "")) == pytest.approx(950, abs=8)


def test_a_question_mark_shows_all_keys(page: Path) -> None:
    script = f"""{HANDS}
    const menu = [...document.querySelectorAll(".tl-menu")].at(-1), out = [menu.open];
    key("?"); out.push(menu.open, menu.textContent); key("Escape"); out.push(menu.open);
    return out;
    """
    before, shown, said, after = opened(page, script)
    assert (before, shown, after) == (False, True, False)
    for words in ("same name", "idle gap", "keep the lane on top", "search names and arguments", "measure"):
        assert words in said
