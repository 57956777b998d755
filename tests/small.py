"""The embedded benchmark, but small, for tests of what names one of its tasks and says nothing about sizes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from srnet.tasks.synthetic import SyntheticTask


def small_defaults(train_size: int, dev_size: int, ood_size: int) -> tuple[Any, ...]:
    """For `SyntheticTask.__init__.__defaults__`: these sizes, and everything else as it is."""
    sizes = {"train_size": train_size, "dev_size": dev_size, "ood_size": ood_size}
    return tuple(sizes.get(field.name, field.default) for field in fields(SyntheticTask))
