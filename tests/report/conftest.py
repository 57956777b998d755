"""A small run that the tests of this folder look at, and an order whose results are made up."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from altered import LINES
from series import Series, recipe_of
from small import read_no_backbone

from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec
from srnet.experiment.store import Store
from srnet.recipes.order import Order
from srnet.recipes.paradigms import Profile, Search, full, of_fine_tuned
from srnet.report.evidence import RecipeEvidence
from srnet.report.masks import mask_pictures
from srnet.report.page import Page, Section
from srnet.report.results import Results
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

TASK = SyntheticTask("inference", train_size=100, dev_size=40, ood_size=40)
TRAINING = TrainingSettings(learning_rate=1e-3, steps=4, eval_every=2, batch_size=8, trace=10)


class Ran:
    """Recipes that were executed, and where."""

    def __init__(self, store: Store, backbone: str) -> None:
        self.store, self.backbone = store, backbone

    def __call__(self, name: str, *series: Series, task: TaskSpec = TASK, **more: object) -> Results:
        profile = Profile(task, self.backbone, (0, 1), TRAINING, TRAINING)
        recipe = recipe_of(profile, *series, name=name, **more)  # type: ignore[arg-type]
        Engine(self.store, Reporter(quiet=True)).execute(recipe.nodes())
        return Results(RecipeEvidence(recipe, self.store))

    def page(self, *results: Results, command: str = "srnet reproduce fig2 --seeds 2") -> Page:
        sections = [Section(each, mask_pictures(each.recipe, self.store), f"{command} once more") for each in results]
        return Page("A title", command, sections)


@pytest.fixture(scope="session")
def ran(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(Store(tmp_path_factory.mktemp("report") / "store"), tiny_backbone)


@pytest.fixture(scope="session")
def results(ran: Ran) -> Results:
    return ran("small", *LINES)


@pytest.fixture(scope="session")
def by_start(ran: Ran) -> Results:
    """A figure about when the search starts."""
    masks = partial(of_fine_tuned, label="masks", search=Search("mask", "ce", (0.5,)), starts=(0.0, 0.5, 1.0))
    return ran("starts", partial(full, label="full"), masks, axis="start", title="When to start")


@pytest.fixture(scope="session")
def by_length(ran: Ran) -> Results:
    """A figure about how long the search lasts."""
    masks = partial(of_fine_tuned, label="masks", search=Search("mask", "ce", (0.5,), lengths=(0.5, 1.0)))
    return ran("lengths", partial(full, label="full"), masks, axis="length")


@pytest.fixture
def store(ran: Ran) -> Store:
    return ran.store


@pytest.fixture(scope="session")
def order(tmp_path_factory: pytest.TempPathFactory) -> Order:
    """Every figure on a task with 400 examples in each test set."""
    path = tmp_path_factory.mktemp("order") / "task.yaml"
    path.write_text("{name: inference, train_size: 20, dev_size: 400, ood_size: 400}")
    return Order(tasks=(str(path),), seeds=(0, 1, 2))


@pytest.fixture
def own_store(tmp_path: Path) -> Store:
    """An empty one, for results that are made up."""
    return Store(tmp_path / "store").open()


@pytest.fixture
def keys_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backbone is its name here, and what is written need not outlive a power failure."""
    read_no_backbone(monkeypatch)
    monkeypatch.setattr("srnet.core.files.os.fsync", lambda descriptor: None)
