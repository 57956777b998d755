"""The part of a model that gives the logits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from srnet.core.errors import UserError
from srnet.core.lazy import nn, torch, transformers


@dataclass(frozen=True)
class Head:
    """The layers that give the logits.

    `words`: the masked-language-model head that the backbone was pre-trained with, restricted to one word per label.
    Without words the head is a linear layer, the classifier. `per_token`: logits for every token instead of one
    set for the text. `as_is`: the model was fine-tuned elsewhere, so texts are encoded as its own tokenizer does alone.
    `language`: the checkpoint's own language model, with its complete vocabulary.
    """

    words: tuple[str, ...] = ()
    per_token: bool = False
    as_is: bool = False
    language: bool = False

    @property
    def is_pretrained(self) -> bool:
        """Whether the checkpoint has the head, so that no part of it is initialised."""
        return self.language or bool(self.words)

    def loader(self, config: Any = None) -> Any:
        """The class of transformers that loads a model with this head; `config` decides between language models."""
        if self.language:
            return language_loader(config)
        if self.words:
            return transformers.AutoModelForMaskedLM
        if self.per_token:
            return transformers.AutoModelForTokenClassification
        return transformers.AutoModelForSequenceClassification

    def pipeline(self, config: Any) -> str:
        """The Hub's name for what a model with this head does."""
        if not self.language:
            return "text-classification"
        return "fill-mask" if fills_masks(config) else "text-generation"


CLASSIFIER = Head()
LANGUAGE = Head(language=True)


def fills_masks(config: Any) -> bool:
    """Whether the language model of an architecture predicts masked tokens, not the next ones."""
    return type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)


def language_loader(config: Any) -> Any:
    return transformers.AutoModelForMaskedLM if fills_masks(config) else transformers.AutoModelForCausalLM


# --- the head of a masked language model as a classifier: one word per label (Schick & Schütze; SMP) ---


def token_ids(words: tuple[str, ...], tokenizer: Any) -> list[int]:
    """The token of each word."""
    ids = [_token_id(word, tokenizer) for word in words]
    for place, each in enumerate(ids):
        if each in ids[:place]:
            same = words[ids.index(each)]
            raise UserError(
                f"label words '{same}' and '{words[place]}' are one token to this tokenizer", "choose others"
            )
    return ids


def _token_id(word: str, tokenizer: Any) -> int:
    if not word.strip():
        raise UserError("a label word is empty", "give one word per label")
    # with a space, as in running text: for the tokenizers of RoBERTa and T5 it is part of the token
    tokens = tokenizer.tokenize(f" {word.strip()}")
    if len(tokens) == 1 and tokens[0] in tokenizer.all_special_tokens and tokens[0] != tokenizer.unk_token:
        raise UserError(f"label word '{word}' is a special token", "choose a word")
    if len(tokens) == 1 and tokenizer.convert_tokens_to_ids(tokens[0]) != tokenizer.unk_token_id:
        return int(tokenizer.convert_tokens_to_ids(tokens[0]))
    pieces = "unknown to" if tokenizer.unk_token in tokens else f"{len(tokens)} tokens ({' '.join(tokens)}) for"
    raise UserError(f"label word '{word}' is {pieces} this tokenizer", "choose a word that is one token")


def use_words(model: transformers.PreTrainedModel, ids: list[int], *, per_token: bool) -> None:
    """Make a language model return the logits of these tokens, for every token of the text or for the text."""
    _restrict_to(model, ids)
    if not per_token:  # the logits of the first token, [CLS], are those of the text
        model.__class__ = _reading_first(cast(Any, type(model)))


def _restrict_to(model: transformers.PreTrainedModel, ids: list[int]) -> None:
    """Make the language model's last layer return the logits of these tokens only."""
    every: Any = model.get_output_embeddings()
    some = nn.Linear(every.weight.shape[1], len(ids), bias=every.bias is not None, dtype=every.weight.dtype)
    with torch.no_grad():
        some.weight.copy_(every.weight[ids])
        if every.bias is not None:
            some.bias.copy_(every.bias[ids])
    model.set_output_embeddings(some)
    model.label_words = True  # type: ignore[assignment]


@cache
def _reading_first(cls: Any) -> Any:
    """A subclass with another `forward`, as `parametrize` makes one: all names stay the same."""
    from transformers.modeling_outputs import SequenceClassifierOutput

    def forward(self: Any, *args: Any, **inputs: Any) -> SequenceClassifierOutput:
        return SequenceClassifierOutput(logits=cls.forward(self, *args, **inputs).logits[:, 0])

    return type(cls.__name__, (cls,), {"forward": forward})
