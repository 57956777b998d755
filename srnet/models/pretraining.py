"""Pre-training of the embedded backbone, on pairs of sentences of which one restates the other or has other content.

To predict a masked word the model must represent who did what to whom in one sentence and apply it to another wording.
In the second phase, people and verbs are enough to distinguish a restatement from another sentence. In the last phase
pairs may differ in the roles alone, and the model must also count shared words, whose number is independent of the
content: it learns truth and overlap, and favours neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable
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

from srnet.core.files import new_folder, write_text
from srnet.core.names import EMBEDDED, EMBEDDED_OTHER
from srnet.tasks.synthetic.families import MOST_SHARED, draw_scene, drawn_kind, retold
from srnet.tasks.synthetic.grammar import (
    CLAIM_OPENINGS,
    Sentence,
    Surface,
    Words,
    clause,
    draw_event,
    draw_sentence,
    draw_surface,
    replace_concepts,
    vocabulary,
)
from srnet.tasks.synthetic.pretrain_settings import PretrainSettings


def _some_synonyms(rng: Random, sentence: Sentence) -> Surface:
    """The words of a sentence, some of them drawn again."""
    w = dict(sentence.surface)
    if rng.random() < 0.7:
        w |= draw_surface(rng, frozenset(concept for concept in w if rng.random() < 0.5))
    return w


def _restatement(rng: Random, sentence: Sentence) -> Words:
    """Another wording of what `sentence` says, with some words exchanged for their synonyms."""
    w = _some_synonyms(rng, sentence)
    if not sentence.facts:  # "if X, Y" is restated as "Y if X"
        swap = {old: w[concept] for concept, old in sentence.surface}
        words = [swap.get(word, word) for word in sentence.words]
        comma = words.index(",")
        return [*words[comma + 1 :], *words[:comma]]
    facts = sorted(sentence.facts)
    rng.shuffle(facts)
    if rng.random() < 0.3:
        facts = facts[:1]
    words = [] if rng.random() < 0.7 else [rng.choice(rng.choice(CLAIM_OPENINGS)), ","]
    for index, fact in enumerate(facts):
        words += ([rng.choice(("and", "while"))] if index else []) + clause(rng, fact, w)
    return words


def _document(rng: Random) -> tuple[str, str]:
    """Two segments that say the same thing; either may come first."""
    sentence = draw_sentence(rng)
    pair = (sentence.text, " ".join(_restatement(rng, sentence)))
    return pair if rng.random() < 0.5 else pair[::-1]


def _related_or_not(rng: Random) -> tuple[str, str, bool]:
    """A sentence, a clause, and whether the clause restates it. If not, at least one of its concepts differs."""
    sentence = draw_sentence(rng)
    while not sentence.facts:
        sentence = draw_sentence(rng)
    related = rng.random() < 0.5
    fact, w = rng.choice(sorted(sentence.facts)), _some_synonyms(rng, sentence)
    if not related and rng.random() < 0.5:
        fact = rng.choice(sorted(draw_sentence(rng).facts) or [draw_event(rng)])
    elif not related:
        fact = replace_concepts(rng, fact, sentence.mentioned, rng.randint(1, len(fact.concepts)))
    w |= draw_surface(rng, frozenset(fact.concepts) - w.keys())
    return sentence.text, " ".join(clause(rng, fact, w)), related


def _retold_or_not(rng: Random) -> tuple[str, str, bool, int]:
    """A scene, two clauses, whether they say the same, and how many of the scene's words they share."""
    scene, related, shared = draw_scene(rng), rng.random() < 0.5, rng.randint(0, MOST_SHARED)
    words = retold(rng, scene, drawn_kind(rng, same=related), shared)
    return scene.text, " ".join(words), related, shared


# --- the model: a small BERT on text of the grammar ---

Watch = Callable[[int, int, dict[str, float]], None]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word: the grammar's vocabulary is closed."""
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


def _make_model(settings: PretrainSettings, words: int) -> BertForPreTraining:
    torch.manual_seed(settings.seed)
    config = BertConfig(
        vocab_size=words,
        hidden_size=settings.hidden_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.hidden_size,
        max_position_embeddings=64,
        # with dropout so small a model does not learn to compare words
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForPreTraining(config)


def _mask_tokens(ids: torch.Tensor, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask a share of the words: nine in ten become [MASK], the rest are unchanged. Labels are -100 elsewhere."""
    chosen = (torch.rand(ids.shape) < share) & (ids >= len(SPECIAL))
    hidden = chosen & (torch.rand(ids.shape) < 0.9)
    return ids.masked_fill(hidden, SPECIAL.index("[MASK]")), ids.masked_fill(~chosen, -100)


class _Pretraining:
    """The model, its text, and one loss for each of the three objectives."""

    def __init__(self, settings: PretrainSettings) -> None:
        self.settings = settings
        self.tokenizer = _make_tokenizer()
        self.model = _make_model(settings, len(self.tokenizer))
        self.counter: torch.nn.Linear | None = None
        """Counts shared words in the last phase; discarded afterwards."""
        self.rng = Random(f"pretrain-{settings.seed}")
        self.log: list[dict[str, float]] = []
        self.done = 0

    def mlm_loss(self) -> torch.Tensor:
        pairs = [_document(self.rng) for _ in range(self.settings.batch_size)]
        inputs = self._encode([a for a, _ in pairs], [b for _, b in pairs])
        inputs["input_ids"], labels = _mask_tokens(inputs["input_ids"], self.settings.mask_share)
        logits = self.model(**inputs).prediction_logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)

    def pair_loss(self) -> torch.Tensor:
        # without masks: a masked word could not be distinguished from a changed one
        pairs = [_related_or_not(self.rng) for _ in range(self.settings.batch_size)]
        inputs = self._encode([a for a, _, _ in pairs], [b for _, b, _ in pairs])
        unrelated = torch.tensor([int(not related) for _, _, related in pairs])
        return F.cross_entropy(self.model(**inputs).seq_relationship_logits, unrelated)

    def compare_loss(self) -> torch.Tensor:
        """Whether a pair says the same, and how many words it shares."""
        assert self.counter is not None
        pairs = [_retold_or_not(self.rng) for _ in range(self.settings.batch_size)]
        inputs = self._encode([a for a, *_ in pairs], [b for _, b, *_ in pairs])
        pooled = self.model.bert(**inputs).pooler_output
        different = torch.tensor([int(not same) for _, _, same, _ in pairs])
        shared = torch.tensor([count for *_, count in pairs])
        relation = F.cross_entropy(self.model.cls.seq_relationship(pooled), different)
        return relation + F.cross_entropy(self.counter(pooled), shared)

    def _encode(self, first: list[str], second: list[str]) -> dict[str, torch.Tensor]:
        return dict(self.tokenizer(first, second, padding=True, return_tensors="pt"))

    def phase(self, steps: int, rate: float, watch: Watch | None, other: str = "mlm", share: float = 0.0) -> None:
        """Masked language modelling, a share of the batches another objective; linear warm-up and decay."""
        settings = self.settings
        parameters = [*self.model.parameters(), *(self.counter.parameters() if self.counter else [])]
        optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, step / settings.warmup) * (1.0 - step / steps)
        )
        objectives = {"mlm": self.mlm_loss, "pair": self.pair_loss, "compare": self.compare_loss}
        losses: dict[str, list[float]] = {name: [] for name in objectives}
        for step in range(1, steps + 1):
            kind = other if self.rng.random() < share else "mlm"
            loss = objectives[kind]()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            losses[kind].append(loss.item())
            self.done += 1
            if step % 100 == 0 or step == steps:
                means = {name: sum(values) / len(values) for name, values in losses.items() if values}
                self.log.append({"step": self.done, **means, "loss": sum(means.values())})
                losses = {name: [] for name in objectives}
            if watch is not None:
                total = settings.mlm_steps + settings.pair_steps + settings.compare_steps
                watch(self.done, total, self.log[-1] if self.log else {})

    def begin_last_phase(self) -> None:
        """Seed the phase by itself: its result must not depend on whether earlier phases ran in this process."""
        self.rng = Random(f"compare-{self.settings.seed}")
        torch.manual_seed(self.settings.seed)
        self.counter = torch.nn.Linear(self.settings.hidden_size, MOST_SHARED + 1)


def pretrain(out: Path, settings: PretrainSettings | None = None, watch: Watch | None = None) -> list[dict[str, float]]:
    """Train the backbone and write it to `out` with tokenizer and model card. Returns the logged losses."""
    settings = settings or PretrainSettings()
    run = _Pretraining(settings)
    run.phase(settings.mlm_steps, settings.learning_rate, watch)
    run.phase(settings.pair_steps, settings.learning_rate, watch, "pair", settings.pair_share)
    run.begin_last_phase()
    run.phase(settings.compare_steps, settings.compare_rate, watch, "compare", settings.pair_share)
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
    losses = ", ".join(f"{name} {last[name]:.3f}" for name in ("mlm", "compare") if name in last)
    names = ("layers", "compare_steps")
    changed = [name for name in names if getattr(settings, name) != getattr(PretrainSettings, name)]
    options = "".join(f" --{name.replace('_', '-')} {getattr(settings, name)}" for name in changed)
    return f"""# {EMBEDDED if settings.layers == PretrainSettings.layers else EMBEDDED_OTHER}

A BERT with {settings.layers} layers of width {settings.hidden_size} ({size:,} parameters, {len(vocabulary())} words),
pre-trained on text of srnet's own grammar: first by masked language modelling on pairs of sentences that restate each
other, then also by telling a restatement from another sentence, and last from one with exchanged roles, and by counting
the words that two sentences share. It has learned who did what to whom in that grammar and nothing else. It is meant
for the embedded benchmark, for tests and for demonstrations, not for real text.

- Made by: `srnet pretrain --out DIR{options}`
- Settings: `{json.dumps(settings.__dict__)}`
- Last losses: {losses}
- Licence: Apache-2.0, as the rest of srnet. No other text or weights were used.
"""
