"""The search for a model to deploy, and the delivery: the model, its speed, a report and an audit in a folder."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path

from srnet.api.experiments import run_recipe
from srnet.api.models import export_model
from srnet.api.speeds import by_score, speed_picture
from srnet.api.starts import Names
from srnet.audit.run import audit_models
from srnet.audit.writing import check_writable
from srnet.core.errors import UserError
from srnet.core.files import require_writable, write_json
from srnet.core.names import EMBEDDED
from srnet.core.progress import is_secondary_rank
from srnet.experiment.engine import Engine
from srnet.experiment.known import read_scores
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import FineTuned, ModelNode
from srnet.experiment.store import Store
from srnet.finding.comparison import comparison_table
from srnet.finding.control import CONTROL
from srnet.finding.found import Found
from srnet.finding.search import Find
from srnet.finding.settings import FindSettings
from srnet.masks.granularity import WEIGHT
from srnet.models.formats.base import FORMATS, Format, get_format
from srnet.models.formats.card import score_name, scores_of_graph
from srnet.recipes.recipe import Plan, plan
from srnet.report.page import report_files, section_id
from srnet.report.results import SHORT_KEY
from srnet.tasks.shortcut import written
from srnet.timing.measuring import Measured, measure_speed
from srnet.timing.pace import Pace

PACE = Pace(rounds=15, lengths=(8, 32, 128), batch=8, threads=1, memory=False)
"""Short, with a length that every model can read, and one thread: two wait for each other on a busy machine."""
FOUND = "find.json"
AUDIT = "audit"
"""The folder of the audit in the folder of a search."""


def find(
    task: TaskSpec,
    settings: FindSettings | None = None,
    *,
    backbone: str = EMBEDDED,
    full: str | Path | None = None,
    labels_are: Names = (),
    bias: BiasSpec | None = None,
    budget: float | None = None,
    format: str | Format | None = None,
    out: Path | str = "srnet-find",
    engine: Engine | None = None,
    command: str = "srnet.find",
) -> Found:
    """Find the sparsest subnetwork for `task` that keeps the ID score, and write it to `out`, with a report.

    The search starts from a model of `backbone` that is fine-tuned first, or from `full`: the folder or hub name of a
    model that was fine-tuned elsewhere. `labels_are` gives the names of its labels that differ from the task's.

    `settings` say what is tried, and `bias` how the shortcut is measured; `engine` trains and keeps what it trained.
    `budget` is in seconds. `out` gets find.json, model-KEY-FORMAT, report.html and audit/audit.html. If no subnetwork
    qualifies, there is no model, the report shows those that were tried, and the audit is of the full model. The
    default of `format` is `shrunk` where units are pruned, and `subnetwork` for single weights. `command` is what the
    report says it was made by.
    """
    out, engine, settings = Path(out), engine or Engine(), settings or FindSettings()
    own = _own_model(full, task, labels_are, settings, backbone)
    check_writable(out / AUDIT)
    require_writable(out, FOUND, *report_files(section_id("find", task.name)))
    deployed = _format_to_deploy(format, settings)
    search = Find(task, backbone, settings, engine, bias, budget, own)
    found = search.run()
    if settings.control:
        found = replace(found, control=search.control(found))
    if is_secondary_rank():
        return found
    found = replace(found, next=_next_command(found, command))
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / FOUND, found.to_json())  # before anything else can fail
    made = _Delivery(found, deployed, out, engine, command)
    found = made.write_pages() if found.model is None else made.deliver(found.model)
    write_json(out / FOUND, found.to_json())
    return found


def _next_command(found: Found, command: str) -> str:
    """`command`, the one that was typed, with the options that the first diagnosis advises; in Python these alone."""
    advised = next((each.options for each in found.diagnoses if each.options), ())
    if not advised:
        return ""
    typed = shlex.split(command) if command.startswith("srnet find") else []
    return shlex.join([*_without(typed, advised[0]), *advised])


def _without(words: list[str], option: str) -> list[str]:
    """A command without an option and its value."""
    left = [word for word in words if not word.startswith(f"{option}=")]
    place = left.index(option) if option in left else len(left)
    return left[:place] + left[place + 2 :]


@dataclass(frozen=True)
class _Delivery:
    """What was found, and where it is written."""

    found: Found
    format: Format
    out: Path
    engine: Engine
    command: str

    def deliver(self, model: ModelNode) -> Found:
        """Export the model, measure its speed, and write the pages."""
        folder, full = self._folder(model), self.found.full_model
        try:
            measured = self._export(model, folder)
            scores = {"full model": self._scores(full), "to deploy": scores_of_graph(folder) or self._scores(model)}
            speed = speed_picture(measured, by_score(scores), PACE)
        except UserError:
            self.write_pages()  # the search is not lost
            raise
        load = f"srnet.{'open_model' if self.format.name == 'onnx' else 'load_subnetwork'}({str(folder)!r})"
        page = shlex.join(["srnet", "page", full.key[:SHORT_KEY], model.key[:SHORT_KEY], *self._page_options])
        found = replace(self.found, folder=folder, measured=tuple(measured), load=load, page=page)
        return replace(self, found=found).write_pages(speed)

    def write_pages(self, speed: bytes | None = None) -> Found:
        """The report and the audit, of the full model alone if no subnetwork was chosen; returns also the warnings."""
        found = self.found
        if (control := found.control) is not None:
            run_recipe(control.recipe, self.out / CONTROL, self.engine, self.command, lead=[control.sentence])
        beside = comparison_table(found.compared) if found.compared else None
        results = run_recipe(found.recipe, self.out, self.engine, self.command, speed, found.lead, beside)
        models = [each.key for each in (found.full_model, found.model) if each]
        task, bias = found.recipe.task, found.recipe.profile.bias
        audit_models(*models, task=task, bias=bias, out=self.out / AUDIT, engine=self.engine, lead=found.lead)
        return replace(found, warnings=tuple(results.warnings))

    @property
    def _page_options(self) -> list[str]:
        """Those with which a page has the same shortcut and finds the models."""
        shortcut, root = self.found.recipe.profile.bias.shortcut, self.engine.store.root
        named = ["--shortcut", written(shortcut)] if shortcut else []
        return named if root == Store().root else [*named, "--store", str(root)]

    def _folder(self, model: ModelNode) -> Path:
        """The new folder of the model: with the name of its format and those options that are not the default."""
        given = {each.name: getattr(self.format, each.name) for each in fields(self.format)}
        changed = {name: value for name, value in given.items() if value != getattr(type(self.format), name)}
        options = [name if value is True else str(value) for name, value in changed.items()]
        return self.out / "-".join(["model", model.key[:8], self.format.name, *options])

    def _export(self, model: ModelNode, folder: Path) -> list[Measured]:
        """Export the model; returns the speed of the full model and of the folder."""
        if not folder.exists():  # otherwise an earlier run of the same search wrote it
            export_model(model.key, folder, format=self.format, engine=self.engine, keeps=self.found.keeps)
        models = {"full model": self.found.full_model.key, "to deploy": str(folder)}
        return measure_speed(models, PACE, store=self.engine.models)

    def _scores(self, model: ModelNode) -> dict[str, float]:
        """Scores of this seed alone, by data and metric."""
        task = load_task(model.task_spec)
        splits = {name: read_scores(self.engine.store, model)["splits"][name] for name in task.scored}
        return {
            score_name(task.name, name, each["kind"], task.metric): each["metrics"][task.metric]
            for name, each in splits.items()
        }


def plan_find(
    task: TaskSpec,
    settings: FindSettings | None = None,
    *,
    backbone: str = EMBEDDED,
    full: str | Path | None = None,
    labels_are: Names = (),
    bias: BiasSpec | None = None,
    budget: float | None = None,
    format: str | Format | None = None,
    engine: Engine | None = None,
    measure: bool = False,
) -> Plan:
    """What a call as in `find` would compute at most, how long it takes, and, with `measure`, what fits the budget."""
    engine, settings = engine or Engine(), settings or FindSettings()
    _format_to_deploy(format, settings)
    own = _own_model(full, task, labels_are, settings, backbone)
    search = Find(task, backbone, settings, engine, bias, budget, own)
    planned = plan(search.at_most(), engine, measure=measure)
    return replace(planned, fits=_fitting(search)) if measure and budget is not None else planned


def _own_model(
    folder: str | Path | None, task: TaskSpec, labels_are: Names, settings: FindSettings, backbone: str
) -> FineTuned | None:
    """The full model that is given, if any. One that does not fit is refused before anything is trained."""
    if folder is not None and settings.control:
        raise UserError(
            "--control plants a shortcut in the training data, which your fine-tuned model has not seen",
            "give --backbone instead of --full",
        )
    if folder is None and labels_are:
        raise UserError("names of labels without a fine-tuned model", "give its folder: --full FOLDER")
    if folder is None:
        return None
    if backbone != EMBEDDED:
        raise UserError("--full and --backbone exclude each other", "keep one of them")
    own = FineTuned(str(folder), task, labels_are=tuple(dict(labels_are).items()), length=settings.max_length)
    own.check()
    return own


def _fitting(search: Find) -> str:
    """What fits into the budget, or that nothing does: a plan is worth reading then, too."""
    try:
        return search.plan()
    except UserError as error:
        return str(error)


def _format_to_deploy(given: str | Format | None, settings: FindSettings) -> Format:
    """The format of the model. One that cannot hold it is refused before anything is trained."""
    name = given or ("subnetwork" if settings.units == WEIGHT else "shrunk")
    format = get_format(name)() if isinstance(name, str) else name
    if format.is_file:
        folders = ", ".join(each for each, made in FORMATS.items() if not made.is_file)
        raise UserError(f"format '{format.name}' is not the folder of a model", f"choose one of: {folders}")
    format.check(settings.units)
    return format
