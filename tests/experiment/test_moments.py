"""A moment is the model as it was at one step of a fine-tuning, to the bit, and one fine-tuning serves them all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refused

from srnet.experiment.compute import _kept
from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, PoE
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Trajectory
from srnet.experiment.rebuild import rebuild, stored_model
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.training.method import Method
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Run, train

KEPT = (3, 7, 12)
"""Steps of a run of 20 that is evaluated every 5: none of them could be chosen by ID dev."""


@pytest.fixture
def trajectory(raw: Pretrained, tiny_training: TrainingSettings) -> Trajectory:
    return Trajectory(raw, CE(), tiny_training, KEPT)


@contextmanager
def watched() -> Iterator[dict[int, dict[str, torch.Tensor]]]:
    """The weights of a plain training after each of its steps, copied by hand."""
    states: dict[int, dict[str, torch.Tensor]] = {}

    def after_step(self: Method, step: int) -> dict[str, float]:
        states[step] = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Method, "after_step", after_step)
        yield states


def state(subnetwork: Subnetwork) -> dict[str, torch.Tensor]:
    return subnetwork.state(subnetwork.base())


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_moment_is_that_step_of_the_same_fine_tuning(
    made: Any, engine: Engine, tuned: FineTune, trajectory: Trajectory
) -> None:
    with watched() as steps:
        engine.execute([tuned])
    assert len({steps[step]["classifier.weight"].numpy().tobytes() for step in steps}) == 20, "every step moves"
    for run in (trajectory, replace(trajectory, steps=(20,))):  # the last step too
        for step in run.steps:
            moment = made(Moment(run, step))
            assert moment.mask is None
            assert same(state(moment), steps[step]), step


def test_a_moment_is_not_what_dev_would_choose(made: Any, tuned: FineTune, trajectory: Trajectory) -> None:
    chosen, moments = state(made(tuned)), [state(made(Moment(trajectory, step))) for step in KEPT]
    assert not any(same(moment, chosen) for moment in moments)
    record = made.record(trajectory)
    assert record["dev_score"] is None
    assert [entry["step"] for entry in record["log"] if "eval_score" in entry] == [5, 10, 12]


def test_one_fine_tuning_for_all_moments(engine: Engine, trajectory: Trajectory, runs: list[Run]) -> None:
    moments = [Moment(trajectory, step) for step in KEPT]
    plan = engine.plan([Evaluate(moment) for moment in moments])
    assert [node for node in plan if node.trains] == [trajectory]
    for _ in range(2):
        engine.execute(moments)
        assert len(runs) == 1
    assert runs[0].method.stop_at() == 12, "it ends where nothing more is kept"


def test_more_moments_do_not_change_the_others(made: Any, trajectory: Trajectory) -> None:
    alone = replace(trajectory, steps=(7,))
    assert alone.key != trajectory.key
    assert same(state(made(Moment(alone, 7))), state(made(Moment(trajectory, 7))))


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("stop", [4, 7, 10, 11])
def test_interrupted_the_moments_are_the_same(
    stop: int, made: Any, engine: Engine, trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(step: int, total: int, figures: dict[str, float]) -> None:
        if step == stop:
            raise Interrupted

    moments = [Moment(trajectory, step) for step in KEPT]
    with monkeypatch.context() as patch:
        patch.setattr("srnet.experiment.compute.train", lambda run: train(replace(run, watch=watch)))
        with pytest.raises(Interrupted):
            engine.execute(moments)
    assert not engine.store.has(trajectory.key)
    engine.execute(moments)
    for moment in moments:
        assert same(state(Subnetwork.load(engine.store.path(moment.key))), state(made(moment))), moment.step


# --- what can be done with one -------------------------------------------------------------------------------------


def test_moments_of_long_runs_do_not_collide() -> None:
    assert len({_kept(Path(), step) for step in (999_999, 1_000_000, 1_000_001, 1_234_567)}) == 4


def test_a_moment_is_pruned_like_a_fine_tuned_model(made: Any, trajectory: Trajectory) -> None:
    moment = Moment(trajectory, 7)
    assert (moment.fine_tuned, moment.max_length) == (True, trajectory.training.max_length)
    masked = Prune(moment, MaskTraining(0.5), training=trajectory.training)
    before, after = state(made(moment)), made(masked)
    for name, tensor in state(after).items():
        expected = torch.where(after.mask[name], before[name], 0) if name in after.mask else before[name]
        assert torch.equal(tensor, expected), name
    assert made.record(masked)["selected_step"] >= 14
    rewound = made(Rewind(masked, moment))
    assert same(state(rewound), state(after))


def test_everything_about_a_moment_counts(raw: Pretrained, trajectory: Trajectory, bias: BiasModel) -> None:
    training = trajectory.training
    nodes = [
        trajectory,
        replace(trajectory, steps=(3, 7)),
        replace(trajectory, objective=PoE(bias)),
        replace(trajectory, training=replace(training, steps=21)),
        replace(trajectory, parent=replace(raw, seed=1)),
        Moment(trajectory, 3),
        Moment(trajectory, 7),
        Moment(replace(trajectory, steps=(3, 7)), 7),
        FineTune(raw, CE(), training),
    ]
    assert len({node.key for node in nodes}) == len(nodes)


def test_expressions_with_moments_are_rebuilt(engine: Engine, trajectory: Trajectory, bias: BiasModel) -> None:
    moment = Moment(replace(trajectory, objective=PoE(bias)), 7)
    for node in (trajectory, moment, Prune(moment, OneShot(0.5)), Evaluate(moment)):
        again = rebuild(json.loads(json.dumps(describe(node))))
        assert (again, again.key) == (node, node.key)
    engine.execute([Moment(trajectory, 7)])
    assert stored_model(engine.store, Moment(trajectory, 7).key) == Moment(trajectory, 7)
    with refused(trajectory.key, "Trajectory"):
        stored_model(engine.store, trajectory.key)


# --- refusals ------------------------------------------------------------------------------------------------------


def test_what_no_run_has_is_refused(trajectory: Trajectory, raw: Pretrained) -> None:
    with refused("step 5", [*KEPT]):
        Moment(trajectory, 5)
    for steps, named in (((), "step"), ((0,), "0"), ((3, -1), "-1")):
        with refused(named):
            replace(trajectory, steps=steps)
    with refused("patience"):  # it might end before the moment
        replace(trajectory, training=replace(trajectory.training, patience=1))


@pytest.mark.parametrize("settings", [{"steps": 20}, {"steps": None, "epochs": 0.8}], ids=str)  # 0.8 * 200 / 8 = 20
def test_a_moment_beyond_the_run(settings: dict[str, Any], engine: Engine, trajectory: Trajectory) -> None:
    training = replace(trajectory.training, **settings)
    with refused("20 steps", "step 21"):
        engine.execute([Moment(replace(trajectory, training=training, steps=(7, 21)), 21)])
    assert {entry.type for entry in engine.store.entries()} == {"Pretrained"}, "nothing incomplete is kept"


def test_a_subnetwork_has_no_trajectory(engine: Engine, raw: Pretrained, trajectory: Trajectory) -> None:
    pruned = Prune(raw, OneShot(0.5))
    with refused(pruned.label):
        engine.execute([replace(trajectory, parent=pruned)])
