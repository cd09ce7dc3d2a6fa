"""Ways through a page: which sections come first and which are folded, the menu of tables, and the search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from render.reports import HOSTILE, sample
from support import sample as sample_file
from viewers import chromium_page, one_browser

from tracekit import pipeline
from tracekit.model.display import escape_controls
from tracekit.model.report import Column, Report, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page.sections import grouped, in_order, is_folded, line_of
from tracekit.views import VIEWS

HELP = """
    const pause = (ms) => new Promise((done) => setTimeout(done, ms));
    for (let i = 0; i < 400 && !document.documentElement.classList.contains("tables"); i++) await pause(10);
    const fold = (view) => document.querySelector(`#${view} > .fold`);
    const folds = () => [...document.querySelectorAll(".fold")].map((each) => each.parentElement.id);
    const open = () => [...document.querySelectorAll(".fold[open]")].map((each) => each.parentElement.id);
    const inside = (element) => {
        const box = element.getBoundingClientRect();
        return box.height > 0 && box.bottom > 0 && box.top < innerHeight;
    };
    const key = (name) => document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
    const box = () => document.querySelector(".search input");
    const found = () => [...document.querySelectorAll("#found li")].map((row) =>
        [...row.children].map((each) => each.textContent));
    const type = async (text) => {
        box().value = text;
        box().dispatchEvent(new Event("input"));
        await pause(150);
    };
"""


@pytest.fixture(scope="module", autouse=True)
def _browser() -> Iterator[None]:
    with one_browser():
        yield


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("navigation") / "report.html"
    pipeline.write_report(pipeline.read(sample_file("kineto/gpu.pt.trace.json")), made)
    return made


def opened(page: Path, script: str, **options: Any) -> Any:
    seen = chromium_page(page, script=f"(async () => {{ {HELP} {script} }})()", **options)
    assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
    return seen.value


def a_section(view: str, *names: str) -> Section:
    columns = (
        Column("name", "Name", Unit.TEXT, list(names)),
        Column("at", "At", Unit.NS, [10**12 for _ in names]),
        Column("total", "Total", Unit.NS, [1_234_567 * (i + 1) for i in range(len(names))]),
        Column("ratio", "Ratio", Unit.RATIO, [(i + 1) / 8 for i in range(len(names))]),
    )
    return Section(view, view.capitalize(), (ReportTable(view, view, columns),))


# Order, folds and groups


def test_kernels_operators_and_steps_come_first_and_are_open() -> None:
    views = ["timeline", "findings", "overview", "steps", "operator", "idle", "kernel", "api"]
    sections = [a_section(view, "a") for view in views]
    assert [views[i] for i in in_order(sections)] == [
        "timeline", "findings", "kernel", "operator", "steps", "overview", "idle", "api",
    ]  # fmt: skip
    assert [each.view for each in sections if is_folded(sections, each)] == ["overview", "idle", "api"]


def test_a_page_is_not_folded_where_it_has_little_or_a_section_is_all_it_is_about() -> None:
    few = [a_section(view, "a") for view in ("overview", "api", "memory")]
    assert not any(is_folded(few, each) for each in few)
    memory = [a_section(view, "a") for view in ("findings", "memory", "overview", "api")]
    assert [each.view for each in memory if is_folded(memory, each)] == ["overview", "api"]
    compared = [Section("compare", f"T{i}", a_section("x", "a").tables) for i in range(6)]
    assert not any(is_folded(compared, each) for each in compared)


def test_the_line_of_a_folded_section_has_its_size_and_its_largest_row() -> None:
    two = a_section("api", "cudaFree", "\x1b", "cudaMalloc")
    assert line_of(two) == "3 rows · largest total: cudaMalloc, 3.704 ms, 37.50 %"
    assert line_of(Section("v", "V", (*two.tables, *a_section("w", "x").tables))).startswith("2 tables, 4 rows · ")
    unknown = ReportTable("t", "T", (Column("name", "N", Unit.TEXT, ["a"]), Column("total", "T", Unit.NS, [None])))
    assert line_of(Section("v", "V", (unknown,))) == "1 row"
    inner = (Column("level", "Level", Unit.COUNT, [1, 0, 0]), *two.tables[0].columns)
    nested = ReportTable("t", "T", inner, omitted=4)
    assert line_of(Section("v", "V", (nested,))).startswith("7 rows · largest total: cudaMalloc")


def test_every_view_has_a_group_in_the_menu() -> None:
    groups = grouped([(view, (view, view)) for view in VIEWS if view != "timeline"])
    assert [name for name, _ in groups] == ["Device", "Work", "Host", "Memory", "Ranks", "Run"]
    assert sorted(anchor for _, links in groups for anchor, _ in links) == sorted(set(VIEWS) - {"timeline"})
    assert grouped([("compare", ("a", "b"))]) == []
    assert grouped([("compare", ("a", "b")), ("api", ("c", "d"))]) == [
        ("Host", (("c", "d"),)),
        ("Other", (("a", "b"),)),
    ]


def test_the_header_has_the_links_of_the_page_and_all_tables_in_a_menu_without_a_script(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    header = text[text.index("<header") : text.index("</header>")]
    bar, menu = header.split("<details>")
    assert re.findall(r'<a href="#([^"]+)"[^>]*>([^<]+)</a>', bar) == [
        ("first-screen", "Overview"), ("timeline", "Timeline"), ("flame", "Flame graph"),
    ]  # fmt: skip
    links = re.findall(r'<a href="#([^"]+)">', menu)
    sections = re.findall(r'<section[^>]* id="([^"]+)"|<section id="([^"]+)"', text)
    shown = {one or other for one, other in sections} - {"first-screen", "timeline"}
    assert set(links) == shown


# In a browser


@pytest.mark.viewer
def test_the_address_has_the_open_sections_and_restores_them(page: Path) -> None:
    script = """
        const before = open();
        fold("api").querySelector("summary").click();
        fold("idle").querySelector("summary").click();
        await pause(100);
        const address = location.hash;
        fold("api").querySelector("summary").click();
        await pause(100);
        return [before, address, location.hash];
    """
    before, both, one = opened(page, script)
    assert before == []
    assert set(both.removeprefix("#open=").split("~")) == {"api", "idle"}
    assert one == "#open=idle"
    assert opened(page, "return open()", fragment=both) == ["idle", "api"]
    back = """
        location.hash = "#open=api";
        await pause(100);
        location.hash = "#open=idle~launch";
        await pause(100);
        const there = open();
        history.back();
        await pause(300);
        return [there, open()];
    """
    assert opened(page, back) == [["idle", "launch"], ["api"]]


@pytest.mark.viewer
@pytest.mark.parametrize(
    ("fragment", "act"),
    [
        ("#view=api&row=2", ""),
        ("#api", ""),
        ("#view=api", ""),
        ("", "document.querySelector('.contents summary').click(); document.querySelector('p a[href*=api]').click()"),
        ("", "document.querySelector('.finding a[href*=\"view=api\"]').click();"),
        ("", "location.hash = '#view=api&row=1';"),
    ],
)  # fmt: skip
def test_links_unfold_a_section_and_bring_it_in_sight(page: Path, fragment: str, act: str) -> None:
    script = f"""
        {act}
        await pause(400);
        return [open(), inside(fold("api").querySelector("table")), document.querySelector(".contents details").open];
    """
    assert opened(page, script, fragment=fragment) == [["api"], True, False]


@pytest.mark.viewer
@pytest.mark.parametrize("scripts", [True, False])
def test_folded_tables_are_printed(page: Path, scripts: bool) -> None:
    script = """(() => {
        dispatchEvent(new Event("beforeprint"));
        const tables = [...document.querySelectorAll(".fold .sheet tbody")];
        return [tables.length, tables.every((each) => each.rows[0].getBoundingClientRect().height > 0 &&
            each.rows[0].checkVisibility({ contentVisibilityAuto: true }))];
    })()"""
    seen = chromium_page(page, width=718, media="print", scripts=scripts, script=script)
    count, all_seen = seen.value
    assert count > 5
    assert all_seen


@pytest.mark.viewer
def test_folds_are_as_before_after_printing(page: Path) -> None:
    script = """
        dispatchEvent(new Event("beforeprint"));
        const printed = open().length === folds().length;
        dispatchEvent(new Event("afterprint"));
        await pause(250);
        return [printed, open(), location.hash];
    """
    assert opened(page, script, fragment="#open=api") == [True, ["api"], "#open=api"]


@pytest.mark.viewer
@pytest.mark.parametrize("width", [1300, 420])
def test_the_search_leads_to_a_row_of_a_folded_table_by_keys_alone(tmp_path: Path, width: int) -> None:
    calls = [f"cudaCall{i}" for i in range(40)]
    sections = (
        a_section("kernel", "k"), a_section("idle", "host late", "call 7 of cuda"), a_section("launch", "x"),
        a_section("api", *calls),
    )  # fmt: skip
    file = tmp_path / "report.html"
    made = RENDERERS["html"].render(Report("t", "0", sections=sections), RenderOptions())
    file.write_bytes(made.encode())
    script = """
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true }));
        const focused = document.activeElement === box();
        await type("7 CUDA");
        const seen = found(), marked = () => document.querySelector('#found [aria-selected="true"] span').textContent;
        const marks = [marked()];
        for (const name of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp"]) {
            key(name);
            marks.push(marked());
        }
        key("ArrowDown");
        key("Enter");
        await pause(400);
        const row = document.querySelector("#api tr.picked");
        return { focused, seen, marks, open: open(), row: row.cells[0].textContent, there: inside(row),
            hash: location.hash, closed: document.querySelector("#found").hidden };
    """
    seen = opened(file, script, width=width)
    assert seen["seen"] == [
        ["call 7 of cuda", "idle"], ["cudaCall7", "api"], ["cudaCall17", "api"], ["cudaCall27", "api"],
        ["cudaCall37", "api"],
    ]  # fmt: skip
    assert seen["marks"] == ["call 7 of cuda", "cudaCall7", "cudaCall17", "cudaCall27", "cudaCall17", "cudaCall7"]
    assert (seen["row"], seen["open"]) == ("cudaCall17", ["api"])
    assert seen["focused"]
    assert seen["there"]
    assert seen["closed"]
    assert "view=api&row=18" in seen["hash"]


@pytest.mark.viewer
def test_the_search_finds_sections_tables_and_findings_and_says_when_it_finds_nothing(page: Path) -> None:
    script = """
        const out = {};
        for (const word of ["launch queues", "idle time", "before the device has its first work", "no such thing"]) {
            box().focus();
            await type(word);
            out[word] = found();
        }
        await type("idle time of devices");
        key("Enter");
        await pause(300);
        out.open = open();
        out.there = inside(document.getElementById("idle"));
        box().focus();
        await type("before the device has its first work");
        key("Enter");
        await pause(300);
        out.focus = document.activeElement.id;
        box().focus();
        await type("x");
        key("Escape");
        out.value = box().value;
        return out;
    """
    seen = opened(page, script)
    assert ["Launch queues of streams", "table"] in seen["launch queues"]
    assert ["Idle time of devices", "section"] in seen["idle time"]
    assert [where for _, where in seen["before the device has its first work"]] == ["finding"]
    assert seen["no such thing"] == [[]]
    assert seen["open"] == ["idle"]
    assert seen["there"]
    assert seen["focus"] == "findings-1"
    assert seen["value"] == ""


@pytest.mark.viewer
def test_every_text_of_a_folded_table_is_found_and_hostile_ones_do_nothing(tmp_path: Path) -> None:
    names = [name for name in HOSTILE if name.strip() and name != "\ud800" and escape_controls(name) == name]
    sections = [
        a_section("kernel", "k"),
        *(a_section(view, "x") for view in ("idle", "launch")),
        a_section("api", *names),
    ]
    report = Report("t", "0", sections=tuple(sections), facts=sample().facts)
    file = tmp_path / "report.html"
    file.write_bytes(RENDERERS["html"].render(report, RenderOptions()).encode())
    script = """
        const out = [];
        const names = [...fold("api").querySelectorAll("tbody th")].map((cell) => cell.title || cell.textContent);
        box().focus();
        for (const name of names) { await type(name); out.push([name, found().map((row) => row[0])]); }
        return [out, window.pwned ?? null, document.querySelectorAll("#found :not(li, span, small)").length];
    """
    seen, pwned, elements = opened(file, script)
    assert len(seen) == len(names)
    for name, texts in seen:
        assert name in texts
    assert (pwned, elements) == (None, 0)
