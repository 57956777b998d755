"""Where heads and neurons lie: every architecture, by what happens when one is taken away."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers as hf
from refusals import refused
from small_models import MODELS, VARIANTS, logits, tiny, unit_mask

from srnet.masks.targets import LAYERS
from srnet.masks.units import FAMILIES, _Slice, blocks_of

every = pytest.mark.parametrize("variant", VARIANTS)


def test_every_family_is_tested() -> None:
    assert MODELS.keys() == FAMILIES.keys()


@every
def test_the_blocks_cover_the_matrices_of_the_layers(variant: str) -> None:
    model = tiny(variant)
    blocks = blocks_of(model)
    assert [(block.layer, block.kind) for block in blocks] == [
        (layer, kind) for layer in (0, 1) for kind in ("attention", "feed-forward")
    ]
    assert {block.size for block in blocks} == {VARIANTS[variant][1].get("num_key_value_heads", 4), 12}
    owned = {each.name for block in blocks for each in block.weights}
    assert owned == {f"{name}.weight" for name in LAYERS.find(model)}


@every
def test_every_weight_belongs_to_one_unit(variant: str) -> None:
    model = tiny(variant)
    for block in blocks_of(model):
        slices = (*block.weights, *block.biases)
        for name in {each.name for each in slices}:
            parts = [each for each in slices if each.name == name]
            indices = torch.cat([each.indices(torch.arange(block.size)) for each in parts])
            assert sorted(indices.tolist()) == list(range(model.state_dict()[name].shape[parts[0].dim]))


@every
def test_a_unit_of_attention_is_a_head(variant: str) -> None:
    """Query and key of a head do nothing once its value is zero: so they were found together."""
    model = tiny(variant)
    state = copy.deepcopy(model.state_dict())
    for block in blocks_of(model)[::2]:
        keep = torch.ones(block.size, dtype=torch.bool)
        keep[1] = False
        removed = unit_mask(model, {block.name: keep})
        assert removed.kept < removed.total
        (output,) = (each for each in block.weights if each.role == "output")
        silent = {output.name: removed[output.name]}
        model.load_state_dict(state | {output.name: state[output.name] * silent[output.name]})
        only_columns = logits(model)
        model.load_state_dict(removed.apply(state))
        torch.testing.assert_close(logits(model), only_columns, rtol=0, atol=1e-6)
        model.load_state_dict(state)
        assert not torch.allclose(logits(model), only_columns, atol=1e-3)


def test_indices_by_hand() -> None:
    fused = _Slice("Wqkv", "key", dim=0, width=2, offset=6, stride=2)  # three heads of two rows: query, key, value
    assert fused.indices(torch.tensor([0, 2])).tolist() == [6, 7, 10, 11]
    by_head = _Slice("in_proj", "key", dim=0, width=2, offset=2, stride=6)
    assert by_head.indices(torch.tensor([0, 2])).tolist() == [2, 3, 14, 15]
    matrix = torch.arange(12).reshape(2, 6)
    columns = _Slice("out", "output", dim=1, width=2, offset=0, stride=2)
    assert columns.by_unit(matrix, 3)[1].tolist() == [[2, 8], [3, 9]]


@pytest.mark.parametrize("name", [name for name, sizes in MODELS.items() if "num_key_value_heads" in sizes])
def test_a_group_of_query_heads_goes_with_its_key(name: str) -> None:
    model = tiny(name)  # four query heads, two keys
    attention = blocks_of(model)[0]
    mask = unit_mask(model, {attention.name: torch.tensor([True, False])})
    weight, size = f"{attention.name}.{{}}_proj.weight".format, MODELS[name].get("head_dim", 4)
    one, two = ([True] * heads * size + [False] * heads * size for heads in (1, 2))
    assert mask[weight("q")].any(1).tolist() == mask[weight("o")].any(0).tolist() == two
    assert mask[weight("k")].any(1).tolist() == mask[weight("v")].any(1).tolist() == one


@pytest.mark.parametrize("name", ["t5", "albert", "bart"])
def test_other_architectures_are_refused(name: str) -> None:
    model = hf.AutoModelForSequenceClassification.from_config(hf.AutoConfig.for_model(name, **SIZES[name]))
    with refused(type(model).__name__, *FAMILIES):
        blocks_of(model)


SIZES = {
    "t5": {"d_model": 8, "num_layers": 1, "num_heads": 2, "d_ff": 8, "vocab_size": 20},
    "albert": {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20},
    "bart": {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 20}
    | dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
}


def test_heads_that_are_mixed_are_refused() -> None:
    model = tiny("deberta")
    model.config.talking_head = True
    with refused("talking_head"):
        blocks_of(model)
