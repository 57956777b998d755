"""The part of a model that gives the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)


@dataclass(frozen=True)
class Head:
    """The layers that give the logits.

    `words`: the masked-language-model head that the backbone was pre-trained with, restricted to one word per label.
    Without words the head is a randomly initialised linear layer. `per_token`: logits for every token instead of one
    set for the text.
    """

    words: tuple[str, ...] = ()
    per_token: bool = False

    def loader(self) -> Any:
        if self.words:
            return AutoModelForMaskedLM
        return AutoModelForTokenClassification if self.per_token else AutoModelForSequenceClassification


CLASSIFIER = Head()
