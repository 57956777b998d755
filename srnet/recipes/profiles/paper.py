"""The `paper` profile: the published hyper-parameters, for the real tasks on a GPU.

Where the paper leaves a choice open, the profile follows the published scripts, and where they leave one open too, the
comment says what we chose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from srnet.errors import choose
from srnet.experiment.nodes import TaskSpec, load_task
from srnet.recipes.profile import Profile
from srnet.training import TrainingSettings

BACKBONE = "bert-base-uncased"
OTHER_BACKBONES = ("roberta-base", "bert-large-uncased")
TRACED = 1000
"""OOD examples scored at each evaluation for the curves of figure 7; ours, as is the early-stopping rule's patience."""


@dataclass(frozen=True)
class Published:
    """One column of the table of hyper-parameters."""

    learning_rate: float
    finetuning_epochs: float
    debiased_epochs: float
    """Full fine-tuning with PoE and confidence regularisation."""
    pruning_epochs: float
    ablation_epochs: float
    """Table 5 trains shorter than the other figures."""
    warmup_steps: int
    eval_every: int
    start_steps: tuple[int, ...]
    timing_sparsity: float
    ood_warmup_steps: int
    """With OOD training data; these, and the epochs below, are said in the scripts only."""
    ood_epochs_at: tuple[tuple[float, float], ...]
    """(sparsity, epochs) of the runs on a fine-tuned model, where they are not `OOD_EPOCHS`."""


OOD_EPOCHS, OOD_RATE = 3.0, 2e-5
_STARTS = (5_000, 10_000, 15_000, 20_000)
PUBLISHED = {
    "mnli": Published(5e-5, 3, 5, 5, 3, 3600, 1000, _STARTS, 0.7, 3600, ((0.9, 7),)),
    "qqp": Published(2e-5, 3, 3, 7, 5, 3400, 1000, _STARTS, 0.7, 0, ((0.7, 5), (0.9, 5))),
    "fever": Published(2e-5, 3, 3, 7, 5, 0, 500, _STARTS, 0.9, 0, ((0.9, 5),)),
}


def paper_profile(task: TaskSpec, backbone: str = BACKBONE) -> Profile:
    published = PUBLISHED[choose("task of the paper", task.name, PUBLISHED)]
    data = load_task(task)
    examples = len(data.train)

    def settings(
        epochs: float,
        learning_rate: float = published.learning_rate,
        warmup_steps: int = published.warmup_steps,
        examples: int = examples,
    ) -> TrainingSettings:
        plain = TrainingSettings(
            learning_rate=learning_rate,
            epochs=epochs,
            batch_size=32,
            eval_every=published.eval_every,
            max_length=128,
            max_grad_norm=1.0,
        )
        # The same number of steps whatever the epochs, but at most half a run on a sample of the data.
        # Where a figure varies the length of the pruning, its share of the run stays.
        return replace(plain, warmup=min(0.5, warmup_steps / plain.total_steps(examples)))

    finetuning, pruning = settings(published.finetuning_epochs), settings(published.pruning_epochs)
    debiased = settings(published.debiased_epochs)
    traced = replace(pruning, trace=TRACED)
    extra = 0 if data.ood_train is None else data.ood_copies * len(data.ood_train)
    total = finetuning.total_steps(examples)
    epochs = (published.ablation_epochs, published.pruning_epochs, published.pruning_epochs + 2)
    return Profile(
        task=task,
        backbone=backbone,
        finetuning=finetuning,
        finetuning_of=(("poe", debiased), ("confreg", debiased)),
        pruning=traced,
        # the scripts of IMP, unlike those of mask training, name no warm-up
        pruning_of=tuple((name, replace(traced, warmup=0.0)) for name in ("imp", "imp-rw")),
        stopping=replace(finetuning, patience=3),
        with_ood=settings(OOD_EPOCHS, OOD_RATE, published.ood_warmup_steps, examples + extra),
        ood_lengths_at=tuple((sparsity, epochs / OOD_EPOCHS) for sparsity, epochs in published.ood_epochs_at),
        sparsities=(0.2, 0.5, 0.7, 0.9),
        starts=(0.0, *(step / total for step in published.start_steps if step < total), 1.0, "auto"),
        timing_sparsity=published.timing_sparsity,
        lengths=tuple(each / published.pruning_epochs for each in epochs),
        ablation_length=published.ablation_epochs / published.pruning_epochs,
        other_backbones=OTHER_BACKBONES,
        # the paper moves the thresholds at every evaluation, not more often
        mask_options=(("refresh_every", published.eval_every),),
    )
