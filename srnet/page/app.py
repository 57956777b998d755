"""The page's HTTP application and its server.

Any page that a browser shows can send requests to 127.0.0.1. The Host header reveals a request by another name (DNS
rebinding), the Origin header one that another page sent. Both are refused.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import secrets
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from threading import Event
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import srnet
from srnet.bias.texts import words
from srnet.core.errors import UserError
from srnet.page.comparison import ComparedRows
from srnet.page.language import LanguageView
from srnet.page.pair import PairView

LARGEST = 512 * 1024
"""Bytes of a request."""
View = PairView | LanguageView
_LEFT_EVERY = 0.2
"""Seconds after which it is checked again whether the browser still waits for a continuation."""
_DIGITS = 9
"""Digits of a position."""


def make_app(view: View, rows: ComparedRows, port: int) -> Starlette:
    """The application: the page, its state, a pair, a row, a prompt. Nothing else is served, and no file is read."""
    html = files("srnet.page").joinpath("page.html").read_text(encoding="utf-8")
    handlers = _Handlers(view, rows, html)
    routes = [
        Route("/", handlers.page),
        Route("/api/state", handlers.state),
        Route("/api/row", handlers.row),
        Route("/api/pair", handlers.pair, methods=["POST"]),
    ]
    if isinstance(view, LanguageView):
        routes.append(Route("/api/prompt", handlers.prompt, methods=["POST"]))
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, hosts=_own_hosts(port), headers=_headers(html))],
        exception_handlers=dict.fromkeys((HTTPException, ClientDisconnect, UserError, Exception), _answer_error),
    )


class _Handlers:
    """The functions that answer requests. Typed texts are computed one at a time."""

    def __init__(self, view: View, rows: ComparedRows, html: str) -> None:
        self._view, self._rows, self._html = view, rows, html
        self._turn = asyncio.Lock()
        self._started = secrets.token_hex(8)

    async def page(self, request: Request) -> Response:
        return Response(self._html, media_type="text/html")

    async def state(self, request: Request) -> Response:
        common = {"started": self._started, "version": srnet.__version__, "comparison": self._rows.state()}
        return _json({**common, "language": isinstance(self._view, LanguageView), **self._view.state()})

    async def row(self, request: Request) -> Response:
        given = request.query_params
        position, split, which = given.get("position", "0"), given.get("split") or None, given.get("which", "disagree")
        if not (position.isascii() and position.isdecimal() and len(position) <= _DIGITS):
            raise HTTPException(400, "position is not a whole number")
        if which not in ("disagree", "all"):
            raise HTTPException(400, "which is not one of: disagree, all")
        self._check_split(split)
        found = self._rows.row(int(position), split, which == "all")
        if found is None:
            raise HTTPException(404, "there is no row at this position")
        return _json(found)

    def _check_split(self, split: str | None) -> None:
        scored = () if self._view.task is None else self._view.task.scored
        if split is not None and split not in scored:
            raise HTTPException(400, "the task scores no split of this name")

    async def pair(self, request: Request) -> Response:
        text_a, text_b, split = _pair_of(await _body(request), self._view.most_words)
        self._check_split(split)
        return await self._computed(request, self._view.look, text_a, text_b, split)

    async def prompt(self, request: Request) -> Response:
        """A continuation may take long, so it ends once the browser has left, or the server."""
        assert isinstance(self._view, LanguageView)
        text, stop = _prompt_of(await _body(request), self._view.most_words), Event()
        answer = asyncio.ensure_future(self._computed(request, self._view.proceed, text, stop))
        try:
            while not (await asyncio.wait({answer}, timeout=_LEFT_EVERY))[0]:
                if await request.is_disconnected():
                    stop.set()
            return await answer
        finally:
            stop.set()

    async def _computed(self, request: Request, function: Callable[..., Any], *given: Any) -> Response:
        async with self._turn:
            if await request.is_disconnected():  # another key was pressed meanwhile
                raise ClientDisconnect
            loop = asyncio.get_running_loop()
            return _json(await loop.run_in_executor(self._rows.executor, function, *given))


async def _body(request: Request) -> Any:
    """The JSON of a request. What is too long is not read to its end."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(400, "the request is not application/json")
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > LARGEST:
            raise HTTPException(413, f"the texts are too long: a request may have {LARGEST:,} bytes")
    try:
        return json.loads(read)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is not JSON") from None


def _pair_of(body: Any, most: int) -> tuple[str, str, str | None]:
    if not isinstance(body, dict) or not body.keys() <= {"text_a", "text_b", "split"}:
        raise HTTPException(400, "the request is not an object with text_a, text_b and split")
    text_a, text_b, split = body.get("text_a"), body.get("text_b", ""), body.get("split")
    if not isinstance(text_a, str) or not isinstance(text_b, str) or not isinstance(split, str | None):
        raise HTTPException(400, "text_a, text_b and split are texts")
    return _checked(text_a, "first text", most), _checked(text_b, "second text", most), split or None


def _prompt_of(body: Any, most: int) -> str:
    text = body.get("text") if isinstance(body, dict) and body.keys() == {"text"} else None
    if not isinstance(text, str):
        raise HTTPException(400, "the request is not an object with a text")
    return _checked(text, "prompt", most)


def _checked(text: str, which: str, most: int) -> str:
    text = text.encode(errors="replace").decode()  # JSON can hold lone surrogates, which tokenizers refuse
    count = len(words(text))
    if count > most:
        raise HTTPException(413, f"the {which} has {count:,} words; the page takes {most:,}")
    return text


# --- requests that are refused -------------------------------------------------------------------------------------


def _own_hosts(port: int) -> frozenset[str]:
    """The values that a Host header may have; without the port too where browsers leave it out."""
    names = ("127.0.0.1", "localhost", "[::1]")
    return frozenset({f"{name}:{port}" for name in names} | (set(names) if port == 80 else set()))


@dataclass(frozen=True)
class _Guard:
    """Refuses requests by another name or from another page, and gives every answer the same headers."""

    app: ASGIApp
    hosts: frozenset[str]
    headers: Mapping[str, str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # there are no websockets

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        answer = self.app if self._allows(Headers(scope=scope)) else _REFUSED
        await answer(scope, receive, send_with_headers)

    def _allows(self, headers: Headers) -> bool:
        origins = [each.lower() for each in headers.getlist("origin")]
        hosts = [each.lower() for each in headers.getlist("host")]
        own = {f"http://{host}" for host in self.hosts}
        return len(hosts) == 1 and hosts[0] in self.hosts and own.issuperset(origins)


_REFUSED = JSONResponse({"error": "this page answers only under its own address"}, status_code=403)


# --- answers -------------------------------------------------------------------------------------------------------


def _json(data: Any, status: int = 200) -> Response:
    return Response(json.dumps(data, allow_nan=False), status, media_type="application/json")


async def _answer_error(request: Request, error: Exception) -> Response:
    """The answer to a request that fails. Of a bug the terminal shows the traceback, the page does not."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=204)  # it is not read
    if isinstance(error, HTTPException):
        answer = _json({"error": error.detail}, error.status_code)
        answer.headers.update(error.headers or {})
        return answer
    if isinstance(error, UserError):
        return _json({"error": str(error)}, 400)
    return _json({"error": "an internal error; the terminal shows it"}, 500)


def _headers(html: str) -> dict[str, str]:
    """Only this page's own script and style run, nothing is fetched from elsewhere, and nothing is kept."""
    policy = {
        "default-src": "'none'",
        "script-src": _hash_of("script", html),
        "style-src": _hash_of("style", html),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }


def _hash_of(tag: str, html: str) -> str:
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


# --- the server ----------------------------------------------------------------------------------------------------


class _Server(uvicorn.Server):
    """A server that ends at once: pending requests get no answer."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = sig == signal.SIGINT
        super().handle_exit(sig, frame)


def make_server(app: Any) -> uvicorn.Server:
    return _Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
    )
