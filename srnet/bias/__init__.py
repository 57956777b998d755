"""Measuring a shortcut: features, word vectors, and a cross-fitted linear model on them."""

from srnet.bias.features import claim_features, claim_vocabulary, claim_words, overlap_features
from srnet.bias.model import BiasPredictions, fit_bias_model
from srnet.bias.vectors import WordVectors
from srnet.bias.words import vocabulary

__all__ = [
    "BiasPredictions", "WordVectors", "claim_features", "claim_vocabulary", "claim_words", "fit_bias_model",
    "overlap_features", "vocabulary",
]  # fmt: skip
