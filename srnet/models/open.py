"""The one door to models: what a string names, and the model that it names, of srnet or of others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from srnet.core.errors import UserError
from srnet.core.files import read_json_object, require_readable_in
from srnet.core.lazy import transformers
from srnet.core.names import DOWNLOAD_VARIABLE, output_names
from srnet.core.sealed import LONGEST_TEXT
from srnet.models.backbones import fit_tokenizer, is_decoder, load_backbone, load_fine_tuned, load_language_model
from srnet.models.checkpoints import (
    LARGEST_COUNT,
    LONGEST_READ,
    check_no_adapter,
    folder_or_name,
    read_config,
    read_tokenizer,
    tokenizer_in,
)
from srnet.models.exported import EXPORT, TOKENIZER, TOKENIZER_IN, opening
from srnet.models.formats.base import FORMATS
from srnet.models.formats.graphs import GRAPH, SEGMENTS, Graph, GraphModel, check_width, open_graph
from srnet.models.formats.merged import Merged
from srnet.models.formats.subnetwork import SubnetworkFolder
from srnet.models.heads import LANGUAGE, use_words
from srnet.models.model import Classifier, OpenModel, TorchModel
from srnet.models.subnetwork import SUBNETWORK
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.answers.text import LanguageAnswer
from srnet.tasks.base import Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel


CHECKPOINTS = ("model.safetensors", "model.safetensors.index.json")
_FIX = f"give a key of the store, a folder or a hub name; {DOWNLOAD_VARIABLE}=1 allows a download"
_CONFIG = "config.json"
_KEY = re.compile(r"[0-9a-f]{4,}")
"""What the beginning of a key looks like."""


class ModelStore(Protocol):
    """A store that has models by key."""

    def keys(self) -> list[str]: ...

    def path(self, key: str) -> Path: ...

    def find(self, prefix: str) -> Any:
        """The model whose key begins with `prefix`: its `key`, `label`, `max_length` and `own_folder`."""


Reference = str | Path
"""A key of the store, a folder, a shipped backbone, or a name on the Hub."""


def is_key(ref: object, store: ModelStore | None) -> bool:
    """Whether `ref` is a key of the store, or the beginning of one. A folder of that name comes first."""
    if store is None or not isinstance(ref, str) or not ref or Path(ref).is_dir():
        return False
    return _KEY.fullmatch(ref) is not None or any(key.startswith(ref) for key in store.keys())  # noqa: SIM118


def open_model(
    ref: Reference,
    store: ModelStore | None = None,
    task: Task | None = None,
    *,
    pairs: bool | None = None,
    max_length: int | None = None,
    language: bool | None = None,
) -> OpenModel:
    """The model that `ref` names: a key of `store`, a folder or a hub name. Nothing that is loaded can run code.

    `task` decides whether texts are read in pairs, unless `pairs` does, and where they are cut if the model does not
    know that. `max_length` cuts them there instead. `language`: whether a checkpoint is opened with its language-model
    head; by default if the task is one of language models.
    """
    if language is None:
        language = task is not None and task.answer_kind.language
    opened = _open(str(ref), Path(ref), store, language)
    default = CLASSES.max_length if task is None else task.answer_kind.max_length
    reads_pairs = pairs if pairs is not None else task is None or task.has_pairs
    length = max_length if max_length is not None else opened.length or default
    return replace(opened, length=length, pairs=reads_pairs)


def _open(name: str, folder: Path, store: ModelStore | None, language: bool) -> OpenModel:
    if not name.strip():
        raise UserError("a model has no name", "give a key, a folder or a hub name")
    if folder.is_dir():
        return _open_folder(folder, language)
    if folder.exists() or name.startswith((".", "/", "~")):
        raise UserError(f"{name} is not a folder", "give the folder of a model")
    if store is None or not is_key(name, store):
        return _open_checkpoint(name, language)
    found = store.find(name)
    label, opened = f"{found.label} ({found.key[:8]})", _open_folder(store.path(found.key))
    return replace(opened, name=label, length=found.max_length, folder=found.own_folder or opened.folder)


def open_as_trained(ref: Reference, store: ModelStore | None = None, max_length: int | None = None) -> OpenModel:
    """As `open_model`; a decoder's checkpoint with the language-model head that it was pre-trained with."""
    folder = Path(ref)
    if folder.is_dir():
        require_readable_in(folder)
        plain = not _kind_of(folder) and _has_checkpoint(folder)
    else:
        plain = bool(str(ref).strip()) and not is_key(ref, store)
    return open_model(ref, store, max_length=max_length, language=plain and is_decoder(str(ref), _FIX))


def open_classifier(ref: Reference | Classifier, store: ModelStore | None = None, **options: Any) -> Classifier:
    """A classifier of texts: an object of the user's own as it is, or what `open_model` opens."""
    if not isinstance(ref, str | Path):
        return ref
    opened = open_model(ref, store, **options)
    if opened.per_token:
        raise UserError(f"{opened.name} marks spans of a text", "give a classifier of texts")
    return opened.require_labels()


def _open_folder(folder: Path, language: bool = False) -> OpenModel:
    """The model in a folder of any format."""
    require_readable_in(folder)
    check_no_adapter(folder)
    if kind := _kind_of(folder):
        format = next((each for each in FORMATS.values() if each.kind == kind), None)
        if format is None:
            raise EXPORT.unknown(folder)
        return format.read(folder)
    if _has_checkpoint(folder):
        return _open_checkpoint(str(folder), language)
    if (folder / GRAPH).is_file():
        return _open_foreign_graph(folder)
    files = ", ".join((SUBNETWORK.file, EXPORT.file, *CHECKPOINTS))
    raise UserError(f"{folder} holds no {files} or {GRAPH}", "give the folder of a model")


def _kind_of(folder: Path) -> str:
    """The kind that the manifest of a folder names; "" for a folder of others."""
    if SUBNETWORK.is_in(folder):
        return SubnetworkFolder.kind
    return str(read_json_object(folder / EXPORT.file).get("kind") or "unknown") if EXPORT.is_in(folder) else ""


def check_trainable(name: str) -> None:
    """Refuse folders of srnet that are no plain checkpoint, and those of others without one."""
    folder = Path(name)
    if not folder.is_dir():
        return
    check_no_adapter(folder)
    kind = _kind_of(folder)
    if kind == SubnetworkFolder.kind:
        fix = f"make it one: srnet export {shlex.quote(name)} --format merged --out FOLDER"
        raise UserError(f"{name} is a subnetwork, not a checkpoint", fix)
    if kind not in ("", Merged.kind) or (not kind and (folder / GRAPH).is_file() and not _has_checkpoint(folder)):
        what = "an ONNX graph" if (folder / GRAPH).is_file() else f"a model of kind '{kind}'"
        raise UserError(f"{name} is {what}, which cannot be trained", "give the checkpoint that it was made from")


def _has_checkpoint(folder: Path) -> bool:
    return any((folder / name).is_file() for name in CHECKPOINTS)


def load_subnetwork(folder: Path | str, backbone: str | None = None) -> PreTrainedModel:
    """An ordinary Hugging Face model with the logits of the subnetwork, or complete model, in `folder`.

    `backbone` replaces the backbone's location in the subnetwork's manifest; its hash must match in any case.
    """
    folder = Path(folder)
    if backbone is not None and EXPORT.is_in(folder):
        raise UserError(f"{folder} is a complete model and needs no backbone", "leave the backbone out")
    model = _open_folder(folder) if backbone is None else SubnetworkFolder.read(folder, backbone)
    if not isinstance(model, TorchModel):
        raise UserError(f"{folder} is an ONNX model", "onnxruntime runs it: see examples/onnx_classify.py")
    if model.not_classifier:  # a checkpoint of others: its head would be random
        fix = "load it with transformers, as what its config.json names"
        raise UserError(f"{folder} holds no subnetwork, and {model.not_classifier}", fix)
    return model.module


# --- models of others: Hugging Face checkpoints, and folders with an ONNX graph -----------------------------------


def _open_checkpoint(name: str, language: bool) -> TorchModel:
    """A shipped backbone, a folder or a name on the Hub, with its classifier or label words, or its language model."""
    if language:
        return _open_language_model(name)
    config = read_config(name, "model", _FIX)
    labels = output_names(config.num_labels, config.id2label)
    words, problem = getattr(config, "label_words", None), ""
    if words is None:
        model, problem = load_fine_tuned(name, labels)
    else:
        model = load_language_model(name)
    tokenizer = read_tokenizer(name)
    fit_tokenizer(model, tokenizer, name, as_is=True)
    if words is not None:
        use_words(model, _checked_words(name, words, labels, model), per_token=False)
    folder = Path(folder_or_name(name))
    return TorchModel(
        name=name,
        kind="checkpoint",
        labels=labels,
        load_tokenizer=lambda: tokenizer,
        folder=folder if folder.is_dir() else None,
        length=LONGEST_READ,
        not_classifier=problem,
        module=model.eval(),
    )


def _open_language_model(name: str) -> TorchModel:
    base = load_backbone(name, (), seed=0, head=LANGUAGE)
    folder = Path(folder_or_name(name))
    return TorchModel(
        name=name,
        kind="checkpoint",
        labels=LanguageAnswer.outputs,
        load_tokenizer=lambda: base.tokenizer,
        folder=folder if folder.is_dir() else None,
        module=base.model.eval(),
    )


def _checked_words(name: str, ids: Any, labels: tuple[str, ...], model: Any) -> list[int]:
    """The tokens that stand for the labels in a merged model with label words (`srnet export --format merged`)."""
    known = range(len(model.get_output_embeddings().weight))
    if not isinstance(ids, list) or len(ids) != len(labels) or not all(type(i) is int and i in known for i in ids):
        raise UserError(f"{name}: label_words of config.json are not one token a label", "export the model again")
    return ids


def _open_foreign_graph(folder: Path) -> GraphModel:
    """A folder with a graph, its tokenizer, and a config.json with the names of the labels."""
    config = read_json_object(folder / _CONFIG)
    graph = open_graph(folder / GRAPH)
    labels = _labels(config, graph, folder)
    length = _number(config, "max_length", CLASSES.max_length)
    model = GraphModel(
        name=str(folder),
        kind="onnx",
        labels=labels,
        load_tokenizer=lambda: _tokenizer(folder, graph, _number(config, "pad_token_id", 0)),
        folder=folder,
        length=min(length, _number(config, "max_position_embeddings", length)),
        graph=check_width(graph, labels),
        count_words=lambda: len(model.tokenizer),
    )
    return model


def _labels(config: Mapping[str, Any], graph: Graph, folder: Path) -> tuple[str, ...]:
    """The names of the outputs; those without names are numbered."""
    named = config.get("id2label")
    if named is None and graph.width is not None and graph.width <= LARGEST_COUNT:
        return output_names(graph.width)
    if not isinstance(named, dict) or sorted(named) != sorted(map(str, range(len(named)))):
        raise UserError(f"{folder / _CONFIG}: id2label does not number the outputs", "restore the file")
    return tuple(str(named[str(index)]) for index in range(len(named)))


def _number(values: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = values.get(key)
    return value if type(value) is int and 0 < value <= LONGEST_TEXT else otherwise


def _tokenizer(folder: Path, graph: Graph, pad_token_id: int) -> Any:
    with opening(folder, TOKENIZER_IN):
        if (folder / "tokenizer_config.json").is_file():
            tokenizer = tokenizer_in(str(folder))
        else:
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / TOKENIZER))
            tokenizer.name_or_path = str(folder)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(pad_token_id)
    if SEGMENTS in graph.inputs:  # tokenizer.json does not say whether they are read
        tokenizer.model_input_names = list(dict.fromkeys([*tokenizer.model_input_names, SEGMENTS]))
    return tokenizer
