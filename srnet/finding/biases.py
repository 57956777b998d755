"""The shortcut that a search debiases: named by the user or the task, or else the strongest one of the survey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from srnet.bias.shortcuts.base import parse_shortcut
from srnet.bias.survey import Survey
from srnet.core.files import read_json
from srnet.evaluation import BIASED_BY
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import Bias, BiasSpec
from srnet.experiment.store import bias_splits
from srnet.finding.found import Biased
from srnet.tasks.base import DATASETS, Task
from srnet.tasks.planted import PlantedTask
from srnet.tasks.shortcut import Shortcut

MISLEADS = 0.5
"""The share of its gain over the majority class on ID dev that a shortcut has at most where it is said to mislead."""


@dataclass(frozen=True)
class Biases:
    """The bias models of a task. `given` are the user's options, `backbone` is that of weak models, if it is known."""

    given: BiasSpec
    spec: TaskSpec
    backbone: str | None
    engine: Engine

    @property
    def task(self) -> Task:
        return load_task(self.spec)

    @property
    def presumed(self) -> Shortcut:
        """The shortcut before anything is measured."""
        return self.given.shortcut or self.task.shortcut

    @property
    def named(self) -> Shortcut | None:
        """The shortcut that the user or the task's description names; files are only presumed to have one."""
        known = self.task.name in DATASETS or self.given != BiasSpec()
        return self.given.shortcut or getattr(self.spec, "shortcut", None) or (self.task.shortcut if known else None)

    def check(self) -> None:
        """Refuse a named shortcut that cannot be measured, before anything is computed."""
        if self.named is not None:
            self.engine.plan([self.node(self.named)])

    def tried(self, surveyed: Survey) -> list[Biased]:
        """The named shortcut, then the strongest of the survey, until one is biased; the last one is used.

        Without either, the presumed one is measured as well, and is not called biased: the survey is more careful.
        """
        found: list[Biased] = []
        for shortcut in self._candidates(surveyed) or [self.presumed]:
            measured = self.measured(shortcut)
            certain = parse_shortcut(shortcut) in [parse_shortcut(each.shortcut) for each in surveyed.found]
            is_biased = certain or (shortcut == self.named and measured.gain >= BIASED_BY)
            found.append(replace(measured, is_biased=is_biased))
            self.engine.reporter.say(f"shortcut {found[-1]}")
            if is_biased:
                break
        return found

    def _candidates(self, surveyed: Survey) -> Sequence[Shortcut]:
        """The shortcuts to try, each once; one that was given or planted is the only one."""
        best = None if self.given.shortcut or isinstance(self.spec, PlantedTask) else surveyed.best
        return list(dict.fromkeys(each for each in (self.named, best) if each is not None))

    def measured(self, shortcut: Shortcut) -> Biased:
        node = self.node(shortcut)
        self.engine.execute([node])
        score, gain = self._scores(node, self.task.dev.name)
        return Biased(shortcut, score, gain)

    def misled(self, bias: Biased) -> tuple[str, ...]:
        """The OOD sets on which a shortcut misleads; none if it is no shortcut."""
        node = self.node(bias.shortcut)
        measured = [
            split for split in self.task.ood if bias.is_biased and split in bias_splits(self.engine.store, node.key)
        ]
        gains = {split: self._scores(node, split)[1] for split in measured}
        return tuple(split for split, gain in gains.items() if gain <= MISLEADS * bias.gain)

    def spec_of(self, shortcut: Shortcut) -> BiasSpec:
        """Options that were given are for the presumed shortcut; others may not have them.

        The task's own shortcut is left to the task, as in all recipes: their bias models are described the same way.
        """
        given = self.given if shortcut == self.presumed else BiasSpec()
        return replace(given, shortcut=None if shortcut == self.task.shortcut else shortcut)

    def node(self, shortcut: Shortcut) -> Bias:
        return self.spec_of(shortcut).node(self.spec, self.backbone)

    def _scores(self, node: Bias, split: str) -> tuple[float, float]:
        """The score of a bias model on a split, and the points above the majority class."""
        own = read_json(self.engine.store.path(node.key) / "scores.json")[split]
        score, majority = (own[each][self.task.metric] for each in ("metrics", "majority"))
        return score, score - majority
