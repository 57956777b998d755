"""Each loss and its gradient: by hand, against a plain-probability formula, and where probabilities are 0 or 1."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from srnet.objectives.base import OBJECTIVES, StatefulLoss, parse_objective

ln = math.log

# Two examples. The model says (3/4, 1/4) about the first, whose label is 0, and (1/2, 1/2) about the second, label 1.
LOGITS = [[ln(3), 0.0], [0.0, 0.0]]
LABELS = torch.tensor([0, 1])
BIAS = [[0.8, 0.2], [0.9, 0.1]]
"""So beta, the bias model's belief in the truth, is 0.8 and 0.1."""


def loss_of(name: str, logits: torch.Tensor, labels: torch.Tensor, **known: torch.Tensor) -> torch.Tensor:
    """The loss of a first batch that is all the training data, with what the loss needs of what is known."""
    registered, options = parse_objective(name)
    loss, needs = registered.make(options), {need: known[need] for need in registered.needs}
    if isinstance(loss, StatefulLoss):
        loss.prepare(labels, **needs)
    return loss(logits, labels, **needs)


# --- by hand -------------------------------------------------------------------------------------------------------


HALF = [[0.5, 0.5], [0.5, 0.5]]
BY_HAND: dict[str, tuple[str, dict[str, list[list[float]]], float, list[list[float]]]] = {
    # gradient (p - y) / 2
    "ce": ("ce", {}, -ln(3 / 4) - ln(1 / 2), [[-1 / 8, 1 / 8], [1 / 4, -1 / 4]]),
    # products: (3/4 * 0.8, 1/4 * 0.2) = (0.6, 0.05) -> (12/13, 1/13) and (0.45, 0.05) -> (0.9, 0.1); gradient
    # (product - y) / 2: the example that the bias model gets right teaches little
    "poe": ("poe", {"bias": BIAS}, -ln(12 / 13) - ln(0.1), [[-1 / 26, 1 / 26], [0.45, -0.45]]),
    # a square root of the bias: (0.64, 0.36) -> (0.8, 0.6) and (0.81, 0.01) -> (0.9, 0.1); products:
    # (3/4 * 0.8, 1/4 * 0.6) = (0.6, 0.15) -> (0.8, 0.2) and (0.45, 0.05) -> (0.9, 0.1)
    "poe of half strength": (
        "poe:strength=0.5", {"bias": [[0.64, 0.36], [0.81, 0.01]]}, -ln(0.8) - ln(0.1), [[-0.1, 0.1], [0.45, -0.45]],
    ),
    # weights 1 - beta = 0.2 and 0.9; the mean over two examples. The published code divides by 0.2 + 0.9 instead.
    "reweight": (
        "reweight", {"bias": BIAS}, 0.2 * -ln(3 / 4) + 0.9 * -ln(1 / 2), [[-0.2 / 8, 0.2 / 8], [0.9 / 4, -0.9 / 4]],
    ),
    # beta = 1/2 turns p_t^(1-beta) into a square root: (0.8, 0.6) / 1.4 = (4/7, 3/7) and (3, 1) / 4; gradient
    # (p - S) / 2 with 3/4 - 4/7 = 5/28 and 1/2 - 3/4 = -1/4
    "confreg": (
        "confreg", {"bias": HALF, "teacher": [[0.64, 0.36], [0.9, 0.1]]},
        -4 / 7 * ln(3 / 4) - 3 / 7 * ln(1 / 4) + ln(2), [[5 / 56, -5 / 56], [-1 / 8, 1 / 8]],
    ),
}  # fmt: skip
"""Name -> the objective, what it needs, the sum of the two losses, the gradient."""


@pytest.mark.parametrize("case", BY_HAND)
def test_losses_and_gradients_by_hand(case: str) -> None:
    name, known, total, expected = BY_HAND[case]
    logits = torch.tensor(LOGITS, requires_grad=True)
    loss = loss_of(name, logits, LABELS, **{key: torch.tensor(p).log() for key, p in known.items()})
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(total / 2)
    assert logits.grad is not None
    for row, wanted in zip(logits.grad.tolist(), expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("beta", "expected"),
    [(0.0, [0.64, 0.36]), (0.5, [4 / 7, 3 / 7]), (1.0, [0.5, 0.5])],  # unbiased: as taught; fully biased: uniform
)
def test_scaled_teacher_by_hand(beta: float, expected: list[float]) -> None:
    """The gradient is p - S(p_t, beta), and p is uniform."""
    logits, bias, teacher = torch.zeros(1, 2, requires_grad=True), [[beta, 1 - beta]], [[0.64, 0.36]]
    known = {"bias": torch.tensor(bias).log(), "teacher": torch.tensor(teacher).log()}
    loss_of("confreg", logits, torch.tensor([0]), **known).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert (0.5 - logits.grad[0]).tolist() == pytest.approx(expected, abs=1e-6)


# --- against plain probabilities -----------------------------------------------------------------------------------

Formula = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def normalised(p: torch.Tensor) -> torch.Tensor:
    return p / p.sum(1, keepdim=True)


def of_truth(p: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.stack([row[label] for row, label in zip(p, labels, strict=True)])


def plain_confreg(p: torch.Tensor, y: torch.Tensor, bias: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    target = normalised(teacher ** (1 - of_truth(bias, y))[:, None])
    return -(target * p.log()).sum(1).mean()


def plain_jtt(p: torch.Tensor, y: torch.Tensor, bias: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """The errors of the teacher, each 6 times in the data."""
    rows = [row for row in range(len(y)) for _ in range(1 if teacher[row].argmax() == y[row] else 6)]
    return -of_truth(p[rows], y[rows]).log().mean()


def plain_group_dro(p: torch.Tensor, y: torch.Tensor, bias: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Groups are classes."""
    losses = [-of_truth(p[y == g], y[y == g]).log().mean() if (y == g).any() else y.new_zeros(()) for g in range(4)]
    losses = losses[: int(y.max()) + 1]
    q = normalised(torch.stack([torch.exp(0.01 * loss.detach()) for loss in losses])[None])[0]
    return torch.stack([weight * loss for weight, loss in zip(q, losses, strict=True)]).sum()


def plain_balanced(p: torch.Tensor, y: torch.Tensor, bias: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """The mean over groups of the mean over each group's rows."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for row, label in enumerate(y.tolist()):
        groups.setdefault((label, int(bias[row].argmax()) == label), []).append(row)
    return torch.stack([-of_truth(p[rows], y[rows]).log().mean() for rows in groups.values()]).mean()


OF_CLASSES = sorted(name for name, each in OBJECTIVES.items() if "text" not in each.needs)
"""Those for language models are in test_balance.py."""
PLAIN: dict[str, Formula] = {
    "ce": lambda p, y, bias, teacher: -of_truth(p, y).log().mean(),
    "poe": lambda p, y, bias, teacher: -of_truth(normalised(p * bias), y).log().mean(),
    "reweight": lambda p, y, bias, teacher: -((1 - of_truth(bias, y)) * of_truth(p, y).log()).mean(),
    "confreg": plain_confreg,
    "group-dro": plain_group_dro,
    "jtt": plain_jtt,
    "balanced": plain_balanced,
    "poe-permuted": lambda p, y, bias, teacher: -of_truth(normalised(p * bias), y).log().mean(),
}


def test_every_objective_has_a_plain_formula() -> None:
    assert set(PLAIN) == set(OF_CLASSES), "a new objective needs its formula here"


@st.composite
def batches(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    size, classes = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    row = st.lists(st.floats(-5, 5), min_size=classes, max_size=classes)
    tables = (torch.tensor(draw(st.lists(row, min_size=size, max_size=size)), dtype=torch.float64) for _ in range(3))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=size, max_size=size))
    logits, bias, teacher = tables
    return logits, torch.tensor(labels), normalised(bias.exp()), normalised(teacher.exp())


@pytest.mark.parametrize("name", sorted(PLAIN))
@settings(max_examples=30)
@given(batch=batches())
def test_loss_and_gradient_match_plain_probabilities(name: str, batch: tuple[torch.Tensor, ...]) -> None:
    values, labels, bias, teacher = batch
    logits, again = values.clone().requires_grad_(), values.clone().requires_grad_()
    known = {"bias": bias.log(), "permuted_bias": bias.log(), "teacher": teacher.log(), "early": teacher.log()}
    ours = loss_of(name, logits, labels, **known, group=labels)
    plain = PLAIN[name](normalised(again.exp()), labels, bias, teacher)
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(
        torch.autograd.grad(ours, logits), torch.autograd.grad(plain, again), rtol=1e-6, atol=1e-9
    )


@settings(max_examples=30)
@given(batch=batches())
def test_poe_with_an_ignorant_bias_model_is_ce(batch: tuple[torch.Tensor, ...]) -> None:
    logits, labels, bias, _ = batch
    uniform = torch.full_like(bias, 1 / bias.shape[1]).log()
    torch.testing.assert_close(loss_of("poe", logits, labels, bias=uniform), loss_of("ce", logits, labels))


# --- certainty -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_CLASSES)
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_certainty_stays_finite(name: str, scale: float) -> None:
    # every combination of a bias model and a teacher that are certain (log = -inf and 0) and right or wrong
    certain = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).log()
    rows = [(label, b, t) for label in (0, 1) for b in (0, 1) for t in (0, 1)]
    labels, bias, teacher = (torch.tensor(column) for column in zip(*rows, strict=True))
    logits = (scale * torch.tensor([[1.0, -1.0]])).repeat(len(rows), 1).requires_grad_()
    known = {"bias": certain[bias], "permuted_bias": certain[teacher], "teacher": certain[teacher]}
    loss = loss_of(name, logits, labels, **known, early=certain[bias], group=bias)
    loss.backward()
    assert logits.grad is not None
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_poe_learns_nothing_from_what_the_bias_model_is_sure_of() -> None:
    logits = torch.tensor([[0.0, 0.0]], requires_grad=True)
    loss_of("poe", logits, torch.tensor([0]), bias=torch.tensor([[1.0, 0.0]]).log()).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-6


# --- the registry --------------------------------------------------------------------------------------------------


def test_what_each_objective_needs() -> None:
    published = {
        "ce": (),
        "poe": ("bias",),
        "reweight": ("bias",),
        "confreg": ("bias", "teacher"),
        "group-dro": ("group",),
        "jtt": ("early",),
        "balanced": ("bias",),
        "poe-permuted": ("permuted_bias",),
    }
    assert {name: OBJECTIVES[name].needs for name in published} == published
    assert [name for name in published if not OBJECTIVES[name].debiases] == ["ce"]


@pytest.mark.parametrize("name", sorted(name for name, loss in OBJECTIVES.items() if loss.needs))
def test_what_is_missing_is_not_ignored(name: str) -> None:
    # the published IMP runs drop it silently and train plain CE
    with pytest.raises(KeyError):
        loss_of(name, torch.zeros(1, 2), torch.tensor([0]))
    if name != "group-dro":  # it is prepared with its input, above
        with pytest.raises((KeyError, TypeError)):
            OBJECTIVES[name].make({})(torch.zeros(1, 2), torch.tensor([0]))


def test_an_unknown_objective_lists_the_known_ones() -> None:
    with refused("no-such", *OBJECTIVES):
        parse_objective("no-such")


def test_options_are_part_of_the_name() -> None:
    loss, options = parse_objective("jtt:upweight=20, early_share=0.4")
    assert (loss.name, options) == ("jtt", {"upweight": 20.0}), "what is the default says nothing"
    assert loss.text(options) == "jtt:upweight=20.0"
    assert parse_objective(loss.text(options)) == (loss, options)
    assert OBJECTIVES["poe"].text({}) == "poe"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("poe:eta=1", "eta"),
        ("poe:strength=0", "strength"),
        ("poe:strength=nan", "strength"),
        ("poe:strength=1e300", "strength"),
        ("reweight:eta=1", "eta"),
        ("group-dro:step=1", "step"),
        ("group-dro:eta=fast", "fast"),
        ("group-dro:eta", "group-dro"),
        ("group-dro:eta=0", "eta"),
        ("jtt:upweight=inf", "upweight"),
        ("jtt:early_share=1.5", "early_share"),
    ],
)
def test_options_that_make_no_sense_are_refused(text: str, named: str) -> None:
    with refused(text.partition(":")[0], named):
        parse_objective(text)
