"""The options of the page, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.config.fields import option
from srnet.core.errors import UserError

_LAST_PORT = 65535


@dataclass(frozen=True)
class PageOptions:
    """The port of the page, and how models read texts."""

    port: int = option(8000, least=0)
    """The port; 0 takes a free one."""
    max_length: int | None = option(None, least=8)
    """Tokens that a pair is cut at. Default: as the model was trained, else 128."""

    def __post_init__(self) -> None:
        if self.port > _LAST_PORT:
            raise UserError(f"port {self.port} is too large", f"give at most {_LAST_PORT}")
