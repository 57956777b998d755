"""Scores of exported folders are computed on the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from gpus import Simulated
from srnet.models.formats.deployed import exported_scores
from torch import nn

from srnet import api
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained


def test_an_exported_model_goes_to_the_gpu(
    raw: Pretrained, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.execute([raw])
    folder = api.export_model(raw.key, tmp_path / "merged", format="merged", engine=engine)
    Simulated(monkeypatch, 1)
    moved: list[Any] = []

    def to(model: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        moved.extend(args)
        return model

    monkeypatch.setattr(nn.Module, "to", to)
    exported_scores(folder, raw.task.load())
    assert moved == [torch.device("cuda")]
