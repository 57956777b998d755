"""Mask training in an unmodified `transformers.Trainer`: `python examples/trainer.py`. It needs no network.

One callback is added. Run it again with a larger --stop-after, or interrupt it: it continues from the Trainer's own
checkpoint, and the masks are the same as without interruption.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import datasets
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, set_seed

import srnet

BACKBONE = Path(srnet.__file__).parent / "tasks" / "synthetic" / "backbone"  # or the name of a model on the Hub
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=300, help="steps of the search")
parser.add_argument("--rows", type=int, default=8000, help="training rows")
parser.add_argument("--out", type=Path, default=Path("trainer-run"), help="folder for checkpoints and results")
options = parser.parse_args()

set_seed(0)
sizes = {"train_size": options.rows, "dev_size": options.rows // 4, "ood_size": options.rows // 4}
task = srnet.SyntheticTask("inference", **sizes).load()
tokenizer = AutoTokenizer.from_pretrained(BACKBONE)
model = AutoModelForSequenceClassification.from_pretrained(BACKBONE, num_labels=len(task.labels))


def dataset_of(split) -> datasets.Dataset:
    tokens = tokenizer(list(split.text_a), list(split.text_b), truncation=True)
    return datasets.Dataset.from_dict({**tokens, "labels": split.labels})


def metrics(prediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


# The classifier is new, so it trains as well; everything else of the model stays as it was pre-trained
pruning = srnet.attach(model, srnet.MaskTraining(sparsity=0.5), steps=options.steps, train=("classifier",))
arguments = TrainingArguments(
    output_dir=str(options.out / "checkpoints"),
    max_steps=options.steps,
    per_device_train_batch_size=32,
    save_steps=max(1, options.steps // 3),
    logging_steps=max(1, options.steps // 6),
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
)
trainer = Trainer(
    model,
    arguments,
    train_dataset=dataset_of(task.train),
    eval_dataset={"dev": dataset_of(task.dev), "challenge": dataset_of(task.ood["challenge"])},
    processing_class=tokenizer,
    compute_metrics=metrics,
    optimizers=(torch.optim.AdamW(pruning.parameters(lr=5e-4, score_lr=1e-3)), None),
    callbacks=[pruning.callback()],
)
is_begun = any(options.out.glob("checkpoints/checkpoint-*"))
trainer.train(resume_from_checkpoint=is_begun)
pruning.bake()
print({name: value for name, value in trainer.evaluate().items() if name.endswith("accuracy")})
print(pruning)
trainer.save_model(str(options.out / "model"))  # an ordinary checkpoint, pruned weights zero
