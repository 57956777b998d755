"""A user's settings for measuring a shortcut; the node depends on the task and the backbone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from srnet.bias.vector_files import absolute
from srnet.errors import UserError, check_ranges, choose
from srnet.experiment.nodes import CE, Bias, BiasModel, FineTune, Pretrained, TaskSpec, WeakModel, shortcut_of_spec
from srnet.names import EMBEDDED
from srnet.options import option
from srnet.tasks.base import SHORTCUTS, Shortcut
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings


@dataclass(frozen=True)
class BiasSpec:
    """How a shortcut is measured, independent of task and backbone."""

    shortcut: Shortcut | None = None
    """What the bias model reads: overlap, claim, or unknown (a weak model). Default: the task's own."""
    vectors: str | None = None
    """overlap, claim: word vectors: .vec, .txt, .bin (.gz), .npz, VECTORS.npy,WORDS, or a backbone. Default: words
    alone."""
    folds: int = 5
    """overlap, claim: parts of the cross-fitting."""
    extended: bool = False
    """overlap: two more features, as in the original authors' tool."""
    examples: int = option(2000, name="--weak-examples")
    """unknown: training examples of each weak model."""
    epochs: float = option(3.0, name="--weak-epochs")
    """unknown: training epochs of the weak models."""
    learning_rate: float = option(5e-5, name="--weak-learning-rate")
    """unknown: learning rate of the weak models."""
    backbone: str | None = option(None, name="--weak-backbone")
    """unknown: a smaller backbone for the weak models. Default: the one that is debiased."""

    def __post_init__(self) -> None:
        if self.shortcut is not None:
            choose("shortcut", self.shortcut, SHORTCUTS)
        check_ranges(self, {"examples": (1, 1e9)})

    def resolved(self, folder: Path) -> BiasSpec:
        """The same with absolute paths; relative ones start at `folder`."""
        return self if self.vectors is None else dataclasses.replace(self, vectors=absolute(self.vectors, folder))

    def node(self, task: TaskSpec, backbone: str) -> Bias:
        shortcut = self.shortcut or shortcut_of_spec(task)
        given = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        unused = [name for name in given if name not in ("shortcut", *_BIAS_OPTIONS[shortcut])]
        if unused:
            raise UserError(f"shortcut '{shortcut}' does not use '{unused[0]}'", "leave it out")
        if shortcut != "unknown":
            return BiasModel(task, self.shortcut, self.vectors, self.folds, self.extended)
        return self._weak(task, self.backbone or backbone)

    def node_alone(self, task: TaskSpec) -> Bias:
        """The node where it debiases no model: weak models then need a backbone of their own."""
        weak = (self.shortcut or shortcut_of_spec(task)) == "unknown"
        if weak and self.backbone is None and not isinstance(task, SyntheticTask):
            raise UserError("weak models need a backbone", "give --weak-backbone: the one that is to be debiased")
        return self.node(task, EMBEDDED)

    def _weak(self, task: TaskSpec, backbone: str) -> WeakModel:
        raw = Pretrained(backbone, task)
        training = TrainingSettings(learning_rate=self.learning_rate, epochs=self.epochs, eval_every=10**6)
        first, second = (
            FineTune(raw, CE(), training, part=(start, start + self.examples)) for start in (0, self.examples)
        )
        return WeakModel(first, second)


_BIAS_OPTIONS: dict[Shortcut, tuple[str, ...]] = {
    "overlap": ("vectors", "folds", "extended"),
    "claim": ("vectors", "folds"),
    "unknown": ("examples", "epochs", "learning_rate", "backbone"),
}
