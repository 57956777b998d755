"""The embedded benchmark: three tasks in which truth is noisy evidence and a shortcut is graded evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import ModuleType

from srnet.errors import UserError, choose
from srnet.tasks.base import Example, Metric, Shortcut, Split, Task
from srnet.tasks.synthetic import inference, paraphrase, verification
from srnet.tasks.synthetic.evidence import Draw, Evidence


@dataclass(frozen=True)
class _Family:
    module: ModuleType
    metric: Metric
    shortcut: Shortcut
    noise: float
    """Set by theory alone: the CE-optimal classifier loses at most 4 points ID and 20 to 35 OOD by being debiased."""
    challenged: tuple[int, ...]
    words: tuple[str, ...]
    """For the labels, from the grammar's own vocabulary."""


FAMILIES = {
    "inference": _Family(inference, "accuracy", "overlap", 0.08, (0, 1), ("perhaps", "truly")),
    "paraphrase": _Family(paraphrase, "f1", "overlap", 0.08, (0, 1), ("perhaps", "truly")),
    "verification": _Family(verification, "accuracy", "claim", 0.12, (0, 1), ("truly", "allegedly", "perhaps")),
}
GRADES = 3
"""No cue, and two strengths: what four words that may be shared, and the openings of a claim, have room for."""


@dataclass(frozen=True)
class SyntheticTask:
    """A task of the embedded benchmark; the same fields always give the same examples."""

    name: str = "inference"
    noise: float | None = None
    """How often the relation between the texts is not that of the label; None: 0.08, for three labels 0.12."""
    strengths: tuple[float, ...] = (0.0, 3.0, 4.0)
    """The log-odds with which a cue of each grade points at the label; the first is no cue."""
    frequencies: tuple[float, ...] = (1.0, 1.0, 1.0)
    """How often each grade occurs, in any unit."""
    train_size: int = 40_000
    dev_size: int = 2_000
    ood_size: int = 2_000
    data_seed: int = 0

    def __post_init__(self) -> None:
        choose("task", self.name, FAMILIES)
        if not 0.0 <= self.evidence.noise < 0.5:
            raise UserError(f"noise {self.evidence.noise:g} is out of range", "it is a share: 0 <= noise < 0.5")
        if len(self.strengths) != GRADES or self.strengths[0] or any(not 0.0 <= s <= 20.0 for s in self.strengths):
            raise UserError(f"strengths {list(self.strengths)}: give {GRADES} from 0 to 20, the first of them 0")
        if len(self.frequencies) != GRADES or not all(0.0 <= f < math.inf for f in self.frequencies):
            raise UserError(f"frequencies {list(self.frequencies)}: give {GRADES}, none of them negative")
        if not sum(self.frequencies):
            raise UserError("frequencies are all 0", "some grade of the cue must occur")
        if min(self.train_size, self.dev_size, self.ood_size) < 1:
            raise UserError("a split of the benchmark must hold at least one example")

    @property
    def evidence(self) -> Evidence:
        family = FAMILIES[self.name]
        noise = family.noise if self.noise is None else self.noise
        return Evidence(len(family.module.LABELS), noise, self.strengths, self.frequencies, family.challenged)

    def load(self) -> Task:
        family, evidence = FAMILIES[self.name], self.evidence
        write: Callable[[Random, str, Draw], Example] = family.module.example

        def rows(split: str, size: int, draw: Callable[[Random], Draw]) -> list[Example]:
            rng = Random(f"{self.name}-{split}-{self.data_seed}")
            return [write(rng, f"{split}-{index}", draw(rng)) for index in range(size)]

        return Task(
            name=self.name,
            labels=family.module.LABELS,
            metric=family.metric,
            shortcut=family.shortcut,
            train=Split.of("train", "ID", rows("train", self.train_size, evidence.draw)),
            dev=Split.of("dev", "ID", rows("dev", self.dev_size, evidence.draw)),
            ood={"challenge": Split.of("challenge", "OOD", rows("challenge", self.ood_size, evidence.draw_challenge))},
            ood_train=Split.of("ood_train", "OOD", rows("ood_train", self.ood_size, evidence.draw_challenge)),
            label_words=family.words,
            theory={name: {"dev": id, "challenge": ood} for name, (id, ood) in evidence.theory().items()},
        )
