"""The inputs of models: rows of tokens, or, for questions about long contexts, overlapping windows of tokens.

For windows a model gives two logits per token, start and end, of shape (B, L, 2). The loss of a window is the mean of
two cross-entropies over its positions, of the start and of the end, against `labels` (B, 2). Padding is excluded: its
logits (`attention_mask` 0) are set to `NO_LOGIT` first. The question, [CLS] and the separators are included, because
[CLS] is the label of a window without the answer; answers are searched in the context only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch

from srnet.core.arrays import finite_logits
from srnet.core.errors import UserError, running
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.answers.spans import SpanSplit
from srnet.tasks.splits import Split
from srnet.training.data import AT_ONCE, Encoded, encode, name_of, padding, separates
from srnet.training.language import encode_pairs, encode_texts

QUESTION_TOKENS = 64
"""Longer questions are cut, as in the original recipe."""
ANSWER_TOKENS = 30
"""The longest answer that is searched."""
NO_LOGIT = -1e9
"""The value of padding in logits and in `token_extras`: probability 0, yet finite at any temperature."""
SHARED = 3
"""Neighbouring windows share a third of their tokens: 128 of 384, as in the published recipes."""
Extras = dict[str, np.ndarray]
"""Additional inputs of an objective: one row per example, or for windows one row per token."""
_SPACES = np.array([ord(c) for c in map(chr, range(0x3001)) if c.isspace()], dtype=np.uint32)


@dataclass(frozen=True)
class _Windows(Encoded):
    """The windows of all examples, in their order. `labels` (windows, 2) are the answer's first and last position.

    Where a window does not contain the complete answer they are (0, 0), the position of [CLS].
    """

    example: np.ndarray
    """The example of each window."""
    offsets: np.ndarray
    """(tokens, 2): the characters of the context that a token covers, the end exclusive."""
    answerable: np.ndarray
    """Which tokens may start or end an answer: those that hold characters of the context."""
    token_extras: dict[str, np.ndarray] = field(default_factory=dict)
    """Per-token values the objective needs, (tokens, k): a teacher's logits. Padded with `NO_LOGIT`."""

    def __post_init__(self) -> None:
        for name, values in self.token_extras.items():
            if len(values) != len(self.offsets):
                raise ValueError(f"{name} has {len(values)} rows for {len(self.offsets)} tokens")

    @cached_property
    def first_windows(self) -> np.ndarray:
        """The first window of each example."""
        return np.flatnonzero(np.diff(self.example, prepend=-1))

    def collate(self, rows: Sequence[int] | np.ndarray) -> dict[str, torch.Tensor]:
        batch = super().collate(rows)
        if not self.token_extras:
            return batch
        mask, tokens = self.layout(rows)
        for name, values in self.token_extras.items():
            padded = np.full((*mask.shape, values.shape[1]), NO_LOGIT, dtype=np.float32)
            padded[mask] = values[tokens]
            batch[name] = torch.from_numpy(padded)
        return batch

    def hide_padding(self, logits: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return logits.masked_fill(attention_mask[..., None] == 0, NO_LOGIT)

    def place(self, rows: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mask, tokens = self.layout(rows)
        return tokens, logits[mask]

    def outputs(self, logits: np.ndarray, max_answer_tokens: int = ANSWER_TOKENS) -> np.ndarray:
        """The characters (examples, 2) of each example's best answer; (0, 0) where it has none.

        `logits` (tokens, 2) are start and end logits in the order of the windows' tokens. The best answer has the
        highest sum of the two among all spans of the context, of at most `max_answer_tokens`, in all its windows; the
        first one wins a tie. The search is exact.
        """
        scores, lengths = _best_ends(self, finite_logits(logits), max_answer_tokens)
        groups = self.starts[self.first_windows]
        of_token = np.repeat(np.arange(len(groups)), np.diff(groups, append=len(scores)))
        best = np.maximum.reduceat(scores, groups)
        token = np.arange(len(scores))
        chosen = np.minimum.reduceat(np.where(scores == best[of_token], token, len(scores)), groups)
        spans = np.stack([self.offsets[chosen, 0], self.offsets[chosen + lengths[chosen], 1]], axis=1)
        return np.where(np.isfinite(best)[:, None], spans, 0).astype(np.int64)


def _best_ends(windows: _Windows, logits: np.ndarray, max_answer_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """For each token the score of the best answer that starts there, and the distance to its last token."""
    start, end = np.where(windows.answerable[:, None], logits.astype(np.float64), -np.inf).T
    left = np.repeat(windows.starts + windows.lengths, windows.lengths) - np.arange(len(start))
    scores, lengths = start + end, np.zeros(len(start), dtype=np.int64)
    for further in range(1, min(max_answer_tokens, int(windows.lengths.max()))):
        reached = np.where(left[:-further] > further, start[:-further] + end[further:], -np.inf)
        better = reached > scores[:-further]
        scores[:-further][better] = reached[better]
        lengths[:-further][better] = further
    return scores, lengths


# --- from a split to a model's inputs ------------------------------------------------------------------------------


def inputs_for(answer: AnswerKind, split: Split, tokenizer: Any, length: int, extras: Extras | None = None) -> Encoded:
    """The inputs of a model for the rows of a split, each with at most `length` tokens."""
    return ENCODINGS[answer.encoding](split, tokenizer, length, extras or {})


def _windows(split: Any, tokenizer: Any, length: int, extras: Extras) -> Encoded:
    windows = _encode_windows(split, tokenizer, length, length // SHARED)
    if any(len(each) != len(windows.offsets) for each in extras.values()):
        raise UserError(
            "the teacher used different windows of the contexts",
            "train it on the same backbone with the same max_length",
        )
    return replace(windows, token_extras=extras)


ENCODINGS: dict[str, Callable[[Any, Any, int, Extras], Encoded]] = {
    "rows": encode, "windows": _windows, "text": encode_texts, "pairs": encode_pairs,
}  # fmt: skip
"""(split, tokenizer, length, extras) -> inputs, by the names that kinds of answers use."""


# --- from texts to windows -----------------------------------------------------------------------------------------


def _encode_windows(split: SpanSplit, tokenizer: Any, max_length: int, stride: int) -> _Windows:
    """Each question with as much of its context as fits; neighbouring windows share `stride` tokens of the context.

    So an answer of at most `stride` tokens lies completely in some window.
    """
    blocks = list(_blocks(split, tokenizer, max_length, stride))
    columns = {name: np.concatenate([block.columns[name] for block in blocks]) for name in blocks[0].columns}
    arrays = ("labels", "lengths", "example", "offsets", "answerable")
    joined: dict[str, Any] = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in arrays}
    return _Windows(columns=columns, pad=padding(tokenizer, columns), extras={}, **joined)


def _blocks(split: SpanSplit, tokenizer: Any, max_length: int, stride: int) -> Iterator[_Windows]:
    room = _question_room(tokenizer, max_length, stride)
    boundary = "" if separates(tokenizer) else "\n"
    for start in range(0, len(split), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        contexts = split.text_b[rows]
        with running(name_of(tokenizer)):
            tokens = tokenizer(
                _cut(split.text_a[rows], tokenizer, room),
                [boundary + context for context in contexts],
                truncation="only_second",
                max_length=max_length,
                stride=stride,
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
                return_attention_mask=False,
            )
        yield _block(tokens, contexts, split.labels[rows], start, len(boundary))


def _question_room(tokenizer: Any, max_length: int, stride: int) -> int:
    """The tokens that a question may have, so that a window adds at least as much of the context as it repeats."""
    if not getattr(tokenizer, "is_fast", False):
        raise UserError(
            f"{name_of(tokenizer)} does not return character offsets, which answers are found by",
            "use a backbone with a fast tokenizer (tokenizer.json)",
        )
    if stride < 0:
        raise UserError(f"a stride of {stride} tokens", "give 0 or more")
    room: int = max_length - tokenizer.num_special_tokens_to_add(pair=True) - max(1, 2 * stride)
    if room < 1:
        raise UserError(
            f"windows of {max_length} tokens that share {stride} have no room for a question",
            "raise max_length or lower the stride",
        )
    return min(room, QUESTION_TOKENS)


def _cut(questions: Sequence[str], tokenizer: Any, room: int) -> list[str]:
    found = tokenizer(list(questions), add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return [
        question if len(offsets) <= room else _shortened(question, offsets, tokenizer, room)
        for question, offsets in zip(questions, found["offset_mapping"], strict=True)
    ]


def _shortened(question: str, offsets: list[tuple[int, int]], tokenizer: Any, room: int) -> str:
    for keep in range(room, 0, -1):  # part of a word may have more tokens than it has in the complete question
        start = question[: offsets[keep - 1][1]]
        if len(tokenizer(start, add_special_tokens=False)["input_ids"]) <= room:
            return start
    return ""


def _block(tokens: Any, contexts: Sequence[str], spans: np.ndarray, first: int, shift: int) -> _Windows:
    lengths = np.fromiter(map(len, tokens["input_ids"]), dtype=np.int64)
    example = np.array(tokens["overflow_to_sample_mapping"], dtype=np.int64)
    offsets = np.fromiter(chain.from_iterable(chain.from_iterable(tokens["offset_mapping"])), dtype=np.int32)
    parts = chain.from_iterable(tokens.sequence_ids(window) for window in range(len(lengths)))
    in_context = np.fromiter((part == 1 for part in parts), dtype=bool)
    trimmed = _trimmed(offsets.reshape(-1, 2) - shift, in_context, np.repeat(example, lengths), contexts)
    answerable = in_context & (trimmed[:, 0] < trimmed[:, 1])
    columns = {
        name: np.fromiter(chain.from_iterable(tokens[name]), dtype=np.int32)
        for name in tokens
        if name not in ("offset_mapping", "overflow_to_sample_mapping")
    }
    labels = _positions(spans, example, lengths, trimmed, answerable)
    return _Windows(columns, labels, lengths, {}, {}, example + first, trimmed, answerable)


def _trimmed(offsets: np.ndarray, in_context: np.ndarray, example: np.ndarray, contexts: Sequence[str]) -> np.ndarray:
    """Offsets without leading spaces: some tokenizers count the space before a word as part of it."""
    characters = np.frombuffer("".join((*contexts, " ")).encode("utf-32-le"), dtype=np.uint32)
    is_space = np.isin(characters, _SPACES)
    before = np.cumsum([0, *map(len, contexts)])
    starts, ends = np.where(in_context[:, None], offsets, 0).T.clip(min=0)
    base = before[example]
    while (spaces := (starts < ends) & is_space[base + starts]).any():
        starts = starts + spaces
    return np.stack([starts, np.maximum(starts, ends)], axis=1).astype(np.int32)


def _positions(
    spans: np.ndarray, example: np.ndarray, lengths: np.ndarray, offsets: np.ndarray, answerable: np.ndarray
) -> np.ndarray:
    """The first and last token of the answer in each window; (0, 0) where a window does not contain both."""
    window, begins = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
    position = np.arange(len(window)) - begins[window]
    far = np.iinfo(np.int32).max
    seen_from = np.minimum.reduceat(np.where(answerable, offsets[:, 0], far), begins)
    seen_to = np.maximum.reduceat(np.where(answerable, offsets[:, 1], 0), begins)
    # some characters belong to no token: an answer that begins with one before the first token is still complete
    groups = np.flatnonzero(np.diff(example, prepend=-1))
    begin = np.maximum(spans[example, 0], np.minimum.reduceat(seen_from, groups)[example])
    end = np.minimum(spans[example, 1], np.maximum.reduceat(seen_to, groups)[example])
    after_start = answerable & (offsets[:, 1] > begin[window])
    before_end = answerable & (offsets[:, 0] < end[window])
    first = np.minimum.reduceat(np.where(after_start, position, far), begins)
    last = np.maximum.reduceat(np.where(before_end, position, -1), begins)
    complete = (seen_from <= begin) & (seen_to >= end) & (first <= last)
    return np.where(complete[:, None], np.stack([first, last], axis=1), 0).astype(np.int64)
