"""Reading a checkpoint: the embedded one, a local folder, or a hub name. Nothing in it is executed."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError, catching_panics, reason
from srnet.core.files import read_json, require_readable_in
from srnet.core.lazy import torch, transformers
from srnet.core.names import AS_IS, DOWNLOAD_VARIABLE, EMBEDDED, EMBEDDED_DECODER, EMBEDDED_OTHER
from srnet.core.network import guarded_hub, may_download

_SYNTHETIC = Path(__file__).parents[1] / "tasks" / "synthetic"
IDENTITY = "identity.json"
LARGEST_COUNT = 10_000
"""The limit on the number of layers, and of labels, of a model."""
FIX = f"give a folder with a safetensors checkpoint, or set {DOWNLOAD_VARIABLE}=1 to allow a download"
"""For a checkpoint that cannot be loaded."""
LONGEST_READ = 8192
"""Tokens that a model of others reads at most, unless more are requested: as many as any common encoder, and a limit
for decoders, which name 100,000 and more."""
_COUNTED = re.compile("layer|group|label")
SHIPPED = {
    EMBEDDED: _SYNTHETIC / "backbone",
    EMBEDDED_OTHER: _SYNTHETIC / "backbone_small",
    EMBEDDED_DECODER: _SYNTHETIC / "backbone_decoder",
}


def folder_or_name(name: str) -> str:
    return str(SHIPPED.get(name, name))


def recorded_identity(name: str) -> str | None:
    """The hash of a shipped backbone, recorded so that a plan need not load it; None for any other.

    Settings that transformers adds are part of the hash, so it holds for one version of transformers only.
    """
    path = SHIPPED[name] / IDENTITY if name in SHIPPED else None
    if path is None or not path.is_file():
        return None
    recorded = read_json(path)
    same = recorded["transformers"] == metadata.version("transformers")
    return str(recorded["sha256"]) if same else None


def read_model(loader: Any, name: str, **options: Any) -> tuple[Any, frozenset[str]]:
    """The model, and the names of the tensors that the checkpoint does not have, or has in another shape."""
    _check_kind(loader, name)
    with loading(name):
        model, info = read_pretrained(
            loader, folder_or_name(name), output_loading_info=True, use_safetensors=True, dtype=torch.float32, **options
        )
    mismatched = (key for key, *_shapes in info["mismatched_keys"])
    return model, frozenset({*info["missing_keys"], *mismatched})


def _check_kind(loader: Any, name: str) -> None:
    """Refuse what cannot be used in any way, with its cause: transformers would name the one that it met first."""
    config = read_config(name)
    if getattr(config, "quantization_config", None) is not None:
        raise UserError(f"backbone '{name}' is quantised", "give the checkpoint from before the quantisation")
    if type(config) not in loader._model_mapping:  # where `from_pretrained` looks
        purpose = re.sub("(?<=[a-z])(?=[A-Z])", " ", loader.__name__.removeprefix("AutoModelFor")).lower()
        raise UserError(
            f"backbone '{name}' is a '{config.model_type}' model, for which {purpose} is not supported",
            "give a language model of another architecture, such as BERT, RoBERTa or Llama",
        )


def check_no_adapter(folder: Path) -> None:
    """Refuse a folder with an adapter such as LoRA: transformers alone would load the model without it, or none."""
    if (folder / "adapter_config.json").exists():
        raise UserError(
            f"{folder} holds an adapter, not a complete model",
            'merge it first, with peft: model.merge_and_unload().save_pretrained("FOLDER")',
        )


def read_tokenizer(name: str) -> Any:
    with loading(name, "the tokenizer of"):
        return tokenizer_in(folder_or_name(name))


def tokenizer_in(source: str | Path) -> Any:
    """A tokenizer. Of a folder without one, transformers makes one that knows no word, and every text is alike."""
    found = read_pretrained(transformers.AutoTokenizer, source)
    if len(found) <= len(found.all_special_ids):
        raise UserError(f"{source} has no tokenizer", 'add it: tokenizer.save_pretrained("FOLDER")')
    return found


def read_config(name: str, part: str = "backbone", fix: str = FIX) -> Any:
    with loading(name, part, fix):
        return read_pretrained(transformers.AutoConfig, folder_or_name(name))


def read_pretrained(loader: Any, source: str | Path, **options: Any) -> Any:
    """`loader.from_pretrained`, which never runs code of a checkpoint and downloads one only if the user allows it."""
    with guarded_hub():
        return loader.from_pretrained(source, trust_remote_code=False, local_files_only=not may_download(), **options)


@contextlib.contextmanager
def loading(name: str, part: str = "backbone", fix: str = FIX) -> Iterator[None]:
    """One line for a checkpoint that is missing or damaged."""
    try:
        require_readable_in(Path(folder_or_name(name)))
        check_no_adapter(Path(folder_or_name(name)))
        with reading(folder_or_name(name)):
            yield
    except UserError:
        raise
    except Exception as error:  # a damaged config.json raises almost anything: KeyError, ZeroDivisionError, ...
        raise _not_loadable(f"{part} '{name}'", error, fix) from error


@contextlib.contextmanager
def reading(folder: Path | str) -> Iterator[None]:
    """No warnings such as "some weights are newly initialised", and no configuration that would take forever."""
    _check_sizes(Path(folder) / "config.json")
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with catching_panics():
            yield
    finally:
        transformers.logging.set_verbosity(level)


def _check_sizes(path: Path) -> None:
    """Layers and labels are made one by one in Python; a matrix that is too large is an error of its own."""
    config: Any = {}
    with contextlib.suppress(UserError):  # the loader says what is wrong with it
        config = read_json(path)
    named = config.items() if isinstance(config, dict) else ()
    large = [key for key, value in named if type(value) is int and value > LARGEST_COUNT and _COUNTED.search(key)]
    if large:
        raise UserError(
            f"{path} cannot be loaded ({large[0]} is out of range)", f"at most {LARGEST_COUNT:,} are possible"
        )


def _not_loadable(what: str, error: Exception, fix: str) -> UserError:
    """In one line, without what the Hub's library says about names and connections that were not tried."""
    why = reason(error)
    if "couldn't connect" in why and not may_download():
        why = "no such folder, not in the cache, and downloads are off"
    elif why.startswith("Repo id must"):
        why = "no such folder"
    if "custom code" in why:
        return UserError(f"{what} needs code of its own, which is never run", "give a checkpoint that needs none")
    if "backend tokenizer" in why:  # what transformers says where a folder has no file of a tokenizer
        return UserError(f"{what} cannot be loaded: it has no tokenizer files", "copy tokenizer.json to its folder")
    return UserError(f"{what} cannot be loaded ({why})", fix)


# --- settings on which a model and its tokenizer must agree, and which published checkpoints leave open ---


def max_positions(model: Any) -> float:
    """How many positions the model has; models with relative positions may name no limit."""
    named = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    limits = [float(named)] if named is not None and named >= 0 else []  # XLNet writes -1
    for name, module in model.named_modules():
        first = getattr(module, "padding_idx", None)
        if name.endswith(".position_embeddings") and first is not None:
            # RoBERTa and similar models count from the padding's position: of 514 they use 512
            limits.append(len(module.weight) - first - 1)
    return min(limits, default=float("inf"))


def readable_length(name: str, model: Any, tokenizer: Any, wanted: int) -> int:
    """`wanted` tokens, or fewer if the model has fewer positions or its tokenizer cuts earlier."""
    length = int(min(wanted, tokenizer.model_max_length, max_positions(model)))
    if length < 1:
        raise UserError(f"backbone '{name}' reads no tokens", "correct its max_position_embeddings")
    return length


def set_padding(model: Any, tokenizer: Any, name: str) -> None:
    """Use one padding token in model and tokenizer.

    Decoders have none, or only the tokenizer names one. They find a text's last token by it, so model and tokenizer
    must use the same. It needs an existing embedding: a new one would make another backbone. The end-of-text token
    may serve, because attention masks the padding.
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
        config.decoder_start_token_id = padding  # what T5 was trained with; its configuration may omit it


def set_segments(model: Any, tokenizer: Any) -> None:
    """The model decides whether it gets segment ids, not the tokenizer's class.

    ALBERT was trained with segments, but its tokenizer does not return them; a general tokenizer may return them for a
    model that has none. A model that was fine-tuned elsewhere had those that its tokenizer returns.
    """
    name, segments = "token_type_ids", getattr(model.config, "type_vocab_size", None)
    segments = None if getattr(tokenizer, AS_IS, False) else segments
    accepted = name in inspect.signature(model.forward).parameters
    used = accepted and (name in tokenizer.model_input_names if segments is None else segments > 1)
    others = [each for each in tokenizer.model_input_names if each != name]
    if used != (name in tokenizer.model_input_names):  # saved with the tokenizer, for those who load it without srnet
        tokenizer.init_kwargs["model_input_names"] = [*others, name] if used else others
    tokenizer.model_input_names = [*others, name] if used else others
