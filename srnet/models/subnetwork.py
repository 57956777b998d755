"""A subnetwork: a backbone, the tensors in which a model differs from it, and a mask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from srnet.core.errors import UserError
from srnet.core.files import new_folder
from srnet.masks.mask import Mask
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.heads import CLASSIFIER, Head
from srnet.models.subnetwork_files import (
    CODED,
    MASKS,
    PLAIN,
    Tensors,
    head_fields,
    pack,
    read_coded,
    read_manifest,
    read_plain,
    unpack,
    write_coded,
    write_manifest,
    write_plain,
)


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
    max_length: int | None = None
    """Where texts were cut in training, if that is known."""

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
        self.check(base)
        base.model.load_state_dict(self.state(base))
        return base.model.eval()

    def check(self, base: LoadedBackbone) -> None:
        """Every tensor has its place in the model, and what the backbone lacks is there."""
        places, twins = base.model.state_dict(), base.twins()
        for name, keep in (self.mask or {}).items():
            if name not in places or places[name].shape != keep.shape:
                raise UserError(f"the mask does not fit this model: {name} is missing or has another shape")
        for name, tensor in self.weights.items():
            if name not in places or places[name].shape != tensor.shape:
                raise UserError(f"weights '{name}' have no place in backbone '{base.name}'", "restore the subnetwork")
        missing = sorted(places.keys() - base.pretrained().keys() - self.weights.keys() - twins.keys())
        if missing:
            raise UserError(f"the subnetwork has no weights '{missing[0]}'", "restore the subnetwork")

    def rounded(self, base: LoadedBackbone, dtype: str) -> Subnetwork:
        """The subnetwork that is read again when this one is written as `dtype`."""
        return replace(self, weights=unpack(self._packed(base, dtype), self.mask or {}, base, Path(base.name)))

    def _packed(self, base: LoadedBackbone, dtype: str) -> Tensors:
        """The tensors as format 2 stores them."""
        self.check(base)
        return pack(self.weights, self.mask or {}, base, dtype)

    # --- files -----------------------------------------------------------------------------------------------------

    def write_into(self, folder: Path) -> None:
        """Write the files of format 1, as the store keeps them; the caller makes it atomic."""
        write_plain(folder, self.mask, self.weights)
        write_manifest(folder, PLAIN, self._facts())

    def save(self, folder: Path) -> None:
        """Write a new folder of format 1, whole or not at all."""
        with new_folder(Path(folder)) as staging:
            self.write_into(staging)

    def save_coded(
        self, folder: Path, base: LoadedBackbone | None = None, dtype: str = "float32", **fields: Any
    ) -> None:
        """Write a new folder of format 2, with `fields` in its manifest, whole or not at all."""
        with new_folder(Path(folder)) as staging:
            self.write_coded_into(staging, base or self.base(), dtype, **fields)

    def write_coded_into(self, folder: Path, base: LoadedBackbone, dtype: str = "float32", **fields: Any) -> None:
        """Write the files of format 2; the caller makes it atomic."""
        write_coded(folder, self.mask, self._packed(base, dtype), base)
        write_manifest(folder, CODED, {**self._facts(), "dtype": dtype, "max_length": self.max_length, **fields})

    def _facts(self) -> dict[str, Any]:
        return {
            "backbone": self.backbone,
            "backbone_sha256": self.backbone_sha256,
            "labels": list(self.labels),
            **head_fields(self.head),
            "sparsity": self.sparsity,
            "weights_total": self.mask.total if self.mask else None,
            "weights_kept": self.mask.kept if self.mask else None,
        }

    @classmethod
    def load(cls, folder: Path, backbone: str | None = None) -> Subnetwork:
        """Read a folder. Format 2 needs the backbone: `backbone` is its location if not the manifest's."""
        return cls._read(Path(folder), backbone)[0]

    @classmethod
    def open(cls, folder: Path, backbone: str | None = None) -> tuple[Subnetwork, LoadedBackbone]:
        """Read a folder, and load its backbone."""
        subnetwork, base = cls._read(Path(folder), backbone)
        return subnetwork, base or subnetwork.base(backbone)

    @classmethod
    def _read(cls, folder: Path, backbone: str | None) -> tuple[Subnetwork, LoadedBackbone | None]:
        """The backbone as well where it was needed."""
        facts = read_manifest(folder)
        masked = MASKS[facts["format"]] in facts["files"]
        empty = cls(
            facts["backbone"],
            facts["backbone_sha256"],
            tuple(facts["labels"]),
            {},
            head=Head(tuple(facts["label_words"]), facts["per_token"]),
            max_length=facts["max_length"],
        )
        base = None if facts["format"] == PLAIN else empty.base(backbone)
        mask, weights = read_plain(folder, masked=masked) if base is None else read_coded(folder, base, masked=masked)
        return replace(empty, mask=mask, weights=weights), base
