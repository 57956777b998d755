"""Commands for what comes in and goes out: masks of others, exported models, the embedded backbone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import srnet
from srnet.cli.app import Given, Model, Run, app, out, task_of
from srnet.cli.options import Command, Fields
from srnet.progress import Reporter


@dataclass(frozen=True)
class Origin:
    """The model that a mask belongs to, and where the result goes."""

    backbone: str
    """The model that the mask was found in: a folder, or a hub name (set SRNET_DOWNLOAD=1 to fetch it)."""
    out: Path
    """The new folder."""
    labels: tuple[str, ...] = ()
    """What the model tells apart, with commas, in the order of its outputs."""
    task: str | None = None
    """A task that has these labels, instead: as in `srnet finetune`."""
    label_words: tuple[str, ...] = ()
    """For smp: one word a label, with commas, e.g. Yes,Maybe,No. Default: the task's, if it has some."""


@app.command("import", cls=Command, no_args_is_help=True)
def import_mask(
    *,
    format: Annotated[str, typer.Argument(help="smp or srnet-reference; see above.")],
    file: Annotated[Path, typer.Argument(help="smp: the .npy file, unpacked from its .zip. srnet-reference: mask.pt.")],
    origin: Annotated[Given, Fields("Options", Origin)],
) -> None:
    """Bring in a mask that others have published: as a folder to evaluate and export like your own.

    smp: a mask of static model pruning (SMP), one bit for each weight of the backbone's layers. SMP trains no head: a
    label's logit is the one that the backbone's language model gives its label word at [CLS]. Without label words the
    model has a classifier: the checkpoint's own where its labels fit, else a random one.

    srnet-reference: a mask of the SRNet paper's code, a mask.pt with zeros and ones for each matrix, by name. A file
    that holds anything but tensors is refused, and nothing in it is run. Masks of the pooler and the classifier are
    taken over as well. The weights are those of --backbone: for a mask of a fine-tuned model, give that model's folder.
    Its classifier is kept if it has as many labels, of the same names where it names them; otherwise the head is
    randomly initialised. A remark says which.

    Then: srnet evaluate DIR --task TASK.
    """
    task = {"task": task_of(origin["task"], {})} if "task" in origin else {}
    made = srnet.import_mask(file, format=format, **{**origin, **task})
    kept = f"{made.mask.kept:,} of {made.mask.total:,} weights kept in {len(made.mask)} matrices"
    out.print(
        str(made.folder), f"sparsity {made.mask.sparsity:.6f}, counted on the mask: {kept}", *made.remarks, sep="\n"
    )


@app.command(cls=Command)
def export(
    *,
    model: Model,
    format: Annotated[str, typer.Option(help="merged, subnetwork or smp; see above.")],
    path: Annotated[Path, typer.Option("--out", help="A new folder; for smp a new file, NAME.npy.")],
    run: Annotated[Given, Fields("Options", Run, only=("store",))],
) -> None:
    """Take a model away.

    merged: a plain checkpoint that from_pretrained reads, the mask baked into the weights.

    subnetwork: a folder with mask bits, head and what differs from the backbone: far smaller. srnet.load_subnetwork
    reads it.

    smp: the mask bits alone, without weights or head, as the authors of static model pruning publish theirs. The mask
    must cover the layers' matrices and nothing else.
    """
    out.print(str(srnet.export_model(model, path, format=format, engine=Run(**run, quiet=True).start())))


@app.command(cls=Command)
def pretrain(
    *,
    path: Annotated[Path, typer.Option("--out", help="Where the backbone goes.")],
    settings: Annotated[Given, Fields("Pre-training", "srnet.tasks.synthetic.pretrain:PretrainSettings")],
    run: Annotated[Given, Fields("Options", Run, only=("quiet",))],
) -> None:
    """Make the embedded backbone again, from nothing but the grammar."""
    out.print(str(srnet.pretrain(path, srnet.PretrainSettings(**settings), Reporter(**run))))
