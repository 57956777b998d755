"""The base class of kinds of answers, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from srnet.core.errors import UserError, choose
from srnet.tasks.splits import Split

if TYPE_CHECKING:  # torch takes seconds to import, and describing data does not need it
    import torch

Judge = Callable[[np.ndarray], np.ndarray]
"""How often each example is drawn, one row per resample -> scores by resample and model."""


@dataclass(frozen=True)
class Measure:
    """A metric: (answers, labels) -> a score, 1.0 at best."""

    score: Callable[[np.ndarray, np.ndarray], float]
    fast_judge: Callable[[Sequence[np.ndarray], np.ndarray], Judge] | None = None
    """(answers of each model, labels) -> a function that scores many resamples at once. None: scored one by one."""
    label_count: int | None = None
    """How many labels a task must have; None: any number."""
    scale: float = 100.0
    """What a score is multiplied by in reports: most are percentages."""
    gain: Callable[[float], float] = lambda score: score
    """What the selection of checkpoints maximises, from the score that is reported."""

    def reported(self, answers: np.ndarray, labels: np.ndarray) -> float:
        return self.scale * self.score(answers, labels)

    def judge(self, models: Sequence[np.ndarray], labels: np.ndarray) -> Judge:
        if self.fast_judge is not None:
            return self.fast_judge(models, labels)

        def judge(drawn: np.ndarray) -> np.ndarray:
            resamples = [np.repeat(np.arange(len(labels)), counts.astype(np.int64)) for counts in drawn]
            return np.array([[self.score(model[rows], labels[rows]) for model in models] for rows in resamples])

        return judge


def judge_sums(rows: Sequence[np.ndarray], value: Callable[[np.ndarray], np.ndarray]) -> Judge:
    """For a metric of sums over examples, whose terms are in `rows`: one product scores all models and resamples."""
    shape = rows[0].shape[1:]
    table = np.concatenate([each.reshape(len(each), -1) for each in rows], axis=1)
    return lambda drawn: value((drawn @ table).reshape(len(drawn), -1, *shape).astype(np.float64))


def quotient(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """`above / below`; 0 where it is undefined."""
    return np.asarray(np.where(below > 0.0, above / np.where(below > 0.0, below, 1.0), 0.0))


class AnswerKind(ABC):
    """A kind of answer, and everything that depends on it. A task names its kind in `answer`."""

    name: str
    """On the command line and in YAML."""
    plural: str
    """For messages."""
    metrics: ClassVar[Mapping[str, Measure]]
    """Metrics by name; the first is the default. A name means the same for every kind."""
    outputs: tuple[str, ...] = ()
    """The names of the model's outputs, where they are fixed; empty where each task names its labels."""
    has_classes = False
    """Whether a label is the index of a class with its own logit, which bias models and debiasing need."""
    language = False
    """Whether the model is the checkpoint's own language model, which needs no fine-tuning for the task."""
    group_metric: str | None = None
    """The metric of sub-cases, where it is not the accuracy of classes."""

    # --- data ------------------------------------------------------------------------------------------------------

    in_cells = True
    """Whether a label fits into one cell of a file; if not, the kind needs its own description of files."""
    dtype: Any = np.int64
    """The type of a split's labels."""

    @abstractmethod
    def parse(self, cell: str, labels: Mapping[str, int]) -> Any:
        """The label in a cell, None if it has none. `labels`: the known spellings and their labels."""

    def unreadable(self, cell: str, column: str, labels: Sequence[str]) -> str:
        """Why `parse` found no label."""
        return f"'{cell}' under '{column}' is not among {self.plural}"

    def cells(self, labels: np.ndarray, names: Sequence[str]) -> list[Any]:
        """The inverse of `parse`, for all labels of a split."""
        return list(labels.tolist())

    def problem(self, labels: np.ndarray, names: Sequence[str]) -> str | None:
        """The problem with the labels of a split, if there is one."""
        return None

    def counts(self, labels: np.ndarray, names: Sequence[str]) -> dict[str, int]:
        """Rows by label, for a check of the data."""
        return {}

    def statistics(self, labels: np.ndarray) -> dict[str, float]:
        """Statistics of labels that cannot be counted."""
        return {}

    # --- model and training ----------------------------------------------------------------------------------------

    max_length = 128
    """The default number of tokens at which a text is truncated."""
    per_token = False
    """Whether the head gives logits for every token instead of one set for the text."""
    encoding = "rows"
    """A key of `srnet.training.spans.ENCODINGS`."""

    def trained_on(self, split: Split) -> Split:
        """The training data as a model reads them."""
        return split

    @abstractmethod
    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of each example."""

    def teacher(self, logits: np.ndarray) -> np.ndarray:
        """A student's target from a teacher's logits."""
        return logits

    def imitation(
        self, logits: torch.Tensor, teacher: torch.Tensor, temperature: float = 2.0, labels: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The mean loss of a student against the result of `teacher`: the squared difference."""
        return (logits - teacher).square().mean()

    # --- scores ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def decode(self, split: Split, logits: np.ndarray) -> np.ndarray:
        """The model's answers, in the form that the metrics compare with labels."""

    def constant(self, labels: np.ndarray) -> np.ndarray | None:
        """The answers of a constant model, the baseline of every metric; None if there is no such model."""
        return np.zeros_like(labels)

    def measured(self, names: Sequence[str], labels: np.ndarray) -> list[str]:
        """Those of the metrics that a split with these labels can have."""
        return list(names)

    def metrics_for(self, labels: Sequence[str]) -> list[str]:
        return [name for name, each in self.metrics.items() if each.label_count in (None, len(labels))]

    def check_metric(self, task: str, metric: str, labels: Sequence[str]) -> None:
        fitting = self.metrics_for(labels)
        if metric in fitting:
            return
        why = f"does not fit {self.plural}" if metric in METRICS else "is unknown"
        if metric in self.metrics:
            why = f"is for {self.metrics[metric].label_count} labels, not {len(labels)}"
        raise UserError(f"task '{task}': metric '{metric}' {why}", f"choose one of: {', '.join(fitting)}")


def divergence(
    logits: torch.Tensor, teacher: torch.Tensor, temperature: float, reduction: str = "batchmean"
) -> torch.Tensor:
    """T^2 KL(p_t^(1/T) || p_m^(1/T)) over the last axis; a teacher may give logits or log-probabilities."""
    from torch.nn import functional as F

    ours, theirs = (F.log_softmax(each / temperature, dim=-1) for each in (logits, teacher))
    theirs = theirs.clamp_min(-1e30)  # 0 * -inf is no number
    return temperature**2 * F.kl_div(ours, theirs, reduction=reduction, log_target=True)


ANSWERS: dict[str, AnswerKind] = {}
METRICS: dict[str, Measure] = {}
"""The metrics of all kinds."""
K = TypeVar("K", bound=AnswerKind)


def register(kind: K) -> K:
    for name, metric in kind.metrics.items():
        if METRICS.setdefault(name, metric) is not metric:
            raise ValueError(f"metric '{name}' of {kind.plural} has the name of another metric")
    ANSWERS[kind.name] = kind
    return kind


def get_answer(name: str) -> AnswerKind:
    return ANSWERS[choose("answer", name, ANSWERS)]
