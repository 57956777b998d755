"""The plan of the paper's reproduction without its data: from published sizes, and it says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import run
from refusals import command_refused, refused

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import every_node, load_task
from srnet.experiment.store import Store
from srnet.recipes.order import Order
from srnet.recipes.recipe import Plan
from srnet.tasks.outline import SIZES, Outline
from srnet.tasks.published import PUBLISHED_TASKS


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("SRNET_DOWNLOAD", raising=False)


@pytest.mark.parametrize("name", SIZES)
def test_a_task_by_its_sizes(name: str) -> None:
    task = load_task(Outline(name))
    assert {split: len(rows) for split, rows in task.splits.items()} == SIZES[name]
    known = PUBLISHED_TASKS[name]
    assert (*task.ood, *task.id_tests) == (*known.ood, *known.id_tests)
    assert (task.labels, task.ood_copies) == (known.settings["labels"], known.settings.get("ood_copies", 1))


@pytest.fixture(scope="module")
def one() -> Plan:
    """fig6 is on one task."""
    recipes = Order(("fig6", "fig8"), profile="paper", tasks=("fever",), seeds=(0,)).recipes(outline=True)
    return srnet.plan(recipes)


def test_a_plan_without_data(one: Plan) -> None:
    """By hand, for one seed on FEVER. Steps: 22,773 (3 epochs of 242,911 / 32); both have the full model."""
    assert one.is_outline
    trained = [node for node, _ in one.steps if node.trains]
    assert one.estimate.trainings == len(trained) < one.unshared[0]
    assert one.unshared[1] - one.estimate.steps >= 22_773
    assert "is not known" in one.summary
    assert f"{one.unshared[0]} trainings" in one.sharing
    assert one.written is not None
    assert one.written.checkpoint == 4 * 4 * 109_482_240 + 5 * 84_934_656, "a subnetwork that is fine-tuned"
    # each search and fine-tuning writes one at each evaluation, every 500 steps
    assert one.written.count == sum(-(-node.planned_steps // 500) for node in trained)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("reproduce", "fig7", "--profile", "paper", "--seeds", "1", "--dry-run")
    assert run(monkeypatch, *words) == 0
    printed = capsys.readouterr().out
    assert "fig7 on mnli: 9 models, 11 trainings" in printed
    assert "11 distinct trainings" in printed
    assert "written: results" in printed
    assert "From the published sizes of the data, because they or a backbone are not here: hub:nyu-mll" in printed
    assert not re.search("^[0-9a-f]{16} ", printed, re.M), "keys are those of data"
    assert not (tmp_path / "store").exists()


def test_all_figures_of_the_paper() -> None:
    """Those of the documentation: docs/scale.md."""
    recipes = Order(profile="paper").recipes(outline=True)
    every = [node for recipe in recipes for node in every_node(recipe.nodes()).values() if node.trains]
    distinct = {node.key: node for node in every}.values()
    counts = [(len(nodes), round(sum(node.planned_steps for node in nodes) / 1e6, 1)) for nodes in (distinct, every)]
    assert counts == [(1032, 57.2), (1512, 85.2)]


def test_what_is_a_mistake_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, names in {
        ("fig2", "--dry-run", "--line", "nosuch"): ("nosuch", "mask training (PoE)"),
        ("fig2", "--dry-run", "--data", "/nosuch"): ("/nosuch",),
        ("fig2", "--dry-run", "--tasks", "imdb"): ("imdb",),
        ("smp", "--dry-run"): ("hub:",),
        ("fig2", "--measure"): ("hub:",),
        ("fig2",): ("hub:",),
        (): ("no figure was named",),
    }.items():
        error = command_refused(monkeypatch, capsys, "reproduce", *words, "--profile", "paper")
        assert all(name in error for name in names), error


def test_an_outline_is_never_trained(tmp_path: Path) -> None:
    (recipe,) = Order(("fig6",), profile="paper", seeds=(0,)).recipes(outline=True)
    with refused("bert-base-uncased"):
        Engine(Store(tmp_path)).execute(recipe.nodes())
