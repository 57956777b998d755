"""One training run on `transformers.Trainer`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import (
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from srnet.core.device import device_name, on_cpu, synchronize
from srnet.core.errors import UserError
from srnet.core.progress import Watch
from srnet.masks.parametrization import is_score
from srnet.objectives.base import Loss, StatefulLoss
from srnet.training.callback import Clock
from srnet.training.checkpoint import TRAINER_STATE, Checkpoint, random_state, restore_random_state
from srnet.training.data import Encoded, training_order
from srnet.training.hardware import Ranks, check_memory, computing_in, connect, hardware_arguments, out_of_memory
from srnet.training.method import Method, Snapshot
from srnet.training.parts import Batch, SharedNoise, random_masks, split_batch
from srnet.training.predict import predict
from srnet.training.pruning import Pruning
from srnet.training.settings import TrainingSettings

_TENSORBOARD = "TENSORBOARD_LOGGING_DIR"


@dataclass
class Result:
    """The result of a run: the selected snapshot, its step, and the log."""

    snapshot: Snapshot
    step: int
    dev_score: float | None
    """The score on ID dev; None where nothing was selected by it."""
    steps: int = 0
    """Optimisation steps of the run."""
    step_seconds: float | None = None
    """Seconds per step, evaluations included, of the steps taken in this process; None if it took none."""
    device: str = "cpu"
    """The device of the steps: a pace is valid for one device only."""
    data_percent: float | None = None
    """The share of the steps' time, without evaluations, in which the model waited for its batch."""
    log: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """The inputs of one training."""

    model: nn.Module
    method: Method
    loss: Loss
    settings: TrainingSettings
    train: Encoded
    dev: Encoded
    score: Callable[[np.ndarray], float]
    """The task's metric on ID dev, from logits. Only this selects a checkpoint."""
    folder: Path
    """The folder of the checkpoint, until the run is over."""
    trace: dict[str, tuple[Encoded, Callable[[np.ndarray], float]]] = field(default_factory=dict)
    """Further data that are scored at every evaluation, for curves: logged, and never used for selection."""
    needs: tuple[str, ...] = ()
    """The fields of a batch that only the loss reads, besides labels."""
    by_rows: bool = False
    """Whether the loss is a mean over rows, as in `RegisteredLoss`. It matters for a batch in parts."""
    teacher: nn.Module | None = None
    """A model whose logits on every batch the loss reads as `teacher`."""
    loss_state: StatefulLoss | None = None
    """The state of the loss, prepared before the run and kept in checkpoints."""
    select_after: float = 0.0
    """The share of the run before which no checkpoint is selected; a method may be stricter."""
    report_to: tuple[str, ...] = ()
    tracker_folder: Path | None = None
    """TensorBoard's folder, if it is not that of the checkpoints; it is kept after the run."""
    watch: Watch | None = None


class _MethodCallback(TrainerCallback):  # type: ignore[misc]
    """Calls the method after each optimiser step, and stops when it needs no further steps."""

    def __init__(self, run: Run, pruning: Pruning) -> None:
        self.run, self.pruning = run, pruning
        self.figures = pruning.figures

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.pruning.advance(state.global_step)
        if state.global_step % self.run.settings.eval_every == 0 or self.pruning.finished:
            control.should_evaluate = control.should_save = control.should_log = True
        if self.pruning.finished:
            control.should_training_stop = True
        if self.run.watch is not None:
            self.run.watch(state.global_step, self.run.method.stop_at(), self.figures)

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **kw: Any
    ) -> None:
        self.figures |= {name: float(v) for name, v in (logs or {}).items() if isinstance(v, (int, float))}


class _SubnetworkTrainer(Trainer):  # type: ignore[misc]
    """`Trainer` with our objective, batch order, evaluation by tokens, and atomic checkpoints."""

    def __init__(self, run: Run, pruning: Pruning, args: TrainingArguments, ranks: Ranks) -> None:
        total = pruning.steps
        self.run, self.pruning, self.ranks, self.first_eligible = run, pruning, ranks, run.select_after * total
        self.folder = run.folder / "checkpoint"
        self.order = training_order(run.train.lengths, run.settings.batch_size, total, run.settings.seed)
        self.clock, self._rated = Clock(), False
        self.best: Snapshot = {}
        self.best_step, self.best_score = 0, -math.inf
        callback = _MethodCallback(run, pruning)
        super().__init__(model=run.model, args=args, train_dataset=run.train, callbacks=[callback, self.clock])  # type: ignore[arg-type]
        # Our losses are means over the batch. For sums over `num_items_in_batch` the Trainer would multiply them by the
        # number of ranks (`average_tokens_across_devices`).
        self.loss_is_scaled_for_ga = False
        self.model_accepts_loss_kwargs = False
        for noisy in (PrinterCallback, ProgressCallback):
            self.remove_callback(noisy)
        self._figures = callback.figures
        self._noise = SharedNoise(random_masks(run.model) if run.settings.accumulate > 1 else [])
        self._restored: Checkpoint | None = None

    # --- batches and loss ------------------------------------------------------------------------------------------

    def get_train_dataloader(self) -> Any:
        loader = torch.utils.data.DataLoader(
            self.run.train,
            batch_sampler=self.order[:, self.ranks.rank :: self.ranks.world].tolist(),
            collate_fn=self.clock.timed(self.run.train.collate),
            pin_memory=not on_cpu(),
        )
        # `prepare` would divide the batches among the ranks a second time; the Trainer moves them to the device itself
        return self.accelerator.prepare(loader) if self.ranks.world == 1 else loader

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        # Before the forward pass, so that it comes last in the backward pass: its gradients, as large as all scores,
        # are then added to existing ones instead of taking memory of their own beside the masked weights.
        penalty = self.pruning.penalty()
        outputs, logits = self._forward(model, inputs)
        loss = self._loss(logits, inputs) + penalty
        return (loss, outputs) if return_outputs else loss

    def _forward(self, model: nn.Module, batch: Batch) -> tuple[Any, torch.Tensor]:
        """What the model returns, and the logits that the loss reads."""
        outputs = model(**self._inputs(batch))
        return outputs, self.run.train.hide_padding(outputs.logits.float(), batch["attention_mask"])

    def _inputs(self, batch: Batch) -> Batch:
        others = ("labels", *self.run.needs)
        return {name: each for name, each in batch.items() if name not in others}

    def _loss(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        needs = {need: batch[need] for need in self.run.needs}
        if self.run.teacher is not None:
            needs["teacher"] = self._taught(self.run.teacher, self.run.train.taught(self._inputs(batch), needs))
        return self.run.loss(logits, batch["labels"], **needs)

    @torch.no_grad()
    def _taught(self, teacher: nn.Module, inputs: Batch) -> torch.Tensor:
        logits: torch.Tensor = teacher.to(self.args.device)(**inputs).logits
        return logits.float()

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        parts = self.run.settings.accumulate
        if parts == 1:
            step: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
            return step
        model.train()
        return self._step_in_parts(model, self._prepare_inputs(inputs), parts)

    def _step_in_parts(self, model: nn.Module, batch: Batch, count: int) -> torch.Tensor:
        """The gradients of a batch, one part after the other. The penalty counts once; DDP averages at the end."""
        parts, total = split_batch(batch, count), torch.zeros((), device=batch["labels"].device)
        whole = None if self.run.by_rows else self._whole_loss(model, batch, parts)
        self._noise.begin_batch()
        for number, part in enumerate(parts, 1):
            penalty = self.pruning.penalty() if number == count else 0.0
            self._noise.begin_part()
            with contextlib.nullcontext() if number == count else self.accelerator.no_sync(model):
                logits = self._forward(model, part)[1]
                # the product has the gradient of the whole batch's loss, and not its value
                loss = self._loss(logits, part) / count if whole is None else (logits * whole[1][number - 1]).sum()
                self.accelerator.backward(loss + penalty)
            total += penalty if whole else (loss + penalty).detach()
        return total if whole is None else total.detach() + whole[0]

    def _whole_loss(
        self, model: nn.Module, batch: Batch, parts: list[Batch]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """The loss of a batch that is no mean over rows, and its gradient for the logits of each part.

        The random state is restored, so that dropout is the same when the parts are computed again with gradients.
        """
        before = random_state()
        self._noise.begin_batch()
        found = []
        with torch.no_grad():
            for part in parts:
                self._noise.begin_part()
                found.append(self._forward(model, part)[1])
        restore_random_state(before)
        logits = torch.cat(found).requires_grad_()
        loss = self._loss(logits, batch)
        (gradient,) = torch.autograd.grad(loss, logits)
        return loss.detach(), gradient.tensor_split(len(parts))

    def create_optimizer(self, model: Any = None) -> Any:
        """The optimiser of transformers, with a separate learning rate for scores if one is set."""
        optimizer = super().create_optimizer(model)
        if self.run.settings.score_rate is not None and not self._rated:
            _rate_scores(optimizer, self.pruning.scores(), self.run.settings.score_rate)
            self._rated = True
        return optimizer

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """As transformers has it, without biases and norms, and also without scores, which decay would prune."""
        matrices = {name for name, each in model.named_parameters() if each.ndim > 1 and not is_score(name)}
        return [name for name in super().get_decay_parameter_names(model) if name in matrices]  # tied ones once

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        # fp16: the norm of a step that was left out is infinite, which is no number in JSON
        finite = {name: each for name, each in logs.items() if name != "grad_norm" or math.isfinite(each)}
        super().log({**finite, **self.clock.figures()}, *args, **kwargs)

    # --- evaluation and selection ----------------------------------------------------------------------------------

    def _score(self, data: Encoded, judge: Callable[[np.ndarray], float]) -> float:
        """The score of the model, computed by the main process, so that all ranks select the same checkpoint."""
        logits = predict(self.run.model, data, self.ranks, f"the model at step {self.state.global_step}")
        return self.ranks.on_main(lambda: judge(logits))

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        # Every rank gets the same gradients, clips and steps by itself, and so has the same weights, except for the
        # last bit on different hardware. Results are taken here, so here the weights must be equal.
        self.ranks.align(self.pruning.tensors().values())
        self.pruning.check_finite()
        score, step = self._score(self.run.dev, self.run.score), self.state.global_step
        metrics = {"eval_score": score}
        eligible = step >= self.first_eligible and self.pruning.may_select()
        if score > self.best_score and eligible:
            self.best, self.best_step, self.best_score = self.run.method.snapshot(), step, score
        traced = {f"trace/{name}": self._score(data, judge) for name, (data, judge) in self.run.trace.items()}
        masks = {name: value for name, value in self._figures.items() if name.startswith("mask/")}
        self.log({**metrics, **traced, **masks})
        self.control: TrainerControl = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        if self._stalled():
            self.control.should_training_stop = True
        return metrics

    def _stalled(self) -> bool:
        return self.run.settings.stops_after(
            entry["eval_score"] for entry in self.state.log_history if "eval_score" in entry
        )

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        if self.optimizer is None:
            return
        Checkpoint.write(
            self.folder,
            self.pruning,
            self.optimizer,
            self.lr_scheduler,
            json.dumps(asdict(self.state), default=str),
            self.best,
            {
                "best_step": self.best_step,
                "best_score": self.best_score,
                "best": bool(self.best),
                "scaler": None if self.accelerator.scaler is None else self.accelerator.scaler.state_dict(),
            },
            self.run.loss_state.state_dict() if self.run.loss_state else {},
            self.ranks,
        )

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self._restored = Checkpoint(Path(resume_from_checkpoint))
        self._restored.restore_model(self.pruning)
        if self.run.loss_state is not None:
            self.run.loss_state.load_state_dict(self._restored.loss)
        notes = self._restored.notes
        if notes["best"]:
            self.best, self.best_step, self.best_score = self._restored.best, notes["best_step"], notes["best_score"]

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and self._restored is not None and self.optimizer is not None:
            self._restored.restore_optimizer(self.optimizer, self.lr_scheduler)

    def _load_scaler(self, checkpoint: str | None) -> None:
        scaler = self._restored.notes.get("scaler") if checkpoint is not None and self._restored is not None else None
        if scaler is not None and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(scaler)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None and self._restored is not None:
            self._restored.restore_rng(self.ranks.rank)

    # --- from the beginning to the end -----------------------------------------------------------------------------

    def complete(self) -> float | None:
        """Train to the end, from the checkpoint if there is one. Returns the seconds per step, if any was left."""
        resumes = self.ranks.on_main(lambda: Checkpoint.exists(self.folder))
        if resumes:
            self.state = TrainerState.load_from_json(str(self.folder / TRAINER_STATE))
        before, started = self.state.global_step, time.monotonic()
        if resumes and (before >= self.run.method.stop_at() or self._stalled()):
            self._load_from_checkpoint(str(self.folder))
        else:
            self.train(resume_from_checkpoint=str(self.folder) if resumes else None)
        synchronize()
        steps = self.state.global_step - before
        return (time.monotonic() - started) / steps if steps else None

    def result(self, seconds: float | None) -> Result:
        """The result of the completed training, which took `seconds` per step."""
        if not self.best:  # the method does not select (IMP), or no evaluation was eligible: the end of the run
            self.best, self.best_step = self.run.method.snapshot(), self.state.global_step
        score = self.best_score if math.isfinite(self.best_score) else None
        self.ranks.wait()  # the folder may be deleted once one rank returns, so all must have read it by then
        # the clocks of the ranks differ, so the main process's values are used
        pace, waited, log = self.ranks.on_main(lambda: (seconds, self.clock.data_percent, self.state.log_history))
        device, steps = device_name(), self.state.global_step
        return Result(self.best, self.best_step, score, steps, pace, device, waited, log)


def _rate_scores(optimizer: torch.optim.Optimizer, found: list[nn.Parameter], rate: float) -> None:
    """Move the scores to a group with `rate`; it decays like the others."""
    scores, rated = {id(each) for each in found}, []
    for group in optimizer.param_groups:
        rated += [p for p in group["params"] if id(p) in scores]
        group["params"] = [p for p in group["params"] if id(p) not in scores]
    optimizer.param_groups[:] = [group for group in optimizer.param_groups if group["params"]]
    if rated:
        optimizer.add_param_group({"params": rated, "lr": rate, "weight_decay": 0.0})


def _arguments(run: Run, total: int, ranks: Ranks) -> TrainingArguments:
    settings = run.settings
    rows = ranks.share(settings.batch_size)
    if rows % settings.accumulate:
        problem = f"accumulate {settings.accumulate:,} does not divide the {rows:,} rows of a process"
        raise UserError(problem, f"give a divisor of {rows:,}")
    if settings.checkpointing and not getattr(run.model, "supports_gradient_checkpointing", False):
        raise UserError(f"{type(run.model).__name__} has no gradient checkpointing", "leave checkpointing out")
    arguments = TrainingArguments(
        output_dir=str(run.folder),
        max_steps=total,
        per_device_train_batch_size=rows,
        learning_rate=settings.learning_rate,
        warmup_steps=round(settings.warmup * total),
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        lr_scheduler_type="linear",
        seed=settings.seed,
        eval_strategy="no",  # the method's callback decides, so that the last step is always evaluated
        save_strategy="no",
        logging_steps=max(1, min(50, settings.eval_every)),
        report_to=list(run.report_to) or "none",
        disable_tqdm=True,
        remove_unused_columns=False,
        logging_nan_inf_filter=False,
        log_level="error",
        log_level_replica="error",
        **hardware_arguments(settings, ranks.world),
    )
    if arguments.world_size != ranks.world:  # each would train alone, and all would write to one folder
        raise UserError(
            f"{ranks.world} processes were started, but transformers sees {arguments.world_size}",
            "start them with torchrun or accelerate launch",
        )
    arguments._n_gpu = min(1, arguments.n_gpu)  # a process uses one GPU: DataParallel would copy masks at every step
    return arguments


def train(run: Run) -> Result:
    """The result of a training, resumed from `run.folder` if it has a complete checkpoint of an earlier attempt.

    Under `torchrun` every rank calls this with the same run, and every rank gets the same result: that of one process
    with the same settings, up to the order of summation and the noise of dropout. `settings.batch_size` is the batch of
    all ranks together. Only the main process writes, emits, watches and reports.
    """
    ranks = connect()
    if not ranks.is_main:
        run = replace(run, watch=None, report_to=())
    total = run.settings.total_steps(len(run.train))
    arguments = _arguments(run, total, ranks)
    with _emitting_on_main(run.method, ranks):
        pruning = Pruning(run.model, run.method, total)
        if run.loss_state is not None:
            run.loss_state.prepare(torch.from_numpy(run.train.labels), **run.train.extras)
        check_memory(run.model)
        with _tensorboard_in(run.tracker_folder):
            trainer = _SubnetworkTrainer(run, pruning, arguments, ranks)
        ranks.seed_dropout(run.settings.seed)
        return trainer.result(_complete(trainer))


def _complete(trainer: _SubnetworkTrainer) -> float | None:
    settings = trainer.run.settings
    try:
        # bf16 and fp16 are the Trainer's own
        with computing_in("tf32" if settings.precision == "tf32" else "float32"):
            return trainer.complete()
    except torch.OutOfMemoryError as error:
        raise out_of_memory(settings) from error


@contextlib.contextmanager
def _emitting_on_main(method: Method, ranks: Ranks) -> Iterator[None]:
    """Let only the main process emit snapshots: those of all ranks are the same."""
    emit = method.emit
    if ranks.world > 1:
        method.emit = lambda level, snapshot: ranks.on_main(lambda: emit(level, snapshot))
    try:
        yield
    finally:
        method.emit = emit


@contextlib.contextmanager
def _tensorboard_in(folder: Path | None) -> Iterator[None]:
    """Set TensorBoard's folder by environment variable, which transformers reads when a trainer is created."""
    before = os.environ.pop(_TENSORBOARD, None)
    if folder is not None:
        os.environ[_TENSORBOARD] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(_TENSORBOARD, None)
        if before is not None:
            os.environ[_TENSORBOARD] = before
