"""Pages that tests open: scripted models on a few rows, behind a real server, and a browser if there is one."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from audited import NLI, Scripted, split_of

from srnet.audit.rows import word_overlap
from srnet.bias.model import fit_bias_scorer
from srnet.models.model import match
from srnet.page.app import View, make_app, make_server
from srnet.page.comparison import ComparedRows
from srnet.page.pair import PairView, Shortcut, TrainingRows
from srnet.page.run import _bind
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


def view_of(*models: Any) -> PairView:
    task = nli_task()
    scorer = fit_bias_scorer(task, "overlap")
    matched = [match(each, task.labels) for each in models or MODELS]
    return PairView(task, matched, Shortcut("word overlap", scorer.log_probs), TrainingRows(task))


@dataclass
class Page:
    """A page, the parts behind it, and its server once it has one."""

    view: Any
    rows: ComparedRows
    port: int = 8000
    server: Any = None
    runs: Any = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.server.should_exit = self.server.force_exit = True
        self.runs.join(10)


def page_of(view: View | None = None, compare: bool = True) -> Page:
    view = view or view_of()
    rows = view.compared()
    if compare:
        rows.run()
    return Page(view, rows)


@contextmanager
def serving(page: Page, port: int = 0) -> Iterator[Page]:
    """The page behind a real server, on a free port."""
    listener = _bind(port)
    page.port = listener.getsockname()[1]
    page.server = make_server(make_app(page.view, page.rows, page.port))
    page.runs = threading.Thread(target=page.server.run, kwargs={"sockets": [listener]}, daemon=True)
    page.runs.start()
    try:
        yield page
    finally:
        page.stop()


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window; a test that needs one is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()
