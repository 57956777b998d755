"""ONNX folders: the model's logits for any batch and length, without torch and without srnet."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from architectures import ARCHITECTURES, write_backbone
from refusals import refused
from small_models import LABELS, pruned

from srnet.evaluation.significance import spread
from srnet.experiment.nodes.base import load_task
from srnet.models.exported import EXPORT
from srnet.models.formats import onnx as onnx_export
from srnet.models.formats.base import Source
from srnet.models.formats.card import About, Scored, _scores_on_card, score_name, scores_of_graph
from srnet.models.formats.graphs import graph_logits, open_graph
from srnet.models.formats.onnx import Onnx
from srnet.models.formats.subnetwork import SubnetworkFolder
from srnet.models.heads import Head
from srnet.models.open import load_subnetwork, open_model
from srnet.tasks.splits import Example, Split
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import encode
from srnet.training.predict import predict

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "onnx_classify.py"
TASK = SyntheticTask("inference", train_size=60, dev_size=24, ood_size=24)


def short_texts() -> Split:
    """Of different lengths, few enough tokens for tokenizers that make many of a word."""
    dev = load_task(TASK).dev
    pairs = enumerate(zip(dev.text_a, dev.text_b, strict=True))
    rows = [Example(str(row), " ".join(a.split()[: 1 + row % 4]), b[: 3 + row % 5], 0) for row, (a, b) in pairs]
    return Split.of("short", "ID", rows)


QUANTISED = ("bert", "roberta", "distilbert", "electra", "deberta-v2", "mpnet", "modernbert", "gpt2", "llama")
GRAPHS = [name for name, architecture in ARCHITECTURES.items() if architecture.has_graph]
EXPORTS = [(name, False) for name in GRAPHS] + [(name, True) for name in QUANTISED]


@pytest.mark.parametrize(("name", "int8"), EXPORTS)
def test_any_batch_and_length(name: str, int8: bool, tmp_path: Path) -> None:
    subnetwork = pruned(write_backbone(name, tmp_path / "backbone"))
    Onnx(int8).write(Source(replace(subnetwork, max_length=48)), tmp_path / "onnx")
    base = subnetwork.base()
    data = encode(short_texts(), base.tokenizer, base.max_length(48))
    expected = predict(subnetwork.model(base), data)
    session = open_graph(tmp_path / "onnx" / "model.onnx")
    found = graph_logits(session, data)
    assert len(set(data.lengths)) > 1
    tolerance = {"rtol": 0, "atol": 1.0} if int8 else {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(found, expected, **tolerance)
    alone = np.concatenate([session.run(data.collate([row])) for row in range(len(data))])
    np.testing.assert_allclose(alone, expected, **tolerance)
    if int8:
        assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.9
        types = {node.op_type for node in onnx.load(tmp_path / "onnx" / "model.onnx").graph.node}
        assert types & {"MatMulInteger", "DynamicQuantizeMatMul"}


def test_units_are_gone_from_the_graph(tiny_backbone: str, tmp_path: Path) -> None:
    sizes = []
    for share in (0.0, 0.5, 1.0):
        Onnx().write(Source(pruned(tiny_backbone, share=share)), tmp_path / f"{share}")
        sizes.append((tmp_path / f"{share}" / "model.onnx").stat().st_size)
    assert sizes[0] > sizes[1] > sizes[2]


BLOCKED = """
import runpy, sys
for name in ("torch", "srnet", "transformers", "onnx"):
    sys.modules[name] = None  # importing it would fail
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("name", ["bert", "gpt2", "roberta"])
def test_the_example_needs_neither_torch_nor_srnet(name: str, tmp_path: Path) -> None:
    """It cuts, pairs and pads as srnet does, in a fresh process in another folder."""
    subnetwork = pruned(write_backbone(name, tmp_path / "backbone"))
    Onnx().write(Source(replace(subnetwork, max_length=12)), tmp_path / "onnx")
    dev = load_task(TASK).dev
    texts = "".join(f"{a}\t{b}\n" for a, b in zip(dev.text_a, dev.text_b, strict=True))
    (tmp_path / "elsewhere").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKED, EXAMPLE, tmp_path / "onnx"],
        input=texts,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path / "elsewhere",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        check=True,
    )
    rows = [line.split("\t") for line in ran.stdout.splitlines()]
    base = subnetwork.base()
    data = encode(dev, base.tokenizer, 12)
    assert max(data.lengths) == 12
    expected = predict(subnetwork.model(base), data)
    np.testing.assert_allclose(np.array([row[1:] for row in rows], float), expected, rtol=0, atol=1e-4)
    assert [row[0] for row in rows] == [LABELS[best] for best in expected.argmax(1)]


def test_one_text_on_the_command_line_and_mistakes(tiny_backbone: str, tmp_path: Path) -> None:
    folder = tmp_path / "onnx"
    Onnx().write(Source(pruned(tiny_backbone)), folder)
    command = [sys.executable, EXAMPLE, folder, "the lawyer saw the doctor"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split("\t")[0] in LABELS

    def said(*words: object) -> list[str]:
        ran = subprocess.run([sys.executable, EXAMPLE, *words], capture_output=True, text=True, timeout=120, input="")
        assert ran.returncode == 1, ran
        return ran.stderr.splitlines()

    assert said(tmp_path, "a") == [f"{tmp_path} is not a folder that `srnet export --format onnx` wrote"]
    assert said(folder) == said(folder, "a", "b", "c") == ["give rows of one text or two"]
    graph = bytearray((folder / "model.onnx").read_bytes())
    graph[len(graph) // 2] ^= 1
    (folder / "model.onnx").write_bytes(graph)
    assert said(folder, "a") == [f"{folder / 'model.onnx'} is missing or altered: its checksum does not match"]


def test_scores_before_and_after(tiny_backbone: str, tmp_path: Path) -> None:
    task = load_task(TASK)
    subnetwork = pruned(tiny_backbone, labels=task.labels)
    known = tuple(Scored(split.name, split.kind, spread([12.3])) for split in (task.dev, task.ood["challenge"]))
    about = About(task=task.name, metric=task.metric, scores=known)
    lines = Onnx(int8=True).write(Source(subnetwork, about=about, task=task), tmp_path / "onnx")
    assert all(line.endswith(" on 24 rows of dev and random texts") for line in lines[:2])
    assert lines[0].startswith("logits differ from the model's by at most ")
    assert lines[1].startswith("int8: logits differ from the model's by at most ")
    base = subnetwork.base()
    for line, split in zip(lines[2:4], (task.dev, task.ood["challenge"]), strict=True):
        answers = predict(subnetwork.model(base), encode(split, base.tokenizer, 64)).argmax(1)
        score = 100 * float((answers == split.labels).mean())
        assert line.startswith(f"int8, inference {split.name} ({split.kind}), accuracy: {score:.1f} before, ")
    card = (tmp_path / "onnx" / "README.md").read_text()
    assert all(line in card for line in lines)
    measured = scores_of_graph(tmp_path / "onnx")
    assert _scores_on_card(tmp_path / "onnx") == {name: round(score, 2) for name, score in measured.items()}
    assert "accuracy before rounding" in card
    for each in known:
        own = measured[score_name(task.name, each.split, each.kind, task.metric)]
        assert f"| {each.split} | {each.kind} | 12.3 |  |  | {own:.1f} |" in card


def test_logits_of_tokens(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = pruned(tiny_backbone, head=Head(per_token=True), labels=("start", "end"))
    Onnx().write(Source(subnetwork), tmp_path / "onnx")
    session = open_graph(tmp_path / "onnx" / "model.onnx")
    base = subnetwork.base()
    for batch in onnx_export._sample_batches(base.tokenizer, 20):
        with torch.no_grad():
            expected = subnetwork.model(base)(**batch).logits.numpy()
        np.testing.assert_allclose(session.run(batch), expected, rtol=0, atol=1e-4)


# --- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_without_the_extra(missing: str, tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = builtins.__import__

    def lacking(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named '{missing}'", name=missing)
        return whole(name, *args, **kwargs)

    subnetwork = pruned(tiny_backbone)
    monkeypatch.setattr(builtins, "__import__", lacking)
    with refused(f"({missing})", 'pip install "srnet[onnx]"'):
        Onnx(int8=True).write(Source(subnetwork), tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_a_graph_that_is_another_model_is_not_written(
    tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subnetwork, write_graph = pruned(tiny_backbone), onnx_export._write_graph

    def wrong(model: Any, batch: Any, path: Path) -> None:
        with torch.no_grad():
            model.classifier.bias += 1
        write_graph(model, batch, path)
        with torch.no_grad():
            model.classifier.bias -= 1

    monkeypatch.setattr(onnx_export, "_write_graph", wrong)
    with refused("another model", "1.0e+00"):
        Onnx().write(Source(subnetwork), tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", [Onnx(), SubnetworkFolder("float16")], ids=["onnx", "float16"])
def test_a_model_of_non_finite_logits_is_not_written(format: Any, tiny_backbone: str, tmp_path: Path) -> None:
    """All its weights are finite."""
    subnetwork = pruned(tiny_backbone)
    subnetwork.weights["classifier.weight"].fill_(3e38)
    with refused("non-finite"):
        format.write(Source(subnetwork), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_holds_for_one_length_is_not_written(tmp_path: Path) -> None:
    """Longformer cuts a text into windows in Python, so the graph has the number of windows of the traced batch."""
    with refused("another model"):
        Onnx().write(Source(pruned(write_backbone("longformer", tmp_path / "backbone"))), tmp_path / "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["backbone"]


def test_a_model_that_the_exporter_cannot_trace_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """FNet's Fourier transform has no operator. Torch would print the whole graph first."""
    monkeypatch.setitem(ARCHITECTURES, "fnet", replace(ARCHITECTURES["bert"]))
    subnetwork = pruned(write_backbone("fnet", tmp_path / "backbone"))
    capfd.readouterr()
    with refused("FNetForSequenceClassification", "fft"):
        Onnx().write(Source(subnetwork), tmp_path / "onnx")
    assert "graph" not in "".join(capfd.readouterr())
    assert [path.name for path in tmp_path.iterdir()] == ["backbone"]


def test_a_tokenizer_of_another_library_is_refused(
    tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subnetwork = pruned(tiny_backbone)
    monkeypatch.setattr(type(subnetwork.base().tokenizer), "backend_tokenizer", None)
    with refused("tokenizer", tiny_backbone):
        Onnx().write(Source(subnetwork), tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_torch_does_not_load_it(tiny_backbone: str, tmp_path: Path) -> None:
    Onnx().write(Source(pruned(tiny_backbone)), tmp_path / "onnx")
    with refused(tmp_path / "onnx", "examples/onnx_classify.py"):
        load_subnetwork(tmp_path / "onnx")
    assert open_model(tmp_path / "onnx").kind == "onnx"
    assert json.loads((tmp_path / "onnx" / EXPORT.file).read_text())["kind"] == "onnx"
