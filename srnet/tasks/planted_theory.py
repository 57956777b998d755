"""What ideal classifiers score on a task with a planted cue.

A cue is independent of the text given the label, so the best classifier in distribution adds its log-odds to those of
the text. It is wrong where the cue misleads; a debiased classifier uses the text alone and scores the same everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

REFERENCE_ODDS = 7.0 / 3.0
"""Odds of the cue's label over each other one: strength 0.7 with two labels."""


class Expected(NamedTuple):
    """Accuracies in percent."""

    debiased: float
    """The ideal debiased classifier, on every split."""
    id: float
    """The CE-optimal classifier in distribution."""
    anti: float
    neutral: float

    @property
    def kept(self) -> float:
        """The share of the CE-optimal ID accuracy that the debiased classifier keeps, in percent."""
        return 100.0 * self.debiased / self.id

    @property
    def gain(self) -> float:
        """Points that the debiased classifier gains where the cue misleads."""
        return self.debiased - self.anti


def reference_strength(classes: int) -> float:
    """The strength with the reference odds, for a task with so many labels: 0.7 for two, 0.54 for three."""
    return float(f"{REFERENCE_ODDS / (REFERENCE_ODDS + classes - 1):.2g}")


def cue_log_odds(classes: int, strength: float) -> float:
    """log P(cue | its label) - log P(cue | another label)."""
    return float(np.log(strength * (classes - 1) / (1.0 - strength)))


def expected(classes: int, accuracy: float, strength: float) -> Expected:
    """For a text that is Gaussian evidence for its label, as clear as a debiased `accuracy` in percent asks for.

    The evidence for label k is d [k is the label] + noise, its log-odds are d times that, and d gives the accuracy.
    """
    from scipy.optimize import brentq  # not at the top: it is slow to import

    rivals, odds = classes - 1, cue_log_odds(classes, strength)
    d = brentq(lambda d: _right(d, rivals, 0.0) - accuracy / 100.0, 1e-6, 40.0)
    # the cue helps against every rival if it is right, and helps one of them if it is wrong
    right, wrong = _right(d, rivals, odds), _right(d, rivals - 1, 0.0, -odds)
    found = (accuracy / 100.0, strength * right + (1.0 - strength) * wrong, wrong, (right + rivals * wrong) / classes)
    return Expected(*(100.0 * each for each in found))


def _right(d: float, rivals: int, lead: float, lead_over_one: float | None = None) -> float:
    """The probability that the label's log-odds exceed those of `rivals`, and of one more with a lead of its own."""
    from scipy.special import ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    above = ndtr(nodes + d + lead / d) ** rivals
    if lead_over_one is not None:
        above = above * ndtr(nodes + d + lead_over_one / d)
    return float(weights @ above / weights.sum())


def with_cue(log_probs: np.ndarray, cues: np.ndarray, strength: float) -> np.ndarray:
    """The log-probabilities of a debiased model, up to a constant, after it has seen the cue of each row."""
    classes = log_probs.shape[1]
    return np.asarray(log_probs + cue_log_odds(classes, strength) * np.eye(classes)[cues])


def temperature(logits: np.ndarray, cues: np.ndarray, labels: np.ndarray, strength: float) -> float:
    """The factor of a debiased model's logits that makes them, with the cue, most likely: fine-tuned ones are too sure.

    To be fitted on ID dev.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    def loss(log_factor: float) -> float:
        answers = log_softmax(with_cue(np.exp(log_factor) * logits, cues, strength), axis=1)
        return -float(answers[np.arange(len(labels)), labels].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-5.0, 3.0), method="bounded").x))
