"""Everything that the page says about one pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from srnet.audit import Matched, collect_logits
from srnet.page.nearest import TrainingRows
from srnet.page.shortcut import Shortcut
from srnet.page.words import overlap_of
from srnet.tasks.answers import CLASSES
from srnet.tasks.base import Task


@dataclass(frozen=True)
class PairView:
    task: Task
    models: Sequence[Matched]
    """A and B."""
    shortcut: Shortcut | None
    training: TrainingRows
    notes: Sequence[str] = ()

    def look(self, text_a: str, text_b: str, split: str | None = None) -> dict[str, Any]:
        """What both models and the shortcut answer, the shared words, the nearest training rows.

        With `split`, answers are also given as the classes of that split, which may be fewer.
        """
        shortcut = None if self.shortcut is None else self._shortcut_answer(text_a, text_b)
        return {
            "answers": [self._answer(model, text_a, text_b, split) for model in self.models],
            "shortcut": shortcut,
            "overlap": asdict(overlap_of(text_a, text_b)) if self.task.has_pairs else None,
            "nearest": [asdict(each) for each in self.training.nearest(text_a, text_b)],
        }

    def _answer(self, model: Matched, text_a: str, text_b: str, split: str | None) -> dict[str, Any]:
        logits = collect_logits(model, [text_a], [text_b])
        return {
            **_distribution(softmax(logits.astype(np.float64), axis=1)[0]),
            "class": None if split is None else self._class(logits, split),
            "tokens": tokens_of(model, text_a, text_b),
        }

    def _class(self, logits: np.ndarray, name: str) -> str:
        split = self.task.splits[name]
        return self.task.classes_of(split)[int(CLASSES.decode(split, logits)[0])]

    def _shortcut_answer(self, text_a: str, text_b: str) -> dict[str, Any]:
        assert self.shortcut is not None
        return _distribution(np.exp(self.shortcut.log_probs([text_a], [text_b])[0]))


def _distribution(probabilities: np.ndarray) -> dict[str, Any]:
    return {"probabilities": probabilities.tolist(), "answer": int(probabilities.argmax())}


def tokens_of(model: Matched, text_a: str, text_b: str) -> dict[str, int] | None:
    """How many tokens a pair has and how many of them the model reads, if it does not read all."""
    tokenizer, most = (getattr(model.classifier, name, None) for name in ("tokenizer", "max_length"))
    # no token is longer than its text, so short texts need no count; special tokens are at most 4
    if tokenizer is None or most is None or len(text_a) + len(text_b) + 4 <= most:
        return None
    count = len(tokenizer(text_a, text_b or None, verbose=False)["input_ids"])
    return {"read": most, "all": count} if count > most else None
