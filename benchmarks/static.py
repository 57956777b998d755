"""What static model pruning costs: its layer and its evaluation."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.utils.parametrize import remove_parametrizations

from benchmarks.models import bert, encoded
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


CASES = (masked_linear, evaluation)
