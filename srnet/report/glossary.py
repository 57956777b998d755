"""The words that a report and an audit use without explaining them. docs/glossary.md has the same text."""

from __future__ import annotations

GLOSSARY = {
    "ID": "In distribution: data like the training data, such as dev.",
    "OOD": "Out of distribution: data on which the shortcut fails. It chooses no checkpoint and no setting.",
    "shortcut": "A feature that predicts the label on the training data but not elsewhere, such as the words that two "
    "texts share.",
    "bias model": "A small model that sees nothing but the shortcut. It shows how far the shortcut alone gets.",
    "subnetwork": "A part of a model's weights; the others are zero.",
    "sparsity": "The share of the weights that are zero, counted on the saved mask: at 70 % sparsity 30 % are kept.",
    "SRNet": "A sparse and robust subnetwork: it keeps the required share of the full model's ID score, 95 % by "
    "default, and beats the full model on every OOD set.",
    "CE": "Cross-entropy, the usual training objective.",
    "PoE": "Product of experts, a training objective that takes away what the bias model explains already, so that the "
    "model learns the rest.",
    "mask training": "A search for a subnetwork: the weights stay as they are, and training decides which of them are "
    "kept.",
    "control": "The full model, trained as long as the longest search: a gain must not come from longer training.",
    "seed": "A repetition of the whole experiment with other random numbers.",
    "worst group": "The group of examples with the lowest accuracy. Groups are a label and whether the bias model is "
    "right there; without a bias model, the groups of the data.",
    "pair": "Examples with the same value in the column `pair`, such as a text and its edited copy. A pair is right if "
    "all of them are.",
    "interval": "A 95 % confidence interval of a score or of a difference in points. A difference is certain if 0 lies "
    "outside.",
}  # fmt: skip
"""Meanings by word, in an order in which each needs only those before it."""
