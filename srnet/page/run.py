"""The page: load the models, fit the shortcut, read the training data, serve until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from srnet.audit.run import load_models, task_of
from srnet.core.errors import UserError
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.models.backbones import Names
from srnet.models.model import Classifier
from srnet.page.comparison import ComparedRows
from srnet.page.options import PageOptions
from srnet.page.pair import PairView, TrainingRows, load_shortcut

_EXTRA = ("starlette", "uvicorn")
_HOST = "127.0.0.1"


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
    """Serve a local page with two models, `a` and `b`, side by side until Ctrl-C.

    They are keys of the store of `engine`, folders, hub names, or any `srnet.models.model.Classifier`. Without `task`,
    the page is about that of A, a key. `options` has the port, and `bias` how the shortcut is measured. `ready` is
    called with the address once the page can be opened.
    """
    _check_extra()
    from srnet.page.app import make_app, make_server

    engine, options = engine or Engine(), options or PageOptions()
    task = task or task_of(a, engine)
    with _bind(options.port) as listener:
        view = _load_view([a, b], task, engine, options.max_length, bias, options.labels_are)
        rows = ComparedRows(view.task, view.models)
        rows.start()
        port = listener.getsockname()[1]
        ready(f"http://{_HOST}:{port}")
        with suppress(KeyboardInterrupt):
            make_server(make_app(view, rows, port)).run(sockets=[listener])
        rows.stop()


def _bind(port: int) -> socket.socket:
    """A listening socket of this machine alone; port 0 takes a free one."""
    try:
        return socket.create_server((_HOST, port))
    except OSError as error:
        fix = "give another --port, from 1024 on; 0 takes a free one"
        raise UserError(f"port {port} cannot be opened ({error.strerror})", fix) from error


def _check_extra() -> None:
    """An error unless the libraries of the page are installed."""
    try:
        for name in _EXTRA:
            import_module(name)
    except ImportError as error:
        raise UserError(f"the page needs {name}, which is not installed", f"pip install {' '.join(_EXTRA)}") from error


def _load_view(
    models: Sequence[str | Path | Classifier],
    spec: TaskSpec,
    engine: Engine,
    max_length: int | None = None,
    bias: BiasSpec | None = None,
    labels_are: Names = (),
) -> PairView:
    task = load_task(spec)
    task.need_classes("the page")
    loaded = load_models(models, spec, engine, max_length, labels_are)
    shortcut, notes = load_shortcut(spec, engine, bias)
    return PairView(task, loaded, shortcut, TrainingRows(task), notes)
