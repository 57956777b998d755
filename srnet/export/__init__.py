"""Export of merged checkpoints; import and export of mask files of other projects."""

from srnet.export.merged import save_merged

__all__ = ["save_merged"]
