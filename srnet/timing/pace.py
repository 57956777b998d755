"""How speed is measured, apart from the measuring so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.config.fields import option
from srnet.core.errors import UserError, check_ranges

MOST_TOKENS = 2**20
"""In a batch: more would fill the memory rather than measure a model."""
_RANGES = {"rounds": (2, 1e6), "batch": (1, MOST_TOKENS), "threads": (1, 1024)}


@dataclass(frozen=True)
class Pace:
    """How speed is measured."""

    rounds: int = option(30, least=2)
    """Rounds in which every model runs once with a single text."""
    lengths: tuple[int, ...] = (32, 128)
    """Tokens of a text."""
    batch: int = option(32, least=1)
    """Texts at a time, for the throughput."""
    threads: int | None = option(None, least=1)
    """Threads that a model may use. Default: OMP_NUM_THREADS, or one a core."""
    memory: bool = True
    """Also measure how much memory each model takes, in a process of its own."""

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1:
            raise UserError("a text has at least one token", "give lengths such as 32,128")
        check_ranges(self, _RANGES)
        if self.batch * max(self.lengths) > MOST_TOKENS:
            raise UserError(
                f"a batch of {self.batch} texts of {max(self.lengths)} tokens is too large",
                f"measure at most {MOST_TOKENS:,} tokens at a time",
            )
