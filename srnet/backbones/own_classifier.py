"""The classifier that a fine-tuned checkpoint has, for models whose labels are the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from srnet.backbones.checkpoints import SHIPPED, read_config, read_model
from srnet.backbones.head import Head
from srnet.backbones.layers import classifier_of
from srnet.backbones.loading import LoadedBackbone, hash_tensors
from srnet.errors import shortened
from srnet.lazy import nn, torch, transformers
from srnet.names import are_unnamed, match_names, output_names


@dataclass(frozen=True)
class OwnClassifier:
    """The classifier of a checkpoint where its outputs are a task's labels, and why they are or are not."""

    why: str
    name: str = ""
    """Of the layer."""
    order: tuple[int, ...] = ()
    """For each label, the index of the checkpoint's output; empty if the classifier does not fit."""
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Of the layer, by name, with rows in the order of the labels."""

    @property
    def kept(self) -> bool:
        """Whether it fits, so that models start with it."""
        return bool(self.order)

    @property
    def sha256(self) -> str:
        """Of the tensors in the order of the labels."""
        return hash_tensors(self.tensors)

    def copy_into(self, model: nn.Module) -> None:
        """Replace the randomly initialised classifier, if this one fits."""
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                model.get_parameter(name).copy_(tensor)

    def __str__(self) -> str:
        return f"{'kept' if self.kept else 'randomly initialised'}, because {self.why}"


def keep_own_classifier(base: LoadedBackbone, labels: tuple[str, ...], *, in_order: bool = False) -> OwnClassifier:
    """Replace the randomly initialised classifier by the checkpoint's own, if its labels fit."""
    own = find_own_classifier(base.name, labels, base.head, in_order=in_order)
    own.copy_into(base.model)
    return own


def find_own_classifier(name: str, labels: tuple[str, ...], head: Head, *, in_order: bool = False) -> OwnClassifier:
    """The classifier of the checkpoint `name` for `labels`.

    It fits if its outputs have the names of the labels, in any order, or if it gives a score and a score is needed.
    Outputs without names fit only with `in_order`: then they are taken in the order of the labels.
    """
    if head.words:
        return OwnClassifier("label words use the language-model head")
    if name in SHIPPED:
        return OwnClassifier("the checkpoint has no classifier")
    config = read_config(name)
    classes = _classes(config)
    if classes and not any(each.endswith(head.loader().__name__.removeprefix("AutoModel")) for each in classes):
        kind = "tokens" if head.per_token else "texts"  # a layer of another head may have the same name
        return OwnClassifier(f"the checkpoint is a {classes[0]}, no classifier of {kind}")
    theirs = output_names(config.num_labels, config.id2label)
    order, why = _match(theirs, labels, in_order)
    if order:  # only then are weights read
        return _read_classifier(name, head, order, why)
    says_nothing = not classes and are_unnamed(theirs)
    return OwnClassifier("the checkpoint's config.json names no classifier and no labels" if says_nothing else why)


def _classes(config: Any) -> list[str]:
    """The classes of transformers that a checkpoint says it is; a damaged config.json may have anything there."""
    named = config.architectures if isinstance(config.architectures, list) else []
    return [each for each in named if isinstance(each, str) and hasattr(transformers, each)]


def _read_classifier(name: str, head: Head, order: tuple[int, ...], why: str) -> OwnClassifier:
    """The classifier with its outputs in this order, unless the checkpoint lacks some of its head."""
    with torch.random.fork_rng(devices=[]):  # missing weights are randomly initialised
        model, missing = read_model(head.loader(), name, ignore_mismatched_sizes=True)
    layer = classifier_of(model)
    if layer is None or f"{layer}.weight" in missing:
        return OwnClassifier("the checkpoint has no classifier")
    if missing:
        return OwnClassifier(f"the checkpoint has no '{min(missing)}'")
    parameters = model.get_submodule(layer).named_parameters(prefix=layer)
    return OwnClassifier(why, layer, order, {key: p.detach()[list(order)] for key, p in parameters})


def _match(theirs: tuple[str, ...], labels: tuple[str, ...], in_order: bool) -> tuple[tuple[int, ...], str]:
    """The order of the outputs, empty if they do not fit, and why they do or do not."""
    named = shortened(", ".join(theirs), 80)
    if len(theirs) != len(labels):
        return (), f"the checkpoint's classifier has {len(theirs)} outputs for {len(labels)} labels"
    if len(labels) == 1:
        return (0,), "it gives one score"
    order = match_names(theirs, labels)
    if order is not None:
        return order, "its labels are the same"
    if not are_unnamed(theirs):
        return (), f"the checkpoint's classifier has the labels {named}"
    if in_order:
        return tuple(range(len(labels))), "it names no labels, so its outputs are taken in the given order"
    return (), f"the checkpoint's classifier names no labels ({named}); its config.json can name them, in id2label"
