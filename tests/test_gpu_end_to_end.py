"""From a training to its exports and its audit on a machine with a GPU, which is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import Shell
from small_models import LABELS, batch, logits, pruned, tiny

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.store import Store
from srnet.models.bank import MaskBank
from srnet.models.open import open_classifier
from srnet.tasks.synthetic import SyntheticTask
from tests.devices import counted_device, second_device
from tests.methods import TRAINING

EXPORTS: dict[str, dict[str, Any]] = {
    "subnetwork": {}, "merged": {}, "shrunk": {}, "uniform": {"format": "shrunk", "uniform": True}, "onnx": {},
}  # fmt: skip


def test_from_a_training_to_every_export_and_an_audit(shell: Shell) -> None:
    split = SyntheticTask("inference", train_size=100, dev_size=50, ood_size=50).load().dev
    engine, folders = Engine(Store(shell.store)), {}

    def export(name: str) -> None:
        options = {"format": name, **EXPORTS[name]}
        folders[name] = srnet.export_model(small, shell.folder / name, engine=engine, **options)

    def logits_of(folder: Path) -> np.ndarray:
        return open_classifier(str(folder)).logits(split.text_a, split.text_b)

    with counted_device() as (_, counts):
        full = shell.finetune("--json", "--quiet").json["key"]
        masked = ("--granularity", "head,neuron", "--steps", 10, "--json", "--quiet")
        small = shell("prune", full, "--pruner", "mask", *masked).json["key"]
        calibrated = shell("prune", full, "--pruner", "wanda", "--json", "--quiet").json["key"]
        assert counts.operations["aten.gelu.default"] > 0, "the model ran there"
        for name in EXPORTS.keys() - {"onnx"}:
            export(name)
    export("onnx")  # its tracer does not work while something else, as this device does, looks at every operation
    with second_device():
        there = {name: logits_of(folder) for name, folder in folders.items()}
        for other in (small, calibrated):
            done = shell("audit", full, other, "--task", shell.task, "--quiet")
            assert done.code == 0, done.err
    for name, folder in folders.items():
        np.testing.assert_allclose(there[name], logits_of(folder), atol=1e-5, err_msg=name)


def test_a_bank_answers_as_without_a_gpu(tiny_backbone: str, tmp_path: Path) -> None:
    pruned(tiny_backbone).save_coded(tmp_path / "task")
    expected = logits(srnet.load_subnetwork(tmp_path / "task"))
    with second_device():
        bank = MaskBank(tiny_backbone)
        bank.add("task", tmp_path / "task")
        model = bank.use("task")
        device = next(model.parameters()).device
        with torch.no_grad():
            found = model(**{name: each.to(device) for name, each in batch().items()}).logits.cpu()
    assert found.shape == (3, len(LABELS))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", TRAINING)
def test_a_loop_of_ones_own(name: str, tmp_path: Path) -> None:
    """A model that is already there gets masks, trains, resumes to the bit, and is baked and saved."""
    pruner = TRAINING[name]
    with second_device() as device:
        inputs = {key: each.to(device) for key, each in batch().items()}
        labels = torch.tensor([0, 1, 2], device=device)

        def started(seed: int) -> tuple[Any, Any, Any]:
            model = tiny("bert", seed).to(device).train()
            pruning = srnet.attach(model, pruner, steps=10)
            return model, pruning, torch.optim.AdamW(pruning.parameters(lr=1e-2, score_lr=1e-2))

        def train(model: Any, pruning: Any, optimizer: Any, steps: int) -> None:
            for _ in range(steps):
                (srnet.losses.ce(model(**inputs).logits, labels) + pruning.penalty()).backward()
                optimizer.step()
                pruning.step()
                optimizer.zero_grad()

        model, pruning, optimizer = started(0)
        train(model, pruning, optimizer, 5)
        saved = {key: each.clone() for key, each in pruning.state_dict().items()}
        weights = {key: each.clone() for key, each in model.state_dict().items()}
        steps, random = optimizer.state_dict(), torch.cuda.get_rng_state()
        steps = {**steps, "state": {n: {k: v.clone() for k, v in s.items()} for n, s in steps["state"].items()}}
        train(model, pruning, optimizer, 5)

        again, resumed, other = started(0)
        again.load_state_dict(weights)
        resumed.load_state_dict(saved)
        other.load_state_dict(steps)
        torch.cuda.set_rng_state(random)
        train(again, resumed, other, 5)
        assert pruning.mask == resumed.mask
        for key, each in model.state_dict().items():
            assert torch.equal(each.cpu(), again.state_dict()[key].cpu()), key
        pruning.save(tmp_path / "found")
        mask = pruning.mask
        baked = pruning.bake()
        assert {each.device for each in baked.parameters()} == {device}
    assert srnet.load_mask(tiny("bert"), tmp_path / "found") == mask
