"""Commands that bring in what others have published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from srnet.cli.app import app, listed, out
from srnet.names import DOWNLOAD_VARIABLE

import_app = typer.Typer(
    help="Bring in masks that others have published: as a folder to evaluate and export like your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(import_app, name="import")

BackboneOption = Annotated[
    str,
    typer.Option(
        "--backbone",
        help=f"The model that the mask was found in: a folder, or a hub name (set {DOWNLOAD_VARIABLE}=1 to fetch it).",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", help="The new folder.")]
LabelsOption = Annotated[
    str | None,
    typer.Option("--labels", help="What the model tells apart, with commas, in the order of its outputs."),
]
TaskOption = Annotated[
    str | None, typer.Option("--task", help="A task that has these labels, instead: as in `srnet finetune`.")
]


@import_app.command()
def smp(
    file: Annotated[Path, typer.Argument(help="The .npy file, unpacked from its .zip.")],
    backbone: BackboneOption,
    out_folder: OutOption,
    labels: LabelsOption = None,
    task: TaskOption = None,
    label_words: Annotated[
        str | None,
        typer.Option(help="One word a label, with commas, e.g. Yes,Maybe,No. Default: the task's, if it has some."),
    ] = None,
) -> None:
    """A mask of static model pruning (SMP): one bit for each weight of the backbone's layers.

    SMP trains no head: a label's logit is the one that the backbone's language model gives its label word at [CLS].
    Without label words the model has a classifier: the checkpoint's own where its labels fit, else a random one.

    Then: srnet evaluate DIR --task TASK.
    """
    words = listed(label_words)
    _bring_in(file, out_folder, format="smp", backbone=backbone, labels=labels, task=task, label_words=words)


@import_app.command("srnet-reference")
def srnet_reference(
    file: Annotated[Path, typer.Argument(help="The mask.pt that the published code writes.")],
    backbone: BackboneOption,
    out_folder: OutOption,
    labels: LabelsOption = None,
    task: TaskOption = None,
) -> None:
    """A mask of the SRNet paper's code: a mask.pt with zeros and ones for each matrix, by name.

    A file that holds anything but tensors is refused, and nothing in it is run. Masks of the pooler and the classifier
    are taken over as well. The weights are those of --backbone: for a mask of a fine-tuned model, give that model's
    folder. Its classifier is kept if it has as many labels, of the same names where it names them; otherwise the head
    is randomly initialised. A remark says which.
    """
    _bring_in(file, out_folder, format="srnet-reference", backbone=backbone, labels=labels, task=task)


def _bring_in(file: Path, folder: Path, *, labels: str | None, task: str | None, **options: Any) -> None:
    from srnet import api
    from srnet.recipes import DataOptions

    spec = None if task is None else DataOptions().task(task)
    made = api.import_mask(file, folder, labels=listed(labels), task=spec, **options)
    mask = made.mask
    out.print(f"{made.folder}", markup=False)
    out.print(
        f"sparsity {mask.sparsity:.6f}, counted on the mask: {mask.kept:,} of {mask.total:,} weights kept "
        f"in {len(mask)} matrices",
        markup=False,
    )
    for remark in made.remarks:
        out.print(remark, markup=False)
