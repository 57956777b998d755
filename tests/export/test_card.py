"""Model cards: what the Hub reads, what a reader needs, and no more than is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from small_models import pruned

import srnet
from srnet.bias.shortcuts.base import KINDS
from srnet.evaluation.significance import Interval, spread
from srnet.evaluation.verdict import judge
from srnet.experiment.engine import Engine
from srnet.experiment.known import known_about
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.objectives import CE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.store import read_logits
from srnet.masks.mask import Mask
from srnet.models.formats.base import FORMATS, Source
from srnet.models.formats.card import About, Scored, _card_text
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

GAIN = Interval(4.0, 0.5, 0.5, 3)
SUBNETWORK = Subnetwork("org/model", "0123" * 16, ("no", "yes"), {}, Mask({"w": torch.tensor([[True, False]])}))
ABOUT = About(
    "inference",
    KINDS["overlap"].sentence,
    "accuracy",
    "P(A(pt))",
    (
        Scored("dev", "ID", spread([90.0, 91.0, 92.0])),
        Scored("challenge", "OOD", spread([70.0, 72.0, 74.0]), GAIN),
    ),
    judge(91.0, 92.0, Interval(3.6, 0.1, 0.1, 3), {"challenge": GAIN}),
)


def test_the_hub_can_read_it() -> None:
    data = ModelCard(_card_text(SUBNETWORK, ABOUT, "merged", "load()")).data
    assert data.base_model == "org/model"
    assert data.pipeline_tag == "text-classification"
    assert {"srnet", "pruned", "merged"} <= set(data.tags)
    found = {(each.dataset_split, each.metric_type): each.metric_value for each in data.eval_results}
    assert found == {("dev", "accuracy"): 91.0, ("challenge", "accuracy"): 72.0}


def test_a_reader_finds_everything() -> None:
    text = _card_text(SUBNETWORK, ABOUT, "merged", "load()")
    for said in (
        "org/model", "inference", "50.00 % of 2 weights", "no, yes", "word overlap", "load()", "P(A(pt))",
        "| dev | ID | 91.0 ± 1.0 |", f"| challenge | OOD | 72.0 ± 2.0 | {GAIN} |", "3 seeds", "Verdict: SRNet",
        "What it was not tested for", "other domains",
    ):  # fmt: skip
        assert said in text, said
    assert "Data out of distribution" not in text


@pytest.mark.parametrize(("constant", "warned"), [(71.9, False), (72.0, True), (None, False)])
def test_a_gain_below_a_constant_answer_is_doubtful(constant: float | None, warned: bool) -> None:
    dev, ood = ABOUT.scores
    text = _card_text(SUBNETWORK, replace(ABOUT, scores=(dev, replace(ood, constant=constant))), "merged", "load()")
    assert ("better than the full model on challenge, but no better than a constant answer" in text) == warned
    assert f"| {GAIN} | {'' if constant is None else constant} |" in text


def test_one_seed_is_no_verdict() -> None:
    scores = tuple(replace(each, score=spread([50.0]), gain=None) for each in ABOUT.scores)
    text = _card_text(SUBNETWORK, replace(ABOUT, scores=scores, verdict=None), "merged", "load()")
    assert "From one seed" in text
    assert "Verdict" not in text


def test_nothing_is_made_up() -> None:
    local = replace(SUBNETWORK, backbone="/home/someone/models/mine", mask=None)
    text = _card_text(local, About(), "merged", "load()")
    for said in ("None are on record", "No shortcut is on record", "Task: not on record", "a full model"):
        assert said in text
    assert "Data out of distribution" in text
    assert "/home" not in text
    assert "base_model" not in text
    assert "srnet-tiny" not in str(ModelCard(_card_text(replace(local, backbone="srnet-tiny"), About(), "m", "")).data)


def test_every_folder_has_one(tiny_backbone: str, tmp_path: Path) -> None:
    folders = [name for name, format in FORMATS.items() if not format.is_file]
    assert {"merged", "onnx", "shrunk", "subnetwork"} <= set(folders)
    for name in folders:
        FORMATS[name]().write(Source(pruned(tiny_backbone), about=ABOUT), tmp_path / name)
        card = ModelCard.load(tmp_path / name / "README.md")
        assert name in card.data.tags
        assert tiny_backbone not in card.content


@pytest.fixture
def subnetworks(engine: Engine, tiny_backbone: str, tiny_task: SyntheticTask) -> list[Prune]:
    """Of three seeds, evaluated, with their full models."""
    training = TrainingSettings(learning_rate=1e-3, steps=4, eval_every=2, batch_size=8)
    full = [
        FineTune(Pretrained(tiny_backbone, tiny_task, seed), CE(), replace(training, seed=seed)) for seed in range(3)
    ]
    found = [Prune(each, OneShot(0.5)) for each in full]
    engine.execute([*found, *map(Evaluate, found), *map(Evaluate, full)])
    return found


def test_what_the_store_knows(subnetworks: list[Prune], engine: Engine) -> None:
    about = known_about(engine.store, subnetworks[0])
    task = load_task(subnetworks[0].task_spec)

    def accuracy(model: Any, split: str) -> float:
        answers = read_logits(engine.store, Evaluate(model).key)[split].argmax(1)
        return 100 * float((answers == task.splits[split].labels).mean())

    for scored in about.scores:
        ours = [accuracy(model, scored.split) for model in subnetworks]
        full = [accuracy(model.parent, scored.split) for model in subnetworks]
        assert scored.score == spread(ours)
        assert scored.gain is not None
        assert scored.gain.difference == pytest.approx(np.mean(ours) - np.mean(full))
        assert scored.gain.seeds == 3
        labels = task.splits[scored.split].labels
        assert scored.constant == pytest.approx(100.0 * np.bincount(labels).max() / len(labels)), "the majority class"
    assert about.verdict is not None
    assert about.verdict.gains == {"challenge": about.scores[1].gain}
    assert (about.task, about.metric, about.shortcut) == ("inference", "accuracy", KINDS["overlap"].sentence)
    half = known_about(engine.store, subnetworks[0], keeps=0.5).verdict
    assert half is not None
    assert half.id_kept.difference > about.verdict.id_kept.difference, "the threshold of a search is that of its card"
    alone = known_about(engine.store, subnetworks[0].parent)  # type: ignore[arg-type]
    assert [each.gain for each in alone.scores] == [None, None]
    assert alone.scores[0].score.seeds == 3


def test_a_model_without_scores(engine: Engine, tiny_backbone: str, tiny_task: SyntheticTask, tmp_path: Path) -> None:
    node = Prune(Pretrained(tiny_backbone, tiny_task, 0), OneShot(0.5))
    engine.execute([node])
    assert known_about(engine.store, node).scores == ()
    srnet.export_model(node.key, tmp_path / "sub", format="subnetwork", engine=engine)
    assert "None are on record" in (tmp_path / "sub" / "README.md").read_text()
