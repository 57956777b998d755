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

from srnet.core.errors import UserError
from srnet.core.progress import Reporter
from srnet.experiment.compute import _kept
from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, PoE
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Trajectory
from srnet.experiment.rebuild import rebuild, stored_model, stored_node
from srnet.experiment.store import Store
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.training.method import Method
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result, Run, train

KEPT = (3, 7, 12)
"""Steps of a run of 20 that is evaluated every 5: none of them could be chosen by ID dev."""


@pytest.fixture
def trajectory(raw: Pretrained, tiny_training: TrainingSettings) -> Trajectory:
    return Trajectory(raw, CE(), tiny_training, KEPT)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """The result of every training from now on."""
    done: list[Result] = []

    def counting(run: Run) -> Result:
        done.append(train(run))
        return done[-1]

    monkeypatch.setattr("srnet.experiment.compute.train", counting)
    return done


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
    assert len(steps) == 20
    assert len({steps[step]["classifier.weight"].numpy().tobytes() for step in steps}) == 20, "every step moves"
    for step in KEPT:
        moment = made(Moment(trajectory, step))
        assert moment.mask is None
        assert same(state(moment), steps[step]), step


def test_a_moment_is_not_what_dev_would_choose(made: Any, tuned: FineTune, trajectory: Trajectory) -> None:
    chosen, moments = state(made(tuned)), [state(made(Moment(trajectory, step))) for step in KEPT]
    assert not any(same(moment, chosen) for moment in moments)
    story = json.loads((made.store.path(trajectory.key) / "training.json").read_text())
    assert story["dev_score"] is None
    assert [entry["step"] for entry in story["log"] if "eval_score" in entry] == [5, 10, 12]


def test_one_fine_tuning_for_all_moments(engine: Engine, trajectory: Trajectory, trainings: list[Result]) -> None:
    moments = [Moment(trajectory, step) for step in KEPT]
    plan = engine.plan([Evaluate(moment) for moment in moments])
    assert [node for node in plan if node.trains] == [trajectory]
    engine.execute(moments)
    assert [result.steps for result in trainings] == [12], "and it ends where nothing more is kept"
    engine.execute(moments)
    Engine(Store(engine.store.root), Reporter(quiet=True)).execute(moments)
    assert len(trainings) == 1


def test_more_moments_do_not_change_the_others(made: Any, trajectory: Trajectory) -> None:
    alone = replace(trajectory, steps=(7,))
    assert alone.key != trajectory.key
    assert same(state(made(Moment(alone, 7))), state(made(Moment(trajectory, 7))))


def test_the_last_step_can_be_a_moment(made: Any, engine: Engine, raw: Pretrained, tuned: FineTune) -> None:
    with watched() as steps:
        engine.execute([tuned])
    assert same(state(made(Moment(Trajectory(raw, CE(), tuned.training, (20,)), 20))), steps[20])


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


def test_a_moment_is_pruned_like_a_fine_tuned_model(made: Any, trajectory: Trajectory) -> None:
    moment = Moment(trajectory, 7)
    assert moment.fine_tuned
    masked = Prune(moment, MaskTraining(0.5), training=trajectory.training)
    before, after = state(made(moment)), made(masked)
    for name, tensor in state(after).items():
        expected = torch.where(after.mask[name], before[name], 0) if name in after.mask else before[name]
        assert torch.equal(tensor, expected), name
    assert json.loads((made.store.path(masked.key) / "training.json").read_text())["selected_step"] >= 14
    rewound = made(Rewind(masked, moment))
    assert same(state(rewound), state(after))


def test_texts_are_cut_as_in_the_training(raw: Pretrained, tiny_training: TrainingSettings) -> None:
    moment = Moment(Trajectory(raw, CE(), replace(tiny_training, max_length=17), (3,)), 3)
    assert moment.max_length == 17


def test_rebuild_inverts_describe(engine: Engine, trajectory: Trajectory, bias: BiasModel) -> None:
    moment = Moment(replace(trajectory, objective=PoE(bias)), 7)
    for node in (trajectory, moment, Prune(moment, OneShot(0.5)), Evaluate(moment)):
        again = rebuild(json.loads(json.dumps(describe(node))))
        assert again == node
        assert again.key == node.key
    engine.execute([Moment(trajectory, 7)])
    assert stored_node(engine.store, trajectory.key) == trajectory
    assert stored_model(engine.store, Moment(trajectory, 7).key) == Moment(trajectory, 7)
    with pytest.raises(UserError, match="is not a model but of kind Trajectory"):
        stored_model(engine.store, trajectory.key)


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


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_step_that_was_not_kept(trajectory: Trajectory) -> None:
    with pytest.raises(UserError, match=r"step 5 was not kept; kept: \[3, 7, 12\]"):
        Moment(trajectory, 5)


@pytest.mark.parametrize("steps", [(), (0,), (3, -1)], ids=str)
def test_moments_are_steps_from_one_on(
    steps: tuple[int, ...], raw: Pretrained, tiny_training: TrainingSettings
) -> None:
    with refused("step"):
        Trajectory(raw, CE(), tiny_training, steps)


@pytest.mark.parametrize("settings", [{"steps": 20}, {"steps": None, "epochs": 0.8}], ids=str)  # 0.8 * 200 / 8 = 20
def test_a_moment_beyond_the_run(
    settings: dict[str, Any], engine: Engine, raw: Pretrained, tiny_training: TrainingSettings, trainings: list[Result]
) -> None:
    with pytest.raises(UserError, match=r"(?s)20 steps.*step 21"):
        engine.execute([Moment(Trajectory(raw, CE(), replace(tiny_training, **settings), (7, 21)), 21)])
    assert trainings == []


def test_a_moment_that_early_stopping_would_never_reach(
    engine: Engine, raw: Pretrained, tiny_training: TrainingSettings
) -> None:
    # no gain is ever enough: the run stops at its second evaluation, step 10
    hasty = replace(tiny_training, patience=1, min_gain=100.0)

    def execute() -> None:
        trajectory = Trajectory(raw, CE(), hasty, (3, 18))
        engine.execute([trajectory])
        engine.execute([Moment(trajectory, 18)])

    with pytest.raises(UserError, match=r"patience|step 18"):
        execute()
    assert {entry.type for entry in engine.store.entries()} <= {"Pretrained"}, "nothing incomplete is kept"


def test_moments_of_long_runs_do_not_collide(tmp_path: Path) -> None:
    names = {_kept(tmp_path, step) for step in (999_999, 1_000_000, 1_000_001, 1_234_567)}
    assert len(names) == 4


def test_a_subnetwork_has_no_trajectory(engine: Engine, raw: Pretrained, tiny_training: TrainingSettings) -> None:
    with pytest.raises(UserError, match="already pruned"):
        engine.execute([Moment(Trajectory(Prune(raw, OneShot(0.5)), CE(), tiny_training, (3,)), 3)])
