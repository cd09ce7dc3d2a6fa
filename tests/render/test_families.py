"""The legend of the timeline in Chromium: families of events by colour, shown alone and marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from render.test_timeline_page import opened
from render.timeline_pages import I64, Lane, Rows, write

pytestmark = pytest.mark.viewer


def row_of(*events: tuple[int, int, int]) -> tuple[I64, I64, I64]:
    starts, lengths, codes = np.array(events, np.int64).T
    return starts, lengths, codes


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Rows(
        [
            Lane(
                "stream 7", [row_of((0, 100, 0), (100, 50, 1), (200, 100, 0), (300, 100, 2))], host=False, group="GPU 0"
            ),
            Lane("thread 1", [row_of((0, 150, 3), (160, 50, 4), (210, 90, 5))]),
        ],
        [
            ("gemm a", "gemm kernel"),
            ("copy", "memcpy"),
            ("nccl", "communication kernel"),
            ("all_reduce", "communication"),
            ("launch", "runtime"),
            ("driver launch", "driver"),
        ],
        head={"kindsOf": {"gemm kernel": "kernel", "communication kernel": "kernel"}},
    )
    return write(made, tmp_path_factory.mktemp("families") / "page.html")


def test_the_legend_names_each_colour_once_and_devices_first(page: Path) -> None:
    words = opened(page, "return [...document.querySelectorAll('.tl-legend button')].map((it) => it.textContent)")
    # One colour has one meaning: communication of the host and of a device, calls of both interfaces.
    assert words == ["communication", "gemm kernel", "memcpy", "driver, runtime"]


def test_a_click_marks_the_events_of_a_family_and_the_next_one_ends_it(page: Path) -> None:
    script = """
    const button = [...document.querySelectorAll(".tl-legend button")].find((it) => it.textContent === "gemm kernel");
    const look = () => [T.marked?.total ?? null, button.getAttribute("aria-pressed"), text(".tl-hits")];
    const seen = [look()];
    button.click(); seen.push(look());
    await new Promise((done) => setTimeout(done, 400));
    seen.push(new URLSearchParams(location.hash.slice(1)).get("family"));
    button.click(); seen.push(look());
    return seen;
    """
    assert opened(page, script) == [
        [None, "false", ""],
        [2, "true", "2 events: gemm kernel"],
        "gemm",
        [None, "false", ""],
    ]


def test_a_link_shows_the_family_again_and_an_unknown_one_is_ignored(page: Path) -> None:
    script = "return [T.marked?.total ?? null, document.querySelector('[aria-pressed=true][data-family]')?.textContent]"
    assert opened(page, script, fragment="#family=comm") == [2, "communication"]
    assert opened(page, script, fragment="#family=nothing") == [None, None]


def test_pointing_at_a_family_dims_the_others_and_leaves_what_is_marked(page: Path) -> None:
    script = """
    const p = () => T.paint();
    const button = [...document.querySelectorAll(".tl-legend button")].find((it) => it.textContent === "memcpy");
    const item = T.items().find((it) => it.is === "rows"), at = () => {
      const it = T.picture(), w = it.width - it.left;
      return [50, 125].map((t) => it.pixels[(item.y + 8) * it.width + it.left + Math.floor(t / T.head.span * w)]);
    };
    p(); const before = at();
    button.dispatchEvent(new PointerEvent("pointerenter", { pointerType: "mouse" })); p(); const pointed = at();
    button.dispatchEvent(new PointerEvent("pointerleave", { pointerType: "mouse" })); p(); const after = at();
    button.dispatchEvent(new PointerEvent("pointerenter", { pointerType: "touch" })); p(); const touched = at();
    return [before, pointed, after, touched, T.marked];
    """
    before, pointed, after, touched, marked = opened(page, script)
    assert pointed[0] != before[0]  # a gemm is dimmed
    assert pointed[1] == before[1]  # the copy is not
    assert (after, touched, marked) == (before, before, None)


def test_a_name_has_the_same_colour_whatever_else_a_page_shows(tmp_path: Path) -> None:
    names = [("a", "kernel"), ("b", "kernel"), ("c", "kernel"), ("d", "operator"), ("e", "operator"), ("f", "operator")]
    colors = []
    for order in (names, names[::-1], names[2:5]):
        places = [(100 * code, 50, code) for code in range(len(order))]
        made = write(Rows([Lane("thread 1", [row_of(*places)])], order), tmp_path / f"{len(colors)}.html")
        script = "return T.parts.names.map((name, code) => [name, T.parts.fullColor(code), T.parts.textColor(code)]);"
        colors.append({name: tuple(each) for name, *each in opened(made, script)})
    assert colors[0] == colors[1]
    assert colors[2].items() <= colors[0].items()
    assert len({fill for fill, _ in colors[0].values()}) > 3  # names of a family differ
