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
from typing import Any

from .rubbish import TEXTS, changed, damage, value

SECONDS = 30
"""Until an answer. Nothing is waited for if all is well."""
HOST = b"HOST:PORT"
"""In a request: replaced by the address of the page."""
PAIR = {"text_a": "the doctor saw the pilot", "text_b": "the doctor saw", "split": None}


@dataclass(frozen=True)
class Visits:
    """Clients one after another: what each sends, and how it leaves. Afterwards the page must answer as before."""

    visits: tuple[tuple[bytes, str], ...]

    def __call__(self) -> None:
        port = _served()
        for sent, leaves in self.visits:
            answer = _visit(port, sent.replace(HOST, b"127.0.0.1:%d" % port), leaves)
            if b"Traceback" in answer or answer.startswith(b"HTTP/1.1 5"):
                raise RuntimeError(f"{sent[:200]!r} is answered with {answer[:200]!r}")
        for method, path, body in (("GET", "/api/state", None), ("POST", "/api/pair", json.dumps(PAIR))):
            status = _status(port, method, path, body)
            if status != 200:
                raise RuntimeError(f"{method} {path} is answered with {status} afterwards")


def _visit(port: int, sent: bytes, leaves: str) -> bytes:
    """The answer, if the client "reads" it; another one "closes" or "resets" its connection."""
    answer = bytearray()
    with (
        contextlib.suppress(OSError),  # the server may hang up first
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection,
    ):
        connection.sendall(sent)
        if leaves == "resets":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif leaves == "reads":
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(2**16):
                answer += part
    return bytes(answer)


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
    return Visits(tuple((each, "reads") for each in (_get(b"/"), _get(b"/api/row?which=all"), _post(_pair()))))


def page_requests(rng: random.Random, folder: Path) -> Visits:
    """Clients that are no browsers."""
    _page()
    return Visits(
        tuple((_hostile(rng), rng.choice(["reads", "reads", "closes", "resets"])) for _ in range(rng.randrange(1, 5)))
    )


# --- requests ------------------------------------------------------------------------------------------------------


def _get(path: bytes, method: bytes = b"GET", more: bytes = b"") -> bytes:
    return b"%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (method, path, HOST, more)


def _pair() -> bytes:
    return json.dumps(PAIR).encode()


def _post(body: bytes, more: bytes = b"", length: bytes | None = None) -> bytes:
    counted = b"%d" % len(body) if length is None else length
    head = b"Content-Type: application/json\r\nContent-Length: %s\r\n%s" % (counted, more)
    return _get(b"/api/pair", b"POST", head) + body


def _hostile(rng: random.Random) -> bytes:
    honest = [_get(b"/"), _get(b"/api/row?position=1"), _post(_pair()), _post(b" " * 200_000 + _pair())]
    requests = [
        *(each[: rng.randrange(len(each))] for each in honest),
        *(damage(rng, each) for each in honest[:3]),
        *(_post(each) for each in _bodies(rng)),
        *(_post(_pair(), length=each) for each in LENGTHS),
        *(_get(rng.choice(PATHS), each) for each in METHODS),
        *(_get(b"/api/state", more=each) for each in HEADERS),
        *(_post(_pair(), more=each) for each in HEADERS),
        *(_chunked(rng, each) for each in CHUNKS),
        *(*OTHER, rng.randbytes(300), *(each * 5 for each in honest[:3]), _post(_pair()) + b"garbage"),
    ]
    return rng.choice(requests)


def _bodies(rng: random.Random) -> list[bytes]:
    texts = [
        json.dumps(changed(rng, PAIR)), json.dumps(value(rng)), "[" * 100_000, '{"text_a": ' * 20_000, "9" * 10_000,
        "NaN", '{"text_a": "\\ud800"}', '{"text_a": 1e999}', "\ufeff{}", '{"text_a": "a", "text_a": "b"}',
        json.dumps({"text_a": rng.choice(TEXTS), "text_b": rng.choice(TEXTS)}), json.dumps({"text_a": "a " * 20_000}),
        "x" * 600_000,
    ]  # fmt: skip
    return [text.encode() for text in texts] + [damage(rng, text.encode()) for text in texts[-4:]]


def _chunked(rng: random.Random, chunk: bytes) -> bytes:
    coding, length = rng.choice(CODINGS), rng.choice([b"", b"Content-Length: 5\r\n"])
    more = b"Content-Type: application/json\r\nTransfer-Encoding: %s\r\n%s" % (coding, length)
    return _get(b"/api/pair", b"POST", more) + chunk


LENGTHS = (b"-1", b"0", b"1", b"99999999", b"9" * 400, b"x", b"", b"1e3", b"+5", b"0x10", b"5, 5", b"\xff")
CODINGS = (b"chunked", b"gzip, chunked", b"chunked, chunked", b"identity", b"xchunked")
CHUNKS = (
    b"5\r\n{}   \r\n0\r\n\r\n", b"ZZ\r\n", b"5\r\n{}", b"ffffffffffffffff\r\n{}", b"-1\r\n\r\n", b"2\r\n{}",
    b"2;" + b"x" * 70_000 + b"\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\nA: b\r\n\r\n", b"",
)  # fmt: skip
PATHS = (
    b"//", b"/../../etc/passwd", b"/%2e%2e/%00", b"/api/row?position=" + b"9" * 20, b"/api/row?position=%EF%BC%99",
    b"/api/row?which=x&split=%FF", b"*", b"http://evil/api/state", b"/" + b"a" * 70_000, b"/api/pair", b"/\xff",
    b"/api/row?" + b"position=1&" * 5000, b"/favicon.ico", b"", b"/a b", b"/api/state#x", b"/api/row?split=%00",
)  # fmt: skip
METHODS = (b"GET", b"GET", b"HEAD", b"POST", b"PUT", b"OPTIONS", b"CONNECT", b"TRACE", b"get", b"G\0T", b"X" * 5000)
HEADERS = (
    b"X: " + b"y" * 1000 + b"\r\n", b"X: " + b"y" * 500_000 + b"\r\n", b"X: y\r\n" * 200, b"X: y\r\n" * 5000, b"X\r\n",
    b": y\r\n", b"X : y\r\n", b"X: \0\r\n", b"X: \xff\r\n", b" X: y\r\n", b"Host: evil\r\n", b"Origin: null\r\n",
    b"Origin: http://evil\r\n", b"Expect: 100-continue\r\n", b"Connection: close, keep-alive\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
)  # fmt: skip
OTHER = (
    b"", b"\r\n" * 1000, b"\0" * 1000, b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"HTTP/1.1 200 OK\r\n\r\n",
)  # fmt: skip
"""What is no request at all."""
