"""Commands that run whole experiments: the demonstration, the paper's figures, your own recipe."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import srnet
from srnet.cli.app import Given, JsonOption, Run, app, out, resolve_bias
from srnet.cli.options import Command, Fields
from srnet.errors import UserError

CLAIM_SEEDS = 3
"""Fewer prove nothing."""
ORDER = "srnet.recipes:Order"
RunOptions = Annotated[Given, Fields("Run", Run)]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be computed and how long, and stop.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Default: srnet-NAME in this folder.")]


@dataclass(frozen=True)
class PoolRun(Run):
    """As `Run`, but on all cores."""

    engine: Literal["local", "pool", "ray"] = "pool"


@app.command(cls=Command)
def demo(
    *,
    out_folder: Annotated[Path, typer.Option("--out", help="Where table, curves and report go.")] = Path("srnet-demo"),
    dry_run: DryRunOption = False,
    settings: Annotated[Given, Fields("Options", "srnet.api.experiments:DemoSettings")],
    data: Annotated[Given, Fields("Data", "srnet.tasks.synthetic:SyntheticTask")],
    run: Annotated[Given, Fields("Run", PoolRun)],
) -> None:
    """Find a sparse and robust subnetwork on the embedded benchmark: no network, no GPU, some minutes.

    The full model is fine-tuned on data with a shortcut and falls for it, however long it trains. Pruning it with a
    debiasing objective finds a subnetwork that does not. Run it again and it continues where it was.
    """
    from srnet.recipes import demo_recipe

    engine, task = PoolRun(**run).start(), srnet.SyntheticTask(**data)
    if dry_run:
        _print_plan(engine, [demo_recipe(task, **settings)])
    else:
        _print_results([srnet.demo(out_folder, task=task, **settings, engine=engine)], out_folder)


@app.command(cls=Command)
def run(
    *,
    spec: Annotated[Path, typer.Argument(help="A YAML file with task, lines, seeds and settings.")],
    out_folder: OutOption = None,
    dry_run: DryRunOption = False,
    run: RunOptions,
) -> None:
    """Run your own recipe: which models, at which sparsities, with which seeds, on which data."""
    from srnet.recipes import load_recipe

    recipe, engine = load_recipe(spec), Run(**run).start()
    if dry_run:
        _print_plan(engine, [recipe])
    else:
        folder = out_folder or Path(f"srnet-{recipe.name}")
        _print_results([srnet.run(spec, folder, engine=engine)], folder)


@app.command(cls=Command)
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
    order: Annotated[Given, Fields("Options", ORDER)],
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
    engine, wanted = Run(**run).start(), srnet.Order(tuple(figures), **resolve_bias(order))
    if dry_run:
        recipes = wanted.recipes()
        _print_plan(engine, recipes)
        for name, recipe in {each.name: each for each in recipes}.items():
            labels = dict.fromkeys(point.label for point in recipe.figure(recipe.profile))
            out.print(f"--line of {name}: {', '.join(map(shlex.quote, labels))}")
        out.print(wanted.command())
        return
    folder = out_folder or Path(f"srnet-{'-'.join(figures)}")
    report = srnet.reproduce(wanted, folder, engine=engine)
    _print_results([section.results for section in report.sections], folder)
    for finding in report.findings:
        note = f" ({finding.note})" if finding.note else ""
        out.print(f"{finding.task}, {finding.claim.name}: {finding.answer}{note}")
    if report.findings:
        out.print("The figures behind each answer: in the report, and from `srnet claims`.")


@app.command(cls=Command)
def claims(
    *,
    order: Annotated[Given, Fields("Options", ORDER, without=("other_backbones", "lines"))],
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
    run: Annotated[Given, Fields("Run", Run, only=("engine", "workers", "store"))],
    as_json: JsonOption = False,
) -> None:
    """Check the paper's claims on what the store holds: holds, does not hold, or not enough evidence.

    Nothing is computed: run `srnet reproduce all --seeds 3` first. A claim holds only if every interval it rests on
    lies on its side.

    With --until-answered figures are computed: first with --seeds seeds, then one more at a time, for the unanswered
    claim that needs the fewest. Looking repeatedly finds more by chance, so each look is tested at a level of 0.05
    divided by the number of planned looks (max seeds - seeds + 1). Whatever was computed stays in the store.
    """
    from srnet.experiment.estimate import seconds_of
    from srnet.report import findings_table
    from srnet.report.claims import plain_finding

    limits = {"max_seeds": max_seeds, "budget": None if budget is None else seconds_of(budget)}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    ignored = [] if until_answered else [name for name in (*given, *run) if name != "store"]
    if ignored:
        raise UserError(f"--{ignored[0].replace('_', '-')} is for --until-answered", "without it nothing is computed")
    wanted = srnet.Order(**resolve_bias(order))
    if "seeds" not in order:
        wanted = replace(wanted, seeds=tuple(range(max(CLAIM_SEEDS, len(wanted.seeds)))))
    engine = Run(**run, quiet=as_json or not until_answered).start()
    compute = srnet.claims_until_answered if until_answered else srnet.claims
    found = compute(wanted, engine=engine, **given)
    if as_json:
        out.print_json(data=[plain_finding(finding) for finding in found])
    else:
        out.print(findings_table(found))


def _print_results(results: list[Any], folder: Path) -> None:
    from srnet.report import results_table, verdict_line

    for each in results:
        out.print(results_table(each))
        warnings = (f"Warning: {warning}." for warning in each.warnings)
        out.print(verdict_line(each), *warnings, *each.notes, sep="\n")
    out.print(f"Report: {folder / 'report.html'}")


def _print_plan(engine: Any, recipes: list[Any]) -> None:
    plan = srnet.plan(recipes, engine)
    for node, stored in plan.steps:
        out.print(f"{node.key}  {'stored' if stored else 'to do '}  {node.label}:  {node.formula}")
    out.print(*plan.figures, f"{plan.summary}; nothing was done", sep="\n")
