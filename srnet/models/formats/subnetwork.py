"""The subnetwork itself as a folder: only what the backbone lacks; and what rounding does to its logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from srnet.core.arrays import finite_logits
from srnet.core.files import new_folder
from srnet.core.lazy import no_grad
from srnet.models.formats.base import Format, Source, register
from srnet.models.formats.card import EXAMPLES, write_card
from srnet.models.model import TorchModel
from srnet.tasks.splits import Example, Split

if TYPE_CHECKING:
    import torch

    from srnet.models.backbones import LoadedBackbone
    from srnet.models.subnetwork import Subnetwork
    from srnet.tasks.base import Task

LOAD = """
import srnet

model = srnet.load_subnetwork("DIR")  # this folder; backbone="..." is the backbone's location, if it has moved
"""
TOKENS = """
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(model.name_or_path)  # the backbone's
"""
EXACT = "float32"
SAMPLE_ROWS, LANGUAGE_ROWS = 32, 4
"""Rows of ID dev that are compared. Language models have a logit for each token of the vocabulary."""
PAIRS = (
    ("The lawyer saw the doctor.", "The doctor saw the lawyer."),
    ("How do I learn to play the piano?", "What is the best way to learn the piano?"),
    ("Three children are playing football in the rain.", "Nobody is outside."),
    ("The film opened in 1994 to good reviews.", "It was released in the nineties."),
)
"""For a model whose task is not available."""


@dataclass(frozen=True)
class _Sample:
    """Inputs of a model, and what they are: "32 rows of dev"."""

    name: str
    batches: list[Mapping[str, torch.Tensor]]


def sample_of(task: Task | None, base: LoadedBackbone, max_length: int) -> _Sample:
    """Rows of ID dev, encoded as in training; a few sentences for a model whose task is not available."""
    from srnet.training.data import encode, token_batches
    from srnet.training.predict import EVAL_TOKENS
    from srnet.training.spans import inputs_for

    if task is None:
        split = Split.of("sentences", "ID", [Example(str(row), *pair, 0) for row, pair in enumerate(PAIRS)])
        name, data = f"{len(PAIRS)} pairs of sentences", encode(split, base.tokenizer, base.max_length(max_length))
    else:
        split = task.dev.sample(LANGUAGE_ROWS if task.answer_kind.language else SAMPLE_ROWS)
        name, data = (
            f"{len(split)} rows of {split.name}",
            inputs_for(task.answer_kind, split, base.tokenizer, base.max_length(max_length)),
        )
    batches = [data.collate(rows) for rows in token_batches(data.lengths, EVAL_TOKENS)]
    return _Sample(name, [{key: each[key] for key in each if key != "labels"} for each in batches])


def _logits_moved(exact: Subnetwork, rounded: Subnetwork, base: LoadedBackbone, sample: _Sample) -> float:
    """The largest absolute difference between the logits of a subnetwork and of the same one rounded.

    Both are put into `base`, one after the other: they have one mask, and the same tensors differ from the backbone.
    """
    both = []
    for each in (exact, rounded):
        model = each.model(base)
        both.append([logits_of(model, batch) for batch in sample.batches])
    return max(float(np.abs(a - b).max()) for a, b in zip(*both, strict=True))


@no_grad
def logits_of(model: Any, batch: Mapping[str, torch.Tensor]) -> np.ndarray:
    return finite_logits(model(**batch).logits.numpy())


@register
@dataclass(frozen=True)
class SubnetworkFolder(Format):
    """Only what the backbone lacks: the coded mask, the head and the differences, for load_subnetwork and MaskBank."""

    name = "subnetwork"
    kind = "subnetwork"
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Of the differences from the backbone: float32 is exact, the others round them."""

    def write(self, source: Source, out: Path) -> list[str]:
        subnetwork, base = source.subnetwork, source.base
        lines, fields = list[str](), dict[str, Any]()
        if self.dtype != EXACT:
            sample = sample_of(source.task, base, source.max_length)
            rounded = subnetwork.rounded(base, self.dtype)
            moved = _logits_moved(subnetwork, rounded, subnetwork.base(base.name), sample)
            fields["logits_moved"] = {"by": moved, "on": sample.name}
            lines.append(f"stored as {self.dtype}: logits move by at most {moved:.2g} ({sample.name})")
        with new_folder(out) as staging:
            subnetwork.write_coded_into(staging, base, self.dtype, **fields)
            about = source.about.with_remarks(lines)
            load = LOAD + (TOKENS + EXAMPLES[source.pipeline]) * subnetwork.head.language
            write_card(staging, replace(source, about=about), self.name, load)
        return lines

    @classmethod
    def read(cls, folder: Path, backbone: str | None = None) -> TorchModel:
        """Also folders of the store, which have the mask as plain bits. `backbone`: its location if it has moved."""
        from srnet.models.subnetwork import Subnetwork

        subnetwork, base = Subnetwork.open(folder, backbone)
        return TorchModel(
            name=str(folder),
            kind=cls.kind,
            labels=subnetwork.labels,
            load_tokenizer=lambda: base.tokenizer,
            folder=folder,
            length=subnetwork.max_length,
            per_token=subnetwork.head.per_token,
            sparsity=subnetwork.sparsity,
            module=subnetwork.model(base),
        )
