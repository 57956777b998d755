"""The control: the full CE model, trained as many steps as the longest search of its recipe."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from series import Series, recipe_of
from small import read_no_backbone

from srnet.core.names import EMBEDDED_OTHER
from srnet.experiment.estimate import planned_steps
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained
from srnet.experiment.nodes.objectives import CE
from srnet.experiment.nodes.training import FineTune
from srnet.recipes.figures import FIGURES, ISOLATED_IMP_CE, MASK_POE
from srnet.recipes.files import load_recipe
from srnet.recipes.order import Order
from srnet.recipes.paradigms import Profile, Search, full, in_isolation, labels_of, of_fine_tuned, of_raw
from srnet.recipes.profiles import FINETUNING as TOY_FINETUNING
from srnet.recipes.profiles import PRUNING as TOY_PRUNING
from srnet.recipes.profiles import toy_profile
from srnet.recipes.recipe import Recipe
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

TASK = SyntheticTask("inference", train_size=20, dev_size=5, ood_size=5)
FINETUNING, PRUNING = TrainingSettings(steps=8, warmup=0.1), TrainingSettings(steps=90, learning_rate=1e-2)
SEARCH = Search("mask", "poe", (0.5, 0.7))
FULL = partial(full, label="full model (CE)")
POE = partial(full, label="full model (PoE)", finetune="poe")
MASK = partial(of_fine_tuned, label="mask", search=SEARCH)
LABEL = "full model (CE), trained as long"


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read_no_backbone(monkeypatch)


def recipe(*series: Series, control: bool = True, **settings: Any) -> Recipe:
    profile = Profile(TASK, "tiny", **{"finetuning": FINETUNING, "pruning": PRUNING, **settings})
    return recipe_of(profile, *series, control=control)


def controls(made: Recipe) -> list[ModelNode]:
    return [point.node for point in made.points if point.label.endswith("trained as long")]


# --- which lines ---------------------------------------------------------------------------------------------------

X, Y = {"backbone": "x"}, {"backbone": "y"}
MASK_Y = partial(MASK, label="y: mask", **Y)


@pytest.mark.parametrize(
    ("series", "labels"),
    [
        ((POE, FULL, MASK), ["full model (PoE)", "full model (CE)", LABEL, "mask"]),
        ((MASK, partial(FULL, label="mine")), ["mask", "mine", "mine, trained as long"]),
        ((MASK,), [LABEL, "mask"]),  # without a full CE model it comes first
        ((POE, MASK), [LABEL, "full model (PoE)", "mask"]),  # PoE is no control of what PoE finds
        ((partial(FULL, label="x: full", **X), MASK), [LABEL, "x: full", "mask"]),
        ((FULL, MASK, MASK_Y), ["full model (CE) on y, trained as long", "full model (CE)", LABEL, "mask", "y: mask"]),
        ((FULL, POE), ["full model (CE)", "full model (PoE)"]),  # nothing is pruned
        ((FULL, MASK, partial(FULL, label="z", backbone="z")), ["full model (CE)", LABEL, "mask", "z"]),
    ],
    ids=lambda value: "; ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_a_control_follows_the_full_ce_model_of_every_backbone_that_is_pruned(
    series: tuple[Series, ...], labels: list[str]
) -> None:
    assert labels_of(recipe(*series).points) == labels


def test_every_figure_has_one_for_every_backbone() -> None:
    profile = replace(toy_profile(TASK), other_backbones=("x", "y"))
    for figure in (figure for figure in FIGURES.values() if figure.family == "srnet"):
        points = figure.recipe(profile).points
        found = [point.backbone for point in points if "trained as long" in point.label]
        assert found == list(dict.fromkeys(point.backbone for point in points)), figure.name
        for before, point in pairwise(points):
            if "trained as long" in point.label:
                assert before.node == profile.full(point.seed, backbone=point.backbone), figure.name


# --- how long ------------------------------------------------------------------------------------------------------


def a(**more: Any) -> Any:
    return partial(of_fine_tuned, label="a", search=replace(SEARCH, **more))


def b(**more: Any) -> Any:
    return partial(in_isolation, label="b", search=replace(SEARCH, **more))


def c(**more: Any) -> Any:
    return partial(of_raw, label="c", search=replace(SEARCH, **more))


ONE_SHOT = {"pruner": "one-shot", "prune": None}
LONGER = {"finetuning_of": {"poe": replace(FINETUNING, steps=25)}}
EPOCHS = {
    "finetuning": TrainingSettings(epochs=2, batch_size=8),  # 40 rows: 5 steps
    "pruning": TrainingSettings(epochs=3, batch_size=8),  # 60 rows: 8 steps; with 15 for OOD, 10
}


@pytest.mark.parametrize(
    ("series", "settings", "steps"),
    [
        pytest.param((a(),), {}, 8 + 90, id="a"),
        pytest.param((b(),), {}, 8 + 90 + 8, id="b"),
        pytest.param((c(),), {}, 90, id="c"),
        pytest.param((c(), a(), b()), {}, 8 + 90 + 8, id="the longest of lines"),
        pytest.param((a(pruner="imp"),), {}, 8 + 90, id="IMP, whatever the level"),
        pytest.param((b(pruner="imp-rw"),), {}, 90 + 8, id="rewound IMP starts from the raw model"),
        pytest.param((a(pruner="imp"),), {"pruning_of": {"imp": replace(PRUNING, steps=200)}}, 208, id="own"),
        pytest.param((a(lengths=(0.5, 1.0, 2.0)),), {}, 8 + 180, id="the longest length"),
        pytest.param((a(lengths=(0.5,)),), {}, 8 + 45, id="a shorter length"),
        pytest.param((c(lengths_at={0.7: 3.0}),), {}, 270, id="longer at one sparsity"),
        pytest.param((a(lengths=(2.0,), lengths_at={0.5: 2.0}),), {}, 8 + 360, id="both"),
        pytest.param((partial(a(), starts=(0.0, 0.5)),), {}, 4 + 90, id="from half of the fine-tuning"),
        pytest.param(
            (partial(a(), starts=("auto",)),),
            {"stopping": replace(FINETUNING, steps=50, patience=1)},
            50 + 90,
            id="from wherever the fine-tuning stops, at most",
        ),
        pytest.param((partial(a(), finetune="poe"),), LONGER, 25 + 90, id="a longer fine-tuning before"),
        pytest.param((partial(a(), after="poe"),), LONGER, 8 + 90 + 25, id="weights that train on"),
        pytest.param((partial(b(), isolated="poe"),), LONGER, 8 + 90 + 25, id="a longer fine-tuning after"),
        pytest.param((a(data="id+ood"),), {"with_ood": replace(PRUNING, steps=300)}, 8 + 300, id="with OOD data"),
        pytest.param((a(prune="ce", distil=True),), {}, 8 + 90, id="a teacher is not on the way"),
        pytest.param((a(**ONE_SHOT),), {}, 8, id="no search: as long as the full model"),
        pytest.param((b(**ONE_SHOT),), {}, 8 + 8, id="one-shot, fine-tuned in isolation"),
        pytest.param((c(),), {"pruning": replace(PRUNING, steps=3)}, 8, id="never shorter than the full model"),
        pytest.param((a(),), EPOCHS, 5 + 8, id="epochs: a"),
        pytest.param((b(),), EPOCHS, 5 + 8 + 5, id="epochs: b"),
        pytest.param((a(lengths=(0.5, 2.0)),), EPOCHS, 5 + 15, id="epochs: 6 of them are 15 steps"),
        pytest.param((a(prune="ce", data="id+ood"),), EPOCHS, 5 + 10, id="epochs: more data"),
        pytest.param((a(**ONE_SHOT),), EPOCHS, 5, id="epochs: no search"),
        pytest.param((c(),), {**EPOCHS, "pruning": TrainingSettings(epochs=1)}, 5, id="epochs: never shorter"),
        pytest.param((a(),), {**EPOCHS, "pruning": PRUNING}, 5 + 90, id="epochs, then steps"),
    ],
)
def test_the_control_takes_as_many_steps_as_the_longest_search(
    series: tuple[Series, ...], settings: dict[str, Any], steps: int
) -> None:
    made = recipe(FULL, *series, **settings)
    reference = made.references["tiny"]
    longer = steps > planned_steps(reference.full[0])
    assert [planned_steps(node) for node in reference.controls.values()] == ([steps] if longer else [])
    assert controls(made) == list(reference.controls.values()), "where no search is longer there is nothing to show"
    assert max(planned_steps(point.node) for point in made.points) == steps


def test_only_the_length_is_another() -> None:
    made = recipe(FULL, MASK, seeds=(3, 5))
    expected = {
        seed: FineTune(Pretrained("tiny", TASK, seed), CE(), replace(FINETUNING, steps=98, seed=seed))
        for seed in (3, 5)
    }
    assert made.references["tiny"].controls == expected
    assert controls(made) == list(expected.values())


def test_the_searches_on_another_backbone_do_not_count() -> None:
    there = partial(of_fine_tuned, label="there", search=replace(SEARCH, lengths=(2.0,)), backbone="x")
    made = recipe(FULL, MASK, there)
    here, other = (made.references[backbone].controls[0] for backbone in ("tiny", "x"))
    assert (planned_steps(here), planned_steps(other)) == (8 + 90, 8 + 180)
    assert (here.pretrained.backbone, other.pretrained.backbone) == ("tiny", "x")
    assert set(controls(made)) == {here, other}


def test_the_models_to_compare_with_are_computed_though_they_are_not_shown() -> None:
    made = recipe(MASK)
    reference = made.references["tiny"]
    models = [*reference.full.values(), *reference.controls.values()]
    assert len(models) == 2
    assert {Evaluate(model) for model in models} <= set(made.nodes())


def test_a_recipe_may_do_without() -> None:
    made = recipe(FULL, MASK, control=False)
    assert labels_of(made.points) == ["full model (CE)", "mask"]
    assert made.references["tiny"].controls == {}


@pytest.mark.parametrize(("series", "steps"), [((FULL, MASK), 98), ((FULL, a(**ONE_SHOT)), 8)])
def test_a_control_does_not_stop_early(series: tuple[Series, ...], steps: int) -> None:
    made = recipe(*series, finetuning=replace(FINETUNING, patience=2))
    (control,) = made.references["tiny"].controls.values()
    assert (control.training.total_steps(0), control.training.patience) == (steps, None)


# --- shared between figures ----------------------------------------------------------------------------------------


def test_figures_with_equally_long_searches_share_their_controls() -> None:
    profile = replace(toy_profile(TASK), seeds=(0, 1))

    def keys(name: str) -> set[str]:
        return {node.key for node in controls(FIGURES[name].recipe(profile))}

    assert len(keys("fig2")) == 2, "one for each seed"
    for name in ("fig3", "fig5", "fig7", "fig8", "figA1", "figA3", "tab5"):
        assert keys(name) == keys("fig2"), name
    for name in ("fig6", "figA2"):
        assert keys(name) == keys("fig4"), "fine-tuned twice"
    assert not keys("fig2") & keys("fig4")
    assert not keys("fig2") & keys("tab6"), "another backbone"


# --- as users ask for it -------------------------------------------------------------------------------------------

YAML = """
task: {name: inference, train_size: 20, dev_size: 5, ood_size: 5}
finetuning: {steps: 8}
pruning: {steps: 90}
lines:
  - {label: full}
  - {label: mask, paradigm: a, pruner: mask, prune: poe, sparsities: [0.5]}
"""


@pytest.mark.parametrize(("said", "steps"), [("", [98]), ("control: true", [98]), ("control: false", [])])
def test_a_recipe_file_may_do_without(said: str, steps: list[int], tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(YAML + said)
    assert [planned_steps(node) for node in controls(load_recipe(tmp_path / "r.yaml"))] == steps


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "own.yaml").write_text("{name: inference, train_size: 20, dev_size: 5, ood_size: 5}")
    return str(tmp_path / "own.yaml")


TUNED, SEARCHED = TOY_FINETUNING.total_steps(0), TOY_PRUNING.total_steps(0)


def test_some_lines_only_keep_the_control(file: str) -> None:
    (made,) = Order(("fig2",), tasks=(file,), lines=(MASK_POE,)).recipes()
    assert labels_of(made.points) == ["full model (CE)", LABEL, MASK_POE]
    assert [planned_steps(node) for node in controls(made)] == [TUNED + SEARCHED]


def test_some_lines_only_keep_the_full_ce_model_of_another_backbone(file: str) -> None:
    (made,) = Order(("tab6",), tasks=(file,), lines=("srnet-small: gradual, from 50 %",)).recipes()
    named = ["full model (CE)", LABEL, "gradual, from 50 %"]
    assert labels_of(made.points) == [f"srnet-small: {label}" for label in named]
    assert {point.backbone for point in made.points} == {EMBEDDED_OTHER}


def test_the_control_is_that_of_the_chosen_lines(file: str) -> None:
    every, some = (Order(("fig4",), tasks=(file,), lines=lines).recipes()[0] for lines in ((), (ISOLATED_IMP_CE,)))
    lengths = [planned_steps(node) for made in (every, some) for node in controls(made)]
    assert lengths == [TUNED + SEARCHED + TUNED, SEARCHED + TUNED]
