"""How far one model answers like another (Xu et al. 2021, "Beyond Preserved Accuracy")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from srnet.audit.rows import Judged


@dataclass(frozen=True)
class Loyalty:
    """Of B to A, in the classes of the split; 1 is the same behaviour."""

    split: str
    label: float
    """Share of equal answers."""
    probability: float
    """Mean of 1 - sqrt(D_JS), with the Jensen-Shannon divergence to base e, as the authors compute it: 0.167 to 1."""


def loyalty(judged: Judged) -> Loyalty | None:
    if len(judged.models) < 2:
        return None
    a, b = judged.models
    return Loyalty(
        judged.split.name,
        label_loyalty(a.answers, b.answers),
        probability_loyalty(a.probabilities, b.probabilities),
    )


def label_loyalty(a: np.ndarray, b: np.ndarray) -> float:
    return float((a == b).mean())


def probability_loyalty(p: np.ndarray, q: np.ndarray) -> float:
    """L_p = 1 - sqrt(D_JS(p || q)), the mean over examples."""
    return float((1.0 - np.sqrt(js_divergence(p, q))).mean())


def js_divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """D_JS = (D_KL(p || m) + D_KL(q || m)) / 2 with m = (p + q) / 2, to base e: from 0 to ln 2."""
    middle = (p + q) / 2.0
    nats = (rel_entr(p, middle).sum(axis=1) + rel_entr(q, middle).sum(axis=1)) / 2.0
    return np.asarray(np.clip(nats, 0.0, np.log(2.0)))  # rounding may go beyond
