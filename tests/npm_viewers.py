"""Two more real viewers as oracles: the importer of profiler.firefox.com in Node, and speedscope in Chromium.

`firefox_profile(path)` and `speedscope_profile(path)` say what the viewer made of a file. Both come from npm: `make
test` installs the packages of oracles/package.json in the environment, in the folder `viewers`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support import LONG_S
from viewers import chromium_page, missing

_PACKAGES = Path(sys.prefix) / "viewers" / "node_modules"


def npm_package(name: str, file: str) -> Path:
    """Return a file of an installed package of oracles/package.json."""
    path = _PACKAGES / name / file
    if not path.exists():
        missing(f"{name} from npm", "make test installs it where npm is there")
    return path


def firefox_profile(path: Path) -> dict[str, Any]:
    """What the importer of profiler.firefox.com made of a profile, its newest version and its upgraders included.

    Keys: `threads`: (process, thread) -> its markers, as the importer derived them; `counters`: their summaries.
    """
    program = npm_package("@firefox-devtools/profiler-cli", "dist/profiler-cli.js")
    node = shutil.which("node")
    if node is None:
        missing("node", "Node.js 20 or newer")
    with tempfile.TemporaryDirectory(prefix="firefox-") as folder, _session(node, program, path, folder) as ask:
        threads = {}
        for thread in ask("thread", "list")["threads"]:
            listed = ask("thread", "markers", "--thread", thread["threadHandle"], "--list", "--limit", "0")
            assert listed["totalMarkerCount"] == listed["filteredMarkerCount"] == thread["markerCount"]
            key = thread["processName"], thread["name"]
            assert key not in threads, "two threads of one name"
            threads[key] = listed.get("flatMarkers", [])
        counters = [ask("counter", "info", each["counterHandle"]) for each in ask("counter", "list")["counters"]]
        return {"threads": threads, "counters": counters}


def read_text(path: Path) -> str:
    return path.read_text(errors="replace")


@contextlib.contextmanager
def _session(node: str, program: Path, path: Path, folder: str) -> Iterator[Callable[..., Any]]:
    """A process that holds the profile; queries are processes of their own. It ends with the block."""
    environ = {**os.environ, "PROFILER_CLI_SESSION_DIR": folder, "HOME": folder, "NODE_NO_WARNINGS": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [node, str(program), *words, "--session", "test"]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LONG_S, check=False)

    def ask(*words: str) -> Any:
        done = run(*words, "--json")
        assert done.returncode == 0, f"{words}: {done.stderr or done.stdout}"
        return json.loads(done.stdout)

    command = [node, str(program), "--daemon", str(path.resolve()), "--session", "test"]
    log = Path(folder, "daemon.txt")
    with log.open("wb") as out:
        daemon = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + LONG_S
        # A question before the daemon listens would remove its session.
        while "Profile loaded successfully" not in (said := "".join(map(read_text, Path(folder).glob("*.[tl]*")))):
            assert daemon.poll() is None, f"profiler-cli ended: {said}"
            assert "[ERROR]" not in said, said
            assert time.monotonic() < deadline, f"profiler-cli is not ready: {said}"
            time.sleep(0.05)
        yield ask
    finally:
        daemon.kill()
        daemon.wait()


_EXPORT = """(async () => {
  let saved = null;
  URL.createObjectURL = (blob) => { saved = blob; return "data:,"; };
  while (saved === null) {
    window.dispatchEvent(new KeyboardEvent("keydown", {key: "s", ctrlKey: true}));
    await new Promise((done) => setTimeout(done, 50));
    if (document.body.innerText.includes("Something went wrong")) throw new Error("speedscope refuses the file");
  }
  return saved.text();
})()"""


def speedscope_profile(path: Path, *, timeout: float = LONG_S) -> dict[str, Any]:
    """What speedscope holds after it imported a profile: the file that its own export gives.

    Slices of 0 ns are not in it. Its profiles begin at 0.
    """
    page = npm_package("speedscope", "dist/release/index.html")
    with tempfile.TemporaryDirectory(prefix="speedscope-") as folder:
        script = Path(folder, "profile.js")
        data = base64.b64encode(path.read_bytes()).decode()
        script.write_text(f"speedscope.loadFileFromBase64({json.dumps(path.name)}, {json.dumps(data)})\n")
        seen = chromium_page(page, fragment=f"#localProfilePath={script}", script=_EXPORT, timeout=timeout)
    assert seen.page_errors == []
    return json.loads(seen.value)
