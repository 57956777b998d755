"""Classifiers as somebody else fine-tuned them with plain transformers, and texts that are longer than they read."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from architectures import ARCHITECTURES, SPECIAL, tokenizer_for
from torch import nn

from srnet.tasks.files import FilesTask
from srnet.tasks.splits import Split

LABELS = ("negative", "positive")
OTHERWISE = ("Positive", "NEGATIVE")
"""The same labels in another order and spelling."""
READS = 160
"""Tokens that the models read: more than srnet's own do by default, and fewer than some texts have."""
WORDS = ["the", "doctor", "saw", "a", "lawyer", "and", "some", "of", "the", "pilots", "slept", "near", "every", "judge"]


def write_theirs(name: str, folder: Path, names: tuple[str, ...] = OTHERWISE, seed: int = 0) -> str:
    """A classifier with random weights and biases, as `save_pretrained` leaves it."""
    architecture = ARCHITECTURES[name]
    tokenizer = tokenizer_for(architecture)
    tokenizer.model_max_length = READS
    ids = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in SPECIAL}
    ids = {kind: token for kind, token in ids.items() if token is not None or kind == "pad_token_id"}
    # RoBERTa counts positions from behind the padding's
    positions = {"max_position_embeddings": READS + 2, "n_positions": READS}
    config = hf.AutoConfig.for_model(
        name,
        vocab_size=len(tokenizer),
        num_labels=len(names),
        id2label=dict(enumerate(names)),
        label2id={label: number for number, label in enumerate(names)},
        **{**architecture.sizes, **ids, **positions},
    )
    torch.manual_seed(seed)
    model = hf.AutoModelForSequenceClassification.from_config(config)
    for key, parameter in model.named_parameters():
        if parameter.dim() > 1 or key.endswith("bias"):
            nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def write_texts(folder: Path, *, pairs: bool) -> FilesTask:
    """A task with texts of a few words up to hundreds, single or in pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)

    def text(sizes: tuple[int, ...]) -> str:
        return " ".join(generator.choice(WORDS, generator.choice(sizes)))

    for name, rows in (("train", 24), ("dev", 12)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("text_a", "text_b", "label"))
            seconds = (2, 30, 200) if pairs else (0,)
            writer.writerows((text((3, 40, 110, 300)), text(seconds), LABELS[row % 2]) for row in range(rows))
    files = (str(folder / "train.csv"), str(folder / "dev.csv"))
    return FilesTask("reviews", LABELS, *files, text_b="text_b" if pairs else None)


@torch.no_grad()
def plain_logits(folder: str, split: Split) -> np.ndarray:
    """What plain transformers gives, one text at a time."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    model: Any = hf.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    pairs = zip(split.text_a, split.text_b, strict=True)
    texts = [(a, b) if any(split.text_b) else (a,) for a, b in pairs]
    batches = [tokenizer(*each, truncation=True, return_tensors="pt", verbose=False) for each in texts]
    return np.concatenate([model(**batch).logits.numpy() for batch in batches])
