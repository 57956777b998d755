"""Frozen weights in bf16: rounded once, half as large, and an ordinary float32 model in the end."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from looped import batch, logits, made, train_in_own_loop
from refusals import refused
from torch import nn

import srnet
from srnet.masks.frozen import round_frozen, widen_frozen
from srnet.masks.modules import ScoreMask
from srnet.masks.parametrization import attach, raw_weights
from srnet.pruners.base import Pruner

STEPS = 20
IN_BF16: dict[str, Pruner] = {
    "mask": srnet.MaskTraining(0.5, frozen="bf16", refresh_every=3),
    "smp-l": srnet.StaticLocal(0.5, frozen="bf16"),
    "smp-s": srnet.StaticShared(0.5, frozen="bf16"),
}


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.bfloat16().float()


def trained(method: str, name: str = "bert") -> tuple[Any, srnet.Pruning]:
    model = made(name)
    pruning = srnet.attach(model, IN_BF16[method], steps=STEPS)
    train_in_own_loop(model, pruning, name, range(STEPS))
    return model, pruning


def test_by_hand() -> None:
    """bf16 has 8 significant bits: 1 + 1/256, halfway, goes to the even 1; 3 + 1/64 is exact; 0.1 is 0.10009765625."""
    linear = nn.Linear(2, 2, bias=False)
    linear.weight.data = torch.tensor([[1.0 + 1 / 256, 0.1], [3.0 + 1 / 64, 4.0]])
    linear.weight.requires_grad = False
    mask = ScoreMask(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), 0.5)
    model = nn.ModuleDict({"l": linear})
    attach({"l": linear}, {"l.weight": mask})
    assert round_frozen(model, {"l": linear}) == {"l.weight"}
    assert raw_weights({"l": linear})["l.weight"].dtype == torch.bfloat16
    assert linear.weight.dtype == torch.float32
    assert linear.weight.tolist() == [[1.0, 0.0], [0.0, 4.0]]
    x = torch.tensor([[2.0, 10.0]], requires_grad=True)
    linear(x).backward(torch.tensor([[1.0, 3.0]]))
    # dL/dW' = outer((1, 3), (2, 10)) = [[2, 10], [6, 30]]; d score = W * dL/dW' with the rounded W; dx = (1, 3) W'
    assert mask.scores.grad is not None
    assert mask.scores.grad.tolist() == [[2.0, 1.0009765625], [18.09375, 120.0]]
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 12.0]]
    widen_frozen(model)
    assert raw_weights({"l": linear})["l.weight"].tolist() == [[1.0, 0.10009765625], [3.015625, 4.0]]


@pytest.mark.parametrize("compiling", [False, True])
def test_the_same_as_masks_on_rounded_weights(compiling: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    grads = []
    for own in (False, True):
        model = made("mlp")
        pruning = srnet.attach(model, srnet.MaskTraining(0.5, frozen="bf16" if own else "float32"), steps=STEPS)
        if not own:
            for weight in raw_weights(pruning.method.layers).values():
                weight.data = rounded(weight.data)
        batch("mlp", 0).loss(model).backward()
        grads.append([each.grad for each in pruning.scores()])
    assert all(torch.equal(one, other) for one, other in zip(*grads, strict=True))


@pytest.mark.parametrize("method", IN_BF16)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5"])
def test_the_result_is_an_ordinary_model_with_rounded_weights(name: str, method: str, tmp_path: Path) -> None:
    before = made(name).state_dict()
    model, pruning = trained(method, name)
    attached = logits(model, name)
    pruning.save(tmp_path / "mask")
    pruning.bake()
    assert {each.dtype for each in model.state_dict().values() if each.is_floating_point()} == {torch.float32}
    assert torch.equal(logits(model, name), attached)
    assert [each for each, _ in model.named_parameters()] == [each for each, _ in made(name).named_parameters()]
    assert all(each.requires_grad for each in model.parameters())
    for key, keep in pruning.mask.items():
        assert torch.equal(model.state_dict()[key], rounded(before[key]) * keep)
    other = made(name)
    srnet.load_mask(other, tmp_path / "mask")
    assert torch.equal(logits(other, name), attached), "the folder has the rounded weights"
    pruning.detach()
    assert all(torch.equal(model.state_dict()[key], rounded(before[key])) for key in pruning.mask)


def test_bytes_of_the_frozen_model() -> None:
    model = made("bert")
    whole = sum(each.nbytes for each in model.parameters())
    embeddings = model.bert.embeddings.word_embeddings.weight.numel()
    pruning = srnet.attach(model, IN_BF16["mask"], steps=STEPS)
    scores = sum(each.nbytes for each in pruning.scores())
    kept = [*model.parameters(), model.bert.embeddings.word_embeddings.weight]  # which is a buffer now
    assert sum(each.nbytes for each in kept) - scores == whole - scores // 2 - 2 * embeddings
    assert model.dtype == torch.float32, "by the first parameter, as transformers has it"


def test_tied_embeddings_stay() -> None:
    model = made("gpt2")
    srnet.attach(model, IN_BF16["mask"], steps=STEPS)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert model.lm_head.weight.dtype == torch.float32


def test_a_model_of_ones_own_without_embeddings_and_one_in_bf16() -> None:
    model, pruning = trained("mask", "mlp")
    pruning.bake()
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    half = made("mlp").bfloat16()
    srnet.attach(half, IN_BF16["mask"], steps=STEPS)
    assert half(torch.ones(2, 16, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_saved_with_masks_attached(tmp_path: Path) -> None:
    import transformers as hf

    model, _ = trained("mask")
    model.save_pretrained(tmp_path)
    plain, info = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert plain.dtype == torch.float32
    torch.testing.assert_close(logits(plain, "bert"), logits(model, "bert"), rtol=0, atol=1e-6)


def test_copied_and_resumed() -> None:
    model = made("bert")
    pruning = srnet.attach(model, IN_BF16["mask"], steps=STEPS)
    train_in_own_loop(model, pruning, "bert", range(5))
    again = made("bert")
    resumed = srnet.attach(again, IN_BF16["mask"], steps=STEPS)
    resumed.load_state_dict(pruning.state_dict())
    assert torch.equal(logits(again, "bert"), logits(model, "bert"))
    twin, other = copy.deepcopy((model, pruning))
    other.bake()
    assert {each.dtype for each in twin.state_dict().values() if each.is_floating_point()} == {torch.float32}
    assert raw_weights(pruning.method.layers)["bert.encoder.layer.0.output.dense.weight"].dtype == torch.bfloat16


def test_autocast() -> None:
    model = made("bert")
    pruning = srnet.attach(model, IN_BF16["smp-s"], steps=STEPS)
    with torch.autocast("cpu", torch.bfloat16):
        loss = batch("bert", 0).loss(model) + pruning.penalty()
    loss.backward()
    assert all(cast(torch.Tensor, each.grad).dtype == torch.float32 for each in pruning.scores())


def test_what_it_says_and_refuses() -> None:
    assert "weights in bf16" in IN_BF16["mask"].aim
    assert "bf16" not in srnet.MaskTraining(0.5).aim
    with refused("frozen", "granularity weight"):
        srnet.MaskTraining(0.5, frozen="bf16", granularity=("head",))
