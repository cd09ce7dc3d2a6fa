"""Flame graphs in a browser: what is drawn is what the trace holds."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from render.reports import HOSTILE
from support import sample
from viewers import chromium_page

from tracekit import pipeline
from tracekit.index.host_tree import call_paths, host
from tracekit.index.trace_index import index_of
from tracekit.model.report import Flame, Report, Section
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions

SHOWN = "window.tracekit.flame.drawn.shown"


def page(folder: Path, flame: Flame) -> Path:
    """Write a page with one flame graph of two sides."""
    report = Report("a against b", "0.0.0", sections=(Section("compare", "Call paths", figures=(flame,)),))
    path = folder / "page.html"
    path.write_text(RENDERERS["html"].render(report, RenderOptions()), encoding="utf-8")
    return path


SIDES = Flame("Host time", ["step", "mm", "relu", "mm"], [-1, 0, 0, 2], [10, 40, 30, 20], [10, 80, 10, 0])


@pytest.mark.viewer
def test_a_comparison_is_as_wide_as_the_new_time_and_parents_hold_their_children(tmp_path: Path) -> None:
    seen = chromium_page(page(tmp_path, SIDES), script=SHOWN)
    assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
    drawn = {(name, y): (x, width, ns) for name, x, y, width, ns in seen.value}
    whole = drawn[("", 0)][1]
    assert drawn[("step", 18)] == (0, whole, 100)
    assert drawn[("mm", 36)] == (0, pytest.approx(0.8 * whole), 80)
    assert drawn[("relu", 36)] == (pytest.approx(0.8 * whole), pytest.approx(0.1 * whole), 10)
    assert ("mm", 54) not in drawn  # gone in the new runs


@pytest.mark.viewer
def test_callers_and_callees_count_each_call_path_once(tmp_path: Path) -> None:
    turned = "(({drawn}) => { drawn.choose(drawn.root.children[0].children[0]); drawn.turn(); return drawn.shown; })"
    seen = chromium_page(page(tmp_path, SIDES), script=f"{turned}(window.tracekit.flame)")
    drawn = [(name, y, ns) for name, _, y, _, ns in seen.value]
    assert sorted(drawn, key=lambda box: box[1]) == [("step", 0, 80), ("mm", 18, 80)]


SEARCH = """(async (text, ...keys) => {
  const { drawn } = window.tracekit.flame;
  const finder = document.querySelector(".flame-tools input");
  finder.value = text;
  finder.dispatchEvent(new Event("input"));
  for (const key of keys) finder.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  return [document.querySelector(".flame-tools output").textContent, drawn.hits && drawn.hits.value,
    document.querySelector(".flame-name")?.textContent ?? ""];
})"""


@pytest.mark.viewer
@pytest.mark.parametrize(
    ("text", "keys", "found"),
    [
        ("MM", [], ["1 name, 1 call path: 80 ns, 80.0 %", 80, ""]),
        ("m", ["Enter"], ["1 name, 1 call path: 80 ns, 80.0 %", 80, "mm"]),
        ("e", ["Enter", "Enter"], ["2 names, 1 call path: 100 ns, 100.0 %", 100, "step"]),
        ("nothing", [], ["no name matches", 0, ""]),
        ("relu", ["Escape"], ["", None, ""]),
    ],
)
def test_a_search_says_the_share_of_all_paths_that_match_and_counts_none_twice(
    text: str, keys: list[str], found: list[object], tmp_path: Path
) -> None:
    flame = Flame("Host time", ["step", "mm", "relu"], [-1, 0, 0], [10, 40, 30], [10, 80, 10])
    asked = ", ".join(json.dumps(each) for each in (text, *keys))
    seen = chromium_page(page(tmp_path, flame), script=f"{SEARCH}({asked})")
    assert (seen.console, seen.page_errors) == ([], [])
    assert seen.value == found


@pytest.mark.viewer
def test_the_search_of_a_report_counts_a_range_within_a_match_once(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    pipeline.write_report(pipeline.read(sample("kineto/gpu.pt.trace.json")), path)
    script = f"window.tracekit.timeline.ready.then(() => window.tracekit.flame.renew()).then(() => {SEARCH}('aten::'))"
    whole = "window.tracekit.timeline.ready.then(() => window.tracekit.flame.paths())"
    told, value, _ = chromium_page(path, script=script).value
    outermost = sum(
        total
        for names, total, *_ in chromium_page(path, script=whole).value
        if "aten::" in names[-1] and not any("aten::" in name for name in names[:-1])
    )
    assert value == outermost > 0
    assert re.match(r"\d+ names?, \d+ call paths?: .* %$", told)


ORDER = """((value) => {
  const pick = document.querySelector('select[aria-label="Order"]');
  if (!pick) return null;
  pick.value = value;
  pick.dispatchEvent(new Event("change"));
  const { drawn } = window.tracekit.flame;
  const boxes = drawn.shown.map(([name, x, y, width, ns]) => [name, Math.round(x), y / 18, ns]);
  return boxes.sort((a, b) => a[2] - b[2] || a[1] - b[1]);
})"""


def speedscope(folder: Path, profiles: list[dict[str, Any]]) -> Path:
    """Write a profile of three functions and its page."""
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": name} for name in ("main", "load", "train")]},
        "profiles": profiles,
    }
    file = folder / "a.speedscope.json"
    file.write_text(json.dumps(document))
    pipeline.write_report(pipeline.read(file), folder / "page.html")
    return folder / "page.html"


SAMPLED = {
    "type": "sampled",
    "name": "t",
    "unit": "milliseconds",
    "samples": [[0, 1], [0, 2], [0, 2], [], [0, 1]],
    "weights": [3, 1, 1, 7, 5],
}


@pytest.mark.viewer
def test_samples_are_merged_or_in_order_of_time(tmp_path: Path) -> None:
    path = speedscope(tmp_path, [SAMPLED])
    ms = 1_000_000
    merged = chromium_page(path, script=f"{ORDER}('merged')").value
    assert [(name, ns) for name, _, _, ns in merged[2:]] == [("load", 8 * ms), ("train", 2 * ms)]
    timed = chromium_page(path, script=f"{ORDER}('time')").value
    assert [(name, ns) for name, _, _, ns in timed] == [
        ("", 10 * ms), ("main", 10 * ms), ("load", 3 * ms), ("train", 2 * ms), ("load", 5 * ms)
    ]  # fmt: skip


@pytest.mark.viewer
def test_an_evented_profile_has_its_order_and_threads_follow_each_other(tmp_path: Path) -> None:
    def events(*parts: tuple[str, int, int]) -> list[dict[str, Any]]:
        return [{"type": kind, "frame": frame, "at": at} for kind, frame, at in parts]

    first = events(("O", 0, 5), ("O", 1, 6), ("C", 1, 7), ("O", 2, 7), ("C", 2, 9), ("C", 0, 9))
    second = events(("O", 2, 0), ("C", 2, 4))
    evented = {"type": "evented", "unit": "nanoseconds", "startValue": 0, "endValue": 9}
    path = speedscope(tmp_path, [evented | {"name": "a", "events": first}, evented | {"name": "b", "events": second}])
    timed = chromium_page(path, script=f"{ORDER}('time')").value
    assert [(name, y, ns) for name, _, y, ns in timed] == [
        ("", 0, 8), ("main", 1, 4), ("train", 1, 4), ("load", 2, 1), ("train", 2, 2)
    ]  # fmt: skip


@pytest.mark.viewer
@pytest.mark.parametrize("name", ["folded/py-spy.folded", "pprof/go-cpu.pb"])
def test_a_profile_of_sums_has_no_order_to_choose(name: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    pipeline.write_report(pipeline.read(sample(name)), path)
    assert chromium_page(path, script=f"{ORDER}('time')").value is None


@pytest.mark.viewer
def test_a_page_of_many_stacks_is_smaller_than_three_times_its_input(tmp_path: Path) -> None:
    """Names are there once, and the page has no second copy of its call paths."""
    rng = random.Random(1)
    frames = [{"name": f"module_{i % 37}.Class{i % 11}.method_{i}", "file": f"/srv/{i % 97}.py"} for i in range(400)]
    samples = [[0, *(rng.randrange(400) for _ in range(rng.randrange(8, 28)))] for _ in range(600)]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": frames},
        "profiles": [
            {"type": "sampled", "name": "main", "unit": "milliseconds", "samples": samples, "weights": [1] * 600}
        ],
    }
    profile = tmp_path / "many.speedscope.json"
    profile.write_text(json.dumps(document, separators=(",", ":")))
    path = tmp_path / "page.html"
    pipeline.write_report(pipeline.read(profile), path)
    assert path.stat().st_size < 3 * profile.stat().st_size
    seen = chromium_page(path, script=f"({SHOWN})[0]")
    assert (seen.console, seen.page_errors, seen.requests) == ([], [], [])
    assert seen.value[4] == 600_000_000


@pytest.mark.viewer
def test_hostile_names_are_text(tmp_path: Path) -> None:
    names = list(HOSTILE)
    flame = Flame("Host time", names, [-1] * len(names), [1] * len(names), [1] * len(names))
    seen = chromium_page(page(tmp_path, flame), script=f"({SHOWN}).length + document.querySelectorAll('img').length")
    assert (seen.console, seen.page_errors, seen.requests) == ([], [], [])
    assert seen.value == len(names) + 1  # a box for each, and one for all; no element of their making


@pytest.mark.viewer
@pytest.mark.parametrize(
    "name", ["kineto/gpu.pt.trace.json", "kineto/cpu.pt.trace.json", "paddle-json/paddle26.paddle_trace.json"]
)
def test_call_paths_of_the_timeline_are_those_of_the_tree_of_ranges(name: str, tmp_path: Path) -> None:
    made = pipeline.read(sample(name))
    path = tmp_path / "page.html"
    pipeline.write_report(made, path)
    paths = call_paths(index_of(made))
    whole: list[tuple[str, ...]] = []
    for parent, own in zip(paths.parents.tolist(), paths.names, strict=True):
        whole.append((*whole[parent], own) if parent >= 0 else (own,))
    wanted = {
        text: [ns, calls] for text, ns, calls in zip(whole, paths.self_ns.tolist(), paths.calls.tolist(), strict=True)
    }
    seen = chromium_page(path, script="window.tracekit.timeline.ready.then(() => window.tracekit.flame.paths())")
    assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
    drawn = {tuple(text): [own, calls] for text, _, own, calls, _ in seen.value if not text[-1].startswith("device ")}
    assert drawn == wanted


@pytest.mark.viewer
def test_device_time_is_charged_to_every_range_that_holds_the_launch(tmp_path: Path) -> None:
    made = pipeline.read(sample("kineto/gpu.pt.trace.json"))
    pipeline.write_report(made, tmp_path / "page.html")
    script = "window.tracekit.timeline.ready.then(() => window.tracekit.flame.paths())"
    seen = chromium_page(tmp_path / "page.html", script=script)
    found = host(index_of(made))
    charged = {text[0] for text, *_ in seen.value}
    assert charged
    outer = sum(device for text, *_, device in seen.value if len(text) == 1)
    assert outer == found.work_ns[found.launch >= 0].sum()


def test_a_page_without_a_flame_graph_has_no_script_of_it(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"with": page(tmp_path, SIDES).read_text(encoding="utf-8")}
    parts["without"] = RENDERERS["html"].render(Report("a", "0.0.0"), RenderOptions())
    scripts = {name: re.findall(r'data-names="([^"]*)"', text) for name, text in parts.items()}
    assert {name: "flame.js" in " ".join(each).split() for name, each in scripts.items()} == {
        "with": True,
        "without": False,
    }
