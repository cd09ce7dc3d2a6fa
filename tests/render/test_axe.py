"""Pages for all who read: no violation of axe-core's rules, in both schemes, on a wide and a narrow screen."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from batch_trees import Here, put
from compare_runs import repeats
from support import sample
from viewers import chromium_page, missing

from tracekit import batch, pipeline
from tracekit.comparison import compare, report_of

RUN = """(() => { %s;
  const told = (each) => [each.id, each.help, each.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))];
  return axe.run(document, { resultTypes: ["violations"] }).then((found) => found.violations.map(told)); })()"""
WAIT = (
    "(window.tracekit?.timeline?.ready ?? Promise.resolve()).then(() => new Promise((done) => setTimeout(done, 300)))"
)


def axe() -> str:
    """Return the text of axe-core, which the wheel of axe-core-python carries."""
    found = importlib.util.find_spec("axe_core_python")
    if found is None or found.origin is None:
        missing("axe-core-python", "its wheel carries axe-core")
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def report(folder: Path) -> Path:
    made = folder / "report.html"
    pipeline.write_report(pipeline.read(sample("kineto/gpu.pt.trace.json")), made)
    return made


def totals(folder: Path) -> Path:
    made = folder / "totals.html"
    pipeline.write_report(pipeline.read(sample("theano/theano-1.0.5.txt")), made)
    return made


def metrics(folder: Path) -> Path:
    made = folder / "metrics.html"
    pipeline.write_report(pipeline.read(sample("ncu/details.csv")), made)
    return made


def comparison(folder: Path) -> Path:
    made = folder / "compare.html"
    found = compare(repeats(folder / "a", 3), repeats(folder / "b", 3, effect=0.2, seed=9))
    made.write_text(pipeline.render(report_of(found), "html"), encoding="utf-8")
    return made


def index(folder: Path) -> Path:
    data = sample("recorder-log/rank0.jsonl").read_bytes()
    for number, cut in enumerate((0, 0, 40)):
        put(folder / "tree" / f"night-{number}" / "rank0.jsonl", data[: len(data) - cut], number)
    return batch.run([folder / "tree"], folder / "out", jobs=1, budgets=["step_p50 <= 1us"]).page


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], Path]], Path]:
    """Make a page once for all widths and schemes."""

    @functools.cache
    def page(make: Callable[[Path], Path]) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch, "LocalEngine", Here)
            return make(tmp_path_factory.mktemp(make.__name__))

    return page


@pytest.mark.viewer
@pytest.mark.parametrize("make", [report, totals, metrics, comparison, index])
@pytest.mark.parametrize(("width", "scheme"), [(1300, "light"), (420, "dark")])
def test_a_page_breaks_no_rule(
    make: Callable[[Path], Path], width: int, scheme: str, made: Callable[[Callable[[Path], Path]], Path]
) -> None:
    script = f"{WAIT}.then(() => {RUN % axe()})"
    seen = chromium_page(made(make), width=width, scheme=scheme, script=script)
    assert seen.value == [], json.dumps(seen.value, indent=1)
    assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
