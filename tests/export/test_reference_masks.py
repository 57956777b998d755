"""The reference code's `mask.pt`: every spelling is read, no code is run, a checkpoint's own classifier is kept."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from foreign import GOOD_NPY, LABELS, TWO, Exploit, saved
from refusals import refused
from small_models import write_tuned
from transformers import AutoModelForSequenceClassification

import srnet
from srnet.masks.mask import Mask
from srnet.models.backbones import find_own_classifier, load_backbone
from srnet.models.formats.smp import linear_shapes
from srnet.models.heads import Head
from srnet.models.open import load_subnetwork
from srnet.models.published import _read_reference
from srnet.models.subnetwork import Subnetwork

# --- mask.pt -------------------------------------------------------------------------------------------------------

REFERENCE = {"a.weight": torch.tensor([[1.0, 0, 1, 1, 0]]), "b.weight": torch.tensor([[True, True, False]] * 2)}


@pytest.mark.parametrize("spelling", ["{}.weight", "{}", "{}.mask", "{}.weight_mask", "module.{}.weight_mask"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_names_and_types_of_published_masks(spelling: str, dtype: torch.dtype, tmp_path: Path) -> None:
    written = {spelling.format(name[0]): tensor.to(dtype) for name, tensor in REFERENCE.items()}
    mask, ignored = _read_reference(saved(written, tmp_path), TWO)
    assert mask == Mask({name: tensor.bool() for name, tensor in REFERENCE.items()})
    assert ignored == []


def test_masks_one_level_down_and_what_lies_beside_them(tmp_path: Path) -> None:
    file = saved({"epoch": 3, "state_dict": {**REFERENCE, "sparsity": 0.7}}, tmp_path)
    mask, ignored = _read_reference(file, TWO)
    assert set(mask) == set(TWO)
    assert ignored == ["epoch", "sparsity"]


def nested(levels: int) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for _ in range(levels):
        held = {"x": held}
    return held


CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE
A = "a.weight"
NO_MASK = (
    torch.full((1, 5), 0.5), torch.full((1, 5), torch.nan), torch.full((1, 5), 2, dtype=torch.uint8),
    torch.ones(1, 5).to_sparse(),
)  # fmt: skip
NOT_BY_NAME = (
    {"epoch": 3}, {"one": REFERENCE, "two": REFERENCE}, torch.nn.Linear(2, 2), CIRCLE, nested(3), nested(200),
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "named"),
    [
        *(({**REFERENCE, A: tensor}, A) for tensor in NO_MASK),
        *(({**REFERENCE, name: torch.ones(1)}, name) for name in ("a.bias_mask", "c.weight")),
        ({**REFERENCE, A: torch.ones(5, 1)}, "5 x 1"),
        ({**REFERENCE, "a.mask": torch.ones(1, 5)}, "a.mask"),
        ([torch.ones(1, 5)], "list"),
        *((value, "mask.pt") for value in NOT_BY_NAME),
    ],
    ids=range(15),
)
def test_what_is_no_mask_is_refused(value: Any, named: str, tmp_path: Path) -> None:
    with refused("mask.pt", named):
        _read_reference(saved(value, tmp_path), TWO)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_torch_file_is_not_run(zipped: bool, tmp_path: Path) -> None:
    value = {**REFERENCE, "c": Exploit(tmp_path / "trace")}
    torch.save(value, tmp_path / "mask.pt", _use_new_zipfile_serialization=zipped)
    with refused("mask.pt"):
        _read_reference(tmp_path / "mask.pt", TWO)
    assert not (tmp_path / "trace").exists()
    torch.load(tmp_path / "mask.pt", weights_only=False)
    assert (tmp_path / "trace").exists(), "it would have worked"


@pytest.mark.parametrize("data", [b"", b"hello world this", GOOD_NPY, pickle.dumps({"a": 1}), b"PK\x03\x04 and so on"])
def test_what_is_no_torch_file(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "mask.pt").write_bytes(data)
    with refused("mask.pt"):
        _read_reference(tmp_path / "mask.pt", TWO)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_torch_file(zipped: bool, tmp_path: Path) -> None:
    torch.save({"a.weight": torch.ones(1, 5)}, tmp_path / "mask.pt", _use_new_zipfile_serialization=zipped)
    (tmp_path / "mask.pt").write_bytes((tmp_path / "mask.pt").read_bytes()[:-10])
    with refused("mask.pt"):
        _read_reference(tmp_path / "mask.pt", {"a.weight": (1, 5)})


def test_a_reference_mask_also_covers_pooler_and_classifier(deep: str, tmp_path: Path) -> None:
    model = load_backbone(deep, LABELS, 0).model
    shapes = {n: s for n, s in linear_shapes(model).items() if ".layer.11." not in n}
    generator = torch.Generator().manual_seed(0)
    written = {name: (torch.rand(shape, generator=generator) < 0.5).float() for name, shape in shapes.items()}
    assert {"bert.pooler.dense.weight", "classifier.weight"} <= set(written)
    file = saved({"mask": written, "sparsity": 0.5}, tmp_path)
    made = srnet.import_mask(file, tmp_path / "sub", format="srnet-reference", backbone=deep, labels=LABELS)
    assert Subnetwork.load(tmp_path / "sub").mask == Mask({name: each.bool() for name, each in written.items()})
    ignored, whole, head = made.remarks
    assert "sparsity" in ignored
    assert "6 matrices" in whole
    assert "bert.encoder.layer.11." in whole
    assert "randomly initialised" in head
    with refused("classifier.weight", "2 x 8", "3 x 8"):
        srnet.import_mask(file, tmp_path / "3", format="srnet-reference", backbone=deep, labels=("a", "b", "c"))


# --- the checkpoint's own classifier -------------------------------------------------------------------------------

NLI = ("entailment", "neutral", "contradiction")


@pytest.fixture
def tuned(tiny_backbone: str, tmp_path: Path) -> Callable[..., str]:
    """A model that somebody fine-tuned, as `save_pretrained` leaves it."""

    def make(names: tuple[str, ...]) -> str:
        return write_tuned(tiny_backbone, tmp_path / "tuned", names)

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
    ("names", "order", "why"),
    [
        (("LABEL_0", "LABEL_1", "LABEL_2"), (0, 1, 2), "names no labels"),
        (NLI, (0, 1, 2), "its labels are the same"),
        (("CONTRADICTION", "Entailment", "neutral"), (1, 2, 0), "its labels are the same"),
    ],
)
def test_a_mask_of_a_fine_tuned_model_is_imported_with_its_head(
    names: tuple[str, ...], order: tuple[int, ...], why: str, tuned: Callable[..., str], tmp_path: Path
) -> None:
    folder = tuned(names)
    written = reference_mask(folder, NLI)
    # the oracle: transformers alone, and the product of weights and mask
    original = AutoModelForSequenceClassification.from_pretrained(folder)
    state = original.state_dict()
    original.load_state_dict({name: t * written[name] if name in written else t for name, t in state.items()})
    expected = logits_of(original)[:, list(order)]
    made = srnet.import_mask(
        saved(written, tmp_path), tmp_path / "sub", format="srnet-reference", backbone=folder, labels=NLI
    )
    assert ", ".join(NLI) in made.remarks[-1]
    assert why in made.remarks[-1]
    for _ in range(2):  # every load draws a head first, and must then forget it
        assert torch.allclose(logits_of(load_subnetwork(tmp_path / "sub")), expected, atol=1e-6)
    assert made.mask.kept == sum(int(each.sum()) for each in written.values())
    srnet.export_model(tmp_path / "sub", tmp_path / "merged", format="merged")
    merged = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged")
    assert torch.allclose(logits_of(merged), expected, atol=1e-6)
    assert tuple(merged.config.id2label.values()) == NLI


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("yes", "maybe", "no"), "yes, maybe, no"),
        (("LABEL_0", "LABEL_1", "neutral"), "LABEL_0, LABEL_1, neutral"),
        (("a", "b"), "2 outputs for 3 labels"),
    ],
)
def test_a_head_for_other_labels_is_not_kept(
    names: tuple[str, ...], why: str, tuned: Callable[..., str], tmp_path: Path
) -> None:
    folder = tuned(names)
    written = {name: each for name, each in reference_mask(folder, NLI).items() if name != "classifier.weight"}
    made = srnet.import_mask(
        saved(written, tmp_path), tmp_path / "sub", format="srnet-reference", backbone=folder, labels=NLI
    )
    assert "randomly initialised" in made.remarks[-1]
    assert why in made.remarks[-1]
    drawn = load_backbone(folder, NLI, seed=0).model.state_dict()["classifier.weight"]
    assert torch.equal(load_subnetwork(tmp_path / "sub").state_dict()["classifier.weight"], drawn)


def test_a_backbone_is_loaded_with_a_random_head_until_its_own_is_kept(tuned: Callable[..., str]) -> None:
    folder = tuned(NLI)
    brought = AutoModelForSequenceClassification.from_pretrained(folder).state_dict()["classifier.weight"]
    base = load_backbone(folder, NLI, seed=0)
    assert not torch.allclose(base.model.state_dict()["classifier.weight"], brought)
    before = base.sha256
    find_own_classifier(folder, NLI, base.head).copy_into(base.model)
    assert torch.equal(base.model.state_dict()["classifier.weight"], brought)
    assert load_backbone(folder, NLI, seed=0).sha256 == before, "a classifier is no part of a backbone's identity"


def test_a_classifier_of_texts_is_none_of_tokens(tuned: Callable[..., str]) -> None:
    base = load_backbone(tuned(("start", "end")), ("start", "end"), 0, Head(per_token=True))
    assert "no classifier of tokens" in find_own_classifier(base.name, ("start", "end"), base.head).why
