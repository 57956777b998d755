"""The losses as functions of a batch, for a training loop of one's own.

    loss = srnet.losses.poe(model(**batch).logits, labels, bias=log_probs[rows])

Each returns the mean over the labels that are not -100: a tensor with one number, 0 if all labels are -100. `logits` is
a tensor of rows x classes; or of rows x tokens x classes, with labels of rows x tokens (shift those of a causal
language model first). Half precision is computed in float32. Labels and other inputs are tensors, NumPy arrays or
lists, and are moved to the device of the logits. The gradient of an input, such as `bias`, is not stopped.

Inputs are checked: shapes, labels, NaN, and that log-probabilities are no probabilities and make rows that sum to 1.
To look at a tensor on a GPU the program has to wait for it. Therefore only the first batch with an input of that name,
type and number of classes is checked there, and none inside `torch.compile`. On the CPU every batch is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from srnet.config.values import Positive, Share, kind_of, located
from srnet.core.errors import UserError
from srnet.core.lazy import F, torch
from srnet.objectives.ce import cross_entropy
from srnet.objectives.confreg import confidence_regularisation
from srnet.objectives.distillation import Temperature, shared
from srnet.objectives.group_dro import GroupDRO
from srnet.objectives.jtt import JustTrainTwice
from srnet.objectives.poe import ProductOfExperts
from srnet.objectives.reweight import example_reweighting
from srnet.tasks.answers.classes import CLASSES

Given: TypeAlias = "torch.Tensor | np.ndarray | Sequence[Any]"
_IGNORED = -100
_SUM, _HALF_SUM = 1e-3, 0.05
"""How far the sum of a row may be from 1, also in half precision."""
_checked: set[tuple[Any, ...]] = set()
"""What was checked on a GPU."""


def ce(logits: torch.Tensor, labels: Given) -> torch.Tensor:
    """Cross-entropy, - y log p_m: the mean over the rows of `logits` whose class in `labels` is not -100."""
    batch = _Batch(logits, labels)
    return batch.mean(cross_entropy(batch.logits, batch.labels))


def poe(logits: torch.Tensor, labels: Given, *, bias: Given, strength: float = 1.0) -> torch.Tensor:
    """Product of experts, - y log softmax(log p_m + strength log p_b): the mean over `labels` that are not -100.

    `bias` are log-probabilities of a bias model, of the shape of `logits`, and `strength` is its weight, above 0.
    """
    experts, batch = ProductOfExperts(strength), _Batch(logits, labels)
    product = experts.product(batch.logits, batch.scores("bias", bias))
    return F.cross_entropy(product, batch.labels, reduction="sum") / batch.count


def reweight(logits: torch.Tensor, labels: Given, *, bias: Given) -> torch.Tensor:
    """Example reweighting, - (1 - beta) y log p_m: the mean over `labels` that are not -100.

    `bias` are log-probabilities of a bias model, of the shape of `logits`; beta is its probability of the label.
    """
    batch = _Batch(logits, labels)
    return batch.mean(example_reweighting(batch.logits, batch.labels, batch.scores("bias", bias)))


def confreg(logits: torch.Tensor, labels: Given, *, bias: Given, teacher: Given) -> torch.Tensor:
    """Confidence regularisation, - S(p_t, beta) log p_m: the mean over `labels` that are not -100.

    `bias` and `teacher` are log-probabilities of a bias model and of a model trained with cross-entropy, of the shape
    of `logits`. S smooths the teacher where beta, the bias model's probability of the label, is high.
    """
    batch = _Batch(logits, labels)
    needs = batch.scores("bias", bias), batch.scores("teacher", teacher)
    return batch.mean(confidence_regularisation(batch.logits, batch.labels, *needs))


def distil(
    logits: torch.Tensor,
    labels: Given,
    *,
    teacher: Given,
    weight: float = 0.5,
    temperature: float = 2.0,
    loss: Callable[..., torch.Tensor] = ce,
    **needs: Any,
) -> torch.Tensor:
    """Distillation, (1 - weight) loss + weight T^2 KL(teacher || model): the mean over `labels` that are not -100.

    `teacher` are its logits or log-probabilities, of the shape of `logits`; `temperature` is T, which softens both.
    `loss` is another function of this module and `needs` what it needs; `confreg` gets the same teacher.
    """
    batch, weight = _Batch(logits, labels), _option("weight", weight, Share)
    known, temperature = batch.scores("teacher", teacher, False), _option("temperature", temperature, Temperature)
    ours = batch.logits.masked_fill(~batch.kept[:, None], 0.0)  # as the teacher there
    imitation = CLASSES.imitation(ours, known, temperature) * (len(ours) / batch.count)
    own = loss(logits, labels, **needs, **({"teacher": teacher} if loss is confreg else {}))
    return shared(own, imitation, weight)


def group_dro(
    logits: torch.Tensor, labels: Given, *, group: Given, log_weights: torch.Tensor, eta: float = 0.01
) -> torch.Tensor:
    """Group DRO, sum_g q_g loss_g, after groups with a high loss have gained weight: q_g <- q_g exp(eta loss_g) / Z.

    `group` is the number of each row's group, of the shape of `labels`; `loss_g` is the mean cross-entropy of those
    whose label is not -100. `log_weights` is log q, a tensor of your own such as `torch.zeros(groups, device=device)`.
    It is updated in place, unless gradients are disabled: keep it from batch to batch, and in checkpoints. Processes of
    `torch.distributed` share a batch, so each has to call this, and DDP averages the gradients.
    """
    objective, batch = GroupDRO(eta), _Batch(logits, labels)
    if not isinstance(log_weights, torch.Tensor) or log_weights.ndim != 1 or not log_weights.is_floating_point():
        raise UserError("log_weights is no tensor with a number for each group", "give torch.zeros(groups)")
    objective.log_q, groups = log_weights.detach(), len(log_weights)
    numbers = batch.numbers("group", group, groups).masked_fill(~batch.kept, groups)
    with torch.autocast(logits.device.type, enabled=False):  # it would multiply matrices in half precision
        loss = objective(batch.logits, batch.labels, group=numbers)
    if torch.is_grad_enabled():
        log_weights.data.copy_(objective.log_q)
    return loss


def jtt(logits: torch.Tensor, labels: Given, *, early: Given, upweight: float = 6.0, mean: float = 1.0) -> torch.Tensor:
    """Just Train Twice, - w y log p_m / mean: the mean over `labels` that are not -100.

    w is `upweight` where a briefly trained model is wrong, else 1; `early` are its log-probabilities or logits, of the
    shape of `logits`. `mean` is the mean of w in all training data, 1 + (upweight - 1) * the share of its errors; by
    default the loss is not divided, which only scales it.
    """
    objective, batch = JustTrainTwice(upweight), _Batch(logits, labels)
    known, mean = batch.scores("early", early, False), _option("mean", mean, Positive)
    return batch.mean(objective.losses(batch.logits, batch.labels, known, mean))


def _option(name: str, value: Any, kind: Any) -> float:
    with located(name):
        found: float = kind_of(kind).convert(value)
    return found


# --- a batch, checked ----------------------------------------------------------------------------------------------


class _Batch:
    """Logits and labels by row, and which rows count."""

    def __init__(self, logits: torch.Tensor, labels: Given) -> None:
        if not isinstance(logits, torch.Tensor) or not logits.is_floating_point() or not logits.ndim:
            fix = "give what the model returns: model(**batch).logits"
            raise UserError(f"logits is no tensor of rows x classes, but {type(logits).__name__}", fix)
        self._shape, rows = logits.shape, logits.reshape(-1, logits.shape[-1])
        self.logits = rows.float() if rows.dtype.itemsize < 4 else rows
        self.labels = self.numbers("labels", labels, rows.shape[1])
        self.kept = self.labels != _IGNORED
        self.count = self.kept.sum().clamp_min(1)

    def mean(self, losses: torch.Tensor) -> torch.Tensor:
        return losses.masked_fill(~self.kept, 0.0).sum() / self.count

    def numbers(self, name: str, given: Given, count: int) -> torch.Tensor:
        """A number below `count` for each row."""
        found = _tensor(name, given)
        if found.shape != self._shape[:-1] or found.is_floating_point():
            problem = f"{name} has the shape {list(found.shape)} and the type {found.dtype}"
            raise UserError(problem, f"give whole numbers of the shape {list(self._shape[:-1])}, one for each row")
        found = found.reshape(-1).long()
        if name == "labels":
            self._counted = found != _IGNORED  # where they were given, perhaps on the CPU
        self._check(name, found, _check_numbers, count)
        return found.to(self.logits.device)

    def scores(self, name: str, given: Given, sum_to_1: bool = True) -> torch.Tensor:
        """Log-probabilities by row, or logits if they need not `sum_to_1`; 0 in rows that do not count."""
        found = _tensor(name, given)
        if found.shape != self._shape:
            problem = f"{name} has the shape {list(found.shape)}, and logits {list(self._shape)}"
            raise UserError(problem, f"give as many numbers for each row of logits: {name}=log_probs[rows]")
        found = found.reshape(self.logits.shape)
        self._check(name, found, _check_scores, sum_to_1)
        return found.to(self.logits).masked_fill(~self.kept[:, None], 0.0)

    def _check(self, name: str, found: torch.Tensor, check: Callable[..., None], rule: int) -> None:
        """Check the rows that count."""
        on_cpu = found.device.type == self._counted.device.type == "cpu"
        what = (name, rule, found.dtype, self.logits.shape[1])
        if not torch.compiler.is_compiling() and (on_cpu or what not in _checked):
            check(name, found.detach()[self._counted.to(found.device)], rule)
            _checked.update(() if on_cpu else (what,))


def _tensor(name: str, given: Given) -> torch.Tensor:
    try:
        return given if isinstance(given, torch.Tensor) else torch.tensor(np.asarray(given))
    except (TypeError, ValueError):
        raise UserError(f"{name} is no array of numbers", "give a tensor, a NumPy array or a list") from None


def _check_numbers(name: str, rows: torch.Tensor, count: int) -> None:
    if wrong := rows[(rows < 0) | (rows >= count)].tolist():
        raise UserError(f"{name} holds {wrong[0]}", f"give 0 to {count - 1}; a label may be -100, which is ignored")


def _check_scores(name: str, rows: torch.Tensor, sum_to_1: bool) -> None:
    """An error for NaN and for probabilities; with `sum_to_1` also for what is no logarithm of them."""
    if rows.isnan().any():
        raise UserError(f"{name} holds NaN", "give numbers where the label is not -100")
    tolerance = _SUM if rows.dtype.itemsize >= 4 else _HALF_SUM
    off, off_as_logs = ((each.double().sum(1) - 1).abs() > tolerance for each in (rows, rows.exp()))
    if len(rows) and (rows >= 0).all() and not off.any():
        raise UserError(f"{name} holds probabilities", f"pass their logarithms: {name}.log(), or numpy.log({name})")
    if sum_to_1 and off_as_logs.any():
        problem = f"{name} holds no log-probabilities: a row of exp({name}) does not sum to 1"
        raise UserError(problem, f"give a logarithm for each class; for logits, {name}.log_softmax(-1)")
