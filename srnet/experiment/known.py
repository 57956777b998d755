"""What the store knows about a model that leaves: its scores over seeds, and how they compare with the full model's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from srnet.evaluation.metrics import measure
from srnet.evaluation.significance import Interval, Term, contrast, spread
from srnet.evaluation.verdict import KEEPS_ID, MIN_SEEDS, Verdict, judge
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import Evaluate, ModelNode
from srnet.experiment.store import Store, read_logits
from srnet.models.formats.card import About, Scored
from srnet.tasks.base import Task

Description = dict[str, Any]
"""A stored expression."""
BySeed = Mapping[int, Mapping[str, np.ndarray]]
"""The answers of a model with several seeds, by seed and split."""


def known_about(store: Store, node: ModelNode) -> About:
    """Scores are those of all seeds that the store has of the same expression."""
    task, model = load_task(node.task_spec), describe(node)
    about = About(task.name, task.shortcut, task.metric, node.formula)
    if not store.has(Evaluate(node).key):
        return about
    evaluated, wanted = _evaluated(store), _without_seeds(model)
    alike = {_raw(each)["seed"]: key for key, each in evaluated.items() if _without_seeds(each) == wanted}
    alone = _Compared(task, _answers(store, alike, task))
    if not alone.ours:
        return about
    known = replace(alone, full=_full_model(store, evaluated, model, alone))
    return replace(about, scores=tuple(map(known.scored, task.scored)), verdict=known.verdict())


@dataclass(frozen=True)
class _Compared:
    """A model, and the full model of the same seeds if there is one."""

    task: Task
    ours: BySeed
    full: BySeed = field(default_factory=dict)

    def scores(self, side: BySeed, split: str) -> list[float]:
        """By seed, in percent."""
        labels = self.task.splits[split].labels
        return [100.0 * measure(self.task.metric, side[seed][split], labels) for seed in self.ours]

    def difference(self, split: str, weight: float = 1.0) -> Interval:
        """Ours minus `weight` times the full model's, seed by seed."""
        sides = ((1.0, self.ours), (-weight, self.full))
        terms = [Term(factor, split, [side[seed][split] for seed in self.ours]) for factor, side in sides]
        return contrast(terms, {split: self.task.splits[split].labels}, self.task.metric)

    def scored(self, split: str) -> Scored:
        data, gain = self.task.splits[split], self.difference(split) if self.full else None
        share = measure(self.task.metric, self.task.answer_kind.constant(data.labels), data.labels)
        constant = round(100.0 * share, 4)  # as in the tables of scores
        return Scored(split, data.kind, spread(self.scores(self.ours, split)), gain, constant)

    def verdict(self) -> Verdict | None:
        if not self.full or not self.task.ood or len(self.ours) < MIN_SEEDS:
            return None
        dev = self.task.dev.name
        mean, full_mean = (float(np.mean(self.scores(side, dev))) for side in (self.ours, self.full))
        return judge(mean, full_mean, self.difference(dev, KEEPS_ID), {s: self.difference(s) for s in self.task.ood})


def _full_model(store: Store, evaluated: Mapping[str, Description], model: Description, known: _Compared) -> BySeed:
    """The full cross-entropy model of the same raw model: the best on ID dev, if there are several."""
    raw, groups = _without_seeds(_raw(model)), dict[str, dict[int, str]]()
    for key, each in evaluated.items():
        plain = each.get("type") == "FineTune" and each["parent"]["type"] == "Pretrained"
        if plain and each["objective"].get("name") == "ce" and _without_seeds(each["parent"]) == raw:
            groups.setdefault(_without_seeds(each), {})[_raw(each)["seed"]] = key
    if _without_seeds(model) in groups:  # it is such a model itself
        return {}
    whole = (_answers(store, keys, known.task) for keys in groups.values())
    found = [side for side in whole if known.ours.keys() <= side.keys()]
    return max(found, key=lambda side: np.mean(known.scores(side, known.task.dev.name)), default={})


def _evaluated(store: Store) -> dict[str, Description]:
    """The models that were evaluated on all splits, by the keys of their evaluations."""
    found = {key: store.manifest(key)["expression"] for key in (e.key for e in store.entries() if e.type == "Evaluate")}
    return {key: each["model"] for key, each in found.items() if each.get("splits") is None}


def _answers(store: Store, keys: Mapping[int, str], task: Task) -> BySeed:
    """Of the evaluations that are whole."""
    found = {}
    for seed, key in sorted(keys.items()):
        if store.has(key):
            logits = read_logits(store, key)
            found[seed] = {name: task.answer_kind.decode(task.splits[name], logits[name]) for name in task.scored}
    return found


def _raw(model: Description) -> Description:
    """The raw model at the root of a description; none of what is no model."""
    if model["type"] == "Pretrained":
        return model
    parts = (value for value in model.values() if isinstance(value, dict) and "type" in value)
    return next(filter(None, map(_raw, parts)), {})


def _without_seeds(description: Any) -> str:
    return json.dumps(_stripped(description), sort_keys=True)


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stripped(each) for name, each in value.items() if name != "seed"}
    return [_stripped(each) for each in value] if isinstance(value, list) else value
