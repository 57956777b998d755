"""A fine-tuned checkpoint as a backbone: its classifier is kept where its labels fit, and one line says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refused
from safetensors.torch import load_file, save_file
from small_models import write_tuned
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

import srnet
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import ModelNode, Pretrained
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.store import Store
from srnet.masks.granularity import check_granularity
from srnet.models.backbones import find_own_classifier, load_backbone
from srnet.models.checkpoints import SHIPPED, read_model
from srnet.models.heads import CLASSIFIER, Head
from srnet.models.open import load_subnetwork, open_classifier
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

FITTING = ("Entailment", "NOT entailment")
"""The names of the task's labels, in another order and spelling."""
TEXTS = ["the doctor saw the lawyer", "the pilot slept"], ["the lawyer saw the doctor", "the pilot"]


class Recorded(Reporter):
    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    @property
    def heads(self) -> list[str]:
        return [line for line in self.lines if line.startswith("head of ")]


Tuned = Callable[..., str]


@pytest.fixture
def checkpoint(tiny_backbone: str, tmp_path: Path) -> Tuned:
    def make(names: tuple[str, ...] = FITTING, head: Head = CLASSIFIER) -> str:
        return write_tuned(tiny_backbone, tmp_path / "checkpoint", names, head)

    return make


@torch.no_grad()
def logits(model: Any, folder: str) -> torch.Tensor:
    batch = AutoTokenizer.from_pretrained(folder)(*TEXTS, return_tensors="pt", padding=True)
    found: torch.Tensor = model.eval()(**batch).logits
    return found


def head_of(node: ModelNode, engine: Engine) -> list[torch.Tensor]:
    weights = Subnetwork.load(engine.store.path(node.key)).weights
    return [weights["classifier.weight"], weights["classifier.bias"]]


def test_the_model_answers_as_the_checkpoint_does(checkpoint: Tuned, tiny_task: SyntheticTask, engine: Engine) -> None:
    """In the task's order, whatever the seed."""
    folder = checkpoint()
    assert tiny_task.load().labels == ("not_entailment", "entailment")
    expected = logits(AutoModelForSequenceClassification.from_pretrained(folder), folder)[:, [1, 0]]
    for seed in (0, 1):
        node = Pretrained(folder, tiny_task, seed)
        engine.execute([node])
        assert torch.equal(logits(load_subnetwork(engine.store.path(node.key)), folder), expected)
    assert node.fine_tuned


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("LABEL_0", "LABEL_1"), "names no labels (LABEL_0, LABEL_1)"),
        (("no", "yes"), "the labels no, yes"),
        (("entailment", "neutral", "not_entailment"), "3 outputs for 2 labels"),
    ],
)
def test_a_head_for_other_labels_is_random_and_the_line_says_why(
    names: tuple[str, ...], why: str, checkpoint: Tuned, tiny_task: SyntheticTask, tmp_path: Path
) -> None:
    engine, node = Engine(Store(tmp_path / "store"), Recorded()), Pretrained(checkpoint(names), tiny_task, seed=3)
    engine.execute([node])
    (line,) = engine.reporter.heads  # type: ignore[attr-defined]
    assert "randomly initialised" in line
    assert why in line
    random = load_backbone(node.backbone, tiny_task.load().labels, seed=3).model.state_dict()
    assert torch.equal(head_of(node, engine)[0], random["classifier.weight"])
    assert not node.fine_tuned


def test_one_line_for_many_trainings(
    checkpoint: Tuned, tiny_backbone: str, tiny_task: SyntheticTask, tmp_path: Path
) -> None:
    engine = Engine(Store(tmp_path / "store"), Recorded())
    raw = [Pretrained(checkpoint(), tiny_task, seed) for seed in range(3)]
    for _ in range(2):  # a search executes many times
        engine.execute([Prune(each, OneShot(0.5)) for each in raw])
    engine.execute(
        [Pretrained(tiny_backbone, tiny_task), Pretrained("srnet-tiny", tiny_task, words=("doctor", "lawyer"))]
    )
    kept, random, words = engine.reporter.heads  # type: ignore[attr-defined]
    assert "kept, because its labels are the same" in kept
    assert "randomly initialised, because the checkpoint is a BertForPreTraining" in random
    assert "language model, with the label words doctor, lawyer" in words


def test_nothing_is_said_about_the_head_of_a_model_that_is_trained_already(
    raw: Pretrained, tiny_training: TrainingSettings, tmp_path: Path
) -> None:
    full = FineTune(raw, training=tiny_training)
    Engine(Store(tmp_path / "store"), Reporter(quiet=True)).execute([full])
    later = Engine(Store(tmp_path / "store"), Recorded())
    later.execute([Prune(full, OneShot(0.5))])
    assert later.reporter.heads == []  # type: ignore[attr-defined]
    later.execute([Prune(raw, OneShot(0.5))])
    assert len(later.reporter.heads) == 1  # type: ignore[attr-defined]


def test_the_head_counts_and_nothing_changes_for_backbones_without_one(
    checkpoint: Tuned, raw: Pretrained, tiny_task: SyntheticTask, tiny_backbone: str, tmp_path: Path
) -> None:
    assert raw.content().keys() == {"backbone_sha256", "data"}
    one, other = Pretrained(checkpoint(), tiny_task), Pretrained(str(tmp_path / "other"), tiny_task)
    model = AutoModelForSequenceClassification.from_pretrained(one.backbone)
    torch.nn.init.ones_(model.classifier.bias)
    model.save_pretrained(other.backbone)
    AutoTokenizer.from_pretrained(one.backbone).save_pretrained(other.backbone)
    assert one.content()["backbone_sha256"] == other.content()["backbone_sha256"]
    assert one.content()["classifier_sha256"] != other.content()["classifier_sha256"]


def test_training_starts_from_it_and_a_mask_keeps_its_values(
    checkpoint: Tuned, tiny_task: SyntheticTask, engine: Engine
) -> None:
    raw, steps = Pretrained(checkpoint(), tiny_task), TrainingSettings(steps=2, eval_every=2, learning_rate=1e-9)
    tuned, pruned = FineTune(raw, training=steps), Prune(raw, MaskTraining(0.5), training=steps)
    engine.execute([tuned, pruned])
    own = AutoModelForSequenceClassification.from_pretrained(raw.backbone).classifier
    heads = [[own.weight[[1, 0]], own.bias[[1, 0]]], *(head_of(node, engine) for node in (tuned, pruned))]
    for first, fine_tuned, masked in zip(*heads, strict=True):
        assert torch.allclose(fine_tuned, first, atol=1e-6)
        assert torch.equal(masked, torch.where(masked == 0, masked, first))


@pytest.mark.parametrize(
    ("names", "of_key"), [(FITTING, 2), (("no", "yes"), 1), (None, 1)], ids=["fitting", "other labels", "no classifier"]
)
def test_a_checkpoint_is_not_loaded_more_often_than_needed(
    names: tuple[str, ...] | None,
    of_key: int,
    checkpoint: Tuned,
    tiny_backbone: str,
    tiny_task: SyntheticTask,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For the key its hash and, if it fits, its classifier; for the model everything once more."""
    folder, loads = shutil.copytree(tiny_backbone, tmp_path / "new") if names is None else checkpoint(names), []

    def counted(*given: Any, **options: Any) -> Any:
        loads.append(given)
        return read_model(*given, **options)

    monkeypatch.setattr("srnet.models.backbones.read_model", counted)
    node = Pretrained(str(folder), tiny_task)
    assert node.key
    assert len(loads) == of_key
    engine.execute([node])
    assert len(loads) == of_key + 1


def test_every_format_has_the_head(checkpoint: Tuned, tiny_task: SyntheticTask, engine: Engine, tmp_path: Path) -> None:
    units = check_granularity(("head", "neuron"))
    node = Prune(Pretrained(checkpoint(), tiny_task), OneShot(0.5, granularity=units))
    engine.execute([node])
    expected = open_classifier(node.key, engine.models).logits(*TEXTS)
    for format in ("merged", "subnetwork", "shrunk", "onnx"):
        srnet.export_model(node.key, tmp_path / format, format=format, engine=engine)
        found = open_classifier(tmp_path / format)
        assert found.labels == tiny_task.load().labels
        assert found.logits(*TEXTS) == pytest.approx(expected, abs=0.0 if format in ("merged", "subnetwork") else 1e-5)


# --- what fits -----------------------------------------------------------------------------------------------------


def test_a_score_fits_a_score(checkpoint: Tuned) -> None:
    folder = checkpoint(("LABEL_0",))
    assert find_own_classifier(folder, ("score",), CLASSIFIER).kept
    assert not find_own_classifier(folder, ("no", "yes"), CLASSIFIER).kept


@pytest.mark.parametrize("names", [("LABEL_0", "LABEL_1"), ("0", "1")])
def test_a_number_is_the_label_that_is_called_so(names: tuple[str, ...], checkpoint: Tuned) -> None:
    folder = checkpoint(names)
    assert find_own_classifier(folder, ("0", "1"), CLASSIFIER).order == (0, 1)
    assert find_own_classifier(folder, ("1", "0"), CLASSIFIER).order == (1, 0)
    assert "id2label" in find_own_classifier(folder, ("1", "2"), CLASSIFIER).why


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (["BertForQuestionAnswering"], "is a BertForQuestionAnswering"),
        (["BertModel"], "is a BertModel"),
        (None, "names no classifier and no labels"),
        ([1], "names no classifier and no labels"),
        (3, "names no classifier and no labels"),
    ],
)
def test_what_the_checkpoint_says_it_is(named: Any, why: str, tiny_backbone: str, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_backbone, tmp_path / "checkpoint")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": named}))
    assert why in find_own_classifier(str(folder), ("a", "b", "c"), CLASSIFIER).why


def test_a_classifier_of_tokens_fits_spans_only(checkpoint: Tuned) -> None:
    tokens = Head(per_token=True)
    folder = checkpoint(("end", "start"), tokens)
    assert find_own_classifier(folder, ("start", "end"), tokens).order == (1, 0)
    assert (
        "a BertForTokenClassification, no classifier of texts"
        in find_own_classifier(folder, ("start", "end"), CLASSIFIER).why
    )


def test_a_checkpoint_that_does_not_say_what_it_is(checkpoint: Tuned, tmp_path: Path) -> None:
    """Then its tensors decide."""
    folder = checkpoint()
    language_model = AutoModelForMaskedLM.from_pretrained(SHIPPED["srnet-tiny"])
    language_model.save_pretrained(tmp_path / "words")
    for path, kept in ((Path(folder), True), (tmp_path / "words", False)):
        config = path / "config.json"
        config.write_text(config.read_text().replace("BertFor", "TheirsFor"))
        assert find_own_classifier(str(path), ("entailment", "not_entailment"), CLASSIFIER).kept == kept


@pytest.mark.parametrize("part", ["classifier.bias", "bert.pooler.dense.weight"])
def test_of_a_checkpoint_that_lacks_a_part_no_classifier_is_kept(part: str, checkpoint: Tuned, engine: Engine) -> None:
    """The part would be random, and the answers those of another model."""
    folder = checkpoint()
    tensors = load_file(f"{folder}/model.safetensors")
    del tensors[part]
    save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
    found = find_own_classifier(folder, ("entailment", "not_entailment"), CLASSIFIER)
    assert not found.kept
    assert part in found.why
    with refused(folder, part):
        open_classifier(folder, engine.models)
