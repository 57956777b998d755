"""The paper's criterion for an SRNet. Every part is decided by its confidence interval, not by its mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from srnet.evaluation.significance import LEVEL, Interval, holm

KEEPS_ID = 0.95
"""The share of the full model's ID score that a subnetwork must keep."""
BIASED_BY = 5.0
"""Points above the majority class on ID dev from which on a bias model may be called one."""
MIN_SEEDS = 3
"""With fewer, the variance between seeds is unknown."""
ALPHA = (1.0 - LEVEL) / 2.0
"""The error probability on either side: two-sided 95 % intervals are one-sided tests at 2.5 %."""

Answer = Literal["yes", "no", "not certain", "no verdict"]


@dataclass(frozen=True)
class Verdict:
    """Whether the ID score is kept and every OOD score is above the full CE model's. Both are required."""

    id_share: float
    """ID score over the full model's ID score."""
    id_kept: Interval
    """ID score minus 95 % of the full model's."""
    gains: Mapping[str, Interval]
    """OOD score minus the full model's, by split."""
    p_value: float
    """For "it is an SRNet": all parts lie above their thresholds; adjusted for the other subnetworks of the table."""
    alpha: float = ALPHA

    @property
    def seeds(self) -> int:
        return self.id_kept.seeds

    @property
    def answer(self) -> Answer:
        if self.seeds < MIN_SEEDS:
            return "no verdict"
        if self.p_value < self.alpha:
            return "yes"
        return "no" if self.fails else "not certain"

    def with_seeds(self, seeds: int) -> Verdict:
        """The expected verdict on this subnetwork alone, with more seeds."""
        kept, gains = (
            self.id_kept.with_seeds(seeds),
            {name: each.with_seeds(seeds) for name, each in self.gains.items()},
        )
        return replace(self, id_kept=kept, gains=gains, p_value=_p_value(self.id_share, kept, gains))

    @property
    def is_srnet(self) -> bool:
        """Whether the answer is "yes"."""
        return self.answer == "yes"

    @property
    def fails(self) -> list[str]:
        """The parts that are significantly below their thresholds: one of them is enough for "no"."""
        parts = {"ID": self.id_kept, **self.gains}
        adjusted = holm([interval.p_below() for interval in parts.values()])
        return [name for name, p in zip(parts, adjusted, strict=True) if p < self.alpha]

    @property
    def kept_percent(self) -> str:
        """Rounded down: 94.96 is not 95."""
        return f"{math.floor(1000 * self.id_share) / 10:.1f} %"

    @property
    def gain_lines(self) -> list[str]:
        """Each OOD gain with its interval."""
        return [f"{name} {interval}" for name, interval in self.gains.items()]

    @property
    def short(self) -> str:
        """The answer for a table."""
        return f"{seeds_in_words(self.seeds)}: no verdict" if self.answer == "no verdict" else self.answer

    @property
    def figures(self) -> str:
        return f"keeps {self.kept_percent} of ID; OOD minus full CE model: {', '.join(self.gain_lines)}"

    def __str__(self) -> str:
        words = {"yes": "SRNet", "no": "no SRNet", "not certain": "not certain", "no verdict": self.short}
        why = f" (certainly below the bar: {', '.join(self.fails)})" if self.answer == "no" else ""
        return f"{words[self.answer]}: {self.figures}{why}"


def seeds_in_words(seeds: int) -> str:
    return "one seed" if seeds == 1 else f"{seeds} seeds"


def judge(
    subnetwork_id: float, full_id: float, id_kept: Interval, gains: Mapping[str, Interval], alpha: float = ALPHA
) -> Verdict:
    """The verdict on one subnetwork alone. Scores are means over seeds."""
    share = subnetwork_id / full_id if full_id > 0.0 else 0.0  # no share of zero or of a negative correlation
    return Verdict(share, id_kept, gains, _p_value(share, id_kept, gains), alpha)


def _p_value(id_share: float, id_kept: Interval, gains: Mapping[str, Interval]) -> float:
    """For "every part lies above its threshold": the largest of the parts' p-values."""
    return max(interval.p_above() for interval in (id_kept, *gains.values())) if id_share > 0.0 else 1.0


def judge_together(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, adjusted for multiple comparisons among them."""
    adjusted = holm([verdict.p_value for verdict in verdicts])
    return [replace(verdict, p_value=p) for verdict, p in zip(verdicts, adjusted, strict=True)]
