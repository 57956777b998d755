"""SQuAD v1.1: its files, its faults, and its scores by hand."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from srnet.core.errors import UserError
from srnet.tasks.answers.spans import SpanSplit, normalised
from srnet.tasks.squad import HUB_SPLITS, SquadTask, squad_task

CONTEXT = "The Rhine rises in Switzerland. It flows  through Köln \U0001f600 and the Netherlands."
Answer = tuple[str, int]


# --- the scores ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat,\tsat.", "cat sat"),
        ("an apple a day", "apple day"),
        ("Athens", "athens"),
        ("L.A.", "la"),
        ("a.", ""),
        ("well-known", "wellknown"),
        ("$1,000.50", "100050"),
        ("the-end", "theend"),
        ("“Café” — ÜBER", "“café” — über"),
        ("a\u00a0b", "b"),
        ("—the—", "— —"),
        ("", ""),
    ],
    ids=ascii,
)
def test_normalisation(text: str, expected: str) -> None:
    """Only ASCII punctuation goes; a dash of another kind stays, and sets a word apart."""
    assert normalised(text) == expected


@given(st.text())
def test_a_text_matches_itself(text: str) -> None:
    scores = one_question(text, (text,)).answers(np.array([[0, len(text)]]))
    assert scores.tolist() == [[1.0, float(normalised(text) != "")]]


@pytest.mark.parametrize(
    ("prediction", "references", "exact", "f1"),
    [
        ("the Rhine!", ["Rhine"], 1.0, 1.0),
        ("river Rhine", ["the Rhine", "Rhine"], 0.0, 2 / 3),  # precision 1/2, recall 1
        ("upper river Rhine", ["Rhine", "lower river Rhine"], 0.0, 2 / 3),  # the second: 2 of 3 and 2 of 3
        ("no no yes", ["no yes yes yes"], 0.0, 4 / 7),  # one "no" and one "yes" are shared: 2/3 and 2/4
        ("Köln", ["koln", "KÖLN"], 1.0, 1.0),
        ("Danube", ["Rhine"], 0.0, 0.0),
        ("", ["Rhine"], 0.0, 0.0),
        ("", ["the"], 1.0, 0.0),  # both are empty: as SQuAD v1.1 has it
    ],
    ids=["article", "half", "best-reference", "multiset", "unicode", "wrong", "empty", "both-empty"],
)
def test_scores_by_hand(prediction: str, references: list[str], exact: float, f1: float) -> None:
    context = f"x {prediction} y"
    split = one_question(context, tuple(references))
    span = [2, 2 + len(prediction)] if prediction else [0, 0]
    np.testing.assert_allclose(split.answers(np.array([span])), [[exact, f1]])


def test_exact_match_and_f1_may_come_from_different_references() -> None:
    """The empty answer "the" matches "a" exactly, and shares no word with either."""
    assert one_question("the", ("Rhine", "a")).answers(np.array([[0, 3]])).tolist() == [[1.0, 0.0]]


def one_question(context: str, references: tuple[str, ...]) -> SpanSplit:
    return SpanSplit("dev", "ID", ("q",), ("?",), (context,), np.array([[0, 1]]), ("",), references=(references,))


# --- the split -----------------------------------------------------------------------------------------------------


def three_questions() -> SpanSplit:
    return SpanSplit(
        name="dev",
        kind="ID",
        ids=("a", "b", "c"),
        text_a=("1?", "2?", "3?"),
        text_b=(CONTEXT,) * 3,
        labels=np.array([[4, 9], [19, 30], [50, 54]]),
        groups=("",) * 3,
        references=(("Rhine",), ("Switzerland",), ("Köln", "Cologne")),
    )


def test_rows_that_are_taken_keep_their_references() -> None:
    split = three_questions()
    taken = split.take(np.array([2, 0]))
    assert taken.references == (("Köln", "Cologne"), ("Rhine",))
    assert taken.answers(taken.labels).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert split.answers(split.labels).tolist() == [[1.0, 1.0]] * 3
    sampled = split.sample(2)
    assert isinstance(sampled, SpanSplit)
    assert len(sampled.references) == len(sampled) == 2


def test_the_fingerprint_knows_the_references() -> None:
    split = three_questions()
    other = replace(split, references=(("Rhine",), ("Switzerland",), ("Köln",)))
    moved = replace(split, labels=split.labels + 1)
    assert split.fingerprint() == three_questions().fingerprint()
    assert len({each.fingerprint() for each in (split, other, moved)}) == 3


# --- the files -----------------------------------------------------------------------------------------------------


def question(id: str, *answers: Answer, text: str = "Where?", **more: Any) -> dict[str, Any]:
    return {"id": id, "question": text, "answers": [{"text": t, "answer_start": s} for t, s in answers], **more}


def squad(*questions: dict[str, Any], context: str = CONTEXT) -> dict[str, Any]:
    return {
        "version": "1.1",
        "data": [{"title": "Rhine", "paragraphs": [{"context": context, "qas": list(questions)}]}],
    }


def write(path: Path, content: Any) -> str:
    data = json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """A task of one good training file and the questions given as dev; the name says the format."""
    train = write(tmp_path / "train.json", squad(question("t1", ("Rhine", 4)), question("t2", ("Rhine", 4))))

    def make(*questions: dict[str, Any], name: str = "dev.json", **options: Any) -> Any:
        return SquadTask(train, write(tmp_path / name, squad(*questions)), **options).load()

    return make


@pytest.mark.parametrize("name", ["d.json", "d.json.gz"])
def test_the_original_format(load: Any, name: str) -> None:
    answers = (("Switzerland", 19), ("in Switzerland", 16), ("Switzerland", 19))
    task = load(question("a", *answers, text="  Where does it rise? "), question("b", ("Köln", 50)), name=name)
    dev = task.dev
    assert (task.answer, task.labels, task.metric, task.label_words) == (
        "span",
        ("start", "end"),
        "span_f1",
        ("Yes", "No"),
    )
    assert task.shortcut == "unknown"
    assert dev.ids == ("a", "b")
    assert dev.text_a == ("Where does it rise?", "Where?")
    assert dev.text_b[0] is dev.text_b[1]
    assert dev.labels.dtype == np.int64
    assert dev.labels.tolist() == [[19, 30], [50, 54]]
    assert dev.references == (("Switzerland", "in Switzerland", "Switzerland"), ("Köln",))
    assert task.notes == ()
    assert dev.answers(dev.labels).tolist() == [[1.0, 1.0]] * 2


ROWS = [
    {
        "id": "a",
        "title": "Rhine",
        "context": CONTEXT,
        "question": "Where?",
        "answers": {"text": ["Köln", 'It\'s "Köln"'], "answer_start": [50, 50]},
    },
    {
        "id": "b",
        "title": "Rhine",
        "context": "".join(list(CONTEXT)),
        "question": "What?",
        "answers": {"text": ["Rhine"], "answer_start": [4]},
    },
]


def check_rows(split: SpanSplit) -> None:
    assert split.ids == ("a", "b")
    assert split.labels.tolist() == [[50, 54], [4, 9]]
    assert split.references == (("Köln", 'It\'s "Köln"'), ("Rhine",))
    assert split.text_b[0] is split.text_b[1], "one copy of each context"


def test_rows_of_parquet_and_json_lines(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    (tmp_path / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    task = squad_task(tmp_path).load()
    assert isinstance(task.train, SpanSplit)
    assert isinstance(task.dev, SpanSplit)
    check_rows(task.train)
    check_rows(task.dev)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for a repository, with caches of its own."""
    datasets = pytest.importorskip("datasets")
    for name in ("HF_DATASETS_CACHE", "HF_MODULES_CACHE", "DOWNLOADED_DATASETS_PATH", "EXTRACTED_DATASETS_PATH"):
        monkeypatch.setattr(datasets.config, name, tmp_path / "cache" / name.lower())
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache" / "hub"))
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


def test_rows_of_the_hub(hub: Path) -> None:
    for name in ("train", "validation"):
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), hub / f"{name}.parquet")
    task = SquadTask(f"hub:{hub}:train", f"hub:{hub}:validation").resolved(Path("/elsewhere")).load()
    assert isinstance(task.dev, SpanSplit)
    check_rows(task.dev)


@pytest.mark.parametrize(
    ("answer", "span"),
    [
        (("Switzerland", 18), [19, 30]),
        (("Switzerland", 0), [19, 30]),
        (("the", 54), [61, 64]),
        (("flows through", 34), [35, 49]),
        (("Netherlands", 67), [65, 76]),
    ],
    ids=["off-by-one", "far-but-only-one", "nearest-of-several", "other-spaces", "two-bytes-a-character"],
)
def test_answers_that_stand_elsewhere(load: Any, answer: Answer, span: list[int]) -> None:
    task = load(question("a", answer))
    assert task.dev.labels.tolist() == [span]
    assert task.notes == ("dev: 1 answers are not at the stated position; found elsewhere",)


def test_spaces_around_an_answer_are_no_part_of_it(load: Any) -> None:
    task = load(question("a", (" Switzerland. ", 18)))
    assert task.dev.labels.tolist() == [[19, 31]]
    assert task.dev.references == ((" Switzerland. ",),)
    assert task.notes == ()


def test_the_first_answer_that_is_found_counts(load: Any) -> None:
    task = load(question("a", ("Germany", 4), ("Köln", 50)))
    assert task.dev.labels.tolist() == [[50, 54]]
    assert task.dev.references == (("Germany", "Köln"),)


BAD = {
    "nowhere": (question("bad", ("Germany", 3)), "the answer 'Germany' is not in the context"),
    "ambiguous": (question("bad", ("s", 900)), "the answer 's' is not in the context"),
    "empty-answer": (question("bad", (" ", 3)), "an answer is empty"),
    "empty-question": (question("bad", ("Rhine", 4), text=" "), "the question is empty"),
    "half-a-character": (question("bad", ("Rhine", 4), text="\ud83d?"), "half a character"),
}


@pytest.mark.parametrize(("wrong", "message"), BAD.values(), ids=BAD)
def test_a_question_that_cannot_be_used(load: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        load(question("good", ("Rhine", 4)), wrong)
    assert f"dev.json, question 'bad': {message}" in str(caught.value)
    assert "bad_rows: skip" in str(caught.value)
    task = load(question("good", ("Rhine", 4)), wrong, bad_rows="skip")
    assert task.dev.ids == ("good",)
    assert task.notes == ("dev: 1 questions that cannot be read were left out (bad)",)


@pytest.mark.parametrize(
    "impossible",
    [question("q", is_impossible=True), question("q"), question("q", ("Rhine", 4), is_impossible=True)],
    ids=["impossible", "no-answers", "plausible"],
)
@pytest.mark.parametrize("bad_rows", ["refuse", "skip"])
def test_unanswerable_questions_are_refused(load: Any, impossible: dict[str, Any], bad_rows: str) -> None:
    with pytest.raises(UserError, match=r"question 'q' has no answer, as in SQuAD v2: .*; give files of SQuAD v1.1"):
        load(impossible, bad_rows=bad_rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": [\n{"paragraphs": ', "d.json, line 2: not JSON (Expecting value); is it complete?"),
        (b"[" * 100_000, "d.json: not JSON ("),
        (b'{"data": "\xff"}', "d.json: not UTF-8 text; save it as UTF-8"),
        (b"[]", "d.json: 'data' is missing or not a list; give a file in the format of SQuAD v1.1"),
        (b'{"data": []}', "d.json holds no questions with answers"),
        (b'{"data": [3]}', "d.json, article 1: 'paragraphs' is missing or not a list"),
        (b'{"data": [{"paragraphs": [{"qas": []}]}]}', "d.json, article 1: 'context' is missing or not a text"),
        (b'{"data": [{"paragraphs": [{"context": "x", "qas": [{}]}]}]}', "article 1, a question: 'id' is missing"),
        (
            b'{"data": [{"paragraphs": [{"context": "x", "qas": [{"id": "q", "question": "?", "answers": ["x"]}]}]}]}',
            "d.json, article 1, question 'q': 'text' is missing or not a text",
        ),
    ],
    ids=["cut", "deep", "latin", "list", "empty", "article", "paragraph", "question", "answer"],
)
def test_files_of_another_shape(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        SquadTask(str(path), str(path)).load()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


NO_LITERALS = {"key": "{[]: 1}", "signs": "-" * 100_000 + "1", "sum": "1+" * 100_000 + "1", "digits": "9" * 5000}
"""Cells on which `ast.literal_eval` fails in another way than with a ValueError."""


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answers": "Rhine"}, 'line 1: the answers are not {"text": [...], "answer_start": [...]}, but Rhine'),
        ({"answers": {"text": ["Rhine"], "answer_start": []}}, "line 1: the answers are not"),
        ({"answers": {"text": ["Rhine"], "answer_start": ["4"]}}, "line 1: the answers are not"),
        ({"answers": {"text": [], "answer_start": []}}, "question 'a' has no answer, as in SQuAD v2"),
        *(({"answers": cell}, "line 1: the answers are not") for cell in NO_LITERALS.values()),
        ({"answers": None}, "line 1: no column 'answers'; columns here: id, title, context, question"),
    ],
    ids=["text", "lengths", "kinds", "none", *NO_LITERALS, "missing"],
)
def test_rows_of_another_shape(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps(ROWS[0] | row))
    with pytest.raises(UserError) as caught:
        SquadTask(str(path), str(path)).load()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.json", "gone.json does not exist; check the path"),
        ("folder.json", "folder.json is a folder"),
        ("d.xml", "d.xml has an unknown ending; give a file that ends in .json, .json.gz, .csv"),
        ("d.json.gz", "d.json.gz is a damaged or truncated gzip file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(b"{}" * 100)[:-9])
    with pytest.raises(UserError) as caught:
        SquadTask(str(tmp_path / name), "dev.json").load()
    assert message in str(caught.value)


# --- the task ------------------------------------------------------------------------------------------------------


def test_test_sets_and_samples(tmp_path: Path) -> None:
    many = [question(str(n), ("Rhine", 4)) for n in range(10)]
    train, dev, other = (write(tmp_path / f"{name}.json", squad(*many)) for name in ("train", "dev", "other"))
    task = SquadTask(train, dev, ood=(("adversarial", other),), rows=(("train", 4), ("dev", 20))).load()
    assert (len(task.train), len(task.dev), len(task.ood["adversarial"])) == (4, 10, 10)
    assert (task.dev.kind, task.ood["adversarial"].kind) == ("ID", "OOD")
    assert task.notes == ("train: 4 of 10 rows",)
    assert isinstance(task.train, SpanSplit)
    assert len(task.train.references) == 4


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no train file of squad; it must be called train-v1.1.json or train.json"):
        squad_task(tmp_path)
    (tmp_path / "squad").mkdir()
    for name in ("train-v1.1.json", "train.json", "dev.json", "validation.json"):
        write(tmp_path / "squad" / name, squad(question("q", ("Rhine", 4))))
    task = squad_task(tmp_path, ood={"x": "x.json"}, rows=(("dev", 5),))
    assert [Path(file).name for file in task.files.values()] == ["train-v1.1.json", "dev.json", "x.json"]
    assert task.rows == (("dev", 5),)
    assert hash(task) == hash(squad_task(tmp_path, ood={"x": "x.json"}, rows=(("dev", 5),)))
    with pytest.raises(UserError, match="is not a folder; give the folder with the files of squad"):
        squad_task(tmp_path / "gone")


def test_without_a_folder_it_is_the_hub_s() -> None:
    task = squad_task()
    assert task.files == HUB_SPLITS
    assert task.resolved(Path("/data")) == task


def test_relative_paths_start_from_a_folder(tmp_path: Path) -> None:
    moved = SquadTask("a.json", "/b.json", ood=(("c", "c.json"),)).resolved(tmp_path)
    assert moved.files == {"train": str(tmp_path / "a.json"), "dev": "/b.json", "c": str(tmp_path / "c.json")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ood": (("dev", "x.json"),)}, "a test file cannot be called 'dev'"),
        ({"ood": (("x", "x.json"), ("x", "y.json"))}, "a test file cannot be called 'x'"),
        ({"rows": (("test", 3),)}, "unknown split under rows 'test'"),
    ],
    ids=["taken", "twice", "split"],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        SquadTask("a.json", "b.json", **options)
    assert message in str(caught.value)
