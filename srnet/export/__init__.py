"""What leaves: the subnetwork's own folder, and plain merged checkpoints."""

from srnet.export.merged import save_merged
from srnet.export.subnetwork import Subnetwork, load_subnetwork

__all__ = ["Subnetwork", "load_subnetwork", "save_merged"]
