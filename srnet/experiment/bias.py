"""How a user says that a shortcut is to be measured; the node that does it depends on the task and the backbone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from srnet.bias.vector_files import files_of, is_vector_file
from srnet.errors import UserError, choose
from srnet.experiment.nodes import CE, Bias, BiasModel, FineTune, Pretrained, TaskSpec, WeakModel, shortcut_of_spec
from srnet.tasks.base import SHORTCUTS, Shortcut
from srnet.training import TrainingSettings


@dataclass(frozen=True)
class BiasSpec:
    """How a shortcut is measured, whatever the task and the backbone."""

    shortcut: Shortcut | None = None
    """overlap, claim or unknown; the task's own suspicion if not given."""
    vectors: str | None = None
    """overlap, claim: as in `BiasModel`."""
    folds: int = 5
    extended: bool = False
    examples: int = 2000
    """unknown: what each weak model is trained on."""
    epochs: float = 3.0
    learning_rate: float = 5e-5
    backbone: str | None = None
    """unknown: a smaller backbone for the weak models, instead of the one that is debiased."""

    def __post_init__(self) -> None:
        if self.shortcut is not None:
            choose("shortcut", self.shortcut, SHORTCUTS)

    def moved(self, folder: Path) -> BiasSpec:
        """With absolute paths: relative ones start from `folder`."""
        if self.vectors is None or not is_vector_file(self.vectors):
            return self
        files = (str((folder / file).resolve()) for file in files_of(self.vectors))
        return dataclasses.replace(self, vectors=",".join(files))

    def node(self, task: TaskSpec, backbone: str) -> Bias:
        shortcut = self.shortcut or shortcut_of_spec(task)
        given = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]
        unused = [name for name in given if name not in ("shortcut", *_BIAS_OPTIONS[shortcut])]
        if unused:
            raise UserError(f"shortcut '{shortcut}' has no use for '{unused[0]}'", "leave it out")
        if shortcut != "unknown":
            return BiasModel(task, self.shortcut, self.vectors, self.folds, self.extended)
        return self._weak(task, self.backbone or backbone)

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
