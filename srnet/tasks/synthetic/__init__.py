"""The embedded benchmark: three tasks in which truth is noisy evidence and a shortcut is graded evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Annotated

from srnet.config.fields import Described, option
from srnet.config.values import NotNegative, OneOf, Range
from srnet.core.errors import UserError
from srnet.tasks.base import Task, register_task
from srnet.tasks.shortcut import Shortcut
from srnet.tasks.splits import Split, SplitKind
from srnet.tasks.synthetic import stereotypes  # noqa: F401  it registers its tasks
from srnet.tasks.synthetic.cues import Cues, Draw
from srnet.tasks.synthetic.families import EMBEDDED_TASKS

_GRADES = 3
"""No cue, a weak one and a strong one."""
_CHALLENGED = (0, 1)
"""The labels of the challenge sets: both of two; of three the decided ones, as in FEVER-Symmetric."""
_Size = Annotated[int, Range(1, 10_000_000)]
"""Examples of a split: they are held in memory."""


@register_task(names=EMBEDDED_TASKS)
@dataclass(frozen=True)
class SyntheticTask(Described):
    """A task of the embedded benchmark; the same fields always give the same examples."""

    name: Annotated[str, OneOf(EMBEDDED_TASKS)] = option("inference", name="--task")
    """Task of the embedded benchmark: inference, paraphrase or verification."""
    noise: Annotated[float, Range(0, below=0.5)] | None = None
    """How often the relation between the texts is not that of the label. Default 0.06; 0.08 for verification."""
    strengths: tuple[Annotated[float, Range(0, 20)], ...] = (0.0, 1.0, 4.0)
    """Log-odds with which no cue, a weak cue and a strong cue point at the label. The first is 0."""
    frequencies: tuple[NotNegative, ...] | None = None
    """How often there is no cue, a weak and a strong one, in any unit. Default 0,1,2; 1,1,3 for verification."""
    train_size: _Size = 20_000
    """Training examples."""
    dev_size: _Size = 3_000
    """Examples of ID dev."""
    ood_size: _Size = 2_000
    """Examples of each OOD set."""
    data_seed: int = 0
    """Seed of the examples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.strengths) != _GRADES or self.strengths[0]:
            raise UserError(f"strengths {list(self.strengths)}: give three, the first of them 0")
        often = self.cues.frequencies
        if len(often) != _GRADES or not sum(often):
            raise UserError(f"frequencies {list(often)}: give three, one above 0")
        if often[0] and EMBEDDED_TASKS[self.name].shortcut == "overlap":
            raise UserError(f"'{self.name}': two texts always share some number of words", "begin frequencies with 0")

    @property
    def shortcut(self) -> Shortcut:
        return EMBEDDED_TASKS[self.name].shortcut

    @property
    def cues(self) -> Cues:
        family = EMBEDDED_TASKS[self.name]
        noise = family.noise if self.noise is None else self.noise
        frequencies = family.frequencies if self.frequencies is None else self.frequencies
        return Cues(len(family.labels), noise, self.strengths, frequencies, _CHALLENGED)

    def load(self) -> Task:
        family, cues = EMBEDDED_TASKS[self.name], self.cues
        draws: dict[str, list[Draw]] = {}

        def rows(split: str, kind: SplitKind, size: int, draw: Callable[[Random], Draw]) -> Split:
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
            train=rows("train", "ID", self.train_size, cues.draw),
            dev=rows("dev", "ID", self.dev_size, cues.draw),
            ood={"challenge": rows("challenge", "OOD", self.ood_size, cues.draw_challenge)},
            ood_train=rows("ood_train", "OOD", self.ood_size, cues.draw_challenge),
            label_words=family.words,
            ideal={
                name: {split: answers(draws[split]) for split in ("dev", "challenge")}
                for name, answers in cues.ideal_classifiers.items()
            },
        )
