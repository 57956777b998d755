"""The shipped decoder: close to theory, and the default of the toy grammar's tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

import srnet
from srnet.core.names import EMBEDDED_DECODER
from srnet.evaluation.metrics import reported
from srnet.experiment.engine import Engine
from srnet.models.checkpoints import SHIPPED
from srnet.models.decoder_pretraining import DecoderSettings, pretrain_decoder
from srnet.tasks.base import CE_OPTIMAL
from srnet.tasks.synthetic.stereotypes import GrammarTask


def test_it_has_learned_the_grammar_and_its_stereotype(engine: Engine) -> None:
    task, text = GrammarTask(dev_size=200), GrammarTask("sentences", dev_size=200)
    theory, labels = task.load().ideal[CE_OPTIMAL], task.load().dev.labels
    found = srnet.evaluate(EMBEDDED_DECODER, task=task, engine=engine).scores
    for split in ("dev", "targets"):
        scores = found[split]["metrics"]
        assert scores["ss"] > 95.0
        assert scores["gap"] == pytest.approx(reported("gap", theory[split], labels), rel=0.25)
    assert found["type"]["metrics"]["ss"] > 80.0, "traits are learned later than pronouns"
    assert all(found[split]["metrics"]["lms"] > 99.0 for split in ("dev", "targets", "type"))
    assert found["neutral"]["metrics"]["nll"] == pytest.approx(reported("nll", theory["neutral"], labels), abs=0.05)
    best = reported("nll", text.load().ideal[CE_OPTIMAL]["dev"], labels)
    assert srnet.evaluate(EMBEDDED_DECODER, task=text, engine=engine).scores["dev"]["metrics"]["nll"] < best + 0.05


def test_it_is_the_default_of_its_tasks(engine: Engine) -> None:
    task = GrammarTask("sentences", train_size=40, dev_size=20)
    found = srnet.prune(task, srnet.OneShot(0.5), engine=engine)
    assert srnet.prune(task, srnet.OneShot(0.5), backbone=EMBEDDED_DECODER, engine=engine).key == found.key


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in SHIPPED[EMBEDDED_DECODER].iterdir()) < 80_000


def test_it_can_be_made_again(tmp_path: Path, engine: Engine) -> None:
    settings = DecoderSettings(steps=3, batch_size=4, hidden_size=8, layers=1, heads=2)
    first, second = (pretrain_decoder(tmp_path / name, settings) for name in ("one", "two"))
    assert first == second
    both = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert both[0] == both[1]
    task = GrammarTask("sentences", train_size=10, dev_size=10)
    assert srnet.evaluate(str(tmp_path / "one"), task=task, engine=engine).scores["dev"]["metrics"]["perplexity"] > 20
