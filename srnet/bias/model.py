"""The bias model: a cross-fitted linear model on the features of a shortcut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from srnet.bias.shortcuts.base import (
    PLAIN,
    FeatureMatrix,
    FeatureOptions,
    Features,
    Part,
    check_measurable,
    is_given,
    parse_shortcut,
    side_by_side,
)
from srnet.core.errors import UserError
from srnet.tasks.base import Task
from srnet.tasks.shortcut import Shortcut
from srnet.tasks.splits import Split


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


def _classifier(x: FeatureMatrix, c: float = 1.0) -> Pipeline:
    """`c` is the inverse strength of the L2 penalty."""
    if issparse(x):
        # Binary features need no scaling, which would inflate rare words. Newton's method needs a tenth of the steps
        # for thousands of words.
        return make_pipeline(LogisticRegression(C=c, solver="newton-cg", max_iter=1000))
    return make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=1000))


def _alike(x: FeatureMatrix) -> np.ndarray | None:
    """A number for each row, the same for rows that are alike; None if they are better fitted one by one.

    Word bags are: with weights, Newton's method would stop at another of the points within its tolerance.
    """
    if issparse(x):
        return None
    rows, numbers = np.unique(x, axis=0, return_inverse=True)
    return numbers.reshape(-1) if 2 * len(rows) < len(x) else None


def _fit(x: FeatureMatrix, y: np.ndarray, alike: np.ndarray | None, rows: np.ndarray) -> Pipeline:
    """Fitted on some rows. Those that are alike are one row with a weight: the same sum with fewer terms.

    Without word vectors a million pairs have some thousand different rows of overlap features.
    """
    model = _classifier(x)
    if alike is None:
        return model.fit(x[rows], y[rows])
    _, first, counts = np.unique(alike[rows] * (y.max() + 1) + y[rows], return_index=True, return_counts=True)
    weights = {f"{name}__sample_weight": counts for name in model.named_steps}
    return model.fit(x[rows[first]], y[rows[first]], **weights)


def fit_linear(x: FeatureMatrix, y: np.ndarray, classes: int, c: float = 1.0) -> Callable[[FeatureMatrix], np.ndarray]:
    """A linear model fitted on all rows, as a function from features to log-probabilities."""
    alike = _alike(x) if c == 1.0 else None
    model = _classifier(x, c).fit(x, y) if alike is None else _fit(x, y, alike, np.arange(len(y)))
    return lambda features: _predict(model, features, classes)


def _predict(model: Pipeline, x: FeatureMatrix, classes: int) -> np.ndarray:
    log_probs = np.full((x.shape[0], classes), -np.inf)
    log_probs[:, model.classes_] = model.predict_log_proba(x)  # a class absent from a fold keeps probability 0
    return log_probs


@dataclass(frozen=True)
class BiasScorer:
    """The bias model for rows that it was not fitted on, such as dev and the OOD sets."""

    features: Features
    model: Pipeline
    classes: int

    def of(self, split: Split) -> np.ndarray:
        """A row for each example, a column for each label."""
        return _predict(self.model, self.features.of(split), self.classes)

    def log_probs(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        ids, labels = tuple(map(str, range(len(text_a)))), np.zeros(len(text_a), dtype=np.int64)
        split = Split("pairs", "ID", ids, tuple(text_a), tuple(text_b), labels, ("",) * len(ids))
        return self.of(split)


def fit_bias_scorer(task: Task, shortcut: Shortcut, options: FeatureOptions = PLAIN) -> BiasScorer:
    """The bias model fitted on all training data, for shortcuts that are in the texts alone."""
    features = features_of(task, parse_shortcut(shortcut), options)
    x, y = features.of(task.train), task.train.labels
    return BiasScorer(features, _fit(x, y, _alike(x), np.arange(len(y))), len(task.labels))


def features_of(task: Task, parts: Sequence[Part], options: FeatureOptions) -> Features:
    """The features of a shortcut, fitted on the training split; those of several parts side by side."""
    return side_by_side([part.kind.fit(task, part.argument, options) for part in parts], task.train)


def fit_bias_model(
    task: Task, shortcut: Shortcut, options: FeatureOptions = PLAIN, folds: int = 5
) -> dict[str, BiasPredictions]:
    """Predictions for every split. Training examples are scored by a model not fitted on them (cross-fitting)."""
    parts = parse_shortcut(shortcut)
    if is_given(parts):
        check_measurable(task, parts)
        given = parts[0].kind.log_probs(task, parts[0].argument)
        return {name: BiasPredictions(task.splits[name].ids, each) for name, each in given.items()}
    crossed, scorer = cross_fit(task, parts, options, folds)
    others = {name: scorer.of(split) for name, split in task.splits.items() if name != task.train.name}
    found = {task.train.name: crossed, **others}
    return {name: BiasPredictions(task.splits[name].ids, each) for name, each in found.items()}


def cross_fit(
    task: Task, parts: tuple[Part, ...], options: FeatureOptions = PLAIN, folds: int = 5
) -> tuple[np.ndarray, BiasScorer]:
    """The predictions for the training split, each by a model not fitted on its row, and the model of all rows.

    The folds share what is fitted to the training split without labels, such as the vocabulary of a bag of words: a
    word that does not occur in a fold has weight 0 there.
    """
    check_measurable(task, parts)
    classes, y = len(task.labels), task.train.labels
    if len(np.unique(y)) < 2:
        raise UserError(f"task '{task.name}': the train split has one label only", "a bias model needs two")
    rarest = int(np.unique(y, return_counts=True)[1].min())
    if not 2 <= folds <= rarest:
        raise UserError(
            f"{folds} folds do not fit a label with {rarest} training examples", "choose 2 to that many folds"
        )
    features = features_of(task, parts, options)
    x = features.of(task.train)
    alike = _alike(x)
    crossed = np.full((len(y), classes), -np.inf)
    for seen, unseen in StratifiedKFold(folds, shuffle=True, random_state=0).split(x, y):
        crossed[unseen] = _predict(_fit(x, y, alike, seen), x[unseen], classes)
    return crossed, BiasScorer(features, _fit(x, y, alike, np.arange(len(y))), classes)
