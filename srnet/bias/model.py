"""The bias model: a linear classifier that sees nothing but the shortcut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from srnet.bias.features import claim_features, overlap_features
from srnet.bias.vectors import WordVectors
from srnet.errors import UserError
from srnet.tasks.base import Shortcut, Split, Task


@dataclass(frozen=True)
class BiasPredictions:
    """Log-probabilities of the bias model, by example id."""

    ids: tuple[str, ...]
    log_probs: np.ndarray

    def for_ids(self, ids: tuple[str, ...]) -> np.ndarray:
        rows = {id: row for row, id in enumerate(self.ids)}
        missing = [id for id in ids if id not in rows]
        if missing:
            raise UserError(f"the bias model has no prediction for example '{missing[0]}'", "fit it on this data")
        return self.log_probs[[rows[id] for id in ids]]


def features(split: Split, shortcut: Shortcut, vectors: WordVectors | None) -> np.ndarray:
    if shortcut == "overlap":
        return overlap_features(split.text_a, split.text_b, vectors)
    if vectors is None:
        raise UserError(
            "claim-only features are made of word vectors",
            "name a backbone whose embeddings to use: vectors='srnet-tiny'",
        )
    return claim_features(split.text_b, vectors)


def _fit_predict(x: np.ndarray, y: np.ndarray, test: np.ndarray, classes: int) -> np.ndarray:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, y)
    log_probs = np.full((len(test), classes), -np.inf)
    log_probs[:, model.classes_] = model.predict_log_proba(test)  # a class absent from a fold keeps probability 0
    return log_probs


def fit_bias_model(
    task: Task, shortcut: Shortcut, vectors: WordVectors | None, folds: int
) -> dict[str, BiasPredictions]:
    """Predictions for every split. Training examples are scored by a model that did not see them (cross-fitting)."""
    classes, y = len(task.labels), task.train.labels
    if len(np.unique(y)) < 2:
        raise UserError(f"task '{task.name}': the train split holds one label only", "a bias model needs two")
    if not any(task.train.text_b):
        raise UserError(f"task '{task.name}' has no second text for the shortcut to look at", "give it one")
    rarest = int(np.unique(y, return_counts=True)[1].min())
    if not 2 <= folds <= rarest:
        raise UserError(
            f"{folds} folds do not fit a label with {rarest} training examples", "choose 2 to that many folds"
        )
    x = features(task.train, shortcut, vectors)
    crossed = np.full((len(y), classes), -np.inf)
    for seen, unseen in StratifiedKFold(folds, shuffle=True, random_state=0).split(x, y):
        crossed[unseen] = _fit_predict(x[seen], y[seen], x[unseen], classes)
    result = {task.train.name: BiasPredictions(task.train.ids, crossed)}
    for name, split in task.splits.items():
        if name != task.train.name:
            result[name] = BiasPredictions(split.ids, _fit_predict(x, y, features(split, shortcut, vectors), classes))
    return result
