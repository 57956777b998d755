"""Audits of models: load them, predict, measure the shortcut, change rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from srnet.audit.contrast import RULES
from srnet.audit.options import AuditOptions
from srnet.audit.outcomes import RuleOutcome, apply_rule
from srnet.audit.report import Audit, make_audit
from srnet.audit.rows import collect_logits
from srnet.audit.writing import check_writable, write_audit
from srnet.core.errors import UserError
from srnet.core.files import DiskFull
from srnet.core.names import renamed
from srnet.core.prose import sentences
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import Bias, BiasSpec
from srnet.experiment.store import bias_predictions, bias_splits
from srnet.models.backbones import Names
from srnet.models.model import Classifier, Matched, match
from srnet.models.open import is_key, open_classifier
from srnet.tasks.base import Task

_CHANGED_ROWS = 1000
"""Rows of ID dev that are changed, unless another number is given."""


def audit_models(
    a: str | Path | Classifier,
    b: str | Path | Classifier | None = None,
    *,
    task: TaskSpec | None = None,
    options: AuditOptions | None = None,
    bias: BiasSpec | None = None,
    out: Path | str | None = None,
    engine: Engine | None = None,
    lead: Sequence[str] = (),
) -> Audit:
    """Audit the model `a`, or compare it with `b`, on all scored splits of a task.

    They are keys of the store of `engine`, folders, hub names, or any `srnet.models.model.Classifier`. Without `task`,
    it is that of A, a key. `options` add tests, `bias` says how the shortcut is measured. With `out`, the folder gets
    `audit.json`, `examples.csv` and `audit.html`. `lead` are sentences that stand before the conclusion of the audit,
    with commands in backticks.
    """
    engine, options, first = engine or Engine(), options or AuditOptions(), sentences(lead)
    if out is not None:
        check_writable(Path(out))
    task = task or task_of(a, engine)
    data = load_task(task)
    data.need_classes("an audit")
    if bias is not None:  # a mistake in it is reported before models are loaded
        engine.plan([bias.node_alone(task)])
    models = [each for each in (a, b) if each is not None]
    loaded = load_models(models, task, engine, options.max_length, options.labels_are)
    shortcut, notes = _measure_shortcut(task, engine, bias)
    with engine.reporter.session():
        logits = _predict_splits(data, loaded, engine)
        rows = data.dev.shuffled_rows(0, options.contrast_rows or _CHANGED_ROWS)
        outcomes = _change_rows(data, loaded, logits[data.dev.name], rows, engine) if options.contrast else []
    audit = make_audit(data, loaded, logits, shortcut, outcomes, notes, first)
    if out is not None:
        write_audit(audit, Path(out))
    return audit


def _change_rows(
    task: Task, models: Sequence[Classifier], logits: Sequence[np.ndarray], rows: np.ndarray, engine: Engine
) -> list[RuleOutcome]:
    """The outcome of every rule on rows of ID dev. OOD rows may have classes of their own, unknown to the rules."""
    split, before = task.dev.take(rows), [each[rows].argmax(axis=1) for each in logits]
    step = engine.reporter.begin(1, 1, f"{len(RULES)} rules on {len(rows):,} rows")
    outcomes = []
    for number, rule in enumerate(RULES.values(), start=1):
        outcomes.append(apply_rule(rule, split, task.labels, models, before))
        step.advance(number, len(RULES), {})
    step.finish()
    return outcomes


def load_models(
    models: Sequence[str | Path | Classifier],
    spec: TaskSpec,
    engine: Engine,
    max_length: int | None = None,
    labels_are: Names = (),
) -> list[Matched]:
    """Classifiers whose logits are in the order of the task's labels; `labels_are` is for those that have the names."""
    task = load_task(spec)
    spellings, given = dict(getattr(spec, "spellings", ())), dict(labels_are)
    loaded = [open_classifier(each, engine.models, task=task, max_length=max_length) for each in models]
    known = {label for each in loaded for label in each.labels}
    renamed(" and ".join(each.name for each in loaded), sorted(known), given)  # refuses a name that none of them has
    own = [{name: label for name, label in given.items() if name in each.labels} for each in loaded]
    return [match(each, task.labels, spellings, names) for each, names in zip(loaded, own, strict=True)]


def task_of(model: str | Path | Classifier, engine: Engine) -> TaskSpec:
    """The task of a stored model, which is the default where a task may be given."""
    if not is_key(model, engine.models):
        raise UserError("only models of the store know their task", "give the task: --task TASK")
    return engine.models.find(str(model)).task_spec


def _predict_splits(task: Task, models: Sequence[Classifier], engine: Engine) -> dict[str, list[np.ndarray]]:
    """The logits of each model, by split."""
    logits: dict[str, list[np.ndarray]] = {name: [] for name in task.scored}
    work = [
        (letter, model, task.splits[name]) for letter, model in zip("AB", models, strict=False) for name in task.scored
    ]
    for number, (letter, model, split) in enumerate(work, start=1):
        step = engine.reporter.begin(number, len(work), f"{letter} on {split.name}")
        logits[split.name].append(collect_logits(model, split.text_a, split.text_b, partial(step.advance, figures={})))
        step.finish()
    return logits


def _measure_shortcut(
    spec: TaskSpec, engine: Engine, bias: BiasSpec | None = None
) -> tuple[Mapping[str, np.ndarray] | None, list[str]]:
    """Log-probabilities of the task's bias model by split, or a note that says why there are none."""
    node, notes = find_shortcut(spec, engine, bias)
    if node is None:
        return None, notes
    task = load_task(spec)
    measured = [name for name in task.scored if name in bias_splits(engine.store, node.key)]
    stored = {name: bias_predictions(engine.store, node.key, name) for name in measured}
    by_split = {name: each.for_ids(task.splits[name].ids) for name, each in stored.items()}
    return by_split, [f"shortcut: {node.features}"]


def find_shortcut(spec: TaskSpec, engine: Engine, bias: BiasSpec | None = None) -> tuple[Bias | None, list[str]]:
    """The task's bias model, computed, or a note that says why there is none.

    A requested `bias` that cannot be computed is an error; one that the task suspects by itself is a note.
    """
    if bias is None and BiasSpec().is_weak(spec):
        return None, [
            "no bias model: the task suspects no shortcut by name; --shortcut measures one: words, length, ..."
        ]
    try:
        node = (bias or BiasSpec()).node_alone(spec)
        engine.execute([node])
    except DiskFull:
        raise
    except UserError as error:
        if bias is not None:
            raise
        return None, [f"no bias model: {error}"]
    return node, []
