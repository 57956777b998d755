"""The result of a search with made-up scores, without models."""

from __future__ import annotations

from typing import Any

from srnet.evaluation.significance import spread
from srnet.finding.found import Biased, Found, Tried


def found_with(**given: Any) -> Found:
    """Nothing was chosen, unless other fields are given."""
    usual: dict[str, Any] = {
        "biases": (Biased("overlap", 60.0, 9.0, is_biased=True),),
        "full_score": 97.0,
        "tried": (Tried(0.3, 48.5, 0.5),),
        "full_scores": {"dev": spread([97.0]), "challenge": spread([69.2])},
        "recipe": None,
        "full_model": None,
        "misled": ("challenge",),
    }
    return Found(**{**usual, **given})
