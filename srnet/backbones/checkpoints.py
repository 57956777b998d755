"""Reading a checkpoint: the embedded one, a local folder, or a hub name. Nothing in it is executed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from srnet.errors import UserError, catching_panics, reason
from srnet.files import read_json, require_readable_in
from srnet.lazy import torch, transformers
from srnet.names import DOWNLOAD_VARIABLE, EMBEDDED, EMBEDDED_OTHER
from srnet.network import guarded_hub, may_download

_SYNTHETIC = Path(__file__).parents[1] / "tasks" / "synthetic"
IDENTITY = "identity.json"
LARGEST_COUNT = 10_000
"""The limit on the number of layers, and of labels, of a model."""
FIX = f"give a folder with a safetensors checkpoint, or set {DOWNLOAD_VARIABLE}=1 to allow a download"
"""For a checkpoint that cannot be loaded."""
_COUNTED = re.compile("layer|group|label")
SHIPPED = {EMBEDDED: _SYNTHETIC / "backbone", EMBEDDED_OTHER: _SYNTHETIC / "backbone_small"}


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
        return read_pretrained(transformers.AutoTokenizer, folder_or_name(name))


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
    with contextlib.suppress(UserError):  # whoever loads it says what is wrong with it
        config = read_json(path)
    named = config.items() if isinstance(config, dict) else ()
    large = [key for key, value in named if type(value) is int and value > LARGEST_COUNT and _COUNTED.search(key)]
    if large:
        raise UserError(
            f"{path} cannot be loaded ({large[0]} is out of range)", f"at most {LARGEST_COUNT:,} are possible"
        )


def _why_not_loaded(error: Exception) -> str:
    """In one line, without what the Hub's library says about names and connections that were not tried."""
    why = reason(error)
    if "couldn't connect" in why and not may_download():
        return "no such folder, not in the cache, and downloads are off"
    return "no such folder" if why.startswith("Repo id must") else why


def _not_loadable(what: str, error: Exception, fix: str) -> UserError:
    why = _why_not_loaded(error)
    if "custom code" in why:
        return UserError(f"{what} needs code of its own, which is never run", "give a checkpoint that needs none")
    return UserError(f"{what} cannot be loaded ({why})", fix)
