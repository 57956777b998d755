"""The baselines: which models they are, and that a figure without them is as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from refusals import refused
from small import read_no_backbone

from srnet.core.names import EMBEDDED
from srnet.experiment.estimate import planned_steps
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import ModelNode, Pretrained, Quantised
from srnet.experiment.nodes.objectives import CE, Objective
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.wanda import Wanda
from srnet.recipes import baselines as module
from srnet.recipes.baselines import HEAD, INT8, LAST_LAYER, LAST_LAYER_OOD, LORA, ONE_SHOT, WANDA
from srnet.recipes.figures import FIGURES, MASK_POE
from srnet.recipes.order import Order
from srnet.recipes.paradigms import Profile, Search, full, labels_of, of_fine_tuned
from srnet.recipes.profiles import FINETUNING, PRUNING, toy_profile
from srnet.recipes.recipe import FULL_CE, Recipe
from srnet.tasks.synthetic import SyntheticTask

TASK = SyntheticTask("inference", train_size=50, dev_size=10, ood_size=10)
BIAS = BiasModel(TASK)
RAW = Pretrained(EMBEDDED, TASK, 3)
FULL = FineTune(RAW, CE(), replace(FINETUNING, seed=3))
FULL_POE = FineTune(RAW, Objective("poe", BIAS), replace(FINETUNING, seed=3))
DENSE = [HEAD, LAST_LAYER, LAST_LAYER_OOD, LORA]


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read_no_backbone(monkeypatch)


def profile(**changes: Any) -> Profile:
    return replace(toy_profile(TASK), seeds=(3,), **changes)


def lines(recipe: Recipe) -> dict[str, list[ModelNode]]:
    return {label: [p.node for p in recipe.points if p.label == label] for label in labels_of(recipe.points)}


def of_fig2(**changes: Any) -> dict[str, list[ModelNode]]:
    return lines(FIGURES["fig2"].recipe(profile(**changes), (0.5, 0.7), baselines=True))


def test_the_figure_without_them_is_as_it_was() -> None:
    without, having = lines(FIGURES["fig2"].recipe(profile(), (0.5, 0.7))), of_fig2()
    assert list(having)[: len(without)] == list(without), "its own lines come first"
    assert {label: having[label] for label in without} == without
    more = [label for label in having if label not in without]
    assert more == [*DENSE, ONE_SHOT, WANDA, INT8.format(FULL_CE)]


def test_each_is_what_its_label_says() -> None:
    found = of_fig2()
    steps = planned_steps(Prune(FULL, MaskTraining(0.5), CE(), replace(PRUNING, seed=3))) - planned_steps(FULL)
    trained = replace(FINETUNING, seed=3, steps=steps)
    head = replace(trained, update="head", learning_rate=20.0 * FINETUNING.learning_rate)
    lora = replace(trained, update="lora", learning_rate=5.0 * FINETUNING.learning_rate)
    balanced = Objective("balanced", BIAS)
    assert found[HEAD] == [FineTune(FULL, Objective("poe", BIAS), head)]
    assert found[LAST_LAYER] == [FineTune(FULL, balanced, head)]
    assert found[LAST_LAYER_OOD] == [FineTune(FULL, balanced, head, "id+ood")]
    assert found[LORA] == [FineTune(FULL, Objective("poe", BIAS), lora)]
    assert found[ONE_SHOT] == [Prune(FULL_POE, OneShot(s)) for s in (0.5, 0.7)]
    assert found[WANDA] == [Prune(FULL_POE, Wanda(s)) for s in (0.5, 0.7)]
    assert found[INT8.format(FULL_CE)] == [Quantised(FULL)]
    searched = {planned_steps(node) for node in found[MASK_POE]}
    assert {planned_steps(each) for label in DENSE for each in found[label]} == searched, "the steps of the search"


def test_nothing_else_reads_ood_training_data() -> None:
    ood = {label for label, nodes in of_fig2().items() if any(getattr(node, "data", "id") != "id" for node in nodes)}
    assert ood == {LAST_LAYER_OOD}


def test_a_line_on_ood_data_needs_some(monkeypatch: pytest.MonkeyPatch) -> None:
    task = replace(TASK.load(), ood_train=None)
    monkeypatch.setattr(module, "load_task", lambda spec: task)
    assert LAST_LAYER_OOD not in of_fig2()


def test_without_peft_the_report_says_why_a_line_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert LORA not in of_fig2()
    (remark,) = FIGURES["fig2"].recipe(profile(), baselines=True).remarks
    assert LORA in remark
    assert "pip install peft" in remark


def test_units_that_are_trained_further_are_compared_with_such() -> None:
    search = Search("mask", "poe", (0.5,), options={"granularity": ["head"]})
    like = of_fine_tuned(profile(), "units", search, after="poe")
    found = {each.label: each.node for each in module.baselines(profile(), like, FULL_CE)}
    assert found[ONE_SHOT] == FineTune(
        Prune(FULL_POE, OneShot(0.5, granularity=("head",))), FULL_POE.objective, FULL_POE.training
    )
    assert planned_steps(found[HEAD]) == planned_steps(like[0].node)
    assert LAST_LAYER_OOD not in found, "only on request"


# --- keys of `full` ------------------------------------------------------------------------------------------------


def test_the_keys_of_a_line() -> None:
    def node(**keys: Any) -> ModelNode:
        return full(profile(), "line", **keys)[0].node

    head = node(finetune="ce", after="balanced", update="head")
    assert head == FineTune(
        FULL, Objective("balanced", BIAS), replace(FULL.training, update="head", learning_rate=0.01)
    )
    assert node(weights="int8") == Quantised(FULL)
    assert node(weights="float32") == FULL


# --- orders --------------------------------------------------------------------------------------------------------


def test_an_order_with_baselines(tmp_path: Any) -> None:
    (tmp_path / "own.yaml").write_text("{name: inference, train_size: 50, dev_size: 10, ood_size: 10}")
    given: dict[str, Any] = {"tasks": (str(tmp_path / "own.yaml"),)}
    (plain,), (more,) = (Order(("fig2",), **given, baselines=each).recipes() for each in (False, True))
    assert HEAD in more.every_line
    assert HEAD not in plain.every_line
    assert "--baselines" in Order(("fig2",), **given, baselines=True).command()
    assert "--baselines" not in Order(("fig2",), **given).command()
    (one,) = Order(("fig2",), **given, baselines=True, lines=(HEAD,)).recipes()
    assert {point.label for point in one.points} == {FULL_CE, HEAD}
    with refused(HEAD, MASK_POE):
        Order(("fig2",), **given, lines=(HEAD,)).recipes()[0].points  # noqa: B018
    with refused("fig2", "--baselines"):
        Order(("fig3",), **given, baselines=True).recipes()
