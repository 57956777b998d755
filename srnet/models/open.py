"""The one door to models: what a string names, and the model that it names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import srnet.models.formats  # noqa: F401  registers the formats
from srnet.core.errors import UserError
from srnet.core.files import read_json_object, require_readable_in
from srnet.models.checkpoints import check_no_adapter
from srnet.models.exported import EXPORT
from srnet.models.formats.base import FORMATS
from srnet.models.formats.foreign import CHECKPOINTS, open_checkpoint, open_foreign_graph
from srnet.models.formats.graphs import GRAPH
from srnet.models.formats.subnetwork import SubnetworkFolder
from srnet.models.model import Classifier, OpenModel, TorchModel
from srnet.models.subnetwork_files import SUBNETWORK
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_KEY = re.compile(r"[0-9a-f]{4,}")
"""What the beginning of a key looks like."""


class ModelStore(Protocol):
    """A store that has models by key."""

    def keys(self) -> list[str]: ...

    def path(self, key: str) -> Path: ...

    def find(self, prefix: str) -> Any:
        """The model whose key begins with `prefix`: its `key`, `label` and `max_length`."""


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
) -> OpenModel:
    """The model that `ref` names. Nothing that is loaded can run code.

    `task` decides whether texts are read in pairs, unless `pairs` does, and where they are cut if the model does not
    know that. `max_length` cuts them there instead.
    """
    opened = _open(str(ref), Path(ref), store)
    default = CLASSES.max_length if task is None else task.answer_kind.max_length
    reads_pairs = pairs if pairs is not None else task is None or task.has_pairs
    length = max_length if max_length is not None else opened.length or default
    return replace(opened, length=length, pairs=reads_pairs)


def _open(name: str, folder: Path, store: ModelStore | None) -> OpenModel:
    if not name.strip():
        raise UserError("a model has no name", "give a key, a folder or a hub name")
    if folder.is_dir():
        return _open_folder(folder)
    if folder.exists() or name.startswith((".", "/", "~")):
        raise UserError(f"{name} is not a folder", "give the folder of a model")
    if store is None or not is_key(name, store):
        return open_checkpoint(name)
    found = store.find(name)
    label = f"{found.label} ({found.key[:8]})"
    return replace(_open_folder(store.path(found.key)), name=label, length=found.max_length)


def open_classifier(ref: Reference | Classifier, store: ModelStore | None = None, **options: Any) -> Classifier:
    """A classifier of texts: an object of the user's own as it is, or what `open_model` opens."""
    if not isinstance(ref, str | Path):
        return ref
    opened = open_model(ref, store, **options)
    if opened.per_token:
        raise UserError(f"{opened.name} marks spans of a text", "give a classifier of texts")
    return opened.require_labels()


def _open_folder(folder: Path) -> OpenModel:
    """The model in a folder of any format."""
    require_readable_in(folder)
    check_no_adapter(folder)
    if kind := _kind_of(folder):
        format = next((each for each in FORMATS.values() if each.kind == kind), None)
        if format is None:
            raise EXPORT.unknown(folder)
        return format.read(folder)
    if any((folder / name).is_file() for name in CHECKPOINTS):
        return open_checkpoint(str(folder))
    if (folder / GRAPH).is_file():
        return open_foreign_graph(folder)
    files = ", ".join((SUBNETWORK.file, EXPORT.file, *CHECKPOINTS))
    raise UserError(f"{folder} holds no {files} or {GRAPH}", "give the folder of a model")


def _kind_of(folder: Path) -> str:
    """The kind that the manifest of a folder names; "" for a folder of others."""
    if SUBNETWORK.is_in(folder):
        return SubnetworkFolder.kind
    return str(read_json_object(folder / EXPORT.file).get("kind") or "unknown") if EXPORT.is_in(folder) else ""


def load_subnetwork(folder: Path | str, backbone: str | None = None) -> PreTrainedModel:
    """An ordinary Hugging Face model with the subnetwork's logits. Also reads folders of complete models.

    `backbone` replaces the backbone's location in the subnetwork's manifest; its hash must match in any case.
    """
    folder = Path(folder)
    if backbone is not None and EXPORT.is_in(folder):
        raise UserError(f"{folder} is a complete model and needs no backbone", "leave the backbone out")
    model = _open_folder(folder) if backbone is None else SubnetworkFolder.read(folder, backbone)
    if not isinstance(model, TorchModel):
        raise UserError(f"{folder} is an ONNX model", "onnxruntime runs it: see examples/onnx_classify.py")
    return model.module
