"""A plain checkpoint: the mask baked into the weights, loadable with transformers alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srnet.core.errors import UserError
from srnet.core.files import new_folder, require_new
from srnet.core.lazy import torch, transformers
from srnet.models.backbones import LoadedBackbone, load_language_model
from srnet.models.checkpoints import read_pretrained
from srnet.models.exported import Exported, open_export, restricted, save_checkpoint
from srnet.models.formats.base import Format, Source, register
from srnet.models.formats.card import EXAMPLES, write_card
from srnet.models.heads import token_ids
from srnet.models.model import OpenModel

if TYPE_CHECKING:
    from srnet.models.subnetwork import Subnetwork


@register
@dataclass(frozen=True)
class Merged(Format):
    """A plain checkpoint that from_pretrained reads, the mask baked into the weights.

    `AutoModelForSequenceClassification` reads a classifier, `AutoModelForTokenClassification` one with logits for every
    token, and `AutoModelForCausalLM` or `AutoModelForMaskedLM` a language model. A model with label words is a complete
    `AutoModelForMaskedLM`; `label_words` in its configuration are the tokens of the labels, whose logits are read at
    the first token.
    """

    name = "merged"
    kind = "checkpoint"

    def write(self, source: Source, out: Path) -> list[str]:
        write_checkpoint(source, whole_model(source.subnetwork, source.base), out, self.name)
        return []

    @classmethod
    def read(cls, folder: Path) -> OpenModel:
        return open_export(folder, _load)


def _load(folder: Path, exported: Exported) -> Any:
    options: dict[str, Any] = {"use_safetensors": True, "dtype": torch.float32, "output_loading_info": True}
    loader = exported.head.loader(read_pretrained(transformers.AutoConfig, folder))
    model, info = read_pretrained(loader, folder, **options)
    if info["missing_keys"]:
        raise UserError(f"{folder} has no '{min(info['missing_keys'])}'", "export the model again")
    return restricted(model, exported)


def save_merged(subnetwork: Subnetwork, folder: Path, backbone: str | None = None) -> None:
    """Write `subnetwork` to `folder`, as `from_pretrained` reads it. `backbone` is its place, if it was moved."""
    Merged().write(Source(subnetwork, subnetwork.base(backbone)), require_new(folder))


def whole_model(subnetwork: Subnetwork, base: LoadedBackbone) -> Any:
    """The model as `from_pretrained` is to read it."""
    model = subnetwork.model(base)
    return _with_vocabulary(base, subnetwork) if subnetwork.head.words else model


def write_checkpoint(source: Source, model: Any, folder: Path, format: str) -> None:
    """Write a new folder for `from_pretrained`."""
    with new_folder(folder) as staging:
        save_checkpoint(model, staging)
        source.base.tokenizer.save_pretrained(staging)
        source.exported(Merged.kind).seal(staging)
        write_card(staging, source, format, _how_to_load(source))


def _how_to_load(source: Source) -> str:
    head = source.subnetwork.head
    loader = head.loader(source.base.model.config).__name__
    words = "  # config.label_words: the tokens whose logits, at the first token, stand for the labels"
    return (
        f"from transformers import {loader}, AutoTokenizer\n\n"
        f'model = {loader}.from_pretrained("DIR")  # this folder{words if head.words else ""}\n'
        'tokenizer = AutoTokenizer.from_pretrained("DIR")\n'
        f"{EXAMPLES[source.pipeline]}"
    )


def _with_vocabulary(base: LoadedBackbone, subnetwork: Subnetwork) -> Any:
    """The language model with its complete vocabulary. Label words may have been trained, so weights are untied."""
    ids = token_ids(subnetwork.head.words, base.tokenizer)
    model: Any = load_language_model(base.name)
    ours: Any = base.model
    trained = {n: t for n, t in ours.state_dict().items() if n in model.state_dict()}
    fitting = {n: t for n, t in trained.items() if t.shape == model.state_dict()[n].shape}
    every, some = model.get_output_embeddings(), ours.get_output_embeddings()
    untied = torch.nn.Linear(every.in_features, every.out_features, bias=every.bias is not None)
    untied.load_state_dict(every.state_dict())
    with torch.no_grad():
        for name, tensor in untied.named_parameters():
            tensor[ids] = getattr(some, name)
    model.config.tie_word_embeddings = False
    model.set_output_embeddings(untied)
    if untied.bias is not None:
        untied.bias = torch.nn.Parameter(untied.bias.detach().clone())  # BERT has a second name for this tensor
    model.load_state_dict(fitting, strict=False)
    model.config.id2label = dict(enumerate(subnetwork.labels))
    model.config.label2id = {label: number for number, label in enumerate(subnetwork.labels)}
    model.config.label_words = ids  # in the order of the labels
    return model
