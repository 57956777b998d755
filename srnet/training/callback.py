"""A pruning method in an unmodified `transformers.Trainer`."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState

from srnet.core.errors import UserError
from srnet.training.pruning import Pruning


class PruningCallback(TrainerCallback):  # type: ignore[misc]
    """Adds the penalty's gradient, updates the masks after each step, and logs what was measured.

    A checkpoint of the Trainer holds masks and thresholds with the model, so that a resumed run continues to the bit.
    """

    def __init__(self, pruning: Pruning) -> None:
        self.pruning = pruning

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.max_steps != self.pruning.steps:
            raise UserError(
                f"the Trainer takes {state.max_steps:,} steps, but the masks were attached for {self.pruning.steps:,}",
                f"give attach steps={state.max_steps}",
            )
        if args.fp16:
            raise UserError("fp16 scales gradients, which the penalty does not take part in", "train with bf16")
        _check_optimizer(kwargs.get("optimizer"), self.pruning)
        self.pruning.resume_at(state.global_step)

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # before the first of the accumulated batches: their gradients are added to this one
        penalty = self.pruning.penalty()
        if isinstance(penalty, torch.Tensor):
            penalty.backward()  # type: ignore[no-untyped-call]

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.pruning.advance(state.global_step)

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **kw: Any
    ) -> None:
        for each in (logs, state.log_history[-1] if state.log_history else None):
            if each is not None:
                each.update(self.pruning.figures)


def _check_optimizer(optimizer: Any, pruning: Pruning) -> None:
    """Refuse an optimiser that lacks the scores or decays them."""
    decay = {id(each): group.get("weight_decay", 0.0) for group in optimizer.param_groups for each in group["params"]}
    scores = pruning.scores()
    fix = "pass optimizers=(torch.optim.AdamW(pruning.parameters()), None) to the Trainer"
    if any(id(each) not in decay for each in scores):
        raise UserError("the Trainer's optimiser does not train the scores of the masks", fix)
    if any(decay[id(each)] for each in scores):
        raise UserError("weight decay would move the scores towards the threshold", f"set weight_decay=0, or {fix}")
