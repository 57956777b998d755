"""A search in a model of the user's own: what it is compared with, and what is refused before anything is trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import run as typed
from refusals import refused
from small_models import write_tuned

import srnet
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import FineTuned, Quantised
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.rebuild import stored_model
from srnet.experiment.store import Store
from srnet.finding.diagnoses import undertrained
from srnet.finding.search import Find
from srnet.finding.settings import FindSettings
from srnet.recipes import profiles
from srnet.recipes.baselines import HEAD
from srnet.recipes.paradigms import Profile, Search, full, in_isolation, of_fine_tuned, of_raw
from srnet.recipes.profiles import cpu_profile
from srnet.recipes.recipe import Recipe
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

SMALL = SyntheticTask("inference", train_size=200, dev_size=60, ood_size=40)
NAMES = ("LABEL_0", "LABEL_1")
NAMED = {"LABEL_0": "entailment", "LABEL_1": "not_entailment"}
SHORT = TrainingSettings(learning_rate=1e-3, steps=6, eval_every=3, batch_size=16)
READS = 64
"""Tokens that the tiny model reads."""


@pytest.fixture(scope="session")
def folder(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_tuned(tiny_backbone, tmp_path_factory.mktemp("own") / "model", NAMES)


@pytest.fixture
def own(folder: str) -> FineTuned:
    return FineTuned(folder, SMALL, labels_are=tuple(NAMED.items()))


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(profiles, "_CPU_FINETUNING", SHORT)
    monkeypatch.setattr(profiles, "_CPU_PRUNING", replace(SHORT, steps=8))
    return Engine(Store(tmp_path / "store"), Reporter(quiet=True))


# --- recipes ---------------------------------------------------------------------------------------------------------


def recipe_in(own: FineTuned, seeds: int = 2, objective: str = "poe") -> Recipe:
    profile = replace(Profile(SMALL, finetuning=SHORT, pruning=replace(SHORT, steps=8)), seeds=tuple(range(seeds)))

    def figure(each: Profile) -> list[Any]:
        return full(each, "your model") + of_fine_tuned(each, "mask", Search("mask", objective, (0.3, 0.5)))

    return Recipe("own", profile.starting_from(own), figure)


def test_the_full_model_is_the_users_and_its_control_trains_on_as_long_as_the_search(own: FineTuned) -> None:
    made = recipe_in(own)
    (reference,) = made.references.values()
    assert reference.full == {0: own, 1: replace(own, seed=1)}
    assert reference.control_label == "your model, trained on as long"
    for seed, control in reference.controls.items():
        expected = FineTune(replace(own, seed=seed), training=replace(SHORT, steps=8, seed=seed, max_length=READS))
        assert control == expected
    labels = list(dict.fromkeys(point.label for point in made.points))
    assert labels == ["your model", "your model, trained on as long", "mask"]
    searches = [point.search for point in made.points if point.search]
    assert {search.parent for search in searches} == {*reference.full.values()}
    assert {search.training.max_length for search in searches} == {READS}
    assert {point.paradigm for point in made.points} == {"full", "a"}


def test_another_objective_trains_the_users_model_on(own: FineTuned) -> None:
    profile = cpu_profile(SMALL, "unused").starting_from(own)
    assert profile.full(1, "poe").formula == "A_poe(ft)"
    assert profile.full(1) == replace(own, seed=1)
    assert profile.full(0, backbone="srnet-tiny").pretrained.backbone == "srnet-tiny"


def test_paradigms_that_need_the_raw_weights_are_refused(own: FineTuned) -> None:
    profile, search = cpu_profile(SMALL, "unused").starting_from(own), Search("mask", "ce", (0.5,))
    for make in (of_raw, in_isolation):
        with refused("raw weights", own.backbone):
            make(profile, "mask", search)
    with refused("starts"):
        of_fine_tuned(profile, "mask", search, starts=(0.5,))


# --- find ------------------------------------------------------------------------------------------------------------


def test_a_search_from_the_first_look_to_the_folder(own: FineTuned, engine: Engine, tmp_path: Path) -> None:
    settings = FindSettings(keep_id=0.2, sparsities=(0.5,), seeds=3)
    found = srnet.find(SMALL, settings, full=own.backbone, labels_are=NAMED, out=tmp_path / "out", engine=engine)
    assert found.model is not None
    assert found.model.pretrained in {replace(own, seed=seed) for seed in range(3)}
    assert found.verdict is not None
    assert found.verdict.seeds == 3
    assert isinstance(found.full_model.pretrained, FineTuned)
    report = (tmp_path / "out" / "report.html").read_text()
    assert "your model, trained on as long" in report
    assert (tmp_path / "out" / "audit" / "audit.html").is_file()
    manifest = json.loads((found.folder / "subnetwork.json").read_text())  # type: ignore[operator]
    assert manifest["backbone"] == own.backbone


def test_the_command_is_the_function(
    own: FineTuned, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text("{name: inference, train_size: 200, dev_size: 60, ood_size: 40}")
    named = ",".join(f"{name}={label}" for name, label in NAMED.items())
    words = ["t.yaml", "--full", own.backbone, "--labels-are", named, "--store", engine.store.root]
    assert typed(monkeypatch, "find", *words, "--max-length", "20", "--dry-run") == 0
    assert "fine-tuned, on inference" in capsys.readouterr().out
    for more, what in (
        (["--backbone", "srnet-small"], "--backbone"),
        (["--labels-are", "LABEL_2=entailment"], "LABEL_2"),
    ):
        assert typed(monkeypatch, "find", *words, *more) == 2
        assert what in capsys.readouterr().err


def test_every_training_reads_what_the_model_reads_or_what_was_given(own: FineTuned, engine: Engine) -> None:
    for given, expected in ((None, READS), (20, 20)):
        settings = FindSettings(sparsities=(0.5,), granularity=("head", "neuron"), seeds=1, max_length=given)
        start = replace(own, length=given)
        plans = Find(SMALL, "srnet-tiny", settings, engine, own=start).at_most()
        nodes = engine.plan([node for plan in plans for node in plan.nodes()])
        assert {node.training.max_length for node in nodes if node.trains} == {expected}  # type: ignore[attr-defined]
        assert {node.max_length for node in nodes if isinstance(node, FineTuned)} == {expected}


def test_an_undertrained_model_that_was_given_is_not_trained_longer_by_the_search(
    own: FineTuned, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = undertrained(50.0, bias=60.0, is_given=True)
    assert found is not None
    assert not found.options, "another scale does not change the model"
    search = Find(SMALL, "srnet-tiny", FindSettings(sparsities=(0.5,), seeds=1), engine, own=own)
    assert not search._may_lengthen()


# --- commands about one model ----------------------------------------------------------------------------------------


def test_prune_finetune_and_evaluate_take_the_folder(
    own: FineTuned, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text("{name: inference, train_size: 200, dev_size: 60, ood_size: 40}")
    named = ",".join(f"{name}={label}" for name, label in NAMED.items())
    where = [own.backbone, "--task", "t.yaml", "--store", engine.store.root]
    scores = []
    for words in (
        ["evaluate", *where, "--labels-are", named],
        ["prune", *where, "--labels-are", named, "--pruner", "one-shot", "--sparsity", "0"],
        ["finetune", *where, "--labels-are", named, "--steps", "1", "--learning-rate", "1e-12", "--seed", "4"],
    ):
        assert typed(monkeypatch, *words, "--json", "--quiet") == 0
        scores.append(json.loads(capsys.readouterr().out))
    assert scores[0]["scores"] == scores[1]["scores"]
    assert stored_model(engine.store, scores[2]["key"]).pretrained.seed == 4
    for command in ("prune", "finetune"):
        assert typed(monkeypatch, command, *where) == 2
        assert "--labels-are LABEL_0=not_entailment,LABEL_1=entailment" in capsys.readouterr().err
    assert typed(monkeypatch, "audit", *where, "--labels-are", named, "--out", "audit", "--quiet") == 0
    assert "does not name its outputs" not in (tmp_path / "audit" / "audit.html").read_text()
    assert typed(monkeypatch, "audit", *where, "--labels-are", "other=entailment") == 2
    assert "'other'" in capsys.readouterr().err


def test_baselines_of_the_users_own_model(own: FineTuned, engine: Engine) -> None:
    """The head and LoRA matrices train on from it, and the int8 line is that model itself."""
    settings = FindSettings(keep_id=0.1, sparsities=(0.5,), seeds=1, lengthen=False, baselines=True)
    found = Find(SMALL, "srnet-tiny", settings, engine, own=own).run()
    nodes = {each.label: each.node for each in found.recipe.points if each.is_baseline}
    assert nodes["your model, int8 weights"] == Quantised(own)
    assert isinstance(nodes[HEAD], FineTune)
    assert (nodes[HEAD].parent, nodes[HEAD].training.steps) == (own, 8)
    assert [line.name.startswith("your model") for line in found.compared].count(True) == 2
    assert all(line.bytes > 0 for line in found.compared)
