"""Seeds are added where they decide most, and not beyond a limit. The engine is a stub that makes up predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_up import remember
from refusals import refused
from small import read_no_backbone

from srnet.api.experiments import claims_until_answered
from srnet.evaluation.verdict import HOLDS, OPEN
from srnet.experiment.estimate import Estimate, seconds_of
from srnet.experiment.nodes.base import Node, load_task
from srnet.experiment.nodes.models import Evaluate
from srnet.experiment.store import Store
from srnet.recipes.order import Order
from srnet.report.claims import CLAIMS, Finding
from srnet.report.rounds import Rounds
from srnet.report.tables import findings_table


@pytest.fixture(autouse=True)
def _keys_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    read_no_backbone(monkeypatch)
    monkeypatch.setattr("srnet.core.files.os.fsync", lambda descriptor: None)


@dataclass
class StubEngine:
    """Makes up an evaluation for every model of a plan; `gain` is the share that gradual gains, by seed."""

    store: Store
    gain: dict[int, float]
    lines: list[str] = field(default_factory=list)
    calls: int = 0

    @property
    def reporter(self) -> Any:
        return SimpleNamespace(say=self.lines.append)

    def plan(self, targets: Iterable[Node]) -> list[Node]:
        return [node for node in targets if not self.store.has(node.key)]

    def execute(self, targets: Iterable[Node]) -> None:
        self.calls += 1
        for node in targets:
            if isinstance(node, Evaluate):
                remember(self.store, node.model, self.answers(node))

    def answers(self, node: Evaluate) -> dict[str, np.ndarray]:
        """Everybody is right on the first 60 %; gradual on some more of them, the same on ID and OOD."""
        task, found = load_task(node.model.task_spec), {}
        gradual = "initial_sparsity=0.7" in repr(node.model)
        more = self.gain[node.model.pretrained.seed] if gradual else 0.0
        for name in task.scored:
            labels = task.splits[name].labels
            right = np.arange(len(labels)) < (0.6 + more) * len(labels)
            found[name] = np.where(right, labels, 1 - labels)
        return found


def setup(tmp_path: Path, gain: dict[int, float], seeds: int = 3) -> tuple[Order, StubEngine]:
    (tmp_path / "task.yaml").write_text("{name: inference, train_size: 20, dev_size: 1000, ood_size: 1000}")
    order = Order(("fig8",), tasks=(str(tmp_path / "task.yaml"),), seeds=tuple(range(seeds)))
    return order, StubEngine(Store(tmp_path / "store").open(), gain)


def run(order: Order, engine: Any, max_seeds: int = 10, **more: Any) -> Finding:
    """The finding about gradual sparsity, the one claim about this figure."""
    found = Rounds(order.recipes(), engine, max_seeds, **more).run()
    assert len(found) == len(CLAIMS)
    return next(finding for finding in found if finding.claim.name == "gradual")


def test_a_clear_claim_needs_no_further_seed(tmp_path: Path) -> None:
    order, engine = setup(tmp_path, dict.fromkeys(range(10), 0.1))
    finding = run(order, engine)
    assert (finding.answer, finding.seeds, engine.calls) == (HOLDS, 3, 1)
    (line,) = engine.lines
    assert line.startswith("fig8 on inference, the first seeds: for the claim gradual")
    again = run(order, engine)
    assert (again.answer, engine.calls) == (HOLDS, 1), "what is stored is only looked at"


def test_seeds_are_added_until_the_claim_is_answered(tmp_path: Path) -> None:
    order, engine = setup(tmp_path, {seed: 0.1 + 0.04 * (-1) ** seed for seed in range(10)})
    finding = run(order, engine)
    assert finding.answer == HOLDS
    assert 3 < finding.seeds < 10
    assert engine.calls == finding.seeds - 2
    assert engine.lines[1].startswith("fig8 on inference, seed 3: for the claim gradual (about ")


def test_no_further_than_the_largest_number_of_seeds(tmp_path: Path) -> None:
    order, engine = setup(tmp_path, {seed: 0.05 + 0.3 * (-1) ** seed for seed in range(10)})
    finding = run(order, engine, max_seeds=5)
    assert (finding.answer, finding.seeds, engine.calls) == (OPEN, 5, 3)
    assert finding.needs is not None
    assert finding.needs > 5


def test_where_seeds_cannot_help_none_are_added(tmp_path: Path) -> None:
    order, engine = setup(tmp_path, dict.fromkeys(range(10), 0.001))
    finding = run(order, engine)
    assert (finding.answer, finding.needs, engine.calls) == (OPEN, None, 1)
    assert "more test examples are needed" in finding.note


def test_every_look_is_tested_at_a_stricter_level(tmp_path: Path) -> None:
    """A claim that one look at 5 % would call answered is open when eight looks are planned."""
    gain = {0: 0.05, 1: 0.08, 2: 0.11, **dict.fromkeys(range(3, 10), 0.08)}
    order, engine = setup(tmp_path, gain)
    once = run(order, engine, max_seeds=3)
    assert (once.answer, once.seeds) == (HOLDS, 3)
    often = run(order, engine, max_seeds=10)
    assert (often.answer, often.seeds > 3) == (HOLDS, True)
    assert often.alpha == pytest.approx(0.025 / 8), "with 3 seeds, and after each of 7 more"


def test_a_round_that_would_exceed_the_budget_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order, engine = setup(tmp_path, {seed: 0.1 + 0.04 * (-1) ** seed for seed in range(10)})
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr("srnet.report.rounds.estimate", lambda nodes, store: Estimate(1, 1, 15.0, 1))
    # the clock shows 10 s more at each look: started at 0, the first round at 10, the second at 20
    finding = run(order, engine, budget=30.0, clock=lambda: float(next(times)))
    assert (finding.answer, finding.seeds, engine.calls) == (OPEN, 3, 1)
    assert "seed 3: not begun, it would take about 15 s, and 10 s" in engine.lines[-1]


def test_nothing_is_begun_when_the_budget_is_used_up(tmp_path: Path) -> None:
    order, engine = setup(tmp_path, {})
    times = iter((0.0, 31.0))
    finding = run(order, engine, budget=30.0, clock=lambda: next(times))
    assert (finding.answer, engine.calls) == (OPEN, 0)
    assert [line.split(": ")[-1] for line in engine.lines] == ["not begun, the budget is used up"]


@pytest.mark.parametrize("limit", [2, 10**9])
def test_a_limit_below_the_start_or_beyond_reason_is_refused(limit: int, tmp_path: Path) -> None:
    with refused(limit):
        run(*setup(tmp_path, {}), max_seeds=limit)


def test_the_claim_that_needs_fewest_seeds_comes_first(tmp_path: Path) -> None:
    """Two tasks: the one whose seeds agree better is computed first."""
    for name in ("inference", "paraphrase"):
        (tmp_path / f"{name}.yaml").write_text(f"{{name: {name}, train_size: 20, dev_size: 1000, ood_size: 1000}}")
    files = (f"{tmp_path}/paraphrase.yaml", f"{tmp_path}/inference.yaml")
    order = Order(("fig8",), tasks=files, seeds=(0, 1, 2))

    class Two(StubEngine):
        def answers(self, node: Evaluate) -> dict[str, np.ndarray]:
            spread = 0.04 if node.model.task_spec.name == "inference" else 0.06
            self.gain = {seed: 0.1 + spread * (-1) ** seed for seed in range(12)}
            return super().answers(node)

    engine: Any = Two(Store(tmp_path / "store").open(), {})
    found = [f for f in Rounds(order.recipes(), engine, 12).run() if f.claim.name == "gradual"]
    later = [line for line in engine.lines if "first seeds" not in line]
    assert later[0].startswith("fig8 on inference, seed 3")
    assert [finding.answer for finding in found] == [HOLDS, HOLDS]
    assert found[0].seeds > found[1].seeds, "figures have seeds of their own"


def test_it_runs_from_the_api(tmp_path: Path) -> None:
    order, engine = setup(tmp_path, dict.fromkeys(range(10), 0.1))
    found = {each.claim.name: each for each in claims_until_answered(order, max_seeds=4, engine=engine)}
    assert found["gradual"].answer == HOLDS
    assert found["gradual"].alpha == pytest.approx(0.025 / 2), "there are two looks, at 3 and at 4 seeds"
    assert "one-sided level of 0.013" in str(findings_table(list(found.values())).note)


# --- durations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("60m", 3600.0), ("2h", 7200.0), ("1.5h", 5400.0), (" 5m ", 300.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "m", "0s", "-5m", "1e3s", "nan h", "infh", "5 m", "2d", "h2", "²s", "x" * 500]
)
def test_what_is_no_duration(text: str) -> None:
    with refused("not a duration", text[:80]):
        seconds_of(text)
