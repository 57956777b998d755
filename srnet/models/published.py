"""Masks that others have published, read with the backbone's own weights: a subnetwork like ours.

Those of the SRNet paper's code are a torch file with tensors of zeros and ones by name; those of SMP are in `smp`.
"""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from srnet.core.errors import UserError
from srnet.core.files import require_readable
from srnet.masks.mask import Mask
from srnet.masks.parametrization import weight_name
from srnet.models.backbones import find_own_classifier, has_language_model, load_backbone
from srnet.models.formats.smp import Shapes, linear_shapes, read_smp, stack_shapes
from srnet.models.heads import Head
from srnet.models.subnetwork import Subnetwork
from srnet.tasks.answers.base import get_answer
from srnet.tasks.answers.classes import CLASSES

_ENDINGS = (".weight_mask", ".weight.mask", ".mask", ".weight")
"""Mask training writes `.weight`, torch's own pruning `.weight_mask`."""
_DEEPEST = 4
"""Dicts around the one with the tensors: `{"model": {"state_dict": ...}}`."""
_REAL = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}) | {
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
}  # fmt: skip


def _read_reference(path: Path, shapes: Shapes) -> tuple[Mask, list[str]]:
    """The mask in a published file, and the names of its other entries."""
    entries, ignored = _tensors_in(_load(path), path)
    masks: dict[str, torch.Tensor] = {}
    for entry, tensor in entries.items():
        name = _known_name(entry, shapes, path)
        if name in masks:
            raise UserError(f"{path} has two masks for {name}, one of them '{entry}'", "keep one of them")
        masks[name] = _checked(entry, tensor, shapes[name], path)
    return Mask(masks), ignored


def _load(path: Path) -> Any:
    """Load tensors and plain containers; anything else in a pickle is refused before it can run."""
    if not path.exists():
        raise UserError(f"there is no file {path}", "give the mask.pt that was published")
    require_readable(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old pickle protocols: the published files are from 2022
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            raise UserError(
                f"{path} has more than tensors in it, or is not a torch file, so it was not loaded",
                "a mask is a dict of tensors, written with torch.save",
            ) from error
        except Exception as error:  # torch has no exception of its own for a damaged file: KeyError, OSError, ...
            raise UserError(f"{path} cannot be read as a torch file", "it may be truncated") from error


def _tensors_in(loaded: Any, path: Path, levels: int = _DEEPEST) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The tensors by name, perhaps under one key such as `state_dict`, and the names of what is no tensor."""
    if not isinstance(loaded, dict):
        raise UserError(f"{path} holds a {type(loaded).__name__}, not masks by name", "a mask is a dict of tensors")
    tensors = {str(key): value for key, value in loaded.items() if isinstance(value, torch.Tensor)}
    ignored = [str(key) for key, value in loaded.items() if not isinstance(value, torch.Tensor)]
    nested = [key for key, value in loaded.items() if isinstance(value, dict)]
    if tensors:
        return tensors, ignored
    if len(nested) != 1 or levels == 0:  # a pickle can contain itself
        raise UserError(f"{path} holds no masks by name", "a mask is a dict of tensors")
    inner, inner_ignored = _tensors_in(loaded[nested[0]], path, levels - 1)
    return inner, [name for name in ignored if name != str(nested[0])] + inner_ignored


def _known_name(entry: str, shapes: Shapes, path: Path) -> str:
    """The state-dict name of an entry, which authors write in several ways."""
    module = entry
    while module.startswith("module."):  # the prefix of DataParallel
        module = module.removeprefix("module.")
    ending = next((ending for ending in _ENDINGS if module.endswith(ending)), "")
    name = weight_name(module.removesuffix(ending))
    if name not in shapes:
        raise UserError(
            f"{path} has a mask '{entry}', but this backbone has no linear layer of that name",
            f"its names look like {next(iter(shapes))}",
        )
    return name


def _checked(entry: str, tensor: torch.Tensor, shape: tuple[int, ...], path: Path) -> torch.Tensor:
    if tuple(tensor.shape) != shape:
        raise UserError(
            f"{path}: mask '{entry}' is {_times(tuple(tensor.shape))}, the backbone's matrix {_times(shape)}",
            "give the backbone and the labels that it was made for",
        )
    plain = tensor.dtype in _REAL and tensor.layout == torch.strided and tensor.device.type == "cpu"
    if not plain or not bool(((tensor == 0) | (tensor == 1)).all()):
        raise UserError(f"{path}: mask '{entry}' has other values than 0 and 1", "binarise scores first")
    return tensor.bool()


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


# --- the subnetwork of a mask ---------------------------------------------------------------------------------------

IMPORTED = ("smp", "srnet-reference")
"""Formats that are read."""


def outputs_of(
    format: str, backbone: str, labels: tuple[str, ...], words: tuple[str, ...], task: Any
) -> tuple[tuple[str, ...], Head]:
    """The labels of the model and the head that gives their logits: as given, or those of a task or its description."""
    if bool(labels) == (task is not None):
        raise UserError("the labels of the model are unclear", "give either labels or a task")
    if len(set(labels)) != len(labels) or not all(labels) or len(labels) == 1:
        raise UserError(f"{list(labels)} are not labels of a model", "give at least two different names")
    if words and format != "smp":
        raise UserError(f"masks of format '{format}' go with a classifier", "leave the label words out")
    if task is None:
        return labels, Head(words)
    if not words and format == "smp" and has_language_model(backbone):
        words = tuple(task.label_words)
    per_token = get_answer(getattr(task, "answer", CLASSES.name)).per_token
    return tuple(task.labels), Head(words, per_token)


def read_published(
    file: Path, format: str, backbone: str, labels: tuple[str, ...], head: Head
) -> tuple[Subnetwork, Mask, list[str]]:
    """The subnetwork, its mask, and what to know before relying on its scores."""
    base = load_backbone(backbone, labels, seed=0, head=head)
    mask, remarks = _read_mask(file, format, base.model)
    own = None if head.words else find_own_classifier(backbone, labels, head, in_order=True)
    if own and own.kept:
        own.copy_into(base.model)
        remarks.append(f"the checkpoint's own classifier was kept for {', '.join(labels)}: {own.why}")
        name = weight_name(own.name)
        if name in mask:  # its rows are in the checkpoint's order, the labels may be in another
            mask = Mask({**mask, name: mask[name][list(own.order)]})
    elif own:
        remarks.append(f"the head is randomly initialised, for {own.why}: scores mean nothing until it is trained")
    return Subnetwork.of(base, labels, base.model.state_dict(), mask), mask, remarks


def _read_mask(file: Path, format: str, model: nn.Module) -> tuple[Mask, list[str]]:
    """The mask, and what of the file or of the model it leaves out."""
    if format == "smp":
        return read_smp(file, stack_shapes(model)), []
    mask, ignored = _read_reference(file, linear_shapes(model))
    remarks = [f"ignored in {file}, because it is no tensor: {', '.join(ignored)}"] if ignored else []
    whole = [name for name in stack_shapes(model) if name not in mask]
    if whole:
        remarks.append(f"{len(whole)} matrices of the layers have no mask and stay whole, {whole[0]} the first")
    return mask, remarks
