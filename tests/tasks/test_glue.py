"""GLUE's tasks, in the layouts of its archives, of the authors and of the Hub."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from layouts import imdb_csv
from refusals import refused

from srnet.evaluation.metrics import measure, score
from srnet.recipes.tasks import DataOptions, read_task
from srnet.tasks.base import Task
from srnet.tasks.published import PUBLISHED_TASKS, published_task

REAL = Path(__file__).parents[3] / "shared" / "data" / "glue"
GLUE = ("cola", "sst2", "mrpc", "stsb", "qnli", "rte")
FOLDERS = {"cola": "CoLA", "sst2": "SST-2", "mrpc": "MRPC", "stsb": "STS-B", "qnli": "QNLI", "rte": "RTE"}
STS_B = ("index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score")
ORIGINAL = {
    "cola": 'gj04\t0\t*\t{split} "quoted one\ngj04\t1\t\t{split} two.\n',
    "sst2": 'sentence\tlabel\n{split} "quoted one \t0\n{split} two. \t1\n',
    "mrpc": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
    '0\t1\t2\t{split} "quoted one\tb\r\n1\t3\t4\t{split} two.\tb\r\n',
    "stsb": "\t".join(STS_B) + "\n"
    '0\tnews\tMSRvid\t2012\t1\tnone\tnone\t{split} "quoted one\tb\t0.000\n'
    "1\tnews\tMSRvid\t2012\t2\tnone\tnone\t{split} two.\tb\t3.800\n",
    "qnli": 'index\tquestion\tsentence\tlabel\n0\t{split} "quoted one\tb\tentailment\n'
    "1\t{split} two.\tb\tnot_entailment\n",
    "rte": 'index\tsentence1\tsentence2\tlabel\n0\t{split} "quoted one\tb\tentailment\n'
    "1\t{split} two.\tb\tnot_entailment\n",
}
SECOND = {"cola": None, "sst2": None, "mrpc": "sentence2", "stsb": "sentence2", "qnli": "sentence", "rte": "sentence2"}
FIRST = {"cola": "sentence", "sst2": "sentence", "qnli": "question"}


def original(name: str, folder: Path) -> Path:
    """As GLUE's archives have it."""
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text(ORIGINAL[name].replace("{split}", split), encoding="utf-8", newline="")
    return folder


def from_the_hub(name: str, folder: Path) -> Path:
    """As somebody has saved it from the Hub: labels are numbers, and -1 means that there is none."""
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        labels: tuple[float, ...] = (0.0, 3.8, -1.0) if name == "stsb" else (0, 1, -1)
        texts = (f'{split} "quoted one', f"{split} two.", "unlabelled")
        rows = [
            {
                FIRST.get(name, "sentence1"): text,
                **({SECOND[name]: "b"} if SECOND[name] else {}),
                "label": label,
                "idx": n,
            }
            for n, (text, label) in enumerate(zip(texts, labels, strict=True))
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("make", [original, from_the_hub], ids=["original", "hub"])
@pytest.mark.parametrize("name", GLUE)
def test_every_task_in_both_layouts(name: str, make: Callable[[str, Path], Path], tmp_path: Path) -> None:
    task = published_task(name, make(name, tmp_path / "data")).load()
    assert task.train.text_a == ('train "quoted one', "train two.")
    assert task.dev.text_a == ('dev "quoted one', "dev two.")
    assert task.dev.text_b == (("b", "b") if SECOND[name] else ("", ""))
    assert task.dev.labels.tolist() == ([0.0, 3.8] if name == "stsb" else [0, 1])
    left_out = tuple(f"{split}: 1 rows without a label were left out" for split in ("train", "dev"))
    assert task.notes == (left_out if make is from_the_hub else ())
    assert task.ood == task.id_tests == {}
    assert task.scored == ("dev",)
    assert task.shortcut == "unknown", "nobody has named one"


@pytest.mark.parametrize("name", GLUE)
def test_a_folder_of_several_datasets(name: str, tmp_path: Path) -> None:
    for each in GLUE:
        original(each, tmp_path / FOLDERS[each])
    assert published_task(name, tmp_path).load().name == name


@pytest.mark.parametrize("name", GLUE)
def test_without_a_folder_the_hub_has_them(name: str) -> None:
    files = published_task(name).files
    assert files["train"].path == f"hub:nyu-mll/glue:{name}:train"
    assert files["dev"].path == f"hub:nyu-mll/glue:{name}:validation"


@pytest.mark.parametrize(
    ("name", "labels", "metric", "words"),
    [
        ("cola", ("unacceptable", "acceptable"), "matthews", ("incorrect", "correct")),
        ("sst2", ("negative", "positive"), "accuracy", ("terrible", "great")),
        ("mrpc", ("not_equivalent", "equivalent"), "positive_f1", ("No", "Yes")),
        ("stsb", ("score",), "pearson", ("Yes",)),
        ("qnli", ("entailment", "not_entailment"), "accuracy", ("Yes", "No")),
        ("rte", ("entailment", "not_entailment"), "accuracy", ("Yes", "No")),
        ("qqp", ("not_duplicate", "duplicate"), "f1", ("No", "Yes")),
        ("mnli", ("entailment", "neutral", "contradiction"), "accuracy", ("Yes", "Maybe", "No")),
        ("snli", ("entailment", "neutral", "contradiction"), "accuracy", ("Yes", "Maybe", "No")),
        ("imdb", ("negative", "positive"), "accuracy", ("terrible", "great")),
        ("fever", ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"), "accuracy", ()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels_metric_and_words(
    name: str, labels: tuple[str, ...], metric: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    folder = imdb_csv(tmp_path) if name == "imdb" else None  # no copy on the Hub
    task = published_task(name, folder, ood={"mine": "mine.csv"})
    assert (task.labels, task.metric, task.label_words) == (labels, metric, words)
    assert set(PUBLISHED_TASKS) == {*GLUE, "qqp", "mnli", "snli", "fever", "imdb"}


def test_the_words_can_be_others(tmp_path: Path) -> None:
    folder = original("rte", tmp_path / "RTE")
    assert published_task("rte", folder, label_words=("true", "false")).load().label_words == ("true", "false")
    described = read_task({"dataset": "rte", "data": "RTE", "label_words": ["true", "false"]}, "x", tmp_path)
    assert described.load().label_words == ("true", "false")
    with refused("label_words", "['true']"):
        published_task("rte", folder, label_words=("true",))


# --- peculiarities -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_cola_with_a_header_after_all(ending: str, tmp_path: Path) -> None:
    between = "\t" if ending == "tsv" else ","
    for split in ("train", "dev"):
        lines = [("sentence", "label", "idx"), (f"{split} one", "0", "7"), (f"{split} two", "1", "8")]
        (tmp_path / f"{split}.{ending}").write_text("".join(between.join(line) + "\n" for line in lines))
    task = published_task("cola", tmp_path).load()
    assert task.dev.text_a == ("dev one", "dev two")
    assert task.dev.labels.tolist() == [0, 1]


def test_a_bad_row_of_a_file_without_a_header_has_the_right_line(tmp_path: Path) -> None:
    folder = original("cola", tmp_path / "CoLA")
    with (folder / "dev.tsv").open("a") as file:
        file.write("gj04\t2\t\tneither\n")
    with refused("dev.tsv, line 3", "'2'", "unacceptable"):
        published_task("cola", folder).load()


def test_mrpc_as_its_authors_have_it(tmp_path: Path) -> None:
    glue = original("mrpc", tmp_path / "glue")
    authors = tmp_path / "authors"
    authors.mkdir()
    (glue / "train.tsv").rename(authors / "msr_paraphrase_train.txt")
    (glue / "dev.tsv").rename(authors / "msr_paraphrase_test.txt")
    with refused("no dev file of mrpc"):
        published_task("mrpc", authors)  # their test set is no dev set: it must not choose checkpoints
    (authors / "msr_paraphrase_test.txt").rename(authors / "dev.txt")
    assert published_task("mrpc", authors).load().train.text_a == ('train "quoted one', "train two.")


def test_what_cola_repeats_is_said_and_not_refused(tmp_path: Path) -> None:
    folder = tmp_path / "CoLA"
    folder.mkdir()
    same = "gj04\t1\t\tone\ngj04\t0\t*\ttwo\n"
    (folder / "train.tsv").write_text(same + "gj04\t1\t\tthree\n")
    (folder / "dev.tsv").write_text(same)
    assert published_task("cola", folder).load().notes == ("dev: 2 of 2 rows are also in train",)
    assert len(published_task("cola", folder, leaks="drop").load().train) == 1
    with refused("'dev'", "2 of 2 rows"):
        published_task("cola", folder, leaks="check").load()
    assert len(DataOptions(data=str(folder), leaks="drop").task("cola").load().train) == 1


# --- what is reported ----------------------------------------------------------------------------------------------


def scores_of(task: Task, logits: np.ndarray) -> dict[str, float]:
    split, kind = task.dev, task.answer_kind
    return score(kind.decode(split, logits), split.labels, split.groups, task.classes_of(split), kind).metrics


@pytest.mark.parametrize("name", GLUE)
def test_a_model_that_always_says_the_same(name: str, tmp_path: Path) -> None:
    task = published_task(name, original(name, tmp_path / "data")).load()
    logits = np.zeros((2, len(task.labels)))
    found = scores_of(task, logits)
    assert found[task.metric] == 100 * measure(task.metric, task.answer_kind.decode(task.dev, logits), task.dev.labels)
    assert all(np.isfinite(value) for value in found.values())
    assert set(found) == ({"pearson", "spearman"} if name == "stsb" else {"accuracy", "f1", "matthews", "positive_f1"})


# --- the real files, where they are --------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL.is_dir(), reason="the real data are not here")
@pytest.mark.parametrize(
    ("name", "train", "dev"),
    [("cola", 8551, 1043), ("sst2", 67349, 872), ("mrpc", 3667, 408), ("stsb", 5749, 1500), ("rte", 2490, 277)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_real_files(name: str, train: int, dev: int) -> None:
    task = published_task(name, REAL).load()
    assert (len(task.train), len(task.dev)) == (train, dev)
    assert not any("bad" in note or "read" in note for note in task.notes)
