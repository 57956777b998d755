"""`srnet find`: what is chosen, on what, within which budget, and what is left in the folder."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import run as typed
from made_up_search import found_with
from refusals import refused

import srnet
from srnet.core.errors import UserError
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import TaskSpec, every_node
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.store import Store
from srnet.finding.biases import Biases
from srnet.finding.budget import Budget
from srnet.finding.found import Biased, Found, Tried
from srnet.finding.search import Find
from srnet.finding.settings import FindSettings
from srnet.masks.timed import Latency
from srnet.pruners.mask_training import MaskTraining
from srnet.recipes import profiles as toy
from srnet.recipes.order import Order
from srnet.recipes.recipe import Recipe
from srnet.tasks.base import Task
from srnet.tasks.planted import PlantedTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

SMALL = SyntheticTask("inference", train_size=400, dev_size=80, ood_size=60)


@dataclass(frozen=True)
class Changed:
    """The same task with other OOD sets: with random labels, or none."""

    relabelled: bool
    name: str = "inference"
    shortcut: str = "overlap"

    def load(self) -> Task:
        task, rng = SMALL.load(), np.random.default_rng(1)
        ood = {n: replace(s, labels=rng.permutation(1 - s.labels)) for n, s in task.ood.items() if self.relabelled}
        return replace(task, ood=ood)


RELABELLED: Any = Changed(relabelled=True)
WITHOUT_OOD: Any = Changed(relabelled=False)


@pytest.fixture
def engine(tmp_path: Path, tiny_backbone: str, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setitem(srnet.models.checkpoints.SHIPPED, "srnet-tiny", Path(tiny_backbone))
    short = TrainingSettings(learning_rate=1e-3, steps=6, eval_every=3, batch_size=16)
    monkeypatch.setattr(toy, "FINETUNING", short)
    monkeypatch.setattr(toy, "PRUNING", short)
    return Engine(Store(tmp_path / "store"), Reporter(quiet=True))


@pytest.fixture
def command(engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`srnet find inference` with these words: its exit code, and what it prints."""

    def run(*words: str) -> tuple[int, str, str]:
        return typed(monkeypatch, "find", "inference", *words, "--store", engine.store.root), *capsys.readouterr()

    return run


def search(engine: Engine, task: TaskSpec = SMALL, budget: float | None = None, **settings: Any) -> Found:
    """Six steps are too few for any model, so these searches do not train longer by themselves."""
    usual = {"keep_id": 0.5, "sparsities": (0.5, 0.3), "seeds": 1, "lengthen": False}
    chosen = FindSettings(**{**usual, **settings})
    return Find(task, "srnet-tiny", chosen, engine, budget=budget).run()


def test_ood_labels_choose_nothing(engine: Engine) -> None:
    """Every choice is the same with random OOD labels; only what is measured on them differs."""
    found, other = search(engine), search(engine, RELABELLED)

    def choices(each: Found) -> list[object]:
        return [each.biases, each.full_score, each.tried, each.sparsity, each.model and each.model.pretrained.seed]

    assert choices(found) == choices(other)
    assert found.scores is not None
    assert other.scores is not None
    assert found.scores["dev"] == other.scores["dev"]
    assert found.scores["challenge"] != other.scores["challenge"]


def test_ood_labels_choose_nothing_of_a_control(engine: Engine) -> None:
    """A planted copy has its own OOD sets: what it computes does not depend on the OOD labels of the task."""

    def planned(task: TaskSpec) -> set[str]:
        settings = FindSettings(sparsities=(0.5,), seeds=1, control=True)
        return set(every_node(Find(task, "srnet-tiny", settings, engine).at_most()[-1].nodes()))

    assert planned(SMALL) == planned(RELABELLED)


def test_a_control_searches_in_a_copy_with_a_planted_shortcut(engine: Engine, tmp_path: Path) -> None:
    settings = FindSettings(keep_id=0.5, sparsities=(0.5,), seeds=3, lengthen=False, control=True)
    found = srnet.find(SMALL, settings, out=tmp_path / "out", engine=engine)
    assert found.control is not None
    assert found.control.strength == 0.7
    assert found.control.recipe.task == PlantedTask(SMALL, 0.7)
    assert {point.place.sparsity for point in found.control.recipe.points if point.is_pruned} == {0.5}
    assert len(found.control.recipe.seeds) == 3
    assert found.control.sentence in found.lead
    assert json.loads((tmp_path / "out" / "find.json").read_text())["control"]["sentence"] == found.control.sentence
    assert found.control.sentence in (tmp_path / "out" / "control" / "report.md").read_text()


def test_a_control_of_a_model_of_ones_own_is_refused(engine: Engine, tmp_path: Path) -> None:
    with refused("--control", "--backbone"):
        srnet.find(SMALL, FindSettings(control=True), full=tmp_path, out=tmp_path / "out", engine=engine)


def test_half_of_a_budget_is_for_the_control(engine: Engine) -> None:
    whole, half = (Find(SMALL, "srnet-tiny", FindSettings(control=on), engine, budget=60.0) for on in (False, True))
    assert (whole.budget.limit, half.budget.limit) == (60.0, 30.0)


def test_every_training_has_the_options_that_were_given(engine: Engine) -> None:
    def trainings(**given: Any) -> list[TrainingSettings]:
        settings = FindSettings(sparsities=(0.5,), granularity=("head", "neuron"), seeds=1, **given)
        plans = Find(SMALL, "srnet-tiny", settings, engine).at_most()
        return [node.training for node in engine.plan([each for plan in plans for each in plan.nodes()]) if node.trains]  # type: ignore[attr-defined]

    usual = trainings()
    assert [each.steps for each in usual] == [6, 18, 6, 6], "full, control, search, and its weights trained further"
    given = trainings(scale=2.0, learning_rate=0.25, score_rate=0.125, precision="bf16")
    assert [each.steps for each in given] == [12, 36, 12, 12]
    assert [each.learning_rate for each in given] == [0.25, 0.25, 0.125, 0.25]
    assert {each.precision for each in given} == {"bf16"}


def test_the_sparsest_that_keeps_the_score_is_chosen(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: 0.3 and 0.5 keep it, 0.7 does not, so 0.9 is never tried."""
    scores = {0.0: 80.0, 0.3: 79.0, 0.5: 76.0, 0.7: 75.9}

    def dev_score(self: Find, model: Any) -> float:
        return scores[model.pruner.sparsity if hasattr(model, "pruner") else 0.0]

    monkeypatch.setattr(Find, "_dev_score", dev_score)
    found = search(engine, keep_id=0.95, sparsities=(0.9, 0.3, 0.7, 0.5), seeds=2)
    tried = (Tried(0.3, 79.0, 79.0 / 80.0), Tried(0.5, 76.0, 0.95), Tried(0.7, 75.9, 75.9 / 80.0))
    assert (found.tried, found.sparsity) == (tried, 0.5)
    shown = [(point.place.sparsity, point.seed) for point in found.recipe.points if point.is_pruned]
    assert shown == [(0.3, 0), (0.5, 0), (0.5, 1), (0.7, 0)], "all that were tried, the chosen one with all seeds"


def test_nothing_qualifies(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is still a report of what was tried, an audit of the full model, and the next command."""
    monkeypatch.setattr(Find, "_dev_score", lambda self, model: 50.0 if hasattr(model, "pruner") else 100.0)
    out, command = tmp_path / "out", "srnet find inference --sparsities 0.3"
    found = srnet.find(SMALL, FindSettings(sparsities=(0.3,)), out=out, engine=engine, command=command)
    assert (found.sparsity, found.model, found.verdict) == (None, None, None)
    assert {"find.json", "report.html", "results.csv", "audit"} <= {path.name for path in out.iterdir()}
    assert "mask training (PoE), 30 %" in (out / "report.md").read_text()
    assert json.loads((out / "audit" / "audit.json").read_text())["models"] == [
        f"{found.full_model.label} ({found.full_model.key[:8]})"
    ]
    stored = json.loads((out / "find.json").read_text())
    assert stored["tried"][0]["kept"] == 0.5
    assert stored["next"] == found.next == "srnet find inference --sparsities 0.15"
    assert "none of its subnetworks keeps 95 % of the first score" in stored["sentence"]


def _without_times(found: Found) -> dict[str, Any]:
    return {name: value for name, value in found.to_json().items() if name != "measured"}


def test_a_failing_export_loses_neither_report_nor_audit(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export_model(*given: object, **options: object) -> None:
        raise UserError("it cannot be written")

    monkeypatch.setattr("srnet.api.finding.export_model", export_model)
    settings = FindSettings(keep_id=0.5, sparsities=(0.5,), seeds=1, lengthen=False)
    with refused("it cannot be written"):
        srnet.find(SMALL, settings, out=tmp_path / "out", engine=engine)
    assert (tmp_path / "out" / "audit" / "audit.html").exists()
    assert 'id="speed"' not in (tmp_path / "out" / "report.html").read_text()


def test_what_is_left_in_the_folder(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "out"
    settings = FindSettings(keep_id=0.5, sparsities=(0.5,), seeds=1, lengthen=False)
    found = srnet.find(SMALL, settings, out=out, engine=engine)
    assert found.model is not None
    folder = out / f"model-{found.model.key[:8]}-subnetwork"
    assert found.folder == folder
    assert {"find.json", "report.html", "results.csv", "audit", folder.name} <= {path.name for path in out.iterdir()}
    assert srnet.load_subnetwork(folder).config.num_labels == 2
    assert found.verdict is not None
    assert found.verdict.answer == "no verdict", "one seed"
    assert found.verdict.keeps == 0.5, "the bar is the one that was given"
    assert "ID minus 50 % of" in (out / "report.md").read_text(), "also in the report"
    assert found.to_json()["verdict"]["text"] == str(found.verdict)
    again = srnet.find(SMALL, settings, out=out, engine=engine)
    assert _without_times(again) == _without_times(found)
    full, small = json.loads((out / "find.json").read_text())["measured"]
    assert (full["name"], small["name"]) == ("full model", "to deploy")
    assert small["bytes"] < full["bytes"]
    png = (out / "speed.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert base64.b64encode(png).decode() in (out / "report.html").read_text()
    report = (out / "report.md").read_text()
    assert "![Speed against score](speed.png)" in report
    assert found.warnings, "a model of six steps is no better than the majority class"
    assert all(f"Warning: {warning}." in report for warning in found.warnings)


def test_without_ood_data_nothing_is_claimed(engine: Engine) -> None:
    found = search(engine, WITHOUT_OOD)
    assert found.sparsity is not None
    assert found.verdict is None
    assert set(found.scores or {}) == {"dev"}


@dataclass(frozen=True)
class Surveyed:
    """A survey that found these shortcuts."""

    names: tuple[str, ...]

    @property
    def found(self) -> list[Any]:
        return [SimpleNamespace(shortcut=each) for each in self.names]

    @property
    def best(self) -> str | None:
        return next(iter(self.names), None)


@pytest.mark.parametrize(
    ("declared", "given", "surveyed", "tried"),
    [
        ("overlap", None, ("words", "overlap"), {"overlap": True}),  # the survey confirms the task's own
        ("claim", None, ("words",), {"claim": True}),  # it gains enough for one that is named
        ("overlap", None, ("words",), {"overlap": False, "words": True}),
        ("overlap", None, (), {"overlap": False}),
        ("overlap", "length", ("words",), {"length": False}),  # the user's is the only one
        (None, None, ("words", "claim"), {"words": True}),
        (None, None, (), {"claim": False}),  # presumed only: the survey is more careful
    ],
)
def test_which_shortcut_is_debiased(
    declared: str | None,
    given: str | None,
    surveyed: tuple[str, ...],
    tried: dict[str, bool],
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gains = {"overlap": 1.0, "claim": 9.0, "words": 20.0, "length": 0.0}
    monkeypatch.setattr(Biases, "measured", lambda self, shortcut: Biased(shortcut, 60.0, gains[shortcut]))
    monkeypatch.setattr(Biases, "task", SimpleNamespace(name="own", shortcut=declared or "claim"))
    task: Any = SimpleNamespace(shortcut=declared)
    found = Biases(srnet.BiasSpec(shortcut=given), task, "srnet-tiny", engine).tried(Surveyed(surveyed))  # type: ignore[arg-type]
    assert {each.shortcut: each.is_biased for each in found} == tried


# --- what others trained, and longer training ----------------------------------------------------------------------


@pytest.mark.parametrize("shortcut", [None, "overlap"])
def test_what_the_demo_and_a_figure_train_is_used(shortcut: str | None, tmp_path: Path) -> None:
    """The same keys, and the same descriptions, by which a model card finds the seeds of a model."""
    order = Order(("fig2",), tasks=("inference",), seeds=(0, 1, 2))
    bias = None if shortcut is None else srnet.BiasSpec(shortcut=shortcut)
    finder = Find(
        SyntheticTask("inference"), "srnet-tiny", FindSettings(sparsities=(0.7, 0.5)), Engine(Store(tmp_path)), bias
    )
    wanted = every_node([node for recipe in finder.at_most() for node in recipe.nodes()])
    for recipe in (srnet.demo_recipe(), *order.recipes()):
        known = every_node(recipe.nodes())
        assert wanted.keys() <= known.keys()
        assert all(describe(node) == describe(known[key]) for key, node in wanted.items())


def _scores(monkeypatch: pytest.MonkeyPatch, by_steps: dict[int, float]) -> None:
    """Made-up ID scores of full models by the length of their training; masks score as the best of them."""

    def dev_score(self: Find, model: Any) -> float:
        self.engine.execute([model, srnet.Evaluate(model)])
        return max(by_steps.values()) if hasattr(model, "pruner") else by_steps[model.training.steps]

    monkeypatch.setattr(Find, "_dev_score", dev_score)


@pytest.mark.parametrize(
    ("scores", "given", "scale"),
    [
        ({6: 50.0, 12: 50.0, 18: 99.0, 36: 99.0}, {}, 3.0),  # below the bias model
        ({6: 90.0, 12: 95.0, 18: 96.0, 36: 96.0}, {}, 3.0),  # the control is much better
        ({6: 50.0, 12: 50.0}, {"lengthen": False}, 1.0),
        ({12: 50.0, 24: 50.0}, {"scale": 2.0}, 2.0),  # the user's own choice
        ({6: 99.0, 12: 99.0}, {}, 1.0),
    ],
)
def test_an_undertrained_model_is_trained_longer_once(
    scores: dict[int, float], given: dict[str, Any], scale: float, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _scores(monkeypatch, scores)
    found = search(engine, sparsities=(0.3,), **{"lengthen": True, **given})
    assert found.scale == scale
    steps = {point.node.training.steps for point in found.recipe.points if not point.is_pruned}  # type: ignore[attr-defined]
    assert steps == set(list(scores)[-2:])
    advised = [each.options for each in found.diagnoses if each.options]
    assert advised == ([("--scale", f"{3 * scale:g}")] if scores[max(scores)] == 50.0 else [])
    if scale == 3.0:
        finder = Find(SMALL, "srnet-tiny", FindSettings(sparsities=(0.3,), seeds=1, scale=3.0), engine)
        again = [node for recipe in finder.at_most() for node in recipe.nodes()]
        assert engine.plan(again) == [], "it is the search with --scale 3"


def test_longer_training_must_fit_into_the_budget(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """10 s a step: a search of 24 steps (full, control, mask) takes 240 s; one of 72 does not fit into 400."""
    _scores(monkeypatch, {6: 50.0, 12: 50.0, 18: 99.0, 36: 99.0})

    def fits(self: Budget, *recipes: Recipe) -> bool:
        missing = self.engine.plan([node for recipe in recipes for node in recipe.nodes()])
        return 10.0 * sum(node.planned_steps for node in missing if node.trains) <= (self.limit or 0.0)  # type: ignore[attr-defined]

    monkeypatch.setattr(Budget, "fits", fits)
    short, enough = (search(engine, sparsities=(0.3,), lengthen=True, budget=each) for each in (400.0, 1000.0))
    assert (short.scale, enough.scale) == (1.0, 3.0)
    assert [each.options for each in short.diagnoses if each.options] == [("--scale", "3")]


# --- the budget ----------------------------------------------------------------------------------------------------


def trained(recipes: tuple[Recipe, ...], engine: Engine | None = None) -> int:
    """The number of trainings, or of those that the engine misses."""
    nodes = {node.key: node for recipe in recipes for node in recipe.nodes()}
    return sum(node.trains for node in (engine.plan(list(nodes.values())) if engine else nodes.values()))


@pytest.mark.parametrize(
    ("budget", "ends"),
    [
        (1000.0, "enough for 30 %, 50 %; seeds: 3"),
        (95.0, "enough for 30 %; seeds: 3"),
        (65.0, "enough for 30 %; seeds: 2, too few for a verdict"),
        (45.0, "enough for 30 %, 50 %; seeds: 1, too few for a verdict"),
    ],
)
def test_the_plan_fits_the_budget(engine: Engine, monkeypatch: pytest.MonkeyPatch, budget: float, ends: str) -> None:
    """With 10 s a training: a seed needs three (full, search, control), another sparsity of the first seed one more."""
    monkeypatch.setattr(Budget, "seconds", lambda self, *recipes: 10.0 * trained(recipes))
    finder = Find(SMALL, "srnet-tiny", FindSettings(sparsities=(0.5, 0.3)), engine, budget=budget)
    finder.objective = "poe"
    assert finder.plan().endswith(ends)


@pytest.mark.parametrize(
    ("pace", "tried", "seeds"),
    [(1.0, [0.3, 0.5], (0, 1, 2)), (16.0, [0.3], (0, 1, 2)), (30.0, [0.3], (0, 1)), (99.0, [0.3, 0.5], (0,))],
)
def test_the_search_goes_as_far_as_its_pace_allows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, pace: float, tried: list[float], seeds: tuple[int, ...]
) -> None:
    """What is stored takes no time, and 100 s are left at any moment.

    After the search at 30 % each further seed needs three trainings (full, search, control): 6 for three seeds, 3 for
    two. A search at 50 % is one more; it must not cost a seed.
    """
    monkeypatch.setattr(Find, "plan", lambda self: "")
    monkeypatch.setattr(Budget, "fits", lambda self, *recipes: pace * trained(recipes, self.engine) <= 100.0)
    found = search(engine, keep_id=0.01, seeds=3, budget=100.0)
    assert [each.sparsity for each in found.tried] == tried
    assert found.recipe.seeds == seeds


@pytest.mark.parametrize(
    ("seconds", "budget", "planned", "named"),
    [
        (600.0, 60.0, False, ("60 s", "10 min")),
        (0.4, 1e-9, False, ("0.4 s",)),  # less than a second is not nothing
        (6000.0, 60.0, True, ("60 s", "1.7 h")),  # the plan fitted, then the machine became slow
    ],
)
def test_a_budget_that_is_too_short_says_what_is_needed(
    seconds: float,
    budget: float,
    planned: bool,
    named: tuple[str, ...],
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Budget, "seconds", lambda self, *recipes: seconds)
    if planned:
        monkeypatch.setattr(Find, "plan", lambda self: "")
    with refused("--budget", *named):
        search(engine, budget=budget)
    models = sum("fine-tune" in entry.label for entry in engine.store.entries())
    assert models == (4 if planned else 0), "what was trained stays in the store: two models and their scores"


@pytest.mark.parametrize(
    ("budget", "given", "proposed"),
    [
        (200.0, {}, "--scale 0.7 --sparsities 0.3;"),
        (150.0, {}, "--scale 0.5 --sparsities 0.3;"),
        (30.0, {}, "--scale 0.2 --sparsities 0.3,0.5 --seeds 1;"),
        (150.0, {"scale": 2.0}, "--scale 0.4 --sparsities 0.3,0.5;"),
    ],
)
def test_what_would_fit_is_proposed(
    budget: float, given: dict[str, Any], proposed: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 s a step: 24 steps (full 6, control 12, mask 6) a seed, 6 more for another sparsity; rounded when scaled."""

    def seconds(self: Budget, *recipes: Recipe) -> float:
        nodes = every_node([node for recipe in recipes for node in recipe.nodes()])
        return 4.0 * sum(node.planned_steps for node in nodes.values() if node.trains)  # type: ignore[attr-defined]

    monkeypatch.setattr(Budget, "seconds", seconds)
    settings = FindSettings(sparsities=(0.5, 0.3), **given)
    finder = Find(SMALL, "srnet-tiny", settings, engine, budget=budget)
    finder.objective = "poe"
    try:
        text = finder.plan()
    except UserError as error:
        text = str(error)
    assert proposed in f"{text};"


def test_what_is_stored_needs_no_time(engine: Engine) -> None:
    found = search(engine)
    assert search(engine, budget=1e-9).to_json() == found.to_json()


# --- the command ---------------------------------------------------------------------------------------------------


def test_a_dry_run_counts_what_is_computed_at_most(command: Any, engine: Engine) -> None:
    """Full model, control and two subnetworks of seed 0; of the sparser one two further seeds of all three."""
    code, shown, _ = command("--sparsities", "0.5,0.3", "--dry-run")
    assert (code, engine.store.keys()) == (0, [])
    assert "search on inference: 4 models, 4 trainings, 4 to do" in shown
    assert "10 distinct trainings, 0 of them stored" in shown


@pytest.mark.parametrize(
    ("word", "last"), [("--dry-run", "--measure"), ("--measure", "of 2.0 h is enough for 30 %; seeds: 3")]
)
def test_a_dry_run_with_a_budget(word: str, last: str, command: Any) -> None:
    code, shown, _ = command("--sparsities", "0.3", "--budget", "2h", word)
    assert code == 0
    assert last in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--format", "shrunk", "--dry-run"], "--granularity head,neuron"),
        (["--format", "smp", "--dry-run"], "shrunk"),
        (["--sparsities", "0.5", "--scale", "0", "--dry-run"], "scale"),
        (["--int8"], "--format onnx"),
    ],
)
def test_a_mistake_is_refused(words: list[str], named: str, command: Any) -> None:
    code, _, error = command(*words)
    assert code == 2
    assert named in error


def test_the_report_has_the_command_as_it_was_typed(command: Any, engine: Engine, monkeypatch: Any) -> None:
    given: dict[str, Any] = {}

    def find(*args: Any, **options: Any) -> Found:
        given.update(options)
        return found_with()

    monkeypatch.setattr(srnet, "find", find)
    assert command("--seeds", "1", "--out", "two words")[0] == 0
    assert given["command"] == f"srnet find inference --seeds 1 --out 'two words' --store {engine.store.root}"


def test_the_audit_has_the_bias_model_of_the_search(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("srnet.api.finding.audit_models", lambda *models, **options: given.update(options))
    settings = FindSettings(keep_id=0.01, sparsities=(0.3,), seeds=1, lengthen=False)
    srnet.find(SMALL, settings, bias=srnet.BiasSpec(shortcut="claim"), out=tmp_path / "out", engine=engine)
    assert given["bias"].shortcut == "claim"


def _reviews(path: Path, rows: int, misled: bool = False) -> str:
    """Single texts whose label is in one word of them, or, if misled, in its opposite."""
    words, rng = {"good": ("fine", "moving", "superb"), "bad": ("dull", "weak", "clumsy")}, np.random.default_rng(rows)
    lines = ["review,sentiment"]
    for row in range(rows):
        label, other = ("good", "bad") if row % 2 else ("bad", "good")
        rest = " ".join(rng.choice(["the", "film", "story", "was", "about", "people", "in", "town"], 6))
        lines.append(f"{rest} {rng.choice(words[other if misled else label])} {row},{label}")
    path.write_text("\n".join(lines))
    return str(path)


def test_from_files_of_single_texts_in_one_command(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The survey and the words come first, then the result in one sentence; the report and the audit begin with it."""
    train, ood, out = (
        _reviews(tmp_path / "imdb.csv", 200),
        _reviews(tmp_path / "hard.csv", 40, misled=True),
        tmp_path / "out",
    )
    words = ("--train", train, "--ood", f"revised={ood}", "--out", out, "--store", engine.store.root, "--no-lengthen")
    assert typed(monkeypatch, "find", *words, "--sparsities", "0.3,0.5", "--seeds", 2, "--keep-id", 0.01) == 0
    printed, progress = capsys.readouterr()
    assert "The label can be predicted from the words alone" in progress.splitlines()[1], "after the guessed columns"
    first = printed.splitlines()[0]
    assert " where the choice of words misleads; this one keeps 50 % of the weights" in first
    assert "Load it: `srnet.load_subnetwork('" in first
    assert f" --store {engine.store.root}`" in first, "the page finds the models"
    found = json.loads((out / "find.json").read_text())
    assert first.startswith(found["sentence"])
    for page in ("report.md", "report.html", "audit/audit.html"):
        assert found["sentence"].partition("; ")[0] in (out / page).read_text(), page
    report = (out / "report.md").read_text()
    assert "| mask training (PoE), 30 % |" in report, "tried with the first seed"
    assert "one seed: no verdict" in report
    assert "2 seeds: no verdict" in report


# --- speed-ups -----------------------------------------------------------------------------------------------------


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Latency:
    """Of a machine on which a model with two layers takes 20 ms."""
    found = Latency(head=1.0, neuron=0.05, attention=5.0, feed_forward=4.0, rest=2.0)
    monkeypatch.setattr("srnet.timing.latency._measure_latency", lambda model: found)
    return found


def test_from_dense_to_fast(engine: Engine, table: Latency, tmp_path: Path) -> None:
    """Heads and neurons by default; the sparsity is what the mask has."""
    settings = FindSettings(keep_id=0.01, speedups=(1.3, 1.1), seeds=1, lengthen=False)
    found = srnet.find(SMALL, settings, out=tmp_path / "out", engine=engine, command="as it was typed")
    assert [each.speedup for each in found.tried] == [1.1, 1.3]
    assert 0.0 < found.tried[0].sparsity < found.tried[1].sparsity == found.sparsity
    assert found.speedup == found.to_json()["speedup"] == 1.3
    assert found.model is not None
    wanted = MaskTraining(granularity=("head", "neuron"), speedup=1.3, latency=table)
    assert isinstance(found.model, FineTune), "the weights that are left train on"
    assert found.model.parent.pruner == wanted  # type: ignore[attr-defined]
    report = (tmp_path / "out" / "report.html").read_text()
    assert "as it was typed" in report


def test_ood_labels_choose_no_speedup(engine: Engine, table: Latency) -> None:
    found, other = (search(engine, task, keep_id=0.01, speedups=(1.1, 1.2)) for task in (SMALL, RELABELLED))
    assert (found.tried, found.speedup) == (other.tried, other.speedup)


# --- what is refused before anything is computed -------------------------------------------------------------------

UNITS = {"granularity": ("head", "neuron")}


@pytest.mark.parametrize(
    ("settings", "format", "named"),
    [
        ({"speedups": (1.1, 30.0)}, None, "30"),
        ({"speedups": (1.1,), "granularity": ("weight",)}, None, "single weights"),
        ({"sparsities": (0.3, 0.99), **UNITS}, None, "0.99"),
        ({"sparsities": (0.01,), "granularity": ("layer",)}, None, "0.01 rounds to no"),
        ({"sparsities": (0.01,), "granularity": ("head",)}, None, "0.01 rounds to no"),
        ({}, "shrunk", "--granularity head,neuron"),
        ({}, "smp", "'smp'"),
        ({}, "nothing", "nothing"),
    ],
    ids=str,
)
def test_settings_and_formats(
    settings: dict[str, Any], format: str | None, named: str, engine: Engine, table: Latency, tmp_path: Path
) -> None:
    with refused(named):
        srnet.find(SMALL, FindSettings(seeds=1, **settings), format=format, out=tmp_path / "out", engine=engine)
    assert not list(engine.store.root.glob("artifacts/*"))


@pytest.mark.parametrize("shortcut", ["source", "scores:missing.csv"])
def test_a_shortcut_that_cannot_be_measured(shortcut: str, engine: Engine, tmp_path: Path) -> None:
    with refused(shortcut.removeprefix("scores:")):
        srnet.find(SMALL, bias=srnet.BiasSpec(shortcut=shortcut), out=tmp_path / "out", engine=engine)
    assert not list(engine.store.root.glob("artifacts/*"))


@pytest.mark.parametrize(
    ("place", "named"), [("a-file", "a-file"), ("a-file/below", "a-file"), ("foreign", "mine.txt")]
)
def test_a_folder_that_cannot_be_written(place: str, named: str, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "foreign" / "audit").mkdir(parents=True)
    (tmp_path / "foreign" / "audit" / "mine.txt").write_text("")
    with refused(named):
        srnet.find(SMALL, FindSettings(seeds=1), out=tmp_path / place, engine=engine)
    assert not list(engine.store.root.glob("artifacts/*"))


@pytest.mark.parametrize(
    ("field", "value"),
    [("keep_id", 0.0), ("keep_id", 1.5), ("sparsities", ()), ("sparsities", (0.5, 0.5)), ("seeds", 10**9)],
)
def test_bad_settings(field: str, value: Any) -> None:
    with refused({"sparsities": "--sparsities", "seeds": value}.get(field, field)):
        FindSettings(**{field: value})
