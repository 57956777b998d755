"""Reports on planted tasks: theory beside the scores, and the verdict where the cue says nothing."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from conftest import TASK, Ran
from scipy.special import log_softmax

from srnet.experiment.nodes.models import Evaluate
from srnet.experiment.store import Store, read_logits
from srnet.recipes.paradigms import Search, full, of_fine_tuned
from srnet.report.results import Results
from srnet.report.tables import verdict_line
from srnet.tasks.planted import ANTI, NEUTRAL, PlantedTask, cues_of

LINES = (
    partial(full, label="full"),
    partial(full, label="debiased", finetune="poe"),
    partial(of_fine_tuned, label="masks", search=Search("mask", "poe", (0.5,))),
)


@pytest.fixture(scope="module")
def planted(ran: Ran) -> Results:
    return ran("planted", *LINES, task=PlantedTask(TASK, 0.7))


def test_theory_is_made_of_the_debiased_model(planted: Results, store: Store) -> None:
    """By hand, with the log-odds of 0.7 and the factor for which the labels of dev are most likely, on a grid."""
    task = planted.recipe.task.load()
    nodes = [point.node for point in planted.recipe.points if point.label == "debiased"]
    ideal = dict.fromkeys(planted.splits, 0.0)
    for node in nodes:
        logits = read_logits(store, Evaluate(node).key)

        def answers(split: str, factor: float, logits: dict[str, np.ndarray] = logits) -> np.ndarray:
            towards = np.eye(2)[cues_of(task, task.splits[split])]
            return log_softmax(factor * logits[split] + np.log(0.7 / 0.3) * towards, axis=1)

        grid = np.exp(np.linspace(-5, 3, 4001))
        labels = task.dev.labels
        factor = max(grid, key=lambda f: answers("dev", f)[np.arange(len(labels)), labels].mean())
        for split in ideal:
            right = answers(split, factor).argmax(1) == task.splits[split].labels
            ideal[split] += 100.0 * right.mean() / len(nodes)
    assert planted.theory["theory: CE-optimal"] == pytest.approx(ideal, abs=1.0)
    debiased = next(each for each in planted.summaries if each.label == "debiased")
    measured = {split: score.mean for split, score in debiased.scores.items()}
    assert planted.theory["theory: ideal debiased"] == pytest.approx(measured, abs=1e-3)


def test_the_verdict_is_on_the_set_where_the_cue_misleads(planted: Results) -> None:
    (masks,) = (each for each in planted.summaries if each.verdict)
    assert masks.verdict is not None
    assert list(masks.verdict.gains) == [ANTI]
    assert planted.splits == {"dev": "ID dev", NEUTRAL: "OOD neutral", ANTI: "OOD anti"}


def test_without_a_cue_the_verdict_is_no_shortcut(ran: Ran) -> None:
    results = ran("no-cue", *LINES, task=PlantedTask(TASK, 0.5))
    (masks,) = (each for each in results.summaries if each.verdict)
    assert masks.verdict is not None
    assert masks.verdict.answer == "no shortcut"
    assert not masks.verdict.is_srnet
    assert verdict_line(results).startswith("No shortcut")
