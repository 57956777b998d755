"""Distillation beside any loss, and the losses of scores and spans: by hand."""

from __future__ import annotations

import math

import pytest
import torch

from srnet.objectives.base import OBJECTIVES, StatefulLoss
from srnet.objectives.distillation import distilled
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.answers.numbers import NUMBERS
from srnet.tasks.answers.spans import SPANS
from srnet.training.spans import NO_LOGIT, _Windows

ln = math.log


def without_padding(logits: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    return _Windows.hide_padding(None, logits, attention_mask)  # type: ignore[arg-type]


CE, SCORE_LOSS, SPAN_LOSS = (OBJECTIVES["ce"].make({}, kind) for kind in (CLASSES, NUMBERS, SPANS))

# --- classes -------------------------------------------------------------------------------------------------------

# T = 2 halves logits: the teacher's (ln 81, 0) become (ln 9, 0), so (9/10, 1/10); ours, (ln 9, 0), become (3/4, 1/4)
LOGITS = [[ln(9), 0.0]]
TEACHER = torch.tensor([[ln(81), 0.0]]).log_softmax(1)
KL = 0.9 * ln(0.9 / 0.75) + 0.1 * ln(0.1 / 0.25)
"""KL(teacher || student) at T = 2."""


def test_classes_by_hand() -> None:
    logits = torch.tensor(LOGITS, requires_grad=True)
    loss = distilled(CE)(logits, torch.tensor([0]), teacher=TEACHER)
    # without a temperature the model says (9/10, 1/10)
    assert loss.item() == pytest.approx(0.5 * 4 * KL + 0.5 * -ln(0.9), rel=1e-5)
    loss.backward()
    # T^2 / T (q - p) = 2 (0.75 - 0.9) for the imitation, 0.9 - 1 for the label, half of each
    assert logits.grad[0].tolist() == pytest.approx([0.5 * -0.3 + 0.5 * -0.1, 0.5 * 0.3 + 0.5 * 0.1], abs=1e-6)


def test_the_direction_of_the_divergence_is_the_teachers() -> None:
    backwards = 0.75 * ln(0.75 / 0.9) + 0.25 * ln(0.25 / 0.1)
    value = CLASSES.imitation(torch.tensor(LOGITS), TEACHER, 2.0).item()
    assert value == pytest.approx(4 * KL, rel=1e-5)
    assert value != pytest.approx(4 * backwards, rel=1e-2)


@pytest.mark.parametrize(("weight", "temperature"), [(0.5, 2.0), (0.25, 2.0), (1.0, 2.0), (0.9, 1.0)])
def test_shares_and_temperatures(weight: float, temperature: float) -> None:
    loss = distilled(CE, weight, temperature)(torch.tensor(LOGITS), torch.tensor([1]), teacher=TEACHER)
    hot = {2.0: 4 * KL, 1.0: 81 / 82 * ln(81 / 82 / 0.9) + 1 / 82 * ln(1 / 82 / 0.1)}[temperature]
    assert loss.item() == pytest.approx(weight * hot + (1 - weight) * -ln(0.1), rel=1e-5)


def test_it_is_the_mean_over_the_batch_also_of_a_teachers_logits() -> None:
    one = CLASSES.imitation(torch.tensor(LOGITS), TEACHER)
    many = CLASSES.imitation(torch.tensor(LOGITS * 3 + [[ln(81), 0.0]]), TEACHER.repeat(4, 1))
    assert many.item() == pytest.approx(0.75 * one.item(), rel=1e-5)
    plain = CLASSES.imitation(torch.tensor(LOGITS), torch.tensor([[ln(81) + 7.0, 7.0]]))
    assert plain.item() == pytest.approx(one.item(), rel=1e-5)


def test_a_certain_teacher_stays_finite() -> None:
    logits = torch.tensor([[3.0, -2.0], [1e4, -1e4]], requires_grad=True)
    teacher = torch.tensor([[0.0, -200.0], [-2e4, 0.0]])  # as far as `log_softmax` of float32 logits goes
    loss = distilled(CE)(logits, torch.tensor([0, 1]), teacher=teacher)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


# --- beside other losses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(name for name, each in OBJECTIVES.items() if "text" not in each.needs))
def test_beside_every_loss(name: str) -> None:
    """(1 - w) of what the loss is alone, and w of the imitation, whatever the loss."""
    logits, labels = torch.tensor([[0.3, -1.2], [2.0, 0.1]]), torch.tensor([0, 1])
    bias = torch.tensor([[0.8, 0.2], [0.9, 0.1]]).log()
    teacher = torch.tensor([[0.6, 0.4], [0.3, 0.7]]).log()
    known = {"bias": bias, "permuted_bias": bias, "teacher": teacher, "early": teacher, "group": labels}
    registered, losses = OBJECTIVES[name], [OBJECTIVES[name].make({}) for _ in range(2)]
    given = {need: known[need] for need in registered.needs}
    for loss in losses:
        if isinstance(loss, StatefulLoss):
            loss.prepare(labels, **given)
    alone = losses[0](logits, labels, **given)
    both = distilled(losses[1], 0.3, 2.0, registered.needs)(logits, labels, **{**given, "teacher": teacher})
    kl = 0.0
    for row, given in zip(logits.tolist(), teacher.exp().tolist(), strict=True):
        ours, theirs = ([x / sum(xs) for x in xs] for xs in ([math.exp(v / 2) for v in row], [v**0.5 for v in given]))
        kl += sum(t * ln(t / o) for t, o in zip(theirs, ours, strict=True))
    assert both.item() == pytest.approx(0.7 * alone.item() + 0.3 * 4 * kl / 2, rel=1e-5)


def test_a_missing_teacher_is_not_ignored() -> None:
    with pytest.raises(KeyError, match="teacher"):
        distilled(CE)(torch.zeros(1, 2), torch.tensor([0]))


def test_who_says_what_the_teacher_says_learns_nothing_more() -> None:
    logits = torch.tensor([[0.3, -1.2, 2.0], [0.0, 5.0, -5.0]], requires_grad=True)
    loss = CLASSES.imitation(logits, logits.detach().log_softmax(1))
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert logits.grad.abs().max() < 1e-6


# --- scores --------------------------------------------------------------------------------------------------------


def test_scores_by_hand() -> None:
    logits = torch.tensor([[1.0], [4.0]], requires_grad=True)
    labels, teacher = torch.tensor([3.0, 3.5]), torch.tensor([[2.0], [1.0]])
    assert SCORE_LOSS(logits, labels).item() == pytest.approx((4 + 0.25) / 2)
    assert NUMBERS.imitation(logits, teacher).item() == pytest.approx((1 + 9) / 2)
    loss = distilled(SCORE_LOSS, answer=NUMBERS)(logits, labels, teacher=teacher)
    assert loss.item() == pytest.approx(0.5 * 2.125 + 0.5 * 5.0)
    loss.backward()
    # 2/n (s - y), n = 2: -2 and 0.5 from the labels, -1 and 3 from the teacher
    assert logits.grad.flatten().tolist() == pytest.approx([0.5 * -2 + 0.5 * -1, 0.5 * 0.5 + 0.5 * 3])


def test_the_temperature_is_nothing_to_a_score() -> None:
    values = {NUMBERS.imitation(torch.ones(1, 1), torch.zeros(1, 1), t).item() for t in (1.0, 2.0, 9.0)}
    assert values == {1.0}


# --- spans ---------------------------------------------------------------------------------------------------------

# One text of three tokens, the third padding. Starts (ln 9, 0), ends (0, ln 3): at T = 2 (3/4, 1/4) and (1, sqrt 3)
SPAN = [[[ln(9), 0.0], [0.0, ln(9)], [50.0, 50.0]]]
THERE = torch.tensor([[1, 1, 0]])


def span() -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.tensor(SPAN, requires_grad=True)
    return logits, without_padding(logits, THERE)


def test_spans_by_hand() -> None:
    logits, seen = span()
    loss = SPAN_LOSS(seen, torch.tensor([[0, 0]]))
    # the start is right with 9/10, the end with 1/10
    assert loss.item() == pytest.approx((-ln(0.9) - ln(0.1)) / 2, rel=1e-5)
    loss.backward()
    assert logits.grad[0, :, 0].tolist() == pytest.approx([-0.05, 0.05, 0.0], abs=1e-6)
    assert logits.grad[0, :, 1].tolist() == pytest.approx([-0.45, 0.45, 0.0], abs=1e-6)


def test_a_taught_span_by_hand() -> None:
    logits, seen = span()
    teacher = torch.tensor([[[ln(81), 0.0], [0.0, ln(9)], [NO_LOGIT, NO_LOGIT]]])
    labels = torch.tensor([[0, 1]])
    # the start is that of the classes above; the end says already what the teacher says
    assert SPANS.imitation(seen, teacher).item() == pytest.approx(4 * KL / 2, rel=1e-5)
    loss = distilled(SPAN_LOSS, answer=SPANS)(seen, labels, teacher=teacher)
    assert loss.item() == pytest.approx(0.5 * 2 * KL + 0.5 * -ln(0.9), rel=1e-5)
    loss.backward()
    # starts: 2 (0.75 - 0.9) / 2 ends from the teacher, (0.9 - 1) / 2 from the label, half of each; ends: the label's
    assert logits.grad[0, :, 0].tolist() == pytest.approx([-0.1, 0.1, 0.0], abs=1e-6)
    assert logits.grad[0, :, 1].tolist() == pytest.approx([0.025, -0.025, 0.0], abs=1e-6)


def test_padding_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, teacher = torch.randn(2, 5, 2, generator=generator), torch.randn(2, 5, 2, generator=generator)
    labels = torch.tensor([[1, 3], [0, 4]])
    short = distilled(SPAN_LOSS, answer=SPANS)(logits, labels, teacher=teacher)
    pad = torch.full((2, 3, 2), 77.0)
    there = torch.cat([torch.ones(2, 5), torch.zeros(2, 3)], 1)
    long = without_padding(torch.cat([logits, pad], 1), there)
    taught = torch.cat([teacher, torch.full((2, 3, 2), NO_LOGIT)], 1)
    torch.testing.assert_close(distilled(SPAN_LOSS, answer=SPANS)(long, labels, teacher=taught), short)


def test_padding_gets_no_gradient_and_no_text_is_without() -> None:
    logits = torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    there = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    teacher = without_padding(torch.zeros(2, 4, 2), there)
    distilled(SPAN_LOSS, answer=SPANS)(
        without_padding(logits, there), torch.tensor([[3, 0], [1, 1]]), teacher=teacher
    ).backward()
    assert torch.isfinite(logits.grad).all()
    assert torch.equal(logits.grad.abs().sum(-1) > 0, there.bool())
