"""Models of other people, and a training loop of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import nn
from torch.nn import functional as F

from srnet.training.pruning import Pruning

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12}
WORDS = 40


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.BatchNorm1d(24), nn.Linear(24, 12), nn.ReLU())
        self.head = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


def _classifier(kind: str, **sizes: Any) -> Any:
    config = hf.AutoConfig.for_model(kind, vocab_size=WORDS, num_labels=3, max_position_embeddings=24, **sizes)
    return hf.AutoModelForSequenceClassification.from_config(config)


def _language_model(kind: str, **sizes: Any) -> Any:
    config = hf.AutoConfig.for_model(kind, vocab_size=WORDS, max_position_embeddings=24, **sizes)
    return hf.AutoModelForCausalLM.from_config(config)


def _t5() -> Any:
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 4}
    config = hf.T5Config(vocab_size=WORDS, decoder_start_token_id=0, **sizes)
    return hf.T5ForConditionalGeneration(config)


MODELS: dict[str, Callable[[], Any]] = {
    "bert": lambda: _classifier("bert", **SIZES),
    "distilbert": lambda: _classifier("distilbert", dim=16, n_layers=2, n_heads=4, hidden_dim=12),
    "gpt2": lambda: _language_model("gpt2", n_embd=16, n_layer=2, n_head=4, n_inner=12),
    "llama": lambda: _language_model("llama", **SIZES, num_key_value_heads=2, tie_word_embeddings=False),
    "t5": _t5,
    "mlp": MLP,
}
UNITS = ("bert", "distilbert", "gpt2", "llama")
"""Those whose heads and neurons are known."""


def made(name: str, seed: int = 0) -> Any:
    """The same weights every time, and no dropout, so that runs can be compared."""
    torch.manual_seed(seed)
    model = MODELS[name]()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.train()


@dataclass
class Batch:
    inputs: dict[str, torch.Tensor]
    labels: torch.Tensor

    def logits(self, model: nn.Module) -> torch.Tensor:
        found = model(**self.inputs)
        return found if isinstance(found, torch.Tensor) else found.logits

    def loss(self, model: nn.Module) -> torch.Tensor:
        logits = self.logits(model)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), self.labels.reshape(-1))


def batch(name: str, step: int, size: int = 4) -> Batch:
    generator = torch.Generator().manual_seed(100 + step)

    def draw(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(1, high, shape, generator=generator)

    if name == "mlp":
        x = torch.randn(size, 16, generator=generator)
        return Batch({"x": x}, x[:, :3].argmax(1))
    words = draw(WORDS, size, 6)
    if name == "t5":
        return Batch({"input_ids": words, "labels": words}, words)
    if name in ("bert", "distilbert"):
        return Batch({"input_ids": words}, words[:, 0] % 3)
    return Batch({"input_ids": words}, words)


def train_in_own_loop(model: Any, pruning: Pruning, name: str, steps: range, optimizer: Any = None) -> Any:
    """The five lines of the documentation."""
    optimizer = optimizer or torch.optim.AdamW(pruning.parameters(lr=1e-3))
    for step in steps:
        loss = batch(name, step).loss(model) + pruning.penalty()
        loss.backward()
        optimizer.step()
        pruning.step()
        optimizer.zero_grad()
    return optimizer


def logits(model: Any, name: str) -> torch.Tensor:
    was = model.training
    model.eval()
    with torch.no_grad():
        found = batch(name, 999).logits(model)
    model.train(was)
    return found
