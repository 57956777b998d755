"""The command that searches for a model to deploy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import srnet
from srnet.cli.models import Bias, LabelsAre
from srnet.cli.options import LINE, Choice, Command, Fields
from srnet.cli.program import Data, Given, Json, Run, app, out, runnable
from srnet.cli.recipes import DryRun, Measure, print_plan
from srnet.cli.speed import times_text
from srnet.core.errors import UserError
from srnet.core.names import EMBEDDED

Task = Annotated[
    str | None, typer.Argument(help="As in `srnet finetune`: a name, or a YAML file. Your own files: --train instead.")
]
Backbone = Annotated[str, typer.Option(help="A folder, a hub name, srnet-tiny or srnet-small.")]
Full = Annotated[
    str | None,
    typer.Option(help="Your own full model, already fine-tuned on the task: a folder or a hub name, not a backbone."),
]
Budget = Annotated[str | None, typer.Option(help="Do what fits into this time: 90s, 60m, 2h. Default: no limit.")]
Folder = Annotated[Path, typer.Option("--out", help="Folder for the model, the report and the audit.")]


@app.command("find", cls=Command)
def _find(
    *,
    ctx: typer.Context,
    task: Task = None,
    backbone: Backbone = EMBEDDED,
    full: Full = None,
    labels: LabelsAre,
    settings: Annotated[Given, Fields("Search", "srnet.finding.settings:FindSettings")],
    budget: Budget = None,
    dry_run: DryRun = False,
    measure: Measure = False,
    format: Annotated[Any, Choice("format", "srnet.models.formats.base:FORMATS", None)],
    folder: Folder = Path("srnet-find"),
    bias: Bias,
    data: Data,
    run: Annotated[Given, Fields("Run", Run)],
    json: Json = False,
) -> None:
    """Find the sparsest subnetwork that keeps the score and is not fooled by the shortcut.

    It begins with a survey: which cheap features predict the label. A full model is fine-tuned, and subnetworks are
    searched in it that do not rely on the shortcut, from dense to sparse, or with --speedup to fast. The sparsest one
    that keeps --keep-id of the ID score is trained with further seeds. It is chosen on ID dev alone; OOD scores are
    read once, at the end, for the verdict. Where units are pruned, the weights that are left are trained further. Stop
    it whenever you like; the same command continues.

    The first sentence has the scores of both models. Diagnoses follow, each with what to try: a full model that needs
    longer training (it is trained longer once by itself), a shortcut that is absent or that the model does not follow,
    no subnetwork that keeps the score. There is always a report and an audit.

    With --full the search starts from a model that was fine-tuned elsewhere, and is compared with it and with what it
    becomes if it is trained on as long as the search. Its labels are matched by name; --labels-are gives those that
    differ. It reads texts as long as it did, unless --max-length is given.

    Without OOD data nothing is claimed: the audit shows how errors depend on the strength of the shortcut.

    With --baselines a new head, LoRA, one-shot and Wanda pruning of the debiased model and int8 weights follow, with
    the steps and seeds of the chosen subnetwork, in one table with it. Nothing is chosen among them.

    --format is that of the model: shrunk where units are pruned, else subnetwork.
    """
    from srnet.experiment.estimate import seconds_of

    chosen, engine = srnet.FindSettings(**settings), Run(**run).start()
    spec = srnet.DataOptions(**data).task(task, say=engine.reporter.say)
    given = {
        "backbone": backbone,
        "full": full,
        **labels,
        "bias": srnet.BiasSpec(**bias) if bias else None,
        "budget": None if budget is None else seconds_of(budget),
        "format": format,
        "engine": engine,
    }
    if dry_run or measure:
        if json:
            raise UserError("a plan is not written as JSON", "leave --json out")
        plan = srnet.plan_find(spec, chosen, **given, measure=measure)
        print_plan(plan)
        if budget is not None:
            out.print(plan.fits or "--measure says what fits into the budget")
        return
    found = srnet.find(spec, chosen, **given, out=folder, command=ctx.meta[LINE])
    if json:
        out.print_json(data=found.to_json())
    else:
        _print_found(found, folder)


def _print_found(found: Any, folder: Path) -> None:
    """The result in plain words, what to do with it, then the figures behind it."""
    for line in found.lead:
        out.print(runnable(line))
    if found.scores is not None:
        _print_scores(found)
    if found.compared:
        from srnet.finding.comparison import comparison_table

        out.print(comparison_table(found.compared))
    for warning in found.warnings:
        out.print(f"Warning: {warning}.")
    if found.measured:
        _print_speed(*found.measured)
    paths = {"Model": found.folder, "Report": folder / "report.html", "Audit": folder / "audit" / "audit.html"}
    for name, path in paths.items():
        if path is not None:
            out.print(f"{name}: {path}")
    out.print(f"What the words mean: {folder / 'report.html'}#glossary")


def _print_scores(found: Any) -> None:
    for split, score in found.scores.items():
        gain = found.verdict.gains.get(split) if found.verdict else None
        out.print(f"  {split}: {score}" + (f", minus the full model {gain}" if gain else ""))
    if found.verdict is None:
        why = "no bias model is biased" if found.bias is None else "the task has no OOD data"
        out.print(f"No claim about robustness: {why}. The audit shows how errors depend on the shortcut.")
    else:
        out.print(f"Sparse and robust: {found.verdict}.")
    if found.speedup is not None:
        out.print(f"The encoder is {found.speedup:g} times as fast by estimate, once its units are removed: shrink it.")


def _print_speed(full: Any, small: Any) -> None:
    timings = [each for each in small.timings if each.rows == 1 and each.ratio is not None]
    if not timings:
        return
    timing = max(timings, key=lambda each: each.length)
    low, _, high = timing.ratio
    speed = "not measurably faster or slower" if low <= 1.0 <= high else f"{times_text(timing)} times as fast"
    out.print(
        f"Against the full model in torch, with one thread and one text of {timing.length} tokens:",
        f"{speed}, {small.bytes / 1e6:.1f} MB instead of {full.bytes / 1e6:.1f} MB.",
    )
