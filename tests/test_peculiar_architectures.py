"""What is peculiar to some architectures: shared weights, positions, padding, segments, heads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers as hf
from architectures import ARCHITECTURES, SMALL, TASK, Runs, write_backbone
from refusals import refused
from torch import nn

from srnet.experiment.nodes.base import load_task
from srnet.masks.targets import Targets
from srnet.models.backbones import load_backbone
from srnet.models.subnetwork import Subnetwork
from srnet.training.data import encode
from srnet.training.predict import predict


def test_layers_that_share_their_weights_share_a_mask(runs: Runs) -> None:
    model = runs.loaded("albert").model
    assert model.config.num_hidden_layers == 2
    found = Targets().find(model)
    assert len(found) == 6 + 1  # not 12: the two layers are one
    assert len({layer.weight.data_ptr() for layer in found.values()}) == len(found)


def test_a_decoder_after_an_encoder_is_masked_on_demand(runs: Runs) -> None:
    model = runs.loaded("t5").model
    usual, everything = set(Targets().find(model)), set(Targets(exclude=("dense",)).find(model))
    assert everything - usual == {name for name in everything if ".decoder." in name} != set()


def test_the_part_that_reads_images_is_not_masked() -> None:
    text = hf.Gemma3TextConfig(vocab_size=20, num_key_value_heads=1, head_dim=8, **SMALL)
    vision = hf.SiglipVisionConfig(image_size=28, patch_size=14, **SMALL)
    config = hf.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    found = Targets().find(hf.Gemma3ForSequenceClassification(config))
    layers = {f"model.language_model.{name.removeprefix('model.')}" for name in ARCHITECTURES["gemma3_text"].stack}
    assert set(found) == layers | {"score"}


def test_a_mixture_of_experts_is_no_sparsity_of_ours() -> None:
    config = hf.MixtralConfig(vocab_size=20, num_local_experts=2, num_key_value_heads=1, **SMALL)
    model = hf.MixtralForSequenceClassification(config)
    with refused("MixtralForSequenceClassification", "experts", "target_modules"):
        Targets().find(model)
    assert len(Targets(("q_proj", "k_proj")).find(model)) == 4


@pytest.mark.parametrize("name", ["xlm-roberta", "mpnet"])
def test_positions_that_begin_after_the_padding(name: str, tmp_path: Path) -> None:
    """514 positions with the padding at 1 are 512 tokens; the 513th would have no position."""
    folder = write_backbone(name, tmp_path / "backbone", max_position_embeddings=514)
    base = load_backbone(folder, ("a", "b"), seed=0)
    assert base.max_length(10_000) == 512
    tokens = torch.full((1, 513), 7)
    base.model(input_ids=tokens[:, :512])
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        base.model(input_ids=tokens)


@pytest.mark.parametrize(("name", "limit"), [("gpt2", 64), ("bert", 512), ("llama", 2048), ("t5", 10_000)])
def test_positions_that_begin_at_the_beginning(name: str, limit: int, runs: Runs) -> None:
    assert runs.loaded(name).max_length(10_000) == limit
    assert runs.loaded(name).max_length(48) == 48


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_decoders_pad_with_the_end_of_text(name: str, runs: Runs) -> None:
    assert hf.AutoTokenizer.from_pretrained(runs.backbone(name)).pad_token is None
    tokenizer = runs.loaded(name).tokenizer
    assert tokenizer.pad_token_id == tokenizer.eos_token_id


def test_a_padding_token_without_an_embedding_is_not_used(tmp_path: Path) -> None:
    folder = write_backbone("llama", tmp_path / "backbone")
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "<added>"})
    tokenizer.save_pretrained(folder)
    base = load_backbone(folder, ("a", "b"), seed=0)
    assert base.tokenizer.pad_token_id == base.model.config.pad_token_id == tokenizer.eos_token_id


def test_the_tokenizer_says_what_padding_is(tmp_path: Path) -> None:
    folder = write_backbone("llama", tmp_path / "backbone")
    config = hf.AutoConfig.from_pretrained(folder)
    config.pad_token_id = 5
    config.save_pretrained(folder)
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.unk_token
    tokenizer.save_pretrained(folder)
    base = load_backbone(folder, ("a", "b"), seed=0)
    assert base.tokenizer.pad_token_id == base.model.config.pad_token_id == tokenizer.unk_token_id


def test_nothing_to_pad_with_is_an_error_of_the_user(tmp_path: Path) -> None:
    folder = write_backbone("gpt2", tmp_path / "backbone")
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = tokenizer.unk_token = None
    tokenizer.save_pretrained(folder)
    with refused("pad"):
        load_backbone(folder, ("a", "b"), seed=0)


@pytest.mark.parametrize(("name", "told"), [("bert", True), ("albert", True), ("distilbert", False), ("t5", False)])
def test_who_is_told_which_text_a_token_is_from(name: str, told: bool, runs: Runs) -> None:
    tokens = runs.loaded(name).tokenizer("the", "the")
    assert ("token_type_ids" in tokens) is told
    assert not told or set(tokens["token_type_ids"]) == {0, 1}


def test_a_tokenizer_that_tells_what_the_model_cannot_hear(tmp_path: Path) -> None:
    folder = write_backbone("bert", tmp_path / "backbone", type_vocab_size=1)
    assert "token_type_ids" in hf.AutoTokenizer.from_pretrained(folder)("the", "the")
    base = load_backbone(folder, ("a", "b"), seed=0)
    data = encode(load_task(TASK).dev, base.tokenizer, 64)
    assert predict(base.model, data).shape == (len(data), 2)


@pytest.mark.parametrize("name", ["roberta", "modernbert"])
def test_of_a_head_only_the_last_layer_is_fresh(name: str, runs: Runs, tmp_path: Path) -> None:
    """A pooler that the checkpoint brings along is a part of the backbone; one that it lacks is drawn."""
    drawn = runs.loaded(name)
    last = ARCHITECTURES[name].classifier
    pooler = {"roberta": "classifier.dense.weight", "modernbert": "head.dense.weight"}[name]
    assert {pooler, f"{last}.weight"} <= drawn.fresh
    drawn.model.save_pretrained(tmp_path / "classifier")
    drawn.tokenizer.save_pretrained(tmp_path / "classifier")
    one, other = (load_backbone(str(tmp_path / "classifier"), labels, seed=1) for labels in ("ab", "abcde"))
    assert one.fresh == other.fresh == {f"{last}.weight", f"{last}.bias"}
    assert one.sha256 == other.sha256 != drawn.sha256
    assert torch.equal(other.model.state_dict()[pooler], drawn.model.state_dict()[pooler])


def test_tensors_that_share_their_memory_are_kept_once(runs: Runs, tmp_path: Path) -> None:
    base = runs.loaded("t5")
    copies = {"transformer.encoder.embed_tokens.weight", "transformer.decoder.embed_tokens.weight"}
    assert base.twins() == dict.fromkeys(copies, "transformer.shared.weight")
    assert "transformer.shared.weight" in base.pretrained()
    state = {name: tensor + 1 for name, tensor in base.model.state_dict().items()}
    Subnetwork.of(base, load_task(TASK).labels, state, None).save(tmp_path / "tuned")
    loaded = Subnetwork.load(tmp_path / "tuned")
    assert set(loaded.weights) == set(state) - copies
    tuned = loaded.model(loaded.base()).state_dict()
    assert all(torch.equal(tuned[name], state[name]) for name in state)


def test_a_pickle_is_never_read(runs: Runs, tmp_path: Path) -> None:
    model = runs.loaded("gpt2").model
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with refused("safetensors"):
        load_backbone(str(tmp_path), ("a", "b"), seed=0)


def test_a_head_that_fits_is_drawn_anew(runs: Runs, tmp_path: Path) -> None:
    """All seeds would share it otherwise, and it may have been trained for labels in another order."""
    first = load_backbone(runs.backbone("bert"), ("a", "b"), seed=0)
    nn.init.ones_(first.model.classifier.weight)
    first.model.save_pretrained(tmp_path / "tuned")
    first.tokenizer.save_pretrained(tmp_path / "tuned")
    heads = [load_backbone(str(tmp_path / "tuned"), ("a", "b"), seed).model.classifier.weight for seed in (0, 1, 1)]
    assert not torch.equal(heads[0], first.model.classifier.weight)
    assert not torch.equal(heads[0], heads[1])
    assert torch.equal(heads[1], heads[2])
