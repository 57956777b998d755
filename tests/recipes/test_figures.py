"""Every figure of the paper is the algebra that the paper writes under it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small import read_no_backbone

from srnet.core.names import EMBEDDED, EMBEDDED_OTHER
from srnet.experiment.engine import Engine
from srnet.experiment.estimate import planned_steps
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import Node, every_node
from srnet.experiment.nodes.bias import BiasModel, BiasSpec
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, ConfReg, Objective
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Trajectory
from srnet.experiment.store import Store
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.mask_training import MaskTraining
from srnet.recipes.figures import (
    AUTO_START,
    FIGURES,
    ISOLATED_IMP_CE,
    ISOLATED_IMP_POE,
    ISOLATED_MASK_CE,
    ISOLATED_MASK_POE,
    START,
)
from srnet.recipes.paradigms import Profile, Search, labels_of
from srnet.recipes.profiles import FINETUNING, PROFILES, PRUNING, PRUNING_WEIGHTS, toy_profile
from srnet.recipes.recipe import Recipe
from srnet.tasks.synthetic import SyntheticTask
from srnet.tasks.synthetic.stereotypes import GrammarTask
from srnet.training.settings import TrainingSettings


def small(name: str) -> SyntheticTask:
    return SyntheticTask(name, train_size=50, dev_size=10, ood_size=10)


TASK = small("inference")
BIAS = BiasModel(TASK)
POE, REWEIGHT = Objective("poe", BIAS), Objective("reweight", BIAS)
SEED = 3

RAW = Pretrained(EMBEDDED, TASK, SEED)
TUNING, SEARCH = replace(FINETUNING, seed=SEED), replace(PRUNING, seed=SEED)
OF_WEIGHTS = replace(PRUNING_WEIGHTS, seed=SEED)
FULL, FULL_POE = FineTune(RAW, CE(), TUNING), FineTune(RAW, POE, TUNING)
CE_LINE, POE_LINE = {"full model (CE)": [FULL]}, {"full model (PoE)": [FULL_POE]}
TUNED, SEARCHED = planned_steps(FULL), planned_steps(Prune(RAW, MaskTraining(0.5), CE(), SEARCH))
CONTROL = "full model (CE), trained as long"


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backbone is its name here: expressions and keys do not need the weights."""
    read_no_backbone(monkeypatch)


def toy(*seeds: int, task: SyntheticTask = TASK, **changes: Any) -> Profile:
    return replace(toy_profile(task), seeds=seeds or (SEED,), **changes)


def lines(name: str, profile: Profile | None = None) -> dict[str, list[ModelNode]]:
    """The models of a figure by line."""
    points = FIGURES[name].recipe(profile or toy()).points
    return {label: [point.node for point in points if point.label == label] for label in labels_of(points)}


def masks(model: ModelNode, objective: Objective, *sparsities: float, **options: Any) -> list[Prune]:
    return [Prune(model, MaskTraining(s, **options), objective, SEARCH) for s in sparsities]


def lasting(steps: int, node: Prune) -> Prune:
    return replace(node, training=replace(node.training, steps=steps))


def control(steps: int) -> dict[str, list[FineTune]]:
    """The line of the full CE model that trains as many steps as the figure's longest search."""
    return {CONTROL: [replace(FULL, training=replace(TUNING, steps=steps))]}


# --- figure by figure ----------------------------------------------------------------------------------------------


def test_fig2_prunes_the_model_fine_tuned_with_ce() -> None:
    sparsities = (0.5, 0.7, 0.9)
    assert lines("fig2") == {
        **CE_LINE,
        **control(TUNED + SEARCHED),
        **POE_LINE,
        "mask training (CE)": masks(FULL, CE(), *sparsities),
        "mask training (PoE)": masks(FULL, POE, *sparsities),
        "IMP (CE)": [Prune(FULL, IMP(s), CE(), OF_WEIGHTS) for s in sparsities],
        "IMP (PoE)": [Prune(FULL, IMP(s), POE, OF_WEIGHTS) for s in sparsities],
    }


def test_fig3_prunes_the_model_fine_tuned_with_poe() -> None:
    assert lines("fig3") == {
        **CE_LINE,
        **control(TUNED + SEARCHED),
        **POE_LINE,
        "mask training (PoE) of the PoE model": masks(FULL_POE, POE, 0.5, 0.7),
        "IMP (PoE) of the PoE model": [Prune(FULL_POE, IMP(s), POE, OF_WEIGHTS) for s in (0.5, 0.7)],
        "mask training (PoE)": masks(FULL, POE, 0.5, 0.7),
    }


def test_fig4_rewinds_to_the_raw_weights_and_trains_in_isolation() -> None:
    imp = [Prune(RAW, RewoundIMP(s), POE, OF_WEIGHTS) for s in (0.5, 0.7)]
    mask = masks(FULL, POE, 0.5, 0.7)

    def isolated(found: Iterable[Prune], objective: Objective) -> list[FineTune]:
        return [FineTune(Rewind(subnetwork, RAW), objective, TUNING) for subnetwork in found]

    assert lines("fig4") == {
        **CE_LINE,
        **control(TUNED + SEARCHED + TUNED),
        **POE_LINE,
        ISOLATED_IMP_CE: isolated(imp, CE()),
        ISOLATED_IMP_POE: isolated(imp, POE),
        ISOLATED_MASK_CE: isolated(mask, CE()),
        ISOLATED_MASK_POE: isolated(mask, POE),
    }


def test_fig5_prunes_the_raw_model() -> None:
    assert lines("fig5") == {
        **CE_LINE,
        **control(TUNED + SEARCHED),
        **POE_LINE,
        "mask training (CE) of the raw model": masks(RAW, CE(), 0.5, 0.7),
        "mask training (PoE) of the raw model": masks(RAW, POE, 0.5, 0.7),
        "mask training (PoE)": masks(FULL, POE, 0.5, 0.7),
    }


@pytest.mark.parametrize("name", ["fig6", "figA2"])
def test_fig6_finds_masks_with_ood_data_and_fine_tunes_them_without(name: str) -> None:
    def found(model: ModelNode) -> list[Prune]:
        return [replace(node, data="id+ood") for node in masks(model, CE(), 0.5, 0.7)]

    assert lines(name) == {
        **CE_LINE,
        **control(TUNED + SEARCHED + TUNED),
        "fine-tuned subnetwork": found(FULL),
        "raw subnetwork, then fine-tuned": [FineTune(Rewind(n, RAW), CE(), TUNING, "id") for n in found(FULL)],
        "raw subnetwork": found(RAW),
    }


@pytest.mark.parametrize("name", ["fig7", "figA3"])
def test_fig7_starts_at_moments_of_one_fine_tuning(name: str) -> None:
    steps = tuple(round(share * TUNED) for share in (0.25, 0.5, 0.75))
    on_the_way = Trajectory(RAW, CE(), TUNING, steps)
    starts = [RAW, *(Moment(on_the_way, step) for step in steps), FULL]
    stopped = FineTune(RAW, CE(), replace(TUNING, eval_every=25, patience=3, min_gain=0.5))
    assert lines(name) == {
        **CE_LINE,
        **control(TUNED + SEARCHED),
        START: [node for start in starts for node in masks(start, POE, 0.7)],
        AUTO_START: masks(stopped, POE, 0.7),
    }
    points = FIGURES[name].recipe(toy()).points
    assert [point.place.start for point in points[2:]] == [0.0, 0.25, 0.5, 0.75, 1.0, "auto"]
    assert FIGURES[name].axis == "start"


def test_fig8_is_fixed_against_gradual_over_the_length() -> None:
    (fixed,), (gradual,) = masks(FULL, POE, 0.9), masks(FULL, POE, 0.9, init="soft", initial_sparsity=0.7)
    lengths = [round(SEARCHED * share) for share in (1 / 3, 2 / 3, 1.0)]
    assert lines("fig8") == {
        **CE_LINE,
        **control(TUNED + SEARCHED),
        "fixed": [lasting(steps, fixed) for steps in lengths],
        "gradual, from 70 %": [lasting(steps, gradual) for steps in lengths],
    }
    points = FIGURES["fig8"].recipe(toy()).points
    assert [point.place.length for point in points[2:]] == 2 * [1 / 3, 2 / 3, 1.0]
    assert FIGURES["fig8"].axis == "length"


def test_fig_a1_has_the_teacher_of_its_own_seed() -> None:
    found = lines("figA1")
    assert found == {
        **CE_LINE,
        **control(TUNED + SEARCHED),
        "mask training (CE)": masks(FULL, CE(), 0.5, 0.7),
        "mask training (PoE)": masks(FULL, POE, 0.5, 0.7),
        "mask training (reweighting)": masks(FULL, REWEIGHT, 0.5, 0.7),
        "mask training (confidence reg.)": masks(FULL, ConfReg(BIAS, FULL), 0.5, 0.7),
    }
    for node in lines("figA1", toy(0, 5))["mask training (confidence reg.)"]:
        assert isinstance(node, Prune)
        assert node.objective.teacher is not None
        assert node.objective.teacher.model == node.parent
        assert node.pretrained.seed == node.training.seed


def test_tab5_has_five_ways_to_begin_and_to_go_on() -> None:
    soft = {"init": "soft"}
    assert lines("tab5") == {
        **CE_LINE,
        **control(TUNED + SEARCHED),
        "fixed, hard": masks(FULL, POE, 0.9),
        "fixed, soft": masks(FULL, POE, 0.9, **soft),
        "gradual, from 20 %": masks(FULL, POE, 0.9, initial_sparsity=0.2, **soft),
        "gradual, from 50 %": masks(FULL, POE, 0.9, initial_sparsity=0.5, **soft),
        "gradual, from 70 %": masks(FULL, POE, 0.9, initial_sparsity=0.7, **soft),
    }
    shorter = lines("tab5", toy(ablation_length=0.5))
    half = round(0.5 * SEARCHED)
    assert [planned_steps(node) for (node,) in shorter.values()] == [TUNED, *6 * [TUNED + half]], (
        "and so is the control"
    )


def test_tab6_is_another_backbone_throughout() -> None:
    claims = toy(task=small("paraphrase"), bias=BiasSpec("unknown", examples=20))
    raw = Pretrained(EMBEDDED_OTHER, claims.task, SEED)
    bias = claims.bias.node(claims.task, EMBEDDED_OTHER)  # weak models of the backbone that is debiased
    poe = Objective("poe", bias)
    full = FineTune(raw, CE(), TUNING)
    gradual = MaskTraining(0.7, "soft", initial_sparsity=0.5)
    assert lines("tab6", claims) == {
        "srnet-small: full model (CE)": [full],
        "srnet-small: full model (CE), trained as long": [
            replace(full, training=replace(TUNING, steps=TUNED + SEARCHED))
        ],
        "srnet-small: full model (PoE)": [FineTune(raw, poe, TUNING)],
        "srnet-small: mask training (PoE)": masks(full, poe, 0.5, 0.7),
        "srnet-small: gradual, from 50 %": [Prune(full, gradual, poe, SEARCH)],
    }
    recipe = FIGURES["tab6"].recipe(claims)
    assert recipe.references[EMBEDDED_OTHER].full == {SEED: full}
    assert recipe.bias_models == {EMBEDDED_OTHER: bias}


def test_tab6_is_judged_by_models_of_its_own_backbone(tmp_path: Path) -> None:
    recipe = FIGURES["tab6"].recipe(toy(task=small("verification")))
    plan = Engine(Store(tmp_path / "store")).plan(recipe.nodes())
    assert {node.pretrained.backbone for node in plan if isinstance(node, ModelNode)} == {EMBEDDED_OTHER}
    (reference,) = recipe.references.values()
    models = [*reference.full.values(), *reference.controls.values()]
    assert len(models) == 2
    assert {Evaluate(model) for model in models} <= set(plan)


def test_each_other_backbone_has_lines_of_its_own() -> None:
    others = ("hub/bert-large", "/models/roberta/")
    found = lines("tab6", toy(other_backbones=others))
    assert [label.split(":")[0] for label in found] == 5 * ["bert-large"] + 5 * ["roberta"]
    for label, nodes in found.items():
        assert {node.pretrained.backbone for node in nodes} == {others[label.startswith("roberta")]}


# --- settings reach their place ------------------------------------------------------------------------------------


def test_each_setting_is_used_where_it_belongs() -> None:
    profile = Profile(
        task=TASK,
        backbone="b",
        seeds=(1,),
        finetuning=TrainingSettings(steps=100, learning_rate=1e-1),
        pruning=TrainingSettings(steps=200, learning_rate=1e-2),
        stopping=TrainingSettings(steps=300, patience=2, learning_rate=1e-3),
        with_ood=TrainingSettings(steps=400, learning_rate=1e-4),
        finetuning_of={"poe": TrainingSettings(steps=500, learning_rate=1e-5)},
        sparsities=(0.3,),
        timing_sparsity=0.4,
        high_sparsity=0.8,
        other_backbones=("other",),
    )
    raw = Pretrained("b", TASK, 1)

    def seeded(settings: TrainingSettings | None) -> TrainingSettings:
        return replace(settings or TrainingSettings(), seed=1)

    full = FineTune(raw, CE(), seeded(profile.finetuning))
    full_poe = FineTune(raw, POE, seeded(profile.finetuning_of["poe"]))
    assert profile.full(1, "poe:strength=0.5").training == full_poe.training, "options do not change the settings"
    fig4 = lines("fig4", profile)
    assert [fig4["full model (CE)"], fig4["full model (PoE)"]] == [[full], [full_poe]]
    (found,) = fig4[ISOLATED_MASK_POE]
    masked = Prune(full, MaskTraining(0.3), POE, seeded(profile.pruning))
    assert found == FineTune(Rewind(masked, raw), POE, full_poe.training), "as that objective is always fine-tuned"
    assert lines("fig3", profile)["IMP (PoE) of the PoE model"] == [
        Prune(full_poe, IMP(0.3), POE, seeded(profile.pruning))
    ]
    (with_ood,) = lines("fig6", profile)["raw subnetwork"]
    assert with_ood == Prune(raw, MaskTraining(0.3), CE(), seeded(profile.with_ood), "id+ood")
    fig7 = lines("fig7", profile)
    (stopped,) = fig7[AUTO_START]
    stopping = FineTune(raw, CE(), seeded(profile.stopping))
    assert stopped == Prune(stopping, MaskTraining(0.4), POE, seeded(profile.pruning))
    assert [len(nodes) for nodes in fig7.values()] == [1, 1, 5, 1]
    assert {node.pruner.sparsity for node in lines("tab5", profile)["fixed, soft"]} == {0.8}  # type: ignore[attr-defined]


def test_options_of_every_mask_training_reach_every_mask_training() -> None:
    profile = toy(searches={"mask": Search("mask", options={"scope": "global", "refresh_every": 3})})
    searches = [point.search for figure in FIGURES.values() for point in figure.recipe(profile).points]
    pruners = [search.pruner for search in searches if search and isinstance(search.pruner, MaskTraining)]
    assert len(pruners) > 30
    assert {(pruner.scope, pruner.refresh_every) for pruner in pruners} == {("global", 3)}


def test_without_a_start_by_itself_there_is_no_such_line() -> None:
    assert list(lines("fig7", toy(starts=(0.0, 1.0)))) == ["full model (CE)", CONTROL, START]


def test_the_user_may_choose_the_sparsities() -> None:
    assert {point.place.sparsity for point in FIGURES["fig5"].recipe(toy(), (0.1,)).points} == {0.0, 0.1}


# --- all of them ---------------------------------------------------------------------------------------------------


def recipes(profile: Profile) -> dict[str, Recipe]:
    return {name: figure.recipe(profile) for name, figure in FIGURES.items()}


def controls_of(recipe: Recipe) -> list[FineTune]:
    return [node for reference in recipe.references.values() for node in reference.controls.values()]


every_task = pytest.mark.parametrize("task", ["inference", "paraphrase", "verification"])


@every_task
def test_every_figure_builds_for_every_task(task: str) -> None:
    for name, recipe in recipes(toy(0, 1, task=small(task))).items():
        points = recipe.points
        assert {point.seed for point in points} == {0, 1}
        assert recipe.name == name
        for point in points:
            assert (point.node.pretrained.seed, point.node.task_spec) == (point.seed, recipe.task)
        assert len(points) == len({point.node for point in points}), "no model is shown twice"


@pytest.mark.parametrize(("name", "same_as"), [("figA2", "fig6"), ("figA3", "fig7")])
def test_the_appendix_costs_nothing_more(name: str, same_as: str) -> None:
    for profile in (toy(0, 1), toy(sparsities_of={same_as: (0.2,)})):
        assert lines(name, profile) == lines(same_as, profile)


@pytest.fixture
def plan(tmp_path: Path) -> list[Node]:
    """Everything there is to compute for all figures of one task and one seed."""
    points = [point.node for recipe in recipes(toy()).values() for point in recipe.points]
    return Engine(Store(tmp_path / "store")).plan([Evaluate(node) for node in points])


COSTS = {
    "fig2": (15, 11, 6600),
    "fig3": (9, 8, 5100),
    "fig4": (11, 14, 10400),
    "fig5": (9, 9, 5600),
    "fig6": (8, 8, 6000),
    "fig7": (8, 10, 6125),
    "fig8": (8, 8, 3900),
    "figA1": (10, 10, 5900),
    "figA2": (8, 8, 6000),
    "figA3": (8, 10, 6125),
    "tab5": (7, 7, 4400),
    "tab6": (6, 6, 4100),
    "smp": (37, 37, 22200),
    "robust-smp": (26, 26, 15600),
    "generation": (17, 10, 6000),
}
"""Models shown, distinct trainings and their steps, with one seed of the toy profiles."""


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_costs_what_it_did(name: str) -> None:
    profile = toy() if FIGURES[name].family == "srnet" else replace(PROFILES["smp"]["toy"](TASK), words=())
    if FIGURES[name].family == "language":
        profile = PROFILES["language"]["toy"](GrammarTask("stereotypes"))
    recipe = FIGURES[name].recipe(profile)
    trainings: list[Any] = [node for node in every_node(recipe.nodes()).values() if node.trains]
    assert (len(recipe.points), len(trainings), sum(node.planned_steps for node in trainings)) == COSTS[name]


def test_all_figures_together_are_fewer_than_a_hundred_trainings(plan: list[Node]) -> None:
    trainings = [node for node in plan if node.trains]
    every = recipes(toy())
    alone = sum(len(recipe.points) for recipe in every.values())
    assert len(trainings) < min(100, alone), "figures share what they can"
    full = [node for node in trainings if isinstance(node, FineTune) and isinstance(node.parent, Pretrained)]
    controls = {node.key for recipe in every.values() for node in controls_of(recipe)}
    assert controls < {node.key for node in full}
    assert len(full) == 2 + 2 + 1 + len(controls), "CE and PoE on both backbones, the one that stops early, controls"
    srnet = [recipe for recipe in every.values() if FIGURES[recipe.name].family == "srnet"]
    lengths = {
        planned_steps(node) for recipe in srnet for node in controls_of(recipe) if node.pretrained.backbone == EMBEDDED
    }
    assert lengths == {TUNED + SEARCHED, TUNED + SEARCHED + TUNED}, "paradigms a and c, and b"
    assert len([node for node in trainings if isinstance(node, Trajectory)]) == 1


def test_what_says_the_same_is_the_same(plan: list[Node]) -> None:
    # 1 and 1.0 are equal in Python, but not in a key
    assert len(set(plan)) == len({node.key for node in plan}) == len(plan)
    assert len({json.dumps(describe(node), sort_keys=True) for node in plan}) == len(plan)
