"""The part of a model that gives the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srnet.lazy import transformers


@dataclass(frozen=True)
class Head:
    """The layers that give the logits.

    `words`: the masked-language-model head that the backbone was pre-trained with, restricted to one word per label.
    Without words the head is a linear layer, the classifier. `per_token`: logits for every token instead of one
    set for the text.
    """

    words: tuple[str, ...] = ()
    per_token: bool = False

    def loader(self) -> Any:
        if self.words:
            return transformers.AutoModelForMaskedLM
        if self.per_token:
            return transformers.AutoModelForTokenClassification
        return transformers.AutoModelForSequenceClassification


CLASSIFIER = Head()
