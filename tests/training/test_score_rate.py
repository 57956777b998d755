"""Scores may have a learning rate of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from driven import Interrupted, same
from methods import TRAINING

from srnet.training.method import Method, Snapshot
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import _SubnetworkTrainer, train

SETTINGS = TrainingSettings(learning_rate=1e-3, steps=10, eval_every=5, batch_size=8, score_rate=0.1)


class Rates:
    """What the optimiser does with whom, at every step of a run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.optimizer: Any = None
        self.seen: list[tuple[int, list[float]]] = []
        real = _SubnetworkTrainer.create_optimizer

        def create(trainer: _SubnetworkTrainer, model: Any = None) -> Any:
            self.optimizer = real(trainer, model)
            return self.optimizer

        monkeypatch.setattr(_SubnetworkTrainer, "create_optimizer", create)

    def watch(self, step: int, total: int, figures: dict[str, float]) -> None:
        self.seen.append((step, [group["lr"] for group in self.optimizer.param_groups if group["params"]]))

    def groups(self, model: torch.nn.Module) -> list[tuple[float, set[str]]]:
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        groups = [group for group in self.optimizer.param_groups if group["params"]]
        return [(group["initial_lr"], {names[id(p)] for p in group["params"]}) for group in groups]


def method_of(name: str) -> Method:
    return TRAINING[name].method(fine_tuned=False, eval_every=5) if name else Method()


@pytest.mark.parametrize("score_rate", [0.1, None])
@pytest.mark.parametrize("name", ["", "mask", "smp-s", "movement", "l0", "magnitude"])
def test_who_has_which_rate(
    name: str, score_rate: float | None, make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = Rates(monkeypatch)
    run = make_run(method_of(name), tmp_path, settings=replace(SETTINGS, steps=1, score_rate=score_rate))
    train(run)
    trained = {each for each, parameter in run.model.named_parameters() if parameter.requires_grad}
    scores = {each for each in trained if each.endswith(".scores")}
    assert bool(scores) is (name not in ("", "magnitude"))
    found = rates.groups(run.model)
    assert sorted(each for _, names in found for each in names) == sorted(trained), "each once"
    for rate, names in found:
        assert rate in (score_rate, 1e-3)
        assert score_rate is None or names <= (scores if rate == 0.1 else trained - scores)
    assert all(group["weight_decay"] == 0.0 for group in rates.optimizer.param_groups)


def test_the_first_step_is_as_long_as_its_rate(make_run: Any, tmp_path: Path) -> None:
    """Adam's first step is the rate in every coordinate that has a gradient; scores start at zero."""
    run = make_run(method_of("movement"), tmp_path, settings=replace(SETTINGS, steps=1, eval_every=1))
    before = {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}
    train(run)
    moved: dict[bool, list[float]] = {True: [], False: []}
    for name, parameter in run.model.named_parameters():
        start = before.get(name.replace(".parametrizations.weight.original", ".weight"), torch.tensor(0.0))
        moved[name.endswith(".scores")].append(float((parameter.detach() - start).abs().max()))
    assert max(moved[True]) == pytest.approx(0.1, rel=1e-2)
    assert max(moved[False]) == pytest.approx(1e-3, rel=1e-2)


def test_both_rates_fall_to_zero_and_a_resumed_run_goes_on_alike(
    make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(folder: Path, stop: int = 0) -> tuple[Rates, Snapshot]:
        rates = Rates(monkeypatch)

        def watch(step: int, total: int, figures: dict[str, float]) -> None:
            rates.watch(step, total, figures)
            if step == stop:
                raise Interrupted

        run = make_run(method_of("movement"), folder, settings=SETTINGS, watch=watch, score=lambda logits: 1.0)
        return rates, train(run).snapshot

    whole, expected = attempt(tmp_path / "whole")
    for step, rates in whole.seen:
        assert sorted(set(rates)) == pytest.approx(sorted({1e-3 * (1 - step / 10), 0.1 * (1 - step / 10)}))
    with pytest.raises(Interrupted):
        attempt(tmp_path / "broken", stop=7)
    resumed, snapshot = attempt(tmp_path / "broken")
    assert resumed.seen == whole.seen[5:]
    assert same(snapshot, expected)
