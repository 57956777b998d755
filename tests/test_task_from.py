"""A task of data in memory: kept in the store by its content, and used from another process, elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import Shell
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from processes import ForkServer
from refusals import refused

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.known import _without_seeds
from srnet.experiment.rebuild import stored_model
from srnet.experiment.store import Store

TEXTS = [f"the film {n} was {'fine' if n % 2 else 'dull'}" for n in range(40)]
LABELS = ["good" if n % 2 else "bad" for n in range(40)]
NESTED: list[Any] = []
NESTED.append(NESTED)
SHORT = {"steps": 2, "eval_every": 2, "batch_size": 8}


def frame(start: int = 0, stop: int = 40) -> pd.DataFrame:
    rows = slice(start, stop)
    return pd.DataFrame({"review": TEXTS[rows], "y": LABELS[rows], "source": ["a", "b"] * ((stop - start) // 2)})


def dataset(start: int = 0, stop: int = 40, hidden: bool = False) -> Dataset:
    """With classes as numbers."""
    names = ["bad", "good"]
    features = Features({"review": Value("string"), "y": ClassLabel(names=names), "source": Value("string")})
    columns: dict[str, Any] = frame(start, stop).to_dict("list")
    return Dataset.from_dict({**columns, "y": [-1 if hidden else names.index(each) for each in columns["y"]]}, features)


# --- what is in memory becomes a task ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        frame,
        dataset,
        lambda *rows: frame(*rows).to_dict("records"),
        lambda *rows: frame(*rows).to_dict("list"),
        lambda *rows: frame(*rows).astype({"y": "category"}).set_index("source"),
        lambda *rows: dataset(*rows).with_format("numpy"),
    ],
    ids=["pandas", "datasets", "list of dicts", "dict of lists", "categories", "a format"],
)
def test_the_same_content_is_the_same_task(make: Any, engine: Engine) -> None:
    task = srnet.task_from(make(), dev=make(0, 8), ood={"hard": make(8, 16)}, leaks="keep", engine=engine).load()
    assert (task.name, task.labels, task.shortcut) == ("task", ("bad", "good"), "words")
    assert (task.train.text_a, task.dev.text_a) == (tuple(TEXTS), tuple(TEXTS[:8]))
    assert task.train.labels.tolist() == [n % 2 for n in range(40)]
    assert task.scored == ("dev", "hard")


def test_it_is_the_task_of_a_file_with_the_same_content(engine: Engine, tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "task.csv", index=False)
    by_file = srnet.task_from(tmp_path / "task.csv", engine=engine)
    in_memory = srnet.task_from(frame(), engine=engine)
    assert by_file.load().fingerprint == in_memory.load().fingerprint
    assert Path(by_file.train).is_absolute()
    assert [path.parent.name for path in map(Path, (in_memory.train, by_file.train))] == ["data", tmp_path.name]


def test_splits_of_a_dataset_dict(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    splits = DatasetDict({"train": dataset(0, 20), "validation": dataset(20, 28), "test": dataset(28, 36)})
    task = srnet.task_from(splits, engine=engine).load()
    assert task.scored == ("dev", "test")
    assert task.splits["test"].kind == "ID"
    loud = Engine(engine.store)
    other = srnet.task_from({**splits, "hard": dataset(36, 40)}, ood={"hard": dataset(36, 40)}, engine=loud).load()
    assert other.scored == ("dev", "test", "hard")
    said = capsys.readouterr().err
    assert "not read: hard" in said
    assert "reads review as the text and y as the label (2 labels: bad 10, good 10)" in said


def test_texts_are_kept_exactly(engine: Engine) -> None:
    texts = ['a "quoted"\ttext', "two\nlines\r\nand\u2028more", "ünï 🙂", "<NA>", "1.0", "null", "b", "c", "d", "e"]
    rows = [{"text": text, "label": str(n % 2), "when": pd.Timestamp("2020-01-01")} for n, text in enumerate(texts)]
    spec = srnet.task_from(rows, dev=rows, leaks="keep", metadata=["when"], engine=engine)
    task = spec.load()
    assert list(task.train.text_a) == texts
    assert set(task.train.columns["when"]) == {"2020-01-01 00:00:00"}


def test_columns_may_have_any_name_and_value(engine: Engine) -> None:
    """A column of a DataFrame is also an attribute, such as those that other tables are known by."""
    data = frame().assign(features="f", far=float("inf"), picture=b"\xff")
    columns = srnet.task_from(data, text="review", metadata=["features", "far"], engine=engine).load().train.columns
    assert set(columns["features"]) == {"f"}
    assert set(columns["far"]) == {"inf"}


@pytest.mark.parametrize(
    ("train", "named"),
    [
        (3, ("train", "int", "DataFrame")),
        (object(), ("train", "object")),
        ([], ("train", "no rows")),
        ([3], ("train", "3")),
        ({}, ("train",)),
        ({"text": ["a", "b"], "label": ["x"]}, ("train", "1 and 2 rows")),
        ({"text": "abc", "label": "abc"}, ("train", "a list for each column")),
        ([{"text": "half \ud800", "label": "x"}], ("train, row 1", "half a character")),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), ("train", "'text'", "twice")),
        ([{"text": "a", 1: "b", "1": "c"}], ("train", "'1'", "twice")),
        ([{"text": "a", "label": 10**5000}], ("train, row 1", "cannot be stored")),
        ([{"text": "a", "label": NESTED}], ("train, row 1", "cannot be stored")),
        ("", ("train", "empty")),
        ("gone.csv", ("gone.csv", "does not exist")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_data(train: Any, named: tuple[str, ...], engine: Engine) -> None:
    with refused(*named):
        srnet.task_from(train, engine=engine)


def test_columns_and_options_are_checked(engine: Engine) -> None:
    with refused("'gone'", "review, y, source"):
        srnet.task_from(frame(), text="gone", engine=engine)
    with refused("'../up'"):
        srnet.task_from(frame(), ood={"../up": frame()}, engine=engine)
    with refused("text", "3", "column"):
        srnet.task_from(frame(), text=3, engine=engine)
    with refused("label", "['y']", "column"):
        srnet.task_from(frame(), label=["y"], engine=engine)
    with refused("'y'", "as the label and as a text"):
        srnet.task_from(frame(), text="y", label="y", engine=engine)
    with refused("'lables'"):
        srnet.task_from(frame(), lables=["bad"], engine=engine)
    assert srnet.task_from(frame(), labels=["good", "bad"], engine=engine).labels == ("good", "bad")


# --- the store -----------------------------------------------------------------------------------------------------


def test_content_is_written_once(engine: Engine) -> None:
    spec = srnet.task_from(frame(), engine=engine)
    path = Path(spec.train)
    os.utime(path, (1, 1))
    before = path.stat().st_ino
    assert srnet.task_from(frame(), engine=engine) == spec
    assert path.stat().st_ino == before, "not written again"
    assert path.stat().st_mtime > 1, "but it is in use"
    assert [each.name for each in engine.store.data.files()] == [path.name]
    path.write_text("{}\n")
    assert "data/" + path.name in engine.store.verify()
    assert srnet.task_from(frame(), engine=engine) == spec
    assert engine.store.verify() == {}, "what is damaged is written again"


def test_used_data_stay(tiny_backbone: str, engine: Engine, shell: Shell) -> None:
    used, unused = srnet.task_from(frame(), engine=engine), srnet.task_from(frame(0, 38), engine=engine)
    engine.execute([srnet.Pretrained(tiny_backbone, used)])
    store, paths = engine.store, [Path(each.train) for each in (used, unused)]
    for path in paths:
        os.utime(path, (1, 1))
    assert store.gc() == []
    assert store.gc(older_than=1) == [paths[1]]
    assert paths[0].exists()
    listed = shell("store", "ls", "--store", store.root).out
    assert "data of tasks in memory: 1 files" in listed
    assert "1 artifacts and 1 files of data, all whole" in shell("store", "verify", "--store", store.root).out
    paths[0].unlink()
    assert paths[0].name in shell("store", "verify", "--store", store.root).out, "missing"
    old = time.time() - 10**6
    os.utime(next(store.artifacts.iterdir()), (old, old))
    assert len(store.gc(older_than=1)) == 1


def test_a_model_of_a_task_in_memory_works_later_and_elsewhere(
    tiny_backbone: str, tmp_path: Path, fork_server: ForkServer
) -> None:
    """Its key is pruned and exported by other processes, after the store was moved."""
    engine = Engine(Store(tmp_path / "here"), srnet.Engine().reporter)
    task = srnet.task_from(frame(), ood={"hard": frame(0, 10)}, leaks="keep", engine=engine)
    full = srnet.finetune(task, backbone=tiny_backbone, training=SHORT, engine=engine)
    assert str(tmp_path / "here") not in (Path(full.folder) / "manifest.json").read_text()
    shutil.move(tmp_path / "here", there := tmp_path / "there")

    def run(*words: object) -> str:
        command = fork_server.start(tmp_path / "work", *words, "--store", there)
        assert command.code == 0, command.said
        return command.printed

    sparse = run("prune", full.key, "--sparsity", 0.5, "--steps", 2, "--eval-every", 2, "--key").strip()
    run("export", sparse, "--out", tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["id2label"] == {"0": "bad", "1": "good"}
    run("audit", full.key, sparse, "--folds", 2, "--out", tmp_path / "audit")
    assert "hard" in (tmp_path / "audit" / "audit.json").read_text()
    again = srnet.task_from(frame(), ood={"hard": frame(0, 10)}, leaks="keep", engine=Engine(Store(there)))
    assert srnet.Pretrained(tiny_backbone, again).key == srnet.Pretrained(tiny_backbone, task_at(there)).key


def task_at(root: Path) -> Any:
    """The task that the models of a store depend on, as it is rebuilt."""
    store = Store(root)
    return next(stored_model(store, each.key).task_spec for each in store.entries() if each.type == "FineTune")


def test_models_of_the_same_data_belong_together(tiny_backbone: str, engine: Engine, tmp_path: Path) -> None:
    """For a card: wherever the data are, whatever the seed, and with a description that has fewer fields."""
    frame().to_csv(tmp_path / "task.csv", index=False)
    tasks = srnet.task_from(frame(), engine=engine), srnet.task_from(tmp_path / "task.csv", engine=engine)
    one, other = (srnet.FineTune(srnet.Pretrained(tiny_backbone, task, seed=n)) for n, task in enumerate(tasks))
    older = describe(other)
    del older["parent"]["task"]["dev_share"], older["training"]["precision"]
    assert _without_seeds(describe(one)) == _without_seeds(describe(other)) == _without_seeds(older)
    longer = srnet.FineTune(one.parent, training=srnet.TrainingSettings(steps=3))
    fewer = srnet.FineTune(srnet.Pretrained(tiny_backbone, srnet.task_from(frame(0, 38), engine=engine)))
    assert len({_without_seeds(describe(each)) for each in (one, longer, fewer)}) == 3
