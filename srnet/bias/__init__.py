"""Measuring a shortcut: features, word vectors, and a cross-fitted linear model on them."""
