"""The server: a socket on one address of this machine, until Ctrl-C."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from srnet.audit.run import load_models, task_of
from srnet.core.errors import UserError
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec, load_task
from srnet.experiment.nodes.bias import BiasSpec
from srnet.models.model import Classifier
from srnet.page.app import bracketed
from srnet.page.comparison import Comparison, ModelThread
from srnet.page.options import PageOptions
from srnet.page.pair import PairView, TrainingRows, load_shortcut


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        raise _cannot_bind(host, port, error) from error


def _cannot_bind(host: str, port: int, error: Exception) -> UserError:
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        return UserError(f"port {port} of {host} is in use", "give another --port; 0 takes a free one")
    if code == errno.EACCES:
        return UserError(f"port {port} is not open to you", "give a --port from 1024 on")
    return UserError(f"{host} port {port} is no address of this machine", "leave out --host")


def address_of(host: str, listener: socket.socket) -> str:
    return f"http://{bracketed(host)}:{listener.getsockname()[1]}"


class Server(uvicorn.Server):
    """Ends at once: pending requests get no answer."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = sig == signal.SIGINT
        super().handle_exit(sig, frame)


def make_server(app: Any) -> Server:
    return Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
    )


def serve(app: Any, listener: socket.socket) -> None:
    """Answer requests until Ctrl-C."""
    try:
        make_server(app).run(sockets=[listener])
    except KeyboardInterrupt:
        return


# --- from names of models to the page: load, fit the shortcut, read the training data, serve ---

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

    A and B are keys of the store, folders, hub names, or any `srnet.models.model.Classifier`. Without `task`,
    the page is about that of A, a key. `ready` is called with the address once the page can be opened.
    """
    check_extra()
    from srnet.page.app import allowed_hosts, is_loopback, make_app

    engine, options = engine or Engine(), options or PageOptions()
    task = task or task_of(a, engine)
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
