"""The page on which two models are tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from srnet.experiment import BiasSpec, Engine
from srnet.experiment.nodes import TaskSpec
from srnet.page import PageOptions, run_page

if TYPE_CHECKING:
    from srnet.audit import Classifier


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
    from srnet.audit import task_of

    engine = engine or Engine()
    run_page([a, b], task or task_of(a, engine.store), engine, options, bias, ready)
