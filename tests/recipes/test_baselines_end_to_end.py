"""fig2 with baselines, computed: verdicts, the report and results.csv."""

from __future__ import annotations

import csv
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from srnet.core.progress import Reporter
from srnet.evaluation.verdict import Verdict
from srnet.experiment.engine import Engine
from srnet.experiment.store import Store
from srnet.recipes.baselines import HEAD, INT8, LAST_LAYER_OOD, LORA, ONE_SHOT
from srnet.recipes.figures import FIGURES, MASK_POE
from srnet.recipes.profiles import toy_profile
from srnet.recipes.recipe import FULL_CE
from srnet.report.evidence import RecipeEvidence
from srnet.report.results import Results, csv_text
from srnet.report.tables import judged_subnetworks, score_table
from srnet.tasks.synthetic import SyntheticTask

TASK = SyntheticTask("inference", train_size=200, dev_size=40, ood_size=40)


@pytest.fixture(scope="module")
def results(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two lines of the figure and its baselines, after ten steps."""
    profile = replace(toy_profile(TASK, tiny_backbone), seeds=(0, 1, 2))
    profile = profile.each_training(steps=10, eval_every=5, batch_size=8)
    recipe = FIGURES["fig2"].recipe(
        profile, (0.5,), (MASK_POE, HEAD, LAST_LAYER_OOD, LORA, ONE_SHOT, INT8.format(FULL_CE)), baselines=True
    )
    engine = Engine(Store(tmp_path_factory.mktemp("store")), Reporter(quiet=True))
    engine.execute(recipe.nodes())
    return Results(RecipeEvidence(recipe, engine.store))


def test_baselines_are_judged_together_with_the_subnetworks(results: Results) -> None:
    judged = {each.label for each in results.summaries if each.verdict is not None}
    assert judged == {MASK_POE, HEAD, LAST_LAYER_OOD, LORA, ONE_SHOT, INT8.format(FULL_CE)}
    assert {each.label for each, _ in judged_subnetworks(results)} == {MASK_POE}, "what the figure is about"
    rows = {row[0]: row for row in score_table(results).rows}
    assert rows[FULL_CE][2] == ""
    assert rows[HEAD][2]


def test_a_dense_model_is_no_srnet(results: Results) -> None:
    (head,) = (copy(each) for each in results.summaries if each.label == HEAD)
    (mask,) = (copy(each) for each in results.summaries if each.label == MASK_POE)
    assert (head.sparsity, head.verdict is None) == (0.0, False)
    for each in (head, mask):
        each.verdict = SimpleNamespace(is_srnet=True, short="yes", dense=Verdict.dense)  # type: ignore[assignment]
    assert (head.answer, mask.answer) == ("robust, but dense", "yes")


def test_the_csv_says_what_was_trained_on_ood_data(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(csv_text([results]))
    rows = list(csv.DictReader(path.open()))
    assert {row["line"] for row in rows if row["data"] == "id+ood"} == {LAST_LAYER_OOD}
    assert {row["objective_finetune"] for row in rows if row["line"] == INT8.format(FULL_CE)} == {"ce"}
