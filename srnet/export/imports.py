"""Masks that others have published, each with the backbone's own weights: a subnetwork like ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from srnet.backbones import Head, has_language_model, keep_own_classifier, load_backbone
from srnet.errors import UserError
from srnet.export.reference_masks import read_reference
from srnet.export.shapes import linear_shapes, stack_shapes
from srnet.export.smp_masks import read_smp
from srnet.masks import Mask
from srnet.masks.parametrization import weight_name
from srnet.subnetwork import Subnetwork
from srnet.tasks.answers import CLASSES, get_answer

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
    own = None if head.words else keep_own_classifier(base, labels, in_order=True)
    if own and own.kept:
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
    mask, ignored = read_reference(file, linear_shapes(model))
    remarks = [f"ignored in {file}, because it is no tensor: {', '.join(ignored)}"] if ignored else []
    whole = [name for name in stack_shapes(model) if name not in mask]
    if whole:
        remarks.append(f"{len(whole)} matrices of the layers have no mask and stay whole, {whole[0]} the first")
    return mask, remarks
