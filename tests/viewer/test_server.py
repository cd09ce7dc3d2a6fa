"""The server of `tracekit open`: whom it answers, what it has, and when it ends."""

from __future__ import annotations

import concurrent.futures
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import LONG_S, missing

from tracekit.errors import OutputError
from tracekit.viewer.server import Patience, Server, ServerEnded
from tracekit.viewer.site import Site, resource

LONG = Patience(visit_s=LONG_S, again_s=LONG_S, request_s=LONG_S, stuck_s=LONG_S)
SHORT = Patience(visit_s=LONG_S, again_s=0.05, request_s=LONG_S, stuck_s=LONG_S)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "secret").write_text("not of this site", encoding="utf-8")
    (folder / "run.pftrace").write_bytes(b"\n\x02hi" * 1000)
    files = {"page.html": resource(b"<!doctype html>hello", "page.html", "default-src 'none'"),
             "run.pftrace": resource(folder / "run.pftrace", "run.pftrace")}  # fmt: skip
    made = Server(Site("page.html", files), patience=LONG)
    yield made
    made.close()


def sent(server: Server, request: bytes) -> bytes:
    """Return the whole answer to these bytes, nothing where the connection was just closed."""
    with socket.create_connection(("127.0.0.1", server.port), LONG_S) as connection:
        answer = b""
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                answer += data
        except OSError:  # it need not read all that somebody sends
            pass
    return answer


def get(server: Server, path: str, *headers: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, bytes]:
    """Return the code of an answer, and the answer."""
    lines = [f"{method} {path} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers]
    answer = sent(server, "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1"))
    return int(answer.split()[1]), answer


def secret_of(server: Server) -> str:
    return urlsplit(server.url).path.split("/")[1]


def test_a_file_comes_whole_with_its_type_and_its_policy(server: Server) -> None:
    code, answer = get(server, urlsplit(server.url).path)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (code, body) == (200, b"<!doctype html>hello")
    for line in ("Content-Type: text/html; charset=utf-8", "Content-Security-Policy: default-src 'none'",
                 "Cache-Control: no-store", "Referrer-Policy: no-referrer", "X-Frame-Options: DENY",
                 "Cross-Origin-Resource-Policy: same-origin", "Content-Length: 20"):  # fmt: skip
        assert line.encode() in head.split(b"\r\n")
    assert b"Access-Control" not in head
    code, answer = get(server, f"/{secret_of(server)}/run.pftrace?again")
    assert (code, answer.partition(b"\r\n\r\n")[2]) == (200, b"\n\x02hi" * 1000)
    code, answer = get(server, urlsplit(server.url).path, method="HEAD", host=f"localhost:{server.port}")
    assert (code, answer.partition(b"\r\n\r\n")[2]) == (200, b"")


def test_two_servers_have_different_secrets_and_ports() -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda _: Server(Site("x"), patience=LONG), range(8)))
    assert len({each.port for each in made}) == len({secret_of(each) for each in made}) == 8
    assert all(len(secret_of(each)) >= 32 for each in made)
    for each in made:
        each.close()


def test_it_listens_on_127_0_0_1_alone(server: Server) -> None:
    table = Path("/proc/net/tcp")
    if not table.exists():
        missing("needs /proc/net/tcp")
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    rows += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == server.port]
    assert listening == [f"0100007F:{server.port:04X}"]


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example", "evil.example:80", "127.0.0.2", "0.0.0.0", "[::1]",
             "127.0.0.1:80:80", "localhost.", "127.0.0.1@evil.example", "127.0.0.1, evil.example"],
)  # fmt: skip
def test_another_host_is_refused(server: Server, host: str) -> None:
    assert get(server, urlsplit(server.url).path, host=host)[0] == 403


@pytest.mark.parametrize(
    "header", ["Host: 127.0.0.1", "Origin: https://ui.perfetto.dev", "Origin: null", "Origin: http://127.0.0.1:1",
               "Origin: http://localhost", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors",
               "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: cors"],
)  # fmt: skip
def test_a_second_host_and_another_origin_are_refused(server: Server, header: str) -> None:
    assert get(server, urlsplit(server.url).path, header)[0] == 403


def test_a_link_on_another_page_may_lead_here(server: Server) -> None:
    headers = "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"
    assert get(server, urlsplit(server.url).path, *headers)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "BREW"])
def test_another_method_is_refused(server: Server, method: str) -> None:
    assert get(server, urlsplit(server.url).path, method=method)[0] == 403


@pytest.mark.parametrize(
    "path", ["/", "*", "/{}", "/{}/", "/{}/.", "/{}/..", "/{}/../secret", "/{}/%2e%2e/secret", "/{}/secret",
             "/{}/./page.html", "/{}//page.html", "/{}/page.html/", "/{}/page.html%00", "/{}\\page.html",
             "/{}/..\\secret", "/{}/page.htm", "/{}x/page.html", "/x/page.html", "/page.html", "//page.html",
             "http://127.0.0.1/page.html", "/{}/C:\\secret", "/{}//etc/passwd", "/{}/ALIVE", "/ü/page.html",
             "/favicon.ico"],
)  # fmt: skip
def test_another_path_is_not_found(server: Server, path: str) -> None:
    assert get(server, path.format(secret_of(server)))[0] in (403, 404)


@pytest.mark.parametrize(
    "request_", [b"", b"\r\n\r\n", b"GET",
                 b"GET  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                 b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/x\r\n\r\n",
                 b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0" * 5000,
                 b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
                 b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n : y\r\n\xff\xfe\r\n\r\n"],
    ids=lambda data: f"{len(data)} bytes {data[:12]!r}",
)  # fmt: skip
def test_what_is_no_request_gets_nothing(server: Server, request_: bytes) -> None:
    answer = sent(server, request_)
    assert not answer or answer.split()[1] in (b"403", b"404")
    assert b"hello" not in answer
    assert get(server, urlsplit(server.url).path)[0] == 200


@given(st.binary(max_size=300), st.sampled_from([b"", b"GET /", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"]))
@settings(max_examples=100)
def test_any_bytes_get_nothing(server: Server, data: bytes, before: bytes) -> None:
    answer = sent(server, before + data)
    assert b"hello" not in answer
    assert b" 200 " not in answer[:20]


def test_an_old_request_gets_no_file_without_its_policy(server: Server) -> None:
    assert sent(server, f"GET {urlsplit(server.url).path}\r\nHost: 127.0.0.1\r\n\r\n".encode()) == b""


@pytest.mark.parametrize("said", [b"", b"G", b"GET / HTTP/1.1\r\nX: "], ids=["nothing", "a byte", "half a head"])
def test_connections_of_strangers_do_not_lock_the_owner_out(said: bytes) -> None:
    with closing(Server(Site("x", {"x": resource(b"hello", "x")}), patience=LONG)) as made:
        strangers = [socket.create_connection(("127.0.0.1", made.port), LONG_S) for _ in range(200)]
        for each in strangers:
            with suppress(OSError):
                each.sendall(said)
        for _ in range(3):  # while all of them stay connected
            answer = sent(made, f"GET {urlsplit(made.url).path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert answer.endswith(b"hello")
        for each in strangers:
            each.close()


def test_a_page_that_is_open_keeps_its_place_among_strangers() -> None:
    site = Site("page.html", {"page.html": resource(b"page", "page.html")})
    with closing(Server(site, patience=LONG)) as made:
        secret = secret_of(made)
        with socket.create_connection(("127.0.0.1", made.port), LONG_S) as page:
            page.sendall(f"GET /{secret}/alive HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            begin = b""
            while b"retry: 1000" not in begin:
                begin += page.recv(1 << 16)
            assert b"200" in begin
            strangers = [socket.create_connection(("127.0.0.1", made.port), LONG_S) for _ in range(200)]
            assert sent(made, f"GET {urlsplit(made.url).path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            page.settimeout(0.5)
            with pytest.raises(TimeoutError):  # and not the end of the stream
                page.recv(1 << 16)
            for each in strangers:
                each.close()


def test_a_request_that_comes_a_byte_at_a_time_has_a_time_for_all_of_it() -> None:
    patience = Patience(visit_s=LONG_S, again_s=LONG_S, request_s=1, stuck_s=LONG_S)
    with closing(Server(Site("x", {"x": resource(b"hello", "x")}), patience=patience)) as made:
        with socket.create_connection(("127.0.0.1", made.port), LONG_S) as slow:
            sent_bytes = 0
            with suppress(OSError):
                while sent_bytes < 10_000:  # each well before a second is over
                    slow.sendall(b"G")
                    sent_bytes += 1
                    time.sleep(0.1)
            assert sent_bytes < 10_000
            with suppress(OSError):
                assert slow.recv(1 << 16) == b""
        assert sent(made, f"GET {urlsplit(made.url).path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert Patience().request_s == 10


def test_the_address_for_a_browser_works_once(server: Server) -> None:
    path = urlsplit(server.url_once).path
    assert secret_of(server) not in server.url_once
    assert get(server, path, method="HEAD")[0] == 404
    assert get(server, path, host="evil.example")[0] == 403
    code, answer = get(server, path)
    assert code == 303
    assert f"Location: {urlsplit(server.url).path}\r\n".encode() in answer
    assert get(server, path)[0] == 404


def test_a_taken_port_is_named() -> None:
    with closing(Server(Site("x"), patience=LONG)) as made, pytest.raises(OutputError, match=str(made.port)):
        Server(Site("x"), port=made.port)


def waited(made: Server) -> concurrent.futures.Future[ServerEnded]:
    return concurrent.futures.ThreadPoolExecutor().submit(made.wait)


def test_it_ends_when_the_last_file_was_delivered() -> None:
    site = Site("a", {"a": resource(b"a", "a"), "b": resource(b"b", "b")}, last="b")
    with closing(Server(site, patience=SHORT)) as made:
        waiting = waited(made)
        assert get(made, f"/{secret_of(made)}/a")[0] == 200
        assert get(made, "/wrong/b")[0] == 404
        assert get(made, f"/{secret_of(made)}/b", method="HEAD")[0] == 200
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(0.5)
        assert get(made, f"/{secret_of(made)}/b")[0] == 200
        assert waiting.result(LONG_S) is ServerEnded.DELIVERED


def page_of(made: Server) -> socket.socket:
    """Return the connection of a page that is open."""
    page = socket.create_connection(("127.0.0.1", made.port), LONG_S)
    page.sendall(f"GET /{secret_of(made)}/alive HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    answer = b""
    while b"retry:" not in answer:
        answer += page.recv(1 << 16)
    return page


def test_it_ends_when_the_last_page_is_closed() -> None:
    with closing(Server(Site("a"), patience=SHORT)) as made:
        waiting = waited(made)
        one, other = page_of(made), page_of(made)
        one.close()
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(0.5)
        other.close()
        assert waiting.result(LONG_S) is ServerEnded.CLOSED


def test_a_page_that_is_open_learns_of_the_end() -> None:
    with closing(Server(Site("a"), patience=LONG)) as made:
        page = page_of(made)
    said = b""
    while data := page.recv(1 << 16):
        said += data
    assert said.endswith(b"event: end\ndata:\n\n")
    page.close()


def test_it_ends_when_nobody_comes() -> None:
    with closing(Server(Site("a"), patience=Patience(visit_s=0.05, again_s=LONG_S))) as made:
        assert made.wait() is ServerEnded.UNUSED
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", made.port), LONG_S)


def test_it_ends_some_time_after_the_last_visit() -> None:
    site = Site("a", {"a": resource(b"a", "a")})
    with closing(Server(site, patience=Patience(visit_s=0.05, again_s=LONG_S))) as made:
        assert get(made, f"/{secret_of(made)}/a")[0] == 200
        assert made.wait() is ServerEnded.IDLE


def test_it_stays_if_it_is_to_be_kept() -> None:
    with closing(Server(Site("a"), patience=Patience(visit_s=0.05))) as made:
        waiting = concurrent.futures.ThreadPoolExecutor().submit(made.wait, keep=True)
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(0.5)
