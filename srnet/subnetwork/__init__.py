"""The model as a value: backbone, mask, what differs; and its folder."""

from srnet.subnetwork.card import CARD, WEIGHTS
from srnet.subnetwork.coded import CODED_MASK, DTYPES
from srnet.subnetwork.plain import MASK
from srnet.subnetwork.value import Subnetwork, load_subnetwork

__all__ = ["CARD", "CODED_MASK", "DTYPES", "MASK", "WEIGHTS", "Subnetwork", "load_subnetwork"]
