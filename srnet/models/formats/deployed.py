"""Scores of exported folders: of the very model that is deployed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from srnet.core.device import current_device
from srnet.core.errors import UserError, running
from srnet.evaluation.metrics import score_split
from srnet.models.exported import Exported, load_exported, load_tokenizer
from srnet.models.formats.graphs import graph_logits
from srnet.models.formats.onnx import GRAPH, open_graph
from srnet.tasks.base import Task
from srnet.training.data import Encoded
from srnet.training.predict import predict
from srnet.training.spans import inputs_for


def exported_scores(folder: Path, task: Task) -> tuple[float, dict[str, Any]]:
    """Sparsity, and scores by split, as those of a model of the store. Texts are cut where the folder says."""
    exported = Exported.read(folder)
    check_labels(folder, exported.labels, task)
    tokenizer, (length, logits_of) = load_tokenizer(folder), _opened(folder, exported)
    scores: dict[str, Any] = {}
    for name in task.scored:
        data = inputs_for(task.answer_kind, task.splits[name], tokenizer, length)
        logits = logits_of(data)
        if logits.shape[1] != len(exported.labels):
            raise UserError(
                f"{folder} names {len(exported.labels)} labels for {logits.shape[1]} outputs", "export the model again"
            )
        scores[name] = score_split(task, task.splits[name], data.outputs(logits))
    return exported.sparsity, scores


def check_labels(folder: Path, labels: tuple[str, ...], task: Task) -> None:
    if labels != task.labels:
        known, needed = ", ".join(labels), ", ".join(task.labels)
        fix = "give the task that it was trained on"
        raise UserError(f"{folder} knows the labels {known}, the task has {needed}", fix)


def _opened(folder: Path, exported: Exported) -> tuple[int, Callable[[Encoded], np.ndarray]]:
    """Where texts are cut, and what gives the logits."""
    if exported.kind == "onnx":
        graph = open_graph(folder / GRAPH)
        return graph.max_length(exported.max_length), partial(graph_logits, graph)
    model: Any = load_exported(folder).to(current_device())  # type: ignore[arg-type]

    def logits(data: Encoded) -> np.ndarray:
        with running(folder):
            return predict(model, data, name=str(folder))

    return exported.max_length, logits
