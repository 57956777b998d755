"""Two processes that share a training come to what one process comes to with the same batch.

This file is also what the two processes run: all scenarios in one launch, since starting takes longer than training.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from srnet.backbones import load_backbone
from srnet.errors import UserError
from srnet.objectives import get_objective
from srnet.pruners import IMP, MaskTraining, Method, RewoundIMP
from srnet.pruners.base import Snapshot, split_snapshot
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import Result, Run, TrainingSettings, encode, predict, train
from srnet.training.distributed import connect

FAST = TrainingSettings(learning_rate=1e-2, steps=20, eval_every=5, batch_size=8, trace=30)
"""Fast enough for masks to move."""
EVAL_TOKENS = 256
"""So few that dev is several batches, and each rank gets some of them."""


def hard() -> Method:
    return MaskTraining(0.5, refresh_every=3).method(fine_tuned=True, eval_every=5)


def gradual() -> Method:
    return MaskTraining(0.8, init="soft", initial_sparsity=0.2).method(fine_tuned=False, eval_every=5)


def imp() -> Method:
    return IMP(0.5).method(fine_tuned=True, eval_every=5)


SCENARIOS: dict[str, tuple[Callable[[], Method], str]] = {
    "fine-tuning": (Method, "ce"),
    "hard mask": (hard, "poe"),
    "gradual mask": (gradual, "reweight"),
    "imp": (imp, "confreg"),
}


@dataclass
class Attempt:
    """A training, and what was seen of it from outside."""

    result: Result
    watched: list[int] = field(default_factory=list)
    levels: dict[float, Snapshot] = field(default_factory=dict)


class Lab:
    """Trainings on a tiny model, made again and again from the same start."""

    def __init__(self, backbone: str, folder: Path) -> None:
        self.backbone, self.folder = backbone, folder
        self.task = SyntheticTask("inference", train_size=200, dev_size=60, ood_size=60).load()
        sys.modules["srnet.training.predict"].EVAL_TOKENS = EVAL_TOKENS  # type: ignore[attr-defined]

    def run(self, method: Method, objective: str, folder: str, dropout: float = 0.0, **changes: Any) -> Run:
        base, task = load_backbone(self.backbone, self.task.labels, seed=0), self.task
        for module in base.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        base.model.unused = torch.nn.Parameter(torch.zeros(3))  # no output depends on it, as on a pooler nobody asks
        rng = np.random.default_rng(0)
        extras = {name: np.log(rng.dirichlet([1.0, 1.0], len(task.train.labels))) for name in ("bias", "teacher")}
        dev = encode(task.dev, base.tokenizer, 64)

        def likelihood(logits: np.ndarray) -> float:
            """A score without steps, in which nothing can hide, and by which the same moment is chosen."""
            return float(torch.log_softmax(torch.from_numpy(logits), -1).numpy()[range(60), task.dev.labels].mean())

        defaults: dict[str, Any] = {
            "settings": FAST,
            "train": encode(task.train, base.tokenizer, 64, extras),
            "score": likelihood,
            "trace": {"again": (dev, likelihood)},
        }
        objective_ = get_objective(objective)
        return Run(
            model=base.model, method=method, objective=objective_, dev=dev, folder=self.folder / folder, **defaults | changes
        )

    def attempt(self, *args: Any, **changes: Any) -> Attempt:
        run = self.run(*args, **changes)
        watched: list[int] = []
        levels: dict[float, Snapshot] = {}
        run.method.emit = levels.__setitem__
        result = train(replace(run, watch=lambda step, total, figures: watched.append(step)))
        return Attempt(result, watched, levels)


if __name__ == "__main__":
    lab = Lab(sys.argv[1], Path(sys.argv[2]))
    FAST = replace(FAST, learning_rate=float(sys.argv[3]), steps=int(sys.argv[4]))
    for name, (method, objective) in SCENARIOS.items():
        a = lab.attempt(method(), objective, name)
        print(connect(), name, a.result.step, a.result.dev_score, a.result.step_seconds, len(a.watched), len(a.levels), flush=True)
        save_file(a.result.snapshot, lab.folder / f"{name}-{connect().rank}-{connect().world}")
        save_file(a.result.snapshot, lab.folder / f"{name}-{connect().rank}-{connect().world}")
