"""page.js: the bus, the link in the address, texts of numbers, and names of saved files."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import pytest
from render.reports import HOSTILE, sample
from viewers import chromium_page

from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions

pytestmark = pytest.mark.viewer


def run(tmp_path: Path, script: str) -> Any:
    file = tmp_path / "report.html"
    file.write_bytes(RENDERERS["html"].render(sample(), RenderOptions()).encode())
    found = chromium_page(file, script=f"(async () => {{ {script} }})()")
    assert (found.page_errors, found.requests) == ([], [])
    return found.value


def test_texts_of_times_are_rounded_half_to_even_and_lose_no_digit(tmp_path: Path) -> None:
    def span(ns: int) -> str:
        unit, exponent = next(((u, e) for u, e in (("s", 9), ("ms", 6), ("us", 3)) if abs(ns) >= 10**e), ("ns", 0))
        shown = Decimal(ns).scaleb(-exponent).quantize(Decimal("0.001") if exponent else Decimal(1), ROUND_HALF_EVEN)
        return f"{shown:,} {unit}"

    values = [0, 1, 999, 1000, 1499, 12_345_500, 12_344_500, 999_999_500, 10**9, 684_372_939, 9_007_199_254_740_993]
    values += [-value for value in values if value]
    texts = json.dumps([str(value) for value in values])
    found = run(tmp_path, f"return {texts}.map((v) => [tracekit.span(v), tracekit.exact(v), tracekit.count(v)])")
    assert found == [[span(v), f"{v:,} ns", f"{v:,}"] for v in values]


def test_the_link_keeps_other_keys_and_says_what_changed(tmp_path: Path) -> None:
    script = """
        const heard = [];
        tracekit.on("link", () => { throw new Error("one listener fails"); });
        tracekit.on("link", ({ key, value }) => heard.push([key, value]));
        console.error = () => {};
        tracekit.link.set("view", "a&b=c#d");
        tracekit.link.set("row", 3);
        tracekit.link.set("row", "3");
        tracekit.link.set("row", null);
        const view = tracekit.link.get("view");
        location.hash = "#view=kernel&t=1.2s-1.3s";
        await new Promise((done) => setTimeout(done, 50));
        return [heard, view, tracekit.link.get("row"), tracekit.link.get("t")];
    """
    heard, view, row, window = run(tmp_path, script)
    assert heard == [["view", "a&b=c#d"], ["row", "3"], ["row", None], ["view", "kernel"], ["t", "1.2s-1.3s"]]
    assert (view, row, window) == ("a&b=c#d", None, "1.2s-1.3s")


def test_names_of_saved_files_are_no_paths_no_devices_and_nothing_hidden(tmp_path: Path) -> None:
    names = [*HOSTILE, "../../etc/passwd", "C:\\x\\y.csv", "con.csv", "LPT1", "...", ".bashrc", "kernel.csv",
             "核心.json", "a/b\0c.tar.gz", "k" * 5000 + ".csv", "</script>.html", "x. .csv"]  # fmt: skip
    safe = [name.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for name in names]
    found = run(tmp_path, f"return {json.dumps(safe)}.map(tracekit.fileName)")
    for name in found:
        assert name
        assert len(name) <= 90
        assert not name.startswith(".")
        assert not name.endswith(".")
        assert not set(name) & set('/\\:*?"<>|\0 \n\u202e\u200b')
        assert ".." not in name
    after = dict(zip(safe, found, strict=True))
    assert after["con.csv"] == "con_.csv"
    assert after["LPT1"] == "LPT1_"
    assert after["kernel.csv"] == "kernel.csv"
    assert after["核心.json"] == "核心.json"
    assert after["..."] == "tracekit"
