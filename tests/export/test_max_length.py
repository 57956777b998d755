"""An exported folder says where its texts were truncated, and whoever reads it truncates there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.objectives import CE
from srnet.experiment.nodes.training import FineTune
from srnet.models.open import open_model
from srnet.models.subnetwork import Subnetwork
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

LENGTH = 9


@pytest.fixture
def key(engine: Engine, raw: Pretrained, tiny_training: TrainingSettings) -> str:
    node = FineTune(raw, CE(), replace(tiny_training, steps=2, eval_every=2, max_length=LENGTH))
    engine.execute([node])
    return node.key


def test_every_exported_folder_records_it(key: str, engine: Engine, tmp_path: Path) -> None:
    once = srnet.export_model(key, tmp_path / "once", format="subnetwork", engine=engine)
    assert json.loads((once / "subnetwork.json").read_text())["max_length"] == LENGTH
    again = srnet.export_model(once, tmp_path / "again", format="subnetwork", engine=engine)
    assert Subnetwork.load(again).max_length == LENGTH
    for source in (key, once):
        merged = srnet.export_model(source, tmp_path / f"merged-{Path(source).name}", format="merged", engine=engine)
        tokenizer = AutoTokenizer.from_pretrained(merged)
        assert tokenizer.model_max_length == LENGTH
        assert len(tokenizer("the doctor saw " * 9, truncation=True)["input_ids"]) == LENGTH


def test_a_folder_is_scored_as_the_model_was(
    key: str, engine: Engine, tiny_task: SyntheticTask, tmp_path: Path
) -> None:
    folder = srnet.export_model(key, tmp_path / "sub", format="subnetwork", engine=engine)
    for ref in (key, folder):
        assert open_model(ref, engine.models).max_length == LENGTH
        assert open_model(ref, engine.models, max_length=LENGTH - 2).max_length == LENGTH - 2
    scores = srnet.evaluate(folder, task=tiny_task, engine=engine).scores
    assert scores["dev"] == srnet.evaluate(key, engine=engine).scores["dev"]
