"""Settings for the embedded benchmark and its backbone, looked for on ID dev only.

Fine-tuning is short on purpose, as the paper's is beside its mask training: the budget is part of the benchmark. The
learning rate of the scores goes with the length of the run: twice as much costs ID score.
"""

from __future__ import annotations

from srnet.names import EMBEDDED
from srnet.training import TrainingSettings

FINETUNING = TrainingSettings(learning_rate=2e-4, steps=300, warmup=0.05, eval_every=100)
PRUNING = TrainingSettings(learning_rate=5e-4, steps=1200, warmup=0.05, eval_every=150)


def finetuning_for(backbone: str) -> TrainingSettings:
    """What to start from where the user says nothing: the paper's settings for a real backbone."""
    return FINETUNING if backbone == EMBEDDED else TrainingSettings(epochs=3)


def pruning_for(backbone: str) -> TrainingSettings:
    return PRUNING if backbone == EMBEDDED else TrainingSettings(epochs=5)
