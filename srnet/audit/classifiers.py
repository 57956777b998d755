"""Any classifier behind one protocol: a key of the store, a saved subnetwork, a Hugging Face folder or name, ONNX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from srnet.audit.cards import read_card
from srnet.audit.encoding import TextClassifier
from srnet.audit.labels import match_labels
from srnet.backbones import has_language_model, keep_own_classifier, load_backbone, load_language_model
from srnet.backbones.checkpoints import check_no_adapter, read_config, read_tokenizer
from srnet.device import current_device
from srnet.errors import UserError, running
from srnet.experiment import Store
from srnet.experiment.nodes import TaskSpec
from srnet.experiment.rebuild import stored_model
from srnet.export.onnx import GRAPH
from srnet.exported import is_exported
from srnet.files import require_readable_in
from srnet.label_words import read_at_first_token, restrict_to
from srnet.names import DOWNLOAD_VARIABLE, output_names
from srnet.subnetwork import CARD, Subnetwork, load_subnetwork
from srnet.tasks.answers import CLASSES
from srnet.training import Encoded
from srnet.training.predict import predict

_KEY = re.compile(r"[0-9a-f]{6,}")
"""What the beginning of a key looks like."""
_FIX = f"give a key of the store, a folder or a hub name; {DOWNLOAD_VARIABLE}=1 allows a download"
_CHECKPOINTS = ("model.safetensors", "model.safetensors.index.json")


class Classifier(Protocol):
    """What an audit needs of a model. `logits` has a row for each pair and a column for each label."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray: ...


@dataclass(frozen=True)
class Matched:
    """A classifier whose logits stand in the order of a task's labels."""

    classifier: Classifier
    labels: tuple[str, ...]
    order: tuple[int, ...]
    note: str = ""
    """What had to be assumed about its labels."""

    @property
    def name(self) -> str:
        return self.classifier.name

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        return self.classifier.logits(text_a, text_b)[:, list(self.order)]


def match(classifier: Classifier, labels: tuple[str, ...], spellings: Mapping[str, str] | None = None) -> Matched:
    """The classifier for a task with these labels; an error that names both if they do not fit."""
    found = match_labels(classifier.name, classifier.labels, labels, spellings)
    return Matched(classifier, labels, found.order, found.note)


class TorchClassifier(TextClassifier):
    """A Hugging Face model in memory."""

    def predict(self, data: Encoded) -> np.ndarray:
        with running(self.name):
            return predict(self.model, data, name=self.name)


@dataclass(frozen=True)
class Source:
    """What the user calls a model, and how it is to read texts."""

    name: str
    store: Store
    pairs: bool = True
    max_length: int | None = None
    """None: as many tokens as the model was made for where that is known, else the default."""

    @property
    def folder(self) -> Path:
        return Path(self.name)

    def length(self, default: int = CLASSES.max_length) -> int:
        return default if self.max_length is None else self.max_length


def load_classifier(source: Source) -> Classifier:
    """Load a model from wherever it is. Nothing that is loaded can run code."""
    if not source.name.strip():
        raise UserError("a model has no name", "give a key, a folder or a hub name")
    if source.folder.is_dir():
        require_readable_in(source.folder)
        check_no_adapter(source.folder)
        return _format_of(source.folder)(source)
    if source.folder.exists() or source.name.startswith((".", "/", "~")):
        raise UserError(f"{source.name} is not a folder", "give the folder of a model")
    return _from_store(source) if _is_key(source) else _from_hugging_face(source)


def task_of(model: str | Path | Classifier, store: Store) -> TaskSpec:
    """The task of a stored model, which is the default where a task may be given."""
    if not isinstance(model, str) or Path(model).exists() or not _is_key(Source(model, store)):
        raise UserError("only models of the store know their task", "say which task: --task TASK")
    return stored_model(store, model).task_spec


def _is_key(source: Source) -> bool:
    begins = any(key.startswith(source.name) for key in source.store.keys())  # noqa: SIM118  it is no mapping
    return begins or _KEY.fullmatch(source.name) is not None


def _format_of(folder: Path) -> Callable[[Source], Classifier]:
    if (folder / CARD).is_file():
        return _from_subnetwork
    if any((folder / name).is_file() for name in _CHECKPOINTS):
        return _from_hugging_face
    if (folder / GRAPH).is_file():
        return _from_onnx
    if is_exported(folder):
        return _from_export
    raise UserError(f"{folder} holds no model", f"it needs one of {CARD}, {', '.join(_CHECKPOINTS)}, {GRAPH}")


def _from_store(source: Source) -> Classifier:
    node = stored_model(source.store, source.name)
    subnetwork = Subnetwork.load(source.store.path(node.key))
    return _classifier_of(subnetwork, source, f"{node.label} ({node.key[:8]})", node.max_length)


def _from_subnetwork(source: Source) -> Classifier:
    subnetwork = Subnetwork.load(source.folder)
    return _classifier_of(subnetwork, source, source.name, subnetwork.max_length or CLASSES.max_length)


def _classifier_of(subnetwork: Subnetwork, source: Source, name: str, max_length: int) -> Classifier:
    if subnetwork.head.per_token:
        raise UserError(f"{source.name} marks spans of a text", "an audit needs a classifier of texts")
    base = subnetwork.base()
    length = base.max_length(source.length(max_length))
    model = _on_device(subnetwork.model(base))
    return TorchClassifier(name, subnetwork.labels, model, base.tokenizer, length, source.pairs)


def _from_hugging_face(source: Source) -> Classifier:
    exported = read_card(source.folder) if is_exported(source.folder) else None
    config = read_config(source.name, "model", _FIX)
    labels = output_names(config.num_labels, config.id2label)
    base = load_backbone(source.name, labels, seed=0)
    words = getattr(config, "label_words", None)
    if words is not None:
        model = _with_label_words(source.name, words, labels)
    else:
        own = keep_own_classifier(base, labels)
        if not own.kept:
            raise UserError(f"{source.name} cannot be audited: {own.why}", "give a model fine-tuned for the task")
        model = base.model
    length = base.max_length(source.length(exported.max_length if exported else CLASSES.max_length))
    return TorchClassifier(source.name, labels, _on_device(model), base.tokenizer, length, source.pairs)


def _with_label_words(name: str, ids: Any, labels: tuple[str, ...]) -> Any:
    """A merged model whose answers are words of the vocabulary (`srnet export --format merged` writes such)."""
    if not has_language_model(name):
        raise UserError(f"{name} names label_words but brings no language model", "export the model again")
    model = load_language_model(name)
    embeddings: Any = model.get_output_embeddings()
    known = range(0 if embeddings is None else len(embeddings.weight))
    if not isinstance(ids, list) or len(ids) != len(labels) or not all(type(i) is int and i in known for i in ids):
        raise UserError(f"{name}: label_words of config.json are not one token a label", "export the model again")
    restrict_to(model, ids)
    read_at_first_token(model)
    return model


def _on_device(model: Any) -> Any:
    return model.eval().to(current_device())


def _from_export(source: Source) -> Classifier:
    """A model that `from_pretrained` alone cannot read, such as one whose layers have different widths."""
    card, model = read_card(source.folder), load_subnetwork(source.folder)
    tokenizer, length = read_tokenizer(source.name), source.length(card.max_length)
    return TorchClassifier(source.name, card.labels or (), _on_device(model), tokenizer, length, source.pairs)


def _from_onnx(source: Source) -> Classifier:
    from srnet.audit.onnx import load_onnx

    return load_onnx(source.folder, source.name, source.max_length, source.pairs)
