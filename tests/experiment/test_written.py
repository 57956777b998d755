"""The bytes that a plan counts are those that are written: of every kind of node, and of checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn

from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, Pretrained, Quantised, Rewind
from srnet.experiment.nodes.objectives import CE
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Trajectory
from srnet.experiment.written import PUBLISHED_WEIGHTS, Weights, Written, count_written, size_text, weights_of
from srnet.masks.targets import STACK_ONLY, Targets
from srnet.models.checkpoints import SHIPPED
from srnet.pruners.imp import IMP
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.checkpoint import Checkpoint

SMALL = 10_000
"""Bytes of a tiny model's names, head and random state, which are not counted."""


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of the tensors of each checkpoint, without its random state."""
    sizes: list[int] = []
    write = Checkpoint.write

    def spy(folder: Path, *args: Any) -> None:
        write(folder, *args)
        sizes.append((folder / "tensors.safetensors").stat().st_size)
        kept = {each.name for each in folder.parent.iterdir()} - {"kept"}  # results of a run that yields several
        assert kept == {"checkpoint"}, "the last one alone"

    monkeypatch.setattr(Checkpoint, "write", staticmethod(spy))
    return sizes


def test_every_kind_of_node(raw: Pretrained, engine: Engine, tiny_training: Any, saved: list[int]) -> None:
    full = FineTune(raw, training=tiny_training)
    masked, of_raw = (Prune(each, MaskTraining(0.5), training=tiny_training) for each in (full, raw))
    rewound = Rewind(masked, raw)
    trajectory = Trajectory(raw, CE(), tiny_training, (5, 10))
    imp = Prune(full, IMP(0.5), training=tiny_training)
    assert imp.levels is not None
    every: list[Node] = [raw, full, masked, of_raw, rewound, FineTune(rewound, training=tiny_training), trajectory]
    every += [Moment(trajectory, 5), imp.levels, imp, Prune(full, OneShot(0.7)), Prune(raw, OneShot(0.7))]
    every += [Quantised(full), Evaluate(full), BiasModel(raw.task)]
    for node in every:
        saved.clear()
        engine.execute(node)
        files = [path for path in engine.store.path(node.key).rglob("*") if path.suffix in (".safetensors", ".bits")]
        files += list(engine.store.path(node.key).rglob("*.npz"))
        counted = count_written([node])
        assert counted is not None
        models = len({path.parent for path in files}) or 1
        assert counted.results == pytest.approx(
            sum(path.stat().st_size for path in files), rel=0.02, abs=SMALL * models
        )
        assert counted.count == len(saved), node.label
        assert counted.checkpoint == pytest.approx(max(saved, default=0), rel=0.02, abs=2 * SMALL), node.label
        assert counted.checkpoints == counted.count * counted.checkpoint


def test_by_hand() -> None:
    """100 parameters, 80 in matrices: at 75 %, 20 + 20 numbers of 4 bytes, and 80 bits."""
    weights = Weights(100, 80)
    assert (weights.model, weights.bits, weights.kept(0.75)) == (400, 10, 4 * 40 + 10)
    assert [size_text(size) for size in (0, 999, 1_000, 5_362_000_000, 126e12)] == [
        "0 bytes", "999 bytes", "1 kB", "5.36 GB", "126 TB",
    ]  # fmt: skip
    assert str(Written(1_000, 2_000, 3_000_000, 1_500)) == (
        "results 1 kB, and for each worker at most two checkpoints of 2 kB; 1,500 checkpoints of 3 MB in all are "
        "written, of which a training keeps the last, with the best model"
    )


def test_an_unknown_backbone_is_not_guessed(raw: Pretrained) -> None:
    assert count_written([replace(raw, backbone="nobody/knows")]) is None


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("bert-base-uncased", hf.BertConfig()),
        ("roberta-base", hf.RobertaConfig(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1)),
        (
            "bert-large-uncased",
            hf.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
        ),
    ],
)
def test_the_papers_backbones_by_their_architecture(name: str, config: Any) -> None:
    with torch.device("meta"):
        model, classifier = hf.AutoModel.from_config(config), hf.AutoModelForSequenceClassification.from_config(config)
    assert PUBLISHED_WEIGHTS[name] == Weights(model.num_parameters(), masked_in(classifier))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_backbone_in_a_folder_is_counted_without_loading_it(name: str) -> None:
    found = weights_of(name)
    assert found is not None
    model = hf.AutoModelForSequenceClassification.from_pretrained(SHIPPED[name])
    assert found.masked == masked_in(model)
    assert found.every == pytest.approx(model.num_parameters(), rel=0.05)  # the checkpoint has another head


def masked_in(model: nn.Module) -> int:
    """The weights under the default masks, but for the classifier's, which are few."""
    return sum(each.weight.numel() for each in Targets(exclude=STACK_ONLY).find(model).values())


def test_several_nodes_add_up(raw: Pretrained, tiny_training: Any, tiny_task: SyntheticTask) -> None:
    full = FineTune(raw, training=tiny_training)
    other = FineTune(raw, training=replace(tiny_training, seed=1))
    one, both = count_written([full]), count_written([full, other])
    assert one is not None
    assert both == Written(2 * one.results, one.checkpoint, 2 * one.checkpoints, 2 * one.count)
