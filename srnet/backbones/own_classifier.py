"""The classifier that a fine-tuned checkpoint has, for masks that were made for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from srnet.backbones.checkpoints import read_model
from srnet.backbones.layers import classifier_of
from srnet.backbones.loading import LoadedBackbone
from srnet.lazy import torch

_UNNAMED = re.compile(r"label_\d+")


@dataclass(frozen=True)
class OwnClassifier:
    """Whether the classifier of a checkpoint was kept, and why or why not."""

    kept: bool
    why: str
    name: str = ""
    """Of the layer."""
    order: tuple[int, ...] = ()
    """For each label, the index of the checkpoint's output."""


def keep_own_classifier(base: LoadedBackbone, labels: tuple[str, ...]) -> OwnClassifier:
    """Replace the randomly initialised classifier by the checkpoint's own, if its labels fit.

    They fit if there are as many and, where the checkpoint names them, if the names are the same but for case. Outputs
    are then put in the order of `labels`. For masks of a model that is already fine-tuned: training always starts from
    a randomly initialised classifier.
    """
    if base.head.per_token:
        return OwnClassifier(False, "a checkpoint's classifier is for texts, not for tokens")
    with torch.random.fork_rng(devices=[]):  # missing weights are randomly initialised
        own, missing = read_model(base.head.loader(), base.name, ignore_mismatched_sizes=True)
    classifier = classifier_of(own)
    if classifier is None or f"{classifier}.weight" in missing:
        return OwnClassifier(False, "the checkpoint has no classifier")
    if missing:
        return OwnClassifier(False, f"the checkpoint has no '{min(missing)}'")
    names = tuple(str(own.config.id2label.get(index, "")) for index in range(own.config.num_labels))
    if len(names) != len(labels):
        return OwnClassifier(False, f"the checkpoint's classifier has {len(names)} outputs for {len(labels)} labels")
    theirs, ours = ([name.strip().lower() for name in each] for each in (names, labels))
    named = not all(_UNNAMED.fullmatch(name) for name in theirs)
    if named and (sorted(theirs) != sorted(ours) or len(set(ours)) != len(ours)):
        return OwnClassifier(False, f"the checkpoint's classifier has the labels {', '.join(names)}")
    order = tuple(theirs.index(label) for label in ours) if named else tuple(range(len(labels)))
    source, target = own.get_submodule(classifier), base.model.get_submodule(classifier)
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            parameter.copy_(source.get_parameter(name)[list(order)])
    why = "its labels are the same" if named else "it names no labels, so its outputs are taken in the given order"
    return OwnClassifier(True, why, classifier, order)
