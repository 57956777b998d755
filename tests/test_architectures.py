"""Every architecture behind `AutoModelForSequenceClassification`: masked, trained, saved and loaded alike."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from architectures import ARCHITECTURES, TASK, THREE_STEPS, Runs, pruners_of
from methods import FROZEN, METHODS, STEERED
from torch import nn

from srnet.experiment.nodes.base import load_task
from srnet.masks.mask import Mask
from srnet.masks.targets import LAYERS, Targets, in_base
from srnet.masks.units import FAMILIES
from srnet.models.bank import MaskBank
from srnet.models.formats.merged import save_merged
from srnet.models.open import load_subnetwork
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.static import _matrix_kind
from srnet.tasks.splits import Example, Split
from srnet.training.data import encode, separates

every = pytest.mark.parametrize("name", ARCHITECTURES)
CASES = [(name, pruner.name) for name in ARCHITECTURES for pruner in pruners_of(name)]
every_case = pytest.mark.parametrize(("name", "pruner"), CASES)
ELSEWHERE = """
import sys
import numpy as np
import torch
from pathlib import Path
from srnet.models.subnetwork import Subnetwork
sys.path.insert(0, "tests")
from architectures import logits_on_dev
torch.set_num_threads(1)
for folder in sys.argv[2:]:
    np.save(Path(sys.argv[1]) / Path(folder).name, logits_on_dev(Subnetwork.load(Path(folder))))
"""


@pytest.fixture(scope="module")
def elsewhere(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logits of all subnetworks, computed by another process from nothing but their folders."""
    target, folders = tmp_path_factory.mktemp("logits"), []
    for name in ARCHITECTURES:
        folders += [str(found.folder) for found in runs.found(name).values()]
    root = Path(__file__).parent.parent
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(target), *folders], cwd=root, check=True)
    return target


@every
def test_what_is_masked(name: str, runs: Runs) -> None:
    found = Targets().find(runs.loaded(name).model)
    assert set(found) == ARCHITECTURES[name].masked  # and so no embedding, norm, bias, pooler or decoder
    assert set(LAYERS.find(runs.loaded(name).model)) == ARCHITECTURES[name].stack


def test_the_docs_list_what_is_tested() -> None:
    text = (Path(__file__).parent.parent / "docs" / "deploy.md").read_text(encoding="utf-8")
    section = text.partition("\n## Architectures\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    listed = {spelt(name): tuple(facts) for names, *facts in rows for name in names.split(", ")}
    assert listed == {spelt(name): facts_of(name) for name in ARCHITECTURES}
    assert FAMILIES.keys() <= ARCHITECTURES.keys()


def spelt(name: str) -> str:
    """An architecture's name without case, signs and the remark in parentheses: XLM-RoBERTa and xlm-roberta are one."""
    return re.sub(r"\(.*|[^a-z0-9]", "", name.lower())


def facts_of(name: str) -> tuple[str, ...]:
    """What the table says of it: trained and merged, shrunk, with equal widths, as a graph."""
    family = FAMILIES.get(name)
    uniform = "no" if family is None else "heads and neurons" if family.heads else "neurons"
    return "yes", "yes" if family else "no", uniform, "yes" if ARCHITECTURES[name].has_graph else "no"


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
            halves[_matrix_kind(matrix)] += 2 * int(keep.sum()) - keep.numel()
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
def test_transformers_alone_reads_a_merged_folder(name: str, runs: Runs, tmp_path: Path) -> None:
    found, base, dev = runs.found(name)["mask"], runs.loaded(name), load_task(TASK).dev
    save_merged(Subnetwork.load(found.folder), tmp_path / "merged")
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "merged")
    model = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    assert tokenizer.pad_token_id == model.config.pad_token_id
    second = dev.text_b if separates(tokenizer) else [f"\n{text}" for text in dev.text_b]
    sizes = {"padding": True, "truncation": True, "max_length": base.max_length(THREE_STEPS.max_length)}
    batch = tokenizer(list(dev.text_a), list(second), return_tensors="pt", **sizes)
    with torch.no_grad():
        np.testing.assert_allclose(model(**batch).logits.numpy(), found.logits, rtol=0, atol=1e-5)


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


@every
def test_where_the_second_text_begins_can_be_seen(name: str, runs: Runs) -> None:
    base = runs.loaded(name)
    one, other = (Example("1", "the doctor", "slept in it", 0), Example("1", "the doctor slept", "in it", 0))
    first, second = (encode(Split.of("x", "ID", [e]), base.tokenizer, 48).collate([0]) for e in (one, other))
    shape = first["input_ids"].shape
    assert shape != second["input_ids"].shape or not torch.equal(first["input_ids"], second["input_ids"])
