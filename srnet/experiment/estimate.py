"""The estimated time of a plan, from the speed of measured trainings."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from srnet.backbones import load_backbone
from srnet.errors import UserError
from srnet.experiment.nodes import Node, Pretrained, load_task
from srnet.experiment.rebuild import rebuild
from srnet.experiment.store import Store
from srnet.files import read_json
from srnet.lazy import torch
from srnet.training import TrainingSettings

CALIBRATION_STEPS = 4


@dataclass(frozen=True)
class Estimate:
    """`steps` and `seconds` of the trainings, without evaluations."""

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
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """Seconds of a duration such as 90s, 60m or 2h."""
    number, unit = text.strip()[:-1], text.strip()[-1:]
    if unit not in _UNITS or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", number) or not float(number):
        raise UserError(f"'{text[:80]}' is not a duration", "write 90s, 60m or 2h")
    return float(number) * _UNITS[unit]


def estimate(nodes: Sequence[Node], store: Store, *, measure: bool = True) -> Estimate:
    """From the pace of stored trainings; where there are none, from a few steps, unless `measure` is off."""
    trainings: list[Any] = [node for node in nodes if node.trains]
    paces = _stored_paces(store)
    measured: dict[tuple[str, int], float] = {}
    seconds, total, used = 0.0, sum(node.planned_steps for node in trainings), set()
    for node in trainings:
        setting = (node.pretrained.backbone, node.training.batch_size)
        if setting in paces:
            used.add(setting)
            pace = median(paces[setting])
        elif not measure:
            return Estimate(len(trainings), total, None, 0)
        else:
            pace = measured.setdefault(setting, 0.0) or measure_step(node.pretrained, node.training)
            measured[setting] = pace
        seconds += node.planned_steps * pace
    return Estimate(len(trainings), total, seconds, sum(len(paces[setting]) for setting in used))


def _stored_paces(store: Store) -> dict[tuple[str, int], list[float]]:
    """(backbone, batch size) -> seconds per step of every training in the store."""
    paces: dict[tuple[str, int], list[float]] = {}
    for entry in store.entries():
        try:
            pace = read_json(store.path(entry.key) / "training.json")["step_seconds"]
            node = rebuild(store.manifest(entry.key)["expression"])
            place = (node.pretrained.backbone, node.training.batch_size)
        except (UserError, KeyError, TypeError, AttributeError):
            continue  # not a training, or from a version that did not record it
        if pace:
            paces.setdefault(place, []).append(pace)
    return paces


def measure_step(raw: Pretrained, settings: TrainingSettings) -> float:
    """Seconds of a forward, backward and optimiser step of this backbone on this data."""
    from srnet.training.inputs import inputs_for  # not at the top: it imports torch

    task = load_task(raw.task)
    base = load_backbone(raw.backbone, task.labels, raw.seed, raw.head)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = base.model.to(device)
    data = inputs_for(task.answer_kind, task.train.sample(settings.batch_size), base, settings.max_length)
    batch = {name: value.to(device) for name, value in data.collate(range(min(len(data), settings.batch_size))).items()}
    labels = batch.pop("labels")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    times = []
    for _ in range(CALIBRATION_STEPS):
        started = time.perf_counter()
        task.answer_kind.losses(model(**batch).logits, labels).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return median(times[1:])
