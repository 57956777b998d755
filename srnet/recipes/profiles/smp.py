"""Static model pruning and its family at three scales: how each method is trained.

The published hyper-parameters are for BERT-base; the toy and cpu settings were looked for on ID dev only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from srnet.backbones import has_language_model
from srnet.errors import choose
from srnet.experiment.nodes import TaskSpec, answer_of_spec, load_task
from srnet.names import EMBEDDED
from srnet.recipes.profile import Profile
from srnet.tasks.files import FilesTask
from srnet.training import TrainingSettings

KEPT = (0.5, 0.1, 0.03)
"""The shares of weights that the authors keep."""
SPARSITIES = tuple(round(1.0 - kept, 6) for kept in KEPT)
STATIC, FAMILY = ("smp-l", "smp-s"), ("movement", "soft-movement", "magnitude", "l0")
SCORE_RATES = {"smp-l": 2e-2, "smp-s": 2e-2, "movement": 1e-2, "soft-movement": 1e-2, "l0": 1e-1}
HEAD_RATE = 1e-3
"""Of a classifier where a backbone needs one; the authors' models have none."""
BACKBONE = "bert-base-uncased"
FLOOR = 0.005
"""The share of a matrix that the published soft movement pruning never prunes."""


def words_for(task: TaskSpec, backbone: str) -> tuple[str, ...]:
    """The task's label words where the backbone has a head to read them with, else none: a classifier."""
    words = load_task(task).label_words
    return words if words and has_language_model(backbone) else ()


# --- paper ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """One row of the table of hyper-parameters."""

    epochs: float
    batch_size: int
    hold: float = 0.4
    """The share of the run at the final sparsity: 30,000 steps of MNLI's 74,000, which no smaller task has."""
    max_length: int = 128
    epochs_at: tuple[tuple[float, float], ...] = ()
    """(sparsity, epochs) where it is another number. The ramp then ends at the same step as at the others."""
    temperature_at: tuple[tuple[float, float], ...] = ()
    """(sparsity, p of SMP-S) without distillation, where it is not the usual one."""
    family_epochs: float = 6.0
    """The movement-pruning family."""
    family_batch_size: int = 32
    family_rate: float = 3e-5
    family_warmup: float = 0.1


PUBLISHED = {
    "mnli": Published(12, 64, temperature_at=((0.5, 3.0),)),
    "qnli": Published(12, 64),
    "qqp": Published(12, 64, family_epochs=10, family_rate=3e-6),
    "sst2": Published(12, 64),
    "mrpc": Published(60, 32),
    "cola": Published(60, 32),
    "stsb": Published(60, 32),
    "rte": Published(100, 32),
    "squad": Published(
        10,
        32,
        hold=0.18,
        max_length=384,
        epochs_at=((0.97, 20),),
        temperature_at=((0.5, 4.0),),
        family_epochs=10,
        family_batch_size=16,
    ),
}
"""5,000 steps of SQuAD's 27,700 are a hold of 18 %. The family's recipes are published for MNLI, QQP and SQuAD; the
other tasks take MNLI's."""


def _published_static(published: Published) -> TrainingSettings:
    return TrainingSettings(
        learning_rate=HEAD_RATE,
        score_rate=SCORE_RATES["smp-s"],
        epochs=published.epochs,
        batch_size=published.batch_size,
        eval_every=1000 if published.epochs <= 20 else 100,  # how often is not said: dozens of times a run
        max_length=published.max_length,
    )


def _published_family(published: Published) -> TrainingSettings:
    return replace(
        _published_static(published),
        learning_rate=published.family_rate,
        score_rate=None,
        epochs=published.family_epochs,
        batch_size=published.family_batch_size,
        warmup=published.family_warmup,
    )


def paper_smp(task: TaskSpec, backbone: str = BACKBONE) -> Profile:
    published = PUBLISHED[choose("task of the paper", task.name, PUBLISHED)]
    family, ramp = _published_family(published), 1.0 - published.hold
    longer = tuple((sparsity, epochs / published.epochs) for sparsity, epochs in published.epochs_at)
    same_step = tuple((sparsity, (("ramp", round(ramp / length, 6)),)) for sparsity, length in longer)
    return _profile(
        task,
        backbone,
        # the dense model, which is also the teacher, as usual for BERT
        finetuning=replace(family, learning_rate=3e-5, epochs=3),
        static=_published_static(published),
        family=family,
        options_of={
            **{name: (("ramp", round(ramp, 6)),) for name in STATIC},
            "soft-movement": (("floor", FLOOR),),
        },
        options_at=dict.fromkeys(STATIC, same_step),
        undistilled_at={"smp-s": tuple((s, (("temperature", p),)) for s, p in published.temperature_at)},
        lengths_at=longer,
    )


# --- smaller scales ------------------------------------------------------------------------------------------------

_TOY = TrainingSettings(learning_rate=2e-4, steps=600, warmup=0.05, eval_every=60, dev_rows=1000)
_CPU = TrainingSettings(learning_rate=1e-4, steps=400, batch_size=16, warmup=0.06, eval_every=80, dev_rows=500)
_BRISK = {**dict.fromkeys(STATIC, 1e-1), "movement": 5e-2, "soft-movement": 5e-2, "l0": 1e-1}
"""Scores move as far in hundreds of steps as the published rates move them in tens of thousands."""


def toy_smp(task: TaskSpec, backbone: str = EMBEDDED) -> Profile:
    return _small(task, backbone, replace(_TOY, max_length=answer_of_spec(task).max_length))


def cpu_smp(task: TaskSpec, backbone: str) -> Profile:
    return _small(task, backbone, replace(_CPU, max_length=answer_of_spec(task).max_length))


def _small(task: TaskSpec, backbone: str, weights: TrainingSettings) -> Profile:
    return _profile(
        task, backbone, finetuning=weights, static=_scores(weights, _BRISK["smp-s"]), family=weights, rates=_BRISK
    )


def _scores(weights: TrainingSettings, rate: float) -> TrainingSettings:
    """Static pruning: scores alone train, from the first step; the weights' rate is for a classifier that was drawn."""
    return replace(weights, learning_rate=HEAD_RATE, score_rate=rate, warmup=0.0)


def _profile(
    task: TaskSpec,
    backbone: str,
    *,
    finetuning: TrainingSettings,
    static: TrainingSettings,
    family: TrainingSettings,
    rates: dict[str, float] = SCORE_RATES,
    **more: Any,
) -> Profile:
    return Profile(
        task=_as_in_glue(task),
        backbone=backbone,
        finetuning=finetuning,
        pruning=static,
        pruning_of=tuple((name, replace(family, score_rate=rates.get(name))) for name in FAMILY),
        stopping=finetuning,
        with_ood=static,
        sparsities=SPARSITIES,
        words=words_for(task, backbone),
        **more,
    )


def _as_in_glue(task: TaskSpec) -> TaskSpec:
    """The authors count QQP as GLUE does, by the F1 of duplicates; the other paper weighs both classes."""
    if isinstance(task, FilesTask) and task.name == "qqp" and task.metric == "f1":
        return replace(task, metric="positive_f1")
    return task


def family_settings(pruner: str, *, embedded: bool) -> TrainingSettings | None:
    """What a single training starts from: the toy profile's settings, or MNLI's; None for other pruners."""
    if pruner not in (*STATIC, *FAMILY):
        return None
    weights, rates = (_TOY, _BRISK) if embedded else (_published_family(PUBLISHED["mnli"]), SCORE_RATES)
    if pruner in FAMILY:
        return replace(weights, score_rate=rates.get(pruner))
    return _scores(_TOY, rates[pruner]) if embedded else _published_static(PUBLISHED["mnli"])
