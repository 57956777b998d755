"""Commands that run whole experiments: the demonstration, the paper's figures, your own recipe."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from srnet.cli.app import JsonOption, Run, app, out
from srnet.cli.options import Fields, Instance, command
from srnet.errors import UserError
from srnet.options import option

CLAIM_SEEDS = 3
"""Fewer prove nothing."""
ORDER = "srnet.recipes:Order"
RunOptions = Annotated[Any, Instance("Run", Run)]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be computed and how long, and stop.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Default: srnet-NAME in this folder.")]


@dataclass(frozen=True)
class DemoSettings:
    """What the demo trains."""

    seeds: int = option(3, least=1)
    """How many seeds. With fewer than 3 there is no verdict."""
    sparsities: tuple[float, ...] = (0.5, 0.7)
    """Shares to prune, with commas."""
    steps: int | None = None
    """Optimisation steps of each training."""


@dataclass(frozen=True)
class PoolRun(Run):
    """As `Run`, but on all cores."""

    engine: Literal["local", "pool", "ray"] = "pool"


@command(app)
def demo(
    *,
    out_folder: Annotated[Path, typer.Option("--out", help="Where table, curves and report go.")] = Path("srnet-demo"),
    dry_run: DryRunOption = False,
    settings: Annotated[Any, Instance("Options", DemoSettings)],
    task: Annotated[Any, Instance("Data", "srnet.tasks.synthetic:SyntheticTask")],
    run: Annotated[Any, Instance("Run", PoolRun)],
) -> None:
    """Find a sparse and robust subnetwork on the embedded benchmark: no network, no GPU, some minutes.

    The full model is fine-tuned on data with a shortcut and falls for it, however long it trains. Pruning it with a
    debiasing objective finds a subnetwork that does not. Run it again and it continues where it was.
    """
    from srnet import api
    from srnet.recipes import demo_recipe

    engine, given = run.start(), (settings.seeds, settings.sparsities, settings.steps)
    if dry_run:
        _print_plan(engine, [demo_recipe(task, *given)])
        return
    results = api.demo(out_folder, task=task, **vars(settings), engine=engine)
    _print_results([results], out_folder)


@command(app)
def run(
    *,
    spec: Annotated[Path, typer.Argument(help="A YAML file with task, lines, seeds and settings.")],
    out_folder: OutOption = None,
    dry_run: DryRunOption = False,
    run: RunOptions,
) -> None:
    """Run your own recipe: which models, at which sparsities, with which seeds, on which data."""
    from srnet import api
    from srnet.recipes import load_recipe

    recipe, engine = load_recipe(spec), run.start()
    if dry_run:
        _print_plan(engine, [recipe])
        return
    folder = out_folder or Path(f"srnet-{recipe.name}")
    _print_results([api.run(spec, folder, engine=engine)], folder)


@command(app)
def reproduce(
    *,
    figures: Annotated[
        list[str],
        typer.Argument(
            help="fig2 ... fig8, figA1, figA2, figA3, tab5, tab6, or all of these; smp, robust-smp. Several are fine."
        ),
    ],
    out_folder: OutOption = None,
    dry_run: DryRunOption = False,
    order: Annotated[Any, Fields("Options", ORDER)],
    run: RunOptions,
) -> None:
    """Reproduce figures and tables of "A Win-win Deal" and check its claims; compare the methods of the SMP paper.

    Each distinct training runs once, whichever figures need it, and never again once the store has it. Stop it whenever
    you like; the same command continues. Start with --dry-run.

    fig2 subnetworks of the CE model, fig3 of the PoE model, fig4 fine-tuned in isolation, fig5 without fine-tuning,
    fig6 and figA2 with OOD training data, fig7 and figA3 when to start the search, fig8 gradual against fixed sparsity,
    figA1 other debiasing objectives, tab5 initialisation and schedule, tab6 other backbones.

    smp: SMP-L, SMP-S, movement, soft movement, magnitude and L0 pruning, with and without distillation. robust-smp: SMP
    with debiasing objectives, in and out of distribution.
    """
    from srnet import api

    wanted, engine = _order(figures, order), run.start()
    if dry_run:
        _print_plan(engine, wanted.recipes())
        out.print(wanted.command(), markup=False)
        return
    report = api.reproduce(wanted, out_folder, engine=engine)
    _print_results([section.results for section in report.sections], api.folder_of(wanted, out_folder))
    _print_answers(report.findings)


def _order(figures: list[str], given: dict[str, Any]) -> Any:
    from srnet.recipes import Order

    bias = {"bias": given["bias"].resolved(Path())} if "bias" in given else {}
    return Order(tuple(figures), **{**given, **bias})


@command(app)
def claims(
    *,
    order: Annotated[Any, Fields("Options", ORDER, without=("other_backbones", "lines"))],
    until_answered: Annotated[
        bool,
        typer.Option("--until-answered", help="Compute further seeds until each claim is answered or a limit is met."),
    ] = False,
    max_seeds: Annotated[
        int | None, typer.Option(min=1, help="With --until-answered: at most so many seeds a figure. Default: 10.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="With --until-answered: begin nothing that would take longer; 90s, 60m, 2h.")
    ] = None,
    run: Annotated[Any, Fields("Run", Run, only=("engine", "workers", "store"))],
    as_json: JsonOption = False,
) -> None:
    """Check the paper's claims on what the store holds: holds, does not hold, or not enough evidence.

    Nothing is computed: run `srnet reproduce all --seeds 3` first. A claim holds only if every interval it rests on
    lies on its side.

    With --until-answered figures are computed: first with --seeds seeds, then one more at a time, for the unanswered
    claim that needs the fewest. Looking repeatedly finds more by chance, so each look is tested at a level of 0.05
    divided by the number of planned looks (max seeds - seeds + 1). Whatever was computed stays in the store.
    """
    from srnet import api
    from srnet.experiment.estimate import seconds_of
    from srnet.report import findings_table
    from srnet.report.claims import plain_finding

    if not until_answered:
        _refuse_idle({"max_seeds": max_seeds, "budget": budget, **run})
    seconds = None if budget is None else seconds_of(budget)
    wanted = _order(["all"], order)
    if "seeds" not in order:
        wanted = replace(wanted, seeds=tuple(range(max(CLAIM_SEEDS, len(wanted.seeds)))))
    engine = Run(**run, quiet=as_json or not until_answered).start()
    if until_answered:
        found = api.claims_until_answered(wanted, max_seeds=max_seeds or 10, budget=seconds, engine=engine)
    else:
        found = api.claims(wanted, engine)
    if as_json:
        out.print_json(json.dumps([plain_finding(finding) for finding in found]))
        return
    out.print(findings_table(found))


def _refuse_idle(given: dict[str, object]) -> None:
    """An option that would be silently ignored is an error."""
    for name, value in given.items():
        if value is not None and name != "store":
            raise UserError(f"--{name.replace('_', '-')} is for --until-answered", "without it nothing is computed")


def _print_results(results: list[Any], folder: Path) -> None:
    from srnet.report import results_table, verdict_line

    for each in results:
        out.print(results_table(each))
        for line in (verdict_line(each), *(f"Warning: {warning}." for warning in each.warnings), *each.notes):
            out.print(line, markup=False)
    out.print(f"Report: {folder / 'report.html'}", markup=False)


def _print_answers(findings: list[Any]) -> None:
    for finding in findings:
        note = f" ({finding.note})" if finding.note else ""
        out.print(f"{finding.task}, {finding.claim.name}: {finding.answer}{note}", markup=False)
    if findings:
        out.print("The figures behind each answer: in the report, and from `srnet claims`.", markup=False)


def _print_plan(engine: Any, recipes: list[Any]) -> None:
    from srnet.api import plan

    made = plan(recipes, engine)
    for node, stored in made.steps:
        out.print(f"{node.key}  {'stored' if stored else 'to do '}  {node.label}:  {node.formula}", markup=False)
    for line in made.figures:
        out.print(line, markup=False)
    out.print(f"{made.summary}; nothing was done", markup=False)
