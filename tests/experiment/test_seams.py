"""What others add: a pruner, an objective, a need and a node, each registered from this file alone."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from commands import run
from refusals import refused
from torch import nn
from torch.nn import functional as F

from srnet.bias.model import fit_bias_model
from srnet.bias.shortcuts.base import KINDS, PLAIN
from srnet.config.fields import DESCRIBED
from srnet.core.progress import Reporter
from srnet.experiment.compute import Context, compute
from srnet.experiment.engine import Engine
from srnet.experiment.estimate import estimate, planned_steps, training_steps
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import Node
from srnet.experiment.nodes.models import Evaluate, ModelNode, Pretrained
from srnet.experiment.nodes.objectives import NEEDS, Need, Objective
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.rebuild import rebuild, stored_model
from srnet.experiment.store import Store
from srnet.masks.budget import meet_budget
from srnet.masks.mask import Mask
from srnet.masks.parametrization import raw_weights
from srnet.masks.targets import Targets
from srnet.models.subnetwork import Subnetwork
from srnet.objectives.base import OBJECTIVES, StatefulLoss, objective
from srnet.pruners.base import PRUNERS, Batches, Pruner, register
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.base import TASK_FAMILIES
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result, Run, train

# --- a pruner ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snip(Pruner):
    """Lee et al. (2019): |W dL/dW| on a few labelled examples."""

    name: ClassVar[str] = "snip"
    trains: ClassVar[bool] = False
    targets: Targets = Targets()
    examples: int = 16

    @property
    def rows(self) -> int:
        return self.examples

    def mask(self, model: nn.Module, batches: Batches = ()) -> Mask:
        for batch in batches:
            inputs = dict(batch)
            labels = inputs.pop("labels")
            F.cross_entropy(model(**inputs).logits, labels).backward()  # type: ignore[no-untyped-call]
        weights = raw_weights(self.targets.find(model))
        scores = {name: (w.detach() * w.grad).abs() for name, w in weights.items() if w.grad is not None}
        return meet_budget(scores, self.sparsity)


# --- an objective with a group, a need of its own, an option and a state -------------------------------------------


@dataclass
class WorstGroup(StatefulLoss):
    """The loss of the group whose running mean is highest; longer texts count less."""

    decay: float = 0.9

    def prepare(self, labels: torch.Tensor, **needs: torch.Tensor) -> None:
        self.means = torch.zeros(int(needs["group"].max()) + 1)
        self.longest = needs["letters"].max()

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: torch.Tensor) -> torch.Tensor:
        losses = F.cross_entropy(logits, labels, reduction="none") * (2.0 - needs["letters"] / self.longest)
        for group in needs["group"].unique().tolist():
            mean = losses[needs["group"] == group].mean().item()
            self.means[group] = self.decay * self.means[group] + (1.0 - self.decay) * mean
        chosen = needs["group"] == self.means[needs["group"].unique()].argmax()
        return losses[chosen].mean() if chosen.any() else losses.mean()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"means": self.means}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self.means = state["means"].clone()


class Letters(Need):
    """How long the second text is."""

    def values(self, node: None, splits: Any, task: Any, store: Store) -> np.ndarray:
        return np.array([len(text) for split in splits for text in split.text_b], dtype=np.float64)


# --- a node --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Average(ModelNode):
    """The mean of two models' weights."""

    first: ModelNode
    second: ModelNode

    @property
    def formula(self) -> str:
        return f"({self.first.formula} + {self.second.formula}) / 2"


@compute.register
def average(node: Average, context: Context, folder: Path) -> None:
    one, other = context.subnetwork(node.first), context.subnetwork(node.second)
    states = [each.state(each.base()) for each in (one, other)]
    mean = {name: (t + states[1][name]) / 2 if t.is_floating_point() else t for name, t in states[0].items()}
    Subnetwork.of(one.base(), one.labels, mean, None).write_into(folder)


@pytest.fixture(autouse=True)
def foreigners() -> Iterator[None]:
    """Registered as their authors would, and gone for other tests."""
    register(Snip)
    objective("worst-group", needs=("group", "letters"), debiases=True)(WorstGroup)
    NEEDS["letters"] = Letters()
    yield
    del PRUNERS["snip"], OBJECTIVES["worst-group"], NEEDS["letters"]


def again(node: Node) -> Any:
    return rebuild(json.loads(json.dumps(describe(node))))


# --- in the engine -------------------------------------------------------------------------------------------------


def test_a_foreign_pruner_is_computed_stored_and_rebuilt(raw: Pretrained, engine: Engine) -> None:
    node = Prune(raw, Snip(0.7, examples=8))
    engine.execute([Evaluate(node)])
    mask = Subnetwork.load(engine.store.path(node.key)).mask
    assert mask is not None
    assert all(int((~keep).sum()) == round(0.7 * keep.numel()) for keep in mask.values())
    assert stored_model(engine.store, node.key) == node
    assert node.key != Prune(raw, Snip(0.7, examples=9)).key
    engine.execute([magnitude := Prune(raw, OneShot(0.7))])
    assert mask != Subnetwork.load(engine.store.path(magnitude.key)).mask


class Interrupted(Exception):
    pass


def test_a_foreign_objective_resumes_with_its_state(
    raw: Pretrained, tiny_training: TrainingSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Prune(raw, MaskTraining(0.5), Objective("worst-group", options=(("decay", 0.5),)), tiny_training)
    kept: list[Any] = []

    def stopping(run: Run) -> Result:
        def watch(step: int, total: int, figures: dict[str, float]) -> None:
            if step == 13:
                raise Interrupted

        kept.append(run.loss_state)
        return train(run if len(kept) == 2 else replace(run, watch=watch))

    whole, broken = (Engine(Store(tmp_path / name), Reporter(quiet=True)) for name in ("whole", "broken"))
    whole.execute([node])
    monkeypatch.setattr("srnet.experiment.compute.train", stopping)
    with pytest.raises(Interrupted):
        broken.execute([node])
    broken.execute([node])
    one, other = ((engine.store.path(node.key) / "mask.bits").read_bytes() for engine in (whole, broken))
    assert one == other
    assert kept[1].means.gt(0).sum() >= 2, "a state that never moved would be alike in any case"
    assert not torch.equal(kept[0].means, kept[1].means)
    assert stored_model(broken.store, node.key) == node
    assert node.label == "mask (worst-group:decay=0.5) at 50 %, seed 0"


def test_a_foreign_node_is_a_model_like_any_other(
    raw: Pretrained, tiny_training: TrainingSettings, engine: Engine
) -> None:
    models = [FineTune(raw, training=replace(tiny_training, steps=5, max_length=48, seed=s)) for s in (0, 1)]
    soup = Average(*models)
    pruned = Prune(soup, OneShot(0.5))
    assert planned_steps(pruned) == 10
    assert estimate(engine.plan([pruned]), engine.store).steps == 10
    engine.execute([Evaluate(pruned)])
    assert training_steps(pruned, engine.store) == 10
    assert (soup.pretrained, soup.max_length, soup.fine_tuned) == (raw, 48, True)
    assert stored_model(engine.store, pruned.key) == pruned
    first, second, mean = (
        s.state(s.base())["classifier.weight"]
        for s in (Subnetwork.load(engine.store.path(node.key)) for node in (*models, soup))
    )
    torch.testing.assert_close(mean, (first + second) / 2)


def test_a_name_is_taken_once() -> None:
    with pytest.raises(TypeError, match=r"srnet.* already has a FineTune"):
        type("FineTune", (ModelNode,), {"__module__": __name__})


@pytest.mark.parametrize("name", ["group-dro", "jtt"])
def test_our_own_are_rebuilt_with_their_options(name: str, raw: Pretrained) -> None:
    early = (("early", Evaluate(FineTune(raw), ("train",))),) if name == "jtt" else ()
    option = {"group-dro": ("eta", 0.5), "jtt": ("upweight", 3.0)}[name]
    plain, other = Objective(name, inputs=early), Objective(name, options=(option,), inputs=early)
    assert FineTune(raw, plain).key != FineTune(raw, other).key
    node = FineTune(raw, other)
    assert (again(node), again(node).key) == (node, node.key)
    default = {"group-dro": ("eta", 0.01), "jtt": ("upweight", 6)}[name]
    assert Objective(name, options=(default,), inputs=early) == plain, "what is the default says nothing"
    assert Objective(f"{name}:{option[0]}={option[1]}", inputs=early) == other


def test_a_need_that_nobody_gives_is_refused() -> None:
    objective("needy", needs=("luck",))(lambda logits, labels, luck: logits.sum())
    try:
        with refused("'luck'", *NEEDS):
            Objective("needy")
    finally:
        del OBJECTIVES["needy"]


# --- from the command line and YAML --------------------------------------------------------------------------------


@dataclass
class Shell:
    """`srnet ...` in a folder with a small task."""

    folder: Path
    backbone: str
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, *words: object) -> str:
        code = run(self.monkeypatch, *words)
        captured = self.capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    def node(self, command: str, *words: object) -> Any:
        """The model that a command stores."""
        common = ("--backbone", self.backbone, "--task", "task.yaml", "--quiet", "--json")
        return stored_model(Store(self.folder / "store"), json.loads(self.run(command, *common, *words))["key"])

    def page(self, *lines: str) -> str:
        """The report of a recipe with these lines."""
        (self.folder / "r.yaml").write_text(f"""
task: {TASK}
backbone: {self.backbone}
finetuning: {{steps: 4}}
pruning: {{steps: 4}}
control: false
lines: [{", ".join(lines)}]
""")
        self.run("run", "r.yaml", "--out", "out", "--quiet")
        return (self.folder / "out" / "report.html").read_text()


TASK = "{name: inference, train_size: 100, dev_size: 30, ood_size: 30}"


@pytest.fixture
def shell(
    tmp_path: Path, tiny_backbone: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    (tmp_path / "task.yaml").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))
    return Shell(tmp_path, tiny_backbone, monkeypatch, capsys)


@pytest.mark.parametrize(
    "options",
    [("worst-group", "--decay", 0.5), ("group-dro",), ("jtt", "--upweight", 3, "--early-share", 0.5)],
    ids=lambda options: options[0],
)
def test_objectives_from_the_command_line(options: tuple[Any, ...], shell: Shell) -> None:
    words = ("--objective", *options, "--steps", 4)
    tuned, pruned = shell.node("finetune", *words), shell.node("prune", "--pruner", "mask", "--sparsity", 0.5, *words)
    assert tuned.objective.name == options[0] == pruned.objective.name
    if "early" in tuned.objective.nodes:
        early = tuned.objective.nodes["early"]
        assert early.model == FineTune(tuned.pretrained, training=replace(tuned.training, steps=2))


def test_from_yaml(shell: Shell) -> None:
    page = shell.page(
        "{label: full}",
        "{label: groups, finetune: 'group-dro:eta=0.1'}",
        "{label: own, paradigm: c, pruner: mask, prune: worst-group, sparsities: [0.5]}",
        "{label: twice, paradigm: a, pruner: mask, prune: jtt, sparsities: [0.5]}",
        "{label: snip, paradigm: a, pruner: snip, sparsities: [0.5], options: {examples: 8}}",
        "{label: wanda, paradigm: a, pruner: wanda, sparsities: [0.5]}",
    )
    assert all(label in page for label in ("groups", "own", "twice", "snip", "wanda"))


# --- the examples of CONTRIBUTING.md -------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names of the Python files in CONTRIBUTING.md, which are registered for one test."""
    registries: tuple[tuple[str, dict[str, Any]], ...] = (("random", PRUNERS), ("focal", OBJECTIVES))
    for name, registry in (*registries, ("SumsTask", TASK_FAMILIES), ("final-sign", KINDS)):
        monkeypatch.setitem(registry, name, None)  # so that what is registered now is gone after the test
    for name in ("RandomPruning", "SumsTask"):
        monkeypatch.setitem(DESCRIBED, name, None)
        del DESCRIBED[name]
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    names: dict[str, Any] = {}
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)):
        path = tmp_path / f"written_example_{number}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        names |= vars(module)
    return SimpleNamespace(**names)


def test_written_examples_from_the_command_line_and_yaml(written: Any, shell: Shell) -> None:
    made = shell.node("prune", "--pruner", "random", "--sparsity", 0.7, "--mask-seed", 1)
    assert made.pruner == written.RandomPruning(0.7, seed=1)
    tuned = shell.node("finetune", "--objective", "focal", "--gamma", 1, "--steps", 4)
    assert tuned.objective == Objective("focal:gamma=1")
    page = shell.page(
        "{label: full model}",
        "{label: full model (focal), finetune: 'focal:gamma=1'}",
        "{label: random pruning, paradigm: a, pruner: random, sparsities: [0.5], options: {seed: 1}}",
    )
    assert all(label in page for label in ("full model (focal)", "random pruning"))


def test_written_examples_by_hand(written: Any) -> None:
    toy = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 2))
    one, again, other = (written.RandomPruning(0.5, seed=seed).mask(toy) for seed in (0, 0, 1))
    assert one == again != other
    assert one.sparsity == 0.5
    logits, labels = torch.tensor([[np.log(3.0), 0.0]]), torch.tensor([0])  # p = 3/4
    assert written.FocalLoss()(logits, labels).item() == pytest.approx(-np.log(3 / 4) / 16)
    with refused("gamma"):
        written.FocalLoss(-1.0)
    task = written.SumsTask(size=10).load()
    signs = KINDS["final-sign"].fit(task, "05", PLAIN)
    assert signs.names == ("ends with 0", "ends with 5")
    assert signs.of(task.dev)[:, 0].tolist() == [text.endswith("0") for text in task.dev.text_a]
    assert fit_bias_model(written.SumsTask(size=50).load(), ("final-sign:05", "claim"), folds=2).keys() == {
        "train", "dev", "balanced",
    }  # fmt: skip
