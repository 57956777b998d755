"""What users get wrong, and what went wrong once: each ends in one clear line, or in the right result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import run
from refusals import refused

import srnet
from srnet.core.errors import UserError
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.objectives import CE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.store import Store
from srnet.models.backbones import backbone_hash
from srnet.models.open import load_subnetwork
from srnet.pruners.imp import IMP
from srnet.pruners.magnitude import OneShot
from srnet.tasks.files import FilesTask
from srnet.training.settings import TrainingSettings


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_name_that_the_terminal_cannot_show_loses_nothing(encoding: str, tmp_path: Path) -> None:
    for name in ("train", "dev"):
        rows = (f"{name} {n},b,{'日本' if n % 2 else 'no'}\n" for n in range(8))
        (tmp_path / f"{name}.csv").write_text("text_a,text_b,label\n" + "".join(rows), encoding="utf-8")
    command = [sys.executable, "-m", "srnet", "data", "describe", "--train", "train.csv", "--dev", "dev.csv"]
    ran = subprocess.run(
        [*command, "--out", "mine.yaml"], capture_output=True, cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding}, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert rb"no 4, \u65e5\u672c 4" in ran.stdout
    assert (tmp_path / "mine.yaml").is_file()


@pytest.mark.parametrize("words", [(), ("store",), ("import",)])
def test_without_arguments_comes_the_help(words: Any, monkeypatch: Any, capsys: Any) -> None:
    run(monkeypatch, *words)
    said = capsys.readouterr()
    assert "Usage: " in said.out + said.err
    assert "--help" in said.out + said.err


def test_ctrl_c_says_how_to_go_on(tiny_backbone: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("srnet.experiment.compute.compute", interrupt)
    (tmp_path / "t.yaml").write_text("{name: inference, train_size: 50, dev_size: 20, ood_size: 20}")
    words = ("finetune", "--task", tmp_path / "t.yaml", "--backbone", tiny_backbone, "--store", tmp_path / "s")
    assert run(monkeypatch, *words) == 130
    assert "run the same command again" in capsys.readouterr().err


def test_a_damaged_model_is_made_again_though_its_scores_are_there(
    engine: Engine, tiny_task: Any, tiny_backbone: str, tiny_training: Any
) -> None:
    made = srnet.finetune(tiny_task, backbone=tiny_backbone, training=tiny_training, engine=engine)
    (made.folder / "weights.safetensors").write_bytes(b"")
    fresh = Engine(Store(engine.store.root), Reporter(quiet=True))
    srnet.finetune(tiny_task, backbone=tiny_backbone, training=tiny_training, engine=fresh)
    assert Store(engine.store.root).verify() == {}


def test_trackers_outlive_the_training(tmp_path: Path, raw: Pretrained, tiny_training: Any) -> None:
    engine = Engine(Store(tmp_path / "store"), Reporter(quiet=True), ("tensorboard",))
    engine.execute([FineTune(raw, CE(), tiny_training)])
    assert list(tmp_path.rglob("events.out.tfevents.*"))


def test_an_unknown_tracker_is_named(tmp_path: Path) -> None:
    with refused("nonsense"):
        Engine(Store(tmp_path / "store"), Reporter(quiet=True), ("nonsense",))


@pytest.mark.parametrize(("tracker", "package"), [("wandb", "wandb"), ("azure_ml", "azureml-sdk")])
def test_a_missing_tracker_says_what_to_install(tmp_path: Path, tracker: str, package: str, monkeypatch: Any) -> None:
    available = "transformers.integrations.get_available_reporting_integrations"
    monkeypatch.setattr(available, lambda: ["tensorboard"])
    with refused(tracker, f"pip install {package}"):
        Engine(Store(tmp_path / "store"), report_to=tracker)
    assert Engine(Store(tmp_path / "store"), report_to="tensorboard").trackers == ("tensorboard",)


def test_texts_longer_than_the_backbone_can_read_are_cut(engine: Engine, tiny_backbone: str, tmp_path: Path) -> None:
    long = "the lawyer saw the doctor " * 30
    (tmp_path / "d.csv").write_text("text_a,text_b,label\n" + f"{long},{long},yes\n{long},the doctor,no\n" * 6)
    task = FilesTask("long", ("no", "yes"), str(tmp_path / "d.csv"), str(tmp_path / "d.csv"), leaks="keep")
    settings = TrainingSettings(steps=2, eval_every=2, batch_size=4)
    scores = Evaluate(FineTune(Pretrained(tiny_backbone, task), CE(), settings))
    engine.execute([scores])
    assert engine.store.has(scores.key)


def test_a_backbone_with_other_heads_is_another_backbone(tiny_backbone: str, tmp_path: Path) -> None:
    shutil.copytree(tiny_backbone, tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps(config | {"num_attention_heads": 4}))
    assert backbone_hash(str(tmp_path / "other")) != backbone_hash(tiny_backbone)


@pytest.mark.parametrize(
    "change",
    [{"labels": ["a", "b"]}, {"labels": ["a"]}, {"labels": None}, {"files": {}}, {"files": None}, {"sparsity": 0.1}],
    ids=str,
)
def test_an_altered_card_is_refused_by_name(change: Any, engine: Engine, raw: Pretrained, tmp_path: Path) -> None:
    node = Prune(raw, OneShot(0.5))
    engine.execute([node])
    shutil.copytree(engine.store.path(node.key), tmp_path / "sub")
    card = json.loads((tmp_path / "sub" / "subnetwork.json").read_text())
    (tmp_path / "sub" / "subnetwork.json").write_text(json.dumps(card | change))
    with refused("subnetwork.json"):
        load_subnetwork(tmp_path / "sub")


def test_the_last_step_is_evaluated_once(engine: Engine, raw: Pretrained, tiny_training: Any) -> None:
    node = FineTune(raw, CE(), replace(tiny_training, steps=10))
    engine.execute([node])
    log = json.loads((engine.store.path(node.key) / "training.json").read_text())["log"]
    assert [entry["step"] for entry in log if "eval_score" in entry] == [5, 10]


def test_training_json_is_json(engine: Engine, raw: Pretrained, tiny_training: Any) -> None:
    node = Prune(raw, IMP(0.5), CE(), tiny_training)
    engine.execute([node])
    assert node.levels is not None

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    text = (engine.store.path(node.levels.key) / "training.json").read_text()
    json.loads(text, parse_constant=refuse)


def test_store_ls_shows_whole_keys(engine: Engine, raw: Pretrained, monkeypatch: Any, capsys: Any) -> None:
    engine.execute([raw])
    run(monkeypatch, "store", "ls", "--store", engine.store.root)
    assert raw.key in capsys.readouterr().out


def test_the_place_of_a_bad_byte_is_right(tmp_path: Path) -> None:
    rows = b"text_a,text_b,label\n" + b"aaaa,bbbb,yes\n" * 5000
    (tmp_path / "d.csv").write_bytes(rows + b"f\xfcr,b,yes\n")
    with pytest.raises(UserError, match=rf"line 5002|byte {len(rows) + 1}\b"):
        FilesTask("m", ("no", "yes"), str(tmp_path / "d.csv"), str(tmp_path / "d.csv")).load()


def test_a_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("")
    with refused("e.csv"):
        FilesTask("m", ("no", "yes"), str(tmp_path / "d.csv" / "e.csv"), str(tmp_path / "d.csv")).load()


def test_a_column_named_twice(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text_a,text_b,label,label\na,b,yes,no\n")
    with refused("d.csv", "label"):
        FilesTask("m", ("no", "yes"), str(tmp_path / "d.csv"), str(tmp_path / "d.csv")).load()


def test_a_merged_checkpoint_is_readable_by_others(engine: Engine, raw: Pretrained, tmp_path: Path) -> None:
    engine.execute([raw])
    srnet.export_model(raw.key, tmp_path / "merged", format="merged", engine=engine)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "merged").iterdir()} == {0o644}


def test_a_full_disk_while_merging(engine: Engine, raw: Pretrained, tmp_path: Path, monkeypatch: Any) -> None:
    from safetensors import SafetensorError
    from transformers import PreTrainedModel

    def full(*args: object, **kwargs: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    engine.execute([raw])
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    with refused("space"):
        srnet.export_model(raw.key, tmp_path / "merged", format="merged", engine=engine)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_place_where_nothing_can_be_made() -> None:
    with refused("/proc/nope"):
        Store("/proc/nope/store").open()
