"""A toy model on which a method can be driven by hand, without any training."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn


@pytest.fixture
def toy() -> nn.Module:
    """Two matrices of 100 and 20 weights, so that every tenth is a whole number of them."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(OrderedDict(first=nn.Linear(10, 10), norm=nn.LayerNorm(10), second=nn.Linear(10, 2)))
