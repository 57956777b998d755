"""What the store knows about a model that leaves: its scores over seeds, and how they compare with the full model's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from srnet.evaluation import KEEPS_ID, MIN_SEEDS, Interval, Term, Verdict, contrast, judge, measure, spread
from srnet.experiment import Evaluate, ModelNode, Store, load_task
from srnet.experiment.identity import describe
from srnet.export import About, Scored
from srnet.tasks.base import Task

Answers = Mapping[str, np.ndarray]
"""A model's answers by split."""


def known_about(store: Store, node: ModelNode) -> About:
    """Scores are those of all seeds that the store has of the same expression."""
    task, facts = load_task(node.task_spec), _Known(store)
    about = About(task.name, task.shortcut, task.metric, node.formula)
    ours = facts.answers(facts.like(describe(node)), task) if store.has(Evaluate(node).key) else {}
    if not ours:
        return about
    full = _full_model(facts, describe(node), set(ours), task)
    scores = tuple(_scored(task, split, ours, full) for split in task.scored)
    return About(about.task, about.shortcut, about.metric, about.how, scores, _verdict(task, ours, full))


def _scored(task: Task, split: str, ours: Mapping[int, Answers], full: Mapping[int, Answers]) -> Scored:
    kind = task.splits[split].kind
    gain = _difference(task, split, ours, full) if full else None
    return Scored(split, kind, spread([_score(task, split, each) for each in ours.values()]), gain)


def _verdict(task: Task, ours: Mapping[int, Answers], full: Mapping[int, Answers]) -> Verdict | None:
    if not full or not task.ood or len(ours) < MIN_SEEDS:
        return None
    dev = task.dev.name
    mean, full_mean = (np.mean([_score(task, dev, side[seed]) for seed in ours]) for side in (ours, full))
    kept, gains = _difference(task, dev, ours, full, KEEPS_ID), {s: _difference(task, s, ours, full) for s in task.ood}
    return judge(float(mean), float(full_mean), kept, gains)


def _score(task: Task, split: str, answers: Answers) -> float:
    return 100.0 * measure(task.metric, answers[split], task.splits[split].labels)


def _difference(
    task: Task, split: str, ours: Mapping[int, Answers], full: Mapping[int, Answers], weight: float = 1.0
) -> Interval:
    """Ours minus `weight` times the full model's, seed by seed."""
    terms = [
        Term(1.0, split, [ours[seed][split] for seed in ours]),
        Term(-weight, split, [full[seed][split] for seed in ours]),
    ]
    return contrast(terms, {split: task.splits[split].labels}, task.metric)


def _full_model(facts: _Known, ours: dict[str, Any], seeds: set[int], task: Task) -> Mapping[int, Answers]:
    """The full cross-entropy model of the same raw model: the best on ID dev, if there are several."""
    raw = _without_seeds(_raw(ours))
    groups: dict[str, dict[int, str]] = {}
    for key, model in facts.evaluated:
        plain = model.get("type") == "FineTune" and model["parent"]["type"] == "Pretrained"
        if plain and model["objective"].get("name") == "ce" and _without_seeds(model["parent"]) == raw:
            groups.setdefault(_without_seeds(model), {})[_raw(model)["seed"]] = key
    if _without_seeds(ours) in groups:  # it is such a model itself
        return {}
    found = [facts.answers(keys, task) for keys in groups.values() if seeds <= set(keys)]
    dev = task.dev.name
    return max(found, key=lambda side: np.mean([_score(task, dev, side[seed]) for seed in seeds]), default={})


class _Known:
    """The evaluations in a store, by what they are of."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.evaluated = list(_evaluated(store))

    def like(self, model: dict[str, Any]) -> dict[int, str]:
        """Seed -> key of the evaluation, for models that differ in nothing but the seed."""
        wanted = _without_seeds(model)
        return {_raw(each)["seed"]: key for key, each in self.evaluated if _without_seeds(each) == wanted}

    def answers(self, keys: Mapping[int, str], task: Task) -> dict[int, Answers]:
        whole = {seed: key for seed, key in sorted(keys.items()) if self.store.has(key)}
        return {seed: self._answers(key, task) for seed, key in whole.items()}

    def _answers(self, key: str, task: Task) -> Answers:
        with np.load(self.store.path(key) / "logits.npz", allow_pickle=False) as file:
            return {name: task.answer_kind.decode(task.splits[name], file[name]) for name in task.scored}


def _evaluated(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in (entry.key for entry in store.entries() if entry.type == "Evaluate"):
        expression = store.manifest(key)["expression"]
        if expression.get("splits") is None:
            yield key, expression["model"]


def _raw(model: dict[str, Any]) -> dict[str, Any]:
    """The raw model at the root of a description."""
    if model["type"] == "Pretrained":
        return model
    parts = (value for value in model.values() if isinstance(value, dict) and "type" in value)
    return next(found for found in map(_raw_or_none, parts) if found)


def _raw_or_none(model: dict[str, Any]) -> dict[str, Any]:
    try:
        return _raw(model)
    except StopIteration:
        return {}


def _without_seeds(description: Any) -> str:
    return json.dumps(_stripped(description), sort_keys=True)


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stripped(each) for name, each in value.items() if name != "seed"}
    return [_stripped(each) for each in value] if isinstance(value, list) else value
