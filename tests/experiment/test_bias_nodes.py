"""How a shortcut is measured: a linear model where it has a name, a weak model where it has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from srnet import api
from srnet.core.errors import UserError
from srnet.experiment.compute import bias_predictions, logits_on
from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.bias import BiasModel, BiasSpec, WeakModel
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.objectives import CE, PoE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.rebuild import rebuild
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

WEAK = BiasSpec(shortcut="unknown", examples=40, epochs=1.0, learning_rate=1e-3)


@pytest.fixture
def weak(tiny_task: SyntheticTask, tiny_backbone: str) -> WeakModel:
    made = WEAK.node(tiny_task, tiny_backbone)
    assert isinstance(made, WeakModel)
    return made


def test_the_spec_follows_the_tasks_own_suspicion(tiny_task: SyntheticTask, tiny_backbone: str) -> None:
    assert BiasSpec().node(tiny_task, tiny_backbone) == BiasModel(tiny_task)
    assert BiasSpec("claim").node(tiny_task, tiny_backbone) == BiasModel(tiny_task, "claim")


@pytest.mark.parametrize(
    ("shortcut", "options", "said"),
    [
        ("overlap", {}, "word overlap (3 features, no word vectors), cross-fitted in 5 folds"),
        (
            "overlap",
            {"extended": True, "folds": 3},
            "word overlap (4 features, no word vectors), cross-fitted in 3 folds",
        ),
        (
            "overlap",
            {"vectors": "a/w.vec"},
            "word overlap (5 features, word vectors of w.vec), cross-fitted in 5 folds",
        ),
        (
            "overlap",
            {"vectors": "v.npy,w.txt", "extended": True},
            "word overlap (7 features, word vectors of v.npy), cross-fitted in 5 folds",
        ),
        ("claim", {}, "the second text alone (a bag of words, no word vectors), cross-fitted in 5 folds"),
        (
            "claim",
            {"vectors": "org/bert"},
            "the second text alone (the maximum in each dimension, word vectors of the backbone org/bert), "
            "cross-fitted in 5 folds",
        ),
    ],
)
def test_a_bias_model_says_what_it_reads(
    shortcut: Any, options: dict[str, Any], said: str, tiny_task: SyntheticTask
) -> None:
    assert BiasModel(tiny_task, shortcut, **options).features == said


def test_a_weak_model_says_what_it_is(weak: WeakModel, tiny_backbone: str) -> None:
    assert f"two models of {tiny_backbone} fine-tuned on 40 examples each" in weak.features


def test_a_smaller_backbone_can_be_the_weak_one(tiny_task: SyntheticTask) -> None:
    node = BiasSpec("unknown", examples=40, backbone="small").node(tiny_task, "large")
    assert isinstance(node, WeakModel)
    assert node.first.pretrained.backbone == "small"


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (BiasSpec("overlap", examples=10), "does not use 'examples'"),
        (BiasSpec("unknown", vectors="x.vec"), "does not use 'vectors'"),
        (BiasSpec("claim", extended=True), "does not use 'extended'"),
        (BiasSpec("unknown", examples=101), "need 202; 'inference' has 200"),
    ],
)
def test_options_that_mean_nothing_are_errors(spec: BiasSpec, complaint: str, tiny_task: SyntheticTask) -> None:
    with pytest.raises(UserError, match=complaint):
        spec.node(tiny_task, "any").check()


def test_a_shortcut_without_a_name_has_no_linear_model(tiny_task: SyntheticTask) -> None:
    with pytest.raises(UserError, match="weak model"):
        BiasModel(tiny_task, "unknown")


def test_the_two_weak_models_never_see_the_same_example(weak: WeakModel, tiny_task: SyntheticTask) -> None:
    train = load_task(tiny_task).train
    rows = [train.shuffled_rows(*(model.part or (0, 0))) for model in (weak.first, weak.second)]
    assert [len(each) for each in rows] == [40, 40]
    assert not set(rows[0]) & set(rows[1])


def test_every_training_example_is_judged_by_a_model_to_which_it_is_new(
    weak: WeakModel, tiny_task: SyntheticTask, engine: Engine
) -> None:
    engine.execute([weak])
    task = load_task(tiny_task)
    first, second = (
        logits_on(Subnetwork.load(engine.store.path(model.key)), {"train": task.train}, model.max_length)["train"]
        for model in (weak.first, weak.second)
    )
    found = bias_predictions(engine.store, weak, "train")
    assert found.ids == task.train.ids
    seen = task.train.shuffled_rows(0, 40)
    expected = log_softmax(first, axis=1)
    expected[seen] = log_softmax(second, axis=1)[seen]
    assert not np.allclose(first[seen], second[seen], atol=1e-3)
    np.testing.assert_allclose(found.log_probs, expected, atol=1e-5)
    for split in ("dev", "challenge"):
        assert len(bias_predictions(engine.store, weak, split).ids) == len(task.splits[split])


def test_objectives_learn_from_it_like_from_any_other(
    weak: WeakModel, raw: Pretrained, tiny_training: TrainingSettings, engine: Engine
) -> None:
    node = Prune(raw, MaskTraining(0.5), PoE(weak), tiny_training)
    engine.execute([node])
    assert Subnetwork.load(engine.store.path(node.key)).sparsity == pytest.approx(0.5, abs=1e-3)
    again = rebuild(json.loads(json.dumps(describe(node))))
    assert again == node
    assert again.key == node.key


def test_weak_models_that_share_examples_are_refused(raw: Pretrained) -> None:
    first, overlapping = FineTune(raw, part=(0, 10)), FineTune(raw, part=(9, 20))
    for second in (overlapping, FineTune(raw), first):
        with pytest.raises(UserError, match="different parts"):
            WeakModel(first, second)
    WeakModel(first, FineTune(raw, part=(10, 20)))


def test_the_weak_models_of_real_data_need_a_backbone(tmp_path: Path, engine: Engine) -> None:
    path = tmp_path / "d.csv"
    path.write_text("text_a,text_b,label\n" + "a,b,yes\nc,d,no\n" * 5)
    own = FilesTask("own", ("no", "yes"), str(path), str(path), leaks="keep", shortcut="unknown")
    with pytest.raises(UserError, match="--weak-backbone"):
        api.bias_model(own, engine=engine)


def test_a_part_of_the_data_is_for_plain_models(raw: Pretrained, tiny_task: SyntheticTask) -> None:
    assert FineTune(raw, part=(0, 10)).key != FineTune(raw).key
    with pytest.raises(UserError, match="plain CE"):
        FineTune(raw, PoE(BiasModel(tiny_task)), part=(0, 10))


def test_word_vectors_of_a_file_count_by_their_content(tiny_task: SyntheticTask, tmp_path: Path) -> None:
    one, other, moved = (tmp_path / name for name in ("one.vec", "other.vec", "moved.vec"))
    one.write_text("the 1 0\ncat 0 1\n")
    moved.write_text("the 1 0\ncat 0 1\n")
    other.write_text("the 1 0\ncat 0 2\n")
    keys = [BiasModel(tiny_task, vectors=str(path)).key for path in (one, moved, other)]
    assert keys[0] == keys[1] != keys[2]
    assert keys[0] != BiasModel(tiny_task).key
    with pytest.raises(UserError, match="do not exist"):
        _ = BiasModel(tiny_task, vectors=str(tmp_path / "missing.vec")).key


def test_a_bias_model_can_read_word_vectors_from_a_file(
    tiny_task: SyntheticTask, tmp_path: Path, engine: Engine
) -> None:
    words = sorted({word for text in load_task(tiny_task).train.text_a for word in text.split()})
    path = tmp_path / "words.vec"
    rng = np.random.default_rng(0)
    path.write_text("".join(f"{w} {' '.join(f'{x:.3f}' for x in rng.normal(size=4))}\n" for w in words))
    plain, similar = BiasModel(tiny_task), BiasModel(tiny_task, vectors=str(path))
    engine.execute([plain, similar])
    one, other = (bias_predictions(engine.store, node, "train").log_probs for node in (plain, similar))
    assert not np.allclose(one, other)
    assert CE().bias is None


@pytest.mark.parametrize("examples", [0, -1, 10**30])
def test_weak_models_need_examples(examples: int) -> None:
    with pytest.raises(UserError, match="is out of range"):
        BiasSpec(examples=examples)
