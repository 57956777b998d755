"""GPUs that are not there: `torch.cuda` says that it has some. Nothing can be computed on them."""

from __future__ import annotations

import pytest
import torch

from srnet.core import device

NAME, MEMORY = "Simulated GPU", 2**34


class Simulated:
    """`count` GPUs; `waits` is how often a process waited for them."""

    def __init__(self, patch: pytest.MonkeyPatch, count: int) -> None:
        self.waits = 0
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.delenv("ACCELERATE_USE_CPU", raising=False)
        patch.setattr(torch.cuda, "is_available", lambda: count > 0)
        patch.setattr(torch.cuda, "device_count", lambda: count)
        patch.setattr(torch.cuda, "synchronize", self._wait)
        patch.setattr(torch.cuda, "get_device_name", lambda: NAME)
        patch.setattr(torch.cuda, "mem_get_info", lambda device=None: (MEMORY, MEMORY))
        for name in ("memory_reserved", "memory_allocated"):
            patch.setattr(torch.cuda, name, lambda device=None: 0)
        patch.setattr(device, "_counted_by_cuda", self._counted)
        self._found = count
        self._is_counted = False

    def _counted(self) -> int:
        """CUDA reads the list of visible GPUs once in a process."""
        if not self._is_counted:
            self._found, self._is_counted = len(device._listed_gpus()), True
        return self._found

    def use(self) -> None:
        """Something in this process has asked CUDA for its GPUs."""
        self._counted()

    def _wait(self) -> None:
        self.waits += 1
