"""Logits of a model on a split."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from srnet.training.data import Encoded, token_batches

EVAL_TOKENS = 4096
"""Tokens in an evaluation batch, padding included."""


@torch.no_grad()
def predict(model: nn.Module, data: Encoded) -> np.ndarray:
    """Float32 logits in the order of the data. Masks are computed once, not in every forward pass."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    result: np.ndarray | None = None
    with parametrize.cached():
        for rows in token_batches(data.lengths, EVAL_TOKENS):
            inputs = {k: v.to(device) for k, v in data.collate(rows).items() if k not in {"labels", *data.extras}}
            logits = model(**inputs).logits.float().cpu().numpy()
            if result is None:
                result = np.empty((len(data), logits.shape[1]), dtype=np.float32)
            result[rows] = logits
    model.train(was_training)
    return np.empty((0, 0), dtype=np.float32) if result is None else result
