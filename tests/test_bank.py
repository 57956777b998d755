"""A bank: whatever was in use before, the task in use has the weights and logits of a freshly loaded subnetwork."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from devices import second_device
from fuzz.valid import sign
from gpus import Simulated
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from transformers import PreTrainedModel

import srnet
from srnet.core.device import named_device
from srnet.masks.targets import LAYERS
from srnet.models.backbones import load_backbone
from srnet.models.bank import MaskBank, _zero_pruned
from srnet.models.heads import Head
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot

TWO, THREE = ("no", "yes"), ("no", "yes", "maybe")
KINDS = ("raw", "other raw", "three labels", "words", "tuned", "tuned half", "full", "format 1")
Tensors = dict[str, torch.Tensor]


def moved(state: Tensors, seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    made = {name: t + 0.05 * torch.randn(t.shape, generator=generator) for name, t in state.items()}
    rows = made["bert.embeddings.word_embeddings.weight"]
    rows[20:] = state["bert.embeddings.word_embeddings.weight"][20:]
    return made


def make(backbone: str, kind: str, folder: Path) -> None:
    """A subnetwork of every sort: of the raw model, with other labels, with label words, of a fine-tuned model, ..."""
    labels = THREE if kind == "three labels" else TWO
    base = load_backbone(backbone, labels, seed=KINDS.index(kind), head=Head(("lawyer", "doctor") * (kind == "words")))
    state = base.model.state_dict()
    if kind in ("tuned", "tuned half", "full"):
        state = moved(state, KINDS.index(kind))
    pruner = OneShot(0.3 if kind == "raw" else 0.6, targets=LAYERS if kind in ("raw", "words") else srnet.Targets())
    mask = None if kind == "full" else pruner.mask(base.model)
    subnetwork = Subnetwork.of(base, labels, state, mask)
    if kind == "format 1":
        subnetwork.save(folder)
    else:
        subnetwork.save_coded(folder, dtype="float16" if kind == "tuned half" else "float32")


def state_of(model: PreTrainedModel) -> Tensors:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@torch.no_grad()
def logits(model: PreTrainedModel) -> torch.Tensor:
    return model(input_ids=torch.tensor([[2, 7, 9, 3, 11, 3], [2, 20, 21, 3, 22, 3]])).logits


@pytest.fixture(scope="module")
def folders(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("tasks")
    for kind in KINDS:
        make(tiny_backbone, kind, root / kind)
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="module")
def fresh(folders: dict[str, Path]) -> dict[str, tuple[Tensors, torch.Tensor]]:
    """What each task must be, whatever the bank did before."""
    models = {kind: load_subnetwork(folder) for kind, folder in folders.items()}
    return {kind: (state_of(model), logits(model)) for kind, model in models.items()}


@pytest.fixture(scope="module")
def bank(tiny_backbone: str, folders: dict[str, Path]) -> MaskBank:
    made = srnet.MaskBank(tiny_backbone)
    for name, folder in folders.items():
        made.add(name, folder)
    return made


def check(bank: MaskBank, fresh: dict[str, tuple[Tensors, torch.Tensor]]) -> None:
    assert bank.current is not None
    state, expected = fresh[bank.current]
    found = bank.model.state_dict()
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        same = torch.equal(found[name].view(-1).view(torch.uint8), tensor.view(-1).view(torch.uint8))
        assert same, f"{name} of {bank.current}"
    assert torch.equal(logits(bank.model), expected)


@settings(max_examples=25)
@given(sequence=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)), min_size=1, max_size=6))
def test_any_sequence_of_switches(sequence: list[tuple[str, str]], bank: MaskBank, fresh: dict) -> None:
    for one, other in sequence:
        assert bank.use(one) is bank.model
        with bank.using(other) as model:
            assert model is bank.model
            check(bank, fresh)
        assert bank.current == one
        check(bank, fresh)


def test_a_bank_on_another_device(
    tiny_backbone: str, folders: dict[str, Path], fresh: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, masks and kept values are there; every task has the weights and logits that it has on the CPU."""
    with second_device() as device:
        monkeypatch.setattr("srnet.models.bank.named_device", lambda name: device)
        made = srnet.MaskBank(tiny_backbone, device="cuda")
        for name, folder in folders.items():
            made.add(name, folder)
        for name in (*folders, *reversed(folders)):
            model = made.use(name)
            state, expected = fresh[name]
            assert {tensor.device for tensor in (*model.parameters(), *model.buffers())} == {device}
            assert all(torch.equal(tensor.cpu(), state[each]) for each, tensor in model.state_dict().items())
            ids = torch.tensor([[2, 7, 9, 3, 11, 3], [2, 20, 21, 3, 22, 3]]).to(device)
            with torch.no_grad():
                assert torch.allclose(model(input_ids=ids).logits.cpu(), expected, atol=1e-6)
        kept = [change for task in made._tasks.values() for change in task.changes.values()]
        held = [t for change in kept for t in (change.bits, change.where, change.values) if isinstance(t, torch.Tensor)]
        assert {tensor.device for tensor in held} == {device}


def test_a_device_of_a_bank_that_is_not_there(tiny_backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 1)
    for device, names in {"cuda:7": ("cuda:7", "cuda:0, cpu"), "gpu": ("not a device",), "mps": ("mps",)}.items():
        with refused(*names):
            srnet.MaskBank(tiny_backbone, device=device)
    assert named_device("auto") == torch.device("cuda")
    assert named_device("cuda:0") == torch.device("cuda", 0)
    assert srnet.MaskBank(tiny_backbone).device == torch.device("cpu")


@given(st.lists(st.tuples(st.booleans(), st.floats(width=32, allow_nan=False)), max_size=40))
def test_pruned_weights_are_positive_zero(entries: list[tuple[bool, float]]) -> None:
    keep, values = np.array([k for k, _ in entries], bool), torch.tensor([v for _, v in entries])
    expected = torch.where(torch.from_numpy(keep), values, 0.0)
    bits = torch.from_numpy(np.packbits(keep))
    with second_device() as device:
        elsewhere = values.to(device)
        _zero_pruned(elsewhere, bits.to(device))
        assert torch.equal(elsewhere.cpu().view(torch.int32), expected.view(torch.int32))
    _zero_pruned(values, bits)
    assert torch.equal(values.view(torch.int32), expected.view(torch.int32))


def test_adding_and_removing_while_one_is_in_use(tiny_backbone: str, folders: dict[str, Path], fresh: dict) -> None:
    bank = MaskBank(tiny_backbone)
    bank.add("tuned", folders["tuned"])
    bank.use("tuned")
    bank.add("raw", folders["raw"])
    check(bank, fresh)
    bank.remove("raw")
    check(bank, fresh)
    bank.add("raw", folders["raw"])
    bank.remove("tuned")
    assert (bank.names, bank.current) == (("raw",), None)
    bank.use("raw")
    check(bank, fresh)


def test_removing_the_task_of_a_block(tiny_backbone: str, folders: dict[str, Path]) -> None:
    bank = MaskBank(tiny_backbone)
    bank.add("raw", folders["raw"])
    bank.use("raw")
    bank.add("full", folders["full"])
    with bank.using("full"):
        bank.remove("raw")
    assert bank.current is None


def test_the_models_share_their_tensors(bank: MaskBank) -> None:
    """One backbone in memory: whatever the task, the encoder's tensors lie in the same place."""
    places = {kind: {n: p.data_ptr() for n, p in bank.use(kind).named_parameters()} for kind in KINDS}
    shared = {name for name in places["raw"] if name.startswith("bert.") and not name.startswith("bert.pooler.")}
    for kind in KINDS:
        assert all(places[kind][name] == places["raw"][name] for name in shared), kind
    assert len({places[kind].get("classifier.weight") for kind in KINDS}) == len(KINDS), "each has its own head"


def test_a_raw_mask_costs_its_bits(bank: MaskBank) -> None:
    changes = bank._tasks["raw"].changes
    assert all(change.values is None and change.bits is not None for change in changes.values())
    weights = sum(bank._shared[name].numel() for name in changes)
    assert sum(change.bits.nbytes for change in changes.values() if change.bits is not None) == weights / 8


def test_a_tuned_mask_costs_its_kept_values(bank: MaskBank, folders: dict[str, Path]) -> None:
    subnetwork, changes = Subnetwork.load(folders["tuned"]), bank._tasks["tuned"].changes
    assert subnetwork.mask is not None
    for name in changes.keys() & subnetwork.mask.keys():
        values = changes[name].values
        assert values is not None
        assert values.shape == (int(subnetwork.mask[name].sum()),)
    rows = changes["bert.embeddings.word_embeddings.weight"].values
    assert rows is not None
    assert rows.shape[0] == 20


def test_logits_may_have_half_precision_but_non_finite_ones_are_an_error(
    tiny_backbone: str, folders: dict[str, Path]
) -> None:
    bank = MaskBank(tiny_backbone)
    bank.add("raw", folders["raw"])
    model = bank.use("raw")
    logits(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert logits(model).dtype == torch.bfloat16
    with torch.no_grad():
        model.classifier.bias.fill_(float("nan"))
    for context in (nullcontext(), torch.autocast("cpu", torch.bfloat16)):
        with context, refused("'raw'", "non-finite"):
            logits(model)


def test_labels_and_tokenizer(bank: MaskBank) -> None:
    assert bank.use("three labels").config.id2label == dict(enumerate(THREE))
    tokens = bank.tokenizer("the lawyer saw the doctor", "the doctor", return_tensors="pt")
    assert bank.model(**tokens).logits.shape == (1, 3)


def test_an_interrupted_switch_can_be_repeated(bank: MaskBank, fresh: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.use("tuned")
    restore, calls = bank._originals.restore, []

    def fail(name: str, tensor: torch.Tensor) -> None:
        calls.append(name)
        if len(calls) == 5:
            raise KeyboardInterrupt
        restore(name, tensor)

    monkeypatch.setattr(bank._originals, "restore", fail)
    with pytest.raises(KeyboardInterrupt):
        bank.use("raw")
    monkeypatch.undo()
    assert bank.current is None
    for kind in ("raw", "full", "tuned"):
        bank.use(kind)
        check(bank, fresh)


# --- folders -------------------------------------------------------------------------------------------------------


def test_save_and_load(bank: MaskBank, fresh: dict, tmp_path: Path) -> None:
    bank.save(tmp_path / "bank")
    again = MaskBank.load(tmp_path / "bank")
    assert again.names == bank.names
    for kind in KINDS:
        again.use(kind)
        check(again, fresh)


def test_the_folders_of_the_tasks_may_be_gone(tiny_backbone: str, folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["raw"], tmp_path / "raw")
    bank = MaskBank(tiny_backbone)
    bank.add("raw", tmp_path / "raw")
    shutil.rmtree(tmp_path / "raw")
    bank.save(tmp_path / "bank")
    assert MaskBank.load(tmp_path / "bank", backbone=tiny_backbone).names == ("raw",)


# --- refused -------------------------------------------------------------------------------------------------------


def model_of_another_task(bank: MaskBank) -> None:
    model = bank.use("raw")
    bank.use("full")
    model(input_ids=torch.tensor([[2, 3]]))


@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        (lambda bank: bank.use("sts"), ("'sts'", "raw, other raw")),
        (lambda bank: bank.remove("sts"), ("'sts'",)),
        (lambda bank: bank.add("raw", "."), ("'raw'",)),
        (lambda bank: bank.add("../x", "."), ("'../x'",)),
        (lambda bank: bank.add(5, "."), ("5",)),
        (lambda bank: bank.add("new", "nowhere"), ("nowhere", "subnetwork.json")),
        (lambda bank: MaskBank.load("nowhere"), ("nowhere", "bank.json")),
        (lambda bank: MaskBank("nowhere"), ("'nowhere'",)),
        (model_of_another_task, ("'raw'", "use('raw')")),
    ],
)
def test_mistakes_are_one_line(
    mistake: Callable[[MaskBank], None], named: tuple[str, ...], bank: MaskBank, fresh: dict
) -> None:
    bank.use("tuned")
    with refused(*named):
        mistake(bank)
    bank.use("tuned")
    check(bank, fresh)


def test_a_task_that_no_folder_can_be_named_after(bank: MaskBank, tmp_path: Path) -> None:
    bank.save(tmp_path / "bank")
    facts = json.loads((tmp_path / "bank" / "bank.json").read_text())
    del facts["sha256"]
    sign(tmp_path / "bank" / "bank.json", {**facts, "tasks": [["../raw", "0"]]})
    with refused("'../raw'"):
        MaskBank.load(tmp_path / "bank")


def test_a_model_that_was_trained_on_leaves_the_others_in_evaluation_mode(bank: MaskBank) -> None:
    bank.use("raw").train()
    assert not any(module.training for module in bank.use("other raw").modules())
    bank.model.train()
    assert not any(module.training for module in bank.use("other raw").modules())
    with bank.using("raw") as model:
        model.train()
    assert not any(module.training for module in bank.model.modules())


def test_a_model_that_was_converted_ends_the_bank(tiny_backbone: str, folders: dict[str, Path]) -> None:
    bank = MaskBank(tiny_backbone)
    for name in ("raw", "other raw"):
        bank.add(name, folders[name])
    bank.use("raw").half().float()
    with refused("dtype or device"):
        bank.use("other raw")


@pytest.mark.parametrize("where", ["srnet.models.bank.shutil.copy", "srnet.core.files.os.fsync"])
def test_a_full_disk_is_one_line(where: str, bank: MaskBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        named = [str(each) for each in given[-1:] if isinstance(each, Path)]
        raise OSError(errno.ENOSPC, "No space left on device", *named)

    monkeypatch.setattr(where, full)
    with refused(tmp_path / "bank", "no space left"):
        bank.save(tmp_path / "bank")
    assert not list(tmp_path.iterdir())


def test_nothing_is_in_use_at_first(tiny_backbone: str) -> None:
    bank = MaskBank(tiny_backbone)
    for ask in (lambda: bank.model, lambda: bank.tokenizer):
        with refused("use(NAME)"):
            ask()
    with refused("nli", "none yet"):
        bank.use("nli")


def test_a_subnetwork_of_another_backbone_is_refused(bank: MaskBank, tmp_path: Path, fresh: dict) -> None:
    base = load_backbone("srnet-tiny", TWO, seed=0)
    Subnetwork.of(base, TWO, base.model.state_dict(), OneShot(0.5).mask(base.model)).save_coded(tmp_path / "sub")
    bank.use("raw")
    with refused(bank.backbone):
        bank.add("new", tmp_path / "sub")
    assert "new" not in bank.names
    check(bank, fresh)
