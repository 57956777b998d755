"""An order: its figures, tasks, seeds and options become recipes, and a command makes it again."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from small import read_no_backbone, small_defaults

from srnet.cli.program import main
from srnet.core.names import DOWNLOAD_VARIABLE, EMBEDDED, EMBEDDED_OTHER
from srnet.experiment.estimate import planned_steps
from srnet.experiment.nodes.bias import BiasSpec
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.static import StaticLocal
from srnet.recipes import profiles as toy
from srnet.recipes.figures import FIGURES
from srnet.recipes.order import Order
from srnet.tasks.synthetic import SyntheticTask


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read_no_backbone(monkeypatch)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded benchmark, but small."""
    monkeypatch.setattr(SyntheticTask.__init__, "__defaults__", small_defaults(50, 10, 10))


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "own.yaml").write_text("{name: inference, train_size: 50, dev_size: 10, ood_size: 10}")
    return str(tmp_path / "own.yaml")


ALL_TASKS = ["inference", "paraphrase", "verification"]


@pytest.mark.usefixtures("small")
def test_every_figure_is_shown_where_the_paper_shows_it() -> None:
    shown: dict[str, list[str]] = {}
    for recipe in Order().recipes():
        shown.setdefault(recipe.name, []).append(recipe.task.name)
    assert shown == {
        **dict.fromkeys(("fig2", "fig3", "fig4", "fig5", "fig8", "figA1", "tab5"), ALL_TASKS),
        **{name: ["inference"] for name in ("fig6", "fig7", "tab6")},
        **{name: ["paraphrase", "verification"] for name in ("figA2", "figA3")},
    }
    paper = [figure.name for figure in FIGURES.values() if figure.family == "srnet"]
    assert list(shown) == paper, "in the paper's order"


@pytest.mark.usefixtures("small")
def test_the_user_may_say_which_tasks() -> None:
    for figures in (("fig6",), ("figA2",), ("fig2",)):
        order = Order(figures, tasks=("verification", "inference"))
        assert [recipe.task.name for recipe in order.recipes()] == ["verification", "inference"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["inference", "paraphrase", "verification"])
def test_the_embedded_tasks_are_fine_tuned_as_long_as_they_need(name: str) -> None:
    (recipe,) = Order(("fig2",), tasks=(name,)).recipes()
    steps = {"verification": 1500}.get(name, 700)
    assert (recipe.profile.finetuning.steps, recipe.profile.stopping.steps) == (steps, steps)


@pytest.mark.usefixtures("small")
def test_defaults() -> None:
    order = Order()
    assert (order.figures, order.profile, order.scale) == (("all",), "toy", 1.0)
    recipes = order.recipes()
    for recipe in recipes:
        assert recipe.seeds == (0,)
        backbone = EMBEDDED_OTHER if recipe.name == "tab6" else EMBEDDED
        assert {point.backbone for point in recipe.points} == {backbone}, recipe.name
    assert [r.name for r in Order(("fig8", "fig2", "fig8"), tasks=("inference",)).recipes()] == ["fig8", "fig2"]


def test_sparsities_are_the_users_where_a_figure_shows_several(file: str) -> None:
    order = Order(("fig2", "fig7", "tab5"), tasks=(file,), sparsities=(0.3, 0.6))
    shown = {r.name: {point.place.sparsity for point in r.points} - {0.0} for r in order.recipes()}
    assert shown == {"fig2": {0.3, 0.6}, "fig7": {0.7}, "tab5": {0.9}}


def test_seeds_and_backbone_reach_every_model(file: str) -> None:
    order = Order(("fig2",), tasks=(file,), seeds=(0, 1, 2), backbone="mine")
    (recipe,) = order.recipes()
    assert {point.seed for point in recipe.points} == {0, 1, 2}
    assert {point.backbone for point in recipe.points} == {"mine"}


def test_the_rate_of_the_scores_reaches_mask_training_alone(file: str) -> None:
    usual, ours = (Order(("fig2",), tasks=(file,), score_rate=rate).recipes()[0].profile for rate in (None, 0.125))
    assert ours.pruning == replace(usual.pruning, learning_rate=0.125)
    assert (ours.finetuning, ours.pruning_of) == (usual.finetuning, usual.pruning_of)
    with refused("smp", "--score-rate"):
        Order(("smp",), score_rate=0.125).recipes()


def test_the_length_of_texts_reaches_every_training(file: str) -> None:
    usual, ours = (Order(("fig2",), tasks=(file,), max_length=length).recipes()[0].profile for length in (None, 256))
    assert {usual.finetuning.max_length, usual.pruning.max_length} == {128}
    assert ours.pruning == replace(usual.pruning, max_length=256)
    assert {each.max_length for each in (ours.finetuning, ours.stopping, *ours.pruning_of.values())} == {256}


def test_scale_makes_every_training_shorter(file: str) -> None:
    def lengths(scale: float) -> list[tuple[int | None, int]]:
        (recipe,) = Order(("fig5",), tasks=(file,), scale=scale).recipes()
        profile = recipe.profile
        return [(s.steps, s.eval_every) for s in (profile.finetuning, profile.pruning, profile.stopping) if s]

    usual = [
        (s.steps or 0, s.eval_every) for s in (toy.FINETUNING, toy.PRUNING, replace(toy.FINETUNING, eval_every=25))
    ]
    assert lengths(1.0) == usual
    assert lengths(0.1) == [(round(0.1 * steps), round(0.1 * every)) for steps, every in usual], "as many evaluations"
    assert lengths(2.0) == [(2 * steps, 2 * every) for steps, every in usual]
    assert lengths(0.0001) == [(1, 1)] * 3, "never less than one"


def test_scale_reaches_the_control(file: str) -> None:
    (recipe,) = Order(("fig2",), tasks=(file,), scale=0.1).recipes()
    (control,) = recipe.references[EMBEDDED].controls.values()
    assert planned_steps(control) == round(0.1 * toy.FINETUNING.total_steps(0)) + round(
        0.1 * toy.PRUNING.total_steps(0)
    )


@pytest.mark.parametrize(
    ("order", "named"),
    [
        ({"figures": ("fig2", "fig9")}, ("'fig9'", "tab6")),
        ({"profile": "gpu"}, ("'gpu'",)),
        ({"profile": "cpu", "tasks": ("x.yaml",)}, ("'cpu'", "--backbone")),
        ({"profile": "cpu", "backbone": "b"}, ("'cpu'", "--tasks")),
        *(({"scale": scale}, ("scale", f"{scale:g}")) for scale in (0.0, -1.0, float("nan"))),
        ({"bias": BiasSpec(vectors="v.vec"), "without_vectors": True}, ("--vectors", "--without-vectors")),
    ],
    ids=str,
)
def test_orders_that_cannot_be_filled(order: dict[str, Any], named: tuple[str, ...]) -> None:
    with refused(*named):
        Order(**order)


def test_tasks_that_nobody_knows_and_data_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DOWNLOAD_VARIABLE, raising=False)
    with refused("hub:nyu-mll/glue:mnli:train", f"{DOWNLOAD_VARIABLE}=1"):
        Order(("fig2",), "paper").recipes()
    with refused("'gossip'", "inference", "squad"):
        Order(("fig2",), tasks=("gossip",)).recipes()


def test_tab6_needs_other_backbones(file: str) -> None:
    with refused("--other-backbones"):
        Order(("tab6",), "cpu", (file,), backbone="b").recipes()
    without = Order(("all",), "cpu", (file,), backbone="b").recipes()
    paper = {figure.name for figure in FIGURES.values() if figure.family == "srnet"}
    assert {recipe.name for recipe in without} == paper - {"tab6"}, "among others it is left out"
    (given,) = Order(("tab6",), "cpu", (file,), backbone="b", other_backbones=("x", "y")).recipes()
    assert {point.backbone for point in given.points} == {"x", "y"}


def test_a_task_of_the_paper_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "d.tsv").write_text("text_a\ttext_b\tlabel\n" + "a\tb\tyes\nc\td\tno\n" * 20)
    (tmp_path / "q.yaml").write_text(
        "{name: qqp, labels: ['yes', 'no'], metric: f1, train: d.tsv, dev: d.tsv, ood: {paws: d.tsv}, leaks: keep}"
    )
    (recipe,) = Order(("fig5",), "paper", (str(tmp_path / "q.yaml"),), without_vectors=True).recipes()
    pruning = recipe.profile.pruning
    assert (pruning.learning_rate, pruning.epochs) == (2e-5, 7)
    assert {point.backbone for point in recipe.points} == {"bert-base-uncased"}


# --- as published --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["toy", "cpu"])
def test_as_published_turns_on_every_switch(profile: str, file: str) -> None:
    figures = ("fig2", "fig8", "tab5", "smp")
    order = Order(figures, profile, (file,), backbone="b" if profile == "cpu" else None, words=(), as_published=True)
    recipes = {recipe.name: recipe for recipe in order.recipes()}

    def found(name: str) -> list[Any]:
        pruners = [getattr(point.node, "pruner", None) for point in recipes[name].points]
        return [pruner for pruner in pruners if pruner is not None]

    every = recipes["fig2"].profile.pruning.eval_every
    for name in ("fig2", "fig8", "tab5"):
        masks = [pruner for pruner in found(name) if isinstance(pruner, MaskTraining)]
        assert {(pruner.cut, pruner.refresh_every) for pruner in masks} == {("kth", every)}
        assert {pruner.ramp for pruner in masks} <= {0.7, 1.0}
        assert all((pruner.ramp == 1.0) == (pruner.initial_sparsity is not None) for pruner in masks)
    static = [pruner for pruner in found("smp") if isinstance(pruner, StaticLocal)]
    assert len(static) == 12
    assert {pruner.penalty_until for pruner in static} == {"end"}
    plain = replace(order, as_published=False).recipes()
    for recipe in plain:
        made = recipes[recipe.name].profile
        assert made.finetuning == replace(recipe.profile.finetuning, selection="published")
        assert made.full(0) == recipe.profile.full(0), "with CE there is nothing to choose late"


# --- word vectors and seeds of the paper ---------------------------------------------------------------------------


@pytest.fixture
def qqp_file(tmp_path: Path) -> str:
    (tmp_path / "d.tsv").write_text("text_a\ttext_b\tlabel\n" + "a\tb\tyes\nc\td\tno\n" * 2000)
    (tmp_path / "q.yaml").write_text(
        "{name: qqp, labels: ['yes', 'no'], metric: f1, train: d.tsv, dev: d.tsv, ood: {paws: d.tsv}, leaks: keep,"
        " ood_train: d.tsv}"
    )
    return str(tmp_path / "q.yaml")


@pytest.mark.parametrize("figure", ["fig2", "fig8", "robust-smp"])
def test_the_paper_measures_the_shortcut_with_word_vectors(figure: str, qqp_file: str) -> None:
    with refused(figure, "--vectors", "--without-vectors"):
        Order((figure,), "paper", (qqp_file,), words=()).recipes()
    for given in ({"without_vectors": True}, {"bias": BiasSpec(vectors="v.vec")}, {"bias": BiasSpec("unknown")}):
        assert Order((figure,), "paper", (qqp_file,), words=(), **given).recipes()


def test_what_reads_no_words_needs_no_vectors(qqp_file: str, file: str) -> None:
    for figure in ("fig6", "smp"):
        assert Order((figure,), "paper", (qqp_file,), words=()).recipes(), "no line has a bias model"
    assert Order(("fig2",), "paper", (qqp_file,), lines=("mask training (CE)",)).recipes()
    assert Order(("fig2",), tasks=(file,)).recipes(), "only the profile paper asks"
    with refused("'unknown'", "--without-vectors"):
        Order(("fig2",), "paper", (qqp_file,), bias=BiasSpec("unknown"), without_vectors=True).recipes()


def test_seeds_are_the_profiles_unless_given() -> None:
    paper, few, cpu = (
        Order(("fig2",), "paper"),
        Order(("fig2",), "paper", seeds=(0, 1)),
        Order(profile="cpu", tasks=("t",), backbone="b"),
    )
    assert [each.seeded().seeds for each in (Order(), paper, few, cpu)] == [(0,), (0, 1, 2, 3), (0, 1), (0,)]
    assert [each.seeded(3).seeds for each in (Order(), paper, few)] == [(0, 1, 2), (0, 1, 2, 3), (0, 1)]
    assert "--seeds 4" in Order(("fig2",), "paper").command()


# --- what one types to get it again --------------------------------------------------------------------------------


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The order that the command line makes of a command."""

    class Parsed(Exception):
        pass

    def stop(order: Order, *rest: Any, **more: Any) -> None:
        raise Parsed(order)

    monkeypatch.setattr("srnet.api.experiments.reproduce", stop)

    def parse(command: str) -> Order:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(Parsed) as found:
            main()
        order: Order = found.value.args[0]
        return order

    return parse


@pytest.mark.parametrize(
    "order",
    [
        Order(),
        Order(("fig2", "tab5"), seeds=(0, 1, 2)),
        Order(("fig7",), tasks=("inference", "verification"), sparsities=(0.5, 0.25), scale=0.1),
        Order(("tab6",), "cpu", ("a.yaml",), backbone="models/b", other_backbones=("x", "org/y")),
        Order(("all",), "paper", ("mnli.yaml", "qqp.yaml"), seeds=(0, 1, 2, 3)),
        Order(("fig2",), tasks=("my data/mnli.yaml",), backbone="it's mine"),
        Order(("fig2",), sparsities=(1 / 3,), scale=1 / 3),
        Order(("fig2",), "paper", without_vectors=True, as_published=True),
    ],
    ids=lambda order: order.command(),
)
def test_the_command_makes_the_same_order_again(order: Order, parsed: Any) -> None:
    order = order.seeded()  # a printed command has them
    assert parsed(order.command()) == order
    assert parsed(order.command("fig8")) == replace(order, figures=("fig8",))
