"""What leaves: merged checkpoints; and masks of others, in both directions."""

from srnet.export.merged import save_merged

__all__ = ["save_merged"]
