"""The server of `tracekit open`: on 127.0.0.1 alone, a secret in each address, its own files alone, and an end.

Other people of the machine can connect to its port, and pages of the web can make a browser send requests to it. So a
request is answered only if its path begins with the secret, its Host is 127.0.0.1 or localhost (a name of somebody else
that leads here is DNS rebinding), and no page of another origin sent it. The path is looked up among the names of the
site: no part of it becomes the name of a file. Any other request gets 403 or 404.

Every user of a machine can see the command line of a browser. So a browser is started with an address that works once
and leads to the secret one.
"""

from __future__ import annotations

import hmac
import io
import os
import re
import secrets
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

from tracekit.errors import Option, OutputError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.viewer.site import BLOCK, Site

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["ALIVE", "Patience", "Server", "ServerEnded"]

ADDRESS = "127.0.0.1"
ALIVE = "alive"
"""The name of the stream that a page holds open for as long as it is shown."""
MOST_CONNECTIONS = 64
_HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?")
_BEAT_S = 0.5
"""Seconds after which a thread looks again whether the server ends."""


class ServerEnded(Enum):
    """The reason why the server has ended by itself."""

    DELIVERED = "the page was delivered"
    CLOSED = "the page was closed"
    IDLE = "nobody came for some time"
    UNUSED = "nobody opened it"


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait: for the first visit and between visits, and for another one after the last page was closed."""

    visit_s: float = 600
    again_s: float = 5
    request_s: float = 10
    """For a whole request, however its bytes come."""
    stuck_s: float = 60
    """For a reader who takes none."""


@dataclass(slots=True)
class _Life:
    """The visits of a site. `changed` is notified at each begin and end of one."""

    patience: Patience
    changed: threading.Condition = field(default_factory=threading.Condition)
    visits: int = 0
    last: float = field(default_factory=time.monotonic)
    visited: bool = False
    reason: ServerEnded | None = None
    over: bool = False

    @contextmanager
    def visit(self) -> Iterator[None]:
        with self.changed:
            self.visits += 1
            self.visited = True
            self.last = time.monotonic()
        try:
            yield
        finally:
            with self.changed:
                self.visits -= 1
                self.last = time.monotonic()
                self.changed.notify_all()

    def done(self, reason: ServerEnded) -> None:
        """Note that what the server is for has happened: it ends unless somebody comes again soon."""
        with self.changed:
            self.reason = reason

    def wait(self, *, keep: bool) -> ServerEnded:
        """Return when the site is no longer needed, or was closed. keep: never by itself."""
        with self.changed:
            while True:
                rest = self._rest()
                if self.over or (rest <= 0 and not keep):
                    return self.reason or (ServerEnded.IDLE if self.visited else ServerEnded.UNUSED)
                # Not for long: Windows notices Ctrl-C between two waits only.
                self.changed.wait(min(rest, _BEAT_S) if rest > 0 else _BEAT_S)

    def _rest(self) -> float:
        """Return the seconds until the end, if nobody comes."""
        if self.visits:
            return self.patience.visit_s
        wanted = self.patience.visit_s if self.reason is None else self.patience.again_s
        return self.last + wanted - time.monotonic()


class Server:
    """A server of one site, until `wait` returns or `close` is called.

    port: 0 for any that is free. Raises: OutputError for a port that is taken.
    """

    def __init__(self, site: Site, *, port: int = 0, patience: Patience | None = None) -> None:
        self._secret, self._once = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        life = self._life = _Life(patience or Patience())
        try:
            places = _ConnectionPlaces()
            self._http = _Http((ADDRESS, port), _handler(site, life, places, self._secret, self._once), places)
        except OSError as err:
            raise OutputError(
                f"port {port} of {ADDRESS}: {err.strerror}", hint=sentence("choose another with ", Option("port"))
            ) from err
        self.port: int = self._http.server_port
        self.url = f"http://{ADDRESS}:{self.port}/{self._secret}/{site.start}"
        """The secret address; it may be opened as often as one likes."""
        self.url_once = f"http://{ADDRESS}:{self.port}/{self._once}"
        """An address that works once and leads to the secret one."""
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_BEAT_S,), daemon=True)
        self._thread.start()

    def wait(self, *, keep: bool = False) -> ServerEnded:
        """Return when the site was delivered or closed, or nobody came. keep: only an exception ends the wait."""
        return self._life.wait(keep=keep)

    def close(self) -> None:
        """End the server: the port is free, and each page that is still open gets a message."""
        self._life.over = True
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _ConnectionPlaces:
    """The open connections, up to MOST_CONNECTIONS. One that has not shown the secret yet gives way to a new one.

    So a stranger who opens many connections, and says nothing or little in each, does not lock the owner out.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}  # in the order in which they came
        self._known: set[socket.socket] = set()

    def take(self, connection: socket.socket) -> bool:
        """Return whether there is a place for a connection; for that, the oldest stranger may be cut off."""
        with self._changing:
            if len(self._strangers) + len(self._known) >= MOST_CONNECTIONS:
                oldest = next(iter(self._strangers), None)
                if oldest is None:
                    return False
                del self._strangers[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
            self._strangers[connection] = None
            return True

    def trust(self, connection: socket.socket) -> None:
        """Keep the place of a connection that has shown the secret."""
        with self._changing:
            if connection in self._strangers:
                del self._strangers[connection]
                self._known.add(connection)

    def free(self, connection: socket.socket) -> None:
        """Give back the place of a connection that has ended."""
        with self._changing:
            self._strangers.pop(connection, None)
            self._known.discard(connection)


class _InTime(io.RawIOBase):
    """The bytes of one request. A read raises TimeoutError when the time for all of them is over."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._until = connection, time.monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Return the number of bytes that came, 0 at the end."""
        rest = self._until - time.monotonic()
        if rest <= 0:
            raise TimeoutError
        self._connection.settimeout(rest)
        return self._connection.recv_into(buffer)


class _Http(ThreadingHTTPServer):
    """A thread for each connection, up to a limit."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS
    allow_reuse_address = os.name == "posix"
    """Elsewhere it would let another process take the port too."""

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], places: _ConnectionPlaces
    ) -> None:
        self._places = places
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Take the port. The base class would ask the system's resolver for the name of the machine."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.socket.getsockname()[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.take(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.free(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a browser may close a connection at any time."""


def _handler(
    site: Site, life: _Life, places: _ConnectionPlaces, secret: str, once: str
) -> type[BaseHTTPRequestHandler]:
    """Return the handler of a site's requests."""
    unused = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        """Answers GET and HEAD for the names of the site."""

        timeout = life.patience.request_s
        server_version, sys_version = "tracekit", ""

        def setup(self) -> None:
            """Prepare to read one request in its time."""
            super().setup()
            self.rfile.close()
            self.rfile = io.BufferedReader(_InTime(self.connection, life.patience.request_s))

        def do_GET(self) -> None:
            """Answer a request."""
            self._answer()

        do_HEAD = do_GET

        def _answer(self) -> None:
            self.connection.settimeout(life.patience.stuck_s)
            # A request of HTTP/0.9 has no headers that could show which page sent it.
            if self.request_version == "HTTP/0.9" or not _is_ours(self):
                return self._refuse(403)
            first, slash, name = self.path.partition("?")[0].removeprefix("/").partition("/")
            # The address that a browser was started with works once: other users may see it (module text).
            if not slash and self.command == "GET" and _equal(first, once) and unused.acquire(blocking=False):
                return self._begin(303, [("Location", f"/{secret}/{site.start}")])
            if not slash or not _equal(first, secret):
                return self._refuse(404)
            places.trust(self.connection)
            with life.visit():
                if name == ALIVE and self.command == "GET":
                    self._hold()
                elif name in site.files:
                    self._send(name)
                else:
                    self._refuse(404)
            return None

        def _send(self, name: str) -> None:
            found = site.files[name]
            try:
                file = found.open()
            except OSError:  # removed meanwhile
                return self._refuse(404)
            with file:
                size = file.seek(0, 2)
                file.seek(0)
                self._begin(200, [*found.headers(), ("Content-Length", str(size))])
                if self.command == "HEAD":
                    return None
                while size > 0 and (data := file.read(min(BLOCK, size))):
                    self.wfile.write(data)
                    size -= len(data)
            if name == site.last and not size:
                life.done(ServerEnded.DELIVERED)
            return None

        def _hold(self) -> None:
            """Stay connected for as long as the page is open, and tell it when the server ends."""
            self._begin(200, [("Content-Type", "text/event-stream")])
            self.wfile.write(b"retry: 1000\n\n")
            life.done(ServerEnded.CLOSED)
            while not life.over:
                if select.select([self.connection], [], [], _BEAT_S)[0] and not self.connection.recv(1024):
                    return
            self.wfile.write(b"event: end\ndata:\n\n")

        def _begin(self, code: int, headers: list[tuple[str, str]]) -> None:
            self.send_response(code)
            for name, value in (*headers, *_ALWAYS):
                self.send_header(name, value)
            self.end_headers()

        def _refuse(self, code: int) -> None:
            self.close_connection = True
            with suppress(OSError):
                self._begin(code, [("Content-Length", "0")])

        def send_error(self, *_: object, **__: object) -> None:
            """Refuse what is no request, or one too large, or has another method."""
            if not hasattr(self, "request_version"):
                self.request_version = "HTTP/1.0"
            self._refuse(403)

        def log_message(self, *_: object) -> None:
            """Log nothing: addresses have the secret."""

    return Handler


_ALWAYS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


def _is_ours(request: BaseHTTPRequestHandler) -> bool:
    """Return whether a request names this machine, and comes from a page of this site or from a person."""
    hosts = request.headers.get_all("Host", [])
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0].strip()):
        return False
    if any(origin != f"http://{hosts[0].strip()}" for origin in request.headers.get_all("Origin", [])):
        return False
    site, mode = request.headers.get("Sec-Fetch-Site", "none"), request.headers.get("Sec-Fetch-Mode", "navigate")
    return site in ("same-origin", "none") or mode == "navigate"


def _equal(given: str, wanted: str) -> bool:
    """Return whether two texts are equal, in a time that says nothing about where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
