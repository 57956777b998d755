"""The bias model: no example is scored by a model that was fitted on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.sparse import csr_matrix, issparse

import srnet.bias.model
from srnet.bias.model import BiasPredictions, _alike, _classifier, _fit, _predict, fit_bias_model
from srnet.bias.shortcuts.base import FeatureOptions, Features
from srnet.tasks.base import Task
from srnet.tasks.splits import Example, Split
from srnet.tasks.synthetic import SyntheticTask


def task_of(train: list[int], labels: tuple[str, ...] = ("no", "yes")) -> Task:
    """Label 1 means that the two texts are equal; ids say which row they are."""

    def split(name: str, kind: str, values: list[int]) -> Split:
        rows = [Example(f"{name}-{i}", "a b", "a b" if v == 1 else "a c", v) for i, v in enumerate(values)]
        return Split.of(name, kind, rows)  # type: ignore[arg-type]

    return Task("toy", labels, "accuracy", "overlap", split("train", "ID", train), split("dev", "ID", [0, 1, 1]), {})


def test_no_training_example_is_scored_by_a_model_that_saw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[list[int], list[int]]] = []

    def row_numbers(split: Split) -> np.ndarray:
        return np.array([[int(id.split("-")[1]) + (0 if split.name == "train" else 1000)] for id in split.ids])

    def fit(x: np.ndarray, y: np.ndarray, alike: np.ndarray | None, rows: np.ndarray) -> list[int]:
        seen: list[int] = x[rows, 0].tolist()
        return seen

    def record(seen: list[int], test: np.ndarray, classes: int) -> np.ndarray:
        calls.append((seen, test[:, 0].tolist()))
        # the "prediction" names the row it was made for, so that rows put in the wrong place are noticed
        return np.repeat(test.astype(float), classes, axis=1)

    monkeypatch.setattr(srnet.bias.model, "features_of", lambda *_: Features(("row",), row_numbers))
    monkeypatch.setattr(srnet.bias.model, "_fit", fit)
    monkeypatch.setattr(srnet.bias.model, "_predict", record)
    predictions = fit_bias_model(task_of([0, 1] * 10), "overlap", folds=5)

    *crossed, dev = calls
    assert len(crossed) == 5
    for seen, scored in crossed:
        assert not set(seen) & set(scored)
        assert sorted(seen + scored) == list(range(20))
    assert sorted(row for _, scored in crossed for row in scored) == list(range(20)), "everybody is scored once"
    assert predictions["train"].log_probs[:, 0].tolist() == list(range(20))
    assert dev == (list(range(20)), [1000, 1001, 1002]), "other splits are scored by a model that saw all of train"


def test_predictions_are_log_probabilities_for_every_split() -> None:
    task = SyntheticTask("inference", train_size=400, dev_size=50, ood_size=200).load()
    predictions = fit_bias_model(task, "overlap", folds=4)
    assert set(predictions) == set(task.splits)
    for name, each in predictions.items():
        assert each.ids == task.splits[name].ids
        np.testing.assert_allclose(np.exp(each.log_probs).sum(axis=1), 1.0)

    def right(name: str) -> float:
        return float((predictions[name].log_probs.argmax(axis=1) == task.splits[name].labels).mean())

    # the cue alone is right in 90 % of the examples; in the challenge set it is a coin
    assert right("train") == pytest.approx(0.87, abs=0.05)
    assert right("challenge") == pytest.approx(0.5, abs=0.1)


def test_the_fit_is_deterministic() -> None:
    first, second = (fit_bias_model(task_of([0, 1] * 8), "overlap", folds=2) for _ in range(2))
    assert np.array_equal(first["train"].log_probs, second["train"].log_probs)


def test_a_label_without_examples_has_probability_zero() -> None:
    predictions = fit_bias_model(task_of([0, 1] * 6, ("no", "yes", "maybe")), "overlap", folds=2)["dev"]
    assert np.isneginf(predictions.log_probs[:, 2]).all()
    assert np.isfinite(predictions.log_probs[:, :2]).all()


def test_predictions_are_found_by_id() -> None:
    predictions = BiasPredictions(("a", "b", "c"), np.array([[0.0], [1.0], [2.0]]))
    assert predictions.for_ids(("c", "a", "c")).tolist() == [[2.0], [0.0], [2.0]]
    with refused("'x'"):
        predictions.for_ids(("a", "x"))


@pytest.mark.parametrize(
    ("labels", "folds", "named"),
    [([1] * 10, 2, "one label"), *(([0, 1] * 10, folds, f"{folds} folds") for folds in (0, 1, 21))],
)
def test_what_cannot_be_fitted(labels: list[int], folds: int, named: str) -> None:
    with refused(named):
        fit_bias_model(task_of(labels), "overlap", folds=folds)


def claims_task(train: list[tuple[str, int]], dev: list[tuple[str, int]]) -> Task:
    def split(name: str, rows: list[tuple[str, int]]) -> Split:
        return Split.of(name, "ID", [Example(f"{name}-{i}", "a", text, label) for i, (text, label) in enumerate(rows)])

    return Task("toy", ("no", "yes"), "accuracy", "claim", split("train", train), split("dev", dev), {})


def test_claims_without_vectors_are_bags_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def fit(x: csr_matrix, *rest: Any) -> Any:
        seen.append(x)
        return _fit(x, *rest)

    def predict(model: Any, x: csr_matrix, classes: int) -> np.ndarray:
        seen.append(x)
        return _predict(model, x, classes)

    monkeypatch.setattr(srnet.bias.model, "_fit", fit)
    monkeypatch.setattr(srnet.bias.model, "_predict", predict)
    task = claims_task(
        [("it is not so", 0), ("it is so", 1)] * 10, [("not here", 0), ("here it is", 1), ("not here", 0)]
    )
    predictions = fit_bias_model(task, "claim", folds=2)
    assert all(issparse(x) for x in seen)
    # "here" is in two claims of dev, but what dev holds may not shape the model
    assert {x.shape[1] for x in seen} == {4}
    for name, split in task.splits.items():
        assert predictions[name].log_probs.argmax(axis=1).tolist() == split.labels.tolist()
        np.testing.assert_allclose(np.exp(predictions[name].log_probs).sum(axis=1), 1.0)


def test_a_word_that_a_fold_did_not_see_says_nothing_there() -> None:
    # why the folds may share a vocabulary: the column of such a word is zero, and so is its weight
    x = csr_matrix([[1, 0, 0], [0, 1, 0]] * 6)
    new, known = csr_matrix([[1, 0, 1]]), csr_matrix([[1, 0, 0]])
    y = np.array([0, 1] * 6)
    model = _fit(x, y, None, np.arange(12))
    assert _predict(model, new, 2).tolist() == _predict(model, known, 2).tolist()


def test_extended_features_reach_the_model() -> None:
    # the same words, but one premise is longer: only the difference of lengths tells
    rows = [("a a a a a" if label else "a", label) for label in [0, 1] * 10]
    examples = [Example(str(i), text, "a", label) for i, (text, label) in enumerate(rows)]
    train, dev = Split.of("train", "ID", examples), Split.of("dev", "ID", examples)
    task = Task("toy", ("no", "yes"), "accuracy", "overlap", train, dev, {})

    def right(extended: bool) -> float:
        log_probs = fit_bias_model(task, "overlap", FeatureOptions(extended=extended), folds=2)["dev"].log_probs
        return float((log_probs.argmax(axis=1) == dev.labels).mean())

    assert (right(extended=False), right(extended=True)) == (0.5, 1.0)


def test_rows_that_are_alike_are_fitted_as_one_with_the_same_result() -> None:
    """400 pairs with few different features, against a plain fit of all of them."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (400, 3)) / 2.0
    y = (x.sum(axis=1) + rng.normal(size=400) > 1.5).astype(np.int64)
    alike, rows = _alike(x), np.flatnonzero(rng.random(400) < 0.8)
    assert alike is not None
    assert len(np.unique(alike)) <= 27
    assert all((x[alike == number] == x[alike == number][0]).all() for number in np.unique(alike))
    whole = _classifier(x).fit(x[rows], y[rows]).predict_log_proba(x)
    np.testing.assert_allclose(_predict(_fit(x, y, alike, rows), x, 2), whole, atol=1e-9)
    assert _alike(rng.normal(size=(400, 3))) is None, "nothing is gained"
