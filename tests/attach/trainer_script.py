"""An ordinary script with an unmodified `transformers.Trainer`, which a test also kills: the masks are one callback."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from looped import batch, made
from methods import TRAINING

import srnet

STEPS = 20


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        found = batch("bert", row, size=1)
        return {"input_ids": found.inputs["input_ids"][0], "labels": found.labels[0]}


class Killed(hf.TrainerCallback):  # type: ignore[misc]
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 13:
            os.kill(os.getpid(), signal.SIGKILL)


def arguments(folder: Path, **changes: Any) -> hf.TrainingArguments:
    values = {
        "output_dir": str(folder), "max_steps": STEPS, "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2, "learning_rate": 1e-3, "save_steps": 10, "logging_steps": 5, "use_cpu": True,
        "report_to": "none", "seed": 3, "disable_tqdm": True,
    }  # fmt: skip
    return hf.TrainingArguments(**(values | changes))


def main(
    method: str, folder: Path, *, resume: bool = False, kill: bool = False, **changes: Any
) -> tuple[srnet.Pruning, hf.Trainer]:
    model = made("bert")
    model.config.hidden_dropout_prob = 0.1
    pruning = srnet.attach(model, TRAINING[method], steps=STEPS)
    callbacks = [pruning.callback(), *([Killed()] if kill else [])]
    trainer = hf.Trainer(model, arguments(folder, **changes), train_dataset=Rows(), callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume)
    return pruning, trainer


if __name__ == "__main__":
    for name in sys.argv[2:]:
        if os.fork() == 0:
            main(name, Path(sys.argv[1]) / name, kill=True)
        os.wait()
