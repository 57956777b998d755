"""What the store holds about a model: its answers and scores, and for its card those of all seeds and the verdict."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from srnet.bias.shortcuts.base import parse_shortcut
from srnet.config.fields import DESCRIBED, default_of
from srnet.core.files import read_json
from srnet.evaluation import KEEPS_ID
from srnet.evaluation.evidence import Evidence
from srnet.evaluation.metrics import baseline
from srnet.evaluation.significance import spread
from srnet.experiment.identity import describe, is_identifying
from srnet.experiment.nodes.base import every_node, load_task
from srnet.experiment.nodes.bias import Bias
from srnet.experiment.nodes.models import Evaluate, ModelNode
from srnet.experiment.store import Store, read_logits
from srnet.models.formats.card import About, Scored
from srnet.tasks.base import Task
from srnet.training.settings import Precision

Description = dict[str, Any]
"""A stored expression."""
_RAW = ("Pretrained", "FineTuned")
"""The types of models that others are made from."""


def read_answers(store: Store, key: str, task: Task) -> dict[str, np.ndarray]:
    """The answers of a stored evaluation, by split."""
    logits = read_logits(store, key)
    # of spans, the logits of every token are stored beside them, under other names
    splits = {name: split for name, split in task.splits.items() if name in logits}
    return {name: task.answer_kind.decode(split, logits[name]) for name, split in splits.items()}


def read_scores(store: Store, model: ModelNode) -> dict[str, Any]:
    """What is stored with a model's answers: its sparsity, counted on the mask, and its scores by split."""
    found: dict[str, Any] = read_json(store.path(Evaluate(model).key) / "scores.json")
    return found


def known_about(store: Store, node: ModelNode, keeps: float = KEEPS_ID) -> About:
    """Scores of all seeds that the store has of the same expression. `keeps` is the ID share that a verdict needs."""
    task, model = load_task(node.task_spec), describe(node)
    about = About(task.name, _suspicion(node, task), task.metric, node.formula, precision=node.eval_precision)
    if not store.has(Evaluate(node).key):
        return about
    stored = _evaluations(store, node.eval_precision)
    ours = _by_seed(store, [each for each in stored if each.expression == _without_seeds(model)])
    if not ours:
        return about
    evidence = Evidence[_Evaluation](task, lambda each: read_answers(store, each.key, task), keeps=keeps)
    models, groups = list(ours.values()), _full_models(store, stored, model, task.answer_kind.language)
    if task.answer_kind.language:  # the full model is the same for all seeds
        full = [each for group in groups for each in list(group.values())[:1] * len(ours)]
        # without differences from the full model: less is not always worse
        scores, others = (_scored(evidence, split, models, []) for split in task.compared), _others(evidence, models)
    else:
        same_seeds = [[group[seed] for seed in ours] for group in groups if ours.keys() <= group.keys()]
        full = max(same_seeds, key=lambda group: evidence.mean(group, evidence.id), default=[])
        scores, others = (_scored(evidence, split, models, full) for split in task.compared), ()
    verdict = evidence.verdict(models, full) if full and evidence.can_judge else None
    return replace(about, scores=tuple(scores), others=others, verdict=verdict)


def _suspicion(node: ModelNode, task: Task) -> str:
    """The shortcut that the model was debiased against, or else the task's own, in a sentence for each of its parts."""
    against = [each.suspected for each in every_node([node]).values() if isinstance(each, Bias)]
    return " ".join(dict.fromkeys(part.kind.sentence for part in parse_shortcut((against or [task.shortcut])[-1])))


@dataclass(frozen=True)
class _Evaluation:
    """A stored evaluation of a model on all splits."""

    key: str
    model: Description

    @property
    def expression(self) -> str:
        """The model, whatever its seed."""
        return _without_seeds(self.model)

    def is_full_model_of(self, raw: Description, is_language: bool) -> bool:
        """Whether the model is the raw one, fine-tuned with cross-entropy and nothing else, here or elsewhere.

        A language model is full as it is.
        """
        tuned = self.model
        if is_language:
            return tuned.get("type") == "Pretrained" and _without_seeds(tuned) == _without_seeds(raw)
        if self.model.get("type") == "FineTune" and self.model["objective"].get("name") == "ce":
            tuned = self.model["parent"]
        elif self.model.get("type") != "FineTuned":
            return False
        return tuned["type"] in _RAW and _without_seeds(tuned) == _without_seeds(raw)


def _evaluations(store: Store, precision: Precision) -> list[_Evaluation]:
    """The evaluations in one precision: others are not compared with them."""
    keys = [entry.key for entry in store.entries() if entry.type == "Evaluate"]
    expressions = {key: store.manifest(key)["expression"] for key in keys}
    wanted = {"splits": None, "precision": precision}
    known = {key: {"precision": "float32", "splits": None, **each} for key, each in expressions.items()}
    return [_Evaluation(key, each["model"]) for key, each in known.items() if wanted.items() <= each.items()]


def _by_seed(store: Store, evaluations: Sequence[_Evaluation]) -> dict[int, _Evaluation]:
    """The complete ones of the evaluations of one expression, in the order of the seeds."""
    found = {_raw(each.model)["seed"]: each for each in evaluations if store.has(each.key)}
    return dict(sorted(found.items()))


def _full_models(
    store: Store, stored: Sequence[_Evaluation], model: Description, is_language: bool
) -> list[dict[int, _Evaluation]]:
    """The full CE models of the same raw model, by seed: one group a training; none if the model is one of them."""
    groups: dict[str, list[_Evaluation]] = {}
    for each in stored:
        if each.is_full_model_of(_raw(model), is_language):
            groups.setdefault(each.expression, []).append(each)
    return [] if _without_seeds(model) in groups else [_by_seed(store, group) for group in groups.values()]


def _scored(
    evidence: Evidence[_Evaluation], split: str, ours: Sequence[_Evaluation], full: Sequence[_Evaluation]
) -> Scored:
    task, data = evidence.task, evidence.task.splits[split]
    gain = evidence.difference(ours, full, split) if full else None
    constant = baseline(task.answer_kind, task.metric, data.labels)
    # rounded as in the tables of scores
    return Scored(split, data.kind, spread(evidence.scores(ours, split)), gain, round(constant, 4))


def _others(evidence: Evidence[_Evaluation], ours: Sequence[_Evaluation]) -> tuple[Scored, ...]:
    """The scores by all metrics but the task's, on every split that has them."""
    task, found = evidence.task, list[Scored]()
    names = [name for name in task.answer_kind.metrics_for(task.labels) if name != task.metric]
    for split in task.scored:
        data = task.splits[split]
        for name in task.answer_kind.measured(names, data.labels):
            found.append(Scored(split, data.kind, spread(evidence.scores(ours, split, name)), metric=name))
    return tuple(found)


def _raw(model: Description) -> Description:
    """The raw model at the root of a description; empty for what is no model."""
    if model["type"] in _RAW:
        return model
    own = {"parent": model.get("parent"), **model}  # before the teacher of an objective, whose seed may be another
    parts = (value for value in own.values() if isinstance(value, dict) and "type" in value)
    return next(filter(None, map(_raw, parts)), {})


def _without_seeds(description: Any) -> str:
    return json.dumps(_stripped(description), sort_keys=True)


def _stripped(value: Any) -> Any:
    """A description without seeds and without what is no part of a key: locations of content, and defaults.

    So models of the same data belong together wherever these are, and whichever fields their description has.
    """
    if isinstance(value, dict):
        parts, ignored = {name: _stripped(each) for name, each in value.items()}, _ignored(value.get("type", ""))
        of_key = {name: each for name, each in parts.items() if ignored.get(name, _NOTHING) not in (each, _ANYTHING)}
        return {name: each for name, each in of_key.items() if name != "seed"}
    return [_stripped(each) for each in value] if isinstance(value, list) else value


_NOTHING, _ANYTHING = object(), object()


@cache
def _ignored(type: str) -> dict[str, Any]:
    """The values of fields that do not identify a described type."""
    fields = dataclasses.fields(DESCRIBED[type]) if type in DESCRIBED else ()  # type: ignore[arg-type]
    defaults = {f.name: default_of(f) for f in fields if default_of(f) is not dataclasses.MISSING}
    located = {f.name: _ANYTHING for f in fields if not is_identifying(f)}
    return {**{name: _stripped(describe(default)) for name, default in defaults.items()}, **located}
