"""One training run: batches, the Trainer, checkpoints, selection."""

from typing import TYPE_CHECKING

from srnet.lazy import exports
from srnet.training.settings import TrainingSettings

if TYPE_CHECKING:
    from srnet.training.data import Encoded, encode
    from srnet.training.trainer import Result, Run, train

__all__ = ["Encoded", "Result", "Run", "TrainingSettings", "encode", "train"]

_TRAINER = dict.fromkeys(("Result", "Run", "train"), "trainer")
__getattr__ = exports(__name__, {"Encoded": "data", "encode": "data", **_TRAINER})
