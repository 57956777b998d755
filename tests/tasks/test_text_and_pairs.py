"""Files of text and of pairs of sentences: what is read, and what is refused in one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from tiny_language import PAIRS, TEXTS, write_pairs, write_texts

from srnet.recipes.tasks import read_task
from srnet.tasks.answers.pairs import PAIR_ONLY, TEXT, WITH_UNRELATED, PairSplit
from srnet.tasks.check import check_data
from srnet.tasks.pairs import PairFile, PairsTask
from srnet.tasks.text import TextTask


def write(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


# --- text ----------------------------------------------------------------------------------------------------------


def test_a_line_is_a_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one, two\tthree ", "", "  ", '"four"')
    task = TextTask(train=path, dev=path).load()
    assert task.train.text_a == ("one, two\tthree", '"four"')
    assert (task.metric, task.answer, task.labels) == ("perplexity", "text", ("token",))


def test_a_packed_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("\ufeffone\ntwo\n".encode()))
    assert TextTask(train=str(path), dev=str(path)).load().train.text_a == ("one", "two")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_column_of_texts(ending: str, tmp_path: Path) -> None:
    cell = {"csv": '"one, two",1', "tsv": "one, two\t1", "jsonl": '{"story": "one, two", "n": 1}'}[ending]
    header = {"csv": ["story,n"], "tsv": ["story\tn"], "jsonl": []}[ending]
    path = write(tmp_path / f"a.{ending}", *header, cell)
    assert TextTask(train=path, dev=path, text="story").load().train.text_a == ("one, two",)


def test_dev_is_split_off(tmp_path: Path) -> None:
    task = TextTask(train=str(write_texts(tmp_path, 5)), dev_share=0.25).load()
    assert (len(task.train), len(task.dev)) == (30, 10)
    assert not set(task.train.text_a) & set(task.dev.text_a), "equal texts stay together"


def test_tests_and_rows(tmp_path: Path) -> None:
    path = str(write_texts(tmp_path))
    task = TextTask(
        train=path, dev=path, ood=(("other", path),), id_tests=(("more", path),), rows=(("other", 3),)
    ).load()
    assert task.scored == ("dev", "more", "other")
    assert len(task.ood["other"]) == 3
    assert task.notes == ("other: 3 of 8 rows",)


def test_what_is_no_text(tmp_path: Path) -> None:
    table = write(tmp_path / "a.csv", "text,n", "one,1", " ,2")
    with refused("a.csv, line 3", "empty", "'text'"):
        TextTask(train=table, dev=table).load()
    skipped = TextTask(train=table, dev=table, bad_rows="skip").load()
    assert skipped.train.text_a == ("one",)
    assert "1 rows that cannot be read" in " ".join(skipped.notes)
    with refused("a.csv", "'story'", "text, n"):
        TextTask(train=table, dev=table, text="story").load()
    empty = write(tmp_path / "empty.txt", " ")
    with refused("empty.txt", "no texts"):
        TextTask(train=empty, dev=empty).load()
    with refused("absent.txt", "does not exist"):
        TextTask(train=str(tmp_path / "absent.txt")).load()


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n\xff\xfe\n")
    with refused("a.txt, line 2", "UTF-8"):
        TextTask(train=str(path), dev=str(path)).load()


# --- pairs ---------------------------------------------------------------------------------------------------------


def load(path: Any, **options: Any) -> Any:
    return PairsTask(train=path, dev=path, **options).load()


def test_rows_of_pairs(tmp_path: Path) -> None:
    task = load(str(write_pairs(tmp_path)))
    dev = task.dev
    assert isinstance(dev, PairSplit)
    assert list(zip(dev.text_a, dev.text_b, dev.unrelated, strict=True)) == list(PAIRS)
    assert dev.labels.tolist() == [WITH_UNRELATED] * 6
    assert dev.groups[:2] == ("gender > target 0", "job > target 1")
    assert dev.scoring == "mean"
    assert task.notes == ("dev: compared by the log-probability per token (StereoSet)",)


def test_pairs_without_unrelated_sentences_are_summed(tmp_path: Path) -> None:
    dev = load(str(write_pairs(tmp_path, unrelated=False))).dev
    assert dev.labels.tolist() == [PAIR_ONLY] * 6
    assert dev.scoring == "sum"


def test_crows_pairs_as_its_authors_publish_it(tmp_path: Path) -> None:
    header = ",sent_more,sent_less,stereo_antistereo,bias_type,annotations,anon_writer,anon_annotators"
    rows = [
        '0,"Poor, black.","Poor, white.",stereo,race-color,[[]],a1,[]',
        "1,He won.,She won.,antistereo,gender,[[]],a2,[]",
    ]
    task = load(write(tmp_path / "crows.csv", header, *rows))
    assert any("noise" in note for note in task.notes)
    dev = task.dev
    assert dev.text_a == ("Poor, black.", "He won.")
    assert dev.text_b == ("Poor, white.", "She won.")
    assert dev.groups == ("race-color > stereo", "gender > antistereo")


def test_stereoset_as_its_authors_publish_it(tmp_path: Path) -> None:
    gold = {"x": "unrelated", "b": "stereotype", "a": "anti-stereotype"}
    sentences = [{"sentence": f"It is {word}.", "gold_label": label} for word, label in gold.items()]
    one = {"id": "1", "target": "nurse", "bias_type": "profession", "context": "It is BLANK.", "sentences": sentences}
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": {"intersentence": [], "intrasentence": [one]}}))
    dev = load(str(path)).dev
    assert (dev.text_a, dev.text_b, dev.unrelated) == (("It is b.",), ("It is a.",), ("It is x.",))
    assert dev.groups == ("profession > nurse",)
    path.write_text(json.dumps({"data": {"intrasentence": [{"id": "1"}]}}))
    with refused("dev.json", "StereoSet"):
        load(str(path))


def test_some_rows_of_a_file(tmp_path: Path) -> None:
    path = str(write_pairs(tmp_path))
    dev = load(PairFile(path, where=(("bias_type", "job"),), scoring="sum")).dev
    assert dev.text_a == tuple(pair[0] for pair in PAIRS[1::2])
    assert dev.scoring == "sum"
    with refused("pairs.csv", "'race'", "gender, job"):
        load(PairFile(path, where=(("bias_type", "race"),)))
    with refused("pairs.csv", "'split'", "bias_type"):
        load(PairFile(path, where=(("split", "race"),)))


def test_neutral_text_is_divided(tmp_path: Path) -> None:
    task = load(str(write_pairs(tmp_path)), neutral=str(write_texts(tmp_path, 5)), neutral_share=0.25)
    neutral = task.id_tests["neutral"]
    assert (len(task.train.neutral), len(neutral)) == (30, 10)
    assert not set(task.train.neutral) & set(neutral.text_a)
    assert set(neutral.labels.tolist()) == {TEXT}
    assert task.dev.neutral == ()
    assert task.scored == ("dev", "neutral")


def test_the_description_as_yaml(tmp_path: Path) -> None:
    write_pairs(tmp_path), write_texts(tmp_path, 5)
    described = {
        "answer": "pairs", "name": "jobs", "neutral": "texts.txt", "metric": "icat", "rows": {"dev": 2},
        "train": {"path": "pairs.csv", "where": {"bias_type": "job"}}, "dev": "pairs.csv",
        "ood": {"other": "pairs.csv"},
    }  # fmt: skip
    spec = read_task(described, "task", tmp_path)
    assert isinstance(spec, PairsTask)
    assert spec.neutral == str(tmp_path / "texts.txt")
    task = spec.load()
    assert (len(task.train), len(task.dev), len(task.ood["other"])) == (3, 2, 6)
    assert isinstance(read_task({"answer": "text", "train": "texts.txt"}, "task", tmp_path), TextTask)


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("a b,a b ,x", ("line 2", "equal", "'a b'")),
        (" ,a,x", ("line 2", "empty", "'stereotype'")),
        ("a,,x", ("line 2", "empty", "'anti_stereotype'")),
        ("a,b", ("line 2", "2 cells under 3 columns")),
    ],
)
def test_bad_pairs_are_named(row: str, named: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", "stereotype,anti_stereotype,unrelated", row, "c,d,e")
    with refused("p.csv", *named):
        load(path)
    assert load(path, bad_rows="skip").dev.text_a == ("c",)


def test_a_file_without_the_columns(tmp_path: Path) -> None:
    with refused("p.csv", "'stereotype' or 'sent_more' or 'more'", "first, second"):
        load(write(tmp_path / "p.csv", "first,second", "a,b"))


def test_a_language_score_needs_unrelated_sentences(tmp_path: Path) -> None:
    path = str(write_pairs(tmp_path, unrelated=False))
    for metric in ("lms", "icat"):
        with refused(metric, "unrelated", "ss, gap"):
            load(path, metric=metric)


def test_no_test_set_is_called_neutral(tmp_path: Path) -> None:
    path = str(write_pairs(tmp_path))
    with refused("neutral"):
        PairsTask(train=path, ood=(("neutral", path),))


def test_the_fingerprint_knows_everything_that_is_read(tmp_path: Path) -> None:
    path, text = str(write_pairs(tmp_path)), str(write_texts(tmp_path, 5))
    other = str(write_pairs(tmp_path, "other.csv", unrelated=False))
    tasks = [load(path), load(path, scoring="sum"), load(path, neutral=text), load(other), load(other, scoring="mean")]
    assert len({task.fingerprint for task in tasks}) == len(tasks)
    assert load(path).fingerprint == tasks[0].fingerprint


def test_rows_that_are_taken_keep_their_sentences(tmp_path: Path) -> None:
    taken = load(str(write_pairs(tmp_path))).dev.take(np.array([4, 1]))
    assert taken.unrelated == (PAIRS[4][2], PAIRS[1][2])


def test_a_check_counts_them(tmp_path: Path) -> None:
    path = str(write_pairs(tmp_path))
    found = check_data(PairsTask(train=path, dev=path, neutral=str(write_texts(tmp_path, 5))))
    labels = {split.name: split.labels for split in found.splits}
    assert labels["dev"] == {"pairs with unrelated": 6}
    assert labels["neutral"] == {"texts": 5}, "equal texts stay together"
    text = str(write_texts(tmp_path))
    assert check_data(TextTask(train=text, dev=text)).splits[0].words == (7, 16, 16)
    assert len(TEXTS) == check_data(TextTask(train=text, dev=text)).splits[0].rows
