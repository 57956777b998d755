"""A batch in parts and checkpointed layers: the result of the whole batch, in less memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from driven import Attempts, Interrupted, masks, same, scatter
from methods import OF_CLASSES, TRAINING
from refusals import refused
from small_models import tiny
from torch import nn

from srnet.models.backbones import load_backbone
from srnet.objectives.base import StatefulLoss, parse_objective
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import hardware, trainer
from srnet.training.data import encode, training_order
from srnet.training.hardware import Ranks
from srnet.training.method import Method, split_snapshot
from srnet.training.parts import split_batch
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result, Run, train
from srnet.training.updates import update_method

SETTINGS = TrainingSettings(learning_rate=0.1, steps=10, eval_every=5, batch_size=8)
Make = Callable[..., Result]
IN_PARTS = [{"accumulate": 4}, {"accumulate": 2, "checkpointing": True}]
OPTIONS = {"group-dro": "group-dro:eta=1", "jtt": "jtt:upweight=3"}
NEEDS = ("bias", "permuted_bias", "teacher", "early", "group")


@pytest.fixture
def plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradient descent. AdamW would divide a gradient that is all rounding error by its own size."""
    real = trainer.hardware_arguments
    monkeypatch.setattr(trainer, "hardware_arguments", lambda *given: real(*given) | {"optim": "sgd"})


@pytest.fixture
def make(make_run: Any, tiny_backbone: str, tiny_task: SyntheticTask, tmp_path: Path) -> Make:
    """The result of a training with an objective, in a folder of its own."""
    task = tiny_task.load()
    rng = np.random.default_rng(0)
    extras = {name: np.log(rng.dirichlet([1.0, 1.0], len(task.train))) for name in NEEDS}
    extras |= {"group": rng.integers(0, 3, len(task.train)), "row": np.arange(len(task.train))}
    tokenizer = load_backbone(tiny_backbone, task.labels, seed=0).tokenizer
    number = iter(range(100))

    def run(objective: str = "ce", method: Method | None = None, dropout: float = 0.0, **changes: Any) -> Result:
        registered, options = parse_objective(OPTIONS.get(objective, objective))
        loss, needs = registered.make(options), changes.get("needs", registered.needs)
        defaults: dict[str, Any] = {
            "loss": loss,
            "needs": needs,
            "by_rows": registered.by_rows,
            "loss_state": loss if isinstance(loss, StatefulLoss) else None,
            "train": encode(task.train, tokenizer, 64, {need: extras[need] for need in needs}),
        }
        settings = replace(SETTINGS, **{k: v for k, v in changes.items() if hasattr(SETTINGS, k)})
        others = {k: v for k, v in changes.items() if not hasattr(SETTINGS, k)}
        made: Run = make_run(
            method or Method(), tmp_path / str(next(number)), **{**defaults, **others, "settings": settings}
        )
        for module in made.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        return train(made)

    return run


def assert_close(one: Result, other: Result, atol: float = 1e-6) -> None:
    """Equal masks, weights, scores on dev and logs."""
    weights, expected = split_snapshot(one.snapshot)[0], split_snapshot(other.snapshot)[0]
    assert weights.keys() == expected.keys()
    for name, each in weights.items():
        torch.testing.assert_close(each, expected[name], rtol=0.0, atol=atol, msg=name)
    kept = [{name: keep for name, keep in each.snapshot.items() if name.startswith("mask:")} for each in (one, other)]
    assert same(*kept)
    for entry, wanted in zip(one.log, other.log, strict=True):
        for name in ("loss", "grad_norm", "eval_score", "mask/sparsity", "mask/penalty"):
            assert entry.get(name, 0.0) == pytest.approx(wanted.get(name, 0.0), rel=1e-4, abs=1e-5), name


@pytest.mark.usefixtures("plain_steps")
@pytest.mark.parametrize("parts", IN_PARTS, ids=str)
@pytest.mark.parametrize("objective", OF_CLASSES)
def test_every_objective_learns_what_the_whole_batch_teaches(objective: str, parts: dict[str, Any], make: Make) -> None:
    start = make(objective, steps=1, learning_rate=1e-12)
    whole = make(objective)
    moved = max(float((whole.snapshot[n] - start.snapshot[n]).abs().max()) for n in whole.snapshot)
    assert moved > 1e-3, "far more than what is tolerated"
    assert_close(make(objective, **parts), whole)


@pytest.mark.usefixtures("plain_steps")
@pytest.mark.parametrize("parts", IN_PARTS, ids=str)
@pytest.mark.parametrize("name", TRAINING)
def test_every_pruner_finds_what_it_finds_in_the_whole_batch(name: str, parts: dict[str, Any], make: Make) -> None:
    """Penalties count once a step, and the noise of random masks is that of the whole batch."""

    def run(**changes: Any) -> Result:
        pruner = TRAINING[name].shared_run() if name.startswith("imp") else TRAINING[name]
        return make("ce", apart(pruner.method(fine_tuned=True, eval_every=5)), **changes)

    assert_close(run(**parts), run())


def apart(method: Method) -> Method:
    """Scores that begin as equals, as those of SMP do, would be ranked by rounding errors of the first gradients."""
    prepare = method.prepare

    def prepared(model: nn.Module, total_steps: int) -> None:
        prepare(model, total_steps)
        if any(not each.any() for each in scores_of(method)):
            scatter(method, scale=0.1)

    method.prepare = prepared  # type: ignore[method-assign]
    return method


def scores_of(method: Method) -> list[torch.Tensor]:
    return [mask.scores for mask in masks(method).values() if hasattr(mask, "scores")]


# --- what parts share, and what they do not ------------------------------------------------------------------------


def test_parts_are_the_rows_of_the_batch_in_order() -> None:
    batch = {"ids": torch.arange(24).reshape(6, 4), "attention_mask": torch.ones(6, 4), "labels": torch.arange(6)}
    for count in (1, 2, 3, 6):
        parts = split_batch(batch, count)
        assert [len(part["labels"]) for part in parts] == [6 // count] * count
        for name, each in batch.items():
            assert torch.equal(torch.cat([part[name] for part in parts]), each)


def test_a_step_reads_the_same_rows_in_as_many_parts_as_requested(make: Make, tiny_task: SyntheticTask) -> None:
    """Batches of similar length stay as they are: parts are of a batch, not smaller batches of their own."""
    calls: dict[int, list[list[int]]] = {1: [], 4: []}
    for parts, seen in calls.items():

        def loss(logits: torch.Tensor, labels: torch.Tensor, row: torch.Tensor, seen: Any = seen) -> torch.Tensor:
            seen.append(row.tolist())
            return nn.functional.cross_entropy(logits, labels)

        make(loss=loss, needs=("row",), by_rows=True, accumulate=parts)
    assert {len(each) for each in calls[4]} == {2}
    assert [list(chain(*calls[4][n : n + 4])) for n in range(0, len(calls[4]), 4)] == calls[1]


@pytest.mark.usefixtures("plain_steps")
def test_a_loss_that_does_not_say_that_it_is_a_mean_over_rows_is_computed_on_the_whole_batch(make: Make) -> None:
    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        sizes.append(len(labels))
        weights = logits.softmax(1)[:, 0]  # normalised over the batch
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
        return (weights * losses).sum() / weights.sum()

    sizes: list[int] = []
    whole = make(loss=loss, by_rows=False)
    assert_close(make(loss=loss, accumulate=4, by_rows=False), whole)
    assert set(sizes) == {8}
    wrong = make(loss=loss, accumulate=4, by_rows=True)
    assert not same(wrong.snapshot, whole.snapshot)


@pytest.mark.parametrize("objective", ["ce", "group-dro"])
def test_dropout_differs_from_part_to_part_and_the_whole_loss_sees_what_its_gradient_is_of(
    objective: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`group-dro` computes each part twice: both times with the same dropout."""
    found: list[torch.Tensor] = []
    real = trainer._SubnetworkTrainer._forward

    def forward(self: Any, *given: Any) -> Any:
        result = real(self, *given)
        found.append(result[1].detach().clone())
        return result

    monkeypatch.setattr(trainer._SubnetworkTrainer, "_forward", forward)
    # the batch is one row, repeated
    monkeypatch.setattr(trainer, "training_order", lambda *given: np.zeros_like(training_order(*given)))
    make(objective, dropout=0.5, accumulate=4, steps=1, eval_every=1)
    first, *others = found[:4]
    assert not any(torch.equal(first, each) for each in others)
    assert len(found) == (4 if objective == "ce" else 8)
    if objective == "group-dro":
        assert all(map(torch.equal, found[:4], found[4:]))


@pytest.mark.usefixtures("plain_steps")
def test_checkpointing_repeats_dropout_and_the_noise_of_gates(make: Make) -> None:
    def run(**changes: Any) -> Result:
        return make(method=TRAINING["l0"].method(fine_tuned=True, eval_every=5), dropout=0.3, **changes)

    whole = run()
    assert_close(run(checkpointing=True), whole)
    assert not same(run(seed=1, checkpointing=True).snapshot, whole.snapshot)
    for objective in ("ce", "group-dro"):
        method = {"dropout": 0.3, "accumulate": 2}
        assert_close(make(objective, checkpointing=True, **method), make(objective, **method))


def test_checkpointing_keeps_fewer_activations(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: what autograd keeps between the forward and the backward pass."""
    kept: dict[bool, int] = {}
    for checkpointing in (False, True):
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda each, s=sizes: s.append(each.numel()) or each, lambda x: x
        ):
            make(checkpointing=checkpointing, steps=1, eval_every=1)
        kept[checkpointing] = sum(sizes)
    assert kept[True] < kept[False] / 2


@pytest.mark.parametrize("name", ["mask", "smp-s", "l0"])
def test_an_interrupted_run_in_parts_resumes(name: str, make_run: Any, tmp_path: Path) -> None:
    settings = replace(SETTINGS, learning_rate=1e-2, accumulate=2, checkpointing=True, weight_decay=0.1)

    def attempts(folder: str) -> Attempts:
        method = partial(TRAINING[name].method, fine_tuned=True, eval_every=5)
        return Attempts(make_run, tmp_path / folder, method, settings=settings)

    whole, broken = attempts("whole")(), attempts("broken")
    with pytest.raises(Interrupted):
        broken(7)
    assert same(broken().snapshot, whole.snapshot)


# --- what does not fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"accumulate": 16}, ("accumulate 16", "8 rows", "at most 8")),
        ({"accumulate": 6}, ("accumulate 6", "does not divide", "8 rows", "give 4")),
        ({"accumulate": 0}, ("accumulate", "at least 1")),
        ({"weight_decay": -0.1}, ("weight_decay", "at least 0")),
        ({"weight_decay": float("nan")}, ("weight_decay",)),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], words: tuple[str, ...]) -> None:
    with refused(*words):
        replace(SETTINGS, **given)


def test_a_share_that_cannot_be_divided_is_refused_before_the_training(make_run: Any, tmp_path: Path) -> None:
    run = make_run(Method(), tmp_path, settings=replace(SETTINGS, accumulate=8))
    with refused("accumulate 8", "4 rows of a process"):
        trainer._arguments(run, 10, Ranks(0, 2))


def test_a_model_without_checkpoints_is_refused_before_the_training(make_run: Any, tmp_path: Path) -> None:
    run = replace(make_run(Method(), tmp_path, settings=replace(SETTINGS, checkpointing=True)), model=tiny("mpnet"))
    with refused("MPNetForSequenceClassification", "checkpointing"):
        train(run)


def test_a_step_that_does_not_fit_is_one_line_with_what_needs_less(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(trainer._SubnetworkTrainer, "_forward", full)
    with refused("8 rows at a time", "accumulate 2", "checkpointing", "precision bf16"):
        make()
    with refused("1 rows at a time", "smaller backbone"):
        make(accumulate=8, checkpointing=True, precision="bf16")


def test_a_model_that_does_not_fit_is_refused_before_the_training(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "free_memory", lambda: 2**18)
    with refused("a training needs at least", "MiB", "the GPU has 0 MiB free", "smaller backbone", "update head"):
        make()
    bytes_of_model: list[int] = []
    real = hardware.check_memory

    def check(model: nn.Module) -> None:
        bytes_of_model.append(sum(each.nbytes for each in (*model.parameters(), *model.buffers())))
        real(model)

    monkeypatch.setattr(trainer, "check_memory", check)
    # weights, gradients and two moments; the head alone has hardly any of the latter
    monkeypatch.setattr(hardware, "free_memory", lambda: 2 * bytes_of_model[-1])
    with refused("a training needs at least"):
        make()
    make(method=update_method("head", None))


# --- weight decay --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAINING)
def test_weight_decay_is_for_weights_alone(name: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, float] = {}
    real = trainer._SubnetworkTrainer.create_optimizer

    def create(self: Any, model: Any = None) -> Any:
        optimizer = real(self, model)
        decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
        found.update({n: decay[id(p)] for n, p in self.model.named_parameters() if p.requires_grad})
        return optimizer

    monkeypatch.setattr(trainer._SubnetworkTrainer, "create_optimizer", create)
    pruner = TRAINING[name].shared_run() if name.startswith("imp") else TRAINING[name]
    changes = {"score_rate": 0.3} if pruner.has_scores else {}
    make(method=pruner.method(fine_tuned=False, eval_every=5), weight_decay=0.25, **changes)
    plain = {"bias", "LayerNorm", ".scores"}
    assert {n for n, decay in found.items() if decay == 0.0} == {n for n in found if any(each in n for each in plain)}
    assert set(found.values()) <= {0.0, 0.25}


def test_weight_decay_by_hand(make: Make) -> None:
    """AdamW: w <- w - lr * decay * w, besides the step that the gradient gives; here there is no gradient."""

    def nothing(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return 0.0 * logits.sum()

    one = {"steps": 1, "eval_every": 1, "learning_rate": 0.1, "loss": nothing}
    start, end = (make(weight_decay=decay, **one).snapshot for decay in (0.0, 0.5))
    for name, each in start.items():
        decays = each.ndim > 1
        torch.testing.assert_close(end[name], each * (1 - 0.1 * 0.5) if decays else each)
