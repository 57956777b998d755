"""What a training starts from where the user says nothing: the embedded benchmark's settings, or the papers'."""

from __future__ import annotations

from dataclasses import replace

from srnet.experiment.nodes import TaskSpec, answer_of_spec
from srnet.names import EMBEDDED, EMBEDDED_OTHER
from srnet.pruners import get_pruner
from srnet.recipes.profiles.smp import family_settings
from srnet.recipes.profiles.toy import FINETUNING, PRUNING, PRUNING_WEIGHTS
from srnet.training import TrainingSettings


def finetuning_for(backbone: str, task: TaskSpec | None = None) -> TrainingSettings:
    return _roomy(FINETUNING if _embedded(backbone) else TrainingSettings(epochs=3), task)


def pruning_for(backbone: str, pruner: str = "mask", task: TaskSpec | None = None) -> TrainingSettings:
    settings = family_settings(pruner, embedded=_embedded(backbone))
    if settings is None:
        embedded = PRUNING if get_pruner(pruner).has_scores else PRUNING_WEIGHTS
        settings = embedded if _embedded(backbone) else TrainingSettings(epochs=5)
    return _roomy(settings, task)


def _roomy(settings: TrainingSettings, task: TaskSpec | None) -> TrainingSettings:
    """Contexts are longer than sentences."""
    return settings if task is None else replace(settings, max_length=answer_of_spec(task).max_length)


def _embedded(backbone: str) -> bool:
    return backbone in (EMBEDDED, EMBEDDED_OTHER)
