"""A model that was fine-tuned elsewhere as a starting point: it answers as in plain transformers, and trains on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from theirs import LABELS, OTHERWISE, READS, plain_logits, write_texts, write_theirs
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import srnet
from srnet.core.names import match_names, renamed
from srnet.experiment.engine import Engine
from srnet.experiment.known import known_about
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import Evaluate, FineTuned, ModelNode, Pretrained
from srnet.experiment.nodes.objectives import PoE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.rebuild import stored_model
from srnet.experiment.store import read_logits
from srnet.models.checkpoints import LONGEST_READ
from srnet.models.open import open_model
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

UNNAMED = ("LABEL_0", "LABEL_1")
NAMED = (("LABEL_0", "positive"), ("LABEL_1", "negative"))
TWO_STEPS = TrainingSettings(learning_rate=1e-3, steps=2, eval_every=1, batch_size=4)
Make = Callable[..., str]


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The folder of a model of an architecture, written once for all tests; nothing may change it."""
    folders: dict[tuple[object, ...], str] = {}

    def make(name: str = "bert", names: tuple[str, ...] = OTHERWISE, seed: int = 0) -> str:
        key = (name, names, seed)
        if key not in folders:
            folders[key] = write_theirs(name, tmp_path_factory.mktemp("theirs") / name, names, seed)
        return folders[key]

    return make


@pytest.fixture
def task(tmp_path: Path) -> FilesTask:
    return write_texts(tmp_path / "texts", pairs=False)


def logits_of(node: ModelNode, engine: Engine) -> np.ndarray:
    engine.execute([Evaluate(node)])
    found: np.ndarray = read_logits(engine.store, Evaluate(node).key)["dev"]
    return found


# --- the same answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "gpt2", "albert"])
def test_nothing_pruned_gives_the_logits_of_plain_transformers(
    name: str, pairs: bool, theirs: Make, engine: Engine, tmp_path: Path
) -> None:
    """Also of texts that are longer than the model reads, and with labels in another order."""
    task, folder = write_texts(tmp_path / "texts", pairs=pairs), theirs(name)
    expected = plain_logits(folder, load_task(task).dev)[:, [1, 0]]
    assert expected.std(axis=0).min() > 0.01, "the texts can be told apart"
    trained = srnet.prune(folder, OneShot(sparsity=0.0), task=task, engine=engine)
    found = logits_of(stored_model(engine.store, trained.key), engine)
    assert np.abs(found - expected).max() <= 1e-6
    opened = open_model(folder, task=load_task(task))
    assert np.abs(opened.outputs(load_task(task), load_task(task).dev, (1, 0)) - expected).max() <= 1e-6


def test_a_merged_export_answers_the_same_and_can_start_again(theirs: Make, engine: Engine, tmp_path: Path) -> None:
    """Also where srnet itself puts something between the texts of a pair, which it does not for this model."""
    task = write_texts(tmp_path / "texts", pairs=True)
    start = FineTuned(theirs("gpt2"), task)
    expected = logits_of(start, engine)
    merged = str(srnet.export_model(start.key, tmp_path / "merged", engine=engine))
    assert np.abs(plain_logits(merged, load_task(task).dev) - expected).max() <= 1e-6
    assert np.abs(logits_of(FineTuned(merged, task), engine) - expected).max() <= 1e-6
    assert open_model(merged, task=load_task(task)).max_length == READS


def test_a_model_that_srnet_trained_goes_on_reading_as_it_did(theirs: Make, engine: Engine, tmp_path: Path) -> None:
    task = write_texts(tmp_path / "texts", pairs=True)
    ours = FineTune(Pretrained(theirs("gpt2"), task), training=TWO_STEPS)
    expected = logits_of(ours, engine)
    merged = str(srnet.export_model(ours.key, tmp_path / "merged", engine=engine))
    again = FineTuned(merged, task)
    assert again.max_length == TWO_STEPS.max_length
    assert np.abs(logits_of(again, engine) - expected).max() <= 1e-6
    assert np.abs(plain_logits(merged, load_task(task).dev) - expected).max() > 1e-3, "a line break is between them"


@pytest.mark.parametrize("format", ["merged", "subnetwork", "onnx"])
def test_every_format_reads_texts_as_the_model_does(format: str, theirs: Make, engine: Engine, tmp_path: Path) -> None:
    task = write_texts(tmp_path / "texts", pairs=True)
    node = Prune(FineTuned(theirs("gpt2"), task), OneShot(sparsity=0.5))
    expected = logits_of(node, engine)
    folder = srnet.export_model(node.key, tmp_path / format, format=format, engine=engine)
    data = load_task(task)
    found = open_model(folder, task=data).outputs(data, data.dev, (0, 1))
    assert np.abs(found - expected).max() <= 1e-5


# --- labels ----------------------------------------------------------------------------------------------------------


def test_outputs_without_names_need_them(theirs: Make, task: FilesTask, engine: Engine) -> None:
    folder = theirs(names=UNNAMED)
    with refused("LABEL_0, LABEL_1", "negative, positive", "--labels-are LABEL_0=negative,LABEL_1=positive"):
        srnet.prune(folder, OneShot(sparsity=0.0), task=task, engine=engine)
    assert not engine.store.keys(), "before anything is computed"
    named = FineTuned(folder, task, labels_are=NAMED)
    expected = plain_logits(folder, load_task(task).dev)
    assert np.abs(logits_of(named, engine) - expected[:, [1, 0]]).max() <= 1e-6
    other = FineTuned(
        folder, task, labels_are=tuple((name, label) for name, label in zip(UNNAMED, LABELS, strict=True))
    )
    assert np.abs(logits_of(other, engine) - expected).max() <= 1e-6


@pytest.mark.parametrize(
    ("names", "named", "what"),
    [
        (("bad", "good"), (), "--labels-are bad=negative,good=positive"),
        (("bad", "good"), (("bad", "negative"),), "bad, good"),
        (("bad", "good"), (("bad", "negative"), ("good", "negative")), "bad, good"),
        (("bad", "good"), (("ugly", "negative"),), "'ugly'"),
        (("bad", "fair", "good"), (), "bad, fair, good"),
    ],
)
def test_labels_that_do_not_match_are_refused_before_anything_runs(
    names: tuple[str, ...], named: tuple[tuple[str, str], ...], what: str, theirs: Make, task: FilesTask, engine: Engine
) -> None:
    folder = theirs(names=names)
    for call in (
        lambda: srnet.finetune(folder, task=task, labels_are=dict(named), engine=engine),
        lambda: srnet.find(task, full=folder, labels_are=dict(named), engine=engine),
    ):
        with refused(folder, what):
            call()
    assert not engine.store.keys()


def test_names_that_are_no_labels_of_the_task_are_refused(theirs: Make, task: FilesTask, engine: Engine) -> None:
    folder = theirs(names=UNNAMED)
    with refused("LABEL_1, LABEL_0", "--labels-are"):
        srnet.evaluate(folder, task=task, labels_are=dict(zip(UNNAMED, UNNAMED[::-1], strict=True)), engine=engine)


def test_a_folder_without_a_tokenizer_is_refused(theirs: Make, task: FilesTask, engine: Engine, tmp_path: Path) -> None:
    """transformers would make one that knows no word, so that all texts of a length are alike."""
    folder = shutil.copytree(theirs(), str(tmp_path / "copy"))
    for file in Path(folder).glob("*token*"):
        file.unlink()
    for call in (
        lambda: srnet.evaluate(folder, task=task, engine=engine),
        lambda: srnet.prune(folder, OneShot(sparsity=0.0), task=task, engine=engine),
    ):
        with refused(folder, "no tokenizer"):
            call()
    assert not engine.store.keys()


def test_other_spellings_of_the_task_are_its_labels(theirs: Make, task: FilesTask) -> None:
    spelled = srnet.FilesTask(
        task.name,
        ("neg", "pos"),
        task.train,
        task.dev,
        text_b=None,
        spellings=(("negative", "neg"), ("positive", "pos")),
    )
    assert FineTuned(theirs(), spelled).own_classifier.order == (1, 0)


def test_what_the_user_says_comes_before_what_the_model_says() -> None:
    """A configuration may have its names the wrong way round."""
    swapped = renamed("m", ("no", "yes"), {"no": "yes", "yes": "no"})
    assert match_names(swapped, ("no", "yes")) == (1, 0)


# --- what cannot start -----------------------------------------------------------------------------------------------


def test_folders_that_are_no_fine_tuned_model_say_what_to_do(
    theirs: Make, tiny_backbone: str, task: FilesTask, engine: Engine, tmp_path: Path
) -> None:
    adapter = Path(shutil.copytree(theirs(), tmp_path / "adapter"))
    (adapter / "adapter_config.json").write_text("{}")
    start = FineTuned(theirs(), task)
    engine.execute([start])
    exported = {
        format: srnet.export_model(start.key, tmp_path / format, format=format, engine=engine)
        for format in ("subnetwork", "onnx")
    }
    cases = {
        str(adapter): "merge_and_unload",
        tiny_backbone: f"--backbone {tiny_backbone}",
        "srnet-tiny": "--backbone srnet-tiny",
        str(exported["subnetwork"]): "--format merged",
        str(exported["onnx"]): "checkpoint",
        str(tmp_path / "nothing"): "no such folder",
    }
    for folder, fix in cases.items():
        with refused(folder, fix):
            srnet.prune(folder, OneShot(), task=task, engine=engine)


def test_a_folder_needs_a_task_and_a_key_has_one(theirs: Make, task: FilesTask, engine: Engine) -> None:
    with refused("--task"):
        srnet.prune(theirs(), OneShot(), engine=engine)
    start = FineTuned(theirs(), task)
    engine.execute([start])
    with refused("own task"):
        srnet.prune(start.key, OneShot(), task=task, engine=engine)
    with refused("backbone"):
        srnet.prune(theirs(), OneShot(), task=task, backbone="srnet-small", engine=engine)
    with refused("does not train"):
        srnet.prune(theirs(), OneShot(), task=task, training={"steps": 3}, engine=engine)


# --- identity --------------------------------------------------------------------------------------------------------


def test_the_key_is_that_of_the_content(theirs: Make, task: FilesTask, tmp_path: Path) -> None:
    start = FineTuned(theirs(), task)
    moved = FineTuned(shutil.copytree(theirs(), tmp_path / "moved"), task)
    assert moved.key == start.key
    assert FineTuned(theirs(), task, length=READS).key == start.key
    config = json.loads((tmp_path / "moved" / "config.json").read_text())
    unnamed = {"id2label": dict(enumerate(UNNAMED)), "label2id": {name: n for n, name in enumerate(UNNAMED)}}
    (tmp_path / "moved" / "config.json").write_text(json.dumps({**config, **unnamed}))
    assert FineTuned(moved.backbone, task, labels_are=NAMED).key == start.key, "the same weights under other names"
    others = {
        FineTuned(theirs(), task, 1).key,
        FineTuned(theirs(), task, length=20).key,
        FineTuned(theirs(seed=1), task).key,
        FineTuned(moved.backbone, task, labels_are=tuple(zip(UNNAMED, LABELS, strict=True))).key,
        Pretrained(theirs(), task).key,
    }
    assert len({start.key, *others}) == 6


def test_it_is_found_again_from_another_folder(
    theirs: Make, task: FilesTask, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(theirs()).parent)
    start = FineTuned("bert", task, labels_are={"Positive": "positive"})  # type: ignore[arg-type]
    engine.execute([start])
    monkeypatch.chdir(tmp_path)
    assert stored_model(engine.store, start.key) == start
    assert Subnetwork.load(engine.store.path(start.key)).backbone == theirs()


def test_its_size_is_that_of_the_folder(theirs: Make, task: FilesTask, engine: Engine) -> None:
    """The store has little more than its classifier."""
    start = FineTuned(theirs(), task)
    engine.execute([start])
    weights = Path(theirs(), "model.safetensors").stat().st_size
    assert open_model(start.key, engine.models).bytes > weights
    assert sum(path.stat().st_size for path in engine.store.path(start.key).rglob("*")) < weights / 2


def test_a_folder_may_be_moved(theirs: Make, task: FilesTask, engine: Engine, tmp_path: Path) -> None:
    before = FineTuned(shutil.copytree(theirs(), tmp_path / "before"), task)
    expected = logits_of(before, engine)
    after = FineTuned(shutil.move(before.backbone, tmp_path / "after"), task)
    pruned = Prune(after, OneShot(sparsity=0.0))
    assert np.array_equal(logits_of(pruned, engine), expected)
    assert Subnetwork.load(engine.store.path(pruned.key)).backbone == after.backbone


# --- where texts are cut ---------------------------------------------------------------------------------------------


def test_texts_are_cut_where_the_model_cuts_them_or_the_user_says(
    theirs: Make, task: FilesTask, engine: Engine
) -> None:
    assert FineTuned(theirs(), task).max_length == READS
    for pruner, training in ((OneShot(), {}), (MaskTraining(), {"steps": 1, "batch_size": 2})):
        for given, expected in ({}, READS), ({"max_length": 20}, 20):
            trained = srnet.prune(theirs(), pruner, task=task, training={**training, **given}, engine=engine)
            node = stored_model(engine.store, trained.key)
            assert node.max_length == node.pretrained.max_length == expected


def test_without_a_limit_there_is_one(theirs: Make, task: FilesTask, tmp_path: Path) -> None:
    """As decoders have it, whose positions are computed and whose tokenizers have no limit."""
    folder = Path(shutil.copytree(theirs("llama"), tmp_path / "unlimited"))
    changes = {
        "tokenizer_config.json": {"model_max_length": 10**30},
        "config.json": {"max_position_embeddings": 131072},
    }
    for name, change in changes.items():
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**settings, **change}))
    assert FineTuned(str(folder), task).max_length == LONGEST_READ
    assert FineTuned(str(folder), task, length=10_000).max_length == 10_000


# --- what is trained -------------------------------------------------------------------------------------------------


def test_it_trains_on_as_a_fine_tuned_model(theirs: Make, task: FilesTask, engine: Engine) -> None:
    trained = srnet.finetune(theirs(), task=task, training={"steps": 2, "seed": 3, "batch_size": 4}, engine=engine)
    node: Any = stored_model(engine.store, trained.key)
    assert (node.formula, node.training.seed, node.pretrained.seed) == ("A_ce(ft)", 3, 3)
    assert Prune(node.parent, MaskTraining()).parent.fine_tuned
    assert "bert, fine-tuned" in node.label


def test_objectives_that_need_a_full_model_learn_from_it(theirs: Make, task: FilesTask, engine: Engine) -> None:
    start = FineTuned(theirs(), task)
    for objective, given in (("jtt", {}), ("ce", {"distil": 0.5})):
        trained = srnet.prune(
            theirs(),
            MaskTraining(),
            objective,
            task=task,
            training={"steps": 1, "batch_size": 2},
            engine=engine,
            **given,
        )
        node: Any = stored_model(engine.store, trained.key)
        (source,) = node.objective.nodes.values()
        assert source == Evaluate(start, ("train",))


def test_weak_models_start_from_a_random_head_and_not_from_the_model(
    theirs: Make, task: FilesTask, engine: Engine
) -> None:
    spec = BiasSpec(shortcut="unknown", examples=5, epochs=1)
    first = spec.node(task, theirs()).parents[0].pretrained  # type: ignore[attr-defined]
    engine.execute([first])
    assert not first.fine_tuned
    own = AutoModelForSequenceClassification.from_pretrained(theirs()).classifier.weight[[1, 0]]
    assert np.abs(Subnetwork.load(engine.store.path(first.key)).weights["classifier.weight"] - own.detach()).max() > 0.1
    with refused("--weak-backbone"):
        srnet.prune(theirs(), MaskTraining(), "poe", task=task, bias=spec, engine=engine)


def test_a_raw_backbone_has_the_same_weak_models_as_before(tiny_backbone: str, tiny_task: SyntheticTask) -> None:
    assert Pretrained(tiny_backbone, tiny_task, fresh=True).key == Pretrained(tiny_backbone, tiny_task).key


# --- what is known about it ------------------------------------------------------------------------------------------


def test_a_card_compares_with_the_model_itself(theirs: Make, engine: Engine, tiny_task: SyntheticTask) -> None:
    """Its scores are the same for every seed."""
    folder = theirs(names=("entailment", "not_entailment"))
    nodes = []
    for seed in range(3):
        start = FineTuned(folder, tiny_task, seed)
        bias = BiasSpec().node(tiny_task, start.weak_backbone)
        pruned = Prune(start, MaskTraining(0.5), PoE(bias), TrainingSettings(steps=2, batch_size=4, seed=seed))
        nodes += [start, pruned]
    engine.execute([Evaluate(node) for node in nodes])
    about = known_about(engine.store, nodes[1])
    assert about.verdict is not None
    assert about.verdict.seeds == 3
    assert all(score.gain is not None for score in about.scores)
    assert {score.score.sd for score in known_about(engine.store, nodes[0]).scores} == {0.0}


def test_a_tokenizer_of_the_folder_is_left_as_it_is(theirs: Make, task: FilesTask) -> None:
    """ALBERT has segments, but its tokenizer returns none, so that it was fine-tuned without them."""
    names = AutoTokenizer.from_pretrained(theirs("albert")).model_input_names
    assert open_model(theirs("albert")).tokenizer.model_input_names == names
