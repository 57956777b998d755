"""An audit scores HANS as its authors' script does, to the last digit."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from audited import NLI, Scripted, audit_of

from srnet.tasks.published import published_task

HEURISTICS = ("lexical_overlap", "subsequence", "constituent")
SHARES = (0.5, 0.3, 0.2)


def write_rows(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter="\t")
        table.writerows([header, *rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A little MNLI, and a little HANS in the layout of its authors."""
    columns = ["sentence1", "sentence2", "gold_label"]
    nli = [[f"a premise {n}", f"a hypothesis {n}", NLI[n % 3]] for n in range(30)]
    write_rows(tmp_path / "train.tsv", columns, nli)
    write_rows(tmp_path / "dev_matched.tsv", columns, [[f"new {a}", b, label] for a, b, label in nli])
    hans = []
    for number in range(331):
        label = ("entailment", "non-entailment")[number % 2]
        heuristic = HEURISTICS[number % 3]
        subcase = f"{heuristic[0]}{label[0]}_{number % 5}"
        hans.append([label, f"The premise {number} .", f"The hypothesis {number} .", f"ex{number}", heuristic, subcase])
    header = ["gold_label", "sentence1", "sentence2", "pairID", "heuristic", "subcase"]
    write_rows(tmp_path / "heuristics_evaluation_set.txt", header, hans)
    return tmp_path


def predictions_of(seed: int) -> dict[str, str]:
    """One of three labels for each pair."""
    return {f"ex{number}": guess for number, guess in enumerate(np.random.default_rng(seed).choice(NLI, 331, p=SHARES))}


def authors_scores(folder: Path, guess: dict[str, str]) -> dict[str, float]:
    """`evaluate_heur_output.py`: neutral and contradiction are non-entailment; right over all, by kind of row."""
    right: dict[str, int] = defaultdict(int)
    wrong: dict[str, int] = defaultdict(int)
    with (folder / "heuristics_evaluation_set.txt").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            label, heuristic, answer = row["gold_label"], row["heuristic"], guess[row["pairID"]]
            answer = answer if answer == "entailment" else "non-entailment"
            for kind in (heuristic, f"{heuristic} > {label}", f"{heuristic} > {label} > {row['subcase']}"):
                (right if answer == label else wrong)[kind] += 1
    return {kind: right[kind] * 1.0 / (right[kind] + wrong[kind]) for kind in {*right, *wrong}}


def model_of(guess: dict[str, str]) -> Scripted:
    """Logits whose largest is the predicted label, and in which the two others together are the likelier answer."""

    def answer(text_a: str, text_b: str) -> list[float]:
        predicted = guess.get(f"ex{text_b.split()[-2]}", "neutral")
        return [0.1 if label == predicted else 0.0 for label in NLI]

    return Scripted(answer, NLI)


def test_accuracy_by_heuristic_and_subcase_is_the_authors(folder: Path) -> None:
    guesses = [predictions_of(seed) for seed in (0, 1)]
    audit = audit_of(published_task("mnli", folder).load(), *map(model_of, guesses))
    cases = {case.name: case for case in audit.sub_cases if case.split == "hans"}
    wanted = [authors_scores(folder, each) for each in guesses]
    for number, each in enumerate(wanted):
        assert {name: case.accuracy[number] for name, case in cases.items()} == each
        assert len(each) == 3 + 6 + 30
    (hans,) = (each for each in audit.scores if each.split == "hans")
    total = sum(wanted[0][name] * cases[name].rows for name in HEURISTICS)
    assert hans.scores[0].difference == pytest.approx(100 * total / 331, abs=1e-9)
