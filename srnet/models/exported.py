"""Folders with a whole model that was exported, each with the manifest srnet.json.

The formats (`srnet/models/formats`) write and read the other files. The manifest of a shrunken model has its shapes:
the units that are left of each block, heads by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srnet.core.errors import UserError, reason
from srnet.core.files import FieldType, read_json_object, write_text
from srnet.core.lazy import transformers
from srnet.core.names import AS_IS, FILLS_MASKS
from srnet.core.sealed import Manifest, are_indices, are_texts, is_length
from srnet.models.checkpoints import reading, tokenizer_in
from srnet.models.heads import Head, fills_masks, use_words
from srnet.models.model import TorchModel

if TYPE_CHECKING:
    from srnet.masks.shrink import Units

WEIGHTS, TOKENIZER = "weights.safetensors", "tokenizer.json"
TOKENIZER_IN = "the tokenizer in "
_GENERATION = "generation_config.json"


def _are_units(value: object) -> bool:
    return isinstance(value, dict) and all(map(are_indices, value.values()))


_FIELDS: dict[str, FieldType] = {
    "kind": str, "max_length": is_length, "sparsity": float, "units": _are_units, "more": dict, "per_token": bool,
    "labels": are_texts, "label_words": are_texts, "inputs": are_texts, "label_word_ids": are_indices, "files": dict,
    "as_is": bool, "language": bool,
}  # fmt: skip
EXPORT = Manifest("srnet.json", "an exported model", _FIELDS, defaults={"as_is": False, "language": False})


@dataclass(frozen=True)
class Exported:
    """The facts in the manifest of an exported folder."""

    kind: str
    """The format that reads the folder."""
    labels: tuple[str, ...]
    label_words: tuple[str, ...] = ()
    label_word_ids: tuple[int, ...] = ()
    """The tokens of the label words."""
    per_token: bool = False
    """Whether the model gives logits for every token."""
    as_is: bool = False
    """Whether texts are encoded as the tokenizer alone does."""
    language: bool = False
    """Whether it is a language model with its complete vocabulary."""
    max_length: int = 128
    """Tokens at which texts are cut."""
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    """What the model reads, as its tokenizer names it."""
    sparsity: float = 0.0
    """Counted on the mask, which a whole model no longer has."""
    units: Units = field(default_factory=dict)
    """What is left of the blocks that a shrunken model has lost units of."""
    more: dict[str, Any] = field(default_factory=dict)
    """What was measured when it was exported."""

    @property
    def head(self) -> Head:
        return Head(self.label_words, self.per_token, self.as_is, self.language)

    def fit(self, tokenizer: Any) -> None:
        """Make the folder's tokenizer encode texts as in training."""
        tokenizer.model_input_names = list(self.inputs)
        setattr(tokenizer, AS_IS, self.as_is)

    def seal(self, folder: Path) -> None:
        """Write the manifest beside the files, which are all there."""
        EXPORT.write(folder, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Exported:
        """The facts, after all checksums were found to match."""
        facts = EXPORT.read(folder)
        values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in facts.items()}
        return cls(**{each.name: values[each.name] for each in fields(cls)})

    def known(self, folder: Path) -> dict[str, Any]:
        """The fields of an `OpenModel` that the manifest has."""
        facts = {name: getattr(self, name) for name in ("kind", "labels", "per_token", "sparsity")}
        return facts | {"name": str(folder), "folder": folder, "length": self.max_length}


def encodes_as_is(name: str) -> bool:
    """Whether the tokenizer of a checkpoint alone encodes its texts: the model was fine-tuned elsewhere at first."""
    return not EXPORT.is_in(name) or read_json_object(Path(name) / EXPORT.file).get("as_is") is True


def open_export(folder: Path, load: Callable[[Path, Exported], Any]) -> TorchModel:
    """The model of an exported folder, which `load` reads."""
    exported = Exported.read(folder)
    with opening(folder):
        module = load(folder, exported).eval()
    tokenizer = partial(_load_tokenizer, folder, exported, exported.language and fills_masks(module.config))
    return TorchModel(**exported.known(folder), load_tokenizer=tokenizer, module=module)


def restricted(model: Any, exported: Exported) -> Any:
    """The model, which gives the logits of the label words if there are any."""
    if exported.label_words:
        use_words(model, list(exported.label_word_ids), per_token=exported.per_token)
    return model


def _load_tokenizer(folder: Path, exported: Exported, fills: bool) -> Any:
    with opening(folder, TOKENIZER_IN):
        tokenizer = tokenizer_in(folder)
    exported.fit(tokenizer)
    setattr(tokenizer, FILLS_MASKS, fills)
    return tokenizer


# --- settings for the generation of text ---------------------------------------------------------------------------


def save_checkpoint(model: Any, folder: Path) -> None:
    """`save_pretrained`, which refuses to write settings that it reads, such as a temperature without sampling."""
    if not model.can_generate():
        model.save_pretrained(folder)
        return
    kept, model.generation_config = model.generation_config, transformers.GenerationConfig()
    try:
        model.save_pretrained(folder)
    finally:
        model.generation_config = kept
    write_generation(model, folder)


def write_generation(model: Any, folder: Path) -> None:
    """Write the settings as the checkpoint has them."""
    if model.can_generate():
        write_text(folder / _GENERATION, model.generation_config.to_json_string())


def read_generation(model: Any, folder: Path) -> None:
    """Give a model that was not read by `from_pretrained` the settings in its folder."""
    if (folder / _GENERATION).is_file():
        model.generation_config = transformers.GenerationConfig.from_dict(read_json_object(folder / _GENERATION))


@contextmanager
def opening(folder: Path, part: str = "") -> Iterator[None]:
    """One line for a folder, or a part of it, that cannot be loaded."""
    try:
        with reading(folder):
            yield
    except UserError:
        raise
    except Exception as error:  # a damaged config.json raises almost anything, the tokenizers library plain ones
        raise UserError(f"{part}{folder} cannot be loaded ({reason(error)})", "export the model again") from error
