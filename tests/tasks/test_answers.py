"""A kind of answer that is defined in this file alone: from YAML to the report."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from refusals import refused

from srnet.cli.program import main
from srnet.evaluation.significance import paired_bootstrap
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.objectives import CE, Distilled
from srnet.experiment.nodes.training import FineTune
from srnet.recipes.tasks import _load_task_file
from srnet.tasks.answers.base import ANSWERS, METRICS, AnswerKind, Measure, register
from srnet.tasks.answers.numbers import NUMBERS
from srnet.tasks.check import check_data
from srnet.tasks.describe import write_csv
from srnet.tasks.splits import Split
from srnet.training.settings import TrainingSettings

TRAINING = TrainingSettings(learning_rate=5e-3, steps=60, eval_every=20, batch_size=16, max_length=16)


def near(answers: np.ndarray, labels: np.ndarray) -> float:
    return float((np.abs(answers - labels) < 1.0).mean())


class Counts(AnswerKind):
    """How many there are: the output is the logarithm of the expected number."""

    name, plural = "count", "counts"
    metrics: ClassVar = {"near": Measure(near)}
    outputs = ("log_rate",)
    max_length = 32

    def parse(self, cell: str, labels: Mapping[str, int]) -> int | None:
        return int(cell) if cell.isdecimal() else None

    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.poisson_nll_loss(logits[:, 0], labels.float(), reduction="none")

    def decode(self, split: Split, logits: np.ndarray) -> np.ndarray:
        return np.exp(logits[:, 0])

    def constant(self, labels: np.ndarray) -> np.ndarray:
        return np.full(len(labels), labels.mean())


@pytest.fixture(autouse=True)
def counts() -> Iterator[Counts]:
    kind = register(Counts())
    yield kind
    del ANSWERS[kind.name], METRICS["near"]


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """The description of three files in which doctors are to be counted."""
    rng = np.random.default_rng(0)
    for name, size in (("train", 160), ("dev", 24), ("hard", 24)):
        rows = [f"{' '.join(['doctor'] * n + ['garden'] * (4 - n))},{n}" for n in rng.integers(0, 5, size)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text_a,label", *rows]) + "\n")
    (tmp_path / "doctors.yaml").write_text(
        "{name: doctors, answer: count, metric: near, train: train.csv, dev: dev.csv, ood: {hard: hard.csv}, "
        "text_b: null, shortcut: unknown, leaks: keep}"
    )
    return tmp_path / "doctors.yaml"


def test_data(described: Path) -> None:
    spec = _load_task_file(described)
    task = spec.load()
    assert (task.labels, task.answer_kind.name) == (("log_rate",), "count")
    assert check_data(spec).splits[0].labels == {}  # type: ignore[arg-type]
    written = write_csv(task, described.parent / "written")[1]
    assert [int(row["label"]) for row in csv.DictReader(written.open())] == task.dev.labels.tolist()
    with refused("a bias model", "'doctors'", "counts"):
        task.need_classes("a bias model")
    with (described.parent / "dev.csv").open("a") as file:
        file.write("a doctor,many\n")
    with refused("dev.csv, line 26", "'many'", "'label'", "counts"):
        spec.load()


def test_a_model_is_taught_and_scored(described: Path, tiny_backbone: str, engine: Engine) -> None:
    raw = Pretrained(tiny_backbone, _load_task_file(described))
    assert raw.max_length == 32
    teacher = FineTune(raw, CE(), TRAINING)
    student = FineTune(raw, Distilled(CE(), teacher), TRAINING)
    engine.execute([Evaluate(student)])
    dev = json.loads((engine.store.path(Evaluate(student).key) / "scores.json").read_text())["splits"]["dev"]
    assert dev["metrics"]["near"] > dev["majority"]["near"], "it learns"
    assert dev["recall"] == dev["groups"] == {}


def test_from_yaml_to_the_report(described: Path, tiny_backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    training = "{learning_rate: 1.0e-3, steps: 2, eval_every: 2, batch_size: 8, max_length: 16}"
    folder, recipe = described.parent, described.parent / "recipe.yaml"
    recipe.write_text(
        f"name: counting\nbackbone: {tiny_backbone}\nseeds: [0, 1]\ntask: {described.read_text()}\n"
        f"finetuning: {training}\npruning: {training}\n"
        "lines: [{label: full}, {label: half, paradigm: a, pruner: one-shot, sparsities: [0.5]}]\n"
    )
    monkeypatch.setenv("SRNET_STORE", str(folder / "store"))
    monkeypatch.setattr(sys, "argv", ["srnet", "run", str(recipe), "--out", str(folder / "out"), "-q"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    metrics = {row["metric"] for row in csv.DictReader((folder / "out" / "results.csv").open())}
    assert metrics == {"near", "majority_near"}
    assert "constant answer" in (folder / "out" / "report.md").read_text()


def test_a_metric_without_a_fast_judge_is_resampled_row_by_row() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 50)
    ours, theirs = ([labels + rng.normal(0, sd, 50) for _ in range(2)] for sd in (0.5, 2.0))
    slow = paired_bootstrap(ours, theirs, labels, "near", samples=50)
    right = [[(np.abs(each - labels) < 1.0).astype(np.int64) for each in side] for side in (ours, theirs)]
    assert slow == paired_bootstrap(*right, np.ones(50, dtype=np.int64), "accuracy", samples=50)


def test_the_name_of_a_metric_means_one_thing() -> None:
    class Others(Counts):
        name = "other"
        metrics: ClassVar = {"pearson": Measure(near)}

    with pytest.raises(ValueError, match="metric 'pearson' of counts has the name of another metric"):
        register(Others())
    assert "other" not in ANSWERS
    assert METRICS["pearson"] is NUMBERS.metrics["pearson"]
