"""`srnet.fit_bias`: equal to bias models of files, whatever the texts come in; what it refuses; and in a loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import srnet
from srnet.experiment.engine import Engine


def made(size: int, seed: int = 0) -> pd.DataFrame:
    """Pairs whose label often follows from the word `indeed`, from overlap and from a column."""
    rng = random.Random(seed)
    words = ["doctor", "teacher", "guard", "pilot", "lawyer", "student", "actor", "farmer", "singer", "sailor"]
    rows = []
    for _ in range(size):
        label = rng.choice(["no", "yes"])
        first = rng.sample(words, 4)
        second = rng.sample(first if (label == "yes") == (rng.random() < 0.8) else words, 2)
        cue = ["indeed"] if (label == "yes") == (rng.random() < 0.9) else ["perhaps"]
        source = "web" if (label == "yes") == (rng.random() < 0.7) else "app"
        price = rng.choice([1.0, 2.5, None]) if label == "yes" else rng.choice([2.5, 40.0])
        rows.append((" ".join(first), " ".join(cue + second) + " ", label, source, price))
    return pd.DataFrame(rows, columns=["claim_text", "reply", "answer", "source", "price"])


DATA = made(240)
PAIRS = list(zip(DATA.claim_text, DATA.reply, strict=True))


def of_files(engine: Engine, folder: Path, shortcut: Any, text_b: str | None = "reply") -> np.ndarray:
    """The cross-fitted answers of `srnet.bias_model` about the same rows in a file."""
    DATA.to_csv(folder / "train.csv", index=False)
    made(40, seed=1).to_csv(folder / "dev.csv", index=False)
    texts = {"text_a": "claim_text", "text_b": text_b} if text_b else {"text": "reply"}
    task = srnet.task_from(
        folder / "train.csv", folder / "dev.csv", engine=engine, label="answer", leaks="keep", **texts
    )
    if callable(shortcut):
        shortcut = srnet.shortcut_from(task, shortcut, engine=engine)
    found = srnet.bias_model(task, srnet.BiasSpec(shortcut=shortcut), engine=engine)
    with np.load(found.folder / "train.npz") as arrays:
        answers: np.ndarray = arrays["log_probs"]
    return answers


@pytest.mark.parametrize("shortcut", ["words", "overlap", "claim", "length", "words,length,source", "source", "price"])
def test_equal_to_the_bias_model_of_files(shortcut: str, engine: Engine, tmp_path: Path) -> None:
    bias = srnet.fit_bias(PAIRS, DATA.answer, shortcut, columns=DATA[["source", "price"]])
    assert np.array_equal(bias.log_probs, of_files(engine, tmp_path, shortcut))
    assert bias.labels == ("no", "yes")


def test_equal_for_single_texts_and_for_functions(engine: Engine, tmp_path: Path) -> None:
    assert np.array_equal(
        srnet.fit_bias(DATA.reply, DATA.answer).log_probs, of_files(engine, tmp_path, "words", text_b=None)
    )
    own = srnet.fit_bias(PAIRS, DATA.answer, lambda rows: rows["text_b"].str.len(), columns=DATA[["source"]])
    assert np.array_equal(own.log_probs, of_files(engine, tmp_path, lambda rows: rows["reply"].str.len()))
    assert own.shortcut == "function"


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))
    srnet.fit_bias(PAIRS, DATA.answer, lambda rows: rows.text_a.str.len()).explain()
    assert list(tmp_path.iterdir()) == []


# --- what is given ---------------------------------------------------------------------------------------------------

SAME: dict[str, Callable[[], Any]] = {
    "pairs": lambda: srnet.fit_bias(PAIRS, DATA.answer.tolist(), "overlap"),
    "lists as pairs": lambda: srnet.fit_bias([list(pair) for pair in PAIRS], DATA.answer.to_numpy(), "overlap"),
    "an array": lambda: srnet.fit_bias(np.array(PAIRS), DATA.answer, "overlap"),
    "two lists": lambda: srnet.fit_bias(DATA.claim_text.tolist(), DATA.answer, "overlap", texts_b=DATA.reply),
    "a DataFrame": lambda: srnet.fit_bias(DATA[["claim_text", "reply"]], DATA.answer, "overlap"),
    "another index": lambda: srnet.fit_bias(
        DATA.set_index("price")[["claim_text", "reply"]], DATA.set_index("source").answer, "overlap"
    ),
    "columns of a dataset": lambda: srnet.fit_bias(
        DATASET["claim_text"], DATASET["answer"], "overlap", texts_b=DATASET["reply"]
    ),
    "booleans": lambda: srnet.fit_bias(PAIRS, DATA.answer == "yes", "overlap"),
    "whole numbers": lambda: srnet.fit_bias(PAIRS, (DATA.answer == "yes").astype(int), "overlap"),
    "a tensor": lambda: srnet.fit_bias(PAIRS, torch.tensor((DATA.answer == "yes").to_numpy()), "overlap"),
    "floats": lambda: srnet.fit_bias(PAIRS, (DATA.answer == "yes").astype(float), "overlap"),
}  # fmt: skip
DATASET = datasets.Dataset.from_pandas(DATA)


@pytest.mark.parametrize("case", SAME)
def test_the_same_texts_in_any_form(case: str) -> None:
    expected = SAME["pairs"]()
    bias = SAME[case]()
    assert np.array_equal(bias.log_probs, expected.log_probs)
    assert bias.score == expected.score
    assert len(bias.labels) == 2


def test_columns_have_the_order_of_numbers_or_that_which_is_given() -> None:
    labels = [str(n % 11) for n in range(220)]
    assert srnet.fit_bias(["a b"] * 220, labels, "length").labels == tuple(map(str, range(11)))
    assert srnet.fit_bias(["a b"] * 220, [int(each) for each in labels], "length").labels == tuple(map(str, range(11)))
    plain = srnet.fit_bias(PAIRS, DATA.answer, "overlap")
    turned = srnet.fit_bias(PAIRS, DATA.answer, "overlap", label_order=["yes", "maybe", "no"])
    assert turned.labels == ("yes", "maybe", "no")
    np.testing.assert_allclose(turned.log_probs[:, [2, 0]], plain.log_probs, atol=1e-4)
    assert (turned.log_probs[:, 1] == -np.inf).all(), "a label without rows has probability 0"


def test_the_score_by_hand() -> None:
    """Two words tell the label of all rows but four."""
    texts = ["good film"] * 20 + ["bad film"] * 10 + ["bad film"] * 4
    bias = srnet.fit_bias(texts, [1] * 20 + [0] * 10 + [1] * 4)
    assert bias.score == pytest.approx({"accuracy": 100 * 30 / 34, "majority": 100 * 24 / 34}, abs=1e-3)
    assert repr(bias) == "<FittedBias: words in 34 rows, accuracy 88.2 %, majority 70.6 %>"
    np.testing.assert_allclose(np.exp(bias.log_probs).sum(axis=1), 1.0)


def test_columns_alone_are_the_shortcut_unless_another_is_named() -> None:
    columns = {"source": DATA.source.to_numpy(), "price": DATA.price.tolist()}
    assert srnet.fit_bias(DATA.reply, DATA.answer, columns=columns).shortcut == "columns:price,columns:source"
    both = srnet.fit_bias(DATA.reply, DATA.answer, ["words", "source"], columns=columns)
    assert both.shortcut == "columns:source,words"
    assert srnet.fit_bias(DATA.reply, DATA.answer, "length", columns=columns).shortcut == "length"


def test_a_function_gets_texts_and_columns_and_no_labels() -> None:
    seen: list[list[str]] = []

    def function(rows: pd.DataFrame) -> pd.Series:
        seen.append(list(rows.columns))
        return rows["price"].fillna(0.0) * 2

    columns = DATA[["price"]]
    bias = srnet.fit_bias(DATA.reply, DATA.answer, function, columns=columns)
    bias.predict(["a b", "c d"], columns={"price": [1, 40]})
    assert seen == [["text_a", "price"]] * 2, "once for the fit, once for new rows"
    with refused("function", "KeyError", "new"):
        bias.predict(["a b"])


# --- explain and predict ---------------------------------------------------------------------------------------------


def test_what_carries_it_is_a_table() -> None:
    bias = srnet.fit_bias(DATA.reply, DATA.answer)
    found = bias.explain()
    assert set(zip(found.feature[:2], found.label[:2], strict=True)) == {("indeed", "yes"), ("perhaps", "no")}
    assert found.columns.tolist() == ["feature", "label", "rows", "share", "lift", "p"]
    assert len(bias.explain(most=1)) == 1
    assert len(srnet.fit_bias(["a b"] * 20, ["x", "y"] * 10, "length").explain()) == 0


def test_equal_texts_are_counted_once_but_rows_of_columns_all() -> None:
    texts = ["good film"] * 20 + ["bad film"] * 20 + [f"{word} film" for word in "abcdefghij"]
    labels = ["x"] * 20 + ["y"] * 20 + ["x", "y"] * 5
    assert srnet.fit_bias(texts, labels).explain().empty
    columns = {"source": [text.split()[0] if len(text) > 6 else "other" for text in texts]}
    found = srnet.fit_bias(texts, labels, columns=columns).explain()
    assert set(zip(found.feature, found.rows, strict=True)) == {("source=good", 20), ("source=bad", 20)}


@settings(max_examples=10)
@given(rows=st.lists(st.integers(0, len(PAIRS) - 1), min_size=1, max_size=20))
def test_predictions_are_those_of_the_model_of_all_rows(rows: list[int]) -> None:
    """They do not depend on the other rows, and are not the cross-fitted ones."""
    answers = BIAS.predict([PAIRS[row] for row in rows], columns=DATA[["source"]].iloc[rows])
    np.testing.assert_allclose(answers, WHOLE[rows], atol=1e-12)
    np.testing.assert_allclose(np.exp(answers).sum(axis=1), 1.0)


BIAS = srnet.fit_bias(PAIRS, DATA.answer, "words,overlap,source", columns=DATA[["source"]])
WHOLE = BIAS.predict(PAIRS, columns=DATA[["source"]])


def test_predictions_of_the_fitted_rows_are_surer_than_the_cross_fitted_ones() -> None:
    truth = (DATA.answer == "yes").astype(int)
    own, crossed = (each[np.arange(len(truth)), truth].mean() for each in (WHOLE, BIAS.log_probs))
    assert own > crossed


# --- mistakes --------------------------------------------------------------------------------------------------------

TEXTS, LABELS = ["good film", "bad film"] * 10, ["x", "y"] * 10
NONE = ["x", None, *LABELS[2:]]
MISTAKES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "lengths": (lambda: srnet.fit_bias(TEXTS, LABELS[1:]), ("texts", "19", "20")),
    "second texts": (lambda: srnet.fit_bias(TEXTS, LABELS, texts_b=TEXTS[1:]), ("texts", "19", "20")),
    "one class": (lambda: srnet.fit_bias(TEXTS, ["x"] * 20), ("one label", "two")),
    "few rows": (lambda: srnet.fit_bias(TEXTS[:6], LABELS[:6]), ("5 folds", "3")),
    "folds": (lambda: srnet.fit_bias(TEXTS, LABELS, folds=1), ("1 folds",)),
    "folds as text": (lambda: srnet.fit_bias(TEXTS, LABELS, folds="five"), ("folds", "'five'")),  # type: ignore[arg-type]
    "an empty text": (lambda: srnet.fit_bias(["a", " ", *TEXTS[2:]], LABELS), ("texts[1]", "empty")),
    "a missing text": (lambda: srnet.fit_bias([None, *TEXTS[1:]], LABELS), ("texts[0]", "empty")),
    "NaN": (lambda: srnet.fit_bias(pd.Series([np.nan, *TEXTS[1:]]), LABELS), ("texts[0]", "empty")),
    "half a pair": (lambda: srnet.fit_bias([("a", "b"), ("a", "")] * 10, LABELS), ("texts[1]", "text_b")),
    "some pairs": (lambda: srnet.fit_bias([("a", "b"), "a"] * 10, LABELS), ("texts",)),
    "triples": (lambda: srnet.fit_bias([("a", "b", "c")] * 20, LABELS), ("texts",)),
    "three columns": (lambda: srnet.fit_bias(DATA[["reply", "claim_text", "source"]], DATA.answer), ("texts", "3")),
    "half a character": (lambda: srnet.fit_bias(["a \ud800", *TEXTS[1:]], LABELS), ("texts", "half a character")),
    "one text": (lambda: srnet.fit_bias("good film", LABELS), ("texts", "'good film'")),
    "no texts": (lambda: srnet.fit_bias([], []), ("texts",)),
    "a dataset": (lambda: srnet.fit_bias(DATASET, DATASET["answer"]), ("texts", "object")),
    "no label": (lambda: srnet.fit_bias(TEXTS, NONE), ("labels[1]", "missing")),
    "a NaN label": (lambda: srnet.fit_bias(TEXTS, [1.0, np.nan] * 10), ("labels[1]", "missing")),
    "an NA label": (lambda: srnet.fit_bias(TEXTS, pd.Series([1, None] * 10, dtype="Int64")), ("labels[1]", "missing")),
    "lists as labels": (lambda: srnet.fit_bias(TEXTS, [["x"], ["y"]] * 10), ("label",)),
    "a label too many": (lambda: srnet.fit_bias(TEXTS, LABELS, label_order=["x", "z"]), ("texts[1]", "'y'", "x, z")),
    "unknown": (lambda: srnet.fit_bias(TEXTS, LABELS, "word"), ("'word'", "words", "length")),
    "a weak model": (lambda: srnet.fit_bias(TEXTS, LABELS, "unknown"), ("'unknown'", "words")),
    "scores of a column": (
        lambda: srnet.fit_bias(TEXTS, LABELS, "scores:a", columns={"a": TEXTS}), ("'scores:a'", "words", "words, a"),
    ),
    "a file": (lambda: srnet.fit_bias(TEXTS, LABELS, "scores:file.csv"), ("scores:file.csv", "words")),
    "no pairs": (lambda: srnet.fit_bias(TEXTS, LABELS, "overlap"), ("overlap", "second text")),
    "no shortcut": (lambda: srnet.fit_bias(TEXTS, LABELS, 3), ("shortcut", "3")),  # type: ignore[arg-type]
    "columns": (lambda: srnet.fit_bias(TEXTS, LABELS, columns=[1, 2]), ("columns", "DataFrame")),
    "a short column": (lambda: srnet.fit_bias(TEXTS, LABELS, columns={"a": ["u", "v"]}), ("texts", "2", "20")),
    "a column of one value": (lambda: srnet.fit_bias(TEXTS, LABELS, columns={"a": ["u"] * 20}), ("'a'", "same value")),
    "a failing function": (lambda: srnet.fit_bias(TEXTS, LABELS, lambda rows: rows.no), ("function", "AttributeError")),
    "one number": (lambda: srnet.fit_bias(TEXTS, LABELS, lambda rows: 1.0), ("function", "single number")),
    "new pairs": (lambda: srnet.fit_bias(TEXTS, LABELS).predict(PAIRS), ("texts", "text_b")),
    "single new texts": (lambda: BIAS.predict(TEXTS), ("texts", "give the same columns")),
    "no column": (lambda: BIAS.predict(PAIRS), ("source",)),
    "no new texts": (lambda: srnet.fit_bias(TEXTS, LABELS).predict([]), ("texts",)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(mistake: str) -> None:
    call, named = MISTAKES[mistake]
    with refused(*named):
        call()


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.sampled_from(["a", "b"])
)
ROWS = st.one_of(
    CELLS,
    st.lists(st.one_of(CELLS, st.tuples(CELLS, CELLS), st.lists(CELLS, max_size=3)), max_size=12),
    st.lists(st.sampled_from(["a", "b"]), min_size=8, max_size=8),
    st.lists(CELLS, max_size=8).map(lambda cells: pd.DataFrame({"a": cells, "b": cells})),
    st.dictionaries(st.text(max_size=2), st.lists(CELLS, max_size=8), max_size=2),
)


@settings(max_examples=150)
@given(texts=ROWS, labels=ROWS, columns=ROWS, shortcut=st.sampled_from([None, "words", "overlap", "a", "length,claim"]))
def test_whatever_is_given_is_fitted_or_refused(texts: Any, labels: Any, columns: Any, shortcut: Any) -> None:
    with suppress(srnet.UserError):
        bias = srnet.fit_bias(texts, labels, shortcut, columns=columns, folds=2)
        assert np.allclose(np.exp(bias.log_probs).sum(axis=1), 1.0)
        bias.explain()
        bias.predict(texts, columns=columns)


# --- in a loop -------------------------------------------------------------------------------------------------------


def test_a_loop_with_both_learns_what_the_bias_model_does_not() -> None:
    """The cue tells the label of 9 rows in 10, the truth of all; with product of experts the truth gets more weight."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (400,), generator=generator)
    cue = torch.where(torch.rand(400, generator=generator) < 0.9, y, 1 - y)
    noisy = y + 1.5 * torch.randn(400, generator=generator)
    texts = [["perhaps so", "indeed so"][each] for each in cue]
    bias = srnet.fit_bias(texts, y)
    assert bias.score["accuracy"] == pytest.approx(90, abs=4)
    inputs, shares = torch.stack([cue.float(), noisy], dim=1), {}
    for name in ("ce", "poe"):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for step in range(100):
            rows = np.arange(400)[step % 4 :: 4]
            logits = model(inputs[rows])
            loss = srnet.losses.ce(logits, y[rows])
            if name == "poe":
                loss = srnet.losses.poe(logits, y[rows], bias=bias.log_probs[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        cue_weight, truth_weight = (model.weight[1] - model.weight[0]).tolist()
        shares[name] = cue_weight / truth_weight
    assert shares["ce"] > 3.0
    assert abs(shares["poe"]) < 1.0
