"""The profile `paper` is the published table of hyper-parameters, number by number."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from small import Sized

from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import Pretrained, Rewind
from srnet.experiment.nodes.training import FineTune, Moment, Prune
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.mask_training import MaskTraining
from srnet.recipes.figures import AUTO_START, FIGURES, FIXED, GRADUAL, START
from srnet.recipes.order import as_published
from srnet.recipes.paradigms import Profile
from srnet.recipes.profiles import _paper_profile, _Published
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.hardware import connect
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Run, _arguments

MNLI, QQP, FEVER = Sized("mnli", 392_702), Sized("qqp", 363_849, "f1"), Sized("fever", 242_911)


@dataclass(frozen=True)
class Said:
    """What the paper says about one task."""

    learning_rate: float
    debiased_epochs: int
    pruning_epochs: int
    warmup_steps: int
    eval_every: int
    timing_sparsity: float
    table_5_epochs: int
    ood_warmup_steps: int
    ood_epochs: tuple[int, ...]
    """On a fine-tuned model with OOD data, at 20, 50, 70 and 90 %."""


PAPER = {
    MNLI: Said(5e-5, 5, 5, 3600, 1000, 0.7, 3, 3600, (3, 3, 3, 7)),
    QQP: Said(2e-5, 3, 7, 3400, 1000, 0.7, 5, 0, (3, 3, 5, 5)),
    FEVER: Said(2e-5, 3, 7, 0, 500, 0.9, 5, 0, (3, 3, 3, 5)),
}
each_task = pytest.mark.parametrize(("task", "said"), PAPER.items(), ids=lambda value: getattr(value, "name", ""))


def points(task: Any, figure: str, label: str | None = None, profile: Profile | None = None) -> list[Any]:
    """The models of a figure, or of one line of it."""
    recipe = FIGURES[figure].recipe(profile or _paper_profile(task))
    return [point.node for point in recipe.points if label in (None, point.label)]


def steps(task: Sized, epochs: int) -> int:
    return math.ceil(epochs * task.size / 32)


@each_task
def test_fine_tuning_is_as_published(task: Sized, said: Said) -> None:
    settings = _paper_profile(task).finetuning
    assert settings.learning_rate == said.learning_rate
    assert (settings.epochs, settings.steps) == (3, None)
    assert settings.eval_every == said.eval_every
    assert round(settings.warmup * settings.total_steps(task.size)) == said.warmup_steps
    assert settings.patience is None


@each_task
def test_debiased_fine_tuning_is_as_published(task: Sized, said: Said) -> None:
    """PoE and confidence regularisation take five epochs on MNLI; reweighting, as CE, three everywhere."""
    for objective, epochs in (
        ("ce", 3),
        ("poe", said.debiased_epochs),
        ("reweight", 3),
        ("confreg", said.debiased_epochs),
    ):
        node = _paper_profile(task).full(0, objective)
        assert (node.training.epochs, node.training.learning_rate) == (epochs, said.learning_rate), objective
        assert round(node.training.warmup * node.training.total_steps(task.size)) == said.warmup_steps
        assert node.training.eval_every == said.eval_every


@each_task
def test_mask_training_and_imp_are_as_published(task: Sized, said: Said) -> None:
    for node in points(task, "fig2"):
        if isinstance(node, Prune):
            settings = node.training
            assert (settings.epochs, settings.steps) == (said.pruning_epochs, None)
            assert settings.learning_rate == said.learning_rate
            assert settings.eval_every == said.eval_every
            warmup = 0 if isinstance(node.pruner, IMP) else said.warmup_steps
            assert round(settings.warmup * settings.total_steps(task.size)) == warmup, "IMP's scripts name none"
    for node in points(task, "fig4"):
        pruned = node.parent.subnetwork if isinstance(getattr(node, "parent", None), Rewind) else None
        if isinstance(pruned, Prune) and isinstance(pruned.pruner, RewoundIMP):
            assert pruned.training.warmup == 0.0


@each_task
def test_batches_lengths_decay_and_clipping(task: Sized, said: Said, tmp_path: Path) -> None:
    profile = _paper_profile(task)
    every = [
        profile.finetuning,
        profile.pruning,
        profile.stopping,
        profile.with_ood,
        *profile.finetuning_of.values(),
    ]
    for settings in every:
        assert (settings.batch_size, settings.max_length, settings.max_grad_norm) == (32, 128, 1.0)
    nothing: Any = None
    run = Run(nothing, nothing, nothing, profile.pruning, nothing, nothing, nothing, tmp_path)
    arguments = _arguments(run, profile.pruning.total_steps(task.size), connect())
    assert arguments.weight_decay == 0.0
    assert arguments.lr_scheduler_type == "linear"
    assert arguments.max_grad_norm == 1.0
    assert arguments.learning_rate == said.learning_rate
    assert arguments.warmup_steps == said.warmup_steps
    assert arguments.per_device_train_batch_size == 32
    assert arguments.max_steps == steps(task, said.pruning_epochs)


def test_the_metric_is_a_property_of_the_task() -> None:
    for cls in (_Published, Profile, TrainingSettings):
        assert "metric" not in {field.name for field in fields(cls)}
    assert "metric" in {field.name for field in fields(FilesTask)}
    for task, metric in ((MNLI, "accuracy"), (QQP, "f1"), (FEVER, "accuracy")):
        assert load_task(_paper_profile(task).task).metric == metric
    shaped_alike = {
        name: SyntheticTask(name, train_size=5, dev_size=5, ood_size=5) for name in ("inference", "paraphrase")
    }
    assert [load_task(task).metric for task in shaped_alike.values()] == ["accuracy", "f1"]


@each_task
def test_masks_begin_and_move_as_published(task: Sized, said: Said) -> None:
    for figure in FIGURES:
        for node in points(task, figure):
            pruner = getattr(node, "pruner", None)
            if isinstance(pruner, MaskTraining):
                assert (pruner.phi, pruner.alpha) == (0.01, 2.0)
                assert pruner.refresh_every == said.eval_every, "the thresholds move at every evaluation"
                assert pruner.scope == "local"
                if figure not in ("fig8", "tab5", "tab6"):
                    assert (pruner.init, pruner.initial_sparsity) == ("hard", None)


@each_task
def test_imp_prunes_a_tenth_every_tenth_of_the_run(task: Sized, said: Said) -> None:
    found = [node.pruner for node in points(task, "fig2") if isinstance(getattr(node, "pruner", None), IMP)]
    assert {(pruner.step_sparsity, pruner.interval) for pruner in found} == {(0.1, 0.1)}
    assert sorted({pruner.sparsity for pruner in found}) == [0.2, 0.5, 0.7, 0.9]


@each_task
def test_gradual_goes_from_70_to_90_percent_with_soft_scores(task: Sized, said: Said) -> None:
    for node in points(task, "fig8", GRADUAL):
        assert (node.pruner.sparsity, node.pruner.initial_sparsity, node.pruner.init) == (0.9, 0.7, "soft")
    for node in points(task, "fig8", FIXED):
        assert (node.pruner.sparsity, node.pruner.initial_sparsity, node.pruner.init) == (0.9, None, "hard")
    assert said.pruning_epochs in [node.training.epochs for node in points(task, "fig8", FIXED)]


@each_task
def test_table_5_trains_as_long_as_published(task: Sized, said: Said) -> None:
    nodes = [node for node in points(task, "tab5") if isinstance(node, Prune)]
    assert len(nodes) == 5
    for node in nodes:
        assert node.training.epochs == pytest.approx(said.table_5_epochs)
        assert node.training.total_steps(task.size) == steps(task, said.table_5_epochs)
        assert node.pruner.sparsity == 0.9


@each_task
def test_with_ood_data_searches_are_as_published(task: Sized, said: Said) -> None:
    usual = (3, 3, 3, 3)
    for label, epochs in (("fine-tuned subnetwork", said.ood_epochs), ("raw subnetwork", usual)):
        nodes = points(task, "fig6", label)
        assert [node.training.epochs for node in nodes] == pytest.approx(epochs), label
        for node in nodes:
            assert node.data == "id+ood"
            assert node.training.learning_rate == 2e-5
            assert node.training.eval_every == said.eval_every
            total = node.training.total_steps(task.size + 30)  # the test's OOD data
            assert round(node.training.warmup * total) == said.ood_warmup_steps
    isolated = points(task, "fig6", "raw subnetwork, then fine-tuned")
    assert [node.parent.subnetwork.training.epochs for node in isolated] == pytest.approx(said.ood_epochs)
    assert {node.training.epochs for node in isolated} == {3}, "in isolation as usual"


def test_the_lengths_of_ood_training_are_for_the_sparsities_that_are_shown() -> None:
    recipe = FIGURES["fig6"].recipe(_paper_profile(QQP), (0.5, 0.7))
    found = {p.place.sparsity: p.node.training.epochs for p in recipe.points if isinstance(p.node, Prune)}
    assert set(found) == {0.5, 0.7}


@each_task
def test_searches_start_where_the_paper_starts_them(task: Sized, said: Said) -> None:
    nodes = points(task, "fig7", START)
    assert {node.pruner.sparsity for node in nodes} == {said.timing_sparsity}
    first, *moments, last = [node.parent for node in nodes]
    assert isinstance(first, Pretrained), "step 0"
    assert isinstance(last, FineTune), "and the end"
    assert all(isinstance(moment, Moment) for moment in moments)
    assert [moment.step for moment in moments] == [5_000, 10_000, 15_000, 20_000]
    (auto,) = points(task, "fig7", AUTO_START)
    assert auto.parent.training.patience is not None
    assert replace(auto.parent.training, patience=None) == replace(last.training, patience=None)


@each_task
def test_the_figures_show_the_published_sparsities(task: Sized, said: Said) -> None:
    for figure in ("fig2", "fig3", "fig4", "fig5", "fig6", "figA1"):
        recipe = FIGURES[figure].recipe(_paper_profile(task))
        assert {point.place.sparsity for point in recipe.points} == {0.0, 0.2, 0.5, 0.7, 0.9}


def test_the_backbones_are_the_papers() -> None:
    profile = _paper_profile(MNLI)
    assert profile.backbone == "bert-base-uncased"
    assert profile.other_backbones == ("roberta-base", "bert-large-uncased")
    assert {node.pretrained.backbone for node in points(MNLI, "fig2")} == {"bert-base-uncased"}
    assert {node.pretrained.backbone for node in points(MNLI, "tab6")} == {"roberta-base", "bert-large-uncased"}


def test_a_sample_of_the_data_is_not_all_warm_up() -> None:
    profile = _paper_profile(Sized("mnli", 320))
    assert profile.finetuning.warmup == 0.5
    assert profile.starts == (0.0, 1.0, "auto"), "and has no step 5,000"


def test_another_task_is_not_the_papers() -> None:
    with refused("'snli'", "fever, mnli, qqp"):
        _paper_profile(Sized("snli", 10))


@each_task
def test_the_control_trains_as_long_as_the_longest_published_path(task: Sized, said: Said) -> None:
    # fig4: fine-tuned, pruned, rewound and fine-tuned again, with PoE where that takes longest
    expected = steps(task, 3) + steps(task, said.pruning_epochs) + steps(task, said.debiased_epochs)
    (node,) = points(task, "fig4", "full model (CE), trained as long")
    assert node.training.total_steps(task.size) == expected
    assert node.training.learning_rate == said.learning_rate
    assert node.training.eval_every == said.eval_every
    (shorter,) = points(task, "tab5", "full model (CE), trained as long")
    assert shorter.training.total_steps(task.size) == steps(task, 3) + steps(task, said.table_5_epochs)


def test_scale_reaches_every_setting_of_the_paper() -> None:
    profile = _paper_profile(QQP)
    half = profile.each_training(scale=0.5)
    for name in ("finetuning", "pruning", "stopping", "with_ood"):
        ours, theirs = getattr(half, name), getattr(profile, name)
        assert (ours.epochs, ours.eval_every) == (0.5 * theirs.epochs, 500)
        assert ours.warmup == theirs.warmup, "a share of the run"
    assert half.finetuning_of["poe"].epochs == 1.5


def test_as_published_at_the_scale_of_the_paper() -> None:
    profile = _paper_profile(FEVER)
    (node,) = points(FEVER, "tab5", "gradual, from 50 %", as_published(profile))
    assert (node.pruner.cut, node.pruner.refresh_every, node.pruner.ramp) == ("kth", 500, 1.0)
    half = as_published(profile.each_training(scale=0.5))
    assert half.search("mask", "poe").options["refresh_every"] == 250, "at every evaluation, however long the run"
