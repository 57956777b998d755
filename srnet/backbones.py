"""Where the pre-trained model comes from: the embedded one, a local folder, or a hub name."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
)
from transformers import logging as transformers_logging
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING
from transformers.pytorch_utils import Conv1D

from srnet.errors import UserError
from srnet.label_words import read_at_first_token, restrict_to, token_ids
from srnet.names import DOWNLOAD_VARIABLE, EMBEDDED, EMBEDDED_OTHER

_SYNTHETIC = Path(__file__).parent / "tasks" / "synthetic"
_SHIPPED = {EMBEDDED: _SYNTHETIC / "backbone", EMBEDDED_OTHER: _SYNTHETIC / "backbone_small"}


@dataclass(frozen=True)
class Head:
    """What gives the logits.

    `words`: the masked-language-model head that the backbone was pre-trained with, restricted to one word a label.
    Without them a linear layer is drawn. `per_token`: logits for every token instead of one set for the text.
    """

    words: tuple[str, ...] = ()
    per_token: bool = False

    def loader(self) -> Any:
        if self.words:
            return AutoModelForMaskedLM
        return AutoModelForTokenClassification if self.per_token else AutoModelForSequenceClassification


CLASSIFIER = Head()


@dataclass(frozen=True)
class LoadedBackbone:
    """A classifier on a backbone. `fresh`: what is no part of it, a drawn head and whatever the checkpoint lacks."""

    name: str
    sha256: str
    model: PreTrainedModel
    tokenizer: Any
    fresh: frozenset[str]
    head: Head = CLASSIFIER

    def max_length(self, wanted: int) -> int:
        """`wanted`, or less if the backbone has fewer positions."""
        return int(min(wanted, self.tokenizer.model_max_length, _positions(self.model)))

    def twins(self) -> dict[str, str]:
        """Names of tensors that lie in the same memory as one before them (T5's embeddings), and that one's name."""
        first: dict[int, str] = {}
        tensors = ((name, t) for name, t in self.model.state_dict().items() if t.numel())
        pairs = {name: first.setdefault(tensor.data_ptr(), name) for name, tensor in tensors}
        return {name: other for name, other in pairs.items() if name != other}

    def pretrained(self) -> dict[str, torch.Tensor]:
        """The backbone's own tensors, without the head."""
        return {name: t for name, t in self.model.state_dict().items() if name not in self.fresh}


@dataclass(frozen=True)
class OwnClassifier:
    """Whether the classifier that a checkpoint brings was kept, and why or why not."""

    kept: bool
    why: str
    name: str = ""
    """Of the layer."""
    order: tuple[int, ...] = ()
    """For each label, the output of the checkpoint that stands for it."""


def folder_or_name(name: str) -> str:
    return str(_SHIPPED.get(name, name))


def load_backbone(name: str, labels: tuple[str, ...], seed: int, head: Head = CLASSIFIER) -> LoadedBackbone:
    """Load `name` with a head for `labels`, drawn from `seed`. Never runs code from the checkpoint."""
    if head.words and len(head.words) != len(labels):
        raise UserError(
            f"{len(head.words)} label words for {len(labels)} labels", f"give one for each of {', '.join(labels)}"
        )
    try:
        if head.words and not _predicts_words(name):
            raise _no_language_model(name)
        # `fork_rng`: initialising the head must not change the global random state
        with _quietly(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, info = head.loader().from_pretrained(
                folder_or_name(name),
                num_labels=len(labels),
                id2label=dict(enumerate(labels)),
                label2id={label: index for index, label in enumerate(labels)},
                output_loading_info=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # a head for other labels is replaced, not an error
                dtype=torch.float32,
                **_safely(),
            )
            if not head.words:
                _draw_again(model, info)
            tokenizer = AutoTokenizer.from_pretrained(folder_or_name(name), **_safely())
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(
            f"backbone '{name}' cannot be loaded ({str(error).splitlines()[0]})",
            f"give a folder with a safetensors checkpoint, or set {DOWNLOAD_VARIABLE}=1 to allow a download",
        ) from error
    if head.words:
        _check_language_model(model, info, name)
    fresh = frozenset(info["missing_keys"]) if head.words else _fresh(model, info)
    state = {key: tensor for key, tensor in model.state_dict().items() if key not in fresh}
    identity = _identity(state, model.config, tokenizer)  # of what was loaded: before anything is set right below
    _agree_on_padding(model, tokenizer, name)
    _agree_on_segments(model, tokenizer)
    model.drawn_at_random = fresh
    if head.words:
        restrict_to(model, token_ids(head.words, tokenizer))
        if not head.per_token:
            read_at_first_token(model)
    return LoadedBackbone(name, identity, model, tokenizer, fresh, head)


def _safely() -> dict[str, Any]:
    """Never run code of a checkpoint; fetch one only if the user allows it."""
    return {"trust_remote_code": False, "local_files_only": os.environ.get(DOWNLOAD_VARIABLE) != "1"}


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """ "Some weights are newly initialised" is what we want here."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)


@lru_cache(maxsize=32)
def has_language_model(name: str) -> bool:
    """Whether a backbone brings the head that label words need."""
    try:
        return _predicts_words(name) and _lacking(*_language_model(name)) is None
    except (OSError, ValueError, RuntimeError, SafetensorError):
        return False


def _predicts_words(name: str) -> bool:
    """Whether models of this kind are pre-trained to fill in a masked word, each token for itself."""
    config = AutoConfig.from_pretrained(folder_or_name(name), **_safely())
    return type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder


def load_language_model(name: str) -> PreTrainedModel:
    """The masked language model itself, with its whole vocabulary."""
    model: PreTrainedModel = _language_model(name)[0]
    return model


def _language_model(name: str) -> tuple[Any, dict[str, Any]]:
    with _quietly():
        model, info = AutoModelForMaskedLM.from_pretrained(
            folder_or_name(name), output_loading_info=True, use_safetensors=True, dtype=torch.float32, **_safely()
        )
    return model, info


def _lacking(model: Any, info: dict[str, Any]) -> str | None:
    """What a checkpoint does not bring of the language model's head."""
    if model.get_output_embeddings() is None:
        return "an output layer"
    drawn = (*info["missing_keys"], *(each[0] for each in info["mismatched_keys"]))
    return next((key for key in drawn if not in_base(model, key)), None)


# --- what architectures have in common -----------------------------------------------------------------------------


def linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Module name -> layer, in the model's order. A layer that a model uses many times (ALBERT) is there once."""
    return {name: module for name, module in model.named_modules() if isinstance(module, (nn.Linear, Conv1D))}


def in_base(model: nn.Module, name: str) -> bool:
    """Whether `name` belongs to what was pre-trained, not to the head; a model without such a part is all base."""
    prefix = getattr(model, "base_model_prefix", "")
    return not hasattr(model, prefix) or name.startswith(f"{prefix}.")


def classifier_of(model: nn.Module) -> str | None:
    """The layer that gives the logits: the last one of the head. A dense layer before it is a pooler."""
    head = [name for name in linear_layers(model) if not in_base(model, name)]
    return head[-1] if head else None


def _check_language_model(model: Any, info: dict[str, Any], name: str) -> None:
    """A head that the checkpoint does not bring would be noise, frozen."""
    if _lacking(model, info) is not None:
        raise _no_language_model(name)


def _no_language_model(name: str) -> UserError:
    return UserError(
        f"backbone '{name}' brings no masked-language-model head, so label words mean nothing to it",
        "leave them out: it gets an ordinary classifier",
    )


def drawn_in(model: nn.Module) -> frozenset[str]:
    """The parameters of a loaded model that no checkpoint gave a value."""
    return getattr(model, "drawn_at_random", frozenset())


def _draw_again(model: Any, info: dict[str, Any]) -> None:
    """A classifier that the checkpoint brings was trained on who knows what: ours is drawn like any other."""
    classifier = classifier_of(model)
    drawn = {*info["missing_keys"], *(each[0] for each in info["mismatched_keys"])}
    if classifier is None or f"{classifier}.weight" in drawn:
        return
    layer = model.get_submodule(classifier)
    with torch.no_grad():
        layer.weight.normal_(0.0, getattr(model.config.get_text_config(), "initializer_range", 0.02))
        if layer.bias is not None:
            layer.bias.zero_()


_UNNAMED = re.compile(r"label_\d+")


def keep_own_classifier(base: LoadedBackbone, labels: tuple[str, ...]) -> OwnClassifier:
    """Put the classifier that the checkpoint brings in place of the one that was drawn, if its labels fit.

    They fit if there are as many and, where the checkpoint names them, if the names are the same but for case. Outputs
    are then put in the order of `labels`. For masks of a model that was fine-tuned already: whoever trains starts from
    a drawn one, whatever the checkpoint brings.
    """
    if base.head.per_token:
        return OwnClassifier(False, "a checkpoint's classifier is of whole texts, not of tokens")
    with _quietly(), torch.random.fork_rng(devices=[]):  # missing weights are randomly initialised
        own, info = base.head.loader().from_pretrained(
            folder_or_name(base.name),
            output_loading_info=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            dtype=torch.float32,
            **_safely(),
        )
    classifier = classifier_of(own)
    drawn = {*info["missing_keys"], *(each[0] for each in info["mismatched_keys"])}
    if classifier is None or f"{classifier}.weight" in drawn:
        return OwnClassifier(False, "the checkpoint brings no classifier")
    names = tuple(str(own.config.id2label.get(index, "")) for index in range(own.config.num_labels))
    if len(names) != len(labels):
        return OwnClassifier(False, f"the checkpoint's classifier has {len(names)} outputs for {len(labels)} labels")
    theirs, ours = ([name.strip().lower() for name in each] for each in (names, labels))
    named = not all(_UNNAMED.fullmatch(name) for name in theirs)
    if named and (sorted(theirs) != sorted(ours) or len(set(ours)) != len(ours)):
        return OwnClassifier(False, f"the checkpoint's classifier tells {', '.join(names)} apart")
    order = tuple(theirs.index(label) for label in ours) if named else tuple(range(len(labels)))
    source, target = own.get_submodule(classifier), base.model.get_submodule(classifier)
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            parameter.copy_(source.get_parameter(name)[list(order)])
    said = "its labels are these" if named else "it names no labels, so its outputs are taken in this order"
    return OwnClassifier(True, said, classifier, order)


def _fresh(model: nn.Module, info: dict[str, Any]) -> frozenset[str]:
    """The classifier is fresh even where a checkpoint brings one: it may be for other labels, or for others' labels."""
    classifier = classifier_of(model)
    own = {key for key in model.state_dict() if classifier is not None and key.startswith(f"{classifier}.")}
    replaced = {each[0] for each in info["mismatched_keys"]}  # name and the two shapes
    return frozenset(own | replaced | set(info["missing_keys"]))


def _positions(model: Any) -> float:
    """How many tokens the model can tell apart by position; models with relative positions may name no limit."""
    named = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    limits = [float(named)] if named is not None and named > 0 else []  # XLNet writes -1
    for name, module in model.named_modules():
        first = getattr(module, "padding_idx", None)
        if name.endswith(".position_embeddings") and first is not None:
            # RoBERTa and similar models count from the padding's position: of 514 they use 512
            limits.append(len(module.weight) - first - 1)
    return min(limits, default=float("inf"))


def _agree_on_padding(model: Any, tokenizer: Any, name: str) -> None:
    """Decoders come without a padding token, or with one of which only the tokenizer knows.

    They find a text's last token by it, so model and tokenizer must mean the same one. It has to have an embedding: a
    new one would be another backbone. Where the end of a text serves, attention hides the padding all the same.
    """
    config, known = model.config.get_text_config(), range(len(model.get_input_embeddings().weight))
    candidates = (tokenizer.pad_token_id, config.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
    padding = next((token for token in candidates if token in known), None)
    if padding is None:
        raise UserError(
            f"backbone '{name}' has no token to pad with", "give its tokenizer a pad_token that has an embedding"
        )
    if tokenizer.pad_token_id != padding:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(padding)
    if config.pad_token_id != padding:
        config.pad_token_id = padding
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = padding  # what T5 was trained with; its configuration need not say so


def _agree_on_segments(model: Any, tokenizer: Any) -> None:
    """The model decides whether it is told which text of a pair a token is from, whatever the tokenizer's class says.

    ALBERT learnt from segments, yet its tokenizer does not name them; a general tokenizer may name them for a model
    that has none.
    """
    name, segments = "token_type_ids", getattr(model.config, "type_vocab_size", None)
    takes = name in inspect.signature(model.forward).parameters
    wanted = takes and (name in tokenizer.model_input_names if segments is None else segments > 1)
    others = [each for each in tokenizer.model_input_names if each != name]
    tokenizer.model_input_names = [*others, name] if wanted else others


@lru_cache(maxsize=32)
def backbone_hash(name: str, head: Head = CLASSIFIER) -> str:
    """The identity of a backbone is its content: tensors, settings and vocabulary, as far as the head uses them."""
    labels = tuple(map(str, range(len(head.words) or 2)))
    return load_backbone(name, labels, seed=0, head=head).sha256


def _identity(state: dict[str, torch.Tensor], config: Any, tokenizer: Any) -> str:
    """The same tensors under other heads, other activations or another vocabulary are another backbone."""
    ignored = {"_name_or_path", "transformers_version", "id2label", "label2id", "num_labels", "architectures", "dtype"}
    settings = {key: value for key, value in config.to_dict().items() if key not in ignored}
    parts = (hash_tensors(state), json.dumps(settings, sort_keys=True, default=str), tokenizer.get_vocab())
    return hashlib.sha256(json.dumps([*parts[:2], sorted(parts[2].items())]).encode()).hexdigest()


def hash_tensors(tensors: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for key in sorted(tensors):
        tensor = tensors[key].detach().cpu().contiguous()
        digest.update(f"{key}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
