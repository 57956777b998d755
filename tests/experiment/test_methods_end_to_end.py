"""What the published code gets wrong, checked on what really lies in the store (facts/srnet.md, section 4)."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from methods import METHODS, STEERED, TRAINING
from scipy.special import log_softmax

from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, ConfReg, Distilled, PoE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.store import bias_predictions, read_logits
from srnet.masks.mask import Mask
from srnet.models.subnetwork import Subnetwork
from srnet.objectives.base import OBJECTIVES
from srnet.objectives.distillation import distilled
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.magnitude import GradualMagnitude, OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.movement import Movement
from srnet.pruners.static import StaticLocal, StaticShared, _matrix_kind
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import encode
from srnet.training.predict import predict
from srnet.training.settings import TrainingSettings


def states(*subnetworks: Subnetwork) -> list[dict[str, torch.Tensor]]:
    return [each.state(each.base()) for each in subnetworks]


def mask_of(subnetwork: Subnetwork) -> Mask:
    assert subnetwork.mask is not None
    return subnetwork.mask


def assert_exact(mask: Mask, sparsity: float) -> None:
    for name, keep in mask.items():
        assert int((~keep).sum()) == round(sparsity * keep.numel()), name


def assert_only_masked(parent: Subnetwork, subnetwork: Subnetwork) -> None:
    """The subnetwork has the weights of its parent, those that it prunes excepted."""
    mask = mask_of(subnetwork)
    before, after = states(parent, subnetwork)
    for name, weight in before.items():
        assert torch.equal(after[name], torch.where(mask[name], weight, 0) if name in mask else weight), name


class Spy:
    """Stands in for a loss and remembers what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.calls: list[dict[str, Any]] = []
        self.real = OBJECTIVES[name].make({})
        monkeypatch.setitem(OBJECTIVES, name, replace(OBJECTIVES[name], loss=self))

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **given: Any) -> torch.Tensor:
        self.calls.append(given)
        return self.real(logits, labels, **given)

    def rows(self, name: str) -> set[tuple[float, ...]]:
        return {tuple(row) for call in self.calls for row in call[name].tolist()}


def float_rows(values: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(row) for row in values.astype(np.float32).tolist()}


# --- the objective of IMP ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAINING)
def test_pruning_with_poe_trains_with_poe(
    name: str,
    made: Any,
    tuned: FineTune,
    bias: BiasModel,
    tiny_training: TrainingSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(made.store, Reporter(quiet=True))
    engine.execute([tuned, bias])
    poe, ce = Spy(monkeypatch, "poe"), Spy(monkeypatch, "ce")
    # a seed of its own: nobody else has computed this node
    engine.execute([Prune(tuned, TRAINING[name], PoE(bias), replace(tiny_training, seed=77))])
    assert len(poe.calls) == {"imp": 18, "imp-rw": 16}.get(name, 20)
    assert ce.calls == []
    assert poe.rows("bias") <= float_rows(bias_predictions(engine.store, bias.key, "train").log_probs)


@pytest.mark.parametrize("name", ["ce", "poe", "confreg"])
def test_distillation_goes_with_every_objective(
    name: str,
    made: Any,
    tuned: FineTune,
    bias: BiasModel,
    tiny_training: TrainingSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = {"ce": CE(), "poe": PoE(bias), "confreg": ConfReg(bias, tuned)}[name]
    objective = Distilled(plain, tuned, share=0.25, temperature=3.0)
    assert objective.teacher == ConfReg(bias, tuned).teacher
    assert objective.label == f"{name}+kd"
    node = Prune(tuned, StaticShared(0.5), objective, replace(tiny_training, steps=3, seed=78))
    own, taught = Spy(monkeypatch, name), []

    def spied(loss: Any, weight: float, temperature: float, *more: Any) -> Any:
        taught.append((weight, temperature))
        return distilled(loss, weight, temperature, *more)

    monkeypatch.setattr("srnet.experiment.compute.distilled", spied)
    Engine(made.store, Reporter(quiet=True)).execute([node])
    assert len(own.calls) == 3
    assert taught == [(0.25, 3.0)]
    teacher = log_softmax(read_logits(made.store, objective.teacher.key)["train"], axis=1)
    if name == "confreg":
        assert own.rows("teacher") <= float_rows(teacher)
    if name != "ce":
        assert own.rows("bias") <= float_rows(bias_predictions(made.store, bias.key, "train").log_probs)


def test_a_distilled_run_is_another_run(made: Any, tuned: FineTune, tiny_training: TrainingSettings) -> None:
    fast = replace(tiny_training, steps=5, learning_rate=1e-2)
    plain, taught = (made(Prune(tuned, StaticLocal(0.5, penalty=0.0), o, fast)) for o in (CE(), Distilled(CE(), tuned)))
    assert mask_of(plain) != mask_of(taught)


# --- rewinding -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fine_tuned", [False, True])
def test_rewound_imp_returns_the_original_weights(
    fine_tuned: bool, made: Any, raw: Pretrained, tuned: FineTune, tiny_training: TrainingSettings
) -> None:
    start = tuned if fine_tuned else raw
    parent = made(start)
    for level in (0.1, 0.5, 0.9):
        subnetwork = made(Prune(start, RewoundIMP(level), training=tiny_training))
        assert_exact(mask_of(subnetwork), level)
        assert_only_masked(parent, subnetwork)
    trained = made(Prune(start, IMP(0.5), training=tiny_training))
    assert not torch.equal(*(s["classifier.weight"] for s in states(parent, trained))), "imp itself keeps its training"


def test_a_ticket_trains_under_its_mask(
    made: Any, raw: Pretrained, tuned: FineTune, tiny_training: TrainingSettings
) -> None:
    masked = Prune(tuned, MaskTraining(0.7), training=tiny_training)
    rewound, ticket = Rewind(masked, raw), FineTune(Rewind(masked, raw), training=tiny_training)
    mask = mask_of(made(masked))
    assert mask_of(made(rewound)) == mask_of(made(ticket)) == mask
    assert_only_masked(made(raw), made(rewound))
    before, after = states(made(rewound), made(ticket))
    for name, keep in mask.items():
        assert not after[name][~keep].any(), name
        assert not torch.equal(after[name], before[name]), f"{name} did not train"


# --- masks and budgets ---------------------------------------------------------------------------------------------


def test_gradual_pruning_is_saved_at_its_final_sparsity(
    made: Any, tuned: FineTune, tiny_training: TrainingSettings
) -> None:
    node = Prune(tuned, MaskTraining(0.9, "soft", initial_sparsity=0.7), training=tiny_training)
    assert_exact(mask_of(made(node)), 0.9)
    assert made.record(node)["selected_step"] >= 0.7 * 20


@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.37, 0.5, 0.9, 0.999])
def test_budgets_are_met_to_the_weight(sparsity: float, made: Any, raw: Pretrained) -> None:
    node = Prune(raw, OneShot(sparsity))
    made(node)
    mask = Mask.from_bytes((made.store.path(node.key) / "mask.bits").read_bytes())
    assert_exact(mask, sparsity)
    assert not any("embedding" in name or "LayerNorm" in name or "pooler" in name for name in mask)
    assert "classifier.weight" in mask


@pytest.mark.parametrize("sparsity", [0.5, 0.97])
@pytest.mark.parametrize("kind", [StaticLocal, StaticShared, Movement, GradualMagnitude], ids=lambda kind: kind.name)
def test_gradual_budgets_are_met_to_the_weight_in_what_is_saved(
    kind: Any, sparsity: float, made: Any, raw: Pretrained, tiny_training: TrainingSettings
) -> None:
    node = Prune(raw, kind(sparsity), training=replace(tiny_training, steps=6, eval_every=2, learning_rate=1e-2))
    subnetwork = made(node)
    folder = made.store.path(node.key)
    mask = Mask.from_bytes((folder / "mask.bits").read_bytes())
    assert mask == subnetwork.mask
    assert len(mask) == 12, "six matrices of each of the two layers, and no classifier"
    wanted, found = Counter[str](), Counter[str]()
    for name, keep in mask.items():
        group = _matrix_kind(name) if kind is StaticShared else name  # smp-s: matrices of a kind share their budget
        wanted[group] += keep.numel() - round(sparsity * keep.numel())
        found[group] += int(keep.sum())
    assert found == wanted
    card = json.loads((folder / "subnetwork.json").read_text())
    assert card["weights_kept"] == sum(wanted.values()) == mask.kept
    state = subnetwork.state(subnetwork.base())
    assert not any(state[name][~keep].any() for name, keep in mask.items())
    assert made.record(node)["selected_step"] >= 0.6 * 6


@pytest.mark.parametrize("name", STEERED)
def test_what_a_penalty_makes_of_it_is_counted(
    name: str, made: Any, raw: Pretrained, tiny_training: TrainingSettings
) -> None:
    node = Prune(raw, METHODS[name], training=replace(tiny_training, score_rate=0.5))
    subnetwork = made(node)
    assert 0.0 < subnetwork.sparsity < 1.0
    card = json.loads((made.store.path(node.key) / "subnetwork.json").read_text())
    assert card["sparsity"] == mask_of(subnetwork).sparsity
    last = [entry for entry in made.record(node)["log"] if "mask/sparsity" in entry][-1]
    assert {"mask/penalty", "mask/sparsity"} <= last.keys()


@pytest.mark.parametrize("kind", [StaticLocal, StaticShared])
def test_static_pruning_touches_no_pretrained_weight(
    kind: Any, made: Any, raw: Pretrained, tiny_training: TrainingSettings
) -> None:
    subnetwork = made(Prune(raw, kind(0.9), training=replace(tiny_training, steps=6, eval_every=2)))
    before, after = states(made(raw), subnetwork)
    for name, tensor in mask_of(subnetwork).apply(before).items():
        assert torch.equal(after[name], tensor) is not name.startswith("classifier."), name


def test_a_global_budget_is_met_over_all(made: Any, raw: Pretrained, tiny_training: TrainingSettings) -> None:
    for pruner in (OneShot(0.37, scope="global"), MaskTraining(0.37, scope="global")):
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
    assert_only_masked(made(tuned), subnetwork)
    magnitude = mask_of(made(Prune(tuned, OneShot(sparsity))))
    assert mask != magnitude, "the mask moved away from its initialisation"


def test_one_run_of_imp_yields_every_level(made: Any, tuned: FineTune, tiny_training: TrainingSettings) -> None:
    masks = []
    for level in (0.1, 0.2, 0.9):
        masks.append(mask_of(made(Prune(tuned, IMP(level), training=tiny_training))))
        assert_exact(masks[-1], level)
    for looser, tighter in pairwise(masks):
        assert looser.intersection(tighter) == tighter, "what is pruned stays pruned"


def test_a_mask_takes_one_bit_a_weight(made: Any, raw: Pretrained) -> None:
    node = Prune(raw, OneShot(0.5))
    mask = mask_of(made(node))
    names = sum(len(name) + 16 for name in mask)
    assert (made.store.path(node.key) / "mask.bits").stat().st_size <= math.ceil(mask.total / 8) + names + 64


# --- the random head -----------------------------------------------------------------------------------------------


def test_paradigm_c_reloads_with_its_random_head(
    made: Any, raw: Pretrained, tiny_task: SyntheticTask, tiny_training: TrainingSettings
) -> None:
    """Whatever random numbers come next; `test_architectures` does the same in another process."""
    other = replace(raw, seed=3)
    assert not torch.equal(*(made(each).weights["classifier.weight"] for each in (raw, other)))
    node = Prune(other, MaskTraining(0.5), training=tiny_training)
    subnetwork = made(node)
    assert {"classifier.weight", "classifier.bias"} <= set(subnetwork.weights) == subnetwork.base().fresh
    evaluation = Evaluate(node)
    Engine(made.store, Reporter(quiet=True)).execute([evaluation])
    torch.manual_seed(999)
    again = Subnetwork.load(made.store.path(node.key))
    base = again.base()
    logits = predict(again.model(base), encode(tiny_task.load().dev, base.tokenizer, 64))
    np.testing.assert_array_equal(logits, read_logits(made.store, evaluation.key)["dev"])
