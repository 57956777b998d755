"""A plain checkpoint: the mask baked into the weights, loadable with no code of ours."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from srnet.export.subnetwork import Subnetwork
from srnet.files import replace_folder, writing


def save_merged(subnetwork: Subnetwork, folder: Path, backbone: str | None = None) -> None:
    """Write what `AutoModelForSequenceClassification.from_pretrained(folder)` reads, with the tokenizer beside it."""
    base = subnetwork.base(backbone)
    model = subnetwork.model(base)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".staging-"))
        try:
            model.save_pretrained(staging)
            base.tokenizer.save_pretrained(staging)
            staging.chmod(0o755)
            replace_folder(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
