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
from refusals import refused

from srnet.tasks.answers.spans import SpanSplit, _normalised
from srnet.tasks.check import check_data
from srnet.tasks.squad import SquadTask, squad_task

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
    assert _normalised(text) == expected


@given(st.text())
def test_a_text_matches_itself(text: str) -> None:
    scores = one_question(text, (text,)).answers(np.array([[0, len(text)]]))
    assert scores.tolist() == [[1.0, float(_normalised(text) != "")]]


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
    assert (task.answer, task.labels, task.metric) == ("span", ("start", "end"), "span_f1")
    assert (task.label_words, task.shortcut) == (("Yes", "No"), "unknown")
    assert dev.ids == ("a", "b")
    assert dev.text_a == ("Where does it rise?", "Where?")
    assert dev.text_b[0] is dev.text_b[1]
    assert dev.labels.dtype == np.int64
    assert dev.labels.tolist() == [[19, 30], [50, 54]]
    assert dev.references == (("Switzerland", "in Switzerland", "Switzerland"), ("Köln",))
    assert task.notes == ()
    assert dev.answers(dev.labels).tolist() == [[1.0, 1.0]] * 2


ANSWERS = (
    {"text": ["Köln", 'It\'s "Köln"'], "answer_start": [50, 50]},
    {"text": ["Rhine"], "answer_start": [4]},
)
ROWS = [
    {"id": id, "title": "Rhine", "context": "".join(list(CONTEXT)), "question": "Where?", "answers": answers}
    for id, answers in zip("ab", ANSWERS, strict=True)
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
    "nowhere": (question("bad", ("Germany", 3)), "'Germany'"),
    "ambiguous": (question("bad", ("s", 900)), "'s'"),
    "empty-answer": (question("bad", (" ", 3)), "answer is empty"),
    "empty-question": (question("bad", ("Rhine", 4), text=" "), "question is empty"),
    "half-a-character": (question("bad", ("Rhine", 4), text="\ud83d?"), "half a character"),
}


@pytest.mark.parametrize(("wrong", "message"), BAD.values(), ids=BAD)
def test_a_question_that_cannot_be_used(load: Any, wrong: dict[str, Any], message: str) -> None:
    with refused("dev.json, question 'bad'", message, "bad_rows: skip"):
        load(question("good", ("Rhine", 4)), wrong)
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
    with refused("question 'q'", "SQuAD v2", "SQuAD v1.1"):
        load(impossible, bad_rows=bad_rows)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b'{"data": [\n{"paragraphs": ', ("line 2", "JSON", "Expecting value")),
        (b"[" * 100_000, ("JSON",)),
        (b'{"data": "\xff"}', ("UTF-8",)),
        (b"[]", ("'data'", "a list", "SQuAD v1.1")),
        (b'{"data": []}', ("no questions with answers",)),
        (b'{"data": [3]}', ("article 1", "'paragraphs'", "a list")),
        (b'{"data": [{"paragraphs": [{"qas": []}]}]}', ("article 1", "'context'", "a text")),
        (b'{"data": [{"paragraphs": [{"context": "x", "qas": [{}]}]}]}', ("article 1, a question", "'id'")),
        (json.dumps(squad(question("q") | {"answers": ["x"]})).encode(), ("article 1, question 'q'", "'text'")),
    ],
)
def test_files_of_another_shape(tmp_path: Path, content: bytes, named: tuple[str, ...]) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(content)
    with refused(path, *named):
        SquadTask(str(path), str(path)).load()


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ("Rhine", ("line 1", '{"text": [...], "answer_start": [...]}', "Rhine")),
        ({"text": ["Rhine"], "answer_start": []}, ("line 1", "answer_start")),
        ({"text": ["Rhine"], "answer_start": ["4"]}, ("line 1", "answer_start")),
        ({"text": [], "answer_start": []}, ("question 'a'", "SQuAD v2")),
        ("{[]: 1}", ("line 1", "answer_start")),  # `ast.literal_eval` raises no ValueError here
        (None, ("line 1", "'answers'", "id, title, context, question")),
    ],
)
def test_rows_of_another_shape(tmp_path: Path, answers: Any, named: tuple[str, ...]) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps(ROWS[0] | {"answers": answers}))
    with refused(path, *named):
        SquadTask(str(path), str(path)).load()


@pytest.mark.parametrize(("name", "named"), [("d.xml", ".json, .json.gz, .csv"), ("d.json.gz", "gzip")])
def test_files_that_cannot_be_read(tmp_path: Path, name: str, named: str) -> None:
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(b"{}" * 100)[:-9])
    with refused(tmp_path / name, named):
        SquadTask(str(tmp_path / name), "dev.json").load()


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
    with refused(tmp_path, "no train file of squad", "train-v1.1.* or train.*", ".json"):
        squad_task(tmp_path)
    (tmp_path / "squad").mkdir()
    for name in ("train-v1.1.json", "train.json", "dev.json", "validation.json"):
        write(tmp_path / "squad" / name, squad(question("q", ("Rhine", 4))))
    task = squad_task(tmp_path, ood={"x": "x.json"}, rows=(("dev", 5),))
    assert [Path(file).name for file in task.sources.values()] == ["train-v1.1.json", "dev.json", "x.json"]
    assert task.rows == (("dev", 5),)
    assert hash(task) == hash(squad_task(tmp_path, ood={"x": "x.json"}, rows=(("dev", 5),)))
    with refused(tmp_path / "gone", "squad"):
        squad_task(tmp_path / "gone")


def test_without_a_folder_it_is_the_hub_s() -> None:
    task = squad_task()
    hub = "hub:rajpurkar/squad:plain_text"
    assert task.sources == {"train": f"{hub}:train", "dev": f"{hub}:validation"}
    assert task.resolved(Path("/data")) == task


def test_relative_paths_start_from_a_folder(tmp_path: Path) -> None:
    moved = SquadTask("a.json", "/b.json", ood=(("c", "c.json"),)).resolved(tmp_path)
    assert moved.sources == {"train": str(tmp_path / "a.json"), "dev": "/b.json", "c": str(tmp_path / "c.json")}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"metric": "accuracy"}, "'accuracy'"),
        ({"bad_rows": "keep"}, "'keep'"),
        ({"ood": (("dev", "x.json"),)}, "'dev'"),
        ({"rows": (("test", 3),)}, "'test'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], named: str) -> None:
    with refused(named):
        SquadTask("a.json", "b.json", **options)


def test_a_check_of_spans(load: Any, tmp_path: Path) -> None:
    load(question("d1", ("Köln", 50)))
    spec = SquadTask(str(tmp_path / "train.json"), str(tmp_path / "dev.json"))
    found = check_data(spec)
    train, dev = found.splits
    assert train.labels == train.scores == train.final_sign == {}
    assert (dev.rows, dev.in_train, dev.source) == (1, 1, str(tmp_path / "dev.json")), "the same question and context"
    assert found.fingerprint == spec.load().fingerprint
