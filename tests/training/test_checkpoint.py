"""What is written comes back, in formats that execute nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from srnet.core.files import recover_folder
from srnet.masks.modules import FixedMask
from srnet.masks.parametrization import attach
from srnet.training.checkpoint import Checkpoint
from srnet.training.method import Method
from srnet.training.pruning import Pruning


def prepared(seed: int) -> tuple[Pruning, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model[1].requires_grad_(False)
    attach({"0": model[0]}, {"0.weight": FixedMask(torch.rand(4, 4) > 0.5)})
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=10)
    return Pruning(model, Method(), 10), optimizer, schedule


def step(pruning: Pruning, optimizer: torch.optim.Optimizer, scheduler: torch.optim.lr_scheduler.LRScheduler) -> None:
    loss = (pruning.model(torch.rand(3, 4)) ** 2).sum()
    loss.backward()
    optimizer.step()
    scheduler.step()
    pruning.step()
    optimizer.zero_grad()


def test_roundtrip_continues_bit_for_bit(tmp_path: Path) -> None:
    pruning, optimizer, scheduler = prepared(0)
    for _ in range(3):
        step(pruning, optimizer, scheduler)
    best = {"w": torch.rand(2, 2), "mask:w": torch.tensor([True, False])}
    notes = {"best_step": 2, "best_score": -float("inf"), "best": True}
    Checkpoint.write(tmp_path / "c", pruning, optimizer, scheduler, "{}", best, notes)
    step(pruning, optimizer, scheduler)

    other, other_optimizer, other_scheduler = prepared(1)
    model, copy = pruning.model, other.model
    copy[1].load_state_dict(model[1].state_dict())  # frozen tensors are not in a checkpoint: they never changed
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.restore_model(other)
    assert other.done == 3
    checkpoint.restore_optimizer(other_optimizer, other_scheduler)
    checkpoint.restore_rng()
    step(other, other_optimizer, other_scheduler)

    assert other.done == pruning.done == 4
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, copy.state_dict()[name]), name
    assert other_scheduler.get_last_lr() == scheduler.get_last_lr()
    assert checkpoint.notes == notes
    assert all(torch.equal(checkpoint.best[name], best[name]) for name in best)


def test_only_what_trains_is_kept() -> None:
    assert set(prepared(0)[0].state_dict()) == {
        "step",
        "identity",
        "0.bias",
        "0.parametrizations.weight.original",
        "0.parametrizations.weight.0.keep",
    }


def test_no_pickle(tmp_path: Path) -> None:
    Checkpoint.write(tmp_path / "c", *prepared(0), "{}", {}, {})
    assert {path.name for path in (tmp_path / "c").iterdir()} == {
        "tensors.safetensors",
        "state.json",
        "trainer_state.json",
    }
    assert Checkpoint.exists(tmp_path / "c")
    assert not Checkpoint.exists(tmp_path / "nowhere")


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Checkpoint.write(tmp_path / "c", *prepared(0), "{}", {}, {"which": "old"})

    def fail(*args: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr("srnet.training.checkpoint.write_json", fail)
    with pytest.raises(RuntimeError):
        Checkpoint.write(tmp_path / "c", *prepared(1), "{}", {}, {"which": "new"})
    assert Checkpoint(tmp_path / "c").notes == {"which": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_replacement_cut_in_two_is_undone(tmp_path: Path) -> None:
    # a kill between the two renames leaves the old folder aside and nothing in its place
    aside = tmp_path / ".old-checkpoint-xyz" / "checkpoint"
    aside.mkdir(parents=True)
    (aside / "state.json").write_text("{}")
    (tmp_path / ".new-checkpoint-abc").mkdir()
    (tmp_path / ".new-other-abc").mkdir()
    recover_folder(tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint" / "state.json").read_text() == "{}"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new-other-abc", "checkpoint"]
