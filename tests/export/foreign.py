"""Mask files as other projects publish them, good and bad."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

LABELS = ("entailment", "not_entailment")
WORDS = ("lawyer", "doctor")
TWO = {"b.weight": (2, 3), "a.weight": (1, 5)}
"""Eleven weights: the last five bits of the second byte belong to none."""


def random_bytes(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, count, dtype=np.uint8)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


GOOD_NPY = npy(np.array([0b10110110, 0b00100000], dtype=np.uint8))
"""A mask for TWO as SMP writes it."""


class Exploit:
    """Unpickled, it would leave a file behind."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def saved(value: Any, folder: Path) -> Path:
    torch.save(value, folder / "mask.pt")
    return folder / "mask.pt"
