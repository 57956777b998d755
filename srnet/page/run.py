"""From names of models to the page: load, fit the shortcut, read the training data, serve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from srnet.audit import Classifier, load_models, task_of
from srnet.errors import UserError
from srnet.experiment import BiasSpec, Engine, load_task
from srnet.experiment.nodes import TaskSpec
from srnet.page.comparison import Comparison
from srnet.page.nearest import TrainingRows
from srnet.page.options import PageOptions
from srnet.page.pair import PairView
from srnet.page.shortcut import load_shortcut
from srnet.page.worker import ModelThread

EXTRA = ("starlette", "uvicorn")


def open_page(
    a: str | Path | Classifier,
    b: str | Path | Classifier,
    *,
    task: TaskSpec | None = None,
    options: PageOptions | None = None,
    bias: BiasSpec | None = None,
    engine: Engine | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve a local page with two models side by side until Ctrl-C.

    A and B are keys of the store, folders, hub names, or any `srnet.audit.Classifier`. Without `task`, the page is
    about that of A, a key. `ready` is called with the address once the page can be opened.
    """
    check_extra()
    from srnet.page.app import make_app
    from srnet.page.guard import allowed_hosts, is_loopback
    from srnet.page.server import address_of, bind, serve

    engine, options = engine or Engine(), options or PageOptions()
    task = task or task_of(a, engine.store)
    with bind(options.host, options.port) as listener:
        view = load_view([a, b], task, engine, options.max_length, bias)
        thread = ModelThread()
        comparison = Comparison(view.task, view.models, thread)
        comparison.start()
        if not is_loopback(options.host):
            engine.reporter.warn(f"anyone who can reach {options.host} can use this page; there is no password")
        ready(address_of(options.host, listener))
        serve(make_app(view, comparison, thread, allowed_hosts(options.host, listener.getsockname()[1])), listener)
        thread.stop()


def check_extra() -> None:
    """An error unless the libraries of the page are installed."""
    try:
        for name in EXTRA:
            import_module(name)
    except ImportError as error:
        raise UserError(f"the page needs {name}, which is not installed", f"pip install {' '.join(EXTRA)}") from error


def load_view(
    models: Sequence[str | Path | Classifier],
    spec: TaskSpec,
    engine: Engine,
    max_length: int | None = None,
    bias: BiasSpec | None = None,
) -> PairView:
    task = load_task(spec)
    task.need_classes("the page")
    loaded = load_models(models, spec, engine, max_length)
    shortcut, notes = load_shortcut(spec, engine, bias)
    return PairView(task, loaded, shortcut, TrainingRows(task), notes)
