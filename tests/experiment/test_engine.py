"""The engine: what the store has is never computed again, what is damaged is, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from srnet.core.progress import Reporter
from srnet.experiment.compute import compute
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.objectives import ConfReg, PoE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.store import Store
from srnet.pruners.imp import IMP
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.training.settings import TrainingSettings


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Every node that is computed from now on, in order."""
    nodes: list[Node] = []

    def spy(node: Node, *args: Any) -> None:
        compute(node, *args)
        nodes.append(node)

    monkeypatch.setattr("srnet.experiment.compute.compute", spy)
    return nodes


def restarted(engine: Engine) -> Engine:
    return Engine(Store(engine.store.root), Reporter(quiet=True))


def test_the_plan_shares_nodes_and_puts_parents_first(tuned: FineTune, bias: BiasModel, engine: Engine) -> None:
    levels = [Prune(tuned, IMP(level), PoE(bias)) for level in (0.1, 0.5, 0.9)]
    masked = [Prune(tuned, MaskTraining(s), PoE(bias)) for s in (0.5, 0.7)]
    plan = engine.plan([Evaluate(node) for node in (tuned, *levels, *masked)])
    kinds = [type(node).__name__ for node in plan]
    assert len({node.key for node in plan}) == len(plan)
    assert [kinds.count(kind) for kind in ("Pretrained", "FineTune", "BiasModel", "PruneRun")] == [1, 1, 1, 1]
    assert (kinds.count("Prune"), kinds.count("Evaluate")) == (5, 6)
    seen: set[str] = set()
    for node in plan:
        assert all(parent.key in seen for parent in node.parents), node.label
        seen.add(node.key)
    assert not engine.store.root.exists(), "planning computes nothing"


def test_the_second_time_nothing_is_computed(raw: Pretrained, engine: Engine, computed: list[Node]) -> None:
    nodes = [Evaluate(Prune(raw, OneShot(s))) for s in (0.3, 0.6)]
    engine.execute(nodes)
    assert len(computed) == 5
    restarted(engine).execute(nodes)
    engine.execute([raw])
    assert len(computed) == 5


def test_damage_is_named_and_only_it_is_computed_again(
    raw: Pretrained, engine: Engine, computed: list[Node], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [Prune(raw, OneShot(s)) for s in (0.3, 0.6)]
    engine.execute(nodes)
    path = engine.store.path(nodes[0].key) / "mask.bits"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 128]))
    others = {key: (engine.store.path(key) / "manifest.json").stat().st_mtime_ns for key in (raw.key, nodes[1].key)}
    computed.clear()
    capsys.readouterr()
    restarted(engine).execute(nodes)
    warning = capsys.readouterr().err
    assert computed == [nodes[0]]
    assert warning.startswith("warning: ")
    assert nodes[0].key in warning
    assert str(path) in warning
    assert path.read_bytes() == good
    assert others == {key: (engine.store.path(key) / "manifest.json").stat().st_mtime_ns for key in others}
    assert engine.store.verify() == {}


def test_a_damaged_parent_is_computed_again_when_needed(raw: Pretrained, engine: Engine, computed: list[Node]) -> None:
    engine.execute([raw])
    (engine.store.path(raw.key) / "weights.safetensors").write_bytes(b"")
    computed.clear()
    node = Prune(raw, OneShot(0.5))
    restarted(engine).execute([node])
    assert computed == [raw, node]


def test_an_error_keeps_what_was_done(
    raw: Pretrained, tuned: FineTune, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("srnet.experiment.compute.train", lambda run: (_ for _ in ()).throw(RuntimeError("boom")))
        with pytest.raises(RuntimeError, match="boom"):
            engine.execute([tuned])
    assert engine.store.keys() == [raw.key]
    assert engine.store.verify() == {}


def test_the_teacher_is_asked_once(
    raw: Pretrained,
    tuned: FineTune,
    bias: BiasModel,
    tiny_training: TrainingSettings,
    engine: Engine,
    computed: list[Node],
) -> None:
    students = [
        FineTune(raw, ConfReg(bias, tuned), tiny_training),
        Prune(tuned, MaskTraining(0.5), ConfReg(bias, tuned), tiny_training),
    ]
    engine.execute(students)
    assert computed.count(Evaluate(tuned, ("train",))) == 1
    assert len(computed) == 6  # raw, tuned, bias, the teacher's predictions, two students


def test_same_seed_same_mask(tuned: FineTune, bias: BiasModel, tiny_training: TrainingSettings, tmp_path: Path) -> None:
    fast = replace(tiny_training, learning_rate=1e-2)
    nodes = [Prune(tuned, pruner, PoE(bias), fast) for pruner in (MaskTraining(0.7), IMP(0.7))]
    masks = []
    for name in ("one", "two"):
        store = Store(tmp_path / name)
        Engine(store, Reporter(quiet=True)).execute(nodes)
        masks.append([(store.path(node.key) / "mask.bits").read_bytes() for node in nodes])
    assert masks[0] == masks[1]
    assert masks[0][0] != masks[0][1]


def test_pruning_twice_is_refused(raw: Pretrained, engine: Engine) -> None:
    pruned = Prune(raw, OneShot(0.5))
    with refused(pruned.label):
        engine.execute([Prune(pruned, OneShot(0.7))])
