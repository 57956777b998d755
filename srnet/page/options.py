"""The options of the page, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.config.fields import option
from srnet.core.errors import UserError

LAST_PORT = 65535


@dataclass(frozen=True)
class PageOptions:
    """Where the page is, and how models read texts."""

    host: str = "127.0.0.1"
    """The address to listen on. Anyone who can reach another one than 127.0.0.1 can use the page: no password."""
    port: int = option(8000, least=0)
    """The port; 0 takes a free one."""
    max_length: int | None = option(None, least=8)
    """Tokens that a pair is cut at. Default: as the model was trained, else 128."""

    def __post_init__(self) -> None:
        if self.port > LAST_PORT:
            raise UserError(f"port {self.port} is too large", f"give at most {LAST_PORT}")
        if not self.host.strip():
            raise UserError("the host has no name", "leave out --host")
