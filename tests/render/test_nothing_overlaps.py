"""What a page shows can be read: no text lies on another, none is squeezed beside empty space, marks have a colour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_trees import Here, put
from support import sample
from viewers import chromium_page, one_browser

from tracekit import batch, pipeline

pytestmark = pytest.mark.viewer

_OVERLAPS = """(() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const of = (e) => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return range.getBoundingClientRect();
  };
  const found = [];
  for (const heading of document.querySelectorAll("h2, h3")) {
    const tools = heading.nextElementSibling?.querySelector?.(".tools");
    if (!tools || !tools.getClientRects().length || !heading.getClientRects().length) continue;
    const a = of(heading), b = tools.getBoundingClientRect();
    const beside = a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
    if (!beside) found.push(heading.textContent);
  }
  return [document.querySelectorAll(".sheet > .tools").length, found];
})()"""


@pytest.fixture(scope="module", autouse=True)
def _browser() -> Iterator[None]:
    with one_browser():
        yield


@pytest.mark.parametrize("name", ["theano/theano-1.0.5.txt", "caffe-time/gpu.log", "kineto/gpu.pt.trace.json"])
@pytest.mark.parametrize("width", [420, 700, 1300])
def test_no_title_of_a_table_lies_below_its_tools(name: str, width: int, tmp_path: Path) -> None:
    made = tmp_path / "page.html"
    pipeline.write_report(pipeline.read(sample(name)), made)
    sheets, overlapping = chromium_page(made, width=width, script=_OVERLAPS).value
    assert sheets > 0
    assert overlapping == []


@pytest.mark.parametrize("name", ["ncu/details.csv", "torch-memory/two-gpus.pickle"])
@pytest.mark.parametrize("width", [420, 1000, 1300])
def test_no_name_on_the_first_screen_is_squeezed_by_its_numbers(name: str, width: int, tmp_path: Path) -> None:
    made = tmp_path / "page.html"
    pipeline.write_report(pipeline.read(sample(name)), made)
    script = """[...document.querySelectorAll(".most li > span")].map((e) => [e.textContent, e.clientHeight])"""
    names = chromium_page(made, width=width, script=script).value
    assert names
    assert [text for text, height in names if height > 45] == []  # two lines at most


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_of_a_batch_have_the_colour_of_the_other_marks(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "LocalEngine", Here)
    data = sample("recorder-log/rank0.jsonl").read_bytes()
    for number in range(3):
        put(tmp_path / "tree" / f"night-{number}" / "rank0.jsonl", data, number)
    page = batch.run([tmp_path / "tree"], tmp_path / "out", jobs=1, budgets=["step_p50 <= 1us"]).page
    script = """(() => {
      const fill = (s) => [...document.querySelectorAll(s)].map((e) => getComputedStyle(e).fill);
      return [fill(".chart rect"), fill(".spark circle:not(.last)")];
    })()"""
    bars, points = chromium_page(page, scheme=scheme, script=script).value
    assert bars
    assert "rgb(0, 0, 0)" not in bars
    assert set(points) <= set(bars)
