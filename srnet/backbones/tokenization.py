"""Settings on which a model and its tokenizer must agree, and which published checkpoints leave open."""

from __future__ import annotations

import inspect
from typing import Any

from srnet.errors import UserError


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
    model that has none.
    """
    name, segments = "token_type_ids", getattr(model.config, "type_vocab_size", None)
    accepted = name in inspect.signature(model.forward).parameters
    used = accepted and (name in tokenizer.model_input_names if segments is None else segments > 1)
    others = [each for each in tokenizer.model_input_names if each != name]
    tokenizer.model_input_names = [*others, name] if used else others
