"""Memory that training takes: `python -m benchmarks.memory [--batch 1 --length 4]`, also in benchmarks/memory.json.

The measure: bytes resident at the peak of training steps, minus those at the peak of the plain model's forward pass in
float32, divided by the number of weights that the pruners mask. What the masked weights themselves take is part of
the plain model. The model has BERT-base's sizes, or is a Llama as wide and deep, trained on text ("decoder"). Each case
has a process of its own; fine-tuning of all weights is one. Short batches by default: activations are the same for all,
and come on top. On a GPU it is what torch allocated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F

from benchmarks.models import batch_of, bert, llama
from srnet.core.device import current_device, on_cpu
from srnet.core.files import write_json
from srnet.masks.parametrization import raw_weights
from srnet.masks.targets import Targets
from srnet.pruners.base import PRUNERS, OverFrozen, get_pruner
from srnet.tasks.answers.text import IGNORED, TEXTS
from srnet.timing.measuring import _reset_peak, _status
from srnet.training.method import Method

FULL, BF16, DECODER = "fine-tuning", "bf16 weights", "decoder"
TARGETS = {"mask": 20.0, f"mask, {BF16}": 14.0, f"mask, {DECODER}": 20.0, "smp-l": 20.0, "smp-s": 20.0}
"""By case, for one batch in a step."""
SIZES = {"batch": 1, "length": 4, "layers": 12, "hidden": 768}
STEPS, EVAL_EVERY = 2, 1
"""The second step has the state of the optimiser. Thresholds are set exactly before an evaluation: part of the peak."""
PARTS = (1, 2)
"""Batches in a step: with several, gradients are there when the next batch comes."""


def cases() -> list[str]:
    trained = sorted(name for name, pruner in PRUNERS.items() if pruner.trains)
    frozen = [f"{name}, {BF16}" for name in trained if issubclass(get_pruner(name), OverFrozen)]
    return [FULL, *trained, *frozen, f"{FULL}, {DECODER}", f"mask, {DECODER}"]


def model_of(case: str) -> Callable[..., nn.Module]:
    return llama if case.endswith(DECODER) else bert


def loss_of(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Of classes, or of the next tokens of a text."""
    if logits.dim() == 2:
        return F.cross_entropy(logits, torch.zeros(len(ids), dtype=torch.long, device=ids.device))
    return TEXTS.losses(logits, F.pad(ids[:, 1:], (0, 1), value=IGNORED)).mean()


def method_of(case: str) -> Method:
    name, _, option = case.partition(", ")
    if name == FULL:
        return Method()
    options: dict[str, Any] = {"frozen": "bf16"} if option == BF16 else {}
    return get_pruner(name)(**options).method(fine_tuned=True, eval_every=EVAL_EVERY)


def train(model: nn.Module, method: Method, batch: dict[str, torch.Tensor], parts: int) -> None:
    """A few steps, as the trainer takes them: fused AdamW, clipping, the penalty before the forward pass."""
    method.prepare(model, total_steps=10 * STEPS)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, weight_decay=0.0, fused=True)
    for step in range(1, STEPS + 1):
        for _ in range(parts):
            penalty = method.penalty(step - 1)
            loss = loss_of(model(**batch).logits, batch["input_ids"])
            (loss if penalty is None else loss + penalty).backward()
            del loss, penalty
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        method.after_step(step)


def peak_of(act: Callable[[], object]) -> int:
    """Bytes resident at the peak while `act` runs."""
    if on_cpu():
        if _reset_peak() is None:
            raise SystemExit("this system does not report the peak of a process")
        act()
        return _status("VmHWM")
    torch.cuda.reset_peak_memory_stats()
    act()
    return int(torch.cuda.max_memory_allocated())


def measure(case: str, parts: int, rows: int, length: int, layers: int, hidden: int) -> dict[str, int]:
    device = current_device()
    batch = {name: each.to(device) for name, each in batch_of(rows, length).items()}
    small, make = method_of(case), model_of(case)
    train(make(2, 64).to(device).train(), small, batch, parts)  # torch loads much at its first use
    del small
    model = make(layers, hidden).to(device).train()

    @torch.no_grad()
    def plain() -> None:
        model(**batch)

    masked = sum(weight.numel() for weight in raw_weights(Targets().find(model)).values())
    return {
        "masked": masked,
        "plain": peak_of(plain),
        "training": peak_of(lambda: train(model, method_of(case), batch, parts)),
    }


def in_own_process(case: str, parts: int, options: argparse.Namespace) -> float:
    sizes = [f"--{name}={getattr(options, name)}" for name in SIZES]
    command = [sys.executable, "-m", "benchmarks.memory", f"--case={case}", f"--parts={parts}", *sizes]
    # a large tensor then has pages of its own, which the system takes back when it is freed
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)
    return float(found["training"] - found["plain"]) / float(found["masked"])


def measured(case: str, options: argparse.Namespace) -> dict[str, Any]:
    found = {str(parts): round(in_own_process(case, parts, options), 2) for parts in PARTS}
    target = TARGETS.get(case)
    return {"bytes": found, "target": target, "met": None if target is None else found["1"] <= target}


def show(results: dict[str, dict[str, Any]]) -> Table:
    table = Table(title="bytes per masked weight beyond the plain model")
    columns = [f"{parts} batch{'es' if parts > 1 else ''} in a step" for parts in PARTS]
    for column in ("training", *columns, "target", "met"):
        table.add_column(column, justify="left" if column == "training" else "right")
    for case, each in results.items():
        target = "" if each["target"] is None else f"<= {each['target']:g}"
        figures = (f"{value:.2f}" for value in each["bytes"].values())
        table.add_row(case, *figures, target, {None: "", True: "yes", False: "NO"}[each["met"]])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="*", choices=cases(), help="these alone, without memory.json")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--parts", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.parts, *(getattr(options, name) for name in SIZES))))
        return
    console, results = Console(), {}
    for case in options.only or cases():
        results[case] = measured(case, options)
        console.log(case, results[case])
    console.print(show(results))
    if not options.only:
        sizes = {name: getattr(options, name) for name in SIZES}
        facts = {"device": current_device().type, "torch": torch.__version__, "sizes": sizes, "trainings": results}
        write_json(Path(__file__).parent / "memory.json", facts)


if __name__ == "__main__":
    main()
