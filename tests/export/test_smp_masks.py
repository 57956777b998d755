"""Masks of SMP: what was published comes in bit for bit and goes out again, and nothing else comes in."""

from __future__ import annotations

import io
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign import GOOD_NPY, LABELS, TWO, WORDS, Exploit, npy, random_bytes
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import srnet
from srnet.core.arrays import read_npy_header
from srnet.core.errors import UserError
from srnet.masks.mask import Mask
from srnet.models.backbones import load_backbone
from srnet.models.formats.smp import _to_npy, _unpack, read_smp, stack_shapes
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
    mask = _unpack(np.array([0b10110110, 0b00100000], dtype=np.uint8), TWO)
    assert mask["a.weight"].int().tolist() == [[1, 0, 1, 1, 0]]
    assert mask["b.weight"].int().tolist() == [[1, 1, 0], [0, 0, 1]]


def test_layer_10_comes_before_layer_2(deep: str) -> None:
    shapes = stack_shapes(load_backbone(deep, LABELS, 0).model)
    assert len(shapes) == 72
    first = {name: min(sorted(shapes).index(each) for each in shapes if f".{name}." in each) for name in range(12)}
    assert sorted(first, key=lambda layer: first[layer]) == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    bits = np.zeros(12 * 768, dtype=bool)
    bits[2 * 768 : 3 * 768] = True  # the third layer of the file
    mask = _unpack(np.packbits(bits), shapes)
    assert {name for name, kept in mask.items() if kept.any()} == {name for name in shapes if ".layer.10." in name}
    assert all(kept.all() for name, kept in mask.items() if ".layer.10." in name)


def test_label_words_or_a_classifier_make_no_difference_to_the_stack(deep: str) -> None:
    classifier, words = (load_backbone(deep, LABELS, 0, head=head).model for head in (Head(), Head(WORDS)))
    assert stack_shapes(classifier) == stack_shapes(words)


def test_a_mask_of_the_size_of_bert_base(tmp_path: Path) -> None:
    np.save(tmp_path / "base.npy", random_bytes(10_616_832))
    mask = read_smp(tmp_path / "base.npy", BERT_BASE)
    assert (len(mask), mask.total) == (72, 84_934_656)
    assert _to_npy(mask) == (tmp_path / "base.npy").read_bytes()


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=5), st.randoms())
def test_what_is_written_is_read(shapes: list[tuple[int, int]], random: Any) -> None:
    drawn = [[[random.random() < 0.5 for _ in range(width)] for _ in range(height)] for height, width in shapes]
    mask = Mask({f"{number}.weight": torch.tensor(matrix) for number, matrix in enumerate(drawn)})
    packed = np.load(io.BytesIO(_to_npy(mask)), allow_pickle=False)
    assert _unpack(packed, {name: tuple(each.shape) for name, each in mask.items()}) == mask


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (GOOD_NPY[:-1], ("1 bytes", "2 are needed", "11 weights")),
        (GOOD_NPY + b"\0", ("3 bytes", "2 are needed")),
        (npy(np.zeros(5, np.uint8)), ("5 bytes", "2 are needed")),
        (npy(np.zeros(5, np.uint8))[:-3], ("5 bytes", "2 are needed")),
        (npy(np.array([0b10110110, 0b00100001], np.uint8)), ("after the last weight",)),
        (npy(np.zeros(2, np.float32)), ("float32",)),
        (npy(np.zeros(2, bool)), ("bool",)),
        (npy(np.zeros((1, 2), np.uint8)), ("2 dimensions",)),
        (npy(np.array(7, np.uint8)), ("0 dimensions",)),
        (b"PK\x03\x04 and so on", ("zip",)),
        *((data, ()) for data in (GOOD_NPY[:20], b"", pickle.dumps({"a.weight": [1]}))),
    ],
)
def test_a_file_that_does_not_fit_is_refused(data: bytes, named: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "m.npy").write_bytes(data)
    with refused("m.npy", *named):
        read_smp(tmp_path / "m.npy", TWO)


def test_every_flipped_bit_of_an_npy_header_is_one_line_or_a_mask(tmp_path: Path) -> None:
    read = 0
    for bit in range(8 * (len(GOOD_NPY) - 2)):
        changed = bytearray(GOOD_NPY)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / "m.npy").write_bytes(changed)
        with suppress(UserError):
            read_smp(tmp_path / "m.npy", TWO)
            read += 1
    assert 0 < read < 400, "spaces may become something else that means nothing"


@pytest.mark.parametrize("shape", ["(-4,)", "(4.0,)", "(True,)", "None", "(" * 500, "(9" + "9" * 5000 + ",)", "4"])
def test_a_header_with_a_shape_that_is_none(shape: str) -> None:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 4
    with refused("m.npy"):
        read_npy_header(io.BytesIO(data), "m.npy")


def test_objects_in_an_npy_stay_pickled(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([Exploit(tmp_path / "trace")], dtype=object), allow_pickle=True)
    with refused("m.npy"):
        read_smp(tmp_path / "m.npy", TWO)
    assert not (tmp_path / "trace").exists()
    np.load(tmp_path / "m.npy", allow_pickle=True)
    assert (tmp_path / "trace").exists(), "it would have worked"


# --- both ways -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), WORDS])
def test_smp_in_and_out_bit_for_bit(words: tuple[str, ...], deep: str, released: Path, tmp_path: Path) -> None:
    made = srnet.import_mask(released, tmp_path / "sub", format="smp", backbone=deep, labels=LABELS, label_words=words)
    kept = int(np.unpackbits(np.load(released)).sum())
    assert (made.mask.kept, made.mask.total) == (kept, 9216)
    assert any("scores mean nothing" in remark for remark in made.remarks) == (not words)
    subnetwork = Subnetwork.load(tmp_path / "sub")
    assert (subnetwork.mask, subnetwork.labels, subnetwork.head) == (made.mask, LABELS, Head(words))
    out = srnet.export_model(tmp_path / "sub", tmp_path / "again.npy", format="smp")
    assert out.read_bytes() == released.read_bytes()


def test_the_weights_are_the_backbones_own_but_for_the_mask(deep: str, released: Path, tmp_path: Path) -> None:
    made = srnet.import_mask(released, tmp_path / "sub", format="smp", backbone=deep, labels=LABELS)
    model, base = load_subnetwork(tmp_path / "sub").state_dict(), load_backbone(deep, LABELS, 0).pretrained()
    for name, tensor in base.items():
        assert torch.equal(model[name], tensor * made.mask[name] if name in made.mask else tensor)


def test_a_mask_of_ours_out_and_in(deep: str, tmp_path: Path) -> None:
    base = load_backbone(deep, LABELS, 0)
    mask = Mask({name: base.model.state_dict()[name] > 0.01 for name in stack_shapes(base.model)})
    Subnetwork.of(base, LABELS, base.model.state_dict(), mask).save(tmp_path / "ours")
    said: list[str] = []
    srnet.export_model(tmp_path / "ours", tmp_path / "ours.npy", format="smp", say=said.append)
    assert said == ["2 trained tensors, such as classifier.bias, are not in the file: SMP's format has a mask only"]
    assert (
        srnet.import_mask(tmp_path / "ours.npy", tmp_path / "theirs", format="smp", backbone=deep, labels=LABELS).mask
        == mask
    )


def test_smp_has_no_place_for_other_masks(deep: str, tmp_path: Path) -> None:
    base = load_backbone(deep, LABELS, 0)
    weights = {name: base.model.state_dict()[name] for name in stack_shapes(base.model)}
    classifier = {"classifier.weight": base.model.state_dict()["classifier.weight"]}
    query = "bert.encoder.layer.0.attention.self.query.weight"

    less = {name: weight for name, weight in weights.items() if name != query}
    masks = {"classifier.weight": Mask.ones_like(weights | classifier), query: Mask.ones_like(less), "full model": None}
    for number, (named, mask) in enumerate(masks.items()):
        Subnetwork.of(base, LABELS, base.model.state_dict(), mask).save(tmp_path / str(number))
        with refused(named):
            srnet.export_model(tmp_path / str(number), tmp_path / "m.npy", format="smp")
    assert not (tmp_path / "m.npy").exists()


def test_weights_that_were_trained_have_no_place_in_the_file(deep: str, tmp_path: Path) -> None:
    base = load_backbone(deep, LABELS, 0)
    state = {name: tensor + 0.1 for name, tensor in base.model.state_dict().items()}
    mask = Mask.ones_like({name: state[name] for name in stack_shapes(base.model)})
    Subnetwork.of(base, LABELS, state, mask).save(tmp_path / "sub")
    with refused(next(iter(mask))):
        srnet.export_model(tmp_path / "sub", tmp_path / "m.npy", format="smp")


def test_an_existing_file_is_not_overwritten(deep: str, released: Path, tmp_path: Path) -> None:
    srnet.import_mask(released, tmp_path / "sub", format="smp", backbone=deep, labels=LABELS)
    with refused("released.npy"):
        srnet.export_model(tmp_path / "sub", released, format="smp")


def test_a_failed_import_leaves_nothing(deep: str, released: Path, tmp_path: Path) -> None:
    released.write_bytes(released.read_bytes()[:-1])
    with refused("1,151 bytes", "1,152", "72 matrices", "9,216 weights"):
        srnet.import_mask(released, tmp_path / "sub", format="smp", backbone=deep, labels=LABELS)
    assert [path.name for path in tmp_path.iterdir()] == ["released.npy"]
