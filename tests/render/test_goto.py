"""From a finding to its events and cells: by the card of the first screen, by its button, by a link after a reload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import sample
from viewers import chromium_page

from tracekit import pipeline

pytestmark = pytest.mark.viewer

HELP = """
    await tracekit.timeline.ready;
    const until = async (is) => {
        for (let i = 0; !is(); i++) {
            if (i > 2000) throw new Error(`never: ${is}`);
            await new Promise((done) => setTimeout(done, 20));
        }
    };
    await until(() => document.documentElement.classList.contains("tables"));
    const picked = () => [...document.querySelectorAll("tr.picked")].map((row) =>
        [row.closest("section").id, row.querySelector("th").textContent.trim()]);
    const rest = async () => { for (let i = 0; i < 30; i++) await new Promise(requestAnimationFrame); };
    const window_ = () => { const { t0, t1 } = tracekit.timeline.view; return [t0, t1]; };
    const found = () => ({ picked: picked(), marked: tracekit.timeline.marked?.total ?? 0, window: window_(),
        selected: tracekit.timeline.selected, focus: document.activeElement.id, hash: location.hash });
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("goto") / "report.html"
    pipeline.write_report(pipeline.read(sample("kineto/gpu.pt.trace.json")), made)
    return made


def opened(page: Path, script: str, fragment: str = "") -> Any:
    seen = chromium_page(page, script=f"(async () => {{ {HELP} {script} }})()", fragment=fragment)
    assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
    return seen.value


def test_a_card_marks_the_events_and_cells_of_its_finding_and_the_link_holds_after_a_reload(page: Path) -> None:
    script = """
        const card = document.querySelector("a.card[href]"); // a link: Enter acts as a click on it
        card.click();
        await until(() => location.hash.includes("mark="));
        await rest();
        return found();
    """
    seen = opened(page, script)
    assert seen["marked"] == 7
    assert ["api", "cudaStreamCreateWithFlags"] in seen["picked"]
    assert seen["focus"] == "findings-1"
    assert "view=findings&row=1" in seen["hash"]
    assert "mark=0" in seen["hash"]
    again = opened(page, "await rest(); return found();", fragment=seen["hash"])
    assert again["hash"].startswith(seen["hash"])
    assert again["marked"] == seen["marked"]
    assert "findings" in [section for section, _ in again["picked"]]


def test_the_button_of_a_finding_and_the_links_of_its_evidence_keep_the_window(page: Path) -> None:
    script = """
        document.querySelector("[data-finding]").click();
        await rest();
        const button = found();
        tracekit.timeline.show(1000, 2000);
        await until(() => location.hash.includes("t="));
        const before = window_();
        document.querySelector('.finding a[href^="#view="]').click();
        await rest();
        return [button, before, found()];
    """
    button, before, after = opened(page, script)
    assert button["marked"] > 0
    assert ["api", "cudaStreamCreateWithFlags"] in button["picked"]
    assert after["window"] == before
    assert "view=api" in after["hash"]
    assert "t=" in after["hash"]
    assert after["picked"] == [["api", "cudaStreamCreateWithFlags"]]
