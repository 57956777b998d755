"""What enters and leaves: exported models, imported masks, the embedded backbone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from srnet.api.facts import known_about
from srnet.backbones import Head, OwnClassifier, has_language_model, keep_own_classifier, load_backbone
from srnet.errors import UserError, choose
from srnet.experiment import Engine, load_task
from srnet.experiment.nodes import TaskSpec, answer_of_spec
from srnet.experiment.rebuild import stored_model
from srnet.export import Source, get_format, write
from srnet.export.reference_masks import read_reference
from srnet.export.shapes import linear_shapes, stack_shapes
from srnet.export.smp_masks import read_smp
from srnet.files import require_new
from srnet.masks import Mask
from srnet.masks.parametrization import weight_name
from srnet.progress import Reporter
from srnet.subnetwork import Subnetwork
from srnet.tasks.synthetic.pretrain import PretrainSettings
from srnet.tasks.synthetic.pretrain import pretrain as _pretrain


def pretrain(out: Path | str, settings: PretrainSettings | None = None, reporter: Reporter | None = None) -> Path:
    """Make the embedded backbone again."""
    out = require_new(Path(out))
    reporter = reporter or Reporter()
    with reporter.session():
        step = reporter.begin(1, 1, f"pre-train {out.name}")
        _pretrain(out, settings, step.advance)
        step.finish()
    return out


def export_model(
    model: str | Path,
    out: Path | str,
    *,
    format: str = "merged",
    engine: Engine | None = None,
    say: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> Path:
    """Write a model of the store (by key), or a saved subnetwork folder, in a format that others can use.

    The formats are in `srnet.export.FORMATS`; `options` are the fields of the chosen one: `uniform` of `shrunk`, `int8`
    of `onnx`. `say` is told what one should know about the result.
    """
    chosen, out = get_format(format)(**options), Path(out)
    if not chosen.is_file:
        require_new(out)
    for line in write(chosen, _source(model, engine or Engine()), out):
        say(line)
    return out


def _source(model: str | Path, engine: Engine) -> Source:
    if Path(model).is_dir():
        return Source(Subnetwork.load(Path(model)))
    node = stored_model(engine.store, str(model))
    task = load_task(node.task_spec)
    subnetwork = Subnetwork.load(engine.store.path(node.key))
    return Source(subnetwork, None, known_about(engine.store, node), task, node.max_length)


IMPORTS = ("smp", "srnet-reference")


@dataclass(frozen=True)
class Imported:
    """A mask that others found, now a subnetwork of ours."""

    folder: Path
    mask: Mask
    remarks: tuple[str, ...]
    """What to know before one trusts its scores."""


def import_mask(
    file: Path | str,
    out: Path | str,
    *,
    format: str,
    backbone: str,
    labels: Sequence[str] = (),
    label_words: Sequence[str] = (),
    task: TaskSpec | None = None,
) -> Imported:
    """Read a mask that others have published and write it, with the backbone's own weights, as a subnetwork folder.

    `format` is `smp` (packed bits in a `.npy`) or `srnet-reference` (a `mask.pt`). Such files say nothing about labels:
    give them in the order of the model's outputs, or a task that has them. `label_words` is for `smp`: one word a
    label, whose logits of the language model are the model's outputs; a task may know its words. Without them the
    checkpoint's own classifier is kept where its labels fit, and a remark says whether it was.
    """
    choose("format", format, IMPORTS)
    out = require_new(Path(out))
    chosen, head = _outputs(format, backbone, tuple(labels), tuple(label_words), task)
    base = load_backbone(backbone, chosen, seed=0, head=head)
    mask, remarks = _read_mask(Path(file), format, base.model)
    if not head.words:
        own = keep_own_classifier(base, chosen)
        mask = _in_order(mask, own)
        remarks.append(
            f"the checkpoint's own classifier was kept for {', '.join(chosen)}: {own.why}"
            if own.kept
            else f"the head is randomly initialised, for {own.why}: scores mean nothing until it is trained"
        )
    Subnetwork.of(base, chosen, base.model.state_dict(), mask).save(out)
    return Imported(out, mask, tuple(remarks))


def _in_order(mask: Mask, own: OwnClassifier) -> Mask:
    """A mask of the classifier has its rows in the checkpoint's order, and must follow them."""
    name = weight_name(own.name)
    return Mask({**mask, name: mask[name][list(own.order)]}) if own.kept and name in mask else mask


def _outputs(
    format: str, backbone: str, labels: tuple[str, ...], words: tuple[str, ...], task: TaskSpec | None
) -> tuple[tuple[str, ...], Head]:
    """The labels that the model tells apart, and what gives their logits."""
    if bool(labels) == (task is not None):
        raise UserError("which labels does the model tell apart?", "give either labels or a task")
    if len(set(labels)) != len(labels) or not all(labels) or len(labels) == 1:
        raise UserError(f"{list(labels)} are no labels", "give at least two, each with a name of its own")
    if words and format != "smp":
        raise UserError(f"masks of format '{format}' go with a classifier", "leave the label words out")
    if task is None:
        return labels, Head(words)
    # a description of files knows its labels itself, so the data need not be there
    known: Any = task if hasattr(task, "labels") else load_task(task)
    usual = tuple(known.label_words) if format == "smp" and has_language_model(backbone) else ()
    return tuple(known.labels), Head(words or usual, per_token=answer_of_spec(known).per_token)


def _read_mask(file: Path, format: str, model: nn.Module) -> tuple[Mask, list[str]]:
    """The mask, and what of the file or of the model it leaves out."""
    if format == "smp":
        return read_smp(file, stack_shapes(model)), []
    mask, ignored = read_reference(file, linear_shapes(model))
    remarks = [f"ignored in {file}, because it is no tensor: {', '.join(ignored)}"] if ignored else []
    whole = [name for name in stack_shapes(model) if name not in mask]
    if whole:
        remarks.append(f"{len(whole)} matrices of the layers have no mask and stay whole, {whole[0]} the first")
    return mask, remarks
