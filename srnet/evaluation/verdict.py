"""The paper's criterion for an SRNet. Every condition is decided by its confidence interval, not by its mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

from srnet.evaluation import KEEPS_ID, MIN_SEEDS
from srnet.evaluation.significance import LEVEL, Interval, holm

ALPHA = (1.0 - LEVEL) / 2.0
"""The error probability on either side: two-sided 95 % intervals are one-sided tests at 2.5 %."""

# --- conditions ----------------------------------------------------------------------------------------------------

Answer = Literal["holds", "does not hold", "not enough evidence"]
HOLDS: Answer = "holds"
FAILS: Answer = "does not hold"
OPEN: Answer = "not enough evidence"


@dataclass(frozen=True)
class Condition:
    """A difference of scores, in points, that must lie above a bar."""

    what: str
    interval: Interval
    bar: float = 0.0
    answer: Answer = OPEN

    def __str__(self) -> str:
        bar = "" if not self.bar else f" (bar {self.bar:+.1f})"
        return f"{self.what}: {self.interval}{bar}"


def answered(conditions: Sequence[Condition], alpha: float = ALPHA, at_least: int = 1) -> list[Condition]:
    """Conditions that must all hold, each with its answer.

    To hold, all of them must lie above their bars, so none needs a correction. One that lies below refutes them all,
    and the more conditions there are, the more often one does so by chance: that is corrected for (Bonferroni), for at
    least as many conditions as `at_least`.
    """
    level = alpha / max(len(conditions), at_least)

    def answer(condition: Condition) -> Answer:
        if condition.interval.p_above(condition.bar) < alpha:
            return HOLDS
        return FAILS if condition.interval.p_below(condition.bar) < level else OPEN

    return [replace(condition, answer=answer(condition)) for condition in conditions]


def _combined(decisive: Answer, unanimous: Answer, answers: Iterable[Answer]) -> Answer:
    given = set(answers)
    if decisive in given:
        return decisive
    return unanimous if given == {unanimous} else OPEN


all_of = partial(_combined, FAILS, HOLDS)
"""The answer if every one must hold: one that fails is enough to refute."""
any_of = partial(_combined, HOLDS, FAILS)
"""The answer if one is enough: it is refuted only if every one is."""

# --- the verdict ---------------------------------------------------------------------------------------------------

ANSWERS = (
    '"Yes" means that every interval lies above its bar, corrected (Holm) for choosing among all subnetworks of this '
    'table, without controls, which are judged alone; "no", that one lies below, corrected for their number; "not '
    'certain" is anything else.'
)
VerdictAnswer = Literal["yes", "no", "not certain", "no verdict", "no shortcut"]


@dataclass(frozen=True)
class Verdict:
    """Whether the ID score is kept and every OOD score is above the full CE model's. Both are required."""

    name: ClassVar = "SRNet"
    no_name: ClassVar = "no SRNet"
    a_name: ClassVar = "an SRNet"
    plural: ClassVar = "SRNets"
    """What a subnetwork is called for which the answer is yes."""
    needs: ClassVar = "without an OOD set nothing can be called robust"
    """Why there is no verdict on a task."""
    question: ClassVar = "SRNet?"
    """The column of the answer."""
    dense: ClassVar = "robust, but dense"
    """What a full model is called for which the answer is yes."""
    kept_name: ClassVar = "ID"
    """The condition on the ID score; the others are named by their OOD splits."""

    id_share: float
    """ID score over the full model's ID score."""
    full_id: float
    """The full model's ID score."""
    id_kept: Interval
    """ID score minus `keeps` times the full model's."""
    gains: Mapping[str, Interval]
    """OOD score minus the full model's, by split."""
    p_value: float
    """For "it is an SRNet": all conditions hold; adjusted for the other subnetworks of the table."""
    alpha: float = ALPHA
    keeps: float = KEEPS_ID
    """The share of the full model's ID score that must be kept."""
    full: str = "full CE model"
    """What the full model is called."""
    has_shortcut: bool = True
    """Whether the shortcut predicts the labels of ID dev. Else a gain is no robustness against it."""

    @property
    def seeds(self) -> int:
        return self.id_kept.seeds

    @property
    def answer(self) -> VerdictAnswer:
        if not self.has_shortcut:
            return "no shortcut"
        if self.seeds < MIN_SEEDS:
            return "no verdict"
        if self.p_value < self.alpha:
            return "yes"
        return "no" if any(condition.answer == FAILS for condition in self.conditions) else "not certain"

    @property
    def is_srnet(self) -> bool:
        """Whether the answer is "yes"."""
        return self.answer == "yes"

    @property
    def rank(self) -> float:
        """What the best of several subnetworks has most of: the gain where it is smallest."""
        return min(gain.difference for gain in self.gains.values())

    @staticmethod
    def p_of(id_share: float, id_kept: Interval, gains: Mapping[str, Interval]) -> float:
        """The p-value for "every condition holds": the largest of their p-values."""
        return max(interval.p_above() for interval in (id_kept, *gains.values())) if id_share > 0.0 else 1.0

    @property
    def conditions(self) -> list[Condition]:
        """The distances from the bars, all of which must lie above 0: that of the ID score, then the OOD gains."""
        gains = [Condition(f"OOD {split}", gain) for split, gain in self.gains.items()]
        return answered([Condition(self.kept_name, self.id_kept), *gains], self.alpha)

    def with_seeds(self, seeds: int) -> Verdict:
        """The expected verdict on this subnetwork alone, with more seeds."""
        kept = self.id_kept.with_seeds(seeds)
        gains = {split: gain.with_seeds(seeds) for split, gain in self.gains.items()}
        return replace(self, id_kept=kept, gains=gains, p_value=self.p_of(self.id_share, kept, gains))

    @property
    def _decisive(self) -> Condition:
        """The condition that decides: the most clearly failed one of a "no", otherwise the least certain one."""
        if self.full_id <= 0.0:
            return self.conditions[0]
        if self.answer == "no":
            return min(self.conditions, key=lambda condition: condition.interval.p_below())
        return max(self.conditions, key=lambda condition: condition.interval.p_above())

    # --- as text ---

    @classmethod
    def columns(cls, keeps: float) -> list[str]:
        """The headers of `cells`."""
        kept = f"ID minus {share_text(keeps)} of full CE model [95 %]"
        return ["ID kept", kept, "OOD minus full CE model [95 %]"]

    @staticmethod
    def refuted(keeps: float) -> str:
        """What "no" means for every subnetwork of a table."""
        share = share_text(keeps)
        below = "falls below it out of distribution"
        return f"Each certainly keeps less than {share} of the full CE model's ID score or {below}."

    @property
    def cells(self) -> list[list[str]]:
        """The share of the ID score that is kept, and the differences that decide: for each column its lines."""
        return [[self.kept_percent], [str(self.id_kept)], self.gain_lines]

    @classmethod
    def criterion(cls, keeps: float) -> str:
        """What "yes" means, for the page."""
        return (
            f"An SRNet keeps at least {share_text(keeps)} of the full CE model's ID score and beats it on every OOD "
            f"set. A gain at the cost of the ID score does not count. {ANSWERS}"
        )

    @property
    def kept_percent(self) -> str:
        """The share that is kept, rounded down."""
        return f"{_percent(self.id_share)} %"

    @property
    def gain_lines(self) -> list[str]:
        """Each OOD gain with its interval."""
        return [f"{split} {gain}" for split, gain in self.gains.items()]

    @property
    def figure_lines(self) -> list[str]:
        """What is kept and gained, for a picture."""
        return [f"keeps {self.kept_percent} of ID", f"OOD minus {self.full}: {', '.join(self.gain_lines)}"]

    @property
    def short(self) -> str:
        """The answer for a table, with the condition that decides."""
        if self.answer == "no shortcut":
            return self.answer
        if self.answer == "no verdict":
            return f"{seeds_in_words(self.seeds)}: no verdict"
        if self.is_srnet:
            return "yes"
        name = self._decisive.what
        return f"{self.answer}: {name if name == self.kept_name or len(self.gains) > 1 else 'OOD'}"

    @property
    def explained(self) -> str:
        """The reason of a no or a not certain, then the other conditions; otherwise what is kept and gained."""
        if self.answer in ("yes", "no verdict", "no shortcut"):
            why = "" if self.has_shortcut else "the bias model does not predict the labels of ID dev; "
            return f"{why}keeps {self.kept_percent} of ID; OOD minus {self.full}: {', '.join(self.gain_lines)}"
        others = [each for each in self.conditions if each.what != self._decisive.what]
        return "; ".join([self._reason, *map(self._measured, others)])

    def __str__(self) -> str:
        answers = {"yes": self.name, "no": self.no_name, "not certain": "not certain"}
        return f"{answers.get(self.answer, self.short)}: {self.explained}"

    @property
    def _reason(self) -> str:
        """The condition that decides, with its interval and its bar."""
        if self.full_id <= 0.0:
            return f"the full model's ID score is {self.full_id:.1f}, and no share of that can be kept"
        decisive = self._decisive
        bar = share_text(self.keeps) if decisive.what == self.kept_name else f"the {self.full}"
        if self.answer == "no":
            return f"{self._measured(decisive)} is below {bar}"
        corrected = ", corrected for the number of tests" if decisive.interval.low > 0.0 else ""
        return f"{self._measured(decisive)} is not certainly above {bar}{corrected}"

    def _measured(self, condition: Condition) -> str:
        """A condition with its interval; that of the ID score as a share of the full model's."""
        if condition.what != self.kept_name:
            return f"{condition.what} {condition.interval}"
        ends = ", ".join(_percent(self._share(end)) for end in (self.id_kept.low, self.id_kept.high))
        return f"the ID share {self.kept_percent} [{ends}]"

    def _share(self, points: float) -> float:
        """`points` above the ID bar as a share of the full model's ID score."""
        return self.keeps + points / self.full_id if self.full_id > 0.0 else 0.0


def _percent(share: float) -> str:
    """Percent, rounded down: 94.96 is not 95."""
    return f"{math.floor(1000 * share) / 10:.1f}"


def share_text(share: float) -> str:
    """A share that was given, such as 95 %."""
    return f"{100 * share:g} %"


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
    return Verdict(share, full_id, id_kept, gains, Verdict.p_of(share, id_kept, gains), alpha, keeps)


def judge_together(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, adjusted for multiple comparisons among them."""
    adjusted = holm([verdict.p_value for verdict in verdicts])
    return [replace(verdict, p_value=p) for verdict, p in zip(verdicts, adjusted, strict=True)]
