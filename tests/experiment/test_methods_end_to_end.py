"""What the published code gets wrong, checked on what really lies in the store (facts/srnet.md, section 4)."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from srnet.experiment import BiasModel, ConfReg, Engine, Evaluate, FineTune, PoE, Pretrained, Prune, Rewind
from srnet.experiment.compute import bias_predictions, load_logits
from srnet.export import Subnetwork
from srnet.masks import Mask
from srnet.objectives import OBJECTIVES
from srnet.progress import Reporter
from srnet.pruners import IMP, Magnitude, MaskTraining, RewoundIMP
from srnet.training import TrainingSettings


def states(*subnetworks: Subnetwork) -> list[dict[str, torch.Tensor]]:
    return [each.state(each.base()) for each in subnetworks]


def mask_of(subnetwork: Subnetwork) -> Mask:
    assert subnetwork.mask is not None
    return subnetwork.mask


def assert_exact(mask: Mask, sparsity: float) -> None:
    for name, keep in mask.items():
        assert int((~keep).sum()) == round(sparsity * keep.numel()), name


class Spy:
    """Stands in for a loss and remembers what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.calls: list[dict[str, Any]] = []
        self.real = OBJECTIVES[name].loss
        monkeypatch.setitem(OBJECTIVES, name, replace(OBJECTIVES[name], loss=self))

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **given: Any) -> torch.Tensor:
        self.calls.append(given)
        return self.real(logits, labels, **given)

    def rows(self, name: str) -> set[tuple[float, ...]]:
        return {tuple(row) for call in self.calls for row in call[name].tolist()}


def float_rows(values: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(row) for row in values.astype(np.float32).tolist()}


# --- the objective of IMP ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pruner", [IMP(0.5), RewoundIMP(0.5), MaskTraining(0.5)], ids=lambda p: p.name)
def test_pruning_with_poe_trains_with_poe(
    pruner: Any,
    tuned: FineTune,
    bias: BiasModel,
    tiny_training: TrainingSettings,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine.execute([tuned, bias])
    poe, ce = Spy(monkeypatch, "poe"), Spy(monkeypatch, "ce")
    engine.execute([Prune(tuned, pruner, PoE(bias), tiny_training)])
    assert len(poe.calls) == {"imp": 18, "imp-rw": 16, "mask": 20}[pruner.name]
    assert ce.calls == []
    assert poe.rows("bias") <= float_rows(bias_predictions(engine.store, bias, "train").log_probs)


def test_poe_and_ce_find_different_subnetworks(
    made: Any, tuned: FineTune, bias: BiasModel, tiny_training: TrainingSettings
) -> None:
    poe, ce = (made(Prune(tuned, IMP(0.5), o, tiny_training)) for o in (PoE(bias), tuned.objective))
    assert mask_of(poe) != mask_of(ce)


def test_the_students_see_the_stored_teacher(
    tuned: FineTune,
    bias: BiasModel,
    tiny_training: TrainingSettings,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spy = Spy(monkeypatch, "confreg")
    objective = ConfReg(bias, tuned)
    assert objective.teacher is not None
    engine.execute([Prune(tuned, MaskTraining(0.5), objective, tiny_training)])
    teacher = log_softmax(load_logits(engine.store, objective.teacher)["train"], axis=1)
    assert spy.rows("teacher") <= float_rows(teacher)


# --- rewinding -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fine_tuned", [False, True])
def test_rewound_imp_returns_the_original_weights(
    fine_tuned: bool, made: Any, raw: Pretrained, tuned: FineTune, tiny_training: TrainingSettings
) -> None:
    start = tuned if fine_tuned else raw
    parent = made(start)
    for level in (0.1, 0.5, 0.9):
        subnetwork = made(Prune(start, RewoundIMP(level), training=tiny_training))
        before, after = states(parent, subnetwork)
        assert_exact(mask_of(subnetwork), level)
        for name, weight in before.items():
            expected = torch.where(subnetwork.mask[name], weight, 0) if name in subnetwork.mask else weight
            assert torch.equal(after[name], expected), name
    trained = made(Prune(start, IMP(0.5), training=tiny_training))
    assert not torch.equal(*(s["classifier.weight"] for s in states(parent, trained))), "imp itself keeps its training"


def test_a_ticket_trains_under_its_mask(
    made: Any, raw: Pretrained, tuned: FineTune, tiny_training: TrainingSettings
) -> None:
    masked = Prune(tuned, MaskTraining(0.7), training=tiny_training)
    rewound, ticket = Rewind(masked, raw), FineTune(Rewind(masked, raw), training=tiny_training)
    mask = mask_of(made(masked))
    assert mask_of(made(rewound)) == mask_of(made(ticket)) == mask
    original, before, after = states(made(raw), made(rewound), made(ticket))
    for name, weight in original.items():
        assert torch.equal(before[name], torch.where(mask[name], weight, 0) if name in mask else weight), name
    for name, keep in mask.items():
        assert not after[name][~keep].any(), name
        assert not torch.equal(after[name], before[name]), f"{name} did not train"


# --- masks and budgets ---------------------------------------------------------------------------------------------


def test_gradual_pruning_is_saved_at_its_final_sparsity(
    made: Any, tuned: FineTune, tiny_training: TrainingSettings
) -> None:
    node = Prune(tuned, MaskTraining(0.9, "soft", initial_sparsity=0.7), training=tiny_training)
    assert_exact(mask_of(made(node)), 0.9)
    story = json.loads((made.store.path(node.key) / "training.json").read_text())
    assert story["selected_step"] >= 0.7 * 20


@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.37, 0.5, 0.9, 0.999])
def test_budgets_are_met_to_the_weight(sparsity: float, made: Any, raw: Pretrained) -> None:
    node = Prune(raw, Magnitude(sparsity))
    made(node)
    mask = Mask.from_bytes((made.store.path(node.key) / "mask.bits").read_bytes())
    assert_exact(mask, sparsity)
    assert not any("embedding" in name or "LayerNorm" in name or "pooler" in name for name in mask)
    assert "classifier.weight" in mask


def test_a_global_budget_is_met_over_all(made: Any, raw: Pretrained, tiny_training: TrainingSettings) -> None:
    for pruner in (Magnitude(0.37, scope="global"), MaskTraining(0.37, scope="global")):
        mask = mask_of(made(Prune(raw, pruner, training=tiny_training)))
        assert mask.total - mask.kept == round(0.37 * mask.total)


@pytest.mark.parametrize("sparsity", [0.37, 0.9])
def test_mask_training_meets_its_budget_and_touches_no_weight(
    sparsity: float, made: Any, tuned: FineTune, tiny_training: TrainingSettings
) -> None:
    # refresh_every that does not divide the run: the sparsity drifts in between, the saved mask must not
    fast = replace(tiny_training, learning_rate=1e-2)
    subnetwork = made(Prune(tuned, MaskTraining(sparsity, refresh_every=7), training=fast))
    mask = mask_of(subnetwork)
    assert_exact(mask, sparsity)
    before, after = states(made(tuned), subnetwork)
    for name, weight in before.items():
        assert torch.equal(after[name], torch.where(mask[name], weight, 0) if name in mask else weight), name
    magnitude = mask_of(made(Prune(tuned, Magnitude(sparsity))))
    assert mask != magnitude, "the mask moved away from its initialisation"


def test_one_run_of_imp_yields_every_level(made: Any, tuned: FineTune, tiny_training: TrainingSettings) -> None:
    masks = []
    for level in (0.1, 0.2, 0.9):
        masks.append(mask_of(made(Prune(tuned, IMP(level), training=tiny_training))))
        assert_exact(masks[-1], level)
    for looser, tighter in pairwise(masks):
        assert looser.intersection(tighter) == tighter, "what is pruned stays pruned"


def test_a_mask_takes_one_bit_a_weight(made: Any, raw: Pretrained) -> None:
    node = Prune(raw, Magnitude(0.5))
    mask = mask_of(made(node))
    names = sum(len(name) + 16 for name in mask)
    assert (made.store.path(node.key) / "mask.bits").stat().st_size <= math.ceil(mask.total / 8) + names + 64


# --- the random head -----------------------------------------------------------------------------------------------

RELOAD = """
import sys, numpy as np, torch
torch.manual_seed(999)
from srnet.export import Subnetwork
from srnet.experiment.compute import encode, predict
from srnet.tasks.synthetic import SyntheticTask
folder, out = sys.argv[1:]
subnetwork = Subnetwork.load(folder)
base = subnetwork.base()
task = SyntheticTask("inference", train_size=200, dev_size=60, ood_size=60).load()
np.save(out, predict(subnetwork.model(base), encode(task.dev, base.tokenizer, 64)))
"""


def test_paradigm_c_reloads_with_its_random_head(
    made: Any, raw: Pretrained, tiny_training: TrainingSettings, tmp_path: Any
) -> None:
    node = Prune(replace(raw, seed=3), MaskTraining(0.5), training=tiny_training)
    subnetwork = made(node)
    assert {"classifier.weight", "classifier.bias"} <= set(subnetwork.weights) == subnetwork.base().fresh
    evaluation = Evaluate(node)
    Engine(made.store, Reporter(quiet=True)).execute([evaluation])
    out = tmp_path / "logits.npy"
    subprocess.run([sys.executable, "-c", RELOAD, made.store.path(node.key), out], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(out), load_logits(made.store, evaluation)["dev"])


def test_another_seed_draws_another_head(made: Any, raw: Pretrained) -> None:
    one, other = made(raw), made(replace(raw, seed=1))
    assert not torch.equal(one.weights["classifier.weight"], other.weights["classifier.weight"])
