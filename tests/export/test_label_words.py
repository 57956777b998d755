"""The language-model head as a classifier: the same logits, restricted to the words, wherever it goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from refusals import refused

from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.masks.targets import LAYERS
from srnet.models.backbones import has_language_model, load_backbone
from srnet.models.formats.merged import save_merged
from srnet.models.heads import Head, token_ids
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.movement import Movement
from srnet.pruners.static import StaticLocal, StaticShared
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import encode
from srnet.training.predict import predict
from srnet.training.settings import TrainingSettings

TASK = SyntheticTask("inference", train_size=60, dev_size=12, ood_size=12)
TRAINING = TrainingSettings(learning_rate=1e-2, steps=4, eval_every=2, batch_size=4, max_length=48)
WORDS = ("No", "Yes")
LABELS = ("a", "b")
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
POSITIONS = {"max_position_embeddings": 64}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "bert": (SMALL, hf.BertTokenizer),
    "roberta": (SMALL | POSITIONS, hf.RobertaTokenizer),
    "distilbert": (DISTIL, hf.DistilBertTokenizer),
    "electra": (SMALL | {"embedding_size": 8}, hf.BertTokenizer),
    "albert": (SMALL | {"embedding_size": 8}, hf.AlbertTokenizer),
    "deberta-v2": (SMALL, hf.BertTokenizer),
    "mpnet": (SMALL | POSITIONS, hf.MPNetTokenizer),
    "modernbert": (SMALL, hf.BertTokenizer),
}
every = pytest.mark.parametrize("kind", KINDS)
two = pytest.mark.parametrize("kind", ["bert", "roberta"])


def write_backbone(kind: str, folder: Path, loader: Any = hf.AutoModelForMaskedLM) -> str:
    sizes, tokenizer_class = KINDS[kind]
    task = load_task(TASK)
    texts = [text for split in task.splits.values() for text in (*split.text_a, *split.text_b)]
    texts += ["it is Yes and it is No and it is maybe"] * 500  # so that each of them is one token
    tokenizer = tokenizer_class().train_new_from_iterator(texts, vocab_size=420)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos", "cls", "sep")}
    ids = {name: token for name, token in ids.items() if token is not None}
    torch.manual_seed(0)
    model = loader.from_config(hf.AutoConfig.for_model(kind, vocab_size=len(tokenizer), **sizes | ids))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3)  # biases too: a head without its bias must show
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


class Backbones:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, kind: str) -> str:
        folder = self.folder / kind
        return str(folder) if folder.exists() else write_backbone(kind, folder)


@pytest.fixture(scope="module")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> Backbones:
    return Backbones(tmp_path_factory.mktemp("language-models"))


@dataclass(frozen=True)
class Texts:
    batch: dict[str, torch.Tensor]

    @classmethod
    def of(cls, tokenizer: Any) -> Texts:
        dev = load_task(TASK).dev
        return cls(dict(tokenizer(list(dev.text_a), list(dev.text_b), padding=True, return_tensors="pt")))

    @torch.no_grad()
    def through(self, model: Any) -> torch.Tensor:
        logits: torch.Tensor = model.eval()(**self.batch).logits
        return logits


# --- the logits ----------------------------------------------------------------------------------------------------


@every
def test_logits_are_those_of_the_language_model(kind: str, backbones: Backbones) -> None:
    base = load_backbone(backbones(kind), LABELS, seed=0, head=Head(WORDS))
    texts = Texts.of(base.tokenizer)
    full = texts.through(hf.AutoModelForMaskedLM.from_pretrained(backbones(kind)))
    ids = token_ids(WORDS, base.tokenizer)
    ours = texts.through(base.model)
    assert ours.shape == (12, 2)
    assert ours.std(dim=0).max() > 1e-4
    torch.testing.assert_close(ours, full[:, 0, ids], rtol=0, atol=1e-5)


@every
def test_one_pair_of_logits_a_token(kind: str, backbones: Backbones) -> None:
    base = load_backbone(backbones(kind), ("start", "end"), seed=0, head=Head(("Yes", "No"), per_token=True))
    texts = Texts.of(base.tokenizer)
    full = texts.through(hf.AutoModelForMaskedLM.from_pretrained(backbones(kind)))
    ours = texts.through(base.model)
    there = texts.batch["attention_mask"].bool()
    torch.testing.assert_close(
        ours[there], full[..., token_ids(("Yes", "No"), base.tokenizer)][there], rtol=0, atol=1e-5
    )


@two
def test_one_word_gives_a_score(kind: str, backbones: Backbones) -> None:
    base = load_backbone(backbones(kind), ("score",), seed=0, head=Head(("Yes",)))
    assert Texts.of(base.tokenizer).through(base.model).shape == (12, 1)


@two
def test_words_are_those_of_running_text(kind: str, backbones: Backbones) -> None:
    tokenizer = load_backbone(backbones(kind), LABELS, seed=0).tokenizer
    for word, token in zip(WORDS, token_ids(WORDS, tokenizer), strict=True):
        inside = tokenizer(f"it is {word} and", add_special_tokens=False)["input_ids"]
        assert token in inside
        assert token_ids((f" {word} ",), tokenizer) == [token]


@two
def test_nothing_of_the_head_is_drawn(kind: str, backbones: Backbones) -> None:
    one, other = (load_backbone(backbones(kind), LABELS, seed, Head(WORDS)) for seed in (0, 1))
    for name, tensor in one.model.state_dict().items():
        assert torch.equal(tensor, other.model.state_dict()[name]), name
    assert one.model.label_words
    assert one.sha256 == other.sha256
    assert not one.fresh


@two
def test_predictions_go_the_usual_way(kind: str, backbones: Backbones) -> None:
    base = load_backbone(backbones(kind), LABELS, seed=0, head=Head(WORDS))
    data = encode(load_task(TASK).dev, base.tokenizer, base.max_length(48))
    np.testing.assert_allclose(
        predict(base.model, data), Texts.of(base.tokenizer).through(base.model).numpy(), rtol=0, atol=1e-4
    )


# --- what cannot be ------------------------------------------------------------------------------------------------


@two
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("Yes", "unquestionably"), ("unquestionably", "one token")),
        (("Yes", ""), ("empty",)),
        (("Yes", " "), ("empty",)),
        (("Yes", "Yes"), ("'Yes' and 'Yes'",)),
        (("Yes", " Yes"), ("'Yes' and ' Yes'",)),
        (("Yes",), ("1 label words for 2 labels", "a, b")),
        (("Yes", "No", "maybe"), ("3 label words for 2 labels", "a, b")),
    ],
)
def test_words_that_cannot_be_used(
    kind: str, words: tuple[str, ...], named: tuple[str, ...], backbones: Backbones
) -> None:
    with refused(*named):
        load_backbone(backbones(kind), LABELS, seed=0, head=Head(words))


@pytest.mark.parametrize(("word", "named"), [("東京", "'東京' is unknown"), ("YES", "'Yes' and 'YES'")])
def test_words_that_a_tokenizer_without_capitals_cannot_use(word: str, named: str, backbones: Backbones) -> None:
    with refused(named):
        load_backbone(backbones("bert"), LABELS, seed=0, head=Head(("Yes", word)))


@two
@pytest.mark.parametrize("loader", [hf.AutoModel, hf.AutoModelForSequenceClassification])
def test_a_backbone_that_brings_no_head(kind: str, loader: Any, tmp_path: Path) -> None:
    folder = write_backbone(kind, tmp_path / "plain", loader)
    assert not has_language_model(folder)
    with refused(folder, "masked-language-model"):
        load_backbone(folder, LABELS, seed=0, head=Head(WORDS))
    load_backbone(folder, LABELS, seed=0)


@pytest.mark.parametrize("kind", ["gpt2", "t5", "bart"])
def test_an_architecture_that_has_none(kind: str, tmp_path: Path) -> None:
    """No logits of [CLS] there: neither a traceback in the first step nor numbers that mean something else."""
    sizes = {"vocab_size": 420, "d_model": 16, "n_embd": 16, "n_head": 2, "n_layer": 1, "d_kv": 8, "d_ff": 32}
    sizes |= {"num_layers": 1, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    config = hf.AutoConfig.for_model(kind, **sizes)
    loader = hf.AutoModelForCausalLM if kind == "gpt2" else hf.AutoModelForSeq2SeqLM
    loader.from_config(config).save_pretrained(tmp_path / kind)
    texts = ["it is Yes and it is No"] * 500
    hf.RobertaTokenizer().train_new_from_iterator(texts, vocab_size=420).save_pretrained(tmp_path / kind)
    with refused(kind, "masked-language-model"):
        load_backbone(str(tmp_path / kind), LABELS, seed=0, head=Head(WORDS))


def test_has_language_model(backbones: Backbones, tmp_path: Path) -> None:
    assert has_language_model(backbones("bert"))
    assert has_language_model(backbones("roberta"))
    assert not has_language_model(str(tmp_path / "nowhere"))


# --- folders -------------------------------------------------------------------------------------------------------


def moved_state(base: Any) -> dict[str, torch.Tensor]:
    """As if everything had been trained, the head as well."""
    generator = torch.Generator().manual_seed(1)
    state = {n: t + 0.1 * torch.randn(t.shape, generator=generator) for n, t in base.model.state_dict().items()}
    return state | {name: state[other] for name, other in base.twins().items()}


@every
@pytest.mark.parametrize("trained", [False, True], ids=["frozen", "trained"])
def test_a_folder_keeps_the_head(kind: str, trained: bool, backbones: Backbones, tmp_path: Path) -> None:
    base = load_backbone(backbones(kind), LABELS, seed=0, head=Head(WORDS))
    mask = OneShot(0.5, targets=LAYERS).mask(base.model)
    state = moved_state(base) if trained else {name: t.clone() for name, t in base.model.state_dict().items()}
    Subnetwork.of(base, LABELS, state, mask).save(tmp_path / "saved")
    loaded = Subnetwork.load(tmp_path / "saved")
    assert loaded.head == Head(WORDS)
    assert loaded.mask == mask
    assert bool(loaded.weights) is trained, "what is frozen is mask bits alone"
    base.model.load_state_dict(mask.apply(state))
    texts = Texts.of(base.tokenizer)
    expected = texts.through(base.model)
    assert torch.equal(texts.through(loaded.model(loaded.base())), expected)
    save_merged(loaded, tmp_path / "merged")
    merged = hf.AutoModelForMaskedLM.from_pretrained(tmp_path / "merged")
    assert merged.config.id2label == dict(enumerate(LABELS))
    ids = merged.config.label_words
    assert ids == token_ids(WORDS, hf.AutoTokenizer.from_pretrained(tmp_path / "merged"))
    torch.testing.assert_close(texts.through(merged)[:, 0, ids], expected, rtol=0, atol=1e-5)
    assert texts.through(merged).shape[-1] == len(base.tokenizer)


def test_a_merged_model_is_a_whole_language_model(backbones: Backbones, tmp_path: Path) -> None:
    """Words that stand for no label keep their logits: with no weight pruned or trained it is the backbone itself."""
    base = load_backbone(backbones("bert"), LABELS, seed=0, head=Head(WORDS))
    Subnetwork.of(base, LABELS, base.model.state_dict(), None).save(tmp_path / "saved")
    save_merged(Subnetwork.load(tmp_path / "saved"), tmp_path / "merged")
    texts = Texts.of(base.tokenizer)
    full, merged = (
        texts.through(hf.AutoModelForMaskedLM.from_pretrained(folder))
        for folder in (backbones("bert"), tmp_path / "merged")
    )
    torch.testing.assert_close(merged, full, rtol=0, atol=1e-5)


def test_spans_keep_their_head(backbones: Backbones, tmp_path: Path) -> None:
    head = Head(("Yes", "No"), per_token=True)
    base = load_backbone(backbones("bert"), ("start", "end"), seed=0, head=head)
    Subnetwork.of(base, ("start", "end"), base.model.state_dict(), None).save(tmp_path / "saved")
    loaded = Subnetwork.load(tmp_path / "saved")
    assert loaded.head == head
    texts = Texts.of(base.tokenizer)
    assert torch.equal(texts.through(loaded.model(loaded.base())), texts.through(base.model))


# --- experiments ---------------------------------------------------------------------------------------------------


@two
def test_smp_is_nothing_but_a_mask(kind: str, backbones: Backbones, engine: Engine) -> None:
    raw = Pretrained(backbones(kind), TASK, words=WORDS)
    node = Prune(raw, StaticShared(0.5), training=TRAINING)
    engine.execute([Evaluate(node)])
    folder = engine.store.path(node.key)
    subnetwork = Subnetwork.load(folder)
    assert subnetwork.weights == {}, "the mask is the model"
    assert subnetwork.mask is not None
    assert subnetwork.mask.sparsity == 0.5
    assert set(subnetwork.mask) == {f"{name}.weight" for name in LAYERS.find(subnetwork.base().model)}
    state, original = subnetwork.state(subnetwork.base()), subnetwork.base().model.state_dict()
    for name, tensor in subnetwork.mask.apply(original).items():
        assert torch.equal(state[name], tensor), name
    magnitude = OneShot(0.5, targets=LAYERS).mask(subnetwork.base().model)
    assert subnetwork.mask != magnitude, "it has learnt something"


@pytest.mark.parametrize("pruner", [StaticLocal(0.9), Movement(0.9), MaskTraining(0.9)], ids=lambda p: p.name)
def test_every_way_to_train_a_head_of_words(pruner: Any, backbones: Backbones, engine: Engine) -> None:
    raw = Pretrained(backbones("bert"), TASK, words=WORDS)
    node = Prune(raw, pruner, training=TRAINING)
    engine.execute([node])
    subnetwork = Subnetwork.load(engine.store.path(node.key))
    assert subnetwork.mask is not None
    assert {name: int((~keep).sum()) for name, keep in subnetwork.mask.items()} == {
        name: round(0.9 * keep.numel()) for name, keep in subnetwork.mask.items()
    }
    assert not any(name.startswith("cls.") for name in subnetwork.mask)
    assert ("cls.predictions.decoder.weight" in subnetwork.weights) is (pruner.name == "movement")


def test_fine_tuning_trains_the_words(backbones: Backbones, engine: Engine) -> None:
    node = FineTune(Pretrained(backbones("bert"), TASK, words=WORDS), training=TRAINING)
    engine.execute([node])
    weights = Subnetwork.load(engine.store.path(node.key)).weights
    assert weights["cls.predictions.decoder.weight"].shape == (2, 16)
    assert "bert.embeddings.word_embeddings.weight" in weights


def test_the_words_are_part_of_the_identity(backbones: Backbones) -> None:
    plain, words, others = (Pretrained(backbones("bert"), TASK, words=w) for w in ((), WORDS, WORDS[::-1]))
    assert len({plain.key, words.key, others.key}) == 3


def test_a_wrong_word_is_told_before_anything_is_trained(backbones: Backbones) -> None:
    with refused("unquestionably"):
        _ = Pretrained(backbones("bert"), TASK, words=("Yes", "unquestionably")).key
