"""Masks of others: what they published comes in bit for bit and goes out again, and nothing else comes in."""

from __future__ import annotations

import io
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForSequenceClassification

from srnet import api
from srnet.backbones import Head, keep_own_classifier, load_backbone
from srnet.cli import main
from srnet.errors import UserError
from srnet.export.imports import outputs_of
from srnet.export.reference_masks import read_reference
from srnet.export.shapes import linear_shapes, stack_shapes
from srnet.export.smp_masks import read_smp, to_npy, unpack
from srnet.masks import Mask
from srnet.subnetwork import Subnetwork, load_subnetwork
from srnet.tasks.published import published_task
from srnet.tasks.synthetic.pretrain import pretrain
from srnet.tasks.synthetic.pretrain_settings import PretrainSettings

LABELS = ("entailment", "not_entailment")
WORDS = ("lawyer", "doctor")
KINDS = {
    "attention.self.query": (768, 768),
    "attention.self.key": (768, 768),
    "attention.self.value": (768, 768),
    "attention.output.dense": (768, 768),
    "intermediate.dense": (3072, 768),
    "output.dense": (768, 3072),
}
BERT_BASE = {f"bert.encoder.layer.{n}.{kind}.weight": shape for n in range(12) for kind, shape in KINDS.items()}
TWO = {"b.weight": (2, 3), "a.weight": (1, 5)}
"""Eleven weights: the last five bits of the second byte belong to none."""


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of twelve layers, so that the tenth comes before the second by name."""
    folder = tmp_path_factory.mktemp("backbone") / "deep"
    pretrain(folder, PretrainSettings(1, 1, 1, batch_size=8, hidden_size=8, layers=12, heads=2, warmup=1))
    return str(folder)


def random_bytes(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, count, dtype=np.uint8)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A mask for `deep` as SMP would release it: 12 * 768 weights."""
    path = tmp_path / "released.npy"
    np.save(path, random_bytes(12 * 768 // 8))
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))

    def srnet(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["srnet", *map(str, words)])
        with pytest.raises(SystemExit) as exit:
            main()
        said = capsys.readouterr()
        assert not exit.value.code, said.err
        return said.out

    return srnet


class Exploit:
    """Unpickled, it would leave a file behind."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


# --- the bits of SMP -----------------------------------------------------------------------------------------------


def test_the_first_weight_by_name_is_the_highest_bit() -> None:
    # a: 1 0 1 1 0, then b: 1 1 0 | 0 0 1, then padding
    mask = unpack(np.array([0b10110110, 0b00100000], dtype=np.uint8), TWO)
    assert mask["a.weight"].int().tolist() == [[1, 0, 1, 1, 0]]
    assert mask["b.weight"].int().tolist() == [[1, 1, 0], [0, 0, 1]]


def test_layer_10_comes_before_layer_2(deep: str) -> None:
    shapes = stack_shapes(load_backbone(deep, LABELS, 0).model)
    assert len(shapes) == 72
    first = {name: min(sorted(shapes).index(each) for each in shapes if f".{name}." in each) for name in range(12)}
    assert sorted(first, key=lambda layer: first[layer]) == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    bits = np.zeros(12 * 768, dtype=bool)
    bits[2 * 768 : 3 * 768] = True  # the third layer of the file
    mask = unpack(np.packbits(bits), shapes)
    assert {name for name, kept in mask.items() if kept.any()} == {name for name in shapes if ".layer.10." in name}
    assert all(kept.all() for name, kept in mask.items() if ".layer.10." in name)


def test_label_words_or_a_classifier_make_no_difference_to_the_stack(deep: str) -> None:
    classifier, words = (load_backbone(deep, LABELS, 0, head=head).model for head in (Head(), Head(WORDS)))
    assert stack_shapes(classifier) == stack_shapes(words)


def test_a_mask_of_the_size_of_bert_base(tmp_path: Path) -> None:
    np.save(tmp_path / "base.npy", random_bytes(10_616_832))
    mask = read_smp(tmp_path / "base.npy", BERT_BASE)
    assert (len(mask), mask.total) == (72, 84_934_656)
    assert to_npy(mask) == (tmp_path / "base.npy").read_bytes()


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=5), st.randoms())
def test_what_is_written_is_read(shapes: list[tuple[int, int]], random: Any) -> None:
    drawn = [[[random.random() < 0.5 for _ in range(width)] for _ in range(height)] for height, width in shapes]
    mask = Mask({f"{number}.weight": torch.tensor(matrix) for number, matrix in enumerate(drawn)})
    packed = np.load(io.BytesIO(to_npy(mask)), allow_pickle=False)
    assert unpack(packed, {name: tuple(each.shape) for name, each in mask.items()}) == mask


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


GOOD = npy(np.array([0b10110110, 0b00100000], dtype=np.uint8))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (GOOD[:-1], r"holds 1 bytes; 2 are needed for the 2 matrices \(11 weights\) of this backbone"),
        (GOOD + b"\0", r"holds 3 bytes; 2 are needed"),
        (npy(np.zeros(5, np.uint8)), r"holds 5 bytes; 2 are needed"),
        (npy(np.zeros(5, np.uint8))[:-3], r"holds 5 bytes; 2 are needed"),
        (npy(np.array([0b10110110, 0b00100001], np.uint8)), "bits are set after the last weight"),
        (npy(np.zeros(2, np.float32)), "holds an array of float32 in 1 dimensions; a mask of SMP is one row of uint8"),
        (npy(np.zeros(2, bool)), "holds an array of bool"),
        (npy(np.zeros((1, 2), np.uint8)), "uint8 in 2 dimensions"),
        (npy(np.array(7, np.uint8)), "uint8 in 0 dimensions"),
        (GOOD[:20], "is not an .npy file"),
        (b"", "is not an .npy file"),
        (b"PK\x03\x04 and so on", "is a zip archive; unpack it"),
        (pickle.dumps({"a.weight": [1]}), "is not an .npy file"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.npy").write_bytes(data)
    with pytest.raises(UserError, match=rf"m\.npy.*{said}"):
        read_smp(tmp_path / "m.npy", TWO)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file .*m\.npy"):
        read_smp(tmp_path / "m.npy", TWO)
    with pytest.raises(UserError, match=r"there is no file .*mask\.pt"):
        read_reference(tmp_path / "mask.pt", TWO)


def test_objects_in_an_npy_stay_pickled(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([Exploit(tmp_path / "trace")], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="is not an array of numbers"):
        read_smp(tmp_path / "m.npy", TWO)
    assert not (tmp_path / "trace").exists()
    np.load(tmp_path / "m.npy", allow_pickle=True)
    assert (tmp_path / "trace").exists(), "it would have worked"


# --- both ways -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), WORDS])
def test_smp_in_and_out_bit_for_bit(words: tuple[str, ...], deep: str, released: Path, tmp_path: Path) -> None:
    made = api.import_mask(released, tmp_path / "sub", format="smp", backbone=deep, labels=LABELS, label_words=words)
    kept = int(np.unpackbits(np.load(released)).sum())
    assert (made.mask.kept, made.mask.total) == (kept, 9216)
    assert any("scores mean nothing" in remark for remark in made.remarks) == (not words)
    subnetwork = Subnetwork.load(tmp_path / "sub")
    assert (subnetwork.mask, subnetwork.labels, subnetwork.head) == (made.mask, LABELS, Head(words))
    out = api.export_model(tmp_path / "sub", tmp_path / "again.npy", format="smp")
    assert out.read_bytes() == released.read_bytes()


def test_the_weights_are_the_backbones_own_but_for_the_mask(deep: str, released: Path, tmp_path: Path) -> None:
    made = api.import_mask(released, tmp_path / "sub", format="smp", backbone=deep, labels=LABELS)
    model, base = load_subnetwork(tmp_path / "sub").state_dict(), load_backbone(deep, LABELS, 0).pretrained()
    for name, tensor in base.items():
        assert torch.equal(model[name], tensor * made.mask[name] if name in made.mask else tensor)


def test_a_mask_of_ours_out_and_in(deep: str, tmp_path: Path) -> None:
    base = load_backbone(deep, LABELS, 0)
    mask = Mask({name: base.model.state_dict()[name] > 0.01 for name in stack_shapes(base.model)})
    Subnetwork.of(base, LABELS, base.model.state_dict(), mask).save(tmp_path / "ours")
    api.export_model(tmp_path / "ours", tmp_path / "ours.npy", format="smp")
    assert (
        api.import_mask(tmp_path / "ours.npy", tmp_path / "theirs", format="smp", backbone=deep, labels=LABELS).mask
        == mask
    )


def test_smp_has_no_place_for_other_masks(deep: str, tmp_path: Path) -> None:
    base = load_backbone(deep, LABELS, 0)
    weights = {name: base.model.state_dict()[name] for name in stack_shapes(base.model)}
    classifier = {"classifier.weight": base.model.state_dict()["classifier.weight"]}
    query = "bert.encoder.layer.0.attention.self.query.weight"

    def refused(mask: Mask | None, name: str) -> str:
        Subnetwork.of(base, LABELS, base.model.state_dict(), mask).save(tmp_path / name)
        with pytest.raises(UserError) as error:
            api.export_model(tmp_path / name, tmp_path / "m.npy", format="smp")
        assert not (tmp_path / "m.npy").exists()
        return str(error.value)

    assert "also covers classifier.weight" in refused(Mask.ones_like(weights | classifier), "more")
    less = {name: weight for name, weight in weights.items() if name != query}
    assert f"does not cover {query}" in refused(Mask.ones_like(less), "less")
    assert "a full model has no mask" in refused(None, "full")


def test_an_existing_file_is_not_overwritten(deep: str, released: Path, tmp_path: Path) -> None:
    api.import_mask(released, tmp_path / "sub", format="smp", backbone=deep, labels=LABELS)
    with pytest.raises(UserError, match=r"released\.npy exists already; choose a new file"):
        api.export_model(tmp_path / "sub", released, format="smp")


def test_a_failed_import_leaves_nothing(deep: str, released: Path, tmp_path: Path) -> None:
    released.write_bytes(released.read_bytes()[:-1])
    said = r"holds 1,151 bytes; 1,152 are needed for the 72 matrices \(9,216 weights\)"
    with pytest.raises(UserError, match=said):
        api.import_mask(released, tmp_path / "sub", format="smp", backbone=deep, labels=LABELS)
    assert [path.name for path in tmp_path.iterdir()] == ["released.npy"]


# --- labels and words ----------------------------------------------------------------------------------------------


def test_a_missing_file_is_said_before_labels_are_asked_for(deep: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.npy does not exist"):
        api.import_mask(tmp_path / "nothing.npy", tmp_path / "sub", format="smp", backbone=deep)


def test_a_published_task_brings_labels_and_words_without_its_data() -> None:
    labels, head = outputs_of("smp", "srnet-tiny", (), (), published_task("mnli"))
    assert (labels, head.words) == (("entailment", "neutral", "contradiction"), ("Yes", "Maybe", "No"))
    assert outputs_of("srnet-reference", "srnet-tiny", (), (), published_task("mnli")) == (labels, Head())
    assert outputs_of("smp", "srnet-tiny", (), ("a", "b", "c"), published_task("mnli"))[1] == Head(("a", "b", "c"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give either labels or a task"),
        ({"labels": LABELS, "task": published_task("mnli")}, "give either labels or a task"),
        ({"labels": LABELS, "label_words": ("lawyer",)}, "1 label words for 2 labels"),
        ({"labels": LABELS, "format": "srnet-reference", "label_words": WORDS}, "go with a classifier"),
        ({"labels": LABELS, "format": "onnx"}, "unknown format 'onnx'; choose one of: smp, srnet-reference"),
    ],
)
def test_what_the_file_does_not_say_must_be_said(
    options: dict[str, Any], said: str, deep: str, released: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said):
        api.import_mask(released, tmp_path / "sub", backbone=deep, **{"format": "smp", **options})


# --- mask.pt -------------------------------------------------------------------------------------------------------

REFERENCE = {"a.weight": torch.tensor([[1.0, 0, 1, 1, 0]]), "b.weight": torch.tensor([[True, True, False]] * 2)}


def saved(value: Any, folder: Path) -> Path:
    torch.save(value, folder / "mask.pt")
    return folder / "mask.pt"


@pytest.mark.parametrize("spelling", ["{}.weight", "{}", "{}.mask", "{}.weight_mask", "module.{}.weight_mask"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_names_and_types_of_published_masks(spelling: str, dtype: torch.dtype, tmp_path: Path) -> None:
    written = {spelling.format(name[0]): tensor.to(dtype) for name, tensor in REFERENCE.items()}
    mask, ignored = read_reference(saved(written, tmp_path), TWO)
    assert mask == Mask({name: tensor.bool() for name, tensor in REFERENCE.items()})
    assert ignored == []


def test_masks_one_level_down_and_what_lies_beside_them(tmp_path: Path) -> None:
    file = saved({"epoch": 3, "state_dict": {**REFERENCE, "sparsity": 0.7}}, tmp_path)
    mask, ignored = read_reference(file, TWO)
    assert set(mask) == set(TWO)
    assert ignored == ["epoch", "sparsity"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({**REFERENCE, "a.weight": torch.full((1, 5), 0.5)}, "mask 'a.weight' has other values than 0 and 1"),
        ({**REFERENCE, "a.weight": torch.full((1, 5), torch.nan)}, "mask 'a.weight' has other values"),
        ({**REFERENCE, "a.weight": torch.full((1, 5), 2, dtype=torch.uint8)}, "mask 'a.weight' has other values"),
        ({**REFERENCE, "a.weight": torch.ones(1, 5).to_sparse()}, "mask 'a.weight' has other values"),
        ({**REFERENCE, "a.weight": torch.ones(5, 1)}, "mask 'a.weight' is 5 x 1, the backbone's matrix 1 x 5"),
        ({**REFERENCE, "a.bias_mask": torch.ones(1)}, "'a.bias_mask', but this backbone has no linear layer"),
        ({**REFERENCE, "c.weight": torch.ones(1)}, "'c.weight', but this backbone has no linear layer"),
        ({**REFERENCE, "a.mask": torch.ones(1, 5)}, "two masks for a.weight, one of them 'a.mask'"),
        ([torch.ones(1, 5)], "holds a list, not masks by name"),
        ({"epoch": 3}, "holds no masks by name"),
        ({"one": REFERENCE, "two": REFERENCE}, "holds no masks by name"),
        (torch.nn.Linear(2, 2), "more than tensors in it, or is not a torch file"),
    ],
)
def test_what_is_no_mask_is_refused(value: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"mask\.pt.*{re.escape(said)}"):
        read_reference(saved(value, tmp_path), TWO)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_torch_file_is_not_run(zipped: bool, tmp_path: Path) -> None:
    value = {**REFERENCE, "c": Exploit(tmp_path / "trace")}
    torch.save(value, tmp_path / "mask.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(UserError, match="more than tensors"):
        read_reference(tmp_path / "mask.pt", TWO)
    assert not (tmp_path / "trace").exists()
    torch.load(tmp_path / "mask.pt", weights_only=False)
    assert (tmp_path / "trace").exists(), "it would have worked"


@pytest.mark.parametrize("data", [b"", b"hello world this", GOOD, pickle.dumps({"a": 1}), b"PK\x03\x04 and so on"])
def test_what_is_no_torch_file(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "mask.pt").write_bytes(data)
    with pytest.raises(UserError, match=r"mask\.pt (cannot be read as|has more than tensors)"):
        read_reference(tmp_path / "mask.pt", TWO)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_torch_file(zipped: bool, tmp_path: Path) -> None:
    torch.save({"a.weight": torch.ones(1, 5)}, tmp_path / "mask.pt", _use_new_zipfile_serialization=zipped)
    (tmp_path / "mask.pt").write_bytes((tmp_path / "mask.pt").read_bytes()[:-10])
    with pytest.raises(UserError, match="cannot be read as a torch file; it may be truncated"):
        read_reference(tmp_path / "mask.pt", {"a.weight": (1, 5)})


def test_a_reference_mask_also_covers_pooler_and_classifier(deep: str, tmp_path: Path) -> None:
    model = load_backbone(deep, LABELS, 0).model
    shapes = {n: s for n, s in linear_shapes(model).items() if ".layer.11." not in n}
    generator = torch.Generator().manual_seed(0)
    written = {name: (torch.rand(shape, generator=generator) < 0.5).float() for name, shape in shapes.items()}
    assert {"bert.pooler.dense.weight", "classifier.weight"} <= set(written)
    file = saved({"mask": written, "sparsity": 0.5}, tmp_path)
    made = api.import_mask(file, tmp_path / "sub", format="srnet-reference", backbone=deep, labels=LABELS)
    assert Subnetwork.load(tmp_path / "sub").mask == Mask({name: each.bool() for name, each in written.items()})
    ignored, whole, head = made.remarks
    assert ignored.endswith("because it is no tensor: sparsity")
    assert whole.startswith("6 matrices of the layers have no mask and stay whole, bert.encoder.layer.11.")
    assert "scores mean nothing" in head
    with pytest.raises(UserError, match=r"mask 'classifier\.weight' is 2 x 8, the backbone's matrix 3 x 8"):
        api.import_mask(file, tmp_path / "3", format="srnet-reference", backbone=deep, labels=("a", "b", "c"))


# --- the checkpoint's own classifier -------------------------------------------------------------------------------

NLI = ("entailment", "neutral", "contradiction")


@pytest.fixture
def tuned(tiny_backbone: str, tmp_path: Path) -> Callable[..., str]:
    """A model that somebody fine-tuned, as `save_pretrained` leaves it."""

    def make(names: tuple[str, ...]) -> str:
        base = load_backbone(tiny_backbone, names, seed=5)
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in base.model.parameters():  # as if trained: no weight is the backbone's, nor small
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        base.model.save_pretrained(tmp_path / "tuned")
        base.tokenizer.save_pretrained(tmp_path / "tuned")
        return str(tmp_path / "tuned")

    return make


def reference_mask(folder: str, labels: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """Of every matrix that the published code masks: the layers, the pooler and the classifier."""
    generator = torch.Generator().manual_seed(11)
    shapes = linear_shapes(load_backbone(folder, labels, 0).model)
    return {name: (torch.rand(shape, generator=generator) < 0.5).float() for name, shape in shapes.items()}


def logits_of(model: Any) -> torch.Tensor:
    ids = torch.arange(5, 35).reshape(3, 10)
    with torch.no_grad():
        answers: torch.Tensor = model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return answers


@pytest.mark.parametrize(
    ("names", "order", "said"),
    [
        (
            ("LABEL_0", "LABEL_1", "LABEL_2"),
            (0, 1, 2),
            "it names no labels, so its outputs are taken in the given order",
        ),
        (NLI, (0, 1, 2), "its labels are the same"),
        (("CONTRADICTION", "Entailment", "neutral"), (1, 2, 0), "its labels are the same"),
    ],
)
def test_a_mask_of_a_fine_tuned_model_is_imported_with_its_head(
    names: tuple[str, ...], order: tuple[int, ...], said: str, tuned: Callable[..., str], tmp_path: Path
) -> None:
    folder = tuned(names)
    written = reference_mask(folder, NLI)
    # the oracle: transformers alone, and the product of weights and mask
    original = AutoModelForSequenceClassification.from_pretrained(folder)
    state = original.state_dict()
    original.load_state_dict({name: t * written[name] if name in written else t for name, t in state.items()})
    expected = logits_of(original)[:, list(order)]
    made = api.import_mask(
        saved(written, tmp_path), tmp_path / "sub", format="srnet-reference", backbone=folder, labels=NLI
    )
    assert made.remarks[-1] == f"the checkpoint's own classifier was kept for {', '.join(NLI)}: {said}"
    for _ in range(2):  # every load draws a head first, and must then forget it
        assert torch.allclose(logits_of(load_subnetwork(tmp_path / "sub")), expected, atol=1e-6)
    assert made.mask.kept == sum(int(each.sum()) for each in written.values())
    api.export_model(tmp_path / "sub", tmp_path / "merged", format="merged")
    merged = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged")
    assert torch.allclose(logits_of(merged), expected, atol=1e-6)
    assert tuple(merged.config.id2label.values()) == NLI


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("yes", "maybe", "no"), "the checkpoint's classifier has the labels yes, maybe, no"),
        (("LABEL_0", "LABEL_1", "neutral"), "the checkpoint's classifier has the labels LABEL_0, LABEL_1, neutral"),
        (("a", "b"), "the checkpoint's classifier has 2 outputs for 3 labels"),
    ],
)
def test_a_head_for_other_labels_is_not_kept(
    names: tuple[str, ...], why: str, tuned: Callable[..., str], tmp_path: Path
) -> None:
    folder = tuned(names)
    written = {name: each for name, each in reference_mask(folder, NLI).items() if name != "classifier.weight"}
    made = api.import_mask(
        saved(written, tmp_path), tmp_path / "sub", format="srnet-reference", backbone=folder, labels=NLI
    )
    assert made.remarks[-1] == f"the head is randomly initialised, for {why}: scores mean nothing until it is trained"
    drawn = load_backbone(folder, NLI, seed=0).model.state_dict()["classifier.weight"]
    assert torch.equal(load_subnetwork(tmp_path / "sub").state_dict()["classifier.weight"], drawn)


def test_whoever_trains_starts_from_a_drawn_head(tuned: Callable[..., str]) -> None:
    folder = tuned(NLI)
    brought = AutoModelForSequenceClassification.from_pretrained(folder).state_dict()["classifier.weight"]
    base = load_backbone(folder, NLI, seed=0)
    assert not torch.allclose(base.model.state_dict()["classifier.weight"], brought)
    before = base.sha256
    assert keep_own_classifier(base, NLI).kept
    assert torch.equal(base.model.state_dict()["classifier.weight"], brought)
    assert load_backbone(folder, NLI, seed=0).sha256 == before, "a classifier is no part of a backbone's identity"


def test_a_classifier_of_texts_is_none_of_tokens(tuned: Callable[..., str]) -> None:
    base = load_backbone(tuned(("LABEL_0", "LABEL_1")), ("start", "end"), 0, Head(per_token=True))
    assert "for texts, not for tokens" in keep_own_classifier(base, ("start", "end")).why


# --- the command line ----------------------------------------------------------------------------------------------


def test_import_evaluate_export(run: Callable[..., str], deep: str, released: Path, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text("{name: inference, train_size: 20, dev_size: 20, ood_size: 20}")
    said = run(
        *("import", "smp", released, "--backbone", deep, "--out", "sub"),
        *("--task", "task.yaml", "--label-words", "lawyer, doctor"),
    )
    folder, sparsity = said.splitlines()
    kept = int(np.unpackbits(np.load(released)).sum())
    assert folder == "sub"
    assert sparsity == (
        f"sparsity {1 - kept / 9216:.6f}, counted on the mask: {kept:,} of 9,216 weights kept in 72 matrices"
    )
    scored = json.loads(run("evaluate", "sub", "--task", "task.yaml", "-q", "--json"))
    assert set(scored["scores"]) == {"dev", "challenge"}
    assert scored["sparsity"] == pytest.approx(1 - kept / 9216)
    assert run("export", "sub", "--format", "smp", "--out", "again.npy").strip() == "again.npy"
    assert (tmp_path / "again.npy").read_bytes() == released.read_bytes()


def test_import_a_reference_mask(run: Callable[..., str], deep: str, tmp_path: Path) -> None:
    shapes = stack_shapes(load_backbone(deep, LABELS, 0).model)
    saved({name: torch.ones(shape) for name, shape in shapes.items()}, tmp_path)
    said = run("import", "srnet-reference", "mask.pt", "--backbone", deep, "--out", "sub", "--labels", "yes, no")
    assert "sparsity 0.000000" in said
    assert "scores mean nothing until it is trained" in said
    assert Subnetwork.load(tmp_path / "sub").labels == ("yes", "no")


def test_the_help_teaches(run: Callable[..., str]) -> None:
    def taught(*words: str) -> str:
        return " ".join(run(*words, "--help").split())

    assert "Import masks that others have published" in taught()
    assert "smp" in taught("import")
    assert "srnet-reference" in taught("import")
    for word in ("--backbone", "--labels", "--task", "--label-words", "[CLS]", "srnet evaluate DIR"):
        assert word in taught("import", "smp")
    assert "nothing in it is run" in taught("import", "srnet-reference")
    for word in (
        "merged A plain checkpoint",
        "subnetwork Only what the backbone lacks",
        "smp The mask bits alone",
        "--format",
        "--out",
    ):
        assert word in taught("export")
