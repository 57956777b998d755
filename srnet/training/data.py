"""Token ids and batches: grouped by length, padded to the longest, never to a fixed length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import Dataset

from srnet.core.errors import UserError, running
from srnet.core.names import AS_IS
from srnet.tasks.splits import Split

AT_ONCE = 1_000
"""Texts that are tokenised at a time: Python lists of numbers need far more memory than arrays."""
_LONG = 4
"""Characters per token above which a text is cut before it is paired."""
_MARGIN = 8
"""Tokens that are kept beyond those that fit: the last ones may differ from those of the uncut text."""


@dataclass(frozen=True)
class Encoded(Dataset[int]):
    """A tokenised split. Indexing gives the row's number; `collate` turns numbers into a padded batch."""

    columns: dict[str, np.ndarray]
    """The tokens of all rows in one array, because a million small arrays need far more memory."""
    labels: np.ndarray
    lengths: np.ndarray
    pad: dict[str, int]
    extras: dict[str, torch.Tensor]
    """Per-example tensors the objective needs: bias and teacher log-probabilities."""
    token_cost: ClassVar[int] = 1
    """What a token counts in an evaluation batch: more where its logits have the size of the vocabulary."""

    @cached_property
    def starts(self) -> np.ndarray:
        return np.asarray(np.cumsum(self.lengths) - self.lengths)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> int:
        return index

    def layout(self, rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The positions of a batch's tokens: (B, L), true where there is a token, and each one's index in `columns`."""
        lengths = self.lengths[rows]
        places = np.arange(lengths.max())
        mask = places < lengths[:, None]
        return mask, (self.starts[rows][:, None] + places)[mask]

    def collate(self, rows: Sequence[int] | np.ndarray) -> dict[str, torch.Tensor]:
        mask, tokens = self.layout(rows)
        batch: dict[str, torch.Tensor] = {}
        for name, column in self.columns.items():
            padded = np.full(mask.shape, self.pad[name], dtype=np.int64)
            padded[mask] = column[tokens]
            batch[name] = torch.from_numpy(padded)
        batch["attention_mask"] = torch.from_numpy(mask.astype(np.int64))
        batch["labels"] = torch.from_numpy(self.labels[rows])
        return batch | {name: tensor[rows] for name, tensor in self.extras.items()}

    # A model gives one set of logits per row. Data with logits per token override these.

    def hide_padding(self, logits: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The logits of a batch as a loss may read them."""
        return logits

    def taught(self, inputs: dict[str, torch.Tensor], needs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The inputs of a batch that a teacher in memory reads."""
        return inputs

    def digest(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What is kept of a model's logits on a batch in evaluation."""
        return logits.float()

    def place(self, rows: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The indices of a batch's results in the data, and its logits without padding."""
        return rows, logits

    def outputs(self, logits: np.ndarray) -> np.ndarray:
        """What answers are decoded from, one row per example, given all logits of the data."""
        return logits


def encode(split: Split, tokenizer: Any, max_length: int, extras: dict[str, np.ndarray] | None = None) -> Encoded:
    texts = (split.text_a, split.text_b) if any(split.text_b) else (split.text_a,)
    if len(texts) == 2 and not separates(tokenizer):
        texts = (split.text_a, tuple(f"\n{text}" for text in split.text_b))
    parts: dict[str, list[np.ndarray]] = {}
    lengths: list[int] = []
    for start in range(0, len(split), AT_ONCE):
        some = tuple(list(column[start : start + AT_ONCE]) for column in texts)
        with running(name_of(tokenizer)):
            tokens = tokenizer(
                *_cut(some, tokenizer, max_length), truncation=True, max_length=max_length, return_attention_mask=False
            )
            lengths += map(len, tokens["input_ids"])
            for name, rows in tokens.items():
                parts.setdefault(name, []).append(np.fromiter(chain.from_iterable(rows), dtype=np.int32))
    if not any(lengths):
        raise UserError(f"{name_of(tokenizer)} finds no tokens in the texts of '{split.name}'", "check its vocabulary")
    columns = {name: np.concatenate(each) for name, each in parts.items()}
    arrays = {name: a if a.dtype.kind == "i" else a.astype(np.float32) for name, a in (extras or {}).items()}
    tensors = {name: torch.from_numpy(a) for name, a in arrays.items()}
    labels = split.labels.astype(np.float32) if split.labels.dtype == np.float64 else split.labels
    return Encoded(columns, labels, np.array(lengths), padding(tokenizer, columns), tensors)


def name_of(tokenizer: Any) -> str:
    """The tokenizer for a message, with the model or folder that it came from if it is known."""
    source = getattr(tokenizer, "name_or_path", "")
    return f"the tokenizer of '{source}'" if source else "the tokenizer"


def padding(tokenizer: Any, names: Iterable[str]) -> dict[str, int]:
    """What each column of a batch is padded with."""
    with running(name_of(tokenizer)):
        token = tokenizer.pad_token_id
    if token is None:
        raise UserError(f"{name_of(tokenizer)} has no padding token", "give its configuration a pad_token")
    return {name: token if name == "input_ids" else 0 for name in names}


def _cut(texts: tuple[list[str], ...], tokenizer: Any, max_length: int) -> tuple[list[str], ...]:
    """Pairs without the text far beyond the last token that fits, which a tokenizer would keep as overflow."""
    if len(texts) == 1:
        return texts
    for row, pair in enumerate(zip(*texts, strict=True)):
        if max(map(len, pair)) > _LONG * max_length:
            ends = [
                tokenizer(each, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
                for each in pair
            ]
            longest = max(map(len, ends))
            for column, text, tokens in zip(texts, pair, ends, strict=True):
                # the longer of the two is truncated, so it must stay the longer one
                kept = max_length + _MARGIN * (2 if len(tokens) == longest else 1)
                column[row] = text[: tokens[kept - 1][1]] if len(tokens) > kept else text
    return texts


def separates(tokenizer: Any) -> bool:
    """Whether the tokenizer separates the two texts of a pair. Those of GPT-2 and Llama merge them.

    A model that was fine-tuned elsewhere read pairs as its tokenizer makes them, and nothing is added.
    """
    if getattr(tokenizer, AS_IS, False):
        return True
    alone, together = (tokenizer.num_special_tokens_to_add(pair=pair) for pair in (False, True))
    return bool(together > alone)


def training_order(lengths: np.ndarray, batch_size: int, steps: int, seed: int) -> np.ndarray:
    """The rows of every batch of the run, shape (steps, batch_size).

    Each pass is shuffled, cut into pools of 50 batches, and each pool sorted by length before it is cut into batches,
    which are shuffled again. The order is a pure function of its arguments, so a resumed run continues the same one.
    """
    rng = np.random.default_rng(seed)
    batches: list[np.ndarray] = []
    leftover = np.empty(0, dtype=np.int64)
    while sum(map(len, batches)) < steps:
        rows = np.concatenate([leftover, rng.permutation(len(lengths))])
        usable = len(rows) // batch_size * batch_size
        rows, leftover = rows[:usable], rows[usable:]
        pools = [rows[start : start + 50 * batch_size] for start in range(0, usable, 50 * batch_size)]
        grouped = [pool[np.argsort(lengths[pool], kind="stable")].reshape(-1, batch_size) for pool in pools]
        batches += [rng.permutation(pool) for pool in grouped]
    return np.concatenate(batches)[:steps]


def token_batches(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Rows of similar length, as many to a batch as fit into `max_tokens` after padding."""
    batches: list[np.ndarray] = []
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * lengths[order[stop]] <= max_tokens:
            stop += 1
        batches.append(order[start:stop])
        start = stop
    return batches
