"""The `toy` profile: the embedded benchmark and its backbones, with settings chosen on ID dev only.

Fine-tuning is as long as cross-entropy needs to come close to the best ID score that theory allows; the control trains
on for as long as the longest search. The learning rate of the scores goes with the length of the run.
"""

from __future__ import annotations

from dataclasses import replace

from srnet.experiment.nodes import TaskSpec
from srnet.names import EMBEDDED, EMBEDDED_OTHER
from srnet.recipes.profile import Profile
from srnet.training import TrainingSettings

FINETUNING = TrainingSettings(learning_rate=5e-4, steps=700, warmup=0.05, eval_every=100, dev_rows=1000)
LONGER = {"verification": 1500}
"""Steps of fine-tuning where cross-entropy needs more: after 700 it has not learned the opening words."""
PRUNING = TrainingSettings(learning_rate=1.5e-4, steps=500, warmup=0.05, eval_every=100, dev_rows=1000, trace=200)
"""At 70 % a mask starts at chance level. At 2.5e-4 and above, or in batches of 16, some seeds do not leave it."""
PRUNING_WEIGHTS = replace(PRUNING, learning_rate=FINETUNING.learning_rate)
"""IMP trains weights, not scores."""
STOPPING = replace(FINETUNING, eval_every=25, patience=3, min_gain=0.5)
"""Fine-tuning that ends when ID dev has not risen by half a point for 75 steps."""


def toy_profile(task: TaskSpec, backbone: str = EMBEDDED) -> Profile:
    steps = LONGER.get(task.name, FINETUNING.steps)
    return Profile(
        task=task,
        backbone=backbone,
        finetuning=replace(FINETUNING, steps=steps),
        pruning=PRUNING,
        stopping=replace(STOPPING, steps=steps),
        pruning_of=dict.fromkeys(("imp", "imp-rw"), PRUNING_WEIGHTS),
        sparsities=(0.5, 0.7),
        sparsities_of={"fig2": (0.5, 0.7, 0.9)},
        other_backbones=(EMBEDDED_OTHER,),
    )
