"""Verdicts, notes and warnings on results that were made up: what is compared with what, and what is doubtful."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import remember, remember_bias, remember_trainings

from srnet.cli.recipes import _print_results
from srnet.experiment import ModelNode, Store, load_task
from srnet.recipes import FIGURES, Line, Recipe
from srnet.recipes.figures import IMP_CE, IMP_POE, MASK_CE, MASK_POE
from srnet.recipes.toy import toy_setup
from srnet.report import Page, Results, Section, collect, nodes_of
from srnet.report.claims import answer_claims
from srnet.report.evidence import Evidence
from srnet.report.markdown import render_markdown
from srnet.report.masks import MaskPictures
from srnet.report.page import render_page
from srnet.tasks.base import Metric, Task
from srnet.tasks.splits import Coarse, Kind, Split
from srnet.training import TrainingSettings

EXAMPLES = 400
FULL, CONTROL, SUB = Line("full"), Line("full, trained as long", as_long=True), "masks"
LINE = Line(SUB, "c", pruner="mask", prune="poe", sparsities=(0.5, 0.7))


@dataclass(frozen=True)
class MadeUpTask:
    """Balanced classes; OOD `hard` may tell fewer apart."""

    metric: Metric = "accuracy"
    coarse: bool = False
    ood: tuple[str, ...] = ("hard",)
    examples: int = EXAMPLES
    name: str = "mine"

    def load(self) -> Task:
        def split(name: str, kind: Kind) -> Split:
            size = self.examples
            ids, texts = tuple(map(str, range(size))), tuple(f"{name} {n}" for n in range(size))
            classes = Coarse(("yes", "no"), (0, 1, 1)) if self.coarse and kind == "OOD" else None
            labels = np.arange(size) % (2 if classes or not self.coarse else 3)
            return Split(name, kind, ids, texts, texts, labels, ("",) * size, classes)

        labels = ("a", "b", "c") if self.coarse else ("a", "b")
        ood = {name: split(name, "OOD") for name in self.ood}
        return Task("mine", labels, self.metric, "overlap", split("train", "ID"), split("dev", "ID"), ood)


@pytest.fixture(autouse=True)
def _keys_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.experiment.nodes.models.backbone_hash", lambda name, head: f"hash of {name}")
    monkeypatch.setattr("srnet.files.os.fsync", lambda descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").open()


def right(labels: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    """Answers of which this share is right."""
    order = np.random.default_rng(seed).permutation(len(labels))
    answers = 1 - np.minimum(labels, 1)
    answers[order[: round(share * len(labels))]] = labels[order[: round(share * len(labels))]]
    return answers


def made_recipe(lines: tuple[Line, ...], task: MadeUpTask | None = None, seeds: int = 3, search: int = 4) -> Recipe:
    finetuning, pruning = (TrainingSettings(steps=steps, eval_every=2, batch_size=4) for steps in (2, search))
    return Recipe("made", task or MadeUpTask(), lines, "nowhere", tuple(range(seeds)), finetuning, pruning)


Answers = Mapping[str, np.ndarray]


def made_results(
    store: Store,
    answers: Callable[[str, int], Answers],
    bias: Answers,
    task: MadeUpTask | None = None,
    seeds: int = 3,
    lines: tuple[Line, ...] = (FULL, LINE),
) -> Results:
    """`answers` gives those of a line and a seed, by split."""
    recipe = made_recipe(lines, task, seeds)
    for point in recipe.points():
        remember(store, point.node, answers(point.line.label, point.seed), point.sparsity)
        remember(store, recipe.full_model(point.seed), answers(FULL.label, point.seed), 0.0)
    remember_bias(store, recipe.bias_model(), bias)
    remember_trainings(store, recipe)
    return collect(recipe, store)


def of_shares(
    shares: Mapping[str, tuple[float, float]], task: MadeUpTask | None = None
) -> Callable[[str, int], Answers]:
    """ID and OOD accuracy by line; models of one seed are wrong on the same examples."""
    loaded = load_task(task or MadeUpTask())

    def answers(line: str, seed: int) -> Answers:
        id, ood = shares[line]
        return {
            name: right(loaded.splits[name].labels, ood if name in loaded.ood else id, seed) for name in loaded.scored
        }

    return answers


def shortcut() -> Answers:
    """A bias model that is right on 70 % of ID dev, and on every other pair of OOD examples."""
    labels = np.arange(EXAMPLES) % 2
    pairs = np.arange(EXAMPLES) // 2 % 2 == 0
    return {"dev": right(labels, 0.7), "hard": np.where(pairs, labels, 1 - labels)}


FOOLED = np.arange(EXAMPLES) // 2 % 2 == 0
"""The OOD examples on which that bias model is right."""


def fooled(line: str, seed: int) -> Answers:
    """The full model is right OOD mostly where the shortcut is; subnetworks are better where it is wrong."""
    labels = np.arange(EXAMPLES) % 2
    where_wrong = right(labels, 0.1 if line.startswith("full") else 0.5, seed)
    return {"dev": right(labels, 0.9, seed), "hard": np.where(FOOLED, right(labels, 0.95, seed), where_wrong)}


# --- the full CE model ---------------------------------------------------------------------------------------------


def test_without_a_control_the_full_model_is_the_reference(store: Store) -> None:
    results = made_results(store, fooled, shortcut())
    assert [note.split(":")[0] for note in results.notes] == ["bias model"], "nothing about a control"
    assert results.warnings == []
    assert [s.verdict.answer for s in results.summaries if s.verdict] == ["yes", "yes"]


@pytest.mark.parametrize("better", [FULL, CONTROL])
def test_the_reference_is_the_better_one_on_id_dev(better: Line, store: Store) -> None:
    worse = CONTROL if better is FULL else FULL
    shares = {better.label: (0.95, 0.5), worse.label: (0.9, 0.8), SUB: (0.9, 0.6)}
    results = made_results(store, of_shares(shares), shortcut(), lines=(FULL, CONTROL, LINE))
    for summary in results.summaries[2:]:
        assert summary.verdict is not None
        assert summary.verdict.gains["hard"].difference == pytest.approx(10.0)
        assert summary.verdict.id_share == pytest.approx(0.9 / 0.95)
    assert any(f'"Full CE model" means {better.label}:' in note for note in results.notes)


def test_a_tie_is_decided_for_the_full_model_and_it_is_not_called_undertrained(store: Store) -> None:
    shares = dict.fromkeys((FULL.label, CONTROL.label, SUB), (0.9, 0.6))
    results = made_results(store, of_shares(shares), shortcut(), lines=(FULL, CONTROL, LINE))
    assert results.notes[0].startswith('"Full CE model" means full: ')
    assert not any("undertrained" in note for note in results.notes)


def test_a_full_model_that_longer_training_changes_was_undertrained(store: Store) -> None:
    shares = {FULL.label: (0.9, 0.6), CONTROL.label: (0.9, 0.7), SUB: (0.9, 0.7)}
    results = made_results(store, of_shares(shares), shortcut(), lines=(FULL, CONTROL, LINE))
    (note,) = [note for note in results.notes if "undertrained" in note]
    assert "ID dev +0.0 [+0.0, +0.0], OOD hard +10.0 [" in note


def test_the_control_is_computed_with_the_rest() -> None:
    recipe = made_recipe((FULL, CONTROL, LINE))
    keys = {node.key for node in nodes_of(recipe)}
    control = recipe.control(0)
    assert control is not None
    assert control.key in keys


def test_a_control_that_is_no_longer_than_the_full_model_is_none() -> None:
    recipe = made_recipe((FULL, CONTROL, LINE), search=2)
    evidence = MadeUpEvidence(recipe, {FULL.label: (0.9, 0.6), CONTROL.label: (0.9, 0.6), SUB: (0.9, 0.6)}, 0.0, 0)
    assert not evidence.reference().has_control
    assert evidence.control_minus_full(None) == {}


# --- warnings ------------------------------------------------------------------------------------------------------


def test_a_full_model_that_is_not_fooled_is_doubtful(store: Store) -> None:
    shares = {FULL.label: (0.9, 0.6), SUB: (0.9, 0.7)}
    (warning,) = made_results(store, of_shares(shares), shortcut()).warnings
    assert warning.startswith("the full CE model does not fall for the shortcut: its OOD accuracy where the bias model")


def test_a_bias_model_that_is_always_wrong_ood_cannot_tell(store: Store) -> None:
    labels = np.arange(EXAMPLES) % 2
    bias = {"dev": right(labels, 0.7), "hard": 1 - labels}
    assert made_results(store, of_shares({FULL.label: (0.9, 0.6), SUB: (0.9, 0.7)}), bias).warnings == []


@pytest.mark.parametrize(("share", "said"), [(0.72, []), (0.715, ["barely beats"]), (0.6, ["does not beat"])])
def test_a_full_model_that_knows_little_beside_the_shortcut(share: float, said: list[str], store: Store) -> None:
    def answers(line: str, seed: int) -> Answers:
        return {**fooled(line, seed), "dev": right(np.arange(EXAMPLES) % 2, share)}

    warnings = made_results(store, answers, shortcut()).warnings
    assert len(warnings) == len(said)
    for warning, words in zip(warnings, said, strict=True):
        assert words in warning
        assert f"on ID dev: {100 * (share - 0.7):+.1f} points" in warning


def test_gains_below_the_majority_class_are_named_together(store: Store) -> None:
    def answers(line: str, seed: int) -> Answers:
        labels = np.arange(EXAMPLES) % 2
        where_wrong = right(labels, 0.0 if line.startswith("full") else 0.04, seed)
        return {"dev": right(labels, 0.9, seed), "hard": np.where(FOOLED, right(labels, 0.9, seed), where_wrong)}

    line = replace(LINE, sparsities=(0.3, 0.4, 0.5, 0.6, 0.7))
    results = made_results(store, answers, shortcut(), lines=(FULL, line))
    assert results.warnings == [
        "5 subnetworks (masks, 30 %; masks, 40 %; masks, 50 % and 2 more): better than the full CE model OOD, but no "
        "better than the majority class"
    ]


def test_coarse_classes_are_judged_as_coarse_classes(store: Store) -> None:
    """The bias model answers c where the split knows "no": that is right."""
    task = MadeUpTask(coarse=True)
    dev, hard = (load_task(task).splits[name].labels for name in ("dev", "hard"))
    bias = {"dev": (dev + 1) % 3, "hard": np.where(FOOLED, 2 * hard, 2 - 2 * hard)}

    def answers(line: str, seed: int) -> Answers:
        return {"dev": dev, "hard": np.where(FOOLED, 2 * hard, 2 - 2 * hard)}

    assert made_results(store, answers, bias, task).warnings == []


def one_sided(answers_of_class_1: int, right_ones: int, labels: np.ndarray) -> np.ndarray:
    """Everything is class 0 but for a few examples, of which so many truly are class 1."""
    answers = np.zeros_like(labels)
    answers[np.flatnonzero(labels == 1)[:right_ones]] = 1
    answers[np.flatnonzero(labels == 0)[: answers_of_class_1 - right_ones]] = 1
    return answers


@pytest.fixture
def doubtful(store: Store) -> Results:
    """One seed; F1 gains 0.8 points, accuracy none; the full model gives one answer to 97 % and is not fooled."""
    task = MadeUpTask("f1")
    labels = np.arange(EXAMPLES) % 2

    def answers(line: str, seed: int) -> Answers:
        few = (12, 6) if line == FULL.label else (16, 8)
        return {"dev": right(labels, 0.9, seed), "hard": one_sided(*few, labels)}

    return made_results(store, answers, shortcut(), task, seeds=1, lines=(FULL, replace(LINE, sparsities=(0.5,))))


def test_a_doubtful_gain_gets_no_verdict_and_two_warnings(doubtful: Results, capsys: Any, tmp_path: Path) -> None:
    (_, sub) = doubtful.summaries
    assert sub.verdict is not None
    assert sub.verdict.gains["hard"].difference == pytest.approx(0.76, abs=0.01)
    assert sub.verdict.short == "one seed: no verdict"
    assert len(doubtful.warnings) == 2
    first, second = doubtful.warnings
    assert "does not fall for the shortcut" in first
    assert second == "masks, 50 %: accuracy and F1 disagree about the sign of the OOD gain"
    page = Page("A title", "srnet", [Section(doubtful, MaskPictures([], [], b"", ""), "srnet")])
    _print_results([doubtful], tmp_path)
    printed = " ".join(capsys.readouterr().out.split())
    for text in (printed, render_markdown(page)):
        assert "No verdict: one seed cannot tell a gain from luck" in text
        assert f"Warning: {second}." in text
        assert f"Warning: {first}." in text
    html = render_page(page)
    assert html.count('<p class="warning"><strong>Warning:</strong>') == 2
    assert 'class="lead no"' in html


# --- verdicts and claims -------------------------------------------------------------------------------------------

CANDIDATES = (MASK_CE, MASK_POE)
FOUR = (*CANDIDATES, IMP_CE, IMP_POE)


class MadeUpEvidence(Evidence):
    """Random answers instead of stored ones: every line has its own accuracy, every model its own luck."""

    def __init__(self, recipe: Recipe, shares: Mapping[str, tuple[float, float]], noise: float, luck: int) -> None:
        super().__init__(recipe, Store("nowhere"))
        self.shares, self.noise, self.luck = shares, noise, luck
        self.labels = {point.node.key: point.line.label for point in recipe.points()}

    @lru_cache(maxsize=1000)  # noqa: B019
    def answers(self, model: ModelNode, split: str) -> np.ndarray:
        id, ood = self.shares[self.labels[model.key]]
        rng = np.random.default_rng([self.luck, *f"{model.key} {split}".encode()])
        share = (id if split == self.id else ood) + self.noise * rng.normal()
        labels = self.task.splits[split].labels
        return np.where(rng.random(len(labels)) < share, labels, 1 - labels)

    def sparsity(self, point: Any) -> float:
        return float(point.sparsity)


SHARE = st.tuples(st.sampled_from([0.5, 0.86, 0.9, 0.99]), st.sampled_from([0.3, 0.6, 0.62, 0.9]))


@given(st.tuples(*[SHARE] * 7), st.integers(1, 5), st.sampled_from([0.0, 0.01, 0.1]), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_verdicts_and_claims_never_contradict_each_other(
    drawn: tuple[tuple[float, float], ...], seeds: int, noise: float, luck: int
) -> None:
    task = MadeUpTask(ood=("hard", "harder"), examples=300)
    recipe = FIGURES["fig2"].recipe(toy_setup(task), tuple(range(seeds)))
    shares = dict(zip((line.label for line in recipe.lines), drawn, strict=True))
    evidence = MadeUpEvidence(recipe, shares, noise, luck)
    found = {finding.claim.name: finding for finding in answer_claims([evidence])}
    verdicts = {(label, s): verdict for (label, s, _, _), verdict in evidence.verdicts.items()}
    candidates = [verdict.answer for (label, s), verdict in verdicts.items() if label in CANDIDATES and s <= 0.7]
    assert (found["srnets-a"].answer == "holds") == ("yes" in candidates)
    assert (found["srnets-a"].answer == "does not hold") == (set(candidates) == {"no"})
    kept = {part.what: part.answer for part in found["keeps-id"].parts}
    for (label, s), verdict in verdicts.items():
        part = kept.get(f"{label} at {100 * s:g} %, ID minus 95 % of the full model's")
        assert part is None or s <= 0.7
        if part == "holds":
            assert "ID" not in verdict.fails
        if part == "does not hold":
            assert verdict.answer == "no"
        if part is not None and verdict.answer == "yes":
            assert part == "holds"
    if seeds < 3:
        assert {verdict.answer for verdict in verdicts.values()} == {"no verdict"}
        assert {finding.answer for finding in found.values()} == {"not enough evidence"}
