"""Precisions of training and evaluation: what a device lacks is refused, and a scaled loss trains the same masks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from methods import TRAINING

from srnet.training import hardware
from srnet.training.method import Method, Snapshot
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import train

SETTINGS = TrainingSettings(learning_rate=1e-2, steps=12, eval_every=6, batch_size=8)


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> list[torch.amp.GradScaler]:
    """fp16 as on a GPU: the loss is scaled and gradients are unscaled. The layers compute in float32.

    Scales are powers of two, so that the result is that of float32. The scalers that were made.
    """
    made: list[torch.amp.GradScaler] = []
    real = accelerate.Accelerator.__init__

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        if self.state.mixed_precision == "fp16":
            self.native_amp, self.scaler = True, torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=4)
            made.append(self.scaler)

    monkeypatch.setattr(accelerate.Accelerator, "__init__", start)
    monkeypatch.setattr(
        accelerate.accelerator,
        "get_mixed_precision_context_manager",
        lambda *given: torch.autocast("cpu", enabled=False),
    )
    monkeypatch.setattr(hardware, "check_precision", lambda precision: None)
    return made


def method_of(name: str) -> Method:
    pruner = TRAINING[name].shared_run() if name.startswith("imp") else TRAINING[name]
    return pruner.method(fine_tuned=True, eval_every=6)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("name", TRAINING)
def test_a_scaled_loss_finds_the_same_model(
    name: str, parts: int, scaled: list[torch.amp.GradScaler], make_run: Any, tmp_path: Path
) -> None:
    """The penalty is scaled with the loss: it would weigh a thousandth otherwise."""
    found: list[Snapshot] = []
    for precision in ("float32", "fp16"):
        settings = replace(SETTINGS, precision=precision, accumulate=parts)  # type: ignore[arg-type]
        found.append(train(make_run(method_of(name), tmp_path / precision, settings=settings)).snapshot)
    assert len(scaled) == 1 and scaled[0].get_scale() > 2.0**10, "it was used, and has grown"
    assert found[0].keys() == found[1].keys()
    for each in found[0]:
        torch.testing.assert_close(found[1][each], found[0][each], rtol=0.0, atol=1e-6, msg=each)
