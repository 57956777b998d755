"""The chart of an audit: accuracy over the strength of the shortcut. The page draws it as SVG without a library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from srnet.audit.report import OVERLAP, SUPPORT, Audit, Bin, Dependence

WIDTH, HEIGHT = 420.0, 262.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 414.0, 10.0, 206.0
"""Where the axes are."""
_PANELS = 4
_ASIDE = 3.0
"""By how much the points of A and B are apart, so that their intervals do not hide each other."""
_Z = 1.959964
"""The 97.5 % quantile of the normal distribution."""
_ALONE = "the shortcut alone"
_AXES = {SUPPORT: "what the shortcut alone gives to the true label (%)", OVERLAP: "words that the texts share (%)"}


@dataclass(frozen=True)
class Point:
    """A point with the ends of its interval, in the coordinates of the picture."""

    x: float
    y: float
    low: float
    high: float
    text: str
    """What is shown when the mouse is over it."""


@dataclass(frozen=True)
class Line:
    name: str
    kind: str
    """`a`, `b` or `cut`, for its style."""
    points: tuple[Point, ...]

    @property
    def path(self) -> str:
        return " ".join(f"{each.x:.1f},{each.y:.1f}" for each in self.points)


@dataclass(frozen=True)
class Range:
    """A range of the measure, below the axis."""

    x: float
    text: str
    rows: str


@dataclass(frozen=True)
class Panel:
    """The chart of one split."""

    title: str
    over: str
    """As of a `Dependence`."""
    axis: str
    ranges: tuple[Range, ...]
    lines: tuple[Line, ...]


def panels_of(audit: Audit) -> list[Panel]:
    """A panel for each of the first splits: over what the bias model says of the label, or else over word overlap."""
    over = SUPPORT if any(each.over == SUPPORT for each in audit.dependence) else OVERLAP
    kinds = {each.split: each.kind for each in audit.scores}
    shown = [each for each in audit.dependence if each.over == over and len(each.bins) > 1]
    return [_panel(each, kinds[each.split], audit.letters) for each in shown[:_PANELS]]


def wilson(share: float, rows: int) -> tuple[float, float]:
    """The 95 % interval of a share of so many rows (Wilson 1927), which stays between 0 and 1."""
    centre = share + _Z**2 / (2 * rows)
    reach = _Z * math.sqrt(share * (1 - share) / rows + _Z**2 / (4 * rows**2))
    scale = 1 + _Z**2 / rows
    return max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale)


def _panel(found: Dependence, kind: str, letters: Sequence[str]) -> Panel:
    step = (RIGHT - LEFT) / len(found.bins)
    places = [LEFT + step * (number + 0.5) for number in range(len(found.bins))]
    ranges = [Range(x, _range(each), f"{each.rows:,}") for x, each in zip(places, found.bins, strict=True)]
    return Panel(
        f"{kind} {found.split}",
        found.over,
        _AXES[found.over],
        tuple(ranges),
        tuple(_lines(found.bins, places, letters)),
    )


def _lines(bins: Sequence[Bin], places: Sequence[float], letters: Sequence[str]) -> Iterator[Line]:
    shortcut = [each.bias_accuracy for each in bins if each.bias_accuracy is not None]
    if len(shortcut) == len(bins):
        yield Line(_ALONE, "cut", _points(_ALONE, bins, places, shortcut))
    for number, letter in enumerate(letters):
        aside = [x + _ASIDE * (2 * number - len(letters) + 1) for x in places]
        yield Line(letter, letter.lower(), _points(letter, bins, aside, [each.accuracy[number] for each in bins]))


def _points(name: str, bins: Sequence[Bin], places: Sequence[float], shares: Sequence[float]) -> tuple[Point, ...]:
    found = []
    for x, each, share in zip(places, bins, shares, strict=True):
        low, high = wilson(share, each.rows)
        ends = f"[{100 * low:.1f}, {100 * high:.1f}]"
        text = f"{name}: {100 * share:.1f} {ends} on {each.rows:,} rows, {_range(each)} %"
        found.append(Point(x, height(share), height(low), height(high), text))
    return tuple(found)


def height(share: float) -> float:
    """The vertical position of a share."""
    return BOTTOM - share * (BOTTOM - TOP)


def _range(each: Bin) -> str:
    low, high = f"{100 * each.low:.0f}", f"{100 * each.high:.0f}"
    return low if low == high else f"{low}\u2013{high}"
