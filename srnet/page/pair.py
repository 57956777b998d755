"""What the page shows about a pair: answers, the shortcut's answer, shared words, the nearest training rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
from srnet.experiment.compute import word_vectors
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec, WeakModel
from srnet.models.model import Matched, match
from srnet.models.open import open_model
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
_WORD = re.compile(r"\w+")


# --- the words that two texts share ---


def _overlap_of(text_a: str, text_b: str) -> dict[str, Any]:
    """How the words of the second text occur in the first.

    `share` of the second text's words, as the bias model counts; `words` and how many of them are `inside` the first;
    `a` and `b`: the texts in pieces, as of `marked`; `left_a` and `left_b`: words at their ends that are not shown.
    """
    own_a, own_b = words(text_a), words(text_b)
    (a, left_a), (b, left_b) = marked(text_a, set(own_b)), marked(text_b, set(own_a))
    return {
        "share": float(word_overlap([text_a], [text_b])[0]),
        "words": len(own_b),
        "inside": sum(map(set(own_a).__contains__, own_b)),
        "a": a,
        "b": b,
        "left_a": left_a,
        "left_b": left_b,
    }


def marked(text: str, other: set[str], most: int = _SHOWN_WORDS) -> tuple[list[tuple[str, bool]], int]:
    """The beginning of a text in pieces, each with whether it is a word of `other`; the number of words left out."""
    pieces: list[tuple[str, bool]] = []
    found, start = list(_WORD.finditer(text)), 0
    for word in found[:most]:
        own = words(word.group())  # none or several for the few letters that lower case takes apart
        if own and other.issuperset(own):
            pieces += [(text[start : word.start()], False), (word.group(), True)]
            start = word.end()
    end = found[most].start() if len(found) > most else len(text)
    pieces.append((text[start:end], False))
    return [piece for piece in pieces if piece[0]], max(0, len(found) - most)


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
        """The most similar rows that share a word, nearest first.

        `similarity`: the mean over the texts of the cosine between TF-IDF vectors, 1 for the same words.
        """
        asked = (text_a, text_b)[: len(self._vectors)]
        pairs = zip(self._vectors, map(self._vector, asked), strict=True)
        similarity = sum((vectors @ each for vectors, each in pairs), np.zeros(len(self), np.float32)) / len(asked)
        rows = np.argsort(-similarity, kind="stable")[:most]
        return [self._neighbour(row, float(similarity[row])) for row in rows.tolist() if similarity[row] > 0.0]

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

    def look(self, text_a: str, text_b: str, split: str | None = None) -> dict[str, Any]:
        """The answers of both models and of the shortcut, the shared words, the nearest training rows.

        With `split`, answers are also given as the classes of that split, which may be fewer.
        """
        return {
            "answers": [self._answer(model, text_a, text_b, split) for model in self.models],
            "shortcut": self._shortcut_answer(text_a, text_b),
            "overlap": _overlap_of(text_a, text_b) if self.task.has_pairs else None,
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

    def _shortcut_answer(self, text_a: str, text_b: str) -> dict[str, Any] | None:
        if self.shortcut is None:
            return None
        return _distribution(np.exp(self.shortcut.log_probs([text_a], [text_b])[0]))


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
