"""One training run on a tiny model, made again and again from the same start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srnet.models.backbones import load_backbone
from srnet.objectives.base import OBJECTIVES
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import encode
from srnet.training.method import Method
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Run

MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tiny_backbone: str, tiny_task: SyntheticTask, tiny_training: TrainingSettings) -> MakeRun:
    """A run with a fresh model; whatever is given replaces the default."""
    task = tiny_task.load()

    def make(method: Method, folder: Path, **changes: Any) -> Run:
        base = load_backbone(tiny_backbone, task.labels, seed=0)
        for module in base.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.1  # whatever the backbone says: random numbers must be in play
        defaults: dict[str, Any] = {
            "loss": OBJECTIVES["ce"].make({}),
            "settings": tiny_training,
            "train": encode(task.train, base.tokenizer, 64),
            "dev": encode(task.dev, base.tokenizer, 64),
            "score": lambda logits: 100.0 * float(np.mean(logits.argmax(axis=1) == task.dev.labels)),
        }
        return Run(model=base.model, method=method, folder=folder, **{**defaults, **changes})

    return make
