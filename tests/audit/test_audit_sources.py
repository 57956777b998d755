"""Models from everywhere: the store, subnetwork folders, Hugging Face folders, ONNX; rows are streamed."""

from __future__ import annotations

import json
import shutil
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import YES_NO, Scripted
from fuzz.graphs import Made
from refusals import refused
from safetensors.torch import load_file, save_file

import srnet
from srnet.audit.options import AuditOptions
from srnet.audit.report import CONFIDENCE, OVERLAP, SUPPORT
from srnet.audit.rows import ROWS_AT_ONCE, collect_logits
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.store import read_logits
from srnet.models.backbones import load_backbone
from srnet.models.heads import Head
from srnet.models.open import open_classifier
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.tasks.synthetic import SyntheticTask

LABELS = ("not_entailment", "entailment")


@pytest.fixture
def key(raw: Pretrained, engine: Engine) -> str:
    """A subnetwork in the store, found without training."""
    return srnet.prune(raw, OneShot(sparsity=0.5), engine=engine).key


@pytest.fixture
def merged(key: str, engine: Engine, tmp_path: Path) -> Path:
    """A plain Hugging Face folder: without its manifest, whose checksums would refuse the changes below."""
    folder = srnet.export_model(key, tmp_path / "merged", format="merged", engine=engine)
    (folder / "srnet.json").unlink()
    return folder


# --- streaming -----------------------------------------------------------------------------------------------------


class Counting:
    """A classifier that counts the rows it is given at a time, and how many of its answers are still in memory."""

    name, labels = "counting", YES_NO

    def __init__(self) -> None:
        self.live: list[weakref.ref[np.ndarray]] = []
        self.most_live, self.most_rows, self.calls = 0, 0, 0

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        self.live = [each for each in self.live if each() is not None]
        self.most_live, self.most_rows = max(self.most_live, len(self.live)), max(self.most_rows, len(text_a))
        self.calls += 1
        answer = np.array([(float(len(text)), 0.0) for text in text_a])
        self.live.append(weakref.ref(answer))
        return answer


def test_rows_are_streamed() -> None:
    model, rows = Counting(), 5 * ROWS_AT_ONCE + 1
    texts = ["x" * (row % 50) for row in range(rows)]
    done: list[int] = []
    logits = collect_logits(model, texts, texts, lambda count, total: done.append(count))
    assert logits[:, 0].tolist() == [row % 50 for row in range(rows)]
    assert model.calls == 6
    assert model.most_rows == ROWS_AT_ONCE
    assert model.most_live == 0  # what was returned before is gone when the next part is asked for
    assert done[-1] == rows


@pytest.mark.parametrize(
    ("answer", "named"), [(lambda a, b: (1.0, np.nan), "non-finite"), (lambda a, b: (1.0,), "shape")]
)
def test_logits_that_are_none_are_refused(answer: Any, named: str) -> None:
    with refused("scripted", named):
        collect_logits(Scripted(answer), ["a"], ["b"])


# --- where models come from ----------------------------------------------------------------------------------------


def test_a_key_its_folder_and_its_merged_checkpoint_are_one_model(
    key: str, merged: Path, engine: Engine, tiny_task: SyntheticTask, tmp_path: Path
) -> None:
    folder = srnet.export_model(key, tmp_path / "subnetwork", format="subnetwork", engine=engine)
    dev = tiny_task.load().dev
    models = [open_classifier(each, engine.models) for each in (key, key[:8], folder, merged)]
    found = [collect_logits(each, dev.text_a, dev.text_b) for each in models]
    node = Evaluate(srnet.experiment.rebuild.stored_model(engine.store, key))  # type: ignore[attr-defined]
    for each in found:
        np.testing.assert_allclose(each, read_logits(engine.store, node.key)["dev"], atol=1e-5)
    assert models[-1].labels == LABELS


def test_a_plain_folder_against_an_exported_subnetwork(
    key: str, merged: Path, engine: Engine, tiny_task: SyntheticTask, tmp_path: Path
) -> None:
    """The folder names its outputs in another order and in capitals."""
    swap_outputs(merged, ["ENTAILMENT", "NOT ENTAILMENT"])
    folder = srnet.export_model(key, tmp_path / "subnetwork", format="subnetwork", engine=engine)
    options = AuditOptions(contrast=True, contrast_rows=20)
    audit = srnet.audit_models(merged, folder, task=tiny_task, options=options, out=tmp_path / "out", engine=engine)
    assert [each.label for each in audit.loyalty] == [1.0, 1.0]
    assert all(each.probability > 0.999 for each in audit.loyalty)
    assert set(audit.disagreements.values()) == {0}
    assert [each.difference.difference for each in audit.scores if each.difference is not None] == [0.0, 0.0]
    assert {each.over for each in audit.dependence} == {SUPPORT, CONFIDENCE, OVERLAP}
    assert {each.rule for each in audit.contrast if each.invariance_rows} == {"shared-clause", "case-and-punctuation"}
    assert (tmp_path / "out" / "audit.html").is_file()


def swap_outputs(folder: Path, names: list[str]) -> None:
    weights = load_file(folder / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        weights[name] = weights[name].flip(0).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = dict(enumerate(names))
    config["label2id"] = {name: number for number, name in enumerate(names)}
    (folder / "config.json").write_text(json.dumps(config))


def test_outputs_without_names_are_noted(merged: Path, engine: Engine, tiny_task: SyntheticTask) -> None:
    config = json.loads((merged / "config.json").read_text())
    del config["id2label"], config["label2id"]
    (merged / "config.json").write_text(json.dumps(config))
    audit = srnet.audit_models(merged, task=tiny_task, engine=engine)
    assert any("does not name its outputs" in note for note in audit.notes)


def test_texts_are_answered_alike_alone_and_among_others(merged: Path, engine: Engine) -> None:
    texts = [("the doctor slept", ""), ("", ""), ("🙂 <b>&", "word " * 10_000), ("a" * 50_000, "\ud800")]
    model = open_classifier(merged, engine.models)
    together = model.logits(*map(list, zip(*texts, strict=True)))
    assert np.isfinite(together).all()
    for row, (a, b) in enumerate(texts):
        np.testing.assert_allclose(model.logits([a], [b]), together[row : row + 1], atol=1e-5)
    assert model.logits([], []).shape == (0, 2)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("", "no name"),
        ("./nowhere", "./nowhere"),
        ("0123456789abcdef", "0123456789abcdef"),
        ("nobody/has-this-model", "SRNET_DOWNLOAD"),
        ("nowhere/", "key of the store"),
    ],
)
def test_what_is_no_model_is_one_line(name: str, named: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SRNET_DOWNLOAD", raising=False)
    with refused(name, named):
        open_classifier(name, engine.models)


def test_a_folder_without_a_model_or_a_classifier_is_refused(tmp_path: Path, tiny_backbone: str) -> None:
    for folder in (tmp_path, tiny_backbone):
        with refused(folder):
            open_classifier(folder)


def test_spans_are_no_classes(tiny_backbone: str, tmp_path: Path) -> None:
    base = load_backbone(tiny_backbone, ("start", "end"), seed=0, head=Head(per_token=True))
    Subnetwork.of(base, ("start", "end"), base.model.state_dict(), None).save(tmp_path / "spans")
    with refused(tmp_path / "spans"):
        open_classifier(tmp_path / "spans")


@pytest.mark.parametrize(
    "change",
    [{"id2label": ["a"]}, {"num_labels": "x"}, {"hidden_size": "x"}, {"label_words": [1, 2]}, {"model_type": "new"}],
)
def test_a_damaged_configuration_is_one_line(merged: Path, engine: Engine, change: dict[str, Any]) -> None:
    config = json.loads((merged / "config.json").read_text())
    (merged / "config.json").write_text(json.dumps(config | change))
    with refused(merged):
        open_classifier(merged)


def test_other_labels_are_refused(merged: Path, engine: Engine) -> None:
    task = SyntheticTask("paraphrase", train_size=50, dev_size=20, ood_size=20)
    with refused("not_entailment, entailment", "not_duplicate, duplicate"):
        srnet.audit_models(merged, task=task, engine=engine)


def test_label_words_of_a_merged_model_are_read(raw: Pretrained, engine: Engine, tmp_path: Path) -> None:
    words = Pretrained(raw.backbone, raw.task, 0, ("perhaps", "truly"))
    key = srnet.prune(words, OneShot(sparsity=0.5), engine=engine).key
    folder = srnet.export_model(key, tmp_path / "merged", format="merged", engine=engine)
    one, other = (open_classifier(each, engine.models) for each in (key, folder))
    texts = ["the doctor slept", "the pilot"], ["the doctor", "the singer slept"]
    np.testing.assert_allclose(one.logits(*texts), other.logits(*texts), atol=1e-5)


# --- ONNX ----------------------------------------------------------------------------------------------------------


TABLE = np.linspace(-1, 1, 2 * 2000, dtype=np.float32).reshape(2000, 2)


@pytest.fixture
def onnx_folder(merged: Path, tmp_path: Path) -> Path:
    """A model that adds a vector for every token of the text: logits can be computed by hand."""
    folder = tmp_path / "onnx"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(merged / name, folder)
    Made(TABLE).write(folder / "model.onnx")
    config = {"id2label": {"0": "entailment", "1": "not_entailment"}, "max_length": 32}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_an_onnx_folder_is_a_classifier(onnx_folder: Path, engine: Engine, tiny_task: SyntheticTask) -> None:
    model: Any = open_classifier(onnx_folder, engine.models)
    assert model.labels == ("entailment", "not_entailment")
    assert model.max_length == 32
    texts = ["the doctor slept", "the pilot"], ["the doctor", ""]
    by_hand = [TABLE[tokens].sum(axis=0) for tokens in model.tokenizer(*texts)["input_ids"]]
    np.testing.assert_allclose(model.logits(*texts), by_hand, rtol=1e-4)
    audit = srnet.audit_models(onnx_folder, onnx_folder, task=tiny_task, engine=engine)
    assert [each.label for each in audit.loyalty] == [1.0, 1.0]


def test_a_tokenizer_that_pads_and_cuts_by_itself(onnx_folder: Path) -> None:
    """One file, without a configuration."""
    texts = ["the doctor slept", "the pilot"], ["the doctor", "slept " * 100]
    before: Any = open_classifier(onnx_folder)
    tokenizer = before.tokenizer.backend_tokenizer
    tokenizer.enable_padding(pad_id=before.tokenizer.pad_token_id, pad_token=before.tokenizer.pad_token)
    tokenizer.enable_truncation(24)
    tokenizer.save(str(onnx_folder / "tokenizer.json"))
    (onnx_folder / "tokenizer_config.json").unlink()
    np.testing.assert_allclose(open_classifier(onnx_folder).logits(*texts), before.logits(*texts), rtol=1e-5)


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("model.onnx", "rubbish", "model.onnx"),
        ("config.json", '{"id2label": {"0": "a"}}', "1 labels for 2 outputs"),
        ("config.json", '{"id2label": {"x": "a", "1": "b"}}', "id2label"),
        ("srnet.json", '{"labels": ["no", "yes"], "max_length": 32}', "srnet.json"),
        ("config.json", "[]", "config.json"),
        ("tokenizer_config.json", "{", "tokenizer"),
    ],
)
def test_a_damaged_onnx_folder_is_one_line(onnx_folder: Path, file: str, content: str, named: str) -> None:
    (onnx_folder / file).write_text(content)
    with refused(onnx_folder, named):
        open_classifier(onnx_folder)


def test_without_onnxruntime_an_onnx_folder_is_one_line(onnx_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with refused('pip install "srnet[onnx]"'):
        open_classifier(onnx_folder)
