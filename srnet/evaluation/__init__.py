"""Evaluation of predictions: metrics, significance, evidence, and the verdict on a subnetwork.

The numbers of the criterion are here, apart from the verdict, so that settings have them without importing scipy.
"""

KEEPS_ID = 0.95
"""The share of the full model's ID score that an SRNet keeps."""
MIN_SEEDS = 3
"""The fewest seeds for a verdict: with fewer, the variance between seeds is unknown."""
BIASED_BY = 5.0
"""Points above the majority class on ID dev from which on a bias model is called biased."""
