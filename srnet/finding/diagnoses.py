"""Diagnoses of a search from scores alone: what is wrong with the full model or its shortcut, and what to try next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srnet.evaluation.significance import Interval
from srnet.evaluation.verdict import share_text
from srnet.report.results import BEATS_BIAS_BY, FOLLOWS
from srnet.tasks.shortcut import written

if TYPE_CHECKING:
    from srnet.finding.found import Biased

LONGER = 3.0
"""How many times as long an undertrained model is trained next."""
MUCH_BETTER = 3.0
"""Points on ID dev by which longer training, or a subnetwork, beats a full model that is undertrained."""
ROOM = 0.25
"""The share of the shortcut's errors that a full model must avoid, where the shortcut makes so few errors that
`BEATS_BIAS_BY` points are hard to gain."""


@dataclass(frozen=True)
class Diagnosis:
    """What was observed and what it means, and the advice."""

    text: str
    advice: str
    options: tuple[str, ...] = ()
    """Options of the next command, where the advice is one."""

    def __str__(self) -> str:
        return f"{self.text}. {self.advice}."


def undertrained(
    full: float,
    *,
    bias: float,
    majority: float = 0.0,
    control: float | None = None,
    mask: float | None = None,
    scale: float = 1.0,
    is_given: bool = False,
) -> Diagnosis | None:
    """Whether scores on ID dev say that the full model needs a longer training than `scale` gives it.

    `bias` is the score of the shortcut alone, `majority` that of the most frequent label, `control` that of the model
    trained as long as the search, `mask` the best of the subnetworks in it. `is_given`: the search did not train the
    full model itself.
    """
    signs = []
    cheap, name = (majority, "the most frequent label alone") if majority > bias else (bias, "the shortcut alone")
    if full - cheap < min(BEATS_BIAS_BY, ROOM * (100.0 - cheap)):
        signs.append(f"{name} scores {cheap:.1f}")
    if control is not None and control - full >= MUCH_BETTER:
        signs.append(f"trained as long as the search it scores {control:.1f}")
    if mask is not None and mask - full >= MUCH_BETTER:
        signs.append(f"a subnetwork in it scores {mask:.1f}")
    if not signs:
        return None
    longer = f"{max(1.0, LONGER * scale):g}"  # a trial becomes a training first
    text = f"The full model is undertrained: it scores {full:.1f} on your data, and {', '.join(signs)}"
    if is_given:
        advice = "Train your model longer before the search: `srnet finetune FOLDER` trains it on, and `srnet export` "
        return Diagnosis(text, f"{advice}writes what --full takes")
    return Diagnosis(text, f"Train longer: --scale {longer}", ("--scale", longer))


def no_shortcut(tried: Sequence[Biased]) -> Diagnosis:
    """What it means that no bias model is biased."""
    gains = ", ".join(f"{written(each.shortcut)} {each.gain:+.1f}" for each in tried)
    return Diagnosis(
        f"Nothing that was tried is a shortcut: points over the majority class on your data are {gains}. There is "
        "nothing to debias, so subnetworks are searched with the usual training, and nothing is claimed about "
        "robustness",
        "If you suspect a shortcut, name it: --shortcut, with a column of your data, scores:FILE for predictions of "
        "your own, or unknown for what a weak model learns",
    )


def not_followed(gap: Interval) -> Diagnosis | None:
    """What it means that a full model is about as good where the shortcut is wrong; `gap` is on ID dev."""
    if gap.high >= FOLLOWS:
        return None
    return Diagnosis(
        f"The full model does not follow this shortcut: its accuracy on your data where the shortcut is right minus "
        f"where it is wrong is {gap}",
        "Debiasing has little to remove; another shortcut may matter more: --shortcut",
    )


def none_keeps(keeps: float, kept: float, densest: float, *, speedup: bool = False) -> Diagnosis:
    """What to try where even the densest subnetwork keeps too little; `densest` is a sparsity or a speed-up."""
    name, less = ("--speedup", 1.0 + (densest - 1.0) / 2.0) if speedup else ("--sparsities", densest / 2.0)
    text = f"No subnetwork keeps {share_text(keeps)} of the full model's score on your data; the densest keeps "
    return Diagnosis(
        f"{text}{100 * kept:.1f} %", f"Prune less: {name} {less:.3g}; or accept less: --keep-id", (name, f"{less:.3g}")
    )
