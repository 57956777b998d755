"""The latency table of a backbone: measured once on a machine, and kept in the store's folder.

It is a part of the expressions that use it, so the stored one is used again: the same command gives the same key.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from srnet.core.device import current_device, device_name, on_cpu, use_device
from srnet.core.errors import UserError
from srnet.core.files import check_types, read_json_object, write_json
from srnet.core.lazy import torch, transformers
from srnet.masks.timed import Latency
from srnet.masks.units import Block, Kind, blocks_of
from srnet.models.checkpoints import loading, max_positions, read_config
from srnet.models.model import random_batch
from srnet.pruners.base import OfUnits, Pruner, TimedOn
from srnet.training.hardware import connect

if TYPE_CHECKING:
    from srnet.experiment.engine import Engine

TOKENS, ROUNDS = 128, 20
"""Of the one text that is timed, and how often each shape takes its turn."""
WIDTHS = (0.75, 0.5, 0.25)
"""Shares of the units of a kind that are left, beside all and none of them."""


def with_latency(pruner: Pruner, backbone: str, engine: Engine) -> Pruner:
    """The pruner with the latency table that its budget needs, if any."""
    if not isinstance(pruner, OfUnits) or not pruner.needs_latency:
        return pruner
    return replace(pruner, latency=latency_of(backbone, engine, pruner.timed_on))


def latency_of(backbone: str, engine: Engine, timed_on: TimedOn = "device") -> Latency:
    """The table of a backbone's shapes on this machine, stored or measured now: on the device of the run, or the CPU.

    On the CPU it is that of the current number of threads.
    """
    with use_device("cpu") if timed_on == "cpu" else nullcontext():
        return connect().on_main(lambda: _stored_or_measured(backbone, engine))


def _stored_or_measured(backbone: str, engine: Engine) -> Latency:
    about = {"shapes": _shapes(backbone), "threads": torch.get_num_threads(), "tokens": TOKENS}
    about |= {"cpu": _processor(), "cores": os.cpu_count(), "architecture": platform.machine()}
    about |= {} if on_cpu() else {"gpu": device_name()}
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    path = engine.store.root / "latency" / f"{key}.json"
    if (found := _read(path, engine)) is not None:
        return found
    with engine.store.lock(f"latency-{key}"):
        if (found := _read(path, engine)) is None:
            engine.reporter.say(
                f"measuring the time of heads and neurons of {backbone}, once on this machine ({device_name()})"
            )
            found = _measure_latency(_random_model(backbone).to(current_device()))
            write_json(path, {**about, "milliseconds": asdict(found)})
    return found


def _read(path: Path, engine: Engine) -> Latency | None:
    """None if there is no table, or none that can be used."""
    if not path.exists():
        return None
    try:
        found = read_json_object(path, milliseconds=dict)["milliseconds"]
        names = [each.name for each in fields(Latency)]
        check_types(path, found, **dict.fromkeys(names, (int, float)))
        return Latency(*(found[name] for name in names))
    except UserError as error:
        engine.reporter.warn(f"the latency table is measured again: {error}")
        return None


def _processor() -> str:
    """The name of the processor, if the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _shapes(backbone: str) -> str:
    """A hash of the architecture and of the shapes of all tensors."""
    with torch.device("meta"):
        model = _random_model(backbone)
    blocks_of(model)  # refuses architectures whose units are not known
    shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    return hashlib.sha256(json.dumps([model.config.model_type, shapes]).encode()).hexdigest()


def _random_model(backbone: str) -> Any:
    """The backbone without a head and with random weights: its time does not depend on them."""
    with loading(backbone), torch.random.fork_rng(devices=[]):
        return transformers.AutoModel.from_config(read_config(backbone)).eval()


# --- measuring -----------------------------------------------------------------------------------------------------


def _measure_latency(model: Any) -> Latency:
    """The table of a model, from its own time and from that of copies with fewer heads or neurons in every layer.

    The copies take turns in every round, and the shortest turn of each counts: what else the machine does can only add
    to it. One text of 128 tokens goes through, or of as many as the model can read.
    """
    from srnet.timing.measuring import interleaved  # not at the top: it imports torch

    blocks, kinds = blocks_of(model), get_args(Kind)
    shapes = [(kind, width) for kind in kinds for width in _widths(blocks, kind)]
    models = [model, *(_narrowed(model, kind, width) for kind, width in shapes)]
    words, length = model.get_input_embeddings().num_embeddings, min(TOKENS, int(max_positions(model)))
    batch = {name: tensor.to(model.device) for name, tensor in random_batch(words, 1, length).items()}
    seconds = interleaved([_call(each, batch) for each in models], ROUNDS)
    dense, *others = (1000.0 * float(each.min()) for each in seconds if each is not None)
    times: dict[Kind, dict[int, float]] = {kind: {} for kind in kinds}
    for (kind, width), time in zip(shapes, others, strict=True):
        times[kind][width] = time
    return Latency.fitted(dense, times, blocks)


def _widths(blocks: list[Block], kind: Kind) -> list[int]:
    size = next(block.size for block in blocks if block.kind == kind)
    return sorted({0, *(max(1, round(share * size)) for share in WIDTHS)} - {size})


def _narrowed(model: Any, kind: Kind, width: int) -> Any:
    """A copy with `width` units in every block of a kind. It shares the tensors that stay as they are."""
    from srnet.masks.shrink import cut_blocks  # not at the top: it imports torch

    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    copy = deepcopy(model, shared)
    with torch.no_grad():
        cut_blocks(copy, {block.name: list(range(width)) for block in blocks_of(copy) if block.kind == kind})
    return copy


def _call(model: Any, batch: dict[str, torch.Tensor]) -> Callable[[], Any]:
    def run() -> Any:
        with torch.inference_mode():
            return model(**batch)[0].cpu()  # in the host's memory, so a GPU has computed it

    return run
