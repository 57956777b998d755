"""`srnet.losses`: by hand, equal to the registered objectives, and what is refused."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from devices import counted_device
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import srnet.losses
from srnet.losses import balanced, ce, confreg, distil, group_dro, jtt, poe, reweight
from srnet.objectives.base import OBJECTIVES, StatefulLoss
from srnet.objectives.distillation import distilled
from srnet.objectives.group_dro import GroupDRO

ln = math.log
# The model says (3/4, 1/4) about the first row, whose label is 0, and (1/2, 1/2) about the second, label 1.
LOGITS = [[ln(3), 0.0], [0.0, 0.0]]
LABELS = [0, 1]
BIAS = np.log([[0.8, 0.2], [0.9, 0.1]])
TEACHER = np.log([[0.64, 0.36], [0.9, 0.1]])
EVEN = np.log([[0.5, 0.5], [0.5, 0.5]])
# at T = 2 the square roots count: teacher (0.8, 0.6) / 1.4 and (3, 1) / 4, model (sqrt 3, 1) / (1 + sqrt 3) and 1/2
ROOT = 3**0.5 / (1 + 3**0.5)
KL = 4 / 7 * ln(4 / 7 / ROOT) + 3 / 7 * ln(3 / 7 / (1 - ROOT)) + 0.75 * ln(0.75 / 0.5) + 0.25 * ln(0.25 / 0.5)

BY_HAND: dict[str, tuple[Callable[..., torch.Tensor], dict[str, Any], float]] = {
    "ce": (ce, {}, (ln(4 / 3) + ln(2)) / 2),
    # (0.6, 0.05) -> (12/13, 1/13) and (0.45, 0.05) -> (0.9, 0.1)
    "poe": (poe, {"bias": BIAS}, (-ln(12 / 13) - ln(0.1)) / 2),
    # square roots of the bias: (3/4 * 0.8, 1/4 * 0.6) -> (0.8, 0.2) and (1/2 * 0.9, 1/2 * 0.1) -> (0.9, 0.1)
    "poe of half strength": (
        poe, {"bias": np.log([[0.64, 0.36], [81 / 82, 1 / 82]]), "strength": 0.5}, (-ln(0.8) - ln(0.1)) / 2,
    ),
    # weights 1 - 0.8 and 1 - 0.1
    "reweight": (reweight, {"bias": BIAS}, (0.2 * ln(4 / 3) + 0.9 * ln(2)) / 2),
    # beta = 1/2: S is (0.8, 0.6) / 1.4 and (3, 1) / 4
    "confreg": (
        confreg, {"bias": EVEN, "teacher": TEACHER}, (-4 / 7 * ln(3 / 4) - 3 / 7 * ln(1 / 4) + ln(2)) / 2,
    ),
    # the early model is wrong about the second row
    "jtt": (jtt, {"early": BIAS}, (ln(4 / 3) + 6 * ln(2)) / 2),
    # the bias model is right about the first row and wrong about the second: groups 1 and 2 of 0 to 3. Of 8 rows 6 are
    # in group 1: weights 8 / (2 * 6) and 8 / (2 * 2)
    "balanced": (balanced, {"bias": BIAS, "counts": [0, 6, 2, 0]}, (2 / 3 * ln(4 / 3) + 2 * ln(2)) / 2),
    "jtt with a mean": (jtt, {"early": BIAS, "upweight": 3.0, "mean": 2.0}, (ln(4 / 3) + 3 * ln(2)) / 2 / 2.0),
    "distil": (distil, {"teacher": TEACHER}, 0.5 * (ln(4 / 3) + ln(2)) / 2 + 0.5 * 4 * KL / 2),
    "distil beside poe": (
        distil, {"teacher": TEACHER, "weight": 0.25, "loss": poe, "bias": BIAS},
        0.75 * (-ln(12 / 13) - ln(0.1)) / 2 + 0.25 * 4 * KL / 2,
    ),
    "distil beside confreg": (
        distil, {"teacher": TEACHER, "weight": 1.0, "loss": confreg, "bias": EVEN}, 4 * KL / 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case: str) -> None:
    loss, given, expected = BY_HAND[case]
    assert loss(torch.tensor(LOGITS), LABELS, **given).item() == pytest.approx(expected, rel=1e-5)


def test_group_dro_by_hand() -> None:
    log_weights = torch.zeros(2)
    # losses ln 4/3 and ln 2, eta = 1: q = (4/3, 2) / Z
    value = group_dro(torch.tensor(LOGITS), LABELS, group=[0, 1], log_weights=log_weights, eta=1.0)
    assert log_weights.exp().tolist() == pytest.approx([0.4, 0.6])
    assert value.item() == pytest.approx(0.4 * ln(4 / 3) + 0.6 * ln(2))
    with torch.no_grad():
        group_dro(torch.tensor(LOGITS), LABELS, group=[0, 1], log_weights=log_weights, eta=1.0)
    assert log_weights.exp().tolist() == pytest.approx([0.4, 0.6]), "an evaluation changes no weights"


# --- equal to the registered objectives ----------------------------------------------------------------------------

NEEDS = {
    "poe": ("bias",), "reweight": ("bias",), "confreg": ("bias", "teacher"), "jtt": ("early",), "ce": (),
    "balanced": ("bias",),
}  # fmt: skip
COUNTS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
"""Rows of each group in made-up training data with four classes."""
NAMES = sorted(NEEDS)


@st.composite
def batches(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    """A batch of float64: logits, labels, groups, and three tables of log-probabilities."""
    size, classes = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    row = st.lists(st.floats(-5, 5), min_size=classes, max_size=classes)
    tables = [torch.tensor(draw(st.lists(row, min_size=size, max_size=size)), dtype=torch.float64) for _ in range(4)]
    found = dict(zip(("bias", "teacher", "early"), (table.log_softmax(1) for table in tables[1:]), strict=True))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=size, max_size=size))
    groups = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    return {"logits": tables[0], "labels": torch.tensor(labels), "group": torch.tensor(groups), **found}


def needed(name: str, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {need: batch[need] for need in NEEDS[name]}


def also(name: str, batch: dict[str, Any]) -> dict[str, Any]:
    """What the function takes besides: what the objective learns from all training data."""
    return {"counts": COUNTS[: 2 * np.shape(batch["bias"])[-1]]} if name == "balanced" else {}


def function(name: str) -> Callable[..., torch.Tensor]:
    found: Callable[..., torch.Tensor] = getattr(srnet.losses, name)
    return found


def test_every_objective_is_a_function() -> None:
    public = {name for name, each in inspect.getmembers(srnet.losses, inspect.isfunction) if name[0] != "_"}
    own = {name for name, each in OBJECTIVES.items() if each.loss.__module__.startswith("srnet.")}  # tests add others
    own -= {"poe-permuted"}  # it is `poe` with the rows of `bias` in another order
    own -= {"balance", "balance-permuted"}  # their batches are of sequences of pairs and of neutral text
    assert {name.replace("-", "_") for name in own} | {"distil"} <= public


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(batch=batches())
def test_equal_to_the_objective(name: str, batch: dict[str, torch.Tensor]) -> None:
    logits, labels, needs = batch["logits"], batch["labels"], needed(name, batch)
    assert OBJECTIVES[name].needs == NEEDS[name]
    options: dict[str, Any] = {}
    objective = OBJECTIVES[name].make({})
    if isinstance(objective, StatefulLoss):
        objective.prepare(labels, **needs)
    if name == "jtt":
        options = {"mean": 1 + 5.0 * (batch["early"].argmax(1) != labels).float().mean().item()}
    if name == "balanced":  # this batch is all the data
        right = (batch["bias"].argmax(1) == labels).long()
        options = {"counts": torch.bincount(2 * labels + right, minlength=2 * batch["bias"].shape[1])}
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found, expected = function(name)(ours, labels, **needs, **options), objective(theirs, labels, **needs)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, ours), torch.autograd.grad(expected, theirs))
    taught = distil(logits, labels, teacher=batch["teacher"], weight=0.3, temperature=3.0)
    torch.testing.assert_close(
        taught, distilled(OBJECTIVES["ce"].make({}), 0.3, 3.0)(logits, labels, teacher=batch["teacher"])
    )


@settings(max_examples=30)
@given(several=st.lists(batches(), min_size=1, max_size=4), eta=st.floats(0.001, 5.0))
def test_group_dro_equals_the_objective_to_the_bit(several: list[dict[str, torch.Tensor]], eta: float) -> None:
    objective = GroupDRO(eta)
    objective.prepare(torch.zeros(3), group=torch.arange(3))
    log_weights = objective.log_q.clone()
    for batch in several:
        logits, group = batch["logits"].float(), batch["group"]
        assert torch.equal(
            group_dro(logits, batch["labels"], group=group, log_weights=log_weights, eta=eta),
            objective(logits, batch["labels"], group=group),
        )
        assert torch.equal(log_weights, objective.log_q)


# --- rows that do not count ----------------------------------------------------------------------------------------


def calls(batch: dict[str, Any]) -> dict[str, Callable[[torch.Tensor, Any], torch.Tensor]]:
    """Every loss as a function of logits and labels, with what it needs of a batch."""
    given = {name: {**needed(name, batch), **also(name, batch)} for name in NAMES}
    found: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
        name: partial(function(name), **given[name]) for name in NAMES
    }
    found["distil"] = lambda logits, labels: distil(
        logits, labels, teacher=batch["teacher"], loss=confreg, bias=batch["bias"]
    )
    found["group_dro"] = lambda logits, labels: group_dro(
        logits, labels, group=batch["group"], log_weights=torch.zeros(3)
    )
    return found


@settings(max_examples=30)
@given(batch=batches(), ignored=st.lists(st.booleans(), min_size=5, max_size=5))
def test_ignored_rows_do_not_matter(batch: dict[str, torch.Tensor], ignored: list[bool]) -> None:
    """Whatever stands in them, NaN too; and a batch of them alone gives 0, with a gradient of 0."""
    away = torch.tensor(ignored[: len(batch["labels"])])
    kept = {name: each[~away] for name, each in batch.items()}
    filled = {name: each.clone() for name, each in batch.items()}
    for name in ("bias", "teacher", "early"):
        filled[name][away] = math.nan
    filled["labels"][away], filled["group"][away] = -100, -100
    for name, loss in calls(filled).items():
        logits = batch["logits"].clone().requires_grad_()
        value = loss(logits, filled["labels"])
        (gradient,) = torch.autograd.grad(value, logits)
        assert not gradient[away].any()
        if len(kept["labels"]):
            alone = kept["logits"].clone().requires_grad_()
            expected = calls(kept)[name](alone, kept["labels"])
            torch.testing.assert_close(value, expected)
            torch.testing.assert_close(gradient[~away], torch.autograd.grad(expected, alone)[0])
        else:
            assert value.item() == 0.0


@settings(max_examples=20)
@given(batch=batches())
def test_arrays_lists_tokens_and_half_precision(batch: dict[str, torch.Tensor]) -> None:
    logits, labels = batch["logits"].bfloat16(), batch["labels"]
    arrays = {name: each.numpy() for name, each in batch.items()}
    lists = {name: each.tolist() for name, each in batch.items()}
    tokens = {name: each[None] for name, each in batch.items()}
    for name, loss in calls(batch).items():
        expected = loss(logits.float(), labels)
        assert expected.dtype == loss(logits, labels).dtype == torch.float32
        for same in (
            loss(logits, labels),
            calls(arrays)[name](logits, arrays["labels"]),
            calls(lists)[name](logits, lists["labels"]),
            calls(tokens)[name](logits[None], tokens["labels"]),
        ):
            assert torch.equal(same, expected)


def test_certainty_stays_finite() -> None:
    certain = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).log()
    rows = [(label, b, t) for label in (0, 1) for b in (0, 1) for t in (0, 1)]
    labels, b, t = (torch.tensor(column) for column in zip(*rows, strict=True))
    known = {"bias": certain[b], "teacher": certain[t], "early": certain[t], "group": b}
    for loss in calls(known).values():
        logits = torch.tensor([[9.0, -9.0]]).repeat(8, 1).requires_grad_()
        value = loss(logits, labels)
        assert torch.isfinite(torch.autograd.grad(value, logits)[0]).all()
        assert torch.isfinite(value)


def test_group_dro_under_autocast_is_computed_in_full() -> None:
    torch.manual_seed(0)
    logits, group = torch.randn(64, 2), torch.arange(64) % 3
    plain, cast = torch.zeros(3), torch.zeros(3)
    expected = group_dro(logits, [0] * 64, group=group, log_weights=plain)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(group_dro(logits, [0] * 64, group=group, log_weights=cast), expected)
    assert torch.equal(plain, cast)


# --- on a GPU ------------------------------------------------------------------------------------------------------


def test_a_batch_on_a_gpu_is_checked_once_and_never_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srnet.losses, "_checked_on_gpu", set())
    batch: dict[str, Any] = {"bias": BIAS, "teacher": TEACHER, "early": BIAS, "group": [0, 1]}
    with counted_device() as (device, counts):
        logits, labels = torch.tensor(LOGITS).to(device), torch.tensor(LABELS).to(device)
        there = {name: torch.tensor(np.asarray(each)).to(device) for name, each in batch.items()}
        there["bias"] = there["bias"].float()
        with refused("bias", "probabilities"):
            poe(logits, labels, bias=there["bias"].exp())
        for loss in calls(there).values():
            loss(logits, labels)
        expected = {name: loss(torch.tensor(LOGITS), LABELS) for name, loss in calls(batch).items()}
        counts.waits.clear()
        weights = torch.zeros(3).to(device)
        losses = {name: loss for name, loss in calls(there).items() if name != "group_dro"}
        found = {name: loss(logits, labels) for name, loss in losses.items()}
        found["group_dro"] = group_dro(logits, labels, group=there["group"], log_weights=weights)
        assert not counts.waits
        poe(logits, labels, bias=there["bias"].exp())  # later mistakes are not seen: this is the price
        assert not counts.waits
        for name, value in found.items():
            torch.testing.assert_close(value.cpu(), expected[name])
        with refused("bias", "probabilities"):  # what is on the CPU with its labels is always checked
            poe(logits, LABELS, bias=np.exp(BIAS))


@pytest.mark.filterwarnings("ignore:Dynamo")
def test_inside_a_compiled_function() -> None:
    compiled = torch.compile(lambda logits, labels, bias: poe(logits, labels, bias=bias) * 2 / 2, backend="eager")
    batch = torch.tensor(LOGITS), torch.tensor(LABELS), torch.tensor(BIAS, dtype=torch.float32)
    torch.testing.assert_close(compiled(*batch), poe(*batch[:2], bias=batch[2]))


# --- mistakes ------------------------------------------------------------------------------------------------------

TWO = torch.zeros(2, 2)
MISTAKES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "probabilities": (lambda: poe(TWO, [0, 1], bias=np.exp(BIAS)), ("bias", "bias.log()", "numpy.log(bias)")),
    "certain probabilities": (lambda: poe(TWO, [0, 1], bias=[[1.0, 0.0], [0.0, 1.0]]), ("bias.log()",)),
    "a teacher's probabilities": (lambda: distil(TWO, [0, 1], teacher=np.exp(TEACHER)), ("teacher.log()",)),
    "an early model's": (lambda: jtt(TWO, [0, 1], early=np.exp(BIAS)), ("early.log()",)),
    "logits": (lambda: reweight(TWO, [0, 1], bias=[[2.0, -1.0], [0.5, 0.1]]), ("bias", "bias.log_softmax(-1)")),
    "one bad row": (lambda: reweight(TWO, [0, 1], bias=[BIAS[0], BIAS[1] - 0.1]), ("bias", "sum to 1")),
    "NaN": (lambda: poe(TWO, [0, 1], bias=[BIAS[0], [math.nan, 0.0]]), ("bias", "NaN")),
    "all rows of the data": (lambda: poe(TWO, [0, 1], bias=np.log(np.full((9, 2), 0.5))), ("bias", "[9, 2]", "[2, 2]")),
    "other classes": (lambda: poe(TWO, [0, 1], bias=np.log(np.full((2, 3), 1 / 3))), ("bias", "[2, 3]")),
    "no numbers": (lambda: poe(TWO, [0, 1], bias=[["a", "b"], ["c", "d"]]), ("bias", "numbers")),
    "nothing": (lambda: poe(TWO, [0, 1], bias=None), ("bias", "numbers")),  # type: ignore[arg-type]
    "a class too many": (lambda: ce(TWO, [0, 2]), ("labels", "2", "0 to 1", "-100")),
    "another negative label": (lambda: ce(TWO, [0, -1]), ("labels", "-1")),
    "labels as numbers": (lambda: ce(TWO, [0.0, 1.0]), ("labels", "float64", "[2]")),
    "one-hot labels": (lambda: ce(TWO, [[0, 1], [1, 0]]), ("labels", "[2, 2]", "[2]")),
    "a model's output": (lambda: ce({"logits": TWO}, [0, 1]), ("logits", "dict", ".logits")),  # type: ignore[arg-type]
    "whole logits": (lambda: ce(TWO.long(), [0, 1]), ("logits",)),
    "an unknown group": (lambda: group_dro(TWO, [0, 1], group=[0, 3], log_weights=torch.zeros(3)), ("group", "3")),
    "no group": (lambda: group_dro(TWO, [0, 1], group=[0, -100], log_weights=torch.zeros(3)), ("group", "-100")),
    "weights as a list": (
        lambda: group_dro(TWO, [0, 1], group=[0, 1], log_weights=[0.0, 0.0]), ("log_weights", "torch.zeros"),  # type: ignore[arg-type]
    ),
    "counts of classes": (lambda: balanced(TWO, [0, 1], bias=BIAS, counts=[5, 5]), ("counts", "[2]", "4 whole")),
    "no counts": (lambda: balanced(TWO, [0, 1], bias=BIAS, counts=[0.5] * 4), ("counts", "float32")),
    "no strength": (lambda: poe(TWO, [0, 1], bias=BIAS, strength=0.0), ("strength",)),
    "no upweight": (lambda: jtt(TWO, [0, 1], early=BIAS, upweight=-1.0), ("upweight",)),
    "no eta": (lambda: group_dro(TWO, [0, 1], group=[0, 1], log_weights=torch.zeros(2), eta=math.nan), ("eta",)),
    "a share above 1": (lambda: distil(TWO, [0, 1], teacher=TEACHER, weight=1.5), ("weight", "1.5")),
    "no temperature": (lambda: distil(TWO, [0, 1], teacher=TEACHER, temperature=0), ("temperature",)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(mistake: str) -> None:
    call, named = MISTAKES[mistake]
    with refused(*named):
        call()


def test_what_is_written_with_few_digits_passes() -> None:
    rounded = np.log(np.array([[0.333, 0.333, 0.334]] * 2))
    assert torch.isfinite(poe(torch.zeros(2, 3), [0, 1], bias=rounded))
    many = torch.full((1, 50_000), -ln(50_000)).bfloat16()
    assert torch.isfinite(poe(torch.zeros(1, 50_000), [7], bias=many))


def test_the_module_is_there_without_torch() -> None:
    code = "import sys, srnet; srnet.losses.poe; from srnet.losses import ce; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
