"""How speed is measured, apart from the measuring so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from srnet.config.fields import Described
from srnet.config.values import Range
from srnet.core.errors import UserError

MOST_TOKENS = 2**20
"""In a batch: more would fill the memory rather than measure a model."""
_Tokens = Annotated[int, Range(1, MOST_TOKENS)]


@dataclass(frozen=True)
class Pace(Described):
    """How speed is measured."""

    rounds: Annotated[int, Range(2, 1e6)] = 30
    """Rounds in which every model runs once with a single text; batches and generation have a third of them."""
    lengths: tuple[_Tokens, ...] = (32, 128)
    """Tokens of a text; of decoders, tokens of a prompt."""
    batch: _Tokens = 32
    """Texts at a time, for the throughput; not for decoders."""
    prompts: _Tokens = 1
    """Decoders only: prompts at a time."""
    new_tokens: _Tokens = 32
    """Decoders only: tokens that are generated after each prompt."""
    threads: Annotated[int, Range(1, 1024)] | None = None
    """Threads that a model may use. Default: OMP_NUM_THREADS, or one a core."""
    memory: bool = True
    """Also measure how much memory each model takes, in a process of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lengths:
            raise UserError("at least one length is needed", "give lengths such as 32,128")
        if self.batch * max(self.lengths) > MOST_TOKENS:
            raise UserError(
                f"a batch of {self.batch} texts of {max(self.lengths)} tokens is too large",
                f"measure at most {MOST_TOKENS:,} tokens at a time",
            )
        if self.prompts * (max(self.lengths) + self.new_tokens) > MOST_TOKENS:
            raise UserError(
                f"{self.prompts} prompts of {max(self.lengths)} tokens with {self.new_tokens} new ones are too many",
                f"measure at most {MOST_TOKENS:,} tokens at a time",
            )
