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
from srnet.models.model import Classifier, Opening, OpenModel, TorchModel
from srnet.models.subnetwork_files import SUBNETWORK
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_KEY = re.compile(r"[0-9a-f]{4,}")
"""What the beginning of a key looks like."""


class StoredModel(Protocol):
    """What is known about a model of a store."""

    @property
    def key(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def max_length(self) -> int: ...


class ModelStore(Protocol):
    """A store that has models by key."""

    def keys(self) -> list[str]: ...

    def path(self, key: str) -> Path: ...

    def find(self, prefix: str) -> StoredModel:
        """The model whose key begins with `prefix`; an error if there is not exactly one."""


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
    name, folder = str(ref), Path(ref)
    if not name.strip():
        raise UserError("a model has no name", "give a key, a folder or a hub name")
    reads_pairs = pairs if pairs is not None else task is None or task.has_pairs
    length = CLASSES.max_length if task is None else task.answer_kind.max_length
    opening = Opening(name, reads_pairs, max_length, length)
    if folder.is_dir():
        return open_folder(folder, opening)
    if folder.exists() or name.startswith((".", "/", "~")):
        raise UserError(f"{name} is not a folder", "give the folder of a model")
    if store is not None and is_key(ref, store):
        found = store.find(name)
        label = f"{found.label} ({found.key[:8]})"
        return open_folder(store.path(found.key), replace(opening, name=label, default_length=found.max_length))
    return open_checkpoint(name, opening)


def open_classifier(ref: Reference | Classifier, store: ModelStore | None = None, **options: Any) -> Classifier:
    """A classifier of texts: an object of the user's own as it is, or what `open_model` finds."""
    return open_model(ref, store, **options).require_classifier() if isinstance(ref, str | Path) else ref


def open_folder(folder: Path, opening: Opening) -> OpenModel:
    """The model in a folder of any format."""
    require_readable_in(folder)
    check_no_adapter(folder)
    if kind := _kind_of(folder):
        format = next((each for each in FORMATS.values() if each.kind == kind), None)
        if format is None:
            raise EXPORT.unknown(folder)
        return format.read(folder, opening)
    if any((folder / name).is_file() for name in CHECKPOINTS):
        return open_checkpoint(str(folder), opening)
    if (folder / GRAPH).is_file():
        return open_foreign_graph(folder, opening)
    files = ", ".join((SUBNETWORK.file, EXPORT.file, *CHECKPOINTS))
    raise UserError(f"{folder} holds no {files} or {GRAPH}", "give the folder of a model")


def _kind_of(folder: Path) -> str:
    """The kind that the manifest of a folder names; "" for a folder of others. A manifest by hand has no checksum."""
    if SUBNETWORK.is_in(folder):
        return SubnetworkFolder.kind
    facts = read_json_object(folder / EXPORT.file) if EXPORT.is_in(folder) else {}
    return str(facts.get("kind", "unknown")) if "sha256" in facts else ""


def load_subnetwork(folder: Path | str, backbone: str | None = None) -> PreTrainedModel:
    """An ordinary Hugging Face model with the subnetwork's logits. Also reads folders of complete models.

    `backbone` replaces the backbone's location in the subnetwork's manifest; its hash must match in any case.
    """
    model = open_folder(Path(folder), Opening(str(folder), backbone=backbone))
    if not isinstance(model, TorchModel):
        raise UserError(f"{folder} is an ONNX model", "onnxruntime runs it: see examples/onnx_classify.py")
    return model.module
