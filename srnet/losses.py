"""The losses as functions of a batch, for a training loop of one's own.

    loss = srnet.losses.poe(model(**batch).logits, labels, bias=log_probs[rows])

Each returns the mean over the labels that are not -100, as a tensor; 0 if all are. `logits` is a tensor of rows x
classes, or of rows x tokens x classes with labels of rows x tokens; half precision is computed in float32. All other
inputs are tensors, arrays or lists, and are moved to the device of the logits; their gradients are not stopped.

Inputs are checked: shapes, labels, NaN, and that the exponentials of log-probabilities sum to 1. To look at a tensor on
a GPU the program has to wait for it. Therefore only the first batch with an input of that name, type and number of
classes is checked there, and none inside `torch.compile`; on the CPU every batch is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from srnet.config.values import arguments_of
from srnet.core.errors import UserError
from srnet.core.lazy import torch
from srnet.objectives.balanced import group_weights
from srnet.objectives.base import OBJECTIVES
from srnet.objectives.distillation import distilled
from srnet.tasks.answers.base import divergence

Given: TypeAlias = "torch.Tensor | np.ndarray | Sequence[Any]"
_checked_on_gpu: set[tuple[Any, ...]] = set()


def ce(logits: torch.Tensor, labels: Given) -> torch.Tensor:
    """Cross-entropy, - y log p_m: the mean over the rows of `logits` whose class in `labels` is not -100."""
    return _mean(OBJECTIVES["ce"].loss, logits, labels)


def poe(logits: torch.Tensor, labels: Given, *, bias: Given, strength: float = 1.0) -> torch.Tensor:
    """Product of experts, - y log softmax(log p_m + strength log p_b): the mean over `labels` that are not -100.

    `bias` are log-probabilities of a bias model, of the shape of `logits`; `strength` is its weight, above 0.
    """
    return _mean(partial(OBJECTIVES["poe"].loss(strength).reduced, "none"), logits, labels, bias=bias)


def reweight(logits: torch.Tensor, labels: Given, *, bias: Given) -> torch.Tensor:
    """Example reweighting, - (1 - beta) y log p_m: the mean over `labels` that are not -100.

    `bias` are log-probabilities of a bias model, of the shape of `logits`; beta is its probability of the label.
    """
    return _mean(OBJECTIVES["reweight"].loss, logits, labels, bias=bias)


def confreg(logits: torch.Tensor, labels: Given, *, bias: Given, teacher: Given) -> torch.Tensor:
    """Confidence regularisation, - S(p_t, beta) log p_m: the mean over `labels` that are not -100.

    `bias` and `teacher` are log-probabilities of a bias model and of a model trained with cross-entropy, of the shape
    of `logits`. S smooths the teacher where beta, the bias model's probability of the label, is high.
    """
    return _mean(OBJECTIVES["confreg"].loss, logits, labels, bias=bias, teacher=teacher)


def distil(
    logits: torch.Tensor, labels: Given, *, teacher: Given, weight: float = 0.5, temperature: float = 2.0,
    loss: Callable[..., torch.Tensor] = ce, **needs: Any,
) -> torch.Tensor:  # fmt: skip
    """Distillation, (1 - weight) loss + weight T^2 KL(teacher || model): the mean over `labels` that are not -100.

    `teacher` are its log-probabilities, of the shape of `logits`; `temperature` is T, which softens both. `loss` is
    another function of this module, and `needs` what it needs; `confreg` gets the same teacher.
    """
    arguments_of(distilled, {"weight": weight, "temperature": temperature})
    own = loss(logits, labels, **needs, **({"teacher": teacher} if loss is confreg else {}))
    imitation = lambda ours, labels, teacher: divergence(ours, teacher, temperature, "none").sum(-1)  # noqa: E731
    return (1.0 - weight) * own + weight * _mean(imitation, logits, labels, teacher=teacher)


def group_dro(
    logits: torch.Tensor, labels: Given, *, group: Given, log_weights: torch.Tensor, eta: float = 0.01
) -> torch.Tensor:
    """Group DRO, sum_g q_g loss_g, after groups with a high loss have gained weight: q_g <- q_g exp(eta loss_g) / Z.

    `group` is the number of each row's group, of the shape of `labels`; loss_g is the mean cross-entropy of those whose
    label is not -100. `log_weights` is log q, a tensor of your own such as `torch.zeros(groups, device=device)`. It is
    updated in place unless gradients are disabled: keep it from batch to batch, and in checkpoints. Processes of
    `torch.distributed` share a batch: each has to call this, and DDP averages the gradients.
    """
    objective, batch = OBJECTIVES["group-dro"].loss(eta), _Batch(logits, labels)
    if not isinstance(log_weights, torch.Tensor) or log_weights.ndim != 1 or not log_weights.is_floating_point():
        raise UserError("log_weights is no tensor with a number for each group", "give torch.zeros(groups)")
    objective.log_q, groups = log_weights.detach(), len(log_weights)
    numbers = batch.read("group", group, groups).masked_fill(~batch.kept, groups)
    kind = logits.device.type
    # autocast would multiply matrices in half precision
    with torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext():
        loss: torch.Tensor = objective(batch.logits, batch.labels, group=numbers)
    if torch.is_grad_enabled():
        log_weights.data.copy_(objective.log_q)
    return loss


def jtt(logits: torch.Tensor, labels: Given, *, early: Given, upweight: float = 6.0, mean: float = 1.0) -> torch.Tensor:
    """Just Train Twice, - w y log p_m / mean: the mean over `labels` that are not -100.

    w is `upweight` where a briefly trained model is wrong, else 1; `early` are its log-probabilities, of the shape of
    `logits`. `mean` is the mean of w in all training data, 1 + (upweight - 1) * the share of its errors; by default
    the loss is not divided, which only scales it.
    """
    objective = OBJECTIVES["jtt"].loss(upweight)
    objective.mean = torch.as_tensor(mean)
    return _mean(objective.losses, logits, labels, early=early)


def balanced(logits: torch.Tensor, labels: Given, *, bias: Given, counts: Given) -> torch.Tensor:
    """Group-balanced cross-entropy, - w y log p_m: the mean over `labels` that are not -100.

    `bias` are log-probabilities of a bias model, of the shape of `logits`. The groups are label x bias model: number
    2y has the rows of label y about which it is wrong, 2y + 1 those about which it is right. `counts` has the rows of
    each group in all training data. w is the same for all rows of a group, so that groups have the same total weight.
    """
    objective, batch = OBJECTIVES["balanced"].loss(), _Batch(logits, labels)
    rows = torch.as_tensor(counts)
    if rows.shape != (2 * batch.logits.shape[1],) or rows.is_floating_point():
        fix = f"give {2 * batch.logits.shape[1]} whole numbers: two for each class"
        raise UserError(f"counts has the shape {list(rows.shape)} and the type {rows.dtype}", fix)
    objective.weights = group_weights(rows)
    return _mean(objective.losses, logits, labels, bias=bias)


def _mean(losses: Callable[..., torch.Tensor], logits: torch.Tensor, labels: Given, **needs: Given) -> torch.Tensor:
    """The mean of what `losses` gives for each row, over the rows that count."""
    batch = _Batch(logits, labels)
    found = losses(batch.logits, batch.labels, **{name: batch.read(name, each) for name, each in needs.items()})
    return found.masked_fill(~batch.kept, 0.0).sum() / batch.kept.sum().clamp_min(1)


class _Batch:
    """Logits and labels by row, and which rows count."""

    def __init__(self, logits: torch.Tensor, labels: Given) -> None:
        if not isinstance(logits, torch.Tensor) or not logits.is_floating_point() or not logits.ndim:
            fix = "give what the model returns: model(**batch).logits"
            raise UserError(f"logits is no tensor of rows x classes, but {type(logits).__name__}", fix)
        self._shape, rows = logits.shape, logits.reshape(-1, logits.shape[-1])
        self.logits = rows.float() if rows.dtype.itemsize < 4 else rows
        self.labels = self.read("labels", labels, rows.shape[1])
        self.kept = self.labels != -100

    def read(self, name: str, given: Given, count: int = 0) -> torch.Tensor:
        """By row: a number below `count`, or log-probabilities, which are 0 where the label is ignored."""
        try:
            found = given if isinstance(given, torch.Tensor) else torch.tensor(np.asarray(given))
        except (TypeError, ValueError):
            raise UserError(f"{name} is no array of numbers", "give a tensor, a NumPy array or a list") from None
        rows, shape = self.logits, self._shape[:-1] if count else self._shape
        if found.shape != shape or (count and found.is_floating_point()):
            problem = f"{name} has the shape {list(found.shape)} and the type {found.dtype}"
            what = "whole numbers" if count else "log-probabilities"
            raise UserError(problem, f"give {what} of the shape {list(shape)}, for each row of logits")
        found = found.reshape(-1).long() if count else found.reshape(rows.shape)
        if name == "labels":
            self._counted = found != -100  # where labels are given, which may be the CPU
        self._check(name, found, count)
        return found.to(rows.device) if count else found.to(rows).masked_fill(~self.kept[:, None], 0.0)

    def _check(self, name: str, found: torch.Tensor, count: int) -> None:
        on_cpu = found.device.type == self._counted.device.type == "cpu"
        what = (name, count, found.dtype, self.logits.shape[1])
        if torch.compiler.is_compiling() or (what in _checked_on_gpu and not on_cpu):
            return
        rows = found.detach()[self._counted.to(found.device)]
        if not count:
            _check_log_probs(name, rows)
        elif len(wrong := rows[(rows < 0) | (rows >= count)]):
            raise UserError(f"{name} holds {wrong[0]}", f"give 0 to {count - 1}; a label may be -100, which is ignored")
        _checked_on_gpu.update(() if on_cpu else (what,))


def _check_log_probs(name: str, rows: torch.Tensor) -> None:
    far = 1e-3 if rows.dtype.itemsize >= 4 else 0.05  # from 1, in half precision
    if rows.isnan().any():
        raise UserError(f"{name} holds NaN", "give numbers where the label is not -100")
    if (rows.float().logsumexp(1).abs() > far).any():
        probabilities = ((rows.float().sum(1) - 1).abs() < far).all()
        fix = f"pass {name}.log() or numpy.log({name})" if probabilities else f"pass {name}.log_softmax(-1)"
        what = "probabilities" if probabilities else "no log-probabilities: a row's exponentials do not sum to 1"
        raise UserError(f"{name} holds {what}", fix)
