"""A model that is open: its logits, labels, tokenizer and size, wherever it came from; and its labels for a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from srnet.core.device import current_device
from srnet.core.errors import UserError, running, shortened
from srnet.core.lazy import torch
from srnet.core.names import are_unnamed, match_names, output_names
from srnet.models.checkpoints import readable_length
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.base import Task
from srnet.tasks.splits import Split

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from srnet.training.data import Encoded

Batch = Mapping[str, "torch.Tensor"]
Runner = Callable[[Batch], Any]
"""From a batch of tokens to its logits, in the host's memory."""


class Classifier(Protocol):
    """What an audit needs of a model. `logits` has a row for each pair and a column for each label."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray: ...


@dataclass(frozen=True)
class Opening:
    """How a model is opened: its name in messages, and how it reads texts."""

    name: str
    pairs: bool = True
    """Whether there is a second text, even where it is empty."""
    max_length: int | None = None
    """None: as many tokens as the model was made for where that is known, else the default."""
    default_length: int = CLASSES.max_length
    backbone: str | None = None
    """Where the backbone of a subnetwork lies, if not where its manifest says."""

    def length(self, known: int | None) -> int:
        if self.max_length is not None:
            return self.max_length
        return self.default_length if known is None else known


@dataclass(frozen=True, kw_only=True)
class OpenModel(ABC):
    """A model in memory. The tokenizer and the size are read when they are needed."""

    opening: Opening
    kind: str
    """checkpoint, shrunk, onnx, subnetwork."""
    labels: tuple[str, ...]
    load_tokenizer: Callable[[], Any]
    folder: Path | None = None
    known_length: int | None = None
    """Tokens at which texts were cut in training."""
    per_token: bool = False
    """Whether it gives logits for every token, not for the text."""
    sparsity: float = 0.0
    """Counted on the mask."""
    not_classifier: str = ""
    """Why it is no classifier, where it is none."""

    @property
    def name(self) -> str:
        return self.opening.name

    @property
    def place(self) -> str:
        """What another process opens it by."""
        return str(self.folder or self.name)

    @cached_property
    def tokenizer(self) -> Any:
        return self.load_tokenizer()

    @property
    @abstractmethod
    def max_length(self) -> int:
        """Tokens at which texts are cut."""

    @property
    @abstractmethod
    def words(self) -> int:
        """The size of the vocabulary."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """The size on disk."""

    @property
    def segments(self) -> bool:
        """Whether it requires token_type_ids."""
        return False

    @property
    def end(self) -> int | None:
        """The token at which T5 and BART read the label: each text needs it once."""
        return None

    @abstractmethod
    def count_parameters(self) -> int: ...

    @abstractmethod
    def runner(self) -> Runner: ...

    @abstractmethod
    def predict(self, data: Encoded) -> np.ndarray:
        """The logits of every row, or of every token."""

    # --- of texts --------------------------------------------------------------------------------------------------

    def require_labels(self) -> Self:
        """The model itself if its outputs stand for labels and it has a tokenizer, else an error."""
        if self.not_classifier:
            problem = f"{self.name} has no outputs for the labels of a task: {self.not_classifier}"
            raise UserError(problem, "give a model fine-tuned for the task")
        self.tokenizer  # noqa: B018  a damaged one is an error before anything is computed
        return self

    def require_classifier(self) -> Self:
        """The model itself if it classifies texts, else an error."""
        if self.per_token:
            raise UserError(f"{self.name} marks spans of a text", "an audit needs a classifier of texts")
        return self.require_labels()

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        """A row for each pair and a column for each label."""
        if not text_a:
            return np.empty((0, len(self.labels)), dtype=np.float32)
        data = encode_pairs(text_a, text_b, self.tokenizer, self.max_length, self.opening.pairs)
        return self.predict(data)[: len(text_a)]

    def outputs(self, task: Task, split: Split, order: Sequence[int]) -> np.ndarray:
        """What the answers on a split are decoded from. `order`: for each label of the task, the model's output."""
        from srnet.training.spans import inputs_for

        data = inputs_for(task.answer_kind, split, self.tokenizer, self.max_length)
        logits = self.predict(data)
        if logits.shape[1] != len(self.labels):
            raise UserError(
                f"{self.name} names {len(self.labels)} labels for {logits.shape[1]} outputs", "export the model again"
            )
        return data.outputs(logits[:, list(order)])


@dataclass(frozen=True, kw_only=True)
class TorchModel(OpenModel):
    """A Hugging Face model."""

    module: PreTrainedModel

    @property
    def max_length(self) -> int:
        return readable_length(self.name, self.module, self.tokenizer, self.opening.length(self.known_length))

    @property
    def words(self) -> int:
        embeddings: Any = self.module.get_input_embeddings()
        return int(embeddings.num_embeddings)

    @property
    def bytes(self) -> int:
        if self.folder is not None:
            return folder_bytes(self.folder)
        return sum(parameter.numel() * parameter.element_size() for parameter in self.module.parameters())

    @property
    def end(self) -> int | None:
        config: Any = self.module.config
        return config.eos_token_id if config.is_encoder_decoder else None

    def count_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())

    def runner(self) -> Runner:
        model: Any = self.module.eval()
        device = model.device

        @torch.inference_mode()
        def run(batch: Batch) -> Any:
            # a GPU has computed the logits when they are in the host's memory, where those of a graph are
            return model(**{name: tensor.to(device) for name, tensor in batch.items()}).logits.cpu()

        return run

    def predict(self, data: Encoded) -> np.ndarray:
        from srnet.training.predict import predict

        module: Any = self.module
        with running(self.name):
            return predict(module.to(current_device()), data, name=self.name)


def in_memory(name: str, module: PreTrainedModel, tokenizer: Any = None) -> TorchModel:
    """A model that was made or loaded elsewhere."""
    labels = output_names(module.config.num_labels, module.config.id2label)
    return TorchModel(
        opening=Opening(name), kind="torch", labels=labels, load_tokenizer=lambda: tokenizer, module=module
    )


def folder_bytes(folder: Path) -> int:
    """The size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def encode_pairs(text_a: Sequence[str], text_b: Sequence[str], tokenizer: Any, max_length: int, pairs: bool) -> Encoded:
    """Tokens of each pair, as in training. With `pairs` a last row is added, which belongs to no text.

    `encode` reads a split without any second text as single texts. With the added row, a pair whose second text is
    empty is encoded the same way whichever rows come with it.
    """
    from srnet.training.data import encode

    first, second = ((*map(_encodable, texts), ".") for texts in (text_a, text_b))
    if not pairs:
        first, second = first[:-1], ("",) * len(text_a)
    ids = tuple(map(str, range(len(first))))
    labels = np.zeros(len(first), dtype=np.int64)
    return encode(Split("rows", "ID", ids, first, second, labels, ("",) * len(first)), tokenizer, max_length)


def _encodable(text: str) -> str:
    """The text without lone surrogates, which JSON can hold and tokenizers refuse."""
    return text if text.isascii() else text.encode(errors="replace").decode()


# --- which output of a model stands for which label of a task ---


@dataclass(frozen=True)
class Matched:
    """A classifier whose logits stand in the order of a task's labels."""

    classifier: Classifier
    labels: tuple[str, ...]
    order: tuple[int, ...]
    """For each label of the task, the output that stands for it."""
    note: str = ""
    """What had to be assumed about its labels."""

    @property
    def name(self) -> str:
        return self.classifier.name

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        return self.classifier.logits(text_a, text_b)[:, list(self.order)]


def match(classifier: Classifier, labels: tuple[str, ...], spellings: Mapping[str, str] | None = None) -> Matched:
    """The classifier for a task with these labels, matched by name, then by the task's other spellings.

    Outputs without names are taken in the task's order, with a note. Labels that do not fit are an error.
    """
    theirs = classifier.labels
    order = match_names(theirs, labels, spellings)
    if order is not None:
        return Matched(classifier, labels, order)
    if len(theirs) == len(labels) and are_unnamed(theirs):
        note = f"{classifier.name} does not name its outputs; they are taken in the order of the task: "
        return Matched(classifier, labels, tuple(range(len(labels))), note + ", ".join(labels))
    listed = [shortened(", ".join(each), 80) for each in (theirs, labels)]
    raise UserError(
        f"the labels of {classifier.name} are {listed[0]}, those of the task {listed[1]}",
        "give a model of the same task, or name the labels alike (id2label in config.json)",
    )
