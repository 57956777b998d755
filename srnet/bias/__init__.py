"""How a shortcut is measured: features, word vectors, and a cross-fitted linear model on them."""

from srnet.bias.features import claim_features, overlap_features
from srnet.bias.model import BiasPredictions, fit_bias_model
from srnet.bias.vectors import WordVectors

__all__ = ["BiasPredictions", "WordVectors", "claim_features", "fit_bias_model", "overlap_features"]
