"""Every stored expression can be built again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from methods import METHODS
from refusals import refused

from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import Node, load_task
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, Pretrained, Quantised, Rewind
from srnet.experiment.nodes.objectives import CE, ConfReg, Distilled, PoE, Reweight
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.rebuild import _stored_node, rebuild, stored_model
from srnet.masks.targets import Targets
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.files import FilesTask
from srnet.tasks.sources import DataFile
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings


@pytest.fixture
def nodes(raw: Pretrained, tiny_task: SyntheticTask, tiny_backbone: str, tmp_path: Path) -> list[Node]:
    bias = BiasModel(tiny_task, "overlap", tiny_backbone, folds=3)
    tuned = FineTune(raw, CE(), TrainingSettings(steps=7, learning_rate=1e-3))
    masked = Prune(tuned, MaskTraining(0.9, "soft", 0.7, targets=Targets(("query", "key"), "classifier")), PoE(bias))
    imp = Prune(raw, IMP(0.3, scope="global"), Reweight(bias))
    assert imp.levels is not None
    rows = "text_a,text_b,label\na,b,yes\nb,b,no\n"
    for name in ("train", "dev", "ood"):
        (tmp_path / f"{name}.csv").write_text(rows)
    own = FilesTask(
        "mine",
        ("no", "yes"),
        str(tmp_path / "train.csv"),
        str(tmp_path / "dev.csv"),
        (("o", DataFile(str(tmp_path / "ood.csv"), group=("label", "text_b"), spellings=(("oui", "yes"),))),),
        leaks="keep",
    )
    return [
        raw,
        bias,
        tuned,
        masked,
        imp,
        imp.levels,
        Prune(raw, RewoundIMP(0.5)),
        Prune(tuned, OneShot(0.25)),
        Quantised(tuned),
        FineTune(raw, training=TrainingSettings(steps=3, update="head")),
        FineTune(Rewind(masked, raw), ConfReg(bias, tuned)),
        Evaluate(masked),
        Evaluate(tuned, ("train", "dev")),
        Pretrained(tiny_backbone, own),
        Pretrained(tiny_backbone, tiny_task, words=("the", "who")),
        FineTune(raw, Distilled(CE(), tuned, share=0.3, temperature=4.0)),
        *(Prune(raw, pruner, training=TrainingSettings(steps=20)) for pruner in METHODS.values()),
        Prune(raw, training=TrainingSettings(steps=20, score_rate=0.1)),
    ]


def test_rebuild_inverts_describe(nodes: list[Node]) -> None:
    for node in nodes:
        again = rebuild(json.loads(json.dumps(describe(node))))
        assert again == node
        assert again.key == node.key


def test_only_known_types_are_built() -> None:
    with refused("'Popen'"):
        rebuild({"type": "Popen", "args": "true"})
    with refused("type"):
        rebuild({"name": "ce"})


def test_from_a_key(engine: Engine, raw: Pretrained, tiny_task: SyntheticTask) -> None:
    bias = BiasModel(tiny_task)
    engine.execute([raw, bias])
    assert _stored_node(engine.store, bias.key) == bias
    assert stored_model(engine.store, raw.key[:8]) == raw
    with refused(bias.key, "BiasModel"):
        stored_model(engine.store, bias.key)


def test_a_key_whose_data_changed_is_refused(engine: Engine, tiny_backbone: str, tmp_path: Path) -> None:
    rows = "text_a,text_b,label\na,b,yes\nb,b,no\n"
    (tmp_path / "d.csv").write_text(rows)
    path = str(tmp_path / "d.csv")
    node = Pretrained(tiny_backbone, FilesTask("mine", ("no", "yes"), path, path, leaks="keep"))
    engine.execute([node])
    load_task.cache_clear()
    (tmp_path / "d.csv").write_text(rows + "c,b,no\n")
    with refused(node.key, "data"):
        _stored_node(engine.store, node.key)
    load_task.cache_clear()
