"""The inputs of language models: sequences of tokens, and which of them are predicted.

A decoder predicts every token from those before it. A text begins with the beginning-of-text token of the tokenizer,
or else its end-of-text token, so that the first token is predicted as well; without either it is not. A text of more
tokens than `length` becomes several sequences, in which the last token of one is the first of the next, so that each
token is predicted once. A masked language model predicts one token in each sequence, which is masked there (Salazar et
al. 2020); special tokens are never predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import torch

from srnet.core.errors import UserError, running, shortened
from srnet.core.names import FILLS_MASKS
from srnet.tasks.answers.pairs import PairSplit
from srnet.tasks.answers.text import IGNORED
from srnet.tasks.splits import Split
from srnet.training.data import AT_ONCE, Encoded, name_of, padding

Extras = dict[str, np.ndarray]
PARTNERS = ("pairs", "permuted_pairs")
"""Needs of losses: for each row, the row whose anti-stereotypical sentence its own is compared with."""
NEUTRAL = "text"
"""The need of losses that is neutral text."""
_LEFT = -1


# --- sequences of tokens -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sequences:
    """Sequences of tokens, which may share them."""

    tokens: np.ndarray
    """Of all texts, one after another."""
    starts: np.ndarray
    lengths: np.ndarray
    masked: np.ndarray
    """The position that is masked and predicted; `_LEFT` in sequences of a decoder."""
    text: np.ndarray
    """The number of the text that a sequence is from, in ascending order."""
    mask_token: int = 0

    def of_text(self, count: int) -> np.ndarray:
        """The first sequence of each of `count` texts, and the end."""
        return np.searchsorted(self.text, np.arange(count + 1))

    def batch(self, rows: np.ndarray, pad: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Token ids, attention mask and labels of sequences, padded to the longest of them."""
        lengths = self.lengths[rows]
        places = np.arange(int(lengths.max(initial=0)))
        attended = places < lengths[:, None]
        ids = np.full(attended.shape, pad, dtype=np.int64)
        ids[attended] = self.tokens[(self.starts[rows][:, None] + places)[attended]]
        labels = np.full(attended.shape, IGNORED, dtype=np.int64)
        if len(rows) and self.masked[rows[0]] == _LEFT:
            labels[:, :-1] = np.where(attended[:, 1:], ids[:, 1:], IGNORED)
        else:
            at = (np.arange(len(rows)), self.masked[rows])
            labels[at] = ids[at]
            ids[at] = self.mask_token
        return ids, attended.astype(np.int64), labels


def _sequences(
    texts: Sequence[str], tokenizer: Any, length: int, where: str, chosen: Sequence[np.ndarray] | None = None
) -> _Sequences:
    """The sequences of texts. `chosen`: the tokens of each text that are predicted, where not all are."""
    content = _tokenized(texts, tokenizer)
    if getattr(tokenizer, FILLS_MASKS, False):
        found = _masked_in_turn(content, tokenizer, length, chosen)
    else:
        found = _from_left(content, tokenizer, length)
    silent = np.setdiff1d(np.arange(len(texts)), found.text)
    if len(silent):
        shown = shortened(texts[silent[0]], 80)
        raise UserError(f"{where}: no token of '{shown}' is predicted", "leave out texts that are shorter than a token")
    return found


def _tokenized(texts: Sequence[str], tokenizer: Any) -> list[np.ndarray]:
    """The tokens of texts, without special ones."""
    found: list[np.ndarray] = []
    for start in range(0, len(texts), AT_ONCE):
        with running(name_of(tokenizer)):
            some = tokenizer(list(texts[start : start + AT_ONCE]), add_special_tokens=False, verbose=False)["input_ids"]
        found += (np.array(tokens, dtype=np.int32) for tokens in some)
    return found


def _from_left(content: list[np.ndarray], tokenizer: Any, length: int) -> _Sequences:
    _check_room(length, 2)
    first = _beginning(tokenizer)
    sizes = np.array([len(first) + len(tokens) for tokens in content])
    stride = length - 1
    count = np.maximum(0, -(-(sizes - 1) // stride))
    text = np.repeat(np.arange(len(content)), count)
    offset = (np.arange(len(text)) - np.repeat(np.cumsum(count) - count, count)) * stride
    return _Sequences(
        tokens=np.concatenate([part for tokens in content for part in (first, tokens)]),
        starts=(np.cumsum(sizes) - sizes)[text] + offset,
        lengths=np.minimum(length, sizes[text] - offset),
        masked=np.full(len(text), _LEFT),
        text=text,
    )


def _beginning(tokenizer: Any) -> np.ndarray:
    """The token that a decoder's text begins with, if there is one."""
    begin = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    return np.array([] if begin is None else [begin], dtype=np.int32)


def prompt_tokens(text: str, tokenizer: Any) -> np.ndarray:
    """The tokens of a text that a decoder continues, with the one that a text begins with."""
    return np.concatenate([_beginning(tokenizer), *_tokenized([text], tokenizer)])


def _masked_in_turn(
    content: list[np.ndarray], tokenizer: Any, length: int, chosen: Sequence[np.ndarray] | None
) -> _Sequences:
    before, after = _special_tokens(tokenizer)
    room = length - len(before) - len(after)
    _check_room(room, 1)
    sizes: list[int] = []
    tokens, blocks, masked, text = (list[np.ndarray]() for _ in range(4))
    for number, own in enumerate(content):
        wanted = np.arange(len(own)) if chosen is None else chosen[number]
        for start in range(0, len(own), room):
            here = wanted[(wanted >= start) & (wanted < start + room)] - start
            masked.append(here + len(before))
            blocks.append(np.full(len(here), len(sizes)))
            text.append(np.full(len(here), number))
            tokens.append(np.concatenate([before, own[start : start + room], after]))
            sizes.append(len(tokens[-1]))
    of, lengths = np.concatenate([np.empty(0, int), *blocks]), np.array(sizes, dtype=int)
    return _Sequences(
        tokens=np.concatenate([np.empty(0, np.int32), *tokens]),
        starts=(np.cumsum(lengths) - lengths)[of],
        lengths=lengths[of],
        masked=np.concatenate([np.empty(0, int), *masked]),
        text=np.concatenate([np.empty(0, int), *text]),
        mask_token=tokenizer.mask_token_id,
    )


def _special_tokens(tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Those before and after a single text."""
    found = tokenizer("a", return_special_tokens_mask=True)
    special = np.array(found["special_tokens_mask"], dtype=bool)
    ids, own = np.array(found["input_ids"], dtype=np.int32), np.flatnonzero(~special)
    if not len(own):  # "a" is an unknown word, which some tokenizers count as special
        own = np.array([len(ids) // 2])
    return ids[: own[0]], ids[own[-1] + 1 :]


def _check_room(room: int, fewest: int) -> None:
    if room < fewest:
        raise UserError("no token is predicted in sequences of so few tokens", "raise max_length")


def _unmodified(texts: Sequence[Sequence[str]], tokenizer: Any) -> list[list[np.ndarray]]:
    """The tokens of the two sentences of each pair that they share, as CrowS-Pairs compares them."""
    before, after = _special_tokens(tokenizer)
    first, second = (_tokenized(column, tokenizer) for column in texts)
    found: list[list[np.ndarray]] = [[], []]
    for pair in zip(first, second, strict=True):
        whole = [[*before.tolist(), *tokens.tolist(), *after.tolist()] for tokens in pair]
        steps = SequenceMatcher(None, whole[0], whole[1]).get_opcodes()
        same = [step for step in steps if step[0] == "equal"]
        for side, tokens in enumerate(pair):
            ranges = [np.arange(step[1 + 2 * side], step[2 + 2 * side]) for step in same]
            places = np.concatenate([np.empty(0, int), *ranges]) - len(before)
            found[side].append(places[(places >= 0) & (places < len(tokens))])
    return found


# --- the data ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LanguageData(Encoded):
    """Rows of sequences. Of a sequence the summed log-probability and the number of predicted tokens are kept."""

    token_cost = 4

    sequences: _Sequences

    def digest(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional as F

        flat, predicted = labels.to(logits.device).flatten(), labels.cpu() != IGNORED
        losses = F.cross_entropy(logits.float().flatten(0, 1), flat, ignore_index=IGNORED, reduction="none")
        # sums in double precision, which not every device has
        return torch.stack([-losses.view_as(labels).cpu().double().sum(1), predicted.double().sum(1)], dim=1)

    def _inputs(self, *parts: tuple[_Sequences, np.ndarray]) -> dict[str, torch.Tensor]:
        """One batch of sequences, `parts` one after another."""
        found = [sequences.batch(rows, self.pad["input_ids"]) for sequences, rows in parts]
        width = max(ids.shape[1] for ids, *_ in found)
        fill = {"input_ids": self.pad["input_ids"], "attention_mask": 0, "labels": IGNORED}
        columns = zip(*found, strict=True)
        return {
            name: torch.from_numpy(np.concatenate([_widened(each, width, value) for each in column]))
            for (name, value), column in zip(fill.items(), columns, strict=True)
        }


def _widened(array: np.ndarray, width: int, value: int) -> np.ndarray:
    return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=value)


@dataclass(frozen=True)
class _TextData(_LanguageData):
    """Texts: a row is a sequence."""

    examples: int

    def collate(self, rows: Sequence[int] | np.ndarray) -> dict[str, torch.Tensor]:
        return self._inputs((self.sequences, np.asarray(rows)))

    def outputs(self, logits: np.ndarray) -> np.ndarray:
        """The sums of each text."""
        found = np.zeros((self.examples, 2))
        np.add.at(found, self.sequences.text, logits)
        return found


def encode_texts(split: Split, tokenizer: Any, length: int, extras: Extras) -> Encoded:
    """Texts for a language model."""
    sequences = _sequences(split.text_a, tokenizer, length, f"'{split.name}'")
    count = len(sequences.starts)
    return _TextData(
        columns={"input_ids": sequences.tokens},
        labels=np.zeros(count, np.int64),
        lengths=sequences.lengths,
        pad=padding(tokenizer, ["input_ids"]),
        extras={},
        sequences=sequences,
        examples=len(split),
    )


@dataclass(frozen=True)
class _PairData(_LanguageData):
    """Pairs: a row is a pair, with the sequences of all its sentences, and in training perhaps a neutral text.

    In a batch come the sequences of the pairs first, and then one of neutral text for each row.
    """

    pairs: int
    first: np.ndarray
    """The first sequence of each sentence, and the end. The sentences of a pair are `SENTENCES` apart."""
    partner: np.ndarray | None = None
    """In training: for each pair, the pair whose second sentence it is compared with."""
    partner_need: str = ""
    neutral: _Sequences | None = None

    def collate(self, rows: Sequence[int] | np.ndarray) -> dict[str, torch.Tensor]:
        rows = np.asarray(rows)
        sentences = self._sentences(rows % self.pairs)
        chosen = [np.arange(self.first[each], self.first[each + 1]) for each in sentences]
        own = (self.sequences, np.concatenate(chosen))
        if self.neutral is None:
            batch = self._inputs(own)
        else:
            batch = self._inputs(own, (self.neutral, rows % len(self.neutral.starts)))
            batch[NEUTRAL] = torch.arange(len(rows)) + len(own[1])
        if self.partner_need:
            counts = [len(each) for each in chosen]
            batch[self.partner_need] = torch.from_numpy(np.repeat(np.arange(len(chosen)), counts))
        return batch

    def _sentences(self, pairs: np.ndarray) -> np.ndarray:
        """The sentences of pairs, in their order; in training the two that are compared."""
        if self.partner is None:
            return (SENTENCES * pairs[:, None] + np.arange(SENTENCES)).ravel()
        return np.stack([SENTENCES * pairs, SENTENCES * self.partner[pairs] + 1], axis=1).ravel()

    def taught(self, inputs: dict[str, torch.Tensor], needs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if NEUTRAL not in needs:
            return inputs
        return {name: each[-len(needs[NEUTRAL]) :] for name, each in inputs.items()}

    def place(self, rows: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sentences = self._sentences(rows)
        counts = self.first[sentences + 1] - self.first[sentences]
        sums = np.zeros((len(sentences), 2))
        np.add.at(sums, np.repeat(np.arange(len(sentences)), counts), logits)
        return rows, sums.reshape(len(rows), 2 * SENTENCES)


SENTENCES = 3
"""The sentences of a row: stereotype, its opposite, and an unrelated one."""


def encode_pairs(split: PairSplit, tokenizer: Any, length: int, extras: Extras) -> Encoded:
    """Pairs of sentences for a language model. A sentence that a row does not have has no sequence."""
    columns = (split.text_a, split.text_b, split.unrelated or ("",) * len(split))
    texts = [text for row in zip(*columns, strict=True) for text in row]
    given = [n for n, text in enumerate(texts) if text]
    chosen = _chosen(split, columns, tokenizer)
    only = chosen and [chosen[n] for n in given]
    some = _sequences([texts[n] for n in given], tokenizer, length, f"'{split.name}'", only)
    sequences = replace(some, text=np.array(given)[some.text])
    first = sequences.of_text(len(texts))
    lengths = np.add.reduceat(np.append(sequences.lengths, 0), first[:-1:SENTENCES])
    need = next((name for name in PARTNERS if name in extras), "")
    neutral = _sequences(list(extras[NEUTRAL]), tokenizer, length, "neutral text") if NEUTRAL in extras else None
    rows = len(split)
    if neutral is not None:  # a pass over the data is one over the longer of the two
        rows = max(rows, len(neutral.starts))
        lengths = lengths[np.arange(rows) % len(split)]
    return _PairData(
        columns={"input_ids": sequences.tokens},
        labels=np.zeros(rows, np.int64),
        lengths=lengths,
        pad=padding(tokenizer, ["input_ids"]),
        extras={},
        sequences=sequences,
        pairs=len(split),
        first=first,
        partner=extras.get(need),
        partner_need=need,
        neutral=neutral,
    )


def _chosen(split: PairSplit, columns: Sequence[Sequence[str]], tokenizer: Any) -> list[np.ndarray] | None:
    """The tokens of each sentence that count, where not all do: for summed scores of a masked language model."""
    if split.scoring != "sum" or not getattr(tokenizer, FILLS_MASKS, False):
        return None
    every = [[np.arange(len(tokens)) for tokens in _tokenized(column, tokenizer)] for column in columns]
    same = _unmodified(columns[:2], tokenizer)
    first = [own if opposite else whole for own, whole, opposite in zip(same[0], every[0], columns[1], strict=True)]
    return [places for row in zip(first, same[1], every[2], strict=True) for places in row]
