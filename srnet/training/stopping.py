"""When to stop early: the rule of the paper's appendix E.1."""

from __future__ import annotations

import math
from collections.abc import Sequence


def stalled(scores: Sequence[float], patience: int, min_gain: float) -> bool:
    """Whether the last `patience` evaluations had no significant gain.

    A score counts as a gain if it beats the last one that counted by more than `min_gain` points.
    """
    reference, without_gain = -math.inf, 0
    for score in scores:
        if score > reference + min_gain:
            reference, without_gain = score, 0
        else:
            without_gain += 1
    return without_gain >= patience
