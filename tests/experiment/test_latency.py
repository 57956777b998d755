"""The latency table of a backbone: measured once, kept in the store, part of the key; damaged ones are not used."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from devices import second_device
from gpus import NAME, Simulated
from refusals import refused
from small_models import VARIANTS, tiny

import srnet
from srnet.core.files import read_json
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.nodes.training import Prune
from srnet.experiment.rebuild import stored_model
from srnet.experiment.store import Store
from srnet.masks.timed import Latency
from srnet.masks.units import blocks_of
from srnet.pruners.magnitude import OneShot
from srnet.recipes.files import load_recipe
from srnet.recipes.recipe import with_latencies
from srnet.tasks.synthetic import SyntheticTask
from srnet.timing import latency, measuring
from srnet.timing.latency import _measure_latency, latency_of, with_latency

TABLE = Latency(head=1.0, neuron=0.05, attention=5.0, feed_forward=4.0, rest=2.0)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Store(tmp_path / "store"), Reporter(quiet=True))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were measured. Each gets another table, as on a real machine."""
    found: list[str] = []

    def measure(model: Any) -> Latency:
        found.append(type(model).__name__)
        return Latency(TABLE.head, TABLE.neuron, TABLE.attention, TABLE.feed_forward, TABLE.rest + len(found) - 1)

    monkeypatch.setattr(latency, "_measure_latency", measure)
    return found


def table_file(engine: Engine) -> Path:
    (path,) = (engine.store.root / "latency").glob("*.json")
    return path


# --- measuring -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_architecture_runs_with_fewer_units(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stub timings: 10 ms without a change, 6 ms with fewer of any kind, so 2 ms a part and 2 ms of rest."""
    monkeypatch.setattr(measuring, "interleaved", stubbed([10.0] + 99 * [6.0]))
    model = hf.AutoModel.from_config(tiny(variant).config).eval()
    before = {name: tuple(p.shape) for name, p in model.named_parameters()}
    found = _measure_latency(model)
    assert (found.attention, found.feed_forward, found.rest) == (2.0, 2.0, 2.0)
    assert before == {name: tuple(p.shape) for name, p in model.named_parameters()}, "copies were cut, not the model"


def test_a_model_on_a_gpu_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch goes to the model, and a call ends when its result is on the host."""
    places: list[torch.device] = []
    hosted: list[object] = []

    def forward(model: Any, **batch: torch.Tensor) -> Any:
        places.extend(tensor.device for tensor in batch.values())
        return (SimpleNamespace(cpu=lambda: hosted.append(model)),)

    monkeypatch.setattr(hf.BertModel, "forward", forward)
    monkeypatch.setattr(measuring, "interleaved", stubbed([10.0] + 99 * [6.0]))
    _measure_latency(hf.AutoModel.from_config(tiny("bert").config).to("meta"))
    assert set(places) == {torch.device("meta")}
    assert len(places) == 2 * len(hosted) > 2, "of every copy"


def test_the_table_of_each_device(
    engine: Engine, tiny_backbone: str, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU of another name has a table of its own; on the CPU nothing is part of the key that was not before."""
    moved: list[Any] = []
    monkeypatch.setattr(torch.nn.Module, "to", lambda model, device: moved.append(device) or model)
    on_cpu = latency_of(tiny_backbone, engine)
    assert "gpu" not in read_json(table_file(engine))
    Simulated(monkeypatch, 1)
    on_gpu = latency_of(tiny_backbone, engine)
    assert latency_of(tiny_backbone, engine, "cpu") == on_cpu, "for a model that is used on the CPU"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Another GPU")
    other = latency_of(tiny_backbone, engine)
    assert len({on_cpu, on_gpu, other}) == len(measured) == 3
    assert moved == [torch.device("cpu"), torch.device("cuda"), torch.device("cuda")]
    assert with_latency(OneShot(granularity=("head",), speedup=2.0), tiny_backbone, engine).latency == other
    on_its_cpu = OneShot(granularity=("head",), speedup=2.0, timed_on="cpu")
    assert with_latency(on_its_cpu, tiny_backbone, engine).latency == on_cpu
    assert [read_json(path).get("gpu") for path in (engine.store.root / "latency").glob("*.json")].count(NAME) == 1


def test_a_table_is_measured_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies with fewer units are made there, and share its tensors; nothing is mixed with the CPU."""
    monkeypatch.setattr(measuring, "interleaved", stubbed([10.0] + 99 * [6.0]))
    monkeypatch.setattr(latency, "torch", torch)
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # which the device cannot do
    with second_device() as device:
        found = _measure_latency(hf.AutoModel.from_config(tiny("bert").config).eval().to(device))
    assert (found.attention, found.feed_forward, found.rest) == (2.0, 2.0, 2.0)


def stubbed(milliseconds: Sequence[float]) -> Callable[..., list[np.ndarray]]:
    """Calls each once and says that it took so long; the other rounds took longer."""

    def interleaved(calls: Sequence[Callable[[], Any]], rounds: int) -> list[np.ndarray]:
        for call in calls:
            call()
        return [np.array([9.0, each / 1000.0, 9.0]) for each in milliseconds[: len(calls)]]

    return interleaved


def test_the_widths_that_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: 4 heads at 0, 1, 2, 3 and 12 neurons at 0, 3, 6, 9 of each of two layers."""
    sizes: list[dict[str, list[int]]] = []
    original = latency._call

    def call(model: Any, batch: Any) -> Any:
        blocks = blocks_of(model)
        kinds = ("attention", "feed-forward")
        sizes.append({kind: [block.size for block in blocks if block.kind == kind] for kind in kinds})
        return original(model, batch)

    monkeypatch.setattr(latency, "_call", call)
    monkeypatch.setattr(measuring, "interleaved", stubbed([20.0, 12.0, 14.0, 16.0, 18.0, 12.0, 14.0, 16.0, 18.0]))
    found = _measure_latency(hf.AutoModel.from_config(tiny("bert").config).eval())
    heads = [each["attention"] for each in sizes]
    neurons = [each["feed-forward"] for each in sizes]
    assert heads == [[4, 4], [], [1, 1], [2, 2], [3, 3], *4 * [[4, 4]]]
    assert neurons == [*5 * [[12, 12]], [], [3, 3], [6, 6], [9, 9]]
    assert found == Latency(1.0, 0.333, 4.0, 4.0, 4.0)


# --- the store -----------------------------------------------------------------------------------------------------


def test_a_table_is_measured_once(engine: Engine, measured: list[str], tiny_backbone: str) -> None:
    assert latency_of(tiny_backbone, engine) == latency_of(tiny_backbone, engine) == TABLE
    assert measured == ["BertModel"]
    stored = json.loads(table_file(engine).read_text())
    assert stored["milliseconds"] == {"head": 1.0, "neuron": 0.05, "attention": 5.0, "feed_forward": 4.0, "rest": 2.0}
    assert {"shapes", "threads", "tokens", "cpu", "cores", "architecture"} <= stored.keys()


def test_other_shapes_and_other_threads_have_other_tables(
    engine: Engine, measured: list[str], tiny_backbone: str
) -> None:
    latency_of(tiny_backbone, engine)
    latency_of("srnet-tiny", engine)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        latency_of(tiny_backbone, engine)
    finally:
        torch.set_num_threads(before)
    assert len(measured) == 3


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"milliseconds": 3}', '{"milliseconds": {"head": 1}}', "NEGATIVE", "TEXT", "NAN", "[" * 100_000],
)
def test_a_damaged_table_is_measured_again(
    content: str, engine: Engine, measured: list[str], tiny_backbone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    latency_of(tiny_backbone, engine)
    path = table_file(engine)
    forged = {"NEGATIVE": "-1.0", "TEXT": '"1.0"', "NAN": "NaN"}
    path.write_text(path.read_text().replace("0.05", forged[content]) if content in forged else content)
    assert latency_of(tiny_backbone, engine).rest == 3.0
    assert len(measured) == 2
    said = capsys.readouterr().err
    assert said.count("the latency table is measured again") == 2, "before the lock is taken, and under it"
    assert latency_of(tiny_backbone, engine).rest == 3.0
    assert len(measured) == 2


def test_a_backbone_without_known_units_or_that_is_none_is_refused(engine: Engine, tmp_path: Path) -> None:
    with refused(tmp_path):
        latency_of(str(tmp_path), engine)
    config = hf.AlbertConfig(vocab_size=20, hidden_size=8, num_attention_heads=2, intermediate_size=8, embedding_size=8)
    config.save_pretrained(tmp_path / "albert")
    with refused("AlbertModel"):
        latency_of(str(tmp_path / "albert"), engine)
    assert not (engine.store.root / "latency").exists()


# --- keys and recipes ----------------------------------------------------------------------------------------------

TASK = SyntheticTask("inference", train_size=40, dev_size=8, ood_size=8)


def test_the_same_command_gives_the_same_key(engine: Engine, measured: list[str], tiny_backbone: str) -> None:
    pruner = OneShot(granularity=("head", "neuron"), speedup=1.3)
    raw = Pretrained(tiny_backbone, TASK, 0)
    first, again = (srnet.prune(raw, pruner, engine=engine) for _ in range(2))
    assert first.key == again.key == Prune(raw, OneShot(granularity=("head", "neuron"), speedup=1.3, latency=TABLE)).key
    assert len(measured) == 1
    assert first.sparsity > 0.0
    assert any("1.3 times as fast by estimate" in remark for remark in first.remarks)
    node = stored_model(engine.store, first.key)
    assert isinstance(node, Prune)
    assert node.pruner == OneShot(granularity=("head", "neuron"), speedup=1.3, latency=TABLE)


def recipe_file(tmp_path: Path, backbone: str, **line: Any) -> Path:
    path = tmp_path / "mine.yaml"
    own = {"label": "fast", "paradigm": "c", "pruner": "one-shot", **line}
    task = {"name": "inference", "train_size": 40, "dev_size": 8, "ood_size": 8}
    path.write_text(json.dumps({"task": task, "backbone": backbone, "lines": [own]}))  # JSON is YAML too
    return path


def test_a_recipe_with_speedups(
    engine: Engine, measured: list[str], tiny_backbone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.reporter.quiet = False
    path = recipe_file(tmp_path, tiny_backbone, speedups=[1.2, 1.3], options={"granularity": ["head", "neuron"]})
    recipe = load_recipe(path)
    assert [(point.place.aim, point.place.target) for point in recipe.shown] == [
        ("1.2 times as fast", 1.2),
        ("1.3 times as fast", 1.3),
    ]
    assert not measured, "reading a recipe measures nothing"
    raw = Pretrained(tiny_backbone, TASK, 0)
    nodes = [Prune(raw, OneShot(granularity=("head", "neuron"), speedup=s, latency=TABLE)) for s in (1.2, 1.3)]
    assert [point.node for point in with_latencies(recipe, engine).shown] == nodes
    assert {node.key for node in nodes} <= {node.key for node, _ in srnet.plan([recipe], engine).steps}
    assert f"of {tiny_backbone}, once" in capsys.readouterr().err, "a plan measures, and shows that it does"
    results = srnet.run(path, tmp_path / "out", engine=engine)
    assert [s.name for s in results.summaries if s.point.is_pruned] == [
        "fast, 1.2 times as fast",
        "fast, 1.3 times as fast",
    ]
    assert len(measured) == 1
    lines = (tmp_path / "out" / "results.csv").read_text().splitlines()
    place = lines[0].split(",").index("speedup_target")
    assert {line.split(",")[place] for line in lines[1:] if ",fast," in line} == {"1.2", "1.3"}


def test_a_recipe_may_bring_its_table(engine: Engine, measured: list[str], tiny_backbone: str, tmp_path: Path) -> None:
    options = {"granularity": ["head"], "latency": vars(TABLE)}
    recipe = load_recipe(recipe_file(tmp_path, tiny_backbone, speedups=[1.2], options=options))
    assert with_latencies(recipe, engine) is recipe
    assert recipe.shown[0].search is not None
    assert recipe.shown[0].search.pruner == OneShot(granularity=("head",), speedup=1.2, latency=TABLE)
    assert not measured


HEAD = {"granularity": ["head"]}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ({"speedups": [2], "sparsities": [0.5]}, "speedups"),
        ({}, "speedups"),
        ({"speedups": [2]}, "speed-up"),
        ({"speedups": [0], "options": HEAD}, "speedups"),
        ({"speedups": [2], "pruner": "l0", "prune": "ce"}, "'l0'"),
        ({"sparsities": [0.5], "options": {"speedup": 2}}, "'speedup'"),
        ({"speedups": [2], "options": {**HEAD, "latency": {"head": 1}}}, "'neuron'"),
        ({"speedups": "fast"}, "speedups"),
    ],
)
def test_bad_recipes_are_refused(line: dict[str, Any], named: str, tiny_backbone: str, tmp_path: Path) -> None:
    with refused(named):
        load_recipe(recipe_file(tmp_path, tiny_backbone, **line))


def test_what_cannot_be_reached_is_refused_before_anything_is_computed(
    engine: Engine, measured: list[str], tiny_backbone: str
) -> None:
    with refused("speed-up of 50", "at most"):
        srnet.prune(TASK, OneShot(granularity=("head", "neuron"), speedup=50.0), backbone=tiny_backbone, engine=engine)
    assert not list(engine.store.root.glob("artifacts/*"))
