"""What static model pruning costs: its layer, its evaluation, its memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrize import remove_parametrizations
from torch.profiler import ProfilerActivity, profile

from benchmarks.models import batch_of, bert, encoded
from benchmarks.timing import Ratio, compare
from srnet.masks.targets import LAYERS, Targets
from srnet.pruners.static import StaticLocal, StaticShared
from srnet.training.method import Method
from srnet.training.predict import predict

LAYER = Targets(exclude=())


def masked_linear() -> Iterator[Ratio]:
    """A step of a layer under SMP against a trainable `nn.Linear`: the penalty and the threshold's move included."""
    for outputs in (768, 3072):
        for tokens in (4096, 128):
            plain = nn.Linear(768, outputs)
            static = nn.Sequential(copy.deepcopy(plain))
            method = StaticLocal(sparsity=0.9, targets=LAYER).method(fine_tuned=False, eval_every=10**6)
            method.prepare(static, total_steps=100)
            inputs = torch.randn(tokens, 768, requires_grad=True)
            gradient = torch.randn(tokens, outputs)

            def clear(layer: nn.Module, x: torch.Tensor = inputs) -> None:
                layer.zero_grad(set_to_none=True)
                x.grad = None

            def theirs(p: nn.Module = plain, x: torch.Tensor = inputs, g: torch.Tensor = gradient) -> None:
                clear(p)
                p(x).backward(g)

            def layer(s: nn.Module = static, x: torch.Tensor = inputs, g: torch.Tensor = gradient) -> None:
                clear(s)
                s(x).backward(g)

            def step(
                s: nn.Module = static, m: Method = method, x: torch.Tensor = inputs, g: torch.Tensor = gradient
            ) -> None:
                clear(s)
                penalty = m.penalty(50)
                assert penalty is not None
                torch.autograd.backward([s(x), penalty], [g, torch.ones(())])
                m.after_step(50)

            rounds, repeat = (12, 2) if tokens == 4096 else (40, 20)
            target = "<= 1.10" if tokens == 4096 else "<= 1.6"
            place = f"768->{outputs}, {tokens} tokens"
            yield compare(f"SMP masked linear {place}", layer, theirs, target, rounds=rounds, repeat=repeat)
            name = f"SMP masked linear with penalty and threshold {place}"
            yield compare(name, step, theirs, target, rounds=rounds, repeat=repeat)


def evaluation() -> Iterator[Ratio]:
    """Evaluation of an SMP subnetwork against the plain model: as it is saved, and with its masks still attached."""
    plain, attached, saved = bert().eval(), bert(), bert()
    for model in (attached, saved):
        method = StaticShared(sparsity=0.9).method(fine_tuned=False, eval_every=100)
        method.prepare(model, total_steps=100)
        method.after_step(100)
    for layer in LAYERS.find(saved).values():
        remove_parametrizations(layer, "weight")
    data = encoded([28] * 512)  # as many rows as a checkpoint is judged on

    def theirs() -> None:
        predict(plain, data)

    for name, model in (
        ("evaluating an SMP subnetwork", saved),
        ("evaluating an SMP subnetwork, masks attached", attached),
    ):
        yield compare(name, lambda m=model: predict(m, data), theirs, "<= 1.02", rounds=12)  # type: ignore[misc]


def memory() -> Iterator[Ratio]:
    """Bytes for each weight that can be pruned, beyond the frozen model: the most that was allocated at once."""
    model = bert().train()
    batch, labels = batch_of(1, 4), torch.zeros(1, dtype=torch.long)
    method = StaticShared(sparsity=0.9).method(fine_tuned=False, eval_every=2)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        method.prepare(model, total_steps=100)
        scores = [parameter for name, parameter in model.named_parameters() if name.endswith(".scores")]
        optimizer = torch.optim.AdamW(scores, lr=1e-2, weight_decay=0.0)
        for step in range(1, 5):
            penalty = method.penalty(step)  # as the trainer does, before the forward pass
            loss = F.cross_entropy(model(**batch).logits, labels)
            (loss if penalty is None else loss + penalty).backward()
            optimizer.step()
            optimizer.zero_grad()
            method.after_step(step)
    used = _peak(recorded) / sum(parameter.numel() for parameter in scores)
    yield Ratio("SMP bytes for each prunable weight", used, used, used, 0.0, 0.0, "<= 20")


def _peak(recorded: Any) -> int:
    """Allocations and releases in the order in which they happened."""
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    return int(np.cumsum([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]).max())


CASES = (masked_linear, evaluation, memory)
