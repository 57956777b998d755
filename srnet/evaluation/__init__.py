"""Predictions judged: metrics, sub-cases, significance, the SRNet verdict."""

from srnet.evaluation.metrics import OF_COUNTS, Scores, accuracy, confusion, measure, score, weighted_f1
from srnet.evaluation.significance import Interval, Spread, Term, contrast, paired_bootstrap, spread
from srnet.evaluation.verdict import KEEPS_ID, Verdict, judge

__all__ = [
    "KEEPS_ID",
    "OF_COUNTS",
    "Interval",
    "Scores",
    "Spread",
    "Term",
    "Verdict",
    "accuracy",
    "confusion",
    "contrast",
    "judge",
    "measure",
    "paired_bootstrap",
    "score",
    "spread",
    "weighted_f1",
]
