"""Tables whose data are their cells (the index of a batch, the ledger of several inputs), in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from render.reports import ledger, sample
from viewers import chromium_page

from tracekit.model.report import Column, Report, ReportTable
from tracekit.model.units import Unit
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page import batch_page
from tracekit.render.page.batch_page import BatchPage, Link

pytestmark = pytest.mark.viewer

BIG = (1 << 62) + 1
HELP = """
    const at = (name) => document.querySelector(`.sheet[data-name="${name}"]`);
    const rows = (name) => [...at(name).querySelectorAll("tbody tr:not(.space, .sizer)")];
    const texts = (name) => rows(name).map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
    const column = (name, title) =>
        [...at(name).querySelectorAll("thead button")].find((b) => b.textContent.startsWith(title));
    const links = (row) => [...row.querySelectorAll("a")].map((a) => a.getAttribute("href"));
    const exported = async (name, label) => {
        at(name).querySelector("[aria-controls]").click();
        let found;
        const make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { found = blob; return make(blob); };
        [...at(name).querySelectorAll(".menu button")].find((b) => b.textContent === label).click();
        return (await found.text()).split("\\r\\n");
    };
"""


def opened(file: Path, script: str, fragment: str = "") -> Any:
    seen = chromium_page(file, script=f"(async () => {{ {HELP} {script} }})()", fragment=fragment)
    assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
    return seen.value


def index(folder: Path, count: int) -> Path:
    """A page over many runs; the first run has times that floats cannot tell from those of the second."""
    steps = [BIG, BIG + 1, *(1000 * (i * 7 % count) for i in range(2, count))]
    page = BatchPage(
        title="nightly",
        version="0.0.0",
        facts=(),
        runs=ReportTable(
            "runs",
            "Runs",
            (
                Column("run", "Run", Unit.TEXT, [f"run-{i}" for i in range(count)]),
                Column("status", "Status", Unit.TEXT, [("done", "partial")[i % 2] for i in range(count)]),
                Column("step", "Step", Unit.NS, steps),
                Column("idle", "Idle", Unit.RATIO, [None if i == 3 else i / count for i in range(count)]),
            ),
        ),
        run_links=[f"runs/{i}/report.html" if i else None for i in range(count)],
        files=[(Link("report", "r.html"), Link("trace", "t.json")) for _ in range(count)],
        failures=ReportTable("failures", "What to look at, and why", ()),
        failure_links=[],
    )
    file = folder / "index.html"
    file.write_bytes(batch_page.render(page, RenderOptions()).encode())
    return file


def test_many_runs_are_sorted_exactly_filtered_and_keep_their_links(tmp_path: Path) -> None:
    script = """
        const found = { status: at("runs").querySelector("[role=status]").textContent, here: rows("runs").length };
        column("runs", "Step").click();
        found.top = texts("runs").slice(0, 2).map((row) => row[0]);
        found.links = rows("runs").slice(0, 2).map(links);
        const filter = at("runs").querySelector("input[type=search]");
        filter.value = "run-17";
        filter.dispatchEvent(new Event("input"));
        found.filtered = texts("runs");
        filter.value = "";
        filter.dispatchEvent(new Event("input"));
        column("runs", "Idle").click();
        column("runs", "Idle").click();
        found.unknown = (at("runs").querySelector(".scroll").scrollTop = 1e9, await new Promise(requestAnimationFrame),
            await new Promise(requestAnimationFrame), texts("runs").at(-1)[0]);
        return found;
    """
    found = opened(index(tmp_path, 300), script)
    assert found["status"] == "300 rows"
    assert found["here"] < 100  # those in sight
    assert found["top"] == ["run-1", "run-0"]
    assert found["links"] == [["runs/1/report.html", "r.html", "t.json"], ["r.html", "t.json"]]
    assert {row[0] for row in found["filtered"]} == {"run-17", *(f"run-17{i}" for i in range(10))}
    assert found["unknown"] == "run-3"


def test_runs_are_saved_with_exact_numbers(tmp_path: Path) -> None:
    lines = opened(index(tmp_path, 4), 'return await exported("runs", "Save as CSV")')
    assert lines[0] == "view,table,run,status,step_ns,idle,files"
    assert lines[1] == f"runs,runs,run-0,done,{BIG},0,report trace"
    assert lines[2] == f"runs,runs,run-1,partial,{BIG + 1},0.25,report trace"
    assert lines[4].split(",")[5] == ""


def test_a_row_is_chosen_by_a_link_and_a_name_opened_by_the_keyboard(tmp_path: Path) -> None:
    script = """
        const picked = rows("runs").filter((row) => row.classList.contains("picked"));
        const chosen = picked.map((row) => row.cells[0].textContent);
        const went = [];
        document.addEventListener("click", (event) => {
            if (event.target.closest("a")) { went.push(event.target.getAttribute("href")); event.preventDefault(); }
        });
        const cell = rows("runs")[2].cells[0];
        cell.focus();
        cell.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
        cell.querySelector("a").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
        return [chosen, went, location.hash];
    """
    found = opened(index(tmp_path, 5), script, fragment="#view=runs&row=2")
    assert found == [["run-1"], ["runs/2/report.html"] * 2, "#view=runs&row=2"]


def test_the_records_of_several_inputs_are_a_table_like_any_other(tmp_path: Path) -> None:
    made = sample()
    ledgers = (*made.ledgers, ledger("b.csv", read=9_007_199_254_740_993, kept=3, dropped={"torn-row": 4}))
    text = RENDERERS["html"].render(Report("t", "0", made.facts, (), ledgers), RenderOptions())
    file = tmp_path / "report.html"
    file.write_bytes(text.encode())
    script = """
        column("ledger", "Read").click();
        return [texts("ledger").map((row) => row.slice(0, 3)), (await exported("ledger", "Save as CSV"))[1]];
    """
    found, line = opened(file, script)
    assert found == [["b.csv", "nvprof-csv", "9,007,199,254,740,993"], ["run.csv", "nvprof-csv", "76"]]
    assert line.startswith("ledger,ledger,b.csv,nvprof-csv,9007199254740993,3,")
