"""What the page shows about a pair: answers, the shortcut's answer, marked words, the nearest training rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack
from scipy.special import log_softmax, softmax
from sklearn.feature_extraction.text import TfidfTransformer

from srnet.audit.rows import collect_logits, word_overlap
from srnet.audit.run import find_shortcut
from srnet.bias.model import fit_bias_scorer
from srnet.bias.shortcuts.base import FeatureOptions
from srnet.bias.texts import chunks, tokenise, words
from srnet.core.errors import running
from srnet.experiment.compute import word_vectors
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec, WeakModel
from srnet.models.model import Matched, match
from srnet.models.open import open_model
from srnet.page.comparison import ComparedRows
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.splits import Split

_SHOWN_WORDS = 500
"""Words of a text that are shown with marks."""
_SHOWN_ROWS = 5
_ROWS = 100_000
"""Training rows that are compared; of more, a fixed sample."""
_CHARACTERS = 1000
"""What is compared of a text: its beginning. With `_ROWS` it bounds the memory."""
_SIMILAR = 0.005
"""The smallest similarity that is shown: what is printed as 0.00 is not near."""
_WORD = re.compile(r"\w+")
_PIECE = re.compile(r"\w+|[^\w\s]")
"""A word or a sign."""


# --- the words that two texts share, and those that a model does not know ---

Piece = tuple[str, bool, str]
"""A piece of a text, whether it is a word of the other text, and the letters of the models that do not know it."""
Unknown = Mapping[str, Container[str]]
"""By letter of a model, the words and signs that its tokenizer does not know."""


def _overlap_of(text_a: str, text_b: str) -> dict[str, Any]:
    """`share` of the second text's words that the first has, as the bias model counts; `words`, those `inside`."""
    own_a, own_b = words(text_a), words(text_b)
    share = float(word_overlap([text_a], [text_b])[0])
    return {"share": share, "words": len(own_b), "inside": sum(map(set(own_a).__contains__, own_b))}


def marked(text: str, other: Container[str], unknown: Unknown, most: int = _SHOWN_WORDS) -> tuple[list[Piece], int]:
    """The beginning of a text in pieces, and the number of words that are left out. `other`: the other text's words."""
    pieces: list[Piece] = []
    start, end, left = 0, *_shown(text, most)
    for found in _PIECE.finditer(text, 0, end):
        own = words(found.group())  # none or several for the few letters that lower case takes apart
        shared = bool(own) and all(word in other for word in own)
        letters = "".join(letter for letter, theirs in unknown.items() if found.group() in theirs)
        if shared or letters:
            pieces += [(text[start : found.start()], False, ""), (found.group(), shared, letters)]
            start = found.end()
    pieces.append((text[start:end], False, ""))
    return [piece for piece in pieces if piece[0]], left


def _shown(text: str, most: int) -> tuple[int, int]:
    """Where the shown beginning of a text ends, and the number of words behind it."""
    found = list(_WORD.finditer(text))
    return (found[most].start(), len(found) - most) if len(found) > most else (len(text), 0)


def unknown_to(model: Matched, *texts: str, most: int = _SHOWN_WORDS) -> set[str]:
    """The words and signs of the texts of which the model reads a placeholder. Many tokenizers have none."""
    return unknown_words(model.name, getattr(model.classifier, "tokenizer", None), *texts, most=most)


def unknown_words(name: str, tokenizer: Any, *texts: str, most: int = _SHOWN_WORDS) -> set[str]:
    """The words and signs of the texts that are unknown to the tokenizer of the model `name`."""
    placeholder = None if tokenizer is None else _placeholder(tokenizer)
    pieces = sorted({piece for text in texts for piece in _PIECE.findall(text, 0, _shown(text, most)[0])})
    if placeholder is None or not pieces:
        return set()
    with running(name):
        ids = tokenizer(pieces, add_special_tokens=False, verbose=False)["input_ids"]
    return {piece for piece, own in zip(pieces, ids, strict=True) if placeholder in own}


def _placeholder(tokenizer: Any) -> int | None:
    """The token for what is unknown. A tokenizer that was made of a file alone has it in the file."""
    if tokenizer.unk_token_id is not None:
        return int(tokenizer.unk_token_id)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    token = getattr(getattr(backend, "model", None), "unk_token", None)
    return None if backend is None or token is None else backend.token_to_id(token)


# --- the shortcut's answer to any pair ---


@dataclass(frozen=True)
class Shortcut:
    """A bias model for new pairs."""

    about: str
    """What it reads, for the user."""
    log_probs: Callable[[Sequence[str], Sequence[str]], np.ndarray]
    """The probabilities of the task's labels, for each pair."""


def load_shortcut(spec: TaskSpec, engine: Engine, bias: BiasSpec | None = None) -> tuple[Shortcut | None, list[str]]:
    """The task's bias model for new pairs, or a note that says why there is none."""
    node, notes = find_shortcut(spec, engine, bias)
    if node is None:
        return None, notes
    if isinstance(node, WeakModel):
        return _weak_model(node, spec, engine), []
    silent = [part.text for part in node.parts if not part.kind.of_texts]
    if silent:
        return None, [f"the shortcut {silent[0]} has no answer here: a typed text has none of its values"]
    task = load_task(spec)
    options = FeatureOptions(None if node.vectors is None else word_vectors(node.vectors, task), node.extended)
    scorer = fit_bias_scorer(task, node.suspected, options)
    return Shortcut(node.features.rpartition(", cross-fitted")[0], scorer.log_probs), []


def _weak_model(node: WeakModel, spec: TaskSpec, engine: Engine) -> Shortcut:
    """The one of the two weak models that also scores dev and the OOD sets."""
    task = load_task(spec)
    model = match(open_model(node.first.key, engine.models, pairs=any(task.train.text_b)), task.labels)
    start, end = node.first.part or (0, 0)
    about = f"no features, but a model of {node.first.pretrained.backbone} trained on {end - start:,} examples"
    return Shortcut(about, lambda text_a, text_b: log_softmax(model.logits(text_a, text_b), axis=1))


# --- the rows of the training data that are most like a pair ---


class TrainingRows:
    """TF-IDF vectors of the training texts, first and second ones apart, with one vocabulary."""

    def __init__(self, task: Task, most: int = _ROWS) -> None:
        self._train = task.train if len(task.train) <= most else task.train.sample(most)
        self._labels = task.labels
        self._vocabulary: dict[str, int] = {}
        texts = [self._train.text_a, *([self._train.text_b] if any(self._train.text_b) else [])]
        counted = [self._count(each) for each in texts]
        # only now all words are known
        counts = [csr_matrix(each, shape=(len(self._train), max(1, len(self._vocabulary)))) for each in counted]
        self._weights = TfidfTransformer(sublinear_tf=True).fit(vstack(counts))
        self._vectors = [self._weights.transform(each).astype(np.float32) for each in counts]

    def __len__(self) -> int:
        return len(self._train)

    def nearest(self, text_a: str, text_b: str, most: int = _SHOWN_ROWS) -> list[dict[str, Any]]:
        """The most similar rows, nearest first; none if nothing is similar.

        `similarity`: the mean over the texts of the cosine between TF-IDF vectors, 1 for the same words.
        """
        asked = (text_a, text_b)[: len(self._vectors)]
        pairs = zip(self._vectors, map(self._vector, asked), strict=True)
        similarity = sum((vectors @ each for vectors, each in pairs), np.zeros(len(self), np.float32)) / len(asked)
        rows = np.argsort(-similarity, kind="stable")[:most]
        return [self._neighbour(row, float(similarity[row])) for row in rows.tolist() if similarity[row] >= _SIMILAR]

    def _neighbour(self, row: int, similarity: float) -> dict[str, Any]:
        train = self._train
        return {
            "id": train.ids[row],
            "text_a": train.text_a[row],
            "text_b": train.text_b[row],
            "label": self._labels[int(train.labels[row])],
            "similarity": min(1.0, similarity),
        }

    def _count(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How often each word occurs in each text, as parts of a sparse matrix. New words join the vocabulary."""
        found, counts = [], []
        for chunk in chunks(len(texts)):
            tokens = tokenise([text[:_CHARACTERS] for text in texts[chunk]])
            known = [self._vocabulary.setdefault(word, len(self._vocabulary)) for word in tokens.vocabulary]
            found.append(np.array(known, dtype=np.int32)[tokens.ids])
            counts.append(tokens.counts)
        columns = np.concatenate(found)
        ends = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        return np.ones(len(columns), dtype=np.float32), columns, ends

    def _vector(self, text: str) -> np.ndarray:
        """TF-IDF of one text; words that no training row has do not count."""
        known = [self._vocabulary[word] for word in words(text[:_CHARACTERS]) if word in self._vocabulary]
        counts = np.bincount(np.array(known, dtype=np.int64), minlength=max(1, len(self._vocabulary)))
        return np.asarray(self._weights.transform(csr_matrix(counts, dtype=np.float32)).toarray()[0])


# --- everything that the page shows about a pair ---


@dataclass(frozen=True)
class PairView:
    """The task, the models and the training rows behind the page."""

    task: Task
    models: Sequence[Matched]
    """A and B."""
    shortcut: Shortcut | None
    training: TrainingRows
    notes: Sequence[str] = ()

    most_words = 10_000
    """Words of a text. Models cut texts much earlier; the features of the shortcut read all of them."""

    def compared(self) -> ComparedRows:
        return ComparedRows(self.task, self.models)

    def state(self) -> dict[str, Any]:
        """What the page shows before any text is typed."""
        return {
            "task": self.task.name,
            "labels": self.task.labels,
            "models": [{"name": each.name, "note": each.note} for each in self.models],
            "pairs": self.task.has_pairs,
            "shortcut": None if self.shortcut is None else self.shortcut.about,
            "training": {"rows": len(self.task.train), "compared": len(self.training)},
            "notes": list(self.notes),
        }

    def look(self, text_a: str, text_b: str, split: str | None = None) -> dict[str, Any]:
        """The answers of both models and of the shortcut, the texts with marked words, the nearest training rows.

        With `split`, answers are also given as the classes of that split, which may be fewer.
        """
        texts = (text_a, text_b) if self.task.has_pairs else (text_a,)
        unknown = {letter: unknown_to(model, *texts) for letter, model in zip("AB", self.models, strict=True)}
        others = [set(words(text)) for text in reversed(texts)] if self.task.has_pairs else [set[str]()]
        alone = None if self.shortcut is None else np.exp(self.shortcut.log_probs([text_a], [text_b])[0])
        return {
            "answers": [self._answer(model, text_a, text_b, split) for model in self.models],
            "shortcut": None if alone is None else _distribution(alone),
            "overlap": _overlap_of(text_a, text_b) if self.task.has_pairs else None,
            "texts": [marked(text, other, unknown) for text, other in zip(texts, others, strict=True)],
            "unknown": "".join(letter for letter, own in unknown.items() if own),
            "nearest": self.training.nearest(text_a, text_b),
        }

    def _answer(self, model: Matched, text_a: str, text_b: str, split: str | None) -> dict[str, Any]:
        logits = collect_logits(model, [text_a], [text_b])
        return {
            **_distribution(softmax(logits.astype(np.float64), axis=1)[0]),
            "class": None if split is None else self._class_in(self.task.splits[split], logits),
            "tokens": _tokens(model, text_a, text_b),
        }

    def _class_in(self, split: Split, logits: np.ndarray) -> str:
        return self.task.classes_of(split)[int(CLASSES.decode(split, logits)[0])]


def _distribution(probabilities: np.ndarray) -> dict[str, Any]:
    return {"probabilities": probabilities.tolist(), "answer": int(probabilities.argmax())}


def _tokens(model: Matched, text_a: str, text_b: str) -> dict[str, int] | None:
    """The number of tokens of a pair and of those that the model reads, if it does not read all."""
    tokenizer, most = (getattr(model.classifier, name, None) for name in ("tokenizer", "max_length"))
    # no token is longer than its text, so short texts need no count; special tokens are at most 4
    if tokenizer is None or most is None or len(text_a) + len(text_b) + 4 <= most:
        return None
    count = len(tokenizer(text_a, text_b or None, verbose=False)["input_ids"])
    return {"read": most, "all": count} if count > most else None
