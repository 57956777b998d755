"""The `paper` profile: the published hyper-parameters, for the real tasks on a GPU.

Where the paper leaves a choice open, the profile follows the published scripts, and where they leave one open too, the
comment says what we chose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from srnet.errors import choose
from srnet.experiment.nodes import TaskSpec, load_task
from srnet.recipes.paradigms import Profile, Search
from srnet.training import TrainingSettings

BACKBONE = "bert-base-uncased"
FINETUNING_EPOCHS, OOD_EPOCHS, OOD_RATE = 3.0, 3.0, 2e-5
START_STEPS = (5_000, 10_000, 15_000, 20_000)
TRACED = 1000
"""OOD examples scored at each evaluation for the curves of figure 7; ours, as is the early-stopping rule's patience."""


@dataclass(frozen=True)
class Published:
    """One column of the table of hyper-parameters."""

    learning_rate: float
    debiased_epochs: float
    """Full fine-tuning with PoE and confidence regularisation."""
    pruning_epochs: float
    ablation_epochs: float
    """Table 5 trains shorter than the other figures."""
    warmup_steps: int
    eval_every: int
    timing_sparsity: float
    ood_warmup_steps: int
    """With OOD training data; these, and the epochs below, are in the scripts only."""
    ood_epochs_at: dict[float, float]
    """By sparsity, of the runs on a fine-tuned model, where they are not `OOD_EPOCHS`."""


PUBLISHED = {
    "mnli": Published(5e-5, 5, 5, 3, 3600, 1000, 0.7, 3600, {0.9: 7}),
    "qqp": Published(2e-5, 3, 7, 5, 3400, 1000, 0.7, 0, {0.7: 5, 0.9: 5}),
    "fever": Published(2e-5, 3, 7, 5, 0, 500, 0.9, 0, {0.9: 5}),
}


def paper_profile(task: TaskSpec, backbone: str = BACKBONE) -> Profile:
    published = PUBLISHED[choose("task of the paper", task.name, PUBLISHED)]
    data = load_task(task)

    def settings(epochs: float, extra_rows: int = 0, warmup: int = published.warmup_steps) -> TrainingSettings:
        """Batch size, length of texts and clipping are the defaults."""
        plain = TrainingSettings(published.learning_rate, epochs, eval_every=published.eval_every)
        # The same number of steps whatever the epochs, but at most half a run on a sample of the data.
        # Where a figure varies the length of the pruning, its share of the run stays.
        return replace(plain, warmup=min(0.5, warmup / plain.total_steps(len(data.train) + extra_rows)))

    finetuning, debiased = settings(FINETUNING_EPOCHS), settings(published.debiased_epochs)
    pruning = replace(settings(published.pruning_epochs), trace=TRACED)
    extra = 0 if data.ood_train is None else data.ood_copies * len(data.ood_train)
    total = finetuning.total_steps(len(data.train))
    epochs = (published.ablation_epochs, published.pruning_epochs, published.pruning_epochs + 2)
    # the paper moves the thresholds at every evaluation, not more often
    mask = Search("mask", options={"refresh_every": published.eval_every})
    longer = {sparsity: each / OOD_EPOCHS for sparsity, each in published.ood_epochs_at.items()}
    return Profile(
        task=task,
        backbone=backbone,
        finetuning=finetuning,
        finetuning_of={"poe": debiased, "confreg": debiased},
        pruning=pruning,
        # the scripts of IMP, unlike those of mask training, name no warm-up
        pruning_of=dict.fromkeys(("imp", "imp-rw"), replace(pruning, warmup=0.0)),
        stopping=replace(finetuning, patience=3),
        with_ood=replace(settings(OOD_EPOCHS, extra, published.ood_warmup_steps), learning_rate=OOD_RATE),
        starts=(0.0, *(step / total for step in START_STEPS if step < total), 1.0, "auto"),
        timing_sparsity=published.timing_sparsity,
        lengths=tuple(each / published.pruning_epochs for each in epochs),
        ablation_length=published.ablation_epochs / published.pruning_epochs,
        other_backbones=("roberta-base", "bert-large-uncased"),
        searches={"mask": mask, "id+ood": replace(mask, lengths_at=longer)},
    )
