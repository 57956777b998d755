"""Requests to the page: what it answers and what it refuses. The fuzz (page_door) sends hostile ones."""

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

from srnet.page.app import LARGEST, _own_hosts
from srnet.page.pair import PairView

WORDS = PairView.most_words
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


def test_any_text_has_answers(page: Page) -> None:
    for text in (
        "",
        "🙂 " * WORDS,
        "word " * WORDS,
        "<script>alert(1)</script>",
        "\ud800 lone",
        "\0",
        "İ" * 50,
        "a\r\nb",
    ):
        for body in ({"text_a": text, "text_b": text}, {"text_a": text, "text_b": "the doctor"}, {"text_a": text}):
            status, found = ask(page, body)
            assert status == 200, text[:10]
            assert [sum(each["probabilities"]) for each in found["answers"]] == pytest.approx([1, 1])


# --- what it refuses -----------------------------------------------------------------------------------------------


BAD_BODIES = (
    *(b"", b"{", b"\xff\xfe", b"[" * 200_000),
    *(b"[]", b"null", b"1e999", b'"text"', b'{"text_b": "x"}', b'{"text_a": "a", "file": "/etc/passwd"}'),
    *(b'{"text_a": 1}', b'{"text_a": null}', b'{"text_a": "a", "split": "train"}'),
)
BAD_ROWS = ("position=-1", "position=x", "position=٣", "position=" + "9" * 5000, "which=none", "split=train")


def test_wrong_requests_are_one_plain_line(page: Page) -> None:
    long = json.dumps({"text_a": "x" * LARGEST}).encode()
    many = json.dumps({"text_a": "fine", "text_b": "w " * (WORDS + 1)}).encode()
    cases = [
        *((400, "POST", "/api/pair", body, JSON) for body in BAD_BODIES),
        (400, "POST", "/api/pair", b'{"text_a": "a"}', {"Content-Type": "text/plain"}),
        *((413, "POST", "/api/pair", body, JSON) for body in (long, many)),
        *((400, "GET", "/api/row?" + quote(query, safe="=&"), None, {}) for query in BAD_ROWS),
        (404, "GET", "/api/row?position=999999", None, {}),
    ]
    for wanted, method, path, body, headers in cases:
        status, _, answer = request(page, method, path, body, **headers)
        assert status == wanted, (path[:80], (body or b"")[:80])
        assert list(json.loads(answer)) == ["error"]
        assert b"Traceback" not in answer
        assert len(answer) < 200


OTHER_HOSTS = ("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1.x:{port}")
OTHER_ORIGINS = ("http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1")


def test_another_host_or_origin_is_refused(page: Page) -> None:
    for path in ("/", "/api/state", "/api/row", "/api/pair", "/nothing"):
        for name in OTHER_HOSTS:
            host = name.format(port=page.port)
            status, headers, answer = request(page, "POST" if path == "/api/pair" else "GET", path, b"{}", Host=host)
            assert (status, list(json.loads(answer))) == (403, ["error"]), (path, host)
            assert "access-control-allow-origin" not in headers
    for origin in OTHER_ORIGINS:
        assert ask(page, {"text_a": "a"}, Origin=origin.format(port=page.port))[0] == 403, origin


def test_only_one_of_its_own_names_is_allowed(page: Page) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        host = f"{name}:{page.port}"
        assert ask(page, {"text_a": "a"}, Host=host, Origin=f"http://{host}")[0] == 200, host
    with socket.create_connection(("127.0.0.1", page.port), timeout=10) as wire:
        wire.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nHost: evil.example\r\n\r\n".encode())
        assert wire.recv(100).split()[1] in (b"400", b"403")
    assert "127.0.0.1" in _own_hosts(80), "browsers leave out the port"
    assert "127.0.0.1" not in _own_hosts(8000)


def test_no_file_is_served(page: Page) -> None:
    here = Path(__file__)
    paths = ["/page.html", "/../page.html", "/..%2f..%2fpyproject.toml", "//etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"]
    for path in (*paths, f"/{here}", f"/static{here}", "/api/../../etc/passwd", "/api/row/../../srnet/page/app.py"):
        status, _, answer = request(page, "GET", path)
        assert status == 404, path
        assert len(answer) < 200


@pytest.mark.parametrize("length", [0, 10])
def test_a_client_that_leaves_in_the_middle_of_a_request(
    page: Page, length: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    head = f"POST /api/pair HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", page.port), timeout=10) as wire:
        wire.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode() + b" " * length)
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
