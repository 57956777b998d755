"""The model that a training or a pruning starts from: a raw backbone, a fine-tuned folder, or a stored model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError
from srnet.core.names import EMBEDDED
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, backbone_for, load_task
from srnet.experiment.nodes.models import FineTuned, ModelNode, Pretrained
from srnet.experiment.rebuild import stored_model
from srnet.models.open import is_key
from srnet.training.settings import TrainingSettings

Training = TrainingSettings | Mapping[str, Any] | None
"""Settings of a training, or a dict of those that differ from the defaults."""
Names = Mapping[str, str] | tuple[tuple[str, str], ...]
"""The labels of a model, each with the label of the task that it means."""
TASK_WORDS = ("task",)
"""Given as label words: those of the task."""


@dataclass(frozen=True)
class Start:
    """What `finetune` and `prune` are given to start from."""

    model: TaskSpec | str | Path | ModelNode
    task: TaskSpec | None
    labels_are: Names
    backbone: str
    words: tuple[str, ...]
    training: Training

    def node(self, engine: Engine) -> ModelNode:
        """The expression. A new one has the seed of the training; a fine-tuned folder also cuts texts where it does."""
        if not isinstance(self.model, str | Path | ModelNode):
            return self._raw(self.model)
        if self.words or self.backbone != EMBEDDED:
            raise UserError(
                "a model has its own backbone and label words", "leave them out, or give a task for the model"
            )
        if self._is_folder(engine):
            return self._fine_tuned()
        if self.task is not None or self.labels_are:
            raise UserError("a stored model has its own task, data and labels", "leave out those options or the key")
        return self.model if isinstance(self.model, ModelNode) else stored_model(engine.store, str(self.model))

    def _is_folder(self, engine: Engine) -> bool:
        """Whether the model is a folder or a hub name, with a task, and no model of the store."""
        if isinstance(self.model, ModelNode) or is_key(self.model, engine.models):
            return False
        name = str(self.model)
        if self.task is None and (isinstance(self.model, Path) or "/" in name or Path(name).is_dir()):
            raise UserError(f"{self.model} is no key of the store", "give the task of the model: --task TASK")
        return self.task is not None

    def _raw(self, task: TaskSpec) -> Pretrained:
        """The raw model on a task; the label words ("task",) stand for the task's own."""
        if self.task is not None or self.labels_are:
            raise UserError("a raw backbone has no labels of its own", "give the folder of a fine-tuned model as well")
        words = load_task(task).label_words if self.words == TASK_WORDS else self.words
        if self.words and not words:
            raise UserError(f"task '{task.name}' names no label words", "give them: --label-words Yes,No")
        return Pretrained(backbone_for(task, self.backbone), task, self._settings.get("seed", 0), words)

    def _fine_tuned(self) -> FineTuned:
        assert self.task is not None
        return FineTuned(
            str(self.model),
            self.task,
            self._settings.get("seed", 0),
            labels_are=tuple(dict(self.labels_are).items()),
            length=self._settings.get("max_length"),
        )

    @property
    def _settings(self) -> Mapping[str, Any]:
        """The settings of the training that are given."""
        return vars(self.training) if isinstance(self.training, TrainingSettings) else self.training or {}

    def check_untrained(self, pruner: str) -> None:
        """Refuse settings of a training that does not take place, but for those that a new model itself has."""
        of_model = ("seed", "max_length") if self.task is not None else ("seed",)
        is_new = self.task is not None or not isinstance(self.model, str | Path | ModelNode)
        if any(name not in of_model or not is_new for name in self._settings):
            raise UserError(f"pruner '{pruner}' does not train", "leave out training options")


def as_read(settings: TrainingSettings, model: ModelNode) -> TrainingSettings:
    """The settings for a model: one that was fine-tuned elsewhere goes on reading texts as long as before."""
    is_theirs = isinstance(model.pretrained, FineTuned)
    return replace(settings, max_length=model.max_length) if is_theirs else settings
