"""A tiny classifier of every architecture whose units are known, with random weights, biases and norms.

And a subnetwork of any backbone, without some of its heads and neurons where they are known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import nn

from srnet.masks.granularity import groups_of
from srnet.masks.mask import Mask
from srnet.masks.targets import LAYERS
from srnet.masks.units import FAMILIES, blocks_of
from srnet.models.backbones import load_backbone
from srnet.models.heads import CLASSIFIER, Head
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12}
GROUPED = SMALL | {"num_key_value_heads": 2, "head_dim": 4}
WIDE_HEADS = SMALL | {"num_key_value_heads": 2, "head_dim": 6}
"""Heads of another size than the hidden size divided by their number."""
SLIDING = {"sliding_window": 4, "use_sliding_window": True, "layer_types": ["full_attention", "sliding_attention"]}
RELATIVE = {"relative_attention": True, "max_relative_positions": 8, "pos_att_type": ["p2c", "c2p"]}
MODELS: dict[str, dict[str, Any]] = {
    "bert": SMALL,
    "roberta": SMALL,
    "xlm-roberta": SMALL,
    "camembert": SMALL,
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 12},
    "electra": SMALL | {"embedding_size": 8},
    "mpnet": SMALL,
    "deberta": SMALL | RELATIVE,
    "deberta-v2": SMALL | RELATIVE | {"position_buckets": 4, "share_att_key": True},
    "modernbert": SMALL | {"local_attention": 4, "global_attn_every_n_layers": 2},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_inner": 12},
    "llama": GROUPED,
    "mistral": GROUPED | {"sliding_window": 4},
    "qwen2": SMALL | SLIDING | {"num_key_value_heads": 2},
    "qwen3": WIDE_HEADS,
    "gemma": WIDE_HEADS,
    "gemma2": WIDE_HEADS | SLIDING,
    "gemma3_text": WIDE_HEADS | SLIDING,
    "eurobert": GROUPED,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, sizes) for name, sizes in MODELS.items()} | {
    "deberta-v2, positions apart": ("deberta-v2", MODELS["deberta-v2"] | {"share_att_key": False}),
    "llama with biases": ("llama", MODELS["llama"] | {"attention_bias": True, "mlp_bias": True}),
    "mistral, as many keys as queries": ("mistral", MODELS["mistral"] | {"num_key_value_heads": 4}),
    "qwen3 with biases, sliding": ("qwen3", WIDE_HEADS | SLIDING | {"attention_bias": True}),
    "modernbert with biases": ("modernbert", MODELS["modernbert"] | {"attention_bias": True, "mlp_bias": True}),
    "bert, relu": ("bert", SMALL | {"hidden_act": "relu"}),
}
"""Name -> architecture and sizes: what a model has decides what can be folded."""
WORDS, PADDING = 40, 1
LABELS = ("no", "yes", "maybe")


def tiny(variant: str, seed: int = 0) -> Any:
    """In evaluation mode. Nothing is zero, so that nothing is right by chance."""
    kind, sizes = VARIANTS[variant]
    config = hf.AutoConfig.for_model(
        kind, vocab_size=WORDS, pad_token_id=PADDING, num_labels=3, max_position_embeddings=24, **sizes
    )
    torch.manual_seed(seed)
    model = hf.AutoModelForSequenceClassification.from_config(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def write_tuned(backbone: str, folder: Path, names: tuple[str, ...], head: Head = CLASSIFIER) -> str:
    """A model that somebody fine-tuned for labels of these names, as `save_pretrained` leaves it."""
    base = load_backbone(backbone, names, seed=5, head=head)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in base.model.parameters():  # as if trained: no weight is the backbone's, nor small
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    base.model.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    return str(folder)


def random_units(model: nn.Module, share: float, seed: int) -> dict[str, torch.Tensor]:
    """Each unit is kept with probability `1 - share`."""
    generator = torch.Generator().manual_seed(seed)
    return {block.name: torch.rand(block.size, generator=generator) >= share for block in blocks_of(model)}


def unit_mask(model: nn.Module, keep: dict[str, torch.Tensor]) -> Mask:
    """The mask over the matrices of all blocks; units of blocks without an entry are kept."""
    sizes = {block.name: block.size for block in blocks_of(model)}
    whole = {name: torch.ones(size, dtype=torch.bool) for name, size in sizes.items()}
    return groups_of(model, LAYERS.find(model), ("head", "neuron")).expand(whole | keep)


def batch(rows: int = 3, length: int = 9) -> dict[str, torch.Tensor]:
    """Rows of different lengths."""
    ids = torch.randint(4, WORDS, (rows, length), generator=torch.Generator().manual_seed(length))
    mask = (torch.arange(length) < torch.tensor([max(length - 2 * row, 1) for row in range(rows)])[:, None]).long()
    return {"input_ids": torch.where(mask == 1, ids, PADDING), "attention_mask": mask}


@torch.no_grad()
def logits(model: nn.Module, **size: int) -> torch.Tensor:
    found: torch.Tensor = model(**batch(**size)).logits
    return found


def pruned(
    backbone: str, *, head: Head = CLASSIFIER, labels: tuple[str, ...] = LABELS, share: float = 0.5
) -> Subnetwork:
    """Random heads and neurons are gone, or weights where units are unknown. Every tensor was moved a little."""
    base = load_backbone(backbone, labels, seed=5, head=head)
    generator = torch.Generator().manual_seed(1)
    state = {
        name: tensor + 0.1 * torch.randn(tensor.shape, generator=generator) if tensor.is_floating_point() else tensor
        for name, tensor in base.model.state_dict().items()
    }
    state |= {name: state[other] for name, other in base.twins().items()}
    if base.model.config.model_type in FAMILIES:
        mask = unit_mask(base.model, random_units(base.model, share, seed=4))
    else:
        mask = OneShot(share, targets=LAYERS).mask(base.model)
    return Subnetwork.of(base, labels, state, mask)
