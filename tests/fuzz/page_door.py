"""The door to the page's socket: requests that are cut, malformed or too large, and clients that leave early."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import random
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .rubbish import TEXTS, changed, damage, value

SECONDS = 30
"""Until an answer. Nothing is waited for if all is well."""
HOST = b"HOST:PORT"
"""In a request: replaced by the address of the page."""
PAIR = {"text_a": "the doctor saw the pilot", "text_b": "the doctor saw", "split": None}


@dataclass(frozen=True)
class Visit:
    """One connection: what is sent, and how the client leaves."""

    sent: bytes
    leaves: Literal["reads", "closes", "resets"]

    def pay(self, port: int) -> None:
        with (
            contextlib.suppress(OSError),  # the server may hang up first
            socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection,
        ):
            connection.sendall(self.sent.replace(HOST, b"127.0.0.1:%d" % port))
            if self.leaves == "resets":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif self.leaves == "reads":
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(2**16):
                    pass


@dataclass(frozen=True)
class Visits:
    """Clients one after another; afterwards the page must answer as before."""

    visits: tuple[Visit, ...]

    def __call__(self) -> None:
        port = _served()
        for visit in self.visits:
            visit.pay(port)
        for method, path, body in (("GET", "/api/state", None), ("POST", "/api/pair", json.dumps(PAIR))):
            status = _status(port, method, path, body)
            if status != 200:
                raise RuntimeError(f"{method} {path} is answered with {status} afterwards")


def _status(port: int, method: str, path: str, body: str | None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status


_SERVERS = contextlib.ExitStack()


@functools.cache
def _served() -> int:
    """The port of the page of this process, which is served until the process ends: to stop it takes longer."""
    page_of, serving, view = _page()
    page = page_of(view)
    _SERVERS.enter_context(serving(page))
    return int(page.port)


@functools.cache
def _page() -> tuple[Any, Any, Any]:
    """What the page consists of: imported and made once, before the forks. Threads do not survive them."""
    sys.path.append(str(Path(__file__).parents[1]))
    from served import page_of, serving, view_of

    return page_of, serving, view_of()


def honest_visits(folder: Path) -> Visits:
    """What a browser sends."""
    _page()
    return Visits(tuple(Visit(each, "reads") for each in (_get(b"/"), _get(b"/api/row?which=all"), _post(_pair()))))


def page_requests(rng: random.Random, folder: Path) -> Visits:
    """Clients that are no browsers."""
    _page()
    return Visits(tuple(_visit(rng) for _ in range(rng.randrange(1, 5))))


def _visit(rng: random.Random) -> Visit:
    kinds = (_cut, _cut, _damaged, _wrong_body, _wrong_body, _wrong_length, _chunked, _paths, _headers, _other)
    return Visit(rng.choice(kinds)(rng), rng.choice(["reads", "reads", "closes", "resets"]))


# --- requests ------------------------------------------------------------------------------------------------------


def _get(path: bytes, method: bytes = b"GET", more: bytes = b"") -> bytes:
    return b"%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (method, path, HOST, more)


def _pair() -> bytes:
    return json.dumps(PAIR).encode()


def _post(body: bytes, more: bytes = b"", length: bytes | None = None) -> bytes:
    counted = b"%d" % len(body) if length is None else length
    head = b"Content-Type: application/json\r\nContent-Length: %s\r\n%s" % (counted, more)
    return _get(b"/api/pair", b"POST", head) + body


def _cut(rng: random.Random) -> bytes:
    whole = rng.choice([_get(b"/"), _get(b"/api/state"), _post(_pair()), _post(b" " * 200_000 + _pair())])
    return whole[: rng.randrange(len(whole))]


def _damaged(rng: random.Random) -> bytes:
    return damage(rng, rng.choice([_get(b"/"), _get(b"/api/row?position=1"), _post(_pair())]))


def _wrong_body(rng: random.Random) -> bytes:
    bodies = [
        json.dumps(changed(rng, PAIR)), json.dumps(value(rng)), "[" * 100_000, '{"text_a": ' * 20_000, "9" * 10_000,
        "NaN", '{"text_a": "\\ud800"}', '{"text_a": 1e999}', "\ufeff{}", '{"text_a": "a", "text_a": "b"}',
        json.dumps({"text_a": rng.choice(TEXTS), "text_b": rng.choice(TEXTS)}), json.dumps({"text_a": "a " * 20_000}),
        "x" * 600_000,
    ]  # fmt: skip
    body = rng.choice(bodies).encode()
    return _post(damage(rng, body) if rng.random() < 0.2 else body)


def _wrong_length(rng: random.Random) -> bytes:
    lengths = [b"-1", b"0", b"1", b"99999999", b"9" * 400, b"x", b"", b"1e3", b"+5", b"0x10", b"5, 5", b"\xff"]
    return _post(_pair(), length=rng.choice(lengths))


def _chunked(rng: random.Random) -> bytes:
    chunks = [
        b"5\r\n{}   \r\n0\r\n\r\n", b"ZZ\r\n", b"5\r\n{}", b"ffffffffffffffff\r\n{}", b"-1\r\n\r\n", b"2\r\n{}",
        b"2;" + b"x" * 70_000 + b"\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\nA: b\r\n\r\n", b"",
    ]  # fmt: skip
    lengths = [b"", b"Content-Length: 5\r\n"]
    codings = [b"chunked", b"gzip, chunked", b"chunked, chunked", b"identity", b"xchunked"]
    more = b"Content-Type: application/json\r\nTransfer-Encoding: %s\r\n%s" % (rng.choice(codings), rng.choice(lengths))
    return _get(b"/api/pair", b"POST", more) + rng.choice(chunks)


def _paths(rng: random.Random) -> bytes:
    paths = [
        b"//", b"/../../etc/passwd", b"/%2e%2e/%00", b"/api/row?position=" + b"9" * 20, b"/api/row?position=%EF%BC%99",
        b"/api/row?which=x&split=%FF", b"*", b"http://evil/api/state", b"/" + b"a" * 70_000, b"/api/pair", b"/\xff",
        b"/api/row?" + b"position=1&" * 5000, b"/favicon.ico", b"", b"/a b", b"/api/state#x", b"/api/row?split=%00",
    ]  # fmt: skip
    methods = [b"GET", b"GET", b"HEAD", b"POST", b"PUT", b"OPTIONS", b"CONNECT", b"TRACE", b"get", b"G\0T", b"X" * 5000]
    return _get(rng.choice(paths), rng.choice(methods))


def _headers(rng: random.Random) -> bytes:
    more = [
        b"X: " + b"y" * rng.choice([1000, 70_000, 500_000]) + b"\r\n", b"X: y\r\n" * rng.choice([200, 5000]), b"X\r\n",
        b": y\r\n", b"X : y\r\n", b"X: \0\r\n", b"X: \xff\r\n", b" X: y\r\n", b"Host: evil\r\n", b"Origin: null\r\n",
        b"Origin: http://evil\r\n", b"Expect: 100-continue\r\n", b"Connection: close, keep-alive\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n",
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
    ]  # fmt: skip
    return rng.choice([_get(b"/api/state", more=rng.choice(more)), _post(_pair(), more=rng.choice(more))])


def _other(rng: random.Random) -> bytes:
    """What is no request at all, or several of them."""
    some = [
        b"", b"\r\n" * 1000, b"\0" * 1000, rng.randbytes(300), b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.0\r\n\r\n",
        _get(b"/") * 20, _post(_pair()) * 5, _post(_pair()) + b"garbage", b"HTTP/1.1 200 OK\r\n\r\n",
    ]  # fmt: skip
    return rng.choice(some)
