"""Recipes `smp` and `robust-smp`. The `paper` profile is the published table of hyper-parameters, number by number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from small import Sized, small_defaults

from srnet.core.names import EMBEDDED
from srnet.experiment.nodes.training import Prune
from srnet.pruners.l0 import L0
from srnet.pruners.magnitude import GradualMagnitude
from srnet.pruners.movement import Movement
from srnet.pruners.soft_movement import SoftMovement
from srnet.pruners.static import StaticLocal, StaticShared
from srnet.recipes.figures import FIGURES
from srnet.recipes.order import Order
from srnet.recipes.paradigms import labels_of
from srnet.recipes.profiles import PROFILES, finetuning_for, pruning_for
from srnet.recipes.recipe import Recipe
from srnet.tasks.synthetic import SyntheticTask

CONTROL = "full model (CE), trained as long"
METHODS = ["SMP-L", "SMP-S", "movement", "soft movement", "magnitude", "L0"]


@pytest.fixture(autouse=True)
def _the_benchmark_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyntheticTask.__init__, "__defaults__", small_defaults(30, 5, 5))


def recipe_of(figure: str, task: Sized) -> Recipe:
    return FIGURES[figure].recipe(PROFILES["smp"]["paper"](task, EMBEDDED))


def prunings(recipe: Recipe) -> dict[tuple[str, float], Prune]:
    return {(point.label, point.place.sparsity): point.search for point in recipe.points if point.search}


# --- the paper -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "epochs", "batch_size"),
    [
        ("mnli", 12, 64), ("qnli", 12, 64), ("qqp", 12, 64), ("sst2", 12, 64),
        ("mrpc", 60, 32), ("cola", 60, 32), ("stsb", 60, 32), ("rte", 100, 32), ("squad", 10, 32),
    ],
)  # fmt: skip
def test_static_pruning_trains_as_published(task: str, epochs: float, batch_size: int) -> None:
    node = prunings(recipe_of("smp", Sized(task)))["SMP-S", 0.9]
    settings = node.training
    assert (settings.epochs, settings.batch_size) == (epochs, batch_size)
    assert (settings.score_rate, settings.warmup, settings.max_grad_norm) == (2e-2, 0.0, 1.0)
    assert settings.max_length == (384 if task == "squad" else 128)
    assert isinstance(node.pruner, StaticShared)
    assert node.pruner.penalty == 400.0


def test_squad_trains_twice_as_long_at_three_percent() -> None:
    made = prunings(recipe_of("smp", Sized("squad")))
    assert [made["SMP-L", sparsity].training.epochs for sparsity in (0.5, 0.9, 0.97)] == [10, 10, 20]
    assert made["movement", 0.97].training.epochs == 10


def test_the_final_sparsity_is_held_for_the_published_part_of_the_run() -> None:
    # 30,000 of MNLI's 12 * 392,702 / 64 steps, and 5,000 of SQuAD's 10 * 88,524 windows / 32
    pruners = prunings(recipe_of("smp", Sized("squad")))
    for label in ("SMP-L", "SMP-S", "SMP-S + distillation"):
        long = pruners[label, 0.97]
        assert isinstance(long.pruner, StaticLocal)
        # twice as long, but the ramp ends where it ends in the shorter runs: near step 22,650
        assert long.pruner.ramp * long.training.total_steps(88_524) == pytest.approx(22_650, abs=50)
    for task, share in (("mnli", 30_000 / (12 * 392_702 / 64)), ("squad", 5_000 / (10 * 88_524 / 32))):
        pruner = prunings(recipe_of("smp", Sized(task)))["SMP-L", 0.9].pruner
        assert isinstance(pruner, StaticLocal)
        assert 1.0 - pruner.ramp == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(
    ("task", "rate", "epochs", "batch_size"), [("mnli", 3e-5, 6, 32), ("qqp", 3e-6, 10, 32), ("squad", 3e-5, 10, 16)]
)
def test_the_family_trains_as_published(task: str, rate: float, epochs: float, batch_size: int) -> None:
    made = prunings(recipe_of("smp", Sized(task)))
    for label, score_rate in (("movement", 1e-2), ("soft movement", 1e-2), ("L0", 1e-1), ("magnitude", None)):
        settings = made[label, 0.9].training
        assert (settings.learning_rate, settings.epochs, settings.batch_size) == (rate, epochs, batch_size)
        assert settings.score_rate == score_rate
        assert settings.warmup == pytest.approx(5400 / (10 * 88_524 / 16), abs=0.01)


def test_the_temperature_of_the_shares() -> None:
    made = prunings(recipe_of("smp", Sized("mnli")))
    other = prunings(recipe_of("smp", Sized("qqp")))

    def p(node: Prune) -> float:
        assert isinstance(node.pruner, StaticShared)
        return node.pruner.smoothing()

    assert [p(made["SMP-S", sparsity]) for sparsity in (0.5, 0.9, 0.97)] == [3.0, 1.0, 1.0]
    assert p(made["SMP-S + distillation", 0.5]) == 1.0, "3 is for MNLI at 50 % without distillation"
    assert p(other["SMP-S", 0.5]) == 1.0
    spans = prunings(recipe_of("smp", Sized("squad")))
    assert [p(spans["SMP-S", sparsity]) for sparsity in (0.5, 0.9, 0.97)] == [4.0, 1.0, 1.0]
    assert p(spans["SMP-S + distillation", 0.5]) == 1.0
    soft = made["soft movement", 0.97].pruner
    assert isinstance(soft, SoftMovement)
    assert soft.floor == 0.005
    assert [StaticShared(sparsity).smoothing() for sparsity in (0.1, 0.3, 0.31)] == [4.0, 4.0, 1.0]


def test_what_is_drawn_and_where() -> None:
    recipe = recipe_of("smp", Sized("mnli", 4000))
    assert labels_of(recipe.points) == [
        "full model (CE)", CONTROL, *METHODS, *(f"{name} + distillation" for name in METHODS),
    ]  # fmt: skip
    assert {point.place.sparsity for point in recipe.points} == {0.0, 0.5, 0.9, 0.97}
    assert all(
        (node.objective.distillation == 0.5) == ("dist" in label) for (label, _), node in prunings(recipe).items()
    )
    kinds = (StaticLocal, StaticShared, Movement, SoftMovement, GradualMagnitude, L0)
    assert [type(node.pruner) for (_, sparsity), node in prunings(recipe).items() if sparsity == 0.5] == [
        *kinds,
        *kinds,
    ]


def test_another_task_is_not_the_authors() -> None:
    with refused("'snli'", "squad"):
        PROFILES["smp"]["paper"](Sized("snli"), EMBEDDED)


# --- robust --------------------------------------------------------------------------------------------------------


def test_static_pruning_with_every_debiasing_objective() -> None:
    recipe = recipe_of("robust-smp", Sized("mnli", 4000))
    assert {label.split(" (")[0] for label, _ in prunings(recipe)} == {"SMP-L", "SMP-S"}
    for pruner in ("SMP-L", "SMP-S"):
        made = {node.objective.name for (label, _), node in prunings(recipe).items() if label.startswith(pruner)}
        assert made == {"ce", "poe", "reweight", "confreg"}
    assert labels_of(recipe.points)[:3] == ["full model (CE)", CONTROL, "full model (PoE)"]


def test_robustness_needs_an_ood_set_and_the_comparison_does_not(tmp_path: Path) -> None:
    (tmp_path / "d.tsv").write_text("text_a\ttext_b\tlabel\n" + "a\tb\tyes\nc\td\tno\n" * 20)
    file = tmp_path / "t.yaml"
    file.write_text("{name: t, labels: ['yes', 'no'], train: d.tsv, dev: d.tsv, leaks: keep}")
    (recipe,) = Order(("smp",), tasks=(str(file),)).recipes()
    assert recipe.task.name == "t"
    with refused("'t'", "--ood"):
        Order(("robust-smp",), tasks=(str(file),)).recipes()


# --- smaller scales ------------------------------------------------------------------------------------------------

TOY = SyntheticTask("inference", train_size=30, dev_size=5, ood_size=5)


def test_label_words_where_the_backbone_has_a_head_for_them() -> None:
    assert PROFILES["smp"]["toy"](TOY).words == ("perhaps", "truly")
    assert PROFILES["smp"]["cpu"](Sized("rte"), EMBEDDED).words == (), "the task names none"


@pytest.mark.parametrize(
    ("asked", "words"), [(None, ("perhaps", "truly")), ((), ()), (("maybe", "indeed"), ("maybe", "indeed"))]
)
def test_the_user_may_say_which_words(asked: Any, words: tuple[str, ...]) -> None:
    (recipe,) = Order(("smp",), words=asked).recipes()
    assert recipe.profile.words == words
    (other,) = Order(("fig2",), tasks=("inference",)).recipes()
    assert other.profile.words == (), "mask training has a classifier unless told otherwise"


def test_the_rate_of_the_weights_is_not_that_of_the_scores() -> None:
    usual, ours = (Order(("smp",), learning_rate=rate).recipes()[0].profile for rate in (None, 0.125))
    assert ours.finetuning.learning_rate == 0.125
    assert {settings.learning_rate for settings in ours.pruning_of.values()} == {0.125}
    assert ours.pruning == usual.pruning
    assert [s.score_rate for s in ours.pruning_of.values()] == [s.score_rate for s in usual.pruning_of.values()]


def test_some_lines_only() -> None:
    (recipe,) = Order(("smp",), lines=("L0", "SMP-S + distillation")).recipes()
    assert labels_of(recipe.points) == ["full model (CE)", "L0", "SMP-S + distillation"], "no search is longer"
    with refused("smp", "'L1'", "L0"):
        Order(("smp",), lines=("L1",)).recipes()


def test_the_command_says_it_all() -> None:
    order = Order(("smp",), lines=("SMP-S + distillation",), words=(), learning_rate=3e-4)
    command = order.command()
    assert "--line 'SMP-S + distillation'" in command
    assert "--label-words none" in command
    assert "--learning-rate 0.0003" in command


@pytest.mark.parametrize("pruner", ["smp-l", "smp-s", "movement", "soft-movement", "magnitude", "l0"])
def test_a_single_training_starts_from_settings_that_suit_the_pruner(pruner: str) -> None:
    toy, real = pruning_for(EMBEDDED, pruner), pruning_for("some-bert", pruner)
    assert toy.steps is not None
    assert real.steps is None
    trains_scores = pruner != "magnitude"
    assert ((toy.score_rate is not None), (real.score_rate is not None)) == (trains_scores, trains_scores)
    if pruner.startswith("smp"):
        assert (real.score_rate, real.epochs, real.batch_size) == (2e-2, 12, 64)
    else:
        assert (real.learning_rate, real.epochs) == (3e-5, 6)


def test_questions_come_with_longer_texts() -> None:
    spans = Sized("squad", answer="span")
    assert finetuning_for("some-bert", spans).max_length == 384
    assert pruning_for("some-bert", "smp-s", spans).max_length == 384
    assert PROFILES["smp"]["cpu"](spans, EMBEDDED).finetuning.max_length == 384
    assert pruning_for("some-bert", "smp-s", Sized("rte")).max_length == 128
