"""QQP with PAWS and FEVER with its symmetric sets, in the layouts their authors publish."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from layouts import QQP, content, expected, fever, jsonl, left_out, paws, qqp, symmetric
from refusals import refused

from srnet.tasks.published import published_task

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
