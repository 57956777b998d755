"""Static model pruning and its family at three scales: how each method is trained.

The published hyper-parameters are for BERT-base; the toy and cpu settings were chosen on ID dev only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from srnet.backbones import has_language_model
from srnet.errors import choose
from srnet.experiment.nodes import TaskSpec, answer_of_spec, load_task
from srnet.names import EMBEDDED
from srnet.recipes.paradigms import Options, Profile, Search
from srnet.recipes.profiles.paper import BACKBONE
from srnet.tasks.files import FilesTask
from srnet.training import TrainingSettings

STATIC, FAMILY = ("smp-l", "smp-s"), ("movement", "soft-movement", "magnitude", "l0")
_STATIC = TrainingSettings(learning_rate=1e-3, score_rate=2e-2, epochs=12, batch_size=64)
"""The learning rate is of a classifier where a backbone needs one; the authors' models have none."""
_FAMILY = TrainingSettings(learning_rate=3e-5, epochs=6, warmup=0.1)


@dataclass(frozen=True)
class Trained:
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
PUBLISHED = {
    "mnli": Trained(undistilled_at={0.5: {"temperature": 3.0}}),
    "qqp": Trained(family=replace(_FAMILY, learning_rate=3e-6, epochs=10)),
    **dict.fromkeys(("qnli", "sst2"), Trained()),
    **dict.fromkeys(("mrpc", "cola", "stsb"), Trained(_SHORT_STATIC, _SHORT_FAMILY)),
    "rte": Trained(replace(_SHORT_STATIC, epochs=100), _SHORT_FAMILY),
    "squad": Trained(
        replace(_STATIC, epochs=10, batch_size=32, max_length=384),
        replace(_FAMILY, epochs=10, batch_size=16, max_length=384),
        ramp=0.82,  # but for 5,000 of 27,700 steps
        lengths_at={0.97: 2.0},
        undistilled_at={0.5: {"temperature": 4.0}},
    ),
}
"""The family's recipes are published for MNLI, QQP and SQuAD; the other tasks take MNLI's."""


def paper_smp(task: TaskSpec, backbone: str = BACKBONE) -> Profile:
    published = PUBLISHED[choose("task of the paper", task.name, PUBLISHED)]
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
    return replace(_profile(task, backbone, published), finetuning=dense, searches=searches)


TOY = TrainingSettings(learning_rate=2e-4, steps=600, warmup=0.05, eval_every=60, dev_rows=1000)
CPU = TrainingSettings(learning_rate=1e-4, steps=400, batch_size=16, warmup=0.06, eval_every=80, dev_rows=500)


def small(weights: TrainingSettings) -> Trained:
    """Scores move as far in hundreds of steps as the published rates move them in tens of thousands."""
    static = replace(weights, learning_rate=_STATIC.learning_rate, score_rate=1e-1, warmup=0.0)
    return Trained(static, weights, rates={"movement": 5e-2, "soft-movement": 5e-2, "l0": 1e-1})


def _small_profile(weights: TrainingSettings, task: TaskSpec, backbone: str = EMBEDDED) -> Profile:
    return _profile(task, backbone, small(replace(weights, max_length=answer_of_spec(task).max_length)))


toy_smp, cpu_smp = partial(_small_profile, TOY), partial(_small_profile, CPU)


def _profile(task: TaskSpec, backbone: str, trained: Trained) -> Profile:
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
