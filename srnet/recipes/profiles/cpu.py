"""The `cpu` profile: a small real backbone and real data, in an hour or two without a GPU."""

from __future__ import annotations

from srnet.experiment.nodes import TaskSpec
from srnet.recipes.paradigms import Profile
from srnet.recipes.profiles.toy import small_profile
from srnet.training import TrainingSettings

FINETUNING = TrainingSettings(learning_rate=1e-4, steps=500, warmup=0.06, eval_every=100, dev_rows=2000)
PRUNING = TrainingSettings(learning_rate=2e-4, steps=500, warmup=0.06, eval_every=100, dev_rows=2000, trace=200)
"""The learning rate of the scores goes with the length of the run: the paper's 5e-5 is for 60,000 steps."""


def cpu_profile(task: TaskSpec, backbone: str) -> Profile:
    return small_profile(task, backbone, FINETUNING, PRUNING, stop_every=50)
