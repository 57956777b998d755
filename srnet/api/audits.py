"""Audits: one classifier, or two compared, whether they come from srnet or not."""

from __future__ import annotations

from pathlib import Path

from srnet.audit import Audit, AuditOptions, Classifier, check_writable, run_audit, task_of, write_audit
from srnet.experiment import BiasSpec, Engine
from srnet.experiment.nodes import TaskSpec


def audit_models(
    a: str | Path | Classifier,
    b: str | Path | Classifier | None = None,
    *,
    task: TaskSpec | None = None,
    options: AuditOptions | None = None,
    bias: BiasSpec | None = None,
    out: Path | str | None = None,
    engine: Engine | None = None,
) -> Audit:
    """Audit a model, or compare two: keys of the store, folders, hub names, or any `srnet.audit.Classifier`.

    Without `task`, on that of A, a key. With `out`, the folder gets `audit.json`, `examples.csv` and `audit.html`.
    """
    if out is not None:
        check_writable(Path(out))
    engine = engine or Engine()
    models = [each for each in (a, b) if each is not None]
    found = run_audit(models, task or task_of(a, engine.store), engine, options, bias)
    if out is not None:
        write_audit(found, Path(out))
    return found
