"""A pruning method on a model, in any training loop: that of `srnet.training.trainer`, or a user's own."""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from srnet.core.errors import UserError
from srnet.masks.frozen import widen_frozen
from srnet.masks.mask import Mask
from srnet.masks.parametrization import detach, is_score, save_plain, weight_name
from srnet.masks.saved import FoundMask
from srnet.training.method import Method

if TYPE_CHECKING:
    from transformers import TrainerCallback

_PATIENCE = 1000
"""Calls of `step` without a step of the optimiser after which something is wrong; accumulation makes a few."""
_ATTACHED: weakref.WeakSet[Pruning] = weakref.WeakSet()
"""Those that are told of every step of an optimiser."""


class Pruning:
    """Masks on a model, made by `srnet.attach` or `srnet.prune_once`; the model is used as before.

    After every step of the optimiser call `step`. `bake` makes ordinary weights of the result, `save` writes it.
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        steps: int,
        settings: Mapping[str, Any] | None = None,
        rates: tuple[float, float] = (5e-5, 5e-5),
        saves_plain: bool = False,
    ) -> None:
        """Put `method` on `model` for `steps` steps; `settings` describe it in a folder, `rates` are learning rates.

        With `saves_plain`, `state_dict` of the model has masked weights under their ordinary names beside the masks.
        """
        self.model, self.method, self.steps = model, method, steps
        self.done = 0
        """The steps that were taken."""
        self.figures: dict[str, float] = {}
        """What the method last measured, such as mask/sparsity."""
        self.settings, self._rates = dict(settings or {}), rates
        self._trained_before = [(each, each.requires_grad) for each in model.parameters()]
        self._found: FoundMask | None = None
        self._is_baked = False
        self._hooks: list[Any] = []
        try:
            method.prepare(model, steps)
        except BaseException:
            self._release()
            raise
        if saves_plain:
            self._hooks = save_plain(method.layers)
        self._watched = self.scores() or [each for each in model.parameters() if each.requires_grad]
        self._has_stepped = self._has_trained = self._has_missed = False
        self._idle = 0
        _ATTACHED.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy of a model together with its masks."""
        self.__dict__.update(state)
        _ATTACHED.add(self)

    def __repr__(self) -> str:
        return f"Pruning({self.settings.get('type', 'method')}, step {self.done} of {self.steps}, {self.mask!r})"

    # --- in a training loop ----------------------------------------------------------------------------------------

    def parameters(self, lr: float | None = None, score_lr: float | None = None) -> list[dict[str, Any]]:
        """What an optimiser of torch trains, in groups: the weights that are not frozen, and the scores of masks.

        `lr` is the learning rate of weights, `score_lr` that of scores. By default they are the published ones; that
        of scores is higher in runs of few steps, in which they would otherwise not reach the threshold. Scores have no
        weight decay: it would move them towards the threshold.
        """
        rates = [own if given is None else given for own, given in zip(self._rates, (lr, score_lr), strict=True)]
        trained = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        weights = [each for name, each in trained.items() if not is_score(name)]
        scores = [each for name, each in trained.items() if is_score(name)]
        groups = [{"params": weights, "lr": rates[0]}, {"params": scores, "lr": rates[1], "weight_decay": 0.0}]
        return [group for group in groups if group["params"]]

    def penalty(self) -> torch.Tensor | float:
        """The method's own term of the loss in the next step; 0 for a method without one."""
        penalty = self.method.penalty(self.done)
        return 0.0 if penalty is None else penalty

    def step(self) -> dict[str, float]:
        """Update the masks after a step of the optimiser. A call after none, as in accumulation, does nothing.

        Returns what was measured, such as mask/sparsity; in most steps nothing.
        """
        if self._found is not None:
            raise UserError("the masks were removed by bake() or detach()", "call step() before that")
        if self._has_stepped:
            return self.advance(self.done + 1)
        self._idle += 1
        if self._has_missed and not self._has_trained:
            problem = f"the optimiser does not train the {'scores of the masks' if self.scores() else 'masked model'}"
            raise UserError(problem, "after attach, make it from pruning.parameters()")
        if self._idle >= _PATIENCE:
            problem = f"step() was called {_PATIENCE} times without a step of an optimiser of torch"
            raise UserError(problem, "call it after optimizer.step(), or advance(step) where there is none")
        return {}

    def advance(self, step: int) -> dict[str, float]:
        """Update the masks after the step with this number, for loops that count their steps themselves."""
        if any(each.itemsize < 4 for each in self.scores()):
            raise UserError("the scores are in half precision", "convert the model before attach, or use autocast")
        figures = self.method.after_step(step)
        self.resume_at(step)
        self.figures |= figures
        return figures

    def resume_at(self, step: int) -> None:
        """Continue after this number of steps; the model has the masks of that moment."""
        self.done, self._idle, self._has_trained, self._has_stepped = step, 0, True, False

    def scores(self) -> list[nn.Parameter]:
        """The trainable scores of the masks; none for a method that ranks the weights themselves."""
        return [each for name, each in self.model.named_parameters() if is_score(name)]

    def _note_step(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimiser has taken a step: of what the method trains, of this model's other parameters, or of neither."""
        moved = {id(each) for group in optimizer.param_groups for each in group["params"]}
        if any(id(each) in moved for each in self._watched):
            self._has_stepped = True
        elif not self._has_trained:
            self._has_missed |= any(id(each) in moved for each in self.model.parameters())

    @property
    def finished(self) -> bool:
        """Whether the method needs no further step."""
        return self.done >= self.method.stop_at()

    def may_select(self) -> bool:
        """Whether the model may be taken as the result now: the final sparsity is reached."""
        return self.method.may_select(self.done)

    def callback(self) -> TrainerCallback:
        """A callback for `transformers.Trainer`, which then calls `penalty` and `step` itself."""
        from srnet.training.callback import PruningCallback  # not at the top: it imports transformers

        return PruningCallback(self)

    # --- the result ------------------------------------------------------------------------------------------------

    @property
    def mask(self) -> Mask:
        """What is kept now. A budget is met to the weight after the last step, and after `bake` and `save`.

        `L0` and `SoftMovement` have none: their penalty determines the sparsity.
        """
        return self.method.current_mask() if self._found is None else self._found.mask

    @property
    def sparsity(self) -> float:
        """The share of the masked weights that is pruned, counted on the mask."""
        return self.mask.sparsity

    def bake(self) -> nn.Module:
        """Make ordinary weights of the result, pruned ones zero; restore which parameters train; return the model."""
        if not self._is_baked:  # else it may have been trained further
            self._check_trained()
            self._found, self._is_baked = self._settled(), True
            self._release()
            self._found.put_into(self.model)
        return self.model

    def detach(self) -> nn.Module:
        """Remove the masks, leave the weights as they are without them, also after `bake`, and return the model."""
        self._found = self._settled()
        self._release()
        if self._is_baked:
            self._is_baked = False
            for name in self._found.mask:
                self.model.get_parameter(name).data = self._found.tensors[name]
        return self.model

    def save(self, folder: Path | str) -> None:
        """Write the mask, its settings, checksums, and the tensors that trained to a new `folder`, for `load_mask`.

        It may be called before and after `bake`.
        """
        self._check_trained()
        name = getattr(getattr(self.model, "config", None), "_name_or_path", "")
        facts = {**self.settings, "step": self.done, "steps": self.steps}
        self._settled().save(folder, str(name or ""), facts)

    def _settled(self) -> FoundMask:
        if self._found is not None:
            return self._found
        self.method.settle(self.done)
        tensors, mask = self.method.result()
        assert mask is not None
        return FoundMask(mask, tensors, () if self.method.keeps_weights else self._trained())

    def _check_trained(self) -> None:
        if self._found is None:
            if self.steps and not self.done:
                raise UserError("the masks were not trained", "call step() after each optimizer.step()")
            self.check_finite()

    def check_finite(self) -> None:
        """Refuse to continue a training with non-finite parameters."""
        trained = [(name, each) for name, each in self.model.named_parameters() if each.requires_grad]
        # at once: each `bool` would wait for a GPU
        finite = torch.stack([each.isfinite().all() for _, each in trained]).tolist() if trained else []
        for (name, _), is_finite in zip(trained, finite, strict=True):
            if not is_finite:
                problem = f"training diverged before step {self.done}: {name} has non-finite values"
                raise UserError(problem, "lower the learning rates, or the penalty")

    def _trained(self) -> set[str]:
        """The ordinary names of what may have changed: what trains or was rounded, and buffers that are saved.

        Without a step of an optimiser no parameter has.
        """
        names = self.model.state_dict().keys() & dict(self.model.named_buffers()).keys() | self.method.rounded
        for name, each in self.model.named_parameters():
            if each.requires_grad and (self._has_trained or self._has_stepped):
                names.add(name.replace(".parametrizations.weight.original", ".weight"))
        return {name for name in names if ".parametrizations." not in name}

    def _release(self) -> None:
        _ATTACHED.discard(self)
        for hook in self._hooks:
            hook.remove()
        widen_frozen(self.model)
        detach(self.method.layers)
        for each, trains in self._trained_before:
            each.requires_grad = trains

    # --- saving and resuming ---------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors that training changes: parameters with a gradient, and all buffers, such as thresholds."""
        trained = {name: each for name, each in self.model.named_parameters() if each.requires_grad}
        return {**trained, **dict(self.model.named_buffers())}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What a resumed run needs: scores, thresholds, trained weights, and the step.

        Save it with the states of the optimiser and of the random number generators. To resume, load the same
        checkpoint, attach in the same way, and call `load_state_dict`.
        """
        known = {"step": torch.tensor(self.done), "identity": self._identity()}
        return {**known, **{name: each.detach() for name, each in self.tensors().items()}}

    def _identity(self) -> torch.Tensor:
        """A checksum of the pruner and the number of steps."""
        text = json.dumps([self.settings, self.steps], sort_keys=True)
        return torch.tensor(list(hashlib.sha256(text.encode()).digest()), dtype=torch.uint8)

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continue from `state`: what `state_dict` returned in a run of the same model, pruner and number of steps."""
        own = self.tensors()
        wrong = [name for name, each in own.items() if name not in state or state[name].shape != each.shape]
        if wrong or not {"step", "identity"} <= state.keys():
            raise UserError(f"the state has no fitting '{wrong[0] if wrong else 'step'}'", "attach as in that run")
        if not torch.equal(state["identity"].cpu(), self._identity()):
            raise UserError("the state is of another pruner or number of steps", "attach as in that run")
        for name, tensor in own.items():
            tensor.copy_(state[name])
        self.resume_at(int(state["step"]))


def _note_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    for pruning in list(_ATTACHED):
        pruning._note_step(optimizer)


# Not the version of a parameter: fused optimisers do not increase it.
register_optimizer_step_post_hook(_note_step)


def check_attachable(model: nn.Module, layers: Mapping[str, nn.Module]) -> None:
    """Refuse a model that is wrapped, and layers whose weights cannot be masked."""
    kind = type(model).__name__
    if hasattr(model, "_orig_mod") or kind in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"):
        raise UserError(f"the model is wrapped in a {kind}", "attach to the model itself, and wrap it afterwards")
    if "" in layers:
        raise UserError("the model is a linear layer itself", "put it into an nn.Sequential")
    for name, layer in layers.items():
        weight = layer.weight
        if not isinstance(weight, torch.Tensor) or not weight.is_floating_point() or weight.is_meta:
            raise UserError(f"{weight_name(name)} holds no floating-point numbers", "load the model unquantised")
        if not bool(weight.isfinite().all()):
            raise UserError(f"{weight_name(name)} holds non-finite values", "load another checkpoint")
