"""The units of a model: attention heads and feed-forward neurons, and their positions in the model's tensors.

A block is the attention or the feed-forward part of one layer. Its units are heads (with grouped queries: a key/value
head with its query heads) or neurons. A unit owns rows of the matrices that read the hidden states and columns of the
matrix that writes them back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from srnet.core.errors import UserError
from srnet.core.lazy import nn, torch

Kind = Literal["attention", "feed-forward"]
Role = Literal["query", "key", "value", "position", "input", "gate", "up", "output"]


@dataclass(frozen=True)
class _Slice:
    """The positions of a block's units in one tensor: `width` indices of `dim`, from `offset + unit * stride`.

    `role` is `output` for the columns that write the hidden states. Attention reads with query, key, value and, in
    DeBERTa, position; a feed-forward part with `input`, or with `gate` (before the activation) and `up`.
    """

    name: str
    """The tensor's name in the state dict."""
    role: Role
    dim: int
    width: int
    offset: int
    stride: int

    def indices(self, units: torch.Tensor) -> torch.Tensor:
        """The indices of these units, in their order."""
        return (self.offset + units[:, None] * self.stride + torch.arange(self.width, device=units.device)).reshape(-1)

    def by_unit(self, tensor: torch.Tensor, size: int) -> torch.Tensor:
        """The tensor by unit: (size, width, ...)."""
        indices = self.indices(torch.arange(size, device=tensor.device))
        found = tensor.index_select(self.dim, indices).movedim(self.dim, 0)
        return found.reshape(size, self.width, *found.shape[1:])


@dataclass(frozen=True)
class Block:
    """The attention or the feed-forward part of a layer."""

    name: str
    """The module that computes the units from the hidden states."""
    kind: Kind
    layer: int
    size: int
    """The number of units."""
    weights: tuple[_Slice, ...]
    """The slices of the matrices, which a mask may cover."""
    biases: tuple[_Slice, ...]
    """The slices of the units' own biases, which no mask covers."""
    output: str
    """The layer that writes the hidden states. Its bias belongs to no unit."""
    activation: str = ""
    """The module of a feed-forward part's activation."""

    def slices(self, role: Role) -> tuple[_Slice, ...]:
        return tuple(each for each in self.weights if each.role == role)


def blocks_of(model: nn.Module) -> list[Block]:
    """The blocks of a model, layer by layer, attention first, without those that were removed."""
    config: Any = getattr(model, "config", None)
    family = FAMILIES.get(getattr(config, "model_type", ""))
    if family is None:
        raise UserError(
            f"the heads and neurons of a {type(model).__name__} are not known",
            f"units can be removed from: {', '.join(FAMILIES)}",
        )
    if getattr(config, "talking_head", False):
        raise UserError("this model mixes its heads (talking_head), so none can be removed without a change of others")
    return list(_blocks(model, family))


# --- the names in each architecture --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BlockNames:
    """The names of a block, relative to its layer. Readers are relative to `module`: layer -> the roles of its rows."""

    module: str
    readers: dict[str, tuple[Role, ...]]
    output: str
    activation: str = ""
    parameters: dict[str, Role] = field(default_factory=dict)
    """Biases that are parameters of the module itself."""
    by_head: bool = False
    """Whether a fused matrix has the rows of all roles of a head together, instead of all heads of a role."""


@dataclass(frozen=True)
class Family:
    """The names of an architecture's units, and of their numbers in its configuration."""

    layers: str
    attention: _BlockNames
    feed_forward: _BlockNames
    neurons: str = "intermediate_size"
    """The configuration's name for the number of neurons in every layer."""
    heads: tuple[str, ...] = ()
    """The configuration's names for the number of heads, if other numbers are possible with the same head size."""


def _apart(query: str, key: str, value: str) -> dict[str, tuple[Role, ...]]:
    return {query: ("query",), key: ("key",), value: ("value",)}


_ATTENTION_OUTPUT = "attention.output.dense"
_FUSED: tuple[Role, ...] = ("query", "key", "value")
_BERT_MLP = _BlockNames("intermediate", {"dense": ("input",)}, "output.dense", "intermediate_act_fn")
_BERT = Family(
    "encoder.layer", _BlockNames("attention.self", _apart("query", "key", "value"), _ATTENTION_OUTPUT), _BERT_MLP
)
_LLAMA = Family(
    "layers",
    _BlockNames("self_attn", _apart("q_proj", "k_proj", "v_proj"), "self_attn.o_proj"),
    _BlockNames("mlp", {"gate_proj": ("gate",), "up_proj": ("up",)}, "mlp.down_proj", "act_fn"),
    heads=("num_attention_heads", "num_key_value_heads"),
)
_POSITIONS: dict[str, tuple[Role, ...]] = {"pos_key_proj": ("position",), "pos_query_proj": ("position",)}

FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), _BERT),
    "distilbert": Family(
        "transformer.layer",
        _BlockNames("attention", _apart("q_lin", "k_lin", "v_lin"), "attention.out_lin"),
        _BlockNames("ffn", {"lin1": ("input",)}, "ffn.lin2", "activation"),
        neurons="hidden_dim",
    ),
    "mpnet": Family(
        "encoder.layer", _BlockNames("attention.attn", _apart("q", "k", "v"), "attention.attn.o"), _BERT_MLP
    ),
    "deberta": Family(
        "encoder.layer",
        _BlockNames(
            "attention.self",
            {"in_proj": _FUSED, "pos_proj": ("position",), "pos_q_proj": ("position",)},
            _ATTENTION_OUTPUT,
            parameters={"q_bias": "query", "v_bias": "value"},
            by_head=True,
        ),
        _BERT_MLP,
    ),
    "deberta-v2": Family(
        "encoder.layer",
        _BlockNames("attention.self", _apart("query_proj", "key_proj", "value_proj") | _POSITIONS, _ATTENTION_OUTPUT),
        _BERT_MLP,
    ),
    "modernbert": Family(
        "layers",
        _BlockNames("attn", {"Wqkv": _FUSED}, "attn.Wo"),
        _BlockNames("mlp", {"Wi": ("gate", "up")}, "mlp.Wo", "act"),
    ),
    "gpt2": Family(
        "h",
        _BlockNames("attn", {"c_attn": _FUSED}, "attn.c_proj"),
        _BlockNames("mlp", {"c_fc": ("input",)}, "mlp.c_proj", "act"),
        neurons="n_inner",
    ),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "eurobert"), _LLAMA),
}
"""Architectures by the `model_type` of their configuration."""


def _blocks(model: nn.Module, family: Family) -> Iterator[Block]:
    prefix: str = getattr(model, "base_model_prefix", "")
    stack = f"{prefix}.{family.layers}" if hasattr(model, prefix) else family.layers
    for number in range(len(model.get_submodule(stack))):  # type: ignore[arg-type]
        for kind, part in (("attention", family.attention), ("feed-forward", family.feed_forward)):
            block = _block(model, f"{stack}.{number}", number, kind, part)  # type: ignore[arg-type]
            if block is not None:
                yield block


def _block(model: nn.Module, layer: str, number: int, kind: Kind, part: _BlockNames) -> Block | None:
    name, output = f"{layer}.{part.module}", f"{layer}.{part.output}"
    writer, module = model.get_submodule(output), model.get_submodule(name)
    if not hasattr(writer, "weight"):  # removed: only a bias is left
        return None
    head, group = _head_size(module, kind), getattr(module, "num_key_value_groups", 1)
    across = inputs_dim(writer)
    size = _inputs(writer) // (head * group)
    weights, biases = [], []
    for reader, roles in part.readers.items():
        if not hasattr(module, reader):  # DeBERTa has projections of positions on demand
            continue
        linear = module.get_submodule(reader)
        for place, role in enumerate(roles):
            width = head * group if role == "query" else head
            start, step = (place * head, len(roles) * head) if part.by_head else (place * size * width, width)
            weights.append(_Slice(f"{name}.{reader}.weight", role, 1 - inputs_dim(linear), width, start, step))
            if linear.bias is not None:
                biases.append(_Slice(f"{name}.{reader}.bias", role, 0, width, start, step))
    biases += [_Slice(f"{name}.{bias}", role, 0, head, 0, head) for bias, role in part.parameters.items()]
    weights.append(_Slice(f"{output}.weight", "output", across, head * group, 0, head * group))
    activation = f"{name}.{part.activation}" if part.activation else ""
    return Block(name, kind, number, size, tuple(weights), tuple(biases), output, activation)


def _head_size(module: Any, kind: Kind) -> int:
    """The number of rows of the value matrix that a unit has."""
    if kind == "feed-forward":
        return 1
    return int(module.head_dim if hasattr(module, "head_dim") else module.attention_head_size)


def inputs_dim(layer: nn.Module) -> int:
    """The dimension of a layer's weight that runs over its inputs; Conv1D keeps it first."""
    return 1 if isinstance(layer, nn.Linear) else 0


def _inputs(layer: Any) -> int:
    """The number of inputs, without reading the weight, which a mask would compute."""
    return int(layer.in_features if isinstance(layer, nn.Linear) else layer.nx)
