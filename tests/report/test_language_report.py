"""Reports on language models: from a recipe to its page; the full model of all seeds, controls, and cards."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from tiny_language import write_language_model, write_pairs, write_texts

import srnet
from srnet.api.experiments import run_recipe
from srnet.core.progress import Reporter
from srnet.evaluation.language import Balanced, KeepsLanguage
from srnet.experiment.engine import Engine
from srnet.experiment.known import known_about
from srnet.experiment.nodes.models import Evaluate
from srnet.experiment.store import Store
from srnet.recipes.files import load_recipe
from srnet.recipes.recipe import FULL, Recipe
from srnet.report.evidence import RecipeEvidence
from srnet.report.language import conclude
from srnet.report.results import Results
from srnet.report.tables import best_subnetwork, judged_subnetworks, results_table, score_table, verdict_line

TRAINED = "{steps: 6, eval_every: 3, batch_size: 4, max_length: 16, learning_rate: 1.0e-3, score_rate: 5.0e-2}"
PAIRS = f"""
name: pairs
task:
  answer: pairs
  train: pairs.csv
  dev: pairs.csv
  ood:
    targets: {{path: pairs.csv, where: {{bias_type: gender}}}}
    job: {{path: pairs.csv, where: {{bias_type: job}}}}
  neutral: texts.txt
backbone: llama
seeds: 3
finetuning: {TRAINED.replace(", score_rate: 5.0e-2", "")}
pruning: {TRAINED}
lines:
  - {{label: full model}}
  - {{label: balanced, paradigm: c, pruner: mask, prune: "balance:keep=0.1", sparsities: [0.2]}}
  - {{label: from a, paradigm: a, pruner: mask, prune: balance, sparsities: [0.4]}}
  - {{label: no pairs, paradigm: c, pruner: mask, prune: "balance:weight=0", sparsities: [0.2], control: true}}
  - {{label: magnitude, paradigm: c, pruner: one-shot, sparsities: [0.2], control: true}}
  - {{label: dense, finetune: balance, control: true}}
  - {{label: twice, finetune: ce, after: balance}}
  - {{label: pruned then tuned, paradigm: a, pruner: wanda, after: balance, sparsities: [0.2], control: true}}
  - {{label: isolated, paradigm: b, pruner: mask, prune: balance, isolated: ce, sparsities: [0.2], control: true}}
"""
TEXT = f"""
name: text
task: {{answer: text, train: texts.txt, dev: texts.txt, ood: {{more: texts.txt}}}}
backbone: llama
seeds: 3
pruning: {TRAINED}
lines:
  - {{label: distilled, paradigm: c, pruner: mask, prune: ce, distil: true, sparsities: [0.1, 0.5]}}
  - {{label: wanda, paradigm: c, pruner: wanda, sparsities: [0.5]}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    write_language_model(folder / "llama", "llama, tied")
    write_pairs(folder)
    write_texts(folder, 3)
    for name, text in {"pairs": PAIRS, "text": TEXT}.items():
        (folder / f"{name}.yaml").write_text(text.replace("backbone: llama", f"backbone: {folder / 'llama'}"))
    return folder


@pytest.fixture(scope="module")
def store(folder: Path) -> Store:
    return Store(folder / "store")


@pytest.fixture(scope="module")
def made(folder: Path, store: Store) -> dict[str, tuple[Recipe, Results]]:
    engine, found = Engine(store, Reporter(False)), {}
    for name in ("pairs", "text"):
        recipe = load_recipe(folder / f"{name}.yaml")
        found[name] = (recipe, run_recipe(recipe, folder / f"out-{name}", engine))
    return found


def test_the_full_model_is_one_and_every_training_has_its_seed(made: dict[str, tuple[Recipe, Results]]) -> None:
    recipe, results = made["pairs"]
    keys = {(label, len({p.node.key for p in recipe.points if p.label == label})) for label in recipe.every_line}
    assert keys == {(label, 1 if label in ("full model", "magnitude") else 3) for label in recipe.every_line}
    assert {p.node.training.seed for p in recipe.points if p.label == "from a"} == {0, 1, 2}
    assert not any("trained as long" in p.label for p in recipe.points)
    full = next(each for each in results.summaries if each.label == FULL)
    assert all(score.sd == 0.0 for score in full.scores.values())
    assert full.verdict is None


def test_columns_of_pairs(made: dict[str, tuple[Recipe, Results]], folder: Path) -> None:
    _, results = made["pairs"]
    names = ["dev ss", "targets ss", "job ss", "dev lms", "targets lms", "job lms", "neutral perplexity"]
    assert list(results.columns) == names
    assert results.units == "ss (%), lms (%), perplexity"
    table = score_table(results)
    assert table.columns[2:4] == ["balanced?", "ID dev: ss"]
    assert "ID dev: lms" in table.columns
    assert "OOD job: lms" not in table.columns
    assert "ID dev: lms" not in results_table(results).columns
    written = {path.name for path in (folder / "out-pairs").iterdir()}
    assert {"report.html", "report.md", "results.csv", "pairs-pairs.png", "pairs-pairs-models.png"} <= written
    with (folder / "out-pairs" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["metric"] for row in rows} >= {"ss", "lms", "icat", "gap", "nll", "perplexity"}
    page = (folder / "out-pairs" / "report.html").read_text()
    assert "A balanced subnetwork keeps at least 95 %" in page
    assert "SRNet keeps" not in page
    assert "full CE model" not in page


def test_the_table_has_the_stored_scores(made: dict[str, tuple[Recipe, Results]], store: Store) -> None:
    _, results = made["pairs"]
    for summary in results.summaries:
        reports = [srnet.evaluate(model.key, engine=Engine(store, Reporter(False))).scores for model in summary.models]
        for name, column in results.columns.items():
            stored = [report[column.split]["metrics"][column.metric] for report in reports]
            assert summary.scores[name].mean == pytest.approx(np.mean(stored))


def test_controls_are_judged_alone_and_never_chosen(made: dict[str, tuple[Recipe, Results]], store: Store) -> None:
    recipe, results = made["pairs"]
    evidence = RecipeEvidence(recipe, store)
    judged = {(each.label, place): v for (_, place), v, each in _judged(evidence)}
    controls = {"no pairs", "magnitude", "dense", "pruned then tuned", "isolated"}
    assert {label for label, _ in judged} == {"balanced", "from a"} | controls
    assert all(isinstance(verdict, Balanced) for verdict in judged.values())
    for (label, place), verdict in judged.items():
        alone = evidence.verdict(evidence.models(label, sparsity=place.sparsity), results.summaries[0].models)
        factor = 1 if label in controls else 2
        assert verdict.p_value <= factor * alone.p_value + 1e-12
        assert verdict.p_value >= alone.p_value - 1e-12
    assert {summary.label for summary, _ in judged_subnetworks(results)} == {"balanced", "from a"}
    best = best_subnetwork(results)
    assert best is not None
    assert best[0].label in ("balanced", "from a")
    assert best[0].label in conclude(results, *best)
    assert verdict_line(results).startswith("Verdict: ")


def _judged(evidence: RecipeEvidence) -> list[Any]:
    by_place = {(each.label, each.point.place): each for each in evidence.summaries}
    return [(place, verdict, by_place[place]) for place, verdict in evidence.verdicts.items()]


def test_a_recipe_on_text(made: dict[str, tuple[Recipe, Results]], store: Store) -> None:
    recipe, results = made["text"]
    assert list(results.columns) == ["dev perplexity", "more perplexity"]
    verdicts = RecipeEvidence(recipe, store).verdicts
    assert len(verdicts) == 3
    assert all(isinstance(verdict, KeepsLanguage) for verdict in verdicts.values())
    wanda = next(each for each in results.summaries if each.label == "wanda")
    full = RecipeEvidence(recipe, store).full_models(wanda.models)
    ratio = wanda.scores["dev perplexity"].mean / RecipeEvidence(recipe, store).mean(full, "dev", "perplexity")
    assert wanda.verdict is not None
    assert wanda.verdict.kept_percent.startswith(f"{ratio:.2f} times the perplexity")
    assert "perplexity" in results.sentence


def test_the_card_has_the_verdict(made: dict[str, tuple[Recipe, Results]], store: Store) -> None:
    recipe, _ = made["pairs"]
    points = [p for p in recipe.points if p.label == "balanced"]
    about = known_about(store, points[0].node)
    assert isinstance(about.verdict, Balanced)
    full = [RecipeEvidence(recipe, store).references[p.backbone].full[p.seed] for p in points]
    expected = RecipeEvidence(recipe, store).verdict([p.node for p in points], full)
    assert about.verdict == expected
    assert known_about(store, full[0]).verdict is None


def test_another_recipe_shares_what_is_stored(made: dict[str, tuple[Recipe, Results]], store: Store) -> None:
    recipe, _ = made["pairs"]
    assert all(store.has(node.key) for node in recipe.nodes())
    assert not Engine(store, Reporter(False)).plan([Evaluate(point.node) for point in recipe.points])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("control: maybe", "control is 'maybe'"),
        ("prune: poe", "classes"),
        ("prune: reweight", "classes"),
        ("pruner: wanda", "takes no objective"),
    ],
)
def test_lines_that_do_not_fit(line: str, says: str, folder: Path) -> None:
    values = "paradigm: c, pruner: mask, prune: balance, sparsities: [0.2]"
    key = line.split(":")[0]
    kept = ", ".join(part for part in values.split(", ") if not part.startswith(f"{key}:"))
    text = f"lines:\n  - {{label: x, {kept}, {line}}}\n"
    head = (folder / "pairs.yaml").read_text().split("lines:")[0]
    (folder / "bad.yaml").write_text(head + text)
    with refused(says):
        load_recipe(folder / "bad.yaml").nodes()


NO_OOD = "{answer: pairs, train: pairs.csv, dev: pairs.csv, neutral: texts.txt}"
NO_LANGUAGE = "{answer: pairs, train: crows.csv, dev: crows.csv, ood: {more: crows.csv}}"


@pytest.mark.parametrize(("task", "needs"), [(NO_OOD, "a test set of pairs is needed"), (NO_LANGUAGE, "neutral text")])
def test_a_task_without_a_verdict(task: str, needs: str, folder: Path, store: Store) -> None:
    write_pairs(folder, "crows.csv", unrelated=False)
    head = (folder / "pairs.yaml").read_text()
    start, end = head.index("task:"), head.index("backbone:")
    lines = "lines:\n  - {label: w, paradigm: c, pruner: wanda, sparsities: [0.2]}\n"
    (folder / "none.yaml").write_text(f"task: {task}\n{head[end : head.index('lines:')]}{lines}")
    assert start < end
    recipe = load_recipe(folder / "none.yaml")
    results = run_recipe(recipe, folder / "out-none", Engine(store, Reporter(False)))
    assert results.sentence.startswith("No verdict: ")
    assert needs in results.sentence
    assert "minus" not in " ".join(score_table(results).columns)
    assert results_table(results).rows


def test_the_first_sentence_names_the_full_model_also_if_it_is_not_shown(folder: Path, store: Store) -> None:
    head = (folder / "pairs.yaml").read_text().split("lines:")[0]
    lines = "  - {label: dense, finetune: balance}\n  - {label: w, paradigm: c, pruner: wanda, sparsities: [0.2]}\n"
    (folder / "order.yaml").write_text(f"{head}lines:\n{lines}")
    recipe = load_recipe(folder / "order.yaml")
    results = run_recipe(recipe, folder / "out-order", Engine(store, Reporter(False)))
    full = srnet.evaluate(str(folder / "llama"), task=recipe.task, engine=Engine(store, Reporter(False)))
    expected = [full.scores[split]["metrics"]["ss"] for split in ("targets", "job")]
    assert f"the full model in {expected[0]:.1f} % and {expected[1]:.1f} %" in results.sentence


def test_a_bias_model_is_refused(folder: Path) -> None:
    text = (folder / "pairs.yaml").read_text().replace("seeds: 3", "seeds: 3\nbias: {shortcut: words}")
    (folder / "biased.yaml").write_text(text)
    with refused("bias", "leave it out"):
        load_recipe(folder / "biased.yaml")
