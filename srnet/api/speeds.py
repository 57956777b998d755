"""How fast models are, by the names that users know them by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from srnet.errors import UserError
from srnet.experiment import Engine, Store
from srnet.experiment.rebuild import stored_model
from srnet.timing import Measured, Pace, measure_speed

SHORTEST_KEY = 4
"""Letters from which on a name may be the beginning of a key."""


def speed(
    *models: str,
    pace: Pace | None = None,
    engine: Engine | None = None,
    on_step: Callable[[str], None] = lambda what: None,
) -> list[Measured]:
    """Measure models side by side: keys of the store, folders of any format, shipped backbones, names on the Hub.

    The first is what the others are compared with.
    """
    if not models:
        raise UserError("no model to measure", "give keys, folders or names")
    store = (engine or Engine()).store
    given = list(dict.fromkeys(models))
    short = [Path(model).name if Path(model).is_dir() else model for model in given]
    names = [name if short.count(name) == 1 else model for name, model in zip(short, given, strict=True)]
    return measure_speed(dict(zip(names, (_place(model, store) for model in given), strict=True)), pace, on_step)


def _place(model: str, store: Store) -> str:
    """A key stands for the folder of its artifact."""
    is_key = len(model) >= SHORTEST_KEY and any(key.startswith(model) for key in store.keys())  # noqa: SIM118
    return str(store.path(stored_model(store, model).key)) if is_key and not Path(model).is_dir() else model
