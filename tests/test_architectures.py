"""Every architecture behind `AutoModelForSequenceClassification`: masked, trained, saved and loaded alike.

A new one is one more line in `ARCHITECTURES`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from methods import FROZEN, METHODS, STEERED
from torch import nn

from srnet.backbones import LoadedBackbone, in_base, load_backbone
from srnet.bank import MaskBank
from srnet.errors import UserError
from srnet.experiment import Engine, Pretrained, Prune, Store
from srnet.experiment.nodes import load_task
from srnet.export.merged import save_merged
from srnet.masks import LAYERS, Mask, Targets
from srnet.progress import Reporter
from srnet.pruners import IMP, MaskTraining
from srnet.pruners.base import Pruner
from srnet.pruners.static import kind_of
from srnet.subnetwork import Subnetwork, load_subnetwork
from srnet.tasks.splits import Example, Split
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings, encode, trainer
from srnet.training.predict import predict

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
    """The name of a layer, by its number."""
    matrices: str
    classifier: str
    layers: int = 2
    """How many of them have weights of their own."""

    @property
    def stack(self) -> set[str]:
        layers = (self.layer.format(number) for number in range(self.layers))
        return {f"{layer}.{name}" for layer in layers for name in self.matrices.split()}

    @property
    def masked(self) -> set[str]:
        return self.stack | {self.classifier}


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
POSITIONS = {"max_position_embeddings": 64}
NARROW = {"embedding_size": 8}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
RELATIVE = {"relative_attention": True, "position_buckets": 8, "share_att_key": True, "pos_att_type": ["p2c", "c2p"]}
DEBERTA = SMALL | RELATIVE
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "feed_forward_proj": "gated-gelu"}
LLAMA = SMALL | {"num_key_value_heads": 1, "head_dim": 8}
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
    "qwen3": A(LLAMA, hf.GPT2Tokenizer, "model.layers.{}", LLAMA_LIKE, "score"),
    "t5": A(T5, hf.T5Tokenizer, "transformer.encoder.block.{}", T5_LIKE, SEQ_OUT),
    "bart": A(BART, hf.RobertaTokenizer, "model.encoder.layers.{}", BART_LIKE, SEQ_OUT),
}
every = pytest.mark.parametrize("name", ARCHITECTURES)


def pruners_of(name: str) -> tuple[Pruner, ...]:
    if name == "bert":
        return (MASK, WEIGHTS, *IN_TURN)
    own = IN_TURN[list(ARCHITECTURES).index(name) % len(IN_TURN)]
    return (MASK, WEIGHTS, own) if own.name in FROZEN else (MASK, own)


CASES = [(name, pruner.name) for name in ARCHITECTURES for pruner in pruners_of(name)]
every_case = pytest.mark.parametrize(("name", "pruner"), CASES)
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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("architectures"))


ELSEWHERE = """
import sys
import numpy as np
import torch
from pathlib import Path
from srnet.subnetwork import Subnetwork
sys.path.insert(0, "tests")
from test_architectures import logits_on_dev
torch.set_num_threads(1)
for folder in sys.argv[2:]:
    np.save(Path(sys.argv[1]) / Path(folder).name, logits_on_dev(Subnetwork.load(Path(folder))))
"""


def logits_on_dev(subnetwork: Subnetwork) -> np.ndarray:
    base = subnetwork.base()
    dev = encode(load_task(TASK).dev, base.tokenizer, base.max_length(THREE_STEPS.max_length))
    return predict(subnetwork.model(base), dev)


@pytest.fixture(scope="module")
def elsewhere(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logits of all subnetworks, computed by another process from nothing but their folders."""
    target, folders = tmp_path_factory.mktemp("logits"), []
    for name in ARCHITECTURES:
        folders += [str(found.folder) for found in runs.found(name).values()]
    root = Path(__file__).parent.parent
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(target), *folders], cwd=root, check=True)
    return target


# --- the matrix ----------------------------------------------------------------------------------------------------


@every
def test_what_is_masked(name: str, runs: Runs) -> None:
    found = Targets().find(runs.loaded(name).model)
    assert set(found) == ARCHITECTURES[name].masked  # and so no embedding, norm, bias, pooler or decoder
    assert set(LAYERS.find(runs.loaded(name).model)) == ARCHITECTURES[name].stack


@every_case
def test_the_budget_is_met_to_the_weight(name: str, pruner: str, runs: Runs) -> None:
    subnetwork = Subnetwork.load(runs.found(name)[pruner].folder)
    mask = mask_of(subnetwork)
    architecture = ARCHITECTURES[name]
    modules = architecture.stack if METHODS[pruner].targets == LAYERS else architecture.masked  # type: ignore[attr-defined]
    assert set(mask) == {f"{module}.weight" for module in modules}
    if pruner == "smp-s":  # matrices of a kind share their budget
        halves: Counter[str] = Counter()
        for matrix, keep in mask.items():
            halves[kind_of(matrix)] += 2 * int(keep.sum()) - keep.numel()
        assert set(halves.values()) == {0}
    elif pruner not in STEERED:
        pruned = {matrix: int((~keep).sum()) for matrix, keep in mask.items()}
        assert pruned == {matrix: round(0.5 * keep.numel()) for matrix, keep in mask.items()}
        assert mask.total - mask.kept == sum(pruned.values())
    state = subnetwork.state(subnetwork.base())
    assert not any(state[matrix][~keep].any() for matrix, keep in mask.items())


@every_case
def test_another_process_gets_the_same_logits(name: str, pruner: str, runs: Runs, elsewhere: Path) -> None:
    found = runs.found(name)[pruner]
    assert found.logits.std(axis=0).max() > 1e-3, "logits that say nothing of their text compare nothing"
    np.testing.assert_allclose(np.load(elsewhere / f"{found.folder.name}.npy"), found.logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "pruner"), [case for case in CASES if case[1] in FROZEN])
def test_some_change_nothing_but_the_mask(name: str, pruner: str, runs: Runs) -> None:
    """Mask training not even a drawn head, static pruning nothing that was pre-trained."""
    subnetwork, base = Subnetwork.load(runs.found(name)[pruner].folder), runs.loaded(name)
    before, after = base.model.state_dict(), subnetwork.state(subnetwork.base())
    for tensor, expected in mask_of(subnetwork).apply(before).items():
        if pruner == "mask" or in_base(base.model, tensor):
            assert torch.equal(after[tensor], expected), tensor


@every
def test_a_bank_switches_between_coded_folders(name: str, runs: Runs, tmp_path: Path) -> None:
    bank, expected = MaskBank(runs.backbone(name)), {}
    for pruner, found in runs.found(name).items():
        Subnetwork.load(found.folder).save_coded(tmp_path / pruner)
        bank.add(pruner, tmp_path / pruner)
        expected[pruner] = load_subnetwork(found.folder).state_dict()
    for pruner in (*expected, *expected):
        state = bank.use(pruner).state_dict()
        assert state.keys() == expected[pruner].keys()
        assert all(torch.equal(state[tensor], each) for tensor, each in expected[pruner].items()), pruner


@every
def test_a_batch_gives_the_logits_of_each_text_alone(name: str, runs: Runs) -> None:
    base = runs.loaded(name)
    data = encode(load_task(TASK).dev, base.tokenizer, base.max_length(64))
    assert len(set(data.lengths)) > 1
    model = base.model.eval()
    rows = range(len(data))
    with torch.no_grad():
        together = logits_of(model, data.collate(rows))
        alone = torch.cat([logits_of(model, data.collate([row])) for row in rows])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-4)


def logits_of(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    logits: torch.Tensor = model(**{name: t for name, t in batch.items() if name != "labels"}).logits
    return logits


def mask_of(subnetwork: Subnetwork) -> Mask:
    assert subnetwork.mask is not None
    return subnetwork.mask


# --- what is peculiar to some --------------------------------------------------------------------------------------


def test_layers_that_share_their_weights_share_a_mask(runs: Runs) -> None:
    model = runs.loaded("albert").model
    assert model.config.num_hidden_layers == 2
    found = Targets().find(model)
    assert len(found) == 6 + 1  # not 12: the two layers are one
    assert len({layer.weight.data_ptr() for layer in found.values()}) == len(found)


def test_two_layers_with_one_tensor_are_refused() -> None:
    model = nn.ModuleDict({"one": nn.Linear(2, 2), "other": nn.Linear(2, 2)})
    model["other"].weight = model["one"].weight
    with pytest.raises(UserError, match="one and other share one matrix"):
        Targets().find(model)


def test_a_decoder_after_an_encoder_is_masked_on_demand(runs: Runs) -> None:
    model = runs.loaded("t5").model
    usual, everything = set(Targets().find(model)), set(Targets(exclude=("dense",)).find(model))
    assert everything - usual == {name for name in everything if ".decoder." in name} != set()


def test_a_mixture_of_experts_is_no_sparsity_of_ours() -> None:
    config = hf.MixtralConfig(vocab_size=20, num_local_experts=2, num_key_value_heads=1, **SMALL)
    model = hf.MixtralForSequenceClassification(config)
    with pytest.raises(UserError, match=r"MixtralForSequenceClassification.*experts.*target_modules"):
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


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_the_padding_of_decoders_survives(name: str, runs: Runs, tmp_path: Path) -> None:
    assert hf.AutoTokenizer.from_pretrained(runs.backbone(name)).pad_token is None
    found = runs.found(name)["mask"]
    save_merged(Subnetwork.load(found.folder), tmp_path / "merged")
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "merged")
    model = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    assert tokenizer.pad_token_id == model.config.pad_token_id == tokenizer.eos_token_id
    dev = load_task(TASK).dev
    second = [f"\n{text}" for text in dev.text_b]  # these tokenizers do not tell two texts apart by themselves
    batch = tokenizer(list(dev.text_a), second, padding=True, return_tensors="pt")
    with torch.no_grad():
        np.testing.assert_allclose(model(**batch).logits.numpy(), found.logits, rtol=0, atol=1e-5)


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
    with pytest.raises(UserError, match="no token to pad with"):
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
    with pytest.raises(UserError, match="safetensors"):
        load_backbone(str(tmp_path), ("a", "b"), seed=0)


@every
def test_where_the_second_text_begins_can_be_seen(name: str, runs: Runs) -> None:
    base = runs.loaded(name)
    one, other = (Example("1", "the doctor", "slept in it", 0), Example("1", "the doctor slept", "in it", 0))
    first, second = (encode(Split.of("x", "ID", [e]), base.tokenizer, 48).collate([0]) for e in (one, other))
    shape = first["input_ids"].shape
    assert shape != second["input_ids"].shape or not torch.equal(first["input_ids"], second["input_ids"])


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
