"""Commands that bring in what others have published."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from srnet.cli.app import app, out, task_of
from srnet.cli.options import Fields, command

import_app = typer.Typer(
    help="Bring in masks that others have published: as a folder to evaluate and export like your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(import_app, name="import")


@dataclass(frozen=True)
class Origin:
    """The model that a mask belongs to, and where the result goes."""

    backbone: str
    """The model that the mask was found in: a folder, or a hub name (set SRNET_DOWNLOAD=1 to fetch it)."""
    folder: Path = field(metadata={"name": "--out"})
    """The new folder."""
    labels: tuple[str, ...] = ()
    """What the model tells apart, with commas, in the order of its outputs."""
    task: str | None = None
    """A task that has these labels, instead: as in `srnet finetune`."""


@dataclass(frozen=True)
class SmpOrigin(Origin):
    label_words: tuple[str, ...] = ()
    """One word a label, with commas, e.g. Yes,Maybe,No. Default: the task's, if it has some."""


@command(import_app)
def smp(
    *,
    file: Annotated[Path, typer.Argument(help="The .npy file, unpacked from its .zip.")],
    origin: Annotated[Any, Fields("Options", SmpOrigin)],
) -> None:
    """A mask of static model pruning (SMP): one bit for each weight of the backbone's layers.

    SMP trains no head: a label's logit is the one that the backbone's language model gives its label word at [CLS].
    Without label words the model has a classifier: the checkpoint's own where its labels fit, else a random one.

    Then: srnet evaluate DIR --task TASK.
    """
    _bring_in(file, format="smp", **origin)


@command(import_app, "srnet-reference")
def srnet_reference(
    *,
    file: Annotated[Path, typer.Argument(help="The mask.pt that the published code writes.")],
    origin: Annotated[Any, Fields("Options", Origin)],
) -> None:
    """A mask of the SRNet paper's code: a mask.pt with zeros and ones for each matrix, by name.

    A file that holds anything but tensors is refused, and nothing in it is run. Masks of the pooler and the classifier
    are taken over as well. The weights are those of --backbone: for a mask of a fine-tuned model, give that model's
    folder. Its classifier is kept if it has as many labels, of the same names where it names them; otherwise the head
    is randomly initialised. A remark says which.
    """
    _bring_in(file, format="srnet-reference", **origin)


def _bring_in(file: Path, folder: Path, *, task: str | None = None, **options: Any) -> None:
    from srnet import api

    made = api.import_mask(file, folder, task=None if task is None else task_of(task, {}), **options)
    mask = made.mask
    out.print(f"{made.folder}", markup=False)
    out.print(
        f"sparsity {mask.sparsity:.6f}, counted on the mask: {mask.kept:,} of {mask.total:,} weights kept "
        f"in {len(mask)} matrices",
        markup=False,
    )
    for remark in made.remarks:
        out.print(remark, markup=False)
