"""The page: load the models, for classifiers fit the shortcut and read the training data, and serve until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srnet.audit.run import load_models, task_of
from srnet.core.errors import UserError
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.models.backbones import Names
from srnet.models.generation import generates
from srnet.models.model import Classifier, OpenModel
from srnet.models.open import is_key, open_as_trained, open_model
from srnet.page.options import PageOptions
from srnet.page.pair import PairView, TrainingRows, load_shortcut

if TYPE_CHECKING:
    from srnet.page.language import LanguageView

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
    the page is about that of A, a key; two decoders need none. `options` has the port, and `bias` how the shortcut is
    measured. `ready` is called with the address once the page can be opened.
    """
    _check_extra()
    from srnet.page.app import View, make_app, make_server

    engine, options = engine or Engine(), options or PageOptions()
    models: list[Any] = [a, b]
    if task is None:
        decoders = None if is_key(a, engine.models) else _open_decoders(models, engine, options.max_length)
        models, task = decoders or models, None if decoders else task_of(a, engine)
    with _bind(options.port) as listener:
        view: View
        if task is None or load_task(task).answer_kind.language:
            view = _load_language_view(models, task, engine, options, bias)
        else:
            view = _load_view(models, task, engine, options.max_length, bias, options.labels_are)
        rows = view.compared()
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


def _open_decoders(
    models: Sequence[str | Path | Classifier], engine: Engine, max_length: int | None = None
) -> list[OpenModel] | None:
    """The models, if all are decoders, which need no task; else None."""
    opened = []
    for each in models:
        try:
            model = open_as_trained(each, engine.models, max_length) if isinstance(each, str | Path) else each
        except UserError:
            if Path(str(each)).is_dir():
                raise
            return None  # a task is missing as well, and is asked for first
        if not isinstance(model, OpenModel) or not generates(model):
            return None
        opened.append(model)
    return opened


def _load_language_view(
    models: Sequence[str | Path | Classifier],
    spec: TaskSpec | None,
    engine: Engine,
    options: PageOptions,
    bias: BiasSpec | None = None,
) -> LanguageView:
    from srnet.page.language import LanguageView, require_language

    if bias is not None or options.labels_are:
        what = "a shortcut is measured" if bias is not None else "labels are named"
        raise UserError(f"{what} for classifiers, not for language models", "leave the option out")
    task = None if spec is None else load_task(spec)
    opened = [
        open_model(each, engine.models, task=task, max_length=options.max_length)
        if isinstance(each, str | Path)
        else each
        for each in models
    ]
    return LanguageView(task, [require_language(each) for each in opened], options.new_tokens)


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
