"""Exported folders and plain checkpoints whose files say what no model is: one line, whichever command reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from commands import run
from fuzz.graphs import Made
from fuzz.valid import BACKBONE, stored, stored_key, write_task
from refusals import command_refused
from safetensors.torch import load_file, save_file

import srnet
from srnet.core.errors import UserError
from srnet.core.progress import Reporter
from srnet.core.sealed import seal
from srnet.experiment.engine import Engine
from srnet.experiment.store import Store
from srnet.models.exported import CARD
from srnet.timing.latency import latency_of

KINDS = ("merged", "shrunk", "onnx")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the store in every format, and a task for it."""
    folder = tmp_path_factory.mktemp("exported")
    engine = Engine(Store(stored()), Reporter(quiet=True))
    for kind in KINDS:
        srnet.export_model(stored_key("Prune"), folder / kind, format=kind, engine=engine)
    write_task(folder)
    return folder


@contextmanager
def forged(folder: Path, change: Callable[[Path], None] = lambda folder: None, **facts: Any) -> Iterator[None]:
    """A folder with other files or facts, and with checksums that fit them."""
    whole = folder.with_name("whole")
    shutil.copytree(folder, whole)
    change(folder)
    card = json.loads((folder / CARD).read_text())
    seal(folder, CARD, {key: value for key, value in card.items() if key not in ("files", "sha256")} | facts)
    try:
        yield
    finally:
        shutil.rmtree(folder)
        whole.rename(folder)


def configured(**facts: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | facts))

    return change


def without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.write_text("[]")


DAMAGED = [
    configured(num_attention_heads=0), configured(hidden_act=3), configured(id2label=[]),
    configured(layer_norm_eps="x"), configured(hidden_size=10**9), configured(model_type=["bert"]),
    configured(num_hidden_layers=2**64), configured(num_labels=10**9),
    lambda folder: (folder / "config.json").write_text("[" * 100_000),
]  # fmt: skip


def commands(folder: Path, out: Path) -> list[tuple[object, ...]]:
    task = ("--task", folder.parent / "task.yaml")
    speed = ("speed", folder, "--rounds", 2, "--lengths", 8, "--no-memory")
    return [("evaluate", folder, *task), ("audit", folder, *task, "--out", out, "-q"), speed]


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("change", DAMAGED, ids=range(len(DAMAGED)))
def test_a_configuration_of_no_model(
    kind: str, change: Callable[[Path], None], folders: Path, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    with forged(folders / kind, change):
        for words in commands(folders / kind, tmp_path / "out"):
            assert "cannot be loaded" in command_refused(monkeypatch, capfd, *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_that_is_none(kind: str, folders: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    with forged(folders / kind, without_tokenizer):
        for words in commands(folders / kind, tmp_path / "out")[: 3 if kind == "onnx" else 2]:
            assert "tokenizer" in command_refused(monkeypatch, capsys, *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [-5, 0, 2**30, 10**30, True], ids=str)
def test_a_length_of_no_text(
    kind: str, length: int, folders: Path, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    with forged(folders / kind, max_length=length):
        for words in commands(folders / kind, tmp_path / "out"):
            assert "'max_length' is out of range" in command_refused(monkeypatch, capsys, *words)


def test_a_graph_that_reads_what_its_card_does_not_name(folders: Path, monkeypatch: Any, capsys: Any) -> None:
    with forged(folders / "onnx", inputs=["input_ids"]):
        said = command_refused(monkeypatch, capsys, "evaluate", folders / "onnx", "--task", folders / "task.yaml")
    assert "needs the input 'token_type_ids'" in said


def with_weights(value: float, name: str) -> Callable[[Path], None]:
    """The tensors whose name holds `name` have one value, in whichever file they are."""

    def change(folder: Path) -> None:
        for path in folder.glob("*.safetensors"):
            tensors = load_file(path)
            filled = {key: torch.full_like(each, value) for key, each in tensors.items() if name in key}
            save_file(tensors | filled, path, metadata={"format": "pt"})
        for path in folder.glob("*.onnx"):
            model = onnx.load(path)
            for tensor in model.graph.initializer:
                if name in tensor.name:
                    array = np.full(tuple(tensor.dims), value, dtype=np.float32)
                    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
            onnx.save(model, path)

    return change


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [float("nan"), float("-inf")], ids=str)
def test_logits_that_are_no_numbers(
    kind: str, value: float, folders: Path, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    """They were scored, and ended with exit code 0."""
    with forged(folders / kind, with_weights(value, "classifier.bias")):
        for words in commands(folders / kind, tmp_path / "out"):
            assert "non-finite" in command_refused(monkeypatch, capfd, *words)
    assert not (tmp_path / "out").exists()


def vocabulary(words: list[str]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["model"]["vocab"] = {word: number for number, word in enumerate(words)}
        tokenizer["added_tokens"] = [each for each in tokenizer["added_tokens"] if each["content"] in words]
        path.write_text(json.dumps(tokenizer))

    return change


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "words", [[], [*SPECIAL, *map(str, range(500)), *"abcdefghi"]], ids=["empty", "beyond the embedding"]
)
def test_a_vocabulary_of_another_model(
    kind: str, words: list[str], folders: Path, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    with forged(folders / kind, vocabulary(words)):
        for command in commands(folders / kind, tmp_path / "out")[: 3 if kind == "onnx" else 2]:
            assert str(folders / kind) in command_refused(monkeypatch, capfd, *command)


def rewritten(name: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return apply


FAILS = rewritten("tokenizer.json", lambda file: file["post_processor"].update(special_tokens={}))
"""A tokenizer in which the library panics, which is no Exception."""
RECURS = rewritten("tokenizer_config.json", lambda file: file.update(unk_token="", pad_token=""))


@pytest.mark.parametrize(("kind", "change"), [("merged", FAILS), ("onnx", FAILS), ("merged", RECURS)], ids=range(3))
def test_a_tokenizer_that_fails_on_texts(
    kind: str, change: Callable[[Path], None], folders: Path, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    with forged(folders / kind, change):
        for words in commands(folders / kind, tmp_path / "out")[:2]:
            assert run(monkeypatch, *words) == 2
            said = capfd.readouterr().err
            assert "Traceback" not in said
            assert "tokenizer" in said.splitlines()[-1]  # the library prints its panic itself


def test_weights_that_are_missing_are_not_initialised(
    folders: Path, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    """The scores would be those of another model."""
    name = "bert.encoder.layer.0.attention.self.query.weight"

    def change(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        del tensors[name]
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    with forged(folders / "merged", change):
        for words in commands(folders / "merged", tmp_path / "out"):
            assert name in command_refused(monkeypatch, capfd, *words)


def test_a_graph_of_more_outputs_than_labels(folders: Path, monkeypatch: Any, capsys: Any) -> None:
    made = Made(np.ones((100, 3), dtype=np.float32), declared=None)
    with forged(folders / "onnx", lambda folder: made.write(folder / "model.onnx")):
        said = command_refused(monkeypatch, capsys, "evaluate", folders / "onnx", "--task", folders / "task.yaml")
    assert "2 labels for 3 outputs" in said


# --- plain checkpoints, which have no checksums --------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BACKBONE, tmp_path / "backbone"))


@pytest.mark.parametrize("change", DAMAGED, ids=range(len(DAMAGED)))
def test_a_backbone_of_no_model(
    change: Callable[[Path], None], checkpoint: Path, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    change(checkpoint)
    words = ("--backbone", checkpoint, "--task", write_task(tmp_path), "--steps", 1, "--store", tmp_path / "store")
    for command in ("finetune", "prune"):
        assert "cannot be loaded" in command_refused(monkeypatch, capfd, command, *words, "-q")
    with pytest.raises(UserError, match="cannot be loaded"):
        latency_of(str(checkpoint), Engine(Store(tmp_path / "store"), Reporter(quiet=True)))


def test_a_backbone_without_positions(checkpoint: Path, tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    configured(max_position_embeddings=0)(checkpoint)
    words = ("--backbone", checkpoint, "--task", write_task(tmp_path), "--steps", 1, "--store", tmp_path / "store")
    assert "reads no tokens" in command_refused(monkeypatch, capfd, "finetune", *words, "-q")
