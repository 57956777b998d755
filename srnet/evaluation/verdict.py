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
class Part:
    """One condition of an SRNet."""

    name: str
    """For a table: ID, OOD, or the OOD split if there are several."""
    text: str
    """What was measured, with its interval."""
    bar: str
    """What it must lie above."""
    interval: Interval
    """Its distance from the bar."""


@dataclass(frozen=True)
class Verdict:
    """Whether the ID score is kept and every OOD score is above the full CE model's. Both are required."""

    id_share: float
    """ID score over the full model's ID score."""
    full_id: float
    """The full model's ID score."""
    id_kept: Interval
    """ID score minus `keeps` times the full model's."""
    gains: Mapping[str, Interval]
    """OOD score minus the full model's, by split."""
    p_value: float
    """For "it is an SRNet": all parts lie above their thresholds; adjusted for the other subnetworks of the table."""
    alpha: float = ALPHA
    keeps: float = KEEPS_ID
    """The share of the full model's ID score that must be kept."""

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
    def parts(self) -> list[Part]:
        """All must lie above their bars."""
        ends = ", ".join(map(_percent, (self._share(self.id_kept.low), self._share(self.id_kept.high))))
        kept = Part("ID", f"the ID share {self.kept_percent} [{ends}]", f"{100 * self.keeps:g} %", self.id_kept)
        several = len(self.gains) > 1
        return [kept] + [
            Part(f"OOD {name}" if several else "OOD", f"OOD {name} {gain}", "the full CE model", gain)
            for name, gain in self.gains.items()
        ]

    @property
    def fails(self) -> list[str]:
        """The parts that are significantly below their bars: one of them is enough for "no"."""
        adjusted = holm([part.interval.p_below() for part in self.parts])
        return [part.name for part, p in zip(self.parts, adjusted, strict=True) if p < self.alpha]

    def _share(self, points: float) -> float:
        """`points` above the ID bar as a share of the full model's ID score."""
        return self.keeps + points / self.full_id if self.full_id > 0.0 else 0.0

    @property
    def decisive(self) -> Part:
        """The part that decides: the most clearly failed one of a "no", otherwise the least certain one."""
        if self.full_id <= 0.0:
            return self.parts[0]
        if self.answer == "no":
            return min(self.parts, key=lambda part: part.interval.p_below())
        return max(self.parts, key=lambda part: part.interval.p_above())

    @property
    def reason(self) -> str:
        """Why the answer is no or not certain: the part that decides, with its interval and its bar."""
        if self.full_id <= 0.0:
            return f"the full model's ID score is {self.full_id:.1f}, and no share of that can be kept"
        part = self.decisive
        if self.answer == "no":
            return f"{part.text} is below {part.bar}"
        corrected = ", corrected for the number of tests" if part.interval.low > 0.0 else ""
        return f"{part.text} is not certainly above {part.bar}{corrected}"

    @property
    def kept_percent(self) -> str:
        return f"{_percent(self.id_share)} %"

    @property
    def gain_lines(self) -> list[str]:
        """Each OOD gain with its interval."""
        return [f"{name} {interval}" for name, interval in self.gains.items()]

    @property
    def short(self) -> str:
        """The answer for a table, with the part that decides."""
        if self.answer == "no verdict":
            return f"{seeds_in_words(self.seeds)}: no verdict"
        return "yes" if self.is_srnet else f"{self.answer}: {self.decisive.name}"

    @property
    def figures(self) -> str:
        return f"keeps {self.kept_percent} of ID; OOD minus full CE model: {', '.join(self.gain_lines)}"

    @property
    def explained(self) -> str:
        """The reason of a no or a not certain, then the other parts."""
        return "; ".join([self.reason, *(part.text for part in self.parts if part.name != self.decisive.name)])

    def __str__(self) -> str:
        if self.answer in ("no", "not certain"):
            return f"{'no SRNet' if self.answer == 'no' else self.answer}: {self.explained}"
        return f"{'SRNet' if self.is_srnet else self.short}: {self.figures}"


def _percent(share: float) -> str:
    """Rounded down: 94.96 is not 95."""
    return f"{math.floor(1000 * share) / 10:.1f}"


def seeds_in_words(seeds: int) -> str:
    return "one seed" if seeds == 1 else f"{seeds} seeds"


def judge(
    subnetwork_id: float,
    full_id: float,
    id_kept: Interval,
    gains: Mapping[str, Interval],
    alpha: float = ALPHA,
    keeps: float = KEEPS_ID,
) -> Verdict:
    """The verdict on one subnetwork alone. Scores are means over seeds; `id_kept` is the distance from `keeps`."""
    share = subnetwork_id / full_id if full_id > 0.0 else 0.0  # no share of zero or of a negative correlation
    return Verdict(share, full_id, id_kept, gains, _p_value(share, id_kept, gains), alpha, keeps)


def _p_value(id_share: float, id_kept: Interval, gains: Mapping[str, Interval]) -> float:
    """For "every part lies above its threshold": the largest of the parts' p-values."""
    return max(interval.p_above() for interval in (id_kept, *gains.values())) if id_share > 0.0 else 1.0


def judge_together(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, adjusted for multiple comparisons among them."""
    adjusted = holm([verdict.p_value for verdict in verdicts])
    return [replace(verdict, p_value=p) for verdict, p in zip(verdicts, adjusted, strict=True)]
