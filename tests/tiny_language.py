"""Tiny language models with random weights, and their tokenizer: one token per word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from torch import nn

KNOWN = "the a nurse doctor man woman he she is was and kind strong weak banjo in park ran slept . ,"
WORDS = tuple(KNOWN.split())
SPECIAL = ("[PAD]", "[UNK]", "<s>", "</s>", "[MASK]")
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
GROUPED = SMALL | {"num_key_value_heads": 1, "head_dim": 8}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", GROUPED | {"tie_word_embeddings": False}),
    "llama, tied": ("llama", GROUPED | {"tie_word_embeddings": True}),
    "gpt2": ("gpt2", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24}),
    "gpt2, untied": ("gpt2", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24, "tie_word_embeddings": False}),
    "qwen2": ("qwen2", SMALL | {"num_key_value_heads": 1, "tie_word_embeddings": False}),
    "qwen2, tied": ("qwen2", SMALL | {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "mistral": ("mistral", GROUPED | {"sliding_window": None, "tie_word_embeddings": False}),
    "mistral, tied": ("mistral", GROUPED | {"sliding_window": None, "tie_word_embeddings": True}),
    "bert": ("bert", SMALL),
}
DECODERS = [name for name in MODELS if name != "bert"]


def tokenizer(*, begins: bool = True) -> Any:
    """`begins`: with a beginning-of-text token."""
    every = {word: index for index, word in enumerate((*SPECIAL, *WORDS))}
    made = Tokenizer(WordLevel(every, unk_token="[UNK]"))
    made.pre_tokenizer = WhitespaceSplit()
    made.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)])
    names = {"bos_token": "<s>"} if begins else {}
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", eos_token="</s>", mask_token="[MASK]", **names
    )


def write_language_model(folder: Path, name: str = "llama", seed: int = 0, std: float = 0.4, **settings: Any) -> str:
    """Nothing is zero, so that nothing is right by chance."""
    kind, sizes = MODELS[name]
    config = hf.AutoConfig.for_model(
        kind, vocab_size=len(SPECIAL) + len(WORDS), pad_token_id=0, max_position_embeddings=32, **(sizes | settings)
    )
    torch.manual_seed(seed)
    loader = hf.AutoModelForMaskedLM if kind == "bert" else hf.AutoModelForCausalLM
    model = loader.from_config(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


TEXTS = (
    "the nurse is kind .",
    "a doctor ran in the park .",
    "he slept",
    "the man was strong , the woman was weak , she ran in a park .",
    "banjo",
    "the woman is a doctor and she is strong .",
    "a man ran . a woman ran . a nurse ran . a doctor ran .",
    "she was kind in the park",
)
PAIRS = (
    ("the nurse is kind and she slept", "the nurse is kind and he slept", "the nurse is banjo and banjo slept"),
    ("the woman was weak .", "the woman was strong strong .", "the woman was banjo ."),
    ("a man is strong", "a woman is strong", "a banjo is strong"),
    ("he is a doctor in the park", "she is a kind nurse in the park", "park is a banjo"),
    ("the doctor ran he ran", "the doctor ran she ran", "the doctor ran banjo ran"),
    ("she slept , he ran", "he slept , she ran", "banjo , in"),
)


def write_texts(folder: Path, copies: int = 1) -> Path:
    path = folder / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS * copies))
    return path


def write_pairs(folder: Path, name: str = "pairs.csv", *, unrelated: bool = True) -> Path:
    columns = "stereotype,anti_stereotype,bias_type,target" + (",unrelated" if unrelated else "")
    rows = [columns]
    for n, (stereotype, opposite, other) in enumerate(PAIRS):
        cells = [stereotype, opposite, ("gender", "job")[n % 2], f"target {n % 3}", *([other] if unrelated else [])]
        rows.append(",".join(f'"{cell}"' for cell in cells))
    path = folder / name
    path.write_text("\n".join(rows) + "\n")
    return path
