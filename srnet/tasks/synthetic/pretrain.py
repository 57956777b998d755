"""How the embedded backbone was made: a small BERT, masked language modelling, text of the grammar."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from srnet.files import new_folder, write_text
from srnet.tasks.synthetic.corpus import documents
from srnet.tasks.synthetic.lexicon import vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class PretrainSettings:
    """The defaults are those of the shipped backbone."""

    steps: int = 10_000
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup: int = 500
    mask_share: float = 0.2
    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    seed: int = 0


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word: the grammar's vocabulary is closed."""
    words = [*SPECIAL, *vocabulary()]
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = BertPreTokenizer()  # type: ignore[assignment]
    tokenizer.post_processor = TemplateProcessing(  # type: ignore[assignment]
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def make_model(settings: PretrainSettings, words: int) -> BertForMaskedLM:
    torch.manual_seed(settings.seed)
    config = BertConfig(
        vocab_size=words,
        hidden_size=settings.hidden_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.hidden_size,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForMaskedLM(config)


def mask_tokens(ids: torch.Tensor, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Hide a share of the words: nine in ten become [MASK], the rest stay as they are. Labels are -100 elsewhere."""
    chosen = (torch.rand(ids.shape) < share) & (ids >= len(SPECIAL))
    hidden = chosen & (torch.rand(ids.shape) < 0.9)
    return ids.masked_fill(hidden, SPECIAL.index("[MASK]")), ids.masked_fill(~chosen, -100)


def pretrain(
    out: Path,
    settings: PretrainSettings | None = None,
    watch: Callable[[int, int, dict[str, float]], None] | None = None,
) -> list[dict[str, float]]:
    """Train the backbone and write it to `out` with tokenizer and model card. Returns the logged losses."""
    settings = settings or PretrainSettings()
    tokenizer = make_tokenizer()
    model = make_model(settings, len(tokenizer))
    pairs = documents(settings.batch_size * settings.steps, settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, step / settings.warmup) * (1.0 - step / settings.steps)
    )
    log: list[dict[str, float]] = []
    running = 0.0
    for step in range(settings.steps):
        batch = pairs[step * settings.batch_size : (step + 1) * settings.batch_size]
        inputs = tokenizer([a for a, _ in batch], [b for _, b in batch], padding=True, return_tensors="pt")
        inputs["input_ids"], labels = mask_tokens(inputs["input_ids"], settings.mask_share)
        loss = model(**inputs, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        running += loss.item()
        if (step + 1) % 100 == 0 or step + 1 == settings.steps:
            log.append({"step": step + 1, "loss": running / ((step % 100) + 1)})
            running = 0.0
        if watch is not None:
            watch(step + 1, settings.steps, log[-1] if log else {})
    _write(out, model, tokenizer, settings, log)
    return log


def _write(
    out: Path, model: BertForMaskedLM, tokenizer: Any, settings: PretrainSettings, log: list[dict[str, float]]
) -> None:
    # trained without dropout (it would blur the copying of words); fine-tuning uses BERT's usual one
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.1
    with new_folder(out) as staging:
        model.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        write_text(staging / "README.md", _card(model, settings, log))


def _card(model: BertForMaskedLM, settings: PretrainSettings, log: list[dict[str, float]]) -> str:
    size = sum(parameter.numel() for parameter in model.parameters())
    return f"""# srnet-tiny

A BERT with {settings.layers} layers of width {settings.hidden_size} ({size:,} parameters, {len(vocabulary())} words), pre-trained by masked
language modelling on text of srnet's own grammar: pairs of sentences in which one restates the other in other words.
It knows who did what to whom in that grammar and nothing else. It is meant for the embedded benchmark, for tests and for
demonstrations, not for real text.

- Made by: `srnet pretrain --out DIR`
- Settings: `{json.dumps(settings.__dict__)}`
- Last masked-language-model loss: {log[-1]["loss"]:.4f} at step {int(log[-1]["step"]):,}
- Licence: Apache-2.0, as the rest of srnet. No outside text or weights went into it.
"""
