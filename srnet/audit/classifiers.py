"""From two lists of texts to what a model reads, and a classifier of such texts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from srnet.core.device import current_device
from srnet.core.errors import UserError, reason, running, shortened
from srnet.core.files import read_json_object, require_readable_in
from srnet.core.names import DOWNLOAD_VARIABLE, are_unnamed, match_names, output_names
from srnet.core.sealed import LONGEST_TEXT, check_max_length, read_sealed
from srnet.experiment.nodes.base import TaskSpec
from srnet.experiment.rebuild import stored_model
from srnet.experiment.store import Store
from srnet.models.backbones import has_language_model, keep_own_classifier, load_backbone, load_language_model
from srnet.models.checkpoints import (
    LARGEST_COUNT,
    check_no_adapter,
    read_config,
    read_pretrained,
    read_tokenizer,
    reading,
)
from srnet.models.exported import CARD, is_exported
from srnet.models.formats.graphs import SEGMENTS, graph_logits
from srnet.models.formats.onnx import GRAPH, open_graph
from srnet.models.heads import read_at_first_token, restrict_to
from srnet.models.subnetwork import Subnetwork, load_subnetwork
from srnet.models.subnetwork_files import CARD as SUBNETWORK_CARD
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.splits import Split
from srnet.training.data import Encoded, encode
from srnet.training.predict import predict


def encode_pairs(text_a: Sequence[str], text_b: Sequence[str], tokenizer: Any, max_length: int, pairs: bool) -> Encoded:
    """Tokens of each pair, as in training. With `pairs` a last row is added, which belongs to no text.

    `encode` reads a split without any second text as single texts. With the added row, a pair whose second text is
    empty is encoded the same way whichever rows come with it.
    """
    first, second = ((*map(_encodable, texts), ".") for texts in (text_a, text_b))
    if not pairs:
        first, second = first[:-1], ("",) * len(text_a)
    ids = tuple(map(str, range(len(first))))
    labels = np.zeros(len(first), dtype=np.int64)
    return encode(Split("rows", "ID", ids, first, second, labels, ("",) * len(first)), tokenizer, max_length)


def _encodable(text: str) -> str:
    """Without lone surrogates, which JSON can hold and tokenizers refuse."""
    return text if text.isascii() else text.encode(errors="replace").decode()


@dataclass(frozen=True)
class TextClassifier(ABC):
    """A model in memory with its tokenizer."""

    name: str
    labels: tuple[str, ...]
    model: Any
    tokenizer: Any
    max_length: int
    pairs: bool = True
    """Whether there is a second text, even where it is empty."""

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        if not text_a:
            return np.empty((0, len(self.labels)), dtype=np.float32)
        data = encode_pairs(text_a, text_b, self.tokenizer, self.max_length, self.pairs)
        return self.predict(data)[: len(text_a)]

    @abstractmethod
    def predict(self, data: Encoded) -> np.ndarray:
        """The logits of every row."""


# --- which output of a model stands for which label of a task ---


@dataclass(frozen=True)
class LabelMatch:
    """For each label of the task, the output that stands for it. `note`: what had to be assumed."""

    order: tuple[int, ...]
    note: str = ""


def match_labels(
    model: str, theirs: Sequence[str], ours: Sequence[str], spellings: Mapping[str, str] | None = None
) -> LabelMatch:
    """Match by name, then by the task's other spellings; outputs without names are taken in the task's order."""
    order = match_names(theirs, ours, spellings)
    if order is not None:
        return LabelMatch(order)
    if len(theirs) == len(ours) and are_unnamed(theirs):
        return LabelMatch(
            tuple(range(len(ours))),
            f"{model} does not name its outputs; they are taken in the order of the task: {', '.join(ours)}",
        )
    listed = [shortened(", ".join(labels), 80) for labels in (theirs, ours)]
    raise UserError(
        f"{model} tells {listed[0]} apart, the task {listed[1]}",
        "audit models of one task, or name the labels alike (id2label in config.json)",
    )


# --- what a folder says about its model: `srnet.json` of an export, or a plain `config.json` ---

CONFIG = "config.json"


@dataclass(frozen=True)
class Card:
    labels: tuple[str, ...] | None
    """In the order of the outputs; None where they have no names."""
    max_length: int
    pad_token_id: int = 0


def check_files(folder: Path) -> None:
    """Refuse an export whose files were altered. A card that was written by hand has no checksums."""
    if is_exported(folder) and "sha256" in read_json_object(folder / CARD):
        read_sealed(folder, CARD)


def read_card(folder: Path) -> Card:
    return _exported(folder / CARD) if is_exported(folder) else _config(folder / CONFIG)


def _exported(path: Path) -> Card:
    card = read_json_object(path, labels=list, max_length=int)
    if card.get("per_token"):
        raise UserError(f"{path.parent} marks spans of a text", "an audit needs a classifier of texts")
    if not card["labels"] or not all(isinstance(label, str) for label in card["labels"]):
        raise UserError(f"{path} names no labels", "export the model again")
    check_max_length(path, card["max_length"])
    return Card(tuple(card["labels"]), card["max_length"])


def _config(path: Path) -> Card:
    config = read_json_object(path)
    length = _number(config, "max_length", CLASSES.max_length)
    positions = _number(config, "max_position_embeddings", length)
    return Card(_id2label(config, path), min(length, positions), _number(config, "pad_token_id", 0))


def _id2label(config: Mapping[str, Any], path: Path) -> tuple[str, ...] | None:
    named = config.get("id2label")
    if named is None:
        return None
    if not isinstance(named, dict) or sorted(named) != sorted(map(str, range(len(named)))):
        raise UserError(f"{path}: id2label does not number the outputs", "restore the file")
    return tuple(str(named[str(index)]) for index in range(len(named)))


def _number(values: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = values.get(key)
    return value if type(value) is int and 0 < value <= LONGEST_TEXT else otherwise


# --- a classifier in ONNX: a folder with `model.onnx`, a tokenizer, and `srnet.json` or `config.json` ---


class OnnxClassifier(TextClassifier):
    """A graph that onnxruntime runs."""

    def predict(self, data: Encoded) -> np.ndarray:
        return graph_logits(self.model, data)


def load_onnx(folder: Path, name: str, max_length: int | None = None, pairs: bool = True) -> OnnxClassifier:
    check_files(folder)
    card = read_card(folder)
    graph = open_graph(folder / GRAPH)
    length = graph.max_length(card.max_length if max_length is None else max_length)
    tokenizer = _tokenizer(folder, card)
    if SEGMENTS in graph.inputs:  # tokenizer.json does not say whether they are read
        tokenizer.model_input_names = list(dict.fromkeys([*tokenizer.model_input_names, SEGMENTS]))
    return OnnxClassifier(name, _labels(card, graph.width, folder), graph, tokenizer, length, pairs)


def _labels(card: Card, width: int | None, folder: Path) -> tuple[str, ...]:
    """Those of the card; outputs without names are numbered."""
    if card.labels is None and width is not None and width <= LARGEST_COUNT:
        return output_names(width)
    if card.labels is None or width not in (None, len(card.labels)):
        raise UserError(
            f"{folder} names {len(card.labels or ())} labels for {width or 'any number of'} outputs",
            "give config.json id2label",
        )
    return card.labels


def _tokenizer(folder: Path, card: Card) -> Any:
    try:
        with reading(folder):
            if (folder / "tokenizer_config.json").is_file():
                tokenizer = read_pretrained(AutoTokenizer, str(folder))
            else:
                tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
                tokenizer.name_or_path = str(folder)
            if tokenizer.pad_token_id is None:
                tokenizer.pad_token = tokenizer.convert_ids_to_tokens(card.pad_token_id)
    except Exception as error:  # the tokenizers library raises plain Exceptions
        raise UserError(f"{folder} has no usable tokenizer: {reason(error)}", "restore it") from error
    return tokenizer


# --- any classifier behind one protocol ---

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
    if (folder / SUBNETWORK_CARD).is_file():
        return _from_subnetwork
    if any((folder / name).is_file() for name in _CHECKPOINTS):
        return _from_hugging_face
    if (folder / GRAPH).is_file():
        return _from_onnx
    if is_exported(folder):
        return _from_export
    raise UserError(
        f"{folder} holds no model", f"it needs one of {SUBNETWORK_CARD}, {', '.join(_CHECKPOINTS)}, {GRAPH}"
    )


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

    return load_onnx(source.folder, source.name, source.max_length, source.pairs)
