"""Measuring a shortcut: features, word vectors, and a cross-fitted linear model on them."""

from typing import TYPE_CHECKING

from srnet.lazy import exports

if TYPE_CHECKING:
    from srnet.bias.features import claim_features, claim_vocabulary, claim_words, overlap_features
    from srnet.bias.model import BiasPredictions, BiasScorer, fit_bias_model, fit_bias_scorer
    from srnet.bias.vectors import WordVectors
    from srnet.bias.words import vocabulary

__all__ = [
    "BiasPredictions", "BiasScorer", "WordVectors", "claim_features", "claim_vocabulary", "claim_words",
    "fit_bias_model", "fit_bias_scorer", "overlap_features", "vocabulary",
]  # fmt: skip

_FEATURES = dict.fromkeys(("claim_features", "claim_vocabulary", "claim_words", "overlap_features"), "features")
_MODEL = dict.fromkeys(("BiasPredictions", "BiasScorer", "fit_bias_model", "fit_bias_scorer"), "model")
__getattr__ = exports(__name__, {**_FEATURES, **_MODEL, "WordVectors": "vectors", "vocabulary": "words"})
