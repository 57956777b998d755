"""Callbacks of `transformers.Trainer`: a pruning method in an unmodified one, and the time that a training takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_callback import ExportableState

from srnet.core.device import synchronize
from srnet.core.errors import UserError
from srnet.training.pruning import Pruning


class PruningCallback(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Adds the penalty's gradient, updates the masks after each step, and logs what was measured.

    A checkpoint of the Trainer holds masks and thresholds with the model, so that a resumed run continues to the bit.
    """

    def __init__(self, pruning: Pruning) -> None:
        self.pruning = pruning

    def state(self) -> dict[str, Any]:
        """What a checkpoint of the Trainer records."""
        return {"args": {}, "attributes": {"settings": self.pruning.settings}}

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.max_steps != self.pruning.steps:
            raise UserError(
                f"the Trainer takes {state.max_steps:,} steps, but the masks were attached for {self.pruning.steps:,}",
                f"give attach steps={state.max_steps}",
            )
        if (state.stateful_callbacks or {}).get(type(self).__name__, self.state()) != self.state():
            raise UserError("the Trainer's checkpoint is of another pruner", "attach as in that run")
        _check_optimizer(kwargs.get("optimizer"), self.pruning)
        self.pruning.resume_at(state.global_step)

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # before the first of the accumulated batches: their gradients are added to this one
        penalty = self.pruning.penalty()
        if isinstance(penalty, torch.Tensor):
            scaler = getattr(kwargs.get("optimizer"), "scaler", None)  # fp16: the gradients are divided by its scale
            (penalty if scaler is None else scaler.scale(penalty)).backward()

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


class Clock(TrainerCallback):  # type: ignore[misc]
    """Counts the seconds in which steps are taken, and of these the ones in which a batch was made.

    A window of time begins with a batch or a step, and ends with a step after which the Trainer logs, evaluates or
    saves, which does not count. A GPU is waited for at both ends, where it has nothing to do, and not at every step.
    """

    def __init__(self) -> None:
        self.data = self.total = 0.0
        self._began: float | None = None

    @property
    def data_percent(self) -> float | None:
        return round(100.0 * self.data / self.total, 3) if self.total else None

    def figures(self) -> dict[str, float]:
        return {} if self.data_percent is None else {"time/data_percent": self.data_percent}

    def timed(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """`make`, whose calls count as time for data."""

        def made(*args: Any) -> Any:
            self._begin()
            began = time.perf_counter()
            result = make(*args)
            self.data += time.perf_counter() - began
            return result

        return made

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._begin()

    def on_step_end(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        stops = control.should_log, control.should_evaluate, control.should_save, control.should_training_stop
        if any(stops) and self._began is not None:
            synchronize()
            self.total += time.perf_counter() - self._began
            self._began = None

    def _begin(self) -> None:
        if self._began is None:
            synchronize()
            self._began = time.perf_counter()
