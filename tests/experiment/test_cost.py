"""What a model costs, counted by hand: from what its trainings recorded, and before there are any."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import read_no_backbone

from srnet.core.files import write_json
from srnet.experiment.estimate import planned_steps, training_steps
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import ModelNode, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, ConfReg, Objective
from srnet.experiment.nodes.training import FineTune, Moment, Prune, PruneRun, Trajectory
from srnet.experiment.store import Store
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

TASK = SyntheticTask("inference", train_size=20, dev_size=5, ood_size=5)
TRAINING = TrainingSettings(steps=100)
RAW = Pretrained("some backbone", TASK)
FULL = FineTune(RAW, CE(), TRAINING)
ON_THE_WAY = Trajectory(RAW, CE(), TRAINING, (30, 70))
MASKED = Prune(FULL, MaskTraining(0.5), CE(), TRAINING)
IMP_50, IMP_70 = (Prune(FULL, IMP(s), CE(), TRAINING) for s in (0.5, 0.7))
REWOUND = Prune(RAW, RewoundIMP(0.5), CE(), TRAINING)


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read_no_backbone(monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def took(store: Store, node: ModelNode | None, steps: int) -> None:
    """The store remembers that a training took so many steps."""
    assert node is not None
    folder = store.path(node.key)
    folder.mkdir(parents=True)
    write_json(folder / "training.json", {"steps": steps})


def test_the_raw_backbone_cost_nothing(store: Store) -> None:
    assert training_steps(RAW, store) == 0


def test_a_fine_tuning_costs_what_it_took(store: Store) -> None:
    took(store, FULL, 60)  # it stopped early
    assert training_steps(FULL, store) == 60


def test_a_moment_costs_the_steps_up_to_it(store: Store) -> None:
    assert training_steps(Moment(ON_THE_WAY, 30), store) == 30
    took(store, FULL, 60)
    later = Moment(Trajectory(FULL, CE(), TRAINING, (30, 70)), 70)
    assert training_steps(later, store) == 60 + 70


def test_a_mask_costs_its_search_and_what_came_before(store: Store) -> None:
    took(store, FULL, 60)
    took(store, MASKED, 100)
    assert training_steps(MASKED, store) == 60 + 100
    raw = Prune(RAW, MaskTraining(0.5), CE(), TRAINING)
    took(store, raw, 80)
    assert training_steps(raw, store) == 80
    moment = Prune(Moment(ON_THE_WAY, 70), MaskTraining(0.5), CE(), TRAINING)
    took(store, moment, 90)
    assert training_steps(moment, store) == 70 + 90


def test_a_pruner_that_does_not_train_costs_nothing_more(store: Store) -> None:
    took(store, FULL, 60)
    assert training_steps(Prune(FULL, OneShot(0.5)), store) == 60
    assert training_steps(Prune(RAW, OneShot(0.5)), store) == 0


def test_a_run_that_yields_every_level_counts_in_full_for_each(store: Store) -> None:
    took(store, FULL, 60)
    took(store, IMP_50.levels, 90)
    assert training_steps(IMP_50, store) == training_steps(IMP_70, store) == 60 + 90


def test_rewinding_is_free_but_its_mask_was_not(store: Store) -> None:
    took(store, FULL, 60)
    took(store, MASKED, 100)
    ticket = Rewind(MASKED, RAW)
    assert training_steps(ticket, store) == 60 + 100
    isolated = FineTune(ticket, CE(), TRAINING)
    took(store, isolated, 50)
    assert training_steps(isolated, store) == 60 + 100 + 50
    took(store, REWOUND.levels, 80)
    imp = FineTune(Rewind(REWOUND, RAW), CE(), TRAINING)
    took(store, imp, 50)
    assert training_steps(imp, store) == 0 + 80 + 50, "IMP in paradigm b begins with the raw model"


def test_a_teacher_and_a_bias_model_are_not_on_the_way(store: Store) -> None:
    bias = BiasModel(TASK)
    for objective in (Objective("poe", bias), ConfReg(bias, FULL)):
        debiased = FineTune(RAW, objective, TRAINING)
        took(store, debiased, 40)
        assert training_steps(debiased, store) == 40


@pytest.mark.parametrize("run", [ON_THE_WAY, IMP_50.levels], ids=lambda run: type(run).__name__)
def test_a_run_is_not_a_model(run: ModelNode, store: Store) -> None:
    assert isinstance(run, (Trajectory, PruneRun))
    with pytest.raises(TypeError, match="is a run, not a model"):
        training_steps(run, store)


# --- before anything was trained -----------------------------------------------------------------------------------

EPOCHS = TrainingSettings(epochs=3, batch_size=8)
"""Of 20 rows: 60 in batches of 8 are 8 steps; with 5 more for OOD training, 75 in batches of 8 are 10."""
SHORT = TrainingSettings(steps=40)


@pytest.mark.parametrize(
    ("node", "steps"),
    [
        (RAW, 0),
        (FULL, 100),
        (FineTune(RAW, CE(), TrainingSettings(steps=100, patience=1)), 100),  # at most
        (FineTune(RAW, CE(), EPOCHS), 8),
        (FineTune(RAW, CE(), EPOCHS, "id+ood"), 10),
        (Moment(ON_THE_WAY, 30), 30),
        (Moment(Trajectory(FULL, CE(), TRAINING, (30, 70)), 70), 100 + 70),
        (MASKED, 100 + 100),
        (Prune(FULL, MaskTraining(0.5), CE(), EPOCHS), 100 + 8),
        (Prune(FULL, MaskTraining(0.5), CE(), EPOCHS, "id+ood"), 100 + 10),
        (Prune(RAW, MaskTraining(0.5), CE(), SHORT), 40),
        (Prune(Moment(ON_THE_WAY, 70), MaskTraining(0.5), CE(), SHORT), 70 + 40),
        (Prune(FULL, OneShot(0.5)), 100),
        (Prune(RAW, OneShot(0.5)), 0),
        (IMP_50, 100 + 100),  # the whole run, whatever the level
        (IMP_70, 100 + 100),
        (Prune(FULL, IMP(0.5), CE(), TrainingSettings(epochs=30, batch_size=8)), 100 + 75),
        (Rewind(MASKED, RAW), 100 + 100),
        (FineTune(Rewind(MASKED, RAW), CE(), SHORT), 100 + 100 + 40),
        (FineTune(Rewind(REWOUND, RAW), CE(), SHORT), 100 + 40),
        (FineTune(RAW, ConfReg(BiasModel(TASK), FULL), SHORT), 40),  # a teacher is not on the way
    ],
    ids=lambda value: str(value) if isinstance(value, int) else value.formula,
)
def test_planned_steps(node: ModelNode, steps: int) -> None:
    assert planned_steps(node) == steps


def test_the_plan_is_what_a_training_takes_that_does_not_stop_early(store: Store) -> None:
    isolated = FineTune(Rewind(MASKED, RAW), CE(), SHORT)
    for node, steps in ((FULL, 100), (MASKED, 100), (isolated, 40)):
        took(store, node, steps)
    assert training_steps(isolated, store) == planned_steps(isolated)


@pytest.mark.parametrize("run", [ON_THE_WAY, IMP_50.levels], ids=lambda run: type(run).__name__)
def test_a_run_has_no_plan_of_its_own(run: ModelNode) -> None:
    with pytest.raises(TypeError, match="is a run, not a model"):
        planned_steps(run)
