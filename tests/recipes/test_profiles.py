"""The three profiles. The `paper` profile is the published table of hyper-parameters, number by number."""

from __future__ import annotations

import math
import shlex
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from small import Sized, small_defaults

from srnet.cli import main
from srnet.errors import UserError
from srnet.experiment import BiasSpec, FineTune, Moment, Pretrained, Prune, Rewind, load_task
from srnet.experiment.cost import planned_steps
from srnet.names import DOWNLOAD_VARIABLE, EMBEDDED, EMBEDDED_OTHER
from srnet.pruners import IMP, MaskTraining, RewoundIMP, StaticLocal
from srnet.recipes import FIGURES, Order, Profile
from srnet.recipes.figures import AUTO_START, FIXED, GRADUAL, START
from srnet.recipes.order import as_published
from srnet.recipes.profiles import toy
from srnet.recipes.profiles.paper import Published, paper_profile
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings
from srnet.training.distributed import connect
from srnet.training.trainer import Run, _arguments

MNLI, QQP, FEVER = Sized("mnli", 392_702), Sized("qqp", 363_849, "f1"), Sized("fever", 242_911)


@dataclass(frozen=True)
class Said:
    """What the paper says about one task."""

    learning_rate: float
    debiased_epochs: int
    pruning_epochs: int
    warmup_steps: int
    eval_every: int
    timing_sparsity: float
    table_5_epochs: int
    ood_warmup_steps: int
    ood_epochs: tuple[int, ...]
    """On a fine-tuned model with OOD data, at 20, 50, 70 and 90 %."""


PAPER = {
    MNLI: Said(5e-5, 5, 5, 3600, 1000, 0.7, 3, 3600, (3, 3, 3, 7)),
    QQP: Said(2e-5, 3, 7, 3400, 1000, 0.7, 5, 0, (3, 3, 5, 5)),
    FEVER: Said(2e-5, 3, 7, 0, 500, 0.9, 5, 0, (3, 3, 3, 5)),
}
each_task = pytest.mark.parametrize(("task", "said"), PAPER.items(), ids=lambda value: getattr(value, "name", ""))


def points(task: Any, figure: str, label: str | None = None, profile: Profile | None = None) -> list[Any]:
    """The models of a figure, or of one line of it."""
    recipe = FIGURES[figure].recipe(profile or paper_profile(task))
    return [point.node for point in recipe.points if label in (None, point.label)]


def steps(task: Sized, epochs: int) -> int:
    return math.ceil(epochs * task.size / 32)


# --- the paper -----------------------------------------------------------------------------------------------------


@each_task
def test_fine_tuning_is_as_published(task: Sized, said: Said) -> None:
    settings = paper_profile(task).finetuning
    assert settings.learning_rate == said.learning_rate
    assert (settings.epochs, settings.steps) == (3, None)
    assert settings.eval_every == said.eval_every
    assert round(settings.warmup * settings.total_steps(task.size)) == said.warmup_steps
    assert settings.patience is None


@each_task
def test_debiased_fine_tuning_is_as_published(task: Sized, said: Said) -> None:
    """PoE and confidence regularisation take five epochs on MNLI; reweighting, as CE, three everywhere."""
    for objective, epochs in (
        ("ce", 3),
        ("poe", said.debiased_epochs),
        ("reweight", 3),
        ("confreg", said.debiased_epochs),
    ):
        node = paper_profile(task).full(0, objective)
        assert (node.training.epochs, node.training.learning_rate) == (epochs, said.learning_rate), objective
        assert round(node.training.warmup * node.training.total_steps(task.size)) == said.warmup_steps
        assert node.training.eval_every == said.eval_every


@each_task
def test_mask_training_and_imp_are_as_published(task: Sized, said: Said) -> None:
    for node in points(task, "fig2"):
        if isinstance(node, Prune):
            settings = node.training
            assert (settings.epochs, settings.steps) == (said.pruning_epochs, None)
            assert settings.learning_rate == said.learning_rate
            assert settings.eval_every == said.eval_every
            warmup = 0 if isinstance(node.pruner, IMP) else said.warmup_steps
            assert round(settings.warmup * settings.total_steps(task.size)) == warmup, "IMP's scripts name none"
    for node in points(task, "fig4"):
        pruned = node.parent.subnetwork if isinstance(getattr(node, "parent", None), Rewind) else None
        if isinstance(pruned, Prune) and isinstance(pruned.pruner, RewoundIMP):
            assert pruned.training.warmup == 0.0


@each_task
def test_batches_lengths_decay_and_clipping(task: Sized, said: Said, tmp_path: Path) -> None:
    profile = paper_profile(task)
    every = [
        profile.finetuning,
        profile.pruning,
        profile.stopping,
        profile.with_ood,
        *profile.finetuning_of.values(),
    ]
    for settings in every:
        assert (settings.batch_size, settings.max_length, settings.max_grad_norm) == (32, 128, 1.0)
    nothing: Any = None
    run = Run(nothing, nothing, nothing, profile.pruning, nothing, nothing, nothing, tmp_path)
    arguments = _arguments(run, profile.pruning.total_steps(task.size), connect())
    assert arguments.weight_decay == 0.0
    assert arguments.lr_scheduler_type == "linear"
    assert arguments.max_grad_norm == 1.0
    assert arguments.learning_rate == said.learning_rate
    assert arguments.warmup_steps == said.warmup_steps
    assert arguments.per_device_train_batch_size == 32
    assert arguments.max_steps == steps(task, said.pruning_epochs)


def test_the_metric_is_a_property_of_the_task() -> None:
    for cls in (Published, Profile, TrainingSettings):
        assert "metric" not in {field.name for field in fields(cls)}
    assert "metric" in {field.name for field in fields(FilesTask)}
    for task, metric in ((MNLI, "accuracy"), (QQP, "f1"), (FEVER, "accuracy")):
        assert load_task(paper_profile(task).task).metric == metric
    shaped_alike = {
        name: SyntheticTask(name, train_size=5, dev_size=5, ood_size=5) for name in ("inference", "paraphrase")
    }
    assert [load_task(task).metric for task in shaped_alike.values()] == ["accuracy", "f1"]


@each_task
def test_masks_begin_and_move_as_published(task: Sized, said: Said) -> None:
    for figure in FIGURES:
        for node in points(task, figure):
            pruner = getattr(node, "pruner", None)
            if isinstance(pruner, MaskTraining):
                assert (pruner.phi, pruner.alpha) == (0.01, 2.0)
                assert pruner.refresh_every == said.eval_every, "the thresholds move at every evaluation"
                assert pruner.scope == "local"
                if figure not in ("fig8", "tab5", "tab6"):
                    assert (pruner.init, pruner.initial_sparsity) == ("hard", None)


@each_task
def test_imp_prunes_a_tenth_every_tenth_of_the_run(task: Sized, said: Said) -> None:
    found = [node.pruner for node in points(task, "fig2") if isinstance(getattr(node, "pruner", None), IMP)]
    assert {(pruner.step_sparsity, pruner.interval) for pruner in found} == {(0.1, 0.1)}
    assert sorted({pruner.sparsity for pruner in found}) == [0.2, 0.5, 0.7, 0.9]


@each_task
def test_gradual_goes_from_70_to_90_percent_with_soft_scores(task: Sized, said: Said) -> None:
    for node in points(task, "fig8", GRADUAL):
        assert (node.pruner.sparsity, node.pruner.initial_sparsity, node.pruner.init) == (0.9, 0.7, "soft")
    for node in points(task, "fig8", FIXED):
        assert (node.pruner.sparsity, node.pruner.initial_sparsity, node.pruner.init) == (0.9, None, "hard")
    assert said.pruning_epochs in [node.training.epochs for node in points(task, "fig8", FIXED)]


@each_task
def test_table_5_trains_as_long_as_published(task: Sized, said: Said) -> None:
    nodes = [node for node in points(task, "tab5") if isinstance(node, Prune)]
    assert len(nodes) == 5
    for node in nodes:
        assert node.training.epochs == pytest.approx(said.table_5_epochs)
        assert node.training.total_steps(task.size) == steps(task, said.table_5_epochs)
        assert node.pruner.sparsity == 0.9


@each_task
def test_with_ood_data_searches_are_as_published(task: Sized, said: Said) -> None:
    usual = (3, 3, 3, 3)
    for label, epochs in (("fine-tuned subnetwork", said.ood_epochs), ("raw subnetwork", usual)):
        nodes = points(task, "fig6", label)
        assert [node.training.epochs for node in nodes] == pytest.approx(epochs), label
        for node in nodes:
            assert node.data == "id+ood"
            assert node.training.learning_rate == 2e-5
            assert node.training.eval_every == said.eval_every
            total = node.training.total_steps(task.size + 30)  # the test's OOD data
            assert round(node.training.warmup * total) == said.ood_warmup_steps
    isolated = points(task, "fig6", "raw subnetwork, then fine-tuned")
    assert [node.parent.subnetwork.training.epochs for node in isolated] == pytest.approx(said.ood_epochs)
    assert {node.training.epochs for node in isolated} == {3}, "in isolation as usual"


def test_the_lengths_of_ood_training_are_for_the_sparsities_that_are_shown() -> None:
    recipe = FIGURES["fig6"].recipe(paper_profile(QQP), (0.5, 0.7))
    found = {p.place.sparsity: p.node.training.epochs for p in recipe.points if isinstance(p.node, Prune)}
    assert set(found) == {0.5, 0.7}


@each_task
def test_searches_start_where_the_paper_starts_them(task: Sized, said: Said) -> None:
    nodes = points(task, "fig7", START)
    assert {node.pruner.sparsity for node in nodes} == {said.timing_sparsity}
    first, *moments, last = [node.parent for node in nodes]
    assert isinstance(first, Pretrained), "step 0"
    assert isinstance(last, FineTune), "and the end"
    assert all(isinstance(moment, Moment) for moment in moments)
    assert [moment.step for moment in moments] == [5_000, 10_000, 15_000, 20_000]
    (auto,) = points(task, "fig7", AUTO_START)
    assert auto.parent.training.patience is not None
    assert replace(auto.parent.training, patience=None) == replace(last.training, patience=None)


@each_task
def test_the_figures_show_the_published_sparsities(task: Sized, said: Said) -> None:
    for figure in ("fig2", "fig3", "fig4", "fig5", "fig6", "figA1"):
        recipe = FIGURES[figure].recipe(paper_profile(task))
        assert {point.place.sparsity for point in recipe.points} == {0.0, 0.2, 0.5, 0.7, 0.9}


def test_the_backbones_are_the_papers() -> None:
    profile = paper_profile(MNLI)
    assert profile.backbone == "bert-base-uncased"
    assert profile.other_backbones == ("roberta-base", "bert-large-uncased")
    assert {node.pretrained.backbone for node in points(MNLI, "fig2")} == {"bert-base-uncased"}
    assert {node.pretrained.backbone for node in points(MNLI, "tab6")} == {"roberta-base", "bert-large-uncased"}


def test_a_sample_of_the_data_is_not_all_warm_up() -> None:
    profile = paper_profile(Sized("mnli", 320))
    assert profile.finetuning.warmup == 0.5
    assert profile.starts == (0.0, 1.0, "auto"), "and has no step 5,000"


def test_another_task_is_not_the_papers() -> None:
    with pytest.raises(UserError, match="unknown task of the paper 'snli'"):
        paper_profile(Sized("snli", 10))


# --- an order ------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.experiment.nodes.models.backbone_hash", lambda name, head=None: f"hash of {name}")


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
    assert (order.figures, order.profile, order.seeds, order.scale) == (("all",), "toy", (0,), 1.0)
    recipes = order.recipes()
    for recipe in recipes:
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
    with pytest.raises(UserError, match="smp has a score rate for each method"):
        Order(("smp",), score_rate=0.125).recipes()


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


@each_task
def test_the_control_trains_as_long_as_the_longest_published_path(task: Sized, said: Said) -> None:
    # fig4: fine-tuned, pruned, rewound and fine-tuned again, with PoE where that takes longest
    expected = steps(task, 3) + steps(task, said.pruning_epochs) + steps(task, said.debiased_epochs)
    (node,) = points(task, "fig4", "full model (CE), trained as long")
    assert node.training.total_steps(task.size) == expected
    assert node.training.learning_rate == said.learning_rate
    assert node.training.eval_every == said.eval_every
    (shorter,) = points(task, "tab5", "full model (CE), trained as long")
    assert shorter.training.total_steps(task.size) == steps(task, 3) + steps(task, said.table_5_epochs)


def test_scale_reaches_every_setting_of_the_paper() -> None:
    profile = paper_profile(QQP)
    half = profile.each_training(scale=0.5)
    for name in ("finetuning", "pruning", "stopping", "with_ood"):
        ours, theirs = getattr(half, name), getattr(profile, name)
        assert (ours.epochs, ours.eval_every) == (0.5 * theirs.epochs, 500)
        assert ours.warmup == theirs.warmup, "a share of the run"
    assert half.finetuning_of["poe"].epochs == 1.5


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"figures": ("fig9",)}, "unknown recipe 'fig9'"),
        ({"figures": ("fig2", "nonsense")}, "unknown recipe 'nonsense'"),
        ({"profile": "gpu"}, "unknown profile 'gpu'"),
        ({"profile": "cpu", "tasks": ("x.yaml",)}, "--backbone"),
        ({"profile": "cpu", "backbone": "b"}, "--tasks"),
        ({"scale": 0.0}, "scale 0 is out of range"),
        ({"scale": -1.0}, "scale -1 is out of range"),
        ({"scale": float("nan")}, "scale nan is out of range"),
    ],
    ids=str,
)
def test_orders_that_cannot_be_filled(order: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        Order(**order)
    assert said in str(error.value)


def test_tasks_that_nobody_knows_and_data_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DOWNLOAD_VARIABLE, raising=False)
    with pytest.raises(UserError, match=rf"hub:nyu-mll/glue:mnli:train cannot be loaded .*{DOWNLOAD_VARIABLE}=1"):
        Order(("fig2",), "paper").recipes()
    with pytest.raises(UserError, match="unknown task 'gossip'"):
        Order(("fig2",), tasks=("gossip",)).recipes()


def test_tab6_needs_other_backbones(file: str) -> None:
    with pytest.raises(UserError, match="--other-backbones"):
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


def test_as_published_at_the_scale_of_the_paper() -> None:
    profile = paper_profile(FEVER)
    (node,) = points(FEVER, "tab5", "gradual, from 50 %", as_published(profile))
    assert (node.pruner.cut, node.pruner.refresh_every, node.pruner.ramp) == ("kth", 500, 1.0)
    half = as_published(profile.each_training(scale=0.5))
    assert half.search("mask", "poe").options["refresh_every"] == 250, "at every evaluation, however long the run"


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
    with pytest.raises(UserError, match=f"{figure} needs word vectors.*--without-vectors"):
        Order((figure,), "paper", (qqp_file,), words=()).recipes()
    for given in ({"without_vectors": True}, {"bias": BiasSpec(vectors="v.vec")}, {"bias": BiasSpec("unknown")}):
        assert Order((figure,), "paper", (qqp_file,), words=(), **given).recipes()


def test_what_reads_no_words_needs_no_vectors(qqp_file: str, file: str) -> None:
    for figure in ("fig6", "smp"):
        assert Order((figure,), "paper", (qqp_file,), words=()).recipes(), "no line has a bias model"
    assert Order(("fig2",), "paper", (qqp_file,), lines=("mask training (CE)",)).recipes()
    assert Order(("fig2",), tasks=(file,)).recipes(), "only the profile paper asks"
    with pytest.raises(UserError, match="exclude each other"):
        Order(bias=BiasSpec(vectors="v.vec"), without_vectors=True)
    with pytest.raises(UserError, match="leave out --without-vectors"):
        Order(("fig2",), "paper", (qqp_file,), bias=BiasSpec("unknown"), without_vectors=True).recipes()


def test_seeds_are_the_profiles_unless_given() -> None:
    assert Order(("fig2",), "paper").seeds == (0, 1, 2, 3)
    assert Order(("fig2",), "paper", seeds=(0, 1)).seeds == (0, 1)
    assert (Order().seeds, Order(profile="cpu", tasks=("t",), backbone="b").seeds) == ((0,), (0,))
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
    assert parsed(order.command()) == order
    assert parsed(order.command("fig8")) == replace(order, figures=("fig8",))
