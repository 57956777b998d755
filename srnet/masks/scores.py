"""How the real-valued mask starts: by the magnitude of the weights."""

from __future__ import annotations

from typing import Literal

import torch

Init = Literal["hard", "soft"]


def initial_scores(weight: torch.Tensor, keep: torch.Tensor, init: Init, phi: float, alpha: float) -> torch.Tensor:
    """`hard` (Eq. 1): 0 where pruned, alpha * phi where kept. `soft` (Eq. 2): the magnitude itself."""
    if init == "soft":
        return weight.detach().abs().float()
    return keep.float() * (alpha * phi)


def cut_between(scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The threshold phi that separates `keep` from the rest, as `scores >= phi`.

    Pruned entries tied with the lowest kept one are lowered in place by one unit in the last place: the cheap compare
    in the forward pass then gives the exact budget.
    """
    if not bool(keep.any()):
        return torch.full((), torch.inf, dtype=scores.dtype, device=scores.device)
    phi = scores[keep].min()
    tied = (scores >= phi) & ~keep
    scores[tied] = torch.nextafter(phi, torch.full_like(phi, -torch.inf))
    return phi
