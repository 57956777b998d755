"""A subnetwork one can keep: as plain bits and coded against its backbone, it comes back with the same logits."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from forging import forge
from refusals import refused
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from srnet.cli.program import main
from srnet.masks.mask import Mask
from srnet.models.backbones import load_backbone
from srnet.models.formats.base import Source
from srnet.models.formats.merged import save_merged
from srnet.models.formats.subnetwork import SubnetworkFolder, _logits_moved, sample_of
from srnet.models.heads import Head
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot

FIXTURES = Path(__file__).parents[1] / "fixtures"
BACKBONE = str(FIXTURES / "format-1" / "backbone")
LABELS = ("no", "yes", "maybe")
EMBEDDINGS = "bert.embeddings.word_embeddings.weight"
QUERY = "bert.encoder.layer.0.attention.self.query.weight"
HALF = [("float16", 2.0**-11), ("bfloat16", 2.0**-8)]
Tensors = dict[str, torch.Tensor]


def moved_a_little(state: Tensors, rows: tuple[int, ...]) -> Tensors:
    """As fine-tuning does: every tensor, but of the embeddings only these rows."""
    generator = torch.Generator().manual_seed(1)
    made = {name: tensor + 0.01 * torch.randn(tensor.shape, generator=generator) for name, tensor in state.items()}
    made[EMBEDDINGS] = state[EMBEDDINGS].clone()
    made[EMBEDDINGS][list(rows)] += 0.25
    return made


def make(backbone: str, sparsity: float | None, rows: tuple[int, ...] | None = None) -> tuple[Subnetwork, Tensors]:
    """Of the raw model, or of one fine-tuned with these rows of its embeddings; and the tensors that it must have."""
    base = load_backbone(backbone, LABELS, seed=5)
    state = base.model.state_dict() if rows is None else moved_a_little(base.model.state_dict(), rows)
    mask = None if sparsity is None else OneShot(min(sparsity, 0.999)).mask(base.model)
    if mask is not None and sparsity == 1.0:
        mask = Mask({name: torch.zeros_like(keep) for name, keep in mask.items()})
    subnetwork = replace(Subnetwork.of(base, LABELS, state, mask), max_length=64)
    masked = {name: torch.where(keep, state[name], 0.0) for name, keep in (mask or {}).items()}
    return subnetwork, {name: tensor.clone() for name, tensor in (state | masked).items()}


def save(subnetwork: Subnetwork, folder: Path, format: int) -> None:
    subnetwork.save(folder) if format == 1 else subnetwork.save_coded(folder)


def same_bits(one: Tensors, other: Tensors) -> bool:
    pairs = [(one[name].contiguous(), other[name].contiguous()) for name in one.keys() | other.keys()]
    return all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in pairs)


@pytest.fixture
def folder(tiny_backbone: str, tmp_path: Path) -> Path:
    make(tiny_backbone, 0.7, (3, 5, 8))[0].save_coded(tmp_path / "sub")
    return tmp_path / "sub"


# --- it comes back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("rows", [None, (), (3, 5, 8)])
@pytest.mark.parametrize("sparsity", [None, 0.0, 0.5, 0.999, 1.0])
def test_every_bit_comes_back(
    sparsity: float | None, rows: tuple[int, ...] | None, format: int, tiny_backbone: str, tmp_path: Path
) -> None:
    subnetwork, expected = make(tiny_backbone, sparsity, rows)
    save(subnetwork, tmp_path / "sub", format)
    again = Subnetwork.load(tmp_path / "sub")
    assert (again.mask, again.labels, again.sparsity) == (subnetwork.mask, LABELS, subnetwork.sparsity)
    assert again.max_length == (64 if format == 2 else None)
    torch.manual_seed(77)
    model = load_subnetwork(tmp_path / "sub")
    assert same_bits(dict(model.state_dict()), expected)
    assert model.config.id2label == dict(enumerate(LABELS))


def test_transformers_alone_gives_the_logits_of_a_merged_one(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork, _ = make(tiny_backbone, 0.6, (3, 5, 8))
    save_merged(subnetwork, tmp_path / "merged")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    assert type(model).__module__.startswith("transformers.")
    assert model.config.id2label == dict(enumerate(LABELS))
    texts = ["the lawyer saw the doctor"], ["the doctor"]
    own, other = (
        AutoTokenizer.from_pretrained(each)(*texts, return_tensors="pt")
        for each in (tmp_path / "merged", tiny_backbone)
    )
    with torch.no_grad():
        assert torch.equal(model(**own).logits, subnetwork.model(subnetwork.base())(**other).logits)


@pytest.mark.parametrize("name", ["format-1/subnetwork", "format-2/float32", "format-2/bfloat16"])
def test_folders_of_november_2026_still_load(name: str) -> None:
    """With the logits and the mask that they had then."""
    folder = FIXTURES / name
    expected = json.loads((folder.parent / "expected.json").read_text())
    with torch.no_grad():
        logits = load_subnetwork(folder, BACKBONE)(input_ids=torch.tensor(expected["input_ids"])).logits
    known = torch.tensor(expected.get(folder.name, expected.get("logits")))
    torch.testing.assert_close(logits, known, rtol=1e-4, atol=1e-5)
    subnetwork = Subnetwork.load(folder, BACKBONE)
    assert subnetwork.mask == Subnetwork.load(FIXTURES / "format-1" / "subnetwork").mask
    assert (subnetwork.labels, subnetwork.max_length) == (("no", "yes"), 16 if "2" in name else None)


def test_a_negative_zero_is_not_zero(tiny_backbone: str, tmp_path: Path) -> None:
    base = load_backbone(tiny_backbone, LABELS, seed=5)
    state = {name: tensor.clone() for name, tensor in base.model.state_dict().items()}
    base.model.state_dict()[EMBEDDINGS][7, 0] = 0.0
    state[EMBEDDINGS][7, 0], state[EMBEDDINGS][9, 0] = -0.0, 1.0
    Subnetwork.of(base, LABELS, state, None).save_coded(tmp_path / "sub", base)
    assert load_file(tmp_path / "sub" / "weights.safetensors")[f"{EMBEDDINGS}#rows"].tolist() == [7, 9]


def test_only_what_is_new_is_written(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork, _ = make(tiny_backbone, 0.7, (3, 5, 8))
    assert subnetwork.mask is not None
    kept = {name: (int(keep.sum()),) for name, keep in subnetwork.mask.items()}
    for format, mask in ((1, "mask.bits"), (2, "mask.coded")):
        made = tmp_path / str(format)
        save(subnetwork, made, format)
        stored = load_file(made / "weights.safetensors")
        assert {path.name for path in made.iterdir()} == {mask, "weights.safetensors", "subnetwork.json"}
        assert {name: tuple(stored[name].shape) for name in subnetwork.mask} == kept
        facts = json.loads((made / "subnetwork.json").read_text())
        assert (facts["format"], facts["backbone"], facts["sparsity"]) == (format, tiny_backbone, subnetwork.sparsity)
        assert (facts["weights_total"], facts["weights_kept"]) == (subnetwork.mask.total, subnetwork.mask.kept)
        assert facts["backbone_sha256"] == load_backbone(tiny_backbone, LABELS, 0).sha256
    assert stored[f"{EMBEDDINGS}#rows"].tolist() == [3, 5, 8]
    assert stored[EMBEDDINGS].shape == (3, 32)
    assert (facts["dtype"], facts["max_length"], "logits_moved" in facts) == ("float32", 64, False)


def test_a_mask_of_the_raw_model_is_its_bits_and_its_head(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork, _ = make(tiny_backbone, 0.5)
    assert set(subnetwork.weights) == subnetwork.base().fresh, "nothing but the head, which no backbone has"
    assert subnetwork.mask is not None
    for format in (1, 2):
        save(subnetwork, tmp_path / str(format), format)
        assert set(load_file(tmp_path / str(format) / "weights.safetensors")) == subnetwork.base().fresh
    head = sum(4 * tensor.numel() for tensor in subnetwork.weights.values())
    size = sum(path.stat().st_size for path in (tmp_path / "1").iterdir())
    assert size < subnetwork.mask.total / 8 + head + 4096
    # a mask by magnitude: hardly more than the names of its matrices; format 1 has a bit a weight
    coded, bits = (tmp_path / name for name in ("2/mask.coded", "1/mask.bits"))
    assert 4 * coded.stat().st_size < bits.stat().st_size


@pytest.mark.parametrize("head", [Head(), Head(("lawyer", "doctor"))], ids=["classifier", "words"])
def test_a_mask_of_the_head_and_label_words_come_back(head: Head, tiny_backbone: str, tmp_path: Path) -> None:
    """A mask of the classifier is coded without magnitudes: no receiver has its values before the mask is read."""
    base = load_backbone(tiny_backbone, ("a", "b"), seed=5, head=head)
    keep = torch.rand(2, 32, generator=torch.Generator().manual_seed(0)) < 0.5
    mask = OneShot(0.5).mask(base.model) if head.words else Mask({"classifier.weight": keep})
    subnetwork = Subnetwork.of(base, ("a", "b"), base.model.state_dict(), mask)
    subnetwork.save_coded(tmp_path / "sub")
    assert Subnetwork.load(tmp_path / "sub").head == head
    expected = subnetwork.model(subnetwork.base()).state_dict()
    assert same_bits(dict(load_subnetwork(tmp_path / "sub").state_dict()), dict(expected))


# --- half precision ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "step"), HALF)
def test_half_precision_rounds_the_differences(dtype: str, step: float, tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork, _ = make(tiny_backbone, 0.5, (3,))
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
    assert same_bits(again.weights, subnetwork.rounded(subnetwork.base(), dtype).weights)


@pytest.mark.parametrize("sparsity", [None, 0.5])
def test_the_manifest_says_how_far_the_logits_moved(sparsity: float, tiny_backbone: str, tmp_path: Path) -> None:
    """As two models that were loaded apart say, although the export puts both into one backbone."""
    subnetwork, _ = make(tiny_backbone, sparsity, (3,))
    SubnetworkFolder("bfloat16").write(Source(subnetwork), tmp_path / "half")
    again, sample = Subnetwork.load(tmp_path / "half"), sample_of(None, subnetwork.base(), 128)
    with torch.no_grad():
        apart = [[each.model(each.base())(**batch).logits for batch in sample.batches] for each in (subnetwork, again)]
    moved = max(float((a - b).abs().max()) for a, b in zip(*apart, strict=True))
    facts = json.loads((tmp_path / "half" / "subnetwork.json").read_text())
    assert facts["logits_moved"] == {"by": moved, "on": "4 pairs of sentences"}
    assert _logits_moved(subnetwork, again, subnetwork.base(), sample) == moved
    assert 0 < moved < 0.01


def test_what_does_not_fit_is_refused(tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork, _ = make(tiny_backbone, 0.5, (3,))
    assert subnetwork.mask is not None
    subnetwork.weights[EMBEDDINGS][3, 0] = 1e6
    with refused(EMBEDDINGS, "float16"):
        subnetwork.save_coded(tmp_path / "half", dtype="float16")
    with refused("int8"):
        SubnetworkFolder("int8").write(Source(subnetwork), tmp_path / "half")  # type: ignore[arg-type]
    # format 1 is read without a backbone, so its mask may be forged
    name, keep = next(iter(subnetwork.mask.items()))
    with refused(name):
        replace(subnetwork, mask=Mask({**subnetwork.mask, name: keep.repeat(2, 1)})).save_coded(tmp_path / "half")
    assert not (tmp_path / "half").exists()


# --- the command line ----------------------------------------------------------------------------------------------


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


def test_export_writes_it(folder: Path, run: Callable[..., str], tmp_path: Path) -> None:
    run("export", folder, "--format", "subnetwork", "--out", "exact")
    for name in ("mask.coded", "weights.safetensors"):
        assert (tmp_path / "exact" / name).read_bytes() == (folder / name).read_bytes()
    said = run("export", folder, "--format", "subnetwork", "--dtype", "float16", "--out", "half").splitlines()
    assert said[0] == "half"
    assert "float16" in said[1]
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("exact", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    run("export", "exact", "--format", "merged", "--out", "merged")
    assert (tmp_path / "merged" / "model.safetensors").is_file()
    for options, names in [(("subnetwork", "--dtype", "int8"), "int8"), (("merged", "--dtype", "float16"), "--dtype")]:
        (line,) = run("export", folder, "--format", *options, "--out", "made", code=2).splitlines()
        assert names in line
    assert not (tmp_path / "made").exists()


# --- the backbone --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [1, 2])
def test_the_backbone_may_have_moved_but_not_changed(format: int, tiny_backbone: str, tmp_path: Path) -> None:
    subnetwork, expected = make(tiny_backbone, 0.7, (3, 5, 8))
    save(subnetwork, tmp_path / "sub", format)
    moved, wrong = (shutil.copytree(tiny_backbone, tmp_path / name) for name in ("moved", "wrong"))
    assert same_bits(dict(load_subnetwork(tmp_path / "sub", str(moved)).state_dict()), expected)
    tensors = load_file(wrong / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.bias"][0] += 1.0
    save_file(tensors, wrong / "model.safetensors", metadata={"format": "pt"})
    for name in ("wrong", "nowhere"):
        with refused(tmp_path / name):
            load_subnetwork(tmp_path / "sub", str(tmp_path / name))


def test_a_mask_coded_for_another_backbone_is_refused(folder: Path, tmp_path: Path) -> None:
    """Even in a folder whose manifest was forged to fit."""
    base = load_backbone("srnet-tiny", LABELS, seed=0)
    Subnetwork.of(base, LABELS, base.model.state_dict(), OneShot(0.5).mask(base.model)).save_coded(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "mask.coded", folder / "mask.coded")
    forge(folder)
    with refused("mask.coded"):
        load_subnetwork(folder)


# --- forged weights ------------------------------------------------------------------------------------------------


def rows(*numbers: int) -> Tensors:
    return {f"{EMBEDDINGS}#rows": torch.tensor(numbers, dtype=torch.int32)}


ONE = torch.tensor([1], dtype=torch.int32)
BOTH: list[tuple[dict[str, Any], str]] = [
    ({"other": torch.ones(3)}, "other"),
    ({"classifier.weight": None}, "classifier.weight"),
    ({QUERY: torch.ones(3)}, QUERY),
    ({QUERY: torch.ones(1, 1, 1)}, QUERY),
    ({"classifier.bias": torch.full((3,), float("nan"))}, "classifier.bias"),
    ({"classifier.bias": torch.full((3,), float("inf"))}, "classifier.bias"),
    ({"classifier.bias": torch.ones(3, dtype=torch.int32)}, "classifier.bias"),
    ({"classifier.bias": torch.ones(10**4)}, "classifier.bias"),
]
ROWS: list[tuple[dict[str, Any], str]] = [
    *((rows(*numbers), EMBEDDINGS) for numbers in ((3, 5, 10**6), (-1, 5, 8), (5, 5, 8), (8, 5, 3), (3, 5))),
    ({f"{EMBEDDINGS}#rows": torch.tensor([3.0, 5.0, 8.0])}, EMBEDDINGS),
    *(({f"{name}#rows": ONE}, name) for name in (QUERY, "classifier.bias", "other")),
]


@pytest.mark.parametrize(
    ("format", "forged", "name"), [*((1, *each) for each in BOTH), *((2, *each) for each in (*BOTH, *ROWS))]
)
def test_forged_weights_are_refused(format: int, forged: dict[str, Any], name: str, folder: Path) -> None:
    """With checksums that fit."""
    if format == 1:
        Subnetwork.load(folder).save(folder.with_name("plain"))
        folder = folder.with_name("plain")
    stored = {**load_file(folder / "weights.safetensors"), **forged}
    save_file({key: each for key, each in stored.items() if each is not None}, folder / "weights.safetensors")
    forge(folder)
    with refused(name):
        load_subnetwork(folder)


# --- forged masks --------------------------------------------------------------------------------------------------


def forged_mask(shapes: object, length: int | None = None) -> bytes:
    """Four bytes of mask bits, with a checksum that fits."""
    header = shapes if isinstance(shapes, bytes) else json.dumps(shapes).encode()
    body = (len(header) if length is None else length).to_bytes(8, "little") + header + b"\0" * 4
    return b"SRNETMASK1\n" + hashlib.sha256(body).digest() + body


NO_SHAPES: list[object] = [
    *({"a": shape} for shape in ([-4, -8], [10**6, 10**6], [10**9] * 4, [4, 9], "x", None, [4.0, 8], [True, 32])),
    *([[4, 8]], None, b"[" * 5000, b"\xff\xfe"),
]


@pytest.mark.parametrize(
    "data", [*map(forged_mask, NO_SHAPES), *(forged_mask({"a": [4, 8]}, length=size) for size in (2**63, 0))]
)
def test_a_forged_mask_is_refused_before_anything_is_allocated(data: bytes) -> None:
    with refused("the mask file"):
        Mask.from_bytes(data, "the mask file")
    assert Mask.from_bytes(forged_mask({"a": [4, 8]})).total == 32
