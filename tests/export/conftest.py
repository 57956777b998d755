"""A deep backbone, and a mask for it as SMP would release it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foreign import random_bytes

from srnet.models.pretraining import pretrain
from srnet.tasks.synthetic.pretrain_settings import PretrainSettings


@pytest.fixture(scope="session")
def deep(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of twelve layers, so that the tenth comes before the second by name."""
    folder = tmp_path_factory.mktemp("backbone") / "deep"
    pretrain(folder, PretrainSettings(1, 1, 1, batch_size=8, hidden_size=8, layers=12, heads=2, warmup=1))
    return str(folder)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A mask for `deep` as SMP would release it: 12 * 768 weights."""
    path = tmp_path / "released.npy"
    np.save(path, random_bytes(12 * 768 // 8))
    return path
