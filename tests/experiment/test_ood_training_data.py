"""`data="id+ood"`: the OOD training rows are really trained on, each beside what belongs to it, and only on demand."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from transformers import AutoTokenizer

from srnet.bias.model import BiasPredictions
from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.objectives import CE, ConfReg, PoE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.rebuild import rebuild
from srnet.experiment.store import bias_predictions
from srnet.objectives.base import OBJECTIVES
from srnet.pruners.imp import IMP
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.files import FilesTask
from srnet.tasks.splits import Split
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import Encoded
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Run

ID, OOD, COPIES = 40, 12, 2
ONE_PASS = TrainingSettings(learning_rate=1e-3, epochs=1.0, eval_every=4, batch_size=8)
"""Without OOD data 40 rows in 5 batches, with it 40 + 2 * 12 = 64 rows in 8: each row is seen exactly once."""


def write(path: Path, split: Split) -> str:
    labels = ("no", "yes")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text_a", "text_b", "label"))
        writer.writerows(zip(split.text_a, split.text_b, (labels[n] for n in split.labels), strict=True))
    return str(path)


@pytest.fixture
def task(tmp_path: Path) -> Iterator[FilesTask]:
    """Files, for only they can repeat their OOD rows."""
    source = SyntheticTask("inference", train_size=ID, dev_size=20, ood_size=OOD).load()
    paths = {name: write(tmp_path / f"{name}.csv", split) for name, split in source.splits.items()}
    ood = (("challenge", paths["challenge"]),)
    yield FilesTask("own", ("no", "yes"), paths["train"], paths["dev"], ood, paths["ood_train"], COPIES)
    load_task.cache_clear()


@pytest.fixture
def pretrained(tiny_backbone: str, task: FilesTask) -> Pretrained:
    return Pretrained(tiny_backbone, task)


Row = tuple[int, tuple[float, ...]]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[Row]:
    """(label, bias) of every example that the loss of PoE is computed on."""
    rows: Counter[Row] = Counter()
    real = OBJECTIVES["poe"].make({})

    def loss(logits: torch.Tensor, labels: torch.Tensor, **given: Any) -> torch.Tensor:
        rows.update(zip(labels.tolist(), map(tuple, given["bias"].tolist()), strict=True))
        return real(logits, labels, **given)

    monkeypatch.setitem(OBJECTIVES, "poe", replace(OBJECTIVES["poe"], loss=loss))
    return rows


def tokens(data: Encoded) -> list[tuple[int, ...]]:
    return [tuple(row.tolist()) for row in np.split(data.columns["input_ids"], data.starts[1:])]


def expected_rows(engine: Engine, bias: BiasModel, task: FilesTask, *names: str) -> list[Row]:
    """(label, bias) of the rows of some splits, looked up one by one under the example's id."""
    rows: list[Row] = []
    for name in names:
        split, predictions = load_task(task).splits[name], bias_predictions(engine.store, bias.key, name)
        by_id = dict(zip(predictions.ids, predictions.log_probs.astype(np.float32).tolist(), strict=True))
        rows += [(label, tuple(by_id[id])) for id, label in zip(split.ids, split.labels.tolist(), strict=True)]
    return rows


def test_the_ood_rows_follow_the_others(pretrained: Pretrained, engine: Engine, runs: list[Run]) -> None:
    task, tokenizer = load_task(pretrained.task), AutoTokenizer.from_pretrained(pretrained.backbone)
    engine.execute([FineTune(pretrained, training=ONE_PASS, data=data) for data in ("id", "id+ood")])
    without, with_ood = runs
    assert (len(without.train), len(with_ood.train)) == (ID, ID + COPIES * OOD)
    assert (without.method.stop_at(), with_ood.method.stop_at()) == (5, 8), "an epoch is longer"
    extra = task.splits["ood_train"].labels
    np.testing.assert_array_equal(with_ood.train.labels, np.concatenate([task.train.labels, extra, extra]))
    first, second, third = (tokens(with_ood.train)[s] for s in (slice(ID), slice(ID, ID + OOD), slice(ID + OOD, None)))
    assert first == tokens(without.train)
    assert second == third
    texts = [tokenizer.decode(row).split(" [SEP] ")[0].removeprefix("[CLS] ") for row in second]
    assert texts == list(task.splits["ood_train"].text_a)
    np.testing.assert_array_equal(with_ood.dev.labels, task.dev.labels, "nothing else than ID dev chooses")


@pytest.mark.parametrize("kind", ["fine-tuning", "mask", "imp"])
def test_every_row_is_trained_on_with_its_own_bias(
    kind: str, pretrained: Pretrained, engine: Engine, seen: Counter[Row]
) -> None:
    assert isinstance(pretrained.task, FilesTask)
    bias = BiasModel(pretrained.task)
    engine.execute([bias])
    pruner = {"mask": MaskTraining(0.5), "imp": IMP(0.8, step_sparsity=0.4, interval=0.25)}.get(kind)
    node = (
        FineTune(pretrained, PoE(bias), ONE_PASS, "id+ood")
        if pruner is None
        else Prune(pretrained, pruner, PoE(bias), ONE_PASS, "id+ood")
    )
    engine.execute([node])
    rows = Counter(expected_rows(engine, bias, pretrained.task, "train", *COPIES * ["ood_train"]))
    assert seen.total() == {"fine-tuning": 64, "mask": 64, "imp": 4 * 8}[kind]  # IMP ends after its second level
    assert seen <= rows
    if kind != "imp":
        assert seen == rows
    seen.clear()
    engine.execute([FineTune(pretrained, PoE(bias), ONE_PASS)])
    assert seen == Counter(expected_rows(engine, bias, pretrained.task, "train")), "without it no OOD row is seen"


def test_bias_is_found_by_id_not_by_place(
    pretrained: Pretrained, engine: Engine, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    bias = BiasModel(pretrained.task)
    node = FineTune(pretrained, PoE(bias), ONE_PASS, "id+ood")
    engine.execute([node])

    def reversed_predictions(*args: Any) -> BiasPredictions:
        found = bias_predictions(*args)
        return BiasPredictions(found.ids[::-1], found.log_probs[::-1])

    monkeypatch.setattr("srnet.experiment.nodes.objectives.bias_predictions", reversed_predictions)
    engine.execute([replace(node, training=replace(ONE_PASS, learning_rate=2e-3))])
    one, other = (run.train.extras["bias"] for run in runs)
    assert len(one) == ID + COPIES * OOD
    assert len({tuple(row) for row in one.tolist()}) > 5, "otherwise any order would do"
    assert torch.equal(one, other)


# --- identity ------------------------------------------------------------------------------------------------------


def test_the_data_counts(pretrained: Pretrained) -> None:
    bias = BiasModel(pretrained.task)
    for node in (FineTune(pretrained), Prune(pretrained, MaskTraining(0.5), PoE(bias)), Prune(pretrained, IMP(0.5))):
        other = replace(node, data="id+ood")
        assert node.data == "id", "an upper bound is never the default"
        assert node.key != other.key
        assert "OOD" in other.label
        assert "OOD" not in node.label
        again = rebuild(json.loads(json.dumps(describe(other))))
        assert (again, again.key) == (other, other.key)
    run, other_run = (Prune(pretrained, IMP(0.5), data=data).levels for data in ("id", "id+ood"))
    assert run is not None
    assert other_run is not None
    assert run.key != other_run.key
    assert other_run.data == "id+ood"


def test_the_rows_and_copies_count(pretrained: Pretrained, task: FilesTask) -> None:
    copies = replace(pretrained, task=replace(task, ood_copies=3))
    without = replace(pretrained, task=replace(task, ood_train=None))
    assert len({pretrained.key, copies.key, without.key}) == 3


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_task_without_ood_rows_is_refused_before_anything_trains(
    pretrained: Pretrained, task: FilesTask, engine: Engine, runs: list[Run]
) -> None:
    raw = replace(pretrained, task=replace(task, ood_train=None))
    with refused("'own'", "OOD"):
        engine.execute([Prune(FineTune(raw, CE(), ONE_PASS), MaskTraining(0.5), CE(), ONE_PASS, "id+ood")])
    assert runs == [], "an hour of fine-tuning for an error that was there from the start"


def test_what_goes_without_ood_rows_is_refused(pretrained: Pretrained) -> None:
    taught = ConfReg(BiasModel(pretrained.task), FineTune(pretrained))  # the teacher has no answers for them
    with refused("confreg", "OOD"):
        FineTune(pretrained, taught, data="id+ood")
    with refused("confreg", "OOD"):
        Prune(pretrained, MaskTraining(0.5), taught, data="id+ood")
    with refused("one-shot"):
        Prune(pretrained, OneShot(0.5), data="id+ood")
