"""Whole experiments: the demonstration, the papers' figures and claims, recipes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from srnet.config.fields import as_cli_args
from srnet.core.files import require_writable
from srnet.core.progress import is_secondary_rank
from srnet.core.prose import sentences
from srnet.core.tables import ShownList, Table
from srnet.evaluation import MIN_SEEDS
from srnet.experiment.engine import Engine
from srnet.recipes.demo import DemoSettings, demo_recipe
from srnet.recipes.files import load_recipe
from srnet.recipes.order import Order
from srnet.recipes.recipe import Recipe, with_latencies
from srnet.report.claims import Finding, answer_claims
from srnet.report.evidence import RecipeEvidence
from srnet.report.masks import mask_pictures
from srnet.report.page import Page, Section, report_files, section_id, write_report
from srnet.report.results import Results
from srnet.report.rounds import Rounds
from srnet.tasks.synthetic import SyntheticTask


def demo(
    out: Path | str = "srnet-demo", *, task: SyntheticTask | None = None, engine: Engine | None = None, **settings: Any
) -> Results:
    """Find sparse and robust subnetworks on the embedded benchmark and write table, curves and report to `out`.

    `task` is one of the benchmark; `settings` are fields of `DemoSettings`: seeds, sparsities, steps; `engine` runs it.
    """
    task = task or SyntheticTask("inference")
    command = shlex.join(["srnet", "demo", *as_cli_args(task), *as_cli_args(DemoSettings(**settings))])
    return run_recipe(demo_recipe(task, **settings), out, engine, command)


def run(spec: Path | str, out: Path | str | None = None, *, engine: Engine | None = None) -> Results:
    """Run the recipe in the YAML file `spec` with `engine`, and write its report to `out`."""
    recipe = load_recipe(spec)
    return run_recipe(recipe, out or recipe.folder, engine, f"srnet run {shlex.quote(str(spec))}")


def run_recipe(
    recipe: Recipe,
    out: Path | str,
    engine: Engine | None = None,
    command: str = "srnet.run_recipe",
    speed: bytes | None = None,
    lead: Sequence[str] = (),
    beside: Table | None = None,
) -> Results:
    """Run `recipe` with `engine` and write its report to `out`.

    `command` is what the report says it was made by, `speed` a picture of speed against score for it. `lead` are the
    sentences that stand first, with commands in backticks; without them the report begins with its own conclusion.
    `beside` is a table that compares a chosen model with others.
    """
    page = _report([recipe], Path(out), engine or Engine(), recipe.name, command, speed=speed, lead=lead, beside=beside)
    return page.sections[0].results


def reproduce(order: Order, out: Path | str | None = None, *, engine: Engine | None = None) -> Page:
    """Run the figures of `order` with `engine`, check the paper's claims on them, and write one report to `out`."""
    engine, recipes = engine or Engine(), order.recipes()
    title = f"{', '.join(order.figures)}, profile {order.profile}"
    return _report(recipes, Path(out or order.folder), engine, title, order.command(), order)


def _report(
    recipes: Sequence[Recipe],
    out: Path,
    engine: Engine,
    title: str,
    command: str,
    order: Order | None = None,
    speed: bytes | None = None,
    lead: Sequence[str] = (),
    beside: Table | None = None,
) -> Page:
    first = sentences(lead)
    require_writable(out, *report_files(*(section_id(recipe.name, recipe.task.name) for recipe in recipes)))
    recipes = [with_latencies(recipe, engine) for recipe in recipes]
    engine.execute([node for recipe in recipes for node in recipe.nodes()])
    evidence = [RecipeEvidence(recipe, engine.store) for recipe in recipes]
    sections = []
    for each in evidence:
        pictures, name = mask_pictures(each.recipe, engine.store), each.recipe.name
        sections.append(Section(Results(each), pictures, command if order is None else order.command(name)))
    findings = [] if order is None else [found for found in answer_claims(evidence) if found.conditions]
    page = Page(title, command, sections, findings, speed, beside, first)
    if not is_secondary_rank():
        write_report(page, out)
    return page


def claims(order: Order, engine: Engine | None = None) -> ShownList[Finding]:
    """The paper's claims, on what the store of `engine` has of the figures of `order`. Nothing is computed.

    An order without seeds has as many as an answer needs: three, and four with the profile paper.
    """
    store, recipes = (engine or Engine()).store, order.seeded(MIN_SEEDS).recipes()
    return ShownList(answer_claims([RecipeEvidence(recipe, store) for recipe in recipes]))


def claims_until_answered(
    order: Order, *, max_seeds: int = 10, budget: float | None = None, engine: Engine | None = None
) -> ShownList[Finding]:
    """The paper's claims, with seeds added to the figures of `order` until each is answered or a limit is reached.

    `budget` is in seconds, of `engine`; the default of the order's seeds is that of `claims`. Each look is tested at a
    level of 0.05 divided by the number of planned looks, one for the seeds of the order and one for each further seed
    up to `max_seeds`.
    """
    return ShownList(Rounds(order.seeded(MIN_SEEDS).recipes(), engine or Engine(), max_seeds, budget).run())
