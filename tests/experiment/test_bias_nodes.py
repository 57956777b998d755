"""How a shortcut is measured: a linear model where it has a name, a weak model where it has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.special import log_softmax

from srnet.api.models import bias_model
from srnet.experiment.compute import _logits
from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.bias import BiasModel, BiasSpec, WeakModel
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.objectives import CE, PoE
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.rebuild import rebuild
from srnet.experiment.store import bias_predictions
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
    ("shortcut", "options", "parts"),
    [
        ("overlap", {}, ("3 features", "no word vectors", "5 folds")),
        ("overlap", {"extended": True, "folds": 3}, ("4 features", "no word vectors", "3 folds")),
        ("overlap", {"vectors": "a/w.vec"}, ("5 features", "w.vec")),
        ("overlap", {"vectors": "v.npz", "extended": True}, ("7 features", "v.npz")),
        ("claim", {}, ("second text alone", "bag of words", "no word vectors")),
        ("claim", {"vectors": "org/bert"}, ("second text alone", "maximum in each dimension", "backbone org/bert")),
    ],
)
def test_the_features_of_a_bias_model_in_words(
    shortcut: Any, options: dict[str, Any], parts: tuple[str, ...], tiny_task: SyntheticTask
) -> None:
    features = BiasModel(tiny_task, shortcut, **options).features
    assert all(part in features for part in parts), features


def test_a_smaller_backbone_can_be_the_weak_one(tiny_task: SyntheticTask) -> None:
    node = BiasSpec("unknown", examples=40, backbone="small").node(tiny_task, "large")
    assert isinstance(node, WeakModel)
    assert node.first.pretrained.backbone == "small"


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (BiasSpec("overlap", examples=10), ("'examples'",)),
        (BiasSpec("unknown", vectors="x.vec"), ("'vectors'",)),
        (BiasSpec("claim", extended=True), ("'extended'",)),
        (BiasSpec("unknown", examples=101), ("202", "'inference'", "200")),
    ],
)
def test_options_that_mean_nothing_are_errors(spec: BiasSpec, named: tuple[str, ...], tiny_task: SyntheticTask) -> None:
    with refused(*named):
        spec.node(tiny_task, "any").check()


def test_a_shortcut_without_a_name_has_no_linear_model(tiny_task: SyntheticTask) -> None:
    with refused("weak model"):
        BiasModel(tiny_task, "unknown")


def test_every_training_example_is_judged_by_a_model_to_which_it_is_new(
    weak: WeakModel, tiny_task: SyntheticTask, engine: Engine
) -> None:
    engine.execute([weak])
    task = load_task(tiny_task)
    first, second = (
        _logits(Subnetwork.load(engine.store.path(model.key)), {"train": task.train}, model.max_length)["train"]
        for model in (weak.first, weak.second)
    )
    found = bias_predictions(engine.store, weak.key, "train")
    assert found.ids == task.train.ids
    assert f"two models of {weak.first.pretrained.backbone} fine-tuned on 40 examples each" in weak.features
    seen, other = (task.train.shuffled_rows(*(model.part or (0, 0))) for model in (weak.first, weak.second))
    assert (len(seen), len(other), len({*seen, *other})) == (40, 40, 80)
    expected = log_softmax(first, axis=1)
    expected[seen] = log_softmax(second, axis=1)[seen]
    assert not np.allclose(first[seen], second[seen], atol=1e-3)
    np.testing.assert_allclose(found.log_probs, expected, atol=1e-5)
    for split in ("dev", "challenge"):
        assert len(bias_predictions(engine.store, weak.key, split).ids) == len(task.splits[split])


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
        with refused(first.part, second.part):
            WeakModel(first, second)
    WeakModel(first, FineTune(raw, part=(10, 20)))


def test_the_weak_models_of_real_data_need_a_backbone(tmp_path: Path, engine: Engine) -> None:
    path = tmp_path / "d.csv"
    path.write_text("text_a,text_b,label\n" + "a,b,yes\nc,d,no\n" * 5)
    own = FilesTask("own", ("no", "yes"), str(path), str(path), leaks="keep", shortcut="unknown")
    with refused("--weak-backbone"):
        bias_model(own, engine=engine)


def test_a_part_of_the_data_is_for_plain_models(raw: Pretrained, tiny_task: SyntheticTask) -> None:
    assert FineTune(raw, part=(0, 10)).key != FineTune(raw).key
    with refused("plain CE"):
        FineTune(raw, PoE(BiasModel(tiny_task)), part=(0, 10))


def test_word_vectors_of_a_file_count_by_their_content(tiny_task: SyntheticTask, tmp_path: Path) -> None:
    one, other, moved = (tmp_path / name for name in ("one.vec", "other.vec", "moved.vec"))
    one.write_text("the 1 0\ncat 0 1\n")
    moved.write_text("the 1 0\ncat 0 1\n")
    other.write_text("the 1 0\ncat 0 2\n")
    keys = [BiasModel(tiny_task, vectors=str(path)).key for path in (one, moved, other)]
    assert keys[0] == keys[1] != keys[2]
    assert keys[0] != BiasModel(tiny_task).key
    with refused(tmp_path / "missing.vec"):
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
    one, other = (bias_predictions(engine.store, node.key, "train").log_probs for node in (plain, similar))
    assert not np.allclose(one, other)
    assert CE().bias is None
