"""Early stopping and traces on what really lies in the store: they end and log, and decide nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from sklearn.metrics import accuracy_score, f1_score

from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import ModelNode, Pretrained
from srnet.experiment.nodes.objectives import PoE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import encode
from srnet.training.predict import predict
from srnet.training.settings import TrainingSettings

TRACED = 25


def logged(told: dict[str, Any], name: str) -> dict[int, float]:
    return {entry["step"]: entry[name] for entry in told["log"] if name in entry}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".safetensors", ".bits")}


def score(subnetwork: Subnetwork, split: Any, metric: str) -> float:
    base = subnetwork.base()
    answers = predict(subnetwork.model(base), encode(split, base.tokenizer, 64)).argmax(axis=1)
    if metric == "f1":
        return 100.0 * float(f1_score(split.labels, answers, average="weighted", zero_division=0.0))
    return 100.0 * float(accuracy_score(split.labels, answers))


# --- traces --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fine-tuning", "mask", "paraphrase"])
def test_a_trace_is_the_score_on_a_sample_and_leaves_the_result_alone(
    kind: str, made: Any, raw: Pretrained, tiny_task: SyntheticTask, tiny_training: TrainingSettings
) -> None:
    if kind == "paraphrase":  # its metric is F1
        raw = replace(raw, task=replace(tiny_task, name="paraphrase"))
    task, fast = load_task(raw.task), replace(tiny_training, learning_rate=1e-2)
    nodes: list[ModelNode] = []
    for trace in (0, TRACED):
        training = replace(fast, trace=trace)
        nodes.append(
            Prune(raw, MaskTraining(0.5), training=training) if kind == "mask" else FineTune(raw, training=training)
        )
    without, traced = (made.record(node) for node in nodes)

    assert nodes[0].key != nodes[1].key
    assert files(made.store.path(nodes[0].key)) == files(made.store.path(nodes[1].key)) != {}
    for figure in ("selected_step", "dev_score", "steps"):
        assert without[figure] == traced[figure]
    assert logged(without, "eval_score") == logged(traced, "eval_score")

    assert logged(without, "trace/challenge") == {}
    curve = logged(traced, "trace/challenge")
    assert list(curve) == [5, 10, 15, 20]
    sample = task.ood["challenge"].sample(TRACED)
    assert len(sample) == TRACED
    assert curve[traced["selected_step"]] == pytest.approx(score(made(nodes[1]), sample, task.metric))
    assert [name for entry in traced["log"] for name in entry if name.startswith("trace/")] == 4 * ["trace/challenge"]


def test_a_trace_sees_no_more_than_there_is(made: Any, raw: Pretrained, tiny_training: TrainingSettings) -> None:
    node = FineTune(raw, training=replace(tiny_training, steps=5, trace=10_000))
    told, task = made.record(node), load_task(raw.task)
    (value,) = logged(told, "trace/challenge").values()
    assert value == pytest.approx(score(made(node), task.ood["challenge"], task.metric))


# --- stopping ------------------------------------------------------------------------------------------------------


@pytest.fixture
def hasty(tiny_training: TrainingSettings) -> TrainingSettings:
    """No gain is ever enough: of four evaluations a patience of 1 lives to see two."""
    return replace(tiny_training, patience=1, min_gain=100.0)


def test_a_fine_tuning_that_stalls_says_where_it_ended(made: Any, raw: Pretrained, hasty: TrainingSettings) -> None:
    for patience, end in ((1, 10), (2, 15), (4, 20)):
        told = made.record(FineTune(raw, training=replace(hasty, patience=patience)))
        scores = logged(told, "eval_score")
        assert told["steps"] == max(scores) == end
        assert told["selected_step"] == max(scores, key=lambda step: (scores[step], -step))
        assert told["dev_score"] == max(scores.values())


def test_stopping_leaves_the_beginning_alone(made: Any, raw: Pretrained, hasty: TrainingSettings) -> None:
    stopped = made.record(FineTune(raw, training=hasty))
    whole = made.record(FineTune(raw, training=replace(hasty, patience=None)))
    assert whole["steps"] == 20
    scores = logged(whole, "eval_score")
    assert logged(stopped, "eval_score") == {step: scores[step] for step in (5, 10)}
    for step, rate in logged(stopped, "learning_rate").items():
        assert rate == logged(whole, "learning_rate")[step], "the schedule is that of the whole run"


def test_a_pruning_never_stops_early(tuned: FineTune, bias: BiasModel, hasty: TrainingSettings) -> None:
    """It would end half done: a schedule before its final sparsity, and a mask before its eligible checkpoints."""
    for pruner in (MaskTraining(0.9, "soft", initial_sparsity=0.7), MaskTraining(0.9), IMP(0.9), RewoundIMP(0.9)):
        with refused("patience"):
            Prune(tuned, pruner, PoE(bias), hasty)
