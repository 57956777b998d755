"""A store that the tests of this folder share: what one of them computed, the next one only reads."""

from __future__ import annotations

import pytest

from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import ModelNode, Pretrained
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.store import Store
from srnet.models.subnetwork import Subnetwork
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("shared") / "store")


class Shared:
    """Executes a node in the shared store and reads it back."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __call__(self, node: ModelNode) -> Subnetwork:
        Engine(self.store, Reporter(quiet=True)).execute([node])
        return Subnetwork.load(self.store.path(node.key))


@pytest.fixture
def made(shared_store: Store) -> Shared:
    return Shared(shared_store)


@pytest.fixture
def tuned(raw: Pretrained, tiny_training: TrainingSettings) -> FineTune:
    return FineTune(raw, training=tiny_training)


@pytest.fixture
def bias(tiny_task: SyntheticTask) -> BiasModel:
    return BiasModel(tiny_task)
