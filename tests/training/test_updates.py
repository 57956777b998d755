"""Fine-tuning of the head alone and with LoRA: what trains, and what the result is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from driven import trainable
from refusals import refused
from small_models import tiny

from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.training import FineTune, Prune, Trajectory
from srnet.masks.mask import Mask
from srnet.masks.targets import Targets
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.method import split_snapshot
from srnet.training.settings import TrainingSettings, Update
from srnet.training.trainer import train
from srnet.training.updates import RANK, update_method

State = dict[str, torch.Tensor]
FAST = TrainingSettings(learning_rate=1e-2, steps=4, eval_every=2, batch_size=8)


def trained(update: Update, make_run: Any, folder: Path) -> tuple[State, State, Any]:
    """The state before and after a training, and the model that was trained."""
    method = update_method(update, None)
    run = make_run(method, folder, settings=FAST)
    before = {name: each.clone() for name, each in run.model.state_dict().items()}
    after, mask = split_snapshot(train(run).snapshot)
    assert mask is None
    assert after.keys() == before.keys(), "ordinary names"
    return before, after, method.model


def changed(before: State, after: State) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def head_of(model: Any) -> set[str]:
    return {name for name, _ in model.named_parameters() if not name.startswith(f"{model.base_model_prefix}.")}


# --- the head alone ------------------------------------------------------------------------------------------------


def test_the_encoder_stays_as_it_is_to_the_bit(make_run: Any, tmp_path: Path) -> None:
    before, after, model = trained("head", make_run, tmp_path)
    assert changed(before, after) == head_of(model) | set(model.newly_initialised)


def test_a_randomly_initialised_pooler_trains_as_well() -> None:
    model = tiny("bert")
    model.newly_initialised = frozenset({"bert.pooler.dense.weight", "bert.pooler.dense.bias"})
    update_method("head", None).prepare(model, 10)
    assert trainable(model) == {"classifier.weight", "classifier.bias", *model.newly_initialised}


# --- LoRA ----------------------------------------------------------------------------------------------------------

ARCHITECTURES = ("bert", "distilbert", "gpt2", "llama", "modernbert", "deberta-v2")
"""The layers of GPT-2 keep their weights transposed."""


def adapted(variant: str) -> tuple[Any, Any]:
    """A model with adapters that are not zero, and the method."""
    model, method = tiny(variant), update_method("lora", None)
    method.prepare(model, 10)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, each in model.named_parameters():
            if ".lora_" in name:
                each.copy_(0.1 * torch.randn(each.shape, generator=generator))
    return model.eval(), method


@pytest.mark.parametrize("variant", ARCHITECTURES)
def test_the_merged_model_is_the_one_with_adapters(variant: str) -> None:
    batch = {"input_ids": torch.randint(2, 40, (3, 7)), "attention_mask": torch.ones(3, 7, dtype=torch.long)}
    model, method = adapted(variant)
    merged = tiny(variant, seed=1)
    merged.load_state_dict(method.state())
    with torch.no_grad():
        own, other = model(**batch).logits, merged(**batch).logits
        assert not torch.allclose(tiny(variant)(**batch).logits, own, atol=1e-3), "the adapters count"
    torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6 * float(own.abs().max().clamp_min(1)))


@pytest.mark.parametrize("variant", ARCHITECTURES)
def test_the_head_and_low_rank_matrices_train(variant: str) -> None:
    model, _ = adapted(variant)
    layers = {name for name in Targets().find(tiny(variant)) if name.startswith(f"{model.base_model_prefix}.")}
    matrices = {name for name in trainable(model) if ".lora_" in name}
    assert trainable(model) - matrices == head_of(model)
    assert matrices == {f"{name}.lora_{each}.default.weight" for name in layers for each in "AB"}
    assert {min(each.shape) for name, each in model.named_parameters() if name in matrices} == {RANK}


def test_only_masked_layers_and_the_head_change(make_run: Any, tmp_path: Path) -> None:
    before, after, model = trained("lora", make_run, tmp_path)
    layers = {f"{name}.weight" for name in Targets().find(tiny_like(model))}
    assert changed(before, after) == layers | head_of(model) | set(model.newly_initialised)


def tiny_like(model: Any) -> Any:
    """The architecture without adapters."""
    return type(model)(model.config)


def test_without_peft_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with refused("peft", "pip install peft"):
        update_method("lora", None).prepare(tiny("bert"), 10)


def test_the_seed_of_the_training_is_that_of_the_matrices(tiny_backbone: str, tiny_task: SyntheticTask) -> None:
    """Whatever random numbers were drawn before: a run that starts again is the same run."""

    def matrices(seed: int) -> dict[str, torch.Tensor]:
        node = FineTune(Pretrained(tiny_backbone, tiny_task), training=TrainingSettings(update="lora", seed=seed))
        model, method = tiny("bert"), node.method(None)
        state = torch.random.get_rng_state()
        method.prepare(model, 10)
        assert torch.equal(torch.random.get_rng_state(), state)
        return {name: each.clone() for name, each in model.named_parameters() if ".lora_A" in name}

    first, (again, other) = matrices(3), (matrices(3), matrices(4))
    assert all(torch.equal(each, again[name]) for name, each in first.items())
    assert not any(torch.equal(each, other[name]) for name, each in first.items())


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("update", ["head", "lora"])
def test_a_subnetwork_trains_all_its_weights(update: Update) -> None:
    with refused("subnetwork", f"'{update}'", "leave update out"):
        update_method(update, Mask({"layer.weight": torch.tensor([True, False])}))


@pytest.mark.parametrize("update", ["head", "lora"])
def test_it_is_for_fine_tuning(update: Update, tiny_backbone: str, tiny_task: SyntheticTask) -> None:
    raw, settings = Pretrained(tiny_backbone, tiny_task), TrainingSettings(steps=10, update=update)
    for make in (
        lambda: Prune(raw, training=settings),
        lambda: Trajectory(raw, FineTune(raw).objective, settings, (5,)),
    ):
        with refused(f"'{update}'", "leave update out"):
            make()
    assert FineTune(raw, training=settings).key != FineTune(raw, training=TrainingSettings(steps=10)).key
