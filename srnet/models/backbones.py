"""Backbones: with a head for a task's labels, with the language-model head, and with a classifier of their own."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from srnet.core.errors import UserError, shortened
from srnet.core.lazy import nn, no_grad, torch, transformers
from srnet.core.names import AS_IS, FILLS_MASKS, are_unnamed, match_names, output_names, renamed
from srnet.core.sealed import LONGEST_TEXT
from srnet.masks.mask import hash_tensors
from srnet.masks.targets import classifier_of, in_base
from srnet.models.checkpoints import (
    FIX,
    SHIPPED,
    loading,
    read_config,
    read_model,
    read_tokenizer,
    readable_length,
    recorded_identity,
    set_padding,
    set_segments,
)
from srnet.models.heads import CLASSIFIER, Head, fills_masks, language_loader, token_ids, use_words


@lru_cache(maxsize=32)
def has_language_model(name: str) -> bool:
    """Whether a checkpoint has the head that label words need."""
    try:
        load_language_model(name)
    except UserError:
        return False
    return True


def load_language_model(name: str) -> transformers.PreTrainedModel:
    """The masked language model itself, with its complete vocabulary."""
    _check_architecture(name)
    model, missing = read_model(transformers.AutoModelForMaskedLM, name)
    _check_head(name, model, missing)
    found: transformers.PreTrainedModel = model
    return found


def _check_architecture(name: str) -> None:
    """Refuse models of a type that is not pre-trained to predict a masked word at its own position."""
    config = read_config(name)
    if type(config) not in transformers.MODEL_FOR_MASKED_LM_MAPPING or config.is_encoder_decoder:
        raise _no_language_model(name)


def _check_head(name: str, model: Any, missing: frozenset[str]) -> None:
    """Refuse a checkpoint without the complete head: missing parts would stay random, because the head is frozen."""
    if model.get_output_embeddings() is None or not all(in_base(model, each) for each in missing):
        raise _no_language_model(name)


def _no_language_model(name: str) -> UserError:
    return UserError(
        f"backbone '{name}' has no masked-language-model head, which label words need",
        "leave them out: the backbone then gets an ordinary classifier",
    )


# --- the language model as it is: a decoder, or one that predicts masked tokens ---

_OTHER_HEAD = re.compile("For(?!CausalLM|MaskedLM|PreTraining)|DoubleHeads")
"""Names of classes whose head is no language model."""


def check_language_model(name: str) -> None:
    """Refuse a checkpoint that its configuration says has no language model over single texts."""
    config = read_config(name)
    if config.is_encoder_decoder:
        problem = f"backbone '{name}' is an encoder-decoder, which has no probability of a text alone"
        raise UserError(problem, "give a decoder, such as Llama or GPT-2, or a masked language model, such as BERT")
    others = [each for each in _classes(config) if _OTHER_HEAD.search(each)]
    if others:
        raise _no_head(name, f"it is a {others[0]}")


def is_decoder(name: str, fix: str = FIX) -> bool:
    """Whether the configuration of a checkpoint says that it is a decoder with its language-model head."""
    config = read_config(name, "model", fix)
    classes: list[Any] = [getattr(transformers, each) for each in _classes(config)]
    is_one = not config.is_encoder_decoder and not fills_masks(config)
    return is_one and bool(classes) and all(each.can_generate() for each in classes)


def _no_head(name: str, why: str) -> UserError:
    return UserError(
        f"backbone '{name}' has no language-model head: {why}", "give a checkpoint with one, as it was pre-trained"
    )


def _read_language_model(name: str) -> tuple[Any, frozenset[str]]:
    config = read_config(name)
    model, missing = read_model(language_loader(config), name)
    if missing or model.get_output_embeddings() is None:
        raise _no_head(name, f"the checkpoint has no '{min(missing, default='output layer')}'")
    if not fills_masks(config):
        _check_causal(name, model)
    model.models_language = True
    return model, missing


@no_grad
def _check_causal(name: str, model: Any) -> None:
    """Refuse a model that sees the token it predicts, such as XLNet: its likelihoods would mean nothing."""
    ids = torch.arange(6).reshape(2, 3) % len(model.get_input_embeddings().weight)
    ids[1, :2] = ids[0, :2]
    logits = model.eval()(input_ids=ids).logits[:, :2]
    if not torch.allclose(logits[0], logits[1], rtol=1e-3, atol=1e-3):
        raise UserError(f"backbone '{name}' sees later tokens, so it is no decoder", "give one such as Llama or GPT-2")


# --- a backbone with a head for a task's labels ---


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
        return readable_length(self.name, self.model, self.tokenizer, wanted)

    def twins(self) -> dict[str, str]:
        return twins_of(self.model)

    def pretrained(self) -> dict[str, torch.Tensor]:
        """The backbone's own tensors, without the head."""
        return {name: t for name, t in self.model.state_dict().items() if name not in self.fresh}


def twins_of(model: nn.Module) -> dict[str, str]:
    """Tensors that share memory with an earlier one (T5's embeddings): their names, and the earlier one's name."""
    first: dict[int, str] = {}
    tensors = ((name, t) for name, t in model.state_dict().items() if t.numel())
    pairs = {name: first.setdefault(tensor.data_ptr(), name) for name, tensor in tensors}
    return {name: other for name, other in pairs.items() if name != other}


def load_backbone(name: str, labels: tuple[str, ...], seed: int, head: Head = CLASSIFIER) -> LoadedBackbone:
    """Load `name` with a head for `labels`, initialised with `seed`. Never runs code from the checkpoint."""
    if head.words and len(head.words) != len(labels):
        raise UserError(
            f"{len(head.words)} label words for {len(labels)} labels", f"give one for each of {', '.join(labels)}"
        )
    if head.words:
        _check_architecture(name)
    if head.language:
        check_language_model(name)
    model, fresh = _read(name, labels, seed, head)
    tokenizer = read_tokenizer(name)
    if head.words:
        _check_head(name, model, fresh)
    state = {key: tensor for key, tensor in model.state_dict().items() if key not in fresh}
    settings = model.config.to_dict()  # of the checkpoint: before they change below
    with loading(name, "the tokenizer of"):
        vocabulary = tokenizer.get_vocab()
    fit_tokenizer(model, tokenizer, name, as_is=head.as_is, language=head.language)
    identity = _identity(state, settings, vocabulary)
    model.newly_initialised = fresh
    if head.words:
        use_words(model, token_ids(head.words, tokenizer), per_token=head.per_token)
    return LoadedBackbone(name, identity, model, tokenizer, fresh, head)


def _read(name: str, labels: tuple[str, ...], seed: int, head: Head) -> tuple[Any, frozenset[str]]:
    """The model, and the names of its randomly initialised tensors."""
    with torch.random.fork_rng(devices=[]):  # initialising the head must not change the global random state
        torch.manual_seed(seed)
        if head.language:
            return _read_language_model(name)
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


def fit_tokenizer(model: Any, tokenizer: Any, name: str, *, as_is: bool, language: bool = False) -> None:
    """Make model and tokenizer agree on padding and segments, and on what a language model predicts."""
    setattr(tokenizer, AS_IS, as_is)
    setattr(tokenizer, FILLS_MASKS, language and fills_masks(model.config))
    if getattr(tokenizer, FILLS_MASKS) and tokenizer.mask_token_id is None:
        raise UserError(f"the tokenizer of '{name}' has no mask token", "give its configuration a mask_token")
    with loading(name, "the tokenizer of"):
        set_padding(model, tokenizer, name)
        set_segments(model, tokenizer)


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


# --- the classifier that a fine-tuned checkpoint has, for models whose labels are the same ---


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
    outputs: tuple[str, ...] = ()
    """The checkpoint's own names of its outputs, if it has a classifier."""
    longest: int = 0
    """Tokens of the longest text that the checkpoint reads, if the classifier fits."""

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


Names = tuple[tuple[str, str], ...]
"""Names of labels with what each of them means."""


def find_own_classifier(
    name: str,
    labels: tuple[str, ...],
    head: Head,
    *,
    in_order: bool = False,
    labels_are: Names = (),
    spellings: Names = (),
) -> OwnClassifier:
    """The classifier of the checkpoint `name` for `labels`.

    It fits if its outputs have the names of the labels, in any order, or if it gives a score and a score is needed.
    `labels_are` says what its outputs are called here; `spellings` are other names of the labels. Outputs without names
    fit only with `in_order`: then they are taken in the order of the labels.
    """
    if head.language:
        return OwnClassifier("the task is language modelling", order=(0,))
    if head.words:
        return OwnClassifier("label words use the language-model head")
    outputs, why = _outputs_of(name, head)
    if not outputs:
        return OwnClassifier(why)
    theirs = renamed(name, outputs, dict(labels_are))
    order, why = _match(theirs, labels, in_order and not labels_are, spellings)
    if not order:
        silent = are_unnamed(theirs) and not _classes(read_config(name))
        return OwnClassifier(_SAYS_NOTHING) if silent else OwnClassifier(why, outputs=outputs)
    model, missing = _read_as_is(name, head)  # only now are weights read
    layer = classifier_of(model)
    if problem := _missing_in(layer, missing):
        return OwnClassifier(problem)
    assert layer is not None
    parameters = model.get_submodule(layer).named_parameters(prefix=layer)
    tensors = {key: p.detach()[list(order)] for key, p in parameters}
    longest = readable_length(name, model, read_tokenizer(name), LONGEST_TEXT)
    return OwnClassifier(why, layer, order, tensors, outputs, longest)


def load_fine_tuned(name: str, labels: tuple[str, ...]) -> tuple[Any, str]:
    """A checkpoint with its own classifier of texts, and why it has none for these labels; "" if it has one."""
    outputs, why = _outputs_of(name, CLASSIFIER)
    order, why = _match(outputs, labels) if outputs else ((), why)
    model, missing = _read_as_is(name, CLASSIFIER)
    return model, _missing_in(classifier_of(model), missing) if order else why


_SAYS_NOTHING = "the checkpoint's config.json names no classifier and no labels"


def _outputs_of(name: str, head: Head) -> tuple[tuple[str, ...], str]:
    """The names of a checkpoint's outputs; none, and why, if its configuration says that it is no such classifier."""
    if name in SHIPPED:
        return (), "the checkpoint has no classifier"
    config = read_config(name)
    classes = _classes(config)
    if classes and not any(each.endswith(head.loader().__name__.removeprefix("AutoModel")) for each in classes):
        kind = "tokens" if head.per_token else "texts"  # a layer of another head may have the same name
        return (), f"the checkpoint is a {classes[0]}, no classifier of {kind}"
    return output_names(config.num_labels, config.id2label), ""


def _classes(config: Any) -> list[str]:
    """The classes of transformers that a checkpoint says it is; a damaged config.json may have anything there."""
    named = config.architectures if isinstance(config.architectures, list) else []
    return [each for each in named if isinstance(each, str) and hasattr(transformers, each)]


def _read_as_is(name: str, head: Head) -> tuple[Any, frozenset[str]]:
    """The model with the checkpoint's own head, and the tensors that the checkpoint does not have."""
    with torch.random.fork_rng(devices=[]):  # missing weights are randomly initialised
        return read_model(head.loader(), name, ignore_mismatched_sizes=True)


def _missing_in(layer: str | None, missing: frozenset[str]) -> str:
    """Why a checkpoint has no complete classifier, its layer `layer`; "" if it has one."""
    if layer is None or f"{layer}.weight" in missing:
        return "the checkpoint has no classifier"
    return f"the checkpoint has no '{min(missing)}'" if missing else ""


def _match(
    theirs: tuple[str, ...], labels: tuple[str, ...], in_order: bool = False, spellings: Names = ()
) -> tuple[tuple[int, ...], str]:
    """The order of the outputs, empty if they do not fit, and why they do or do not."""
    named = shortened(", ".join(theirs), 80)
    if len(theirs) != len(labels):
        return (), f"the checkpoint's classifier has {len(theirs)} outputs for {len(labels)} labels"
    if len(labels) == 1:
        return (0,), "it gives one score"
    order = match_names(theirs, labels, dict(spellings))
    if order is not None:
        return order, "its labels are the same"
    if not are_unnamed(theirs):
        return (), f"the checkpoint's classifier has the labels {named}"
    if in_order:
        return tuple(range(len(labels))), "it names no labels, so its outputs are taken in the given order"
    return (), f"the checkpoint's classifier names no labels ({named}); its config.json can name them, in id2label"
