"""Reading stored predictions and logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from srnet.arrays import finite_logits
from srnet.experiment.nodes import Evaluate, Node
from srnet.experiment.store import Store

if TYPE_CHECKING:
    from srnet.bias import BiasPredictions

TOKENS = "{} tokens"
"""The name under which the logits of every token of a split are stored."""


def bias_predictions(store: Store, node: Node, split: str) -> BiasPredictions:
    from srnet.bias import BiasPredictions  # not at the top: it imports scikit-learn

    with np.load(store.path(node.key) / f"{split}.npz", allow_pickle=False) as file:
        return BiasPredictions(tuple(file["ids"].tolist()), file["log_probs"])


def load_logits(store: Store, node: Evaluate) -> dict[str, np.ndarray]:
    return read_logits(store, node.key)


def read_logits(store: Store, key: str) -> dict[str, np.ndarray]:
    """By split. They are checked again, because earlier versions stored non-finite ones."""
    with np.load(store.path(key) / "logits.npz", allow_pickle=False) as file:
        return {name: finite_logits(file[name], f"the model of evaluation {key}") for name in file.files}
