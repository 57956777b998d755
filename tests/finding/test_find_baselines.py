"""`srnet find --baselines`: one table with the chosen subnetwork, in which OOD data choose nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_find import RELABELLED, SMALL, WITHOUT_OOD, command, engine, search  # noqa: F401  fixtures

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.estimate import planned_steps
from srnet.finding.budget import Budget
from srnet.finding.found import Found
from srnet.finding.search import Find
from srnet.finding.settings import FindSettings
from srnet.finding.sizes import size_of
from srnet.masks.targets import Targets
from srnet.models.subnetwork import Subnetwork
from srnet.recipes.baselines import HEAD, INT8, LAST_LAYER, LORA, ONE_SHOT, WANDA
from srnet.recipes.recipe import FULL_CE

LINES = [HEAD, LAST_LAYER, LORA, ONE_SHOT, WANDA, INT8.format(FULL_CE)]


def compared(engine: Engine, task: Any = SMALL, **settings: Any) -> Found:  # noqa: F811
    return search(engine, task, baselines=True, **settings)


def labels(found: Found) -> list[str]:
    return [line.name for line in found.compared]


def test_they_are_trained_as_long_with_the_same_seeds(engine: Engine) -> None:  # noqa: F811
    found = compared(engine, seeds=2)
    points = [each for each in found.recipe.points if each.is_baseline]
    assert {each.seed for each in points} == {0, 1}
    assert list(dict.fromkeys(each.label for each in points)) == LINES
    assert found.model is not None
    dense = {planned_steps(each.node) for each in points if each.label in (HEAD, LAST_LAYER, LORA)}
    assert dense == {planned_steps(found.model)}
    assert {each.place.sparsity for each in points if each.is_pruned} == {found.sparsity}
    assert not any(getattr(each.node, "data", "id") != "id" for each in points), "no OOD training data"


def test_ood_labels_choose_nothing_among_baselines(engine: Engine) -> None:  # noqa: F811
    """Nor does having baselines change what is chosen."""
    alone, found, other = search(engine), compared(engine), compared(engine, RELABELLED)

    def choices(each: Found) -> list[object]:
        return [each.full_score, each.tried, each.sparsity, each.model and each.model.pretrained.seed]

    assert choices(alone) == choices(found) == choices(other)
    assert alone.model == found.model
    assert labels(found) == labels(other)
    for ours, theirs in zip(found.compared, other.compared, strict=True):
        assert (ours.bytes, ours.beside_full) == (theirs.bytes, theirs.beside_full), "the same weights"
        assert ours.scores["dev"] == theirs.scores["dev"]
    pairs = zip(found.compared, other.compared, strict=True)
    assert any(a.scores["challenge"] != b.scores["challenge"] for a, b in pairs)


def test_the_table_has_every_line(engine: Engine, tmp_path: Path) -> None:  # noqa: F811
    settings = FindSettings(keep_id=0.5, sparsities=(0.5,), seeds=1, lengthen=False, baselines=True)
    found = srnet.find(SMALL, settings, out=tmp_path / "out", engine=engine)
    full, chosen, *rest = labels(found)
    assert [chosen.partition(",")[0], *(each.removesuffix(", 50 %") for each in rest)] == [
        "mask training (PoE)",
        *LINES,
    ]
    assert full.startswith(FULL_CE)
    for name in ("report.md", "report.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "The chosen subnetwork and its baselines" in text
        assert "as fast as the full model" in text
    sizes = {line.name: (line.bytes, line.beside_full) for line in found.compared}
    whole = sizes[full][0]
    assert sizes[full] == (whole, None)
    assert sizes[HEAD][0] == sizes[LORA][0] == whole, "merged"
    assert sizes[INT8.format(FULL_CE)][1] == 0, "made of the full model alone"
    assert 0 < sizes[HEAD][1] < sizes[LORA][1] < whole  # type: ignore[operator]
    assert sizes[chosen][1] < sizes[f"{ONE_SHOT}, 50 %"][1] < whole  # type: ignore[operator]
    assert all(line.verdict == "one seed: no verdict" for line in found.compared[1:])


def test_sizes_by_hand(engine: Engine) -> None:  # noqa: F811
    found = compared(engine, sparsities=(0.5,))
    nodes = {each.label: each.node for each in found.recipe.points}
    full = found.recipe.references["srnet-tiny"].full[0]
    base = Subnetwork.load(engine.store.path(full.key)).base()
    state = {name: each for name, each in base.model.state_dict().items() if name not in base.twins()}
    numbers = {name: each.numel() for name, each in state.items()}
    head = sum(n for name, n in numbers.items() if not name.startswith("bert."))
    masked = Targets().find(base.model)
    weights = {f"{name}.weight": layer.weight for name, layer in masked.items()}
    assert size_of(engine.store, nodes[HEAD], full) == (4 * sum(numbers.values()), 4 * head)
    adapters = sum(4 * 8 * sum(each.shape) for name, each in weights.items() if name.startswith("bert."))
    assert size_of(engine.store, nodes[LORA], full).beside == 4 * head + adapters
    mask = size_of(engine.store, nodes["mask training (PoE)"], full)
    total = sum(each.numel() for each in weights.values())
    assert total / 8 <= mask.beside < total / 8 + 4000, "a bit for each weight, and names"
    assert mask.whole == mask.beside + 4 * (sum(numbers.values()) - total // 2)


def test_what_there_is_nothing_to_debias_against(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    said: list[str] = []
    monkeypatch.setattr(Find, "_say", lambda self, line: said.append(line))
    monkeypatch.setattr(Find, "_use", lambda self, shortcut, *, debias: setattr(self, "objective", "ce"))
    assert compared(engine).compared == ()
    assert any(line.startswith("baselines: none") for line in said)


def test_without_ood_data_there_is_no_verdict(engine: Engine) -> None:  # noqa: F811
    found = compared(engine, WITHOUT_OOD)
    assert labels(found)
    assert {line.verdict for line in found.compared} == {""}


def test_a_dry_run_counts_them(command: Any) -> None:  # noqa: F811
    words = ("--sparsities", "0.5", "--seeds", "1", "--dry-run")
    (_, plain, _), (_, more, _) = command(*words), command(*words, "--baselines")
    assert "baselines on inference" in more
    assert "baselines" not in plain
    assert (
        int(more.split(" distinct trainings")[0].split()[-1])
        == int(plain.split(" distinct trainings")[0].split()[-1]) + 4
    )


def test_units_are_compared_with_units(engine: Engine) -> None:  # noqa: F811
    found = compared(engine, sparsities=(0.5,), granularity=("head", "neuron"))
    pruned = {each.label: each for each in found.recipe.points if each.is_pruned}
    assert set(pruned) == {"mask training (PoE), trained further", ONE_SHOT, WANDA}
    for each in pruned.values():
        assert each.search is not None
        assert each.search.pruner.granularity == ("head", "neuron")  # type: ignore[attr-defined]
        assert each.node != each.search, "trained further"
    (chosen,) = (line for line in found.compared if line.name.startswith("mask training"))
    assert chosen.beside_full is not None
    assert chosen.bytes >= chosen.beside_full > 0


def test_what_no_time_is_left_for_is_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    said: list[str] = []
    monkeypatch.setattr(Find, "_say", lambda self, line: said.append(line))
    monkeypatch.setattr(
        Budget, "fits", lambda self, *recipes: not any(p.is_baseline for r in recipes for p in r.points)
    )
    found = compared(engine)
    assert found.sparsity is not None
    assert found.compared == ()
    assert said[-1] == "baselines: none, no time is left for them"
