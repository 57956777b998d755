"""A model that is open: its logits, labels, tokenizer and size, wherever it came from; and its labels for a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from srnet.core.device import current_device, device_name
from srnet.core.errors import UserError, running, shortened
from srnet.core.lazy import torch
from srnet.core.names import are_unnamed, how_to_name, match_names, output_names, renamed
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


@runtime_checkable
class Classifier(Protocol):
    """What an audit needs of a model. `logits` has a row for each pair and a column for each label."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True)
class OpenModel(ABC):
    """A model in memory. The tokenizer is loaded when it is needed."""

    name: str
    kind: str
    """checkpoint, shrunk, onnx, subnetwork."""
    labels: tuple[str, ...]
    load_tokenizer: Callable[[], Any]
    folder: Path | None = None
    length: int | None = None
    """Tokens at which texts are cut, where that is known."""
    pairs: bool = True
    """Whether there is a second text, even where it is empty."""
    per_token: bool = False
    """Whether it gives logits for every token, not for the text."""
    sparsity: float = 0.0
    """Counted on the mask."""
    not_classifier: str = ""
    """Why it is no classifier, where it is none."""

    @cached_property
    def tokenizer(self) -> Any:
        return self.load_tokenizer()

    @property
    def bytes(self) -> int:
        """The size of all files in the folder."""
        files = self.folder.rglob("*") if self.folder else ()
        return sum(path.stat().st_size for path in files if path.is_file())

    @property
    @abstractmethod
    def max_length(self) -> int:
        """Tokens at which texts are cut: `length`, or fewer if the model reads fewer."""

    @property
    @abstractmethod
    def run(self) -> Runner: ...

    @property
    def device(self) -> str:
        """What it runs on: cpu, or the name of a GPU. onnxruntime is given no other device than the CPU."""
        return "cpu"

    @abstractmethod
    def predict(self, data: Encoded) -> np.ndarray:
        """The logits of every row, or of every token."""

    @abstractmethod
    def random_batch(self, rows: int, length: int) -> Batch:
        """Random tokens that the model can read."""

    @abstractmethod
    def count_parameters(self) -> int: ...

    def require_labels(self) -> Self:
        """The model itself if its outputs stand for labels and it has a tokenizer, else an error."""
        if self.not_classifier:
            problem = f"{self.name} has no outputs for the labels of a task: {self.not_classifier}"
            raise UserError(problem, "give a model fine-tuned for the task")
        self.tokenizer  # noqa: B018  a damaged one is an error before anything is computed
        return self

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        """A row for each pair and a column for each label."""
        if not text_a:
            return np.empty((0, len(self.labels)), dtype=np.float32)
        from srnet.training.data import encode

        data = encode(_split_of(text_a, text_b, self.pairs), self.tokenizer, self.max_length)
        return self.predict(data)[: len(text_a)]

    def outputs(self, task: Task, split: Split, order: Sequence[int]) -> np.ndarray:
        """What the answers on a split are decoded from. `order`: for each label of the task, the model's output."""
        from srnet.training.spans import inputs_for

        data = inputs_for(task.answer_kind, split, self.tokenizer, self.max_length)
        logits = self.predict(data)
        if task.answer_kind.language:
            return data.outputs(logits)
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
    def bytes(self) -> int:
        tensors = (parameter.numel() * parameter.element_size() for parameter in self.module.parameters())
        return super().bytes or sum(tensors)

    @property
    def max_length(self) -> int:
        return readable_length(self.name, self.module, self.tokenizer, self.length or CLASSES.max_length)

    @cached_property
    def run(self) -> Runner:
        model: Any = self.module.eval()
        device = current_device()
        model.to(device)

        @torch.inference_mode()
        def run(batch: Batch) -> Any:
            # a GPU has computed the logits when they are in the host's memory, where those of a graph are
            return model(**{name: tensor.to(device) for name, tensor in batch.items()}).logits.cpu()

        return run

    @property
    def device(self) -> str:
        return device_name()

    def predict(self, data: Encoded) -> np.ndarray:
        from srnet.training.predict import predict

        module: Any = self.module
        with running(self.name):
            return predict(module.to(current_device()), data, name=self.name)

    def random_batch(self, rows: int, length: int) -> Batch:
        """T5 and BART read the label at the token that ends a text: each text has it once."""
        module: Any = self.module
        words = module.get_input_embeddings().num_embeddings
        batch = random_batch(words, rows, length)
        if module.config.is_encoder_decoder:
            ids, end = batch["input_ids"], module.config.eos_token_id
            ids[ids == end] = (end + 1) % words
            ids[:, -1] = end
        return batch

    def count_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())


def in_memory(name: str, module: PreTrainedModel, tokenizer: Any = None) -> TorchModel:
    """A model that was made or loaded elsewhere."""
    labels = output_names(module.config.num_labels, module.config.id2label)
    return TorchModel(name=name, kind="torch", labels=labels, load_tokenizer=lambda: tokenizer, module=module)


def random_batch(words: int, rows: int, length: int) -> dict[str, torch.Tensor]:
    """Random tokens of a vocabulary of `words`, always the same."""
    ids = torch.randint(0, words, (rows, length), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _split_of(text_a: Sequence[str], text_b: Sequence[str], pairs: bool) -> Split:
    """The texts as a split. With `pairs` a last row is added, which belongs to no text.

    `encode` reads a split without any second text as single texts. With the added row, a pair whose second text is
    empty is encoded the same way whichever rows come with it.
    """
    first, second = ((*map(_encodable, texts), ".") for texts in (text_a, text_b))
    if not pairs:
        first, second = first[:-1], ("",) * len(text_a)
    ids = tuple(map(str, range(len(first))))
    return Split("rows", "ID", ids, first, second, np.zeros(len(first), dtype=np.int64), ("",) * len(first))


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


def match(
    classifier: Classifier,
    labels: tuple[str, ...],
    spellings: Mapping[str, str] | None = None,
    labels_are: Mapping[str, str] | None = None,
) -> Matched:
    """The classifier for a task with these labels, matched by name, then by the task's other spellings.

    `labels_are` says what its outputs are called in the task. Outputs without names are taken in the task's order, with
    a note. Labels that do not fit are an error.
    """
    theirs = renamed(classifier.name, classifier.labels, labels_are or {})
    order = match_names(theirs, labels, spellings)
    if order is not None:
        return Matched(classifier, labels, order)
    if len(theirs) == len(labels) and are_unnamed(theirs) and not labels_are:
        note = f"{classifier.name} does not name its outputs; they are taken in the order of the task: "
        return Matched(classifier, labels, tuple(range(len(labels))), note + ", ".join(labels))
    listed = [shortened(", ".join(each), 80) for each in (theirs, labels)]
    same = len(theirs) == len(labels)
    raise UserError(
        f"the labels of {classifier.name} are {listed[0]}, those of the task {listed[1]}",
        f"say which is which: {how_to_name(classifier.labels, labels)}" if same else "give a model of the same task",
    )
