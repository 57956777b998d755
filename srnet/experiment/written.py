"""The bytes that a plan writes: results, which stay in the store, and checkpoints, each of which replaces the last.

A training keeps one checkpoint: the last state, with the best model so far. It is removed when the result is written.
Numbers are float32. What is small is not counted: manifests, heads, thresholds, random states.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from srnet.experiment.nodes.base import Node, load_task
from srnet.experiment.nodes.bias import BiasModel, WeakModel
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained, Quantised, Rewind
from srnet.experiment.nodes.training import FineTune, Moment, Prune, PruneRun, Training, Trajectory
from srnet.models.checkpoints import SHIPPED

FLOAT = 4
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_NOT_MASKED = ("embed", "pooler", "classifier", "cls.", "lm_head")


@dataclass(frozen=True)
class Weights:
    """The parameters of a backbone without its head, and how many of them are in the matrices that masks are over."""

    every: int
    masked: int

    @property
    def others(self) -> int:
        return self.every - self.masked

    @property
    def model(self) -> int:
        """Bytes of all weights."""
        return FLOAT * self.every

    @property
    def bits(self) -> int:
        """Bytes of a mask."""
        return self.masked // 8

    def kept(self, sparsity: float) -> int:
        """Bytes of a subnetwork of trained weights."""
        return FLOAT * (self.others + round((1.0 - sparsity) * self.masked)) + self.bits


PUBLISHED_WEIGHTS = {
    "bert-base-uncased": Weights(109_482_240, 84_934_656),
    "roberta-base": Weights(124_645_632, 84_934_656),
    "bert-large-uncased": Weights(335_141_888, 301_989_888),
}
"""Of the paper's backbones, whose checkpoints need not be there."""


@dataclass(frozen=True)
class Written:
    """Bytes that a plan writes."""

    results: int
    """What stays in the store."""
    checkpoint: int
    """The largest one. While it is replaced, a worker has two."""
    checkpoints: int
    """Of all that are written, one after another."""
    count: int
    """How many are written: one at each evaluation of a training."""

    def __str__(self) -> str:
        return (
            f"results {size_text(self.results)}, and for each worker at most two checkpoints of "
            f"{size_text(self.checkpoint)}; {self.count:,} checkpoints of {size_text(self.checkpoints)} in all are "
            "written, of which a training keeps the last, with the best model"
        )


def size_text(size: float) -> str:
    power = min(int(math.log(max(size, 1), 1000)), len(_UNITS) - 1)
    return f"{size / 1000**power:.3g} {_UNITS[power]}"


def count_written(nodes: Iterable[Node]) -> Written | None:
    """What these nodes write; None if the size of a backbone is not known."""
    results = largest = total = count = 0
    for node in nodes:
        weights = _weights_of(node)
        if weights is None:
            return None
        results += _result(node, weights)
        if isinstance(node, Training) and node.trains:
            size, saved = _checkpoint(node, weights), math.ceil(node.planned_steps / node.training.eval_every)
            largest, total, count = max(largest, size), total + saved * size, count + saved
    return Written(results, largest, total, count)


def _weights_of(node: Node) -> Weights | None:
    model = node.model if isinstance(node, Evaluate) else node
    return weights_of(model.pretrained.backbone) if isinstance(model, ModelNode) else Weights(0, 0)


@lru_cache(maxsize=32)
def weights_of(backbone: str) -> Weights | None:
    """Of a published backbone, or of a folder with one safetensors file, whose header alone is read."""
    path = Path(SHIPPED.get(backbone, backbone)) / "model.safetensors"
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # what is wrong is said where it is loaded
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        shapes = {name: facts["shape"] for name, facts in header.items() if name != "__metadata__"}
        sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        masked = [n for n, shape in shapes.items() if len(shape) == 2 and not any(part in n for part in _NOT_MASKED)]
        return Weights(sum(sizes.values()), sum(sizes[name] for name in masked))
    return PUBLISHED_WEIGHTS.get(backbone)


# --- results -------------------------------------------------------------------------------------------------------


def _result(node: Node, weights: Weights) -> int:
    """Only what a model's backbone does not have is stored."""
    match node:
        case Pretrained():
            return 0
        case Evaluate():
            return _rows(node, node.names) * len(load_task(node.task_spec).labels) * FLOAT
        case BiasModel() | WeakModel():
            # float64, and an id of about a dozen characters in UTF-32
            labels = load_task(node.task_spec).labels
            return _rows(node, tuple(load_task(node.task_spec).splits)) * (8 * len(labels) + 48)
        case Trajectory():
            return len(node.steps) * weights.model
        case PruneRun():
            levels: tuple[float, ...] = node.pruner.levels()  # type: ignore[attr-defined]
            return sum(map(weights.kept, levels))
        case Quantised() | Moment():
            return weights.model
    return _model(node, weights)


def _rows(node: Node, splits: Iterable[str]) -> int:
    task = load_task(node.task_spec)
    return sum(len(task.splits[name]) for name in splits)


def _model(node: Any, weights: Weights) -> int:
    """One model. The weights of a raw backbone under a mask take no space."""
    match node:
        case FineTune():
            sparsity = _sparsity(node.parent)
            return weights.model if sparsity is None else weights.kept(sparsity)
        case Rewind():
            return weights.bits if isinstance(node.to, Pretrained) else weights.kept(_sparsity(node.subnetwork) or 0.0)
        case Prune():
            is_raw = isinstance(node.parent, Pretrained) and (node.pruner.has_scores or not node.pruner.trains)
            return weights.bits if is_raw else weights.kept(node.pruner.share)
    return weights.model


def _sparsity(node: ModelNode) -> float | None:
    """That of the mask; None for a full model."""
    match node:
        case Prune():
            return node.pruner.share
        case Rewind():
            return _sparsity(node.subnetwork)
        case FineTune() | Quantised():
            return _sparsity(node.parent)
    return None


# --- checkpoints ---------------------------------------------------------------------------------------------------


def _checkpoint(node: Training, weights: Weights) -> int:
    """What trains, its two moments, and the best model, unless the method selects none."""
    if isinstance(node, Trajectory):
        return 3 * weights.model
    if isinstance(node, PruneRun):
        return 3 * weights.model + FLOAT * weights.masked
    if isinstance(node, Prune) and node.pruner.has_scores:
        return 3 * FLOAT * weights.masked + weights.model + weights.masked
    masked = isinstance(node, FineTune) and _sparsity(node.parent) is not None
    return 4 * weights.model + (FLOAT + 1) * weights.masked * masked
