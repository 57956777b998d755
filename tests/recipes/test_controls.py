"""The control: the full CE model, trained as many steps as the longest search of its recipe."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from srnet.experiment import CE, FineTune, Pretrained
from srnet.experiment.cost import planned_steps
from srnet.experiment.nodes import ModelNode
from srnet.names import EMBEDDED
from srnet.recipes import Line, Order, Recipe, load_recipe, toy
from srnet.recipes.figures import FIGURES, ISOLATED_IMP_CE, MASK_POE, get_figure
from srnet.recipes.recipe import with_controls
from srnet.recipes.toy import toy_setup
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

TASK = SyntheticTask("inference", train_size=20, dev_size=5, ood_size=5)
FINETUNING, PRUNING = TrainingSettings(steps=8, warmup=0.1), TrainingSettings(steps=90, learning_rate=1e-2)
FULL = Line("full model (CE)")
POE = Line("full model (PoE)", finetune="poe")
MASK = Line("mask", "a", pruner="mask", prune="poe", sparsities=(0.5, 0.7))
LABEL = "full model (CE), trained as long"
CONTROL = Line(LABEL, as_long=True)


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.experiment.nodes.models.backbone_hash", lambda name, head=None: f"hash of {name}")


def recipe(*lines: Line, **settings: Any) -> Recipe:
    return Recipe("r", TASK, lines, "tiny", **{"finetuning": FINETUNING, "pruning": PRUNING, **settings})


def controls(made: Recipe) -> list[ModelNode]:
    return [point.node for point in made.points() if point.line.as_long]


# --- which lines ---------------------------------------------------------------------------------------------------


def test_a_control_follows_the_full_ce_model() -> None:
    assert with_controls((POE, FULL, MASK)) == (POE, FULL, CONTROL, MASK)
    named = replace(FULL, label="mine")
    assert with_controls((MASK, named)) == (MASK, named, replace(CONTROL, label="mine, trained as long"))


def test_without_a_full_ce_model_it_comes_first() -> None:
    assert with_controls((MASK,)) == (CONTROL, MASK)
    assert with_controls((POE, MASK)) == (CONTROL, POE, MASK), "PoE is no control of what PoE finds"
    elsewhere = replace(FULL, label="other", backbone="x")
    assert with_controls((elsewhere, MASK)) == (CONTROL, elsewhere, MASK)


def test_there_is_one_for_every_backbone_that_is_pruned() -> None:
    full_x, mask_x, mask_y = (
        replace(FULL, label="x: full", backbone="x"),
        replace(MASK, label="x: mask", backbone="x"),
        replace(MASK, label="y: mask", backbone="y"),
    )
    unpruned = replace(FULL, label="z: full", backbone="z")
    made = with_controls((FULL, MASK, full_x, mask_x, mask_y, unpruned))
    assert made == (
        Line("full model (CE) on y, trained as long", backbone="y", as_long=True),
        FULL,
        CONTROL,
        MASK,
        full_x,
        Line("x: full, trained as long", backbone="x", as_long=True),
        mask_x,
        mask_y,
        unpruned,
    )
    assert [line.backbone for line in made if line.as_long] == ["y", None, "x"]


def test_it_is_not_added_twice() -> None:
    once = with_controls((FULL, POE, MASK, replace(MASK, label="more")))
    assert sum(line.as_long for line in once) == 1
    assert with_controls(once) == once
    own = replace(CONTROL, label="as long as that")
    assert with_controls((own, FULL, MASK)) == (own, FULL, MASK)
    debiased = replace(POE, label="PoE, longer", as_long=True)
    assert with_controls((FULL, debiased, MASK)) == (FULL, CONTROL, debiased, MASK), "only CE is the control"


def test_where_nothing_is_pruned_there_is_none() -> None:
    assert with_controls((FULL, POE)) == (FULL, POE)
    assert with_controls(()) == ()


def test_every_figure_has_one_for_every_backbone() -> None:
    setup = replace(toy_setup(TASK), other_backbones=("x", "y"))
    for figure in FIGURES.values():
        lines = figure.recipe(setup, (0,)).lines
        found = [line.backbone for line in lines if line.as_long]
        assert found == list(dict.fromkeys(line.backbone for line in lines)), figure.name
        for before, line in pairwise(lines):
            if line.as_long:
                assert (before.paradigm, before.finetune, before.backbone) == ("full", "ce", line.backbone)


# --- how long ------------------------------------------------------------------------------------------------------

ISOLATED = replace(MASK, paradigm="b")
RAW = replace(MASK, paradigm="c")
ONE_SHOT = Line("one-shot", "a", pruner="one-shot", sparsities=(0.5,))
IMP = replace(MASK, pruner="imp")
IMP_RW = replace(ISOLATED, pruner="imp-rw")
LONGER = {"finetuning_of": (("poe", replace(FINETUNING, steps=25)),)}
EPOCHS = {
    "finetuning": TrainingSettings(epochs=2, batch_size=8),  # 40 rows: 5 steps
    "pruning": TrainingSettings(epochs=3, batch_size=8),  # 60 rows: 8 steps; with 15 for OOD, 10
}


@pytest.mark.parametrize(
    ("lines", "settings", "steps"),
    [
        pytest.param((MASK,), {}, 8 + 90, id="a"),
        pytest.param((ISOLATED,), {}, 8 + 90 + 8, id="b"),
        pytest.param((RAW,), {}, 90, id="c"),
        pytest.param((RAW, MASK, ISOLATED), {}, 8 + 90 + 8, id="the longest of lines"),
        pytest.param((IMP,), {}, 8 + 90, id="IMP, whatever the level"),
        pytest.param((IMP_RW,), {}, 90 + 8, id="rewound IMP starts from the raw model"),
        pytest.param((IMP, MASK), {"pruning_of": (("imp", replace(PRUNING, steps=200)),)}, 8 + 200, id="own settings"),
        pytest.param((replace(MASK, lengths=(0.5, 1.0, 2.0)),), {}, 8 + 180, id="the longest length"),
        pytest.param((replace(MASK, lengths=(0.5,)),), {}, 8 + 45, id="a shorter length"),
        pytest.param((replace(RAW, lengths_at=((0.7, 3.0),)),), {}, 270, id="longer at one sparsity"),
        pytest.param((replace(MASK, lengths=(2.0,), lengths_at=((0.5, 2.0),)),), {}, 8 + 360, id="both"),
        pytest.param((replace(MASK, starts=(0.0, 0.5)),), {}, 4 + 90, id="from half of the fine-tuning"),
        pytest.param(
            (replace(MASK, starts=("auto",)),),
            {"stopping": replace(FINETUNING, steps=50, patience=1)},
            50 + 90,
            id="from wherever the fine-tuning stops, at most",
        ),
        pytest.param((replace(MASK, finetune="poe"),), LONGER, 25 + 90, id="a longer fine-tuning before"),
        pytest.param((replace(ISOLATED, isolated="poe"),), LONGER, 8 + 90 + 25, id="a longer fine-tuning after"),
        pytest.param(
            (replace(MASK, prune="ce", data="id+ood"),),
            {"with_ood": replace(PRUNING, steps=300)},
            8 + 300,
            id="with OOD data",
        ),
        pytest.param((replace(MASK, prune="ce", distil=True),), {}, 8 + 90, id="a teacher is not on the way"),
        pytest.param((ONE_SHOT,), {}, 8, id="no search: as long as the full model"),
        pytest.param((replace(ONE_SHOT, paradigm="b"),), {}, 8 + 8, id="one-shot, fine-tuned in isolation"),
        pytest.param((RAW,), {"pruning": replace(PRUNING, steps=3)}, 8, id="never shorter than the full model"),
        pytest.param((MASK,), EPOCHS, 5 + 8, id="epochs: a"),
        pytest.param((ISOLATED,), EPOCHS, 5 + 8 + 5, id="epochs: b"),
        pytest.param((replace(MASK, lengths=(0.5, 2.0)),), EPOCHS, 5 + 15, id="epochs: 6 of them are 15 steps"),
        pytest.param((replace(MASK, prune="ce", data="id+ood"),), EPOCHS, 5 + 10, id="epochs: more data"),
        pytest.param((RAW,), {**EPOCHS, "pruning": TrainingSettings(epochs=1)}, 5, id="epochs: never shorter"),
        pytest.param((MASK,), {**EPOCHS, "pruning": PRUNING}, 5 + 90, id="epochs, then steps"),
    ],
)
def test_the_control_takes_as_many_steps_as_the_longest_search(
    lines: tuple[Line, ...], settings: dict[str, Any], steps: int
) -> None:
    unique = tuple(replace(line, label=str(n)) for n, line in enumerate(lines))
    made = recipe(*with_controls((FULL, *unique)), **settings)
    control = made.control(0)
    assert control is not None
    assert planned_steps(control) == steps
    assert controls(made) == ([] if control == made.full_model(0) else [control]), "nothing is shown twice"
    searches = [point.node for point in made.points() if point.line.pruner is not None]
    assert steps == max(planned_steps(node) for node in (made.full_model(0), *searches))


def test_only_the_length_is_another() -> None:
    made = recipe(*with_controls((FULL, MASK)), seeds=(3, 5))
    expected = [
        FineTune(Pretrained("tiny", TASK, seed), CE(), replace(FINETUNING, steps=98, seed=seed)) for seed in (3, 5)
    ]
    assert controls(made) == expected == [made.control(seed) for seed in (3, 5)]
    assert [point.sparsity for point in made.points() if point.line.as_long] == [0.0, 0.0]


def test_the_searches_on_another_backbone_do_not_count() -> None:
    there = replace(MASK, label="there", backbone="x", lengths=(2.0,))
    made = recipe(*with_controls((FULL, MASK, there)))
    here, other = made.control(0), made.control(0, "x")
    assert here is not None
    assert other is not None
    assert (planned_steps(here), planned_steps(other)) == (8 + 90, 8 + 180)
    assert (here.pretrained.backbone, other.pretrained.backbone) == ("tiny", "x")
    assert {node.key for node in controls(made)} == {here.key, other.key}


def test_a_recipe_that_has_no_such_line_has_no_control() -> None:
    assert recipe(FULL, MASK).control(0) is None
    assert recipe(*with_controls((FULL, MASK))).control(0, "x") is None


def test_where_nothing_takes_longer_the_control_is_the_full_model_itself() -> None:
    for settings in ({}, EPOCHS):
        made = recipe(*with_controls((FULL, ONE_SHOT)), **settings)
        assert made.control(0) == made.full_model(0), "and not the same training under another key"


def test_a_control_does_not_stop_early() -> None:
    patient = replace(FINETUNING, patience=2)
    made = recipe(*with_controls((FULL, MASK)), finetuning=patient)
    assert made.full_model(0).training.patience == 2
    (control,) = controls(made)
    assert isinstance(control, FineTune)
    assert (control.training.steps, control.training.patience) == (8 + 90, None), "else it were not trained as long"


# --- shared between figures ----------------------------------------------------------------------------------------


def test_figures_with_equally_long_searches_share_their_controls() -> None:
    def keys(name: str) -> set[str]:
        return {node.key for node in controls(get_figure(name).recipe(toy_setup(TASK), (0, 1)))}

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


@pytest.mark.parametrize(("said", "expected"), [("", True), ("control: true", True), ("control: false", False)])
def test_a_recipe_file_may_do_without(said: str, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(YAML + said)
    made = load_recipe(tmp_path / "r.yaml")
    found = [line.label for line in made.lines]
    assert found == (["full", "full, trained as long", "mask"] if expected else ["full", "mask"])
    assert [planned_steps(node) for node in controls(made)] == ([98] if expected else [])


def test_a_recipe_file_may_have_the_line_itself(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(YAML + "  - {label: longer, as_long: true}\n")
    made = load_recipe(tmp_path / "r.yaml")
    assert [line.label for line in made.lines] == ["full", "mask", "longer"]
    assert [planned_steps(node) for node in controls(made)] == [98]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "own.yaml").write_text("{name: inference, train_size: 20, dev_size: 5, ood_size: 5}")
    return str(tmp_path / "own.yaml")


def test_some_lines_only_keep_the_control(file: str) -> None:
    (made,) = Order(("fig2",), tasks=(file,), lines=(MASK_POE,)).recipes()
    assert [line.label for line in made.lines] == ["full model (CE)", LABEL, MASK_POE]
    assert made.backbone == EMBEDDED
    (control,) = controls(made)
    assert planned_steps(control) == toy.FINETUNING.total_steps(0) + toy.PRUNING.total_steps(0)


def test_the_control_is_that_of_the_chosen_lines(file: str) -> None:
    every, some = (Order(("fig4",), tasks=(file,), lines=lines).recipes()[0] for lines in ((), (ISOLATED_IMP_CE,)))
    tuned, searched = toy.FINETUNING.total_steps(0), toy.PRUNING.total_steps(0)
    lengths = [planned_steps(node) for made in (every, some) for node in controls(made)]
    assert lengths == [tuned + searched + tuned, searched + tuned]
