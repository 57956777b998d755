"""Scores of exported folders: of the very model that is deployed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from srnet.device import current_device
from srnet.errors import UserError
from srnet.evaluation import score_split
from srnet.export.onnx import GRAPH, onnx_logits, open_session
from srnet.exported import Exported, load_exported, load_tokenizer
from srnet.tasks.base import Task
from srnet.training import Encoded
from srnet.training.inputs import ENCODINGS
from srnet.training.predict import predict


def exported_scores(folder: Path, task: Task) -> tuple[float, dict[str, Any]]:
    """Sparsity, and scores by split, as those of a model of the store. Texts are cut where the folder says."""
    exported = Exported.read(folder)
    check_labels(folder, exported.labels, task)
    tokenizer, logits_of = load_tokenizer(folder), _logits_of(folder, exported)
    scores: dict[str, Any] = {}
    for name in task.scored:
        data = ENCODINGS[task.answer_kind.encoding](task.splits[name], tokenizer, exported.max_length, {})
        scores[name] = score_split(task, task.splits[name], data.outputs(logits_of(data)))
    return exported.sparsity, scores


def check_labels(folder: Path, labels: tuple[str, ...], task: Task) -> None:
    if labels != task.labels:
        known, needed = ", ".join(labels), ", ".join(task.labels)
        fix = "give the task that it was trained on"
        raise UserError(f"{folder} knows the labels {known}, the task has {needed}", fix)


def _logits_of(folder: Path, exported: Exported) -> Callable[[Encoded], np.ndarray]:
    if exported.kind == "onnx":
        session = open_session(folder / GRAPH)
        return lambda data: onnx_logits(session, data)
    model: Any = load_exported(folder).to(current_device())  # type: ignore[arg-type]
    return lambda data: predict(model, data)
