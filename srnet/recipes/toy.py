"""Settings for the embedded benchmark and its backbone, looked for on ID dev only."""

from __future__ import annotations

from srnet.training import TrainingSettings

FINETUNING = TrainingSettings(learning_rate=3e-4, steps=800, warmup=0.05, eval_every=200)
PRUNING = TrainingSettings(learning_rate=3e-4, steps=1000, warmup=0.05, eval_every=100)
RATES: tuple[tuple[str, float], ...] = (("mask", 1e-3),)
