"""Pages that tests open: scripted models on a few rows, behind a real server or starlette's client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from audited import NLI, Scripted, split_of

from srnet.audit.rows import word_overlap
from srnet.bias.model import fit_bias_scorer
from srnet.models.model import match
from srnet.page.app import allowed_hosts, make_app
from srnet.page.comparison import Comparison, ModelThread
from srnet.page.pair import PairView, Shortcut, TrainingRows
from srnet.page.run import Server, bind, make_server
from srnet.tasks.base import Task
from srnet.tasks.splits import Coarse

PEOPLE = ("doctor", "pilot", "lawyer", "singer", "judge", "baker")
HOSTILE = "<img src=x onerror=document.title='broken'>"


def nli_task() -> Task:
    """Training rows in which overlap says the label; a two-way OOD set in which it does not."""
    train, labels = [], []
    for number, who in enumerate(PEOPLE * 4):
        other = PEOPLE[(number + 1) % len(PEOPLE)]
        train += [(f"the {who} saw the {other}", f"the {who} saw"), (f"the {who} slept", f"a {other} danced today")]
        labels += [0, 1 + number % 2]
    dev = [(f"the {who} slept", f"the {who} slept") for who in PEOPLE]
    hard = [(f"the {who} saw the {other}", f"the {other} saw the {who}") for who, other in pairwise(PEOPLE)]
    hard.append((HOSTILE, "<b>bold</b>"))
    ood = replace(
        split_of(hard, [1] * len(hard), "hard", "OOD"), coarse=Coarse(("entailment", "non-entailment"), (0, 1, 1))
    )
    own = split_of(train, labels, "train"), split_of(dev, [0] * len(dev), "dev")
    return Task("made-up", NLI, "accuracy", "overlap", *own, {"hard": ood})


def by_overlap(a: str, b: str) -> tuple[float, ...]:
    share = float(word_overlap([a], [b])[0])
    return 4 * share, 2 * (1 - share), 1.0


def by_order(a: str, b: str) -> tuple[float, ...]:
    return (3.0, 0.0, 0.0) if b and a.startswith(b) else (0.0, 3.0, 1.0)


MODELS = Scripted(by_overlap, NLI, "follows overlap"), Scripted(by_order, NLI, "reads the order")


def view_of(task: Task | None = None, *models: Any) -> PairView:
    task = task or nli_task()
    scorer = fit_bias_scorer(task, "overlap", None)
    matched = [match(each, task.labels) for each in models or MODELS]
    return PairView(task, matched, Shortcut("word overlap", scorer.log_probs), TrainingRows(task))


@dataclass
class Page:
    """A page and the parts behind it."""

    view: PairView
    comparison: Comparison
    thread: ModelThread
    port: int = 8000

    @property
    def app(self) -> Any:
        return make_app(self.view, self.comparison, self.thread, allowed_hosts("127.0.0.1", self.port))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def page_of(view: PairView | None = None, compare: bool = True) -> Page:
    view, thread = view or view_of(), ModelThread()
    comparison = Comparison(view.task, view.models, thread)
    if compare:
        comparison.run()
    return Page(view, comparison, thread)


@dataclass
class Running:
    page: Page
    server: Server
    runs: threading.Thread

    def stop(self) -> None:
        self.server.should_exit = self.server.force_exit = True
        self.runs.join(10)


@contextmanager
def serving(page: Page, port: int = 0) -> Iterator[Running]:
    """The page behind a real server, on a port of the system's choice."""
    listener = bind("127.0.0.1", port)
    page.port = listener.getsockname()[1]
    server = make_server(page.app)
    runs = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    runs.start()
    running = Running(page, server, runs)
    try:
        yield running
    finally:
        running.stop()


def softmax(logits: tuple[float, ...]) -> np.ndarray:
    powers = np.exp(np.array(logits))
    return np.asarray(powers / powers.sum())
