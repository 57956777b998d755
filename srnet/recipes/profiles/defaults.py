"""Default settings of a single training: those of the embedded benchmark, or the papers'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from srnet.backbones import SHIPPED
from srnet.errors import UserError
from srnet.experiment.nodes import TaskSpec, answer_of_spec
from srnet.pruners import get_pruner
from srnet.recipes.profiles import smp
from srnet.recipes.profiles.toy import FINETUNING, PRUNING, PRUNING_WEIGHTS
from srnet.training import TrainingSettings


def finetuning_for(backbone: str, task: TaskSpec | None = None) -> TrainingSettings:
    return _long_enough(FINETUNING if backbone in SHIPPED else TrainingSettings(epochs=3), task)


def pruning_for(backbone: str, pruner: str = "mask", task: TaskSpec | None = None) -> TrainingSettings:
    settings = TrainingSettings(epochs=5)
    if pruner in (*smp.STATIC, *smp.FAMILY):
        settings = (smp.small(smp.TOY) if backbone in SHIPPED else smp.PUBLISHED["mnli"]).of(pruner)
    elif backbone in SHIPPED:
        settings = PRUNING if get_pruner(pruner).has_scores else PRUNING_WEIGHTS
    return _long_enough(settings, task)


def check_rates(pruner: str, words: Sequence[str], given: Mapping[str, Any]) -> None:
    """Refuse a learning rate that nothing uses: with label words there is no classifier to train."""
    if words and pruner in smp.STATIC and "learning_rate" in given:
        raise UserError(f"with label words nothing but scores trains under {pruner}", "give --score-rate instead")


def _long_enough(settings: TrainingSettings, task: TaskSpec | None) -> TrainingSettings:
    """For the task's kind of answer: contexts are longer than sentences."""
    return settings if task is None else replace(settings, max_length=answer_of_spec(task).max_length)
