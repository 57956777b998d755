"""Pruning in a user's own code: masks on any model, in any training loop."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn

from srnet.core.errors import UserError
from srnet.experiment.identity import describe
from srnet.masks.mask import Mask
from srnet.masks.parametrization import is_masked
from srnet.masks.saved import read_found
from srnet.masks.targets import Selector, matching_parameters
from srnet.pruners.base import Pruner
from srnet.training.method import Method
from srnet.training.pruning import Pruning, check_attachable


def attach(model: nn.Module, pruner: Pruner, steps: int, *, train: Selector = ()) -> Pruning:
    """Put the masks of a pruner on a model that is trained in a loop of its user, and return the handle on them.

        pruning = srnet.attach(model, srnet.MaskTraining(sparsity=0.5), steps=2000)
        optimizer = torch.optim.AdamW(pruning.parameters())
        for batch in batches:
            loss = model(**batch).loss + pruning.penalty()
            loss.backward()
            optimizer.step()
            pruning.step()
            optimizer.zero_grad()
        pruning.bake()

    `model` is any module with linear layers. It is changed in place and used as before. What `pruner` does not train is
    frozen: with `MaskTraining`, `StaticLocal` and `StaticShared` everything but the scores. `pruner.targets` are the
    layers. `steps` is the number of steps of the optimiser that the run has, by which schedules run.

    `train` are modules that train besides the scores, such as `("classifier",)`: name endings, or a regular expression
    for the full name. A randomly initialised head must train somewhere.
    """
    if not pruner.trains:
        raise UserError(f"{pruner.name} finds its mask without training", "use srnet.prune_once")
    if steps < 1:
        raise UserError(f"a run of {steps} steps trains nothing", "give the number of optimiser steps")
    pruner.check_steps(steps)
    _check(model, pruner)
    chosen = matching_parameters(model, train)
    method = pruner.method(fine_tuned=False, eval_every=steps)
    pruning = Pruning(model, method, steps, describe(pruner), pruner.rates(steps))
    for parameter in chosen:
        parameter.requires_grad = True
    pruning.save_plain()
    return pruning


def prune_once(model: nn.Module, pruner: Pruner, batches: Iterable[Any] = ()) -> Pruning:
    """Prune a model without training, and return the handle on its mask.

        pruning = srnet.prune_once(model, srnet.Wanda(0.5), batches)
        pruning.bake()

    `model` is any module with linear layers. It is changed in place and used as before; training it keeps the mask.
    `pruner` is `srnet.OneShot` or `srnet.Wanda`. `batches` are inputs of the model, for a pruner that measures them:
    mappings of its keyword arguments, tuples of its arguments, or single tensors.
    """
    if pruner.trains:
        raise UserError(f"{pruner.name} finds its mask by training", "use srnet.attach")
    _check(model, pruner)
    pruning = Pruning(model, Method(pruner.mask(model, batches)), 0, describe(pruner))
    pruning.save_plain()
    return pruning


def load_mask(model: nn.Module, folder: Path | str, *, strict: bool = True) -> Mask:
    """Give a model the mask that `Pruning.save` wrote to `folder`, and return it: ordinary weights, pruned ones zero.

    `model` has the weights that it had before it was pruned, for example from the same checkpoint. With `strict` every
    tensor that did not train must be the one that the mask was found on, so that the logits are the same. Without it
    the mask is put on other weights, unless it is coded for a backbone.
    """
    _check_unmasked(model)
    found = read_found(folder, model, strict=strict)
    found.put_into(model)
    return found.mask


def _check(model: nn.Module, pruner: Pruner) -> None:
    _check_unmasked(model)
    check_attachable(model, pruner.groups(model).layers)
    if pruner.needs_units:
        pruner.check_model(model)


def _check_unmasked(model: nn.Module) -> None:
    if is_masked(model):
        problem = "the model has masks on it already, or another parametrisation of its weights"
        raise UserError(problem, "call bake() or detach() of its pruning, or remove the parametrisation")
