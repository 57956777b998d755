"""Masks of SMP: what was published comes in bit for bit and goes out again, and nothing else comes in."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign import GOOD_NPY, LABELS, TWO, WORDS, Exploit, npy, random_bytes
from hypothesis import given
from hypothesis import strategies as st

from srnet import api
from srnet.core.errors import UserError
from srnet.masks.mask import Mask
from srnet.models.backbones import load_backbone
from srnet.models.formats.smp import read_smp, stack_shapes, to_npy, unpack
from srnet.models.heads import Head
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork

KINDS = {
    "attention.self.query": (768, 768),
    "attention.self.key": (768, 768),
    "attention.self.value": (768, 768),
    "attention.output.dense": (768, 768),
    "intermediate.dense": (3072, 768),
    "output.dense": (768, 3072),
}
BERT_BASE = {f"bert.encoder.layer.{n}.{kind}.weight": shape for n in range(12) for kind, shape in KINDS.items()}


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


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (GOOD_NPY[:-1], r"holds 1 bytes; 2 are needed for the 2 matrices \(11 weights\) of this backbone"),
        (GOOD_NPY + b"\0", r"holds 3 bytes; 2 are needed"),
        (npy(np.zeros(5, np.uint8)), r"holds 5 bytes; 2 are needed"),
        (npy(np.zeros(5, np.uint8))[:-3], r"holds 5 bytes; 2 are needed"),
        (npy(np.array([0b10110110, 0b00100001], np.uint8)), "bits are set after the last weight"),
        (npy(np.zeros(2, np.float32)), "holds an array of float32 in 1 dimensions; a mask of SMP is one row of uint8"),
        (npy(np.zeros(2, bool)), "holds an array of bool"),
        (npy(np.zeros((1, 2), np.uint8)), "uint8 in 2 dimensions"),
        (npy(np.array(7, np.uint8)), "uint8 in 0 dimensions"),
        (GOOD_NPY[:20], "is not an .npy file"),
        (b"", "is not an .npy file"),
        (b"PK\x03\x04 and so on", "is a zip archive; unpack it"),
        (pickle.dumps({"a.weight": [1]}), "is not an .npy file"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.npy").write_bytes(data)
    with pytest.raises(UserError, match=rf"m\.npy.*{said}"):
        read_smp(tmp_path / "m.npy", TWO)


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
    said: list[str] = []
    api.export_model(tmp_path / "ours", tmp_path / "ours.npy", format="smp", say=said.append)
    assert said == ["2 trained tensors, such as classifier.bias, are not in the file: SMP's format has a mask only"]
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
