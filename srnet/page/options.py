"""The options of the page, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from srnet.config.fields import Described, option
from srnet.config.values import NAMES, MaxLength, Range


@dataclass(frozen=True)
class PageOptions(Described):
    """The port of the page, and how models read texts."""

    port: Annotated[int, Range(0, 65535)] = 8000
    """The port; 0 takes a free one."""
    max_length: MaxLength | None = None
    """Tokens that a pair is cut at. Default: as the model was trained; a model of others reads as much as it can.
    Language models read longer sentences in parts, as in `srnet evaluate`."""
    new_tokens: Annotated[int, Range(1, 1000)] = 40
    """Decoders only: tokens that continue a prompt at most."""
    labels_are: tuple[tuple[str, str], ...] = option((), kind=NAMES)
    """Labels of a model that are called otherwise in the task: LABEL_0=negative,LABEL_1=positive."""
