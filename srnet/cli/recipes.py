"""Commands that run whole experiments: the demonstration, the paper's figures, your own recipe."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import srnet
from srnet.cli.options import Command, Fields
from srnet.cli.program import Given, Json, Run, app, out, runnable
from srnet.config.fields import option
from srnet.config.values import SeedCount
from srnet.core.errors import UserError


@dataclass(frozen=True)
class _Limits:
    """What `srnet claims` may compute."""

    until_answered: bool = option(False, alone=True)
    """Compute further seeds until each claim is answered or a limit is met."""
    max_seeds: SeedCount = 10
    """With --until-answered: at most so many seeds per figure."""
    budget: str | None = None
    """With --until-answered: begin nothing that would take longer; 90s, 60m, 2h."""


FIGURES = "fig2 ... fig8, figA1, figA2, figA3, tab5, tab6, or all of these; smp, robust-smp. Several are fine."
Figures = Annotated[
    list[str] | None, typer.Argument(help=f"{FIGURES} With --dry-run the default is all.", show_default=False)
]
ClaimOptions = Annotated[
    Given, Fields("Options", "srnet.recipes.order:Order", without=("other_backbones", "lines", "baselines"))
]
LimitOptions = Annotated[Given, Fields("Options", _Limits)]
Spec = Annotated[Path, typer.Argument(help="A YAML file with task, lines, seeds and settings.")]
RunOptions = Annotated[Given, Fields("Run", Run, show_defaults=False)]
ClaimRun = Annotated[Given, Fields("Run", Run, only=("engine", "workers", "device", "store"), show_defaults=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be computed and how long, and stop.")]
Measure = Annotated[
    bool, typer.Option("--measure", help="As --dry-run, and time a few steps where no stored training gives the pace.")
]
Out = Annotated[Path | None, typer.Option("--out", help="Default: srnet-NAME in this folder.")]
DemoOut = Annotated[Path, typer.Option("--out", help="Where table, curves and report go.")]


@app.command("demo", cls=Command)
def _demo(
    *,
    folder: DemoOut = Path("srnet-demo"),
    dry_run: DryRun = False,
    measure: Measure = False,
    settings: Annotated[Given, Fields("Options", "srnet.recipes.demo:DemoSettings")],
    data: Annotated[Given, Fields("Data", "srnet.tasks.synthetic:SyntheticTask")],
    run: RunOptions,
) -> None:
    """Find a sparse and robust subnetwork on the embedded benchmark: no network, no GPU, some minutes.

    The full model is fine-tuned on data with a shortcut and relies on it, however long it trains. Pruning it with a
    debiasing objective finds a subnetwork that does not. Run it again and it continues where it was.
    """
    engine, task = Run(**{"engine": "pool", **run}).start(), srnet.SyntheticTask(**data)
    if dry_run or measure:
        print_plan(srnet.plan([srnet.demo_recipe(task, **settings)], engine, measure=measure))
    else:
        results = srnet.demo(folder, task=task, **settings, engine=engine)
        _print_results([results], folder)
        if results.page_command:
            store = f" --store {shlex.quote(str(run['store']))}" if "store" in run else ""
            out.print(f"Try both models, side by side: {runnable(results.page_command)}{store}")


@app.command("run", cls=Command)
def _run(*, spec: Spec, folder: Out = None, dry_run: DryRun = False, measure: Measure = False, run: RunOptions) -> None:
    """Run your own recipe: which models, at which sparsities, with which seeds, on which data."""
    engine = Run(**run).start()
    if dry_run or measure:
        print_plan(srnet.plan([srnet.load_recipe(spec)], engine, measure=measure))
    else:
        results = srnet.run(spec, folder, engine=engine)
        _print_results([results], folder or results.recipe.folder)


@app.command("reproduce", cls=Command)
def _reproduce(
    *,
    figures: Figures = None,
    folder: Out = None,
    dry_run: DryRun = False,
    measure: Measure = False,
    order: Annotated[Given, Fields("Options", "srnet.recipes.order:Order")],
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
    if not figures and not (dry_run or measure):
        raise UserError("no figure was named", f"name some, or all: {FIGURES}")
    engine, wanted = Run(**run).start(), srnet.Order(tuple(figures or ("all",)), **order)
    if dry_run or measure:
        recipes, why = (wanted.recipes(), "") if measure else wanted.planned()
        print_plan(srnet.plan(recipes, engine, measure=measure))
        if why:
            out.print(f"From the published sizes of the data, because they or a backbone are not here: {why}")
        for name, recipe in {each.name: each for each in recipes}.items():
            out.print(f"--line of {name}: {', '.join(map(shlex.quote, recipe.every_line))}")
        out.print(runnable(wanted.command()))
        return
    report = srnet.reproduce(wanted, folder, engine=engine)
    _print_results([section.results for section in report.sections], folder or wanted.folder)
    for finding in report.findings:
        note = f" ({finding.note})" if finding.note else ""
        out.print(f"{finding.task}, {finding.claim.name}: {finding.answer}{note}")
    if report.findings:
        out.print(runnable("The figures behind each answer: in the report, and from `srnet claims`."))


@app.command("claims", cls=Command)
def _claims(*, order: ClaimOptions, limits: LimitOptions, run: ClaimRun, json: Json = False) -> None:
    """Check the paper's claims on what the store holds: holds, does not hold, or not enough evidence.

    Nothing is computed: run `srnet reproduce all --seeds 3` first. A claim holds only if every interval it rests on
    lies on its side.

    With --until-answered figures are computed: first with --seeds seeds, then one more at a time, for the unanswered
    claim that needs the fewest. Looking repeatedly finds more by chance, so each look is tested at a level of 0.05
    divided by the number of planned looks (max seeds - seeds + 1). Whatever was computed stays in the store.
    """
    from srnet.experiment.estimate import seconds_of
    from srnet.report.tables import findings_table

    until_answered = limits.pop("until_answered", False)
    ignored = [] if until_answered else [name for name in (*limits, *run) if name != "store"]
    if ignored:
        raise UserError(f"--{ignored[0].replace('_', '-')} is for --until-answered", "without it nothing is computed")
    if "budget" in limits:
        limits["budget"] = seconds_of(limits["budget"])
    engine = Run(**run, quiet=json or not until_answered).start()
    compute = srnet.claims_until_answered if until_answered else srnet.claims
    found = compute(srnet.Order(**order), engine=engine, **limits)
    if json:
        out.print_json(data=[finding.to_json() for finding in found])
    else:
        out.print(findings_table(found))


def _print_results(results: list[Any], folder: Path) -> None:
    from srnet.report.tables import results_table, verdict_line

    for each in results:
        warnings = (f"Warning: {warning}." for warning in each.warnings)
        out.print(results_table(each), verdict_line(each), *warnings, *each.notes, sep="\n")
    out.print(f"Report: {folder / 'report.html'}")


def print_plan(plan: Any) -> None:
    for node, stored in [] if plan.is_outline else plan.steps:
        out.print(f"{node.key}  {'stored' if stored else 'to do '}  {node.label}:  {node.formula}")
    more = [plan.sharing] if plan.sharing else []
    more += [] if plan.written is None else [f"written: {plan.written}"]
    out.print(*plan.figures, *more, f"{plan.summary}; nothing was done", sep="\n")
