"""How the trainings of a profile are changed from a command line."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.errors import UserError
from srnet.options import option
from srnet.recipes.paradigms import OF_SCORES, OF_WEIGHTS, Profile
from srnet.training.settings import Precision

HEADING = "Training"


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Changes of every training."""

    scale: float = option(1.0, heading=HEADING)
    """Multiply the length of every training but that of bias models, e.g. 0.1 for a trial."""
    learning_rate: float | None = option(None, heading=HEADING)
    """Of the weights, instead of the profile's, in fine-tuning and for pruners that train them: smaller backbones take
    larger ones."""
    score_rate: float | None = option(None, heading=HEADING)
    """Of the mask's scores, instead of the profile's, in mask training: shorter runs take larger ones."""
    precision: Precision = option("float32", heading=HEADING)
    """Precision of the layers in training. Weights, scores, thresholds and the optimiser stay in float32."""
    compile: bool = option(False, heading=HEADING)
    """Use torch.compile: faster steps after minutes of compilation."""

    def __post_init__(self) -> None:
        if not 0.0 < self.scale <= 100.0:
            raise UserError(
                f"scale {self.scale:g} is out of range", "it multiplies the length of every training: 0 < scale <= 100"
            )

    def changed(self, profile: Profile) -> Profile:
        for names, rate in ((OF_WEIGHTS, self.learning_rate), (OF_SCORES, self.score_rate)):
            profile = profile if rate is None else profile.each_training(names, learning_rate=rate)
        return profile.each_training(scale=self.scale, precision=self.precision, compile=self.compile)
