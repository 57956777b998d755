"""The search for a model to deploy, and everything that it leaves in a folder."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from srnet.api.experiments import run_recipe
from srnet.api.models import export_model
from srnet.api.speeds import compare_speed
from srnet.audit import audit_models, check_writable
from srnet.errors import UserError
from srnet.experiment import BiasSpec, Engine
from srnet.experiment.nodes import TaskSpec
from srnet.export import Format, get_format
from srnet.files import require_writable, write_json
from srnet.find_settings import FindSettings
from srnet.finding import Find, Found
from srnet.masks.granularity import WEIGHT
from srnet.names import EMBEDDED
from srnet.options import as_cli_args
from srnet.pace import Pace
from srnet.progress import is_secondary_rank
from srnet.report import report_files

PACE = Pace(rounds=15, lengths=(8, 32, 128), batch=8, memory=False)
"""Short, and with a length that every model can read."""
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
) -> Found:
    """Find the sparsest subnetwork that keeps the ID score, and write it to `out`, with a report and an audit.

    `budget` is in seconds. `out` gets find.json, model-KEY in the given format, report.html and audit/audit.html. If no
    subnetwork qualifies, only find.json is written. The default of `format` is `shrunk` where units are pruned, and
    `subnetwork` for single weights.
    """
    out, engine, settings = Path(out), engine or Engine(), settings or FindSettings()
    check_writable(out / AUDIT)
    require_writable(out, "find.json", *report_files(()))
    deployed = _format(format, settings)
    found = Find(task, backbone, settings, engine, bias, budget).run()
    if is_secondary_rank():
        return found
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "find.json", found.to_json())
    if found.model is None or found.full_model is None or found.recipe is None:
        return found
    folder = model_folder(out, found)
    if not folder.exists():  # otherwise an earlier run of the same search wrote it
        export_model(found.model.key, folder, format=deployed, engine=engine)
    models = {"full model": found.full_model.key, f"to deploy ({deployed.name})": str(folder)}
    compared = compare_speed(models, PACE, engine.store)
    run_recipe(found.recipe, out, engine, _command(task, settings, backbone), compared.drawn())
    audit_models(found.full_model.key, found.model.key, task=task, out=out / AUDIT, engine=engine)
    found = replace(found, measured=tuple(compared.measured))
    write_json(out / "find.json", found.to_json())
    return found


def _format(given: str | Format | None, settings: FindSettings) -> Format:
    """The format of the model. One that cannot hold it is refused before anything is trained."""
    name = given or ("subnetwork" if settings.units == WEIGHT else "shrunk")
    format = get_format(name)() if isinstance(name, str) else name
    if format.is_file:
        raise UserError(f"format '{format.name}' is not the folder of a model", "choose another --format")
    format.check(settings.units)
    return format


def _command(task: TaskSpec, settings: FindSettings, backbone: str) -> str:
    given = [] if backbone == EMBEDDED else ["--backbone", backbone]
    return shlex.join(["srnet", "find", task.name, *given, *as_cli_args(settings)])


def model_folder(out: Path, found: Found) -> Path:
    """Where the model of a search that found one is."""
    assert found.model is not None
    return out / f"model-{found.model.key[:8]}"
