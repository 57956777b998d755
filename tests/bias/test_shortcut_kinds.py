"""The kinds of shortcuts: their features by hand, how they are written, and what cannot be measured."""

from __future__ import annotations

import warnings
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy.sparse import issparse

import srnet.bias.shortcuts
from srnet.bias.model import features_of, fit_bias_model
from srnet.bias.numbers import Numbers
from srnet.bias.shortcuts.base import KINDS, PLAIN, FeatureOptions, check_measurable, parse_shortcut
from srnet.bias.shortcuts.words import Bag
from srnet.bias.vectors import WordVectors
from srnet.tasks.base import Task
from srnet.tasks.reading import Nested
from srnet.tasks.shortcut import canonical, shortcut_texts, with_file_paths, written
from srnet.tasks.splits import Split, SplitKind

LABELS = ("no", "yes")


def split_of(name: str, labels: list[int], text_a: Any = (), text_b: Any = (), **columns: Any) -> Split:
    count, kind = len(labels), "OOD" if name == "hard" else "ID"
    ids = tuple(f"{name}-{n}" for n in range(count))
    cells = {column: tuple(each) for column, each in columns.items()}
    of_kind: SplitKind = kind  # type: ignore[assignment]
    first, second = tuple(text_a) or ("a",) * count, tuple(text_b) or ("",) * count
    return Split(name, of_kind, ids, first, second, np.array(labels), ("",) * count, None, cells)


def task_of(train: Split, dev: Split | None = None, hard: Split | None = None, labels: Any = LABELS) -> Task:
    dev = dev or Split(**{**vars(train), "name": "dev"})
    return Task("toy", labels, "accuracy", "words", train, dev, {} if hard is None else {"hard": hard})


def matrix(task: Task, shortcut: Any, split: str = "train", options: FeatureOptions = PLAIN) -> tuple[Any, Any]:
    """The names of the features, and a dense matrix of them."""
    features = features_of(task, parse_shortcut(shortcut), options)
    x = features.of(task.splits[split])
    assert x.shape == (len(task.splits[split]), len(features.names))
    return features.names, x.toarray() if issparse(x) else x


def problem(task: Task, shortcut: Any) -> None:
    check_measurable(task, parse_shortcut(shortcut))


# --- how a shortcut is written -------------------------------------------------------------------------------------


def test_every_file_of_the_folder_registers_a_kind() -> None:
    files = {module.name for module in iter_modules(srnet.bias.shortcuts.__path__)} - {"base"}
    assert {type(kind).__module__.rpartition(".")[2] for kind in KINDS.values()} == files
    assert all(kind.about and kind.sentence.endswith(".") for kind in KINDS.values())


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        ("overlap", ["overlap"]),
        ("overlap, length", ["length", "overlap"]),
        (["length", "overlap", "length"], ["length", "overlap"]),
        ("source", ["columns:source"]),
        ("columns:source,gender", ["columns:gender", "columns:source"]),
        ("C++", ["columns:C++"]),
        ("columns:a+b", ["columns:a+b"]),
        ("x:y", ["columns:x:y"]),
        ("columns:length:cm", ["columns:length:cm"]),
        (["a,b", "length"], ["columns:a,b", "length"]),
        ('"a,b", length', ["columns:a,b", "length"]),
        (["scores:/x,y/s.npz"], ["scores:/x,y/s.npz"]),
        ('5" tall', ['columns:5" tall']),
        ("columns:length", ["columns:length"]),
        ("scores:p", ["scores:p"]),
    ],
)
def test_a_shortcut_as_it_is_written(written: Any, texts: list[str]) -> None:
    assert [part.text for part in parse_shortcut(written)] == texts


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("", ("''",)),
        ("overlap,", ("'overlap,'",)),
        ("overlap:x", ("'overlap'", "'x'", "columns:overlap:x")),
        ('"a,b', ('"a,b',)),
        ("columns", ("columns:COLUMN",)),
        ("scores:", ("scores:COLUMN",)),
        ("unknown,length", ("'unknown'",)),
    ],
)
def test_what_is_no_shortcut(written: str, named: tuple[str, ...]) -> None:
    with refused(*named):
        parse_shortcut(written)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1), min_size=1))
def test_a_written_shortcut_is_read_as_the_same(texts: list[str]) -> None:
    assert shortcut_texts(written(texts)) == shortcut_texts(canonical(texts)) == tuple(dict.fromkeys(texts))
    assert canonical(written(texts)) == canonical(canonical(texts)) == canonical(texts)


def test_only_kinds_that_read_files_have_paths() -> None:
    given = ("columns:a.csv", "x:b.csv", "scores:c.csv", "features:d,e.npz")
    assert with_file_paths(given, lambda path: f"/{path}") == (*given[:2], "scores:/c.csv", "features:/d,e.npz")


# --- words and lengths ---------------------------------------------------------------------------------------------


def test_words_of_the_only_text() -> None:
    task = task_of(split_of("train", [0, 1, 0], ["good good film", "a Film", "bad"]))
    names, x = matrix(task, "words")
    assert names == ("film",), "in two texts, not twice in one"
    assert x.tolist() == [[1], [1], [0]]


def test_words_of_two_texts_are_told_apart() -> None:
    task = task_of(split_of("train", [0, 1], ["cat dog", "cat"], ["dog", "dog cat"]))
    names, x = matrix(task, "words")
    assert names == ("cat (first text)", "dog (second text)")
    assert x.tolist() == [[1, 1], [1, 1]]
    assert matrix(task, "claim")[0] == ("dog",)


def test_words_with_vectors_are_max_pooled() -> None:
    task = task_of(split_of("train", [0, 1], ["a b", "a"]))
    vectors = {"a": np.array([1.0, -2.0]), "b": np.array([0.0, 3.0])}
    made = WordVectors({word: row for row, word in enumerate(vectors)}, np.stack(list(vectors.values())))
    x = matrix(task, "words", options=FeatureOptions(made))[1]
    assert x.tolist() == reference.claim_features(task.train.text_a, vectors).tolist() == [[1, 3], [1, -2]]


texts = st.lists(
    st.lists(st.sampled_from(["a", "B", "b", "The", "ΟΔΟΣ", "日本", ",", "x_1"]), max_size=6).map(" ".join), max_size=9
)


@settings(max_examples=100)
@given(texts, texts, st.integers(1, 4))
def test_a_bag_is_that_of_scikit_learn(fitted: list[str], others: list[str], chunk: int) -> None:
    from sklearn.feature_extraction.text import CountVectorizer

    usual = srnet.bias.texts.CHUNK
    try:
        srnet.bias.texts.CHUNK = chunk
        bag = Bag.of(fitted)
        found = bag.matrix(others)
    finally:
        srnet.bias.texts.CHUNK = usual
    counts = CountVectorizer(analyzer=srnet.bias.texts.words, binary=True, min_df=2)
    try:
        counts.fit(fitted)
    except ValueError:
        assert bag.words == ()
        return
    assert bag.words == tuple(counts.get_feature_names_out())
    expected = counts.transform(others)
    assert found.dtype == expected.dtype
    assert (found.toarray() == expected.toarray()).all()
    assert all((np.diff(row) > 0).all() for row in np.split(found.indices, found.indptr[1:-1]) if len(row) > 1)


def test_lengths_by_hand() -> None:
    names, x = matrix(task_of(split_of("train", [0, 1, 0], ["a", "bb cc", "dd"])), "length")
    # words 1, 2, 1: log 2, log 3, log 2, standardised; characters 1, 5, 2
    assert names == (
        "words of the text", "words of the text = 1", "words of the text = 2", "characters of the text",
        "characters of the text = 1", "characters of the text = 2", "characters of the text = 5",
    )  # fmt: skip
    assert x[:, 0].tolist() == pytest.approx([-(0.5**0.5), 2**0.5, -(0.5**0.5)])
    assert x[:, 1:3].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert x[:, 4:].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    pairs = task_of(split_of("train", [0, 1], ["a", "b"], ["c", "d"]))
    assert matrix(pairs, "length")[0][-1] == "characters of the second text = 1"


def test_an_effect_of_length_need_not_be_monotone() -> None:
    lengths = [1, 2, 3, 20, 21, 22, 60, 61, 62] * 10
    labels = [int(20 <= length <= 22) for length in lengths]
    task = task_of(split_of("train", labels, ["w " * length for length in lengths]))
    found = fit_bias_model(task, "length", folds=2)["train"].log_probs
    assert found.argmax(axis=1).tolist() == labels


@settings(max_examples=100)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.lists(st.floats(-1e7, 1e7) | st.just(np.nan), max_size=9),
)
def test_every_number_is_in_one_range(fitted: list[float], others: list[float]) -> None:
    numbers = Numbers.of("n", np.array(fitted))
    x = numbers.matrix(np.array(others, np.float64)).toarray()
    assert x.shape == (len(others), len(numbers.names))
    assert np.isfinite(x).all()
    assert (x[:, 1:].sum(axis=1) == ~np.isnan(others)).all()
    own = numbers.matrix(np.array(fitted)).toarray()
    assert (own[:, 1:].sum(axis=0) > 0).all(), "no range is empty"
    gaps = Numbers.of("n", np.array([*fitted, np.nan])).matrix(np.array(others, np.float64)).toarray()
    assert (gaps[:, -1] == np.isnan(others)).all()
    assert (gaps[:, :-1] == x).all()
    if len(set(fitted)) <= 10:
        assert [name.removeprefix("n = ") for name in numbers.names[1:]] == [
            f"{each + 0.0:g}" for each in sorted(set(fitted))
        ]


# --- columns -------------------------------------------------------------------------------------------------------


def sources(name: str = "train", cells: str = "wwwwwnnnnnx", **more: Any) -> Split:
    """A column with a letter for each row; a space is an empty cell."""
    values = [cell.strip() for cell in cells]
    return split_of(name, [n % 2 for n in range(len(values))], source=values, **more)


def test_categories_by_hand() -> None:
    names, x = matrix(task_of(sources(), hard=sources("hard", "wq n")), "source")
    assert names == ("source=n", "source=w", "source=(rare)"), "x is in one row only"
    assert x.tolist() == [[0, 1, 0]] * 5 + [[1, 0, 0]] * 5 + [[0, 0, 1]]
    assert matrix(task_of(sources(), hard=sources("hard", "wq n")), "source", "hard")[1].tolist() == [
        [0, 1, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0],
    ]  # fmt: skip


def test_empty_cells_are_a_category() -> None:
    names, x = matrix(task_of(sources(cells="wwwww     ")), "columns:source")
    assert names == ("source=(empty)", "source=w")
    assert x.tolist() == [[0, 1]] * 5 + [[1, 0]] * 5


def test_a_value_of_an_ood_set_that_train_lacks_says_nothing_and_is_noted() -> None:
    task = task_of(sources(cells="wwwwwnnnnn"), hard=sources("hard", "wq"))
    problem(task, "source")
    assert matrix(task, "source", "hard")[1].tolist() == [[0, 1], [0, 0]]
    (note,) = KINDS["columns"].notes(task, "source")
    assert all(part in note for part in ("hard", "'source'", "'q'"))


def test_numbers_of_a_column() -> None:
    cells = ["1", "2.5", "", "nan", "1e1"]
    task = task_of(split_of("train", [0, 1, 0, 1, 0], age=cells))
    names, x = matrix(task, "age")
    assert names == ("age", "age = 1", "age = 2.5", "age = 10", "age missing")
    assert x[:, 1:].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert x[[2, 3], 0].tolist() == [0, 0]
    assert x[[0, 1, 4], 0].mean() == pytest.approx(0)


@pytest.mark.parametrize(
    ("task", "named"),
    [
        (task_of(sources(cells="wwwwwnnnnn"), sources("dev", "wq")), ("'q'", "dev", "'source'")),
        (task_of(sources(cells="wwwwwnnnnn"), sources("dev", "w ")), ("(empty)", "dev")),
        (task_of(sources(), sources("dev", "wq")), ("'q'", "dev", "training rows")),
        (task_of(sources(cells="wwwwwabcd"), sources("dev", "wq")), ("'q'", "dev", "identifier")),
        (task_of(sources(), split_of("dev", [0, 1])), ("'source'", "missing in dev")),
        (task_of(sources(), hard=split_of("hard", [0, 1])), ("'source'", "missing in hard")),
        (task_of(sources(cells="abcdefgh")), ("'source'", "5 rows")),
        (task_of(sources(cells="wwwwwwww")), ("'source'", "same value")),
        (task_of(sources(cells="11111111")), ("'source'", "same number")),
        (task_of(sources(cells="12121212"), sources("dev", "12x1")), ("'x'", "'dev-2'", "number")),
        (task_of(sources(cells="12121212"), sources("dev", "12 1")), ("empty", "dev")),
        (task_of(split_of("train", [0, 1], source=[Nested([1]), "x"])), ("lists", "train")),
    ],
)
def test_columns_that_cannot_be_measured(task: Task, named: tuple[str, ...]) -> None:
    with refused("'toy'" if "number" not in named or "same" in named else "'source'", *named):
        problem(task, "source")


def test_a_rare_value_of_train_may_be_in_dev_and_others_in_ood_sets() -> None:
    task = task_of(sources(), sources("dev", "wx"), sources("hard", "wq"))
    problem(task, "source")
    (note,) = KINDS["columns"].notes(task, "source")
    assert all(part in note for part in ("hard", "'q'", "rare"))


def test_numbers_of_any_size_are_measured() -> None:
    cells = ["1e300", "2", "-1.7e308", "4"] * 5
    found = fit_bias_model(task_of(split_of("train", [0, 1] * 10, age=cells)), "age", folds=2)
    assert np.isfinite(found["dev"].log_probs).all()


# --- scores --------------------------------------------------------------------------------------------------------


def scored(cells: list[str], name: str = "train", **more: Any) -> Split:
    return split_of(name, [n % 2 for n in range(len(cells))], p=cells, **more)


def test_scores_are_used_as_they_are(tmp_path: Path) -> None:
    wanted = [[0.9, 0.1], [0.25, 0.75], [0.0, 1.0]]
    cells = (["0.9 0.1", "[0.25, 0.75]", "(0,1)"], ["0.1", "0.75", "1"], ["[0.9  0.1]", "0.25;0.75", "0 1"])
    for each in cells:
        task = task_of(scored(each), hard=split_of("hard", [0]))
        found = fit_bias_model(task, "scores:p")
        assert found.keys() == {"train", "dev"}, "OOD sets need no scores"
        np.testing.assert_allclose(np.exp(found["train"].log_probs), wanted, atol=2e-6)
        assert np.isfinite(found["train"].log_probs).all()


def test_scores_of_files(tmp_path: Path) -> None:
    task = task_of(split_of("train", [0, 1]), split_of("dev", [1]), split_of("hard", [0]))
    table, archive, second = tmp_path / "s.csv", tmp_path / "s.npz", tmp_path / "t.npz"
    table.write_text("yes,split,no\n0.1,train,0.9\n0.8,dev,0.2\n0.3,train,0.7\n")
    train, dev = np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([[0.2, 0.8]])
    np.savez(archive, train=train, dev=dev)
    np.savez(second, train=train[:, 1], dev=dev[:, 1:])
    for path in (table, archive, second):
        found = fit_bias_model(task, f"scores:{path}")
        np.testing.assert_allclose(np.exp(found["train"].log_probs), train)
        np.testing.assert_allclose(np.exp(found["dev"].log_probs), dev)


def test_scores_beside_others_are_features() -> None:
    task = task_of(scored(["0.9", "0.2", "0.9", "0.2"], text_a=["x"] * 4))
    names, x = matrix(task, "scores:p,length")
    assert names[-2:] == ("log-probability of no", "log-probability of yes")
    assert x[:, -1].tolist() == pytest.approx([1, -1, 1, -1]), "dense features beside sparse ones are scaled"


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        (["0.9 0.2", "0.5 0.5"], ("'train-0'", "0.9, 0.2", "1.1", "no, yes")),
        (["0.5 0.5", "1.2 -0.2"], ("'train-1'", "0..1")),
        (["0.5", "nan"], ("'train-1'", "0..1")),
        (["0.5", "often"], ("'train-1'", "'often'")),
        (["0.5", ""], ("'p' of train", "0", "1")),
        (["0.2 0.3 0.5", "0.2 0.3 0.5"], ("3 scores", "2 labels")),
    ],
)
def test_scores_that_are_none(cells: list[str], named: tuple[str, ...]) -> None:
    with refused(*named):
        problem(task_of(scored(cells)), "scores:p")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("split,no,yes\ntrain,0.5,0.5\ntrain,0.5,0.5\n", ("no scores for dev",)),
        ("split,no,yes\ntrain,0.5,0.5\ndev,0.5,0.5\n", ("1 rows for train", "2")),
        ("split,no\ntrain,0.5\n", ("line 2", "'yes'")),
        ("no,yes\n0.5,0.5\n", ("'split'",)),
        ("split,no,yes\ntest,0.5,0.5\n", ("'test'", "train, dev")),
        ("split,no,yes\ntrain,0.5,half\n", ("line 2", "half")),
    ],
)
def test_files_of_scores_that_do_not_fit(text: str, named: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    with refused(*named):
        problem(task_of(split_of("train", [0, 1]), split_of("dev", [1])), f"scores:{path}")


def test_archives_of_scores_that_cannot_be_read(tmp_path: Path) -> None:
    task = task_of(split_of("train", [0, 1]), split_of("dev", [1]))
    (tmp_path / "broken.npz").write_bytes(b"PK no archive")
    np.savez(tmp_path / "pickled.npz", train=np.array([{}], dtype=object))
    np.savez(tmp_path / "other.npz", test=np.zeros(2))
    for name in ("gone", "broken", "pickled", "other"):
        with refused(f"{name}.npz"):
            problem(task, f"scores:{tmp_path / name}.npz")
    with refused("s.npy", "numpy.savez"):
        problem(task, f"scores:{tmp_path / 's.npy'}")


@pytest.mark.parametrize(
    ("array", "named"),
    [
        (np.array(0.5), ("'train'", "single number")),
        (np.array(["0.5", "0.5"]), ("'train'", "<U3")),
        (np.array([0.5, 0.5j]), ("'train'", "complex128")),
        (np.array(["2026", "2027"], "M8[Y]"), ("'train'", "datetime64")),
        (np.array([[0.5, 0.5], [0.5, np.nan]]), ("'train-1'", "nan")),
        (np.array([0.5, 1e300]), ("'train-1'", "1e+300")),
        (np.zeros(0), ("0 rows for train",)),
        (np.zeros((2, 0)), ("0 scores", "2 labels")),
        (np.zeros((2, 2, 2)), ("2 x 2 scores", "2 labels")),
    ],
)
def test_arrays_that_are_no_scores(array: np.ndarray, named: tuple[str, ...], tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", train=array, dev=np.array([0.5]))
    with refused("s.npz", *named):
        problem(task_of(split_of("train", [0, 1]), split_of("dev", [1])), f"scores:{tmp_path / 's.npz'}")


@pytest.mark.parametrize("type", [bool, np.uint8, np.float16])
def test_scores_of_any_type_of_number(type: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", train=np.array([0, 1], type), dev=np.array([1], type))
    task = task_of(split_of("train", [0, 1]), split_of("dev", [1]))
    found = fit_bias_model(task, f"scores:{tmp_path / 's.npz'}")["train"].log_probs
    np.testing.assert_allclose(np.exp(found), np.eye(2), atol=2e-6)


# --- features of one's own, and several together -------------------------------------------------------------------


def test_features_of_a_file(tmp_path: Path) -> None:
    task = task_of(split_of("train", [0, 1]), split_of("dev", [1]))
    path = tmp_path / "f.csv"
    path.write_text("split,x,y\ntrain,1,2\ndev,5,6\ntrain,3,4\n")
    names, x = matrix(task, f"features:{path}")
    assert (names, x.tolist()) == (("x", "y"), [[1, 2], [3, 4]])
    np.savez(tmp_path / "f.npz", train=np.array([1.0, 2.0]), dev=np.array([[3.0]]))
    assert matrix(task, f"features:{tmp_path / 'f.npz'}", "dev")[1].tolist() == [[3]]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("split,x\ntrain,1\ntrain,2\n", ("no features for dev",)),
        ("split,x\ntrain,1\ntrain,inf\ndev,1\n", ("'train-1'", "finite")),
        ("split,x\ntrain,1\ntrain,-1e300\ndev,1\n", ("'train-1'", "1e+15")),
        ("split,x\ntrain,1\ntrain,2\ndev,nan\n", ("'dev-0'", "finite")),
        ("split\ntrain\ntrain\ndev\n", ("f.csv", "shapes")),
        ("split,x\ntrain,1\ndev,1\n", ("1 rows for train",)),
    ],
)
def test_files_of_features_that_do_not_fit(text: str, named: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(text)
    with refused(*named):
        problem(task_of(split_of("train", [0, 1]), split_of("dev", [1])), f"features:{path}")


def test_several_are_their_matrices_side_by_side() -> None:
    labels, letters = [0, 1] * 10, "wn" * 10
    first, second = [f"a b {n % 3}" for n in range(20)], [f"a c {n % 4}" for n in range(20)]
    task = task_of(split_of("train", labels, first, second, source=letters))
    apart = {kind: matrix(task, kind) for kind in ("overlap", "claim", "length", "source")}
    names, x = matrix(task, ("source", "overlap", "claim", "length"))
    dense = apart["overlap"][1]
    deviations = dense.std(axis=0)
    apart["overlap"] = apart["overlap"][0], (dense - dense.mean(axis=0)) / np.where(deviations > 0, deviations, 1)
    order = ("claim", "source", "length", "overlap")
    assert names == tuple(name for kind in order for name in apart[kind][0])
    np.testing.assert_allclose(x, np.hstack([apart[kind][1] for kind in order]))


def test_dense_ones_together_stay_dense(tmp_path: Path) -> None:
    task = task_of(split_of("train", [0, 1], ["a", "b"], ["a", "c"]), split_of("dev", [1], ["a"], ["a"]))
    np.savez(tmp_path / "f.npz", train=np.array([3.0, 4.0]), dev=np.array([5.0]))
    x = features_of(task, parse_shortcut(["overlap", f"features:{tmp_path / 'f.npz'}"]), PLAIN).of(task.train)
    assert isinstance(x, np.ndarray)
    assert x.tolist() == [[3, 1, 1, 1], [4, 0, 0, 0]]


def test_what_is_unique_to_a_row_gives_nothing_away() -> None:
    """A word or a value that names its row must not predict the label of that row."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300).tolist()
    train = split_of("train", labels, [f"row{n} text" for n in range(300)], number=[str(n) for n in range(300)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shortcut in ("words", "number", "words,number"):
            found = fit_bias_model(task_of(train), shortcut)["train"].log_probs
            assert abs(float((found.argmax(axis=1) == labels).mean()) - 0.5) < 0.1, shortcut


@pytest.mark.parametrize("shortcut", ["overlap", "claim"])
def test_some_kinds_need_two_texts(shortcut: str) -> None:
    with refused("second text", shortcut):
        fit_bias_model(task_of(split_of("train", [0, 1] * 5, ["a b", "b c"] * 5)), shortcut)
