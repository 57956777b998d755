"""Who may talk to the page: only what was loaded from its own address.

Any page that a browser shows can send requests to 127.0.0.1. The Host header tells a request that came by another name
(DNS rebinding), the Origin header one that another page sent.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """The values that a Host header may have; without the port too where browsers leave it out."""
    names = {bracketed(host), *LOOPBACK}
    if is_wildcard(host):
        names |= {socket.gethostname(), *_own_addresses()}
    return frozenset(f"{name}:{port}".lower() for name in names) | ({*names} if port == 80 else set())


def bracketed(host: str) -> str:
    """As in an address of a page: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def is_wildcard(host: str) -> bool:
    """Whether it stands for every address of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _own_addresses() -> set[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return set()
    return {bracketed(str(each[4][0]).partition("%")[0]) for each in found}


@dataclass(frozen=True)
class Guard:
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
