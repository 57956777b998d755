"""Static model pruning and its family at three scales: how each method is trained.

The published hyper-parameters are for BERT-base; the toy and cpu settings were chosen on ID dev only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from srnet.backbones import has_language_model
from srnet.errors import choose
from srnet.experiment.nodes import TaskSpec, answer_of_spec, load_task
from srnet.names import EMBEDDED
from srnet.recipes.profile import Profile, Search
from srnet.tasks.files import FilesTask
from srnet.training import TrainingSettings

SPARSITIES = (0.5, 0.9, 0.97)
"""The authors keep 50, 10 and 3 % of the weights."""
STATIC, FAMILY = ("smp-l", "smp-s"), ("movement", "soft-movement", "magnitude", "l0")
BACKBONE = "bert-base-uncased"
HEAD_RATE = 1e-3
"""Of a classifier where a backbone needs one; the authors' models have none."""
_STATIC = TrainingSettings(learning_rate=HEAD_RATE, score_rate=2e-2, epochs=12, batch_size=64)
_FAMILY = TrainingSettings(learning_rate=3e-5, epochs=6, warmup=0.1)


@dataclass(frozen=True)
class Trained:
    """How the methods are trained. The defaults are those published for MNLI."""

    static: TrainingSettings = _STATIC
    """Static pruning: scores alone train, and the classifier where there is one."""
    family: TrainingSettings = _FAMILY
    """The movement-pruning family, but for the rates of the scores."""
    rates: dict[str, float] = field(default_factory=lambda: {"movement": 1e-2, "soft-movement": 1e-2, "l0": 1e-1})
    hold: float = 0.4
    """The share of the run at the final sparsity: 30,000 steps of MNLI's 74,000, which no smaller task has."""
    epochs_at: dict[float, float] = field(default_factory=dict)
    """By sparsity where it is another number. The ramp then ends at the same step as at the others."""
    temperature_at: dict[float, float] = field(default_factory=dict)
    """p of SMP-S by sparsity, without distillation, where it is not the default."""

    def of(self, pruner: str) -> TrainingSettings:
        return self.static if pruner in STATIC else replace(self.family, score_rate=self.rates.get(pruner))


# how often they evaluate is not published; we do it dozens of times a run
_SHORT_FAMILY = replace(_FAMILY, eval_every=100)
_SHORT_STATIC = replace(_STATIC, epochs=60, batch_size=32, eval_every=100)
PUBLISHED = {
    "mnli": Trained(temperature_at={0.5: 3.0}),
    "qnli": Trained(),
    "qqp": Trained(family=replace(_FAMILY, learning_rate=3e-6, epochs=10)),
    "sst2": Trained(),
    **dict.fromkeys(("mrpc", "cola", "stsb"), Trained(_SHORT_STATIC, _SHORT_FAMILY)),
    "rte": Trained(replace(_SHORT_STATIC, epochs=100), _SHORT_FAMILY),
    "squad": Trained(
        replace(_STATIC, epochs=10, batch_size=32, max_length=384),
        replace(_FAMILY, epochs=10, batch_size=16, max_length=384),
        hold=0.18,  # 5,000 of 27,700 steps
        epochs_at={0.97: 20},
        temperature_at={0.5: 4.0},
    ),
}
"""The family's recipes are published for MNLI, QQP and SQuAD; the other tasks take MNLI's."""


def paper_smp(task: TaskSpec, backbone: str = BACKBONE) -> Profile:
    published = PUBLISHED[choose("task of the paper", task.name, PUBLISHED)]
    ramp = 1.0 - published.hold
    longer = {sparsity: epochs / published.static.epochs for sparsity, epochs in published.epochs_at.items()}
    same_step = {sparsity: {"ramp": round(ramp / length, 6)} for sparsity, length in longer.items()}
    gentle = {sparsity: {"temperature": p} for sparsity, p in published.temperature_at.items()}
    static = {
        name: Search(name, options={"ramp": round(ramp, 6)}, options_at=same_step, lengths_at=longer) for name in STATIC
    }
    searches = {
        **static,
        "smp-s without distillation": replace(static["smp-s"], options_at=same_step | gentle),
        # the share of a matrix that the published soft movement pruning never prunes
        "soft-movement": Search("soft-movement", options={"floor": 0.005}),
    }
    # the dense model, which is also the teacher, is fine-tuned as usual for BERT
    dense = replace(published.family, learning_rate=3e-5, epochs=3)
    return replace(_profile(task, backbone, published), finetuning=dense, searches=searches)


# --- smaller scales ------------------------------------------------------------------------------------------------


def _small(weights: TrainingSettings) -> Trained:
    """Scores move as far in hundreds of steps as the published rates move them in tens of thousands."""
    static = replace(weights, learning_rate=HEAD_RATE, score_rate=1e-1, warmup=0.0)
    return Trained(static, weights, rates={"movement": 5e-2, "soft-movement": 5e-2, "l0": 1e-1})


_TOY = TrainingSettings(learning_rate=2e-4, steps=600, warmup=0.05, eval_every=60, dev_rows=1000)
_CPU = TrainingSettings(learning_rate=1e-4, steps=400, batch_size=16, warmup=0.06, eval_every=80, dev_rows=500)


def toy_smp(task: TaskSpec, backbone: str = EMBEDDED) -> Profile:
    return _profile(task, backbone, _small(replace(_TOY, max_length=answer_of_spec(task).max_length)))


def cpu_smp(task: TaskSpec, backbone: str) -> Profile:
    return _profile(task, backbone, _small(replace(_CPU, max_length=answer_of_spec(task).max_length)))


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
        sparsities=SPARSITIES,
        # without a head to read the label words with, there is a classifier
        words=words if words and has_language_model(backbone) else (),
    )


def single_training(pruner: str, *, embedded: bool) -> TrainingSettings | None:
    """What a training by itself starts from: the toy profile's settings, or MNLI's; None for other pruners."""
    if pruner not in (*STATIC, *FAMILY):
        return None
    return (_small(_TOY) if embedded else PUBLISHED["mnli"]).of(pruner)
