"""How the embedded backbone was made: a small BERT, pre-trained on nothing but text of the grammar."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from torch.nn import functional as F
from transformers import BertConfig, BertForPreTraining, PreTrainedTokenizerFast

from srnet.files import new_folder, write_text
from srnet.names import EMBEDDED, EMBEDDED_OTHER
from srnet.tasks.synthetic.corpus import document, related_or_not
from srnet.tasks.synthetic.lexicon import vocabulary

Watch = Callable[[int, int, dict[str, float]], None]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class PretrainSettings:
    """The defaults are those of the shipped backbone."""

    mlm_steps: int = 7_000
    """First phase: masked language modelling alone, until the roles are learned."""
    pair_steps: int = 2_000
    """Second phase: most batches ask whether the second sentence restates the first, much as BERT was trained."""
    pair_share: float = 0.7
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup: int = 200
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


def make_model(settings: PretrainSettings, words: int) -> BertForPreTraining:
    torch.manual_seed(settings.seed)
    config = BertConfig(
        vocab_size=words,
        hidden_size=settings.hidden_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.hidden_size,
        max_position_embeddings=64,
        # so small a model has nothing to spare: with dropout it does not learn to compare words
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForPreTraining(config)


def mask_tokens(ids: torch.Tensor, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Hide a share of the words: nine in ten become [MASK], the rest stay as they are. Labels are -100 elsewhere."""
    chosen = (torch.rand(ids.shape) < share) & (ids >= len(SPECIAL))
    hidden = chosen & (torch.rand(ids.shape) < 0.9)
    return ids.masked_fill(hidden, SPECIAL.index("[MASK]")), ids.masked_fill(~chosen, -100)


class _Pretraining:
    """The model, its text, and one loss for each of the two objectives."""

    def __init__(self, settings: PretrainSettings) -> None:
        self.settings = settings
        self.tokenizer = make_tokenizer()
        self.model = make_model(settings, len(self.tokenizer))
        self.rng = Random(f"pretrain-{settings.seed}")
        self.log: list[dict[str, float]] = []

    def mlm_loss(self) -> torch.Tensor:
        pairs = [document(self.rng) for _ in range(self.settings.batch_size)]
        inputs = self._encode([a for a, _ in pairs], [b for _, b in pairs])
        inputs["input_ids"], labels = mask_tokens(inputs["input_ids"], self.settings.mask_share)
        logits = self.model(**inputs).prediction_logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)

    def pair_loss(self) -> torch.Tensor:
        # on whole sentences: behind masks nobody could tell one changed word from a hidden one
        pairs = [related_or_not(self.rng) for _ in range(self.settings.batch_size)]
        inputs = self._encode([a for a, _, _ in pairs], [b for _, b, _ in pairs])
        unrelated = torch.tensor([int(not related) for _, _, related in pairs])
        return F.cross_entropy(self.model(**inputs).seq_relationship_logits, unrelated)

    def _encode(self, first: list[str], second: list[str]) -> dict[str, torch.Tensor]:
        return dict(self.tokenizer(first, second, padding=True, return_tensors="pt"))

    def phase(self, steps: int, pair_share: float, watch: Watch | None, done: int) -> None:
        """Linear warm-up and decay over `steps`."""
        settings, total = self.settings, self.settings.mlm_steps + self.settings.pair_steps
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, step / settings.warmup) * (1.0 - step / steps)
        )
        losses: dict[str, list[float]] = {"mlm": [], "pair": []}
        for step in range(1, steps + 1):
            kind = "pair" if self.rng.random() < pair_share else "mlm"
            loss = self.pair_loss() if kind == "pair" else self.mlm_loss()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            losses[kind].append(loss.item())
            if step % 100 == 0 or step == steps:
                means = {name: sum(values) / len(values) for name, values in losses.items() if values}
                self.log.append({"step": done + step, **means, "loss": sum(means.values())})
                losses = {"mlm": [], "pair": []}
            if watch is not None:
                watch(done + step, total, self.log[-1] if self.log else {})


def pretrain(out: Path, settings: PretrainSettings | None = None, watch: Watch | None = None) -> list[dict[str, float]]:
    """Train the backbone and write it to `out` with tokenizer and model card. Returns the logged losses."""
    settings = settings or PretrainSettings()
    run = _Pretraining(settings)
    run.phase(settings.mlm_steps, 0.0, watch, done=0)
    run.phase(settings.pair_steps, settings.pair_share, watch, done=settings.mlm_steps)
    _write(out, run)
    return run.log


def _write(out: Path, run: _Pretraining) -> None:
    with new_folder(out) as staging:
        run.model.save_pretrained(staging)
        run.tokenizer.save_pretrained(staging)
        write_text(staging / "README.md", _card(run))


def _card(run: _Pretraining) -> str:
    settings, last = run.settings, run.log[-1]
    size = sum(parameter.numel() for parameter in run.model.parameters())
    losses = ", ".join(f"{name} {last[name]:.3f}" for name in ("mlm", "pair") if name in last)
    options = "" if settings.layers == PretrainSettings.layers else f" --layers {settings.layers}"
    return f"""# {EMBEDDED if not options else EMBEDDED_OTHER}

A BERT with {settings.layers} layers of width {settings.hidden_size} ({size:,} parameters, {len(vocabulary())} words),
pre-trained on text of srnet's own grammar: first by masked language modelling on pairs of sentences that restate each
other, then also by telling a restatement from another sentence. It knows who did what to whom in that grammar and
nothing else. It is meant for the embedded benchmark, for tests and for demonstrations, not for real text.

- Made by: `srnet pretrain --out DIR{options}`
- Settings: `{json.dumps(settings.__dict__)}`
- Last losses: {losses}
- Licence: Apache-2.0, as the rest of srnet. No outside text or weights went into it.
"""
