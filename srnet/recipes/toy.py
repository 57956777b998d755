"""Settings for the embedded benchmark and its backbone, looked for on ID dev only.

Fine-tuning is short on purpose, as the paper's is beside its mask training: the budget is part of the benchmark. The
learning rate of the scores goes with the length of the run: on a similar backbone twice as much cost ID score.
"""

from __future__ import annotations

from srnet.training import TrainingSettings

FINETUNING = TrainingSettings(learning_rate=2e-4, steps=300, warmup=0.05, eval_every=100)
PRUNING = TrainingSettings(learning_rate=5e-4, steps=1200, warmup=0.05, eval_every=150)
RATES: tuple[tuple[str, float], ...] = (("mask", 5e-4),)
