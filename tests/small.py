"""Small tasks: the embedded benchmark with few examples, and tasks of the papers with nothing in them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from srnet.models.backbones import OwnClassifier
from srnet.tasks.base import Metric, Task
from srnet.tasks.splits import Split, SplitKind
from srnet.tasks.synthetic import SyntheticTask


def small_defaults(train_size: int, dev_size: int, ood_size: int) -> tuple[Any, ...]:
    """For `SyntheticTask.__init__.__defaults__`: these sizes, and everything else as it is."""
    sizes = {"train_size": train_size, "dev_size": dev_size, "ood_size": ood_size}
    return tuple(sizes.get(field.name, field.default) for field in fields(SyntheticTask))


def read_no_backbone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any name is a backbone without a classifier, with a hash made of the name."""
    nodes = "srnet.experiment.nodes.models"
    monkeypatch.setattr(f"{nodes}.backbone_hash", lambda name, head=None: f"hash of {name}")
    monkeypatch.setattr(f"{nodes}._own_classifier_of", lambda name, labels, head: OwnClassifier("there is none"))


@dataclass(frozen=True)
class Sized:
    """A task of a paper with `size` training examples, all of them alike."""

    name: str
    size: int = 4
    metric: Metric = "accuracy"
    answer: str = "class"

    def load(self) -> Task:
        def split(name: str, size: int, kind: SplitKind = "ID") -> Split:
            ids, texts = tuple(map(str, range(size))), ("a",) * size
            return Split(name, kind, ids, texts, texts, np.arange(size) % 2, ("",) * size)

        train, dev, ood = split("train", self.size), split("dev", 60), {"ood": split("ood", 60, "OOD")}
        more = split("ood_train", 30, "OOD")
        return Task(self.name, ("no", "yes"), self.metric, "overlap", train, dev, ood, more)
