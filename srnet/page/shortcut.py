"""What the shortcut alone says about any pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from srnet.audit import Source, find_shortcut, load_classifier, match
from srnet.bias import fit_bias_scorer
from srnet.experiment import Bias, BiasSpec, Engine, load_task
from srnet.experiment.compute import word_vectors
from srnet.experiment.nodes import BiasModel, TaskSpec, WeakModel


@dataclass(frozen=True)
class Shortcut:
    about: str
    """What it reads, in words."""
    log_probs: Callable[[Sequence[str], Sequence[str]], np.ndarray]
    """Of the task's labels, for each pair."""


def load_shortcut(spec: TaskSpec, engine: Engine, bias: BiasSpec | None = None) -> tuple[Shortcut | None, list[str]]:
    """The task's bias model for new pairs, or a note that says why there is none."""
    node, notes = find_shortcut(spec, engine, bias)
    return (None, notes) if node is None else (_scorer(node, spec, engine), [])


def _scorer(node: Bias, spec: TaskSpec, engine: Engine) -> Shortcut:
    if isinstance(node, BiasModel):
        task = load_task(spec)
        vectors = None if node.vectors is None else word_vectors(node.vectors, task)
        scorer = fit_bias_scorer(task, node.suspected, vectors, extended=node.extended)
        return Shortcut(node.features.rpartition(", cross-fitted")[0], scorer.log_probs)
    return _weak_model(node, spec, engine)


def _weak_model(node: WeakModel, spec: TaskSpec, engine: Engine) -> Shortcut:
    """Of the two weak models the one that also scores dev and the OOD sets."""
    task = load_task(spec)
    model = match(load_classifier(Source(node.first.key, engine.store, any(task.train.text_b))), task.labels)
    start, end = node.first.part or (0, 0)
    about = f"no features, but a model of {node.first.pretrained.backbone} trained on {end - start:,} examples"
    return Shortcut(about, lambda text_a, text_b: log_softmax(model.logits(text_a, text_b), axis=1))
