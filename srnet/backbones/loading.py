"""A backbone with a head for a task's labels."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from srnet.backbones.checkpoints import loading, read_model, read_tokenizer, recorded_identity
from srnet.backbones.head import CLASSIFIER, Head
from srnet.backbones.language_model import check_architecture, has_head, no_language_model
from srnet.backbones.layers import classifier_of
from srnet.backbones.tokenization import max_positions, set_padding, set_segments
from srnet.errors import UserError
from srnet.label_words import read_at_first_token, restrict_to, token_ids
from srnet.lazy import nn, torch, transformers


@dataclass(frozen=True)
class LoadedBackbone:
    """A classifier on a backbone. `fresh`: the tensors that are randomly initialised, such as a new head's."""

    name: str
    sha256: str
    model: transformers.PreTrainedModel
    tokenizer: Any
    fresh: frozenset[str]
    head: Head = CLASSIFIER

    def max_length(self, wanted: int) -> int:
        """`wanted`, or less if the backbone has fewer positions."""
        length = int(min(wanted, self.tokenizer.model_max_length, max_positions(self.model)))
        if length < 1:
            raise UserError(f"backbone '{self.name}' reads no tokens", "correct its max_position_embeddings")
        return length

    def twins(self) -> dict[str, str]:
        """Tensors that share memory with an earlier one (T5's embeddings): their names, and the earlier one's name."""
        first: dict[int, str] = {}
        tensors = ((name, t) for name, t in self.model.state_dict().items() if t.numel())
        pairs = {name: first.setdefault(tensor.data_ptr(), name) for name, tensor in tensors}
        return {name: other for name, other in pairs.items() if name != other}

    def pretrained(self) -> dict[str, torch.Tensor]:
        """The backbone's own tensors, without the head."""
        return {name: t for name, t in self.model.state_dict().items() if name not in self.fresh}


def load_backbone(name: str, labels: tuple[str, ...], seed: int, head: Head = CLASSIFIER) -> LoadedBackbone:
    """Load `name` with a head for `labels`, initialised with `seed`. Never runs code from the checkpoint."""
    if head.words and len(head.words) != len(labels):
        raise UserError(
            f"{len(head.words)} label words for {len(labels)} labels", f"give one for each of {', '.join(labels)}"
        )
    if head.words:
        check_architecture(name)
    model, fresh = _read(name, labels, seed, head)
    tokenizer = read_tokenizer(name)
    if head.words and not has_head(model, fresh):
        raise no_language_model(name)
    state = {key: tensor for key, tensor in model.state_dict().items() if key not in fresh}
    settings = model.config.to_dict()  # of the checkpoint: before they change below
    with loading(name, "the tokenizer of"):
        vocabulary = tokenizer.get_vocab()
        set_padding(model, tokenizer, name)
        set_segments(model, tokenizer)
    identity = _identity(state, settings, vocabulary)
    model.newly_initialised = fresh
    if head.words:
        restrict_to(model, token_ids(head.words, tokenizer))
        if not head.per_token:
            read_at_first_token(model)
    return LoadedBackbone(name, identity, model, tokenizer, fresh, head)


def _read(name: str, labels: tuple[str, ...], seed: int, head: Head) -> tuple[Any, frozenset[str]]:
    """The model, and the names of its randomly initialised tensors."""
    with torch.random.fork_rng(devices=[]):  # initialising the head must not change the global random state
        torch.manual_seed(seed)
        model, missing = read_model(
            head.loader(),
            name,
            num_labels=len(labels),
            id2label=dict(enumerate(labels)),
            label2id={label: index for index, label in enumerate(labels)},
            ignore_mismatched_sizes=True,  # a head for other labels is replaced
        )
        return (model, missing) if head.words else (model, missing | _initialise_classifier(model, missing))


def _initialise_classifier(model: Any, missing: frozenset[str]) -> frozenset[str]:
    """Randomly initialise the classifier also where the checkpoint has one: it was trained for unspecified labels."""
    classifier = classifier_of(model)
    if classifier is None:
        return frozenset()
    if f"{classifier}.weight" not in missing:
        layer = model.get_submodule(classifier)
        with torch.no_grad():
            layer.weight.normal_(0.0, getattr(model.config.get_text_config(), "initializer_range", 0.02))
            if layer.bias is not None:
                layer.bias.zero_()
    return frozenset(key for key in model.state_dict() if key.startswith(f"{classifier}."))


def newly_initialised(model: nn.Module) -> frozenset[str]:
    """The parameters of a loaded model that the checkpoint gave no value."""
    return getattr(model, "newly_initialised", frozenset())


@lru_cache(maxsize=32)
def backbone_hash(name: str, head: Head = CLASSIFIER) -> str:
    """The identity of a backbone is its content: tensors, settings and vocabulary, as far as the head uses them."""
    known = recorded_identity(name) if head == CLASSIFIER else None
    if known is not None:
        return known
    labels = tuple(map(str, range(len(head.words) or 2)))
    return load_backbone(name, labels, seed=0, head=head).sha256


def _identity(state: dict[str, torch.Tensor], config: dict[str, Any], vocabulary: dict[str, int]) -> str:
    """The same tensors under other heads, other activations or another vocabulary are another backbone."""
    ignored = {"_name_or_path", "transformers_version", "id2label", "label2id", "num_labels", "architectures", "dtype"}
    settings = {key: value for key, value in config.items() if key not in ignored}
    parts = [hash_tensors(state), json.dumps(settings, sort_keys=True, default=str)]
    return hashlib.sha256(json.dumps([*parts, sorted(vocabulary.items())]).encode()).hexdigest()


def hash_tensors(tensors: dict[str, torch.Tensor]) -> str:
    """A hash of the names, types, shapes and values, whatever the order and the device."""
    digest = hashlib.sha256()
    for key in sorted(tensors):
        tensor = tensors[key].detach().cpu().contiguous()
        digest.update(f"{key}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
