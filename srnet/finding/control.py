"""The positive control of a search: would a shortcut of known strength be removed with these data and this training?

The same search, at the chosen sparsity alone, in a copy of the task with a planted cue. Without it a negative answer on
the user's own shortcut cannot be told from a model that is too small or a training that is too short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srnet.evaluation import MIN_SEEDS
from srnet.evaluation.significance import Interval
from srnet.evaluation.verdict import ALPHA, Verdict, seeds_in_words
from srnet.recipes.recipe import Recipe
from srnet.report.evidence import RecipeEvidence
from srnet.tasks.planted import ANTI, NEUTRAL

CONTROL = "control"
"""The name of the recipe, and of the folder of its report."""


@dataclass(frozen=True)
class Control:
    """What became of a planted shortcut."""

    recipe: Recipe
    strength: float
    verdict: Verdict
    follows: Interval
    """The full model's score where the cue says nothing, minus that where it misleads: how far it follows the cue."""

    @classmethod
    def of(cls, evidence: RecipeEvidence, strength: float) -> Control:
        ((place, points),) = (each for each in evidence.groups.items() if each[1][0].is_pruned)
        full = evidence.full_models([point.node for point in points])
        follows = evidence.contrast((1.0, full, NEUTRAL), (-1.0, full, ANTI))
        return cls(evidence.recipe, strength, evidence.verdicts[place], follows)

    @property
    def gain(self) -> Interval:
        """Points that the subnetwork gains where the cue misleads."""
        return self.verdict.gains[ANTI]

    @property
    def is_followed(self) -> bool:
        """Whether the full model certainly follows the cue: else there is nothing to remove."""
        return self.follows.p_above() < ALPHA

    @property
    def is_removed(self) -> bool:
        """Whether the subnetwork is certainly better where the cue misleads."""
        return self.is_followed and self.gain.p_above() < ALPHA

    @property
    def sentence(self) -> str:
        """What the control says about the search."""
        planted = f"a planted shortcut of strength {self.strength:g}"
        if self.gain.seeds < MIN_SEEDS:
            return (
                f"Control: with {seeds_in_words(self.gain.seeds)}, {planted} changes by {self.gain} points where it "
                f"misleads; {MIN_SEEDS} seeds are needed to be certain."
            )
        if not self.follows.difference and not self.follows.seed_error:
            return (
                f"Control: the full model scores the same where {planted} misleads and where it says nothing. It may "
                "not see the opening words: another backbone may know them."
            )
        if not self.is_followed:
            return (
                f"Control: the full model does not certainly follow {planted} ({self.follows} points), so with these "
                "data and this length of training no answer on your shortcut means much. Train longer: --scale 3."
            )
        if self.is_removed:
            kept = f"keeps {self.verdict.kept_percent} of the ID score"
            return (
                f"Control: with these data, this backbone and this length of training {planted} is removed "
                f"({self.gain} points where it misleads; the subnetwork {kept}). A negative answer on your shortcut "
                "means something."
            )
        return (
            f"Control: {planted} is not certainly removed ({self.gain} points where it misleads). A negative answer on "
            "your shortcut says little; try a longer training (--scale 3) or a larger backbone."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "strength": self.strength,
            "removed": self.is_removed,
            "follows": str(self.follows),
            "gain": str(self.gain),
            "verdict": str(self.verdict),
        }
