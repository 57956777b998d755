"""The mask as a value, its budget and schedule, and its place in a model."""

from srnet.masks.budget import check_sparsity, keep_largest, magnitudes, meet_budget, prune_count
from srnet.masks.mask import Mask
from srnet.masks.schedule import Schedule
from srnet.masks.targets import LAYERS, Targets

__all__ = [
    "LAYERS", "Mask", "Schedule", "Targets", "check_sparsity", "keep_largest", "magnitudes", "meet_budget",
    "prune_count",
]  # fmt: skip
