"""The first screen of the page: above the fold at both widths, with the numbers of the JSON, whatever the input."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import run_command, sample
from viewers import chromium_page, one_browser
from views.tables import trace as trace_of

import tracekit
from tracekit import pipeline
from tracekit.model.display import escape_controls
from tracekit.model.report import Report
from tracekit.model.units import percent, sentence_span

pytestmark = pytest.mark.viewer

FOLD = 800
NAMES_FOLD = 820
"""With several devices and lanes that are left out, the heading of the names is just below."""
_HOSTILE = "</script><img src=x onerror='window.pwned=1'>\u202e" + "void a<b<c>>::" * 40
INPUTS: dict[str, tuple[str, ...]] = {
    "kineto": ("kineto/gpu.pt.trace.json",),
    "nvprof": ("nvprof-csv/peer-copies.csv",),
    "nsys": ("nsys-sqlite/two-processes.sqlite",),
    "paddle": ("paddle-pb/gpu.paddle_trace.pb",),
    "recorder": ("recorder-log/killed.jsonl",),
    "chrome": ("chrome-trace/viztracer.json",),
    "mxnet": ("mxnet/mxnet-1.9.1.json",),
    "cuda-profile": ("cuda-profile/kvp.log",),
    "totals": ("caffe-time/gpu.log",),
    "ranks": ("recorder-log/rank0.jsonl", "recorder-log/rank1.jsonl"),
    "counters": ("nvprof-csv/metrics.csv",),
    "hostile": (),
}

_SEEN = """(() => {
  const box = (e) => e.getBoundingClientRect(), all = (s) => [...document.querySelectorAll(s)];
  const texts = (s) => all(s).map((e) => e.textContent.trim());
  const bottom = (s) => { const found = all(s)[0]; return found ? Math.ceil(box(found).bottom) : null; };
  const first = "#first-screen ";
  return {
    sentence: texts(".sentence"), big: texts(".value"), fixes: texts(".fixes > li"), names: texts(".most > li > span"),
    bottoms: [".sentence", ".value", ".share", ".fixes > li", ".most > li"].map((s) => bottom(first + s)),
    links: all("a.card").map((e) => e.getAttribute("href")),
    parts: all(first + "li[data-part]")
      .map((e) => [e.dataset.part, e.querySelector("b").textContent, e.dataset.ns]),
    bars: all(".ice").map((ice) => [box(ice).width, ...[...ice.children].map((e) => box(e).width)]),
    levels: all(".pieces").map((e) => [box(e.parentElement).width, ...[...e.children].map((i) => box(i).width)]),
    cut: all(first + "*:not(:has(*), .ice *)")
      .filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflow !== "visible")
      .map((e) => e.className || e.tagName),
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    pwned: "pwned" in window,
  };
})()"""


@pytest.fixture(scope="module", autouse=True)
def browser() -> Iterator[None]:
    with one_browser():
        yield


@functools.cache
def made(name: str) -> Report:
    if name != "hostile":
        return pipeline.report(tracekit.read([sample(each) for each in INPUTS[name]]))
    rows: list[dict[str, Any]] = [
        {"ts_ns": 900 * i, "dur_ns": 700, "kind": "kernel", "name": f"{_HOSTILE}{i % 4}", "device": i % 3, "stream": 7}
        for i in range(40)
    ]
    return pipeline.report(trace_of(*rows))


@pytest.mark.parametrize("width", [1300, 420])
@pytest.mark.parametrize("name", INPUTS)
def test_the_sentence_the_bar_and_what_to_do_are_there(name: str, width: int, tmp_path: Path) -> None:
    report = made(name)
    path = tmp_path / "page.html"
    path.write_text(pipeline.render(report, "html"), encoding="utf-8")
    page = chromium_page(path, width=width, height=FOLD, script=_SEEN)
    assert (page.console, page.page_errors, page.requests) == ([], [], [])
    seen = page.value
    assert (seen["wide"], seen["pwned"], seen["cut"]) == (0, False, [])
    headline = report.headline
    assert headline is not None
    assert headline.opening is not None
    assert seen["sentence"] == [" ".join(escape_controls(headline.opening.sentence).split())]
    assert len(seen["big"]) == 1
    sentence, big, bar, fix, names = seen["bottoms"]
    if width == 1300:
        assert max(found for found in (sentence, big, bar, fix) if found is not None) <= FOLD
        assert names is None or names <= NAMES_FOLD
    else:
        assert max(sentence, big) <= FOLD
    if headline.step is not None:
        assert sentence_span(headline.step.median_ns) in seen["big"][0]
    bars = headline.devices[:4]
    if bars:
        whole = [bar.window_ns for bar in bars for part in bar.parts if part.ns]
        parts = [part for bar in bars for part in bar.parts if part.ns]
        assert seen["parts"] == [
            [part.name, f"{percent(part.ns, of)} %", f"{part.ns:,} ns"] for part, of in zip(parts, whole, strict=True)
        ]
    elif headline.top is not None and seen["parts"]:
        assert seen["parts"][0][2] == f"{headline.top.names[0].ns:,} ns"
    for whole_width, *widths in (*seen["bars"], *seen["levels"]):
        assert sum(widths) <= whole_width + 0.1
        assert sum(widths) >= whole_width - max(1, len(widths) * 0.5, 0.01 * whole_width)
    for number, (finding, text) in enumerate(zip(headline.findings, seen["fixes"], strict=True), 1):
        assert finding.rule in text
        assert " ".join(escape_controls(finding.advice).split()) in " ".join(text.split())
        assert seen["links"][number - 1] == f"#findings-{number}"
        assert f'id="findings-{number}"' in page.html
    if headline.top is not None:
        assert seen["names"]


READY = "tracekit.timeline.ready"
_LANES = f"""{READY}.then(() => new Promise((done) => setTimeout(done, 300))).then(() => {{
  const canvas = document.querySelector("#lanes canvas"), c = canvas.getContext("2d");
  const pixels = c.getImageData(Math.round(124 * devicePixelRatio), 0, canvas.width - 130, canvas.height).data;
  const seen = new Set();
  for (let i = 3; i < pixels.length; i += 4) if (pixels[i]) seen.add(i);
  return {{
    bottom: Math.ceil(canvas.getBoundingClientRect().top + 43), // the first lane
    drawn: seen.size, said: canvas.getAttribute("aria-label"),
  }};
}})"""

FIVE = {
    "training": ("kineto/gpu.pt.trace.json",),
    "nsys": ("nsys-sqlite/two-processes.sqlite",),
    "two ranks": ("recorder-log/rank0.jsonl", "recorder-log/rank1.jsonl"),
    "recorder": ("recorder-log/killed.jsonl",),
    "inference": (),
}


def requests() -> list[dict[str, Any]]:
    """Return a server that takes a request every 20 ms and answers it with ten kernels of 200 us."""
    rows: list[dict[str, Any]] = []
    for request in range(20):
        start = request * 20_000_000
        about = {"pid": 1, "tid": 1, "device": 0}
        rows.append({"kind": "operator", "name": "forward", "ts_ns": start, "dur_ns": 4_000_000, "pid": 1, "tid": 1})
        for number in range(10):
            at, key = start + number * 300_000, request * 10 + number + 1
            rows.append({"kind": "runtime", "name": "cudaLaunchKernel", "ts_ns": at, "dur_ns": 5000, "correlation": key}
                        | {"pid": 1, "tid": 1})  # fmt: skip
            rows.append({"kind": "kernel", "name": f"gemm_{number}", "ts_ns": at + 10_000, "dur_ns": 200_000}
                        | about | {"stream": 7, "correlation": key})  # fmt: skip
    return rows


@pytest.mark.parametrize("name", FIVE)
def test_on_a_screen_of_1300_x_800_the_answer_is_seen_at_once(name: str, tmp_path: Path) -> None:
    trace = tracekit.read([sample(each) for each in FIVE[name]]) if FIVE[name] else trace_of(*requests())
    path = tmp_path / "page.html"
    path.write_text(pipeline.render(pipeline.report(trace), "html"), encoding="utf-8")
    seen = chromium_page(path, width=1300, height=FOLD, script=_SEEN).value
    sentence, _, bar, fix, names = seen["bottoms"]
    assert None not in (sentence, bar, names)
    assert max(found for found in (sentence, bar, fix) if found is not None) <= FOLD
    assert names <= NAMES_FOLD
    lanes = chromium_page(path, width=1300, height=FOLD, script=_LANES).value
    assert lanes["bottom"] <= FOLD
    assert lanes["drawn"] > 100
    assert re.search(r": busy [1-9]\d* %", lanes["said"])


def test_a_click_on_a_piece_filters_the_tables_of_its_view_and_marks_its_events(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for number in range(20):
        at, name = 1_000_000 * number, "aten::slow" if number % 2 else "aten::other"
        rows += [
            {"ts_ns": at, "dur_ns": 900_000, "kind": "operator", "name": name, "tid": 1, "pid": 1},
            {"ts_ns": at + 800_000, "dur_ns": 5_000, "kind": "runtime", "name": "launch", "tid": 1, "pid": 1}
            | {"correlation": number},
            {"ts_ns": at + 810_000, "dur_ns": 100_000, "kind": "kernel", "name": "sgemm", "pid": 1, "device": 0}
            | {"stream": 7, "correlation": number},
        ]  # fmt: skip
    path = tmp_path / "page.html"
    path.write_text(pipeline.render(pipeline.report(trace_of(*rows)), "html"), encoding="utf-8")
    script = f"""{READY}.then(async () => {{
      const rest = () => new Promise((done) => setTimeout(done, 300));
      const shown = () => [...document.querySelectorAll("#idle tbody tr:not(.space)")].map((e) => e.innerText);
      await rest();
      const block = document.querySelector('.ice a[data-name="aten::slow"]');
      const before = shown().length;
      block.click();
      await rest();
      const one = [shown(), location.hash, tracekit.timeline.marked?.total];
      document.querySelector(".block.idle > a.part").click();
      await rest();
      return [before, ...one, shown().length];
    }})"""
    before, filtered, address, marked, after = chromium_page(path, script=script).value
    assert before == after > len(filtered) > 0
    assert all("aten::slow" in row or "synchronization" in row or "host late" in row for row in filtered)
    assert any("aten::slow" in row for row in filtered)
    assert "view=idle" in address
    assert "filter.idle" in address
    assert marked == 10


def test_the_page_has_the_headline_of_the_json(tmp_path: Path) -> None:
    path = sample("kineto/gpu.pt.trace.json")
    found = json.loads(run_command("summary", path, "--format", "json").stdout)["headline"]
    run_command("report", path, "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    for part in found["devices"][0]["parts"]:
        assert not part["ns"] or re.search(f'data-part="{part["name"]}" data-ns="{part["ns"]:,} ns"', text)
    again = json.loads(run_command("summary", tmp_path / "page.html", "--format", "json").stdout)
    assert again["headline"] == found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_idle_is_told_from_work_without_colour(scheme: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(pipeline.render(pipeline.report(tracekit.read(sample("kineto/gpu.pt.trace.json"))), "html"))
    look = """[...document.querySelectorAll("#first-screen .part, #first-screen .legend i, .bar i, .parts .legend i")]
      .map((it) => [it, getComputedStyle(it)])
      .map(([it, style]) => [
        Boolean(it.closest(".idle") || it.style.background === "var(--idle)"),
        style.backgroundImage.startsWith("repeating-linear-gradient") && style.boxShadow.includes("inset"),
      ])"""
    seen = chromium_page(page, script=look, scheme=scheme).value
    assert {True, False} == {idle for idle, _ in seen}
    assert all(idle == hatched for idle, hatched in seen)


def a_step_of_kernels(tmp_path: Path, *kernels: tuple[str, int]) -> Path:
    """Write the page of a step in which these kernels run one after the other."""
    rows: list[dict[str, object]] = []
    at = 1_000
    for number, (name, ns) in enumerate(kernels):
        rows.append({"ts_ns": at, "dur_ns": ns, "kind": "kernel", "name": name, "device": 0, "stream": 7}
                    | {"correlation": number, "pid": 1})  # fmt: skip
        at += ns
    rows.append({"ts_ns": 1_000, "dur_ns": at - 1_000, "kind": "step", "step": 1, "name": "step 1", "pid": 1, "tid": 1})
    path = tmp_path / "page.html"
    path.write_text(pipeline.render(pipeline.report(trace_of(*rows)), "html"), encoding="utf-8")
    return path


KERNELS = (
    ("ampere_sgemm_128x64_nn", 400_000),
    ("elementwise_add_kernel", 300_000),
    ("cutlass_gemm_f16", 100_000),
    ("reduce_kernel<512>", 90_000),
)


def test_a_click_on_a_class_of_kernels_filters_their_table_by_the_class_and_marks_them(tmp_path: Path) -> None:
    script = f"""{READY}.then(async () => {{
      const rest = () => new Promise((done) => setTimeout(done, 400));
      const shown = () => [...document.querySelectorAll("#kernel tbody tr:not(.space, .sizer)")]
        .map((row) => row.querySelector("th").innerText);
      await rest();
      const found = [];
      for (const name of ["gemm", "elementwise"]) {{
        document.querySelector(`.ice a[data-name="${{name}}"]`).click();
        await rest();
        found.push([shown(), tracekit.timeline.marked?.total, document.querySelector("#kernel .tools input").value]);
      }}
      return [found, document.querySelector("#kernel .tools span").innerText];
    }})"""
    result = chromium_page(a_step_of_kernels(tmp_path, *KERNELS), script=script)
    assert (result.console, result.page_errors) == ([], [])
    found, status = result.value
    assert found == [
        [["ampere_sgemm_128x64_nn", "cutlass_gemm_f16"], 2, "class:gemm"],
        [["elementwise_add_kernel"], 1, "class:elementwise"],
    ]
    assert status.startswith("1 of 4 rows shown")


def test_bars_of_the_kernels_with_most_time_have_the_colour_of_their_family(tmp_path: Path) -> None:
    script = """[...document.querySelectorAll(".most[data-view=kernel] li")].map((row) => [
      row.querySelector("span").innerText, row.querySelector("i b").style.getPropertyValue("--c"), row.title])"""
    bar = """(name) => document.querySelector(`.ice [data-name="${name}"]`).style.getPropertyValue("--c")"""
    page = a_step_of_kernels(tmp_path, *KERNELS)
    rows = chromium_page(page, script=script).value
    assert [name for name, *_ in rows] == [name for name, _ in KERNELS]
    colours = [colour for _, colour, _ in rows]
    assert colours[0] == colours[2]
    assert len(set(colours)) == 3
    assert rows[0][2] == "400,000 ns, class gemm"
    assert colours[:2] == chromium_page(page, script=f"['gemm', 'elementwise'].map({bar})").value


def test_a_count_of_one_row_is_no_plural_where_a_filter_leaves_none(tmp_path: Path) -> None:
    script = f"""{READY}.then(async () => {{
      await new Promise((done) => setTimeout(done, 400));
      const table = document.querySelector("#kernel .sheet"), field = table.querySelector(".tools input");
      field.value = "nothing has this";
      field.dispatchEvent(new Event("input", {{ bubbles: true }}));
      return table.querySelector(".tools span").innerText;
    }})"""
    assert chromium_page(a_step_of_kernels(tmp_path, KERNELS[0]), script=script).value.startswith("0 of 1 row shown")


def test_of_many_ranks_the_lanes_say_what_is_left_out_and_show_it_on_demand(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    for rank in range(9):
        for step in range(3):
            at = 1_000_000 * step
            own = {"ts_ns": at, "pid": rank, "rank": rank}
            busy = 900_000 - 10_000 * rank
            rows += [
                {"dur_ns": busy, "kind": "kernel", "name": "gemm", "device": rank, "stream": 7} | own,
                {"dur_ns": 1_000_000, "kind": "step", "step": step, "name": f"step {step}", "tid": 1} | own,
            ]
    path = tmp_path / "page.html"
    path.write_text(pipeline.render(pipeline.report(trace_of(*rows)), "html"), encoding="utf-8")
    script = f"""{READY}.then(async () => {{
      await new Promise((done) => setTimeout(done, 400));
      const button = document.querySelector("#lanes button"), canvas = document.querySelector("#lanes canvas");
      const look = () => [canvas.getAttribute("aria-label").split("; ").length, button.textContent];
      const seen = [look()];
      for (let i = 0; i < 2; i++) {{ button.click(); seen.push(look()); }}
      return seen;
    }})"""
    few, all_, again = chromium_page(path, script=script).value
    assert few == again
    assert few[1] == f"{9 - few[0]} more streams with less work: show them"
    assert all_ == [9, "only those with most work"]


def test_bars_of_fixes_name_their_scale_where_it_is_not_the_run(tmp_path: Path) -> None:
    """Time before the first work is a part of the run, and no fix of the rest is on its scale."""
    report = pipeline.report(tracekit.read(sample("kineto/gpu.pt.trace.json")))
    assert report.headline is not None
    assert report.headline.findings
    run = report.headline.run_ns or 0
    first = replace(report.headline.findings[0], saving_ns=run // 8, share=0.5, window_ns=run // 4)
    whole = replace(first, share=0.125, window_ns=run)
    scales = []
    for findings in ((first,), (whole,), (whole, first)):
        headline = replace(report.headline, step=None, findings=findings)
        text = pipeline.render(replace(report, headline=headline), "html")
        scales.append(re.findall("bars on the scale of ([a-z ]+)", text))
    assert scales == [["the time beside each"], ["the run"], ["the time beside each"]]


def test_lanes_of_one_label_have_the_label_of_their_group_too(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"ts_ns": 1_000 * i, "dur_ns": 900, "kind": "operator", "name": "add", "tid": 1, "pid": 100 + i % 2}
        for i in range(40)
    ]
    path = tmp_path / "page.html"
    path.write_text(pipeline.render(pipeline.report(trace_of(*rows)), "html"), encoding="utf-8")
    script = f"""{READY}.then(async () => {{
      await new Promise((done) => setTimeout(done, 400));
      return document.querySelector("#lanes canvas").getAttribute("aria-label");
    }})"""
    labels = [each.partition(": busy")[0] for each in chromium_page(path, script=script).value.split("; ")]
    assert len(labels) == 2
    assert len(set(labels)) == 2
    assert all("100" in each or "101" in each for each in labels)


def test_metrics_of_the_first_screen_have_four_digits(tmp_path: Path) -> None:
    log = tmp_path / "metrics.csv"
    head = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
    row = '"GeForce GTX 950 (0)","k(float*)",8,"sm_efficiency","SM Activity",31.012345%,91.063122%,60.122612%\n'
    log.write_text(f"==1== NVPROF is profiling process 1, command: ./a.out\n==1== Metric result:\n{head}{row}")
    text = pipeline.render(pipeline.report(tracekit.read(log)), "html")
    shown = re.findall(r"<small>Avg: ([^<]*)</small>", text)
    assert shown == ["60.12"]
