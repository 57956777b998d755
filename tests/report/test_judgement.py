"""Verdicts, notes and warnings on results that were made up: what is compared with what, and what is doubtful."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import remember, remember_bias, remember_trainings
from series import recipe_of

from srnet.cli.recipes import _print_results
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import ModelNode
from srnet.experiment.store import Store
from srnet.recipes.figures import FIGURES, MASK_CE, MASK_POE
from srnet.recipes.paradigms import Profile, Search, full, labels_of, of_fine_tuned, of_raw
from srnet.recipes.profiles import toy_profile
from srnet.recipes.recipe import Recipe
from srnet.report import results as notes
from srnet.report.claims import answer_claims
from srnet.report.evidence import RecipeEvidence
from srnet.report.masks import MaskPictures
from srnet.report.page import Page, Section, _render_markdown, render_page
from srnet.report.results import Results
from srnet.tasks.base import Metric, Task
from srnet.tasks.splits import Coarse, Split, SplitKind
from srnet.training.settings import TrainingSettings

pytestmark = pytest.mark.usefixtures("keys_are_cheap")

EXAMPLES = 400
FULL, CONTROL, SUB = "full", "full, trained as long", "masks"


@dataclass(frozen=True)
class MadeUpTask:
    """Balanced classes; OOD `hard` may tell fewer apart."""

    metric: Metric = "accuracy"
    coarse: bool = False
    ood: tuple[str, ...] = ("hard",)
    examples: int = EXAMPLES
    name: str = "mine"

    def load(self) -> Task:
        def split(name: str, kind: SplitKind) -> Split:
            size = self.examples
            ids, texts = tuple(map(str, range(size))), tuple(f"{name} {n}" for n in range(size))
            classes = Coarse(("yes", "no"), (0, 1, 1)) if self.coarse and kind == "OOD" else None
            labels = np.arange(size) % (2 if classes or not self.coarse else 3)
            return Split(name, kind, ids, texts, texts, labels, ("",) * size, classes)

        labels = ("a", "b", "c") if self.coarse else ("a", "b")
        ood = {name: split(name, "OOD") for name in self.ood}
        return Task("mine", labels, self.metric, "overlap", split("train", "ID"), split("dev", "ID"), ood)


LABELS = np.arange(EXAMPLES) % 2
FOOLED = np.arange(EXAMPLES) // 2 % 2 == 0
"""The OOD examples on which that bias model is right."""


def right(labels: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    """Answers of which this share is right."""
    order = np.random.default_rng(seed).permutation(len(labels))
    answers = 1 - np.minimum(labels, 1)
    answers[order[: round(share * len(labels))]] = labels[order[: round(share * len(labels))]]
    return answers


Answers = Mapping[str, np.ndarray]


def made_results(
    own_store: Store,
    answers: Callable[[str, int], Answers],
    bias: Answers | None = None,
    task: MadeUpTask = MadeUpTask(),  # noqa: B008
    seeds: int = 3,
    sparsities: tuple[float, ...] = (0.5, 0.7),
    control: bool = False,
    steps: int = 4,
) -> Results:
    """A full model, trained for two steps, and masks of the raw one, searched for in `steps`.

    `answers` gives those of a line and a seed, by split; `bias` those of the bias model.
    """
    finetuning, pruning = (TrainingSettings(steps=each, eval_every=2, batch_size=4) for each in (2, steps))
    profile = Profile(task, "nowhere", tuple(range(seeds)), finetuning, pruning)
    masks = partial(of_raw, label=SUB, search=Search("mask", "poe", sparsities))
    recipe = recipe_of(profile, partial(full, label=FULL), masks, control=control)
    for point in recipe.points:
        remember(own_store, point.node, answers(point.label, point.seed), point.place.sparsity)
    remember_bias(own_store, profile.bias.node(task, profile.backbone), bias or shortcut())
    remember_trainings(own_store, recipe)
    return Results(RecipeEvidence(recipe, own_store))


def of_shares(shares: Mapping[str, tuple[float, float]]) -> Callable[[str, int], Answers]:
    """ID and OOD accuracy by line; models of one seed are wrong on the same examples."""
    return lambda line, seed: {
        "dev": right(LABELS, shares[line][0], seed),
        "hard": right(LABELS, shares[line][1], seed),
    }


def shortcut() -> Answers:
    """A bias model that is right on 70 % of ID dev, and on every other pair of OOD examples."""
    return {"dev": right(LABELS, 0.7), "hard": np.where(FOOLED, LABELS, 1 - LABELS)}


def fooled(line: str, seed: int) -> Answers:
    """The full model is right OOD mostly where the shortcut is; subnetworks are better where it is wrong."""
    where_wrong = right(LABELS, 0.1 if line.startswith("full") else 0.5, seed)
    return {"dev": right(LABELS, 0.9, seed), "hard": np.where(FOOLED, right(LABELS, 0.95, seed), where_wrong)}


# --- the full CE model ---------------------------------------------------------------------------------------------


def controlled(own_store: Store, full: tuple[float, float], control: tuple[float, float], **more: Any) -> Results:
    shares = {FULL: full, CONTROL: control, SUB: (0.9, 0.6)}
    return made_results(own_store, of_shares(shares), control=True, **more)


def test_without_a_control_the_full_model_is_the_reference(own_store: Store) -> None:
    results = made_results(own_store, fooled)
    assert [note.split(":")[0] for note in results.notes] == ["bias model"], "nothing about a control"
    assert results.warnings == []
    assert [s.verdict.answer for s in results.summaries if s.verdict] == ["yes", "yes"]


@pytest.mark.parametrize(
    ("full", "control", "better"),
    [
        ((0.95, 0.5), (0.9, 0.8), FULL),
        ((0.9, 0.8), (0.95, 0.5), CONTROL),
        ((0.9, 0.5), (0.9, 0.5), FULL),  # a tie
    ],
)
def test_the_reference_is_the_better_one_on_id_dev(full: Any, control: Any, better: str, own_store: Store) -> None:
    results = controlled(own_store, full, control)
    for summary in results.summaries[2:]:
        assert summary.verdict is not None
        assert summary.verdict.gains["hard"].difference == pytest.approx(10.0)
        assert summary.verdict.id_share == pytest.approx(0.9 / max(full[0], control[0]))
    assert results.notes[0].startswith(f'"Full CE model" means {better}:')
    assert any("longest search, " in note for note in results.notes[1:]) == (full != control), "what it changes"


@pytest.mark.parametrize(
    ("control", "seeds", "begins"),
    [
        ((0.95, 0.6), 3, "The full model was undertrained"),
        ((0.9, 0.7), 3, "Trained as long as the longest search, the full model changes"),  # no rise on ID
        ((0.85, 0.7), 3, "Trained as long as the longest search, the full model changes"),
        ((0.95, 0.7), 2, None),  # too few seeds to say so
    ],
)
def test_what_longer_training_changes_is_said_if_it_is_certain(
    control: tuple[float, float], seeds: int, begins: str | None, own_store: Store
) -> None:
    notes = controlled(own_store, (0.9, 0.6), control, seeds=seeds).notes[1:]
    changes = [note for note in notes if "OOD hard " in note]
    assert [note.startswith(begins or "") for note in changes] == ([True] if begins else [])


def test_where_no_search_is_longer_no_control_is_needed_and_that_is_said(own_store: Store) -> None:
    results = controlled(own_store, (0.9, 0.6), (0.9, 0.6), steps=2)
    assert [s.label for s in results.summaries] == [FULL, SUB, SUB]
    assert f"{FULL} is trained as long as the longest search, and needs no control." in results.notes


@pytest.mark.parametrize("after", [None, "ce"])
def test_a_start_by_early_stopping_says_what_it_saves_and_loses(after: str | None, own_store: Store) -> None:
    settings = TrainingSettings(steps=4, eval_every=2, batch_size=4)
    stopping = replace(settings, patience=1)
    profile = Profile(MadeUpTask(), "nowhere", (0, 1, 2), settings, settings, stopping=stopping)
    masks = partial(of_fine_tuned, label=SUB, search=Search("mask", "ce", (0.5,)), after=after)
    recipe = recipe_of(profile, partial(masks, starts=(1.0,)), partial(masks, label="auto", starts=("auto",)))
    answers = of_shares({FULL: (0.9, 0.6), SUB: (0.9, 0.6), "auto": (0.9, 0.5)})
    for point in recipe.points:
        remember(own_store, point.node, answers(point.label, point.seed))
        remember(own_store, profile.full(point.seed), answers(FULL, point.seed))
    remember_trainings(own_store, recipe)
    (note,) = Results(RecipeEvidence(recipe, own_store)).notes
    assert note.startswith("Early stopping began the search after 1 of 1 steps of fine-tuning")
    assert "OOD hard -10.0" in note


# --- warnings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("where_right", "falls"), [(0.3, "does not fall"), (0.6, "may not fall"), (0.9, None)])
def test_a_full_model_that_is_not_fooled_is_doubtful(where_right: float, falls: str | None, own_store: Store) -> None:
    def answers(line: str, seed: int) -> Answers:
        hard = np.where(FOOLED, right(LABELS, where_right, seed), right(LABELS, 0.6, seed))
        return {"dev": right(LABELS, 0.9, seed), "hard": hard}

    expected = [f"the full CE model {falls} for the shortcut"] if falls else []
    assert [warning.split(":")[0] for warning in made_results(own_store, answers).warnings] == expected


def test_a_bias_model_that_is_always_wrong_ood_cannot_tell(own_store: Store) -> None:
    bias = {"dev": right(LABELS, 0.7), "hard": 1 - LABELS}
    assert made_results(own_store, of_shares({FULL: (0.9, 0.6), SUB: (0.9, 0.7)}), bias).warnings == []


@pytest.mark.parametrize(("share", "beats"), [(0.72, []), (0.715, ["barely beats"]), (0.6, ["does not beat"])])
def test_a_full_model_that_knows_little_beside_the_shortcut(share: float, beats: list[str], own_store: Store) -> None:
    def answers(line: str, seed: int) -> Answers:
        return {**fooled(line, seed), "dev": right(LABELS, share)}

    warnings = made_results(own_store, answers).warnings
    for warning, words in zip(warnings, beats, strict=True):
        assert words in warning
        assert f"on ID dev: {100 * (share - 0.7):+.1f} points" in warning


def test_gains_below_the_majority_class_are_named_together(own_store: Store) -> None:
    def answers(line: str, seed: int) -> Answers:
        where_wrong = right(LABELS, 0.0 if line.startswith("full") else 0.04, seed)
        return {"dev": right(LABELS, 0.9, seed), "hard": np.where(FOOLED, right(LABELS, 0.9, seed), where_wrong)}

    (warning,) = made_results(own_store, answers, sparsities=(0.3, 0.4, 0.5, 0.6, 0.7)).warnings
    assert warning.startswith("5 subnetworks (masks, 30 %; masks, 40 %; masks, 50 % and 2 more): ")
    assert warning.endswith("no better than the majority class")


def test_coarse_classes_are_judged_as_coarse_classes(own_store: Store) -> None:
    """The bias model answers c where the split knows "no": that is right."""
    task = MadeUpTask(coarse=True)
    dev, hard = (load_task(task).splits[name].labels for name in ("dev", "hard"))
    bias = {"dev": (dev + 1) % 3, "hard": np.where(FOOLED, 2 * hard, 2 - 2 * hard)}

    def answers(line: str, seed: int) -> Answers:
        return {"dev": dev, "hard": np.where(FOOLED, 2 * hard, 2 - 2 * hard)}

    assert made_results(own_store, answers, bias, task).warnings == []


def one_sided(answers_of_class_1: int, right_ones: int) -> np.ndarray:
    """Everything is class 0 but for a few examples, of which so many truly are class 1."""
    answers = np.zeros_like(LABELS)
    answers[np.flatnonzero(LABELS == 1)[:right_ones]] = 1
    answers[np.flatnonzero(LABELS == 0)[: answers_of_class_1 - right_ones]] = 1
    return answers


def test_a_doubtful_gain_gets_no_verdict_and_two_warnings(own_store: Store, capsys: Any, tmp_path: Path) -> None:
    """One seed; F1 gains 0.8 points, accuracy none; the full model gives one answer to 97 % and is not fooled."""

    def answers(line: str, seed: int) -> Answers:
        return {"dev": right(LABELS, 0.9, seed), "hard": one_sided(*((12, 6) if line == FULL else (16, 8)))}

    doubtful = made_results(own_store, answers, task=MadeUpTask("f1"), seeds=1, sparsities=(0.5,))
    (_, sub) = doubtful.summaries
    assert sub.verdict is not None
    assert sub.verdict.gains["hard"].difference == pytest.approx(0.76, abs=0.01)
    assert sub.verdict.short == "one seed: no verdict"
    first, second = doubtful.warnings
    assert "fall for the shortcut" in first
    assert second.startswith("masks, 50 %: accuracy and F1 disagree")
    page = Page("A title", "srnet", [Section(doubtful, MaskPictures([], [], b"", ""), "srnet")])
    _print_results([doubtful], tmp_path)
    for text in (" ".join(capsys.readouterr().out.split()), _render_markdown(page)):
        for expected in ("No verdict: one seed", f"Warning: {first}.", f"Warning: {second}."):
            assert expected in text
    html = render_page(page)
    assert html.count('<p class="warning"><strong>Warning:</strong>') == 2
    assert 'class="result no"' in html


def test_ood_sets_are_not_pooled() -> None:
    """On each of two sets the model follows the shortcut. Pooled, the easier set with the weaker shortcut hides it."""
    sizes = {"easy": ((200, 0.9), (800, 0.7)), "difficult": ((800, 0.5), (200, 0.3))}  # shortcut right, wrong
    labels = {split: np.zeros(1000, int) for split in sizes}
    biased = {split: np.repeat([0, 1], [size for size, _ in sides]) for split, sides in sizes.items()}
    answers = {
        split: np.concatenate([np.arange(size) >= share * size for size, share in sides]).astype(int)
        for split, sides in sizes.items()
    }
    pooled = [np.concatenate([each[split] for split in sizes]) for each in (biased, answers)]
    assert (pooled[1][pooled[0] == 0] == 0).mean() < (pooled[1][pooled[0] == 1] == 0).mean()
    evidence: Any = SimpleNamespace(
        ood=list(sizes),
        task=SimpleNamespace(splits={split: SimpleNamespace(labels=each) for split, each in labels.items()}),
        answers=lambda model, split: answers[split],
        shortcut_right=lambda bias, split: biased[split] == labels[split],
    )
    model: Any = SimpleNamespace(key="")
    found = notes.follows_shortcut(evidence, model, [model], evidence.ood)
    assert {split: round(each.difference) for split, each in found.items()} == {"easy": 20, "difficult": 20}
    assert all(each.low > 0 for each in found.values())


# --- verdicts and claims -------------------------------------------------------------------------------------------

CANDIDATES = (MASK_CE, MASK_POE)


class MadeUpEvidence(RecipeEvidence):
    """Random answers instead of stored ones: every line has its own accuracy, every model its own luck."""

    def __init__(self, recipe: Recipe, shares: Mapping[str, tuple[float, float]], noise: float, luck: int) -> None:
        super().__init__(recipe, Store("nowhere"))
        self.shares, self.noise, self.luck = shares, noise, luck
        self.labels = {point.node.key: point.label for point in recipe.points}
        self.sparsities = {point.node.key: point.place.sparsity for point in recipe.points}

    @lru_cache(maxsize=1000)  # noqa: B019
    def answers(self, model: ModelNode, split: str) -> np.ndarray:
        id, ood = self.shares[self.labels[model.key]]
        rng = np.random.default_rng([self.luck, *f"{model.key} {split}".encode()])
        share = (id if split == self.id else ood) + self.noise * rng.normal()
        labels = self.task.splits[split].labels
        return np.where(rng.random(len(labels)) < share, labels, 1 - labels)

    def report(self, model: ModelNode) -> dict[str, Any]:
        return {"sparsity": self.sparsities[model.key]}


@lru_cache
def figure_2(seeds: int) -> Recipe:
    task = MadeUpTask(ood=("hard", "harder"), examples=300)
    return FIGURES["fig2"].recipe(replace(toy_profile(task), seeds=tuple(range(seeds))))


SHARE = st.tuples(st.sampled_from([0.5, 0.86, 0.9, 0.99]), st.sampled_from([0.3, 0.6, 0.62, 0.9]))


@given(st.tuples(*[SHARE] * 7), st.integers(1, 5), st.sampled_from([0.0, 0.01, 0.1]), st.integers(0, 99))
@settings(max_examples=40)
def test_verdicts_and_claims_never_contradict_each_other(
    drawn: tuple[tuple[float, float], ...], seeds: int, noise: float, luck: int
) -> None:
    recipe = figure_2(seeds)
    shares = dict(zip(labels_of(recipe.points), drawn, strict=True))
    evidence = MadeUpEvidence(recipe, shares, noise, luck)
    found = {finding.claim.name: finding for finding in answer_claims([evidence])}
    verdicts = {(label, place.sparsity): verdict for (label, place), verdict in evidence.verdicts.items()}
    candidates = [verdict.answer for (label, s), verdict in verdicts.items() if label in CANDIDATES and s <= 0.7]
    assert (found["srnets-a"].answer == "holds") == ("yes" in candidates)
    assert (found["srnets-a"].answer == "does not hold") == (set(candidates) == {"no"})
    kept = {part.what: part.answer for part in found["keeps-id"].conditions}
    for (label, s), verdict in verdicts.items():
        part = kept.get(f"{label} at {100 * s:g} %, ID minus 95 % of the full model's")
        assert part is None or s <= 0.7
        if part == "holds":
            assert verdict.conditions[0].answer != "does not hold"
        if part == "does not hold":
            assert verdict.answer == "no"
        if part is not None and verdict.answer == "yes":
            assert part == "holds"
    if seeds < 3:
        assert {verdict.answer for verdict in verdicts.values()} == {"no verdict"}
        assert {finding.answer for finding in found.values()} == {"not enough evidence"}
