"""A folder that holds only what is new: exact as float32, close as half precision, and refused if anything is wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from srnet.cli.program import main
from srnet.core.errors import UserError
from srnet.masks.mask import Mask
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.formats.base import Source
from srnet.models.formats.subnetwork import SubnetworkFolder, logits_moved, sample_of
from srnet.models.heads import Head
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot

LABELS = ("no", "yes", "maybe")
EMBEDDINGS = "bert.embeddings.word_embeddings.weight"
FILES = ("mask.coded", "weights.safetensors", "subnetwork.json")
Tensors = dict[str, torch.Tensor]


def moved_a_little(state: Tensors, rows: tuple[int, ...]) -> Tensors:
    """As fine-tuning does: every tensor, but of the embeddings only these rows."""
    generator = torch.Generator().manual_seed(1)
    made = {name: tensor + 0.01 * torch.randn(tensor.shape, generator=generator) for name, tensor in state.items()}
    made[EMBEDDINGS] = state[EMBEDDINGS].clone()
    made[EMBEDDINGS][list(rows)] += 0.25
    return made


def make(backbone: str, sparsity: float | None, *, rows: tuple[int, ...] | None = None) -> Subnetwork:
    """Of the raw model, or of one that is fine-tuned with these rows of its embeddings."""
    base = load_backbone(backbone, LABELS, seed=5)
    state = base.model.state_dict() if rows is None else moved_a_little(base.model.state_dict(), rows)
    mask = None if sparsity is None else OneShot(min(sparsity, 0.999)).mask(base.model)
    if mask is not None and sparsity == 1.0:
        mask = Mask({name: torch.zeros_like(keep) for name, keep in mask.items()})
    return replace(Subnetwork.of(base, LABELS, state, mask), max_length=64)


def state_of(model: PreTrainedModel) -> Tensors:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_bits(one: Tensors, other: Tensors) -> bool:
    pairs = [(one[name].contiguous(), other[name].contiguous()) for name in one.keys() | other.keys()]
    return all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in pairs)


@pytest.fixture
def folder(tiny_backbone: str, tmp_path: Path) -> Path:
    make(tiny_backbone, 0.7, rows=(3, 5, 8)).save_coded(tmp_path / "sub")
    return tmp_path / "sub"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """The command line: what it prints, or the one line of its error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))

    def srnet(*words: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["srnet", *map(str, words)])
        with pytest.raises(SystemExit) as exit:
            main()
        said = capsys.readouterr()
        assert (exit.value.code or 0) == code, said
        return said.err if code else said.out

    return srnet


# --- it comes back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [None, (), (3, 5, 8)])
@pytest.mark.parametrize("sparsity", [None, 0.0, 0.5, 0.999, 1.0])
def test_float32_is_exact(
    sparsity: float | None, rows: tuple[int, ...] | None, tiny_backbone: str, tmp_path: Path
) -> None:
    subnetwork = make(tiny_backbone, sparsity, rows=rows)
    subnetwork.save_coded(tmp_path / "sub")
    again = Subnetwork.load(tmp_path / "sub")
    assert (again.mask, again.labels, again.max_length) == (subnetwork.mask, LABELS, 64)
    expected = state_of(subnetwork.model(subnetwork.base()))
    torch.manual_seed(77)
    assert same_bits(state_of(load_subnetwork(tmp_path / "sub")), expected)


def test_a_negative_zero_is_not_zero(tiny_backbone: str, tmp_path: Path) -> None:
    base = load_backbone(tiny_backbone, LABELS, seed=5)
    state = state_of(base.model)
    base.model.state_dict()[EMBEDDINGS][7, 0] = 0.0
    zero = replace(base, sha256=base.sha256)
    state[EMBEDDINGS][7, 0], state[EMBEDDINGS][9, 0] = -0.0, 1.0
    subnetwork = Subnetwork.of(zero, LABELS, state, None)
    subnetwork.save_coded(tmp_path / "sub", zero)
    assert load_file(tmp_path / "sub" / "weights.safetensors")[f"{EMBEDDINGS}#rows"].tolist() == [7, 9]


def test_only_what_is_new_is_written(folder: Path, tiny_backbone: str) -> None:
    stored, subnetwork = load_file(folder / "weights.safetensors"), Subnetwork.load(folder)
    assert subnetwork.mask is not None
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert stored[f"{EMBEDDINGS}#rows"].tolist() == [3, 5, 8]
    assert stored[EMBEDDINGS].shape == (3, 32)
    assert {name: tuple(stored[name].shape) for name in subnetwork.mask} == {
        name: (int(keep.sum()),) for name, keep in subnetwork.mask.items()
    }


def test_a_mask_of_the_raw_model_is_its_coded_bits_and_its_head(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = make(tiny_backbone, 0.5)
    subnetwork.save_coded(tmp_path / "sub")
    subnetwork.save(tmp_path / "plain")
    assert set(load_file(tmp_path / "sub" / "weights.safetensors")) == subnetwork.base().fresh
    assert subnetwork.mask is not None
    # a mask by magnitude: hardly more than the names of its matrices; format 1 has a bit a weight
    coded, bits = (tmp_path / name for name in ("sub/mask.coded", "plain/mask.bits"))
    assert 4 * coded.stat().st_size < bits.stat().st_size


def test_the_card_says_what_it_is(folder: Path, tiny_backbone: str) -> None:
    card, subnetwork = json.loads((folder / "subnetwork.json").read_text()), Subnetwork.load(folder)
    assert subnetwork.mask is not None
    assert (card["format"], card["dtype"], card["max_length"]) == (2, "float32", 64)
    assert card["backbone_sha256"] == load_backbone(tiny_backbone, LABELS, 0).sha256
    assert (card["weights_total"], card["weights_kept"]) == (subnetwork.mask.total, subnetwork.mask.kept)
    assert "logits_moved" not in card, "nothing moved"


def test_a_mask_of_the_head_is_coded_without_magnitudes(tiny_backbone: str, tmp_path: Path) -> None:
    """No receiver has the head's values before the mask is read."""
    base = load_backbone(tiny_backbone, LABELS, seed=5)
    keep = torch.rand(3, 32, generator=torch.Generator().manual_seed(0)) < 0.5
    subnetwork = Subnetwork.of(base, LABELS, base.model.state_dict(), Mask({"classifier.weight": keep}))
    subnetwork.save_coded(tmp_path / "sub")
    assert same_bits(state_of(load_subnetwork(tmp_path / "sub")), state_of(subnetwork.model(subnetwork.base())))


def test_label_words(tiny_backbone: str, tmp_path: Path) -> None:
    base = load_backbone(tiny_backbone, ("a", "b"), seed=0, head=Head(("lawyer", "doctor")))
    subnetwork = Subnetwork.of(base, ("a", "b"), base.model.state_dict(), OneShot(0.5).mask(base.model))
    subnetwork.save_coded(tmp_path / "sub")
    assert Subnetwork.load(tmp_path / "sub").head == Head(("lawyer", "doctor"))
    assert same_bits(state_of(load_subnetwork(tmp_path / "sub")), state_of(subnetwork.model(subnetwork.base())))


# --- half precision ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "step"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_half_precision_rounds_the_differences(dtype: str, step: float, tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = make(tiny_backbone, 0.5, rows=(3,))
    original = subnetwork.base().pretrained()
    subnetwork.save_coded(tmp_path / "half", dtype=dtype)
    again = Subnetwork.load(tmp_path / "half")
    assert again.mask == subnetwork.mask
    for name, tensor in subnetwork.weights.items():
        if name not in original:
            assert torch.equal(again.weights[name], tensor), "the head has nothing to differ from"
            continue
        difference = tensor - torch.where(tensor == 0, 0, original[name])
        bound = step * difference.abs() + 1e-7 * tensor.abs() + 3e-8  # rounded once as half, once as float32
        assert bool(((again.weights[name] - tensor).abs() <= bound).all()), name
    stored = load_file(tmp_path / "half" / "weights.safetensors")
    assert {str(t.dtype) for n, t in stored.items() if n in original} == {f"torch.{dtype}"}
    rounded = subnetwork.rounded(subnetwork.base(), dtype)
    assert same_bits(again.weights, rounded.weights)


def test_the_card_says_how_far_the_logits_moved(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = make(tiny_backbone, 0.5, rows=(3,))
    SubnetworkFolder("bfloat16").write(Source(subnetwork), tmp_path / "half")
    card = json.loads((tmp_path / "half" / "subnetwork.json").read_text())
    again = Subnetwork.load(tmp_path / "half")
    moved = logits_moved(subnetwork, again, subnetwork.base, sample_of(None, subnetwork.base(), 128))
    assert card["logits_moved"] == {"by": moved, "on": "4 pairs of sentences"}
    assert 0 < card["logits_moved"]["by"] < 0.01


def test_what_does_not_fit_is_refused(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork = make(tiny_backbone, 0.5, rows=(3,))
    subnetwork.weights[EMBEDDINGS][3, 0] = 1e6
    with pytest.raises(UserError, match=r"word_embeddings.weight' differs too much from the backbone for float16"):
        subnetwork.save_coded(tmp_path / "half", dtype="float16")
    assert not (tmp_path / "half").exists()
    with pytest.raises(UserError, match="unknown dtype 'int8'"):
        SubnetworkFolder("int8").write(Source(subnetwork), tmp_path / "half")  # type: ignore[arg-type]


# --- the command line ----------------------------------------------------------------------------------------------


def test_export_writes_it(folder: Path, run: Callable[..., str], tmp_path: Path) -> None:
    run("export", folder, "--format", "subnetwork", "--out", "exact")
    assert (tmp_path / "exact" / "mask.coded").read_bytes() == (folder / "mask.coded").read_bytes()
    assert (tmp_path / "exact" / "weights.safetensors").read_bytes() == (folder / "weights.safetensors").read_bytes()
    said = run("export", folder, "--format", "subnetwork", "--dtype", "float16", "--out", "half").splitlines()
    assert said[0] == "half"
    assert said[1].startswith("stored as float16: logits move by at most ")
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("exact", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    run("export", "exact", "--format", "merged", "--out", "merged")
    assert (tmp_path / "merged" / "model.safetensors").is_file()


def test_bad_options_are_one_line(folder: Path, run: Callable[..., str], tmp_path: Path) -> None:
    for words, said in [
        (("--format", "subnetwork", "--dtype", "int8"), "--dtype: unknown value 'int8'"),
        (("--format", "merged", "--dtype", "float16"), "format 'merged' has no option --dtype"),
    ]:
        line = run("export", folder, *words, "--out", "made", code=2)
        assert said in line
        assert len(line.splitlines()) == 1
    assert not (tmp_path / "made").exists()


def test_it_moves_with_its_backbone(folder: Path, tiny_backbone: str, tmp_path: Path) -> None:
    expected = state_of(load_subnetwork(folder))
    (tmp_path / "elsewhere").mkdir()
    folder.rename(tmp_path / "elsewhere" / "sub")
    shutil.copytree(tiny_backbone, tmp_path / "elsewhere" / "backbone")
    moved = load_subnetwork(tmp_path / "elsewhere" / "sub", str(tmp_path / "elsewhere" / "backbone"))
    assert same_bits(state_of(moved), expected)


# --- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_in_any_file_is_refused(name: str, folder: Path) -> None:
    data = (folder / name).read_bytes()
    for place in range(0, len(data), max(1, len(data) // 97)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        (folder / name).write_bytes(damaged)
        with pytest.raises(UserError, match=name):
            load_subnetwork(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_or_missing_file_is_refused(name: str, folder: Path) -> None:
    data = (folder / name).read_bytes()
    for size in (0, len(data) // 2, len(data) - 1 if name != "subnetwork.json" else len(data) - 3):
        (folder / name).write_bytes(data[:size])
        with pytest.raises(UserError, match=name):
            load_subnetwork(folder)
    (folder / name).unlink()
    with pytest.raises(UserError, match=name):
        load_subnetwork(folder)


def test_a_wrong_backbone_is_refused(folder: Path, tiny_backbone: str, tmp_path: Path) -> None:
    shutil.copytree(tiny_backbone, tmp_path / "wrong")
    tensors = load_file(tmp_path / "wrong" / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.bias"][0] += 1.0
    save_file(tensors, tmp_path / "wrong" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"wrong' has hash .* the subnetwork needs"):
        load_subnetwork(folder, backbone=str(tmp_path / "wrong"))


def reseal(folder: Path, **changes: object) -> None:
    """What a forger would do: checksums that fit."""
    card = json.loads((folder / "subnetwork.json").read_text()) | changes
    card["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in card["files"]}
    del card["sha256"]
    card["sha256"] = hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()
    (folder / "subnetwork.json").write_text(json.dumps(card))


def rows(*numbers: int) -> Tensors:
    return {f"{EMBEDDINGS}#rows": torch.tensor(numbers, dtype=torch.int32)}


QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        (rows(3, 5, 10**6), "has rows that the backbone has not"),
        (rows(-1, 5, 8), "has rows that the backbone has not"),
        (rows(5, 5, 8), "has rows that the backbone has not"),
        (rows(8, 5, 3), "has rows that the backbone has not"),
        (rows(3, 5), "another number of values"),
        ({f"{EMBEDDINGS}#rows": torch.tensor([3.0, 5.0, 8.0])}, "has rows that the backbone has not"),
        ({f"{QUERY}#rows": torch.tensor([1], dtype=torch.int32)}, "has rows that the backbone has not"),
        ({"classifier.bias#rows": torch.tensor([1], dtype=torch.int32)}, "has rows that the backbone has not"),
        ({"other#rows": torch.tensor([1], dtype=torch.int32)}, "'other#rows' belongs to no tensor"),
        ({"other": torch.ones(3)}, "'other' has no place in backbone"),
        ({QUERY: torch.ones(3)}, "another number of values than its mask keeps"),
        ({QUERY: torch.ones(1, 1, 1)}, "another number of values than its mask keeps"),
        ({"classifier.bias": torch.full((3,), float("nan"))}, "holds non-finite values"),
        ({"classifier.bias": torch.ones(3, dtype=torch.int32)}, "holds non-finite values"),
        ({"classifier.bias": torch.ones(10**4)}, "another number of values"),
    ],
)
def test_forged_weights_are_refused(forged: Tensors, said: str, folder: Path) -> None:
    stored = load_file(folder / "weights.safetensors")
    save_file({**stored, **forged}, folder / "weights.safetensors")
    reseal(folder)
    with pytest.raises(UserError, match=said):
        load_subnetwork(folder)


@pytest.mark.parametrize(
    "changes",
    [{"format": 99}, {"format": True}, {"format": 1}, {"max_length": 0}, {"max_length": "x"}, {"labels": [1, 2, 3]}],
)
def test_a_forged_card_is_refused(changes: dict[str, object], folder: Path) -> None:
    reseal(folder, **changes)
    with pytest.raises(UserError, match=r"subnetwork\.json"):
        load_subnetwork(folder)


def test_a_missing_tensor_is_refused(folder: Path) -> None:
    stored = load_file(folder / "weights.safetensors")
    del stored["classifier.weight"]
    save_file(stored, folder / "weights.safetensors")
    reseal(folder)
    with pytest.raises(UserError, match=r"has no weights 'classifier\.weight'"):
        load_subnetwork(folder)


def test_a_mask_for_another_backbone_is_refused(folder: Path, tiny_backbone: str, tmp_path: Path) -> None:
    """Even in a folder whose card was forged to fit."""
    made: LoadedBackbone = load_backbone("srnet-tiny", LABELS, seed=0)
    Subnetwork.of(made, LABELS, made.model.state_dict(), OneShot(0.5).mask(made.model)).save_coded(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "mask.coded", folder / "mask.coded")
    reseal(folder)
    with pytest.raises(UserError, match=r"mask\.coded was coded for the backbone"):
        load_subnetwork(folder)


def test_a_mask_that_does_not_fit_the_backbone_is_not_written(tiny_backbone: str, tmp_path: Path) -> None:
    """A folder of format 1 may be forged: its mask is read without the backbone."""
    fitting = make(tiny_backbone, 0.5)
    assert fitting.mask is not None
    name, keep = next(iter(fitting.mask.items()))
    forged = replace(fitting, mask=Mask({**fitting.mask, name: keep.repeat(2, 1)}))
    with pytest.raises(UserError, match=f"the mask does not fit this model: {name}"):
        forged.save_coded(tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_failed_save_leaves_nothing(tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr("srnet.models.subnetwork_files.write_json", fail)
    with pytest.raises(RuntimeError):
        make(tiny_backbone, 0.5).save_coded(tmp_path / "sub")
    assert list(tmp_path.iterdir()) == []
