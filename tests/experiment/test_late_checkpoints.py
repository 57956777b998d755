"""Which trainings may be represented by an early checkpoint: those whose objective does not fight a shortcut."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import ModelNode, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, ConfReg, Distilled, Objective, PoE, Reweight
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.objective import ObjectiveSources, make_objective
from srnet.experiment.store import Store
from srnet.pruners.imp import IMP
from srnet.pruners.mask_training import MaskTraining
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result, Run, train

EARLY_PEAK = (90.0, 80.0, 70.0, 60.0)
"""Dev scores at steps 5, 10, 15 and 20 of 20: the shortcut is learnt first, and unlearnt at a cost."""
EARLY, LATE = 5, 15
"""The best of all, and the best of the last 30 %."""

Selected = Callable[[ModelNode], int]


@pytest.fixture
def selected(shared_store: Store, monkeypatch: pytest.MonkeyPatch) -> Selected:
    """The step whose checkpoint represents a training, if dev scores are those of `EARLY_PEAK`."""

    def scripted(run: Run) -> Result:
        now = 0

        def watch(step: int, total: int, figures: dict[str, float]) -> None:
            nonlocal now
            now = step

        return train(replace(run, watch=watch, score=lambda logits: EARLY_PEAK[-(-now // 5) - 1]))

    monkeypatch.setattr("srnet.experiment.compute.train", scripted)

    def step(node: ModelNode) -> int:
        Engine(shared_store, Reporter(quiet=True)).execute([node])
        story: dict[str, Any] = json.loads((shared_store.path(node.key) / "training.json").read_text())
        return int(story["selected_step"])

    return step


@pytest.fixture
def training() -> TrainingSettings:
    """Unlike that of other tests, with which these share a store."""
    return TrainingSettings(learning_rate=9e-4, steps=20, eval_every=5, batch_size=8)


@pytest.fixture
def published(training: TrainingSettings) -> TrainingSettings:
    return replace(training, selection="published")


def test_a_debiased_fine_tuning_is_represented_by_a_late_checkpoint(
    selected: Selected, raw: Pretrained, bias: BiasModel, training: TrainingSettings
) -> None:
    teacher = FineTune(raw, training=training)
    assert selected(FineTune(raw, PoE(bias), training)) == LATE
    assert selected(FineTune(raw, Reweight(bias), training)) == LATE
    assert selected(FineTune(raw, ConfReg(bias, teacher), training)) == LATE
    sources = ObjectiveSources(raw, lambda: teacher)
    for name in ("group-dro", "jtt"):
        assert selected(FineTune(raw, make_objective(name, sources), training)) == LATE, (
            "they debias without bias model"
        )


def test_as_published_it_is_the_best_of_all(
    selected: Selected, raw: Pretrained, bias: BiasModel, published: TrainingSettings
) -> None:
    assert selected(FineTune(raw, PoE(bias), published)) == EARLY


def test_ce_takes_the_best_of_all_in_any_case(
    selected: Selected, raw: Pretrained, training: TrainingSettings, published: TrainingSettings
) -> None:
    full = FineTune(raw, CE(), training)
    assert selected(full) == EARLY
    assert selected(FineTune(raw, CE(), published)) == EARLY
    assert selected(Prune(raw, MaskTraining(0.5), CE(), training)) == EARLY
    assert selected(FineTune(raw, Distilled(CE(), full), training)) == EARLY, "a teacher is no bias model"


def test_mask_training(
    selected: Selected, raw: Pretrained, bias: BiasModel, training: TrainingSettings, published: TrainingSettings
) -> None:
    full, poe = FineTune(raw, CE(), training), PoE(bias)
    assert selected(Prune(raw, MaskTraining(0.5), poe, training)) == LATE
    assert selected(Prune(raw, MaskTraining(0.5), poe, published)) == EARLY
    for objective in (CE(), poe):
        for settings in (training, published):
            step = selected(Prune(full, MaskTraining(0.5), objective, settings))
            assert step == LATE, "the published rule for masks of a fine-tuned model (B.3.3) stays"


def test_a_fine_tuning_in_isolation(
    selected: Selected, raw: Pretrained, bias: BiasModel, training: TrainingSettings
) -> None:
    rewound = Rewind(Prune(raw, MaskTraining(0.5), PoE(bias), training), raw)
    assert selected(FineTune(rewound, PoE(bias), training)) == LATE
    assert selected(FineTune(rewound, CE(), training)) == EARLY


@pytest.mark.parametrize("name", ["ce", "poe"])
def test_imp_still_ends_with_its_last_level(
    name: str, selected: Selected, raw: Pretrained, bias: BiasModel, training: TrainingSettings
) -> None:
    levels = Prune(raw, IMP(0.5), CE() if name == "ce" else Objective(name, bias), training).levels
    assert levels is not None
    assert selected(levels) == 18  # nine levels of two steps


def test_the_rule_is_part_of_the_key(raw: Pretrained, bias: BiasModel, training: TrainingSettings) -> None:
    usual, published = (
        FineTune(raw, PoE(bias), replace(training, selection=rule))  # type: ignore[arg-type]
        for rule in ("late", "published")
    )
    assert usual.key != published.key
    assert usual.key == FineTune(raw, PoE(bias), training).key
