"""Logits of a model on a split."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from srnet.training.data import Encoded, token_batches
from srnet.training.distributed import ALONE, Ranks

EVAL_TOKENS = 4096
"""Tokens in an evaluation batch, padding included."""


@torch.no_grad()
def predict(model: nn.Module, data: Encoded, ranks: Ranks = ALONE) -> np.ndarray:
    """Float32 logits in the order of the data: one row per example, or per token for such data.

    Masks are computed once, not in every forward pass. `ranks` divide the batches, and each gets all logits, equal to
    those of one process. `model` is never wrapped for DDP, because nothing is averaged here.
    """
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    pieces: list[tuple[np.ndarray, np.ndarray]] = []
    with parametrize.cached():
        for rows in token_batches(data.lengths, EVAL_TOKENS)[ranks.rank :: ranks.world]:
            inputs = {k: v.to(device) for k, v in data.collate(rows).items() if k not in {"labels", "bias", "teacher"}}
            pieces.append(data.place(rows, model(**inputs).logits.float().cpu().numpy()))
    model.train(was_training)
    return _in_order(ranks.gather(pieces))


def _in_order(pieces: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    count = sum(len(rows) for rows, _ in pieces)
    result = np.empty((count, pieces[0][1].shape[1] if pieces else 0), dtype=np.float32)
    for rows, logits in pieces:
        result[rows] = logits
    return result
