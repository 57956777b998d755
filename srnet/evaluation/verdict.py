"""Is it an SRNet? The paper's criterion, applied without rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from srnet.evaluation.significance import Interval

KEEPS_ID = 0.95
"""The share of the full model's ID score that a subnetwork must keep."""


@dataclass(frozen=True)
class Verdict:
    """`is_srnet`: ID kept and OOD above the full CE model. A gain bought with an ID collapse does not count."""

    id_share: float
    """ID score over the full model's ID score."""
    ood_gain: dict[str, float]
    """OOD score minus the full model's, in points, by split."""
    intervals: dict[str, Interval]

    @property
    def keeps_id(self) -> bool:
        return self.id_share >= KEEPS_ID

    @property
    def gains_ood(self) -> bool:
        return bool(self.ood_gain) and all(gain > 0.0 for gain in self.ood_gain.values())

    @property
    def is_srnet(self) -> bool:
        return self.keeps_id and self.gains_ood

    @property
    def certain(self) -> bool:
        """Whether the OOD gain's interval lies above zero on every OOD split."""
        return self.is_srnet and all(
            name in self.intervals and self.intervals[name].above_zero for name in self.ood_gain
        )

    @property
    def kept_percent(self) -> str:
        """Rounded down: 94.96 is not 95."""
        return f"{math.floor(1000 * self.id_share) / 10:.1f} %"

    @property
    def gains(self) -> list[str]:
        """Each OOD gain with its interval."""
        return [f"{name} {self.intervals[name]}" for name in self.ood_gain]

    def __str__(self) -> str:
        gains = ", ".join(self.gains)
        kept = f"keeps {self.kept_percent} of ID"
        if not self.keeps_id:
            return f"no SRNet: {kept} (95 % needed); {gains}"
        if not self.gains_ood:
            return f"no SRNet: {kept} but gains nothing OOD; {gains}"
        return f"SRNet{'' if self.certain else ' (gain not certain)'}: {kept}; {gains}"


def judge(
    subnetwork_id: float, full_id: float, ood: dict[str, tuple[float, float]], intervals: dict[str, Interval]
) -> Verdict:
    """`ood`: split -> (subnetwork's score, full CE model's score). Scores are means over seeds, in percent."""
    share = subnetwork_id / full_id if full_id > 0.0 else 0.0  # of nothing, or of a negative correlation, none is kept
    return Verdict(share, {name: ours - full for name, (ours, full) in ood.items()}, intervals)
