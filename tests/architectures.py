"""A tiny backbone of every architecture, and subnetworks of it that were trained for three steps.

A new architecture is one more line in `ARCHITECTURES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from methods import FROZEN, METHODS
from torch import nn

from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.training import Prune
from srnet.experiment.store import Store
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.base import Pruner
from srnet.pruners.imp import IMP
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import trainer
from srnet.training.data import encode
from srnet.training.predict import predict
from srnet.training.settings import TrainingSettings

TASK = SyntheticTask("inference", train_size=60, dev_size=12, ood_size=12)
THREE_STEPS = TrainingSettings(learning_rate=1e-2, steps=3, eval_every=3, batch_size=4, max_length=64)
MASK, WEIGHTS = MaskTraining(0.5), IMP(0.5, step_sparsity=0.5, interval=1.0)
"""The first is for every architecture, the second for those whose turn it is with a method that trains no weights."""
IN_TURN = tuple(METHODS[name] for name in ("smp-s", "movement", "l0", "smp-l", "magnitude", "soft-movement"))
"""Of these an architecture gets one, and BERT all."""


@dataclass(frozen=True)
class Architecture:
    """The sizes of a tiny one, its tokenizer's kind, and the matrices that one expects to be masked."""

    sizes: dict[str, Any]
    tokenizer: type[Any]
    layer: str
    """The name of a layer, with `{}` for its number."""
    matrices: str
    """Of a layer. In XLM the number is in these names."""
    classifier: str
    layers: int = 2
    """How many of them have weights of their own."""
    has_graph: bool = True
    """Whether it can be exported to ONNX."""

    @property
    def stack(self) -> set[str]:
        names = [f"{self.layer}.{matrix}" for matrix in self.matrices.split()]
        return {name.format(number) for name in names for number in range(self.layers)}

    @property
    def masked(self) -> set[str]:
        return self.stack | {self.classifier}


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
POSITIONS = {"max_position_embeddings": 64}
LONG = SMALL | POSITIONS | {"attention_window": 4}
NARROW = {"embedding_size": 8}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
RELATIVE = {"relative_attention": True, "position_buckets": 8, "share_att_key": True, "pos_att_type": ["p2c", "c2p"]}
DEBERTA = SMALL | RELATIVE
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "feed_forward_proj": "gated-gelu"}
LLAMA = SMALL | {"num_key_value_heads": 1, "head_dim": 8}
GROUPED = SMALL | {"num_key_value_heads": 1}
BLOOM = {"hidden_size": 16, "n_layer": 2, "n_head": 2}
OPT = POSITIONS | {"hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 32}
OPT |= {"num_hidden_layers": 2, "num_attention_heads": 2}
XLM = {"emb_dim": 16, "n_layers": 2, "n_heads": 2}
STACKS = ("encoder", "decoder")
BART = {"d_model": 16} | {f"{stack}_{name}": 2 for stack in STACKS for name in ("layers", "attention_heads", "ffn_dim")}

ALBERT_GROUP = "albert.encoder.albert_layer_groups.{}.albert_layers.0"
OUTPUTS = "attention.output.dense intermediate.dense output.dense"
BERT_LIKE = f"attention.self.query attention.self.key attention.self.value {OUTPUTS}"
ALBERT_LIKE = "attention.query attention.key attention.value attention.dense ffn ffn_output"
DISTIL_LIKE = "attention.q_lin attention.k_lin attention.v_lin attention.out_lin ffn.lin1 ffn.lin2"
DEBERTA_LIKE = f"attention.self.query_proj attention.self.key_proj attention.self.value_proj {OUTPUTS}"
MPNET_LIKE = "attention.attn.q attention.attn.k attention.attn.v attention.attn.o intermediate.dense output.dense"
GPT2_LIKE = "attn.c_attn attn.c_proj mlp.c_fc mlp.c_proj"
LLAMA_LIKE = " ".join(f"self_attn.{n}_proj" for n in "qkvo") + " mlp.gate_proj mlp.up_proj mlp.down_proj"
T5_LIKE = " ".join(f"layer.0.SelfAttention.{n}" for n in "qkvo") + " layer.1.DenseReluDense.wi_0"
T5_LIKE += " layer.1.DenseReluDense.wi_1 layer.1.DenseReluDense.wo"
OLD_DEBERTA_LIKE = " ".join(f"attention.self.{name}" for name in ("in_proj", "pos_proj", "pos_q_proj")) + f" {OUTPUTS}"
FALCON_LIKE = "self_attention.query_key_value self_attention.dense mlp.dense_h_to_4h mlp.dense_4h_to_h"
NEOX_LIKE = FALCON_LIKE.replace("self_attention", "attention")
PHI_LIKE = "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.dense mlp.fc1 mlp.fc2"
PHI3_LIKE = "self_attn.qkv_proj self_attn.o_proj mlp.gate_up_proj mlp.down_proj"
LONG_LIKE = f"{BERT_LIKE} attention.self.query_global attention.self.key_global attention.self.value_global"
XLM_LIKE = " ".join(f"attentions.{{}}.{name}_lin" for name in ("q", "k", "v", "out")) + " ffns.{}.lin1 ffns.{}.lin2"
BART_LIKE = "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.out_proj fc1 fc2"

A, OUT, SEQ_OUT = Architecture, "classifier.out_proj", "classification_head.out_proj"
ARCHITECTURES = {  # by the type that a configuration names
    "bert": A(SMALL, hf.BertTokenizer, "bert.encoder.layer.{}", BERT_LIKE, "classifier"),
    "roberta": A(SMALL | POSITIONS, hf.RobertaTokenizer, "roberta.encoder.layer.{}", BERT_LIKE, OUT),
    "xlm-roberta": A(SMALL | POSITIONS, hf.XLMRobertaTokenizer, "roberta.encoder.layer.{}", BERT_LIKE, OUT),
    "distilbert": A(DISTIL, hf.DistilBertTokenizer, "distilbert.transformer.layer.{}", DISTIL_LIKE, "classifier"),
    "electra": A(SMALL | NARROW, hf.BertTokenizer, "electra.encoder.layer.{}", BERT_LIKE, OUT),
    "albert": A(SMALL | NARROW, hf.AlbertTokenizer, ALBERT_GROUP, ALBERT_LIKE, "classifier", layers=1),
    "deberta-v2": A(DEBERTA, hf.DebertaV2Tokenizer, "deberta.encoder.layer.{}", DEBERTA_LIKE, "classifier"),
    "mpnet": A(SMALL | POSITIONS, hf.MPNetTokenizer, "mpnet.encoder.layer.{}", MPNET_LIKE, OUT),
    "modernbert": A(SMALL, hf.BertTokenizer, "model.layers.{}", "attn.Wqkv attn.Wo mlp.Wi mlp.Wo", "classifier"),
    "gpt2": A(GPT2, hf.GPT2Tokenizer, "transformer.h.{}", GPT2_LIKE, "score"),
    "llama": A(LLAMA, hf.LlamaTokenizer, "model.layers.{}", LLAMA_LIKE, "score"),
    "qwen3": A(LLAMA, hf.Qwen2Tokenizer, "model.layers.{}", LLAMA_LIKE, "score"),
    "t5": A(T5, hf.T5Tokenizer, "transformer.encoder.block.{}", T5_LIKE, SEQ_OUT),
    "bart": A(BART, hf.RobertaTokenizer, "model.encoder.layers.{}", BART_LIKE, SEQ_OUT),
    "camembert": A(SMALL | POSITIONS, hf.CamembertTokenizer, "roberta.encoder.layer.{}", BERT_LIKE, OUT),
    "deberta": A(DEBERTA, hf.DebertaTokenizer, "deberta.encoder.layer.{}", OLD_DEBERTA_LIKE, "classifier"),
    "big_bird": A(SMALL | POSITIONS, hf.BigBirdTokenizer, "bert.encoder.layer.{}", BERT_LIKE, OUT),
    "roformer": A(SMALL | NARROW, hf.BertTokenizer, "roformer.encoder.layer.{}", BERT_LIKE, OUT),
    "longformer": A(LONG, hf.RobertaTokenizer, "longformer.encoder.layer.{}", LONG_LIKE, OUT, has_graph=False),
    "xlm": A(XLM, hf.BertTokenizer, "transformer", XLM_LIKE, "sequence_summary.summary"),
    "eurobert": A(LLAMA, hf.BertTokenizer, "model.layers.{}", LLAMA_LIKE, "classifier"),
    "mistral": A(LLAMA, hf.LlamaTokenizer, "model.layers.{}", LLAMA_LIKE, "score"),
    "qwen2": A(GROUPED, hf.Qwen2Tokenizer, "model.layers.{}", LLAMA_LIKE, "score"),
    "gemma": A(LLAMA, hf.GemmaTokenizer, "model.layers.{}", LLAMA_LIKE, "score"),
    "gemma2": A(LLAMA, hf.GemmaTokenizer, "model.layers.{}", LLAMA_LIKE, "score"),
    "gemma3_text": A(LLAMA, hf.GemmaTokenizer, "model.layers.{}", LLAMA_LIKE, "score"),
    "phi": A(SMALL, hf.GPT2Tokenizer, "model.layers.{}", PHI_LIKE, "score"),
    "phi3": A(GROUPED, hf.LlamaTokenizer, "model.layers.{}", PHI3_LIKE, "score"),
    "opt": A(OPT, hf.GPT2Tokenizer, "model.decoder.layers.{}", BART_LIKE, "score"),
    "bloom": A(BLOOM, hf.GPT2Tokenizer, "transformer.h.{}", FALCON_LIKE, "score"),
    "falcon": A(SMALL, hf.GPT2Tokenizer, "transformer.h.{}", FALCON_LIKE, "score"),
    "gpt_neox": A(SMALL, hf.GPTNeoXTokenizer, "gpt_neox.layers.{}", NEOX_LIKE, "score"),
}


def pruners_of(name: str) -> tuple[Pruner, ...]:
    if name == "bert":
        return (MASK, WEIGHTS, *IN_TURN)
    own = IN_TURN[list(ARCHITECTURES).index(name) % len(IN_TURN)]
    return (MASK, WEIGHTS, own) if own.name in FROZEN else (MASK, own)


SPECIAL = ("pad", "bos", "eos", "cls", "sep")


def tokenizer_for(architecture: Architecture) -> Any:
    """One of the architecture's own kind, with a vocabulary learnt from the task's texts."""
    texts = [text for split in load_task(TASK).splits.values() for text in (*split.text_a, *split.text_b)]
    return architecture.tokenizer().train_new_from_iterator(texts, vocab_size=300)


def write_backbone(name: str, folder: Path, **more: Any) -> str:
    """A pre-trained model without a head, as it comes from a hub. Weights are large, so that logits tell them apart."""
    tokenizer = tokenizer_for(ARCHITECTURES[name])
    ids = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in SPECIAL}
    ids = {kind: token for kind, token in ids.items() if token is not None or kind == "pad_token_id"}
    scale = {"initializer_range": 0.3, "init_std": 0.3, "initializer_factor": 6.0}  # each goes by another name
    settings = ARCHITECTURES[name].sizes | ids | scale | more
    config = hf.AutoConfig.for_model(name, vocab_size=len(tokenizer), **settings)
    torch.manual_seed(0)
    model = hf.AutoModel.from_config(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@dataclass(frozen=True)
class Found:
    """A subnetwork that was trained and stored, and the logits it had before."""

    folder: Path
    logits: np.ndarray


class Runs:
    """Each architecture's backbone and subnetworks, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.engine = folder, Engine(Store(folder / "store"), Reporter(quiet=True))
        self.known: dict[str, dict[str, Found]] = {}

    def backbone(self, name: str) -> str:
        folder = self.folder / name
        return str(folder) if folder.exists() else write_backbone(name, folder)

    def loaded(self, name: str) -> LoadedBackbone:
        return load_backbone(self.backbone(name), load_task(TASK).labels, seed=0)

    def found(self, name: str) -> dict[str, Found]:
        if name not in self.known:
            raw = Pretrained(self.backbone(name), TASK, seed=0)
            self.known[name] = {pruner.name: self._prune(raw, pruner) for pruner in pruners_of(name)}
        return self.known[name]

    def _prune(self, raw: Pretrained, pruner: Pruner) -> Found:
        seen: list[np.ndarray] = []

        def spy(*args: Any) -> np.ndarray:
            seen.append(predict(*args))
            return seen[-1]

        node = Prune(raw, pruner, training=THREE_STEPS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trainer, "predict", spy)
            self.engine.execute([node])
        return Found(self.engine.store.path(node.key), seen[-1])


def logits_on_dev(subnetwork: Subnetwork) -> np.ndarray:
    base = subnetwork.base()
    dev = encode(load_task(TASK).dev, base.tokenizer, base.max_length(THREE_STEPS.max_length))
    return predict(subnetwork.model(base), dev)
