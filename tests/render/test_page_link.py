"""The address of a page: it restores what was seen, and Back returns inside the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import sample
from viewers import chromium_page, one_browser

from tracekit import pipeline

pytestmark = pytest.mark.viewer

HELP = """
    while (!window.tracekit?.timeline) await new Promise((done) => setTimeout(done, 5));
    await tracekit.timeline.ready;
    const T = tracekit.timeline, pause = (ms) => new Promise((done) => setTimeout(done, ms));
    const until = async (is) => {
        for (let i = 0; !is(); i++) {
            if (i > 300) throw new Error(`never: ${is}`);
            await pause(20);
        }
    };
    await until(() => document.documentElement.classList.contains("tables"));
    const table = (view) => document.querySelector(`#${view} .sheet`);
    const seen = () => ({
        window: [T.view.t0, T.view.t1], selected: T.selected, marked: T.marked?.total ?? 0,
        y: document.querySelector(".tl-scroll").scrollTop,
        items: T.items().map((it) => [it.is, it.rows ?? 0]), find: document.querySelector(".tl-find input").value,
        picked: [...document.querySelectorAll("tr.picked")].map((row) => [row.closest("section").id, row.textContent]),
        sorted: [...document.querySelectorAll("th[aria-sort]")]
            .map((th) => [th.closest("section").id, th.textContent, th.getAttribute("aria-sort")]),
        filters: [...document.querySelectorAll(".sheet input[type=search]")].map((box) => box.value).filter(Boolean),
        rows: [...table("kernel").querySelectorAll("tbody tr")].map((row) => row.textContent),
    });
"""


@pytest.fixture(scope="module", autouse=True)
def browser() -> Iterator[None]:
    with one_browser():
        yield


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("link") / "report.html"
    pipeline.write_report(pipeline.read(sample("kineto/gpu.pt.trace.json")), made)
    return made


def opened(page: Path, script: str, **options: Any) -> Any:
    seen = chromium_page(page, script=f"(async () => {{ {HELP} {script} }})()", **options)
    assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
    return seen.value


@pytest.mark.parametrize("width", [1300, 420])
@pytest.mark.parametrize(
    "what",
    [
        "T.search('^aten'); document.querySelector('.tl-find input').value = '^aten';",
        "document.querySelector('[data-finding]').click(); await pause(500);",
        "T.select(40); T.reveal(40); await pause(300);",
        "table('kernel').querySelectorAll('tbody th')[1].click();",
    ],
)
def test_a_copied_link_restores_what_was_seen(page: Path, what: str, width: int) -> None:
    script = f"""
        {what}
        T.fold(T.items().find((it) => it.is === "group"));
        const deep = T.items().find((it) => it.is === "rows" && it.of > 1 && it.word !== "ranges");
        if (deep) T.fold(deep);
        T.show(100000.5, 90000000.25);
        const heads = table("kernel").querySelectorAll("th button");
        heads[1].click();
        heads[1].click();
        const box = table("kernel").querySelector("input[type=search]");
        box.value = "e";
        box.dispatchEvent(new Event("input"));
        document.querySelector(".tl-scroll").scrollTop = 20;
        await pause(700);
        return [location.hash, seen()];
    """
    address, before = opened(page, script, width=width)
    after = opened(page, "await pause(500); return [location.hash, seen()];", fragment=address, width=width)
    assert after[0].split("&").sort() == address.split("&").sort()
    assert after[1].pop("window") == pytest.approx(before.pop("window"), abs=1.01)
    assert after[1] == before
    assert before["sorted"]
    assert before["filters"] == ["e"]


def test_back_returns_inside_the_report(page: Path) -> None:
    script = """
        const states = [seen()], back = async () => { history.back(); await pause(700); return seen(); };
        const acts = [
            () => document.querySelector("a.card[href]").click(),
            () => document.querySelector('.finding a[href^="#view="]').click(),
            () => document.querySelector(".contents a[href='#kernel']").click(),
            () => table("kernel").querySelectorAll("tbody th")[2].click(),
            () => document.querySelector("[data-finding]").click(),
        ];
        const length = history.length;
        for (const act of acts) { act(); await pause(700); states.push(seen()); }
        const out = { pushed: history.length - length, backs: [], states };
        for (let i = 0; i < acts.length; i++) out.backs.push(await back());
        history.forward();
        await pause(700);
        out.forward = seen();
        return out;
    """
    found = opened(page, script)
    assert found["pushed"] == 5
    states = found["states"]
    for seen, wanted in zip(found["backs"], states[-2::-1], strict=True):
        for key in ("window", "selected", "marked", "items"):
            assert seen[key] == wanted[key], key
    assert found["backs"][-1]["picked"] == []
    assert found["forward"]["marked"] == states[1]["marked"] > 0


def test_a_link_of_the_contents_keeps_what_is_seen(page: Path) -> None:
    script = """
        T.show(1000, 2000000);
        await pause(400);
        document.querySelector(".contents a[href='#kernel']").click();
        await pause(400);
        const box = document.getElementById("kernel").getBoundingClientRect();
        return [location.hash, [T.view.t0, T.view.t1], box.top < innerHeight];
    """
    address, window, there = opened(page, script)
    assert window == [1000, 2000000]
    assert there
    assert "view=kernel" in address
    assert "t=" in address


@pytest.mark.parametrize(
    "fragment",
    [
        "#fold=g9~99999999999_l7.3_x&mark=99&find=(&name=-1&y=1e99",
        "#sort.kernel.1=-nothing&filter.kernel.1=%00&mark=0&e=99999999",
        "#fold=g-5~3&path=1&name=0&view=%00&row=-3",
        "#nowhere",
    ],
)
def test_a_link_that_does_not_fit_the_page_does_no_harm(page: Path, fragment: str) -> None:
    assert opened(page, "await pause(400); return T.items().length > 0;", fragment=fragment)
