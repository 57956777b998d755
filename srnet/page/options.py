"""The options of the page, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from srnet.config.fields import Described
from srnet.config.values import MaxLength, Range
from srnet.core.errors import UserError


@dataclass(frozen=True)
class PageOptions(Described):
    """Where the page is, and how models read texts."""

    host: str = "127.0.0.1"
    """The address to listen on. Anyone who can reach another one than 127.0.0.1 can use the page: no password."""
    port: Annotated[int, Range(0, 65535)] = 8000
    """The port; 0 takes a free one."""
    max_length: MaxLength | None = None
    """Tokens that a pair is cut at. Default: as the model was trained, else 128."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.host.strip():
            raise UserError("the host has no name", "leave out --host")
