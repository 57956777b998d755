"""Logits of a model on a split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from srnet.core.arrays import MODEL, finite_logits
from srnet.core.device import free_memory
from srnet.core.errors import UserError
from srnet.training.data import Encoded, token_batches
from srnet.training.hardware import ALONE, Ranks

EVAL_TOKENS = 4096
"""Tokens in an evaluation batch on the CPU, and at least as many on a GPU; padding included."""
_DOUBLED = 4
"""How often this number is doubled on a GPU at most. Powers of two, so that most runs have the same batches."""
_LIVE = 4
"""How many inputs and outputs of the widest layer are in memory at once. An estimate: what fails is tried in halves."""


@torch.no_grad()
def predict(model: nn.Module, data: Encoded, ranks: Ranks = ALONE, name: str = MODEL) -> np.ndarray:
    """Float32 logits in the order of the data: one row per example, or per token for such data.

    Masks are computed once, not in every forward pass. `ranks` divide the batches, and each gets all logits, equal to
    those of one process. `model` is never wrapped for DDP, because nothing is averaged here.
    """
    was_training = model.training
    model.eval()
    tokens = min(ranks.gather([eval_tokens(model)]))  # the same batches on all ranks
    pieces: list[tuple[np.ndarray, np.ndarray]] = []
    left = token_batches(data.lengths, tokens // data.token_cost)[ranks.rank :: ranks.world][::-1]
    with parametrize.cached():
        while left:
            rows = left.pop()
            logits = _logits(model, data, rows)
            if logits is None:
                left = _halves(data, [*left, rows], name)
            else:
                pieces.append(data.place(rows, logits))
    model.train(was_training)
    return in_order(ranks.gather(pieces), name)


def eval_tokens(model: nn.Module) -> int:
    """The tokens of an evaluation batch: by half of the free memory on a GPU, always the same number on the CPU."""
    free = free_memory()
    if free is None:
        return EVAL_TOKENS
    layers = [each for each in model.modules() if not isinstance(each, nn.Embedding)]
    matrices = [each for layer in layers for each in layer.parameters(recurse=False) if each.ndim == 2]
    numbers = _LIVE * max((sum(each.shape) for each in matrices), default=1)
    fitting = free / 2 / (numbers * torch.float32.itemsize)
    sizes = [EVAL_TOKENS << doubled for doubled in range(_DOUBLED + 1)]
    return max((size for size in sizes if size <= fitting), default=EVAL_TOKENS)


def _logits(model: nn.Module, data: Encoded, rows: np.ndarray) -> np.ndarray | None:
    """What is kept of the logits of a batch; None if the GPU has no memory for it."""
    device = next(model.parameters()).device
    try:
        batch = data.collate(rows)
        inputs = {k: v.to(device) for k, v in batch.items() if k not in {"labels", "bias", "teacher"}}
        kept: np.ndarray = data.digest(model(**inputs).logits, batch["labels"]).cpu().numpy()
        return kept
    except torch.OutOfMemoryError:
        return None


def _halves(data: Encoded, batches: Sequence[np.ndarray], name: str) -> list[np.ndarray]:
    """Batches of half the size: if the last one does not fit, the others, which are as large, would not either."""
    if len(batches[-1]) == 1:
        length = int(data.lengths[batches[-1][0]])
        problem = f"the GPU's memory does not hold {name} with one text of {length:,} tokens"
        raise UserError(problem, "lower max_length, or evaluate on the CPU")
    torch.cuda.empty_cache()  # what was cached for the larger batch is in pieces of other sizes
    return [half for batch in batches for half in reversed(np.array_split(batch, min(2, len(batch))))]


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
