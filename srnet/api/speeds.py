"""How fast models are, by the names that users know them by."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from srnet.core.errors import UserError, choose
from srnet.core.files import require_writable, write_bytes
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.known import known_about
from srnet.experiment.rebuild import stored_model
from srnet.experiment.store import Store
from srnet.models.formats.card import scores_by_name, scores_of_folder
from srnet.timing.measuring import Measured, measure_speed, speed_against_scores, threads_of
from srnet.timing.pace import Pace

PICTURES = ("png", "pdf", "svg")
SHORTEST_KEY = 4
"""Letters from which on a name may be the beginning of a key."""


Panels = dict[str, dict[str, float]]
"""By what was scored, then by model: a panel each."""


@dataclass(frozen=True)
class Comparison:
    """Models that were measured side by side, and the scores that are known of them."""

    measured: list[Measured]
    scores: Panels
    pace: Pace

    def drawn(self, format: str = "png") -> bytes:
        """Speed against score, as the bytes of a file."""
        figure = speed_against_scores(self.measured, self.scores, _drawn_length(self.measured, self.pace))
        buffer = io.BytesIO()
        figure.savefig(buffer, format=format, dpi=150)
        return buffer.getvalue()


def speed(
    *models: str,
    pace: Pace | None = None,
    engine: Engine | None = None,
    on_step: Callable[[str], None] = lambda what: None,
    picture: Path | str | None = None,
) -> list[Measured]:
    """Measure models side by side: keys of the store, folders of any format, shipped backbones, names on the Hub.

    The first is what the others are compared with. `picture` is a file for a drawing of speed against the scores that
    are known: those that the store has of a key, and those on the card of a folder. The engine's reporter warns if the
    machine was busy.
    """
    if not models:
        raise UserError("no model to measure", "give keys, folders or names")
    given = list(dict.fromkeys(models))
    short = [Path(model).name if Path(model).is_dir() else model for model in given]
    named = {name if short.count(name) == 1 else model: model for name, model in zip(short, given, strict=True)}
    engine, pace, load = engine or Engine(), pace or Pace(), _load()
    store, path = engine.store, None if picture is None else Path(picture)
    scores = {} if path is None else by_score({name: _known_scores(model, store) for name, model in named.items()})
    if path is not None:
        _check_picture(path, scores)
    compared = compare_speed(named, scores, pace, store, on_step)
    _warn_if_busy(load, threads_of(pace), engine.reporter)
    if path is not None:
        write_bytes(path, compared.drawn(path.suffix.removeprefix(".")))
    return compared.measured


def _load() -> float:
    """Processes that wanted to run in the last minute, as far as the system tells it."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _warn_if_busy(load: float, threads: int, reporter: Reporter) -> None:
    """`load` is that before the measuring, which adds `threads` to it."""
    cores = os.cpu_count() or 1
    if load + threads > cores + 1:
        reporter.warn(
            f"the load before was {load:.1f} on {cores} cores: threads that wait for each other slow some models more "
            f"than others; measure on an idle machine{', or with --threads 1' if threads > 1 else ''}"
        )


def compare_speed(
    models: Mapping[str, str],
    scores: Panels,
    pace: Pace,
    store: Store,
    on_step: Callable[[str], None] = lambda what: None,
) -> Comparison:
    """`models`: a name for each -> as for `speed`."""
    measured = measure_speed({name: _place(model, store) for name, model in models.items()}, pace, on_step)
    return Comparison(measured, scores, pace)


def by_score(scores: Mapping[str, Mapping[str, float]]) -> Panels:
    """From scores by model to a panel for each score."""
    found: Panels = {}
    for model, own in scores.items():
        for name, value in own.items():
            found.setdefault(name, {})[model] = value
    return found


def _known_scores(model: str, store: Store) -> dict[str, float]:
    if Path(model).is_dir():
        return scores_of_folder(Path(model))
    return scores_by_name(known_about(store, stored_model(store, model))) if _is_key(model, store) else {}


def _check_picture(path: Path, scores: Mapping[str, object]) -> None:
    """Before anything is measured for it."""
    choose("kind of picture", path.suffix.removeprefix(".") or "none", PICTURES)
    if path.is_dir():
        raise UserError(f"{path} is a folder", "give a file for the picture")
    require_writable(path.parent)
    if not scores:
        raise UserError("no score of these models is known", "give keys, or folders exported from keys")


def _drawn_length(measured: list[Measured], pace: Pace) -> int:
    """The longest text that every model can read, or else any of them."""
    for enough in (all, any):
        found = [length for length in pace.lengths if enough(each.timing(1, length) for each in measured)]
        if found:
            return max(found)
    raise UserError("no model reads texts of these lengths, so there is nothing to draw", "give shorter --lengths")


def _place(model: str, store: Store) -> str:
    """A key stands for the folder of its artifact."""
    return str(store.path(stored_model(store, model).key)) if _is_key(model, store) else model


def _is_key(model: str, store: Store) -> bool:
    if Path(model).is_dir() or len(model) < SHORTEST_KEY:
        return False
    return any(key.startswith(model) for key in store.keys())  # noqa: SIM118
