"""The verdict from a csv of a recipe's predictions is the report's, to the last digit."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from altered import LINES
from made_up import remember, remember_trainings
from refusals import refused
from series import recipe_of

import srnet
from srnet.audit.predictions import saving
from srnet.core.progress import Reporter
from srnet.core.tables import plain
from srnet.experiment.nodes.models import Evaluate
from srnet.experiment.store import Store, read_logits
from srnet.recipes.paradigms import Place, Profile
from srnet.report.evidence import RecipeEvidence
from srnet.report.results import Results
from srnet.tasks.base import Metric, Task
from srnet.tasks.splits import Coarse, Example, Split, SplitKind
from srnet.training.settings import TrainingSettings

TRAINING = TrainingSettings(steps=2, eval_every=2, batch_size=4)


@dataclass(frozen=True)
class ThreeWay:
    """Three classes, sub-cases and pairs; `hard` has two classes of its own, as HANS."""

    metric: Metric = "accuracy"
    name: str = "three-way"

    def load(self) -> Task:
        def split(name: str, kind: SplitKind, classes: int) -> Split:
            cells = [Example(str(n), "a", "b", n * 7 % classes, f"case {n % 2} > {n % 3}") for n in range(120)]
            pairs = tuple(str(n // 2) if n < 90 else "" for n in range(120))
            return replace(Split.of(name, kind, cells), columns={"pair": pairs})

        hard = replace(split("hard", "OOD", 2), coarse=Coarse(("yes", "no"), (0, 1, 1)))
        sets = split("train", "ID", 3), split("dev", "ID", 3)
        return Task(
            self.name, ("a", "b", "c"), self.metric, "overlap", *sets, {"hard": hard, "soft": split("soft", "OOD", 3)}
        )


SHARES = {"full <CE> & more": (0.9, 0.5), "magnitude": (0.9, 0.65), "masks": (0.7, 0.9)}
"""How often the models of each line are right, ID and OOD."""


def made_up(store: Store, task: ThreeWay) -> RecipeEvidence:
    """The evidence on a recipe with three seeds whose models have answered at random, and no two alike."""
    recipe = recipe_of(Profile(task, "nowhere", (0, 1, 2), TRAINING, TRAINING), *LINES)
    for number, point in enumerate(recipe.points):
        rng, answers = np.random.default_rng(number), {}
        for name in ("dev", "hard", "soft"):
            split = task.load().splits[name]
            wrong = rng.random(len(split)) > SHARES[point.label][name != "dev"]
            answers[name] = np.where(wrong, (split.labels + 1) % (2 if split.coarse else 3), split.labels)
        remember(store, point.node, answers, point.place.sparsity)
    remember_trainings(store, recipe)
    return RecipeEvidence(recipe, store)


def files_of(evidence: RecipeEvidence, folder: Path) -> tuple[list[Path], dict[str, tuple[str, Place]]]:
    """A csv for every full model and every subnetwork with a verdict, and the names of those in the report."""
    (reference,) = evidence.references.values()
    names = {f"{place[0]} {place[1].sparsity}": place for place in evidence.verdicts}
    systems = {name: [point.node for point in evidence.groups[place]] for name, place in names.items()}
    files = []
    for name, models in {"full": list(reference.full.values()), **systems}.items():
        for model in models:
            files.append(folder / f"{len(files)}.csv")
            logits = read_logits(evidence.store, Evaluate(model).key)
            saving(files[-1], evidence.task, name, model.pretrained.seed)(logits)
    return files, names


@pytest.mark.usefixtures("keys_are_cheap")
@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews"])
def test_every_figure_is_the_reports(own_store: Store, metric: str, tmp_path: Path) -> None:
    """Exactly by accuracy; by the others, sums of the same terms in another order."""
    evidence = made_up(own_store, ThreeWay(metric))
    files, names = files_of(evidence, tmp_path)
    found = srnet.verdict(*files, metric=metric)
    assert len(found.verdicts) == len(evidence.verdicts) == 3
    assert len({each.p_value for each in found.verdicts.values()} - {1.0}) > 1, "corrected, and not all alike"
    for name, place in names.items():
        ours, theirs = ({**vars(each), "full": ""} for each in (found.verdicts[name], evidence.verdicts[place]))
        assert metric != "accuracy" or ours == theirs
        assert flat(ours) == pytest.approx(flat(theirs), rel=1e-9)
        assert (found.verdicts[name].answer, found.verdicts[name].short) == (
            evidence.verdicts[place].answer,
            evidence.verdicts[place].short,
        )


def flat(values: Mapping[str, Any]) -> dict[str, float]:
    """Every number, also those of intervals."""
    found: dict[str, float] = {}
    for name, value in plain(values).items():
        found |= {f"{name}.{n}": v for n, v in flat(value).items()} if isinstance(value, dict) else {}
        found |= {name: value} if isinstance(value, float) else {}
    return found


@pytest.mark.usefixtures("keys_are_cheap")
def test_sub_cases_and_labels_are_scored_as_in_the_store(own_store: Store, tmp_path: Path) -> None:
    evidence = made_up(own_store, ThreeWay())
    files, names = files_of(evidence, tmp_path)
    found = srnet.verdict(*files)
    for name, place in names.items():
        (summary,) = (each for each in evidence.summaries if (each.label, each.point.place) == place)
        for split in evidence.splits:
            recall = {f"label {label}": value for label, value in summary.recall[split].items()}
            parts = {p.case: p.score.mean for p in found.parts if (p.system, p.split) == (name, split) and p.case}
            stored = {case: value.mean for case, value in {**recall, **summary.groups[split]}.items()}
            assert parts == pytest.approx(stored, abs=1e-3), "the store rounds to four digits"


@pytest.mark.usefixtures("keys_are_cheap")
def test_worst_groups_and_pairs_are_the_reports(own_store: Store, tmp_path: Path) -> None:
    evidence = made_up(own_store, ThreeWay())
    files, names = files_of(evidence, tmp_path)
    found = {(row.name, row.split): row.figures for row in srnet.verdict(*files).groups}
    for name, place in names.items():
        models = [point.node for point in evidence.groups[place]]
        for split, title in evidence.splits.items():
            figures = evidence.group_figures(models, evidence.full_models(models), split)
            assert found[name, title] == figures
            assert figures.pairs_difference
            assert figures.worst
            assert figures.worst.name in ("case 0", "case 1"), "the top level"


@pytest.mark.usefixtures("keys_are_cheap")
def test_the_order_of_files_does_not_matter(own_store: Store, tmp_path: Path) -> None:
    files, _ = files_of(made_up(own_store, ThreeWay()), tmp_path)
    one, other = srnet.verdict(*files), srnet.verdict(*reversed(files))
    assert {**one.verdicts} == {**other.verdicts}
    assert one.warnings == ()


def test_a_stored_model_knows_its_name_and_seed(store: Store, results: Results, tmp_path: Path) -> None:
    engine = srnet.Engine(store, Reporter(quiet=True))
    point = next(point for point in results.recipe.points if point.is_pruned and point.seed == 1)
    srnet.evaluate(point.node.key, predictions=tmp_path / "p.csv", engine=engine)
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["system"], row["seed"]) for row in rows} == {(point.node.formula, "1")}
    assert {row["split"] for row in rows} == set(results.splits)
    for row in rows:
        shares = {name.removeprefix("p:"): float(cell) for name, cell in row.items() if name.startswith("p:")}
        assert sum(shares.values()) == pytest.approx(1.0)
        assert max(shares, key=shares.__getitem__) == row["prediction"]
    for given in ({"system": "x"}, {"seed": 0}):
        with refused("--predictions"):
            srnet.evaluate(point.node.key, engine=engine, **given)  # type: ignore[arg-type]
    with refused("p.txt", "NAME.csv"):
        srnet.evaluate(point.node.key, predictions=tmp_path / "p.txt", engine=engine)


def test_splits_with_classes_of_their_own_and_repeated_ids(tmp_path: Path) -> None:
    """As HANS: the answer of a model with three classes is written in the classes of the split."""
    dev = Split.of("dev", "ID", [Example(str(n // 2), "a", "b", n % 3) for n in range(6)])
    hans = Split.of("hans", "OOD", [Example(str(n), "a", "b", n % 2, "x") for n in range(4)])
    object.__setattr__(hans, "coarse", Coarse(("yes", "not yes"), (0, 1, 1)))
    train = Split.of("train", "ID", [Example("0", "a", "b", 0)])
    task = Task("nli", ("yes", "maybe", "no"), "accuracy", "overlap", train, dev, {"hans": hans})
    logits = {"dev": np.eye(3)[[0, 1, 2, 0, 1, 0]], "hans": np.eye(3)[[0, 1, 2, 2]]}
    files = [tmp_path / f"{name}.csv" for name in ("full", "mask")]
    for file in files:
        saving(file, task, file.stem, 0)(logits)
    found = srnet.verdict(*files)
    assert found.task.labels == ("yes", "maybe", "no", "not yes")
    scores = {each.split: each.score.mean for each in found.parts if not each.case}
    assert scores == {"dev": pytest.approx(100 * 5 / 6), "hans": pytest.approx(75.0)}
    assert not [each for each in found.warnings if "none of the labels" in each]
