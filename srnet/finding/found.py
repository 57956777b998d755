"""What a search found: the choice, its reasons, the scores, and the lines that a report begins with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srnet.bias.survey import Survey
from srnet.core.tables import Shown, plain
from srnet.evaluation import KEEPS_ID
from srnet.evaluation.significance import Spread
from srnet.evaluation.verdict import Verdict
from srnet.experiment.nodes.models import ModelNode
from srnet.finding.comparison import Line
from srnet.finding.control import Control
from srnet.finding.diagnoses import Diagnosis
from srnet.finding.sentences import first_sentence
from srnet.recipes.recipe import Recipe
from srnet.tasks.shortcut import Shortcut, written
from srnet.timing.measuring import Measured


@dataclass(frozen=True)
class Biased:
    """The score of a bias model on ID dev: how far the shortcut alone gets."""

    shortcut: Shortcut
    score: float
    gain: float
    """Points above the majority class."""
    is_biased: bool = False
    """Whether it is a shortcut: by the survey, or by its gain where the user or the task names it."""

    def __str__(self) -> str:
        name, verb = written(self.shortcut), "is biased" if self.is_biased else "is not biased"
        return f"{name}: {verb}, {self.gain:+.1f} points over the majority class on ID dev"


@dataclass(frozen=True)
class Tried:
    """A subnetwork of the first seed on ID dev."""

    sparsity: float
    """As requested; counted on the mask where a speed-up was requested."""
    score: float
    kept: float
    """Share of the full model's score."""
    speedup: float | None = None

    @property
    def target(self) -> float:
        """The number that was requested."""
        return self.speedup or self.sparsity


@dataclass(frozen=True, repr=False)
class Found(Shown, says="sentence"):
    """What `find` chose, why, and how the result scores."""

    biases: tuple[Biased, ...]
    """The bias models that were tried; the last one is used if it is biased."""
    full_score: float
    """The score of the full CE model of the first seed, or of its control if that is better, on ID dev."""
    tried: tuple[Tried, ...]
    full_scores: dict[str, Spread]
    """The scores of the full models that subnetworks are compared with, ID dev first, by split."""
    recipe: Recipe
    """The full models, their control, the subnetworks that were tried, and the chosen one with all seeds."""
    full_model: ModelNode
    """The full CE model of the same seed as `model`, or of the first one."""
    full_is_control: bool = False
    """Whether the full models are those that were trained as long as the search."""
    is_own: bool = False
    """Whether the full model is one of the user's own, fine-tuned elsewhere."""
    misled: tuple[str, ...] = ()
    """The OOD sets on which the shortcut has lost at least half of what it gains on ID dev."""
    id_tests: tuple[str, ...] = ()
    """Further test sets, which are scored and about which nothing is claimed."""
    survey: Survey | None = None
    """Which cheap features predict the label."""
    diagnoses: tuple[Diagnosis, ...] = ()
    scale: float = 1.0
    """The length of the trainings, `--scale`; larger than requested if the search trained longer by itself."""
    keeps: float = KEEPS_ID
    """The share of the full model's ID score that was requested."""

    control: Control | None = None
    """What became of a planted shortcut, if that was requested and there was time for it."""

    # of the chosen subnetwork; without one they are None
    sparsity: float | None = None
    """As in `tried`; None if no subnetwork keeps the ID score."""
    speedup: float | None = None
    """The chosen one, where speed-ups were requested."""
    model: ModelNode | None = None
    """The seed that is delivered: the best on ID dev."""
    scores: dict[str, Spread] | None = None
    """By split, ID dev first."""
    verdict: Verdict | None = None
    """None without OOD data, without a biased bias model, or if nothing was chosen."""

    compared: tuple[Line, ...] = ()
    """The full model, the chosen subnetwork and its baselines, where they are wanted."""

    # of the folder that is written
    warnings: tuple[str, ...] = ()
    """Reasons why a gain may be misleading, as in the report."""
    folder: Path | None = None
    """Where the model is that is delivered."""
    measured: tuple[Measured, ...] = ()
    """How fast and large the full model is, and that folder."""
    load: str = ""
    """Python that loads the model."""
    page: str = ""
    """The command that opens both models side by side."""
    next: str = ""
    """The command to try next, if there is one; its options where the search was called in Python."""

    @property
    def bias(self) -> Biased | None:
        return self.biases[-1] if self.biases[-1].is_biased else None

    @property
    def ood(self) -> tuple[str, ...]:
        """The OOD sets."""
        return tuple(split for split in self.full_scores if split not in self.id_tests)[1:]

    @property
    def sentence(self) -> str:
        """The result in one sentence, without terms."""
        return first_sentence(self)

    @property
    def lead(self) -> tuple[str, ...]:
        """The lines that stand first in the terminal, the report and the audit; code is in backticks."""
        commands = {"Load it": self.load, "Try it": self.page}
        first = [self.sentence, *(f"{what}: `{code}`." for what, code in commands.items() if code)]
        found = [self.survey.sentence] if self.survey and self.survey.found else []
        same = "" if self.next.startswith("srnet ") else "the same search with "
        following = [f"Next: {same}`{self.next}`."] if self.next else []
        control = [self.control.sentence] if self.control else []
        return (" ".join(first), *found, *control, *map(str, self.diagnoses), *following)

    def _rows(self) -> list[Any]:
        found = self.scores or {}
        return [{"split": split, "full": full, "found": found.get(split)} for split, full in self.full_scores.items()]

    def to_json(self) -> dict[str, Any]:
        gains = {} if self.verdict is None else {split: str(each) for split, each in self.verdict.gains.items()}
        same = ("next", "scale", "full_scores", "tried", "sparsity", "speedup", "warnings", "load", "page", "measured")
        return {
            "sentence": self.sentence,
            "survey": self.survey and self.survey.sentence,
            "control": self.control and self.control.to_json(),
            "diagnoses": plain(self.diagnoses),
            **plain({name: getattr(self, name) for name in same}),
            "bias_models": plain(self.biases),
            "full_id_score": self.full_score,
            "model": self.model and self.model.key,
            "full_model": self.full_model.key,
            "scores": plain(self.scores or {}),
            "verdict": self.verdict and {"answer": self.verdict.answer, "text": str(self.verdict), "gains": gains},
            "baselines": plain(self.compared),
            "folder": self.folder and str(self.folder),
        }
