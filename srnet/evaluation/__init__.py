"""Predictions judged: metrics, sub-cases, significance, the SRNet verdict."""

from srnet.evaluation.metrics import METRICS, Scores, accuracy, score, weighted_f1
from srnet.evaluation.significance import Interval, Spread, paired_bootstrap, spread
from srnet.evaluation.verdict import Verdict, judge

__all__ = [
    "METRICS",
    "Interval",
    "Scores",
    "Spread",
    "Verdict",
    "accuracy",
    "judge",
    "paired_bootstrap",
    "score",
    "spread",
    "weighted_f1",
]
