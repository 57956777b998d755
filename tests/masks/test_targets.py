"""Which matrices are masked."""

from __future__ import annotations

import pytest
from torch import nn
from transformers import BertConfig, BertForSequenceClassification
from transformers.pytorch_utils import Conv1D

from srnet.errors import UserError
from srnet.masks import Targets


@pytest.fixture(scope="module")
def bert() -> nn.Module:
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForSequenceClassification(BertConfig(vocab_size=10, max_position_embeddings=8, **sizes))


LAYER = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


def test_default_is_what_the_paper_prunes(bert: nn.Module) -> None:
    expected = {f"bert.encoder.layer.{index}.{name}" for index in range(2) for name in LAYER} | {"classifier"}
    assert set(Targets().find(bert)) == expected  # the published code masks the pooler as well, the paper does not


def test_only_linear_layers_are_ever_chosen(bert: nn.Module) -> None:
    everything = Targets("all-linear", exclude=()).find(bert)
    assert "bert.pooler.dense" in everything
    assert all(isinstance(layer, nn.Linear) for layer in everything.values())
    with pytest.raises(UserError, match="no layer matches"):
        Targets(("word_embeddings", "LayerNorm")).find(bert)


def test_endings(bert: nn.Module) -> None:
    found = Targets(("query", "self.value")).find(bert)
    assert {name.rsplit(".", 1)[-1] for name in found} == {"query", "value"}
    assert len(found) == 4


def test_an_ending_is_a_whole_part_of_the_name() -> None:
    model = nn.ModuleDict({"proj": nn.Linear(1, 1), "up_proj": nn.Linear(1, 1)})
    assert set(Targets(("proj",)).find(model)) == {"proj"}


def test_a_regular_expression_must_match_the_full_name(bert: nn.Module) -> None:
    assert set(Targets(r".*layer\.1\..*query").find(bert)) == {"bert.encoder.layer.1.attention.self.query"}
    with pytest.raises(UserError, match="no layer matches"):
        Targets("query").find(bert)


def test_exclude_wins(bert: nn.Module) -> None:
    assert set(Targets(("query", "classifier"), exclude=("classifier",)).find(bert)) == {
        f"bert.encoder.layer.{index}.attention.self.query" for index in range(2)
    }
    assert not any("layer.0" in name for name in Targets(exclude=r".*layer\.0.*").find(bert))


def test_the_pooler_stays_whatever_is_chosen_unless_exclude_says_otherwise(bert: nn.Module) -> None:
    usual = set(Targets(("dense",)).find(bert))
    assert set(Targets(("dense",), exclude=()).find(bert)) - usual == {"bert.pooler.dense"}


def test_nothing_found_names_what_there_is(bert: nn.Module) -> None:
    with pytest.raises(UserError, match=r"q_proj.*linear layers end in: .*query"):
        Targets(("q_proj",)).find(bert)


def test_a_broken_expression_is_the_users_to_mend(bert: nn.Module) -> None:
    with pytest.raises(UserError, match="regular expression"):
        Targets("(").find(bert)


def test_gpt_style_linear_layers_count() -> None:
    assert set(Targets().find(nn.ModuleDict({"c_attn": Conv1D(2, 2), "norm": nn.LayerNorm(2)}))) == {"c_attn"}
