"""Which results are evidence for a claim: figures, seeds, tasks; and how its finding is shown.

No model is trained here: predictions are made up (`stories.py`).
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small import Sized, small_defaults
from stories import FAILS, HOLDS, LESS, OPEN, POOR, Made, Story, check_claims, every, findings, recipes_of, write

from srnet import api
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate
from srnet.experiment.store import Store
from srnet.recipes.figures import FIGURES, FIXED, GRADUAL, MASK_CE, MASK_POE
from srnet.recipes.order import Order
from srnet.recipes.profiles import paper_profile, toy_profile
from srnet.report.claims import CLAIMS
from srnet.report.tables import findings_table
from srnet.tasks.files import FilesTask

pytestmark = pytest.mark.usefixtures("keys_are_cheap")

# --- what is missing -----------------------------------------------------------------------------------------------


def test_one_figure_answers_its_own_claims_only(order: Order, own_store: Store) -> None:
    found = findings(order, own_store, "fig8", {(FIXED,): LESS})
    assert found["gradual"].answer == HOLDS
    assert {name for name, finding in found.items() if finding.conditions} == {"gradual"}


def test_a_figure_that_lacks_one_seed_is_not_there(order: Order, own_store: Store) -> None:
    recipes = [recipe for recipe in recipes_of(order) if recipe.name == "fig8"]
    write(recipes, own_store, {(FIXED,): LESS})
    last = recipes[0].points[-1].node
    (own_store.path(Evaluate(last).key) / "logits.npz").write_bytes(b"damaged")
    fresh = Store(own_store.root)
    (finding,) = [found for found in check_claims(recipes, fresh) if found.claim.name == "gradual"]
    assert (finding.answer, finding.note) == (OPEN, "fig8 has not been computed with these seeds and sparsities")


def test_a_figure_that_was_not_asked_for_is_not_there(order: Order, own_store: Store) -> None:
    recipes = [recipe for recipe in recipes_of(order) if recipe.name == "fig8"]
    write(recipes, own_store, {(FIXED,): LESS})
    found = {finding.claim.name: finding for finding in check_claims(recipes, own_store)}
    assert found["gradual"].answer == HOLDS
    assert found["confreg"].note == "figA1 has not been computed with these seeds and sparsities"


@pytest.mark.parametrize(("seeds", "said"), [(1, "one seed"), (2, "2 seeds")])
def test_with_fewer_than_three_seeds_nothing_is_answered(seeds: int, said: str, order: Order, own_store: Store) -> None:
    few = Order(tasks=order.tasks, seeds=tuple(range(seeds)))
    recipes = few.recipes()
    best: Story = {(GRADUAL,): Made(1.0, 1.0), (FIXED,): POOR} | every((MASK_CE, MASK_POE), Made(1.0, 1.0))
    write(recipes, own_store, best)
    for finding in check_claims(recipes, own_store):
        assert finding.answer == OPEN
        assert finding.note == f"{said}; at least 3 are needed"
        assert finding.conditions, "the figures are shown nevertheless"
        assert finding.seeds == seeds
        assert {part.answer for part in finding.conditions} == {OPEN}


# --- all of them ---------------------------------------------------------------------------------------------------


def test_each_task_is_answered_by_itself(tmp_path: Path, own_store: Store) -> None:
    for name in ("inference", "paraphrase"):
        (tmp_path / f"{name}.yaml").write_text(f"{{name: {name}, train_size: 20, dev_size: 300, ood_size: 300}}")
    order = Order(("fig8",), tasks=(f"{tmp_path}/inference.yaml", f"{tmp_path}/paraphrase.yaml"), seeds=(0, 1, 2))
    first, second = order.recipes()
    write([first], own_store, {(FIXED,): LESS})
    write([second], own_store, {(GRADUAL,): LESS})
    found = api.claims(order, Engine(own_store, Reporter(quiet=True)))
    answers = {f.task: f.answer for f in found if f.claim.name == "gradual"}
    assert answers == {"inference": HOLDS, "paraphrase": FAILS}
    assert len(found) == 2 * len(CLAIMS)


def test_the_appendix_is_evidence_for_the_other_tasks(tmp_path: Path, monkeypatch: Any, own_store: Store) -> None:
    """`reproduce all` shows the upper bound and the start of the other tasks in figA2 and figA3: they are computed."""
    monkeypatch.setattr("srnet.tasks.synthetic.SyntheticTask.__init__.__defaults__", small_defaults(40, 40, 40))
    order = Order(seeds=(0, 1, 2))
    assert {"figA2", "figA3"} <= {recipe.name for recipe in order.recipes() if recipe.task.name == "paraphrase"}
    write(order.recipes(), own_store, {})
    found = api.claims(order, Engine(own_store, Reporter(quiet=True)))
    assert {f.task for f in found} == {"inference", "paraphrase", "verification"}
    unheard = [(f.task, f.claim.name, f.note) for f in found if not f.conditions]
    assert unheard == [], "everything was computed"


def test_the_start_half_way_can_be_judged_with_the_published_settings(own_store: Store) -> None:
    """There no search begins at exactly 50 %: the paper looks at step 20,000 of 36,816."""
    recipe = FIGURES["fig7"].recipe(replace(paper_profile(Sized("mnli", 392_702)), seeds=(0, 1, 2)))
    write([recipe], own_store, {})
    found = {finding.claim.name: finding for finding in check_claims([recipe], own_store)}
    assert found["early-stopping"].answer == HOLDS
    assert found["late-start"].note == ""
    assert found["late-start"].answer == HOLDS


def test_the_table_and_the_json_say_what_was_found(order: Order, own_store: Store) -> None:
    found = findings(order, own_store, "fig8", {(FIXED,): LESS})
    console = Console(width=250, file=io.StringIO(), record=True)
    console.print(findings_table(list(found.values())))
    text = console.export_text()
    for words in (
        "holds",
        "fig2 has not been computed with these seeds and sparsities",
        "gradual minus fixed, ID dev: +10.0 [",
        "3 seeds",
        "section 5.2",
    ):
        assert words in text
    plain = found["gradual"].to_json()
    assert (plain["task"], plain["claim"], plain["answer"], plain["seeds"]) == ("inference", "gradual", HOLDS, 3)
    assert [figure["answer"] for figure in plain["figures"]] == [HOLDS, HOLDS]
    assert plain["figures"][0]["difference"] == pytest.approx(10.0)
    assert plain["figures"][0]["low"] > plain["figures"][0]["bar"] == 0.0


def test_without_ood_data_no_claim_is_answered(tmp_path: Path) -> None:
    rows = "text_a,text_b,label\n" + "".join(f"a b,a {n},{'yes' if n % 2 else 'no'}\n" for n in range(8))
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text(rows)
    task = FilesTask("mine", ("no", "yes"), str(tmp_path / "train.csv"), str(tmp_path / "dev.csv"), leaks="keep")
    recipes = [figure.recipe(toy_profile(task)) for figure in FIGURES.values()]
    found = check_claims(recipes, Store(tmp_path / "store"))
    assert {(finding.answer, finding.note) for finding in found} == {(OPEN, "the task has no OOD data")}
