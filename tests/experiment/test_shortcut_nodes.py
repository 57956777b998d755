"""Bias models of any shortcut: their keys, what is refused before anything is computed, and what uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.nodes.bias import BiasModel, BiasSpec, WeakModel
from srnet.experiment.rebuild import rebuild
from srnet.experiment.store import Store, bias_predictions, bias_splits
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask


def rows(name: str, count: int, sources: str = "wn", more: str = "") -> str:
    """The source tells the label; `p` is a probability that does as well."""
    lines = [
        f"{name} text {n},{('no', 'yes')[n % 2]},{sources[n % len(sources)]},{(0.2, 0.8)[n % 2]}{more}\n"
        for n in range(count)
    ]
    return "text,label,source,p\n" + "".join(lines)


def write(folder: Path, **texts: str) -> FilesTask:
    texts = {"train": rows("train", 40), "dev": rows("dev", 10), "hard": rows("hard", 10, "nw"), **texts}
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    train, dev, hard = (str(folder / f"{name}.csv") for name in ("train", "dev", "hard"))
    return FilesTask("mine", ("no", "yes"), train, dev, (("hard", hard),), text_a="text", text_b=None)


def accuracy(engine: Engine, node: BiasModel, split: str) -> float:
    found = bias_predictions(engine.store, node.key, split).log_probs
    return float((found.argmax(axis=1) == np.arange(len(found)) % 2).mean())


def test_a_column_is_a_shortcut_by_its_name(tmp_path: Path, engine: Engine) -> None:
    node = BiasSpec("source").node(write(tmp_path), "any")
    assert isinstance(node, BiasModel)
    engine.execute([node])
    assert [accuracy(engine, node, split) for split in ("train", "dev", "hard")] == [1.0, 1.0, 0.0]
    assert "column 'source'" in node.features
    again = rebuild(json.loads(json.dumps(describe(node))))
    assert (again, again.key) == (node, node.key)


def test_keys_depend_on_the_columns_that_are_read(tmp_path: Path) -> None:
    def keys(
        name: str, shortcuts: tuple[Any, ...] = ("source", "columns:source", "scores:p", "words"), **texts: str
    ) -> list[str]:
        (tmp_path / name).mkdir()
        return [BiasModel(write(tmp_path / name, **texts), shortcut).key for shortcut in shortcuts]

    plain = keys("plain")
    assert plain[0] == plain[1]
    assert len(set(plain)) == 3
    assert keys("moved") == plain
    changed = keys("changed", dev=rows("dev", 10, "nw"))
    assert [one == other for one, other in zip(plain, changed, strict=True)] == [False, False, True, True]
    together = keys("together", (("source", "length"), "length,columns:source", ["length"], "length"))
    assert together[0] == together[1] != together[2] == together[3]


def test_a_plain_kind_is_in_the_key_by_its_name(tiny_task: SyntheticTask) -> None:
    """Results of bias models from before there was a registry keep their keys."""
    for kind in ("overlap", "claim"):
        assert BiasModel(tiny_task, kind).content() == {"data": tiny_task.load().fingerprint, "suspected": kind}
    assert BiasModel(tiny_task).key == BiasModel(tiny_task, "overlap").key


def test_files_count_by_their_content(tmp_path: Path) -> None:
    task = write(tmp_path)
    arrays = {"train": np.full((40, 2), 0.5), "dev": np.full((10, 2), 0.5)}
    for name in ("one", "two"):
        np.savez(tmp_path / f"{name}.npz", **arrays)
    np.savez(tmp_path / "three.npz", **arrays, hard=np.full((10, 2), 0.5))
    one, two, three = (BiasModel(task, f"scores:{tmp_path / name}.npz").key for name in ("one", "two", "three"))
    assert one == two != three


@pytest.mark.parametrize("kind", ["scores", "features"])
def test_a_file_that_changes_in_a_session_has_another_key(kind: str, tmp_path: Path) -> None:
    task, file = write(tmp_path), tmp_path / "s.npz"

    def node(number: float, rows: int = 40) -> BiasModel:
        np.savez(file, train=np.full(rows, number), dev=np.full(10, number), hard=np.full(10, number))
        return BiasModel(task, f"{kind}:{file}")

    first = node(0.25)
    first.check()
    assert first.key == node(0.25).key != node(0.75).key
    with refused("39 rows for train"):
        node(0.25, rows=39).check()


def test_vectors_that_change_in_a_session_have_another_key(tmp_path: Path) -> None:
    task, file = write(tmp_path), tmp_path / "v.vec"

    def key(text: str) -> str:
        file.write_text(text)
        return BiasModel(task, "words", str(file)).key

    assert key("text 0.5 1\n") == key("text 0.5 1\n") != key("text 0.5 2\n")


def test_a_name_with_signs_is_a_shortcut(tmp_path: Path, engine: Engine) -> None:
    """In a folder and a column with commas: on the command line in quotes, in lists as it is."""
    (tmp_path / "a,b").mkdir()
    head = '"text",label,"x,y+:z",p\n'
    texts = {name: head + rows(name, 40).partition("\n")[2] for name in ("train", "dev", "hard")}
    task = write(tmp_path / "a,b", **texts)
    named = [BiasSpec(each).node(task, "any") for each in ('"columns:x,y+:z"', ["x,y+:z"], ("columns:x,y+:z",))]
    assert len({node.key for node in named}) == 1
    engine.execute(named)
    with refused("'x'", '"x,y+:z", p'):
        BiasSpec("x,y+:z").node(task, "any").check()
    made = srnet.shortcut_from(task, lambda frame: frame["p"], engine=Engine(Store(tmp_path / "a,b" / "store")))
    node = BiasSpec(made).node(task, "any")
    node.check()
    assert rebuild(json.loads(json.dumps(describe(node)))).key == node.key


@pytest.mark.parametrize(
    ("shortcut", "texts", "named"),
    [
        ("sauce", {}, ("'sauce'", "overlap", "words", "source, p")),
        ("columns:sauce", {}, ("'sauce'", "source, p")),
        ("label", {}, ("'label'",)),
        ("source", {"dev": "text,label\na,no\nb,yes\n"}, ("'source'", "missing in dev")),
        ("source", {"hard": "text,label\na,no\nb,yes\n"}, ("'source'", "missing in hard")),
        ("source", {"dev": rows("dev", 10, "wq")}, ("'source'", "'q'", "dev", "train")),
        ("scores:p", {"dev": "text,label,source,p\na,no,w,0.5 0.6\n"}, ("'dev-0'", "1.1")),
        ("overlap", {}, ("second text",)),
    ],
)
def test_what_cannot_be_measured_is_refused_when_it_is_planned(
    shortcut: str, texts: dict[str, str], named: tuple[str, ...], tmp_path: Path, engine: Engine
) -> None:
    with refused(*named):
        engine.plan([BiasSpec(shortcut).node(write(tmp_path, **texts), "any")])


def test_scores_without_ood_sets_are_enough(tmp_path: Path, engine: Engine) -> None:
    task = write(tmp_path, hard="text,label\nx,no\ny,yes\n")
    found = srnet.bias_model(task, BiasSpec("scores:p"), engine=engine)
    assert set(bias_splits(engine.store, found.key)) == set(found.scores) == {"train", "dev"}
    assert any("hard" in remark for remark in found.remarks)
    with refused("'hard'"):
        bias_predictions(engine.store, found.key, "hard")
    node = BiasSpec("scores:p").node(task, "any")
    assert isinstance(node, BiasModel)
    np.testing.assert_allclose(np.exp(bias_predictions(engine.store, node.key, "dev").log_probs[1]), [0.2, 0.8])
    assert "fold" not in node.features


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (BiasSpec("words", extended=True), ("'words'", "'extended'")),
        (BiasSpec("scores:p", folds=3), ("'folds'",)),
        (BiasSpec("source,length", vectors="v.vec"), ("'vectors'", "columns:source,length")),
    ],
)
def test_options_are_those_of_the_kinds(spec: BiasSpec, named: tuple[str, ...], tmp_path: Path) -> None:
    with refused(*named):
        spec.node(write(tmp_path), "any")


@pytest.mark.parametrize(("rows", "examples"), [(8000, 2000), (4000, 2000), (3999, 999), (200, 50)])
def test_weak_models_take_a_quarter_of_few_rows(rows: int, examples: int) -> None:
    task = SyntheticTask(train_size=rows, dev_size=5, ood_size=5)
    node = BiasSpec("unknown").node(task, "any")
    assert isinstance(node, WeakModel)
    assert (node.first.part, node.second.part) == ((0, examples), (examples, 2 * examples))
    assert node == BiasSpec("unknown", examples=examples).node(task, "any")


def test_too_few_rows_for_weak_models() -> None:
    task = SyntheticTask(train_size=199, dev_size=5, ood_size=5)
    with refused("200", "199", "--weak-examples"):
        BiasSpec("unknown").node(task, "any")


# --- a Python function ---------------------------------------------------------------------------------------------


def test_a_function_is_a_shortcut(tmp_path: Path, engine: Engine) -> None:
    task, seen = write(tmp_path), []

    def is_web(frame: Any) -> Any:
        seen.append((list(frame.columns), frame["p"].dtype.kind))
        return frame["source"] == "w"

    shortcut = srnet.shortcut_from(task, is_web, engine=engine)
    assert seen == [(["text", "source", "p"], "f")] * 3, "the label is not among them"
    assert srnet.shortcut_from(task, is_web, engine=engine) == shortcut
    node = BiasSpec(shortcut).node(task, "any")
    assert isinstance(node, BiasModel)
    engine.execute([node])
    assert [accuracy(engine, node, split) for split in ("train", "dev", "hard")] == [1.0, 1.0, 0.0]
    assert BiasModel(task, shortcut).key == node.key
    assert BiasModel(task, srnet.shortcut_from(task, lambda frame: frame["p"], engine=engine)).key != node.key


def test_a_function_names_its_features(tmp_path: Path, engine: Engine) -> None:
    path = srnet.shortcut_from(write(tmp_path), lambda frame: frame[["p"]].assign(one=1), engine=engine).partition(":")[
        2
    ]
    assert json.loads(Path(path).read_text().splitlines()[0]) == {"split": "train", "p": 0.2, "one": 1.0}


def test_a_stored_shortcut_moves_with_its_store(tmp_path: Path) -> None:
    task, old = write(tmp_path), Engine(Store(tmp_path / "old"))
    node = BiasModel(task, srnet.shortcut_from(task, lambda frame: frame["p"], engine=old))
    old.execute([node])
    (tmp_path / "old").rename(tmp_path / "new")
    again = rebuild(Store(tmp_path / "new").manifest(node.key)["expression"])
    assert again.shortcut == str(node.shortcut).replace("old", "new")
    again.check()


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (3, ("function", "3")),
        (lambda frame: frame["gone"], ("train", "'gone'")),
        (lambda frame: 1.0, ("single number", "40")),
        (lambda frame: [1.0] * 5, ("5", "40", "train")),
        (lambda frame: ["x"] * len(frame), ("train", "'x'")),
        (lambda frame: frame["p"] / 0.0, ("'train-0'", "finite")),
        (lambda frame: np.zeros((len(frame), len(frame))), ("other features",)),
    ],
)
def test_functions_that_return_no_features(
    function: Any, named: tuple[str, ...], tmp_path: Path, engine: Engine
) -> None:
    with refused(*named):
        srnet.shortcut_from(write(tmp_path), function, engine=engine)
