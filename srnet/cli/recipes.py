"""Commands that run whole experiments: the demonstration, the paper's figures, your own recipe."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from srnet.cli.app import (
    CompileOption,
    DryRunOption,
    EngineOption,
    JsonOption,
    PrecisionOption,
    QuietOption,
    ReportOption,
    StepsOption,
    StoreOption,
    WorkersOption,
    app,
    bias_options,
    data_options,
    listed,
    make_engine,
    numbers,
    options,
    out,
)


class TaskName(StrEnum):
    inference = "inference"
    paraphrase = "paraphrase"
    verification = "verification"


class ProfileName(StrEnum):
    toy = "toy"
    cpu = "cpu"
    paper = "paper"


@app.command()
def demo(
    out_folder: Annotated[Path, typer.Option("--out", help="Where table, curves and report go.")] = Path("srnet-demo"),
    task: Annotated[TaskName, typer.Option(help="Which task of the embedded benchmark.")] = TaskName.inference,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds. With fewer than 3 there is no verdict.")] = 3,
    sparsities: Annotated[str, typer.Option(help="Shares to prune, with commas.")] = "0.5,0.7",
    noise: Annotated[
        float | None, typer.Option(help="How often the truth does not agree with the label. Default 0.06.")
    ] = None,
    train_size: Annotated[int | None, typer.Option(help="Training examples.")] = None,
    steps: StepsOption = None,
    dry_run: DryRunOption = False,
    engine: EngineOption = "pool",
    workers: WorkersOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Find a sparse and robust subnetwork on the embedded benchmark: no network, no GPU, some minutes.

    The full model is fine-tuned on data with a shortcut and falls for it, however long it trains. Pruning it with a
    debiasing objective finds a subnetwork that does not. Run it again and it continues where it was.
    """
    from srnet import api
    from srnet.recipes import demo_recipe
    from srnet.tasks.synthetic import SyntheticTask

    dials = {"noise": noise, "train_size": train_size}
    spec = SyntheticTask(task.value, **{name: value for name, value in dials.items() if value is not None})  # type: ignore[arg-type]
    shares = numbers(sparsities, "--sparsities")
    made = make_engine(store, quiet, report_to, engine, workers)
    if dry_run:
        _print_plan(made, [demo_recipe(spec, seeds, shares, steps)])
        return
    results = api.demo(out_folder, task=spec, seeds=seeds, sparsities=shares, steps=steps, engine=made)
    _print_results([results], out_folder)


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(help="A YAML file with task, lines, seeds and settings.")],
    out_folder: Annotated[Path | None, typer.Option("--out", help="Default: srnet-NAME in this folder.")] = None,
    dry_run: DryRunOption = False,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run your own recipe: which models, at which sparsities, with which seeds, on which data."""
    from srnet import api
    from srnet.recipes import load_recipe

    recipe = load_recipe(spec)
    made = make_engine(store, quiet, report_to, engine, workers)
    if dry_run:
        _print_plan(made, [recipe])
        return
    folder = out_folder or Path(f"srnet-{recipe.name}")
    _print_results([api.run(spec, folder, engine=made)], folder)


ProfileOption = Annotated[
    ProfileName,
    typer.Option(help="toy: the embedded benchmark. cpu: your data, a small backbone. paper: the published settings."),
]
TasksOption = Annotated[
    str | None,
    typer.Option(
        help="With commas: inference, paraphrase, verification; mnli, snli, qqp, fever; the rest of GLUE and squad for "
        "smp; YAML files. Default: all that a figure is shown on."
    ),
]
SeedsOption = Annotated[
    int | None, typer.Option(min=1, help="How many seeds. Default 1; 4 with the profile paper.", show_default=False)
]
ClaimSeedsOption = Annotated[
    int | None, typer.Option(min=1, help="How many seeds. Default 3; 4 with the profile paper.", show_default=False)
]
WithoutVectorsOption = Annotated[
    bool,
    typer.Option(
        "--without-vectors",
        help="Profile paper: measure the shortcut on words alone, though the paper's bias models read word vectors.",
    ),
]
AsPublishedOption = Annotated[
    bool,
    typer.Option(
        "--as-published",
        help="Do as the published code does where ours departs from it and has a switch: thresholds at the k-th score "
        "and moved at evaluations only, gradual sparsity and SMP's lambda growing to the end of the run.",
    ),
]
CLAIM_SEEDS = 3
"""Fewer prove nothing."""
SparsitiesOption = Annotated[
    str | None, typer.Option(help="Shares to prune, with commas, where a figure shows several. Default: the profile's.")
]
OtherBackboneOption = Annotated[str | None, typer.Option("--backbone", help="Instead of the profile's backbone.")]
OthersOption = Annotated[str | None, typer.Option(help="For tab6: folders or hub names, with commas.")]
WeightRateOption = Annotated[
    float | None,
    typer.Option(
        "--learning-rate", help="Of the weights, instead of the profile's: smaller backbones take larger ones."
    ),
]
LinesOption = Annotated[
    list[str] | None, typer.Option("--line", help="Only this line of a figure, by its label. Repeatable.")
]
WordsOption = Annotated[
    str | None,
    typer.Option(
        "--label-words",
        help="One word a label, with commas, or none for a classifier. Default, for smp and robust-smp: the task's own "
        "words where the backbone brings a masked-language-model head.",
    ),
]
ScaleOption = Annotated[float, typer.Option(help="Multiply the length of every training, e.g. 0.1 for a trial.")]


def _order(
    figures: list[str], profile: ProfileName, tasks: str | None, seeds: int | None, sparsities: str | None,
    backbone: str | None, other_backbones: str | None, scale: float, data: Any, bias: Any,
    precision: str | None = None, compile: bool | None = None, lines: list[str] | None = None, words: str | None = None,
    learning_rate: float | None = None, without_vectors: bool = False, as_published: bool = False,
) -> Any:  # fmt: skip
    from srnet.experiment import BiasSpec
    from srnet.recipes import Order

    return Order(
        figures=tuple(figures),
        profile=profile.value,
        tasks=tuple(tasks.split(",")) if tasks else (),
        seeds=tuple(range(seeds or 0)),
        sparsities=numbers(sparsities, "--sparsities") if sparsities else (),
        backbone=backbone,
        other_backbones=tuple(other_backbones.split(",")) if other_backbones else (),
        scale=scale,
        data=data,
        bias=bias or BiasSpec(),
        precision=precision or "float32",  # type: ignore[arg-type]
        compile=bool(compile),
        lines=tuple(lines or ()),
        words=_words(words),
        learning_rate=learning_rate,
        without_vectors=without_vectors,
        as_published=as_published,
    )


def _words(text: str | None) -> tuple[str, ...] | None:
    from srnet.recipes.order import NO_WORDS

    if text is None:
        return None
    return () if text == NO_WORDS else listed(text)


@app.command()
@options(data=data_options, bias=bias_options)
def reproduce(
    figures: Annotated[
        list[str],
        typer.Argument(
            help="fig2 ... fig8, figA1, figA2, figA3, tab5, tab6, or all of these; smp, robust-smp. Several are fine."
        ),
    ],
    profile: ProfileOption = ProfileName.toy,
    tasks: TasksOption = None,
    data: Any = None,
    seeds: SeedsOption = None,
    sparsities: SparsitiesOption = None,
    backbone: OtherBackboneOption = None,
    other_backbones: OthersOption = None,
    precision: PrecisionOption = None,
    compile: CompileOption = None,
    bias: Any = None,
    scale: ScaleOption = 1.0,
    learning_rate: WeightRateOption = None,
    line: LinesOption = None,
    words: WordsOption = None,
    without_vectors: WithoutVectorsOption = False,
    as_published: AsPublishedOption = False,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Default: srnet-NAME in this folder.")] = None,
    dry_run: DryRunOption = False,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    store: StoreOption = None,
    report_to: ReportOption = None,
    quiet: QuietOption = False,
) -> None:
    """Reproduce figures and tables of "A Win-win Deal" and check its claims; compare static model pruning with its kin.

    Each distinct training runs once, whichever figures need it, and never again once the store has it. Stop it whenever
    you like; the same command continues. Start with --dry-run.

    fig2 subnetworks of the CE model, fig3 of the PoE model, fig4 fine-tuned in isolation, fig5 without fine-tuning,
    fig6 and figA2 with OOD training data, fig7 and figA3 when to start the search, fig8 gradual against fixed sparsity,
    figA1 other debiasing objectives, tab5 initialisation and schedule, tab6 other backbones.

    smp: SMP-L, SMP-S, movement, soft movement, magnitude and L0 pruning, with and without distillation. robust-smp: SMP
    with debiasing objectives, in and out of distribution.
    """
    from srnet import api

    order = _order(
        figures,
        profile,
        tasks,
        seeds,
        sparsities,
        backbone,
        other_backbones,
        scale,
        data,
        bias,
        precision,
        compile,
        line,
        words,
        learning_rate,
        without_vectors,
        as_published,
    )
    made = make_engine(store, quiet, report_to, engine, workers)
    if dry_run:
        _print_plan(made, order.recipes())
        out.print(order.command(), markup=False)
        return
    report = api.reproduce(order, out_folder, engine=made)
    _print_results([section.results for section in report.sections], api.folder_of(order, out_folder))
    _print_answers(report.findings)


@app.command()
@options(data=data_options, bias=bias_options)
def claims(
    profile: ProfileOption = ProfileName.toy,
    tasks: TasksOption = None,
    data: Any = None,
    seeds: ClaimSeedsOption = None,
    sparsities: SparsitiesOption = None,
    backbone: OtherBackboneOption = None,
    precision: PrecisionOption = None,
    compile: CompileOption = None,
    bias: Any = None,
    scale: ScaleOption = 1.0,
    learning_rate: WeightRateOption = None,
    words: WordsOption = None,
    without_vectors: WithoutVectorsOption = False,
    as_published: AsPublishedOption = False,
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
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    store: StoreOption = None,
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
    from srnet.recipes.order import SEEDS
    from srnet.report import findings_table
    from srnet.report.claims import plain_finding

    if not until_answered:
        named = None if engine == "local" else engine
        _refuse_idle({"--max-seeds": max_seeds, "--budget": budget, "--engine": named, "--workers": workers})
    seconds = None if budget is None else seconds_of(budget)
    order = _order(
        ["all"],
        profile,
        tasks,
        seeds or max(CLAIM_SEEDS, SEEDS[profile.value]),
        sparsities,
        backbone,
        None,
        scale,
        data,
        bias,
        precision,
        compile,
        words=words,
        learning_rate=learning_rate,
        without_vectors=without_vectors,
        as_published=as_published,
    )
    if until_answered:
        made = make_engine(store, as_json, None, engine, workers)
        found = api.claims_until_answered(order, max_seeds=max_seeds or 10, budget=seconds, engine=made)
    else:
        found = api.claims(order, make_engine(store, True))
    if as_json:
        out.print_json(json.dumps([plain_finding(finding) for finding in found]))
        return
    out.print(findings_table(found))


def _refuse_idle(given: dict[str, object]) -> None:
    """An option that would be silently ignored is an error."""
    from srnet.errors import UserError

    for name, value in given.items():
        if value is not None:
            raise UserError(f"{name} is for --until-answered", "without it nothing is computed")


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
