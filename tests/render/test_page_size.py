"""The size of a page: what it carries besides its data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import TEMPLATES, sample
from viewers import chromium_page

import tracekit
from tracekit import pipeline
from tracekit.render.page import shell

SMALL = 150_000
"""Bytes of the page of a small trace with a timeline, a flame graph and tables."""


@pytest.mark.parametrize(
    "path",
    [
        "nvprof-csv/gpu-and-api-trace.csv",
        "nvprof-text/gpu-trace.txt",
        "recorder-log/rank0.jsonl",
        "theano/theano-1.0.5.txt",
    ],
)
def test_the_page_of_a_small_trace_is_small(path: str) -> None:
    page = pipeline.render(pipeline.report(tracekit.read([sample(path)])), "html")
    assert len(page.encode()) <= SMALL


@pytest.mark.viewer
def test_lean_styles_have_the_rules_of_their_source(tmp_path: Path) -> None:
    styles = {name: text for name, text in shell.assets().items() if name.endswith(".css")}
    pairs = [((TEMPLATES / name).read_text(encoding="utf-8"), lean) for name, lean in styles.items()]
    page = tmp_path / "empty.html"
    page.write_text("<!doctype html><title>t</title>", encoding="utf-8")
    rules = """(text) => {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(text);
        return [...sheet.cssRules].map((rule) => rule.cssText.replaceAll(', ', ','));
    }"""
    found = chromium_page(page, script=f"{json.dumps(pairs)}.map((pair) => pair.map({rules}))").value
    assert len(found) == len(styles) > 5
    for source, lean in found:
        assert len(source) > 1
        assert lean == source
