"""A loop with accelerate, two processes and accumulation; each rank writes the masks that it found."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from looped import batch, made
from methods import TRAINING

import srnet

STEPS = 20

if __name__ == "__main__":
    torch.set_num_threads(1)
    for method in sys.argv[2:]:
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = made("bert")
        pruning = srnet.attach(model, TRAINING[method], steps=STEPS)
        rows = [(batch("bert", row, size=1).inputs["input_ids"][0], row) for row in range(16 * STEPS)]
        loader = torch.utils.data.DataLoader(rows, batch_size=4)  # type: ignore[arg-type, var-annotated]
        optimizer = torch.optim.AdamW(pruning.parameters(lr=1e-3))
        wrapped, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for words, _ in loader:
            with accelerator.accumulate(wrapped):
                logits = wrapped(input_ids=words).logits
                loss = torch.nn.functional.cross_entropy(logits, words[:, 0] % 3) + pruning.penalty()
                accelerator.backward(loss)
                optimizer.step()
                pruning.step()
                optimizer.zero_grad()
        assert pruning.done == STEPS, pruning.done
        (Path(sys.argv[1]) / f"{method}-{accelerator.process_index}").write_bytes(pruning.mask.to_bytes())
    accelerator.end_training()
