"""Profiles: the settings of every training of a figure, at three scales, and the defaults of a single training.

`toy` is for the embedded benchmark and its backbones, `cpu` for real data and a small real backbone, `paper` has the
published hyper-parameters. Static model pruning and its family (smp) are trained otherwise than mask training (srnet).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from srnet.core.errors import UserError, choose
from srnet.core.names import EMBEDDED, EMBEDDED_DECODER, EMBEDDED_OTHER
from srnet.experiment.nodes.base import TaskSpec, answer_of_spec, load_task
from srnet.models.backbones import has_language_model
from srnet.models.checkpoints import SHIPPED
from srnet.pruners.base import get_pruner
from srnet.recipes.paradigms import Options, Profile, Search
from srnet.tasks.files import FilesTask
from srnet.training.settings import TrainingSettings

# --- toy and cpu -----------------------------------------------------------------------------------------------------

FINETUNING = TrainingSettings(learning_rate=5e-4, steps=700, warmup=0.05, eval_every=100, dev_rows=1000)
_LONGER = {"verification": 1500}
"""Steps of fine-tuning where cross-entropy needs more: after 700 it has not learned the opening words."""
PRUNING = TrainingSettings(learning_rate=1.5e-4, steps=500, warmup=0.05, eval_every=100, dev_rows=1000, trace=200)
"""At 70 % a mask starts at chance level. At 2.5e-4 and above, or in batches of 16, some seeds do not leave it."""
PRUNING_WEIGHTS = replace(PRUNING, learning_rate=FINETUNING.learning_rate)
"""IMP trains weights, not scores."""
_CPU_FINETUNING = TrainingSettings(learning_rate=1e-4, steps=500, warmup=0.06, eval_every=100, dev_rows=2000)
_CPU_PRUNING = replace(_CPU_FINETUNING, learning_rate=2e-4, trace=200)
"""The learning rate of the scores goes with the length of the run: the paper's 5e-5 is for 60,000 steps."""


def toy_profile(task: TaskSpec, backbone: str = EMBEDDED) -> Profile:
    finetuning = replace(FINETUNING, steps=_LONGER.get(task.name, FINETUNING.steps))
    return replace(
        _scaled_profile(task, backbone, finetuning, PRUNING, stop_every=25), other_backbones=(EMBEDDED_OTHER,)
    )


def cpu_profile(task: TaskSpec, backbone: str) -> Profile:
    return _scaled_profile(task, backbone, _CPU_FINETUNING, _CPU_PRUNING, stop_every=50)


def _scaled_profile(
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


# --- paper: one column of the published table for each task ----------------------------------------------------------

BACKBONE = "bert-base-uncased"
_FINETUNING_EPOCHS, _OOD_EPOCHS, _OOD_RATE = 3.0, 3.0, 2e-5
_START_STEPS = (5_000, 10_000, 15_000, 20_000)
_TRACED = 1000
"""OOD examples scored at each evaluation for the curves of figure 7; ours, as is the early-stopping rule's patience."""


@dataclass(frozen=True)
class _Published:
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
    """Epochs by sparsity of the runs on a fine-tuned model, where they are not `_OOD_EPOCHS`."""


PUBLISHED = {
    "mnli": _Published(5e-5, 5, 5, 3, 3600, 1000, 0.7, 3600, {0.9: 7}),
    "qqp": _Published(2e-5, 3, 7, 5, 3400, 1000, 0.7, 0, {0.7: 5, 0.9: 5}),
    "fever": _Published(2e-5, 3, 7, 5, 0, 500, 0.9, 0, {0.9: 5}),
}


def _paper_profile(task: TaskSpec, backbone: str = BACKBONE) -> Profile:
    published = PUBLISHED[choose("task of the paper", task.name, PUBLISHED)]
    data = load_task(task)

    def settings(epochs: float, extra_rows: int = 0, warmup: int = published.warmup_steps) -> TrainingSettings:
        """Batch size, length of texts and clipping are the defaults."""
        plain = TrainingSettings(published.learning_rate, epochs, eval_every=published.eval_every)
        # The same number of steps whatever the epochs, but at most half a run on a sample of the data.
        # Where a figure varies the length of the pruning, its share of the run stays.
        return replace(plain, warmup=min(0.5, warmup / plain.total_steps(len(data.train) + extra_rows)))

    finetuning, debiased = settings(_FINETUNING_EPOCHS), settings(published.debiased_epochs)
    pruning = replace(settings(published.pruning_epochs), trace=_TRACED)
    extra = 0 if data.ood_train is None else data.ood_copies * len(data.ood_train)
    total = finetuning.total_steps(len(data.train))
    epochs = (published.ablation_epochs, published.pruning_epochs, published.pruning_epochs + 2)
    # the paper moves the thresholds at every evaluation, not more often
    mask = Search("mask", options={"refresh_every": published.eval_every})
    longer = {sparsity: each / _OOD_EPOCHS for sparsity, each in published.ood_epochs_at.items()}
    return Profile(
        task=task,
        backbone=backbone,
        finetuning=finetuning,
        finetuning_of={"poe": debiased, "confreg": debiased},
        pruning=pruning,
        # the scripts of IMP, unlike those of mask training, name no warm-up
        pruning_of=dict.fromkeys(("imp", "imp-rw"), replace(pruning, warmup=0.0)),
        stopping=replace(finetuning, patience=3),
        with_ood=replace(settings(_OOD_EPOCHS, extra, published.ood_warmup_steps), learning_rate=_OOD_RATE),
        starts=(0.0, *(step / total for step in _START_STEPS if step < total), 1.0, "auto"),
        timing_sparsity=published.timing_sparsity,
        lengths=tuple(each / published.pruning_epochs for each in epochs),
        ablation_length=published.ablation_epochs / published.pruning_epochs,
        other_backbones=("roberta-base", "bert-large-uncased"),
        searches={"mask": mask, "id+ood": replace(mask, lengths_at=longer)},
    )


# --- static model pruning and its family -----------------------------------------------------------------------------

STATIC, FAMILY = ("smp-l", "smp-s"), ("movement", "soft-movement", "magnitude", "l0")
_STATIC = TrainingSettings(learning_rate=1e-3, score_rate=2e-2, epochs=12, batch_size=64)
"""The learning rate is of a classifier where a backbone needs one; the authors' models have none."""
_FAMILY = TrainingSettings(learning_rate=3e-5, epochs=6, warmup=0.1)


@dataclass(frozen=True)
class _SmpSchedule:
    """How the methods are trained. The defaults are those published for MNLI."""

    static: TrainingSettings = _STATIC
    """Static pruning: scores alone train, and the classifier where there is one."""
    family: TrainingSettings = _FAMILY
    """The movement-pruning family, but for the rates of the scores."""
    rates: dict[str, float] = field(default_factory=lambda: {"movement": 1e-2, "soft-movement": 1e-2, "l0": 1e-1})
    ramp: float = 0.6
    """The final sparsity is held for the rest: 30,000 steps of MNLI's 74,000, which no smaller task has."""
    lengths_at: dict[float, float] = field(default_factory=dict)
    """How much longer it trains, by sparsity. The ramp ends at the same step as at the others."""
    undistilled_at: dict[float, Options] = field(default_factory=dict)
    """Options of SMP-S without distillation, by sparsity."""

    def of(self, pruner: str) -> TrainingSettings:
        return self.static if pruner in STATIC else replace(self.family, score_rate=self.rates.get(pruner))


# how often they evaluate is not published; we do it dozens of times a run
_SHORT_STATIC = replace(_STATIC, epochs=60, batch_size=32, eval_every=100)
_SHORT_FAMILY = replace(_FAMILY, eval_every=100)
_PUBLISHED_SMP = {
    "mnli": _SmpSchedule(undistilled_at={0.5: {"temperature": 3.0}}),
    "qqp": _SmpSchedule(family=replace(_FAMILY, learning_rate=3e-6, epochs=10)),
    **dict.fromkeys(("qnli", "sst2"), _SmpSchedule()),
    **dict.fromkeys(("mrpc", "cola", "stsb"), _SmpSchedule(_SHORT_STATIC, _SHORT_FAMILY)),
    "rte": _SmpSchedule(replace(_SHORT_STATIC, epochs=100), _SHORT_FAMILY),
    "squad": _SmpSchedule(
        replace(_STATIC, epochs=10, batch_size=32, max_length=384),
        replace(_FAMILY, epochs=10, batch_size=16, max_length=384),
        ramp=0.82,  # but for 5,000 of 27,700 steps
        lengths_at={0.97: 2.0},
        undistilled_at={0.5: {"temperature": 4.0}},
    ),
}
"""The family's recipes are published for MNLI, QQP and SQuAD; the other tasks take MNLI's."""


def _paper_smp(task: TaskSpec, backbone: str = BACKBONE) -> Profile:
    published = _PUBLISHED_SMP[choose("task of the paper", task.name, _PUBLISHED_SMP)]
    same_step = {each: {"ramp": published.ramp / length} for each, length in published.lengths_at.items()}
    static = Search("smp-s", options={"ramp": published.ramp}, options_at=same_step, lengths_at=published.lengths_at)
    searches = {
        "smp-l": replace(static, pruner="smp-l"),
        "smp-s": static,
        "smp-s without distillation": replace(static, options_at=same_step | published.undistilled_at),
        # the share of a matrix that the published soft movement pruning never prunes
        "soft-movement": Search("soft-movement", options={"floor": 0.005}),
    }
    # the dense model, which is also the teacher, is fine-tuned as usual for BERT
    dense = replace(published.family, learning_rate=3e-5, epochs=3)
    return replace(_smp_profile(task, backbone, published), finetuning=dense, searches=searches)


_SMP_TOY = TrainingSettings(learning_rate=2e-4, steps=600, warmup=0.05, eval_every=60, dev_rows=1000)
_SMP_CPU = TrainingSettings(learning_rate=1e-4, steps=400, batch_size=16, warmup=0.06, eval_every=80, dev_rows=500)


def _small_schedule(weights: TrainingSettings) -> _SmpSchedule:
    """Scores move as far in hundreds of steps as the published rates move them in tens of thousands."""
    static = replace(weights, learning_rate=_STATIC.learning_rate, score_rate=1e-1, warmup=0.0)
    return _SmpSchedule(static, weights, rates={"movement": 5e-2, "soft-movement": 5e-2, "l0": 1e-1})


def _small_smp(weights: TrainingSettings, task: TaskSpec, backbone: str = EMBEDDED) -> Profile:
    return _smp_profile(task, backbone, _small_schedule(replace(weights, max_length=answer_of_spec(task).max_length)))


def _smp_profile(task: TaskSpec, backbone: str, trained: _SmpSchedule) -> Profile:
    if isinstance(task, FilesTask) and task.name == "qqp" and task.metric == "f1":
        # the authors count as GLUE does, by the F1 of duplicates; the other paper weighs both classes
        task = replace(task, metric="positive_f1")
    words = load_task(task).label_words
    return Profile(
        task=task,
        backbone=backbone,
        finetuning=trained.family,
        pruning=trained.static,
        pruning_of={name: trained.of(name) for name in FAMILY},
        sparsities=(0.5, 0.9, 0.97),  # the authors keep 50, 10 and 3 % of the weights
        # without a head to read the label words with, there is a classifier
        words=words if words and has_language_model(backbone) else (),
    )


# --- language models -------------------------------------------------------------------------------------------------


_LANGUAGE_FINETUNING = TrainingSettings(learning_rate=3e-4, steps=600, warmup=0.05, eval_every=20, dev_rows=1000)
_LANGUAGE_PRUNING = replace(_LANGUAGE_FINETUNING, learning_rate=3e-3)
"""For the shipped decoder. `ss` of a balanced model swings around 50, so there are many checkpoints to select from:
after 300 steps one of three seeds was at 58.7 on ID dev, after 600 all were within 1.3 of 50."""
_LANGUAGE_CPU = TrainingSettings(learning_rate=3e-5, steps=100, batch_size=8, warmup=0.06, eval_every=50)
_LANGUAGE_CPU_PRUNING = replace(_LANGUAGE_CPU, learning_rate=1e-3)


def _language_profile(
    finetuning: TrainingSettings, pruning: TrainingSettings, task: TaskSpec, backbone: str = EMBEDDED_DECODER
) -> Profile:
    length = answer_of_spec(task).max_length
    finetuning, pruning = (replace(each, max_length=length) for each in (finetuning, pruning))
    return Profile(task=task, backbone=backbone, finetuning=finetuning, pruning=pruning, sparsities=(0.1, 0.2, 0.3))


def _no_paper(task: TaskSpec, backbone: str = "") -> Profile:
    raise UserError("neither paper has language models, so there is no profile 'paper' of them", "give --profile cpu")


PROFILES: dict[str, dict[str, Callable[..., Profile]]] = {
    "srnet": {"toy": toy_profile, "cpu": cpu_profile, "paper": _paper_profile},
    "language": {
        "toy": partial(_language_profile, _LANGUAGE_FINETUNING, _LANGUAGE_PRUNING),
        "cpu": partial(_language_profile, _LANGUAGE_CPU, _LANGUAGE_CPU_PRUNING),
        "paper": _no_paper,
    },
    "smp": {"toy": partial(_small_smp, _SMP_TOY), "cpu": partial(_small_smp, _SMP_CPU), "paper": _paper_smp},
}
"""By the family of a figure and by scale: functions of a task and a backbone."""


# --- the defaults of a single training -------------------------------------------------------------------------------


def finetuning_for(backbone: str, task: TaskSpec | None = None) -> TrainingSettings:
    """Fine-tuning of a backbone."""
    return _long_enough(FINETUNING if backbone in SHIPPED else TrainingSettings(epochs=3), task)


def pruning_for(backbone: str, pruner: str = "mask", task: TaskSpec | None = None) -> TrainingSettings:
    """The search of a pruner in a backbone."""
    settings = TrainingSettings(epochs=5)
    if pruner in (*STATIC, *FAMILY):
        settings = (_small_schedule(_SMP_TOY) if backbone in SHIPPED else _PUBLISHED_SMP["mnli"]).of(pruner)
    elif backbone in SHIPPED:
        settings = PRUNING if get_pruner(pruner).has_scores else PRUNING_WEIGHTS
    return _long_enough(settings, task)


def check_rates(pruner: str, words: Sequence[str], given: Mapping[str, Any]) -> None:
    """Refuse a learning rate that nothing uses: with label words there is no classifier to train."""
    if words and pruner in STATIC and "learning_rate" in given:
        raise UserError(f"with label words nothing but scores trains under {pruner}", "give --score-rate instead")


def _long_enough(settings: TrainingSettings, task: TaskSpec | None) -> TrainingSettings:
    """For the task's kind of answer: contexts are longer than sentences."""
    return settings if task is None else replace(settings, max_length=answer_of_spec(task).max_length)
