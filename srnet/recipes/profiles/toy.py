"""The profiles for a CPU. `toy`: the embedded benchmark and its backbones. `cpu`: real data and a small real backbone.

Settings of `toy` were chosen on ID dev only. Fine-tuning is as long as cross-entropy needs to come close to the best ID
score that theory allows; the control trains on for as long as the longest search. `cpu` takes an hour or two.
"""

from __future__ import annotations

from dataclasses import replace

from srnet.experiment.nodes import TaskSpec
from srnet.names import EMBEDDED, EMBEDDED_OTHER
from srnet.recipes.paradigms import Profile
from srnet.training import TrainingSettings

FINETUNING = TrainingSettings(learning_rate=5e-4, steps=700, warmup=0.05, eval_every=100, dev_rows=1000)
LONGER = {"verification": 1500}
"""Steps of fine-tuning where cross-entropy needs more: after 700 it has not learned the opening words."""
PRUNING = TrainingSettings(learning_rate=1.5e-4, steps=500, warmup=0.05, eval_every=100, dev_rows=1000, trace=200)
"""At 70 % a mask starts at chance level. At 2.5e-4 and above, or in batches of 16, some seeds do not leave it."""
PRUNING_WEIGHTS = replace(PRUNING, learning_rate=FINETUNING.learning_rate)
"""IMP trains weights, not scores."""
CPU_FINETUNING = TrainingSettings(learning_rate=1e-4, steps=500, warmup=0.06, eval_every=100, dev_rows=2000)
CPU_PRUNING = replace(CPU_FINETUNING, learning_rate=2e-4, trace=200)
"""The learning rate of the scores goes with the length of the run: the paper's 5e-5 is for 60,000 steps."""


def toy_profile(task: TaskSpec, backbone: str = EMBEDDED) -> Profile:
    finetuning = replace(FINETUNING, steps=LONGER.get(task.name, FINETUNING.steps))
    return replace(_profile(task, backbone, finetuning, PRUNING, stop_every=25), other_backbones=(EMBEDDED_OTHER,))


def cpu_profile(task: TaskSpec, backbone: str) -> Profile:
    return _profile(task, backbone, CPU_FINETUNING, CPU_PRUNING, stop_every=50)


def _profile(
    task: TaskSpec, backbone: str, finetuning: TrainingSettings, pruning: TrainingSettings, stop_every: int
) -> Profile:
    """Early stopping: when ID dev has not risen by half a point in three evaluations, one every `stop_every` steps."""
    return Profile(
        task=task,
        backbone=backbone,
        finetuning=finetuning,
        pruning=pruning,
        stopping=replace(finetuning, eval_every=stop_every, patience=3, min_gain=0.5),
        pruning_of=dict.fromkeys(("imp", "imp-rw"), replace(pruning, learning_rate=finetuning.learning_rate)),
        sparsities=(0.5, 0.7),
        sparsities_of={"fig2": (0.5, 0.7, 0.9)},
    )
