"""MNLI, SNLI and HANS in the layouts their authors publish; HANS is counted two-way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from layouts import (
    HANS,
    HANS_COLUMNS,
    NLI,
    content,
    expected,
    glue_mnli,
    hans_txt,
    jsonl,
    left_out,
    nli,
    snli_txt,
    table,
)
from refusals import refused

from srnet.evaluation.metrics import score
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.published import published_task

# --- MNLI and SNLI -------------------------------------------------------------------------------------------------


def authors_mnli(folder: Path) -> Path:
    extra = [("-", "Nobody", "agreed.")]
    for name in ("train", "dev_matched", "dev_mismatched"):
        rows: list[dict[str, object]] = [
            {**row, "annotator_labels": ["neutral", "-", "neutral"], "genre": "fiction", "pairID": "1n"}
            for row in nli(name, NLI + extra)
        ]
        jsonl(folder / f"multinli_1.0_{name}.jsonl", rows)
    return folder


@pytest.mark.parametrize("make", [glue_mnli, authors_mnli])
def test_mnli_as_glue_and_as_its_authors_have_it(make: object, tmp_path: Path) -> None:
    task = published_task("mnli", make(tmp_path)).load()  # type: ignore[operator]
    assert content(task.train, task) == expected("train")
    assert content(task.dev, task) == expected("dev_matched")
    assert content(task.id_tests["mismatched"], task) == expected("dev_mismatched")
    unlabelled = [f"{name}: 1 rows without a label were left out" for name in ("train", "dev", "mismatched")]
    assert left_out(task) == (unlabelled if make is authors_mnli else [])


def test_mismatched_dev_is_an_id_test_that_is_scored_and_chooses_nothing(tmp_path: Path) -> None:
    task = published_task("mnli", glue_mnli(tmp_path)).load()
    assert task.scored == ("dev", "mismatched")
    assert task.id_tests["mismatched"].kind == "ID"
    assert task.ood == {}


def test_snli_in_its_text_files_without_the_rows_nobody_agreed_on(tmp_path: Path) -> None:
    task = published_task("snli", snli_txt(tmp_path, [("-", "Nobody", "agreed"), ("-", "on", "these")])).load()
    assert content(task.train, task) == expected("train")
    assert content(task.ood["hard"], task) == expected("test_hard")
    assert left_out(task) == [f"{name}: 2 rows without a label were left out" for name in ("train", "dev", "hard")]


def test_snli_as_the_hub_has_it(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        rows: list[dict[str, object]] = [
            {"premise": f"{name} {n}", "hypothesis": "b", "label": n} for n in range(3)
        ] + [{"premise": f"{name} left out", "hypothesis": "b", "label": "-"}]
        jsonl(tmp_path / f"{name}.jsonl", rows)
    task = published_task("snli", tmp_path).load()
    assert [label for label, _, _ in content(task.train, task)] == ["entailment", "neutral", "contradiction"]


def test_files_with_no_row_that_has_a_label(tmp_path: Path) -> None:
    snli_txt(tmp_path, [])
    table(tmp_path / "train.tsv", ("gold_label", "sentence1", "sentence2"), nli("x", [("-", "a", "b")]))
    with refused("train.tsv", "no rows with a label"):
        published_task("snli", tmp_path).load()


# --- HANS ----------------------------------------------------------------------------------------------------------


def hans_jsonl(folder: Path) -> str:
    return jsonl(
        folder / "heuristics_evaluation_set.jsonl", [{**row, "pairID": "ex1", "template": "t"} for row in HANS]
    )


@pytest.mark.parametrize("make", [hans_txt, hans_jsonl])
@pytest.mark.parametrize("name", ["mnli", "snli"])
def test_hans_is_two_way_with_a_hierarchy_of_groups(name: str, make: object, tmp_path: Path) -> None:
    folder = glue_mnli(tmp_path) if name == "mnli" else snli_txt(tmp_path, [])
    make(folder)  # type: ignore[operator]
    task = published_task(name, folder).load()
    hans = task.ood["hans"]
    assert task.classes_of(hans) == ("entailment", "non-entailment")
    assert hans.labels.tolist() == [0, 1, 1, 1]
    assert hans.groups == (
        "lexical_overlap > entailment > le_relative_clause",
        "lexical_overlap > non-entailment > ln_passive",
        "lexical_overlap > non-entailment > ln_preposition",
        "constituent > non-entailment > cn_adverb",
    )
    assert "hans: answers are counted 2-way by argmax" in task.notes


def with_hans(folder: Path, **options: str) -> Task:
    return published_task("snli", snli_txt(folder, []), {"hans": hans_txt(folder / "elsewhere")}, **options).load()


# 40 % entailment is the likeliest of three answers, and less than the 60 % of the other two together
LOGITS = np.log([[0.40, 0.35, 0.25], [0.40, 0.35, 0.25], [0.60, 0.20, 0.20], [0.10, 0.50, 0.40]])


@pytest.mark.parametrize(("decision", "answers"), [("argmax", [0, 0, 0, 1]), ("sum", [1, 1, 0, 1])])
def test_two_ways_of_counting_three_answers_as_two(decision: str, answers: list[int], tmp_path: Path) -> None:
    task = with_hans(tmp_path, decision=decision)
    assert CLASSES.decode(task.ood["hans"], LOGITS).tolist() == answers
    assert f"hans: answers are counted 2-way by {decision}" in task.notes
    assert CLASSES.decode(task.dev, LOGITS[:3]).tolist() == [0, 0, 0], "three-way sets are not concerned"


def test_scores_of_every_level_of_hans(tmp_path: Path) -> None:
    hans = with_hans(tmp_path).ood["hans"]
    scores = score(CLASSES.decode(hans, LOGITS), hans.labels, hans.groups, ("entailment", "non-entailment"))
    assert scores.groups == {
        "constituent": 100.0,
        "constituent > non-entailment": 100.0,
        "constituent > non-entailment > cn_adverb": 100.0,
        "lexical_overlap": 33.3333,
        "lexical_overlap > entailment": 100.0,
        "lexical_overlap > entailment > le_relative_clause": 100.0,
        "lexical_overlap > non-entailment": 0.0,
        "lexical_overlap > non-entailment > ln_passive": 0.0,
        "lexical_overlap > non-entailment > ln_preposition": 0.0,
    }
    assert scores.recall == {"entailment": 100.0, "non-entailment": 33.3333}


def test_the_decision_is_part_of_what_the_data_are(tmp_path: Path) -> None:
    assert with_hans(tmp_path).fingerprint != with_hans(tmp_path, decision="sum").fingerprint


def test_hans_as_training_data_is_entailment_and_contradiction(tmp_path: Path) -> None:
    folder = snli_txt(tmp_path, [])
    table(folder / "heuristics_train_set.txt", HANS_COLUMNS, [{**row, "sentence2": "other ."} for row in HANS])
    hans_txt(folder)
    task = published_task("snli", folder).load()
    assert task.ood_train is not None
    assert [label for label, _, _ in content(task.ood_train, task)] == ["entailment", *["contradiction"] * 3]
    assert task.ood_train.coarse is None
    assert "ood_train" not in task.scored


@pytest.mark.parametrize("label", ["neutral", "contradiction", "0"])
def test_a_third_label_in_a_two_way_file(label: str, tmp_path: Path) -> None:
    path = table(tmp_path / "mine.txt", HANS_COLUMNS, [*HANS, {**HANS[0], "gold_label": label}])
    with refused("mine.txt, line 6", f"'{label}'", "entailment, non-entailment", "bad_rows: skip"):
        published_task("snli", snli_txt(tmp_path, []), {"hans": path}).load()


def test_hans_without_its_column_of_heuristics(tmp_path: Path) -> None:
    path = table(tmp_path / "mine.txt", tuple(name for name in HANS_COLUMNS if name != "heuristic"), HANS)
    with refused("mine.txt", "'heuristic'", "gold_label, "):
        published_task("snli", snli_txt(tmp_path, []), {"hans": path}).load()
