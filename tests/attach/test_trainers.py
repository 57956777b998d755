"""Masks under loops that others wrote: `transformers.Trainer`, and accelerate with two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
import transformers as hf
from looped import made
from methods import STEERED, TRAINING
from refusals import refused
from trainer_script import Rows, arguments, main

import srnet

HERE = Path(__file__).parent
KILLED = ("mask", "smp-s", "movement", "l0", "imp")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of scripts that were killed after step 13; each has a checkpoint of step 10."""
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run([sys.executable, HERE / "trainer_script.py", folder, *KILLED], check=True, env=ENVIRONMENT)
    return folder


@pytest.mark.parametrize("method", KILLED)
def test_a_killed_trainer_resumes_to_the_same_result(method: str, killed: Path, tmp_path: Path) -> None:
    assert [path.name for path in (killed / method).iterdir()] == ["checkpoint-10"]
    undisturbed, _ = main(method, tmp_path / "whole")
    resumed, trainer = main(method, killed / method, resume=True)
    assert trainer.state.global_step == resumed.done == undisturbed.done
    assert resumed.mask == undisturbed.mask
    assert method in STEERED or resumed.sparsity == pytest.approx(0.5, abs=0.01)
    for (name, one), other in zip(
        undisturbed.model.state_dict().items(), resumed.model.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other), name


@pytest.mark.parametrize("method", TRAINING)
def test_the_callback_does_what_a_loop_does(method: str, tmp_path: Path) -> None:
    """The same batches by hand: without clipping and schedule the results are equal up to the order of sums."""
    torch.manual_seed(3)
    changes = {"max_grad_norm": 0.0, "lr_scheduler_type": "constant", "gradient_accumulation_steps": 1}
    model = made("bert")
    pruning = srnet.attach(model, TRAINING[method], steps=20)
    order: list[Any] = []

    class Watching(hf.Trainer):  # type: ignore[misc]
        def training_step(self, model: Any, inputs: Any, *args: Any) -> Any:
            order.append({name: tensor.clone() for name, tensor in inputs.items()})
            return super().training_step(model, inputs, *args)

    optimizers = (torch.optim.SGD(pruning.parameters(lr=0.05, score_lr=0.5)), None)
    trainer = Watching(
        model,
        arguments(tmp_path, **changes),
        train_dataset=Rows(),
        callbacks=[pruning.callback()],
        optimizers=optimizers,
    )
    torch.manual_seed(9)
    trainer.train()

    other = made("bert")
    own = srnet.attach(other, TRAINING[method], steps=20)
    optimizer = torch.optim.SGD(own.parameters(lr=0.05, score_lr=0.5))
    torch.manual_seed(3)
    for inputs in order:
        (other(**inputs).loss + own.penalty()).backward()
        optimizer.step()
        own.step()
        optimizer.zero_grad()
    assert own.done == pruning.done == len(order)
    if method != "l0":  # its noise comes from the same generator as the Trainer's order of rows
        changed = sum(int((own.mask[name] != pruning.mask[name]).sum()) for name in own.mask)
        assert changed <= 0.01 * own.mask.total
    assert any("mask/sparsity" in entry for entry in trainer.state.log_history)


def test_what_a_trainer_cannot_do_is_said_before_the_first_step(tmp_path: Path) -> None:
    def train(steps: int = 20, optimizers: Any = (None, None), **changes: Any) -> None:
        model = made("bert")
        before = torch.optim.AdamW(model.parameters()) if optimizers == "old" else None
        pruning = srnet.attach(model, srnet.MaskTraining(0.5), steps=steps)
        given = (before, None) if before is not None else optimizers
        hf.Trainer(
            model, arguments(tmp_path, **changes), train_dataset=Rows(), callbacks=[pruning.callback()],
            optimizers=given,
        ).train()  # fmt: skip

    with refused("takes 20 steps", "steps=20"):
        train(steps=30)
    main("movement", tmp_path / "other", save_steps=10)
    with refused("of another pruner", "attach as in that run"):
        main("soft-movement", tmp_path / "other", resume=True)
    with refused("weight decay", "weight_decay=0"):
        train(weight_decay=0.1)
    with refused("does not train the scores", "pruning.parameters()"):
        train(optimizers="old")


def test_a_scaled_loss_has_a_scaled_penalty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fp16 as on a GPU, but that the layers compute in float32: scales are powers of two, so the result is the same."""
    real = accelerate.Accelerator.__init__
    used: list[torch.amp.GradScaler] = []

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        if self.state.mixed_precision == "fp16":
            self.native_amp, self.scaler = True, torch.amp.GradScaler("cpu", init_scale=2.0**10)
            used.append(self.scaler)

    monkeypatch.setattr(accelerate.Accelerator, "__init__", start)
    off = torch.autocast("cpu", enabled=False)
    monkeypatch.setattr(accelerate.accelerator, "get_mixed_precision_context_manager", lambda *given: off)
    for method in ("smp-l", "soft-movement"):
        plain, _ = main(method, tmp_path / f"{method} plain")
        scaled, _ = main(method, tmp_path / method, fp16=True)
        for one, other in zip(plain.scores(), scaled.scores(), strict=True):
            assert one.detach().abs().max() > 1e-3
            torch.testing.assert_close(other, one, rtol=0.0, atol=1e-6)
    assert [each.get_scale() for each in used] == [2.0**10] * 2


METHODS = ("mask", "smp-l", "movement", "imp")


def test_two_processes_with_accumulation_find_one_mask(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run(
        [*command, HERE / "accelerate_script.py", tmp_path, *METHODS],
        check=True,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=600,
    )
    for method in METHODS:
        one, two = (srnet.Mask.from_bytes((tmp_path / f"{method}-{rank}").read_bytes()) for rank in (0, 1))
        assert one == two
        assert one.sparsity == pytest.approx(0.5, abs=0.01)
