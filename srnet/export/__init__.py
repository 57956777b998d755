"""What leaves: checkpoints, shrunken models, ONNX, subnetwork folders; and masks of others, in both directions."""

from srnet.export.card import About, Scored
from srnet.export.folder import SubnetworkFolder
from srnet.export.formats import FORMATS, Format, Source, get_format, write
from srnet.export.merged import Merged, save_merged
from srnet.export.onnx import Onnx
from srnet.export.shrunk import Shrunk
from srnet.export.smp_masks import Smp

__all__ = [
    "FORMATS",
    "About",
    "Format",
    "Merged",
    "Onnx",
    "Scored",
    "Shrunk",
    "Smp",
    "Source",
    "SubnetworkFolder",
    "get_format",
    "save_merged",
    "write",
]
