"""The server: a socket on one address of this machine, until Ctrl-C."""

from __future__ import annotations

import errno
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn

from srnet.errors import UserError
from srnet.page.guard import bracketed


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        raise _cannot_bind(host, port, error) from error


def _cannot_bind(host: str, port: int, error: Exception) -> UserError:
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        return UserError(f"port {port} of {host} is in use", "give another --port; 0 takes a free one")
    if code == errno.EACCES:
        return UserError(f"port {port} is not open to you", "give a --port from 1024 on")
    return UserError(f"{host} port {port} is no address of this machine", "leave out --host")


def address_of(host: str, listener: socket.socket) -> str:
    return f"http://{bracketed(host)}:{listener.getsockname()[1]}"


class Server(uvicorn.Server):
    """Ends at once: pending requests get no answer."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = sig == signal.SIGINT
        super().handle_exit(sig, frame)


def make_server(app: Any) -> Server:
    return Server(
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


def serve(app: Any, listener: socket.socket) -> None:
    """Answer requests until Ctrl-C."""
    try:
        make_server(app).run(sockets=[listener])
    except KeyboardInterrupt:
        return
