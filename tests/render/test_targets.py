"""What is pressed is at least 24 pixels wide and high: buttons, links of the navigation, inputs, boxes with a label."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import sample
from viewers import chromium_page

import tracekit
from tracekit import pipeline

pytestmark = pytest.mark.viewer

SMALL = """(async () => {
  for (let k = 0; k < 500 && !window.tracekit?.timeline?.ready; k++) await new Promise((done) => setTimeout(done, 10));
  await window.tracekit.timeline.ready;
  for (const it of document.querySelectorAll("details")) it.open = true;
  const small = {}, kinds = {};
  const measure = () => {
    for (const it of document.querySelectorAll("button, summary, select, input, nav a, [role=button], a.card")) {
      if (!it.checkVisibility({ visibilityProperty: true })) continue;
      const box = (it.matches("input[type=checkbox]") ? it.closest("label") ?? it : it).getBoundingClientRect();
      if (!box.width || !box.height) continue;
      kinds[it.matches("[type=checkbox]") ? "checkbox" : it.localName] = true;
      if (box.width < 23.9 || box.height < 23.9) {
        small[`${it.localName} in ${it.parentElement.className}: ${it.textContent.trim()}`] = [box.width, box.height];
      }
    }
  };
  measure();
  // This menu closes the others.
  [...document.querySelectorAll(".tools button")].find((it) => /Columns/.test(it.textContent)).click();
  measure();
  return [Object.keys(kinds).sort(), small];
})()"""


@pytest.mark.parametrize("width", [1300, 420])
@pytest.mark.parametrize("path", ["kineto/cpu.pt.trace.json", "nvprof-csv/gpu-and-api-trace.csv"])
def test_targets_are_large_enough(path: str, width: int, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(pipeline.render(pipeline.report(tracekit.read(sample(path))), "html"), encoding="utf-8")
    kinds, small = chromium_page(page, width=width, script=SMALL).value
    assert {"a", "button", "checkbox", "input", "summary"} <= set(kinds)
    assert small == {}
