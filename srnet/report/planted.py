"""Theory beside the results on a task with a planted shortcut."""

from __future__ import annotations

import numpy as np

from srnet.evaluation.metrics import reported
from srnet.experiment.nodes.models import Evaluate, ModelNode
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.store import read_logits
from srnet.report.evidence import RecipeEvidence
from srnet.tasks.base import CE_OPTIMAL, DEBIASED
from srnet.tasks.planted import PlantedTask, cues_of
from srnet.tasks.planted_theory import temperature, with_cue


def planted_theory(evidence: RecipeEvidence) -> dict[str, dict[str, float]]:
    """Scores of ideal classifiers by split, as far as the full model (PoE) knows the text; none without that line.

    The debiased one is that model. The CE-optimal one adds the log-odds of the cue to its logits, which are scaled by
    a factor that is fitted on ID dev: the logits of fine-tuned models are too sure. Means over seeds.
    """
    if not isinstance(evidence.recipe.task, PlantedTask):
        return {}
    models = [point.node for point in evidence.recipe.points if _is_debiased(point.node)]
    by_model = [_of_one(evidence, model, evidence.recipe.task.strength) for model in models]
    return {
        name: {split: float(np.mean([each[name][split] for each in by_model])) for split in evidence.splits}
        for name in (by_model[0] if by_model else ())
    }


def _is_debiased(node: ModelNode) -> bool:
    """Whether it is a full model that was fine-tuned with PoE from the raw one."""
    if not isinstance(node, FineTune) or node.parent is not node.pretrained:
        return False
    return node.objective.label == "poe" and node.training.update == "all"


def _of_one(evidence: RecipeEvidence, model: ModelNode, strength: float) -> dict[str, dict[str, float]]:
    task, logits = evidence.task, read_logits(evidence.store, Evaluate(model).key)
    splits = {name: task.splits[name] for name in evidence.splits}
    cues = {name: cues_of(task, split) for name, split in splits.items()}
    dev = evidence.id
    factor = temperature(logits[dev], cues[dev], splits[dev].labels, strength)
    answers = {
        CE_OPTIMAL: {name: with_cue(factor * logits[name], cues[name], strength).argmax(1) for name in splits},
        DEBIASED: {name: logits[name].argmax(1) for name in splits},
    }
    return {
        ideal: {name: reported(task.metric, each, splits[name].labels) for name, each in by_split.items()}
        for ideal, by_split in answers.items()
    }
