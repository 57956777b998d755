"""Logits of a model on a split."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from srnet.core.arrays import MODEL, finite_logits
from srnet.core.errors import UserError
from srnet.training.data import Encoded, token_batches
from srnet.training.hardware import ALONE, Ranks

EVAL_TOKENS = 4096
"""Tokens in an evaluation batch, padding included."""


@torch.no_grad()
def predict(model: nn.Module, data: Encoded, ranks: Ranks = ALONE, name: str = MODEL) -> np.ndarray:
    """Float32 logits in the order of the data: one row per example, or per token for such data.

    Masks are computed once, not in every forward pass. `ranks` divide the batches, and each gets all logits, equal to
    those of one process. `model` is never wrapped for DDP, because nothing is averaged here.
    """
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    pieces: list[tuple[np.ndarray, np.ndarray]] = []
    with parametrize.cached():
        for rows in token_batches(data.lengths, EVAL_TOKENS // data.token_cost)[ranks.rank :: ranks.world]:
            batch = data.collate(rows)
            inputs = {k: v.to(device) for k, v in batch.items() if k not in {"labels", "bias", "teacher"}}
            pieces.append(data.place(rows, data.digest(model(**inputs).logits, batch["labels"]).cpu().numpy()))
    model.train(was_training)
    return in_order(ranks.gather(pieces), name)


def in_order(pieces: list[tuple[np.ndarray, np.ndarray]], name: str = MODEL) -> np.ndarray:
    """All logits by their index in the data. Every model's pass through here, and non-finite ones are an error."""
    shape = sum(len(rows) for rows, _ in pieces), pieces[0][1].shape[-1] if pieces and pieces[0][1].ndim else 0
    result = np.empty(shape, dtype=np.float32)
    for rows, logits in pieces:
        if logits.shape != (len(rows), shape[1]):
            raise UserError(
                f"{name} gives logits of shape {logits.shape} for {len(rows)} rows", "it needs one row of them each"
            )
        result[rows] = finite_logits(logits, name)
    return result
