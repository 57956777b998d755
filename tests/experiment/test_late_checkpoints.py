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
from srnet.experiment.nodes.objectives import CE, Distilled, Objective, ObjectiveSources, PoE, make_objective
from srnet.experiment.nodes.training import FineTune, Prune
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


TRAINING = TrainingSettings(learning_rate=9e-4, steps=20, eval_every=5, batch_size=8)
"""Unlike that of other tests, with which these share a store."""
PUBLISHED = replace(TRAINING, selection="published")


def nodes(raw: Pretrained, bias: BiasModel) -> dict[str, tuple[ModelNode, int]]:
    """Trainings, with the step that represents each."""
    full, poe, mask = FineTune(raw, CE(), TRAINING), PoE(bias), MaskTraining(0.5)
    sources = ObjectiveSources(lambda: bias, lambda: full)
    rewound = Rewind(Prune(raw, mask, poe, TRAINING), raw)
    names = ("poe", "reweight", "confreg", "group-dro", "jtt", "balanced", "poe-permuted")
    debiasing = {name: make_objective(name, sources) for name in names}
    return {
        **{f"full, {name}": (FineTune(raw, each, TRAINING), LATE) for name, each in debiasing.items()},
        "full, poe, as published": (FineTune(raw, poe, PUBLISHED), EARLY),
        "full, ce": (full, EARLY),
        "full, ce, as published": (FineTune(raw, CE(), PUBLISHED), EARLY),
        "full, distilled": (FineTune(raw, Distilled(CE(), full), TRAINING), EARLY),  # a teacher is no bias model
        "raw mask, ce": (Prune(raw, mask, CE(), TRAINING), EARLY),
        "raw mask, poe": (Prune(raw, mask, poe, TRAINING), LATE),
        "raw mask, poe, as published": (Prune(raw, mask, poe, PUBLISHED), EARLY),
        # the published rule for masks of a fine-tuned model (B.3.3)
        **{
            f"mask, {objective.name}, {settings.selection}": (Prune(full, mask, objective, settings), LATE)
            for objective in (CE(), poe)
            for settings in (TRAINING, PUBLISHED)
        },
        "in isolation, poe": (FineTune(rewound, poe, TRAINING), LATE),
        "in isolation, ce": (FineTune(rewound, CE(), TRAINING), EARLY),
    }


def test_the_step_that_represents_a_training(selected: Selected, raw: Pretrained, bias: BiasModel) -> None:
    for name, (node, step) in nodes(raw, bias).items():
        assert selected(node) == step, name


@pytest.mark.parametrize("name", ["ce", "poe"])
def test_imp_ends_with_its_last_level(name: str, selected: Selected, raw: Pretrained, bias: BiasModel) -> None:
    levels = Prune(raw, IMP(0.5), CE() if name == "ce" else Objective(name, bias), TRAINING).levels
    assert levels is not None
    assert selected(levels) == 18  # nine levels of two steps


def test_the_rule_is_part_of_the_key(raw: Pretrained, bias: BiasModel) -> None:
    late = FineTune(raw, PoE(bias), replace(TRAINING, selection="late"))
    assert late.key == FineTune(raw, PoE(bias), TRAINING).key != FineTune(raw, PoE(bias), PUBLISHED).key
