"""Which matrices are masked, chosen as in PEFT."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import nn
from transformers.pytorch_utils import Conv1D

from srnet.errors import UserError

Selector = str | tuple[str, ...]


@dataclass(frozen=True)
class Targets:
    """`modules`: "all-linear", a regular expression that a full module name must match, or a tuple of name endings.

    `exclude` works the same way and wins. The default masks every linear layer of the encoder and the classifier;
    the pooler stays, as in the paper. Embeddings, biases and LayerNorm are never masked.
    """

    modules: Selector = "all-linear"
    exclude: Selector = ("pooler.dense",)

    def find(self, model: nn.Module) -> dict[str, nn.Module]:
        """Module name -> layer, in the model's order."""
        layers = {name: m for name, m in model.named_modules() if isinstance(m, (nn.Linear, Conv1D))}
        found = {n: m for n, m in layers.items() if _matches(self.modules, n) and not _matches(self.exclude, n)}
        if not found:
            some = ", ".join(sorted({name.rsplit(".", 1)[-1] for name in layers}))
            raise UserError(f"no layer matches target_modules={self.modules!r}", f"linear layers end in: {some}")
        return found


def _matches(selector: Selector, name: str) -> bool:
    if selector == "all-linear":
        return True
    if isinstance(selector, str):
        try:
            return re.fullmatch(selector, name) is not None
        except re.error as error:
            raise UserError(f"'{selector}' is not a regular expression: {error}") from error
    return any(name == end or name.endswith(f".{end}") for end in selector)
