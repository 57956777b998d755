"""Folders with a whole model that was exported: a plain checkpoint, a shrunken model, or an ONNX graph.

srnet.json says which, with a checksum for every file. A shrunken model has its shapes there as well: the units that are
left of each block, heads by number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tokenizers import Tokenizer

from srnet.core.errors import UserError, reason
from srnet.core.files import read_bytes, write_bytes
from srnet.core.lazy import torch, transformers
from srnet.core.sealed import check_max_length, read_sealed, seal
from srnet.masks.units import blocks_of
from srnet.models.checkpoints import read_pretrained, reading
from srnet.models.heads import CLASSIFIER, Head, read_at_first_token, restrict_to

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from srnet.masks.shrink import Units

FORMAT = 1
CARD, WEIGHTS, TOKENIZER = "srnet.json", "weights.safetensors", "tokenizer.json"
Kind = Literal["checkpoint", "shrunk", "onnx"]


@dataclass(frozen=True)
class Exported:
    """What the card of an exported folder says."""

    kind: Kind
    labels: tuple[str, ...]
    head: Head = CLASSIFIER
    word_ids: tuple[int, ...] = ()
    """The tokens of the label words."""
    max_length: int = 128
    """Where texts are cut."""
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    """What the model reads, as its tokenizer names it."""
    sparsity: float = 0.0
    """Counted on the mask, which a whole model no longer has."""
    units: Units = field(default_factory=dict)
    """What is left of the blocks that a shrunken model has lost units of."""
    more: dict[str, Any] = field(default_factory=dict)
    """What was found out when it was exported."""

    def seal(self, folder: Path) -> None:
        """Write the card beside the files, which are all there."""
        facts: dict[str, Any] = {"format": FORMAT, **{name: getattr(self, name) for name in _AS_THEY_ARE}}
        facts |= {"labels": list(self.labels), "inputs": list(self.inputs), "per_token": self.head.per_token}
        words = {"label_words": list(self.head.words), "label_word_ids": list(self.word_ids)}
        seal(folder, CARD, facts | words)

    @classmethod
    def read(cls, folder: Path) -> Exported:
        """After all checksums were found to match."""
        card = read_sealed(folder, CARD, format=int, **_AS_THEY_ARE, **_LISTS, per_token=bool)
        if card["format"] != FORMAT or card["kind"] not in ("checkpoint", "shrunk", "onnx"):
            raise UserError(f"{folder / CARD} has an unknown format", "it was written by another version of srnet")
        check_max_length(folder / CARD, card["max_length"])
        texts = (*card["labels"], *card["label_words"], *card["inputs"])
        numbers = (card["label_word_ids"], *card["units"].values())
        if not all(isinstance(text, str) for text in texts) or not all(map(_are_numbers, numbers)):
            raise UserError(f"{folder / CARD} names other labels or units than a model has", "restore the file")
        facts: dict[str, Any] = {name: card[name] for name in _AS_THEY_ARE}
        facts |= {"labels": tuple(card["labels"]), "inputs": tuple(card["inputs"])}
        head = Head(tuple(card["label_words"]), card["per_token"])
        return cls(head=head, word_ids=tuple(card["label_word_ids"]), **facts)


_AS_THEY_ARE: dict[str, type] = {"kind": str, "max_length": int, "sparsity": float, "units": dict, "more": dict}
_LISTS: dict[str, type] = dict.fromkeys(("labels", "label_words", "label_word_ids", "inputs"), list)


def _are_numbers(value: object) -> bool:
    """No number twice."""
    if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
        return False
    return len(value) == len(set(value))


def is_exported(folder: Path | str) -> bool:
    return (Path(folder) / CARD).is_file()


def load_exported(folder: Path | str) -> PreTrainedModel:
    """The model of an exported folder, as an ordinary Hugging Face model."""
    folder = Path(folder)
    exported = Exported.read(folder)
    if exported.kind == "onnx":
        raise UserError(f"{folder} is an ONNX model", "onnxruntime runs it: see examples/onnx_classify.py")
    make = _plain if exported.kind == "checkpoint" else _shrunk
    try:
        with reading(folder):
            model: PreTrainedModel = make(folder, exported).eval()
    except UserError:
        raise
    except Exception as error:  # a damaged config.json raises almost anything
        raise UserError(f"{folder} cannot be loaded ({reason(error)})", "export the model again") from error
    return model


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of an exported folder, for what the model reads."""
    exported = Exported.read(folder)
    try:
        with reading(folder):
            if exported.kind == "onnx":
                tokenizer = _tokenizer_in(folder / TOKENIZER)
            else:
                tokenizer = read_pretrained(transformers.AutoTokenizer, folder)
    except Exception as error:  # the tokenizers library raises plain ones
        raise _no_tokenizer(folder, error) from error
    tokenizer.name_or_path = str(folder)  # for messages: one that is made from tokenizer.json alone has no name
    tokenizer.model_input_names = list(exported.inputs)
    return tokenizer


def vocabulary_size(folder: Path) -> int:
    """How many tokens the tokenizer of an exported folder knows, without the rest of it."""
    try:
        with reading(folder):
            size = int(Tokenizer.from_file(str(folder / TOKENIZER)).get_vocab_size())
    except Exception as error:
        raise _no_tokenizer(folder, error) from error
    if not size:
        raise UserError(f"the tokenizer in {folder} has an empty vocabulary", "export the model again")
    return size


def _no_tokenizer(folder: Path, error: Exception) -> UserError:
    return UserError(f"the tokenizer in {folder} cannot be loaded ({reason(error)})", "export the model again")


def _tokenizer_in(file: Path) -> Any:
    backend = Tokenizer.from_file(str(file))
    pad_token = (backend.padding or {}).get("pad_token")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=pad_token)


def _plain(folder: Path, exported: Exported) -> Any:
    loader = exported.head.loader()
    model, info = read_pretrained(loader, folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True)
    if info["missing_keys"]:
        raise UserError(f"{folder} has no '{min(info['missing_keys'])}'", "export the model again")
    return _with_head(model, exported)


def _shrunk(folder: Path, exported: Exported) -> Any:
    """The shapes are made first: those of the configuration, then without the units that are gone."""
    from safetensors.torch import load
    from transformers.initialization import no_init_weights

    from srnet.masks.shrink import cut_blocks

    config = read_pretrained(transformers.AutoConfig, folder)
    with no_init_weights():
        model = _with_head(exported.head.loader().from_config(config), exported)
    sizes = {block.name: block.size for block in blocks_of(model)}
    for name, units in exported.units.items():
        if name not in sizes or any(unit >= sizes[name] for unit in units):
            raise UserError(f"{folder / CARD} has units of '{name}' that the model does not have", "restore the file")
    cut_blocks(model, exported.units)
    model.load_state_dict(load(read_bytes(folder / WEIGHTS)))
    return model


def _with_head(model: Any, exported: Exported) -> Any:
    if exported.head.words:
        restrict_to(model, list(exported.word_ids))
        if not exported.head.per_token:
            read_at_first_token(model)
    return model


def write_weights(model: PreTrainedModel, folder: Path) -> None:
    """The configuration and every tensor. Tensors that share their memory are written twice: they are small."""
    from safetensors.torch import save

    model.config.save_pretrained(folder)
    state = {name: tensor.detach().clone().contiguous() for name, tensor in model.state_dict().items()}
    write_bytes(folder / WEIGHTS, save(state))
