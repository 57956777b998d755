"""Scores of exported folders: of the very model that is deployed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from srnet.errors import UserError
from srnet.evaluation import score
from srnet.export.onnx import GRAPH, onnx_logits, open_session, require_onnx
from srnet.exported import Exported, load_exported, load_tokenizer
from srnet.tasks.base import Task
from srnet.training import Encoded
from srnet.training.inputs import ENCODINGS
from srnet.training.predict import predict


def other_labels(folder: Path, labels: tuple[str, ...], task: Task) -> UserError:
    known, needed = ", ".join(labels), ", ".join(task.labels)
    return UserError(
        f"{folder} knows the labels {known}, the task has {needed}", "give the task that it was trained on"
    )


def exported_scores(folder: Path, task: Task) -> tuple[float, dict[str, Any]]:
    """Sparsity, and scores by split, as those of a model of the store. Texts are cut where the folder says."""
    exported = Exported.read(folder)
    if exported.labels != task.labels:
        raise other_labels(folder, exported.labels, task)
    tokenizer, logits_of = load_tokenizer(folder), _logits_of(folder, exported)
    answer = task.answer_kind
    scores: dict[str, Any] = {}
    for name in task.scored:
        split = task.splits[name]
        data = ENCODINGS[answer.encoding](split, tokenizer, exported.max_length, {})
        answers = answer.decode(split, data.outputs(logits_of(data)))
        found = score(answers, split.labels, split.groups, task.classes_of(split), answer)
        scores[name] = {"kind": split.kind, **asdict(found)}
    return exported.sparsity, scores


def _logits_of(folder: Path, exported: Exported) -> Callable[[Encoded], np.ndarray]:
    if exported.kind == "onnx":
        require_onnx()
        session = open_session(folder / GRAPH)
        return lambda data: onnx_logits(session, data)
    model = load_exported(folder)
    return lambda data: predict(model, data)
