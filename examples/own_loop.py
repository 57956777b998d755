"""A sparse and robust classifier in a plain PyTorch loop: `python examples/own_loop.py`. It needs no network.

The task, its shortcut (words that both texts share) and the backbone are embedded in the package. A full model is
fine-tuned with cross-entropy; then half of its weights are pruned, with a product of experts against the shortcut.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch.nn.utils import clip_grad_norm_
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import srnet

BACKBONE = Path(srnet.__file__).parent / "tasks" / "synthetic" / "backbone"  # or the name of a model on the Hub
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=300, help="steps of the fine-tuning, and of the search")
parser.add_argument("--rows", type=int, default=8000, help="training rows")
parser.add_argument("--out", default="own-loop-mask", help="a new folder for the mask")
options = parser.parse_args()

torch.manual_seed(0)
sizes = {"train_size": options.rows, "dev_size": options.rows // 4, "ood_size": options.rows // 4}
task = srnet.SyntheticTask("inference", **sizes).load()
train, labels = task.train, torch.tensor(task.train.labels)
tokenizer = AutoTokenizer.from_pretrained(BACKBONE)
model = AutoModelForSequenceClassification.from_pretrained(BACKBONE, num_labels=len(task.labels))


def logits_of(split, rows) -> torch.Tensor:
    texts = [split.text_a[n] for n in rows], [split.text_b[n] for n in rows]
    return model(**tokenizer(*texts, padding=True, truncation=True, return_tensors="pt")).logits


@torch.no_grad()
def accuracy(split) -> float:
    model.eval()
    parts = torch.arange(len(split.labels)).split(256)
    answers = torch.cat([logits_of(split, part.tolist()).argmax(dim=1) for part in parts])
    return 100 * (answers == torch.tensor(split.labels)).float().mean().item()


def report(name: str) -> None:
    print(f"{name}: {accuracy(task.dev):.1f} in distribution, {accuracy(task.ood['challenge']):.1f} out of it")


# The full model, as usual
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
for _ in range(options.steps):
    rows = torch.randint(len(labels), (32,)).tolist()
    srnet.losses.ce(logits_of(train, rows), labels[rows]).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
torch.save(model.state_dict(), f"{options.out}.full.pt")
report("full model (CE)")

# What the shortcut alone predicts, for every training row
bias = srnet.fit_bias(train.text_a, train.labels, "overlap", texts_b=train.text_b)
print(bias)

# The subnetwork: weights are frozen, scores decide which of them are kept
pruning = srnet.attach(model, srnet.MaskTraining(sparsity=0.5), steps=options.steps)
model.train()
optimizer = torch.optim.AdamW(pruning.parameters())
for _ in range(options.steps):
    rows = torch.randint(len(labels), (32,)).tolist()
    loss = srnet.losses.poe(logits_of(train, rows), labels[rows], bias=bias.log_probs[rows]) + pruning.penalty()
    loss.backward()
    optimizer.step()
    pruning.step()
    optimizer.zero_grad()
pruning.save(options.out)  # read again with srnet.load_mask, on the weights of the full model
pruning.bake()
print(pruning)
report("mask training (PoE)")
