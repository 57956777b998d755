"""What a model costs in steps, recorded or planned, and how long a plan takes: by stored paces or measured steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpus import NAME, Simulated
from small import read_no_backbone

from srnet.core.files import read_json, write_json
from srnet.experiment.estimate import Estimate, _measure_step, duration_text, estimate, planned_steps, training_steps
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, ConfReg, PoE
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Trajectory
from srnet.experiment.store import Store
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

TASK = SyntheticTask("inference", train_size=100, dev_size=5, ood_size=30)
TEN = TrainingSettings(steps=10, eval_every=10**9)
RAW = Pretrained("some backbone", TASK)
FULL = FineTune(RAW, CE(), TEN)
ON_THE_WAY = Trajectory(RAW, CE(), TEN, (3, 7))
AFTER_FULL = Trajectory(FULL, CE(), TEN, (3, 7))
MASKED = Prune(FULL, MaskTraining(0.5), CE(), TEN)
MASKED_RAW = Prune(RAW, MaskTraining(0.5), CE(), TEN)
MASKED_MOMENT = Prune(Moment(ON_THE_WAY, 7), MaskTraining(0.5), CE(), TEN)
IMP_50, IMP_70 = (Prune(FULL, IMP(s), CE(), TEN) for s in (0.5, 0.7))
REWOUND = Prune(RAW, RewoundIMP(0.5), CE(), TEN)
ISOLATED = FineTune(Rewind(MASKED, RAW), CE(), TEN)
ISOLATED_IMP = FineTune(Rewind(REWOUND, RAW), CE(), TEN)
DEBIASED = FineTune(RAW, PoE(BiasModel(TASK)), TEN)
TAUGHT = FineTune(RAW, ConfReg(BiasModel(TASK), FULL), TEN)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").open()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """No backbone is read: a step takes a second, and every measurement is noted."""
    read_no_backbone(monkeypatch)
    found: list[tuple[str, int]] = []

    def measure(raw: Pretrained, settings: TrainingSettings) -> float:
        found.append((raw.backbone, settings.batch_size))
        return 1.0

    monkeypatch.setattr("srnet.experiment.estimate._measure_step", measure)
    return found


def remember(store: Store, node: Node | None, pace: float | None, device: str | None = "cpu", steps: int = 10) -> None:
    """Store a training of this pace; with None, one without a record of it. Earlier versions wrote no device."""
    assert node is not None
    where = {} if device is None else {"device": device}
    with store.writing(node.key, type(node).__name__, node.label, describe(node), "test") as folder:
        if pace is not None:
            write_json(folder / "training.json", {"step_seconds": pace, "steps": steps, **where})
        else:
            (folder / "weights").write_text("")


# --- how many steps --------------------------------------------------------------------------------------------------

RECORDED = {
    FULL: 6,  # it stopped early
    MASKED: 10,
    MASKED_RAW: 8,
    MASKED_MOMENT: 9,
    IMP_50.levels: 9,
    REWOUND.levels: 8,
    ISOLATED: 5,
    ISOLATED_IMP: 5,
    DEBIASED: 4,
    TAUGHT: 4,
}
COSTS: list[tuple[ModelNode, int, int]] = [
    (RAW, 0, 0),
    (FULL, 10, 6),
    (Moment(ON_THE_WAY, 3), 3, 3),
    (Moment(AFTER_FULL, 7), 10 + 7, 6 + 7),
    (MASKED, 10 + 10, 6 + 10),
    (MASKED_RAW, 10, 8),
    (MASKED_MOMENT, 7 + 10, 7 + 9),
    (Prune(FULL, OneShot(0.5)), 10, 6),  # without training
    (Prune(RAW, OneShot(0.5)), 0, 0),
    (IMP_50, 10 + 10, 6 + 9),  # the whole run, whatever the level
    (IMP_70, 10 + 10, 6 + 9),
    (Rewind(MASKED, RAW), 10 + 10, 6 + 10),  # rewinding is free, the mask was not
    (ISOLATED, 10 + 10 + 10, 6 + 10 + 5),
    (ISOLATED_IMP, 10 + 10, 8 + 5),  # IMP in paradigm b begins with the raw model
    (DEBIASED, 10, 4),
    (TAUGHT, 10, 4),  # neither a bias model nor a teacher is on the way
]


@pytest.mark.usefixtures("measured")
def test_the_steps_from_the_raw_model_as_planned_and_as_recorded(store: Store) -> None:
    for training, steps in RECORDED.items():
        remember(store, training, 1.0, steps=steps)
    for node, planned, recorded in COSTS:
        assert (planned_steps(node), training_steps(node, store)) == (planned, recorded), node.formula


@pytest.mark.parametrize("run", [ON_THE_WAY, IMP_50.levels], ids=lambda run: type(run).__name__)
def test_a_run_is_not_a_model(run: ModelNode, store: Store) -> None:
    for cost in (planned_steps, lambda node: training_steps(node, store)):
        with pytest.raises(TypeError, match=type(run).__name__):
            cost(run)


@pytest.mark.parametrize(
    ("node", "steps"),
    [
        (FineTune(RAW, CE(), TrainingSettings(epochs=2, batch_size=32)), 7),  # 200 examples: six batches and a bit
        (FineTune(RAW, CE(), TrainingSettings(epochs=2, batch_size=32, patience=1)), 7),  # at most
        (FineTune(RAW, CE(), TrainingSettings(epochs=1, batch_size=10), "id+ood"), 13),
        (Trajectory(RAW, CE(), TrainingSettings(steps=300), (75, 150)), 150),  # it ends where nothing more is kept
        (Prune(FULL, MaskTraining(0.5), CE(), TrainingSettings(epochs=0.5, batch_size=10)), 5),
        (Prune(RAW, MaskTraining(0.5), CE(), TrainingSettings(epochs=1, batch_size=10), "id+ood"), 13),
        (Prune(FULL, IMP(0.5), CE(), TrainingSettings(epochs=3, batch_size=8)).levels, 38),
    ],
)
def test_the_length_of_one_training(node: Any, steps: int) -> None:
    assert node.planned_steps == steps


# --- stored paces ----------------------------------------------------------------------------------------------------

OTHER = Prune(FULL, MaskTraining(0.7), CE(), replace(TEN, steps=20))


def test_the_pace_of_stored_trainings_is_used(store: Store, measured: list[Any]) -> None:
    for seed, pace in enumerate((0.5, 2.0, 3.0)):
        remember(store, FineTune(RAW, CE(), replace(TEN, seed=seed)), pace)
    found = estimate([OTHER], store)
    assert found == Estimate(trainings=1, steps=20, seconds=20 * 2.0, stored=3), "by the median"
    assert measured == []
    assert all(part in str(found) for part in ("40 s", "20 training steps", "3 stored trainings"))


@pytest.mark.parametrize(
    "node",
    [FULL, Trajectory(RAW, CE(), TEN, (5,)), MASKED, IMP_50.levels, ISOLATED, MASKED_MOMENT],
    ids=lambda node: node.formula,
)
def test_every_kind_of_training_counts(node: ModelNode, store: Store, measured: list[Any]) -> None:
    remember(store, node, 0.25)
    assert estimate([OTHER], store) == Estimate(1, 20, 5.0, 1)
    assert measured == []


def test_other_backbones_and_other_batches_have_another_pace(store: Store, measured: list[Any]) -> None:
    remember(store, FULL, 0.5)
    elsewhere = FineTune(Pretrained("other backbone", TASK), CE(), TEN)
    larger = FineTune(RAW, CE(), replace(TEN, batch_size=64))
    again = FineTune(RAW, CE(), replace(TEN, batch_size=64, seed=1))
    found = estimate([OTHER, elsewhere, larger, again], store)
    assert measured == [("other backbone", 32), ("some backbone", 64)], "each is measured once"
    assert (found.steps, found.stored) == (20 + 10 + 10 + 10, 1)
    assert found.seconds == pytest.approx(20 * 0.5 + 10 + 10 + 10)


@pytest.mark.parametrize(
    "other",
    [
        FineTune(Pretrained("some backbone", SyntheticTask("paraphrase", train_size=100, dev_size=5)), CE(), TEN),
        FineTune(RAW, CE(), replace(TEN, precision="bf16")),
        FineTune(RAW, CE(), replace(TEN, accumulate=2)),
        FineTune(RAW, CE(), replace(TEN, checkpointing=True)),
        FineTune(RAW, CE(), replace(TEN, compile=True)),
    ],
    ids=["task", "precision", "parts", "checkpointing", "compilation"],
)
def test_what_else_decides_the_pace(other: FineTune, store: Store, measured: list[Any]) -> None:
    remember(store, FULL, 0.5)
    assert estimate([other], store).stored == 0
    remember(store, other, 0.25)
    assert (estimate([other], store).seconds, estimate([OTHER], store).seconds) == (10 * 0.25, 20 * 0.5)


def test_a_pace_counts_on_its_own_device(store: Store, measured: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 1)
    remember(store, FineTune(RAW, CE(), TEN), 5.0, None)
    assert estimate([OTHER], store, measure=False).seconds is None, "it has no record of where it was measured"
    assert (estimate([OTHER], store).seconds, len(measured)) == (pytest.approx(20.0), 1)
    remember(store, FineTune(RAW, CE(), replace(TEN, seed=1)), 0.5, NAME)
    remember(store, FineTune(RAW, CE(), replace(TEN, seed=3)), 9.0, "Another GPU")
    remember(store, FineTune(RAW, CE(), replace(TEN, seed=2)), 7.0, "cpu")
    assert estimate([OTHER], store) == Estimate(1, 20, 20 * 0.5, 1)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    assert estimate([OTHER], store) == Estimate(1, 20, 20 * 7.0, 1)


def test_the_latest_trainings_give_the_pace(store: Store, measured: list[Any]) -> None:
    for day, pace in enumerate([9.0, 9.0, 9.0, 9.0, 1.0, 3.0, 2.0], start=1):
        node = FineTune(RAW, CE(), replace(TEN, seed=day))
        remember(store, node, pace)
        manifest = store.path(node.key) / "manifest.json"
        write_json(manifest, {**read_json(manifest), "created": f"2026-01-{day:02}T00:00:00+00:00"})
    assert estimate([OTHER], store) == Estimate(1, 20, 20 * 2.0, 3)


@pytest.mark.parametrize(("dev_rows", "seconds"), [(None, 10 * (1 + 5 / 3)), (3, 10 * (1 + 3 / 3))])
def test_measured_steps_are_evaluated_too(
    dev_rows: int | None, seconds: float, store: Store, measured: list[Any]
) -> None:
    """An evaluation after every step of one row: the forward pass of a row takes a third of a step."""
    node = FineTune(RAW, CE(), replace(TEN, batch_size=1, eval_every=1, dev_rows=dev_rows))
    kept: dict[Any, float] = {}
    for _ in range(2):
        assert estimate([node], store, measured=kept).seconds == pytest.approx(seconds)
    assert len(measured) == 1, "what was measured is kept for the next estimate"


def test_artifacts_without_a_pace_are_passed_over(store: Store, measured: list[Any]) -> None:
    remember(store, IMP_50, None)  # selected from a run
    remember(store, RAW, None)
    remember(store, FineTune(RAW, CE(), replace(TEN, seed=1)), 0.0)
    remember(store, FULL, 0.5)
    (store.path(FULL.key) / "manifest.json").write_text("{")
    assert estimate([OTHER], store) == Estimate(1, 20, pytest.approx(20.0), 0)  # type: ignore[arg-type]
    assert len(measured) == 1


def test_only_trainings_are_counted(store: Store, measured: list[Any]) -> None:
    nodes = [RAW, Prune(RAW, OneShot(0.5)), IMP_50, BiasModel(TASK), Rewind(IMP_50, RAW), Evaluate(FULL)]
    assert estimate(nodes, store) == Estimate(0, 0, 0.0, 0)
    assert measured == []
    assert estimate([*nodes, FULL, OTHER], store).trainings == 2


# --- measured now ----------------------------------------------------------------------------------------------------


def test_with_an_empty_store_a_few_steps_are_measured(
    tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr("srnet.experiment.estimate.synchronize", lambda: waits.append(1))
    node = FineTune(Pretrained(tiny_backbone, TASK), CE(), replace(TEN, batch_size=4))
    found = estimate([node], Store(tmp_path / "none"))
    assert (found.trainings, found.steps, found.stored) == (1, 10, 0)
    assert found.seconds > 0.0
    assert "10 training steps" in str(found)
    assert not (tmp_path / "none").exists(), "and nothing is written"
    assert len(waits) == 2, "it waits for the device at its ends: waiting after every step would count as their time"


def test_a_step_can_be_measured_on_less_data_than_a_batch(tiny_backbone: str) -> None:
    few = SyntheticTask("inference", train_size=3, dev_size=5, ood_size=5)
    assert _measure_step(Pretrained(tiny_backbone, few), TEN) > 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0.2 s"),
        (89.0, "89 s"),
        (90.0, "2 min"),
        (119.0, "2 min"),
        (5399.0, "90 min"),
        (5400.0, "1.5 h"),
        (36_000.0, "10.0 h"),
    ],
)
def test_the_text_of_a_duration(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
