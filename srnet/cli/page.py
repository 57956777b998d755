"""The command that opens a page with two models side by side."""

from __future__ import annotations

from typing import Annotated

import typer

import srnet
from srnet.cli.app import Data, Given, Run, app, out
from srnet.cli.audit import First, Task
from srnet.cli.models import Bias, ShortRun, task_spec
from srnet.cli.options import Command, Fields

Second = Annotated[str, typer.Argument(metavar="B", help="The model to compare with A.")]
Options = Annotated[Given, Fields("Page", "srnet.page:PageOptions")]


@app.command(cls=Command)
def page(*, a: First, b: Second, task: Task = None, options: Options, bias: Bias, data: Data, run: ShortRun) -> None:
    """Open a local page with two models side by side.

    Type a pair of texts, or step through the rows on which the models disagree: the page shows both answers, what the
    shortcut alone would say, the words that the texts share, and the nearest rows of the training data. It listens on
    127.0.0.1 and fetches nothing. Needs starlette and uvicorn. Ctrl-C ends it.
    """
    srnet.open_page(
        a,
        b,
        task=task_spec(task, data),
        options=srnet.PageOptions(**options),
        bias=srnet.BiasSpec(**bias) if bias else None,
        engine=Run(**run).start(),
        ready=lambda address: out.print(f"Page: {address} (Ctrl-C ends it)"),
    )
    out.print("closed")
