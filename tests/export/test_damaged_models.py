"""Models whose files fit their checksums and say what no model is: one line, whichever command reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from commands import run
from forging import forge
from fuzz.graphs import Made
from fuzz.valid import BACKBONE, stored, stored_key, write_task
from refusals import command_refused, refused
from safetensors.torch import load_file, save_file

import srnet
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.store import Store
from srnet.timing.latency import latency_of

KINDS = ("merged", "shrunk", "onnx")
QUERY = "bert.encoder.layer.0.attention.self.query.weight"
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the store in every format, and a task for it."""
    folder = tmp_path_factory.mktemp("exported")
    engine = Engine(Store(stored()), Reporter(quiet=True))
    for kind in KINDS:
        srnet.export_model(stored_key("Prune"), folder / kind, format=kind, engine=engine)
    write_task(folder)
    return folder


def rewritten(name: str, **facts: Any) -> Change:
    """Other fields in a JSON file."""

    def change(folder: Path) -> None:
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | facts))

    return change


def configured(**facts: Any) -> Change:
    return rewritten("config.json", **facts)


def without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.write_text("[]")


def with_vocabulary(words: list[str]) -> Change:
    def change(folder: Path) -> None:
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        tokenizer["model"]["vocab"] = {word: number for number, word in enumerate(words)}
        tokenizer["added_tokens"] = [each for each in tokenizer["added_tokens"] if each["content"] in words]
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))

    return change


def with_weights(value: float) -> Change:
    """The classifier's bias has one value, in whichever file it is."""

    def change(folder: Path) -> None:
        for path in folder.glob("*.safetensors"):
            tensors = load_file(path)
            filled = {key: torch.full_like(each, value) for key, each in tensors.items() if "classifier.bias" in key}
            save_file(tensors | filled, path, metadata={"format": "pt"})
        for path in folder.glob("*.onnx"):
            model = onnx.load(path)
            for tensor in model.graph.initializer:
                if "classifier.bias" in tensor.name:
                    array = np.full(tuple(tensor.dims), value, dtype=np.float32)
                    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
            onnx.save(model, path)

    return change


def without_query(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[QUERY]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def three_outputs(folder: Path) -> None:
    Made(np.ones((100, 3), dtype=np.float32), declared=None).write(folder / "model.onnx")


NO_MODEL: list[Change] = [
    configured(num_attention_heads=0), configured(hidden_act=3), configured(id2label=[]),
    configured(layer_norm_eps="x"), configured(hidden_size=10**9), configured(model_type=["bert"]),
    configured(num_hidden_layers=2**64), configured(num_labels=10**9),
    lambda folder: (folder / "config.json").write_text("[" * 100_000),
]  # fmt: skip
BEYOND = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(500)), *"abcdefghi"]
"""More words than the embedding has."""
EVALUATE, AUDIT, SPEED = range(3)
DAMAGED: list[tuple[tuple[str, ...], Change, tuple[int, ...], str]] = [
    *((KINDS[:2], change, (EVALUATE, AUDIT, SPEED), "cannot be loaded") for change in NO_MODEL),
    (KINDS[:2], without_tokenizer, (EVALUATE, AUDIT), "tokenizer"),
    (KINDS[2:], without_tokenizer, (EVALUATE, AUDIT, SPEED), "tokenizer"),
    *((KINDS, with_weights(value), (EVALUATE, AUDIT, SPEED), "non-finite") for value in (np.nan, -np.inf)),
    *((KINDS[:2], with_vocabulary(words), (EVALUATE, AUDIT), "") for words in ([], BEYOND)),
    *((KINDS[2:], with_vocabulary(words), (EVALUATE, AUDIT, SPEED), "") for words in ([], BEYOND)),
    (KINDS[:1], without_query, (EVALUATE, AUDIT, SPEED), QUERY),
    (KINDS[2:], three_outputs, (EVALUATE,), "2 labels for 3 outputs"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), [(kind, number) for number, each in enumerate(DAMAGED) for kind in each[0]])
def test_a_damaged_export_is_one_line(
    kind: str, case: int, folders: Path, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    """Weights that are missing must not be initialised, and logits that are no numbers not be scored."""
    _, change, commands, name = DAMAGED[case]
    folder, task = tmp_path / kind, ("--task", folders / "task.yaml")
    shutil.copytree(folders / kind, folder)
    change(folder)
    forge(folder)
    words = (
        ("evaluate", folder, *task),
        ("audit", folder, *task, "--out", tmp_path / "out", "-q"),
        ("speed", folder, "--rounds", 2, "--lengths", 8, "--no-memory"),
    )
    for command in commands:
        said = command_refused(monkeypatch, capfd, *words[command])
        assert name in said
        assert kind in said
    assert not (tmp_path / "out").exists()


def test_a_graph_that_reads_what_its_manifest_does_not_name(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "onnx", tmp_path / "onnx")
    forge(tmp_path / "onnx", inputs=["input_ids"])
    task = srnet_task(folders)
    with refused("model.onnx", "'token_type_ids'"):
        srnet.evaluate(tmp_path / "onnx", task=task)


def srnet_task(folders: Path) -> Any:
    from srnet.recipes.tasks import DataOptions

    return DataOptions().task(str(folders / "task.yaml"))


def without_special_tokens(folder: Path) -> None:
    """A tokenizer in which the library panics, which is no Exception."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["post_processor"]["special_tokens"] = {}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


RECURS = rewritten("tokenizer_config.json", unk_token="", pad_token="")


@pytest.mark.parametrize(
    ("kind", "change"),
    [("merged", without_special_tokens), ("onnx", without_special_tokens), ("merged", RECURS)],
    ids=range(3),
)
def test_a_tokenizer_that_fails_on_texts(
    kind: str, change: Change, folders: Path, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    folder = Path(shutil.copytree(folders / kind, tmp_path / kind))
    change(folder)
    forge(folder)
    for words in (("evaluate", folder), ("audit", folder, "--out", tmp_path / "out", "-q")):
        assert run(monkeypatch, *words, "--task", folders / "task.yaml") == 2
        said = capfd.readouterr().err
        assert "Traceback" not in said
        assert "tokenizer" in said.splitlines()[-1]  # the library prints its panic itself


# --- plain checkpoints, which have no checksums --------------------------------------------------------------------


@pytest.mark.parametrize("change", [*NO_MODEL, configured(max_position_embeddings=0)], ids=range(len(NO_MODEL) + 1))
def test_a_backbone_of_no_model(change: Change, tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    checkpoint = Path(shutil.copytree(BACKBONE, tmp_path / "backbone"))
    change(checkpoint)
    words = ("--backbone", checkpoint, "--task", write_task(tmp_path), "--steps", 1, "--store", tmp_path / "store")
    for command in ("finetune", "prune"):
        assert str(checkpoint) in command_refused(monkeypatch, capfd, command, *words, "-q")
    if change in NO_MODEL:
        with refused(checkpoint):
            latency_of(str(checkpoint), Engine(Store(tmp_path / "store"), Reporter(quiet=True)))
