"""Mask training with accelerate, in one process or several, with accumulation. It needs no network.

python examples/accelerate_loop.py
torchrun --nproc-per-node 2 examples/accelerate_loop.py     # or `accelerate launch`

All processes find the same mask. The main one saves it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from zlib import crc32

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import srnet

BACKBONE = Path(srnet.__file__).parent / "tasks" / "synthetic" / "backbone"  # or the name of a model on the Hub
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=300, help="steps of the optimiser")
parser.add_argument("--rows", type=int, default=8000, help="training rows")
parser.add_argument("--accumulate", type=int, default=2, help="batches for each step")
parser.add_argument("--out", default="accelerate-mask", help="a new folder for the mask")
options = parser.parse_args()

accelerator = Accelerator(gradient_accumulation_steps=options.accumulate, cpu=True)
set_seed(0)
sizes = {"train_size": options.rows, "dev_size": options.rows // 4, "ood_size": options.rows // 4}
task = srnet.SyntheticTask("inference", **sizes).load()
tokenizer = AutoTokenizer.from_pretrained(BACKBONE)
model = AutoModelForSequenceClassification.from_pretrained(BACKBONE, num_labels=len(task.labels))


def collate(rows):
    a, b, labels = zip(*rows, strict=True)
    return tokenizer(a, b, padding=True, truncation=True, return_tensors="pt") | {"labels": torch.tensor(labels)}


# Attach first, then let accelerate wrap the model
pruning = srnet.attach(model, srnet.MaskTraining(sparsity=0.5), steps=options.steps, train=("classifier",))
optimizer = torch.optim.AdamW(pruning.parameters(lr=5e-4, score_lr=1e-3))
examples = [*zip(task.train.text_a, task.train.text_b, task.train.labels.tolist(), strict=True)]
loader = DataLoader(examples, batch_size=16, shuffle=True, collate_fn=collate)
wrapped, optimizer, loader = accelerator.prepare(model, optimizer, loader)

wrapped.train()
while not pruning.finished:
    for batch in loader:
        with accelerator.accumulate(wrapped):
            loss = wrapped(**batch).loss + pruning.penalty()
            accelerator.backward(loss)  # divides by the number of accumulated batches
            optimizer.step()
            pruning.step()  # does nothing while batches are accumulated
            optimizer.zero_grad()
        if pruning.finished:
            break

checksum = torch.tensor([crc32(pruning.mask.to_bytes())], device=accelerator.device)
accelerator.print("checksum of the mask, by process:", accelerator.gather(checksum).tolist())
if accelerator.is_main_process:
    pruning.save(options.out)
    print(pruning)
