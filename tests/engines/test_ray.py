"""Ray computes what one process computes, bit for bit, and a worker that is killed continues where it was."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import PROGRESS, Observed, environment, files

from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import every_node
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained
from srnet.experiment.nodes.objectives import PoE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.ray import _import_ray
from srnet.experiment.store import Store
from srnet.pruners.imp import IMP
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

pytest.importorskip("ray")
ray = _import_ray()

TASK = SyntheticTask("inference", train_size=120, dev_size=40, ood_size=40)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Ray is started once for this file; the engine finds it and leaves it running. Its workers are observed."""
    observed = Observed(tmp_path_factory.mktemp("ray") / "observed")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(observed.folder).items():
            patch.setenv(name, value)
        ray.init(address="local", num_cpus=2, object_store_memory=80_000_000, include_dashboard=False,
                 log_to_driver=False, logging_level="ERROR")  # fmt: skip
    yield observed
    ray.shutdown()


def models(backbone: str, seed: int) -> list[ModelNode]:
    """Four trainings."""
    training = TrainingSettings(learning_rate=1e-2, steps=20, eval_every=5, batch_size=8, seed=seed)
    tuned = FineTune(Pretrained(backbone, TASK, seed), training=training)
    bias = BiasModel(TASK)
    masks = [Prune(tuned, MaskTraining(0.5), objective, training) for objective in (PoE(bias), tuned.objective)]
    return [tuned, *masks, Prune(tuned, IMP(0.5), PoE(bias), training)]


def compute(root: Path, nodes: list[ModelNode], name: str) -> Store:
    store = Store(root)
    engine = Engine(store, Reporter(), name=name, workers=2 if name == "ray" else None)
    engine.execute([*nodes, *(Evaluate(node) for node in nodes)])
    return store


@pytest.fixture(scope="module")
def by_one_process(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made: dict[int, Store] = {}

    def local(seed: int) -> Store:
        if seed not in made:
            made[seed] = compute(tmp_path_factory.mktemp("local") / "store", models(tiny_backbone, seed), "local")
        return made[seed]

    return local


def test_a_start_of_ray_does_not_wait_for_workers(observed: Observed) -> None:
    """It would wait forever for one that is killed."""
    if observed.begun():
        pytest.skip("other tests have had workers started")
    names = [" ".join(each.cmdline()[:2]).strip() for each in psutil.Process().children(recursive=True)]
    assert "ray::DashboardAgent" in names
    assert not [name for name in names if name == "ray::IDLE" or name.endswith("default_worker.py")]


def test_ray_computes_what_one_process_does(
    observed: Observed, by_one_process: Any, tiny_backbone: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = by_one_process(0)
    observed.forget()
    capfd.readouterr()
    store = compute(tmp_path / "store", models(tiny_backbone, 0), "ray")
    head, *lines = capfd.readouterr().err.splitlines()
    assert store.keys() == expected.keys() == sorted(observed.begun()), "each node was computed once"
    assert len({each["pid"] for each in observed.log} - {os.getpid()}) >= 2, "by several processes"
    assert os.getpid() not in {each["pid"] for each in observed.log}
    assert files(store.root) == files(expected.root)
    assert store.verify() == {}
    assert len(lines) == len(store.keys()), lines
    assert head.startswith("head of ")
    assert all(line.startswith("[") for line in lines), "Ray itself has nothing to say"
    assert ray.is_initialized(), "whoever started Ray ends it"


def test_a_killed_ray_worker_continues_where_it_was(
    observed: Observed, by_one_process: Any, tiny_backbone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, nodes = by_one_process(1), models(tiny_backbone, 1)
    label = nodes[1].label
    observed.forget()
    observed.order("hold", label, step=7)
    killed: list[str] = []

    def kill() -> None:
        victim = psutil.Process(observed.held(label))
        killed.extend(victim.cmdline()[:1])
        victim.send_signal(signal.SIGKILL)
        observed.release()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    store = compute(tmp_path / "store", nodes, "ray")
    killer.join()
    assert killed == ["ray::_compute"]
    warned = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(PROGRESS)]
    # on a machine that is short of memory Ray may end other workers, too; then there is a warning for each
    every = every_node([*nodes, *(Evaluate(node) for node in nodes)])
    retrying = "warning: the worker of {} died; retrying from its last checkpoint"
    labels = {retrying.format(node.label): node.label for node in every.values()}
    assert set(warned) <= labels.keys()
    died = Counter(labels[line] for line in warned)
    assert died[label] >= 1
    first, second, *_ = runs = observed.steps(label)
    assert first == list(range(1, 8))
    assert second[0] == 6, "it continued behind its checkpoint"
    assert runs[-1][-1] == 20
    begun = Counter(observed.begun())
    assert sorted(begun) == store.keys()
    assert {key: count for key, count in begun.items() if count > 1 + died[every[key].label]} == {}
    assert begun[nodes[1].key] == 1 + died[label]
    assert files(store.root) == files(expected.root)
    assert store.verify() == {}
