"""With the CPU switch everything runs on the CPU of a machine with a GPU: training, calibration, prediction, audit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpus import Simulated

from srnet.experiment.engine import Engine
from srnet.experiment.estimate import _measure_step, estimate
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.models.open import open_classifier
from srnet.pruners.wanda import Wanda


def test_a_gpu_that_is_turned_off_is_left_alone(
    raw: Pretrained, engine: Engine, tiny_training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Simulated(monkeypatch, 1)  # any use of it would fail, since there is none
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    tuned = FineTune(raw, training=tiny_training)
    pruned = Prune(tuned, Wanda(0.5, calibration=8))
    engine.execute([Evaluate(tuned), Evaluate(pruned)])
    assert json.loads((engine.store.path(tuned.key) / "training.json").read_text())["device"] == "cpu"
    assert estimate([tuned], engine.store).stored == 1
    assert _measure_step(raw, tiny_training) > 0.0
    assert len(open_classifier(pruned.key, engine.models).logits(["a"], ["b"])) == 1
    assert gpu.waits == 0
