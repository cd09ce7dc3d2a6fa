"""What loading a page costs the browser's main thread: until it is drawn, until it is ready, and its longest task.

    python benchmarks/page_load.py PAGE.html [--rounds N] [--tasks N] [--functions]

Opens the page in headless Chromium, each round in a browser of its own, and reads the browser's own trace. All times
are CPU seconds of the thread that runs scripts, layout and paint: a loaded machine does not change them much.

- drawn first: until the first text was painted;
- ready: until every event of the timeline can be reached and every table is built, as the browser's own counter has it,
  which counts the start of the thread too;
- longest task: while it runs, the page does not answer.

Figures are medians over the rounds. Each round opens the page twice: the browser's own trace costs time and memory, so
that `ready` and the renderer's peak are of a load without it. The exit code is 1 where a target of 1M events is missed.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import viewers  # noqa: E402 - the driver of the tests

TARGETS = {"drawn first s": 0.3, "ready s": 0.8, "longest task s": 0.1, "renderer peak MB": 300}
_READY = """(async () => {
  const has = (id) => document.getElementById(id), wait = () => new Promise((done) => setTimeout(done, 20));
  while (has("tl-head") && !window.tracekit?.timeline?.data?.done) await wait();
  const tables = document.querySelector(".sheet[data-table]"), root = document.documentElement;
  while (tables && !root.classList.contains("tables")) await wait();
  performance.mark("tracekit-ready");
})()"""
_hear = viewers._DevTools._event
_TASK = "ThreadControllerImpl::RunTask"


def loaded(path: Path, *, trace: bool) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Return the browser's trace of loading a page, which is empty without `trace`, and the figures of its counters."""
    events: list[dict[str, Any]] = []

    def heard(devtools: Any, method: str, params: dict[str, Any], session: str) -> None:
        if method == "Tracing.dataCollected":
            events.extend(params["value"])
        _hear(devtools, method, params, session)

    viewers._DevTools._event = heard  # type: ignore[method-assign]
    with viewers._browser(shutil.which("chromium") or "chromium", 600) as devtools:
        target = devtools.call("Target.createTarget", url="about:blank")["targetId"]
        session = devtools.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        devtools.call("Page.enable", session)
        devtools.call("Performance.enable", session, timeDomain="threadTicks")
        metrics = {"width": 1300, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        devtools.call("Emulation.setDeviceMetricsOverride", session, **metrics)
        if trace:
            categories = ["toplevel", "devtools.timeline", "loading", "blink.user_timing", "v8"]
            devtools.call("Tracing.start", traceConfig={"includedCategories": categories})
        devtools.call("Page.navigate", session, url=path.resolve().as_uri())
        devtools.wait_for(session, "Page.loadEventFired")
        devtools.evaluate(session, _READY)
        ready = _main_thread_s(devtools, session)
        devtools.wait_quiet(3)
        processes = devtools.call("SystemInfo.getProcessInfo")["processInfo"]
        peaks = [_peak_mb(each["id"]) for each in processes if each["type"] == "renderer"]
        if trace:
            devtools.call("Tracing.end")
            devtools.wait_for("", "Tracing.tracingComplete")
    return events, {"ready s": ready, "renderer peak MB": max(peaks)}


def _main_thread_s(devtools: Any, session: str) -> float:
    metrics = devtools.call("Performance.getMetrics", session)["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def _peak_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


def figures(events: list[dict[str, Any]], most: int, functions: bool) -> dict[str, float]:
    """Return the figures of one round, and print the longest tasks."""
    ready = next(each for each in events if each["name"] == "tracekit-ready")
    thread = ready["pid"], ready["tid"]
    mine = [each for each in events if (each["pid"], each["tid"]) == thread]
    began = min(each["ts"] for each in mine if each["name"] == "navigationStart")
    tasks = [each for each in mine if each["name"] == _TASK and each["ts"] >= began]
    drawn = min(each["ts"] for each in mine if each["name"] == "firstContentfulPaint")
    longest = sorted(tasks, key=lambda task: -task.get("tdur", 0))
    for task in longest[:most]:
        print(f"  {task['tdur'] / 1e3:7.1f} ms at {(task['ts'] - began) / 1e6:.2f} s: {_inside(task, mine)}")
    if functions:
        called: collections.Counter[str] = collections.Counter()
        for each in mine:
            if each["name"] in ("FunctionCall", "v8.run", "EvaluateScript", "ParseHTML", "Layout", "UpdateLayoutTree"):
                called[_words(each)] += each.get("tdur", 0)
        for word, spent in called.most_common(20):
            print(f"  {spent / 1e3:8.1f} ms {word}")
    return {
        "drawn first s": _spent(tasks, drawn),
        "longest task s": longest[0]["tdur"] / 1e6,
    }


def _spent(tasks: list[dict[str, Any]], until: float) -> float:
    """Return the CPU seconds of the tasks up to a moment; of the task that runs then, a part as long as its time."""
    spent = 0.0
    for task in tasks:
        if task["ts"] < until:
            spent += task.get("tdur", 0) * min(1, (until - task["ts"]) / max(task.get("dur", 0), 1))
    return spent / 1e6


def _inside(task: dict[str, Any], events: list[dict[str, Any]]) -> str:
    """Return what a task spent most of its time in."""
    end = task["ts"] + task.get("dur", 0)
    within = [e for e in events if task["ts"] <= e["ts"] <= end and e is not task and e.get("tdur", 0) > 2000]
    return "; ".join(f"{_words(each)} {each['tdur'] / 1e3:.0f}" for each in within[:19])


def _words(event: dict[str, Any]) -> str:
    data = event.get("args", {}).get("data") or {}
    where = f" {data.get('functionName', '')}:{data.get('lineNumber', '')}" if "functionName" in data else ""
    return f"{event['name']}{where}"


def main() -> int:
    """Run; the exit code is 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=0, help="print so many of the longest tasks of each round")
    parser.add_argument("--functions", action="store_true", help="print what took most of the time")
    asked = parser.parse_args()
    rounds = []
    for _ in range(asked.rounds):
        events, _ = loaded(asked.page, trace=True)
        _, counters = loaded(asked.page, trace=False)
        rounds.append(figures(events, asked.tasks, asked.functions) | counters)
    missed = False
    print(f"{asked.page.stat().st_size / 1e6:.2f} MB")
    for word in rounds[0]:
        figure = statistics.median(each[word] for each in rounds)
        target = TARGETS.get(word)
        missed |= target is not None and figure > target
        judged = "" if target is None else f"   target {target}: {'missed' if figure > target else 'met'}"
        print(f"{word:18} {figure:8.3f}{judged}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
