"""The cost of a model: its optimisation steps, as planned or as recorded in the store."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from srnet.core.device import current_device, device_name, synchronize
from srnet.core.errors import UserError
from srnet.core.files import read_json
from srnet.core.lazy import torch
from srnet.experiment.nodes.base import Node, load_task
from srnet.experiment.nodes.models import ModelNode, Pretrained
from srnet.experiment.rebuild import rebuild
from srnet.experiment.store import Store
from srnet.models.backbones import load_backbone
from srnet.training.hardware import CHECKPOINTS, computing_in
from srnet.training.settings import TrainingSettings


def training_steps(node: ModelNode, store: Store) -> int:
    """Steps from the raw backbone to this model. A run that yields several models counts in full for each."""
    return _cost(node, lambda run: int(read_json(store.path(run.key) / "training.json")["steps"]))


def planned_steps(node: ModelNode) -> int:
    """The planned steps; the maximum where a training may stop early."""
    return _cost(node, lambda run: int(run.planned_steps))


def _cost(node: ModelNode, steps_of: Callable[[Any], int]) -> int:
    if node.holds_several_models:
        raise TypeError(f"{type(node).__name__} is a run, not a model")
    return node.cost(steps_of)


# --- the estimated time of a plan, from the speed of measured trainings ---

CALIBRATION_STEPS = 3
EVALUATION = 1.0 / 3.0
"""The time for the forward pass of a batch, relative to a training step: a backward pass costs about two of them."""
Setting = tuple[str, str, int, str, bool, int, bool]
"""What decides the pace of a training: the task, the backbone, the batch size, the precision, the compilation, the
parts of a batch and the checkpointing."""
LATEST = 3
"""Trainings whose pace counts: the machine may have been faster or slower before."""


@dataclass(frozen=True)
class Estimate:
    """`steps` and `seconds` of the trainings, with the evaluations in their course."""

    trainings: int
    steps: int
    seconds: float | None
    """None if no stored training gives the pace and nothing was measured."""
    stored: int
    """How many stored trainings the estimate uses; 0 if the speed was measured now."""

    def __str__(self) -> str:
        if self.seconds is None:
            return f"{self.steps:,} training steps, and no stored training gives their pace: --measure times a few"
        basis = f"the pace of {self.stored} stored trainings" if self.stored else "a few steps measured just now"
        return f"about {duration_text(self.seconds)} for {self.steps:,} training steps, by {basis}"


def duration_text(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1g} s" if 0.0005 <= seconds < 0.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """Seconds of a duration such as 90s, 60m or 2h."""
    number, unit = text.strip()[:-1], text.strip()[-1:]
    if unit not in _UNITS or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", number) or not float(number):
        raise UserError(f"'{text[:80]}' is not a duration", "write 90s, 60m or 2h")
    return float(number) * _UNITS[unit]


def estimate(
    nodes: Sequence[Node], store: Store, *, measure: bool = True, measured: dict[Setting, float] | None = None
) -> Estimate:
    """From the pace of stored trainings; where there are none, from a few steps, unless `measure` is off.

    `measured` keeps what was timed, for the next estimate.
    """
    trainings: list[Any] = [node for node in nodes if node.trains]
    paces = _stored_paces(store, {_setting(node) for node in trainings})
    measured = {} if measured is None else measured
    seconds, total, used = 0.0, sum(node.planned_steps for node in trainings), set()
    for node in trainings:
        setting = _setting(node)
        if setting in paces:
            used.add(setting)
            pace = median(paces[setting][-LATEST:])
        elif not measure:
            return Estimate(len(trainings), total, None, 0)
        else:
            if setting not in measured:
                measured[setting] = _measure_step(node.pretrained, node.training)
            pace = measured[setting] * (1.0 + _evaluations(node))
        seconds += node.planned_steps * pace
    return Estimate(len(trainings), total, seconds, sum(len(paces[setting][-LATEST:]) for setting in used))


def _setting(node: Any) -> Setting:
    raw, training = node.pretrained, node.training
    saving = training.accumulate, training.checkpointing
    return raw.task.name, raw.backbone, training.batch_size, training.precision, training.compile, *saving


def _evaluations(node: Any) -> float:
    """How much longer a step takes with the evaluations in the course of a training."""
    training, dev = node.training, len(load_task(node.task_spec).dev)
    rows: int = min(dev, training.dev_rows or dev)
    return EVALUATION * rows / float(training.batch_size * training.eval_every)


def _stored_paces(store: Store, wanted: set[Setting]) -> dict[Setting, list[float]]:
    """Seconds per step of the stored trainings on the current device, evaluations included, the latest last."""
    paces: dict[Setting, list[float]] = {}
    for entry in store.entries():
        try:
            record = read_json(store.path(entry.key) / "training.json")
            pace, device = record["step_seconds"], record["device"]
            setting = _setting(rebuild(store.manifest(entry.key)["expression"]))
        except (UserError, KeyError, TypeError, AttributeError):
            continue  # not a training, or from a version that did not record its pace
        if pace and setting in wanted and device == device_name():
            paces.setdefault(setting, []).append(pace)
    return paces


def _measure_step(raw: Pretrained, settings: TrainingSettings) -> float:
    """Seconds of a forward, backward and optimiser step of this backbone on this data, after a first one."""
    from srnet.training.parts import split_batch  # not at the top: they import torch
    from srnet.training.spans import inputs_for

    task = load_task(raw.task)
    base = load_backbone(raw.backbone, task.labels, raw.seed, raw.head)
    device = current_device()
    model = base.model.to(device)
    data = inputs_for(
        task.answer_kind, task.train.sample(settings.batch_size), base.tokenizer, base.max_length(settings.max_length)
    )
    batch = {name: value.to(device) for name, value in data.collate(range(min(len(data), settings.batch_size))).items()}
    parts = split_batch(batch, settings.accumulate)
    if settings.checkpointing and model.supports_gradient_checkpointing:
        model.train().gradient_checkpointing_enable(**CHECKPOINTS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)

    def step() -> None:
        for part in parts:
            inputs = {name: value for name, value in part.items() if name != "labels"}
            with computing_in(settings.precision):
                loss = task.answer_kind.losses(model(**inputs).logits, part["labels"]).mean()
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    step()
    synchronize()
    started = time.perf_counter()
    for _ in range(CALIBRATION_STEPS):
        step()
    synchronize()  # once: waiting after each step would measure the waiting too
    return (time.perf_counter() - started) / CALIBRATION_STEPS
