"""Models and data of the size of small BERTs and decoders, made up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

from srnet.training.data import Encoded


def bert(layers: int = 6, hidden: int = 384) -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 32, intermediate_size=4 * hidden
    )
    return BertForSequenceClassification(config)


def llama(layers: int = 6, hidden: int = 384) -> LlamaForCausalLM:
    """A decoder with the proportions and the vocabulary of Llama 2; its output layer shares the embeddings."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 32, vocab_size=32_000,
        intermediate_size=8 * hidden // 3, tie_word_embeddings=True,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def batch_of(rows: int, tokens: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(1000, 30000, (rows, tokens))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def encoded(lengths: Sequence[int] | np.ndarray) -> Encoded:
    rng = np.random.default_rng(0)
    ids = [rng.integers(1000, 30000, length).astype(np.int32) for length in lengths]
    return Encoded(
        {"input_ids": np.concatenate(ids)},
        np.zeros(len(ids), dtype=np.int64),
        np.asarray(lengths),
        {"input_ids": 0},
        {},
    )
