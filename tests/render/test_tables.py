"""Tables of a page: as HTML without a script, and in a browser: every number, sorted, filtered, exported, linked."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from render.reports import HOSTILE, sample
from viewers import PageResult, chromium_page, one_browser

from tracekit.model.display import UNKNOWN, escape_controls, shown_name
from tracekit.model.report import Cell, Column, Evidence, Report, ReportTable, Section
from tracekit.model.units import Unit, format_bytes, format_rate, format_ratio, four_digits, four_digits_of
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page.tables import cell_link, table_html

ATTACKS = (
    "<img src=x onerror='window.pwned=1'>", "</script><script>window.pwned=2</script>", "<!--<script>", "{{7*7}}",
    "\"><svg onload='window.pwned=4'>", "javascript:window.pwned=5", "__proto__", "constructor", "../../x", "&lt;b&gt;",
)  # fmt: skip
BIG = 1 << 62
MANY = 4328


@pytest.fixture(scope="module", autouse=True)
def _browser() -> Iterator[None]:
    with one_browser():
        yield


def kernels(rows: int) -> ReportTable:
    """A table of every unit, with numbers that floats cannot tell apart, and unknown cells."""
    numbers = [(i * 7919) % rows for i in range(rows)]
    return ReportTable(
        "kernels",
        "Kernels",
        (
            Column("name", "Name", Unit.TEXT, [f"Kernel_{i % 97}_{i}" for i in range(rows)]),
            Column("kind", "Kind", Unit.TEXT, [("kernel", "memcpy")[i % 2] for i in range(rows)]),
            Column("calls", "Calls", Unit.COUNT, [None if i == 5 else 37 * i for i in numbers]),
            Column("total", "Total", Unit.NS, [BIG + i for i in numbers]),
            Column("avg", "Avg", Unit.NS, [1000 * i + 1 for i in numbers]),
            Column("ratio", "Ratio", Unit.RATIO, [i / (8 * rows) for i in numbers]),
            Column("bytes", "Bytes", Unit.BYTES, [(i << 9) + 1152 for i in numbers]),
            Column("bandwidth", "Bandwidth", Unit.BYTES_PER_S, [1.125e9 * i for i in numbers]),
            Column("value", "Value", Unit.NUMBER, [(-1) ** i * 10.0 ** (i % 40 - 20) * i for i in numbers]),
            Column("stream", "Stream", Unit.ID, [("main", 7, BIG)[i % 3] for i in numbers]),
        ),
    )


def page_of(*tables: ReportTable, **more: Any) -> Report:
    return Report("run.csv", "0.0.0", sections=(Section("kernel", "Kernels", tables),), **more)


def opened(tmp_path: Path, report: Report, script: str, **more: Any) -> PageResult:
    file = tmp_path / "report.html"
    file.write_bytes(RENDERERS["html"].render(report, RenderOptions()).encode())
    found = chromium_page(file, script=f"(async () => {{ {HELP} {script} }})()", timeout=60, **more)
    assert (found.console, found.page_errors, found.requests) == ([], [], [])
    assert found.overflow_px == 0
    return found


HELP = """
const rest = (ms) => new Promise((done) => setTimeout(done, ms));
for (let i = 0; i < 400 && !document.documentElement.classList.contains('tables'); i++) await rest(5);
const sheet = (n = 0) => document.querySelectorAll('.sheet[data-table]')[n];
const rows = (n = 0) => [...sheet(n).querySelectorAll('tbody tr:not(.space, .sizer)')];
const texts = (n = 0) => rows(n).map((row) => [...row.cells].map((cell) => cell.textContent));
const every = async (n = 0) => {
  const box = sheet(n).querySelector('.scroll'), seen = new Map();
  for (let top = 0; ; top += box.clientHeight) {
    box.scrollTop = top;
    box.dispatchEvent(new Event('scroll'));
    for (const row of rows(n)) seen.set(+row.ariaRowIndex, [...row.cells].map((cell) => cell.textContent));
    if (top >= box.scrollHeight) break;
  }
  return [...seen].sort((a, b) => a[0] - b[0]).map((each) => each[1]);
};
const saved = [];
tracekit.save = null;
const urls = new Map();
const create = URL.createObjectURL;
URL.createObjectURL = (blob) => { const url = create(blob); urls.set(url, blob); return url; };
HTMLAnchorElement.prototype.click = function () { saved.push([this.download, urls.get(this.href)]); };
const press = (n, text) => [...sheet(n).querySelectorAll('.tools button')].find((b) => b.textContent === text).click();
const type = (n, text) => { const box = sheet(n).querySelector('input[type=search]'); box.value = text;
    box.dispatchEvent(new Event('input')); };
const key = (name, more = {}) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: name,
    bubbles: true, cancelable: true, ...more }));
"""


def shown(column: Column, value: Cell, unit: str) -> str:
    """The text of a cell, by the rules of the units."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    if isinstance(value, str):
        return escape_controls(value)
    texts = {
        Unit.NS: lambda: four_digits(int(value), unit), Unit.COUNT: lambda: f"{value:,}", Unit.ID: lambda: str(value),
        Unit.BYTES: lambda: format_bytes(int(value)), Unit.RATIO: lambda: format_ratio(value),
        Unit.BYTES_PER_S: lambda: format_rate(value), Unit.NUMBER: lambda: four_digits_of(value),
    }  # fmt: skip
    return texts[column.unit]()


def grid(table: ReportTable, order: list[int], units: dict[str, str]) -> list[list[str]]:
    return [[shown(c, c.values[i], units.get(c.name, "")) for c in table.columns] for i in order]


UNITS = {"total": "s", "avg": "s"}
"""A table has one unit of time."""


def test_the_first_rows_are_html_and_the_others_are_told() -> None:
    text = table_html(kernels(MANY), "kernel", "0.0")
    assert text.count("<tr>") == 11
    assert "<p class=more>the first 10 of 4,328 rows and 9 of 10 columns (--view kernel)</p>" in text
    page = RENDERERS["html"].render(page_of(kernels(MANY)), RenderOptions())
    assert "all with JavaScript or <code>tracekit summary --view NAME --format csv</code>" in page
    few = replace(kernels(10), columns=kernels(10).columns[:5])
    assert "class=more" not in table_html(few, "kernel", "0.0")
    assert "Kernel_9_9<" in text
    assert "Kernel_10_10<" not in text


def wide(rows: int) -> ReportTable:
    """A table of 14 columns: two that are always shown, and others of priority 1 to 3."""
    names = Column("name", "Name", Unit.TEXT, [f"k{i}" for i in range(rows)])
    numbers = [Column(f"c{i}", f"C{i}", Unit.NS, [1000 * i + 7] * rows, priority=i % 4) for i in range(13)]
    return ReportTable("kernels", "K", (names, *numbers))


def test_of_many_columns_those_of_the_highest_priority_number_need_javascript() -> None:
    text = table_html(wide(3), "kernel", "0.0")
    assert "<p class=more>10 of 14 columns (--view kernel)</p>" in text
    assert " data-off=12,8,4,11>" in text
    assert re.findall("<th>(C[0-9]+)", text) == ["C0", "C1", "C2", "C4", "C5", "C6", "C8", "C9", "C12"]
    assert re.findall("<td[^>]*>([^<]*)", text)[:9] == [*(f"{i}.007" for i in (0, 1, 2, 4, 5, 6, 8, 9)), "12.01"]
    fixed = tuple(replace(column, priority=0) for column in wide(3).columns)
    assert "data-off" not in table_html(ReportTable("k", "K", fixed), "kernel", "0.0")


@pytest.mark.viewer
def test_the_script_shows_the_hidden_columns_of_the_html(tmp_path: Path) -> None:
    table = wide(30)
    heads = "[...sheet().querySelectorAll('thead th')].map((head) => [head.checkVisibility(), head.textContent])"
    found = opened(tmp_path, page_of(table), f"return [{heads}, await every()]").value
    assert found == [
        [[True, column.title + " us" * (column.unit is Unit.NS)] for column in table.columns],
        grid(table, list(range(30)), {f"c{i}": "us" for i in range(13)}),
    ]


def test_names_of_rows_below_others_are_indented() -> None:
    columns = Column("name", "N", Unit.TEXT, ["a", "b"]), Column("level", "L", Unit.COUNT, [0, 2])
    text = table_html(ReportTable("t", "T", columns), "v", "0.0")
    assert "<tr><th>a<td>0<tr><th style=padding-left:34px>b<td>2" in text


def test_a_finding_links_to_the_row_of_its_cell() -> None:
    second = ReportTable("b", "B", (Column("who", "W", Unit.TEXT, ["x", "y.z"]), Column("n", "N", Unit.COUNT, [4, 4])))
    report = page_of(kernels(9), second)
    assert cell_link(report, Evidence("kernel.y.z.n", 4, Unit.COUNT)) == "#view=kernel&table=2&row=2&column=n"
    assert cell_link(report, Evidence("kernel.Kernel_3_3.total", BIG + (3 * 7919) % 9, Unit.NS)) == (
        "#view=kernel&row=4&column=total"
    )
    assert cell_link(report, Evidence("kernel.nobody.n", 4, Unit.COUNT)) == ""
    assert cell_link(report, Evidence("other.x.n", 4, Unit.COUNT)) == ""


@pytest.mark.viewer
def test_every_cell_of_a_long_table_is_shown_as_python_writes_it_with_few_nodes(tmp_path: Path) -> None:
    table = kernels(MANY)
    script = """
        const found = { nodes: document.querySelectorAll('*').length, count: sheet().querySelector('table')
            .getAttribute('aria-rowcount'),
          heads: [...sheet().querySelectorAll('thead small')].map((unit) => unit.textContent) };
        found.cells = await every();
        found.after = document.querySelectorAll('*').length;
        return found;
    """
    found = opened(tmp_path, page_of(table), script).value
    assert found["cells"] == grid(table, list(range(MANY)), UNITS)
    assert found["count"] == str(MANY + 1)
    assert found["heads"] == ["s", "s", "%"]
    assert max(found["nodes"], found["after"]) < 2000


@pytest.mark.viewer
def test_the_script_shows_what_the_html_shows(tmp_path: Path) -> None:
    report = sample()
    table = report.sections[0].tables[0]
    odd = ReportTable(
        "odd",
        "Odd",
        (
            Column(
                "r", "R", Unit.RATIO, [0.00125, 0.00375, -1e-9, 1e-9, -0.0, 12.34567, 0.125, float("nan"), -0.00125]
            ),
            Column("b", "B", Unit.BYTES, [1152, -1152, 1280, 1023, 1 << 62, 104858, 107374182400, 0, 102400]),
            Column("n", "N", Unit.NUMBER, [1e16, 1e-5, 0.0001, 123456789.125, BIG + 1, -0.0, 5.0, 1.5e300, 1e15]),
            Column(
                "m", "M", Unit.NUMBER, [1.0625, 1.1875, -999.96, 1000.5, 1001.5, 66.6, 1.23456e-5, 0.12345678, 999.5]
            ),
            Column("v", "V", Unit.BYTES_PER_S, [1.125, 1125.0, 1e15, 0.0, -1135.0, 1e-9, 999.999, 999.995, 4.85e9]),
            Column("t", "T", Unit.NS, [0, -1, 999, 10**6, -(10**9) - 1, 5, 6, 7, 8]),
        ),
    )
    found = opened(tmp_path, page_of(table, odd), "return [texts(0), texts(1)]").value
    assert found[0] == grid(table, [0, 1, 2], {"total": "us", "avg": "us", "p99": "us"})
    wanted = grid(odd, list(range(9)), {"t": "us"})
    wanted[4][0] = "0.00"
    assert found[1] == wanted
    plain = re.findall("<td[^>]*>([^<]*)", table_html(odd, "kernel", "0.1"))
    assert [unescape(text).rstrip() for text in plain] == [cell for row in wanted for cell in row]


@pytest.mark.viewer
def test_sorting_and_filtering_keep_every_number_exact(tmp_path: Path) -> None:
    table = kernels(300)
    script = """
        const heads = [...sheet().querySelectorAll('thead th')], seen = [];
        for (const [column, clicks] of [[3, 1], [3, 1], [2, 1], [0, 1], [9, 1]]) {
            for (let i = 0; i < clicks; i++) heads[column].querySelector('button').click();
            seen.push([await every(), heads.map((head) => head.getAttribute('aria-sort'))]);
        }
        heads[3].querySelector('button').click();
        type(0, 'kernel_3_ memcpy');
        seen.push([await every(), sheet().querySelector('[role=status]').textContent]);
        type(0, 'nothing');
        seen.push([await every(), sheet().querySelector('[role=status]').textContent]);
        return seen;
    """
    down, up, calls, names, streams, some, none = opened(tmp_path, page_of(table), script).value
    total, count, name, kind = (table.column(key).values for key in ("total", "calls", "name", "kind"))
    falling = sorted(range(300), key=lambda i: (-int(total[i] or 0), i))
    assert down[0] == grid(table, falling, UNITS)
    assert up[0] == grid(table, sorted(range(300), key=lambda i: (int(total[i] or 0), i)), UNITS)
    assert (down[1][3], up[1][3], calls[1][3], calls[1][2]) == ("descending", "ascending", None, "descending")
    known = sorted((i for i in range(300) if count[i] is not None), key=lambda i: (-int(count[i] or 0), i))
    assert calls[0] == grid(table, [*known, *(i for i in range(300) if count[i] is None)], UNITS)
    assert [row[0] for row in names[0]] == sorted(str(each) for each in name)
    assert len(streams[0]) == 300
    match = [i for i in falling if "kernel_3_" in str(name[i]).lower() and kind[i] == "memcpy"]
    assert 1 <= len(match) < 10
    assert some == [grid(table, match, UNITS), f"{len(match)} of 300 rows shown"]
    assert none == [[], "0 of 300 rows shown"]


@pytest.mark.viewer
def test_a_table_leaves_the_page_as_csv_json_and_tsv_with_the_numbers_of_summary(tmp_path: Path) -> None:
    table = ReportTable("kernels", "K", tuple(kernels(80).columns))
    names = [*ATTACKS, *(name for name in HOSTILE if name != "\ud800")]
    bad = ReportTable(
        "bad", "B", (Column("name", "N", Unit.TEXT, names), Column("n", "N", Unit.COUNT, range(len(names))))
    )
    script = """
        let copied = '';
        Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { copied = text; } } });
        const found = { files: [], said: [] };
        for (const n of [0, 1]) {
            press(n, 'Columns and export');
            for (const name of ['Save as CSV', 'Save as JSON', 'Copy as TSV']) {
                press(n, name); await rest(20);
                found.said.push(document.querySelector('.toast').textContent);
            }
            found['tsv' + n] = copied;
        }
        for (const [name, blob] of saved) found.files.push([name, await blob.text()]);
        found.pwned = window.pwned ?? null;
        sheet(0).querySelectorAll('.menu fieldset input')[3].click();
        type(0, 'kernel_7_');
        press(0, 'Save as CSV');
        found.some = await saved.at(-1)[1].text();
        found.status = sheet(0).querySelector('[role=status]').textContent;
        return found;
    """
    report = page_of(table, bad)
    found = opened(tmp_path, report, script).value
    files = dict(found["files"])
    assert list(files) == ["kernel.csv", "kernel.json", "kernel-bad.csv", "kernel-bad.json"]
    assert found["pwned"] is None
    wanted = json.loads(RENDERERS["json"].render(report, RenderOptions()))["sections"][0]["tables"]
    for place, each in enumerate(("kernel.json", "kernel-bad.json")):
        assert {key: value for key, value in json.loads(files[each]).items() if key != "view"} == wanted[place]
    blocks = RENDERERS["csv"].render(report, RenderOptions()).split("\r\n\r\n")
    ours = list(csv.reader(io.StringIO(files["kernel.csv"])))
    assert [[number(cell) for cell in row] for row in ours] == [
        [number(cell) for cell in row] for row in csv.reader(io.StringIO(blocks[0]))
    ]
    assert list(csv.reader(io.StringIO(files["kernel-bad.csv"], newline=""))) == list(
        csv.reader(io.StringIO("\r\n\r\n".join(blocks[1:]), newline=""))
    )
    assert "may read one that begins with" in found["said"][3]
    assert "may read one that begins with" not in found["said"][0]
    assert [line.split("\t")[0] for line in found["tsv1"].splitlines()[1:]] == [escape_controls(name) for name in names]
    assert all(line.count("\t") == 9 for line in found["tsv0"].splitlines())
    rows = list(csv.reader(io.StringIO(found["some"])))
    assert "total_ns" not in rows[0]
    assert [row[2] for row in rows[1:]] == ["Kernel_7_7"]
    assert found["status"] == "1 of 80 rows shown, 1 of 10 columns hidden"


def number(text: str) -> float | str:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.viewer
def test_the_keyboard_reaches_every_cell_and_its_exact_value(tmp_path: Path) -> None:
    script = """
        const first = sheet().querySelector('tbody [tabindex="0"]'), line = sheet().querySelector('.exact'), seen = [];
        first.focus();
        for (const [name, more] of [['ArrowRight'], ['ArrowRight'], ['ArrowRight'], ['End'], ['End',
            { ctrlKey: true }], ['Home'], ['PageUp'], ['ArrowDown'], ['Home', { ctrlKey: true }]]) {
            key(name, more); await rest(10);
            const row = document.activeElement.parentElement;
            seen.push([row.getAttribute('aria-rowindex'), document.activeElement.getAttribute('aria-colindex'),
                line.textContent]);
        }
        const heard = [];
        tracekit.on('mark', (mark) => heard.push([mark.names, mark.kinds]));
        key('Enter');
        const picked = rows().filter((row) => row.getAttribute('aria-selected') === 'true').length;
        key('Escape');
        return [seen, heard, picked, sheet().querySelectorAll('[tabindex="0"]').length, sheet()
            .querySelector('table').getAttribute('role')];
    """
    table = kernels(500)
    seen, heard, picked, stops, role = opened(tmp_path, page_of(table), script).value
    assert seen[2] == ["2", "4", f"Total: {BIG:,} ns"]
    assert [each[:2] for each in seen[3:6]] == [["2", "10"], ["501", "10"], ["501", "1"]]
    assert int(seen[6][0]) < 501
    assert seen[8][:2] == ["2", "1"]
    assert heard == [[["Kernel_0_0"], ["kernel"]], [[], None]]
    assert (picked, stops, role) == (1, 1, "grid")


@pytest.mark.viewer
def test_a_row_marks_its_events_and_the_timeline_marks_its_row_and_the_address_keeps_both(tmp_path: Path) -> None:
    script = """
        const heard = [];
        tracekit.on('mark', ({ names, from }) => heard.push([names, from]));
        rows()[2].cells[3].click();
        const address = location.hash;
        tracekit.emit('pick', { name: 'Kernel_9_300', kind: 'kernel', place: 1, start: 0, length: 1, lane: 0,
            from: 'timeline' });
        await rest(20);
        const shown = rows().filter((row) => row.classList.contains('picked')).map((row) => row.cells[0].textContent);
        const box = sheet().querySelector('.scroll').getBoundingClientRect();
        const mark = sheet().querySelector('.picked').getBoundingClientRect();
        location.hash = '#view=kernel&table=2&row=2&column=n';
        await rest(50);
        const asked = [...document.querySelectorAll('.asked')].map((cell) => cell.textContent);
        tracekit.emit('pick', { name: null, from: 'timeline' });
        return { heard, address, shown, inside: mark.top >= box.top && mark.bottom <= box.bottom + 1, asked,
            left: document.querySelectorAll('.picked').length };
    """
    second = ReportTable("b", "B", (Column("name", "N", Unit.TEXT, ["x", "y"]), Column("n", "N", Unit.COUNT, [4, 5])))
    found = opened(tmp_path, page_of(kernels(500), second), script).value
    assert found["heard"] == [[["Kernel_2_2"], "tables"], [["y"], "link"]]
    assert found["address"] == "#view=kernel&row=3"
    assert found["shown"] == ["Kernel_9_300"]
    assert found["asked"] == ["5"]
    assert found["left"] == 0


@pytest.mark.viewer
def test_a_link_opens_the_page_at_its_row_after_a_reload(tmp_path: Path) -> None:
    script = """
        const row = document.querySelector('.picked'), box = row.getBoundingClientRect();
        return { name: row.cells[0].textContent, seen: box.top > 0 && box.bottom < innerHeight,
            address: location.hash };
    """
    above = tuple(ReportTable(f"t{i}", f"T{i}", kernels(15).columns) for i in range(4))
    link = "#view=kernel&table=5&row=4001&t=1.2s-1.3s"
    found = opened(tmp_path, page_of(*above, kernels(MANY)), script, fragment=link).value
    assert found == {"name": "Kernel_23_4000", "seen": True, "address": link}
    nowhere = opened(tmp_path, page_of(kernels(9)), "return 1", fragment="#view=%3Cimg%3E&row=1e99&table=-1&t=x").value
    assert nowhere == 1


@pytest.mark.viewer
@pytest.mark.parametrize("width", [1300, 420])
def test_hostile_names_do_nothing_in_cells_tooltips_menus_and_links(tmp_path: Path, width: int) -> None:
    names = [*ATTACKS, *HOSTILE]
    columns = [Column(f"c{i}", name, Unit.TEXT, names) for i, name in enumerate(ATTACKS[:3])]
    table = ReportTable(ATTACKS[0], ATTACKS[1], (Column("name", "Name", Unit.TEXT, names), *columns))
    report = Report(ATTACKS[1], "0", sections=(Section(ATTACKS[0], ATTACKS[2], (table,)),))
    script = """
        press(0, 'Columns and export');
        press(0, 'Save as CSV');
        const found = { menu: [...sheet().querySelectorAll('.menu label')].map((label) => label.textContent.trim())
            .slice(0, 4) };
        found.cells = await every();
        for (const row of rows()) row.cells[0].click();
        found.images = document.querySelectorAll('img, svg[onload], script:not([type])').length;
        found.titles = rows().flatMap((row) => [...row.cells].map((cell) => cell.title)).filter(Boolean).length;
        found.pwned = window.pwned ?? null;
        found.file = saved[0][0];
        return found;
    """
    found = opened(tmp_path, report, script, width=width).value
    shell = opened(
        tmp_path, Report("t", "0", sections=(Section("v", "V", (table,)),)), "return document.scripts.length"
    )
    assert found["pwned"] is None
    assert found["cells"] == [[shown_name(name), *[shown_name(name) if name else ""] * 3] for name in names]
    assert found["menu"] == ["Name", *(escape_controls(name) for name in ATTACKS[:3])]
    assert found["images"] == shell.value - 1  # the data is no script
    assert found["titles"] > 0
    assert not set(found["file"]) & set("<>/\\:'\"= ")


@pytest.mark.viewer
def test_print_and_a_page_without_a_script_show_the_first_rows(tmp_path: Path) -> None:
    script = """
        dispatchEvent(new Event('beforeprint'));
        const printed = texts().length;
        dispatchEvent(new Event('afterprint'));
        return [printed, texts().length, sheet().querySelector('.space') !== null];
    """
    assert opened(tmp_path, page_of(kernels(500)), script).value[0] == 10


@pytest.mark.viewer
def test_a_chosen_name_shows_its_durations_where_the_page_has_its_events(tmp_path: Path) -> None:
    script = """
        const heard = [];
        tracekit.on('goto', ({ start, end, from }) => heard.push([start, end, from]));
        rows()[1].cells[0].click();
        const without = sheet().querySelector('.durations').hidden;
        tracekit.on('events', ({ names, kinds, reply }) => {
            heard.push([names, kinds]);
            const length = Float64Array.of(9007199254740991, 10, 20);
            reply({ start: Float64Array.of(0, 500, 1000), length, missing: 7 });
        });
        rows()[2].cells[0].click();
        const panel = sheet().querySelector('.durations');
        const found = { without, heard, words: panel.querySelector('p').textContent,
            images: [...panel.querySelectorAll('svg')].map((image) => image.getAttribute('aria-label').slice(0, 9)),
            bars: [...panel.querySelectorAll('svg')].map((image) => image.querySelectorAll('rect').length),
            first: panel.querySelector('rect').textContent, lines: panel.querySelectorAll('line').length,
            marks: [...panel.querySelector('.labels').children].map((each) => each.textContent) };
        panel.querySelectorAll('svg')[1].querySelector('rect').dispatchEvent(new Event('click'));
        rows()[2].cells[0].click();
        found.closed = panel.hidden;
        return found;
    """
    found = opened(tmp_path, page_of(kernels(9)), script).value
    assert found["without"]
    assert found["heard"] == [[["Kernel_2_2"], ["kernel"]], [0, (1 << 53) - 1, "tables"]]
    assert found["words"] == (
        "Kernel_2_2: 3 events in the timeline, 10 ns to 9,007,199,254,740,991 ns, median 20 ns; "
        "7 events of the trace are not in this page"
    )
    assert found["images"] == ["Durations", "Over time"]
    assert found["bars"] == [3, 3]
    assert found["marks"] == ["p50 20 ns", "p95 9,007,199.255 s"]
    assert found["lines"] == 2
    assert found["first"] == "1 from 10 ns to 19 ns"
    assert found["closed"]


@pytest.mark.viewer
def test_long_names_are_short_in_cells_and_whole_everywhere_else(tmp_path: Path) -> None:
    names = [f"void at::native::kernel<4, at::Functor_{op}<float>, at::Array<char*, 3>>(int, at::Array)" for op in "ab"]
    table = ReportTable("t", "T", (Column("name", "Name", Unit.TEXT, names),))
    script = """
        const found = rows().map((row) => [row.cells[0].textContent, row.cells[0].title]);
        type(0, 'functor_b');
        press(0, 'Columns and export');
        press(0, 'Save as CSV');
        return [found, texts().length, await saved[0][1].text()];
    """
    cells, matching, text = opened(tmp_path, page_of(table), script).value
    assert [full for _, full in cells] == names
    assert len({short for short, _ in cells}) == 2
    assert all(len(short) <= 56 for short, _ in cells)
    assert matching == 1
    assert names[1] in text


def named_times(*totals: int | None, **more: list[int]) -> ReportTable:
    names = Column("name", "Name", Unit.TEXT, [f"k{i}" for i in range(len(totals))])
    columns = [Column(name, name, Unit.NS, values) for name, values in more.items()]
    return ReportTable("t", "T", (names, *columns, Column("total", "Total", Unit.NS, list(totals))))


def after_scripts(script: str, scripts: bool) -> str:
    """Return a script that waits for those of the page; without scripts a page has no timers."""
    return f"new Promise((done) => setTimeout(done, 300)).then(() => {script})" if scripts else script


@pytest.mark.viewer
@pytest.mark.parametrize("scripts", [True, False])
def test_bars_reach_from_nothing_to_the_largest_total_and_ratios_to_all(tmp_path: Path, scripts: bool) -> None:
    base = named_times(4000, 1000, None, 0, at=[10**12] * 4)
    table = replace(base, columns=(*base.columns, Column("ratio", "R", Unit.RATIO, [0.5, 0.25, None, 0.0])))
    file = tmp_path / "report.html"
    file.write_bytes(RENDERERS["html"].render(page_of(table), RenderOptions()).encode())
    script = """[...document.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => {
        const style = getComputedStyle(cell);
        return style.backgroundImage === "none" ? 0 : Number(style.getPropertyValue("--w"));
    }))"""
    found = chromium_page(file, script=after_scripts(script, scripts), scripts=scripts)
    assert found.value == [[0, 0, 100, 50], [0, 0, 25, 25], [0, 0, 0, 0], [0, 0, 0, 0]]


POINTS = """
    const places = (cell) => { // the pixel at which the point of a number is, or its end
        const range = document.createRange(), node = cell.firstChild, at = node.data.indexOf(".");
        const text = node.data.trimEnd();
        range.setStart(node, at < 0 ? text.length - 1 : at);
        range.setEnd(node, at < 0 ? text.length : at + 1);
        return Math.round(at < 0 ? range.getBoundingClientRect().right : range.getBoundingClientRect().left);
    };
"""


@pytest.mark.viewer
@pytest.mark.parametrize("scripts", [True, False])
def test_points_of_a_column_are_below_each_other_and_nothing_is_added_to_a_number(
    tmp_path: Path, scripts: bool
) -> None:
    table = named_times(391_204_117, 2_711_917, 0, 339_896, 3_416, 16_000_000, None)
    file = tmp_path / "report.html"
    file.write_bytes(RENDERERS["html"].render(page_of(table), RenderOptions()).encode())
    script = f"""(() => {{ {POINTS}
        const cells = [...document.querySelectorAll("tbody td")];
        return cells.map((cell) => [cell.textContent.trimEnd(), places(cell), cell.title]); }})()"""
    cells = chromium_page(file, script=after_scripts(script, scripts), scripts=scripts).value
    assert [text for text, *_ in cells] == ["391.2", "2.712", "0", "0.3399", "0.003416", "16.00", UNKNOWN]
    known = [place for text, place, _ in cells if text != UNKNOWN]
    assert max(known) - min(known) <= 1
    if scripts:
        assert [title for *_, title in cells][:2] == ["391,204,117 ns", "2,711,917 ns"]


def many_columns(rows: int = 30) -> ReportTable:
    """A table as that of operators with shapes: 29 columns, the last ones of the highest priority number."""
    names = Column("name", "Name", Unit.TEXT, [f"aten::operator_{i}" for i in range(rows)])
    numbers = [Column(f"c{i}", f"CPU column {i}", Unit.NS, [10_007 * i + 7] * rows, priority=i // 4) for i in range(28)]
    return ReportTable("operators", "Operators", (names, *numbers))


COLUMNS_OF = """
    const seen = () => [...sheet().querySelectorAll('thead th')].filter((head) => head.checkVisibility()).length;
    const scroller = sheet().querySelector('.scroll');
    const scrolls = () => scroller.scrollWidth > scroller.clientWidth + 1;
    const buttons = [...sheet().querySelectorAll('.tools button')];
    const others = buttons.find((each) => /more column|Columns that fit/.test(each.textContent));
    const wait = () => new Promise((done) => setTimeout(done, 200));
    await wait();
"""


@pytest.mark.viewer
@pytest.mark.parametrize("width", [1300, 1920])
def test_a_wide_table_shows_the_columns_that_fit_and_all_others_on_demand(tmp_path: Path, width: int) -> None:
    script = f"""{COLUMNS_OF}
        const first = [seen(), scrolls(), others.textContent];
        others.click();
        await wait();
        const all = [seen(), others.textContent];
        others.click();
        await wait();
        return [first, all, [seen(), scrolls(), others.textContent]];
    """
    result = opened(tmp_path, page_of(many_columns()), script, width=width)
    first, all_, again = result.value
    shown = first[0]
    assert 6 <= shown < 29
    assert first == again == [shown, False, f"{29 - shown} more columns"]
    assert all_ == [29, "Columns that fit"]


@pytest.mark.viewer
def test_a_link_to_a_cell_and_a_sorted_column_show_a_column_that_has_no_room(tmp_path: Path) -> None:
    for fragment in ("#view=kernel&row=2&column=c27", "#sort.kernel.1=-c27"):
        script = f"{COLUMNS_OF} return [scrolls(), rows(0)[1].textContent.includes('270.2'), seen()];"
        scrolls, has, seen = opened(tmp_path, page_of(many_columns()), script, fragment=fragment).value
        assert (scrolls, has) == (False, True)
        assert seen < 29


@pytest.mark.viewer
def test_a_file_has_the_columns_for_which_the_window_has_no_room(tmp_path: Path) -> None:
    script = f"""{COLUMNS_OF}
        press(0, 'Columns and export');
        press(0, 'Save as CSV');
        return (await saved[0][1].text()).split("\\r\\n")[0].split(",").length;
    """
    assert opened(tmp_path, page_of(many_columns()), script).value == 2 + 29


@pytest.mark.viewer
def test_numbers_are_beside_names_whatever_the_names_need(tmp_path: Path) -> None:
    short, long = named_times(1, 2), named_times(3, 4)
    names = Column("name", "Name", Unit.TEXT, ["void gemm<float, 128, 64, true>(float const*, int, int)" * 9, "k"])
    script = """
        return [0, 1].map((n) => {
            const [name, number] = rows(n)[0].cells;
            return [number.getBoundingClientRect().left - name.getBoundingClientRect().right,
                name.getBoundingClientRect().width];
        });
    """
    (gap, small), (also, wide_) = opened(
        tmp_path, page_of(short, replace(long, columns=(names, *long.columns[1:]))), script
    ).value
    assert (gap, also) == (0, 0)
    assert small < 100
    assert 200 < wide_ <= 440


def test_a_long_name_is_whole_where_it_comes_first_in_the_html() -> None:
    long = "void at::native::kernel<4, at::Functor_a<float>, at::Array<char*, 3>>(int, at::Array, float const*)"
    tables = [ReportTable(f"t{i}", f"T{i}", (Column("name", "Name", Unit.TEXT, [long, "k"]),)) for i in range(3)]
    text = unescape(RENDERERS["html"].render(page_of(*tables), RenderOptions()))
    cells = re.findall(r"<tr><th>(.*?)(?=<tr>|</table>)", text.replace("<thead><tr><th", ""))
    assert cells[0] == long
    assert len(cells) == 6
    assert {len(cell) <= 52 for cell in cells[1:]} == {True}
