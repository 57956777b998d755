"""GPUs that are not there: `torch.cuda` says that it has some. Nothing can be computed on them."""

from __future__ import annotations

import pytest
import torch


class Simulated:
    """`count` GPUs; `waits` is how often a process waited for them."""

    def __init__(self, patch: pytest.MonkeyPatch, count: int) -> None:
        self.waits = 0
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.delenv("ACCELERATE_USE_CPU", raising=False)
        patch.setattr(torch.cuda, "is_available", lambda: count > 0)
        patch.setattr(torch.cuda, "device_count", lambda: count)
        patch.setattr(torch.cuda, "synchronize", self._wait)

    def _wait(self) -> None:
        self.waits += 1
