"""A plain checkpoint: the mask baked into the weights, loadable with no code of ours."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError

from srnet.errors import UserError
from srnet.export.subnetwork import Subnetwork
from srnet.files import new_folder, require_new


def save_merged(subnetwork: Subnetwork, folder: Path, backbone: str | None = None) -> None:
    """Write what `AutoModelForSequenceClassification.from_pretrained(folder)` reads, with the tokenizer beside it."""
    require_new(folder)
    base = subnetwork.base(backbone)
    model = subnetwork.model(base)
    with new_folder(folder) as staging:
        try:
            model.save_pretrained(staging)
        except SafetensorError as error:  # how a full disk shows here
            raise UserError(f"cannot write {folder}: {error}", "free some space or choose another folder") from error
        base.tokenizer.save_pretrained(staging)
