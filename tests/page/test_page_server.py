"""Requests to the page: what it answers, whom it refuses, and that nothing hostile breaks it."""

from __future__ import annotations

import http.client
import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from served import PEOPLE, Page, page_of, serving

from srnet.core.errors import UserError
from srnet.page.app import LARGEST, WORDS, allowed_hosts, is_loopback
from srnet.page.run import bind

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    made = page_of()
    with serving(made):
        yield made


def request(page: Page, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def ask(page: Page, body: Any, **headers: str) -> tuple[int, Any]:
    status, _, answer = request(page, "POST", "/api/pair", json.dumps(body), **{**JSON, **headers})
    return status, json.loads(answer)


# --- what it answers -----------------------------------------------------------------------------------------------


def test_the_page_names_no_other_address(page: Page) -> None:
    status, headers, html = request(page, "GET", "/")
    assert status == 200
    assert b"http:" not in html
    assert b"https:" not in html
    policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]


def test_the_state_and_rows(page: Page) -> None:
    state = json.loads(request(page, "GET", "/api/state")[2])
    assert [each["name"] for each in state["models"]] == ["follows overlap", "reads the order"]
    assert state["labels"] == ["entailment", "neutral", "contradiction"]
    assert state["training"] == {"rows": 48, "compared": 48}
    row = json.loads(request(page, "GET", "/api/row?position=1&split=hard")[2])
    assert (row["position"], row["total"], row["label"]) == (1, 5, "non-entailment")
    status, found = ask(page, {"text_a": row["text_a"], "text_b": row["text_b"], "split": row["split"]})
    assert status == 200
    assert [each["class"] for each in found["answers"]] == ["entailment", "non-entailment"]


@pytest.mark.parametrize(
    "text",
    ["", "🙂 " * WORDS, "word " * WORDS, "<script>alert(1)</script>", "\ud800 lone", "\0", "İ" * 50, "a\r\nb"],
    ids=lambda text: repr(text[:10]),
)
def test_any_text_has_answers(page: Page, text: str) -> None:
    for body in ({"text_a": text, "text_b": text}, {"text_a": text, "text_b": "the doctor"}, {"text_a": text}):
        status, found = ask(page, body)
        assert status == 200
        assert len(found["answers"]) == 2
        assert all(sum(each["probabilities"]) == pytest.approx(1) for each in found["answers"])


# --- what it refuses -----------------------------------------------------------------------------------------------


NOT_JSON = (b"", b"{", b"\xff\xfe", b"[" * 200_000)
NOT_A_PAIR = (b"[]", b"null", b"1e999", b'"text"', b'{"text_b": "x"}', b'{"text_a": "a", "file": "/etc/passwd"}')
WRONG_TYPES = (b'{"text_a": 1}', b'{"text_a": null}', b'{"text_a": "a", "split": "train"}')


@pytest.mark.parametrize("body", [*NOT_JSON, *NOT_A_PAIR, *WRONG_TYPES], ids=lambda body: repr(body[:20]))
def test_wrong_requests_are_one_plain_line(page: Page, body: bytes) -> None:
    status, _, answer = request(page, "POST", "/api/pair", body, **JSON)
    assert status == 400
    assert list(json.loads(answer)) == ["error"]
    assert b"Traceback" not in answer
    assert len(answer) < 200


def test_other_types_are_refused(page: Page) -> None:
    status, _, answer = request(page, "POST", "/api/pair", b'{"text_a": "a"}', **{"Content-Type": "text/plain"})
    assert (status, json.loads(answer)) == (400, {"error": "the request is not application/json"})


def test_what_is_too_long_is_refused(page: Page) -> None:
    status, found = ask(page, {"text_a": "x" * LARGEST})
    assert (status, found) == (413, {"error": f"the texts are too long: a request may have {LARGEST:,} bytes"})
    status, found = ask(page, {"text_a": "fine", "text_b": "w " * (WORDS + 1)})
    assert (status, found) == (413, {"error": "the second text has 10,001 words; the page takes 10,000"})


@pytest.mark.parametrize(
    "query",
    ["position=-1", "position=x", "position=٣", "position=" + "9" * 5000, "which=none"],
    ids=lambda query: query[:12],
)
def test_wrong_rows_are_refused(page: Page, query: str) -> None:
    assert request(page, "GET", "/api/row?" + quote(query, safe="=&"))[0] == 400
    assert request(page, "GET", "/api/row?split=train")[0] == 400
    assert request(page, "GET", "/api/row?position=999999")[0] == 404


@pytest.mark.parametrize("path", ["/", "/api/state", "/api/row", "/api/pair", "/nothing"])
@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1.x:{port}"]
)
def test_another_host_is_refused(page: Page, path: str, name: str) -> None:
    host = name.format(port=page.port)
    status, headers, answer = request(page, "POST" if path == "/api/pair" else "GET", path, b"{}", Host=host)
    assert status == 403
    assert json.loads(answer) == {"error": "this page answers only under its own address"}
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1"])
def test_another_origin_is_refused(page: Page, origin: str) -> None:
    assert ask(page, {"text_a": "a"}, Origin=origin.format(port=page.port))[0] == 403


@pytest.mark.parametrize("name", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_its_own_names_are_allowed(page: Page, name: str) -> None:
    host = name.format(port=page.port)
    assert ask(page, {"text_a": "a"}, Host=host, Origin=f"http://{host}")[0] == 200


def test_two_hosts_in_one_request_are_refused(page: Page) -> None:
    with socket.create_connection(("127.0.0.1", page.port), timeout=10) as wire:
        wire.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nHost: evil.example\r\n\r\n".encode())
        assert wire.recv(100).split()[1] in (b"400", b"403")


def test_names_that_a_host_may_have() -> None:
    assert "192.168.1.5:8000" in allowed_hosts("192.168.1.5", 8000)
    assert "192.168.1.6:8000" not in allowed_hosts("192.168.1.5", 8000)
    assert "[fe80::1]:8000" in allowed_hosts("fe80::1", 8000)
    assert "127.0.0.1" in allowed_hosts("127.0.0.1", 80)
    assert "127.0.0.1" not in allowed_hosts("127.0.0.1", 8000)
    assert f"{socket.gethostname()}:8000".lower() in allowed_hosts("0.0.0.0", 8000)
    assert [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "box")] == [True] * 3 + [
        False
    ] * 2


def test_no_file_is_served(page: Page) -> None:
    here = Path(__file__)
    paths = ["/page.html", "/../page.html", "/..%2f..%2fpyproject.toml", "//etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"]
    for path in (*paths, f"/{here}", f"/static{here}", "/api/../../etc/passwd", "/api/row/../../srnet/page/app.py"):
        status, _, answer = request(page, "GET", path)
        assert status == 404, path
        assert len(answer) < 200


# --- many of them --------------------------------------------------------------------------------------------------


def hostile(chance: random.Random, port: int) -> bytes:
    """A request on the wire, more or less like HTTP."""
    texts = ["", "the doctor saw", "🙂" * 200, "<b>", "../../etc/passwd", "\\u0000", "\\ud800", "%00", "a" * 5000]
    body = chance.choice(
        [
            json.dumps({"text_a": chance.choice(texts), "text_b": chance.choice(texts)}).encode(),
            json.dumps({"text_a": chance.choice([None, 1, [], {}, True]), "split": chance.choice(texts)}).encode(),
            chance.randbytes(chance.randrange(300)),
            b"[" * chance.randrange(5000),
        ]
    )
    method = chance.choice(["GET", "POST", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"])
    path = chance.choice(
        ["/", "/api/pair", "/api/pair", "/api/state", "/api/row?position=", "/../../etc/passwd", "/%zz"]
    )
    path += chance.choice(["", "", "1", "?split=%ff", "%00", "x" * 2000])
    length = chance.choice([len(body)] * 6 + [0, -1, 10**12])
    host = chance.choice([f"127.0.0.1:{port}"] * 8 + ["evil.example", ""])
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {length}", "Connection: close"]
    lines += chance.sample(
        ["Content-Type: application/json", "Origin: http://evil.example", "X: " + "y" * 3000, "Upgrade: websocket"], 1
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def send(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        try:
            wire.sendall(data)
            wire.shutdown(socket.SHUT_WR)
            answer = bytearray()
            while part := wire.recv(65536):
                answer += part
        except ConnectionError:
            return b""
    return bytes(answer)


def test_hostile_requests_break_nothing(page: Page, capfd: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(0)
    statuses = set()
    for _ in range(200):
        answer = send(page.port, hostile(chance, page.port))
        assert b"Traceback" not in answer
        assert b"root:" not in answer
        if answer:
            statuses.add(int(answer.split()[1]))
    assert 200 in statuses
    assert {400, 403, 404, 405} <= statuses
    assert max(statuses) < 500
    assert "Traceback" not in capfd.readouterr().err
    assert ask(page, {"text_a": f"the {PEOPLE[0]} slept"})[0] == 200


@pytest.mark.parametrize("length", [0, 10])
def test_a_client_that_leaves_in_the_middle_of_a_request(
    page: Page, length: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    head = f"POST /api/pair HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nContent-Type: application/json\r\n"
    send(page.port, f"{head}Content-Length: 1000\r\n\r\n".encode() + b" " * length)
    assert ask(page, {"text_a": f"the {PEOPLE[0]} slept"})[0] == 200
    assert not [record for record in caplog.records if record.exc_info]
    assert "Traceback" not in capfd.readouterr().err


def test_memory_is_flat(page: Page) -> None:
    chance, process = random.Random(1), psutil.Process()

    def many(count: int) -> int:
        for _ in range(count):
            words = chance.choices(PEOPLE, k=chance.choice([5, 50, 3000]))
            assert ask(page, {"text_a": " ".join(words), "text_b": " ".join(reversed(words))})[0] == 200
        return int(process.memory_info().rss)

    before = many(60)
    assert many(120) - before < 16 * 2**20


def test_a_port_in_use_is_one_line(page: Page) -> None:
    with pytest.raises(UserError, match=f"port {page.port} of 127.0.0.1 is in use; give another --port"):
        bind("127.0.0.1", page.port)
    with pytest.raises(UserError, match="no address of this machine"):
        bind("192.0.2.1", 0)
    with pytest.raises(UserError, match="no address of this machine"):
        bind("no such name", 0)
