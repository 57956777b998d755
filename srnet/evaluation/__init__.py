"""Evaluation of predictions: metrics, sub-cases, significance, the SRNet verdict."""

from srnet.evaluation.metrics import Scores, measure, score, score_split
from srnet.evaluation.significance import LEVEL, Interval, Spread, Term, contrast, holm, paired_bootstrap, spread
from srnet.evaluation.verdict import (
    ALPHA,
    BIASED_BY,
    KEEPS_ID,
    MIN_SEEDS,
    Verdict,
    judge,
    judge_together,
    seeds_in_words,
)

__all__ = [
    "ALPHA", "BIASED_BY", "KEEPS_ID", "LEVEL", "MIN_SEEDS", "Interval", "Scores", "Spread", "Term", "Verdict",
    "contrast", "holm", "judge", "judge_together", "measure", "paired_bootstrap", "score", "score_split",
    "seeds_in_words", "spread",
]  # fmt: skip
