"""Every method, objective and export where the model is on another device than the CPU, without such a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
import torch
import transformers as hf

from srnet.core.errors import UserError
from srnet.masks.granularity import WEIGHT, Granularity
from srnet.masks.mask import Mask
from srnet.masks.shrink import shrink
from srnet.masks.timed import Latency
from srnet.objectives.base import OBJECTIVES
from srnet.pruners.base import Pruner
from srnet.pruners.imp import IMP
from srnet.training.method import split_snapshot
from tests.devices import SecondDevice, counted_device, second_device
from tests.methods import METHODS, OF_CLASSES, TRAINING
from tests.small_models import batch, random_units, tiny, unit_mask

BOTH: Granularity = ("head", "neuron")
STEPS, TAKEN = 20, 20
"""Steps of a training, and how many of them are taken."""
TABLE = Latency(head=1.0, neuron=0.1, attention=4.0, feed_forward=3.2, rest=1.0)


def small() -> Any:
    config = hf.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=4, intermediate_size=32,
        max_position_embeddings=24, num_labels=3,
    )  # fmt: skip
    return hf.BertForSequenceClassification(config)


def variants() -> Iterator[Any]:
    """Every method with every granularity that it supports, and with a budget in time; the objectives in turns."""
    objectives = cycle(OF_CLASSES)
    for name, pruner in METHODS.items():
        options: list[dict[str, Any]] = [{}]
        if hasattr(pruner, "granularity"):
            options += [{"granularity": BOTH}, {"granularity": ("layer",)}]
            options += [{"granularity": BOTH, "scope": "global"}] if hasattr(pruner, "scope") else []
            options += [{"scope": "global", "cut": "kth", "init": "soft"}] if hasattr(pruner, "cut") else []
            options += [{"granularity": BOTH, "speedup": 1.5, "latency": TABLE, "sparsity": type(pruner).sparsity}]
        for each in options:
            objective = next(objectives)
            label = f"{name} {' '.join(each)} {each.get('granularity', '')} {objective}"
            try:
                yield pytest.param(replace(pruner, **each), objective, id=label)
            except UserError:
                assert each == {"granularity": ("layer",)}, "the only one that some methods refuse"


def total(pruner: Pruner, counts: SecondDevice) -> int:
    """Waits and copies to the device, but for the copies that IMP makes of each level, which go to the disk."""
    copies = ("srnet/training/method.py", "srnet/masks/mask.py") if isinstance(pruner, IMP) else ()
    sources = counts.waits + counts.uploads
    return sum(count for source, count in sources.items() if not source.startswith(copies or ("-",)))


def train(
    pruner: Pruner, model: Any, device: torch.device, counts: SecondDevice, steps: int = TAKEN, objective: str = "ce"
) -> tuple[Mask, list[int]]:
    """The mask, and how often the CPU waited after each step. As in a training, masks are attached, then moved."""
    method = pruner.method(fine_tuned=True, eval_every=2)
    method.prepare(model, STEPS)
    model.to(device)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    inputs = {name: each.to(device) for name, each in batch().items()}
    loss_of, waited = objective_on(device, objective), list[int]()
    for step in range(1, steps + 1):
        penalty = method.penalty(step - 1)
        loss = loss_of(model(**inputs).logits)
        (loss if penalty is None else loss + penalty).backward()
        optimizer.step()
        optimizer.zero_grad()
        before = total(pruner, counts)
        method.after_step(step)
        waited.append(total(pruner, counts) - before)
    snapshot = method.snapshot()
    assert {each.device.type for each in snapshot.values()} == {"cpu"}
    mask = split_snapshot(snapshot)[1]
    assert mask is not None
    return mask, waited


def objective_on(device: torch.device, name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """An objective of logits of the batch, with what it needs."""
    registered, labels = OBJECTIVES[name], torch.tensor([0, 1, 2])
    shares = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    needs = {need: labels if need == "group" else shares for need in registered.needs}
    loss: Any = registered.make({})
    if hasattr(loss, "prepare"):
        loss.prepare(labels, **needs)
    there = {need: each.to(device) for need, each in needs.items()}
    return lambda logits: loss(logits, labels.to(device), **there)


@pytest.mark.parametrize(("pruner", "objective"), variants())
def test_every_method_finds_its_mask_on_another_device(pruner: Pruner, objective: str) -> None:
    model = small()
    with counted_device() as (device, counts):
        if pruner.trains:
            mask, waited = train(pruner, model, device, counts, objective=objective)
            assert max(waited) <= 10, waited
        model.to(device)
        pruner.check_model(model)
        if not pruner.trains:
            mask = pruner.mask(model, [{**batch(), "labels": torch.tensor([0, 1, 2])}])
    assert 0 < mask.kept <= mask.total


def test_a_model_that_is_already_there_can_be_masked() -> None:
    with second_device() as device:
        for name, pruner in TRAINING.items():
            some = replace(pruner, granularity=BOTH) if hasattr(pruner, "granularity") else pruner
            model = small().to(device)
            method = some.method(fine_tuned=True, eval_every=5)
            method.prepare(model, STEPS)
            inputs = {key: each.to(device) for key, each in batch().items()}
            assert model(**inputs).logits.device == device, name
            places = {key: buffer.device for key, buffer in model.named_buffers() if key.endswith(("unit_of", "phi"))}
            assert set(places.values()) <= {device}, name


@pytest.mark.parametrize("name", ["movement", "smp-l", "mask", "magnitude"])
@pytest.mark.parametrize("granularity", [WEIGHT, BOTH])
def test_between_refreshes_no_step_waits_for_the_device(name: str, granularity: Granularity) -> None:
    """Neither a threshold nor a budget is read: the CPU would wait for all that it has sent before."""
    pruner = replace(METHODS[name], granularity=granularity)  # type: ignore[call-arg]
    with counted_device() as (device, counts):
        model = small().requires_grad_(True)
        assert train(pruner, model, device, counts, steps=1)[1] == [0]
        before = counts.waits.total()
        assert model.bert.encoder.layer[0].output.dense.weight.device == device
        assert counts.waits.total() == before, "a masked weight"


@pytest.mark.parametrize("name", OF_CLASSES)
def test_every_objective_keeps_its_state_on_the_logits_device(name: str) -> None:
    registered, labels = OBJECTIVES[name], torch.tensor([0, 2, 1, 0])
    probabilities = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    needs = {need: labels if need == "group" else probabilities for need in registered.needs}
    loss: Any = registered.make({})
    if hasattr(loss, "prepare"):
        loss.prepare(labels, **needs)
    expected = [float(loss(probabilities, labels, **needs)) for _ in range(2)]
    loss = registered.make({})
    if hasattr(loss, "prepare"):
        loss.prepare(labels, **needs)
    with second_device() as device:
        there = {need: each.to(device) for need, each in needs.items()}
        found = [loss(probabilities.to(device), labels.to(device), **there) for _ in range(2)]
        assert [float(each) for each in found] == pytest.approx(expected)


@pytest.mark.parametrize("variant", ["bert", "llama", "mpnet"])
def test_units_are_removed_on_another_device(variant: str) -> None:
    here, there = tiny(variant), tiny(variant)
    keep = random_units(here, 0.5, seed=1)
    for model in (here, there):
        model.load_state_dict(unit_mask(model, keep).apply(model.state_dict()))
    with second_device() as device:
        there.to(device)
        kept_there = {name: each.to(device) for name, each in keep.items()}
        assert unit_mask(there, kept_there) == unit_mask(here, keep)
        assert shrink(there) == shrink(here)
        assert {each.device for each in (*there.parameters(), *there.buffers())} == {device}


def test_tensors_of_two_devices_do_not_mix() -> None:
    """As on a GPU: numbers and indices of the CPU may take part."""
    with second_device() as device:
        there = torch.arange(3.0, device=device)
        assert (there * torch.tensor(2.0))[torch.tensor([2, 0])].tolist() == [4.0, 0.0]
        assert (there + 1.0).cpu().sum() == 6.0
        for other in (torch.ones(3), torch.ones(1)):
            with pytest.raises(RuntimeError, match="same device"):
                there + other
        with pytest.raises(RuntimeError, match="same device"):
            torch.ones(3)[torch.tensor([1], device=device)]
        with pytest.raises(RuntimeError, match="same device"):
            there.index_select(0, torch.tensor([1]))
