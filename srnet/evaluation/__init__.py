"""Evaluation of predictions: metrics, sub-cases, significance, the SRNet verdict."""
