"""What a figure is made of: models, each with its label, its place on the axis and its seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from srnet.experiment import FineTune, ModelNode, Prune, Rewind
from srnet.pruners.base import speedup_text

Axis = Literal["sparsity", "kept", "start", "length"]
"""What a figure varies. `kept` is 100 % minus the sparsity, on a logarithmic scale."""
Start = float | Literal["auto"]
"""When the search begins: after this share of the fine-tuning, or `auto`: when the ID dev score stops rising."""


class Place(NamedTuple):
    """Where a model is in its series: the requested values."""

    sparsity: float = 0.0
    start: Start | None = None
    """None where the search does not start from a fine-tuning."""
    length: float = 1.0
    """Of the search, relative to the profile's."""
    speedup: float | None = None
    """Where the budget is in time; `sparsity` is then the share of the time that goes."""

    @property
    def aim(self) -> str:
        """The target in a few characters."""
        return f"{100 * self.sparsity:g} %" if self.speedup is None else speedup_text(self.speedup)

    @property
    def target(self) -> float:
        """The number that was given: a sparsity, or a speed-up."""
        return self.sparsity if self.speedup is None else self.speedup


@dataclass(frozen=True)
class Point:
    """One model of a figure. Points with the same label are a series; at one place of it there is one a seed."""

    label: str
    place: Place
    seed: int
    node: ModelNode

    @property
    def search(self) -> Prune | None:
        """The pruning behind the model; None for a full model."""
        return search_behind(self.node)

    @property
    def is_pruned(self) -> bool:
        return self.search is not None

    @property
    def backbone(self) -> str:
        return self.node.pretrained.backbone

    @property
    def paradigm(self) -> Literal["full", "a", "b", "c"]:
        """(a) a fine-tuned model, pruned; (b) then rewound and fine-tuned in isolation; (c) the raw model, pruned."""
        if self.search is None:
            return "full"
        if isinstance(self.node, FineTune) and isinstance(self.node.parent, Rewind):
            return "b"
        return "c" if self.place.start is None else "a"


def search_behind(model: ModelNode) -> Prune | None:
    node = model.parent if isinstance(model, FineTune) else model
    node = node.subnetwork if isinstance(node, Rewind) else node
    return node if isinstance(node, Prune) else None


def labels_of(points: Iterable[Point]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(point.label for point in points))
