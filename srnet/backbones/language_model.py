"""Backbones with the masked-language-model head that label words need."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from srnet.backbones.checkpoints import read_config, read_model
from srnet.backbones.layers import in_base
from srnet.errors import UserError
from srnet.lazy import transformers


@lru_cache(maxsize=32)
def has_language_model(name: str) -> bool:
    """Whether a checkpoint has the head that label words need."""
    try:
        return _predicts_words(name) and has_head(*read_model(transformers.AutoModelForMaskedLM, name))
    except UserError:
        return False


def load_language_model(name: str) -> transformers.PreTrainedModel:
    """The masked language model itself, with its complete vocabulary."""
    model: transformers.PreTrainedModel = read_model(transformers.AutoModelForMaskedLM, name)[0]
    return model


def check_architecture(name: str) -> None:
    if not _predicts_words(name):
        raise no_language_model(name)


def _predicts_words(name: str) -> bool:
    """Whether models of this type are pre-trained to predict a masked word at its own position."""
    config = read_config(name)
    return type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder


def has_head(model: Any, missing: frozenset[str]) -> bool:
    """Whether the checkpoint has the complete head: missing parts would stay random, because the head is frozen."""
    return model.get_output_embeddings() is not None and all(in_base(model, name) for name in missing)


def no_language_model(name: str) -> UserError:
    return UserError(
        f"backbone '{name}' has no masked-language-model head, which label words need",
        "leave them out: the backbone then gets an ordinary classifier",
    )
