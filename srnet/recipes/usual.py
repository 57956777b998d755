"""What a training starts from where the user says nothing: the embedded benchmark's settings, or the papers'."""

from __future__ import annotations

from srnet.names import EMBEDDED, EMBEDDED_OTHER
from srnet.recipes.smp import family_settings
from srnet.recipes.toy import FINETUNING, PRUNING
from srnet.training import TrainingSettings


def finetuning_for(backbone: str) -> TrainingSettings:
    return FINETUNING if _embedded(backbone) else TrainingSettings(epochs=3)


def pruning_for(backbone: str, pruner: str = "mask") -> TrainingSettings:
    settings = family_settings(pruner, embedded=_embedded(backbone))
    if settings is not None:
        return settings
    return PRUNING if _embedded(backbone) else TrainingSettings(epochs=5)


def _embedded(backbone: str) -> bool:
    return backbone in (EMBEDDED, EMBEDDED_OTHER)
