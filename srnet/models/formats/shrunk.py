"""A model without the units that its mask removes: smaller matrices, the same logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srnet.core.errors import UserError
from srnet.core.files import new_folder, read_bytes, write_bytes
from srnet.core.lazy import transformers
from srnet.masks.granularity import WEIGHT, Granularity
from srnet.masks.units import blocks_of
from srnet.models.backbones import twins_of
from srnet.models.checkpoints import read_pretrained
from srnet.models.exported import (
    EXPORT,
    WEIGHTS,
    Exported,
    open_export,
    read_generation,
    restricted,
    write_generation,
)
from srnet.models.formats.base import Format, Source, register
from srnet.models.formats.card import EXAMPLES, write_card
from srnet.models.formats.merged import whole_model, write_checkpoint
from srnet.models.model import OpenModel

if TYPE_CHECKING:
    from srnet.masks.shrink import Units

LOAD = """
import srnet
from transformers import AutoTokenizer

model = srnet.load_subnetwork("DIR")  # this folder; no backbone is needed
tokenizer = AutoTokenizer.from_pretrained("DIR")
"""


@register
@dataclass(frozen=True)
class Shrunk(Format):
    """Heads and neurons that the mask removes are gone; the logits stay. srnet.load_subnetwork reads it."""

    name = "shrunk"
    kind = "shrunk"
    uniform: bool = False
    """Equal widths in all layers, so that from_pretrained alone reads the folder."""

    def check(self, granularity: Granularity) -> None:
        if granularity == WEIGHT:
            raise UserError("single weights cannot be removed from a model", "prune units: --granularity head,neuron")

    def write(self, source: Source, out: Path) -> list[str]:
        from srnet.masks.shrink import family_of, shrink

        subnetwork, base = source.subnetwork, source.base
        model: Any = whole_model(subnetwork, base) if self.uniform else subnetwork.model(base)
        before = model.num_parameters()
        heads, neurons = (_count(model, kind) for kind in ("attention", "feed-forward"))
        left = shrink(model, uniform=self.uniform)
        remarks = _remarks(model, before, heads, neurons)
        if not left:
            raise _nothing(model, self.uniform)
        if self.uniform and not family_of(model).heads:
            remarks.append(_heads_stay(model))
        source = replace(source, loaded=base, about=source.about.with_remarks(remarks))
        if self.uniform:
            write_checkpoint(source, model, out, self.name)
        else:
            _write(source, model, left, out)
        return remarks

    @classmethod
    def read(cls, folder: Path) -> OpenModel:
        return open_export(folder, _load)


def _write(source: Source, model: Any, left: Units, out: Path) -> None:
    """Of tensors that share their memory, such as the output layer and the embeddings, one is written."""
    from safetensors.torch import save

    twins = twins_of(model)
    state = {n: tensor.detach().clone().contiguous() for n, tensor in model.state_dict().items() if n not in twins}
    with new_folder(out) as staging:
        model.config.save_pretrained(staging)
        write_generation(model, staging)
        write_bytes(staging / WEIGHTS, save(state))
        source.base.tokenizer.save_pretrained(staging)
        replace(source.exported(Shrunk.kind), units=left).seal(staging)
        write_card(staging, source, Shrunk.name, LOAD + EXAMPLES[source.pipeline])


def _load(folder: Path, exported: Exported) -> Any:
    """The shapes are made first: those of the configuration, then without the units that are gone."""
    from safetensors.torch import load
    from transformers.initialization import no_init_weights

    from srnet.masks.shrink import cut_blocks

    config = read_pretrained(transformers.AutoConfig, folder)
    with no_init_weights():
        made = exported.head.loader(config).from_config(config)
    made.tie_weights()  # a part of the initialisation that was left out
    model = restricted(made, exported)
    sizes = {block.name: block.size for block in blocks_of(model)}
    for name, units in exported.units.items():
        if name not in sizes or any(unit >= sizes[name] for unit in units):
            path = folder / EXPORT.file
            raise UserError(f"{path} has units of '{name}' that the model does not have", "restore the file")
    cut_blocks(model, exported.units)
    state = load(read_bytes(folder / WEIGHTS))
    missing = {name: state[other] for name, other in twins_of(model).items() if name not in state and other in state}
    model.load_state_dict(state | missing)
    read_generation(model, folder)
    return model


# --- in words ------------------------------------------------------------------------------------------------------


def _count(model: Any, kind: str) -> int:
    return sum(block.size for block in blocks_of(model) if block.kind == kind)


def _remarks(model: Any, before: int, heads: int, neurons: int) -> list[str]:
    after = model.num_parameters()
    counts = f"{_count(model, 'attention')} of {heads} heads and {_count(model, 'feed-forward')} of {neurons} neurons"
    return [f"{counts} are left: {after:,} of {before:,} parameters ({100 * after / before:.1f} %)"]


def _heads_stay(model: Any) -> str:
    kind = model.config.model_type
    return f"heads stay: a {kind} configuration has no place for fewer heads of the same size, only for fewer neurons"


def _nothing(model: Any, uniform: bool) -> UserError:
    from srnet.masks.shrink import family_of, shrink

    if uniform and not shrink(model):
        uniform = False  # leaving it out would not help
    if uniform and not family_of(model).heads:
        return UserError(f"no neuron can be removed from every layer, and {_heads_stay(model)}", "leave --uniform out")
    if uniform:
        return UserError("no unit can be removed from every layer", "leave --uniform out")
    return UserError(
        "no whole head or neuron is pruned, so there is nothing to shrink",
        "choose --format merged, or prune with --granularity head,neuron",
    )
