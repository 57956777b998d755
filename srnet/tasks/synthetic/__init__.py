"""The embedded benchmark: three tasks in which truth is noisy evidence and a shortcut is graded evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Annotated

from srnet.config.fields import Described, option
from srnet.config.values import NotNegative, OneOf, Range
from srnet.core.errors import UserError
from srnet.tasks.base import Metric, Shortcut, Task
from srnet.tasks.splits import Example, Kind, Split
from srnet.tasks.synthetic.evidence import Draw, Evidence
from srnet.tasks.synthetic.families import (
    INFERENCE_LABELS,
    PARAPHRASE_LABELS,
    VERIFICATION_LABELS,
    inference_example,
    paraphrase_example,
    verification_example,
)


@dataclass(frozen=True)
class _Family:
    labels: tuple[str, ...]
    write: Callable[[Random, str, Draw], Example]
    metric: Metric
    shortcut: Shortcut
    noise: float
    frequencies: tuple[float, float, float]
    """With these defaults the best classifier without the cue loses, in expectation, at most 4 points ID and gains 20
    to 35 OOD."""
    words: tuple[str, ...]
    """Label words, from the grammar's own vocabulary."""


FAMILIES = {
    "inference": _Family(
        INFERENCE_LABELS, inference_example, "accuracy", "overlap", 0.06, (0.0, 1.0, 2.0), ("perhaps", "truly")
    ),
    "paraphrase": _Family(
        PARAPHRASE_LABELS, paraphrase_example, "f1", "overlap", 0.06, (0.0, 1.0, 2.0), ("perhaps", "truly")
    ),
    "verification": _Family(
        VERIFICATION_LABELS,
        verification_example,
        "accuracy",
        "claim",
        0.08,
        (1.0, 1.0, 3.0),
        ("truly", "allegedly", "perhaps"),
    ),
}
GRADES = ("none", "weak", "strong")
CHALLENGED = (0, 1)
"""The labels of the challenge sets: both of two; of three the decided ones, as in FEVER-Symmetric."""


Size = Annotated[int, Range(1, 10_000_000)]
"""Examples of a split: they are held in memory."""


@dataclass(frozen=True)
class SyntheticTask(Described):
    """A task of the embedded benchmark; the same fields always give the same examples."""

    name: Annotated[str, OneOf(FAMILIES)] = option("inference", name="--task")
    """Task of the embedded benchmark: inference, paraphrase or verification."""
    noise: Annotated[float, Range(0, below=0.5)] | None = None
    """How often the relation between the texts is not that of the label. Default 0.06; 0.08 for verification."""
    strengths: tuple[Annotated[float, Range(0, 20)], ...] = (0.0, 1.0, 4.0)
    """Log-odds with which no cue, a weak cue and a strong cue point at the label. The first is 0."""
    frequencies: tuple[NotNegative, ...] | None = None
    """How often there is no cue, a weak and a strong one, in any unit. Default 0,1,2; 1,1,3 for verification."""
    train_size: Size = 20_000
    """Training examples."""
    dev_size: Size = 3_000
    """Examples of ID dev."""
    ood_size: Size = 2_000
    """Examples of each OOD set."""
    data_seed: int = 0
    """Seed of the examples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.strengths) != len(GRADES) or self.strengths[0]:
            raise UserError(f"strengths {list(self.strengths)}: give three, the first of them 0")
        often = self.evidence.frequencies
        if len(often) != len(GRADES) or not sum(often):
            raise UserError(f"frequencies {list(often)}: give three, one above 0")
        if often[0] and FAMILIES[self.name].shortcut == "overlap":
            raise UserError(f"'{self.name}': two texts always share some number of words", "begin frequencies with 0")

    @property
    def shortcut(self) -> Shortcut:
        return FAMILIES[self.name].shortcut

    @property
    def evidence(self) -> Evidence:
        family = FAMILIES[self.name]
        noise = family.noise if self.noise is None else self.noise
        frequencies = family.frequencies if self.frequencies is None else self.frequencies
        return Evidence(len(family.labels), noise, self.strengths, frequencies, CHALLENGED)

    def load(self) -> Task:
        family, evidence = FAMILIES[self.name], self.evidence
        draws: dict[str, list[Draw]] = {}

        def rows(split: str, kind: Kind, size: int, draw: Callable[[Random], Draw]) -> Split:
            rng, examples = Random(f"{self.name}-{split}-{self.data_seed}"), []
            draws[split] = []
            for index in range(size):
                draws[split].append(draw(rng))
                examples.append(family.write(rng, f"{split}-{index}", draws[split][-1]))
            return Split.of(split, kind, examples)

        return Task(
            name=self.name,
            labels=family.labels,
            metric=family.metric,
            shortcut=family.shortcut,
            train=rows("train", "ID", self.train_size, evidence.draw),
            dev=rows("dev", "ID", self.dev_size, evidence.draw),
            ood={"challenge": rows("challenge", "OOD", self.ood_size, evidence.draw_challenge)},
            ood_train=rows("ood_train", "OOD", self.ood_size, evidence.draw_challenge),
            label_words=family.words,
            ideal={
                name: {split: answers(draws[split]) for split in ("dev", "challenge")}
                for name, answers in evidence.ideal_classifiers.items()
            },
        )
