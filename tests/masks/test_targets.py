"""Which matrices are masked."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers as hf
from refusals import refused
from torch import nn
from transformers import BertConfig, BertForSequenceClassification
from transformers.pytorch_utils import Conv1D

from srnet.masks.modules import ScoreMask
from srnet.masks.parametrization import attach
from srnet.masks.targets import LAYERS, Targets
from srnet.models.heads import _restrict_to
from srnet.pruners.magnitude import OneShot


@pytest.fixture(scope="module")
def bert() -> nn.Module:
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForSequenceClassification(BertConfig(vocab_size=10, max_position_embeddings=8, **sizes))


LAYER = (*(f"attention.self.{name}" for name in ("query", "key", "value")), "attention.output.dense",
         "intermediate.dense", "output.dense")  # fmt: skip


def test_default_is_what_the_paper_prunes(bert: nn.Module) -> None:
    expected = {f"bert.encoder.layer.{index}.{name}" for index in range(2) for name in LAYER} | {"classifier"}
    assert set(Targets().find(bert)) == expected  # the published code masks the pooler as well, the paper does not


def test_only_linear_layers_are_ever_chosen(bert: nn.Module) -> None:
    everything = Targets("all-linear", exclude=()).find(bert)
    assert "bert.pooler.dense" in everything
    assert all(isinstance(layer, nn.Linear) for layer in everything.values())
    with refused("word_embeddings"):
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
    with refused("'query'"):
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
    for targets, named in (
        (Targets(("q_proj",)), "q_proj"),
        (Targets(exclude="nonsense"), "nonsense"),
        (Targets(exclude=("querry",)), "querry"),
        (Targets(exclude=".*querry"), ".*querry"),
    ):
        with refused(named, "query"):
            targets.find(bert)
    with refused("'('"):
        Targets("(").find(bert)


def test_gpt_style_linear_layers_count() -> None:
    assert set(Targets().find(nn.ModuleDict({"c_attn": Conv1D(2, 2), "norm": nn.LayerNorm(2)}))) == {"c_attn"}


# --- the layers alone ----------------------------------------------------------------------------------------------

TWELVE = {"hidden_size": 8, "num_hidden_layers": 12, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.mark.parametrize("head", ["classifier", "label words", "tokens"])
def test_bert_has_72_matrices_whatever_its_head(head: str) -> None:
    config = BertConfig(vocab_size=10, max_position_embeddings=8, **TWELVE)
    model: hf.PreTrainedModel = {
        "classifier": BertForSequenceClassification,
        "label words": hf.BertForMaskedLM,
        "tokens": hf.BertForTokenClassification,
    }[head](config)
    if head == "label words":
        _restrict_to(model, [3, 4])
    found = LAYERS.find(model)
    assert set(found) == {f"bert.encoder.layer.{index}.{name}" for index in range(12) for name in LAYER}
    assert len(found) == 72


def test_the_stack_of_bert_base_is_what_was_published() -> None:
    with torch.device("meta"):
        found = LAYERS.find(BertForSequenceClassification(BertConfig()))
    assert sum(layer.weight.numel() for layer in found.values()) == 84_934_656  # type: ignore[operator, union-attr]


def test_label_words_are_never_masked(bert: nn.Module) -> None:
    """Not by the default either, which masks a classifier: a word's embedding is no matrix of the task."""
    config = BertConfig(vocab_size=10, max_position_embeddings=8, **TWELVE | {"num_hidden_layers": 2})
    model = hf.BertForMaskedLM(config)
    _restrict_to(model, [3, 4])
    assert set(Targets().find(model)) == set(LAYERS.find(model)) == set(LAYERS.find(bert))


@pytest.mark.parametrize("words", [False, True])
def test_the_layers_of_roberta(words: bool) -> None:
    config = hf.RobertaConfig(vocab_size=10, max_position_embeddings=8, **TWELVE | {"num_hidden_layers": 2})
    model = hf.RobertaForMaskedLM(config) if words else hf.RobertaForSequenceClassification(config)
    if words:
        _restrict_to(model, [3, 4])
    expected = {f"roberta.encoder.layer.{index}.{name}" for index in range(2) for name in LAYER}
    assert set(LAYERS.find(model)) == expected  # neither `classifier.dense`, `classifier.out_proj` nor `lm_head`


def test_what_is_no_transformer_is_masked_whole() -> None:
    model = nn.ModuleDict({"one": nn.Linear(2, 2), "two": nn.Linear(2, 2)})
    assert set(LAYERS.find(model)) == {"one", "two"}


# --- matrices that several modules use -----------------------------------------------------------------------------

WORDS = {"vocab_size": 12}
LANGUAGE_MODELS = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**WORDS, n_positions=8, n_embd=8, n_layer=2, n_head=2)),
    "t5": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(**WORDS, d_model=8, d_kv=4, d_ff=16, num_layers=2, num_heads=2, tie_word_embeddings=True)
    ),
    "bert": lambda: hf.BertForMaskedLM(
        BertConfig(**WORDS, max_position_embeddings=8, **TWELVE | {"num_hidden_layers": 2})
    ),
    "bart": lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(
            **WORDS, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=8,
        )
    ),
}  # fmt: skip
EMBEDDING = {"gpt2": "wte", "t5": "embed_tokens", "bert": "word_embeddings", "bart": "embed_tokens"}
OUTPUT = {"gpt2": "lm_head", "t5": "lm_head", "bert": "cls.predictions.decoder", "bart": "lm_head"}
SELECTIONS = {"default": Targets(), "layers": LAYERS, "everything": Targets(exclude=())}


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("kind", LANGUAGE_MODELS)
def test_an_embedding_is_never_masked_as_the_output_layer(kind: str, selection: str) -> None:
    model = LANGUAGE_MODELS[kind]()
    embeddings, output = model.get_input_embeddings(), model.get_output_embeddings()
    assert output.weight is embeddings.weight, "the model ties them"
    before = embeddings.weight.detach().clone()
    mask = OneShot(0.5, targets=SELECTIONS[selection]).mask(model)
    assert f"{OUTPUT[kind]}.weight" not in mask
    model.load_state_dict(mask.apply(model.state_dict()))
    assert torch.equal(embeddings.weight, before)
    state = model.state_dict()
    covered = {state[name].data_ptr() for name in mask}
    assert not covered & {tensor.data_ptr() for name, tensor in state.items() if name not in mask}


@pytest.mark.parametrize("tied", [True, False])
def test_of_a_generating_encoder_decoder_the_encoder_is_masked(tied: bool) -> None:
    config = LANGUAGE_MODELS["t5"]().config
    config.tie_word_embeddings = tied
    model = hf.T5ForConditionalGeneration(config)
    for targets in (Targets(), LAYERS):
        assert {name.split(".")[0] for name in targets.find(model)} == {"encoder"}
    both = {name.split(".")[0] for name in Targets(exclude=()).find(model)}
    assert both == {"encoder", "decoder"} | (set() if tied else {"lm_head"})


@pytest.mark.parametrize("kind", LANGUAGE_MODELS)
def test_an_output_layer_of_its_own_is_masked_if_it_is_named(kind: str) -> None:
    model, name = LANGUAGE_MODELS[kind](), OUTPUT[kind]
    named = Targets((name.rsplit(".", 1)[-1],), exclude=())
    with refused(name, EMBEDDING[kind]):
        named.find(model)
    layer = model.get_submodule(name)
    layer.weight = nn.Parameter(layer.weight.detach().clone())
    assert set(named.find(model)) == {name}


@pytest.mark.parametrize("shared", [False, True])
def test_layers_that_are_masked_are_found_again(shared: bool, bert: nn.Module) -> None:
    model = LANGUAGE_MODELS["gpt2"]() if shared else copy.deepcopy(bert)
    before = Targets().find(model)
    attach(before, {f"{name}.weight": ScoreMask(torch.zeros_like(m.weight), 0.0) for name, m in before.items()})
    assert set(Targets().find(model)) == set(before)


def test_layers_that_share_with_an_excluded_one_stay_as_they_are() -> None:
    model = nn.ModuleDict({"one": nn.Linear(2, 2), "two": nn.Linear(2, 2), "three": nn.Linear(2, 2)})
    model["two"].weight = model["one"].weight  # type: ignore[assignment]
    assert set(Targets(exclude=("two",)).find(model)) == {"three"}
    for targets in (Targets(("one", "three")), Targets()):
        with refused("one", "two"):
            targets.find(model)
