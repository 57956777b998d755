"""The embedded benchmark: three tasks with a shortcut, a dial for its strength, and sets where it is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import ModuleType

from srnet.errors import UserError, choose
from srnet.tasks.base import Example, Metric, Shortcut, Split, Task
from srnet.tasks.synthetic import inference, paraphrase, verification


@dataclass(frozen=True)
class _Family:
    module: ModuleType
    metric: Metric
    shortcut: Shortcut
    words: tuple[str, ...]
    """For the labels, from the grammar's own vocabulary."""


FAMILIES = {
    "inference": _Family(inference, "accuracy", "overlap", ("perhaps", "truly")),
    "paraphrase": _Family(paraphrase, "f1", "overlap", ("perhaps", "truly")),
    "verification": _Family(verification, "accuracy", "claim", ("truly", "allegedly", "perhaps")),
}


@dataclass(frozen=True)
class SyntheticTask:
    """A task of the embedded benchmark; the same fields always give the same examples."""

    name: str = "inference"
    bias: float = 0.9
    """The share of in-distribution examples that the shortcut gets right."""
    train_size: int = 20_000
    dev_size: int = 2_000
    ood_size: int = 2_000
    data_seed: int = 0

    def __post_init__(self) -> None:
        choose("task", self.name, FAMILIES)
        if not 0.0 <= self.bias <= 1.0:
            raise UserError(f"bias {self.bias:g} is out of range", "it is a share: 0 <= bias <= 1")
        if min(self.train_size, self.dev_size, self.ood_size) < 1:
            raise UserError("a split of the benchmark must hold at least one example")

    def load(self) -> Task:
        family = FAMILIES[self.name]
        biased: Callable[[Random, str, float], Example] = family.module.biased
        challenge: Callable[[Random, str], Example] = family.module.challenge

        def rows(split: str, size: int, draw: Callable[[Random, str], Example]) -> list[Example]:
            rng = Random(f"{self.name}-{split}-{self.data_seed}")
            return [draw(rng, f"{split}-{index}") for index in range(size)]

        def with_bias(rng: Random, id: str) -> Example:
            return biased(rng, id, self.bias)

        return Task(
            name=self.name,
            labels=family.module.LABELS,
            metric=family.metric,
            shortcut=family.shortcut,
            train=Split.of("train", "ID", rows("train", self.train_size, with_bias)),
            dev=Split.of("dev", "ID", rows("dev", self.dev_size, with_bias)),
            ood={"challenge": Split.of("challenge", "OOD", rows("challenge", self.ood_size, challenge))},
            ood_train=Split.of("ood_train", "OOD", rows("ood_train", self.ood_size, challenge)),
            label_words=family.words,
        )
