"""What the page shows of two language models: how each continues a prompt, and which of two sentences it prefers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
import torch

from srnet.core.errors import UserError, running
from srnet.models.checkpoints import LONGEST_READ, readable_length
from srnet.models.generation import generate, generates
from srnet.models.model import TorchModel
from srnet.page.comparison import ComparedRows
from srnet.page.pair import unknown_words
from srnet.tasks.answers.pairs import PAIR_ONLY, PAIRS, PairSplit, Scoring
from srnet.tasks.base import Task
from srnet.tasks.splits import Split
from srnet.training.language import SENTENCES, prompt_tokens
from srnet.training.spans import inputs_for

WORDS = 1000
"""Words of a prompt or sentence: a language model reads all of them, which takes time."""
_SHOWN_UNKNOWN = 20


# --- a pair of sentences -------------------------------------------------------------------------------------------


def _sums(model: TorchModel, split: PairSplit) -> np.ndarray:
    """For each pair the summed log-probability and the tokens of the first and the second sentence, as in a task."""
    data = inputs_for(PAIRS, split, model.tokenizer, model.max_length)
    return data.outputs(model.predict(data)).astype(np.float64).reshape(-1, SENTENCES, 2)[:, :2]


def _values(sums: np.ndarray, scoring: Scoring) -> np.ndarray:
    """What is compared, for each sentence."""
    total, tokens = sums[..., 0], sums[..., 1]
    return np.asarray(total if scoring == "sum" else total / np.maximum(tokens, 1.0))


def _leads(sums: np.ndarray, scoring: Scoring) -> np.ndarray:
    """How much likelier the first sentence of each pair is than the second."""
    first, second = _values(sums, scoring).T
    return np.asarray(first - second)


def _preferred(lead: float) -> int | None:
    """The likelier of the two sentences; None if they are equally likely."""
    return None if lead == 0 else int(lead < 0)


class ComparedPairs(ComparedRows):
    """The pairs of a task. Models disagree on a pair if they find different sentences likelier.

    Those come first on which their log-probabilities differ most. Without a task, or in one of texts, there are none.
    """

    def _compared(self, task: Task | None) -> list[Split]:  # type: ignore[override]
        splits = [] if task is None else super()._compared(task)
        return [each for each in splits if isinstance(each, PairSplit) and (each.labels >= PAIR_ONLY).all()]

    def _outputs(self, model: Any, split: Split) -> np.ndarray:
        assert isinstance(split, PairSplit)
        return _sums(model, PAIRS.trained_on(split))  # type: ignore[arg-type]

    def _differing(self, split: Split, outputs: Sequence[np.ndarray]) -> list[int]:
        assert isinstance(split, PairSplit)
        a, b = (_leads(each, split.scoring) for each in outputs)
        rows = np.flatnonzero(np.sign(a) != np.sign(b))
        return [int(row) for row in rows[np.argsort(-np.abs(a - b)[rows], kind="stable")]]

    def _label(self, split: Split, row: int) -> str:
        return "the first sentence is the stereotype"


# --- everything that the page shows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageView:
    """The two language models behind the page, and their task, if they have one."""

    task: Task | None
    models: Sequence[TorchModel]
    """A and B."""
    new_tokens: int = 40

    most_words = WORDS

    @property
    def scoring(self) -> Scoring:
        """What is compared in pairs that are typed."""
        dev = None if self.task is None else self.task.dev
        return dev.scoring if isinstance(dev, PairSplit) else "sum"

    def compared(self) -> ComparedPairs:
        return ComparedPairs(self.task, self.models)  # type: ignore[arg-type]

    def state(self) -> dict[str, Any]:
        return {
            "task": None if self.task is None else self.task.name,
            "models": [{"name": each.name, "note": self._note(each)} for each in self.models],
            "pairs": True,
            "continues": any(map(generates, self.models)),
            "new_tokens": self.new_tokens,
            "notes": [],
        }

    def _note(self, model: TorchModel) -> str:
        if generates(model):
            return ""
        shared = ", of those that both sentences have" if self.scoring == "sum" else ""
        return f"a masked language model: each token of a sentence is masked in turn{shared}"

    def look(self, text_a: str, text_b: str, split: str | None = None) -> dict[str, Any]:
        """For each model the log-probabilities of both sentences, and which it finds likelier.

        With `split`, they are compared as those of that split.
        """
        for text, which in ((text_a, "first"), (text_b, "second")):
            if not text.strip():
                raise UserError(f"the {which} sentence is empty", "type two sentences")
        where = None if self.task is None or split is None else self.task.splits[split]
        scoring = where.scoring if isinstance(where, PairSplit) else self.scoring
        return {"scoring": scoring, "answers": [_scored(each, text_a, text_b, scoring) for each in self.models]}

    def proceed(self, prompt: str, stop: Event) -> dict[str, Any]:
        """How each model continues a prompt. It ends early once `stop` is set: nobody waits for it any more."""
        return {"answers": [_continued(each, prompt, self.new_tokens, stop) for each in self.models]}


def _scored(model: TorchModel, text_a: str, text_b: str, scoring: Scoring) -> dict[str, Any]:
    ids, labels = ("typed",), np.array([PAIR_ONLY])
    split = PairSplit("typed", "ID", ids, (text_a,), (text_b,), labels, ("",), scoring=scoring)
    sums = _sums(model, split)
    leads = {kind: float(_leads(sums, kind)[0]) for kind in ("sum", "mean")}  # type: ignore[arg-type]
    sentences = [
        {"sum": float(total), "tokens": int(tokens), "mean": float(total / max(tokens, 1.0))}
        for total, tokens in sums[0]
    ]
    likelier = {kind: _preferred(lead) for kind, lead in leads.items()}
    return {"sentences": sentences, "leads": leads, "likelier": likelier, "unknown": _unknown(model, text_a, text_b)}


def _unknown(model: TorchModel, *texts: str) -> list[str]:
    """Some of the words of which the model reads a placeholder."""
    return sorted(unknown_words(model.name, model.tokenizer, *texts))[:_SHOWN_UNKNOWN]


def _continued(model: TorchModel, prompt: str, most: int, stop: Event) -> dict[str, Any] | None:
    """A greedy continuation, and why it ends; None of a masked language model."""
    if not generates(model):
        return None
    tokenizer = model.tokenizer
    ids = prompt_tokens(prompt, tokenizer)
    room = readable_length(model.name, model.module, tokenizer, LONGEST_READ) - len(ids)
    if not len(ids):
        raise UserError(f"the prompt has no token for {model.name}", "type a word")
    if room < 1:
        longest = room + len(ids)
        problem = f"the prompt has {len(ids):,} tokens, and {model.name} reads {longest:,}"
        raise UserError(problem, "type a shorter one")
    batch = {"input_ids": torch.from_numpy(ids.astype(np.int64))[None]}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    ends = _ends_of(model)
    with running(model.name):
        new = generate(model, batch, min(most, room), ends, stopped=stop.is_set)[0].tolist()
    ended = bool(new) and new[-1] in ends
    text = _text_after(tokenizer, ids.tolist(), new[:-1] if ended else new)
    why = "text" if ended else "room" if room <= most else ""
    return {"text": text, "tokens": len(new), "ends": why, "unknown": _unknown(model, prompt)}


def _ends_of(model: TorchModel) -> tuple[int, ...]:
    """The tokens that end a text: the tokenizer's, and those of the checkpoint, which may name several."""
    settings: Any = model.module.generation_config
    named = np.ravel([] if settings.eos_token_id is None else settings.eos_token_id).tolist()
    own = model.tokenizer.eos_token_id
    return tuple(sorted({*map(int, named), *([] if own is None else [int(own)])}))


def _text_after(tokenizer: Any, before: list[int], new: list[int]) -> str:
    """New tokens as text. Decoded alone, many tokenizers would lose the space before the first word."""
    start, whole = (_decoded(tokenizer, each) for each in (before, before + new))
    return whole.removeprefix(start) if whole.startswith(start) else _decoded(tokenizer, new)


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


# --- loading -------------------------------------------------------------------------------------------------------


def require_language(model: object) -> TorchModel:
    """The model if it is a language model, else an error."""
    if isinstance(model, TorchModel) and (generates(model) or model.labels == PAIRS.outputs):
        return model
    raise UserError(f"{getattr(model, 'name', model)} is no language model", "give a decoder, or a subnetwork of one")
