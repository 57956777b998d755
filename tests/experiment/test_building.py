"""Building an expression reads nothing; what only the data can show is refused when a plan is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.bias import BiasModel, BiasSpec
from srnet.experiment.nodes.models import Evaluate, Pretrained, Rewind
from srnet.experiment.nodes.objectives import (
    CE,
    NEEDS,
    ConfReg,
    Distilled,
    Objective,
    ObjectiveSources,
    PoE,
    make_objective,
)
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Trajectory
from srnet.objectives.base import OBJECTIVES
from srnet.pruners.base import PRUNERS
from srnet.tasks.base import Task
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings


@dataclass(frozen=True)
class Unreadable:
    """A task that must not be loaded."""

    name: str = "unreadable"
    shortcut: str = "overlap"

    def load(self) -> Task:
        raise AssertionError("loaded")


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Pretrained:
    def refuse(*args: Any) -> str:
        raise AssertionError("hashed")

    monkeypatch.setattr("srnet.experiment.nodes.models.backbone_hash", refuse)
    monkeypatch.setattr("srnet.experiment.nodes.bias.backbone_hash", refuse)
    return Pretrained("no backbone", Unreadable())


def test_no_expression_reads_anything(unread: Pretrained) -> None:
    steps = TrainingSettings(steps=20)
    full = FineTune(unread)
    for bias in (BiasModel(unread.task, vectors="x.vec"), BiasSpec().node(unread.task, "no backbone")):
        for objective in (CE(), PoE(bias), ConfReg(bias, full), Distilled(PoE(bias), full)):
            tuned = FineTune(unread, objective)
            assert Moment(Trajectory(unread, objective, steps, (5,)), 5).label
            for pruner in PRUNERS.values():
                node = Prune(
                    tuned,
                    pruner(),
                    objective if pruner.trains else CE(),
                    steps if pruner.trains else TrainingSettings(),
                )
                assert Evaluate(FineTune(Rewind(node, unread), objective), ("train",)).formula
    assert FineTune(unread, data="id+ood").parents == (unread,)
    assert BiasSpec("unknown", examples=10**9).node(unread.task, "no backbone").label


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_no_objective_reads_anything(name: str, unread: Pretrained) -> None:
    made = make_objective(name, ObjectiveSources(lambda: BiasModel(unread.task), lambda: FineTune(unread)))
    assert FineTune(unread, made).label
    assert set(made.nodes) == {need for need in made.needs if NEEDS[need].what}


# --- objectives by name --------------------------------------------------------------------------------------------


def test_a_second_loss_with_bias_and_teacher_is_itself(raw: Pretrained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OBJECTIVES, "other", replace(OBJECTIVES["confreg"], name="other"))
    monkeypatch.setitem(OBJECTIVES, "taught", replace(OBJECTIVES["ce"], name="taught", needs=("teacher",)))
    full = FineTune(raw)
    sources = ObjectiveSources(lambda: BiasModel(raw.task), lambda: full, FineTune(replace(raw, seed=1)))
    bias, teacher = BiasModel(raw.task), Evaluate(FineTune(replace(raw, seed=1)), ("train",))
    assert make_objective("other", sources) == Objective("other", bias, teacher)
    assert make_objective("taught", sources) == Objective("taught", teacher=teacher)
    assert make_objective("confreg", replace(sources, teacher=None)) == ConfReg(bias, full)


@pytest.mark.parametrize(
    ("training", "early"),
    [
        (TrainingSettings(steps=10), TrainingSettings(steps=5)),
        (TrainingSettings(steps=1), TrainingSettings(steps=1)),
        (TrainingSettings(epochs=3, seed=2), TrainingSettings(epochs=1.5, seed=2)),
    ],
)
def test_the_early_model_is_the_full_one_cut_short(
    training: TrainingSettings, early: TrainingSettings, raw: Pretrained
) -> None:
    sources = ObjectiveSources(pytest.fail, lambda: FineTune(raw, training=training))
    made = make_objective("jtt:early_share=0.5", sources)
    assert made.nodes == {"early": Evaluate(FineTune(raw, training=early), ("train",))}


# --- when a plan is made -------------------------------------------------------------------------------------------


def files(folder: Path, **changes: Any) -> FilesTask:
    for name in ("train", "dev"):
        (folder / f"{name}.csv").write_text("text_a,text_b,label,kind\nthe cat,a cat,yes,x\nthe dog,a cat,no,y\n")
    return FilesTask("mine", ("no", "yes"), str(folder / "train.csv"), str(folder / "dev.csv"), leaks="keep", **changes)


def test_each_distinct_node_is_checked_once(raw: Pretrained, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Node] = []
    for kind in (Pretrained, FineTune, BiasModel, Prune):
        monkeypatch.setattr(kind, "check", lambda node: checked.append(node))
    bias = BiasModel(raw.task)
    engine.plan([Prune(FineTune(raw, PoE(bias)), objective=PoE(bias)), FineTune(raw, PoE(bias))])
    assert [type(node).__name__ for node in checked] == ["Pretrained", "BiasModel", "FineTune", "Prune"]


def test_a_task_without_groups_is_told_how_to_give_them(tiny_backbone: str, tmp_path: Path, engine: Engine) -> None:
    node = FineTune(Pretrained(tiny_backbone, files(tmp_path)), Objective("group-dro"))
    with refused("'mine'", "group: COLUMN"):
        engine.plan([node])
    engine.plan([FineTune(Pretrained(tiny_backbone, files(tmp_path, group="kind")), node.objective)])


def test_what_the_data_cannot_give_is_refused(tiny_backbone: str, tmp_path: Path, engine: Engine) -> None:
    raw = Pretrained(tiny_backbone, files(tmp_path))
    for node, named in (
        (FineTune(raw, data="id+ood"), "OOD training data"),
        (BiasModel(files(tmp_path, shortcut="unknown")), "shortcut"),
        (BiasSpec("unknown", examples=2).node(raw.task, tiny_backbone), "'mine' has 2"),
        (Evaluate(raw, ("test",)), "'test'"),
    ):
        with refused(named):
            engine.plan([node])
    assert not engine.store.root.exists()


def test_the_embedded_tasks_have_groups_in_train() -> None:
    for name in ("inference", "paraphrase", "verification"):
        groups = SyntheticTask(name, train_size=300, dev_size=5, ood_size=5).load().train.groups
        assert {"cue right", "cue wrong"} <= {group.partition(" > ")[0] for group in groups}
