"""A plain checkpoint: the mask baked into the weights, loadable with no code of ours."""

from __future__ import annotations

from pathlib import Path

from srnet.export.subnetwork import Subnetwork
from srnet.files import new_folder


def save_merged(subnetwork: Subnetwork, folder: Path, backbone: str | None = None) -> None:
    """Write what `AutoModelForSequenceClassification.from_pretrained(folder)` reads, with the tokenizer beside it."""
    base = subnetwork.base(backbone)
    model = subnetwork.model(base)
    with new_folder(folder) as staging:
        model.save_pretrained(staging)
        base.tokenizer.save_pretrained(staging)
