"""From a line of a recipe to the expression of the paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srnet.errors import UserError
from srnet.experiment import CE, BiasModel, BiasSpec, ConfReg, Distilled, FineTune, Pretrained, Prune, Rewind
from srnet.experiment.cost import planned_steps
from srnet.experiment.nodes import Node, Objective
from srnet.pruners import IMP, MaskTraining, OneShot, RewoundIMP, StaticShared
from srnet.recipes import Line, Recipe, demo_recipe, toy
from srnet.recipes.demo import SEEDS, SPARSITIES
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

TASK = SyntheticTask("inference", train_size=20, dev_size=5, ood_size=5)
FINETUNING, PRUNING = TrainingSettings(steps=7), TrainingSettings(steps=90, learning_rate=1e-2)
BIAS = BiasModel(TASK)
POE = Objective("poe", BIAS)


def node(line: Line, seed: int = 0, **settings: object) -> Node:
    """The only model of a recipe with one line."""
    recipe = Recipe("r", TASK, (line,), "tiny", (seed,), FINETUNING, PRUNING, **settings)  # type: ignore[arg-type]
    (point,) = recipe.points()
    return point.node


def raw(seed: int = 0) -> Pretrained:
    return Pretrained("tiny", TASK, seed)


def full(seed: int = 0, objective: Objective | None = None) -> FineTune:
    return FineTune(raw(seed), objective or CE(), replace(FINETUNING, seed=seed))


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe is data: building its expressions must not load a model."""

    def refuse(name: str) -> str:
        raise AssertionError("the backbone was loaded")

    monkeypatch.setattr("srnet.experiment.nodes.models.backbone_hash", refuse)


def test_full_model() -> None:
    assert node(Line("l")) == full()
    assert node(Line("l", finetune="poe")) == full(objective=POE)


def test_paradigm_a_prunes_a_fine_tuned_model() -> None:
    line = Line("l", "a", pruner="mask", prune="poe", sparsities=(0.7,))
    assert node(line) == Prune(full(), MaskTraining(0.7), POE, PRUNING)
    assert node(replace(line, finetune="poe")) == Prune(full(objective=POE), MaskTraining(0.7), POE, PRUNING)
    assert node(replace(line, pruner="imp")) == Prune(full(), IMP(0.7), POE, PRUNING)
    assert node(replace(line, pruner="one-shot", prune=None)) == Prune(full(), OneShot(0.7))


def test_paradigm_b_rewinds_and_trains_in_isolation() -> None:
    line = Line("l", "b", pruner="mask", prune="poe", isolated="reweight", sparsities=(0.5,))
    found = Prune(full(), MaskTraining(0.5), POE, PRUNING)
    assert node(line) == FineTune(Rewind(found, raw()), Objective("reweight", BIAS), FINETUNING)
    rewound = Prune(raw(), RewoundIMP(0.5), POE, PRUNING)
    assert node(replace(line, pruner="imp-rw", isolated="ce")) == FineTune(Rewind(rewound, raw()), CE(), FINETUNING)


def test_paradigm_c_never_fine_tunes() -> None:
    line = Line("l", "c", pruner="mask", prune="poe", sparsities=(0.5,))
    assert node(line) == Prune(raw(), MaskTraining(0.5), POE, PRUNING)


def test_every_model_of_a_seed_has_that_seed() -> None:
    line = Line("l", "b", pruner="mask", prune="confreg", sparsities=(0.5,))
    teacher = ConfReg(BIAS, full(3))
    found = Prune(full(3), MaskTraining(0.5), teacher, replace(PRUNING, seed=3))
    assert node(line, seed=3) == FineTune(Rewind(found, raw(3)), CE(), replace(FINETUNING, seed=3))


def test_the_settings_of_a_pruner() -> None:
    own = replace(PRUNING, learning_rate=0.5, steps=8)
    for pruner, settings in (("mask", own), ("imp", PRUNING)):
        made = node(Line("l", "c", pruner=pruner, prune="ce", sparsities=(0.5,)), pruning_of=(("mask", own),))
        assert isinstance(made, Prune)
        assert made.training == settings


def test_a_line_that_distils_imitates_the_full_ce_model() -> None:
    made = node(Line("l", "c", pruner="smp-s", prune="poe", sparsities=(0.9,), distil=True), seed=2)
    assert isinstance(made, Prune)
    assert made.objective == Distilled(POE, full(2))
    assert made.objective.distillation == 0.5
    assert made.objective.temperature == 2.0


def test_options_and_length_at_one_sparsity() -> None:
    line = Line(
        "l",
        "c",
        pruner="smp-s",
        prune="ce",
        sparsities=(0.5, 0.97),
        options_at=((0.5, (("temperature", 3.0),)),),
        lengths_at=((0.97, 2.0),),
    )
    recipe = Recipe("r", TASK, (line,), "tiny", (0,), FINETUNING, PRUNING)
    gentle, long = (point.node for point in recipe.points())
    assert isinstance(gentle, Prune)
    assert isinstance(long, Prune)
    assert (gentle.pruner, long.pruner) == (StaticShared(0.5, temperature=3.0), StaticShared(0.97))
    assert gentle.training.total_steps(1000) * 2 == long.training.total_steps(1000)


def test_label_words_are_the_head_of_every_model() -> None:
    made = node(Line("l", "c", pruner="smp-s", prune="ce", sparsities=(0.9,), distil=True), words=("a", "b"))
    assert isinstance(made, Prune)
    assert made.pretrained.words == ("a", "b")
    assert made.objective.teacher is not None
    assert made.objective.teacher.model.pretrained == made.pretrained


def test_options_of_a_pruner() -> None:
    options = (("init", "soft"), ("initial_sparsity", 0.7))
    made = node(Line("l", "c", pruner="mask", prune="ce", sparsities=(0.9,), options=options))
    assert isinstance(made, Prune)
    assert made.pruner == MaskTraining(0.9, "soft", 0.7)


def test_the_bias_model_may_be_chosen() -> None:
    chosen = node(Line("l", finetune="poe"), bias=BiasSpec(folds=3))
    assert chosen == full(objective=Objective("poe", BiasModel(TASK, folds=3)))


def test_one_point_for_every_seed_and_sparsity() -> None:
    lines = (Line("full"), Line("masks", "a", pruner="mask", prune="ce", sparsities=(0.5, 0.7)))
    points = Recipe("r", TASK, lines, seeds=(0, 1)).points()
    assert [(p.line.label, p.seed, p.sparsity) for p in points] == [
        ("full", 0, 0.0),
        ("full", 1, 0.0),
        ("masks", 0, 0.5),
        ("masks", 0, 0.7),
        ("masks", 1, 0.5),
        ("masks", 1, 0.7),
    ]


def test_labels_and_seeds_are_unique() -> None:
    for lines, seeds in (((), (0,)), ((Line("a"), Line("a")), (0,)), ((Line("a"),), ()), ((Line("a"),), (1, 1))):
        with pytest.raises(UserError, match="recipe 'r' needs"):
            Recipe("r", TASK, lines, seeds=seeds)


def test_the_demonstration() -> None:
    recipe = demo_recipe(seeds=2, steps=50)
    assert recipe.seeds == (0, 1)
    assert (recipe.finetuning.steps, recipe.pruning.steps) == (50, 50)
    assert recipe.task.name == "inference"
    assert recipe.lines == (
        Line("full model (CE)"),
        Line("full model (CE), trained as long", as_long=True),
        Line("mask training (CE)", "a", pruner="mask", prune="ce", sparsities=SPARSITIES[:1]),
        Line("mask training (PoE)", "a", pruner="mask", prune="poe", sparsities=SPARSITIES),
    )
    chosen = demo_recipe(SyntheticTask("paraphrase"), sparsities=(0.3,))
    assert chosen.task.name == "paraphrase"
    assert {line.sparsities for line in chosen.lines} == {(), (0.3,)}


def test_the_demonstration_has_the_settings_of_the_toy_profile_and_enough_seeds_for_a_verdict() -> None:
    recipe = demo_recipe()
    assert (recipe.finetuning, recipe.pruning) == (toy.FINETUNING, toy.PRUNING)
    assert len(recipe.seeds) == SEEDS >= 3
    control = recipe.control(0)
    assert control is not None
    assert planned_steps(control) == recipe.finetuning.total_steps(0) + recipe.pruning.total_steps(0)
