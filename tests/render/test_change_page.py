"""The page of a comparison in a browser: what changed between two runs, answered by clicks alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compare_runs import LAYERS, steps, write
from tree_runs import MM, SMALL, Call
from tree_runs import write as write_tree
from viewers import chromium_page

from tracekit import pipeline
from tracekit.comparison import Comparison, compare
from tracekit.render.base import RenderOptions

pytestmark = pytest.mark.viewer

SLOWER = tuple((op, kernel, ns * 3 // 2 if kernel == "gemm_a" else ns, grid) for op, kernel, ns, grid in LAYERS)


def found(folder: Path) -> Comparison:
    new = steps(layers=(*SLOWER, ("aten::adam", "fused_adam", 90_000, 20)), noise=0.002, seed=1)
    return compare(write(folder / "base.parquet", steps(noise=0.002)), write(folder / "new.parquet", new))


def page(folder: Path, comparison: Comparison) -> Path:
    made = folder / "compare.html"
    made.write_text(pipeline.render(comparison.report(), "html", RenderOptions()), encoding="utf-8")
    return made


def rows(comparison: Comparison, table: str) -> list[dict[str, Any]]:
    loaded = json.loads(pipeline.render(comparison.report(), "json", RenderOptions()))
    (of,) = (each for section in loaded["sections"] for each in section["tables"] if each["name"] == table)
    return [dict(zip([column["name"] for column in of["columns"]], row, strict=True)) for row in of["rows"]]


ASK = """(async () => {
  const texts = (row) => [row.querySelector(".part span").textContent, row.querySelector("b").title];
  const sentence = document.querySelector(".sentence").textContent.trim();
  const parts = [...document.querySelectorAll(".waterfall > :is(details, div:not(.total))")];
  const largest = parts[0];
  largest.querySelector("summary").click();
  await new Promise((done) => setTimeout(done, 50));
  const names = [...largest.querySelectorAll("div.row")].filter((row) => row.checkVisibility()).map(texts);
  const table = [...document.querySelectorAll("details.fold")].find((each) => each.querySelector("[data-table]")
    && each.closest("section").textContent.includes("Step time by name"));
  const before = table.querySelector("table").checkVisibility();
  table.querySelector("summary").click();
  await new Promise((done) => setTimeout(done, 300));
  const shown = [...table.querySelectorAll("tbody tr")].filter((row) => row.checkVisibility()).length;
  return { sentence, part: texts(largest.querySelector("summary")), names, before, shown,
    folded: table.querySelector("summary").textContent, only: document.querySelector(".part small").textContent };
})()"""


def test_what_changed_between_two_runs_is_found_by_two_clicks(tmp_path: Path) -> None:
    comparison = found(tmp_path)
    result = chromium_page(page(tmp_path, comparison), script=ASK)
    assert (result.console, result.page_errors, result.requests) == ([], [], [])
    told = result.value
    assert told["sentence"].endswith("most of it in gemm kernels")
    (part,) = (each for each in rows(comparison, "change_parts") if each["part"] == "gemm kernels")
    assert told["part"] == ["gemm kernels", exact(part)]
    of_name = {each["name"]: exact(each) for each in rows(comparison, "step_parts")}
    assert told["names"][0] == ["gemm_a", of_name["gemm_a"]]
    assert told["only"] == "only in NEW"
    assert told["before"] is False
    assert told["shown"] == len(of_name)
    assert told["folded"] == f"{len(of_name)} rows, {len(of_name)} with a difference, 1 only in NEW"


def exact(row: dict[str, Any]) -> str:
    return f"{row['base']:,} ns → {row['new']:,} ns, {row['difference']:+,} ns"


@pytest.mark.parametrize("width", [1300, 420])
def test_verdict_pictures_and_tables_need_no_script_and_fit_the_screen(width: int, tmp_path: Path) -> None:
    script = """(() => {
      const bottom = (one) => document.querySelector(one).getBoundingClientRect().bottom;
      document.querySelector(".waterfall summary").click();
      return [bottom(".sentence"), bottom(".waterfall"), document.querySelectorAll(".intervals .mark").length,
        document.querySelector(".waterfall details").open];
    })()"""
    result = chromium_page(page(tmp_path, found(tmp_path)), width=width, height=800, script=script, scripts=False)
    assert result.overflow_px == 0
    sentence, waterfall, marks, opened = result.value
    assert sentence < 200
    assert waterfall < 800
    assert marks >= 8
    assert opened


def test_states_differ_by_their_shape_and_not_only_by_colour(tmp_path: Path) -> None:
    script = """[...document.querySelectorAll(".intervals tbody tr")]
      .map((row) => [row.className, row.querySelector(".mark").getAttribute("d")])"""
    result = chromium_page(page(tmp_path, found(tmp_path)), script=script)
    shapes = dict(result.value)
    assert {"worse", "same"} <= set(shapes)
    assert len(set(shapes.values())) == len(shapes)
    assert len({tuple(each) for each in result.value}) == len(shapes)


FIND = """(async () => {
  const field = document.querySelector(".contents input");
  field.focus();
  field.value = "fused_adam";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise((done) => setTimeout(done, 400));
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  await new Promise((done) => setTimeout(done, 400));
  const rows = [...document.querySelectorAll("details.fold tbody tr")].filter((row) => row.checkVisibility());
  const row = rows.find((each) => each.textContent.includes("fused_adam"));
  return [location.hash, row?.closest("section").querySelector("h2").textContent, row?.textContent.includes("90")];
})()"""


def test_a_search_unfolds_the_table_of_a_name_and_its_link_leads_there_again(tmp_path: Path) -> None:
    made = page(tmp_path, found(tmp_path))
    result = chromium_page(made, script=FIND)
    assert result.page_errors == []
    hash_, title, has_time = result.value
    assert "view=compare&table=" in hash_
    assert title.startswith("What the step is made of")
    assert has_time
    again = """[...document.querySelectorAll("details.fold tbody tr")].filter((row) => row.checkVisibility())
      .some((row) => row.textContent.includes("fused_adam"))"""
    assert chromium_page(made, script=again, fragment=hash_).value is True


BY_MODULE = """(async () => {
  const wait = () => new Promise((done) => setTimeout(done, 300));
  const figures = [...document.querySelectorAll(".waterfall")];
  const titles = figures.map((each) => each.querySelector("h2").firstChild.textContent.trim());
  const nameOf = (row) => row.querySelector(".part span").textContent;
  const texts = (row) => [nameOf(row), row.querySelector("small")?.textContent ?? "", row.querySelector("b").title];
  const rowsOf = (figure) => [...figure.querySelectorAll(":scope > :is(details, div:not(.total))")];
  const by = (title) => figures[titles.indexOf(title)];
  const parts = { reasons: rowsOf(by("By reason")).map(texts), modules: rowsOf(by("By module")).map(texts) };
  const went = [];
  const go = async (bar) => {
    (bar.closest("a") ?? bar).dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    await wait();
    const row = document.querySelector("tr.picked");
    went.push([row.cells[0].textContent, row.closest("table").getAttribute("aria-label"),
      document.querySelector(".asked")?.textContent ?? "", row.checkVisibility()]);
  };
  await go(rowsOf(by("By module"))[0].querySelector("a rect"));
  const shapes = rowsOf(by("By reason")).find((each) => nameOf(each) === "other shapes");
  shapes.querySelector("summary").click();
  await wait();
  await go(shapes.querySelector(".to a"));
  await go(shapes.querySelectorAll("div.row rect")[0]);
  return { titles, parts, went };
})()"""


def test_bars_of_the_change_by_module_lead_to_their_rows_and_reasons_to_their_cells(tmp_path: Path) -> None:
    base: list[Call] = [(MM, "gemm_bf16_s16816", 200_000, f"Block_0/Linear_{n}") for n in range(4)]
    new: list[Call] = [
        *(base[0], base[0], base[1]),
        (SMALL, "gemm_bf16_s16816", 50_000, "Block_0/Linear_2"),
        (MM, "gemm_bf16_s16816", 210_000, "Block_0/Linear_3"),
    ]
    files = write_tree(tmp_path / "base.json", base), write_tree(tmp_path / "new.json", new)
    comparison = compare(*files, by="module")
    result = chromium_page(page(tmp_path, comparison), script=BY_MODULE)
    assert (result.console, result.page_errors, result.requests, result.overflow_px) == ([], [], [], 0)
    told = result.value
    assert told["titles"] == ["Where the change is", "By reason", "By module"]
    total = {row["name"]: row for row in rows(comparison, "module_change")}
    for label, _, title in told["parts"]["modules"][:3]:
        assert title == exact(total[label])
    shown = {label: (remark, title) for label, remark, title in told["parts"]["modules"]}
    assert shown["Block_0/Linear_0"][0] == "more calls"  # one reason needs no bar of its own
    assert shown["Block_0/Linear_2"][0] == ""
    reasons = {row["part"]: row["difference"] for row in rows(comparison, "change_reasons") if row["difference"]}
    assert {label: title for label, _, title in told["parts"]["reasons"]} == {
        part: f"{ns:+,} ns" for part, ns in reasons.items()
    }
    assert told["went"][0] == ["Block_0/Linear_0", "Change by module", "", True]
    assert told["went"][1] == ["other shapes", "What changed", "", True]
    assert told["went"][2][:2] == ["Block_0/Linear_2", "Change by module"]
    assert told["went"][2][2].startswith("-175")
