"""Reading a checkpoint: the embedded one, a local folder, or a hub name. Nothing in it is executed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer
from transformers import logging as transformers_logging

from srnet.names import DOWNLOAD_VARIABLE, EMBEDDED, EMBEDDED_OTHER

_SYNTHETIC = Path(__file__).parents[1] / "tasks" / "synthetic"
SHIPPED = {EMBEDDED: _SYNTHETIC / "backbone", EMBEDDED_OTHER: _SYNTHETIC / "backbone_small"}

LOADING_ERRORS = (OSError, ValueError, RuntimeError, SafetensorError)
"""What transformers raises for a checkpoint that is missing or damaged."""


def folder_or_name(name: str) -> str:
    return str(SHIPPED.get(name, name))


def read_model(loader: Any, name: str, **options: Any) -> tuple[Any, frozenset[str]]:
    """The model, and the names of the tensors that the checkpoint does not have, or has in another shape."""
    with _quietly():
        model, info = loader.from_pretrained(
            folder_or_name(name),
            output_loading_info=True,
            use_safetensors=True,
            dtype=torch.float32,
            **options,
            **_safely(),
        )
    mismatched = (key for key, *_shapes in info["mismatched_keys"])
    return model, frozenset({*info["missing_keys"], *mismatched})


def read_tokenizer(name: str) -> Any:
    with _quietly():
        return AutoTokenizer.from_pretrained(folder_or_name(name), **_safely())


def read_config(name: str) -> Any:
    return AutoConfig.from_pretrained(folder_or_name(name), **_safely())


def _safely() -> dict[str, Any]:
    """Never run code of a checkpoint; download one only if the user allows it."""
    return {"trust_remote_code": False, "local_files_only": os.environ.get(DOWNLOAD_VARIABLE) != "1"}


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """No warning "some weights are newly initialised": that is intended here."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
