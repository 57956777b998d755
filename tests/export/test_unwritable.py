"""Results that cannot be written are refused before anything is computed for them, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.valid import BACKBONE, sign, write_subnetwork, write_task
from refusals import command_refused
from safetensors import SafetensorError
from transformers import PreTrainedModel

import srnet
from srnet.core.errors import UserError
from srnet.core.files import DiskFull
from srnet.core.progress import Reporter
from srnet.tasks.synthetic.pretrain_settings import PretrainSettings


@pytest.fixture(autouse=True)
def nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pretrain_backbone", "read_published", "_source"):
        monkeypatch.setattr(f"srnet.api.models.{name}", pytest.fail)
    monkeypatch.setattr("srnet.experiment.engine.Engine.execute", pytest.fail)


@pytest.mark.parametrize("place", ["a-file/inside", "x" * 300])
def test_a_folder_that_cannot_be_made(place: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    sign(tmp_path / "subnetwork" / "subnetwork.json", {**write_subnetwork(tmp_path), "backbone": str(BACKBONE)})
    np.save(tmp_path / "m.npy", np.zeros(96, np.uint8))
    (tmp_path / "a-file").write_text("")
    for words in (
        ("pretrain",),
        ("import", "smp", tmp_path / "m.npy", "--backbone", BACKBONE, "--labels", "no,yes"),
        ("export", tmp_path / "subnetwork", "--format", "merged"),
        ("export", tmp_path / "subnetwork", "--format", "subnetwork"),
        ("data", "write", write_task(tmp_path)),
    ):
        assert place.split("/")[0] in command_refused(monkeypatch, capsys, *words, "--out", tmp_path / place)


def test_links_that_form_a_loop(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    words = ("data", "write", write_task(tmp_path), "--out", tmp_path / "loop")
    assert "loop" in command_refused(monkeypatch, capsys, *words)


@pytest.mark.parametrize("command", [("reproduce", "fig2"), ("demo",), ("run", "RECIPE")], ids=lambda words: words[0])
@pytest.mark.parametrize(("place", "name"), [("a-file", "a-file"), ("a-file/inside", "a-file"), ("", "--out")])
def test_a_report_that_cannot_be_written(
    place: str, name: str, command: tuple[str, ...], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "r.yaml").write_text("task: inference\nlines: [{label: full}]\n")
    words = [tmp_path / "r.yaml" if word == "RECIPE" else word for word in command]
    out = ("--out", tmp_path / place if place else "", "--store", tmp_path / "store")
    assert name in command_refused(monkeypatch, capsys, *words, *out)


def test_a_description_that_cannot_be_written(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    write_task(tmp_path)
    files = ("--train", tmp_path / "train.csv", "--dev", tmp_path / "dev.csv")
    assert "dev.csv" in command_refused(
        monkeypatch, capsys, "data", "describe", *files, "--out", tmp_path / "dev.csv/mine.yaml"
    )


def test_a_full_disk_while_a_pre_trained_model_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.undo()
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", full)
    settings = PretrainSettings(1, 1, 1, batch_size=2, hidden_size=8, layers=1, heads=1, warmup=1)
    with pytest.raises(DiskFull, match="made"):
        srnet.pretrain(tmp_path / "made", settings, Reporter(quiet=True))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", 0), ("hidden_size", 30), ("heads", 0), ("batch_size", 0), ("warmup", 0), ("layers", 10**9),
        ("mask_share", float("nan")), ("pair_share", 2.0), ("learning_rate", -1.0), ("seed", -1),
        ("mlm_steps", 10**400),
    ],
)  # fmt: skip
def test_settings_of_pre_training_have_ranges(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=name):
        PretrainSettings(**{name: value})
