"""The papers' datasets in the layouts that their authors publish, and how their files are found."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from layouts import (
    HANS,
    HANS_COLUMNS,
    NLI,
    PAIRED,
    QQP,
    REVIEWS,
    REVISED,
    cad_nli,
    content,
    expected,
    fever,
    glue_mnli,
    hans_txt,
    imdb_csv,
    imdb_repository,
    jsonl,
    left_out,
    nli,
    paws,
    qqp,
    snli_txt,
    symmetric,
    table,
)  # fmt: skip
from refusals import refused

from srnet.evaluation.metrics import score
from srnet.recipes.tasks import DataOptions, read_task
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.published import PUBLISHED_TASKS, published_task

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


# --- QQP and PAWS --------------------------------------------------------------------------------------------------


def test_qqp_as_glue_has_it(tmp_path: Path) -> None:
    task = published_task("qqp", qqp(tmp_path)).load()
    assert content(task.train, task) == expected("train", QQP)
    assert content(task.dev, task) == expected("dev", QQP)
    assert task.metric == "f1"


def test_the_rows_of_qqp_that_are_broken_can_be_left_out(tmp_path: Path) -> None:
    with (qqp(tmp_path) / "train.tsv").open("a") as file:
        file.write("7\t1\t2\tA question without another?\n")
    with refused("train.tsv, line 4", "4 cells", "bad_rows: skip"):
        published_task("qqp", tmp_path).load()
    task = published_task("qqp", tmp_path, bad_rows="skip").load()
    assert len(task.train) == 2
    assert left_out(task) == ["train: 1 rows that cannot be read were left out (lines 4)"]


def test_paws_is_found_under_its_names(tmp_path: Path) -> None:
    qqp(tmp_path)
    paws(tmp_path / "dev_and_test.tsv", "one", "two")
    paws(tmp_path / "paws_wiki_test.tsv", "three", "four")
    paws(tmp_path / "paws_qqp_train.tsv", "five", "six")
    paws(tmp_path / "paws_wiki_train.tsv", "seven", "eight")
    task = published_task("qqp", tmp_path).load()
    assert content(task.ood["paws_qqp"], task) == [("not_duplicate", "one", "two")]
    assert content(task.ood["paws_wiki"], task) == [("not_duplicate", "three", "four")]
    assert task.ood_train is not None
    assert task.ood_train.text_a == ("five", "seven")
    assert len(set(task.ood_train.ids)) == 2


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("b'Is a b ?'", "Is a b ?"),
        ('b"Isn\'t a b ?"', "Isn't a b ?"),
        (r"b'It\'s \xc3\xbc \\ ?'", "It's ü \\ ?"),
        ("b' spaces '", "spaces"),
        ("Is a b ?", "Is a b ?"),
        ("b'cause I say so", "b'cause I say so"),
        ("b'one' or b'two'", "b'one' or b'two'"),
        (r"b'\xff'", r"b'\xff'"),
    ],
)
def test_texts_that_stand_as_bytes(written: str, read: str, tmp_path: Path) -> None:
    path = paws(tmp_path / "mine.tsv", written, written)
    task = published_task("qqp", qqp(tmp_path), {"paws_qqp": path}).load()
    assert (task.ood["paws_qqp"].text_a, task.ood["paws_qqp"].text_b) == ((read,), (read,))


@pytest.mark.parametrize("nothing", ["b''", "b' '"])
def test_bytes_without_a_text(nothing: str, tmp_path: Path) -> None:
    path = paws(tmp_path / "mine.tsv", "a", nothing)
    with refused("mine.tsv, line 2", "'sentence2'"):
        published_task("qqp", qqp(tmp_path), {"paws_qqp": path}).load()


# --- FEVER ---------------------------------------------------------------------------------------------------------


def test_fever_with_evidence_first_and_the_claim_second(tmp_path: Path) -> None:
    task = published_task("fever", fever(tmp_path)).load()
    assert content(task.train, task) == [
        ("SUPPORTS", "e1", "c1"),
        ("REFUTES", "e2", "c2"),
        ("NOT ENOUGH INFO", "e3 e4", "c3"),
        ("NOT ENOUGH INFO", "e5", "c4"),
    ]
    assert task.shortcut == "claim"


def test_the_hubs_fever_is_another_sample_and_says_so(tmp_path: Path) -> None:
    paper = published_task("fever", fever(tmp_path))
    assert not any("another sample" in note for note in paper.load().notes), "the authors' files are the paper's"
    (remark,) = published_task("fever").remarks
    assert replace(paper, remarks=(remark,)).load().notes[0] == remark
    for words in ("another sample than the paper's", "242,911 and 16,664", "--data FOLDER"):
        assert words in remark
    assert published_task("mnli").remarks == ()


def test_fever_without_the_texts_of_its_evidence(tmp_path: Path) -> None:
    # the files of the shared task only say which sentence of which page
    rows: list[dict[str, object]] = [{"claim": "c", "evidence": [[[92206, 104971, "A_page", 7]]], "label": "SUPPORTS"}]
    jsonl(fever(tmp_path) / "train.jsonl", rows)
    with refused("train.jsonl, line 1", "'evidence"):
        published_task("fever", tmp_path).load()


def test_both_symmetric_sets_and_their_dev_as_training_data(tmp_path: Path) -> None:
    symmetric(fever(tmp_path))
    task = published_task("fever", tmp_path).load()
    assert content(task.ood["symm1"], task) == [("SUPPORTS", "v1 e", "v1 c")]
    assert content(task.ood["symm2"], task) == [("REFUTES", "test e", "test c")]
    assert task.ood_train is not None
    assert content(task.ood_train, task) == [("REFUTES", "dev e", "dev c")]
    assert len(task.training_data("id+ood")) == 1 + 10, "ten copies"


# --- counterfactual IMDB and NLI -----------------------------------------------------------------------------------


def reviews(rows: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(label.lower(), text, "") for label, text in rows]


@pytest.mark.parametrize(
    "make",
    [imdb_csv, imdb_repository, lambda folder: imdb_repository(folder) / "sentiment"],
    ids=["csv", "repository", "sentiment"],
)
def test_imdb_with_its_revised_reviews_and_pairs(make: Callable[[Path], Path], tmp_path: Path) -> None:
    task = published_task("imdb", make(tmp_path)).load()
    assert content(task.train, task) == reviews(REVIEWS["train"])
    assert content(task.dev, task) == reviews(REVIEWS["dev"])
    assert content(task.id_tests["test"], task) == reviews(REVIEWS["test"])
    assert content(task.ood["revised"], task) == reviews(REVISED)
    pairs = task.id_tests["pairs"]
    assert content(pairs, task) == reviews([(label, text) for label, text, _ in PAIRED])
    assert pairs.columns["pair"] == ("13", "13", "46", "46")
    assert (task.shortcut, task.metric, task.notes) == ("words", "accuracy", ())


def test_pairs_are_scored_in_distribution_and_are_no_ood_set(tmp_path: Path) -> None:
    task = published_task("imdb", imdb_csv(tmp_path)).load()
    assert task.scored == ("dev", "test", "pairs", "revised")
    assert {name: split.kind for name, split in task.splits.items()} == {
        "train": "ID", "dev": "ID", "test": "ID", "pairs": "ID", "revised": "OOD",
    }  # fmt: skip
    assert list(task.ood) == ["revised"]


def test_imdb_without_its_revised_reviews_and_pairs(tmp_path: Path) -> None:
    imdb_csv(tmp_path)
    for name in ("revised", "pairs"):
        (tmp_path / f"{name}.csv").unlink()
    task = published_task("imdb", tmp_path)
    assert [name for name, _ in task.id_tests] == ["test"]
    assert task.load().notes == ("revised: not scored, because its file was not found: --ood revised=FILE",)


def test_the_folder_of_imdb_beside_others(tmp_path: Path) -> None:
    imdb_csv(tmp_path / "cad_imdb")
    assert len(published_task("imdb", tmp_path).load().train) == 2


def test_the_hub_has_no_imdb() -> None:
    with refused("imdb", "Hub", "--data FOLDER"):
        published_task("imdb")


@pytest.mark.parametrize("column", ["pair", "batch_id"])
def test_an_id_test_that_is_given_by_its_name(column: str, tmp_path: Path) -> None:
    folder = imdb_csv(tmp_path / "data")
    (folder / "pairs.csv").unlink()
    rows: list[dict[str, object]] = [
        {"review": f"mine {n}", "sentiment": label, column: 7} for n, label in enumerate(("negative", "Positive"))
    ]
    mine = jsonl(tmp_path / "mine.jsonl", rows)
    task = DataOptions(data=str(folder), ood=(("pairs", mine),)).task("imdb").load()
    assert task.id_tests["pairs"].columns["pair"] == ("7", "7")
    assert list(task.ood) == ["revised"]


@pytest.mark.parametrize(
    ("file", "text", "named"),
    [
        ("pairs.csv", "review,sentiment\na,negative\n", ("line 2", "'pair' or 'batch_id'", "review, sentiment")),
        ("revised.csv", "review,sentiment\na,neutral\n", ("line 2", "'neutral'", "negative, positive")),
        ("test.csv", "review,stars\na,5\n", ("line 2", "'Sentiment' or 'sentiment'", "review, stars")),
        ("train.csv", "words,sentiment\na,negative\n", ("line 2", "'Text' or 'review'", "words, sentiment")),
    ],
)
def test_bad_files_of_imdb(file: str, text: str, named: tuple[str, ...], tmp_path: Path) -> None:
    (imdb_csv(tmp_path) / file).write_text(text)
    with refused(file, *named):
        published_task("imdb", tmp_path).load()


def test_a_row_without_its_pair_can_be_left_out(tmp_path: Path) -> None:
    folder = imdb_csv(tmp_path)
    (folder / "pairs.csv").unlink()
    row: dict[str, object] = {"review": "a", "sentiment": "negative"}
    jsonl(folder / "pairs.jsonl", [{**row, "pair": 1}, {**row, "review": "b"}])
    task = published_task("imdb", folder, bad_rows="skip").load()
    assert task.id_tests["pairs"].columns["pair"] == ("1",)
    assert left_out(task) == ["pairs: 1 rows that cannot be read were left out (lines 2)"]


COUNTERFACTUAL = ("original", "revised_premise", "revised_hypothesis")


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ("snli", "snli/{}"),
        ("snli", "snli/{}_test"),
        ("snli", "snli/cad_nli_{}"),
        (".", "cad_nli/{}"),
        (".", "cad_nli/{}/test"),
        (".", "counterfactually-augmented-data/NLI/{}/test"),
    ],
)
def test_counterfactual_nli_is_found_in_the_folder_of_snli_or_beside_it(data: str, place: str, tmp_path: Path) -> None:
    snli_txt(tmp_path / "snli", [])
    for name in COUNTERFACTUAL:
        path = tmp_path / f"{place.format(name)}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        Path(cad_nli(tmp_path, name)).rename(path)
    task = published_task("snli", tmp_path / data).load()
    assert list(task.ood) == ["hard", "revised_premise", "revised_hypothesis"]
    assert list(task.id_tests) == ["original"]
    for name in COUNTERFACTUAL:
        assert content(task.splits[name], task) == expected(name)


def test_counterfactual_nli_with_the_columns_of_the_hub(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("premise,hypothesis,label\nA dog ran.,It sat.,contradiction\n")
    task = published_task("snli", snli_txt(tmp_path / "snli", []), {"revised_premise": str(path)}).load()
    assert content(task.ood["revised_premise"], task) == [("contradiction", "A dog ran.", "It sat.")]


def test_what_is_beside_the_folder_that_was_given_is_not_read(tmp_path: Path) -> None:
    snli_txt(tmp_path / "snli", [])
    cad_nli(tmp_path / "cad_nli", "revised_premise")
    assert list(published_task("snli", tmp_path / "snli").load().ood) == ["hard"]


# --- finding files in a folder -------------------------------------------------------------------------------------


def test_json_lines_are_preferred_where_an_archive_holds_both(tmp_path: Path) -> None:
    snli_txt(tmp_path, [])
    path = jsonl(tmp_path / "snli_1.0_train.jsonl", [dict(row) for row in nli("json")])
    assert published_task("snli", tmp_path).train == path


def test_compressed_files_are_found(tmp_path: Path) -> None:
    snli_txt(tmp_path, [])
    plain = tmp_path / "snli_1.0_train.txt"
    (tmp_path / "snli_1.0_train.txt.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert len(published_task("snli", tmp_path).load().train) == 3


@pytest.mark.parametrize("name", ["mnli", "MNLI"])
def test_a_folder_of_folders(name: str, tmp_path: Path) -> None:
    glue_mnli(tmp_path / name)
    (tmp_path / "qqp").mkdir()
    assert (
        published_task("mnli", tmp_path).load().fingerprint
        == published_task("mnli", tmp_path / name).load().fingerprint
    )


@pytest.mark.parametrize(("gone", "split"), [("train", "train"), ("dev_matched", "dev")])
def test_a_missing_file_is_named_as_it_is_looked_for(gone: str, split: str, tmp_path: Path) -> None:
    (glue_mnli(tmp_path) / f"{gone}.tsv").unlink()
    with refused(tmp_path, f"no {split} file", f"{gone}.* or multinli_1.0_{gone}.*", ".jsonl.gz"):
        published_task("mnli", tmp_path)


def test_folders_and_datasets_that_do_not_exist(tmp_path: Path) -> None:
    with refused(tmp_path / "gone", "snli"):
        published_task("snli", tmp_path / "gone")
    with refused("'anli'", "cola, fever, imdb, mnli"):
        published_task("anli")
    with refused("here", "'anli'", "squad"):
        read_task({"dataset": "anli"}, "here")


# --- files given by name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "name"),
    [(dataset, name) for dataset, task in PUBLISHED_TASKS.items() for name in task.ood],
)
def test_an_ood_file_on_the_command_line_is_read_by_its_name(dataset: str, name: str, tmp_path: Path) -> None:
    make = {
        "mnli": glue_mnli, "snli": lambda folder: snli_txt(folder, []), "qqp": qqp, "fever": fever, "imdb": imdb_csv,
    }  # fmt: skip
    folder = make[dataset](tmp_path / "data")
    symmetric(tmp_path)
    table(tmp_path / "hard.tsv", ("gold_label", "sentence1", "sentence2"), nli("hard"))
    paths = {
        "hans": lambda: hans_txt(tmp_path),
        "hard": lambda: str(tmp_path / "hard.tsv"),
        "revised_premise": lambda: cad_nli(tmp_path, "mine"),
        "revised_hypothesis": lambda: cad_nli(tmp_path, "mine"),
        "revised": lambda: str(imdb_csv(tmp_path) / "revised.csv"),
        "paws_qqp": lambda: paws(tmp_path / "p.tsv", "b'x'", "b'y'"),
        "paws_wiki": lambda: paws(tmp_path / "p.tsv"),
        "symm1": lambda: str(tmp_path / "fever_symmetric_generated.jsonl"),
        "symm2": lambda: str(tmp_path / "fever_symmetric_test.jsonl"),
    }
    task = DataOptions(data=str(folder), ood=((name, paths[name]()),)).task(dataset).load()
    rows = {"hans": 4, "hard": 3, "revised_premise": 3, "revised_hypothesis": 3, "revised": 2}.get(name, 1)
    assert len(task.ood[name]) == rows
    assert task.ood[name].kind == "OOD"
    assert (task.ood[name].coarse is not None) == (name == "hans")
    if name == "paws_qqp":
        assert task.ood[name].text_a == ("x",)


def test_an_ood_file_of_another_name_is_read_like_the_task(tmp_path: Path) -> None:
    path = table(tmp_path / "mine.tsv", ("gold_label", "sentence1", "sentence2"), nli("mine"))
    task = published_task("snli", snli_txt(tmp_path, []), {"mine": path}).load()
    assert content(task.ood["mine"], task) == expected("mine")


def test_ood_training_data_of_a_name_without_such_data(tmp_path: Path) -> None:
    with refused("'hard'", "hans"):
        published_task("snli", snli_txt(tmp_path, []), ood_train={"hard": "x.tsv"})


def test_options_of_a_published_dataset(tmp_path: Path) -> None:
    options = {"metric": "f1", "shortcut": "claim", "ood_copies": 3, "rows": (("train", 2),), "leaks": "keep"}
    spec = published_task("snli", snli_txt(tmp_path, []), **options)
    assert {name: getattr(spec, name) for name in options} == options
    values = {"dataset": "snli", "data": ".", **options, "rows": {"train": 2}}
    assert read_task(values, "here", tmp_path) == spec.resolved(tmp_path)


# --- the real files, where somebody has them -----------------------------------------------------------------------

REAL = Path(__file__).parents[2].parent / "shared" / "data"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"needs the real files in {REAL}")


@real
def test_the_real_snli_and_hans() -> None:
    ood = {"hans": str(REAL / "hans" / "eval_sample.tsv")}
    task = published_task("snli", REAL, ood, {"hans": str(REAL / "hans" / "train.tsv")}).load()
    sizes = {name: len(split) for name, split in task.splits.items()}
    assert sizes == {
        "train": 69_865, "dev": 9_842, "original": 600, "hard": 3_261, "hans": 6_000, "revised_premise": 1_200,
        "ood_train": 30_000,
    }  # fmt: skip
    hans = task.ood["hans"]
    assert np.bincount(hans.labels).tolist() == [3_000, 3_000]
    assert {group.split(" > ")[0] for group in hans.groups} == {"lexical_overlap", "subsequence", "constituent"}
    assert len(set(hans.groups)) == 30


@real
def test_the_real_layout_of_hans() -> None:
    ood = {"hans": str(REAL / "hans" / "original_layout_sample.txt")}
    spec = replace(published_task("snli", REAL, ood), train=str(REAL / "snli" / "test_hard.tsv"), leaks="keep")
    hans = spec.read("hans", collect=False).split
    assert len(hans) == 300
    assert not any("(" in text for text in (*hans.text_a, *hans.text_b)), "a text, not its parse"


@real
def test_the_real_qqp_and_paws() -> None:
    spec = published_task("qqp", REAL, {"paws_qqp": str(REAL / "paws" / "paws_qqp.tsv")})
    assert {name: len(spec.read(name, collect=False).split) for name in spec.files} == {
        "train": 16_153,
        "dev": 10_000,
        "paws_qqp": 677,
    }
    with refused("'dev'", "also in train"):
        spec.load()  # this sample of the training data holds nearly all of dev


@real
def test_the_real_counterfactual_imdb() -> None:
    task = published_task("imdb", REAL).load()
    sizes = {name: len(split) for name, split in task.splits.items()}
    assert sizes == {"train": 1_707, "dev": 245, "test": 488, "pairs": 976, "revised": 488}
    pairs = task.id_tests["pairs"]
    labels: dict[str, set[int]] = {}
    for pair, label in zip(pairs.columns["pair"], pairs.labels.tolist(), strict=True):
        labels.setdefault(pair, set()).add(label)
    assert len(labels) == 488
    assert all(each == {0, 1} for each in labels.values()), "the two versions have different labels"


@real
def test_the_real_fever_and_symmetric_samples() -> None:
    folder = REAL / "fever"
    files = {name: str(folder / f"symmetric_v0.{n}_sample.jsonl") for n, name in ((1, "symm1"), (2, "symm2"))}
    spec = published_task("fever", None, files)
    spec = replace(spec, train=str(folder / "sample.tsv"), dev=files["symm1"], leaks="keep")
    task = spec.load()
    assert {name: len(split) for name, split in task.splits.items()} == {
        "train": 300, "dev": 100, "symm1": 100, "symm2": 100,
    }  # fmt: skip
    assert set(task.ood["symm1"].labels.tolist()) == set(task.ood["symm2"].labels.tolist()) == {0, 1}
