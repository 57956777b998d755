"""The search for a model to deploy, and everything that it leaves in a folder."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from srnet.api.experiments import run_recipe
from srnet.api.models import export_model
from srnet.api.speeds import by_score, speed_picture
from srnet.audit.run import audit_models
from srnet.audit.writing import check_writable
from srnet.core.errors import UserError
from srnet.core.files import read_json, require_writable, write_json
from srnet.core.names import EMBEDDED
from srnet.core.progress import is_secondary_rank
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import Evaluate, ModelNode
from srnet.experiment.store import Store
from srnet.finding.search import Find, Found
from srnet.finding.settings import FindSettings
from srnet.masks.granularity import WEIGHT
from srnet.models.formats.base import FORMATS, Format, get_format
from srnet.models.formats.card import score_name, scores_of_graph
from srnet.recipes.recipe import Plan, plan
from srnet.report.page import report_files, section_id
from srnet.timing.measuring import measure_speed
from srnet.timing.pace import Pace

PACE = Pace(rounds=15, lengths=(8, 32, 128), batch=8, threads=1, memory=False)
"""Short, with a length that every model can read, and one thread: two wait for each other on a busy machine."""
AUDIT = "audit"
"""The folder of the audit in the folder of a search."""


def find(
    task: TaskSpec,
    settings: FindSettings | None = None,
    *,
    backbone: str = EMBEDDED,
    bias: BiasSpec | None = None,
    budget: float | None = None,
    format: str | Format | None = None,
    out: Path | str = "srnet-find",
    engine: Engine | None = None,
    command: str = "srnet.find",
) -> Found:
    """Find the sparsest subnetwork that keeps the ID score, and write it to `out`, with a report and an audit.

    `budget` is in seconds. `out` gets find.json, model-KEY-FORMAT, report.html and audit/audit.html. If no
    subnetwork qualifies, only find.json is written. The default of `format` is `shrunk` where units are pruned, and
    `subnetwork` for single weights. `command` is what the report says it was made by.
    """
    out, engine, settings = Path(out), engine or Engine(), settings or FindSettings()
    check_writable(out / AUDIT)
    require_writable(out, "find.json", *report_files(section_id("find", task.name)))
    deployed = format_to_deploy(format, settings)
    found = Find(task, backbone, settings, engine, bias, budget).run()
    if is_secondary_rank():
        return found
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "find.json", found.to_json())
    if found.model is None or found.full_model is None or found.recipe is None:
        return found
    recipe, full, model = found.recipe, found.full_model, found.model

    def write_pages(speed: bytes | None) -> list[str]:
        """The report and the audit; returns the report's warnings."""
        results = run_recipe(recipe, out, engine, command, speed)
        audit_models(full.key, model.key, task=task, bias=recipe.profile.bias, out=out / AUDIT, engine=engine)
        return results.warnings

    folder = out / f"model-{model.key[:8]}-{_name(deployed)}"
    try:
        if not folder.exists():  # otherwise an earlier run of the same search wrote it
            export_model(model.key, folder, format=deployed, engine=engine)
        models: dict[str, str | Path] = {"full model": full.key, "to deploy": folder}
        measured = measure_speed(models, PACE, store=engine.models)
        speed = speed_picture(measured, _scores_to_draw(full, model, folder, engine.store), PACE)
    except UserError:
        write_pages(None)  # the search is not lost
        raise
    found = replace(found, warnings=tuple(write_pages(speed)), folder=folder, measured=tuple(measured))
    write_json(out / "find.json", found.to_json())
    return found


def plan_find(
    task: TaskSpec,
    settings: FindSettings | None = None,
    *,
    backbone: str = EMBEDDED,
    bias: BiasSpec | None = None,
    budget: float | None = None,
    format: str | Format | None = None,
    engine: Engine | None = None,
    measure: bool = False,
) -> Plan:
    """What `find` would compute at most, how long it would take, and, with `measure`, what fits into the budget."""
    engine, settings = engine or Engine(), settings or FindSettings()
    format_to_deploy(format, settings)
    search = Find(task, backbone, settings, engine, bias, budget)
    planned = plan(search.at_most(), engine, measure=measure)
    return replace(planned, fits=_fitting(search, budget)) if measure and budget is not None else planned


def _fitting(search: Find, budget: float) -> str:
    """What fits into the budget, or that nothing does: a plan is worth reading then, too."""
    try:
        return search.plan(budget)
    except UserError as error:
        return str(error)


def _name(format: Format) -> str:
    """The name of a format with those options that are not the default: onnx-int8."""
    given = {each.name: getattr(format, each.name) for each in fields(format)}
    changed = {name: value for name, value in given.items() if value != getattr(type(format), name)}
    return "-".join([format.name, *(name if value is True else str(value) for name, value in changed.items())])


def _scores_to_draw(full: ModelNode, model: ModelNode, folder: Path, store: Store) -> dict[str, dict[str, float]]:
    """The scores of the full model and of the folder, which have the same seed."""
    deployed = scores_of_graph(folder) or _scores(model, store)
    return by_score({"full model": _scores(full, store), "to deploy": deployed})


def _scores(model: ModelNode, store: Store) -> dict[str, float]:
    """Of this seed alone."""
    task = load_task(model.task_spec)
    splits = read_json(store.path(Evaluate(model).key) / "scores.json")["splits"]
    return {
        score_name(task.name, name, splits[name]["kind"], task.metric): splits[name]["metrics"][task.metric]
        for name in task.scored
    }


def format_to_deploy(given: str | Format | None, settings: FindSettings) -> Format:
    """The format of the model. One that cannot hold it is refused before anything is trained."""
    name = given or ("subnetwork" if settings.units == WEIGHT else "shrunk")
    format = get_format(name)() if isinstance(name, str) else name
    if format.is_file:
        folders = ", ".join(each for each, made in FORMATS.items() if not made.is_file)
        raise UserError(f"format '{format.name}' is not the folder of a model", f"choose one of: {folders}")
    format.check(settings.units)
    return format
