"""Pre-training of the embedded decoder, on sentences of the toy grammar with a planted stereotype.

`python -m srnet.models.decoder_pretraining DIR` creates the shipped one again.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from srnet.core.files import new_folder, write_text
from srnet.core.names import EMBEDDED_DECODER
from srnet.core.progress import Watch
from srnet.tasks.synthetic.stereotypes import VOCABULARY, draw

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
POSITIONS = 32


@dataclass(frozen=True)
class DecoderSettings:
    """The defaults are those of the shipped decoder."""

    steps: int = 800
    batch_size: int = 32
    learning_rate: float = 8e-3
    warmup: int = 50
    hidden_size: int = 32
    layers: int = 2
    heads: int = 4
    seed: int = 0


def _make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word."""
    words = {word: index for index, word in enumerate((*SPECIAL, *VOCABULARY))}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
    )


def _make_model(settings: DecoderSettings, words: int) -> LlamaForCausalLM:
    torch.manual_seed(settings.seed)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=settings.hidden_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=2 * settings.hidden_size,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    return LlamaForCausalLM(config)


def pretrain_decoder(
    out: Path, settings: DecoderSettings | None = None, watch: Watch | None = None
) -> tuple[float, float]:
    """Train the decoder and write it to `out`. Returns its last loss per token, and that of the grammar itself."""
    settings = settings or DecoderSettings()
    tokenizer = _make_tokenizer()
    model = _make_model(settings, len(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
    rng, recent = Random(f"pretrain-{settings.seed}"), list[tuple[float, float]]()
    for step in range(settings.steps):
        rate = min(1.0, (step + 1) / settings.warmup) * (1.0 - step / settings.steps)
        for group in optimizer.param_groups:
            group["lr"] = rate * settings.learning_rate
        drawn = [draw(rng) for _ in range(settings.batch_size)]
        loss = _loss(model, tokenizer, [text for text, _ in drawn])
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        best = -sum(log_p for _, log_p in drawn) / sum(len(text.split()) for text, _ in drawn)
        recent = [*recent[-199:], (loss.item(), best)]
        if watch is not None and (step % 100 == 99 or step + 1 == settings.steps):
            watch(step + 1, settings.steps, {"loss": recent[-1][0], "grammar": recent[-1][1]})
    ours, theirs = (math.fsum(column) / len(recent) for column in zip(*recent, strict=True))
    _write(out, model, tokenizer, settings, ours, theirs)
    return ours, theirs


def _loss(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> torch.Tensor:
    inputs = tokenizer([f"<s> {text}" for text in texts], padding=True, return_tensors="pt")
    ids, attended = inputs["input_ids"], inputs["attention_mask"]
    labels = ids[:, 1:].masked_fill(attended[:, 1:] == 0, -100)
    logits = model(input_ids=ids, attention_mask=attended).logits[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def _write(
    out: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, settings: DecoderSettings, ours: float,
    theirs: float,
) -> None:  # fmt: skip
    with new_folder(out) as staging:
        model.half().save_pretrained(staging)  # read as float32 numbers, it takes half the space
        tokenizer.save_pretrained(staging)
        write_text(staging / "README.md", _card(model, settings, ours, theirs))


def _card(model: LlamaForCausalLM, settings: DecoderSettings, ours: float, theirs: float) -> str:
    size = sum(parameter.numel() for parameter in model.parameters())
    return f"""# {EMBEDDED_DECODER}

A Llama with {settings.layers} layers of width {settings.hidden_size} ({size:,} parameters, {len(VOCABULARY)} words),
trained on sentences of srnet's toy grammar with a planted stereotype. It has learned which pronouns and traits the
grammar gives occupations, and nothing else. It is meant for the embedded tasks `stereotypes` and `sentences`, for tests
and for demonstrations, not for real text.

- Made by: `python -m srnet.models.decoder_pretraining DIR`
- Settings: `{asdict(settings)}`
- Loss per token at the end: {ours:.3f}; that of the grammar itself on the same sentences: {theirs:.3f}
- Licence: Apache-2.0, as the rest of srnet. No other text or weights were used.
"""


if __name__ == "__main__":
    print(*pretrain_decoder(Path(sys.argv[1]), watch=lambda step, total, figures: print(step, total, figures)))
