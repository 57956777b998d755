"""From a profile, a paradigm and a search to the expressions of the paper."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from refusals import refused
from series import recipe_of
from small import read_no_backbone, small_defaults

from srnet.core.names import EMBEDDED
from srnet.experiment.nodes.bias import BiasModel, BiasSpec
from srnet.experiment.nodes.models import ModelNode, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, ConfReg, Distilled, Objective
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Trajectory
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.static import StaticShared
from srnet.recipes import profiles as toy
from srnet.recipes.demo import DemoSettings, demo_recipe
from srnet.recipes.paradigms import Place, Point, Profile, Search, full, in_isolation, labels_of, of_fine_tuned, of_raw
from srnet.recipes.profiles import pruning_for
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

TASK = SyntheticTask("inference", train_size=100, dev_size=5, ood_size=5)
FINETUNING, PRUNING = TrainingSettings(steps=10), TrainingSettings(steps=90, learning_rate=1e-2)
BIAS = BiasModel(TASK)
POE = Objective("poe", BIAS)
MASK = Search("mask", "poe", (0.5,))


def profile(seed: int = 0, **settings: Any) -> Profile:
    return Profile(TASK, "tiny", (seed,), **{"finetuning": FINETUNING, "pruning": PRUNING, **settings})


def raw(seed: int = 0) -> Pretrained:
    return Pretrained("tiny", TASK, seed)


def tuned(seed: int = 0, objective: Objective | None = None) -> FineTune:
    return FineTune(raw(seed), objective or CE(), replace(FINETUNING, seed=seed))


def only(points: list[Point]) -> ModelNode:
    (point,) = points
    return point.node


def prunings(points: list[Point]) -> list[Prune]:
    return [point.node for point in points if isinstance(point.node, Prune)]


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building expressions must not load a model."""

    def refuse(*args: object) -> str:
        raise AssertionError("the backbone was loaded")

    monkeypatch.setattr("srnet.experiment.nodes.models.backbone_hash", refuse)


# --- the paradigms -------------------------------------------------------------------------------------------------


def test_full_model() -> None:
    assert only(full(profile(), "l")) == tuned()
    assert only(full(profile(), "l", finetune="poe")) == tuned(objective=POE)


@pytest.mark.parametrize(
    ("search", "pruned"),
    [
        (MASK, Prune(tuned(), MaskTraining(0.5), POE, PRUNING)),
        (replace(MASK, pruner="imp"), Prune(tuned(), IMP(0.5), POE, PRUNING)),
        (replace(MASK, pruner="imp-rw", prune="ce"), Prune(tuned(), RewoundIMP(0.5), CE(), PRUNING)),
        (Search("one-shot", sparsities=(0.7,)), Prune(tuned(), OneShot(0.7))),
    ],
    ids=lambda value: getattr(value, "pruner", ""),
)
def test_paradigm_a_prunes_a_fine_tuned_model(search: Search, pruned: Prune) -> None:
    assert only(of_fine_tuned(profile(), "l", search)) == pruned
    debiased = only(of_fine_tuned(profile(), "l", search, finetune="poe"))
    assert debiased == replace(pruned, parent=tuned(objective=POE))


def test_the_weights_that_are_left_may_train_on() -> None:
    found = Prune(tuned(), MaskTraining(0.5), POE, PRUNING)
    (point,) = of_fine_tuned(profile(), "l", MASK, after="poe")
    assert point.node == FineTune(found, POE, FINETUNING)
    assert (point.paradigm, point.search) == ("a", found)


def test_paradigm_b_rewinds_and_trains_in_isolation() -> None:
    found = Prune(tuned(), MaskTraining(0.5), POE, PRUNING)
    isolated = only(in_isolation(profile(), "l", MASK, isolated="reweight"))
    assert isolated == FineTune(Rewind(found, raw()), Objective("reweight", BIAS), FINETUNING)
    rewound = Prune(raw(), RewoundIMP(0.5), POE, PRUNING)
    of_imp = only(in_isolation(profile(), "l", replace(MASK, pruner="imp-rw")))
    assert of_imp == FineTune(Rewind(rewound, raw()), CE(), FINETUNING), "from the raw model"
    with refused("imp-rw", "finetune"):
        in_isolation(profile(), "l", replace(MASK, pruner="imp-rw"), finetune="poe")


def test_paradigm_c_never_fine_tunes() -> None:
    assert only(of_raw(profile(), "l", MASK)) == Prune(raw(), MaskTraining(0.5), POE, PRUNING)


def test_a_point_knows_its_paradigm_and_its_search() -> None:
    series = (full(profile(), "l"), *(make(profile(), "l", MASK) for make in (of_fine_tuned, in_isolation, of_raw)))
    points = [point for (point,) in series]
    assert [point.paradigm for point in points] == ["full", "a", "b", "c"]
    assert [point.is_pruned for point in points] == [False, True, True, True]
    assert points[2].search == points[1].node
    from_the_start = of_fine_tuned(profile(), "l", MASK, starts=(0.0,))
    assert [point.paradigm for point in from_the_start] == ["a"], "even at a start of 0"


def test_every_model_of_a_seed_has_that_seed() -> None:
    found = Prune(tuned(3), MaskTraining(0.5), ConfReg(BIAS, tuned(3)), replace(PRUNING, seed=3))
    isolated = only(in_isolation(profile(3), "l", replace(MASK, prune="confreg")))
    assert isolated == FineTune(Rewind(found, raw(3)), CE(), replace(FINETUNING, seed=3))


def test_one_point_for_every_seed_and_place() -> None:
    points = of_fine_tuned(
        replace(profile(), seeds=(0, 1)), "l", replace(MASK, sparsities=(0.5, 0.7), lengths=(1.0, 2.0))
    )
    assert [(p.seed, p.place) for p in points] == [
        (seed, Place(sparsity, 1.0, length)) for seed in (0, 1) for sparsity in (0.5, 0.7) for length in (1.0, 2.0)
    ]
    assert {point.place for point in full(profile(), "l")} == {Place(0.0, None, 1.0)}
    assert {p.place.start for make in (in_isolation, of_raw) for p in make(profile(), "l", MASK)} == {None}


# --- settings ------------------------------------------------------------------------------------------------------


def test_the_settings_of_a_pruner() -> None:
    own = replace(PRUNING, learning_rate=0.5, steps=8)
    for pruner, settings in (("mask", own), ("imp", PRUNING)):
        (made,) = prunings(of_raw(profile(pruning_of={"mask": own}), "l", replace(MASK, pruner=pruner)))
        assert made.training == settings


def test_a_search_that_distils_imitates_the_full_ce_model() -> None:
    (made,) = prunings(of_raw(profile(2), "l", Search("smp-s", "poe", (0.9,), distil=True)))
    assert made.objective == Distilled(POE, tuned(2))
    assert (made.objective.distillation, made.objective.temperature) == (0.5, 2.0)


def test_options_and_length_at_one_sparsity() -> None:
    search = Search("smp-s", "ce", (0.5, 0.97), options_at={0.5: {"temperature": 3.0}}, lengths_at={0.97: 2.0})
    gentle, long = prunings(of_raw(profile(), "l", search))
    assert (gentle.pruner, long.pruner) == (StaticShared(0.5, temperature=3.0), StaticShared(0.97))
    assert (gentle.training.steps, long.training.steps) == (90, 180)


def test_label_words_are_the_head_of_every_model() -> None:
    search = Search("smp-s", "ce", (0.9,), distil=True)
    (made,) = prunings(of_raw(profile(words=("a", "b")), "l", search))
    assert made.pretrained.words == ("a", "b")
    assert made.objective.teacher is not None
    assert made.objective.teacher.model.pretrained == made.pretrained


def test_options_of_a_pruner() -> None:
    options = {"init": "soft", "initial_sparsity": 0.7}
    assert Search("mask", "ce", (0.9,), options).at(0.9) == MaskTraining(0.9, "soft", 0.7)


def test_the_bias_model_may_be_chosen() -> None:
    chosen = only(full(profile(bias=BiasSpec(folds=3)), "l", finetune="poe"))
    assert chosen == tuned(objective=Objective("poe", BiasModel(TASK, folds=3)))


def test_the_data_of_a_search_reaches_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    read_no_backbone(monkeypatch)
    nodes = prunings(of_raw(profile(), "l", Search("imp", "ce", (0.3, 0.6), data="id+ood")))
    assert nodes == [Prune(raw(), IMP(s), CE(), PRUNING, "id+ood") for s in (0.3, 0.6)]
    assert len({node.levels.key for node in nodes if node.levels}) == 1


def test_a_teacher_and_ood_data_exclude_each_other() -> None:
    with refused("teacher"):
        of_fine_tuned(profile(), "l", replace(MASK, prune="confreg", data="id+ood"))


@pytest.mark.parametrize("backbone", [EMBEDDED, "bert-base-uncased"])
def test_a_point_has_the_key_that_one_writes_by_hand(backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # otherwise `srnet prune` and `srnet run` would compute the same model twice
    read_no_backbone(monkeypatch)
    settings = pruning_for(backbone)
    made = only(of_raw(profile(pruning=settings), "l", Search("mask", "ce", (0.5,))))
    by_hand = Prune(raw(), MaskTraining(0.5), CE(), settings)
    assert made == by_hand
    assert made.key == by_hand.key


# --- starts and lengths --------------------------------------------------------------------------------------------


def test_auto_needs_patience() -> None:
    patient = TrainingSettings(steps=10, patience=2)
    for stopping in (None, replace(patient, patience=None)):
        with refused("auto"):
            of_fine_tuned(profile(stopping=stopping), "l", MASK, starts=(1.0, "auto"))
    (made,) = prunings(of_fine_tuned(profile(4, stopping=patient), "l", MASK, starts=("auto",)))
    assert made.parent == FineTune(raw(4), CE(), replace(patient, seed=4))


@pytest.mark.parametrize(
    ("share", "training", "step"),
    [
        (0.25, TrainingSettings(steps=300), 75),
        (0.001, TrainingSettings(steps=300), 1),  # no step is too early
        (0.5, TrainingSettings(epochs=3.0, batch_size=8), 19),  # of ceil(3 * 100 / 8) = 38
    ],
)
def test_a_share_is_a_step_of_the_fine_tuning(share: float, training: TrainingSettings, step: int) -> None:
    (made,) = prunings(of_fine_tuned(profile(finetuning=training), "l", MASK, starts=(share,)))
    assert isinstance(made.parent, Moment)
    assert made.parent.step == step


def test_shares_that_fall_on_one_step_share_it() -> None:
    nodes = prunings(of_fine_tuned(profile(), "l", MASK, starts=(0.0, 0.29, 0.31, 0.5, 1.0)))
    way = Trajectory(raw(), CE(), FINETUNING, (3, 5))
    assert [node.parent for node in nodes] == [raw(), Moment(way, 3), Moment(way, 3), Moment(way, 5), tuned()]


@pytest.mark.parametrize("make", [of_fine_tuned, in_isolation, of_raw])
def test_a_length_scales_steps_or_epochs(make: Any) -> None:
    def trainings(settings: TrainingSettings) -> list[TrainingSettings]:
        points = make(profile(pruning=settings), "l", replace(MASK, lengths=(0.001, 0.5, 2.0)))
        return [point.search.training for point in points]

    assert [made.steps for made in trainings(PRUNING)] == [1, 45, 180], "no length is too short"
    by_epochs = trainings(TrainingSettings(epochs=5.0))
    assert [(made.steps, made.epochs) for made in by_epochs] == [(None, 0.005), (None, 2.5), (None, 10.0)]


# --- what is refused -----------------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        *(({"lengths": lengths}, "lengths") for lengths in ((0.0,), (-1.0,), (NAN,), (float("inf"),), ())),
        ({"lengths_at": {0.5: -2.0}}, "lengths"),
        ({"sparsities": ()}, "sparsities"),
        ({"sparsities": (1.0,)}, "sparsities"),
        ({"options": {"phy": 1}}, "phy"),
        ({"options": {"sparsity": 0.3}}, "sparsity"),
        ({"data": "ood"}, "'ood'"),
        ({"prune": "mse"}, "'mse'"),
        ({"pruner": "lasso"}, "'lasso'"),
        ({"prune": None}, "'mask'"),
        ({"pruner": "one-shot"}, "'one-shot'"),
        *(
            ({"pruner": "one-shot", "prune": None, **trained}, "'one-shot'")
            for trained in ({"data": "id+ood"}, {"lengths": (0.5,)}, {"lengths_at": {0.5: 2.0}}, {"distil": True})
        ),
    ],
    ids=str,
)
def test_searches_that_mean_nothing(wrong: dict[str, Any], named: str) -> None:
    with refused(named):
        of_raw(profile(), "l", replace(MASK, **wrong))


@pytest.mark.parametrize("starts", [(-0.1,), (1.1,), (0.5, NAN), ()])
def test_starts_that_mean_nothing(starts: Any) -> None:
    with refused("starts"):
        of_fine_tuned(profile(), "l", MASK, starts=starts)


@pytest.mark.parametrize("seeds", [(), (1, 1)])
def test_seeds_are_unique(seeds: tuple[int, ...]) -> None:
    with refused("seed", list(seeds)):
        replace(profile(), seeds=seeds)


def test_a_recipe_has_points_and_each_once() -> None:
    line, masks = partial(full, label="l"), partial(of_fine_tuned, label="m")
    searches = (replace(MASK, sparsities=(0.5, 0.5)), replace(MASK, lengths=(1.0, 1.0)))
    twice = [partial(masks, search=search) for search in searches]
    starts = [partial(masks, search=MASK, starts=starts) for starts in ((0.5, 0.5), (1, 1.0))]
    for series in ((), (line, line), *((each,) for each in (*twice, *starts))):
        with refused("'r'"):
            _ = recipe_of(profile(), *series).points


# --- the demonstration ---------------------------------------------------------------------------------------------


def test_the_demonstration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyntheticTask.__init__, "__defaults__", small_defaults(50, 10, 10))
    recipe = demo_recipe(seeds=2, steps=50)
    assert recipe.seeds == (0, 1)
    assert (recipe.profile.finetuning.steps, recipe.profile.pruning.steps) == (50, 50)
    labels = ["full model (CE)", "full model (CE), trained as long", "mask training (CE)", "mask training (PoE)"]
    assert labels_of(recipe.points) == labels
    searches = {(p.label, p.place.sparsity, p.search.objective.name) for p in recipe.points if p.search}
    assert searches == {
        (labels[2], DemoSettings.sparsities[0], "ce"),
        *((labels[3], s, "poe") for s in DemoSettings.sparsities),
    }
    chosen = demo_recipe(SyntheticTask("paraphrase"), sparsities=(0.3,))
    assert chosen.task.name == "paraphrase"
    assert {point.place.sparsity for point in chosen.points} == {0.0, 0.3}


def test_the_demonstration_has_the_settings_of_the_toy_profile_and_enough_seeds_for_a_verdict() -> None:
    recipe = demo_recipe()
    assert (recipe.profile.finetuning, recipe.profile.pruning) == (toy.FINETUNING, toy.PRUNING)
    assert len(recipe.seeds) == DemoSettings.seeds >= 3


def test_seeds_of_the_demo_have_a_limit() -> None:
    with refused(1000000000, "seeds"):
        demo_recipe(seeds=10**9)
