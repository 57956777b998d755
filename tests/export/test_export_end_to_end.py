"""From a key of the store to folders that a fresh process loads elsewhere, on the command line."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gpus import Simulated
from refusals import refused
from small_models import random_units, unit_mask
from torch import nn
from transformers import AutoTokenizer

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.store import read_logits
from srnet.masks.mask import Mask
from srnet.models.backbones import load_backbone
from srnet.models.formats.card import scores_of_folder
from srnet.models.open import open_classifier
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.base import PRUNERS, Batches, Pruner, register
from srnet.tasks.synthetic import SyntheticTask
from srnet.timing.pace import Pace
from srnet.training.data import encode
from srnet.training.settings import TrainingSettings

ROOT = Path(__file__).parents[2]
LOAD = """
import sys
sys.modules["srnet"] = None  # importing it would fail
import numpy as np, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
torch.set_num_threads(1)
ids, *folders = sys.argv[1:]
with np.load(ids) as file:
    batch = {name: torch.from_numpy(file[name]) for name in file.files}
def save(name, model):
    with torch.no_grad():
        np.save(f"{name}.npy", model.eval()(**batch).logits.numpy())
for folder in folders:
    if folder.endswith(("merged", "uniform")):
        model = AutoModelForSequenceClassification.from_pretrained(folder)
        assert type(model).__module__.startswith("transformers."), type(model)
        assert AutoTokenizer.from_pretrained(folder)("the lawyer saw the doctor")["input_ids"]
        save(f"{folder}, plain", model)
del sys.modules["srnet"]
import srnet
for folder in folders:
    save(folder, srnet.load_subnetwork(folder))
"""
"""Those that need transformers alone without srnet, then all."""


@pytest.fixture
def key(engine: Engine, tiny_backbone: str, tiny_task: SyntheticTask) -> object:
    """A model of the store without some of its heads and neurons."""

    @register
    @dataclass(frozen=True)
    class RandomUnits(Pruner):
        """Removes random units."""

        name: ClassVar[str] = "random-units"
        trains: ClassVar[bool] = False

        def mask(self, model: nn.Module, batches: Batches = ()) -> Mask:
            return unit_mask(model, random_units(model, self.sparsity, seed=2))

    node = Prune(Pretrained(tiny_backbone, tiny_task, 0), RandomUnits(0.5))
    engine.execute([node, Evaluate(node)])
    yield node
    del PRUNERS["random-units"]


def run(code: str, *words: object, cwd: Path) -> str:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_float_graph_scores_as_the_model_does(key: Prune, engine: Engine, tmp_path: Path) -> None:
    srnet.export_model(key.key, tmp_path / "onnx", format="onnx", engine=engine)
    assert srnet.evaluate(tmp_path / "onnx", task=key.task_spec).scores == srnet.evaluate(key.key, engine=engine).scores
    with refused("not_entailment", "not_duplicate"):
        srnet.evaluate(tmp_path / "onnx", task=SyntheticTask("paraphrase", train_size=60, dev_size=12, ood_size=12))


def test_an_exported_model_is_scored_on_the_gpu(
    key: Prune, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = srnet.export_model(key.key, tmp_path / "merged", format="merged", engine=engine)
    Simulated(monkeypatch, 1)
    moved: list[Any] = []

    def to(model: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        moved.extend(args)
        return model

    monkeypatch.setattr(nn.Module, "to", to)
    srnet.evaluate(folder, task=key.task_spec, engine=engine)
    assert set(moved) == {torch.device("cuda")}


def test_every_format_is_audited_as_the_model_of_the_store(key: Prune, engine: Engine, tmp_path: Path) -> None:
    short = Prune(FineTune(key.pretrained, training=TrainingSettings(steps=1, max_length=16)), key.pruner)
    engine.execute([short])
    options = {"merged": {}, "subnetwork": {}, "shrunk": {}, "uniform": {"uniform": True}, "onnx": {}}
    texts = ["the doctor slept " * 10, "the pilot"], ["the doctor", "slept " * 30]  # both are cut
    expected = open_classifier(short.key, engine.models).logits(*texts)
    for name, more in options.items():
        format = "shrunk" if name == "uniform" else name
        srnet.export_model(short.key, tmp_path / name, format=format, engine=engine, **more)
        found = open_classifier(tmp_path / name).logits(*texts)
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=name)
    for name in ("merged", "shrunk", "onnx"):  # from the folder, which says where texts are cut
        srnet.export_model(tmp_path / "subnetwork", tmp_path / f"{name} again", format=name, engine=engine)
        found = open_classifier(tmp_path / f"{name} again").logits(*texts)
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=f"{name} again")
    with refused("merged"):
        srnet.export_model(tmp_path / "merged", tmp_path / "new", format="onnx", engine=engine)
    for name in ("merged", "shrunk", "shrunk again"):
        assert AutoTokenizer.from_pretrained(tmp_path / name).model_max_length == 16
    for name in ("onnx", "shrunk", "merged"):
        with (tmp_path / name / "tokenizer.json").open("ab") as altered:
            altered.write(b" ")
        with refused("tokenizer.json"):
            open_classifier(tmp_path / name)


def test_exports_are_compared_with_full_models_over_seeds(
    key: Prune,
    engine: Engine,
    tiny_backbone: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Models against themselves: no difference, and with fewer than three seeds no verdict."""
    other = Prune(Pretrained(tiny_backbone, key.task_spec, 1), key.pruner)
    engine.execute([other])
    for node in (key, other):
        srnet.export_model(node.key, tmp_path / node.key, format="merged", engine=engine)

    def compare(*keys: str) -> None:
        pairs = [f"{each}={next(tmp_path.glob(f'{each}*'))}" for each in keys]
        monkeypatch.setattr("sys.argv", ["compare_exports.py", "--store", str(engine.store.root), *pairs])
        runpy.run_path(str(ROOT / "examples" / "compare_exports.py"), run_name="__main__")

    compare(key.key, other.key)
    *splits, last = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in splits] == ["ID dev", "OOD challenge"]
    assert all(line.endswith("; +0.0 [+0.0, +0.0]") for line in splits), splits
    assert last.startswith("Sparse and robust: 2 seeds: no verdict: keeps 100.0 % of ID")
    with pytest.raises(SystemExit, match="given twice"):
        compare(key.key, key.key[:10])


def test_every_format_gives_the_logits_of_the_store(key: Prune, engine: Engine, tmp_path: Path) -> None:
    out, said = tmp_path / "out", []
    options = {"merged": {}, "subnetwork": {}, "shrunk": {}, "uniform": {"uniform": True}, "onnx": {"int8": True}}
    for name, more in options.items():
        format = "shrunk" if name == "uniform" else name
        srnet.export_model(key.key, out / name, format=format, engine=engine, say=said.append, **more)
    assert any(line.startswith("int8, inference challenge (OOD), accuracy: ") for line in said)
    base = load_backbone(Subnetwork.load(engine.store.path(key.key)).backbone, ("0", "1"), 0)
    dev = load_task(key.task_spec).dev
    batch = encode(dev, base.tokenizer, base.max_length(128)).collate(range(len(dev)))
    np.savez(tmp_path / "ids.npz", **{name: each.numpy() for name, each in batch.items() if name != "labels"})
    expected_scores = srnet.evaluate(key.key, engine=engine).scores
    for name in options:
        again = srnet.evaluate(out / name, task=key.task_spec)
        assert set(again.scores) == set(expected_scores)
        assert again.sparsity == pytest.approx(Subnetwork.load(engine.store.path(key.key)).sparsity)
        if name != "onnx":  # which has 8 bits
            assert again.scores == expected_scores
    rounded = {f"inference {name}": each["metrics"]["accuracy"] for name, each in again.scores.items()}
    known = {name.split(" (")[0]: score for name, score in scores_of_folder(out / "onnx").items()}
    assert known == pytest.approx(rounded, abs=1e-3), "those of the graph"
    pace = Pace(rounds=2, lengths=(8,), batch=1, memory=False)
    names = [each.name for each in srnet.speed(key.key[:8], str(out / "shrunk"), pace=pace, engine=engine)]
    assert names == [key.key[:8], "shrunk"]
    engine.store.root.rename(tmp_path / "gone")  # the folders need no store
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folders = [out / name for name in options if name != "onnx"]
    run(LOAD, tmp_path / "ids.npz", *folders, cwd=elsewhere)
    engine.store.root.parent.joinpath("gone").rename(engine.store.root)
    expected = read_logits(engine.store, Evaluate(key).key)[dev.name]
    for name in (*(name for name in options if name != "onnx"), "merged, plain", "uniform, plain"):
        np.testing.assert_allclose(np.load(out / f"{name}.npy"), expected, rtol=0, atol=1e-5, err_msg=name)
    for name in options:
        assert "| challenge | OOD |" in (out / name / "README.md").read_text()
