"""One training run: batches, the Trainer, checkpoints, selection."""

from srnet.training.data import Encoded, encode
from srnet.training.predict import predict
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result, Run, train

__all__ = ["Encoded", "Result", "Run", "TrainingSettings", "encode", "predict", "train"]
