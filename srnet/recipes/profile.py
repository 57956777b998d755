"""A profile: a task, a backbone, seeds, every training setting, and the models that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from srnet.errors import UserError
from srnet.experiment import (
    Bias,
    BiasSpec,
    Distilled,
    FineTune,
    ModelNode,
    Moment,
    Objective,
    Pretrained,
    Prune,
    Rewind,
    Trajectory,
    load_task,
)
from srnet.experiment.nodes import TaskSpec
from srnet.experiment.objective import ObjectiveSources, make_objective
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.pruners import Pruner
from srnet.recipes.points import Start
from srnet.tasks.base import TrainingData
from srnet.training import TrainingSettings

Options = tuple[tuple[str, Any], ...]
"""Fields of a pruner with their values."""
OptionsAt = tuple[tuple[float, Options], ...]
"""Options at one sparsity each."""
LengthsAt = tuple[tuple[float, float], ...]
"""How much longer a search trains, at one sparsity each."""


@dataclass(frozen=True)
class Profile:
    task: TaskSpec
    backbone: str = EMBEDDED
    seeds: tuple[int, ...] = (0,)
    finetuning: TrainingSettings = field(default_factory=TrainingSettings)
    pruning: TrainingSettings = field(default_factory=TrainingSettings)
    finetuning_of: tuple[tuple[str, TrainingSettings], ...] = ()
    """By objective, where it differs from `finetuning`."""
    pruning_of: tuple[tuple[str, TrainingSettings], ...] = ()
    """By pruner, where it differs from `pruning`."""
    stopping: TrainingSettings | None = None
    """The fine-tuning before a search that starts `auto`: with `patience`."""
    with_ood: TrainingSettings | None = None
    """The pruning with OOD training data, where it differs from `pruning`."""
    bias: BiasSpec = field(default_factory=BiasSpec)
    """How the shortcut is measured. Default: what the task suspects, on words alone."""
    words: tuple[str, ...] = ()
    """One word a label: models have the backbone's own language-model head instead of a classifier."""

    # what the figures of the papers vary
    sparsities: tuple[float, ...] = (0.2, 0.5, 0.7, 0.9)
    sparsities_of: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """By figure, where it shows others."""
    starts: tuple[Start, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, "auto")
    timing_sparsity: float = 0.7
    lengths: tuple[float, ...] = (1 / 3, 2 / 3, 1.0)
    ablation_length: float = 1.0
    """Of the searches in the ablation of initialisation and schedule."""
    high_sparsity: float = 0.9
    other_backbones: tuple[str, ...] = ()
    mask_options: Options = ()
    """Of every mask training."""
    gradual_options: Options = ()
    """Further ones where the sparsity is gradual."""
    options_of: dict[str, Options] = field(default_factory=dict)
    """Of the other pruners, by name."""
    options_at: dict[str, OptionsAt] = field(default_factory=dict)
    undistilled_at: dict[str, OptionsAt] = field(default_factory=dict)
    """Those that apply without distillation only."""
    lengths_at: LengthsAt = ()
    """Of static pruning."""
    ood_lengths_at: LengthsAt = ()
    """Of the pruning of a fine-tuned model with OOD training data."""

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise UserError("at least one seed is needed, each once", f"not {list(self.seeds)}")

    def shown(self, figure: str) -> tuple[float, ...]:
        return self.sparsities_of.get(figure, self.sparsities)

    def each_training(self, change: Callable[[TrainingSettings], TrainingSettings]) -> Profile:
        """With other settings for every training."""
        return replace(
            self,
            finetuning=change(self.finetuning),
            pruning=change(self.pruning),
            finetuning_of=tuple((name, change(each)) for name, each in self.finetuning_of),
            pruning_of=tuple((name, change(each)) for name, each in self.pruning_of),
            stopping=self.stopping and change(self.stopping),
            with_ood=self.with_ood and change(self.with_ood),
        )

    # --- models ----------------------------------------------------------------------------------------------------

    def raw(self, seed: int, backbone: str | None = None) -> Pretrained:
        return Pretrained(backbone or self.backbone, self.task, seed, self.words)

    def full(self, seed: int, objective: str = "ce", backbone: str | None = None) -> FineTune:
        raw = self.raw(seed, backbone)
        return FineTune(raw, self.objective(objective, raw), self._finetuning(objective, seed))

    def started(self, raw: Pretrained, objective: str, start: Start, starts: tuple[Start, ...]) -> ModelNode:
        """The model that a search starts from. Intermediate `starts` share one fine-tuning."""
        made = self.objective(objective, raw)
        if start == "auto":
            if self.stopping is None or self.stopping.patience is None:
                raise UserError("a search starts auto, but nothing says when", "set stopping: patience")
            return FineTune(raw, made, _selected(replace(self.stopping, seed=raw.seed), objective))
        training = self._finetuning(objective, raw.seed)
        steps = {s: self._step(s, training) for s in starts if s != "auto" and 0.0 < s < 1.0}
        if start in steps:
            return Moment(Trajectory(raw, made, training, tuple(sorted(set(steps.values())))), steps[start])
        return FineTune(raw, made, training) if start == 1.0 else raw

    def pruned(
        self,
        model: ModelNode,
        pruner: Pruner,
        objective: str | None,
        data: TrainingData = "id",
        length: float = 1.0,
        longer: float = 1.0,
        distil: bool = False,
    ) -> Prune:
        """`longer` is the factor at this sparsity: it leaves the steps of the warm-up as they are."""
        if objective is None:
            return Prune(model, pruner)
        raw = model.pretrained
        made = self.objective(objective, raw)
        if distil:
            made = Distilled(made, self.full(raw.seed, backbone=raw.backbone))
        training = self._pruning(pruner, objective, data, length * longer)
        training = replace(training, seed=raw.seed, warmup=training.warmup / max(1.0, longer))
        return Prune(model, pruner, made, training, data)

    def isolated(self, subnetwork: ModelNode, objective: str) -> FineTune:
        """The subnetwork's mask on the raw weights, fine-tuned."""
        raw = subnetwork.pretrained
        return FineTune(Rewind(subnetwork, raw), self.objective(objective, raw), self._finetuning(objective, raw.seed))

    def objective(self, name: str, raw: Pretrained) -> Objective:
        return make_objective(
            name, ObjectiveSources(raw, lambda: self.full(raw.seed, backbone=raw.backbone), self.bias)
        )

    def bias_model(self, backbone: str | None = None) -> Bias:
        return self.bias.node(self.task, backbone or self.backbone)

    # --- settings --------------------------------------------------------------------------------------------------

    def _step(self, share: float, training: TrainingSettings) -> int:
        return max(1, round(share * training.total_steps(len(load_task(self.task).train))))

    def _finetuning(self, objective: str, seed: int) -> TrainingSettings:
        settings = dict(self.finetuning_of).get(objective, self.finetuning)
        return _selected(replace(settings, seed=seed), objective)

    def _pruning(self, pruner: Pruner, objective: str, data: TrainingData, length: float) -> TrainingSettings:
        settings = dict(self.pruning_of).get(pruner.name, self.pruning)
        settings = self.with_ood or settings if data == "id+ood" else settings
        if settings.steps is not None:
            settings = replace(settings, steps=max(1, round(length * settings.steps)))
        else:
            settings = replace(settings, epochs=length * settings.epochs)
        # `pruning` is for several pruners, and not all of them have scores
        rate = settings.score_rate if pruner.has_scores else None
        return _selected(replace(settings, score_rate=rate), objective)


def _selected(settings: TrainingSettings, objective: str) -> TrainingSettings:
    """With the default `selection` where it has no effect, so that the same training has the same key."""
    return settings if get_objective(objective).debiases else replace(settings, selection="late")
