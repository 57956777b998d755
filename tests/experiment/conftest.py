"""A store that the tests of this folder share: what one of them computed, the next one only reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import ModelNode, Pretrained
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.store import Store
from srnet.models.subnetwork import Subnetwork
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Run, train


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("shared") / "store")


class Shared:
    """Executes a node in the shared store and reads it back."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __call__(self, node: ModelNode) -> Subnetwork:
        self.execute(node)
        return Subnetwork.load(self.store.path(node.key))

    def execute(self, node: Node) -> None:
        Engine(self.store, Reporter(quiet=True)).execute([node])

    def record(self, node: ModelNode) -> dict[str, Any]:
        """What the training of the node recorded."""
        self.execute(node)
        return json.loads((self.store.path(node.key) / "training.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture
def made(shared_store: Store) -> Shared:
    return Shared(shared_store)


@pytest.fixture
def tuned(raw: Pretrained, tiny_training: TrainingSettings) -> FineTune:
    return FineTune(raw, training=tiny_training)


@pytest.fixture
def bias(tiny_task: SyntheticTask) -> BiasModel:
    return BiasModel(tiny_task)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Every training that is requested from now on; they take place."""
    seen: list[Run] = []
    monkeypatch.setattr("srnet.experiment.compute.train", lambda run: seen.append(run) or train(run))  # type: ignore[func-returns-value]
    return seen
