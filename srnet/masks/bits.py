"""Decisions about weights as bits on their device: they are kept between two refreshes, with everything else."""

from __future__ import annotations

from srnet.core.lazy import F, torch


def pack_bits(keep: torch.Tensor) -> torch.Tensor:
    """Eight decisions in a byte: the first eighth of them in the lowest bits, the next in those above, and so on."""
    flat = keep.reshape(-1)
    parts = F.pad(flat, (0, -flat.numel() % 8)).view(torch.uint8).view(8, -1)
    packed = parts[0].clone()
    for place in range(1, 8):
        packed |= parts[place] << place
    return packed


def unpack_bits(packed: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The decisions behind `pack_bits`."""
    places = torch.arange(8, dtype=torch.uint8, device=packed.device)
    flat = ((packed >> places[:, None]) & 1).view(torch.bool).reshape(-1)
    return flat[: shape.numel()].reshape(shape)
