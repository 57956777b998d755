"""A subnetwork one can keep: a folder with a mask, what differs from the backbone, and a JSON that names the backbone.

subnetwork.json     backbone and its hash, labels, counted sparsity, a checksum for every file
mask.bits           one bit a weight (absent for a full model)
weights.safetensors tensors that differ from the backbone, the head among them; of a masked matrix only kept values
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from transformers import PreTrainedModel

from srnet.backbones import CLASSIFIER, Head, LoadedBackbone, load_backbone
from srnet.errors import UserError
from srnet.exported import is_exported, load_exported
from srnet.files import check_types, new_folder, read_json_object, sha256, write_bytes, write_json
from srnet.masks import Mask

FORMAT = 1
_CARD_TYPES: dict[str, Any] = {
    "backbone": str, "backbone_sha256": str, "labels": list, "files": dict, "label_words": list, "per_token": bool,
}  # fmt: skip
CARD, MASK, WEIGHTS = "subnetwork.json", "mask.bits", "weights.safetensors"


@dataclass(frozen=True)
class Subnetwork:
    """A model as a value: a backbone, the tensors in which it differs, and a mask over some of them.

    A full model is one without a mask.
    """

    backbone: str
    backbone_sha256: str
    labels: tuple[str, ...]
    weights: dict[str, torch.Tensor]
    mask: Mask | None = None
    head: Head = CLASSIFIER

    @classmethod
    def of(
        cls,
        base: LoadedBackbone,
        labels: tuple[str, ...],
        state: dict[str, torch.Tensor],
        mask: Mask | None,
    ) -> Subnetwork:
        """Keep what differs from the backbone; pruned entries do not count as a difference.

        Of tensors that share their memory one is kept.
        """
        original, twins = base.pretrained(), base.twins()
        masked = mask.apply(state) if mask is not None else state
        expected = (
            mask.apply(original | {n: state[n] for n in mask if n not in original}) if mask is not None else original
        )
        own = {n: t for n, t in masked.items() if n not in twins}
        differs = {n: t for n, t in own.items() if n not in original or not torch.equal(t.cpu(), expected[n].cpu())}
        kept = {n: t.detach().cpu().clone() for n, t in differs.items()}
        return cls(base.name, base.sha256, labels, kept, mask, base.head)

    @property
    def sparsity(self) -> float:
        return 0.0 if self.mask is None else self.mask.sparsity

    def base(self, backbone: str | None = None) -> LoadedBackbone:
        """Load the backbone and make sure that it is the one this subnetwork was cut from."""
        base = load_backbone(backbone or self.backbone, self.labels, seed=0, head=self.head)
        if base.sha256 != self.backbone_sha256:
            raise UserError(
                f"backbone '{base.name}' has hash {base.sha256[:12]}, the subnetwork needs {self.backbone_sha256[:12]}",
                "give the folder of the original backbone",
            )
        return base

    def state(self, base: LoadedBackbone) -> dict[str, torch.Tensor]:
        """All tensors of the model, pruned entries zero."""
        state = {**base.model.state_dict(), **self.weights}
        state |= {name: state[other] for name, other in base.twins().items()}
        return state if self.mask is None else self.mask.apply(state)

    def model(self, base: LoadedBackbone) -> PreTrainedModel:
        """An ordinary model with the mask baked in."""
        self._check_weights(base)
        base.model.load_state_dict(self.state(base))
        return base.model.eval()

    def _check_weights(self, base: LoadedBackbone) -> None:
        """Every tensor has its place in the model, and what the backbone lacks is there."""
        places, twins = base.model.state_dict(), base.twins()
        for name, tensor in self.weights.items():
            if name not in places or places[name].shape != tensor.shape:
                raise UserError(f"weights '{name}' have no place in backbone '{base.name}'", "restore the subnetwork")
        missing = sorted(places.keys() - base.pretrained().keys() - self.weights.keys() - twins.keys())
        if missing:
            raise UserError(f"the subnetwork has no weights '{missing[0]}'", "restore the subnetwork")

    # --- files -----------------------------------------------------------------------------------------------------

    def write_into(self, folder: Path) -> None:
        """Write the files; the caller answers for atomicity."""
        if self.mask is not None:
            write_bytes(folder / MASK, self.mask.to_bytes())
        write_bytes(folder / WEIGHTS, save(self._packed()))
        files = [name for name in (MASK, WEIGHTS) if (folder / name).exists()]
        card = {
            "format": FORMAT,
            "backbone": self.backbone,
            "backbone_sha256": self.backbone_sha256,
            "labels": list(self.labels),
            **_head_card(self.head),
            "sparsity": self.sparsity,
            "weights_total": self.mask.total if self.mask else None,
            "weights_kept": self.mask.kept if self.mask else None,
            "files": {name: sha256(folder / name) for name in files},
        }
        write_json(folder / CARD, {**card, "sha256": _card_hash(card)})

    def save(self, folder: Path) -> None:
        """Write a new folder, whole or not at all."""
        with new_folder(Path(folder)) as staging:
            self.write_into(staging)

    def _packed(self) -> dict[str, torch.Tensor]:
        mask: Mapping[str, torch.Tensor] = self.mask or {}
        return {n: (t[mask[n]] if n in mask else t).contiguous() for n, t in self.weights.items()}

    @classmethod
    def load(cls, folder: Path) -> Subnetwork:
        folder = Path(folder)
        card = _checked_card(folder)
        mask = Mask.from_bytes((folder / MASK).read_bytes(), str(folder / MASK)) if MASK in card["files"] else None
        weights = _read_weights(folder / WEIGHTS, mask or {})
        return cls(card["backbone"], card["backbone_sha256"], tuple(card["labels"]), weights, mask, _head_of(card))


def _head_card(head: Head) -> dict[str, Any]:
    """An ordinary classifier goes without saying."""
    return {} if head == CLASSIFIER else {"label_words": list(head.words), "per_token": head.per_token}


def _head_of(card: dict[str, Any]) -> Head:
    return Head(tuple(card["label_words"]), card["per_token"])


def _card_hash(card: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()


def _read_weights(path: Path, mask: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors; masked ones with zeros where they are pruned."""
    try:
        weights: dict[str, torch.Tensor] = load(path.read_bytes())
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file: {error}") from error
    for name, tensor in weights.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise UserError(f"{path}: '{name}' holds non-finite values", "restore the file")
    for name in weights.keys() & mask.keys():
        if weights[name].shape != (int(mask[name].sum()),):
            raise UserError(f"{path}: '{name}' has another number of values than its mask keeps", "restore the file")
        dense = torch.zeros(mask[name].shape, dtype=weights[name].dtype)
        dense[mask[name]] = weights[name]
        weights[name] = dense
    return weights


def _checked_card(folder: Path) -> dict[str, Any]:
    path = folder / CARD
    if not path.is_file():
        raise UserError(f"{folder} holds no {CARD}", "give the folder of a saved subnetwork")
    card = read_json_object(path)
    if card.get("format") != FORMAT:
        raise UserError(f"{path} has an unknown format", "it was written by another version of srnet")
    if card.pop("sha256", None) != _card_hash(card):
        raise UserError(f"{path} was altered: its checksum does not match", "restore the file")
    card = {"label_words": [], "per_token": False, **card}
    check_types(path, card, **_CARD_TYPES)
    texts = [*card["labels"], *card["label_words"], *card["files"].values()]
    if not all(isinstance(text, str) for text in texts) or not {WEIGHTS} <= card["files"].keys() <= {WEIGHTS, MASK}:
        raise UserError(f"{path} names other labels or files than a subnetwork has", "restore the file")
    for name, digest in card["files"].items():
        if not (folder / name).is_file():
            raise UserError(f"{folder / name} is missing", "restore the file")
        if sha256(folder / name) != digest:
            raise UserError(f"{folder / name} is truncated or altered: its checksum does not match", "restore the file")
    return card


def load_subnetwork(folder: Path | str, backbone: str | None = None) -> PreTrainedModel:
    """An ordinary Hugging Face model with the subnetwork's logits. Also reads what was exported as a whole model.

    `backbone` says where the backbone lies if not where the subnetwork's JSON says; its hash must match either way.
    """
    if is_exported(folder):
        return load_exported(folder)
    subnetwork = Subnetwork.load(Path(folder))
    return subnetwork.model(subnetwork.base(backbone))
