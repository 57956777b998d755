"""Two things timed in turns, so that whatever else the machine does hits both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """How long `ours` takes for each second of `theirs`."""

    name: str
    ratio: float
    low: float
    high: float
    ours_ms: float
    theirs_ms: float
    target: str

    @property
    def met(self) -> bool:
        sign, bound = self.target.split()
        return self.ratio <= float(bound) if sign == "<=" else self.ratio >= float(bound)


def clock(function: Callable[[], object], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        function()
    return (time.perf_counter() - start) / repeat


def compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], target: str, rounds: int = 30, repeat: int = 1
) -> Ratio:
    """Median over rounds of the ratio within a round; the order alternates. `low` and `high` are its quartiles."""
    for warm_up in (ours, theirs) * 3:
        warm_up()
    pairs = []
    for index in range(rounds):
        if index % 2:
            first, second = clock(ours, repeat), clock(theirs, repeat)
        else:
            second, first = clock(theirs, repeat), clock(ours, repeat)
        pairs.append((first, second))
    return ratio_of(name, pairs, target)


def ratio_of(name: str, pairs: Sequence[tuple[float, float]], target: str) -> Ratio:
    """The median over rounds, each with the seconds of ours and theirs."""
    ratios = sorted(a / b for a, b in pairs)
    low, middle, high = statistics.quantiles(ratios, n=4)
    ours_ms, theirs_ms = (1000 * statistics.median(side) for side in zip(*pairs, strict=True))
    return Ratio(name, middle, low, high, ours_ms, theirs_ms, target)
